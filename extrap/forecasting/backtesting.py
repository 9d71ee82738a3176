"""Backtest: fit the small sizes of a sweep, predict the others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd

from extrap.errors import DataError, ExtrapError, argument
from extrap.fitting.one_thread import one_thread
from extrap.fitting.splits import Split, rolling_origin
from extrap.fitting.transfer_rules import cost_of_rules
from extrap.forecasting import Forecast, forecast
from extrap.reading.reader import ReadingKeywords, as_runs
from extrap.records import Interval, Optimum, RuleRegret, Runs, Shown
from extrap.records.codec import document, shape
from extrap.records.fields import ROUNDING

COVERAGE_LEVELS = (0.5, 0.8, 0.9)
"""Levels at which coverage is counted."""
BINS = (("up to 1", 1.0), ("1 to 2", 2.0), ("2 to 4", 4.0), ("4 to 8", 8.0), ("above 8", math.inf))
"""Extrapolation ratios that are summarised together: label and upper end, included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdout:
    """The prediction of one held-out size from others, and the observed loss.

    Attributes:
        size: Size column → value.
        n_fitted: Number of sizes the forecast was fitted to.
        extrapolation_ratio: Held-out / fitted sizes, see `extrap.fitting.extrapolation_ratio`.
        observed: Loss of the whole sweep there: at the fitted optimum, or the mean if nothing is
            tuned; in the unit of the runs.
        observed_log_se: Its standard error in log loss; None where it is not known.
        predicted: The forecast's loss, same unit.
        predicted_pi: Prediction interval of `observed` at the level of the backtest; it covers the
            uncertainty of the law and the standard error of `observed`.
        deviation: observed / predicted − 1.
        p_value: Two-sided, of the deviation.
        covered: Level → whether the interval holds `observed`.
        last_value: The trivial forecast: the loss of the nearest fitted size that is not larger;
            None where it has none.
        last_deviation: observed / last_value − 1.
        tuned_octaves: Tuned column → log2(optimum found / optimum predicted); None where one of
            them has no point estimate.
        rules: What the fitted law and known rules, from the fitted sizes, say of the tuned values,
            and what following them would cost by all runs of the sweep; cheapest first.
    """

    size: Mapping[str, float]
    n_fitted: int
    extrapolation_ratio: float
    observed: float
    observed_log_se: float | None
    predicted: float
    predicted_pi: Interval
    deviation: float
    p_value: float
    covered: Mapping[float, bool]
    last_value: float | None
    last_deviation: float | None
    tuned_octaves: Mapping[str, float | None]
    rules: tuple[RuleRegret, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Backtest(Shown):
    """All predictions of held-out sizes, and their scores.

    Attributes:
        runs: The sweep.
        level: Level of the intervals in `holdouts`, in (0, 1).
        n_sizes: Sizes of the sweep.
        holdouts: One per prediction, fewest fitted sizes first.
        failures: Why predictions could not be made or judged, and how many; most frequent first.
    """

    runs: Runs
    level: float
    n_sizes: int
    holdouts: tuple[Holdout, ...]
    failures: tuple[tuple[str, int], ...]

    @property
    def n_failed(self) -> int:
        """Predictions that could not be made or judged."""
        return sum(count for _, count in self.failures)

    def to_dict(self) -> dict[str, Any]:
        """What `extrap backtest --json` prints of it, in plain JSON types."""
        from extrap.reporting.text import answer_text

        return document(self, answer=answer_text(self))

    def frame(self) -> pd.DataFrame:
        """One row per prediction.

        Columns: the sizes, the fields of `Holdout` (intervals as `_lower` and `_upper`, coverage
        as `covered_50` …), and `NAME_octaves` for each tuned column.
        """
        return pd.DataFrame([_row(holdout) for holdout in self.holdouts])

    def summary(self) -> pd.DataFrame:
        """One row per bin of extrapolation ratios that holds a prediction, and one for all.

        Columns: `extrapolation_ratio` (label of the bin), `n`, `coverage_50`, `coverage_80`,
        `coverage_90`, `bias` (mean log deviation),
        `rms_error` (root mean square log deviation), `last_value_rms_error` and `skill`, 1 −
        rms_error / last_value_rms_error, both over the predictions that have a last value;
        missing where none has.
        """
        groups = [(label, [h for h in self.holdouts if _bin(h) == label]) for label, _ in BINS]
        rows = [_summarised(label, group) for label, group in groups if group]
        table = pd.DataFrame([*rows, _summarised("all", self.holdouts)])
        return table.astype({"last_value_rms_error": float, "skill": float})

    def rule_costs(self) -> pd.DataFrame:
        """One row per tuned column and rule, that of the fitted law among them, cheapest first.

        Columns: `tuned`, `rule`, `n` (held-out sizes), `mean_cost` and `largest_cost` (log excess
        over the best value there), `rms_octaves` (from the optimum there).
        """
        rules = [asdict(rule) for holdout in self.holdouts for rule in holdout.rules]
        columns = ["tuned", "rule", "n", "mean_cost", "largest_cost", "rms_octaves"]
        if not rules:
            return pd.DataFrame(columns=columns)
        table = (
            pd.DataFrame(rules)
            .assign(square=lambda frame: frame["octaves"] ** 2)
            .groupby(["tuned", "rule"], sort=False)
            .agg(
                n=("value", "count"),
                mean_cost=("expected_regret", "mean"),
                largest_cost=("expected_regret", "max"),
                rms_octaves=("square", lambda squares: math.sqrt(squares.mean())),
            )
        )
        return table.reset_index().sort_values(["tuned", "mean_cost"], ignore_index=True)


@one_thread
def backtest(
    runs: Any,
    *,
    level: float = 0.9,
    band: str = "default",
    fix: Mapping[str, float] | None = None,
    prior: str = "published",
    min_sizes: int | None = None,
    **columns: Unpack[ReadingKeywords],
) -> Backtest:
    """Fit the smallest k sizes of a sweep, predict every larger one, for growing k.

    The forecasts are those of `extrap.forecast`, noise and optima from the fitted sizes alone. A
    held-out size is judged by the loss the whole sweep shows there, with its own standard error.

    Args:
        runs: A sweep, as `extrap.forecast` takes it; only rows of stage `tune` are used.
        level: Level of the reported intervals, in (0, 1). Coverage is counted at 50, 80 and 90 %.
        band: As in `extrap.forecast`.
        fix: As in `extrap.forecast`.
        prior: As in `extrap.forecast`.
        min_sizes: Smallest k; by default 4 and at least a quarter of the
            sizes, and 3 where there are fewer than six.
        columns: How the runs are read, as for `extrap.forecast`.

    Returns:
        The predictions; those that could not be made or judged are counted with their reasons.

    Raises:
        TypeError: As `extrap.read_runs`.
        ValueError: `min_sizes` is below 3, or as `extrap.forecast`.
        DataError: `extrap.forecast` refuses the sweep, it has too few sizes, or no prediction
            could be made and judged.

    Example:
        >>> import extrap
        >>> backtested = extrap.backtest("examples/sweep.csv")
        >>> len(backtested.holdouts), backtested.n_failed
        (10, 0)
    """
    make = partial(forecast, level=level, band=band, fix=fix, prior=prior)
    whole = make(as_runs(runs, columns))
    if "accuracy-refused" in whole.flags:
        raise DataError(
            "a backtest predicts losses, and an accuracy follows no law of size; backtest the "
            f"loss of the same runs, or say {argument('loss_kind', 'error')} if 1 − accuracy "
            "falls as a loss does."
        )
    sizes = [optimum.size for optimum in whole.optima]
    holdouts: list[Holdout] = []
    failures: Counter[str] = Counter()
    for split in rolling_origin(sizes, min_sizes=min_sizes):
        predicted, reasons = _predict(make, whole, split)
        holdouts += predicted
        failures.update(reasons)
    if not holdouts:
        common = " ".join(dict(failures.most_common(2)))
        raise DataError(f"no size could be predicted from the others: {common}")
    return Backtest(
        runs=whole.runs,
        level=level,
        n_sizes=len(sizes),
        holdouts=tuple(holdouts),
        failures=tuple(failures.most_common()),
    )


def _predict(
    make: Callable[[Runs], Forecast], whole: Forecast, split: Split
) -> tuple[list[Holdout], list[str]]:
    """The predictions of one split, and a reason for each that could not be made or judged."""
    held_out = [whole.optima[i] for i in split.held_out]
    try:
        fitted = make(_at_sizes(whole.runs, [whole.optima[i].size for i in split.fitted]))
    except ExtrapError as error:
        return [], [str(error)] * len(held_out)
    holdouts, reasons = [], []
    for optimum in held_out:
        try:
            holdouts.append(_hold(fitted, optimum, whole=whole))
        except (ExtrapError, ValueError) as error:  # a law can leave the range of losses
            reasons.append(str(error))
    return holdouts, reasons


def _at_sizes(sweep: Runs, sizes: Sequence[Mapping[str, float]]) -> Runs:
    """The rows of a sweep at these sizes."""
    frame = sweep.to_frame()
    fitted = pd.MultiIndex.from_frame(pd.DataFrame(sizes)[list(sweep.sizes)].astype(float))
    rows = pd.MultiIndex.from_frame(frame[list(sweep.sizes)].astype(float))
    return Runs.from_frame(
        frame[rows.isin(fitted)],
        sizes=sweep.sizes,
        tuned=sweep.tuned,
        conditions=sweep.conditions,
        source=sweep.source,
        notes=sweep.notes,
    )


def _hold(fitted: Forecast, optimum: Optimum, *, whole: Forecast) -> Holdout:
    """Hold what the whole sweep shows at a size against a forecast from other sizes."""
    size, observed = dict(optimum.size), optimum.loss
    prediction = None if fitted.doubt_loss(size) is not None else fitted.predict_loss(size)
    if observed is None or not optimum.bracketed:
        raise DataError(
            "a held-out size has no bracketed optimum to compare with; extend its grid."
        )
    if prediction is None and fitted.loss_model is not None:
        raise DataError(
            "the loss is refused at the held-out size; add sizes below it, or more seeds."
        )
    if prediction is None:
        raise DataError(
            "too few of the fitted sizes have a finished run for a law of the loss; let more of "
            "them finish."
        )
    se = optimum.paired_loss_se
    log_se = None if se is None else se / observed
    if log_se is not None:  # in place of the noise of a single run
        prediction = replace(prediction, run=((log_se**2, max(whole.noise.own_dof, 1)),))
    predicted, last = math.exp(prediction.log_loss), _last_value(fitted, size)
    return Holdout(
        size=size,
        n_fitted=len(fitted.optima),
        extrapolation_ratio=fitted.extrapolation_ratio(size),
        observed=observed,
        observed_log_se=log_se,
        predicted=predicted,
        predicted_pi=prediction.interval(fitted.level, new_run=True),
        deviation=observed / predicted - 1,
        p_value=prediction.p_value(observed),
        covered={
            level: observed in prediction.interval(level, new_run=True)
            for level in COVERAGE_LEVELS
        },
        last_value=last,
        last_deviation=None if last is None else observed / last - 1,
        tuned_octaves=_tuned_octaves(fitted, optimum),
        rules=_rules(fitted, whole, size),
    )


def _rules(fitted: Forecast, whole: Forecast, size: Mapping[str, float]) -> tuple[RuleRegret, ...]:
    """What rules and the law of some sizes say at a larger one, at its cost by the whole sweep."""
    values, truth = fitted.values_at(size), whole.values_at(size)
    if values is None or truth is None or not fitted.is_tuned_at(size):
        return ()
    return cost_of_rules(truth, fitted.rule_values(size, values.recommendation.tuned))


def _last_value(fitted: Forecast, size: Mapping[str, float]) -> float | None:
    """The loss of the nearest fitted size that is larger in no column."""
    smaller = [
        (math.dist(_logs(o.size), _logs(size)), o.loss or o.best_loss)
        for o in fitted.optima
        if all(o.size[column] <= value for column, value in size.items())
    ]
    return min(((d, loss) for d, loss in smaller if loss is not None), default=(0.0, None))[1]


def _logs(size: Mapping[str, float]) -> list[float]:
    return [math.log(value) for value in size.values()]


def _tuned_octaves(fitted: Forecast, optimum: Optimum) -> dict[str, float | None]:
    if not fitted.is_tuned_at(optimum.size):
        return dict.fromkeys(optimum.tuned)
    values = fitted.values_at(optimum.size)
    assert values is not None
    optima = {name: estimate.value or math.nan for name, estimate in optimum.tuned.items()}
    return dict(zip(optima, values.octaves(optima).tolist(), strict=True))


def _row(holdout: Holdout) -> dict[str, Any]:
    nested = ("size", "predicted_pi", "covered", "tuned_octaves", "rules")
    row = {**holdout.size, **{k: v for k, v in asdict(holdout).items() if k not in nested}}
    row["predicted_pi_lower"], row["predicted_pi_upper"] = holdout.predicted_pi
    row |= {f"covered_{100 * level:g}": inside for level, inside in holdout.covered.items()}
    return row | {f"{name}_octaves": value for name, value in holdout.tuned_octaves.items()}


def _bin(holdout: Holdout) -> str:
    ratio = holdout.extrapolation_ratio * (1 - ROUNDING)
    return next(label for label, upper in BINS if ratio <= upper)


def _summarised(label: str, holdouts: Sequence[Holdout]) -> dict[str, Any]:
    log_errors = [math.log1p(h.deviation) for h in holdouts]
    compared = [h for h in holdouts if h.last_deviation is not None]
    rms_last = _rms([math.log1p(h.last_deviation or 0.0) for h in compared])
    rms_compared = _rms([math.log1p(h.deviation) for h in compared])
    return {
        "extrapolation_ratio": label,
        "n": len(holdouts),
        **{
            f"coverage_{100 * level:g}": float(np.mean([h.covered[level] for h in holdouts]))
            for level in COVERAGE_LEVELS
        },
        "bias": float(np.mean(log_errors)),
        "rms_error": _rms(log_errors),
        "last_value_rms_error": rms_last,
        "skill": 1 - rms_compared / rms_last if rms_compared is not None and rms_last else None,
    }


def _rms(values: Sequence[float]) -> float | None:
    return math.sqrt(sum(v * v for v in values) / len(values)) if values else None


shape(
    Holdout,
    add={"covered": lambda held: {f"{at:g}": inside for at, inside in held.covered.items()}},
)
shape(
    Backtest,
    kind="extrap-backtest",
    omit=("runs",),
    add={
        "data_hash": lambda backtested: backtested.runs.data_hash(),
        "summary": lambda backtested: backtested.summary(),
        "rules": lambda backtested: backtested.rule_costs(),
        "n_failed": lambda backtested: backtested.n_failed,
        "failures": lambda backtested: [{"reason": why, "n": n} for why, n in backtested.failures],
    },
)
