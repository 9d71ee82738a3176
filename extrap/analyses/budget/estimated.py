"""What an estimator says of a budget: its split, repeated data, serving."""

from __future__ import annotations

from dataclasses import dataclass

from extrap.records import Interval, Measure
from extrap.records.codec import shape

NEAR_BEST = 0.001
"""Share above the least loss up to which sizes count as good as the best."""


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
