"""`allocate`: a compute budget split between parameters and tokens, by three estimators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import pandas as pd

from extrap.errors import DataError, FitError
from extrap.planning.envelope import envelope_optima
from extrap.planning.lines import extend
from extrap.planning.parametric import FittedLaw, fit_chinchilla
from extrap.planning.points import Points, read_points
from extrap.planning.profiles import profile_optima
from extrap.planning.results import Allocation, Estimated
from extrap.records import Runs

__all__ = ["allocate", "disagreements"]

ORDER = ("parametric", "isoflop", "envelope")
"""The first that the runs support is the answer."""
FACTOR = 2.0
"""By which two estimates of N_opt may differ."""
FAR = 100.0
"""Times the largest compute of a run, or below the smallest."""
LEAST, MOST = 1.0, 1e100
"""Parameters, tokens or FLOPs that a budget may have."""
FEW_LOST = 0.01
"""Share of replicates that may be lost without a word."""


def allocate(
    source: str | Path | TextIO | pd.DataFrame | Runs,
    *,
    flops: float,
    params: str = "params",
    tokens: str = "tokens",
    loss: str = "loss",
    level: float = 0.95,
    fix: Mapping[str, float] | None = None,
    unique_tokens: float | None = None,
    inference_tokens: float | None = None,
    seed: int = 0,
) -> Allocation:
    """Split a training budget `C = 6 N D` between parameters and tokens at the smallest loss.

    Three estimators side by side: the Chinchilla law fitted to all runs (the answer, where
    possible), the minima of isoFLOP profiles, and the envelope of losses; a warning says when
    they disagree. Runs should differ in both N and D, each trained to the end of its schedule.

    Args:
        source: A CSV, Parquet or JSONL file, open CSV text, a DataFrame, or `Runs`; one row a run.
        flops: The budget C, in FLOPs.
        params: Column of parameters N.
        tokens: Column of tokens D.
        loss: Column of the final loss.
        level: Of all intervals.
        fix: Pinned parameters of the law: E (the floor), c1 (α), c2 (β).
        unique_tokens: Tokens there are; also split the budget with these repeated.
        inference_tokens: Tokens to be served; also find the cheapest model for training and
            serving that reaches the compute-optimal loss.
        seed: Of the bootstrap.

    Returns:
        Parameters, tokens, loss and exponent with intervals, and every estimator's own.

    Raises:
        DataError: The source cannot be read, supports no estimator, or the split of the budget
            has less than one parameter or token.
        ValueError: An argument is out of range, or a pin is no parameter of the law or a floor
            above the losses.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, section 3. Muennighoff et al. (2023),
        arXiv 2305.16264, for repeated data. Sardana et al. (2024), arXiv 2401.00448, for serving.

    Example:
        >>> sizes = [(n, d) for n in (1e7, 4e7, 2e8, 1e9) for d in (1e9, 5e9, 3e10)]
        >>> table = pd.DataFrame(sizes, columns=["params", "tokens"])
        >>> table["loss"] = 1.7 + 400 / table["params"]**.34 + 400 / table["tokens"]**.34
        >>> round(allocate(table, flops=6e20).exponent.value, 3)
        0.5
    """
    _check(flops=flops, unique_tokens=unique_tokens, inference_tokens=inference_tokens)
    if not 0 < level < 1:
        raise ValueError(
            f"level must lie in (0, 1), got {level:g}; write 0.95 for a 95 % interval."
        )
    points = read_points(source, params=params, tokens=tokens, loss=loss)
    _check_floor(fix, float(points.loss.min()))
    estimators: dict[str, Estimated] = {}
    refused: dict[str, str] = {}
    law: FittedLaw | None = None
    try:
        law = fit_chinchilla(
            points.params, points.tokens, points.loss, level=level, seed=seed, fix=fix
        )
        estimators["parametric"] = law.estimate(flops)
    except (DataError, FitError) as error:
        refused["parametric"] = str(error)
    for name, find in (("isoflop", profile_optima), ("envelope", envelope_optima)):
        try:
            estimators[name] = extend(find(points), flops, level=level)
        except DataError as error:
            refused[name] = str(error)
    if not estimators:
        raise DataError(" ".join(f"{name}: {reason}" for name, reason in refused.items()))
    if law is None and (unique_tokens or inference_tokens):
        raise DataError(
            f"repeated data and serving need the fitted law, which these runs do not support: "
            f"{refused['parametric']}"
        )
    ratio = flops / float(points.flops.max())
    estimator = next(name for name in ORDER if name in estimators)
    _check_split(estimators[estimator], flops)
    return Allocation(
        flops=flops,
        level=level,
        estimator=estimator,
        estimators=estimators,
        refused=refused,
        law=None if law is None else law.fitted,
        extrapolation_ratio=ratio,
        repeated=law.repeated(flops, unique_tokens) if law and unique_tokens else None,
        serving=law.serving(flops, inference_tokens) if law and inference_tokens else None,
        warnings=(*disagreements(estimators), *_distance(points, flops), *_doubts(law)),
        notes=(*points.notes, *_lost(law)),
    )


def _check(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, got {value:g}.")
        if value is not None and value > MOST:
            raise ValueError(f"{name} must be {MOST:g} at most, got {value:g}; look at its unit.")


def _check_floor(fix: Mapping[str, float] | None, lowest: float) -> None:
    floor = (fix or {}).get("E", 0.0)
    if not 0 <= floor < lowest:
        raise ValueError(
            f"a pinned floor E is not negative and below every loss, got {floor:g} where the "
            f"lowest loss is {lowest:.4g}; pin a floor that the runs have not passed."
        )


def _check_split(found: Estimated, flops: float) -> None:
    for name, measure in (("parameters", found.params), ("tokens", found.tokens)):
        value = measure.value or 0.0
        if not LEAST <= value <= MOST:
            raise DataError(
                f"a split has one parameter and one token at least and {MOST:g} at most, that of "
                f"{flops:g} FLOPs has {value:.2g} {name}; give a budget nearer to the runs."
            )


def disagreements(estimators: Mapping[str, Estimated]) -> list[str]:
    """Pairs of estimators whose exponents or parameters cannot both be right."""
    found = []
    for (first, a), (second, b) in itertools.combinations(estimators.items(), 2):
        if not _overlap(a, b):
            found.append(
                f"{first} and {second} disagree on the exponent of N_opt, {a.exponent.value:.3f} "
                f"and {b.exponent.value:.3f}, beyond their intervals: look at the runs before "
                "spending the budget"
            )
        ratio = (a.params.value or math.nan) / (b.params.value or math.nan)
        if max(ratio, 1 / ratio) > FACTOR:
            found.append(
                f"{first} and {second} put N_opt a factor of {max(ratio, 1 / ratio):.1f} apart: "
                "add runs at a larger compute, around the optimum"
            )
    return found


def _overlap(a: Estimated, b: Estimated) -> bool:
    (a_low, a_high), (b_low, b_high) = a.exponent.ci, b.exponent.ci
    assert None not in (a_low, a_high, b_low, b_high)
    return max(a_low or 0.0, b_low or 0.0) <= min(a_high or 0.0, b_high or 0.0)


def _doubts(law: FittedLaw | None) -> list[str]:
    if law is None or not law.fitted.flags:
        return []
    return [
        f"the fitted law is doubtful ({', '.join(law.fitted.flags)}): add runs or pin its floor"
    ]


def _distance(points: Points, flops: float) -> list[str]:
    above, below = flops / float(points.flops.max()), flops / float(points.flops.min())
    if below >= 1 / FAR and above <= FAR:
        return []
    words = f"{above:.3g} times the largest" if above > FAR else f"{below:.3g} times the smallest"
    return [f"the budget is {words} compute of a run: the intervals hold only if the law does"]


def _lost(law: FittedLaw | None) -> list[str]:
    if law is None or law.share_lost <= FEW_LOST:
        return []
    return [
        f"{law.share_lost:.1%} of the replicates of the runs have no best split and are left out "
        "of the law's intervals, which are too narrow by as much"
    ]
