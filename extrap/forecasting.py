"""From a sweep to a forecast: optima, two laws over size, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from scipy import stats

from extrap.errors import DataError
from extrap.fitting import (
    LossPrediction,
    Noise,
    Valley,
    estimate_noise,
    estimate_optima,
    fit_optimum_law,
    fit_surviving_laws,
    fit_valley,
    predict_log,
    relative_sizes,
)
from extrap.records import (
    Estimate,
    Fit,
    Interval,
    Optimum,
    Point,
    Runs,
    condition_text,
)

__all__ = ["Forecast", "forecast"]

MIN_SIZES = 3
"""Fewer sizes than this carry no law and no residual."""
DISCREPANCY = 0.15
"""Structural error of the laws: a fraction of the predicted change since the last fitted size."""
FAR = 8.0
"""Beyond this extrapolation ratio an interval is conditional on no new regime setting in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Runs, optima and fitted laws together.

    Attributes:
        runs: The sweep the laws were fitted to.
        level: Level of all intervals, in (0, 1).
        optima: One a size, smallest first.
        noise: Run-to-run noise of the log loss.
        loss_laws: Every loss law that could be fitted, with its weight; empty if none could.
        tuned_laws: Tuned column → law of its optimum, or None where it could not be fitted.
        valley: What a mistuned value costs, or None.
        flags: Named reasons to doubt every point.
        created: When it was made, UTC, ISO 8601.
    """

    runs: Runs
    level: float
    optima: tuple[Optimum, ...]
    noise: Noise
    loss_laws: tuple[tuple[Fit, float], ...]
    tuned_laws: Mapping[str, Fit | None]
    valley: Valley | None
    flags: tuple[str, ...]
    created: str

    def at(self, /, **size: float) -> Point:
        """The forecast at one size, given by size column.

        Args:
            size: One positive number a size column, not below the smallest fitted one.

        Raises:
            ValueError: A size column is missing, unknown, or out of range.
        """
        target = self._checked(size)
        prediction = self.predict_loss(target)
        ratio = max(target[c] / high for c, (_, high) in self._fitted_range().items())
        flags = [*self.flags]
        if ratio > FAR:
            flags.append("far-extrapolation")
        if prediction is None:
            best = self.optima[-1].best_loss
            loss_ci = loss_pi = Interval(None, best)
        else:
            loss_ci = prediction.interval(self.level, new_run=False)
            loss_pi = prediction.interval(self.level, new_run=True)
        return Point(
            size=target,
            loss=None if prediction is None else _exp(prediction.log_loss),
            loss_ci=loss_ci,
            loss_pi=loss_pi,
            tuned=self.predict_tuned(target),
            extrapolation_ratio=float(ratio),
            flags=tuple(flags),
        )

    def predict_loss(self, size: Mapping[str, float]) -> LossPrediction | None:
        """Predictive distribution of the log loss of a tuned run, or None without a loss law.

        The surviving laws are mixed; beyond the fitted sizes the variance also holds a structural
        discrepancy, a fraction `DISCREPANCY` of the predicted change since the last fitted size.
        """
        if not self.loss_laws:
            return None
        centre, variance = self._mixture(size)
        inside = {c: min(size[c], high) for c, (_, high) in self._fitted_range().items()}
        change = centre - self._mixture(inside)[0]
        kept = [fit for fit, weight in self.loss_laws if weight > 0]
        dof = min(fit.scale_dof for fit in kept)
        curve = [(variance, dof), ((DISCREPANCY * change) ** 2, math.inf)]
        noise = self.noise
        if noise.own_sd is None:  # no replicates: the scatter about the law is all there is
            run = [(max(fit.scatter for fit in kept) ** 2, dof)]
        else:
            run = [(noise.own_sd**2, noise.own_dof)]
        if noise.shared_sd > 0:
            curve.append((noise.shared_sd**2 / noise.n_seeds, noise.shared_dof))
            run.append((noise.shared_sd**2, noise.shared_dof))
        return LossPrediction(log_loss=centre, curve=tuple(curve), run=tuple(run))

    def predict_tuned(self, size: Mapping[str, float]) -> dict[str, Estimate]:
        """Where the optimum of each tuned value lies at a size."""
        return {name: self._tuned_at(name, size) for name in self.runs.tuned}

    def predict_excess(
        self, size: Mapping[str, float], tuned: Mapping[str, float]
    ) -> float | None:
        """Expected excess of a run at these tuned values, in log loss (nats of ln loss, ≥ 0).

        None where an optimum or the valley around it is unknown.
        """
        centre = {name: estimate.value for name, estimate in self.predict_tuned(size).items()}
        if self.valley is None or any(value is None for value in centre.values()):
            return None
        octaves = [math.log2(tuned[n] / (centre[n] or 1.0)) for n in self.runs.tuned]
        return self.valley.excess(octaves, size)

    def frame(self, sizes: Iterable[Mapping[str, float]]) -> pd.DataFrame:
        """The forecast at many sizes as a table, one row a size.

        Columns: the sizes, `loss`, `loss_ci_lower` … `loss_pi_upper`, for each tuned value the
        same, and `extrapolation_ratio`. Open sides are missing values.

        Raises:
            ValueError: As `at`.
        """
        rows = []
        for size in sizes:
            point = self.at(**size)
            row: dict[str, float | None] = {
                **point.size,
                "loss": point.loss,
                "loss_ci_lower": point.loss_ci.lower,
                "loss_ci_upper": point.loss_ci.upper,
                "loss_pi_lower": point.loss_pi.lower,
                "loss_pi_upper": point.loss_pi.upper,
            }
            for name, estimate in point.tuned.items():
                row[name] = estimate.value
                for kind, interval in (("ci", estimate.ci), ("pi", estimate.pi)):
                    row[f"{name}_{kind}_lower"], row[f"{name}_{kind}_upper"] = interval
            row["extrapolation_ratio"] = point.extrapolation_ratio
            rows.append(row)
        return pd.DataFrame(rows)

    def default_targets(self) -> list[dict[str, float]]:
        """Twice, four and eight times the largest fitted size, all size columns together."""
        largest = {c: high for c, (_, high) in self._fitted_range().items()}
        return [{c: v * factor for c, v in largest.items()} for factor in (2, 4, 8)]

    def last_value(self) -> float | None:
        """The trivial forecast: the optimal loss at the largest tuned size."""
        losses = [o.loss if o.loss is not None else o.best_loss for o in self.optima]
        return losses[-1]

    def _fitted_range(self) -> dict[str, tuple[float, float]]:
        fit = self.loss_laws[0][0] if self.loss_laws else None
        if fit is not None:
            return dict(zip(fit.columns, fit.fitted_range, strict=True))
        sizes = {c: [o.size[c] for o in self.optima] for c in self.runs.sizes}
        return {c: (min(values), max(values)) for c, values in sizes.items()}

    def _checked(self, size: Mapping[str, float]) -> dict[str, float]:
        expected = ", ".join(self.runs.sizes)
        if set(size) != set(self.runs.sizes):
            raise ValueError(
                f"a forecast needs exactly the size column(s) {expected}, got "
                f"{', '.join(size) or 'none'}; ask for at({expected.replace(', ', '=…, ')}=…)."
            )
        smallest = {c: min(o.size[c] for o in self.optima) for c in self.runs.sizes}
        for column in self.runs.sizes:
            value = size[column]
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{column} must be positive and finite, got {value:g}.")
            if value < smallest[column]:
                raise ValueError(
                    f"{column}={value:g} lies below the smallest tuned one, {smallest[column]:g}; "
                    "laws are not extrapolated downwards: ask for a larger size."
                )
        return {c: float(size[c]) for c in self.runs.sizes}

    def _mixture(self, size: Mapping[str, float]) -> tuple[float, float]:
        """Mean and variance of the log loss over the surviving laws."""
        kept = [(fit, weight) for fit, weight in self.loss_laws if weight > 0]
        parts = [predict_log(fit, relative_sizes(fit, size)) for fit, _ in kept]
        weights = np.array([weight for _, weight in kept])
        means = np.array([mean[0] for mean, _ in parts])
        variances = np.array([se[0] ** 2 for _, se in parts])
        centre = float(weights @ means)
        return centre, float(weights @ (variances + (means - centre) ** 2))

    def _tuned_at(self, name: str, size: Mapping[str, float]) -> Estimate:
        fit = self.tuned_laws[name]
        if fit is None:
            return self._unknown_tuned(name)
        mean, se = (float(a[0]) for a in predict_log(fit, relative_sizes(fit, size)))
        t = float(stats.t.ppf(0.5 + self.level / 2, fit.dof))
        value, run_sd = _exp(mean), math.hypot(se, fit.scatter)
        return Estimate(
            value=value,
            se=value * se,
            ci=Interval.around_log(mean, t * se),
            pi=Interval.around_log(mean, t * run_sd),
        )

    def _unknown_tuned(self, name: str) -> Estimate:
        """What the largest size with any bound says; sizes beyond it may only be assumed alike."""
        for optimum in reversed(self.optima):
            interval = optimum.tuned[name].ci
            if interval != Interval(None, None):
                return Estimate(value=None, se=None, ci=interval, pi=interval)
        open_interval = Interval(None, None)
        return Estimate(value=None, se=None, ci=open_interval, pi=open_interval)


def _exp(log_value: float) -> float:
    try:
        return math.exp(log_value)
    except OverflowError:
        raise ValueError(
            "a forecast must fit a number, this one overflows; ask for a smaller size, or widen "
            "the range of the fitted sizes."
        ) from None


def forecast(runs: Runs, *, level: float = 0.95) -> Forecast:
    """Fit the optima, the law of the loss and the law of each tuned value's optimum.

    Args:
        runs: A sweep over at least three sizes; only rows of stage `tune` are used.
        level: Level of all intervals, in (0, 1).

    Returns:
        The forecast. Where the data allow no point estimate it says so in its flags instead.

    Raises:
        TypeError: `runs` are not `Runs`.
        ValueError: `level` is not in (0, 1).
        DataError: Too few sizes, a tuned column with a single value, no run with a loss, or
            conditions that vary within the sweep.

    Example:
        >>> import extrap
        >>> runs = extrap.read_runs("examples/sweep.csv", size="width", tune="lr")
        >>> extrap.forecast(runs).at(width=1024).extrapolation_ratio
        5.333333333333333
    """
    if not isinstance(runs, Runs):
        raise TypeError(f"a forecast needs Runs, got {type(runs).__name__}; use extrap.read_runs.")
    if not 0 < level < 1:
        hint = f"; write {level / 100:g} for a {level:g} % interval" if 1 < level < 100 else ""
        raise ValueError(f"level must lie in (0, 1), got {level:g}{hint}.")
    sweep = runs.of_stage("tune").in_order()
    _check_sweep(sweep)
    noise = estimate_noise(sweep)
    optima = estimate_optima(sweep, noise=noise, level=level)
    flags = []
    if any(not o.bracketed for o in optima):
        flags.append("optimum-not-bracketed-everywhere")
    loss_laws = _loss_laws(sweep, optima, noise)
    if not loss_laws:
        flags.append("no-loss-law: too few sizes with a bracketed optimum")
    elif len(loss_laws) == 1:
        flags.append("too-few-sizes-for-a-floor")
    if any(weight > 0 and fit.flags for fit, weight in loss_laws):
        flags += sorted({f for fit, weight in loss_laws if weight > 0 for f in fit.flags})
    tuned_laws = {name: _tuned_law(optima, name, sweep.sizes) for name in sweep.tuned}
    flags += [
        f"no-{name}-law: too few sizes with a bracketed optimum"
        for name, fit in tuned_laws.items()
        if fit is None
    ]
    if noise.source != "replicates":
        flags.append("no-replicates: noise read from the residuals")
    return Forecast(
        runs=sweep,
        level=level,
        optima=optima,
        noise=noise,
        loss_laws=loss_laws,
        tuned_laws=tuned_laws,
        valley=fit_valley(sweep, optima) if sweep.tuned else None,
        flags=tuple(flags),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _loss_laws(
    sweep: Runs, optima: tuple[Optimum, ...], noise: Noise
) -> tuple[tuple[Fit, float], ...]:
    points = [o for o in optima if o.loss is not None]
    sizes = {c: [o.size[c] for o in points] for c in sweep.sizes}
    known = all(o.paired_loss_se is not None for o in points)
    try:
        return fit_surviving_laws(
            sizes,
            [o.loss or math.nan for o in points],
            loss_se=[o.paired_loss_se or math.nan for o in points] if known else None,
            loss_se_dof=noise.own_dof,
        )
    except DataError:
        if sweep.tuned:  # the sizes are there, their optima are not: a one-sided result
            return ()
        raise


def _tuned_law(optima: tuple[Optimum, ...], name: str, columns: tuple[str, ...]) -> Fit | None:
    bracketed = [o for o in optima if o.tuned[name].value is not None]
    if len(bracketed) < len(columns) + 2:
        return None
    return fit_optimum_law(optima, tuned=name, columns=columns)


def _check_sweep(sweep: Runs) -> None:
    frame = sweep.to_frame()
    if frame.empty:
        raise DataError(
            "the sweep has no runs of stage 'tune'; check the stage column or the file."
        )
    complete = frame[frame["status"] == "complete"]
    if complete.empty:
        counts = sweep.counts()
        raise DataError(
            f"a forecast needs runs with a loss, got none of {counts['runs']} "
            f"({counts['diverged']} diverged, {counts['failed']} failed, {counts['pruned']} "
            "pruned); lower the learning rates or check the loss column."
        )
    for condition in sweep.conditions:
        values = {condition_text(value) for value in frame[condition].unique()}
        if len(values) > 1:
            raise DataError(
                f"the condition {condition} must not vary within a sweep, got "
                f"{', '.join(sorted(values)[:4])}; keep one, or make it a tuned column."
            )
    n_sizes = len(frame.drop_duplicates(list(sweep.sizes)))
    if n_sizes < MIN_SIZES:
        raise DataError(
            f"a law over {', '.join(sweep.sizes)} needs at least {MIN_SIZES} distinct sizes, "
            f"got {n_sizes}; add smaller sizes, they are the cheapest."
        )
    for name in sweep.tuned:
        values = frame[name].dropna().unique()
        if len(values) < 3:
            raise DataError(
                f"the tuned column {name} needs at least 3 different values to have an optimum, "
                f"got {len(values)} ({', '.join(f'{v:g}' for v in values)}); sweep it, or leave "
                "it out of the tuned columns."
            )
