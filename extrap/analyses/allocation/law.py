"""Approach 3: the Chinchilla law fitted to all runs, and the split it implies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.analyses.allocation.budget_splits import (
    NEAR_BEST_SHARE,
    SIX_N_D,
    TOKENS_SATURATION,
    ChinchillaLaw,
    ComputeRule,
    Estimated,
    RepeatedData,
    Serving,
    Split,
    optimal_split,
    repeated_split,
    served_split,
)
from extrap.errors import DataError, FitError
from extrap.fitting.bootstrap import LEAST_GROUPS, Kind, bootstrap
from extrap.fitting.loss_law import fit
from extrap.laws import effective_epochs
from extrap.laws.base import Array
from extrap.records import Fit, Interval, Measure

DELTA = 1e-3
"""δ of the Huber loss of log residuals."""
N_REPLICATES = 400
"""Replicates of the bootstrap."""
MAX_DEGENERATE = 0.2
"""Share of replicates without a best split; with more the split is not determined."""
NEAR_BEST_LOG_REACH = np.log(100.0)
"""How far in ln N from the best size the sizes near the best are looked for."""
N_NEAR_BEST_POINTS = 4001
"""Sizes within that reach at which the loss is computed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedLaw:
    """The Chinchilla law and its bootstrap replicates, in the units of the runs.

    Attributes:
        fitted: The fit.
        law: Its coefficients.
        replicates: Those of the replicates, one per row.
        level: Of the intervals.
        kind: Of the bootstrap.
        share_lost: Of the replicates, those that failed or have no optimum; they are left out.
        rule: How compute follows from parameters and tokens.
    """

    fitted: Fit
    law: ChinchillaLaw
    replicates: ChinchillaLaw
    level: float
    kind: str
    share_lost: float = 0.0
    rule: ComputeRule = SIX_N_D

    def split(self, flops: float) -> Estimated:
        """The compute-optimal split of a budget."""
        best, draws = self._both(lambda law: optimal_split(law, flops, rule=self.rule))
        return Estimated(
            params=self._measure(best.params, draws.params),
            tokens=self._measure(best.tokens, draws.tokens),
            tokens_per_param=self._measure(best.tokens / best.params, draws.tokens / draws.params),
            exponent=self._measure(
                self.law.exponent_under(self.rule), self.replicates.exponent_under(self.rule)
            ),
            near_best=self._near_best(best, flops),
            n_points=self.fitted.n_points,
            how=f"Chinchilla law, Huber's loss, {self.kind} bootstrap",
        )

    def repeated(self, flops: float, unique_tokens: float, loss: Measure) -> RepeatedData:
        """The split of a budget on U unique tokens.

        Args:
            flops: The budget.
            unique_tokens: U.
            loss: That of the split on fresh data; the law says how much repeating adds to it.
        """
        best, draws = self._both(
            lambda law: repeated_split(law, flops, unique_tokens=unique_tokens, rule=self.rule)
        )
        added = float(best.loss) / float(optimal_split(self.law, flops, rule=self.rule).loss)
        epochs, drawn = best.tokens / unique_tokens, draws.tokens / unique_tokens
        return RepeatedData(
            unique_tokens=unique_tokens,
            params=self._measure(best.params, draws.params),
            tokens=self._measure(best.tokens, draws.tokens),
            epochs=self._measure(epochs, drawn),
            effective_epochs=self._measure(
                effective_epochs(epochs, TOKENS_SATURATION),
                effective_epochs(drawn, TOKENS_SATURATION),
            ),
            loss=loss.map(lambda value: value * added),
        )

    def serving(self, flops: float, inference_tokens: float, loss: Measure) -> Serving:
        """The cheapest split for training and serving; `loss` is that of the budget's own."""
        best, draws = self._both(
            lambda law: served_split(law, flops, inference_tokens=inference_tokens, rule=self.rule)
        )
        free, free_draws = self._both(lambda law: optimal_split(law, flops, rule=self.rule))

        def cost(split: Split, served: float = inference_tokens) -> Array:
            return self.rule.flops(split.params, split.tokens + served / 3)

        return Serving(
            inference_tokens=inference_tokens,
            params=self._measure(best.params, draws.params),
            tokens=self._measure(best.tokens, draws.tokens),
            train_flops=self._measure(cost(best, 0.0), cost(draws, 0.0)),
            total_flops=self._measure(cost(best), cost(draws)),
            saving=self._measure(1 - cost(best) / cost(free), 1 - cost(draws) / cost(free_draws)),
            loss=loss,
        )

    def _near_best(self, best: Split, flops: float) -> Interval:
        """Parameters whose loss by the law is within `NEAR_BEST_SHARE` of the best."""
        params = best.params * np.exp(
            np.linspace(-NEAR_BEST_LOG_REACH, NEAR_BEST_LOG_REACH, N_NEAR_BEST_POINTS)
        )
        loss = self.law.loss(params, self.rule.tokens(flops, params))
        near = params[loss <= (1 + NEAR_BEST_SHARE) * best.loss]
        return Interval(float(near[0]), float(near[-1]))

    def _both(self, split: Callable[[ChinchillaLaw], Split]) -> tuple[Split, Split]:
        return split(self.law), split(self.replicates)

    def _measure(self, value: Array, draws: Array) -> Measure:
        tail = (1 - self.level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail])
        estimate = float(value)
        return Measure(
            value=estimate, ci=Interval(min(float(low), estimate), max(float(high), estimate))
        )


def fit_chinchilla(
    params: Array,
    tokens: Array,
    loss: Array,
    *,
    level: float,
    seed: int,
    fix: Mapping[str, float] | None = None,
    rule: ComputeRule = SIX_N_D,
) -> FittedLaw:
    """`L = E + A / N^α + B / D^β` by Huber's loss, δ = 1e-3, and replicates of its runs.

    Sizes, each with all its runs, are drawn with repetition; of fewer than 16 sizes, residuals.

    Args:
        params: N, shape (n,).
        tokens: D, shape (n,).
        loss: The losses, shape (n,).
        level: Of the intervals.
        seed: Of the bootstrap.
        fix: Pinned parameters of the law `power_floor`: E, c1 (α), c2 (β).
        rule: How compute follows from parameters and tokens.

    Raises:
        DataError: The runs cannot tell parameters from tokens, or are too few.
        FitError: No start converged, or one of the two terms vanished, so no split is best.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, section 3.3. Besiroglu et al. (2024),
        arXiv 2404.10102, for replicates that are optimised again.
    """
    sizes = {"params": params.tolist(), "tokens": tokens.tolist()}
    losses = loss.tolist()
    fitted = fit("power_floor", sizes, losses, fix=fix, robust=DELTA)
    law = law_of(fitted)
    if not _has_optimum(law):
        raise FitError(
            "the fitted law has no term in parameters or none in tokens, so no split is "
            "best; add runs that vary both at equal compute."
        )
    groups = pd.factorize(pd.MultiIndex.from_arrays([params, tokens]))[0].tolist()
    is_large = max(groups) + 1 >= 2 * LEAST_GROUPS
    kind: Kind = "pairs" if is_large else "residual"
    resampled = bootstrap(
        fitted,
        sizes,
        losses,
        kind=kind,
        n_replicates=N_REPLICATES,
        seed=seed,
        groups=groups if is_large else None,
    )
    replicates = _in_units(fitted, resampled.values)
    keep = _has_optimum(replicates)
    if np.mean(keep) < 1 - MAX_DEGENERATE:
        raise DataError(
            f"{np.sum(keep == 0)} of {len(keep)} bootstrap replicates lose a term of the "
            "law, so the split is not determined; add runs that vary parameters at equal "
            "compute."
        )
    return FittedLaw(
        fitted=fitted,
        law=law,
        replicates=ChinchillaLaw(*(v[keep] for v in replicates)),
        level=level,
        kind=kind,
        rule=rule,
        share_lost=1 - float(np.sum(keep)) / N_REPLICATES,
    )


def law_of(fitted: Fit) -> ChinchillaLaw:
    """The coefficients of a fitted `power_floor` over parameters and tokens, in their units."""
    return _in_units(fitted, np.array(fitted.values))


def _in_units(fitted: Fit, values: Array) -> ChinchillaLaw:
    floor, b1, b2, c1, c2 = (values[..., i] for i in range(5))
    n0, d0 = fitted.reference
    return ChinchillaLaw(E=floor, A=b1 * n0**c1, B=b2 * d0**c2, alpha=c1, beta=c2)


def _has_optimum(law: ChinchillaLaw) -> Array:
    terms = (np.asarray(law.A) > 0) & (np.asarray(law.B) > 0)
    return np.asarray(terms & np.isfinite(law.A) & np.isfinite(law.B))
