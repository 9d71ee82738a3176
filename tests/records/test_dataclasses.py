"""Records are values: frozen, with slots and named fields; the exceptions are listed."""

import dataclasses
import importlib
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("laws", "fitting", "forecasting", "checking", "records", "reading", "analyses")

CACHING = {"FittedRuns", "JointPosterior", "SurfaceDraws", "SweepArrays", "TunedValues", "_Fit"}
"""What it computes once it keeps."""
POSITIONAL = {"Cell", "Command", "SizePath"}
"""A cell or a rule is a key of one or two parts."""


def classes_of(package):
    folder = ROOT / "extrap" / package
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    found = []
    for path in sorted(files):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(name)
        found += [
            each
            for _, each in inspect.getmembers(module, inspect.isclass)
            if each.__module__ == name and dataclasses.is_dataclass(each)
        ]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_dataclasses_are_frozen_have_slots_and_named_fields(package):
    for each in classes_of(package):
        name = each.__name__
        assert each.__dataclass_params__.frozen, name
        assert ("__slots__" in vars(each)) is (name not in CACHING), name
        is_named = all(field.kw_only for field in dataclasses.fields(each))
        assert is_named is (name not in POSITIONAL), name
