"""How much sooner, or cheaper, a variant reaches the loss of the plain recipe.

A lower loss does not pay if steps take longer, and faster steps may make up for a higher loss.
Both are put into one number: the plain recipe reaches its loss L(x) at the size x; with the gain g
it would reach it at the smaller size where its own law is L(x) e^g. The cost of a run over size,
and what a step costs in either recipe, make a ratio of costs of that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.fitting.distributions import NormalMixture
from extrap.fitting.gain import GainLaw, Pairs, fit_gain
from extrap.fitting.posterior import LOWEST, LossPosterior
from extrap.fitting.run_costs import read_run_cost
from extrap.laws.base import Array
from extrap.reading.names import kind_of
from extrap.records import Interval, Measure, Runs

SPEED_COLUMNS = (
    *("tokens_per_s", "tokens_per_sec", "tokens_per_second", "tok_per_s", "throughput", "tps"),
    *("samples_per_s", "samples_per_sec", "samples_per_second", "examples_per_s", "steps_per_s"),
)
SPEED_COST_COLUMNS = (
    "step_time",
    "step_time_s",
    "seconds_per_step",
    "s_per_step",
    "flops_per_token",
)
"""Columns that are taken for speeds, and for what a step or token costs, by their names."""
MAX_LOG_SPEED = math.log(1000)
"""Effective speeds beyond this factor either way are open."""
N_GAINS, N_RATIOS = 40, 8
"""Equally likely gains and ratios of speed that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSpeed:
    """How much sooner, or cheaper, the loss of the plain recipe is reached at one size.

    Attributes:
        size: Size column → value.
        speed: Speed of the variant / of the plain recipe, or cost of a step the other way round.
        factor: Cost of a plain run / cost for the variant of the same loss; above 1 it is sooner.
        is_forecast: Whether it is read off the laws.
    """

    size: Mapping[str, float]
    speed: Measure
    factor: Measure
    is_forecast: bool = False


def speeds_by_size(
    plain: Runs, treated: Runs, *, speed: str = "", cost: str = ""
) -> tuple[dict[float, float], str, str]:
    """First size column → ln of the variant's speed over the plain recipe's; and the column.

    Without a common size, at those of the variant, between those of the plain recipe. Empty where
    neither is named and no column has the name of one; last is one that a recipe lacks.

    Raises:
        DataError: A recipe lacks the column that was named.
    """
    frames = [arm_runs.of_stage("tune").to_frame() for arm_runs in (plain, treated)]
    names = [
        name
        for name in (*SPEED_COLUMNS, *SPEED_COST_COLUMNS)
        if any(name in frame for frame in frames)
    ]
    names.sort(key=lambda name: not all(name in frame for frame in frames))
    column = speed or cost or next(iter(names), "")
    first = plain.sizes[0]
    medians = [_positive_medians(frame, column, first) for frame in frames if column]
    if not all(map(len, medians)):
        if not (speed or cost):
            return {}, "", column
        raise DataError(
            f"{argument('cost' if cost else 'speed', column)} needs positive numbers for every "
            "recipe, one of the two has none; add them, or leave the option out."
        )
    if not medians:
        return {}, "", ""
    of_plain, of_treated = (np.log(median_speeds) for median_speeds in medians)
    ratio = (of_treated - of_plain).dropna()
    if ratio.empty:
        between = np.interp(np.log(of_treated.index), np.log(of_plain.index), of_plain)
        ratio = of_treated - between
    is_cost = bool(cost) or (not speed and column in SPEED_COST_COLUMNS)
    return {float(x): float(-v if is_cost else v) for x, v in ratio.items()}, column, ""


def _positive_medians(frame: pd.DataFrame, column: str, size: str) -> pd.Series:
    values = pd.to_numeric(frame.get(column, pd.Series(dtype=float)), errors="coerce")
    positive = values[(values > 0) & np.isfinite(values)]
    return positive.groupby(frame.loc[positive.index, size].astype(float)).median()


def cost_powers(plain: Runs, size: Mapping[str, float]) -> tuple[float, ...] | None:
    """Power of each size column that the cost of a run follows at a size; None if unknown."""
    if len(size) == 1 and kind_of(plain.sizes[0]) == "compute":
        return (1.0,)
    try:
        growth = read_run_cost(plain.of_stage("tune").complete(), seconds=True)
        ends = [
            [{**size, column: math.exp(step) * size[column]} for step in (-0.5, 0.5)]
            for column in size
        ]
        return tuple(math.log(growth.of(above) / growth.of(below)) for below, above in ends)
    except DataError:
        return None


def speed_law(log_ratios: Mapping[float, float]) -> GainLaw:
    """The log ratio of speeds over `size`: about its mean, by the shapes of a gain.

    Args:
        log_ratios: First size column → ln of the ratio.
    """
    sizes = sorted(log_ratios)
    ratios = np.array([log_ratios[size] for size in sizes])
    law = fit_gain(
        Pairs(
            columns=("size",),
            sizes=[[size] for size in sizes],
            gains=(ratios - ratios.mean()).tolist(),
            n_pairs=[1.0] * len(sizes),
        )
    )
    return replace(law, means=law.means + np.array([ratios.mean(), 0.0]))


def effective_speed(
    law: LossPosterior,
    size: float,
    *,
    gain: NormalMixture,
    speed: NormalMixture,
    power: float,
    level: float,
) -> Measure:
    """The ratio of costs for one loss, median and interval over laws, gains and speeds.

    The gain and the ratio of speeds are taken as they are at the size, though the variant reaches
    the loss at a smaller one; a component of the law is followed below the sizes it holds for.

    Args:
        law: Of the plain recipe's loss.
        size: In the first size column.
        gain: `ln(L_plain / L_variant)` there.
        speed: ln of the ratio of speeds there.
        power: Of size that the cost of a run follows.
        level: Of the interval.

    Returns:
        The ratio; a side is open beyond a factor of 1,000, or where a law never reaches the loss.
    """
    gains, speeds = _quantiles(gain, N_GAINS), _quantiles(speed, N_RATIOS)
    saved, weights = _sizes_saved(law, math.log(size / law.largest), gains)
    logs = (power * saved[..., None] + speeds).ravel()
    order = np.argsort(logs, kind="stable")
    share = np.cumsum(np.repeat(weights, N_GAINS * N_RATIOS)[order])
    shares_below = np.array([0.5 - level / 2, 0.5, 0.5 + level / 2]) * share[-1]
    low, middle, high = logs[order[np.searchsorted(share, shares_below)]].tolist()
    are_closed = [abs(log) < MAX_LOG_SPEED for log in (low, middle, high)]
    lower, value, upper = (
        math.exp(log) if is_closed else None
        for log, is_closed in zip((low, middle, high), are_closed, strict=True)
    )
    return Measure(value=value, ci=Interval(lower, upper))


def _quantiles(gain: NormalMixture, n: int) -> Array:
    return np.array([gain.quantile((i + 0.5) / n) for i in range(n)])


def _sizes_saved(law: LossPosterior, t: float, gains: Array) -> tuple[Array, Array]:
    """Ln factors of size, shape (n_components, n_gains), −∞ where a loss is never reached."""
    share, exponent, bend = (
        np.asarray(parameter)[:, None] for parameter in (law.shares, law.exponents, law.bends)
    )
    safe = np.where(bend == 0, 1.0, bend)
    distance = np.where(bend == 0, t, -np.expm1(-safe * t) / safe)
    there = 1 - share + share * np.exp(-exponent * distance)
    there = np.maximum(there, np.where(share > 1, LOWEST, 0.0))  # a linear law falls below 0
    with np.errstate(divide="ignore", invalid="ignore"):
        needed_distance = -np.log((there * np.exp(gains) - 1 + share) / share) / exponent
        back = np.where(bend == 0, needed_distance, -np.log1p(-safe * needed_distance) / safe)
    return np.where(np.isnan(back), -np.inf, t - back), np.asarray(law.weights)
