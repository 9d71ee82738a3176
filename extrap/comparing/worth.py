"""What a treatment is worth: the compute with which the plain recipe reaches the same loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from extrap.comparing.arm_laws import ArmLaws
from extrap.comparing.costs import SizePower
from extrap.comparing.pairs import Spread
from extrap.comparing.results import Crossover, EffectiveCompute
from extrap.laws.base import Array
from extrap.records import Interval, Measure

__all__ = ["LEVEL", "effective_compute", "find_crossover"]

LEVEL = 0.90
"""Of the interval of effective compute."""
REACH = math.log(1e6)
"""Largest ln factor of size that is looked at; beyond it a side is open."""
NEAR = math.log(10)
"""A crossing is looked for so far beyond the measured sizes and the target."""
N_TRIALS = 2001
UNKNOWN = Interval(None, None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Accepted:
    """Where a statistic is 0, and the trials around it at which 0 is not rejected."""

    value: float | None
    lower: float | None
    upper: float | None


def effective_compute(
    laws: ArmLaws,
    spread: Spread,
    size: Mapping[str, float],
    *,
    plain_flops: SizePower | None,
    treated_flops: SizePower | None,
    level: float = LEVEL,
) -> EffectiveCompute:
    """Compute of the plain run that reaches the loss of a treated one, over that of this one.

    All factors φ at which `ln f_plain(φ x) = ln f_treated(x)` is not rejected: an inverted
    F-test, open on the side where the plain law levels off before it gets there.

    Args:
        laws: Both laws.
        spread: Errors about them, lack of fit counted.
        size: Of the treated run; the first column counts.
        plain_flops, treated_flops: Compute as a power of the first column; None if unknown.
        level: Of the interval.
    """
    at = math.log(next(iter(size.values())))
    treated = float(laws.log_loss(1, at))
    gradient = laws.gradient(1, at)

    def statistic(shift: Array) -> tuple[Array, Array]:
        return laws.log_loss(0, at + shift) - treated, laws.gradient(0, at + shift) - gradient

    trials = np.linspace(-REACH, REACH, N_TRIALS)
    found = _accepted(statistic, trials, laws, spread, level=level)
    size_factor = _measure(found, math.exp)
    factor = Measure(value=None, ci=UNKNOWN)
    if plain_flops is not None and treated_flops is not None:
        base, power = plain_flops.log_at(at) - treated_flops.log_at(at), plain_flops.power

        def convert(shift: float) -> float:
            return math.exp(min(base + power * shift, 700.0))

        factor = _measure(found, convert)
    return EffectiveCompute(size=dict(size), factor=factor, level=level, size_factor=size_factor)


def find_crossover(
    laws: ArmLaws,
    spread: Spread,
    *,
    column: str,
    names: tuple[str, str],
    target: float,
    level: float,
) -> Crossover:
    """Where two laws cross, not further than tenfold beyond the sizes and the target.

    Args:
        laws: Both laws.
        spread: Errors about them.
        column: The first size column, for its name.
        names: Plain and treated.
        target: Its value at the target.
        level: Of the interval.
    """
    del column
    low, high = float(laws.log_size.min()), float(laws.log_size.max())
    end = max(high, math.log(target))
    trials = np.linspace(low - NEAR, end + NEAR, N_TRIALS)

    def statistic(at: Array) -> tuple[Array, Array]:
        return (
            laws.log_loss(1, at) - laws.log_loss(0, at),
            laws.gradient(1, at) - laws.gradient(0, at),
        )

    found = _accepted(statistic, trials, laws, spread, level=level)
    if found.value is None:
        return NO_CROSSING
    before, _ = statistic(np.array([found.value - 0.1]))
    return Crossover(
        size=_measure(found, math.exp),
        better_below=names[1] if before[0] < 0 else names[0],
        is_inside=low <= found.value <= high,
    )


NO_CROSSING = Crossover(
    size=Measure(value=None, ci=UNKNOWN), better_below="", is_inside=False
)


def _measure(found: _Accepted, convert: Callable[[float], float]) -> Measure:
    value, lower, upper = (
        None if side is None else convert(side) for side in (found.value, found.lower, found.upper)
    )
    return Measure(value=value, ci=Interval(lower, upper))


def _accepted(
    statistic: Callable[[Array], tuple[Array, Array]],
    trials: Array,
    laws: ArmLaws,
    spread: Spread,
    *,
    level: float,
) -> _Accepted:
    """The zero of a statistic of one number, and the stretch around it where 0 is accepted."""
    value, gradient = statistic(trials)
    zeros = np.flatnonzero(np.sign(value[:-1]) != np.sign(value[1:]))
    zero = None
    if len(zeros):
        i = int(zeros[np.argmin(np.abs(trials[zeros]))]) if trials[0] < 0 < trials[-1] else int(
            zeros[0]
        )
        share = value[i] / (value[i] - value[i + 1]) if value[i] != value[i + 1] else 0.0
        zero = float(trials[i] + share * (trials[i + 1] - trials[i]))
    plain, treated = laws.weights(gradient)
    excess = np.full(len(trials), np.nan)
    for i, (p, t) in enumerate(zip(plain, treated, strict=True)):
        error = spread.of(p, t)
        if error is None:
            return _Accepted(value=zero, lower=None, upper=None)
        se, dof = error
        excess[i] = abs(value[i]) - float(stats.t.ppf(0.5 + level / 2, dof)) * se
    accepted = excess <= 0
    if zero is None and not accepted.any():
        return _Accepted(value=None, lower=None, upper=None)
    start = int(np.argmin(np.abs(trials - zero))) if zero is not None else int(np.argmin(excess))
    first = last = start
    while first > 0 and accepted[first - 1]:
        first -= 1
    while last < len(trials) - 1 and accepted[last + 1]:
        last += 1
    return _Accepted(
        value=zero,
        lower=None if first == 0 else _edge(trials, excess, first - 1, first, zero),
        upper=None if last == len(trials) - 1 else _edge(trials, excess, last, last + 1, zero),
    )


def _edge(trials: Array, excess: Array, i: int, j: int, zero: float | None) -> float:
    """Where the excess changes sign between two trials; never on the wrong side of the zero."""
    if excess[i] == excess[j]:
        return float(trials[i])
    at = float(trials[i] + excess[i] / (excess[i] - excess[j]) * (trials[j] - trials[i]))
    at = min(max(at, float(trials[i])), float(trials[j]))
    if zero is None:
        return at
    return min(at, zero) if trials[j] <= zero else max(at, zero)
