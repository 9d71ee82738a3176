"""Names of a package that are imported when they are used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A `__getattr__` for a package, which imports each name on first use.

    Args:
        package: The package's name.
        homes: Module in it → the names that it has, separated by blanks.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def fetch(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return fetch
