"""Mutation score: random small faults in the statistics, and whether the tests notice them.

    python -m benchmarks.mutants [--n 200] [--seed SEED] [--minutes 45] [--only MODULE …]

Cosmic Ray's operators (https://cosmic-ray.readthedocs.io) make the mutants. First a place in the
packages `PACKAGES` is drawn, then one mutant of that place, so that an arithmetic operator, which
has many, counts like a comparison, which has few. The seed is that of the last commit unless
given. One run under coverage says which tests reach which line; each mutant then meets the tests
that reach its line, the fastest first, until one fails or `BUDGET_S` seconds of tests have passed.
Everything is kept in `build/mutants/`: a run that was stopped goes on where it was.

Mutants that change no behaviour are listed in `equivalent_mutants.txt` beside this file, with the
reason; they are not counted. The exit code is 1 where the score is below `TARGET`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import multiprocessing
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
PACKAGES = ("laws", "fitting", "forecasting", "checking", "records", "reading", "analyses")
KEPT = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
TARGET = 0.85
BUDGET_S = 60.0
"""Seconds of tests, as timed under coverage, that one mutant meets at most."""
PATIENCE = 4.0
"""A mutant that takes so many times as long, and a minute, is killed: it does not end."""
WORKERS = 2
BROKEN = 70
"""Exit code of a child in which pytest itself could not run: an error of this file."""
NOT_RELEVANT = (
    "training",
    "workloads",
    "integrations",
    "test_benchmarks.py",
    "test_docs.py",
    "test_fuzzing.py",
    "test_makefile.py",
    "test_packaging.py",
    "test_structure.py",
    "test_surface.py",
)
"""Tests that compute none of the statistics, or only a few of their results again."""
ALWAYS = ("tests/records/test_dataclasses.py",)
"""Rules for every module."""
LEFT_OUT = re.compile(
    "core/(ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(RShift|LShift|Bit.*|Mod)"
    "|ReplaceBinaryOperator_Bit.*_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow|RShift|LShift)"
    "|ReplaceComparisonOperator_(Eq|NotEq|Lt|LtE|Gt|GtE)_Is(Not)?"
    "|ReplaceComparisonOperator_Is(Not)?_(Eq|NotEq|Lt|LtE|Gt|GtE)"
    "|ReplaceUnaryOperator_(USub|UAdd|Delete)_(Invert|Not)"
    "|RemoveDecorator|VariableInserter|VariableReplacer|NoOp)"
)
"""Operators whose mutants nearly every test kills (a float shifted by bits), or none can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one place."""

    path: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """Where it is and which mutant it is."""
        return f"{self.path}:{self.line} {self.operator}/{self.occurrence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of it: `killed` (by which test, or by time), `survived` or `equivalent`."""

    mutant: Mutant
    outcome: str
    by: str
    n_tests: int
    wall_s: float


def modules() -> list[Path]:
    """The files that are mutated, in the order of their names."""
    found: list[Path] = []
    for package in PACKAGES:
        folder = ROOT / "extrap" / package
        found += sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return found


Span = tuple[tuple[int, int], tuple[int, int]]


def inert_spans(source: str) -> list[Span]:
    """Parts that are never evaluated (annotations, imports for type checking), or never decide.

    `assert` and `strict=True` guard invariants of the code: no input is known to reach them.
    """
    found: list[Span] = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr | ast.stmt | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.Assert):
            parts = [node]
        elif isinstance(node, ast.Call):
            parts = [keyword.value for keyword in node.keywords if keyword.arg == "strict"]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts = [node]
        for part in parts:
            if part is not None:
                end = (part.end_lineno or part.lineno, part.end_col_offset or 0)
                found.append(((part.lineno, part.col_offset), end))
    return found


def places_of(path: Path) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Place (line, column) of one file → its mutants, each as operator and occurrence."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    source = path.read_text(encoding="utf-8")
    nodes = list(ast_nodes(get_ast(source)))
    inert = inert_spans(source)
    markers = {
        node.start_pos
        for node in nodes
        if getattr(node, "value", "") in ("*", "/") and node.parent.type in ("parameters", "param")
    }
    found: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for name in cosmic_ray.plugins.operator_names():
        operator_class = cosmic_ray.plugins.get_operator(name)
        if LEFT_OUT.fullmatch(name) or operator_class.arguments():
            continue
        operator = operator_class()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            if start in markers:  # `*` and `/` between parameters are no arithmetic
                continue
            if not any(first <= start < last for first, last in inert):
                found[start].append((name, occurrence))
    return found


def mutated(source: str, operator: str, occurrence: int) -> str | None:
    """The source with one mutant in it, or None where it does not change or compile."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    text = mutate_code(source, cosmic_ray.plugins.get_operator(operator)(), occurrence)
    try:
        same = text is None or ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else text


def sample(n: int, seed: int, only: Sequence[str] = ()) -> list[Mutant]:
    """`n` places drawn without replacement, and one mutant of each."""
    rng = random.Random(seed)
    chosen = [m for m in modules() if not only or any(name in str(m) for name in only)]
    places = [(m, at, ways) for m in chosen for at, ways in sorted(places_of(m).items())]
    rng.shuffle(places)
    found: list[Mutant] = []
    for path, _, ways in places:
        if len(found) == n:
            break
        operator, occurrence = rng.choice(ways)
        source = path.read_text(encoding="utf-8")
        text = mutated(source, operator, occurrence)
        if text is None:
            continue
        lines, changed = source.splitlines(), text.splitlines()
        row = next(i for i, (a, b) in enumerate(zip(lines, changed, strict=False)) if a != b)
        found.append(
            Mutant(
                path=str(path.relative_to(ROOT)),
                operator=operator,
                occurrence=occurrence,
                line=row + 1,
                before=lines[row].strip(),
                after=changed[row].strip(),
            )
        )
    return found


# ---- which tests reach which line


class Timer:
    """A pytest plugin that writes down how long each test took, set-up included."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up what set-up, test and tear-down took."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)


def state() -> str:
    """A hash of the package and its tests as they stand."""
    found = hashlib.sha256()
    for folder in ("extrap", "tests"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.is_file() and path.suffix != ".pyc":
                found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


def reach() -> dict[str, Any]:
    """Run the relevant tests under coverage once: seconds of each, and tests by file and line."""
    import pytest
    from coverage import CoverageData

    kept = KEPT / f"reach-{state()}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    data = KEPT / "coverage"
    os.environ["COVERAGE_FILE"] = str(data)
    config = KEPT / "coveragerc"
    sources = ",".join(str(p) for p in {m.parent for m in modules()})
    config.write_text(f"[run]\nsource = {sources}\n", encoding="utf-8")
    timer = Timer()
    ignored = [f"--ignore=tests/{name}" for name in NOT_RELEVANT]
    arguments = ["-q", "-n", str(WORKERS), "--dist", "worksteal", "--cov", "--cov-context=test"]
    arguments += [f"--cov-config={config}", "--cov-report=", "-p", "no:cacheprovider", *ignored]
    pytest.main(arguments, plugins=[timer])
    if timer.failed:
        raise SystemExit(f"{len(timer.failed)} tests fail without any mutant: {timer.failed[:5]}")
    found = CoverageData(str(data))
    found.read()
    lines: dict[str, dict[str, list[str]]] = {}
    for name in found.measured_files():
        by_line = {
            str(line): sorted({c.rpartition("|")[0] for c in contexts if c})
            for line, contexts in found.contexts_by_lineno(name).items()
        }
        lines[str(Path(name).relative_to(ROOT))] = by_line
    answer = {"seconds": dict(timer.seconds), "lines": lines}
    kept.write_text(json.dumps(answer), encoding="utf-8")
    return answer


def statement_of(path: Path, line: int) -> tuple[range, bool]:
    """Lines of the statement that holds a line, and whether it runs when the file is imported."""
    best, at_import = range(line, line + 1), True
    size = float("inf")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.stmt):
            continue
        first, last = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_body = node.body[0].lineno <= line <= last
            at_import = at_import and not (is_body and not isinstance(node, ast.ClassDef))
            first = min([first, *(d.lineno for d in node.decorator_list)])
        if isinstance(body := getattr(node, "body", None), list):
            last = max(first, body[0].lineno - 1)
        if first <= line <= last and last - first < size:
            best, size = range(first, last + 1), last - first
    return best, at_import


def tests_for(mutant: Mutant, reached: dict[str, Any]) -> list[str]:
    """Tests that reach the line of a mutant, the fastest first, within the budget.

    A line that runs at import is reached by every test of the file. Tests that share a finished
    result of a fixture do not reach the line again: all tests of a file of which one does follow.
    """
    by_line: dict[str, list[str]] = reached["lines"].get(mutant.path, {})
    seconds: dict[str, float] = reached["seconds"]
    lines, at_import = statement_of(ROOT / mutant.path, mutant.line)
    if at_import:
        direct = {name for names in by_line.values() for name in names}
    else:
        direct = {name for line in lines for name in by_line.get(str(line), ())}
    files = {*ALWAYS, *(name.partition("::")[0] for name in direct)}
    mirrored = "tests/" + mutant.path.removeprefix("extrap/").partition("/")[0].removesuffix(".py")

    def rank(name: str) -> tuple[bool, bool, bool, float]:
        is_own = name.startswith((mirrored, "tests/contract"))
        return not name.startswith(ALWAYS), name not in direct, not is_own, seconds[name]

    nearby = [name for name in seconds if name.partition("::")[0] in files]
    chosen, total = [], 0.0
    for name in sorted(nearby, key=rank):
        total += seconds[name]
        if total > BUDGET_S:
            break
        chosen.append(name)
    return chosen


# ---- one mutant at a time, in a copy of the tree


def copy_tree(folder: Path) -> None:
    """A copy of the checkout in which mutants are made."""
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".extrap", "build", "reports", "__pycache__", ".*_cache", ".hypothesis"
    )
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT, folder, ignore=ignored, symlinks=True)
    (folder / "reports").mkdir(exist_ok=True)
    shared = folder.parent / "shared"
    if (ROOT.parent / "shared").exists() and not shared.exists():
        shared.symlink_to(ROOT.parent / "shared")


def preload() -> None:
    """Import the large libraries, so that a forked child starts at once; not the package."""
    import matplotlib.figure
    import optuna  # noqa: F401
    import pandas
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.stats
    import sklearn.cluster
    import statsmodels.api
    import torch  # noqa: F401

    del matplotlib, pandas, scipy, sklearn, statsmodels


def run_child(tree: Path, tests: Sequence[str], log: Path) -> None:
    """Run tests in the tree, in a process of its own that ends with pytest's exit code."""
    import pytest

    os.setsid()
    os.chdir(tree)
    for name in [n for n in sys.modules if n.partition(".")[0] in ("extrap", "benchmarks")]:
        del sys.modules[name]
    sys.path[:0] = [str(tree)]
    os.environ["PYTHONPATH"] = str(tree)
    with log.open("w", encoding="utf-8") as out:
        for descriptor in (1, 2):
            os.dup2(out.fileno(), descriptor)
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests])
        sys.stdout.flush()
    os._exit(int(code))


def meet(tree: Path, tests: Sequence[str], *, limit_s: float, log: Path) -> tuple[str, str]:
    """Outcome of the tests on the tree as it stands, and the test or the limit that decided it."""
    child = os.fork()
    if child == 0:
        try:
            run_child(tree, tests, log)
        except BaseException:
            log.write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(BROKEN)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "killed", f"more than {limit_s:.0f} s"
    text = log.read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code == BROKEN:
        raise RuntimeError(f"tests could not be run: {text}")
    if code == 0:
        return "survived", ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", text, flags=re.MULTILINE)
    return "killed", failed[1] if failed else "the tests could not be collected"


def judge(mutant: Mutant, tree: Path, reached: dict[str, Any]) -> Verdict:
    """Put the mutant into the tree, run its tests, take it out again."""
    start = time.monotonic()
    tests = tests_for(mutant, reached)
    path = tree / mutant.path
    source = path.read_text(encoding="utf-8")
    text = mutated(source, mutant.operator, mutant.occurrence)
    assert text is not None
    outcome, by = "survived", "no test reaches it"
    if tests:
        expected = sum(reached["seconds"][name] for name in tests)
        try:
            path.write_text(text, encoding="utf-8")
            forget(path)
            outcome, by = meet(
                tree, tests, limit_s=60 + PATIENCE * expected, log=tree.with_suffix(".log")
            )
        finally:
            path.write_text(source, encoding="utf-8")
            forget(path)
    return Verdict(
        mutant=mutant,
        outcome=outcome,
        by=by,
        n_tests=len(tests),
        wall_s=round(time.monotonic() - start, 1),
    )


def forget(path: Path) -> None:
    """Remove the bytecode of a module: a change within a second of the same length is not seen."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def work(number: int, todo: Any, done: Any, reached: dict[str, Any]) -> None:
    """A worker: takes mutants until there are none."""
    sys.dont_write_bytecode = False
    tree = KEPT / f"tree-{number}"
    copy_tree(tree)
    preload()
    checked = False
    while (mutant := todo.get()) is not None:
        tests = tests_for(mutant, reached)
        if tests and not checked:  # the tests must pass here before anything is changed
            outcome, by = meet(tree, tests, limit_s=600, log=tree.with_suffix(".log"))
            assert outcome == "survived", f"without any mutant: {by}"
            checked = True
        done.put(judge(mutant, tree, reached))
    done.put(None)


# ---- the whole


def equivalents() -> dict[tuple[str, str, str], str]:
    """(file, line before, line after) → why the mutant changes no behaviour."""
    found: dict[tuple[str, str, str], str] = {}
    blocks = EQUIVALENT.read_text(encoding="utf-8").split("\n\n")
    for block in blocks:
        lines = [line for line in block.splitlines() if line and line[0] != "#"]
        if len(lines) == 4:
            path, before, after, reason = lines
            found[path, before.removeprefix("- "), after.removeprefix("+ ")] = reason
    return found


def run(n: int, seed: int, minutes: float, only: Sequence[str] = ()) -> list[Verdict]:
    """Judge a sample, or what is left of it, within the minutes."""
    end = time.monotonic() + 60 * minutes
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"verdicts-{state()}-{seed}-{n}{'-'.join(['', *only]).replace('/', '.')}.jsonl"
    mutants = sample(n, seed, only)
    verdicts: list[Verdict] = []
    if kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            verdicts.append(Verdict(**{**found, "mutant": Mutant(**found["mutant"])}))
    known = {v.mutant for v in verdicts}
    waiting = [m for m in mutants if m not in known]
    if not waiting:
        return verdicts
    reached = reach()
    context = multiprocessing.get_context("spawn")  # without the package, which was imported here
    todo, done = context.Queue(), context.Queue()
    for mutant in waiting:
        todo.put(mutant)
    for _ in range(WORKERS):
        todo.put(None)
    workers = [
        context.Process(target=work, args=(number, todo, done, reached), daemon=True)
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    running = WORKERS
    with kept.open("a", encoding="utf-8") as out:
        while running and time.monotonic() < end:
            try:
                verdict = done.get(timeout=10)
            except queue.Empty:
                if all(worker.is_alive() or worker.exitcode == 0 for worker in workers):
                    continue
                raise SystemExit("a worker ended with an error, see above") from None
            if verdict is None:
                running -= 1
                continue
            verdicts.append(verdict)
            out.write(json.dumps(asdict(verdict)) + "\n")
            out.flush()
            click.echo(
                f"{len(verdicts):4} of {n}  {verdict.outcome:9} {verdict.wall_s:5.1f} s  "
                f"{verdict.mutant.name}  {verdict.by}",
            )
    for worker in workers:
        worker.terminate()
    return verdicts


def tell(verdicts: Sequence[Verdict], *, n: int, seed: int) -> float:
    """Print what was killed, what survived and what is equivalent; return the score."""
    why = equivalents()
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        mutant = verdict.mutant
        key = (mutant.path, mutant.before, mutant.after)
        is_equivalent = verdict.outcome == "survived" and key in why
        groups["equivalent" if is_equivalent else verdict.outcome].append(verdict)
    for outcome in ("equivalent", "survived"):
        click.echo(f"\n{outcome}:")
        for verdict in groups[outcome]:
            mutant = verdict.mutant
            click.echo(f"  {mutant.name} ({verdict.n_tests} tests)\n    - {mutant.before}")
            click.echo(f"    + {mutant.after}")
            if outcome == "equivalent":
                click.echo(f"    {why[mutant.path, mutant.before, mutant.after]}")
    killed, survived = len(groups["killed"]), len(groups["survived"])
    score = killed / max(killed + survived, 1)
    click.echo(
        f"\nseed {seed}: {len(verdicts)} of {n} mutants judged, {killed} killed, {survived} "
        f"survived, {len(groups['equivalent'])} equivalent; score {score:.1%}, target {TARGET:.0%}"
    )
    return score


def seed_of_commit() -> int:
    """A seed that no one chose: the hash of the last commit."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(head.stdout[:8], 16)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a sample and print the score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200, help="mutants (200)")
    parser.add_argument("--seed", type=int, help="seed of the sample (the last commit)")
    parser.add_argument("--minutes", type=float, default=45, help="stop after (45)")
    parser.add_argument("--only", nargs="*", default=[], help="parts of paths to mutate")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the workers end too
    seed = seed_of_commit() if given.seed is None else given.seed
    verdicts = run(given.n, seed, given.minutes, given.only)
    score = tell(verdicts, n=given.n, seed=seed)
    return 0 if score >= TARGET and len(verdicts) == given.n else 1


if __name__ == "__main__":
    sys.exit(main())
