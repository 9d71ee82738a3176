"""A fitted law written out with its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.records import Fit
from extrap.reporting.numbers import format_quantity, format_value

__all__ = ["Piece", "equation"]

Piece = tuple[str, bool]
"""Text, and whether it is raised (an exponent)."""


def equation(fit: Fit, target: str) -> tuple[Piece, ...]:
    """A law as pieces of text: `target = 1.65 + 0.265 · (width / 55.4)` raised `−0.428`.

    Args:
        fit: A fitted law.
        target: What the law is of.
    """
    parameters = fit.parameters
    if fit.law == "power_floor":
        terms = _terms(fit, letter="c", sign=-1)
        pieces: list[Piece] = [(f"{target} = {format_value(parameters['E'])}", False)]
        for i, term in enumerate(terms):
            scale = _numbered(parameters, "b", i)
            pieces += [(f" + {format_value(scale)} · ", False), *term]
        return tuple(pieces)
    if fit.law == "power":
        terms, scale = _terms(fit, letter="c", sign=-1), parameters["b"]
    else:
        terms, scale = _terms(fit, letter="b", sign=1), math.exp(parameters["a"])
    pieces = [(f"{target} = {format_value(scale)}", False)]
    for term in terms:
        pieces += [(" · ", False), *term]
    return tuple(pieces)


def _terms(fit: Fit, *, letter: str, sign: int) -> list[tuple[Piece, Piece]]:
    """`(column / reference)` raised to its exponent, one pair of pieces a size column."""
    terms = []
    for i, (column, reference) in enumerate(zip(fit.columns, fit.reference, strict=True)):
        exponent = sign * _numbered(fit.parameters, letter, i)
        base = f"({column} / {format_quantity(float(f'{reference:.3g}'))})"
        terms.append(((base, False), (f"{exponent:.3f}".replace("-", "−"), True)))
    return terms


def _numbered(parameters: Mapping[str, float], letter: str, i: int) -> float:
    return parameters[letter] if letter in parameters else parameters[f"{letter}{i + 1}"]
