"""How far the loss of a split may be trusted: the convention of a forecast, for a fitted law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from extrap.errors import DataError, FitError
from extrap.fitting import (
    DISCREPANCY,
    LossPrediction,
    fit_surviving_laws,
    hold_out_last_doublings,
    predict_log,
    relative_sizes,
    worst_share,
)
from extrap.laws.base import Array
from extrap.planning.splits import SIX_N_D, ChinchillaLaw, ComputeRule, Split, optimal_split
from extrap.records import Fit, Interval, Measure

N_BEST = 3
"""Runs of the largest budgets, nearest to the best split, that tell whether the law holds."""
SAME_BUDGETS = 2.0
"""Budgets down to this factor below the largest are the largest ones."""
SIGNIFICANT = 0.003
"""A mean residual less probable than this is no luck, nor …"""
MISSED = 0.2
"""… an error of this share of the change. One or the other is told of 3 % of sound laws."""
SMALLEST = 1e-9
"""Scatter of a log loss; noise-free runs have none."""
CHINCHILLA = {"k": 1.0}
"""What makes the law of two sizes with one exponent that of Chinchilla."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FormDoubt:
    """What the runs say against the form of the fitted law.

    Attributes:
        law: The fitted law.
        last_flops: The largest compute of a run.
        share: ρ, structural error as a share of the change predicted since `last_flops`.
        missed: The same beyond what scatter explains; above `DISCREPANCY` only if smaller budgets
            forecast the largest ones badly.
        offset: Mean log residual of the best runs of the largest budgets; positive where they
            end above the law.
        p_value: Of that mean, if the law were right.
        forms: Other forms that survive, with weights; empty where the runs carry none.
        rule: How compute follows from parameters and tokens.
    """

    law: ChinchillaLaw
    last_flops: float
    share: float
    missed: float
    offset: float
    p_value: float
    forms: tuple[tuple[Fit, float], ...]
    rule: ComputeRule = SIX_N_D

    def prediction(self, split: Split, *, flops: float) -> LossPrediction:
        """Structural error of the log loss of a split about the law, its own errors left out.

        Variance `(ρ · change)² + offset² + Σ w (f − law)²`: of the change predicted from the
        largest compute of a run to `flops`, of lack of fit there, of forms that fit as well.

        Args:
            split: Parameters, tokens and loss by the law.
            flops: Training compute C; below `last_flops` the change is 0.
        """
        log_loss = math.log(float(split.loss))
        there, inside = (
            float(optimal_split(self.law, each, rule=self.rule).loss)
            for each in (flops, min(flops, self.last_flops))
        )
        change = math.log(there / inside)
        size = {"params": float(split.params), "tokens": float(split.tokens)}
        between = sum(
            weight * (float(predict_log(form, relative_sizes(form, size))[0][0]) - log_loss) ** 2
            for form, weight in self.forms
        )
        variance = (self.share * change) ** 2 + self.offset**2 + between
        return LossPrediction(log_loss=log_loss, curve=((variance, math.inf),), run=())

    @property
    def flags(self) -> list[str]:
        """What speaks against it, `name: detail` each."""
        found = []
        if self.p_value < SIGNIFICANT:
            side = "above" if self.offset > 0 else "below"
            off = f"{100 * math.expm1(abs(self.offset)):.1f} %"
            found.append(f"law-bends: {off} {side} it at the largest budgets")
        if self.missed > MISSED:
            found.append(
                f"law-misses-largest-budgets: by up to {100 * self.missed:.0f} % of the change it "
                "predicts"
            )
        return found


def find_doubt(
    fitted: Fit,
    law: ChinchillaLaw,
    params: Array,
    tokens: Array,
    loss: Array,
    *,
    fix: Mapping[str, float] | None = None,
    rule: ComputeRule = SIX_N_D,
) -> FormDoubt:
    """Hold the fitted law against its own largest budgets, and against other forms.

    Args:
        fitted: The law over parameters and tokens.
        law: Its coefficients.
        params: N, shape (n,).
        tokens: D, shape (n,).
        loss: Shape (n,).
        fix: Pinned parameters, as given to the fit.
        rule: How compute follows from parameters and tokens.
    """
    flops = rule.flops(params, tokens)
    expected = law.loss(params, tokens)
    rows = np.flatnonzero(flops > flops.max() / SAME_BUDGETS)
    # by the law's loss, not their own: the luckiest runs would lie below any law
    best = rows[np.argsort(expected[rows], kind="stable")[:N_BEST]]
    offset = float(np.mean(np.log(loss[best] / expected[best])))
    se = max(fitted.scatter, SMALLEST) / math.sqrt(len(best))
    p_value = float(2 * stats.t.sf(abs(offset) / se, fitted.dof))
    sizes = {"params": params.tolist(), "tokens": tokens.tolist()}
    share, missed = _worst_shares(sizes, loss, fitted=fitted, fix=fix or {})
    return FormDoubt(
        law=law,
        last_flops=float(flops.max()),
        share=share,
        missed=missed,
        offset=offset,
        p_value=p_value,
        forms=_forms(sizes, loss, fix=fix),
        rule=rule,
    )


def _worst_shares(
    sizes: Mapping[str, list[float]], loss: Array, *, fitted: Fit, fix: Mapping[str, float]
) -> tuple[float, float]:
    """What budgets up to a half and a quarter of both sizes would have said of the others.

    First as a forecast takes it, where nothing is known of noise; then with the scatter about the
    law for noise, which itself holds misfit.
    """
    pinned = {**CHINCHILLA, **fix} if set(fix) <= {"E"} else fix
    try:
        cuts = hold_out_last_doublings(
            sizes,
            loss.tolist(),
            loss_se=(max(fitted.scatter, SMALLEST) * loss).tolist(),
            loss_se_dof=fitted.dof,
            fix=pinned,
        )
    except FitError:  # the smaller budgets carry no law
        return DISCREPANCY, DISCREPANCY
    blind = [replace(cut, noise=np.zeros_like(cut.noise)) for cut in cuts]
    share, missed = (worst_share(each, local_weight=0.0) for each in (blind, cuts))
    return share, missed


def _forms(
    sizes: Mapping[str, list[float]], loss: Array, *, fix: Mapping[str, float] | None
) -> tuple[tuple[Fit, float], ...]:
    try:
        laws = fit_surviving_laws(sizes, loss.tolist(), loss_se=None, fix=fix)
    except (DataError, FitError):
        return ()
    return tuple((form, weight) for form, weight in laws if weight > 0)


def widen(measure: Measure, structural: LossPrediction, *, level: float) -> Measure:
    """An interval of a loss with structural error added, on each side in quadrature of logs."""
    assert measure.value is not None
    about = structural.interval(level, new_run=False)
    sides = []
    for own, other in zip(measure.ci, about, strict=True):
        assert own is not None
        assert other is not None
        half = math.hypot(math.log(own / measure.value), math.log(other) - structural.log_loss)
        sides.append(half)
    low, high = sides
    return Measure(
        value=measure.value,
        ci=Interval(measure.value * math.exp(-low), measure.value * math.exp(high)),
    )
