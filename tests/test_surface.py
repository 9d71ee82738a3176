"""The public names are a promise, and importing them is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import extrap

ROOMS = {
    "extrap.backtesting": ["Backtest", "Holdout", "backtest"],
    "extrap.batching": ["critical_batch"],
    "extrap.cascading": ["cascade"],
    "extrap.checking": ["check"],
    "extrap.comparing": ["Comparison", "compare"],
    "extrap.errors": ["DataError", "ExtrapError", "FitError", "StudyError"],
    "extrap.fitting": ["fit"],
    "extrap.fitting.regressor": ["LawRegressor"],
    "extrap.documents": ["load_forecast", "save_forecast"],
    "extrap.forecasting": ["Forecast", "forecast"],
    "extrap.monitoring": ["Monitor", "Reading"],
    "extrap.noise": ["NoiseScale", "noise_scale"],
    "extrap.planning": ["Allocation", "Cost", "Plan", "allocate", "cost", "plan"],
    "extrap.reading": ["read_runs"],
    "extrap.records": [
        "Command",
        "Estimate",
        "Fit",
        "Interval",
        "Optimum",
        "Point",
        "Recipe",
        "Runs",
        "StudySpec",
        "Target",
        "TunedRange",
        "Verdict",
        "Verdicts",
        "Workload",
    ],
    "extrap.reporting.figures.plots": [
        "plot_backtest",
        "plot_law",
        "plot_optimum",
        "plot_sweep",
    ],
    "extrap.reporting": ["read_report", "report"],
    "extrap.selection": ["Selection", "choose_next", "prototype_distance", "select"],
    "extrap.training": ["CoordinateCheck", "NoiseMeter", "coordinate_check"],
    "extrap.tuning": ["tune"],
}
HOMES = {name: room for room, names in ROOMS.items() for name in names}
HEAVY = (
    "extrap.records",
    "matplotlib",
    "numpy",
    "optuna",
    "pandas",
    "scipy",
    "scoringrules",
    "seaborn",
    "sklearn",
    "statsmodels",
    "torch",
)


def run_python(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_public_names_are_as_listed():
    assert sorted(extrap.__all__) == sorted([*HOMES, "__version__"])
    assert dir(extrap) == sorted(extrap.__all__)


@pytest.mark.parametrize("name", sorted(HOMES))
def test_public_name_is_the_one_its_room_defines(name):
    room = __import__(HOMES[name], fromlist=[name])
    assert getattr(extrap, name) is getattr(room, name)
    assert name in room.__all__


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(extrap.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    typed = {
        alias.name: node.module
        for node in imports
        for alias in node.names
        if node.module and node.module.startswith("extrap.")
    }
    assert typed == HOMES


def test_verbs_stay_functions_after_their_rooms_are_imported():
    verbs = [name for name in HOMES if name.islower()]
    code = (
        f"import extrap\n{''.join(f'import {room}{chr(10)}' for room in ROOMS)}"
        f"print(*[type(getattr(extrap, name)).__name__ for name in {verbs}])"
    )
    assert set(run_python(code)) == {"function"}


def test_import_pulls_in_no_heavy_library():
    loaded = run_python("import sys, extrap; print(*sys.modules)")
    assert "extrap" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_version_is_that_of_the_installed_distribution():
    from importlib.metadata import version

    assert extrap.__version__ == version("extrap-hp")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'forcast'"):
        extrap.forcast  # noqa: B018
