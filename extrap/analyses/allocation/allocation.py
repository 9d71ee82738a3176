"""`allocate`: a compute budget split between parameters and tokens, by profiles or a law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Unpack

from extrap.analyses.allocation.budget_splits import Estimated, RepeatedData, Serving
from extrap.analyses.allocation.law import FittedLaw, fit_chinchilla
from extrap.analyses.allocation.points import Points, read_points
from extrap.analyses.allocation.profiles import Optima, profile_optima
from extrap.errors import DataError, FitError, argument
from extrap.fitting.one_thread import one_thread
from extrap.forecasting import Forecast, forecast
from extrap.reading.reader import RowKeywords
from extrap.records import Fit, Interval, Measure, Shown
from extrap.records.codec import shape
from extrap.records.fields import require, require_level, require_positive
from extrap.records.flags import Flag
from extrap.records.numbers import format_scientific

ESTIMATOR_ORDER = ("isoflop", "parametric")
"""The first that is possible is the answer: profiles know no form of the law."""
MOST_PARAMS_RATIO, MOST_EXPONENT_GAP = 2.0, 0.02
"""By which two estimates of N_opt, and of its exponent, may differ."""
FAR_COMPUTE_RATIO = 100.0
"""Budget over the largest compute of a run, or the smallest over the budget, above which a
flag says that it is far."""
LEAST_AMOUNT, MOST_AMOUNT = 1.0, 1e100
"""Parameters, tokens or FLOPs that a budget may have."""
LARGEST_LOG_LOSS = 700.0
"""Beyond it a loss is not a number."""
FEW_LOST = 0.01
"""Share of replicates that may be lost without a note."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Allocation(Shown):
    """A compute budget split between parameters and tokens.

    Attributes:
        flops: The budget C.
        level: Of all intervals.
        estimator: Key of `estimators`: the estimator of the answer.
        estimators: Estimator → its split, `isoflop` or `parametric`.
        refused: Estimator → reason why these runs do not support it.
        law: The fitted Chinchilla law; None where the runs do not support it.
        extrapolation_ratio: Budget / largest compute of a run.
        loss: The loss that is forecast for the split.
        repeated: The split on repeated data, if asked for.
        serving: The split that counts serving, if asked for.
        warnings: Reasons to doubt the answer, flags `name: detail`.
        notes: What was left out or decided, one sentence each.
    """

    flops: float
    level: float
    estimator: str
    estimators: Mapping[str, Estimated]
    refused: Mapping[str, str]
    law: Fit | None
    extrapolation_ratio: float
    loss: Measure
    repeated: RepeatedData | None = None
    serving: Serving | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> Estimated:
        """The split that is the answer."""
        return self.estimators[self.estimator]

    @property
    def params(self) -> Measure:
        """Compute-optimal parameters."""
        return self.chosen.params

    @property
    def tokens(self) -> Measure:
        """Compute-optimal tokens."""
        return self.chosen.tokens

    @property
    def tokens_per_param(self) -> Measure:
        """Their ratio."""
        return self.chosen.tokens_per_param

    @property
    def exponent(self) -> Measure:
        """Exponent of `N_opt ∝ C^a`."""
        return self.chosen.exponent

    @property
    def near_best(self) -> Interval:
        """Parameters whose loss is within .1 % of the best."""
        return self.chosen.near_best


def _law_summary(law: Fit) -> dict[str, Any]:
    """The fitted law in short."""
    return {
        "law": law.law,
        "parameters": law.parameters,
        "reference": dict(zip(law.columns, law.reference, strict=True)),
        "fixed": law.fixed,
        "flags": law.flags,
        "n_points": law.n_points,
    }


shape(
    Allocation,
    kind="extrap-allocation",
    omit=("refused",),
    add={
        "estimators": lambda allocation: {
            **allocation.estimators,
            **{name: {"refused": reason} for name, reason in allocation.refused.items()},
        },
        "law": lambda allocation: allocation.law and _law_summary(allocation.law),
        **{
            name: attrgetter(f"chosen.{name}")
            for name in ("params", "tokens", "exponent", "tokens_per_param", "near_best")
        },
    },
)


@one_thread
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

    Runs should differ in both N and D, each trained to the end of its schedule. There are two
    estimators: the minima of isoFLOP profiles, which answer where three budgets have one inside
    their sizes, and the Chinchilla law fitted to all runs, which answers otherwise. A flag states
    that they disagree. Intervals of a split hold if its estimator is right.

    The loss is a forecast with the structural error of one: by profiles that of their least losses
    over compute, else that of all runs at the split.

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
        Parameters, tokens, loss and exponent with intervals, the sizes whose loss is within .1 %
        of the best, and every estimator's own split.

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
    _check(flops=flops, unique_tokens=unique_tokens, inference_tokens=inference_tokens)
    require_level(level)
    points = read_points(
        source, params=params, tokens=tokens, loss=loss, compute=compute, rows=rows
    )
    fitted = fit_split(points, level=level, fix=fix, seed=seed)
    return fitted.at(flops, unique_tokens=unique_tokens, inference_tokens=inference_tokens)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedSplit:
    """What was fitted to runs, whatever the budget.

    Attributes:
        points: The runs.
        level: Of all intervals.
        law: The Chinchilla law; None where the runs do not support it.
        optima: Minima of the profiles; None where the runs have too few.
        refused: Estimator → why not.
        forecast: That of all runs, where there are no profiles; None where it is refused.
    """

    points: Points
    level: float
    law: FittedLaw | None
    optima: Optima | None
    refused: Mapping[str, str]
    forecast: Forecast | None

    def at(
        self,
        flops: float,
        *,
        unique_tokens: float | None = None,
        inference_tokens: float | None = None,
    ) -> Allocation:
        """The split of a budget; arguments and errors are those of `allocate`."""
        _check(flops=flops, unique_tokens=unique_tokens, inference_tokens=inference_tokens)
        splits: dict[str, Estimated] = {}
        refused, law = dict(self.refused), self.law
        if self.optima is not None:
            try:
                splits["isoflop"] = self.optima.split(flops, level=self.level)
            except DataError as error:
                refused["isoflop"] = str(error)
        if law is not None:
            splits["parametric"] = law.split(flops)
        if not splits:
            raise DataError(" ".join(f"{name}: {reason}" for name, reason in refused.items()))
        needs_law = bool(unique_tokens or inference_tokens)
        if law is None and needs_law:
            raise DataError(
                f"repeated data and serving need the fitted law, which these runs do not support: "
                f"{refused['parametric']}"
            )
        estimator = next(name for name in ESTIMATOR_ORDER if name in splits)
        _check_split(splits[estimator], flops)
        loss = self._loss(splits[estimator], estimator, flops)
        in_doubt = law.fitted.flags if law and (needs_law or estimator == "parametric") else ()
        return Allocation(
            flops=flops,
            level=self.level,
            estimator=estimator,
            estimators=splits,
            refused=refused,
            law=law.fitted if law else None,
            extrapolation_ratio=flops / float(self.points.flops.max()),
            loss=loss,
            repeated=law.repeated(flops, unique_tokens, loss) if law and unique_tokens else None,
            serving=law.serving(flops, inference_tokens, loss)
            if law and inference_tokens
            else None,
            warnings=(
                *_disagreement(splits),
                *_distance_flags(self.points, flops),
                *[Flag("law-in-doubt", ", ".join(in_doubt))] * bool(in_doubt),
            ),
            notes=(*self.points.notes, *_lost(law)),
        )

    def _loss(self, split: Estimated, estimator: str, flops: float) -> Measure:
        """The loss that is forecast: of least losses over compute, else of all runs."""
        if estimator == "isoflop" and self.optima is not None:
            return self.optima.expected_loss(flops, level=self.level)
        if self.forecast is None:
            return Measure()
        sizes = (split.params.value or 0.0, split.tokens.value or 0.0)
        size = dict(zip(self.forecast.runs.sizes, sizes, strict=True))
        prediction = self.forecast.predict_loss(size)
        if (
            self.forecast.doubt_loss(size) is not None
            or prediction is None
            or prediction.log_loss > LARGEST_LOG_LOSS
        ):
            return Measure()
        return Measure(
            value=math.exp(prediction.log_loss), ci=prediction.interval(self.level, new_run=False)
        )


@one_thread
def fit_split(
    points: Points, *, level: float = 0.95, fix: Mapping[str, float] | None = None, seed: int = 0
) -> FittedSplit:
    """Fit both estimators to runs, once for all budgets.

    Args:
        points: The runs, of `read_points`.
        level: Of all intervals.
        fix: Pinned parameters of the law: E, c1 (α), c2 (β).
        seed: Of the bootstrap.

    Raises:
        ValueError: A pin is not a parameter of the law or is a floor above the losses.
    """
    floor, lowest = (fix or {}).get("E", 0.0), float(points.loss.min())
    if not 0 <= floor < lowest:
        raise ValueError(
            f"a pinned floor E must be at least 0 and below every loss, got {floor:g} with "
            f"the lowest loss {lowest:.4g}; pin a lower floor."
        )
    law, optima, all_runs, refused = None, None, None, dict[str, str]()
    try:
        columns = (points.params, points.tokens, points.loss)
        law = fit_chinchilla(*columns, level=level, seed=seed, fix=fix, rule=points.rule)
    except (DataError, FitError) as error:
        refused["parametric"] = str(error)
    try:
        optima = profile_optima(points)
    except DataError as error:
        refused["isoflop"] = str(error)
        try:
            all_runs = forecast(points.runs, level=level, fix=fix)
        except (DataError, FitError):
            all_runs = None
    return FittedSplit(
        points=points, level=level, law=law, optima=optima, refused=refused, forecast=all_runs
    )


def _check(**amounts: float | None) -> None:
    for name, value in amounts.items():
        if value is not None:
            require_positive(argument(name), value)
            rule = f"{argument(name)} must be at most {MOST_AMOUNT:g}"
            require(value <= MOST_AMOUNT, rule, float(value), "check its unit")


def _check_split(split: Estimated, flops: float) -> None:
    for name, measure in (("parameters", split.params), ("tokens", split.tokens)):
        value = measure.value or 0.0
        if not LEAST_AMOUNT <= value <= MOST_AMOUNT:
            raise DataError(
                f"a split must have between 1 and {MOST_AMOUNT:g} parameters and tokens, that of "
                f"{flops:g} FLOPs has {value:.2g} {name}; give a budget nearer to the "
                "runs."
            )


def _disagreement(splits: Mapping[str, Estimated]) -> list[str]:
    """A flag where both estimators are possible and cannot both be right."""
    if len(splits) < 2:
        return []
    profiles, law = splits["isoflop"], splits["parametric"]
    details = []
    (low, high), (other_low, other_high) = profiles.exponent.ci, law.exponent.ci
    assert None not in (low, high, other_low, other_high)
    is_apart = (
        abs((profiles.exponent.value or 0.0) - (law.exponent.value or 0.0)) > MOST_EXPONENT_GAP
    )
    if is_apart and max(low or 0.0, other_low or 0.0) > min(high or 0.0, other_high or 0.0):
        details.append(
            f"exponent {profiles.exponent.value:.3f} by profiles, {law.exponent.value:.3f} by the "
            "law"
        )
    ratio = (law.params.value or math.nan) / (profiles.params.value or math.nan)
    if max(ratio, 1 / ratio) > MOST_PARAMS_RATIO:
        details.append(f"the law has {ratio:.2g} times the parameters")
    return [Flag("estimators-disagree", "; ".join(details))] * bool(details)


def _distance_flags(points: Points, flops: float) -> list[Flag]:
    above, below = flops / float(points.flops.max()), flops / float(points.flops.min())
    if below >= 1 / FAR_COMPUTE_RATIO and above <= FAR_COMPUTE_RATIO:
        return []
    times, which = (above, "largest") if above > FAR_COMPUTE_RATIO else (below, "smallest")
    far = f"{format_scientific(times)} times the {which} compute of a run"
    return [Flag("budget-far-from-runs", far)]


def _lost(law: FittedLaw | None) -> list[str]:
    if law is None or law.share_lost <= FEW_LOST:
        return []
    return [
        f"{100 * law.share_lost:.1f} % of the bootstrap replicates have no best split and are "
        "left out, which makes the intervals of the law too narrow"
    ]
