"""BLAS has one thread while something is fitted or shown, and then as many as before."""

import contextlib
import importlib

import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import extrap
from extrap.cli import main
from extrap.errors import DataError
from extrap.fitting.one_thread import one_thread
from tests.pages import ROOT

SWEEP, BIG = str(ROOT / "examples/sweep.csv"), str(ROOT / "examples/big.csv")
GATE = {name: str(ROOT / f"examples/gate_{name}.csv") for name in ("base", "variant")}
SIZES = [(n, d) for n in (1e7, 4e7, 2e8, 1e9) for d in (1e9, 5e9, 3e10)]
SPLIT = pd.DataFrame(
    [(n, d, 1.7 + 400 / n**0.34 + 400 / d**0.34) for n, d in SIZES],
    columns=["params", "tokens", "loss"],
)
INNER = {
    "forecast": ("forecasting.sweep_laws.fit_sweep", lambda: extrap.forecast(SWEEP)),
    "at": ("forecasting.sweep_forecast.doubt_tuned", lambda: extrap.forecast(SWEEP).at(1024)),
    "frame": ("fitting.regression.predict_power", lambda: extrap.forecast(SWEEP).frame(1024)),
    "plan": ("forecasting.planning.Option", lambda: extrap.plan(SWEEP, at=1024)),
    "cost": ("forecasting.mistuning_cost.read_run_cost", lambda: extrap.cost(SWEEP, at=1024)),
    "compare": (
        "analyses.comparison.comparing.contrast_arms",
        lambda: extrap.compare(GATE, at=1e21),
    ),
    "allocate": (
        "analyses.allocation.allocation.fit_chinchilla",
        lambda: extrap.allocate(SPLIT, flops=1e21),
    ),
    "check": ("analyses.sweep.verdicts.judge", lambda: extrap.check(extrap.forecast(SWEEP), BIG)),
    "backtest": ("forecasting.backtesting._summarised", lambda: main(["backtest", SWEEP])),
    "fit": (
        "fitting.loss_law.project",
        lambda: extrap.fit("power_floor", {"width": [16, 32, 64, 128]}, [2.3, 2.2, 2.13, 2.085]),
    ),
    "command": ("analyses.sweep.page.forecast_blocks", lambda: main(["forecast", SWEEP])),
}
"""What is called → a function that it calls, and the call."""


def n_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    import scipy.linalg  # noqa: F401  # SciPy has a BLAS of its own

    with threadpool_limits(2, user_api="blas"):
        assert n_threads() == {2}
        yield


@pytest.fixture
def spied(monkeypatch):
    """Make a function note the number of threads."""

    def spy(path, error=None):
        module, _, name = f"extrap.{path}".rpartition(".")
        module, seen = importlib.import_module(module), []
        inner = getattr(module, name)

        def noting(*values, **options):
            seen.append(n_threads())
            if error:
                raise error
            return inner(*values, **options)

        monkeypatch.setattr(module, name, noting)
        return seen

    return spy


@pytest.mark.parametrize("name", INNER)
def test_blas_has_one_thread_within(name, spied):
    path, call = INNER[name]
    seen = spied(path)
    call()
    assert seen
    assert {1} == set().union(*seen)
    assert n_threads() == {2}


def test_a_command_that_trains_is_not_limited(spied):
    pytest.importorskip("torch")
    seen = spied("analyses.coordinates.coordinate_check", DataError("none"))
    assert main(["coord-check", str(ROOT / "studies/metz.py")]) == 2
    assert seen == [{2}]


def test_the_last_of_several_blocks_lifts_the_limit():
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(one_thread)
    second.enter_context(one_thread)
    first.close()
    assert n_threads() == {1}
    second.close()
    assert n_threads() == {2}


def test_an_error_lifts_the_limit():
    with pytest.raises(DataError):
        extrap.forecast(SWEEP, where={"width": 16})
    assert n_threads() == {2}
