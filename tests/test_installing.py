import re
import shlex
import tomllib
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.installing import PACKAGES, how_to_install
from tests.test_structure import IMPORTERS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PARTS = PROJECT["optional-dependencies"]


def bare(requirement):
    return re.split(r"[<>=;]", requirement)[0]


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        *(("mlflow.tracking", "mlflow"), ("cmaes", "cmaes"), ("distributed", "dask")),
        *(("ray", "ray"), ("yaml", "yaml"), ("psycopg", "postgres"), ("transformers", "hf")),
        *(("wandb", "wandb"), ("tensorboard.backend", "tensorboard"), ("polars", "polars")),
    ],
)
def test_what_is_missing_is_installed_as_its_extra_has_it(module, extra):
    words = how_to_install(module)
    assert words.startswith("run pip install ")
    assert shlex.split(words)[3:] == [bare(line) for line in PARTS[extra]]


def test_every_library_that_is_imported_and_every_requirement_is_in_the_table():
    brought = {"IPython", "sqlalchemy"}  # by a notebook; by Optuna
    assert set(IMPORTERS) - brought <= set(PACKAGES)
    named = {package for packages in PACKAGES.values() for package in shlex.split(packages)}
    lines = [line for extra in set(PARTS) - {"dev"} for line in PARTS[extra]]
    assert {bare(line) for line in [*lines, *PROJECT["dependencies"]]} <= named


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
