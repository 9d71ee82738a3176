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
    done = subprocess.run(arguments, capture_output=True, text=True, **options)
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
def test_the_source_distribution_holds_what_git_tracks(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    is_checkout = (ROOT / ".git").exists()
    tracked = set(run(["git", "ls-files"], cwd=ROOT).splitlines()) if is_checkout else set()
    assert package_files() | tracked | {"tests/conftest.py", "Makefile"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.slow
def test_the_wheel_runs_where_it_is_installed(built, tmp_path):
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    run([*pip, "--no-compile", "--target", str(place), str(built[0])])
    here = {**os.environ, "PYTHONPATH": str(place)}
    code = "import extrap; print(extrap.__file__, extrap.__version__)"
    told = run([sys.executable, "-c", code], cwd=tmp_path, env=here).split()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert told == [str(place / "extrap" / "__init__.py"), version]
    sweep = str(ROOT / "examples" / "sweep.csv")
    page = tmp_path / "page.html"
    verb = [sys.executable, "-m", "extrap", "report", sweep, "--size", "width", "--tune", "lr"]
    run([*verb, "-o", str(page)], cwd=tmp_path, env=here)
    assert "<svg" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (["forecast", "examples/sweep.csv", "--at", "1024"], 0),
        (["backtest", "examples/sweep.csv"], 0),
        (["check", "examples/sweep.csv", "examples/big.csv"], 1),
    ],
)
def test_the_statistics_run_without_the_training_libraries(verb, code):
    script = WITHOUT.format(blocked=TRAINING) + (
        f"from extrap.cli import main\ncode = main({[*verb, '--size', 'width', '--tune', 'lr']})\n"
        f"print(code, sorted(set({TRAINING}) & set(sys.modules)))"
    )
    assert run([sys.executable, "-c", script], cwd=ROOT).splitlines()[-1] == f"{code} []"


UNNEEDED = ("jinja2", "matplotlib", "scipy.stats", "seaborn", "statsmodels")
FORECAST = ["forecast", "examples/sweep.csv", "--size", "width", "--tune", "lr"]


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("import extrap", (*HEAVY, "extrap.records", "statsmodels")),
        ("import extrap.reporting.index", HEAVY),
        ("import extrap.reporting.markdown", HEAVY),
        ("from extrap.cli import main; main(['--help'])", (*HEAVY, "extrap.records")),
        (f"from extrap.cli import main; main({FORECAST})", UNNEEDED),
        (
            "import extrap.study.pack_requests, extrap.training.loop",
            ("sklearn", "scipy", "pandas"),
        ),
    ],
)
def test_no_library_is_imported_that_is_not_needed(code, unneeded):
    code = f"import sys\n{code}\nprint('heavy:', *sorted(set({unneeded}) & set(sys.modules)))"
    assert run([sys.executable, "-c", code], cwd=ROOT).splitlines()[-1] == "heavy:"
