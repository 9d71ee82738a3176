"""The documentation is true: its code runs, its links lead somewhere, what it lists is there."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap

from . import cli_reference, source_reference
from .api_pages import FOLDER, PACKAGE, packages, public_names
from .pages import ROOT, Page, anchors, blocks_of, links_of, matches, parse_command

PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
SLOW = {
    "docs/questions.md",
    "docs/sharing.md",
    "docs/tutorials/csv.md",
    "docs/tutorials/gpu_sweep.md",
    "docs/tutorials/optuna.md",
    "docs/tutorials/own_trainer.md",
}
"""Pages that train, or take more than some seconds."""


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.fixture
def setups(request):
    """What pages are given where a program of the reader's own would stand."""

    def progress(names):
        """A sealed forecast with curves, and a training whose rate is three octaves too low."""
        extrap.save_forecast(request.getfixturevalue("watched"), "forecast.json")
        losses = request.getfixturevalue("draw_curve")(4096, -3.0, np.random.default_rng(0))
        steps = np.linspace(0, 20_000, len(losses) + 1)[1:]
        pairs = list(zip(steps, losses, strict=True))
        names.update(extrap=extrap, train=lambda: iter(pairs))
        rows = [f"{step:g},{loss:.5g}" for step, loss in pairs]
        Path("train.csv").write_text("\n".join(["step,loss", *rows]) + "\n")

    def accumulation(names):
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        names.update(
            extrap=extrap,
            model=model,
            data=[[torch.randn(32, 5) for _ in range(2)] for _ in range(300)],
            optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
            loss=lambda m, b: (m(b[:, :4]) - b[:, 4:]).square().mean(),
        )

    def predictions(names):
        rng = np.random.default_rng(0)
        sure = rng.uniform(size=2000)
        table = {
            "confidence_small": sure,
            "correct_small": (rng.uniform(size=2000) < 0.5 + 0.5 * sure).astype(int),
            "correct_large": (rng.uniform(size=2000) < 0.8).astype(int),
        }
        pd.DataFrame(table).to_csv("saved.csv", index=False)

    def embedding(names):
        np.save("embedding.npy", np.random.default_rng(0).normal(size=(200, 8)))

    return {
        "a training in progress": progress,
        "a training with gradient accumulation": accumulation,
        "predictions of two models": predictions,
        "an embedding": embedding,
    }


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in PAGES]
)
def test_page_runs_as_it_is_written(page, tmp_path, monkeypatch, setups):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    Page(path=page, folder=tmp_path, setups=setups).run()
    for name in set(sys.modules) - known:  # a page's own files
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == tmp_path:
            del sys.modules[name]


NAMED = r"`((?:extrap|benchmarks|studies|examples|tests)/[\w./-]+)`"
"""Files and folders of the project in the text of a page; `studies/NAME.py` stands for any."""


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    named = set(re.findall(NAMED, text_of(page))) - {"studies/NAME.py"}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("path", "page"),
    [
        (cli_reference.PATH, cli_reference.cli_page),
        (source_reference.PATH, source_reference.source_page),
    ],
)
def test_page_made_from_the_code_is_up_to_date(path, page):
    assert path.read_text(encoding="utf-8") == page(), "run make docs"


@pytest.mark.slow
def test_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
    for page in tmp_path.rglob("*.html"):
        assert re.findall(loaded, page.read_text(encoding="utf-8")) == [], page
    index = json.loads((tmp_path / "search/search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"] for entry in index["docs"]}
    assert {"reference/python.html#extrap.forecast", "limits.html"} <= found
    for name in packages():
        shown = re.findall(
            rf"{FOLDER}/{name}\.html#{re.escape(name)}\.(\w+)$", "\n".join(found), re.M
        )
        listed = public_names(PACKAGE / name.removeprefix("extrap.") / "__init__.py")
        assert shown, name
        assert set(shown) <= set(listed), name


def test_api_page_has_every_public_name():
    named = re.findall(r"^::: extrap\.(\w+)$", text_of("docs/reference/python.md"), re.MULTILINE)
    assert sorted(named) == sorted(set(extrap.__all__) - {"__version__"})


def test_no_block_is_left_open():
    for page in PAGES:
        text = text_of(page)
        fences = len(re.findall(r"^\s*```", text, flags=re.MULTILINE))
        assert fences == 2 * len(blocks_of(text)), page


def test_what_is_not_run_says_why():
    for block in (b for page in PAGES for b in blocks_of(text_of(page)) if b.note):
        kind, argument = block.directive
        assert kind in ("given", "smaller", "only parsed", "no output"), block.note
        assert argument, block.note


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_what_is_there(page):
    for link in links_of(text_of(page)):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert ROOT in target.resolve().parents or target.resolve() == ROOT, link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{page}: {link}"


def test_flags_that_are_explained_are_those_that_exist():
    row = r"^\| ((?:`[a-z-]+(?:: NAME)?`(?:, )?)+) \|"
    listed = re.findall(row, text_of("docs/limits.md"), re.M)
    flags = [flag for cell in listed for flag in re.findall(r"`([a-z-]+)", cell)]
    assert len(flags) > 10
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "extrap").rglob("*.py"))
    assert [flag for flag in flags if f'"{flag}' not in sources] == []


def test_every_law_is_on_the_method_page():
    from extrap.laws import LAWS

    text = text_of("docs/methods.md")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, flags=re.MULTILINE)
    assert set(LAWS) <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_defaults_are_those_of_the_code():
    import ast
    from importlib import import_module

    section = text_of("docs/methods.md").split("## Defaults")[-1]
    rows = re.findall(r"^- `([\w.]+)`: (.*)$", section, flags=re.MULTILINE)
    stated = [(row[0], *pair) for row in rows for pair in re.findall(r"`(\w+)=(.*?)`", row[1])]
    assert len(stated) > 40
    for module, name, value in stated:
        assert getattr(import_module(module), name) == ast.literal_eval(value), f"{module}.{name}"


def used_tables():
    """CSV files of `examples/` that some command of a page is run on."""
    used = set()
    for page in PAGES:
        for block in blocks_of(text_of(page)):
            if block.language == "sh" and block.directive[0] != "only parsed":
                for line, _ in block.commands:
                    used |= set(re.findall(r"examples/([\w/]+\.csv)", line))
    return used


def check_table(path):
    assert str(path.relative_to(ROOT / "examples")) in used_tables(), f"no page runs {path.name}"
    assert len(pd.read_csv(path)) > 10


def check_yaml(path):
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "ci":
        for job in found["jobs"].values():
            for step in job["steps"]:
                for line in step.get("run", "").splitlines():
                    if line.startswith("extrap "):
                        parse_command(re.split(r"\||>>", line)[0])


def check_shell(path):
    subprocess.run(["sh", "-n", str(path)], check=True)
    lines = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    commands = [line[line.index("extrap ") :] for line in lines if re.match(r"\w.* extrap ", line)]
    assert commands, path
    for command in commands:
        parse_command(command)


def check_python(path):
    """A program is run by the page that names it."""
    name = str(path.relative_to(ROOT))
    assert any(name in text_of(page) for page in PAGES), f"no page names {name}"
    compile(path.read_text(encoding="utf-8"), name, "exec")


def check_picture(path):
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"](examples/{path.name})" in text_of("README.md")


EXECUTED: dict[str, Callable[[Path], None]] = {
    ".csv": check_table,
    ".yml": check_yaml,
    ".yaml": check_yaml,
    ".sh": check_shell,
    ".py": check_python,
    ".png": check_picture,
}
"""Ending of a file in `examples/` → how it is executed or parsed."""
EXAMPLES = [p for p in sorted((ROOT / "examples").rglob("*")) if p.is_file()]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_is_executed_or_parsed(path):
    assert path.suffix in EXECUTED, f"say in EXECUTED how {path.name} is executed"
    EXECUTED[path.suffix](path)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\n", "a\nb\nc\n", True),
        ("…\nc\n", "a\nb\nc\n", True),
        ("a\n…\nc\n…\n", "a\nb\nc\nd\n", True),
        ("a\n…\nx\n…\n", "a\nb\nc\nd\n", False),
        ("a\n…\nb\n", "a\nb\nc\n", False),
        ("  a\n", "a\n", True),
    ],
)
def test_shown_output_may_leave_lines_out_and_nothing_else(shown, printed, same):
    assert matches(shown, printed) is same
