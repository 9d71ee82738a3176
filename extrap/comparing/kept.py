"""A recipe that is the plain one at tuned values which are kept, not tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extrap.analyses.budget import cost
from extrap.comparing.results import Contrast, SizeDifference
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.records import Interval, Measure, Runs

Row = tuple[str, ...]


def at_kept_values(
    contrast: Contrast, plain: Runs, treated: Runs, target: Mapping[str, float], *, level: float
) -> tuple[Contrast, str]:
    """The contrast with what keeping the values costs at the target, and a note that says so.

    A loss at values that are kept turns up at large sizes, which no power law does. Where every
    run of a recipe is one of the plain sweep's, all at the same tuned values, the difference at
    the target is therefore the cost of these values, as `extrap cost` has it. Any other contrast
    is left as it is.

    Args:
        contrast: The contrast.
        plain: Runs of the plain recipe.
        treated: Runs of the treated one.
        target: Size column → value.
        level: Of the intervals.
    """
    values = _kept_values(plain, treated)
    if values is None or contrast.at_target is None:
        return contrast, ""
    try:
        made = forecast(plain, level=level)
        point, priced = made.at(**target), cost(made, at=target, tuned=values).chosen
    except DataError:  # no law of the loss or of an optimum, or no excess-loss curve
        return contrast, ""
    loss, extra = point.loss or 0.0, priced.relative
    sides = [
        None if own is None or more is None else own * (1 + more)
        for own, more in zip(point.loss_ci, extra.ci, strict=True)
    ]
    found = SizeDifference(
        size=dict(target),
        n_pairs=0,
        plain=Measure(value=loss, ci=point.loss_ci),
        treated=Measure(value=loss * (1 + (extra.value or 0.0)), ci=Interval(*sides)),
        difference=extra,
        is_forecast=True,
    )
    words = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
    note = (
        f"{contrast.treated}: its runs are the plain recipe's at {words}; the difference "
        "at the target is the expected cost of keeping that value, as in extrap cost, "
        "because such a loss does not follow a power law."
    )
    return replace(contrast, at_target=found), note


def _kept_values(plain: Runs, treated: Runs) -> dict[str, float] | None:
    """The one value of each tuned column, where all runs are the plain recipe's; else None."""
    if not plain.tuned or treated.tuned != plain.tuned:
        return None
    frame = treated.of_stage("tune").to_frame()
    values = {name: frame[name].astype(float) for name in treated.tuned}
    is_one = all(v.nunique() == 1 for v in values.values())
    if not is_one or not _rows(treated) <= _rows(plain):
        return None
    if all(plain.to_frame()[name].nunique() == 1 for name in plain.tuned):
        return None
    return {name: float(v.iloc[0]) for name, v in values.items()}


def _rows(runs: Runs) -> set[Row]:
    """Every run by size, tuned values, seed and loss."""
    frame = runs.of_stage("tune").to_frame()
    numbers = [frame[c].astype(float).map("{:.10g}".format) for c in (*runs.sizes, *runs.tuned)]
    return set(zip(*numbers, frame["seed"].astype(str), frame["loss"].astype(str), strict=True))
