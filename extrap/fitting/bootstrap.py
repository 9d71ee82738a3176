"""The bootstrap of a fitted law: what its parameters would be on other data of the same kind.

What to use when:

* `parametric` — noise is known or alike at all sizes; works with few sizes.
* `residual` — the same without assuming that it is normal; with groups, one sign a group.
* `pairs` — many sizes whose noise may differ; with groups, whole groups are drawn. Needs 8.

All three need the law to be right; none sees a regime that lies beyond the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from extrap.errors import DataError, FitError
from extrap.fitting.loss_law import log_errors, problem_of
from extrap.fitting.projection import Index, Mask, Problem, distinct_starts, project, screen
from extrap.fitting.robust import minimise_huber
from extrap.laws.base import Array
from extrap.records import Fit

Kind = Literal["parametric", "residual", "pairs"]

MIN_PAIRS = 8
"""Below this many sizes (or groups) a draw with repetition is often no design at all."""
N_SCREENED = 3
"""Starts of a replicate besides the fit itself: the best points of the law's grid *for it*."""
MAX_FAILED = 0.2


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
    loss_se: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    groups: Sequence[int | str] | None = None,
) -> Bootstrap:
    """Refit a law to replicates of its data, each from several starts.

    Re-optimising each replicate matters: replicates that stay where the fit started give
    intervals many times too narrow.

    Args:
        fitted: The fit; its law, pins and robustness are those of the replicates.
        sizes: The sizes it was fitted to, as given to `fit`.
        loss: The losses.
        kind: How data of the same kind are made.
        n_replicates: How many.
        seed: Of the random draws.
        loss_se: As given to `fit`.
        weights: As given to `fit`.
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
        fitted,
        sizes,
        loss,
        kind=kind,
        n_replicates=n_replicates,
        seed=seed,
        loss_se=loss_se,
        weights=weights,
        groups=groups,
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
    if n_failed > MAX_FAILED * n_replicates:
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
    loss_se: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    groups: Sequence[int | str] | None = None,
) -> Problem:
    """The data sets of a bootstrap; arguments and errors as in `bootstrap`."""
    problem = problem_of(fitted, sizes, loss, loss_se=loss_se, weights=weights)
    labels = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    if kind == "pairs":
        return _pairs(problem, labels, n_replicates, rng)
    if kind == "residual":
        return _residual(fitted, problem, labels, n_replicates, rng)
    if kind != "parametric":
        raise ValueError(f"kind must be parametric, residual or pairs; got {kind!r}.")
    if labels is not None:
        raise ValueError(
            "a parametric bootstrap draws every point separately, got groups; use another kind."
        )
    log_se = None if loss_se is None else log_errors(loss, loss_se)
    return _parametric(fitted, problem, log_se, n_replicates, rng)


def replicate_starts(fitted: Fit, replicates: Problem) -> Array:
    """Where each replicate starts, (n_replicates, n_starts, n_parameters)."""
    found = screen(replicates, distinct_starts(replicates), keep=N_SCREENED)
    own = np.array(fitted.values)
    return np.concatenate([np.broadcast_to(own, (len(found), 1, len(own))), found], axis=1)


def _curve(fitted: Fit, problem: Problem) -> Array:
    return problem.law.log_predict(np.array(fitted.values), problem.z)


def _parametric(
    fitted: Fit, problem: Problem, log_se: Array | None, n: int, rng: np.random.Generator
) -> Problem:
    """Normal noise of the known size, scaled up where the residuals say so."""
    inflation = max(fitted.chi2 / fitted.dof, 1.0)
    if log_se is None:
        sd = fitted.scatter / np.sqrt(problem.weight[0])
    else:
        sd = log_se * np.sqrt(inflation)
    noise = rng.normal(size=(n, problem.z.shape[0])) * sd
    return _with(problem, y=np.exp(_curve(fitted, problem) + noise))


def _residual(
    fitted: Fit,
    problem: Problem,
    labels: Index | None,
    n: int,
    rng: np.random.Generator,
) -> Problem:
    """The fit's own residuals, scaled for the parameters they were fitted with, drawn again."""
    curve, root = _curve(fitted, problem), np.sqrt(problem.weight[0])
    points = len(curve)
    residual = (np.log(problem.y[0]) - curve) * root * np.sqrt(points / fitted.dof)
    if labels is None:
        drawn = (residual - residual.mean())[rng.integers(points, size=(n, points))]
    else:
        drawn = residual * rng.choice([-1.0, 1.0], size=(n, labels.max() + 1))[:, labels]
    return _with(problem, y=np.exp(curve + drawn / root))


def _pairs(problem: Problem, labels: Index | None, n: int, rng: np.random.Generator) -> Problem:
    """Points, or whole groups, drawn with repetition: how often each is drawn is a weight."""
    n_sizes = len(np.unique(problem.z, axis=0))
    n_units = n_sizes if labels is None else labels.max() + 1
    if min(n_sizes, n_units) < MIN_PAIRS:
        raise DataError(
            f"a pairs bootstrap needs at least {MIN_PAIRS} distinct sizes (or groups), got "
            f"{min(n_sizes, n_units)}; use the parametric or the residual one."
        )
    if labels is None:
        labels = np.arange(problem.z.shape[0])
    units = int(labels.max()) + 1
    counts = rng.multinomial(units, np.full(units, 1 / units), size=n)[:, labels]
    return _with(problem, weight=counts * problem.weight)


def _with(problem: Problem, *, y: Array | None = None, weight: Array | None = None) -> Problem:
    n = len(y) if y is not None else len(weight) if weight is not None else 1
    shape = (n, problem.z.shape[0])
    return Problem(
        law=problem.law,
        z=problem.z,
        y=np.broadcast_to(problem.y if y is None else y, shape),
        weight=np.broadcast_to(problem.weight if weight is None else weight, shape),
        fixed=problem.fixed,
    )


def _is_design(problem: Problem, fitted: Fit) -> Mask:
    """Whether a replicate still holds more distinct sizes than free parameters."""
    which = np.unique(problem.z, axis=0, return_inverse=True)[1].ravel()
    one_hot = np.eye(which.max() + 1)[which]
    n_sizes = ((problem.weight > 0) @ one_hot > 0).sum(axis=1)
    return np.asarray(n_sizes > len(fitted.names) - len(fitted.fixed))
