"""Where compute goes under the Chinchilla law, and the records of a split and its intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extrap.laws import effective_epochs
from extrap.laws.base import Array
from extrap.records import Interval, Measure
from extrap.records.codec import shape

TOKENS_SATURATION = 15.3878
"""R_D* of Muennighoff et al."""
PARAMS_SATURATION = 5.3097
"""R_N* of Muennighoff et al."""
REPEATED_LOG_REACH = np.log(1e6)
"""How far in ln N from Chinchilla's optimum the best size on repeated data is looked for."""
N_ZOOM_POINTS = 129
"""Points of each grid on which the minimum of a loss or a cost is looked for."""
LARGEST_LOG_SIZE = 300.0
"""Bound on a log size: exponents near zero, as some replicates have, send it to infinity."""
ZOOMS = 12
"""Grids, each between the neighbours of the best point of the one before."""
NEAR_BEST_SHARE = 0.001
"""Share above the least loss up to which sizes count as good as the best."""


class ComputeRule(NamedTuple):
    """Training compute `C = k N^p D`; 6 N D, unless the runs count it otherwise.

    With p below 1 it covers compute of weights that N leaves out, such as embeddings.
    """

    k: float = 6.0
    p: float = 1.0

    @classmethod
    def of(cls, params: Array, tokens: Array, flops: Array) -> ComputeRule:
        """Least squares of ln(C / D) on ln N; p is 1 where all runs have one size."""
        log_n, log_cost = np.log(params), np.log(flops / tokens)
        p = float(np.polyfit(log_n, log_cost, 1)[0]) if np.ptp(log_n) > 0 else 1.0
        return cls(k=float(np.exp(np.mean(log_cost - p * log_n))), p=p)

    def flops(self, params: Array, tokens: Array) -> Array:
        """C of N parameters trained on D tokens."""
        return np.asarray(self.k * np.asarray(params) ** self.p * np.asarray(tokens))

    def tokens(self, flops: float, params: Array) -> Array:
        """D that C pays for at N parameters."""
        return np.asarray(flops / self.k / np.asarray(params) ** self.p)


SIX_N_D = ComputeRule()
"""C = 6 N D."""


class ChinchillaLaw(NamedTuple):
    """`L = E + A / N^α + B / D^β`; every field a number, or an array of one value per replicate.

    References:
        Hoffmann et al. (2022), Training compute-optimal large language models, arXiv 2203.15556,
        Eq. 2.
    """

    E: Array
    A: Array
    B: Array
    alpha: Array
    beta: Array

    @property
    def exponent(self) -> Array:
        """`a = β / (α + β)` of the compute-optimal parameters `N_opt ∝ C^a` at `C = 6 N D`."""
        return self.exponent_under(SIX_N_D)

    def exponent_under(self, rule: ComputeRule) -> Array:
        """`a = β / (α + p β)` at `C = k N^p D`."""
        return np.asarray(self.beta / (np.asarray(self.alpha) + rule.p * np.asarray(self.beta)))

    def loss(self, params: Array, tokens: Array) -> Array:
        """The loss of N parameters after D tokens, in the unit of E."""
        of_params = self.A * np.asarray(params) ** -np.asarray(self.alpha)
        return np.asarray(
            self.E + of_params + self.B * np.asarray(tokens) ** -np.asarray(self.beta)
        )


class Split(NamedTuple):
    """Parameters N, tokens D, and the loss they reach; shapes as those of the law."""

    params: Array
    tokens: Array
    loss: Array


def optimal_split(law: ChinchillaLaw, flops: float, *, rule: ComputeRule = SIX_N_D) -> Split:
    """The split of smallest loss at `C = 6 N D`: `N = G (C/6)^a`, `D = (C/6)^b / G`.

    With `G = (α A / (β B))^(1/(α+β))`, `a = β/(α+β)`, `b = 1 − a`. At `C = k N^p D`,
    `G = (α A / (p β B))^(1/(α+pβ))`, `a = β/(α+pβ)`, `N = G (C/k)^a`, `D = C / (k N^p)`.

    Args:
        law: The law, its exponents and coefficients positive.
        flops: Training compute C, in FLOPs.
        rule: How C is counted.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, Eq. 4.
    """
    alpha, beta = np.asarray(law.alpha), np.asarray(law.beta)
    log_g = np.log(alpha * law.A / (rule.p * beta * law.B)) / (alpha + rule.p * beta)
    log_params = log_g + law.exponent_under(rule) * np.log(flops / rule.k)
    params = np.exp(np.clip(log_params, -LARGEST_LOG_SIZE, LARGEST_LOG_SIZE))
    tokens = rule.tokens(flops, params)
    return Split(params, tokens, law.loss(params, tokens))


def repeated_split(
    law: ChinchillaLaw,
    flops: float,
    *,
    unique_tokens: float,
    rule: ComputeRule = SIX_N_D,
    tokens_saturation: float = TOKENS_SATURATION,
    params_saturation: float = PARAMS_SATURATION,
) -> Split:
    """The split of smallest loss at `C = 6 N D` if only U tokens are unique.

    `L = E + A / N'^α + B / D'^β`, where repeated tokens, and parameters beyond those that U
    tokens pay for, count for ever less. With U above the tokens of `optimal_split` it is that one.

    Args:
        law: The law of runs on fresh data.
        flops: Training compute C, in FLOPs.
        unique_tokens: U.
        rule: How C is counted.
        tokens_saturation: R_D*, repetitions of data after which little is left to gain.
        params_saturation: R_N*, the same of excess parameters.

    References:
        Muennighoff et al. (2023), Scaling data-constrained language models, arXiv 2305.16264,
        Eq. 5 and 6.
    """
    free = optimal_split(law, flops, rule=rule)
    alpha, beta = np.asarray(law.alpha)[..., None], np.asarray(law.beta)[..., None]
    ratio = np.asarray(law.alpha * law.A / (rule.p * law.beta * law.B))[..., None]
    paid = np.exp((np.log(ratio) + beta * np.log(unique_tokens)) / alpha)

    def loss(log_params: Array) -> Array:
        params = np.exp(log_params)
        tokens = rule.tokens(flops, params)
        base, unique = np.minimum(params, paid), np.minimum(tokens, unique_tokens)
        worth = base * effective_epochs(params / base, params_saturation)
        seen = unique * effective_epochs(tokens / unique, tokens_saturation)
        return ChinchillaLaw(*(np.asarray(v)[..., None] for v in law)).loss(worth, seen)

    centre = np.log(free.params)
    log_params, least = _zoom(loss, centre - REPEATED_LOG_REACH, centre + REPEATED_LOG_REACH)
    params = np.exp(log_params)
    return Split(params, rule.tokens(flops, params), least)


def served_split(
    law: ChinchillaLaw, flops: float, *, inference_tokens: float, rule: ComputeRule = SIX_N_D
) -> Split:
    """The cheapest split for training and serving at the loss that C alone would reach.

    Minimises `6 N D + 2 N D_inf` over all N, D with the loss of `optimal_split`: smaller models,
    trained longer. A served token costs a third of a trained one however C is counted.

    Args:
        law: The law.
        flops: Training compute C, in FLOPs, whose compute-optimal loss is to be reached.
        inference_tokens: D_inf, tokens to be served over the lifetime of the model.
        rule: How C is counted.

    References:
        Sardana et al. (2024), Beyond Chinchilla-optimal: accounting for inference in language
        model scaling laws, arXiv 2401.00448, Eq. 2.
    """
    free = optimal_split(law, flops, rule=rule)
    wide = ChinchillaLaw(*(np.asarray(v)[..., None] for v in law))
    without_floor = law._replace(E=np.zeros_like(free.loss))
    reducible = without_floor.loss(free.params, free.tokens)[..., None]
    smallest = np.log(wide.A / reducible) / wide.alpha

    def tokens_for(log_params: Array) -> Array:
        left = reducible - wide.A * np.exp(-wide.alpha * log_params)
        return np.asarray(np.where(left > 0, left / wide.B, np.nan) ** (-1 / wide.beta))

    def cost(log_params: Array) -> Array:
        with np.errstate(over="ignore"):  # near the smallest size no tokens are enough
            total = rule.flops(np.exp(log_params), tokens_for(log_params) + inference_tokens / 3)
        return np.asarray(np.nan_to_num(total, nan=np.inf, posinf=np.inf))

    log_params, _ = _zoom(cost, smallest[..., 0], np.log(free.params))
    tokens = tokens_for(log_params[..., None])[..., 0]
    return Split(np.exp(log_params), tokens, free.loss)


def _zoom(function: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Minimum of a unimodal function over the last axis of its argument.

    Grids around the best point of the grid before; a replicate is a row.
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    share = np.linspace(0.0, 1.0, N_ZOOM_POINTS)
    for _ in range(ZOOMS):
        grid = low[..., None] + (high - low)[..., None] * share
        value = function(grid)
        best = np.argmin(value, axis=-1)[..., None]
        low = np.take_along_axis(grid, np.maximum(best - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(grid, np.minimum(best + 1, N_ZOOM_POINTS - 1), axis=-1)[..., 0]
    minimum = np.take_along_axis(grid, best, axis=-1)[..., 0]
    return minimum, np.take_along_axis(value, best, axis=-1)[..., 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """The compute-optimal split by one estimator.

    Attributes:
        params: N_opt, parameters.
        tokens: D_opt, tokens.
        tokens_per_param: D_opt / N_opt.
        exponent: a of `N_opt ∝ C^a`.
        near_best: Parameters whose loss at this budget is within .1 % of the least.
        n_points: Runs or budgets behind it.
        how: How it was estimated, in a few words.
    """

    params: Measure
    tokens: Measure
    tokens_per_param: Measure
    exponent: Measure
    near_best: Interval
    n_points: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedData:
    """The best split of the same compute when tokens must be repeated.

    Attributes:
        unique_tokens: U, as given.
        params: Parameters N.
        tokens: Tokens seen D.
        epochs: D / U.
        effective_epochs: D' / U, what these passes are worth in passes over fresh data.
        loss: The loss reached.
    """

    unique_tokens: float
    params: Measure
    tokens: Measure
    epochs: Measure
    effective_epochs: Measure
    loss: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The cheapest split for training and serving, at the loss of the compute-optimal one.

    Attributes:
        inference_tokens: Tokens to be served, as given.
        params: Parameters N.
        tokens: Training tokens D.
        train_flops: 6 N D.
        total_flops: 6 N D + 2 N D_inf.
        saving: Share of the total that the compute-optimal model would cost more, of its own.
        loss: The loss, that of the compute-optimal split.
    """

    inference_tokens: float
    params: Measure
    tokens: Measure
    train_flops: Measure
    total_flops: Measure
    saving: Measure
    loss: Measure


shape(Estimated, omit=("n_points",))
