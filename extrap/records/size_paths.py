"""Paths of the size: what follows from one number, as in `width = 64 * depth`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter


@dataclass(frozen=True, slots=True)
class SizePath:
    """Formulas by which a few inputs, often a single one, set everything that grows with size.

    Attributes:
        formulas: Name → formula (`extrap.expressions`) over the inputs and other names defined
            here, in any order.

    Raises:
        ValueError: A formula is none, or they lead in a circle.

    Example:
        >>> SizePath({"width": "64 * depth", "n_tokens": "240 * depth * width**2"}).inputs
        ('depth',)
    """

    formulas: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, formula in self.formulas.items():
            if not isinstance(formula, str):
                raise ValueError(
                    f"a path consists of formulas in quotes, got {formula!r} for {name}; "
                    f"write path={{'{name}': '64 * depth'}}."
                )
        self._order()

    @classmethod
    def parse(cls, definitions: Iterable[str]) -> SizePath | None:
        """From `name = formula` each; None if there are none.

        Raises:
            ValueError: One is no definition, or a name is defined twice.
        """
        from extrap.expressions import parse_definition

        formulas: dict[str, str] = {}
        for text in definitions:
            name, expression = parse_definition(text)
            if name in formulas:
                raise ValueError(f"a path defines each name once, got {name!r} twice.")
            formulas[name] = expression.text
        return cls(formulas) if formulas else None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names that formulas use and none defines."""
        from extrap.expressions import Expression

        names = (n for formula in self.formulas.values() for n in Expression(formula).names)
        return tuple(dict.fromkeys(name for name in names if name not in self.formulas))

    def values(self, inputs: Mapping[str, float]) -> dict[str, float]:
        """What the path defines, in its own order.

        Args:
            inputs: Dial → value; further names are ignored.

        Raises:
            ValueError: An input is missing, or a formula gives no positive number there.
        """
        from extrap.expressions import Expression

        values = {name: value for name, value in inputs.items() if name not in self.formulas}
        for name in self._order():
            value = Expression(self.formulas[name])(values)
            if not (math.isfinite(value) and value > 0):
                where = ", ".join(f"{name}={values[name]:g}" for name in self.inputs)
                raise ValueError(
                    f"a path must give positive numbers, {name} = {self.formulas[name]} gives "
                    f"{value:g} at {where}; correct the formula."
                )
            values[name] = float(f"{value:.12g}")
        return {name: values[name] for name in self.formulas}

    def __str__(self) -> str:
        return ", ".join(f"{name} = {formula}" for name, formula in self.formulas.items())

    def _order(self) -> list[str]:
        """The names, each after those that its formula uses."""
        from extrap.expressions import Expression

        needed = {
            name: [n for n in Expression(formula).names if n in self.formulas]
            for name, formula in self.formulas.items()
        }
        try:
            return list(TopologicalSorter(needed).static_order())
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise ValueError(
                "the formulas of a path must not depend on each other in a circle, got "
                f"{circle}; remove one."
            ) from None
