"""Calls of Python functions, one a line in `calls/*.txt`, and what each returns or refuses.

A line is an expression, or an assignment for the lines below it. Names are the public ones of the
packages, wherever a module of theirs has them, so that a function may move without a change here.
"""

from __future__ import annotations

import ast
import contextlib
import math
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

import extrap

from .commands import run
from .workplace import FOLDER, ROOT, SAVED, TABLES, forecast, runs, table, workplace

PACKAGES = (
    "laws",
    "fitting",
    "forecasting",
    "checking",
    "reading",
    "analyses.budget",
    "records",
)
MORE = (
    "monitoring",
    "backtesting",
    "noise",
    "analyses.selection",
    "documents",
    "analyses.batch_size",
)


@cache
def public_names() -> dict[str, Any]:
    """All public names of the packages; those of `extrap` and of a package come first."""
    found: dict[str, Any] = {}
    for part in (*MORE, *PACKAGES):
        package = import_module(f"extrap.{part}")
        parts = pkgutil.iter_modules(getattr(package, "__path__", ()), f"extrap.{part}.")
        modules = [package, *(import_module(p.name) for p in parts)]
        for module in reversed(modules):
            listed = getattr(module, "__all__", None)
            names = [n for n in vars(module) if _is_own(module, n)] if listed is None else listed
            found |= {name: getattr(module, name) for name in names if hasattr(module, name)}
    return found | {name: getattr(extrap, name) for name in extrap.__all__ if "plot" not in name}


def _is_own(module: ModuleType, name: str) -> bool:
    """Whether a module defines a public name itself, or it is a constant."""
    value = getattr(module, name)
    is_defined = callable(value) and getattr(value, "__module__", "") == module.__name__
    return not name.startswith("_") and (is_defined or name.isupper()) and len(name) > 1


def show(function: Callable[..., Any], *values: Any) -> dict[str, Any]:
    """What a function says of each of several values."""
    return {repr(value): attempt(lambda v=value: function(v)) for value in values}


def fields(record: Any, *names: str) -> dict[str, Any]:
    """Properties of a record, and what its methods of no arguments return."""
    found = {name: getattr(record, name) for name in names}
    return {name: value() if callable(value) else value for name, value in found.items()}


def attempt(call: Callable[[], Any]) -> Any:
    """What a call returns, or the class and the message of what it raises."""
    try:
        return call()
    except Exception as error:  # whatever it is, it is the result
        said = str(error).replace(str(workplace()), "W").replace(str(ROOT), "ROOT")
        return {"raises": type(error).__name__, "says": said}


def called(name: str) -> dict[str, Any]:
    """Line → result, for all lines of a file that are expressions."""
    known = {"np": np, "pd": pd, "math": math, "extrap": extrap, "Path": Path, "run": run}
    known |= {"runs": runs, "forecast_of": forecast, "table": table, "T": TABLES, "S": SAVED}
    known |= {"show": show, "fields": fields, "attempt": attempt, **public_names()}
    with contextlib.chdir(ROOT):
        known["W"] = workplace()
        found = {}
        for line in (FOLDER / "calls" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            if isinstance(ast.parse(line).body[0], ast.Assign | ast.FunctionDef):
                exec(line, known)
            else:
                found[line] = attempt(lambda line=line: eval(line, known))
    return found
