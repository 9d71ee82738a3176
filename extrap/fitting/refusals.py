"""Where a forecast says nothing, and where little: rules on intervals and sizes alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.prediction import LossPrediction
from extrap.fitting.surface.answers import Answer
from extrap.reading.names import kinds_of
from extrap.records import Optimum, Remedy
from extrap.records.confidence import LOW_HALF_WIDTH
from extrap.records.numbers import (
    NBSP,
    format_percent,
    format_quantity,
    format_value,
    name_size,
)

JUDGED_LEVEL = 0.9
"""Level of the intervals by which losses are judged, whatever the level of the forecast."""
MOST_HALF_WIDTH, OF_FALL = 0.2, 0.25
"""Half width of a log loss up to which it is given: so much, or so much of the fall of the log
loss over the sweep if that is more."""
STEP_OCTAVES, FARTHEST_OCTAVES = 0.25, 40.0
"""Octaves between the sizes that are looked at on the way to a size, and beyond the sweep up to
which they are."""
USUAL_LOSS_SE, RISE_ERRORS = 0.005, 2.0
"""Standard error of a log loss where none is known, and how many of the mean a rise exceeds."""
SAME_COMPUTE_FACTOR = 1.1
"""Factor up to which the compute of two runs is the same."""
LEAST_LOGARITHM_ARGUMENT = 1e-12
"""Guard of a logarithm."""
SHOWN_AS_PERCENT, MOST_SHOWN_HALF_WIDTH = 0.5, math.log(10)
"""Half widths of a log loss up to which they are given in percent, and at all."""

AGAINST_RISE = Remedy(
    cause="sizes",
    text=(
        "find out why the largest runs are worse (a mistuned value, too few steps, another "
        "recipe), and repeat them or leave them out"
    ),
)
"""Where the loss rises towards the largest size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A number of a forecast whose interval is too wide to be of use.

    Attributes:
        why: The reason, a clause.
        is_refused: Whether it is not given; else it is given and called imprecise.
    """

    why: str
    is_refused: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """A size column whose largest value has a higher loss than its second largest.

    Attributes:
        column: The size column.
        low: Its second largest value.
        high: Its largest value.
        others: The other size columns.
    """

    column: str
    low: float
    high: float
    others: tuple[str, ...]

    def __str__(self) -> str:
        kinds = kinds_of((self.column, *self.others))
        start = "" if kinds.get(self.column) == "params" else f"{self.column} "
        ends = f"{_size(self.low)} to {_size(self.high)}"
        every = " and ".join(SPOKEN_SIZES.get(kinds.get(name, ""), name) for name in self.others)
        return f"the loss rises from {start}{ends}" + f" at every {every}" * bool(every)


SPOKEN_SIZES = {"params": "number of parameters", "tokens": "number of tokens"}


def half_width(prediction: LossPrediction, *, is_perplexity: bool = False) -> float:
    """Half of ln(upper / lower) of the 90 % interval of a new run.

    Args:
        prediction: Of the loss.
        is_perplexity: Whether it is that of a perplexity, whose logarithm is taken for the loss.
    """
    low, high = prediction.interval(JUDGED_LEVEL, new_run=True)
    if is_perplexity and low and high:
        low, high = max(math.log(low), 0.0), math.log(high)
    return 0.5 * math.log(high / low) if low and high else math.inf


def widest(first: float, last: float, *, is_perplexity: bool = False) -> float:
    """The half width up to which a loss is given: .2, or a quarter of the fall over the sweep.

    Args:
        first: The best loss that was measured at the smallest size.
        last: That at the largest size.
        is_perplexity: As for `half_width`.
    """
    fall = _log(first, is_perplexity) - _log(last, is_perplexity)
    return max(MOST_HALF_WIDTH, OF_FALL * fall)


def doubt_loss(
    size: Mapping[str, float],
    *,
    half_widths: Callable[[Sequence[Mapping[str, float]]], Sequence[float]],
    box: Mapping[str, tuple[float, float]],
    limit: float,
) -> Doubt | None:
    """Whether a loss is known too roughly to be given, at a size or on the way to it.

    The way begins at the size clipped to the fitted ones. Of several columns beyond these, each
    alone and some together are followed too. So no size is given beyond one that is refused.

    Args:
        size: Size column → size.
        half_widths: Of sizes, see `half_width`.
        box: Size column → smallest and largest fitted size.
        limit: The half width that is allowed, see `widest`.

    References:
        Ours.
    """
    start = {c: min(max(v, box[c][0]), box[c][1]) for c, v in size.items()}
    octaves = {c: math.log2(v / start[c]) for c, v in size.items() if v != start[c]}
    ways: list[dict[str, float]] = [] if octaves else [{}]
    ways += [
        {c: octaves[c] for c in columns}
        for n in range(1, len(octaves) + 1)
        for columns in itertools.combinations(octaves, n)
    ]
    sizes = [point for way in ways for point in _points_to(size, start, way)]
    widths = np.asarray(half_widths(sizes))
    allowed = "" if limit <= MOST_HALF_WIDTH else ", a quarter of the fall over the sweep"
    allowed = f"more than ± {shown_half(limit)}{allowed}"
    if widths[-1] > limit:
        why = f"its 90 % interval is {_wide(widths[-1])}, {allowed}"
        return Doubt(why=why)
    if not np.any(widths > limit):
        return None
    nearest = int(np.argmax(widths > limit))
    where = name_size(sizes[nearest]).replace(NBSP, " ")
    there = f"the 90 % interval is {_wide(widths[nearest])}"
    why = f"nearer to the sweep, at {where}, {there}, {allowed}"
    return Doubt(why=why)


def _points_to(
    size: Mapping[str, float], start: Mapping[str, float], octaves: Mapping[str, float]
) -> list[dict[str, float]]:
    """The sizes at every step from a start to where some of the columns are those of a size."""
    distance = max(map(abs, octaves.values()), default=0.0)
    shares = np.arange(0.0, min(distance, FARTHEST_OCTAVES), STEP_OCTAVES) / (distance or 1.0)
    steps = [{c: start[c] * 2 ** (share * o) for c, o in octaves.items()} for share in shares]
    return [{**start, **step} for step in [*steps, {c: size[c] for c in octaves}]]


def imprecise_loss(half: float, *, held: float | None) -> Doubt | None:
    """Why the confidence in a loss that is given is low; None where it is not.

    Args:
        half: The half width, see `half_width`.
        held: The best loss at the largest measured size, if it lies in the interval.
    """
    if half > LOW_HALF_WIDTH:
        why = f"its 90 % interval is {_wide(half)}, more than ± {shown_half(LOW_HALF_WIDTH)}"
        return Doubt(why=why, is_refused=False)
    if held is None:
        return None
    why = f"its 90 % interval holds {format_value(held)}, the best loss of the largest size"
    return Doubt(why=why, is_refused=False)


def rises(
    optima: Sequence[Optimum],
    compute: Callable[[Mapping[str, float]], float | None],
    *,
    is_perplexity: bool = False,
) -> list[Rise]:
    """Size columns whose largest value has a higher loss than the second largest.

    The loss must rise at every value of the other columns that both have, and in the mean by more
    than two standard errors. Runs of the larger value that had no more compute are not compared.

    Args:
        optima: The sweep's, one per size.
        compute: The FLOPs of a run at a size, if they are known.
        is_perplexity: As for `half_width`.
    """
    with_loss = [o for o in optima if o.loss]
    columns = tuple(with_loss[0].size) if with_loss else ()
    all_rises = []
    for column in columns:
        others = tuple(c for c in columns if c != column)
        by_value: dict[float, dict[tuple[float, ...], Optimum]] = {}
        for o in with_loss:
            by_value.setdefault(o.size[column], {})[tuple(o.size[c] for c in others)] = o
        if len(by_value) < 2:
            continue
        low, high = sorted(by_value)[-2:]
        pairs = [
            (by_value[low][key], o) for key, o in by_value[high].items() if key in by_value[low]
        ]
        if not _all_rise(pairs, is_perplexity):
            continue
        flops = [tuple(compute(o.size) for o in pair) for pair in pairs]
        more = [not (a and b) or b > SAME_COMPUTE_FACTOR * a for a, b in flops]
        if _all_rise(
            [p for p, is_more in zip(pairs, more, strict=True) if is_more], is_perplexity
        ):
            all_rises.append(Rise(column=column, low=low, high=high, others=others))
    return all_rises


def _all_rise(pairs: Sequence[tuple[Optimum, Optimum]], is_perplexity: bool) -> bool:
    """Whether the second of each pair has the higher loss, by more than its errors explain."""
    if not pairs:
        return False
    logs = np.array([[_log(o.loss or 1.0, is_perplexity) for o in pair] for pair in pairs])
    errors = np.array([[_log_se(o, is_perplexity) for o in pair] for pair in pairs])
    changes = logs[:, 1] - logs[:, 0]
    se = float(np.sqrt((errors**2).sum())) / len(pairs)
    return bool(np.all(changes > 0) and changes.mean() > RISE_ERRORS * se)


def _log(loss: float, is_perplexity: bool) -> float:
    """Log of a loss in its own unit; of a perplexity of 1 or less as of a hardly larger one."""
    return (
        math.log(max(math.log(loss), LEAST_LOGARITHM_ARGUMENT))
        if is_perplexity
        else math.log(loss)
    )


def _log_se(optimum: Optimum, is_perplexity: bool) -> float:
    if optimum.paired_loss_se is None or not optimum.loss:
        return USUAL_LOSS_SE
    error = optimum.paired_loss_se / optimum.loss
    return (
        error / max(math.log(optimum.loss), LEAST_LOGARITHM_ARGUMENT) if is_perplexity else error
    )


def doubt_tuned(answer: Answer) -> Doubt | None:
    """Why tuned values are known too roughly to be given; None where they are known well.

    None is given where a run at the values to use diverges with a chance of more than 10 %, or
    where they are expected to cost more than 3 % of the loss. The width of an interval refuses
    nothing: a wide one at no cost is a flat value.

    Args:
        answer: The values to use.

    References:
        Ours.
    """
    if answer.refusal == "diverges":
        shown = format_percent(answer.chance, signed=False, digits=2)
        return Doubt(why=f"a run at the value to use diverges with a chance of {shown}")
    if answer.refusal == "costs":
        return Doubt(
            why=f"the predicted value is expected to cost {_percent(answer.mistuned)} of the loss"
        )
    return None


def _size(value: float) -> str:
    return format_quantity(value, digits=3)


def shown_half(half: float) -> str:
    """A half width in percent."""
    return f"{100 * half:.{0 if half >= 0.1 or half == round(half, 2) else 1}f} %"


def _wide(half: float) -> str:
    """An interval by its half width: in percent, or as a factor where that is large."""
    if half <= SHOWN_AS_PERCENT:
        return f"± {shown_half(half)}"
    factor = f"{math.exp(half):.2g}" if half <= MOST_SHOWN_HALF_WIDTH else "10 or more"
    return f"a factor of {factor} either way"


def _percent(log_change: float) -> str:
    if log_change > MOST_SHOWN_HALF_WIDTH:
        return f"{100 * math.expm1(MOST_SHOWN_HALF_WIDTH):.0f} % or more"
    percent = 100 * math.expm1(log_change)
    return f"{percent:.{0 if percent >= 10 else 1}f} %"
