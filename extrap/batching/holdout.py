"""Batch sizes left out and predicted from the others: does the hyperbola forecast steps?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extrap.batching.replicates import PointsFit, fit_points
from extrap.batching.results import BatchGroup, BatchPoint, BatchPrediction
from extrap.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutBatch:
    """One batch size that the fit did not see.

    Attributes:
        batch: Batch size.
        steps: Measured: geometric mean over replicates.
        predicted: From the other batch sizes; `pi` is for a mean of as many replicates.
        is_beyond: Whether it lies outside the batch sizes of the fit.
        interpolated: The trivial answer: straight lines on log-log axes through the means of the
            others, the last one drawn on.
    """

    batch: float
    steps: float
    predicted: BatchPrediction
    is_beyond: bool
    interpolated: float

    @property
    def error(self) -> float:
        """Measured / predicted − 1."""
        return self.steps / self.predicted.value - 1

    @property
    def interpolation_error(self) -> float:
        """Measured / interpolated − 1."""
        return self.steps / self.interpolated - 1


def held_out_batches(
    group: BatchGroup, *, batches: Iterable[float] | None = None, together: bool = False
) -> tuple[HeldOutBatch, ...]:
    """Predict the steps at batch sizes from a fit without them.

    Args:
        group: A fitted group.
        batches: Which to leave out; default all at which the target was reached.
        together: Leave them out all at once; default one by one.

    Returns:
        One record a batch size, in the order given.

    Raises:
        DataError: A batch size was not measured, or too few are left.
    """
    wanted = group.batches if batches is None else tuple(batches)
    if unknown := [b for b in wanted if b not in group.batches]:
        raise DataError(
            f"only a batch size that reached the target can be held out, got {unknown[0]:g}; "
            f"there are {', '.join(f'{b:g}' for b in group.batches)}."
        )
    if together:
        found = _fit_without(group, wanted)
        return tuple(_held_out(group, batch, wanted, found) for batch in wanted)
    return tuple(
        _held_out(group, batch, (batch,), _fit_without(group, (batch,))) for batch in wanted
    )


def _fit_without(group: BatchGroup, left_out: tuple[float, ...]) -> PointsFit:
    points = [point for point in group.points if point.batch not in left_out]
    kept = [point for point in points if point.values]
    if len(kept) < 2 or sum(len(point.values) for point in kept) < 3:
        raise DataError(
            "the remaining table must have three measurements at two batch sizes or more, "
            f"got {len(kept)} batch sizes; hold out fewer."
        )
    return fit_points(points, level=group.level)


def _held_out(
    group: BatchGroup, batch: float, left_out: tuple[float, ...], found: PointsFit
) -> HeldOutBatch:
    kept = [p for p in group.points if p.batch not in left_out and p.values]
    (point,) = (p for p in group.points if p.batch == batch)
    assert point.steps is not None
    as_group = replace(
        group,
        region=found.fitted.region,
        quantile=found.fitted.quantile,
        log_sd=found.log_sd_of_mean(len(point.values)),
    )
    return HeldOutBatch(
        batch=batch,
        steps=point.steps,
        predicted=as_group.steps_at(batch),
        is_beyond=not kept[0].batch < batch < kept[-1].batch,
        interpolated=on_lines(kept, batch),
    )


def on_lines(points: Sequence[BatchPoint], batch: float) -> float:
    """The trivial answer: steps on straight lines between neighbours, log-log, the last drawn on.

    Args:
        points: Two or more that reached the target, batches ascending.
        batch: Batch size.
    """
    known = np.array([[math.log(p.batch), math.log(p.steps or math.nan)] for p in points])
    x = math.log(batch)
    i = int(np.clip(np.searchsorted(known[:, 0], x), 1, len(known) - 1))
    (x0, y0), (x1, y1) = known[i - 1], known[i]
    return math.exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
