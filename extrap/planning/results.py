"""What an allocation is: the split, its intervals, and what each estimator says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from extrap.records import Fit, Measure, Shown
from extrap.records.codec import law_summary, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """The compute-optimal split by one estimator.

    Attributes:
        params: N_opt, parameters.
        tokens: D_opt, tokens.
        tokens_per_param: D_opt / N_opt.
        loss: The loss reached, its interval with structural error; its value is None where the
            estimator cannot say.
        loss_if_right: The same if the form of the law is right, with the interval of its
            parameters alone.
        exponent: a of `N_opt ∝ C^a`.
        n_points: Runs, budgets or runs of the envelope behind it.
        how: How it was estimated, in a few words.
    """

    params: Measure
    tokens: Measure
    tokens_per_param: Measure
    loss: Measure
    loss_if_right: Measure
    exponent: Measure
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Allocation(Shown):
    """A compute budget split between parameters and tokens.

    Attributes:
        flops: The budget C.
        level: Of all intervals.
        estimator: Key of `estimators`: the estimator of the answer.
        estimators: Estimator → its split.
        refused: Estimator → reason why these runs do not support it.
        law: The fitted Chinchilla law; None where only others than `parametric` were possible.
        extrapolation_ratio: Budget / largest compute of a run.
        discrepancy: Structural error of the loss, as a share of the change predicted since then.
        frontier_offset: Mean log residual of the law at the best runs of the largest budgets,
            positive where they end above it; None without a law.
        forecast_loss: Loss that `extrap.forecast` of all runs predicts for the split, from one law
            of all N and D; profiles use only their lowest losses.
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
    discrepancy: float
    frontier_offset: float | None
    forecast_loss: Measure
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
    def loss(self) -> Measure:
        """The loss reached."""
        return self.chosen.loss

    @property
    def exponent(self) -> Measure:
        """Exponent of `N_opt ∝ C^a`."""
        return self.chosen.exponent


SPLIT = ("params", "tokens", "loss", "loss_if_right", "exponent", "tokens_per_param")


def _chosen(name: str, found: Allocation) -> Measure:
    measure: Measure = getattr(found.chosen, name)
    return measure


shape(Estimated, omit=("n_points",))
shape(
    Allocation,
    kind="extrap-allocation",
    omit=("refused",),
    add={
        "estimators": lambda found: {
            **found.estimators,
            **{name: {"refused": reason} for name, reason in found.refused.items()},
        },
        "law": lambda found: law_summary(found.law),
        **{name: partial(_chosen, name) for name in SPLIT},
    },
)
