"""A fitted law written out with its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.forecasting import Forecast
from extrap.laws import LAWS
from extrap.records import Fit
from extrap.records.numbers import format_decimals, format_percent, format_quantity, format_value

Piece = tuple[str, bool]
"""Text, and whether it is raised (an exponent)."""


def equation(fit: Fit, target: str) -> tuple[Piece, ...]:
    """A law as pieces of text: `target = 1.65 + 0.265 · (width / 55.4)` raised `−0.428`.

    Args:
        fit: A fitted law.
        target: What the law is of.
    """
    parameters = fit.parameters
    if fit.law in ("power_floor", "chinchilla_tied"):
        terms = _terms(fit, letter="c", sign=-1)
        pieces: list[Piece] = [(f"{target} = {format_value(parameters['E'])}", False)]
        for i, term in enumerate(terms):
            scale = _numbered(parameters, "b", i)
            pieces += [(f" + {format_value(scale)} · ", False), *term]
        return tuple(pieces)
    if fit.law == "power":
        return _product(target, parameters["b"], _terms(fit, letter="c", sign=-1))
    if fit.law == "optimum_power":
        law = _product(target, math.exp(parameters["a"]), _terms(fit, letter="b", sign=1))
        bend = parameters.get("bend", 0.0)
        if round(bend, 3) == 0:
            return law
        logs = [f"ln{base}" for base in _bases(fit)]
        mean = logs[0] if len(logs) == 1 else f"mean({', '.join(logs)})"
        return (*law, (" · e", False), (f"{format_decimals(bend, 3)} [{mean}]²", True))
    if fit.law == "log_linear":
        start, slope = format_value(parameters["a"]), format_value(parameters["b"])
        return ((f"{target} = {start} − {slope} · ln{_bases(fit)[0]}", False),)
    return ((_in_words(fit, target), False),)


def _product(target: str, scale: float, terms: list[tuple[Piece, Piece]]) -> tuple[Piece, ...]:
    pieces: list[Piece] = [(f"{target} = {format_value(scale)}", False)]
    for term in terms:
        pieces += [(" · ", False), *term]
    return tuple(pieces)


def _in_words(fit: Fit, target: str) -> str:
    """The formula of a law with its letters, then what they stand for."""
    letters = [f"{name} = {format_value(value)}" for name, value in fit.parameters.items()]
    sizes = [
        f"{format_quantity(reference, digits=3)} for {column}"
        for column, reference in zip(fit.columns, fit.reference, strict=True)
    ]
    return (
        f"{target}: {LAWS[fit.law].formula} with {', '.join(letters)}; "
        f"reference size {', '.join(sizes)}"
    )


def _terms(fit: Fit, *, letter: str, sign: int) -> list[tuple[Piece, Piece]]:
    """`(column / reference)` raised to its exponent, one pair of pieces a size column."""
    terms: list[tuple[Piece, Piece]] = []
    for i, base in enumerate(_bases(fit)):
        exponent = sign * _numbered(fit.parameters, letter, i)
        terms.append(((base, False), (format_decimals(exponent, 3), True)))
    return terms


def _bases(fit: Fit) -> list[str]:
    """`(column / reference)` a size column."""
    return [
        f"({column} / {format_quantity(reference, digits=3)})"
        for column, reference in zip(fit.columns, fit.reference, strict=True)
    ]


def _numbered(parameters: Mapping[str, float], letter: str, i: int) -> float:
    return parameters[letter] if letter in parameters else parameters[f"{letter}{i + 1}"]


def law_equations(forecast: Forecast) -> list[tuple[tuple[Piece, ...], str]]:
    """Each law of a forecast written out, and its weight."""
    found = []
    for fit, weight in sorted(forecast.loss_laws, key=lambda pair: -pair[1]):
        text = f"weight {format_quantity(weight, digits=2)}"
        if forecast.loss_model is not None and forecast.loss_model.posterior is not None:
            text = "mean of the averaged laws"
        found.append((equation(fit, "loss"), f"{text}; {fit.n_points} sizes"))
    for name, law in forecast.tuned_laws.items():
        if law is not None:
            off = format_percent(law.scatter, signed=False)
            text = f"{law.n_points} sizes; the optima scatter about it by {off}"
            found.append((equation(law, f"best {name}"), text))
    return found
