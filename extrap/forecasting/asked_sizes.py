"""The sizes that a forecast is asked for: given by their columns, alone, or by a path's inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from extrap.errors import argument
from extrap.records import SizePath

AnySizes = float | Mapping[str, float] | Iterable[float | Mapping[str, float]]
"""One or several sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAxes:
    """What a size is made of.

    Attributes:
        columns: The size columns.
        smallest: Size column → the smallest fitted size.
        path: Formulas of the columns in other names, or None.
    """

    columns: tuple[str, ...]
    smallest: Mapping[str, float]
    path: SizePath | None

    def several(self, sizes: AnySizes) -> list[dict[str, float]]:
        """One or several sizes, each a number or a mapping, by their names.

        Raises:
            ValueError: A number where there are several size columns.
        """
        listed = (
            list(sizes)
            if isinstance(sizes, Iterable) and not isinstance(sizes, Mapping)
            else [sizes]
        )
        return [dict(o) if isinstance(o, Mapping) else self.named(o, {}) for o in listed]

    def named(self, value: float | None, size: dict[str, float]) -> dict[str, float]:
        """A size, which may be given without its column.

        Raises:
            ValueError: A number where there are several size columns.
        """
        if value is None:
            return size
        columns = self.columns if self.path is None else self.path.inputs
        if size or len(columns) != 1:
            raise ValueError(
                "a size without a name is for one size column, this forecast has "
                f"{', '.join(columns)}; ask for {_how_to_give(columns)}."
            )
        return {columns[0]: value}

    def checked(self, size: Mapping[str, float]) -> dict[str, float]:
        """The size columns of a size, none below the smallest fitted one.

        Raises:
            ValueError: A column is missing, unknown, or out of range.
            TypeError: A value is no number.
        """
        expected = ", ".join(self.columns)
        for name, value in size.items():
            if not isinstance(value, Real):
                raise TypeError(
                    f"a size is a number, got {name}={value!r}; give one number, or several sizes "
                    "to frame([…])."
                )
        size = self._sized(size)
        if set(size) != set(self.columns):
            inputs = f" or {', '.join(self.path.inputs)} of the path" if self.path else ""
            raise ValueError(
                f"a forecast needs exactly the size column(s) {expected}{inputs}, got "
                f"{', '.join(size) or 'none'}; ask for {_how_to_give(self.columns)}."
            )
        for column in self.columns:
            value = size[column]
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{column} must be positive and finite, got {value:g}.")
            if value < self.smallest[column]:
                raise ValueError(
                    "a forecast is not extrapolated below the smallest tuned size, "
                    f"{column}={self.smallest[column]:g}, got {value:g}; give a larger size."
                )
        return {c: float(size[c]) for c in self.columns}

    def _sized(self, size: Mapping[str, float]) -> Mapping[str, float]:
        """The size columns where the path makes them of what is given; else what is given."""
        columns = self.columns
        if self.path is None or set(size) == set(columns):
            return size
        if set(size) != set(self.path.inputs):
            return size
        values = {**self.path.values(size), **size}
        return {c: values[c] for c in columns} if set(columns) <= set(values) else size


def _how_to_give(columns: Sequence[str]) -> str:
    """How a size is asked for: `at(width=…)` in Python, `--at width=…` in a command."""
    listed = "=…,".join(columns) + "=…"
    is_option = argument("at").startswith("--")
    return f"{argument('at')} {listed}" if is_option else f"at({listed.replace(',', ', ')})"


def path_to(path: Mapping[str, str] | SizePath | None, columns: Sequence[str]) -> SizePath | None:
    """The path as a record, after a look at where it leads.

    Args:
        path: Name → formula, or a path; empty or None for none.
        columns: The size columns.

    Raises:
        ValueError: It does not lead to all of them.
    """
    if not path:
        return None
    followed = path if isinstance(path, SizePath) else SizePath(dict(path))
    missing = [c for c in columns if c not in (*followed.formulas, *followed.inputs)]
    if missing or not set(columns) & set(followed.formulas):
        raise ValueError(
            f"a path defines the size columns {', '.join(columns)}, got {followed}; add "
            f"{(missing or list(columns))[0]} = …."
        )
    return followed
