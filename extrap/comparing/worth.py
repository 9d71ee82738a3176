"""What a treatment is worth: the compute with which the plain recipe reaches the same loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from extrap.comparing.arm_laws import ArmLaws
from extrap.comparing.costs import ArmCompute
from extrap.comparing.pairs import Spread
from extrap.comparing.results import Crossover, EffectiveCompute
from extrap.laws.base import Array
from extrap.records import Interval, Measure

LEVEL = 0.90
"""Of the interval of effective compute."""
REACH = math.log(1e6)
"""Largest ln factor of size that is looked at; beyond it a side is open."""
NEAR = math.log(10)
"""A crossing is looked for so far beyond the measured sizes and the target."""
N_TRIALS = 121
BISECTIONS = 20
"""A trial's width is .23 or less: to 3e-7 in ln size."""


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
    plain_flops: ArmCompute | None,
    treated_flops: ArmCompute | None,
    level: float = LEVEL,
) -> EffectiveCompute:
    """Compute of the plain run that reaches the loss of a treated one, over that of this one.

    All factors φ at which `ln f_plain(φ x) = ln f_treated(x)` is not rejected: an inverted
    F-test, open on the side where the plain law levels off before it gets there.

    Args:
        laws: Both laws.
        spread: Errors about them, lack of fit counted.
        size: Of the treated run; the first column counts.
        plain_flops: Compute of the plain recipe along its sizes; None if unknown.
            Where it does not move with size, no size stands for more compute, and the factor of
            compute is unknown.
        treated_flops: That of the treated one.
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
    factor = Measure(value=None, ci=Interval())
    if plain_flops is not None and treated_flops is not None and plain_flops.moves(size):
        base = treated_flops.log_at(size)

        def convert(shift: float) -> float:
            return math.exp(min(plain_flops.log_at(size, shift) - base, 700.0))

        factor = _measure(found, convert)
    return EffectiveCompute(size=dict(size), factor=factor, level=level, size_factor=size_factor)


def find_crossover(
    laws: ArmLaws,
    spread: Spread,
    *,
    names: tuple[str, str],
    target: float,
    level: float,
) -> Crossover:
    """Where two laws cross, not further than tenfold beyond the sizes and the target.

    Args:
        laws: Both laws.
        spread: Errors about them.
        names: Plain and treated.
        target: First size column at the target.
        level: Of the interval.
    """
    low, high = float(laws.log_size.min()), float(laws.log_size.max())
    end = max(high, math.log(target))
    trials = np.linspace(low - NEAR, end + NEAR, N_TRIALS)

    def statistic(at: Array) -> tuple[Array, Array]:
        return (
            laws.log_loss(1, at) - laws.log_loss(0, at),
            laws.gradient(1, at) - laws.gradient(0, at),
        )

    if _zero(statistic, trials) is None:
        return NO_CROSSING
    found = _accepted(statistic, trials, laws, spread, level=level)
    assert found.value is not None
    before, _ = statistic(np.array([found.value - 0.1]))
    return Crossover(
        size=_measure(found, math.exp),
        better_below=names[1] if before[0] < 0 else names[0],
        is_inside=low <= found.value <= high,
    )


NO_CROSSING = Crossover(size=Measure(value=None, ci=Interval()), better_below="", is_inside=False)


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
    """The zero of a statistic of one number, and the stretch around it where 0 is accepted.

    Without a zero the stretch, if any, is that around the trial nearest to being accepted.
    """

    def excess(at: float) -> float | None:
        value, gradient = statistic(np.array([at]))
        plain, treated = laws.weights(gradient[0])
        error = spread.of(plain, treated)
        if error is None:
            return None
        return abs(float(value[0])) - float(stats.t.ppf(0.5 + level / 2, error[1])) * error[0]

    zero = _zero(statistic, trials)
    start = zero
    if start is None:
        distances = [excess(float(at)) for at in trials]
        if any(each is None or each > 0 for each in distances) and not any(
            each is not None and each <= 0 for each in distances
        ):
            return _Accepted(value=None, lower=None, upper=None)
        start = float(trials[int(np.argmin([each or 0.0 for each in distances]))])
    elif excess(start) is None:
        return _Accepted(value=zero, lower=None, upper=None)
    return _Accepted(
        value=zero,
        lower=_edge(excess, start, trials[trials < start][::-1]),
        upper=_edge(excess, start, trials[trials > start]),
    )


def _zero(statistic: Callable[[Array], tuple[Array, Array]], trials: Array) -> float | None:
    """The change of sign nearest to the middle of the trials; None without one."""
    value, _ = statistic(trials)
    changes = np.flatnonzero(np.sign(value[:-1]) != np.sign(value[1:]))
    if not len(changes):
        return None
    middle = (trials[0] + trials[-1]) / 2
    i = int(changes[np.argmin(np.abs(trials[changes] - middle))])

    def value_at(at: float) -> float:
        return float(statistic(np.array([at]))[0][0])

    return _bisect(value_at, float(trials[i]), float(trials[i + 1]))


def _edge(excess: Callable[[float], float | None], start: float, outward: Array) -> float | None:
    """Where acceptance ends on one side of the start; None if it does not."""
    inside = start
    for at in map(float, outward):
        if (excess(at) or 0.0) > 0:
            return _bisect(lambda x: excess(x) or 0.0, inside, at)
        inside = at
    return None


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """A zero between two places where a function differs in sign."""
    is_positive = function(high) > 0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if (function(middle) > 0) == is_positive else (middle, high)
    return (low + high) / 2
