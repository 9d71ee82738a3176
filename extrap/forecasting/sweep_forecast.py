"""`forecast` and `Forecast`: optima and laws of a sweep; `at` gives values, loss and intervals."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.fitting.distance import extrapolation_ratio
from extrap.fitting.joint import JointPosterior
from extrap.fitting.joint_fit import has_undertrained
from extrap.fitting.loss_model import BANDS, LossModel
from extrap.fitting.one_thread import one_thread
from extrap.fitting.outliers import find_outliers
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.reference_curves import ReferenceCurves
from extrap.fitting.refusals import (
    AGAINST_RISE,
    JUDGED_LEVEL,
    Doubt,
    Rise,
    doubt_loss,
    doubt_tuned,
    half_width,
    imprecise_loss,
    rises,
    widest,
)
from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface.draws import SurfaceDraws
from extrap.fitting.surface.fitted_sizes import has_replicates
from extrap.fitting.surface.optimum_law import CurvatureTest, check_curvature, law_of_optimum
from extrap.fitting.surface.remedies import name_remedy
from extrap.fitting.surface.surface import Surface, fit_surfaces
from extrap.fitting.surface.sweep_arrays import LOG2_DECIMALS, arrays_of
from extrap.fitting.surface.tuned_values import TunedValues
from extrap.fitting.transfer_rules import (
    RuleValue,
    compute_of,
    cost_of_rules,
    values_of_rules,
    values_over_horizons,
    without_repeats,
)
from extrap.forecasting.asked_sizes import AnySizes, SizeAxes, path_to
from extrap.forecasting.settings import settings_of
from extrap.forecasting.sweep_laws import (
    fit_curves,
    fit_laws,
    flat_flags,
    pinned_slopes,
    slopes_by_column,
)
from extrap.forecasting.timescale import Timescale, timescale_of
from extrap.laws.base import Array
from extrap.reading.losses import is_perplexity
from extrap.reading.names import kinds_of
from extrap.reading.reader import ReadingKeywords, as_runs
from extrap.records import (
    Estimate,
    Fit,
    Interval,
    Measure,
    Optimum,
    Point,
    Remedy,
    RuleRegret,
    Runs,
    Shown,
    SizePath,
)
from extrap.records.fields import require_level
from extrap.records.flags import IMPRECISE, NEVER_VARIED, REFUSED, Flag
from extrap.records.numbers import format_quantity
from extrap.records.results import Outlier, outlier_flags
from extrap.records.settings import Setting, horizon_of

FAR_EXTRAPOLATION = 8.0
"""Beyond this extrapolation ratio an interval is conditional on no new regime setting in."""
PRIORS = ("published", "none")
OF_LAST, MOVED = 0.05, 0.01
"""Change of the floor over the loss of the largest size, by which it is asked how far a forecast
moves; and the share from which that is told."""
NEAR_FLOOR, LEAST_WEIGHT = 2.0, 1e-12
"""Distance from the mean floor, in such changes, within which laws count for the slope, and a
guard of a division. Chosen so that the slope is that between forecasts with the floor pinned one
standard deviation above and below (LOG.md)."""
NOT_GIVEN = Estimate(value=None, se=None, ci=Interval(), pi=Interval())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecast(Shown):
    """Runs, the surface of their losses and the law of the loss together.

    Attributes:
        runs: The sweep that they were fitted to.
        level: Level of all intervals, in (0, 1).
        band: What the intervals of the loss cover: `"default"`, that no law is exactly right;
            `"family"`, only which of the laws is right.
        optima: One per size, smallest first.
        noise: Run-to-run noise of the log loss.
        loss_model: Laws of the loss and how they are combined; None if none could be fitted.
        surface: Draws of all that is said of tuned values; None where nothing is tuned.
        curves: Loss curves of tuned runs; None if too few runs have one.
        path: Formulas of the sizes in other names, so that `at(depth=34)` works; or None.
        prior: `"published"` or `"none"`, as it was asked for.
        flags: Named reasons to doubt every point.
        created: When it was made, UTC, ISO 8601.
        settings: What the runs have in common at each size, such as their tokens.
    """

    runs: Runs
    level: float
    band: str
    optima: tuple[Optimum, ...]
    noise: Noise
    loss_model: LossModel | None
    surface: SurfaceDraws | None
    flags: tuple[str, ...]
    created: str
    curves: ReferenceCurves | None = None
    path: SizePath | None = None
    prior: str = "none"
    settings: tuple[Setting, ...] = ()

    @property
    def loss_laws(self) -> tuple[tuple[Fit, float], ...]:
        """The laws that forecast the loss, with their weights; empty if none could be fitted."""
        return () if self.loss_model is None else self.loss_model.laws

    @property
    def tuned_laws(self) -> dict[str, Fit]:
        """Tuned column → the law of its optimum, as far as it can be written down."""
        if self.surface is None:
            return {}
        pins = pinned_slopes(self.surface, self.runs)
        return {
            name: law_of_optimum(self.surface, j, self.runs.sizes, fixed=pins[name])
            for j, name in enumerate(self.runs.tuned)
        }

    def curvature(self) -> dict[str, CurvatureTest | None]:
        """Tuned column → test whether its optimum bends away from a power law of size."""
        if self.surface is None:
            return {}
        return {name: check_curvature(self.surface, j) for j, name in enumerate(self.runs.tuned)}

    def at(self, value: float | None = None, /, **size: float) -> Point:
        """The forecast at one size, given by its size columns or the names of the path.

        Args:
            value: The size, where there is one size column, or one input of the path.
            size: One positive number per size column, not below the smallest fitted one; or one
                per input of the path. A horizon may be named beside them, `tokens=3e11`: where
                the sweep never varied it nothing is forecast, and `rules` hold what known rules
                say.

        Raises:
            ValueError: A size column is missing, unknown, or out of range.

        Example:
            >>> import extrap
            >>> made = extrap.forecast("examples/sweep.csv")
            >>> made.at(1024) == made.at(width=1024)
            True
        """
        size, other_horizon = self._axes.split_horizon(self._axes.named(value, size))
        checked = self._axes.checked(size)
        if other_horizon is not None:
            return self._never_varied(checked, other_horizon)
        point = self.point(checked)
        return point if set(size) == set(point.size) else replace(point, path_inputs=dict(size))

    def _never_varied(self, size: Mapping[str, float], amount: float) -> Point:
        """At a horizon that the sweep never varied: no forecast, only what known rules say."""
        assert self.horizon is not None
        point = self.point(size)
        advised = {name: v for name, v in point.recommended.items() if v is not None}
        values = values_over_horizons(size, advised, self.settings, amount=amount)
        nothing = dict.fromkeys(self.runs.tuned, NOT_GIVEN)
        why = self._axes.never_varied(size, amount)
        return Point(
            size={**size, self.horizon.column: amount},
            loss=None,
            loss_ci=Interval(),
            loss_pi=Interval(),
            tuned=nothing,
            recommended=dict.fromkeys(nothing),
            extrapolation_ratio=point.extrapolation_ratio,
            rules=tuple(
                RuleRegret(rule=key, tuned=name, value=v, octaves=None, expected_regret=None)
                for key, name, v in values
            ),
            flags=(*self.flags, Flag(NEVER_VARIED, why)),
        )

    @property
    def horizon(self) -> Setting | None:
        """How long the runs train, where that is no size of its own; or None."""
        return horizon_of(self.settings)

    @one_thread
    def point(self, size: Mapping[str, float]) -> Point:
        """As `at`, of size columns that are known to be in range.

        Args:
            size: Size column → size, in any order.
        """
        size = {column: size[column] for column in self.runs.sizes}
        point, doubts = self._point(size)
        ratio = format_quantity(point.extrapolation_ratio, digits=3)
        flags = [Flag("far-extrapolation", f"{ratio} times")] * (
            point.extrapolation_ratio > FAR_EXTRAPOLATION
        )
        flags += self._about_floor(point)
        for name, doubt in doubts.items():
            if doubt.is_refused:
                why = f"{doubt.why}; {self.remedy(name, size)}"
                flags.append(Flag(REFUSED, why, column=name))
            else:
                flags.append(Flag(IMPRECISE, doubt.why, column=name))
        return replace(point, flags=(*self.flags, *flags))

    def _point(self, size: Mapping[str, float]) -> tuple[Point, dict[str, Doubt]]:
        """The forecast at one size without flags, and why numbers are doubtful or not given."""
        prediction, values, doubts = self.predict_loss(size), self.values_at(size), {}
        if (doubt := self.doubt_loss(size)) is not None:
            doubts["loss"] = doubt
        is_known = values is not None
        if values is not None and (doubt := doubt_tuned(values.answer)) is not None:
            doubts |= dict.fromkeys(self.runs.tuned, doubt)
            is_known = False
        loss, se, half, loss_ci, loss_pi = None, None, None, Interval(), Interval()
        if prediction is None:
            loss_ci = loss_pi = self._bound_of_loss()
        elif "loss" not in doubts:
            loss = _exp(prediction.log_loss)
            se = loss * prediction.curve_log_sd
            loss_ci = prediction.interval(self.level, new_run=False)
            run = self.as_run(prediction, size)
            loss_pi = run.interval(self.level, new_run=True)
            half = half_width(run, is_perplexity=is_perplexity(self.runs))
            if (doubt := self._imprecise(size, run, half)) is not None:
                doubts["loss"] = doubt
        tuned = dict.fromkeys(self.runs.tuned, NOT_GIVEN)
        point = Point(
            size=dict(size),
            loss=loss,
            loss_se=se,
            loss_half_width=half,
            loss_ci=loss_ci,
            loss_pi=loss_pi,
            tuned=tuned,
            recommended=dict.fromkeys(tuned),
            extrapolation_ratio=self.extrapolation_ratio(size),
        )
        if values is None or not is_known:
            return point, doubts
        advised = values.recommendation
        with_values = replace(
            point,
            tuned=values.estimates,
            recommended=dict(advised.tuned),
            recommendation=advised,
            transfer=values.keep(self.optima),
            kept_smallest=values.keep(self.optima, from_largest=False),
            rules=cost_of_rules(values, without_repeats(self.rule_values(size, advised.tuned))),
        )
        return with_values, doubts

    def timescale(self, value: float | None = None, /, **size: float) -> Timescale | None:
        """AdamW's timescale of the best values at a size; None where the columns do not give it.

        Args:
            value: The size, as in `at`.
            size: The same.

        Raises:
            ValueError: As `at`; or a horizon that the sweep never varied.
        """
        values = self.values_at(self._axes.checked(self._axes.named(value, size)))
        if self.surface is None or values is None:
            return None
        return timescale_of(self.surface, values, self.settings, sizes=self.runs.sizes)

    def rule_values(
        self, size: Mapping[str, float], recommended: Mapping[str, float]
    ) -> tuple[RuleValue, ...]:
        """What the fitted law and known rules say of the tuned values at a size.

        Args:
            size: Size column → value.
            recommended: Tuned column → what the fitted law says.
        """
        return values_of_rules(size, self.optima, recommended, self.settings)

    def values_at(self, size: Mapping[str, float]) -> TunedValues | None:
        """What is known of the tuned values at a size, refused or not; None where none is tuned.

        Args:
            size: Size column → size.
        """
        if self.surface is None:
            return None
        key, cache = (self.level, *(size[c] for c in self.runs.sizes)), self.surface.computed
        if key not in cache:
            log_size = np.round(
                np.log2(np.array([size[c] for c in self.runs.sizes])), LOG2_DECIMALS
            )
            cache[key] = TunedValues(
                size=dict(size),
                names=self.runs.tuned,
                level=self.level,
                draws=self.surface.at(log_size),
            )
        values: TunedValues = cache[key]
        return values

    def is_tuned_at(self, size: Mapping[str, float]) -> bool:
        """Whether values to use are given at a size."""
        values = self.values_at(size)
        return values is not None and doubt_tuned(values.answer) is None

    def extrapolation_ratio(self, size: Mapping[str, float]) -> float:
        """Ratio of a size to the largest fitted one, over all columns together."""
        fitted = [o.size for o in self.optima if self.loss_model is None or o.loss is not None]
        return extrapolation_ratio(size, fitted)

    def _about_floor(self, point: Point) -> list[Flag]:
        """How far the loss moves with the floor, over the averaged laws, where that is far."""
        if self.loss_model is None or point.loss is None:
            return []
        law, last = self.loss_laws[0][0], self.last_value()
        if self.loss_model.posterior is None or "E" in law.fixed or last is None:
            return []
        step, floor = float(f"{OF_LAST * last:.0e}"), law.values[law.names.index("E")]
        size = np.array([point.size[column] for column in law.columns])
        weights, floors, logs = self.loss_model.posterior.by_law(size)
        steps = (floors - floor) / step
        near = weights * np.exp(-0.5 * (steps / NEAR_FLOOR) ** 2)
        off = steps - near @ steps / max(near.sum(), LEAST_WEIGHT)
        moved = math.expm1(float((near * off) @ logs / max(near @ off**2, LEAST_WEIGHT)))
        if moved < MOVED:
            return []
        return [Flag("floor-matters", f"{100 * moved:.1f} % per {step:g} of E")]

    def remedy(self, name: str, size: Mapping[str, float]) -> Remedy:
        """What would end a refusal.

        Args:
            name: `"loss"` or a tuned column, which is refused.
            size: Size column → size.
        """
        if name == "loss" and self._rises_below(size):
            return AGAINST_RISE
        cache = {} if self.surface is None else self.surface.computed
        key = ("remedy", name == "loss", self.band, *(size[c] for c in self.runs.sizes))
        if key not in cache:
            cache[key] = self._find_remedy(name, size, cache)
        remedy: Remedy = cache[key]
        return remedy

    def _find_remedy(
        self, name: str, size: Mapping[str, float], cache: dict[tuple[Any, ...], Any]
    ) -> Remedy:
        """The remedy of one refusal; the same runs are imagined for every refused size."""

        def is_given(runs: Runs, there: Mapping[str, float]) -> bool:
            if runs is self.runs:
                return _is_given(self, name, there)
            key = ("made", self.band, runs.data_hash())
            if key not in cache:
                cache[key] = self.made_of(runs)
            return _is_given(cache[key], name, there)

        return name_remedy(
            self.runs,
            self.surface,
            self.noise,
            size,
            log_loss=self.expected_log_loss,
            is_given=is_given,
        )

    def made_of(self, runs: Runs, *, held: Surface | None = None) -> Forecast | None:
        """The forecast of other runs; None where they carry none.

        Args:
            runs: A sweep.
            held: A surface whose noise is taken as it is; by default it is estimated.
        """
        fix = {} if self.loss_model is None else dict(self.loss_model.fixed)
        pins = pinned_slopes(self.surface, self.runs)
        fix |= {f"{n}.{k}": v for n, slopes in pins.items() for k, v in slopes.items()}
        try:
            return _fit_forecast(
                runs,
                level=self.level,
                band=self.band,
                fix=fix,
                prior=self.prior,
                path=None,
                held=held,
            )
        except DataError:
            return None

    def likeliest_surface(self) -> Surface | None:
        """The likeliest surface of the runs, fitted again; None where nothing tells the noise."""
        if self.surface is None and not has_replicates(self.runs):
            return None
        columns = self.runs.sizes
        pins = pinned_slopes(self.surface, self.runs)
        slopes = {name: slopes_by_column(pinned, columns) for name, pinned in pins.items()}
        surfaces, weights = fit_surfaces(arrays_of(self.runs, slopes))
        return surfaces[int(np.argmax(weights))]

    def expected_log_loss(self, size: Mapping[str, float]) -> float | None:
        """At the best values: of a fitted size its own, beyond by the law."""
        for optimum in self.optima:
            if optimum.size == size and optimum.loss is not None:
                return math.log(optimum.loss)
        prediction = self.predict_loss(size)
        return None if prediction is None else prediction.log_loss

    def doubt_loss(self, size: Mapping[str, float]) -> Doubt | None:
        """Why no loss is given at a size; None where one is, or where no law of it is known.

        Args:
            size: Size column → size.
        """
        if self.loss_model is None:
            return None
        if against := self._rises_below(size):
            return Doubt(why=str(against[0]))
        smallest, largest = self._ends()
        return doubt_loss(
            size,
            half_widths=self._half_widths,
            box=self._fitted_range(),
            limit=widest(smallest, largest, is_perplexity=is_perplexity(self.runs)),
        )

    def _half_widths(self, sizes: Sequence[Mapping[str, float]]) -> list[float]:
        assert self.loss_model is not None
        predictions = self.loss_model.predict_many(sizes, noise=self.noise, band=self.band)
        in_logs = is_perplexity(self.runs)
        return [half_width(prediction, is_perplexity=in_logs) for prediction in predictions]

    def _ends(self) -> tuple[float, float]:
        """The best losses that were measured at the smallest and at the largest size."""
        order = sorted(self.optima, key=lambda o: math.fsum(map(math.log, o.size.values())))
        losses = [o.best_loss for o in order if o.best_loss is not None]
        return losses[0], losses[-1]

    def _imprecise(
        self, size: Mapping[str, float], run: LossPrediction, half: float
    ) -> Doubt | None:
        """Why the confidence in a loss that is given is low; None where it is not."""
        largest, last = self.largest(), self._ends()[1]
        is_larger = size != largest and all(size[c] >= high for c, high in largest.items())
        is_held = is_larger and last in run.interval(JUDGED_LEVEL, new_run=True)
        return imprecise_loss(half, held=last if is_held else None)

    def _rises_below(self, size: Mapping[str, float]) -> list[Rise]:
        """Where the measured losses rise with size up to a value that the size lies beyond."""

        def compute(swept: Mapping[str, float]) -> float | None:
            frame = self.runs.complete().to_frame()
            rows = frame[np.logical_and.reduce([frame[c] == v for c, v in swept.items()])]
            counts = {c: pd.to_numeric(rows[c], errors="coerce").median() for c in counted}
            return compute_of({c: float(count) for c, count in counts.items() if count > 0})

        counted = list(kinds_of(map(str, self.runs.to_frame())))
        all_rises = rises(self.optima, compute, is_perplexity=is_perplexity(self.runs))
        return [rise for rise in all_rises if size[rise.column] > rise.high]

    def predict_loss(
        self, size: Mapping[str, float], *, seeds: Sequence[object] | None = None
    ) -> LossPrediction | None:
        """Predictive distribution of the log loss of a tuned run; None without a law of the loss.

        It is given also where the loss is refused, see `doubt_loss`.

        Args:
            size: Size column → size.
            seeds: One per run, for the mean of tuned runs of these seeds; None for one new run.
        """
        if self.loss_model is None:
            return None
        return self.loss_model.predict(size, noise=self.noise, band=self.band, seeds=seeds)

    def as_run(self, prediction: LossPrediction, size: Mapping[str, float]) -> LossPrediction:
        """The prediction of a tuned run with what its values may cost, not being quite the best.

        Where values are refused it stays that of a run at the best ones.

        Args:
            prediction: From `predict_loss`.
            size: Its size.
        """
        if (values := self.values_at(size)) is None or not self.is_tuned_at(size):
            return prediction
        return replace(prediction, excess=values.possible_excesses())

    def _bound_of_loss(self) -> Interval:
        """Without a law: at most that of the largest size, if a smaller one had a higher loss."""
        *smaller, last = (o.best_loss for o in self.optima)
        falls = last is not None and any(loss is not None and loss > last for loss in smaller)
        return Interval(None, last) if falls else Interval()

    def frame_at_values(
        self, sizes: Iterable[Mapping[str, float]], *, tuned: Mapping[str, float]
    ) -> pd.DataFrame:
        """The loss over size at fixed tuned values, one row per size.

        Columns: the sizes, `loss`, `loss_pi_lower`, `loss_pi_upper`, `log_excess` (the cost of
        not tuning, in nats of ln loss) and `NAME_octaves`, the distance from the optimum there.
        Values are missing where the loss or the tuned values are refused.

        Args:
            sizes: Sizes, each as in `at`.
            tuned: Tuned column → the value that is kept.

        Raises:
            ValueError: As `at`; a tuned column is missing or not positive.
            DataError: The sweep gives no law of the loss, or nothing is tuned.

        References:
            Metz (2022), On the difficulty of extrapolation with NN scaling.
        """
        if set(tuned) != set(self.runs.tuned) or any(not value > 0 for value in tuned.values()):
            raise ValueError(
                f"a kept value must be given for each of {', '.join(self.runs.tuned)} and be "
                f"positive, got {dict(tuned)}."
            )
        if self.loss_model is None or self.surface is None:
            raise DataError(
                "the cost of a kept value needs a law of the loss and a tuned column, got neither "
                f"or one ({'; '.join(self.flags)}); extend the sweep first."
            )
        columns = ["loss", "loss_pi_lower", "loss_pi_upper", "log_excess"]
        columns += [f"{name}_octaves" for name in self.runs.tuned]
        rows = []
        for size in sizes:
            target = self._axes.checked(size)
            prediction, values = self.predict_loss(target), self.values_at(target)
            shown: list[float | None] = [None] * len(columns)
            is_given = self.doubt_loss(target) is None and self.is_tuned_at(target)
            if is_given and prediction is not None and values is not None:
                run = replace(prediction, excess=values.possible_excesses(tuned))
                excess, octaves = values.penalty(tuned)[0], values.octaves(tuned)
                ends = run.interval_at_values(self.level)
                shown = [_exp(prediction.log_loss + excess), *ends, excess, *octaves.tolist()]
            rows.append({**target, **dict(zip(columns, shown, strict=True))})
        return pd.DataFrame(rows).astype(float)

    def sizes(self, at: AnySizes) -> list[dict[str, float]]:
        """One or several sizes, each a number or a mapping of size columns, as mappings.

        Raises:
            ValueError: As `at`.
            TypeError: One of them is neither.
        """
        return [self._axes.checked(size) for size in self._axes.several(at)]

    def unchecked_sizes(self, at: AnySizes) -> list[dict[str, float]]:
        """One or several sizes by their names, which `at` may refuse.

        Raises:
            ValueError: A number where there are several size columns.
        """
        return self._axes.several(at)

    def one_size(self, at: AnySizes) -> dict[str, float]:
        """As `sizes`, of a single one.

        Raises:
            ValueError: Several are given; or as `at`.
        """
        sizes = self.sizes(at)
        if len(sizes) != 1:
            raise ValueError(f"{argument('at')} takes one size here, got {len(sizes)}.")
        return sizes[0]

    @one_thread
    def frame(self, sizes: AnySizes | None = None) -> pd.DataFrame:
        """The forecast at many sizes as a table, one row per size.

        Columns: the sizes, `loss`, `loss_se` (of the law, in the unit of the loss),
        `loss_ci_lower` … `loss_pi_upper`, the same for the optimum of each tuned value, with the
        value to use as `NAME_recommended`, and `extrapolation_ratio`; `loss_wls`,
        `loss_wls_lower`, `loss_wls_upper` and the same for each tuned value from
        `straight_lines`. Open sides are missing values.

        Args:
            sizes: One or several, each a number or a mapping of size columns; by default 2, 4 and
                8 times the largest swept one.

        Raises:
            ValueError: As `at`.
        """
        rows = []
        for size in self.default_targets() if sizes is None else self.sizes(sizes):
            point, _ = self._point(size)
            row: dict[str, float | None] = {
                **point.size,
                "loss": point.loss,
                "loss_se": point.loss_se,
            }
            for kind, interval in (("ci", point.loss_ci), ("pi", point.loss_pi)):
                row[f"loss_{kind}_lower"], row[f"loss_{kind}_upper"] = interval
            for name, estimate in point.tuned.items():
                row[name], row[f"{name}_se"] = estimate.value, estimate.se
                for kind, interval in (("ci", estimate.ci), ("pi", estimate.pi)):
                    row[f"{name}_{kind}_lower"], row[f"{name}_{kind}_upper"] = interval
                row[f"{name}_recommended"] = point.recommended[name]
            row["extrapolation_ratio"] = point.extrapolation_ratio
            for name, line in self.straight_lines(size).items():
                row[f"{name}_wls"], (lower, upper) = line.value, line.ci
                row |= {f"{name}_wls_lower": lower, f"{name}_wls_upper": upper}
            rows.append(row)
        return pd.DataFrame(rows)

    def straight_lines(self, size: Mapping[str, float]) -> dict[str, Measure]:
        """What plain regressions say at a size, for comparison: straight lines in logarithms.

        Weighted least squares of statsmodels, by the standard errors of the points, through the
        losses and the optima of the sweep. A straight line has no floor and no bend, and its
        interval, for one more point, knows nothing but the scatter about it.

        Args:
            size: Size column → size.

        Returns:
            `loss` and each tuned value, in their own units; nothing where the points are too few
            or do not determine a line.

        Raises:
            ValueError: As `at`.
        """
        from extrap.fitting.regression import straight_lines  # statsmodels: a forecast needs none

        return straight_lines(self.optima, at=self._axes.checked(size), level=self.level)

    def to_dict(self, sizes: AnySizes | None = None) -> dict[str, Any]:
        """What `extrap forecast --json` prints of it, in plain JSON types.

        Args:
            sizes: As `--at`: one or several, each a number or a mapping; by default as in `frame`.

        Raises:
            ValueError: As `at`.
        """
        from extrap.analyses.sweep.answer import answered_document

        return answered_document(self, () if sizes is None else self.unchecked_sizes(sizes))

    def default_targets(self) -> list[dict[str, float]]:
        """Twice, four and eight times the largest fitted size, all size columns together."""
        return [{c: v * factor for c, v in self.largest().items()} for factor in (2, 4, 8)]

    def largest(self) -> dict[str, float]:
        """The largest fitted value of each size column."""
        return {column: high for column, (_, high) in self._fitted_range().items()}

    def report(self, path: str | Path = "reports/report.html", **options: Any) -> Path:
        """Write the forecast's page; as `extrap.report(forecast, path=path)`.

        Args:
            path: The HTML file.
            options: What else `extrap.report` takes.

        Returns:
            The path of the page.

        Raises:
            ValueError: `path` is a folder.
        """
        # pages and charts are made by layers above this one
        page: Path = sys.modules["extrap"].report(self, path=path, **options)
        return page

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the best value against size beside the loss against size, in your own theme.

        Args:
            ax: Matplotlib's axes to draw on: one, which shows the loss, or one per tuned value
                and a last one for the loss. By default a new figure.

        Returns:
            The matplotlib figure, which a notebook shows.

        Raises:
            ValueError: Another number of axes.
        """
        from extrap.analyses.sweep.plots import plot_forecast

        return plot_forecast(self, ax)

    def last_value(self) -> float | None:
        """The trivial forecast: the optimal loss at the largest tuned size."""
        losses = [o.loss if o.loss is not None else o.best_loss for o in self.optima]
        return losses[-1]

    @property
    def _axes(self) -> SizeAxes:
        columns = self.runs.sizes
        smallest = {c: min(o.size[c] for o in self.optima) for c in columns}
        return SizeAxes(columns=columns, smallest=smallest, path=self.path, horizon=self.horizon)

    def _fitted_range(self) -> dict[str, tuple[float, float]]:
        if self.loss_model is not None:
            return self.loss_model.fitted_range
        sizes = {c: [o.size[c] for o in self.optima] for c in self.runs.sizes}
        return {c: (min(values), max(values)) for c, values in sizes.items()}


def _exp(log_value: float) -> float:
    try:
        return math.exp(log_value)
    except OverflowError:
        raise ValueError(
            "a forecast must be a finite number, this one overflows; give a smaller size, or "
            "widen the range of the fitted sizes."
        ) from None


@one_thread
def forecast(
    runs: Any,
    *,
    level: float = 0.95,
    band: str = "default",
    fix: Mapping[str, float] | None = None,
    prior: str = "published",
    path: Mapping[str, str] | SizePath | None = None,
    **columns: Unpack[ReadingKeywords],
) -> Forecast:
    """Fit the optima, the law of the loss and the law of each tuned value's optimum.

    Args:
        runs: A sweep over at least three sizes: `Runs`, of which only rows of stage `tune` are
            used, or whatever `extrap.read_runs` takes: a path, a DataFrame, an Optuna study, or a
            list of them, such as one study per size.
        level: Level of all intervals, in (0, 1).
        band: `"default"` allows for laws that are only approximately right; `"family"` assumes
            that one of the mixed laws is true, and is narrower.
        fix: Parameters to pin instead of fitting, such as a known irreducible loss,
            `{"E": 1.6}`, or an exponent if size columns move together, `{"c1": 0.34}`. A name
            with a tuned column in front pins a parameter of its law: `{"lr.b": -0.5}`.
        prior: `"published"`: losses in nats or bits over compute have intervals as wide as the
            errors of forecasts on published ladders of language models; `"none"`: as wide as the
            runs alone leave them.
        path: Formulas of the size columns in other names, as in
            `{"n_params": "12 * depth * (64 * depth)**2", "n_tokens": "20 * n_params"}`; then
            `at(depth=34)` works too. The fit does not depend on it.
        columns: How the runs are read, as keywords of `extrap.read_runs`: `size`, `tune`, `loss`,
            `seed`, `conditions`, `where` and so on; what is left out is inferred.

    Returns:
        The forecast. If the data allow no point estimate, its flags say so. A run whose loss is
        far below that of the other seeds of its cell, which agree, is left out; a flag says so.

    Raises:
        ValueError: `level` is not in (0, 1), the band or the prior is unknown, no law has a
            parameter of `fix`, a pinned floor is not below the losses, or the path does not lead
            to every size column.
        DataError: Too few sizes, a tuned column with a single value, no run with a loss, or
            conditions that vary within the sweep; or as `extrap.read_runs`.

    Example:
        >>> import extrap
        >>> extrap.forecast("examples/sweep.csv").at(1024).extrapolation_ratio
        5.333333333333333
    """
    require_level(level)
    if band not in BANDS:
        raise ValueError(f"{argument('band')} must be one of {', '.join(BANDS)}; got {band!r}.")
    if prior not in PRIORS:
        raise ValueError(f"{argument('prior')} must be one of {', '.join(PRIORS)}; got {prior!r}.")
    runs = as_runs(runs, columns)
    followed = path_to(path, runs.sizes)
    make = partial(
        _fit_forecast, level=level, band=band, fix=fix or {}, prior=prior, path=followed
    )
    whole, outliers = make(runs), find_outliers(runs)
    if not outliers:
        return _completed(whole)
    without = _fit_without(runs, outliers, make)
    faulty, sound = [o for o in outliers if o.is_fault], None
    if faulty:
        sound = without if len(faulty) == len(outliers) else _fit_without(runs, faulty, make)
    size = whole.default_targets()[0]
    points = [None if fitted is None else fitted._point(size)[0] for fitted in (without, whole)]
    flags = outlier_flags(outliers, runs, left_out=faulty if sound else (), points=points)
    sound = _completed(sound or whole)
    return replace(sound, flags=(*sound.flags, *flags))


def _fit_without(
    runs: Runs, outliers: Sequence[Outlier], make: Callable[[Runs], Forecast]
) -> Forecast | None:
    """The forecast without some runs; None where what is left carries none."""
    try:
        return make(runs.without_rows(o.row for o in outliers))
    except DataError:
        return None


def _fit_forecast(
    runs: Runs,
    *,
    level: float,
    band: str,
    fix: Mapping[str, float],
    prior: str,
    path: SizePath | None,
    held: Surface | None = None,
) -> Forecast:
    """The forecast without a look at single runs, and without what is shown of it besides."""
    return Forecast(
        **fit_laws(runs, level=level, fix=fix, prior=prior, held=held)._asdict(),
        level=level,
        band=band,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        path=path,
        prior=prior,
        settings=settings_of(runs.of_stage("tune")),
    )


def _completed(fitted: Forecast) -> Forecast:
    """With what costs time and is only shown: flags of laws and columns, reference curves."""
    posterior = None if fitted.loss_model is None else fitted.loss_model.posterior
    is_undertrained = isinstance(posterior, JointPosterior) and has_undertrained(posterior)
    flags = [Flag("undertrained-runs")] * is_undertrained
    flags += _irregular_horizon(fitted)
    flags += [Flag(code, name) for name, law in fitted.tuned_laws.items() for code in law.flags]
    if (values := fitted.values_at(fitted.optima[-1].size)) is not None:
        flags += flat_flags(values, fitted.runs)
    return replace(fitted, flags=(*fitted.flags, *flags), curves=_curves(fitted))


def _irregular_horizon(fitted: Forecast) -> list[Flag]:
    """A flag where tokens, or steps, are one number at each size and follow no power of it."""
    horizon = fitted.horizon
    if horizon is None or horizon.amount is not None:
        return []
    frame = fitted.runs.complete().to_frame()
    amounts = pd.to_numeric(frame[horizon.column], errors="coerce")
    ends = " to ".join(map(format_quantity, (amounts.min(), amounts.max())))
    return [Flag("follows-size", f"{horizon.column} goes from {ends} over the sizes")]


def _curves(fitted: Forecast) -> ReferenceCurves | None:
    """The curves of the sweep's runs, each beside the law at its size."""

    def log_loss_at(size: Mapping[str, float]) -> float | None:
        prediction = fitted.predict_loss(size)
        return None if prediction is None else prediction.log_loss

    def optimum_at(size: Mapping[str, float]) -> Array | None:
        values = fitted.values_at(size)
        return None if values is None else values.optimum

    if fitted.loss_model is None:
        return None
    return fit_curves(fitted.runs, log_loss_at=log_loss_at, optimum_at=optimum_at)


def _is_given(fitted: Forecast | None, name: str, size: Mapping[str, float]) -> bool:
    """Whether a forecast gives the loss or a tuned value at a size."""
    if fitted is None:
        return False
    if name == "loss":
        return fitted.loss_model is not None and fitted.doubt_loss(size) is None
    return fitted.is_tuned_at(size)
