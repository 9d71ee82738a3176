"""AdamW's timescale of the best values: does it stay over sizes, and which value need be tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extrap.fitting.surface.draws import SurfaceDraws
from extrap.fitting.surface.tuned_values import TunedValues
from extrap.fitting.transfer_rules import TUNED_NAMES
from extrap.laws.base import Array
from extrap.reading.names import STEP_COUNT_NAMES, kind_of, known_name, short_name
from extrap.records import Interval, Measure, Shown
from extrap.records.settings import Setting

KEPT_OCTAVES, N_KEPT_VALUES = 4.0, 17
"""Octaves about the best value, and values, among which the best is sought beside a kept one."""
LARGEST_CONSTANT_EXPONENT = 0.1
"""Power of a size up to which a timescale is said to stay: a quarter over a factor of ten."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Timescale(Shown):
    """Share of a run over which AdamW averages its updates, at the best values.

    `B / (η λ D)`, or `1 / (η λ S)` in S steps: of one, the last updates of a run hold the memory
    of all of it; of .01, of its last hundredth.

    Attributes:
        formula: In the columns of the runs.
        size: Size column → value.
        level: Of the intervals.
        value: At the size.
        exponents: Size column → the power with which it goes; empty where the columns move
            together.
        octave_costs: What twice and half of it costs on average, log excess over the best values:
            of the learning rate alone, of the weight decay alone, and of both so that the
            timescale stays; empty unless both are tuned.
        kept_costs: What is lost, log excess over the best values, if the timescale of the smallest
            size is kept and the rate tuned along it, if its rate is kept and the weight decay
            tuned, or its weight decay and the rate tuned; empty unless both are tuned.

    References:
        Wang, Aitchison (2024), How to set AdamW's weight decay as you scale model and dataset
        size, arXiv 2405.13698, Eq. 4; Bergsma et al. (2025), Power lines, arXiv 2505.13738, Eq. 2.
    """

    formula: str
    size: Mapping[str, float]
    level: float
    value: Measure
    exponents: Mapping[str, Measure]
    octave_costs: Mapping[str, float]
    kept_costs: Mapping[str, float]


class _Factor(NamedTuple):
    """A column to a power of 1 or −1: tuned, a size, or a setting."""

    column: str
    power: int
    tuned: int | None = None
    size: int | None = None
    setting: Setting | None = None


def timescale_of(
    surface: SurfaceDraws,
    values: TunedValues,
    settings: Sequence[Setting],
    *,
    sizes: Sequence[str],
) -> Timescale | None:
    """The timescale of the best values at a size, and its law.

    Args:
        surface: Draws of a sweep.
        values: Of the tuned values at the size.
        settings: What the runs have in common at each size.
        sizes: The size columns.

    Returns:
        None where learning rate, weight decay and steps, or batch and tokens, are not all known.
    """
    factors = _factors(values.names, sizes, settings)
    if factors is None:
        return None
    of_sizes = _logs(factors, surface.optima, surface.log_sizes, sizes)
    target = np.log2([[values.size[c] for c in sizes]])
    there = _logs(factors, values.draws.optimum[:, None, :], target, sizes)
    if of_sizes is None or there is None:
        return None
    smallest = int(np.argmin(surface.log_sizes.sum(axis=1)))
    return Timescale(
        formula=_formula(factors),
        size=dict(values.size),
        level=values.level,
        value=_measure(2.0 ** there[:, 0], values.level),
        exponents=_exponents(of_sizes, surface.log_sizes, sizes, values.level),
        octave_costs=_octave_costs(factors, values),
        kept_costs=_kept_costs(
            factors, values, of_sizes[:, smallest], there[:, 0], surface.optima[:, smallest]
        ),
    )


def _factors(
    tuned: Sequence[str], sizes: Sequence[str], settings: Sequence[Setting]
) -> list[_Factor] | None:
    """What the timescale is made of; None where something is missing, or nothing is tuned."""
    by_role = {setting.role: setting for setting in settings}

    def factor(role: str, power: int) -> _Factor | None:
        names = {"rate": "lr", "decay": "decay", "batch": "B"}
        for j, name in enumerate(tuned):
            if role in names and short_name(name).lower() in TUNED_NAMES[names[role]]:
                return _Factor(name, power, tuned=j)
        for i, name in enumerate(sizes):
            if (role == "tokens" and kind_of(name) == "tokens") or (
                role == "steps" and known_name(name) in STEP_COUNT_NAMES
            ):
                return _Factor(name, power, size=i)
        setting = by_role.get(role)
        if (
            setting is None
            or setting.amount == 0
            or (role == "batch" and short_name(setting.column).lower() not in TUNED_NAMES["B"])
        ):
            return None
        return _Factor(setting.column, power, setting=setting)

    rate, decay, batch = factor("rate", -1), factor("decay", -1), factor("batch", 1)
    tokens, steps = factor("tokens", -1), factor("steps", -1)
    length = [batch, tokens] if batch and tokens else [steps]
    factors = [f for f in (*length, rate, decay) if f is not None]
    is_whole = len(factors) == len(length) + 2
    return factors if is_whole and any(f.tuned is not None for f in factors) else None


def _logs(
    factors: Sequence[_Factor], optima: Array, log_sizes: Array, sizes: Sequence[str]
) -> Array | None:
    """log2 of the timescale, (n, S), from optima (n, S, D) at log2 of sizes (S, C)."""
    total = np.zeros(optima.shape[:2])
    for factor in factors:
        if factor.tuned is not None:
            total += factor.power * optima[:, :, factor.tuned]
        elif factor.size is not None:
            total += factor.power * log_sizes[:, factor.size]
        elif factor.setting is not None:
            amounts = [
                factor.setting.value(dict(zip(sizes, row, strict=True)))
                for row in (2.0**log_sizes).tolist()
            ]
            if None in amounts:
                return None
            total += factor.power * np.log2(np.array(amounts, dtype=float))
    return total


def _formula(factors: Sequence[_Factor]) -> str:
    """`batch_size_tokens / (tokens * lr * weight_decay)`."""
    above = [f.column for f in factors if f.power > 0] or ["1"]
    below = " * ".join(f.column for f in factors if f.power < 0)
    return f"{above[0]} / ({below})"


def _measure(draws: Array, level: float) -> Measure:
    """The median of draws and their interval."""
    low, middle, high = np.quantile(draws, [0.5 - level / 2, 0.5, 0.5 + level / 2]).tolist()
    return Measure(value=middle, ci=Interval(low, high))


def _exponents(
    logs: Array, log_sizes: Array, sizes: Sequence[str], level: float
) -> dict[str, Measure]:
    """Powers of the sizes by least squares in each draw; none where columns move together."""
    parts = np.column_stack([np.ones(len(log_sizes)), log_sizes - log_sizes.mean(axis=0)])
    if np.linalg.matrix_rank(parts) < parts.shape[1]:
        return {}
    slopes = logs @ np.linalg.pinv(parts).T
    return {column: _measure(slopes[:, 1 + i], level) for i, column in enumerate(sizes)}


def _octave_costs(factors: Sequence[_Factor], values: TunedValues) -> dict[str, float]:
    """Mean cost of an octave up and down of the rate, of the decay, of both against each other."""
    tuned = [f.column for f in factors if f.tuned is not None and f.power < 0]
    if len(tuned) < 2:
        return {}
    rate, decay = tuned
    centres = dict(zip(values.names, (2.0**values.optimum).tolist(), strict=True))

    def cost(of_rate: int, of_decay: int, steps: Sequence[int] = (1, -1)) -> float:
        octaves = [(step * of_rate, step * of_decay) for step in steps]
        pairs = [
            {rate: centres[rate] * 2.0**a, decay: centres[decay] * 2.0**b} for a, b in octaves
        ]
        return float(np.mean([values.penalty(pair)[0] for pair in pairs]))

    at_best = cost(0, 0, (0,))
    moves = {rate: (1, 0), decay: (0, 1), f"{rate} and {decay}": (1, -1)}
    return {name: max(cost(*move) - at_best, 0.0) for name, move in moves.items()}


def _kept_costs(
    factors: Sequence[_Factor], values: TunedValues, of_sizes: Array, there: Array, first: Array
) -> dict[str, float]:
    """The least mean cost with the smallest size's timescale, rate or decay.

    Args:
        factors: Of the timescale.
        values: At the size.
        of_sizes: log2 of the timescale at the smallest size, (n,).
        there: At the size, (n,).
        first: Optima of the smallest size, log2, (n, D).
    """
    pair = [f for f in factors if f.tuned is not None and f.power < 0]
    if len(pair) < 2:
        return {}
    names, columns = [f.column for f in pair], np.array([f.tuned or 0 for f in pair])
    best, start = values.optimum[columns], np.median(first[:, columns], axis=0)
    of_both = float(np.median(there + values.draws.optimum[:, columns].sum(axis=1)))
    kept_sum = of_both - float(np.median(of_sizes))
    steps = np.linspace(-KEPT_OCTAVES, KEPT_OCTAVES, N_KEPT_VALUES)
    rates, decays = best[:, None] + steps
    tries = {
        "timescale": np.column_stack([rates, kept_sum - rates]),
        names[0]: np.column_stack([np.full(len(steps), start[0]), decays]),
        names[1]: np.column_stack([rates, np.full(len(steps), start[1])]),
    }

    def cost(logs: Array) -> float:
        return values.penalty(dict(zip(names, (2.0**logs).tolist(), strict=True)))[0]

    at_best = cost(best)
    return {name: max(min(map(cost, pairs)) - at_best, 0.0) for name, pairs in tries.items()}
