"""The public names are a promise, and importing them is cheap."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import extrap

MODULES = {
    "extrap.analyses.comparison": "compare",
    "extrap.analyses.batch_size": "critical_batch",
    "extrap.analyses.allocation": "allocate",
    "extrap.forecasting.mistuning_cost": "cost",
    "extrap.forecasting.planning": "plan",
    "extrap.analyses.best_values": "best_values",
    "extrap.analyses.cascade": "cascade",
    "extrap.analyses.landing": "Landing judge_landing land save_landing",
    "extrap.analyses.selection": "choose_next select",
    "extrap.forecasting.backtesting": "backtest",
    "extrap.forecasting.documents": "load_forecast save_forecast",
    "extrap.errors": "DataError ExtrapError FitError StudyError",
    "extrap.fitting.loss_law": "fit",
    "extrap.fitting.regressor": "LawRegressor",
    "extrap.forecasting": "Forecast forecast",
    "extrap.checking.monitoring": "Monitor",
    "extrap.noise": "noise_scale",
    "extrap.reading": "read_runs",
    "extrap.records": "Command Interval Point Recipe Runs StudySpec Target TunedRange Verdict "
    "Workload",
    "extrap.analyses.sweep.page": "report",
    "extrap.analyses.sweep.plots": "plot_backtest",
    "extrap.analyses.sweep.verdicts": "check",
    "extrap.study.driver": "tune",
    "extrap.training": "NoiseMeter",
    "extrap.analyses.coordinates": "coordinate_check",
}
HOMES = {name: module for module, names in MODULES.items() for name in names.split()}


def test_public_names_are_as_listed():
    assert sorted(extrap.__all__) == sorted([*HOMES, "__version__"])
    assert dir(extrap) == sorted(extrap.__all__)


def test_public_names_are_those_that_their_modules_define():
    """Verbs stay functions although modules of the same name are imported here."""
    for name, module in HOMES.items():
        found = getattr(import_module(module), name)
        assert getattr(extrap, name) is found, name
        assert callable(found), name


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


def test_version_is_that_of_the_installed_distribution():
    from importlib.metadata import version

    assert extrap.__version__ == version("extrap-hp")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'forcast'"):
        extrap.forcast  # noqa: B018


def test_help_works_without_the_libraries_of_training():
    code = """
import inspect, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "optuna"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocked())
import extrap
help(extrap)
found = dict(inspect.getmembers(extrap))
assert "forecast" in found and "NoiseMeter" not in found, sorted(found)
try:
    extrap.NoiseMeter
except AttributeError as error:
    assert "torch" in str(error) and "pip install" in str(error), error
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


SCRIPT = """
import extrap

runs = extrap.read_runs("sweep.csv", size="width", tune="lr")
made = extrap.forecast(runs, level=0.9)
point = made.at(width=4096)
reveal_type(runs)
reveal_type(point.loss_pi.lower)
reveal_type(point.tuned["lr"].value)
reveal_type(extrap.check(made, runs))
reveal_type(extrap.backtest(runs).holdouts[0].deviation)
reveal_type(extrap.report(made, (), path="page.html"))
reveal_type(extrap.allocate)
made.at("width")
extrap.forcast(runs)
"""
REVEALED = [
    "extrap.records.runs.Runs",
    "float | None",
    "float | None",
    "extrap.records.results.Verdicts",
    "float",
    "pathlib.Path",
]


@pytest.mark.slow
def test_a_users_strict_type_checker_sees_the_types_of_the_public_names(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nfollow_untyped_imports = false\n"
        "[mypy-optuna.*,torch.*,transformers.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--no-color-output", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("script.py:")]
    revealed = re.findall(r'Revealed type is "(.*)"', "\n".join(told))
    assert revealed[: len(REVEALED)] == REVEALED
    assert "Allocation" in revealed[-1]
    assert "Any" not in revealed[: len(REVEALED)]
    errors = [line for line in told if "error:" in line]
    assert [line.split(":")[1] for line in errors] == ["14", "15"], errors
