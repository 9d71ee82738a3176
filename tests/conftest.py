"""What all tests share: the `--device` option, Hypothesis' profile, and sweeps of known truth.

Charts are not drawn, which would be most of the time of a page, unless a test asks for the
fixture `pictures`. In CI a skip whose reason `allowed_skips.txt` does not list is a failure.
"""

import io
import os
import sqlite3
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import extrap
import extrap.reporting.drawing as drawing
from benchmarks.servers import ServerError, postgres_server
from benchmarks.sweeps import make_table, true_loss, true_lr, with_curves
from extrap.cli import main
from extrap.installing import how_to_install
from tests.study_workloads import CLASSES, DIGITS, IMAGES, TEACHER

settings.register_profile("extrap", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("extrap")

PRETENDED = "pretended"


def pytest_addoption(parser):
    words = "torch device of the training tests; 'pretended' is CUDA without a GPU"
    parser.addoption("--device", default="cpu", help=words)


def pytest_configure(config):
    if config.getoption("--device") == PRETENDED:
        from tests.pretended_cuda import GuardError, install

        try:
            install()
        except GuardError as error:
            raise pytest.UsageError(f"no pretended device: {error}") from error


def pytest_collection_modifyitems(config, items):
    """Leave out the tests marked `gpu` or `pretended` on a device that they do not run on."""
    device = config.getoption("--device")
    others = {"gpu"} if device == "cpu" else set()
    others |= {PRETENDED} if device != PRETENDED else set()
    left_out = [item for item in items if any(map(item.get_closest_marker, others))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def mup(monkeypatch):
    """The package, not the study of this name, whose folder comes first once it was opened."""
    studies = Path(__file__).parents[1] / "studies"
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(studies)])
    return pytest.importorskip("mup")


ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


def is_allowed(reason):
    """Whether a test may be skipped in CI for this reason."""
    lines = ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    allowed = [line.split("|")[0].strip() for line in lines if line and line[0] != "#"]
    return reason.removeprefix("Skipped: ").startswith(tuple(allowed))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        said = report.longrepr
        if not is_allowed(said[2] if isinstance(said, tuple) else str(said)):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, not listed in {ALLOWED_SKIPS.name}: {said}"
    return report


pytest_make_collect_report = pytest_runtest_makereport


DRAW = drawing._drawn
BLANK = DRAW(lambda axes: None, 480, 360)
drawing._drawn = lambda *_, **__: BLANK


@pytest.fixture
def pictures(monkeypatch):
    """Draw charts as users see them: for tests of what is drawn."""
    monkeypatch.setattr(drawing, "_drawn", DRAW)


def quicken_storages():
    """Read Optuna's migration scripts once per process; do not wait for the disk."""
    try:
        from optuna.storages._rdb.storage import _VersionManager as Manager
        from sqlalchemy import Engine, event
    except ImportError:  # no Optuna here, or one that is built otherwise
        return
    original = Manager._create_alembic_script
    manager = Manager.__new__(Manager)
    manager.url = "sqlite://"
    read = cache(lambda: original(manager))
    Manager._create_alembic_script = lambda _: read()

    @event.listens_for(Engine, "connect")
    def wait_for_no_disk(connection, _):
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")


quicken_storages()


@pytest.fixture(scope="session")
def device(request):
    """The torch device the training tests run on."""
    given = request.config.getoption("--device")
    return "cuda" if given == PRETENDED else given


@pytest.fixture
def card():
    """The pretended device: what it holds, and what it counted during this test."""
    from tests.pretended_cuda.device import CARD

    CARD.reset()
    yield CARD
    CARD.reset()


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of our own; CI must have one, elsewhere its absence is said aloud."""
    pytest.importorskip("optuna")
    try:
        if not find_spec("psycopg"):
            raise ServerError(f"psycopg is not installed; {how_to_install('psycopg')}")
        with postgres_server(["fsync=off", "full_page_writes=off"]) as server:
            yield server
    except ServerError as error:
        if os.environ.get("CI"):
            pytest.fail(f"NO POSTGRESQL, and CI needs it: {error}")
        pytest.skip(f"NO POSTGRESQL: workers are tested on other storages only: {error}")


@pytest.fixture(scope="session")
def sweep_table():
    """`make_table`."""
    return make_table


@pytest.fixture(scope="session")
def sweep():
    """A well-behaved sweep: 5 widths, 8 rates, 3 seeds."""
    return extrap.read_runs(make_table(), size="width", tune="lr")


@pytest.fixture(scope="session")
def made(sweep):
    """Its forecast."""
    return extrap.forecast(sweep)


FRACTIONS = np.arange(1, 51) / 50


def make_curve(width, octaves, rng):
    """A made-up loss curve at 50 even fractions of a training.

    Sizes part ways as training goes on; a rate too low is slow at first, one too high gains early
    and loses late. Noise has a part that stays and one that forgets.
    """
    x = FRACTIONS
    log_loss = np.log(true_loss(width)) * x**0.3 + 0.9 * (1 - x**0.3)
    late = np.where(octaves > 0, x, 0.3 + 0.7 * (1 - x) ** 2)
    log_loss = log_loss + 0.02 * octaves**2 * late - 0.015 * octaves * (1 - x) ** 3
    return np.exp(log_loss + 0.004 * rng.normal() + 0.004 * rng.normal(size=len(x)))


@pytest.fixture(scope="session")
def draw_curve():
    """`make_curve`."""
    return make_curve


@pytest.fixture(scope="session")
def curved():
    """A sweep whose runs have curves of 1,000 steps, and their last points as losses."""
    rng = np.random.default_rng(7)
    table = make_table()
    octaves = np.log2(table["lr"] / true_lr(table["width"]))
    curves = [make_curve(w, u, rng) for w, u in zip(table["width"], octaves, strict=True)]
    return with_curves(table, curves, 1000 * FRACTIONS, source="a sweep with curves")


@pytest.fixture(scope="session")
def watched(curved):
    """Its forecast, which holds reference curves."""
    return extrap.forecast(curved)


BYTES = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 64, "context": 8}
TINY: dict[str, dict[str, object]] = {
    "bytes-mlp": BYTES,
    "bytes-transformer": {**BYTES, "head_size": 4},
    "classes": {"model": "convolutions"},
    "digits": {"ghost": 4},
    "images": {"resolution": 4},
    "teacher": {"n_features": 16, "n_examples": 500},
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Load a workload small, ours or one of the studies: `tiny(name, **options)`."""
    from extrap.records import Workload
    from extrap.workloads import load_workload

    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("images") / "images.npz"
    x_train = rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    np.savez(path, x_train=x_train, y_train=np.arange(60) % 5)
    paths: dict[str, dict[str, Path | str]] = {"images": {"path": str(path)}}
    of_studies = {"classes": CLASSES, "digits": DIGITS, "images": IMAGES, "teacher": TEACHER}

    def load(name, **options):
        given = {**TINY.get(name, {}), **paths.get(name, {}), **options}
        return load_workload(Workload(name=of_studies.get(name, name), options=given))

    return load


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A storage and a folder of reports for all tests of a file."""
    home = tmp_path_factory.mktemp("study")
    return {"storage": f"sqlite:///{home / 'toy.db'}", "reports": home / "reports"}


@pytest.fixture
def url(tmp_path):
    """An empty storage."""
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Checkpoints lie where the test does."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def called(capsys, tmp_path, monkeypatch):
    """Call a command: exit code, output, error."""
    monkeypatch.chdir(tmp_path)

    def called(*words, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called
