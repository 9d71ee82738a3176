"""What is built, installed and run elsewhere: distributions, the workflow, the Makefile's help."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("matplotlib", "numpy", "optuna", "pandas", "scipy", "sklearn", "torch")
BUILD = """
import sys
from hatchling import build
for make in (build.build_wheel, build.build_sdist):
    print(make(sys.argv[1]))
"""
WITHOUT = """
import sys

class Without:  # a finder that does not find some packages, as if they were not installed
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
TRAINING = ("torch", "optuna", "psutil", "transformers", "lightning", "accelerate")


def run(arguments, **options):
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution, made offline in a copy of what git tracks."""
    if not find_spec("hatchling"):
        pytest.skip("NOT TESTED that wheels are made: hatchling is not installed")
    out = tmp_path_factory.mktemp("dist")
    names = run([sys.executable, "-c", BUILD, str(out)], cwd=ROOT).split()
    wheel, sdist = (out / name for name in names)
    return wheel, sdist


def package_files():
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "extrap").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(wheel.read(info).decode())
    own = {name for name in names if ".dist-info/" not in name}
    assert own == package_files()
    assert {"extrap/py.typed", "extrap/cli.py"} <= own
    assert [name for name in own if name.endswith(".html.jinja") or "/templates/" in name]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert metadata["Name"] == "extrap-hp"
    assert metadata["Description-Content-Type"] == "text/markdown"
    needed = [text for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    assert not [text for text in needed if re.match("torch|optuna", text)]


@pytest.mark.slow
def test_the_source_distribution_holds_what_its_tests_need(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tracked = set(run(["git", "ls-files"], cwd=ROOT).splitlines()) if _is_checkout() else set()
    assert package_files() <= names
    assert tracked <= names
    for needed in ("tests/conftest.py", "examples/sweep.csv", "studies/metz.py", "Makefile"):
        assert needed in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.slow
def test_a_wheel_made_from_the_source_distribution_is_the_same(built, tmp_path):
    with tarfile.open(built[1]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    out = tmp_path / "again"
    out.mkdir()
    names = run([sys.executable, "-c", BUILD, str(out)], cwd=folder).split()
    with zipfile.ZipFile(built[0]) as first, zipfile.ZipFile(out / names[0]) as second:
        assert {i.filename: i.CRC for i in first.infolist()} == {
            i.filename: i.CRC for i in second.infolist()
        }


@pytest.mark.slow
def test_the_wheel_runs_where_it_is_installed(built, tmp_path):
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    run([*pip, "--no-compile", "--target", str(place), str(built[0])])
    here = {**os.environ, "PYTHONPATH": str(place)}
    told = run(
        [sys.executable, "-c", "import extrap; print(extrap.__file__, extrap.__version__)"],
        cwd=tmp_path,
        env=here,
    ).split()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert told == [str(place / "extrap" / "__init__.py"), version]
    sweep = str(ROOT / "examples" / "sweep.csv")
    page = tmp_path / "page.html"
    verb = [sys.executable, "-m", "extrap", "report", sweep, "--size", "width", "--tune", "lr"]
    run([*verb, "-o", str(page)], cwd=tmp_path, env=here)
    assert "<svg" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "verb",
    [
        ["forecast", "examples/sweep.csv", "--at", "1024"],
        ["backtest", "examples/sweep.csv"],
        ["check", "examples/sweep.csv", "examples/big.csv"],
    ],
    ids=lambda verb: verb[0],
)
def test_the_statistics_wing_runs_without_the_training_libraries(verb):
    code = WITHOUT.format(blocked=TRAINING) + (
        f"from extrap.cli import main\ncode = main({[*verb, '--size', 'width', '--tune', 'lr']})\n"
        f"print(code, sorted(set({TRAINING}) & set(sys.modules)))"
    )
    last = run([sys.executable, "-c", code], cwd=ROOT).splitlines()[-1]
    assert last == f"{int(verb[0] == 'check')} []"


UNNEEDED = ("jinja2", "matplotlib", "scipy.stats", "statsmodels")
FORECAST = ["forecast", "examples/sweep.csv", "--size", "width", "--tune", "lr"]


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("from extrap.cli import main; main(['--help'])", HEAVY),
        (f"from extrap.cli import main; main({FORECAST})", UNNEEDED),
        ("import extrap.study.packs, extrap.training.loop", ("sklearn", "scipy", "pandas")),
    ],
)
def test_no_library_is_imported_that_is_not_needed(code, unneeded):
    code = f"import sys\n{code}\nprint('heavy:', *sorted(set({unneeded}) & set(sys.modules)))"
    assert run([sys.executable, "-c", code], cwd=ROOT).splitlines()[-1] == "heavy:"


def test_the_workflow_calls_make_test_on_every_python_that_is_promised():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    steps = {name: [step.get("run", "") for step in job["steps"]] for name, job in jobs.items()}
    assert "make test" in steps["quick"]
    assert any(step.startswith(".ci/run") for step in steps["slow"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d", c)]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == promised


def test_make_help_lists_the_targets_that_are_kept():
    shown = run(["make", "-s", "help"], cwd=ROOT, env=_outside_make()).splitlines()
    kept = "report test test-slow study-NAME backtest bench bench-check soak clean help mutants"
    assert set(kept.split()) <= {line.split()[1] for line in shown}
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", "")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)[1].split()
    assert {line.split()[1] for line in shown} <= {*phony, "study-NAME"}


def _is_checkout():
    return (ROOT / ".git").exists()


def _outside_make():
    return {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
