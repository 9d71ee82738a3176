"""How large the package is, and how far a call travels in it.

    python -m benchmarks.structure

Lines and bytes are of Python files that Git knows. Imports upward are pairs of modules, counted by
the layers of `LAYERS`. The way of a forecast (`extrap forecast examples/sweep.csv --at 1024`) and
of a trial (`extrap.tune`, two runs of a teacher) is read by `sys.setprofile` after a first call
has imported everything: a step is a call from one file of the package into another.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "extrap"
LAYERS = (
    "errors installing on_first_use registry",
    "expressions files study_folders",
    "noise records",
    "laws reading reporting workloads",
    "fitting training",
    "forecasting",
    "checking",
    "integrations study",
    "commands",
    "analyses",
    "cli __main__ __init__",
)
"""Packages and modules from the ground up, as imports should go."""
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names.split()}
FOLDERS = ("extrap", "tests", "benchmarks", "studies")


def main() -> None:
    """Print every figure."""
    for name, value in (*sizes(), *shape(), *ways()):
        sys.stdout.write(f"{name:<44} {value}\n")


def tracked(folder: str) -> list[Path]:
    """Files that Git knows in a folder."""
    command = ["git", "ls-files", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def sizes() -> Iterator[tuple[str, str]]:
    """Lines, bytes and modules of folders; words of documents."""
    for folder in FOLDERS:
        texts = [path.read_bytes() for path in tracked(folder) if path.suffix == ".py"]
        n_lines = sum(text.count(b"\n") for text in texts)
        megabytes = sum(map(len, texts)) / 1e6
        yield f"{folder}/: lines, MB, modules", f"{n_lines:,}, {megabytes:.2f}, {len(texts)}"
    pages = [path for path in tracked("docs") if path.suffix == ".md"] + [ROOT / "README.md"]
    n_words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    yield "docs and README: words", f"{n_words:,}"


def shape() -> Iterator[tuple[str, str]]:
    """Basenames that occur twice, imports upward."""
    modules = [path for path in tracked("extrap") if path.suffix == ".py"]
    counts = Counter(path.name for path in modules if path.name != "__init__.py")
    twice = [n for n in counts.values() if n > 1]
    yield "basenames that occur twice; modules of them", f"{len(twice)}; {sum(twice)}"
    yield "imports upward", str(sum(len(_upward(path)) for path in modules))


def _layer(path: Path) -> int:
    """The layer of a file of the package."""
    return LAYER[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]


def _upward(path: Path) -> set[str]:
    """Modules of higher layers that a module imports, at its top or in a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if node in guarded:
            continue
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module] if module != "extrap" else [f"extrap.{n.name}" for n in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            target = rest.partition(".")[0]
            if first == "extrap" and LAYER.get(target, -1) > _layer(path):
                found.add(name)
    return found


def ways() -> Iterator[tuple[str, str]]:
    """What a forecast and a trial pass through."""
    from extrap.cli import main as command

    sweep = str(ROOT / "examples" / "sweep.csv")
    arguments = ["forecast", sweep, "--size", "width", "--tune", "lr", "--at", "1024"]
    yield "way of a forecast: files, steps", _way(lambda: command(arguments))
    yield "way of a trial: files, steps", _way(_trial)


def _trial() -> None:
    import extrap
    from extrap.records import Recipe, StudySpec, TunedRange, Workload
    from extrap.study.executors import LocalExecutor

    spec = StudySpec(
        name="way",
        question="?",
        workload=Workload(
            name=f"{ROOT}/studies/teacher_workload.py:Teacher",
            options={"n_features": 8, "n_examples": 200},
        ),
        sizes={"width": (2,)},
        tune={"lr": TunedRange(low=2**-4, high=2**-3, n=2)},
        seeds=(0,),
        recipe=Recipe(steps=4, batch_size=8, n_evals=2),
        growth=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        url, here = f"sqlite:///{folder}/way.db", LocalExecutor()  # or half of it would be unseen
        extrap.tune(spec, url, device="cpu", executor=here)


def _way(call: Callable[[], Any]) -> str:
    """Files entered and steps of a second call."""
    steps: list[str] = []
    inside = str(PACKAGE)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        del argument
        code, caller = frame.f_code, frame.f_back
        if event != "call" or not code.co_filename.startswith(inside):
            return
        while caller is not None and not caller.f_code.co_filename.startswith(inside):
            caller = caller.f_back
        came_from = caller.f_code.co_filename if caller else ""
        if code.co_name != "<module>" and came_from != code.co_filename:
            steps.append(code.co_filename)

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        call()
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return f"{len(set(steps))}, {len(steps):,}"


if __name__ == "__main__":
    main()
