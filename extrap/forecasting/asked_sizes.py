"""The sizes that a forecast is asked for: given by their columns, alone, or by a path's inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from extrap.errors import argument
from extrap.forecasting.settings import names_horizon
from extrap.reading.names import kind_of
from extrap.records import SizePath
from extrap.records.numbers import format_quantity, name_size
from extrap.records.settings import ONE_AMOUNT, Setting

AnySizes = float | Mapping[str, float] | Iterable[float | Mapping[str, float]]
"""One or several sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAxes:
    """What a size is made of.

    Attributes:
        columns: The size columns.
        smallest: Size column → the smallest fitted size.
        path: Formulas of the columns in other names, or None.
        horizon: How long runs train, where that is no size of its own; or None.
    """

    columns: tuple[str, ...]
    smallest: Mapping[str, float]
    path: SizePath | None
    horizon: Setting | None = None

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

    def split_horizon(self, size: Mapping[str, float]) -> tuple[dict[str, float], float | None]:
        """A size without its horizon, and that horizon where the sweep never varied it.

        Tokens per parameter become tokens where the parameters are known.

        Raises:
            ValueError: The horizon is not positive and finite.
        """
        size = self._with_tokens(size)
        if self.horizon is None:
            return size, None
        names = [c for c in size if c not in self._names and names_horizon(self.horizon, c)]
        if len(names) != 1:
            return size, None
        amount = size.pop(names[0])
        sized = self._sized_numbers(size)
        if set(sized) != set(self.columns) or not isinstance(amount, Real):
            return {**size, names[0]: amount}, None  # `checked` says what is wrong
        if not (math.isfinite(amount) and amount > 0):
            raise ValueError(f"{names[0]} must be positive and finite, got {amount:g}.")
        return size, None if self.horizon.is_at(sized, float(amount)) else float(amount)

    @property
    def _names(self) -> tuple[str, ...]:
        """What a size may be given by, the horizon apart."""
        return self.columns if self.path is None else (*self.columns, *self.path.inputs)

    def _with_tokens(self, size: Mapping[str, float]) -> dict[str, float]:
        """With tokens in the place of tokens per parameter.

        Raises:
            ValueError: The ratio is not positive and finite, or the tokens beside it are others.
        """
        ratio = [c for c in size if c not in self._names and kind_of(c) == "ratio"]
        named = {c: v for c, v in size.items() if c in self._names}
        numbers = {**size, **self._sized_numbers(named)}
        params = [c for c in numbers if kind_of(c) == "params" or c == "N"]
        horizon = [] if self.horizon is None else [self.horizon.column]
        tokens = [c for c in (*self.columns, *horizon) if kind_of(c) == "tokens" or c == "D"]
        if not (len(ratio) == len(params) == 1 and tokens):
            return dict(size)
        per_param, of_params = numbers[ratio[0]], numbers[params[0]]
        if not (isinstance(per_param, Real) and isinstance(of_params, Real)):
            return dict(size)  # `checked` says what is wrong
        if not (math.isfinite(per_param) and per_param > 0):
            raise ValueError(f"{ratio[0]} must be positive and finite, got {per_param:g}.")
        column, amount = tokens[0], per_param * of_params
        without = {c: v for c, v in size.items() if c != ratio[0]}
        beside = size.get(column, amount)
        if isinstance(beside, Real) and not amount / ONE_AMOUNT <= beside <= amount * ONE_AMOUNT:
            raise ValueError(
                f"{ratio[0]} {format_quantity(per_param)} at {params[0]} "
                f"{format_quantity(of_params)} is {column} {format_quantity(amount)}, got "
                f"{format_quantity(beside)} beside it; give one of the two."
            )
        return {**without, column: beside}

    def never_varied(self, size: Mapping[str, float], amount: float) -> str:
        """Why nothing is forecast at a size with another horizon than the sweep's."""
        assert self.horizon is not None
        column, of_sweep = self.horizon.column, self.horizon.value(size)
        if of_sweep is None:
            was = f"the sweep has one number of {column} at each size, without a clear trend"
        elif self.horizon.powers:
            was = (
                f"{column} followed the size in every run of the sweep "
                f"({format_quantity(of_sweep)} at {name_size(size)})"
            )
        else:
            was = f"every run of the sweep has {column} {format_quantity(of_sweep)}"
        return (
            f"{was}, so it does not show what {format_quantity(amount)} needs; tune the small "
            "sizes at two other horizons"
        )

    def checked(self, size: Mapping[str, float]) -> dict[str, float]:
        """The size columns of a size, none below the smallest fitted one.

        Raises:
            ValueError: A column is missing, unknown, or out of range, or the horizon is one that
                the sweep never varied.
            TypeError: A value is no number.
        """
        size, other_horizon = self.split_horizon(size)
        if other_horizon is not None:
            raise ValueError(f"{self.never_varied(size, other_horizon)}.")
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
            beside = f" and takes {self.horizon.column} beside them" if self.horizon else ""
            raise ValueError(
                f"a forecast needs exactly the size column(s) {expected}{inputs}{beside}, got "
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

    def _sized_numbers(self, size: Mapping[str, float]) -> Mapping[str, float]:
        """As `_sized`, where all are numbers."""
        return self._sized(size) if all(isinstance(v, Real) for v in size.values()) else size

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
