"""What two arms differ by at each size and on average, and the share of a gap that one closes.

Every number is a function of the table of tuned losses of arm × size × seed. The mean over the
sizes has the scatter of the seeds' own means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from extrap.analyses.comparison.arm_table import ArmTable, arm_table, mean_error, size_errors
from extrap.analyses.comparison.comparison_results import Contrast, SizeDifference
from extrap.analyses.comparison.seed_losses import Arm, Key
from extrap.fitting.jackknife import Error, size_means
from extrap.fitting.means import ratio_of_means
from extrap.records import Interval, Measure

MIN_SHARED_SEEDS = 2
"""With fewer seeds that three arms share the error of a share is unknown."""


def contrast_arms(
    plain: Arm,
    treated: Arm,
    *,
    columns: Sequence[str],
    target: Mapping[str, float],
    level: float,
    target_level: float | None = None,
) -> Contrast:
    """What two arms differ by at their common sizes.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        columns: Size columns.
        target: The size asked for.
        level: Of the intervals, in (0, 1).
        target_level: Of that at the target, if it is measured; by default that of others.
    """
    table = arm_table(plain, treated)
    flags = (*plain.flags, *treated.flags)
    if not table.keys:
        return Contrast(treated=treated.name, by_size=(), flags=flags)
    refusals = {}
    of_mean, of_sizes = mean_error(table), size_errors(table)
    if of_mean is None:
        refusals["mean"] = (
            "with one seed, what it does at all sizes cannot be distinguished from the treatment; "
            "add a second seed at every size."
        )
    mean = float(table.differences.mean())
    levels = {tuple(target.values()): target_level or level}
    return Contrast(
        treated=treated.name,
        by_size=_by_size(table, of_sizes, columns, level, levels),
        mean=_relative(mean, of_mean, level),
        p_value=None if of_mean is None else of_mean.p_value(mean),
        flags=flags,
        refusals=refusals,
    )


def _by_size(
    table: ArmTable,
    errors: list[Error] | None,
    columns: Sequence[str],
    level: float,
    levels: Mapping[Key, float],
) -> tuple[SizeDifference, ...]:
    unknown = [None] * len(table.keys)
    of_plain, of_treated, of_both = (
        row_errors or unknown
        for row_errors in (size_means(table.plain), size_means(table.treated), errors)
    )
    plain, treated = table.means
    return tuple(
        SizeDifference(
            size=dict(zip(columns, key, strict=True)),
            n_pairs=int(table.n_pairs[i]),
            plain=_loss(float(plain[i]), of_plain[i], level),
            treated=_loss(float(treated[i]), of_treated[i], level),
            difference=_relative(float(treated[i] - plain[i]), of_both[i], levels.get(key, level)),
        )
        for i, key in enumerate(table.keys)
    )


def share_closed(plain: Arm, treated: Arm, reference: Arm, *, level: float) -> Measure:
    """The share that a treatment closes of the gap between the plain arm and a reference.

    Of mean log losses over the sizes of all three: `(plain − treated) / (plain − reference)`, with
    Fieller's interval over the seeds that all have at every size. Nothing below two of these, or
    where the gap is not significant.

    References:
        Fieller (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16, 175-185.
    """
    arms = (plain, treated, reference)
    keys = set.intersection(*(set(arm.by_size) for arm in arms))
    seeds = set.intersection(*(set(arm.by_size[key]) for arm in arms for key in keys))
    if len(seeds) < MIN_SHARED_SEEDS:
        return Measure()
    losses = np.array(
        [[np.mean([arm.by_size[key][seed] for key in keys]) for seed in seeds] for arm in arms]
    )
    closed, gap = losses[0] - losses[1], losses[0] - losses[2]
    share = ratio_of_means(closed, gap, level=level)
    return Measure() if share.ci == Interval() else share


def _loss(log_loss: float, error: Error | None, level: float) -> Measure:
    ci = Interval() if error is None else Interval.around_log(log_loss, error.half_width(level))
    return Measure(value=math.exp(log_loss), ci=ci)


def _relative(log_ratio: float, error: Error | None, level: float) -> Measure:
    """Treated / plain − 1; nothing where its error is unknown."""
    if error is None:
        return Measure()
    return _loss(log_ratio, error, level).map(lambda ratio: ratio - 1)
