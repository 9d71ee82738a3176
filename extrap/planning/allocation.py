"""`allocate`: a compute budget split between parameters and tokens, by three estimators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from extrap.errors import DataError, FitError, argument
from extrap.fitting import DISCREPANCY
from extrap.forecasting import Forecast, forecast
from extrap.planning.envelope import envelope_optima
from extrap.planning.lines import Optima, extend
from extrap.planning.parametric import FittedLaw, fit_chinchilla
from extrap.planning.points import Points, read_points
from extrap.planning.profiles import profile_optima
from extrap.planning.results import Allocation, Estimated
from extrap.reading.runs import RowKeywords
from extrap.records import Measure, Runs
from extrap.records.fields import require_level

ORDER = ("parametric", "isoflop", "envelope")
"""The first of those that the fewest flags name is the answer."""
FACTOR = 2.0
"""By which two estimates of N_opt may differ."""
FAR = 100.0
"""Times the largest compute of a run, or below the smallest."""
LEAST, MOST = 1.0, 1e100
"""Parameters, tokens or FLOPs that a budget may have."""
LARGEST_LOG_LOSS = 700.0
"""Beyond it a loss is not a number."""
FEW_LOST = 0.01
"""Share of replicates that may be lost without a word."""


def allocate(
    source: Any,
    *,
    flops: float,
    params: str | None = None,
    tokens: str | None = None,
    loss: str | None = None,
    compute: str | None = None,
    level: float = 0.95,
    fix: Mapping[str, float] | None = None,
    unique_tokens: float | None = None,
    inference_tokens: float | None = None,
    seed: int = 0,
    **rows: Unpack[RowKeywords],
) -> Allocation:
    """Split a training budget between parameters and tokens for the smallest loss.

    There are three estimators: the Chinchilla law fitted to all runs, the minima of isoFLOP
    profiles, and the envelope of losses. The law is the answer unless the runs contradict it and
    another estimator is possible, which a note then states; a warning states that estimators
    without such doubts disagree. Runs should differ in both N and D, each trained to the end of
    its schedule.

    The loss of profiles and envelope is the forecast of their lowest losses over compute. The
    interval of the law's loss covers the uncertainty of the law, a share of the change predicted
    since the largest compute of a run (0.15, or more if the smaller budgets predict the largest
    ones worse), the misfit of the best runs there, and the differences to other forms of the law
    that fit as well. `forecast_loss` is the loss that `extrap.forecast` of all runs predicts for
    the split. The other intervals hold if the form of the law is right.

    Args:
        source: Whatever `extrap.read_runs` takes, such as a path or a DataFrame; one row per run.
        flops: The budget C, in FLOPs as the runs count them.
        params: Column of parameters N; by its name if left out.
        tokens: Column of tokens D; by its name if left out.
        loss: Column of the final loss; by default `loss`, else by its name.
        compute: Column of the training FLOPs of every run; by default `flops` where the table has
            it, else C = 6 N D. Budgets are distinguished by it, and D follows from `C = k N^p D`.
        level: Of all intervals.
        fix: Pinned parameters of the law: E (the floor), c1 (α), c2 (β).
        unique_tokens: Available tokens; if given, also split the budget for repeated data.
        inference_tokens: Tokens to be served; if given, also find the cheapest model for training
            and serving that reaches the compute-optimal loss.
        seed: Seed of the bootstrap.
        rows: Which rows are read and how: `where`, `rename`, `let`, `final` and so on, as in
            `extrap.read_runs`.

    Returns:
        Parameters, tokens, loss and exponent with intervals, and every estimator's own.

    Raises:
        DataError: The source cannot be read, supports no estimator, or the split of the budget
            has less than one parameter or token.
        ValueError: An argument is out of range, or a pin is not a parameter of the law or is a
            floor above the losses.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, section 3. Muennighoff et al. (2023),
        arXiv 2305.16264, for repeated data. Sardana et al. (2024), arXiv 2401.00448, for serving.

    Example:
        >>> import pandas as pd
        >>> sizes = [(n, d) for n in (1e7, 4e7, 2e8, 1e9) for d in (1e9, 5e9, 3e10)]
        >>> table = pd.DataFrame(sizes, columns=["params", "tokens"])
        >>> table["loss"] = 1.7 + 400 / table["params"]**.34 + 400 / table["tokens"]**.34
        >>> round(allocate(table, flops=6e20).exponent.value, 3)
        0.5
    """
    (found,) = allocate_each(
        source,
        budgets=(flops,),
        params=params,
        tokens=tokens,
        loss=loss,
        compute=compute,
        level=level,
        fix=fix,
        unique_tokens=unique_tokens,
        inference_tokens=inference_tokens,
        seed=seed,
        **rows,
    )
    return found


def allocate_each(
    source: Any,
    *,
    budgets: Sequence[float],
    params: str | None = None,
    tokens: str | None = None,
    loss: str | None = None,
    compute: str | None = None,
    level: float = 0.95,
    fix: Mapping[str, float] | None = None,
    unique_tokens: float | None = None,
    inference_tokens: float | None = None,
    seed: int = 0,
    **rows: Unpack[RowKeywords],
) -> tuple[Allocation, ...]:
    """Split several budgets by one fit of the same runs; one `Allocation` each, in order.

    Args:
        source: As for `allocate`, like all that follows but the budgets.
        budgets: C of each, in FLOPs.
        params: As above.
        tokens: As above.
        loss: As above.
        compute: As above.
        level: As above.
        fix: As above.
        unique_tokens: As above.
        inference_tokens: As above.
        seed: As above.
        rows: As above.

    Raises:
        DataError: As from `allocate`.
        ValueError: As from `allocate`.
    """
    for flops in budgets:
        _check(flops=flops)
    _check(unique_tokens=unique_tokens, inference_tokens=inference_tokens)
    require_level(level)
    points = read_points(
        source, params=params, tokens=tokens, loss=loss, compute=compute, rows=rows
    )
    _check_floor(fix, float(points.loss.min()))
    estimators = _estimators(points, level=level, seed=seed, fix=fix)
    made = _forecast(points.runs, level=level, fix=fix)
    return tuple(
        _split(
            estimators,
            flops,
            points,
            made=made,
            level=level,
            unique_tokens=unique_tokens,
            inference_tokens=inference_tokens,
        )
        for flops in budgets
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Estimators:
    """What was fitted to the runs, whatever the budget.

    Attributes:
        law: The Chinchilla law; None where the runs do not support it.
        optima: Estimator → compute-optimal runs.
        refused: Estimator → why not.
    """

    law: FittedLaw | None
    optima: Mapping[str, Optima]
    refused: Mapping[str, str]


def _estimators(
    points: Points, *, level: float, seed: int, fix: Mapping[str, float] | None
) -> _Estimators:
    law: FittedLaw | None = None
    optima: dict[str, Optima] = {}
    refused: dict[str, str] = {}
    try:
        law = fit_chinchilla(
            points.params,
            points.tokens,
            points.loss,
            level=level,
            seed=seed,
            fix=fix,
            rule=points.rule,
        )
    except (DataError, FitError) as error:
        refused["parametric"] = str(error)
    for name, find in (("isoflop", profile_optima), ("envelope", envelope_optima)):
        try:
            optima[name] = find(points)
        except DataError as error:
            refused[name] = str(error)
    return _Estimators(law=law, optima=optima, refused=refused)


def _split(
    fitted: _Estimators,
    flops: float,
    points: Points,
    *,
    made: Forecast | None,
    level: float,
    unique_tokens: float | None,
    inference_tokens: float | None,
) -> Allocation:
    law, refused = fitted.law, dict(fitted.refused)
    estimators = {} if law is None else {"parametric": law.estimate(flops)}
    for name, optima in fitted.optima.items():
        try:
            estimators[name] = extend(optima, flops, level=level)
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
    doubts = {} if law is None else {"parametric": _doubts(law)}
    estimator, doubted, disagreeing = _choose(estimators, doubts)
    _check_split(estimators[estimator], flops)
    by_law = estimator == "parametric" or unique_tokens or inference_tokens
    return Allocation(
        flops=flops,
        level=level,
        estimator=estimator,
        estimators=estimators,
        refused=refused,
        law=None if law is None else law.fitted,
        extrapolation_ratio=ratio,
        discrepancy=DISCREPANCY if law is None else law.doubt.share,
        frontier_offset=None if law is None else law.doubt.offset,
        forecast_loss=_expected(made, estimators[estimator], level=level),
        repeated=law.repeated(flops, unique_tokens) if law and unique_tokens else None,
        serving=law.serving(flops, inference_tokens) if law and inference_tokens else None,
        warnings=(
            *disagreeing,
            *_distance_flags(points, flops),
            *(doubts.get("parametric", ()) if by_law else ()),
        ),
        notes=(*points.notes, *_lost(law), *doubted),
    )


def _choose(
    estimators: Mapping[str, Estimated], doubts: Mapping[str, Sequence[str]]
) -> tuple[str, list[str], list[str]]:
    """The answer's estimator, notes on those in doubt, flags of disagreement between the others.

    Args:
        estimators: Estimator → its split.
        doubts: Estimator → flags that speak against it alone.
    """
    sound = {n: e for n, e in estimators.items() if not doubts.get(n)} or estimators
    found = _disagreements(sound)
    order = [name for name in ORDER if name in sound]
    answer = min(order, key=lambda name: sum(name in pair for pair, _ in found))
    notes = [
        f"{name} is not the answer: {', '.join(doubts[name])}"
        for name in estimators
        if name not in sound
    ]
    return answer, notes, [flag for _, flag in found]


def _forecast(
    runs: Runs | None, *, level: float, fix: Mapping[str, float] | None
) -> Forecast | None:
    """What `extrap.forecast` makes of the same runs; None where it refuses them."""
    try:
        return forecast(runs, level=level, fix=fix)
    except (DataError, FitError):
        return None


def _expected(made: Forecast | None, found: Estimated, *, level: float) -> Measure:
    """The forecast at a split, with the interval of the mean of runs there."""
    if made is None:
        return Measure()
    at = (found.params.value or 0.0, found.tokens.value or 0.0)
    prediction = made.predict_loss(dict(zip(made.runs.sizes, at, strict=True)))
    if prediction is None or prediction.log_loss > LARGEST_LOG_LOSS:
        return Measure()
    return Measure(
        value=math.exp(prediction.log_loss), ci=prediction.interval(level, new_run=False)
    )


def _check(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{argument(name)} must be positive and finite, got {value:g}.")
        if value is not None and value > MOST:
            raise ValueError(
                f"{argument(name)} must be at most {MOST:g}, got {value:g}; check its unit."
            )


def _check_floor(fix: Mapping[str, float] | None, lowest: float) -> None:
    floor = (fix or {}).get("E", 0.0)
    if not 0 <= floor < lowest:
        raise ValueError(
            f"a pinned floor E must be at least 0 and below every loss, got {floor:g} with "
            f"the lowest loss {lowest:.4g}; pin a lower floor."
        )


def _check_split(found: Estimated, flops: float) -> None:
    for name, measure in (("parameters", found.params), ("tokens", found.tokens)):
        value = measure.value or 0.0
        if not LEAST <= value <= MOST:
            raise DataError(
                f"a split must have between 1 and {MOST:g} parameters and tokens, that of "
                f"{flops:g} FLOPs has {value:.2g} {name}; give a budget nearer to the "
                "runs."
            )


def _disagreements(
    estimators: Mapping[str, Estimated],
) -> list[tuple[tuple[str, str], str]]:
    """Pairs of estimators whose exponents or parameters cannot both be right, with a flag each."""
    flags = []
    for (first, a), (second, b) in itertools.combinations(estimators.items(), 2):
        pair = (first, second)
        if not _overlap(a, b):
            words = f"{first} {a.exponent.value:.3f} against {second} {b.exponent.value:.3f}"
            flags.append((pair, f"exponents-disagree: {words}"))
        ratio = (a.params.value or math.nan) / (b.params.value or math.nan)
        if max(ratio, 1 / ratio) > FACTOR:
            words = f"{first} and {second} by a factor of {max(ratio, 1 / ratio):.1f}"
            flags.append((pair, f"splits-disagree: {words}"))
    return flags


def _overlap(a: Estimated, b: Estimated) -> bool:
    (a_low, a_high), (b_low, b_high) = a.exponent.ci, b.exponent.ci
    assert None not in (a_low, a_high, b_low, b_high)
    return max(a_low or 0.0, b_low or 0.0) <= min(a_high or 0.0, b_high or 0.0)


def _doubts(law: FittedLaw) -> list[str]:
    flags = [f"law-in-doubt: {', '.join(law.fitted.flags)}"] if law.fitted.flags else []
    return [*flags, *law.doubt.flags]


def _distance_flags(points: Points, flops: float) -> list[str]:
    above, below = flops / float(points.flops.max()), flops / float(points.flops.min())
    if below >= 1 / FAR and above <= FAR:
        return []
    words = f"{above:.3g} times the largest" if above > FAR else f"{below:.3g} times the smallest"
    return [f"budget-far-from-runs: {words} compute of a run"]


def _lost(law: FittedLaw | None) -> list[str]:
    if law is None or law.share_lost <= FEW_LOST:
        return []
    return [
        f"{100 * law.share_lost:.1f} % of the bootstrap replicates have no best split and are "
        "left out, which makes the intervals of the law too narrow"
    ]
