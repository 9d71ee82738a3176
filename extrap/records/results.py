"""What fitting, forecasting and checking return: small records of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from extrap.records.codec import document, shape
from extrap.records.confidence import Confidence, grade
from extrap.records.flags import IMPRECISE, NEVER_VARIED, REFUSED, Flag
from extrap.records.intervals import NOWHERE, Interval
from extrap.records.numbers import (
    counted,
    format_estimate,
    format_factor,
    format_interval,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    plain,
)
from extrap.records.outcomes import Outcome

if TYPE_CHECKING:
    from extrap.records.runs import Runs

MOST_VERDICTS = 30
"""Verdicts that are printed one by one."""
MOST_OUTLIERS = 3
"""Outliers that are named one by one."""


class Encoded:
    """A record that can be had as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The record in plain JSON types, as `--json` prints it."""
        return document(self)


class Shown(Encoded):
    """A result that Python and a notebook show as its command prints it."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The record in plain JSON types, as `--json` prints it."""
        from extrap.reporting.flags import with_flag_meanings

        return with_flag_meanings(document(self), self)

    def __repr__(self) -> str:
        from extrap.reporting.text import result_text

        try:
            return result_text(self)
        except ValueError as error:  # a law that overflows: what is shown never raises
            return f"{type(self).__name__}: {error}"

    def _repr_html_(self) -> str:
        from extrap.reporting.text import notebook_html

        return notebook_html(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number with its interval; `Measure()` where the data allow neither."""

    value: float | None = None
    ci: Interval = NOWHERE

    def map(self, of: Callable[[float], float]) -> Measure:
        """A rising function of the value and of both ends, such as another unit."""
        value, *ends = (None if x is None else of(x) for x in (self.value, *self.ci))
        return Measure(value=value, ci=Interval(*ends))

    def __neg__(self) -> Measure:
        lower, upper = (None if side is None else -side for side in self.ci)
        value = None if self.value is None else -self.value
        return Measure(value=value, ci=Interval(upper, lower))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One tuned value, in its own unit.

    Attributes:
        value: The estimate; `None` where the data allow no point estimate.
        se: Standard error of `value`, same unit (delta method from the log scale).
        ci: Interval of the law at this size.
        pi: Interval of the optimum at this size. Contains `ci`.
    """

    value: float | None
    se: float | None
    ci: Interval
    pi: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The tuned value that minimises the loss at one size.

    Attributes:
        size: Size column → value.
        tuned: Tuned column → estimate. Empty when nothing is tuned.
        loss: Loss at the optimum, in the unit of the runs; `None` where no run has a loss.
        loss_se: Standard error of `loss`, same unit, seed noise included.
        paired_loss_se: The same without the seed effects that all sizes share; a law over sizes
            with common seeds is weighted by it.
        best_loss: The smallest mean loss of one grid point of this size; `None` if all diverged.
        n_runs: Rows at this size, of any status.
        n_diverged: How many of them diverged.
        bracketed: Whether a run has a loss and the optimum probably lies among the values tried.
        edge: Tuned column → `"low"` or `"high"`, the side of the values tried beyond which its
            optimum probably lies; `None` where none does.
    """

    size: Mapping[str, float]
    tuned: Mapping[str, Estimate]
    loss: float | None
    loss_se: float | None
    paired_loss_se: float | None
    best_loss: float | None
    n_runs: int
    n_diverged: int
    bracketed: bool
    edge: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A law with numbers: parameters, their covariance, health flags and provenance.

    Attributes:
        law: Key of the law in `extrap.laws.LAWS`.
        names: Parameter names, in the order of `values`.
        values: Fitted parameters.
        covariance: Their covariance, scaled by the residual variance where that exceeds the known
            noise. Shape (n_parameters, n_parameters).
        scatter: Standard deviation of one fitted point about the law, in log units.
        dof: Residual degrees of freedom, at least 1.
        scale_dof: Degrees of freedom behind the scale of the covariance: those of the known noise
            where the residuals agree with it, else `dof`.
        chi2: Weighted sum of squared residuals, weights `1 / log_se**2`.
        columns: The size columns, in the order the law takes them.
        reference: Reference size `x0` per column; the law is a function of `x / x0`.
        fitted_range: Per column, smallest and largest fitted size.
        n_points: Number of fitted points.
        flags: Named health problems; empty when there are none.
        fixed: Pinned parameters; their rows of the covariance are zero.
        robust: δ of the Huber loss on log residuals; None for least squares.
    """

    law: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    scatter: float
    dof: int
    scale_dof: int
    chi2: float
    columns: tuple[str, ...]
    reference: tuple[float, ...]
    fitted_range: tuple[tuple[float, float], ...]
    n_points: int
    flags: tuple[str, ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)
    robust: float | None = None

    @property
    def parameters(self) -> dict[str, float]:
        """Parameter name → value."""
        return dict(zip(self.names, self.values, strict=True))

    def __repr__(self) -> str:
        errors = (math.sqrt(max(row[i], 0.0)) for i, row in enumerate(self.covariance))
        parameters = zip(self.names, self.values, errors, strict=True)
        text = ", ".join(f"{name} {format_value(value, se)}" for name, value, se in parameters)
        return plain(f"Fit({self.law}: {text}; {counted(self.n_points, 'point')})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Tuned values of smallest expected loss at one size, and what they save.

    Attributes:
        size: Size column → value.
        tuned: Tuned column → recommended value.
        octaves: Tuned column → log2(recommended / optimum); negative below it.
        expected_excess: Expected log excess there, over where the optimum may lie and over
            divergence.
        expected_cost: The same of a run that does not diverge.
        at_optimum: `expected_excess` at the predicted optimum.
        chance_of_divergence: At the recommended values; None if it is not modelled.
    """

    size: Mapping[str, float]
    tuned: Mapping[str, float]
    octaves: Mapping[str, float]
    expected_excess: float
    expected_cost: float
    at_optimum: float
    chance_of_divergence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What would end a refusal.

    Attributes:
        cause: `"edge"`, `"grid"`, `"noise"` or `"sizes"`.
        text: What was found, and what to do.
        column: The tuned column whose values it is about; empty for noise and sizes.
        side: The end of these values beyond which to try more, `"low"` or `"high"`.
        times: How many times as many seeds, or values of a grid.
        sizes: The sizes to add.
        runs: Sizes and tuned values of the runs to add, if they were worked out.
        seeds: Runs of each of them.
        target: A smaller size to ask for instead; empty otherwise.
    """

    cause: str
    text: str
    column: str = ""
    side: str = ""
    times: int = 1
    sizes: tuple[Mapping[str, float], ...] = ()
    runs: tuple[Mapping[str, float], ...] = ()
    seeds: int = 1
    target: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.cause}: {self.text}"

    @property
    def n_runs(self) -> int:
        """How many runs to add."""
        return self.seeds * len(self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptValue:
    """What it costs to keep one tuned value of a fitted size at a larger one.

    Attributes:
        tuned: Tuned column.
        kept: The value that is kept.
        kept_from: The size it was tuned at.
        size: The size it is carried to.
        level: Content of the interval.
        octaves: log2(kept / predicted optimum at `size`).
        penalty: Expected log excess there if the value is kept and the run does not diverge; other
            tuned values at their optimum.
        penalty_pi: Its interval: of where the optimum lies and of what a distance from it costs.
            It reaches at least to the expected excess, which a skewed distribution has beyond it.
        chance_of_divergence: Of a run at the value, the others at the values to use.
    """

    tuned: str
    kept: float
    kept_from: Mapping[str, float]
    size: Mapping[str, float]
    level: float
    octaves: float
    penalty: float
    penalty_pi: Interval
    chance_of_divergence: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRegret:
    """One rule at one size, compared with the fitted optimum.

    Attributes:
        rule: Key of the rule.
        tuned: Tuned column.
        value: What the rule says.
        octaves: log2(value / predicted optimum); None where no optimum is predicted, as at a
            horizon that the sweep never varied.
        expected_regret: Expected log excess over a tuned run, over where the optimum may lie; the
            other tuned values at their predicted optimum. None as above.
    """

    rule: str
    tuned: str
    value: float
    octaves: float | None
    expected_regret: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Encoded):
    """The forecast at one size.

    Attributes:
        size: Size column → value.
        loss: Loss of one tuned run, in the unit of the runs; `None` without a point estimate, or
            where it is refused, as a tuned value may be: `flags` then say why.
        loss_se: Standard error of the law, in the unit of the loss.
        loss_half_width: Half of ln(upper / lower) of the 90 % interval of one new run, whatever
            the level of `loss_pi`; of a perplexity, of its logarithm. None without such an
            interval.
        loss_ci: Confidence interval of the law.
        loss_pi: Prediction interval of one new run at the recommended values; its upper end allows
            for their not being the best ones. Contains `loss_ci`.
        tuned: Tuned column → estimate of its optimum there.
        recommended: Tuned column → the value to use, of smallest expected loss; the optimum where
            the cost of a mistuned value is unknown, `None` where that is unknown or refused.
        extrapolation_ratio: Target size / largest fitted size, see
            `extrap.fitting.extrapolation_ratio`.
        recommendation: The same with what they save; None where the optimum is.
        transfer: Cost of keeping the tuned values of the largest swept size, one per tuned column;
            empty without a recommendation.
        kept_smallest: The same of the smallest swept size.
        rules: The value of the fitted law and those of known rules with their expected cost,
            cheapest first.
        flags: Named reasons to doubt the point; empty when there are none.
        path_inputs: The values from which the forecast's size path computed `size`; else empty.
    """

    size: Mapping[str, float]
    loss: float | None
    loss_ci: Interval
    loss_pi: Interval
    tuned: Mapping[str, Estimate]
    recommended: Mapping[str, float | None]
    extrapolation_ratio: float
    loss_se: float | None = None
    loss_half_width: float | None = None
    recommendation: Recommendation | None = None
    transfer: tuple[KeptValue, ...] = ()
    kept_smallest: tuple[KeptValue, ...] = ()
    rules: tuple[RuleRegret, ...] = ()
    flags: tuple[str, ...] = ()
    path_inputs: Mapping[str, float] = field(default_factory=dict)

    @property
    def refusals(self) -> dict[str, str]:
        """`loss` or tuned column, not given because too little is known of it → why."""
        for flag in map(Flag, self.flags):
            if flag.code == NEVER_VARIED:
                return dict.fromkeys(("loss", *self.tuned), flag.detail)
        return self._reasons(REFUSED)

    @property
    def is_never_varied(self) -> bool:
        """Whether it is at a horizon that the sweep never varied."""
        return any(flag.code == NEVER_VARIED for flag in map(Flag, self.flags))

    @property
    def confidence(self) -> Confidence:
        """High, medium or low, with its reason: a function of the other fields alone."""
        if self.is_never_varied:
            return Confidence("low", "nothing is forecast at a horizon that was never varied")
        advised = self.recommendation
        return grade(
            refusals=self.refusals,
            half_width=self.loss_half_width,
            cost=None if advised is None else advised.expected_cost,
            chance=None if advised is None else advised.chance_of_divergence,
            flags=self.flags,
            extrapolation_ratio=self.extrapolation_ratio,
        )

    @property
    def imprecise(self) -> dict[str, str]:
        """`loss`, if it is given although little is known of it → why."""
        return self._reasons(IMPRECISE)

    def _reasons(self, code: str) -> dict[str, str]:
        return {flag.column: flag.detail for flag in map(Flag, self.flags) if flag.code == code}

    def __repr__(self) -> str:
        parts = [f"loss {format_estimate(self.loss, self.loss_pi)}"]
        for name, optimum in self.tuned.items():
            used = format_quantity(self.recommended[name])
            parts.append(f"{name} {used} (optimum {format_interval(optimum.pi)})")
        flags = "; ".join(["", *self.flags])
        ratio = f"extrapolation ratio {format_factor(self.extrapolation_ratio)}"
        return plain(f"Point({name_size(self.size)}, {ratio}: {', '.join(parts)}{flags})")


shape(
    Point,
    omit=("loss_se", "recommendation", "kept_smallest"),
    add={"confidence": lambda point: point.confidence.level},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Encoded):
    """One observed run compared with the forecast.

    Attributes:
        size: Size column → value.
        tuned: Tuned column → the run's own value; `None` where it is not known.
        seed: The run's seed as given.
        loss: Observed loss; `None` if the run has none.
        status: Status of the run, as in `Runs`.
        predicted: Forecast loss of a tuned run at this size; `None` without a point estimate.
        predicted_pi: Prediction interval, at the forecast's level, of the mean loss of the
            configuration, given its number of seeds.
        expected: Loss expected at the run's own tuned values (`predicted` plus the cost of
            mistuning); equal to `predicted` when nothing is tuned.
        on_law: Whether its configuration is on the law of tuned runs, by its loss and by its
            tuned values; `None` where that is undecided, see `check`.
        deviation: observed / predicted − 1; `None` if either is missing.
        p_value: Of the mean loss of its configuration under the law of tuned runs, two-sided
            unless only worse losses count: below 1 − level outside `predicted_pi`.
        p_adjusted: The same adjusted for the number of checked configurations (Holm 1979).
        cause: `None`, `instability`, `mistuned`, `recipe`, `data`, `batch`, `law` or `unknown`.
        advice: What to do, in sentences.
        evidence: The numbers behind cause and verdict, by name. Replicates: `off_replicates`,
            the relative distance from them. Tuned values: `NAME_octaves` from the forecast,
            `NAME_octaves_from_best` given the other values, `NAME_recommended`,
            `chance_mistuned`, `expected_excess`, `excess_by_its_loss`, `explained_share`. Data and
            batch: `epochs`, `epochs_in_sweep`, `effective_share_of_data`, `batch_size`,
            `noise_scale`, `data_factor`. Spikes: `spike_step`, `spike_height`.
        experiment: The cheapest experiment that would decide the cause; may be empty.
        seal: `"sealed-first"`; `"begun-before"` if the run started before the forecast was made;
            `"in-sweep"` if the forecast was fitted to the run; `None` if its start is unknown.
        configuration: Number of its configuration: runs that differ only in their seed.
        mean_loss: Geometric mean loss of the configuration; `None` without a loss. Equal losses
            count once.
        expected_pi: Interval of the mean loss at the configuration's own tuned values, or at the
            best guess where they or their optimum are not known. A cost is never negative: no end
            lies below that of `predicted_pi`. `None` if what a mistuned value costs is unknown.
    """

    size: Mapping[str, float]
    tuned: Mapping[str, float | None]
    seed: int | str | None
    loss: float | None
    status: str
    predicted: float | None
    predicted_pi: Interval
    expected: float | None
    on_law: bool | None
    deviation: float | None
    p_value: float | None
    cause: str | None
    advice: str
    p_adjusted: float | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    experiment: str = ""
    seal: str | None = None
    configuration: int = 0
    mean_loss: float | None = None
    expected_pi: Interval | None = None

    @property
    def outcome(self) -> Outcome:
        """How the run stands to its forecast."""
        has_loss = self.loss is not None
        return Outcome.of(on_law=self.on_law, cause=self.cause, has_loss=has_loss)

    def __repr__(self) -> str:
        cause = f", {self.cause}" * (self.outcome is Outcome.OFF_LAW and self.cause is not None)
        which = [name_size(self.size), *filter(None, [name_size(self.tuned)])]
        which += [] if self.seed is None else [f"seed {self.seed}"]
        seen = self.status if self.loss is None else f"loss {format_value(self.loss)}"
        off = ";" if self.deviation is None else f", {format_percent(self.deviation)} off"
        if self.mean_loss is not None and format_value(self.mean_loss) != format_value(self.loss):
            off += f" (mean of its configuration {format_value(self.mean_loss)})"
        expected = f"the forecast {format_estimate(self.predicted, self.predicted_pi)}"
        p = "" if self.p_value is None else f", p {format_p_value(self.p_value)}"
        head = f"{self.outcome.word}{cause}: {', '.join(which)}"
        return plain(f"Verdict({head}: {seen}{off} {expected}{p})")


shape(
    Verdict,
    omit=("size", "tuned", "seed", "loss", "mean_loss", "expected_pi"),
    add={
        "run": lambda verdict: {
            "size": verdict.size,
            "tuned": verdict.tuned,
            "seed": verdict.seed,
            "loss": verdict.loss,
        }
    },
)


class Verdicts(tuple[Verdict, ...]):
    """Verdicts in the order of the runs: a tuple that prints one line per run.

    Attributes:
        notes: Which columns of the runs were taken for what, where that was inferred.
    """

    notes: tuple[str, ...] = ()

    @property
    def configurations(self) -> tuple[tuple[Verdict, ...], ...]:
        """Verdicts grouped by configuration: runs that differ only in their seed."""
        groups: dict[int, list[Verdict]] = {}
        for verdict in self:
            groups.setdefault(verdict.configuration, []).append(verdict)
        return tuple(map(tuple, groups.values()))

    @property
    def n_judged(self) -> int:
        """Configurations that are on or off the law; the others are undecided."""
        return sum(runs[0].on_law is not None for runs in self.configurations)

    @property
    def n_tested(self) -> int:
        """Configurations whose loss was compared with its interval."""
        return sum(runs[0].p_value is not None for runs in self.configurations)

    @property
    def n_off(self) -> int:
        """Configurations that are off the law."""
        return sum(runs[0].on_law is False for runs in self.configurations)

    @property
    def joint_p(self) -> float | None:
        """The smallest adjusted p-value; None if no configuration has a loss."""
        p_values = [verdict.p_adjusted for verdict in self if verdict.p_adjusted is not None]
        return min(p_values, default=None)

    def __repr__(self) -> str:
        n_judged, n_off = self.n_judged, self.n_off
        lines = "".join(f"\n  {verdict!r}" for verdict in self[:MOST_VERDICTS])
        more = f"\n  … {len(self) - MOST_VERDICTS} more" if len(self) > MOST_VERDICTS else ""
        judged = counted(n_judged, "configuration")
        head = f"{counted(len(self), 'run')}, {n_off} of {judged} off the law"
        return "\n".join([*self.notes, f"Verdicts({head}){lines}{more}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A run whose loss is far from that of the other seeds of its cell.

    Attributes:
        row: Its position in the table, from 0.
        log_deviation: Of its loss from the median of its cell.
        is_fault: Whether it is below a cell whose other seeds agree: a better run by chance is not
            so much better, so that the loss must be wrong.
    """

    row: int
    log_deviation: float
    is_fault: bool


def outlier_flags(
    outliers: Sequence[Outlier],
    runs: Runs,
    *,
    left_out: Collection[Outlier],
    points: Sequence[Point | None],
) -> list[Flag]:
    """Each run by row, cell and deviation, and the forecasts of a size without and with them."""
    frame, details = runs.to_frame(), list[str]()
    for outlier in outliers[:MOST_OUTLIERS]:
        row, off = frame.loc[outlier.row], math.expm1(outlier.log_deviation)
        cell = ", ".join(f"{c} {format_quantity(row[c])}" for c in (*runs.sizes, *runs.tuned))
        details.append(
            f"row {outlier.row + 1} ({cell}, seed {plain(row['seed'])}) is "
            f"{100 * abs(off):.0f} % {'above' if off > 0 else 'below'} the median of its cell"
            + ", and is left out of the fits"
            * (outlier in left_out)
        )
    if more := outliers[MOST_OUTLIERS:]:
        details.append(f"{len(more)} more runs are as far off")
        if n := sum(outlier in left_out for outlier in more):
            details[-1] += f"; {n} of them {'is' if n == 1 else 'are'} left out of the fits"
    without, whole = (
        "unknown" if p is None else format_estimate(p.loss, p.loss_pi) for p in points
    )
    size, them = next(p.size for p in points if p), "it" if len(outliers) == 1 else "them"
    where = f"the loss at {plain(name_size(size))} is"
    details[-1] += f"; {where} {without} without {them}, {whole} with {them}"
    return [Flag("outlier", detail) for detail in details]
