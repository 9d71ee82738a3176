"""Analyses of runs beyond one forecast, a folder for each question.

* `comparison` — does a change of recipe survive at a larger size?
* `batch_size` — critical batch sizes and gradient noise scales.
* `allocation` — a compute budget split between parameters and tokens.
* `sensitivity`, `cascade`, `selection` — fixed values ranked, a small model before a large one,
  training examples chosen.
* `best_values` — the law of a table of the best value of each size.

Files bear the same names in each: `page` makes the blocks, `charts` its figures, `study` the kind
of study, `command` the command; the others are numbers, functions of `Runs` and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["on_first_use"]


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """What `__getattr__` of a package is, so that its names are imported when they are used.

    Args:
        package: The package's name.
        homes: Module in it → the names that it has, separated by blanks.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def fetch(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return fetch
