"""Approach 1: the runs that no cheaper run beats, and the line through their sizes."""

from __future__ import annotations

import numpy as np

from extrap.errors import DataError
from extrap.planning.lines import Optima
from extrap.planning.points import Points

MIN_RUNS = 5
WIDTH = np.log(10.0) / 4
"""Of one class of compute, in which the best run counts: four a decade."""
CHOICE = np.log(4.0)
"""Least range of ln(D/N) in a class that is a choice; compute alone moves it by `WIDTH`."""


def envelope_optima(points: Points) -> Optima:
    """The best run of every class of compute, where no cheaper run is better.

    With final losses only, the envelope is coarse: its runs lie near the optimum, not on it. It
    is there to be compared with. Where most classes hold runs of about one split, it would give
    the design back as the answer.

    Raises:
        DataError: Fewer than five such runs, or most classes of compute have one split.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, section 3.1, on whole loss curves.
    """
    log_flops = np.log(points.flops)
    kind = np.floor((log_flops - log_flops.min()) / WIDTH)
    ratio = np.log(points.tokens / points.params)
    classes = _classes(kind)
    if 2 * sum(np.ptp(ratio[members]) >= CHOICE for members in classes) < len(classes):
        raise DataError(
            "the runs do not vary the split at equal compute: in most quarters of a "
            "decade of compute no two differ fourfold in tokens per parameter, so the "
            "design sets the best size; train several sizes at equal compute."
        )
    rows = [int(members[np.argmin(points.loss[members])]) for members in classes]
    best = np.inf
    kept = []
    for row in rows:
        if points.loss[row] < best:
            kept.append(row)
            best = points.loss[row]
    if len(kept) < MIN_RUNS:
        raise DataError(
            f"the envelope of losses needs {MIN_RUNS} runs that no cheaper run improves "
            f"on, a quarter of a decade of compute apart, got {len(kept)}; add budgets."
        )
    return Optima(
        log_flops=log_flops[kept],
        log_params=np.log(points.params[kept]),
        log_params_se=np.ones(len(kept)),
        is_known=False,
        loss=points.loss[kept],
        rule=points.rule,
        how=f"{len(kept)} runs that no cheaper run improves on",
    )


def _classes(kind: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(kind == value) for value in np.unique(kind)]
