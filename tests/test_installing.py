import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from extrap import installing
from extrap.cli import main
from extrap.installing import DISTRIBUTIONS, how_to_install
from tests.test_structure import DOORS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PARTS, CORE = PROJECT["optional-dependencies"], PROJECT["dependencies"]
METADATA = [
    *CORE,
    *(f"{line}; extra == '{extra}'" for extra, lines in PARTS.items() for line in lines),
]
"""What the project asks for, as the metadata of an installed one would say it."""
EXTRAS = {
    **{"mlflow.tracking": "mlflow", "cmaes": "cmaes", "distributed": "dask", "ray": "ray"},
    **{"yaml": "yaml", "psycopg": "postgres", "transformers": "hf"},
}
WANTED = {module: PARTS[extra] for module, extra in EXTRAS.items()}
OPTUNA, PSUTIL, TORCH = PARTS["train"]
WANTED |= {"optuna": [OPTUNA], "psutil": [OPTUNA, PSUTIL], "torch": [PSUTIL, TORCH]}
PROTOBUF, TENSORBOARD = PARTS["tensorboard"]
WANTED |= {"google.protobuf": [PROTOBUF], "tensorboard.backend": [PROTOBUF, TENSORBOARD]}
WANTED["wandb"] = PARTS["wandb"]
WANTED["sklearn.cluster"] = [line for line in CORE if line.startswith("scikit-learn")]


@pytest.mark.parametrize("module", WANTED)
def test_what_is_missing_is_installed_by_name_with_the_bounds_of_the_project(monkeypatch, module):
    monkeypatch.setattr(installing, "requires", lambda name: METADATA)
    words = how_to_install(module)
    assert words.startswith("run pip install '")
    assert re.findall(r"'([^']+)'", words) == WANTED[module]
    assert "extrap" not in words  # in no index


def _nowhere(name):
    raise PackageNotFoundError(name)


@pytest.mark.parametrize("found", [_nowhere, lambda name: None, lambda name: ["click>=8.1"]])
def test_without_its_metadata_the_library_is_named_alone(monkeypatch, found):
    monkeypatch.setattr(installing, "requires", found)
    assert how_to_install("wandb").endswith("install 'protobuf' 'wandb'")


def test_every_library_of_a_door_and_every_requirement_has_its_distribution():
    brought = {"IPython", "sqlalchemy"}  # by a notebook; by Optuna
    assert set(DOORS) - brought <= set(DISTRIBUTIONS)
    parts = ("'dev'", "'mutants'")
    lines = [line for line in METADATA if not any(part in line for part in parts)]
    names = {re.split(r"[\[<>=]", line)[0] for line in lines}
    assert names == set(DISTRIBUTIONS.values())


def test_a_missing_module_of_ones_own_is_not_taken_for_an_extra(monkeypatch, capsys):
    def missing(arguments=None, **options):
        raise ModuleNotFoundError("No module named 'my_model'", name="my_model")

    monkeypatch.setattr("extrap.cli.cli.main", missing)
    assert main(["forecast", "x.csv"]) == 2
    err = capsys.readouterr().err
    assert "this needs my_model," in err
    for said in (err, how_to_install("my_model.layers"), how_to_install("")):
        assert "pip" not in said


def test_nothing_tells_to_install_the_distribution_from_an_index():
    told = re.compile(r"pip install (-U )?'?extrap")
    places = [ROOT / "README.md", *(ROOT / "extrap").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    assert len(places) > 100
    assert [str(p) for p in places if told.search(p.read_text(encoding="utf-8"))] == []
