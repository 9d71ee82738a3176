"""What treatments of the training do to the final loss, by pairs of seeds, with intervals.

| figure | interval |
|---|---|
| difference of losses, treated − plain | t, of the differences by seed |
| gap, plain − reference | the same |
| share of the gap that is closed | Fieller's, of the pairs by seed |
| difference of two ablations' effects | t, of the differences by seed |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.fitting.means import fieller, paired_mean, student_quantile
from extrap.records import AblationStudy, Interval, Measure, StudySpec
from extrap.records.ablations import Ablation, ablation_rate
from extrap.records.codec import shape

NEEDED = ("arm", "stage", "lr", "seed", "status", "loss")
DIGITS = 9
"""Significant digits by which a rate is known again after a table was written and read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """One arm of an ablation on the seeds it is judged on.

    Attributes:
        name: The arm.
        lr: Its learning rate.
        rate_rule: `"tuned"`, or the multiple of the plain arm's rate it is by.
        is_edge: Whether the rate was tuned and lies at the end of what was tried.
        batch_sizes: Batch of its first update, and of its last.
        updates: Optimiser updates of a run.
        n_examples: Examples of a run.
        loss: Mean final held-out loss.
        seed_sd: Its standard deviation over seeds; None from a single run.
        n_lost: Runs without a loss.
    """

    name: str
    lr: float
    rate_rule: str
    is_edge: bool
    batch_sizes: tuple[int, int]
    updates: int
    n_examples: int
    loss: float | None
    seed_sd: float | None
    n_lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationFinding:
    """What an ablation did.

    Attributes:
        ablation: The ablation.
        plain, treated, reference: Its arms.
        n_seeds: Seeds with a loss in every arm.
        difference: Final loss of the treated arm minus the plain one's, nats.
        gap: The plain arm's loss minus the reference's, nats; nothing without a reference.
        share: Part of the gap that the treatment closes; 1 closes it. Open on one side where the
            gap itself is not distinguished from 0.
        contrast: The difference minus that of the ablation `beside`; nothing without.
    """

    ablation: Ablation
    plain: ArmResult
    treated: ArmResult
    reference: ArmResult | None
    n_seeds: int
    difference: Measure
    gap: Measure
    share: Measure
    contrast: Measure

    @property
    def kind(self) -> str:
        """`"lower"`, `"higher"`, `"alike"` or `"unclear"`: of the treated arm's loss.

        Alike: the whole interval lies within one standard deviation over seeds of 0, though it may
        exclude 0. Unknown differences are `"unclear"`.
        """
        lower, upper = self.difference.ci
        if lower is None or upper is None:
            return "unclear"
        if self.is_within_noise:
            return "alike"
        return "lower" if upper < 0 else "higher" if lower > 0 else "unclear"

    @property
    def is_within_noise(self) -> bool:
        """Whether all of the interval is within the plain arm's seed noise of one run."""
        lower, upper = self.difference.ci
        noise = self.plain.seed_sd
        if lower is None or upper is None or noise is None:
            return False
        return max(abs(lower), abs(upper)) <= noise

    @property
    def updates_ratio(self) -> float:
        """Updates of the plain arm over those of the treated one."""
        return self.plain.updates / self.treated.updates


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationReport:
    """All ablations; `n_tuning` runs chose the rates, `n_judged` others compare arms."""

    findings: tuple[AblationFinding, ...]
    level: float
    n_judged: int
    n_tuning: int

    def by_group(self) -> dict[str, tuple[AblationFinding, ...]]:
        """Group → its ablations, in the order of the study."""
        groups = dict.fromkeys(finding.ablation.group for finding in self.findings)
        return {
            name: tuple(f for f in self.findings if f.ablation.group == name) for name in groups
        }


def best_rates(study: AblationStudy, table: pd.DataFrame) -> dict[str, float]:
    """Tuned arm → the rate with the lowest mean log loss over its tuning seeds.

    A rate at which any run was lost is none; a mean over fewer seeds would favour it.

    Args:
        study: The study.
        table: One row per run: `arm`, `stage`, `lr`, `seed`, `status`, `loss`.

    Raises:
        DataError: A column is missing, or an arm has no rate at which all runs have a loss.
    """
    _require_columns(table)
    found = {}
    for spec in study.tuned_arms():
        means = _tuning_means(spec, table)
        if means.empty:
            raise DataError(
                f"an arm needs a rate at which every tuning run has a loss, {spec.name!r} "
                "has none; run the study, or lower its range of rates."
            )
        found[spec.name] = float(f"{means.idxmin():.12g}")
    return found


def judge_ablations(study: AblationStudy, table: pd.DataFrame) -> AblationReport:
    """Compare the arms of every ablation on the seeds that did not choose their rates.

    Args:
        study: The study.
        table: As in `best_rates`, with the judged runs at `stage` `"check"`.

    Raises:
        DataError: As `best_rates`, or an arm has no judged run at its rate.
    """
    best = best_rates(study, table)
    judged = table[(table["stage"] == "check") & table["seed"].isin(study.judge_seeds)]
    losses = {
        ablation.name: {
            spec.name: _losses(ablation, spec, judged, best) for spec in ablation.arms()
        }
        for ablation in study.ablations
    }
    findings = tuple(
        _finding(study, ablation, losses, best=best, table=table) for ablation in study.ablations
    )
    n_judged = sum(
        int(((judged["arm"] == arm) & _is_rate(judged["lr"], rate)).sum())
        for arm, rates in study.rates(best).items()
        for rate in rates
    )
    return AblationReport(
        findings=findings,
        level=study.level,
        n_judged=n_judged,
        n_tuning=sum(len(_tuning_rows(spec, table)) for spec in study.tuned_arms()),
    )


def share_closed(closed: Iterable[float], gaps: Iterable[float], *, level: float) -> Measure:
    """Ratio of two paired means, ρ = E a / E b with b > 0, and Fieller's interval.

    Where the mean of b is distinguished from 0 it is an interval; where it is not, the ρ that go
    with a positive b are bounded on one side at most, and on none where both means may be 0.

    Args:
        closed: a, one per pair.
        gaps: b, one per pair.
        level: In (0, 1).
    """
    a, b = (np.asarray(list(values), dtype=float) for values in (closed, gaps))
    if len(a) < 2:
        return Measure()
    n, mean_a, mean_b = len(a), float(a.mean()), float(b.mean())
    covariance = np.cov(a, b, ddof=1) * student_quantile(level, n) ** 2 / n
    value = mean_a / mean_b if mean_b > 0 else None
    found = fieller(mean_a, mean_b, covariance)
    if found is None or (found.is_between and mean_b < 0):
        return Measure()  # there is no gap to close, or neither mean is distinguished from 0
    if found.is_between:
        return Measure(value=value, ci=Interval(found.lower, found.upper))
    # the means may have b = 0, and a is then beyond 0: pairs with b > 0 lie on that side
    beyond = mean_a - mean_b * float(covariance[0, 1] / covariance[1, 1])
    lower, upper = (found.upper, None) if beyond > 0 else (None, found.lower)
    return Measure(value=value, ci=Interval(lower, upper))


def _finding(
    study: AblationStudy,
    ablation: Ablation,
    losses: dict[str, dict[str, pd.Series]],
    *,
    best: dict[str, float],
    table: pd.DataFrame,
) -> AblationFinding:
    own = losses[ablation.name]
    arms = {
        spec.name: _arm(ablation, spec, own[spec.name], best=best, table=table)
        for spec in ablation.arms()
    }
    pairs = pd.DataFrame(own).dropna()
    change = pairs[ablation.treated.name] - pairs[ablation.plain.name]
    gap, share = Measure(), Measure()
    if ablation.reference is not None:
        gaps = pairs[ablation.plain.name] - pairs[ablation.reference.name]
        gap = paired_mean(gaps, level=study.level)
        share = share_closed(-change, gaps, level=study.level)
    contrast = Measure()
    if ablation.beside:
        other = next(each for each in study.ablations if each.name == ablation.beside)
        theirs = pd.DataFrame(losses[other.name]).dropna()
        effects = change - (theirs[other.treated.name] - theirs[other.plain.name])
        contrast = paired_mean(effects.dropna(), level=study.level)
    return AblationFinding(
        ablation=ablation,
        plain=arms[ablation.plain.name],
        treated=arms[ablation.treated.name],
        reference=None if ablation.reference is None else arms[ablation.reference.name],
        n_seeds=len(pairs),
        difference=paired_mean(change, level=study.level),
        gap=gap,
        share=share,
        contrast=contrast,
    )


def _arm(
    ablation: Ablation,
    spec: StudySpec,
    losses: pd.Series,
    *,
    best: dict[str, float],
    table: pd.DataFrame,
) -> ArmResult:
    is_scaled = spec.name == ablation.treated.name and ablation.rate is not None
    rate, recipe = ablation_rate(ablation, spec, best), spec.recipe
    known = losses.dropna()
    last = recipe.phases()[-1].batch_size
    return ArmResult(
        name=spec.name,
        lr=rate,
        rate_rule=f"× {ablation.rate:.4g}" if is_scaled else "tuned",
        is_edge=not is_scaled and _is_edge(spec, table, rate),
        batch_sizes=(recipe.batch_size, last),
        updates=recipe.n_updates,
        n_examples=recipe.n_examples,
        loss=None if known.empty else float(known.mean()),
        seed_sd=float(known.std(ddof=1)) if len(known) > 1 else None,
        n_lost=int(losses.isna().sum()),
    )


def _losses(
    ablation: Ablation, spec: StudySpec, judged: pd.DataFrame, best: dict[str, float]
) -> pd.Series:
    """Seed → final loss of an arm at its rate; NaN where the run has none.

    Raises:
        DataError: There is no such run.
    """
    rate = ablation_rate(ablation, spec, best)
    mine = judged[(judged["arm"] == spec.name) & _is_rate(judged["lr"], rate)]
    if mine.empty:
        raise DataError(
            f"{ablation.name!r} needs runs of the arm {spec.name!r} at rate {rate:.4g} on "
            "seeds other than those for tuning, there is none; run the study to its end."
        )
    losses = mine.set_index("seed")["loss"].where(mine.set_index("seed")["status"] == "complete")
    return losses.astype(float)


def _tuning_means(spec: StudySpec, table: pd.DataFrame) -> pd.Series:
    """Rate → mean log loss over the tuning seeds, where every run has a loss."""
    mine = _tuning_rows(spec, table)
    log_loss = np.log(mine["loss"].where(mine["status"] == "complete").astype(float))
    by_rate = log_loss.groupby(mine["lr"])
    return by_rate.mean()[by_rate.count() == len(spec.seeds)]


def _tuning_rows(spec: StudySpec, table: pd.DataFrame) -> pd.DataFrame:
    is_own = (table["arm"] == spec.name) & (table["stage"] == "tune")
    return table[is_own & table["seed"].isin(spec.seeds)]


def _is_edge(spec: StudySpec, table: pd.DataFrame, rate: float) -> bool:
    mine = _tuning_rows(spec, table)
    return bool(rate <= mine["lr"].min() * (1 + 1e-9) or rate >= mine["lr"].max() * (1 - 1e-9))


def _is_rate(rates: pd.Series, rate: float) -> pd.Series:
    return (rates / rate - 1).abs() < 10.0**-DIGITS * 5


def _require_columns(table: pd.DataFrame) -> None:
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise DataError(
            f"a table of ablations needs the columns {', '.join(NEEDED)}; {missing[0]} is missing."
        )


shape(AblationReport, kind="extrap-ablations", names={"findings": "ablations"})
shape(
    AblationFinding,
    omit=("ablation", "plain", "treated", "reference"),
    add={
        "name": lambda finding: finding.ablation.name,
        "group": lambda finding: finding.ablation.group,
        "kind": lambda finding: finding.kind,
        "is_within_seed_noise": lambda finding: finding.is_within_noise,
        "updates_ratio": lambda finding: finding.updates_ratio,
        "arms": lambda finding: {
            role: arm
            for role in ("plain", "treated", "reference")
            if (arm := getattr(finding, role)) is not None
        },
    },
)
shape(ArmResult, names={"rate_rule": "rate"})
