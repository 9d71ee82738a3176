"""The bootstrap of a fitted law: what its parameters would be on other data of the same kind.

What to use when:

* `parametric` — noise is normal and alike at all sizes; works with few sizes.
* `residual` — the same without assuming that it is normal; with groups, one sign a group.
* `pairs` — many sizes whose noise may differ; with groups, whole groups are drawn. Needs 8.

All three need the law to be right; none sees a regime that lies beyond the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from extrap.errors import DataError, FitError
from extrap.fitting.projection import Mask, Problem, distinct_starts, project, screen
from extrap.fitting.robust import minimise_huber
from extrap.laws import LOSS_LAWS
from extrap.laws.base import Array
from extrap.records import Fit

Kind = Literal["parametric", "residual", "pairs"]

LEAST_GROUPS = 8
"""Below this many sizes (or groups) a draw with repetition is often no design at all."""
N_SCREENED = 3
"""Starts of a replicate besides the fit itself: the best points of the law's grid *for it*."""
MAX_FAILED_SHARE = 0.2
"""Share of replicates without a solution above which the bootstrap fails."""


class Bootstrap(NamedTuple):
    """Replicates of a fit.

    Attributes:
        values: Parameters, (n_replicates − n_failed, n_parameters), at the fit's reference size.
        n_failed: Replicates without a solution; they are left out.
    """

    values: Array
    n_failed: int


def bootstrap(
    fitted: Fit,
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    kind: Kind,
    n_replicates: int = 1000,
    seed: int,
    groups: Sequence[int | str] | None = None,
) -> Bootstrap:
    """Refit a law to replicates of its data, each from several starts.

    Re-optimising each replicate matters: replicates that stay where the fit started give
    intervals many times too narrow.

    Args:
        fitted: The fit, without standard errors and weights; its law, pins and robustness are
            those of the replicates.
        sizes: The sizes it was fitted to, as given to `fit`.
        loss: The losses.
        kind: How data of the same kind are made.
        n_replicates: How many.
        seed: Of the random draws.
        groups: Label of each point; points of one label (a size, a run) are drawn together.

    Returns:
        Parameters of the replicates, and how many failed.

    Raises:
        ValueError: The kind is unknown, or groups were given to a parametric bootstrap.
        DataError: A pairs bootstrap of fewer than 8 sizes or groups.
        FitError: More than a fifth of the replicates failed.

    References:
        Efron, Tibshirani (1993), An introduction to the bootstrap, sections 9.4 and 9.5.
        Cameron, Gelbach, Miller (2008), Bootstrap-based improvements for inference with clustered
        errors, section III, for one sign a group.
        Besiroglu et al. (2024), arXiv 2404.10102, for what happens without re-optimisation.
    """
    replicates = replicate_problem(
        fitted, sizes, loss, kind=kind, n_replicates=n_replicates, seed=seed, groups=groups
    )
    starts = replicate_starts(fitted, replicates)
    if fitted.robust is None:
        n_shape = len(replicates.law.shape(len(fitted.columns)))
        solutions = project(replicates, starts[..., starts.shape[-1] - n_shape :])
    else:
        solutions = minimise_huber(replicates, starts, delta=fitted.robust)
    values, objective, converged = solutions.best()
    ok = converged & np.isfinite(objective) & _is_design(replicates, fitted)
    n_failed = int(n_replicates - ok.sum())
    if n_failed > MAX_FAILED_SHARE * n_replicates:
        raise FitError(
            f"{n_failed} of {n_replicates} bootstrap replicates of the law {fitted.law} failed; "
            "pin a parameter, fit a smaller law, or add sizes."
        )
    return Bootstrap(values[ok], n_failed)


def replicate_problem(
    fitted: Fit,
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    kind: Kind,
    n_replicates: int,
    seed: int,
    groups: Sequence[int | str] | None = None,
) -> Problem:
    """The data sets of a bootstrap; arguments and errors as in `bootstrap`."""
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be parametric, residual or pairs; got {kind!r}.")
    if groups is not None and kind == "parametric":
        raise ValueError(
            "a parametric bootstrap draws every point separately, got groups; use another kind."
        )
    law, rng = LOSS_LAWS[fitted.law], np.random.default_rng(seed)
    x = np.column_stack([np.asarray(sizes[column], dtype=float) for column in fitted.columns])
    z, y = x / np.asarray(fitted.reference), np.asarray(loss, dtype=float)
    shape = (n_replicates, len(y))
    weight, losses = np.ones(shape), np.broadcast_to(y, shape)
    curve = law.log_predict(np.array(fitted.values), z)
    units = np.arange(len(y)) if groups is None else np.asarray(groups)
    labels = np.unique(units, return_inverse=True)[1]
    n_units = int(labels.max()) + 1
    if kind == "pairs":
        least = min(n_units, len(np.unique(z, axis=0)))
        if least < LEAST_GROUPS:
            raise DataError(
                f"a pairs bootstrap needs at least {LEAST_GROUPS} distinct sizes (or groups), got "
                f"{least}; use the parametric or the residual one."
            )
        share = np.full(n_units, 1 / n_units)
        weight = rng.multinomial(n_units, share, size=n_replicates)[:, labels].astype(float)
    elif kind == "residual":  # scaled for the parameters they were fitted with
        residual = (np.log(y) - curve) * np.sqrt(len(y) / fitted.dof)
        if groups is None:
            drawn = (residual - residual.mean())[rng.integers(len(y), size=shape)]
        else:
            drawn = residual * rng.choice([-1.0, 1.0], size=(n_replicates, n_units))[:, labels]
        losses = np.exp(curve + drawn)
    else:
        losses = np.exp(curve + rng.normal(size=shape) * fitted.scatter)
    return Problem(law=law, z=z, y=losses, weight=weight, fixed=fitted.fixed)


def replicate_starts(fitted: Fit, replicates: Problem) -> Array:
    """Where each replicate starts, (n_replicates, n_starts, n_parameters)."""
    screened = screen(replicates, distinct_starts(replicates), keep=N_SCREENED)
    values = np.array(fitted.values)
    at_fit = np.broadcast_to(values, (len(screened), 1, len(values)))
    return np.concatenate([at_fit, screened], axis=1)


def _is_design(problem: Problem, fitted: Fit) -> Mask:
    """Whether a replicate still holds more distinct sizes than free parameters."""
    which = np.unique(problem.z, axis=0, return_inverse=True)[1].ravel()
    one_hot = np.eye(which.max() + 1)[which]
    n_sizes = ((problem.weight > 0) @ one_hot > 0).sum(axis=1)
    return np.asarray(n_sizes > len(fitted.names) - len(fitted.fixed))
