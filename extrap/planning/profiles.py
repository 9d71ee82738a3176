"""Approach 2: the best size of every isoFLOP profile, and the line through them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extrap.errors import DataError
from extrap.laws.base import Array
from extrap.planning.lines import Optima
from extrap.planning.points import Points

__all__ = ["Profile", "around_best", "find_profiles", "minimum", "profile_optima"]

DEGREE = 3
"""Of the polynomial in ln N: a profile is steeper on one side, which a parabola takes for another
optimum."""
MIN_SIZES = DEGREE + 2
NEAR = np.log(4.0)
"""How far in ln N from the best run a profile is looked at: far from it no cubic holds, …"""
N_NEAREST = 7
"""… but so many sizes at least."""
SAME_SIZE = 1e-3
"""Largest difference of ln N between runs of one size."""
SAME_BUDGET = 0.02
"""Largest step of ln C between neighbours of one profile, …"""
WIDEST_BUDGET = 0.1
"""… and its whole width."""
FINE = 4001
"""Points at which a polynomial's minimum is looked for, before Newton's step."""
CURVED = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Runs of one budget.

    Attributes:
        log_flops: ln C, their mean.
        log_params: ln N, ascending, shape (n,).
        log_loss: ln L, shape (n,).
    """

    log_flops: float
    log_params: Array
    log_loss: Array


def find_profiles(points: Points) -> list[Profile]:
    """Groups of runs of one compute with at least five sizes, in ascending compute."""
    order = np.argsort(points.flops, kind="stable")
    log_flops = np.log(points.flops)[order]
    ends = [*(np.flatnonzero(np.diff(log_flops) > SAME_BUDGET) + 1), len(order)]
    found, start = [], 0
    for end in ends:
        rows, start = order[start:end], end
        budget = np.log(points.flops[rows])
        log_params = np.log(points.params[rows])
        if np.ptp(budget) > WIDEST_BUDGET or _n_sizes(log_params) < MIN_SIZES:
            continue
        rows = rows[np.argsort(log_params, kind="stable")]
        found.append(
            Profile(
                log_flops=float(budget.mean()),
                log_params=np.log(points.params[rows]),
                log_loss=np.log(points.loss[rows]),
            )
        )
    return found


def around_best(profile: Profile) -> Profile:
    """The runs within a factor of four of the best size, of the seven nearest sizes at least.

    Runs of one size count as one: the best size has the least mean of ln L.
    """
    which = _sizes_of(profile.log_params)
    n = np.bincount(which)
    sizes = np.bincount(which, weights=profile.log_params) / n
    best = np.argmin(np.bincount(which, weights=profile.log_loss) / n)
    away = np.abs(sizes - sizes[best])
    reach = max(NEAR, float(np.sort(away)[:N_NEAREST][-1])) + 1e-9
    near = (away <= reach)[which]
    return Profile(
        log_flops=profile.log_flops,
        log_params=profile.log_params[near],
        log_loss=profile.log_loss[near],
    )


def minimum(profile: Profile, degree: int = DEGREE) -> tuple[float, float, float] | None:
    """Where a polynomial in ln N has its least ln L inside the profile.

    Every run counts: a size of more runs weighs more, and their spread is part of the residuals.

    Args:
        profile: Runs of at least `degree + 2` sizes.
        degree: Of the polynomial.

    Returns:
        ln N_opt, its standard error for residuals of unit variance, ln L there; None where the
        least value is at an end of the profile.
    """
    centre, half = _frame(profile)
    u = (profile.log_params - centre) / half
    design = np.vander(u, degree + 1, increasing=True)
    theta = np.linalg.lstsq(design, profile.log_loss, rcond=None)[0]
    curve = np.polynomial.Polynomial(theta)
    grid = np.linspace(-1, 1, FINE)
    best = int(np.argmin(curve(grid)))
    bend = float(curve.deriv(2)(grid[best]))
    if best in (0, FINE - 1) or bend <= CURVED:
        return None
    at = float(grid[best] - curve.deriv()(grid[best]) / bend)
    slopes = np.arange(degree + 1) * at ** np.maximum(np.arange(degree + 1) - 1, 0)
    variance = slopes @ np.linalg.pinv(design.T @ design) @ slopes
    return centre + half * at, half * float(np.sqrt(variance)) / bend, float(curve(at))


def profile_optima(points: Points) -> Optima:
    """The best size of every profile that has one inside, with standard errors.

    The error of an optimum is that of its polynomial's vertex, from residuals pooled over all
    profiles.

    Raises:
        DataError: Fewer than three profiles with their best size inside.

    References:
        Hoffmann et al. (2022), arXiv 2203.15556, section 3.2, with a parabola; Czech (2026),
        arXiv 2603.22339, on its bias.
    """
    profiles = [around_best(profile) for profile in find_profiles(points)]
    if not profiles:
        raise DataError(
            f"no compute 6 N D has runs of {MIN_SIZES} sizes or more, within "
            f"{SAME_BUDGET:.0%} of each other; train several sizes at one compute."
        )
    square, dof = _residual(profiles)
    sd = np.sqrt(square / max(dof, 1))
    found = [(p, vertex) for p in profiles if (vertex := minimum(p)) is not None]
    if len(found) < 3:
        raise DataError(
            f"{len(found)} of {len(profiles)} isoFLOP profiles have their best size inside, a "
            "line needs three; add sizes on the side where the loss still falls, or budgets."
        )
    return Optima(
        log_flops=np.array([p.log_flops for p, _ in found]),
        log_params=np.array([vertex[0] for _, vertex in found]),
        log_params_se=sd * np.array([vertex[1] for _, vertex in found]),
        is_known=bool(dof >= 1 and sd > 0),
        loss=np.exp([vertex[2] for _, vertex in found]),
        how=f"cubics around the best run of {len(found)} of {len(profiles)} isoFLOP profiles",
    )


def _sizes_of(log_params: Array) -> NDArray[np.intp]:
    """Number of the size of every run; `log_params` ascends."""
    return np.append(0, np.cumsum(np.diff(log_params) > SAME_SIZE))


def _n_sizes(log_params: Array) -> int:
    return int(_sizes_of(np.sort(log_params))[-1]) + 1


def _frame(profile: Profile) -> tuple[float, float]:
    low, high = profile.log_params.min(), profile.log_params.max()
    return float((low + high) / 2), float((high - low) / 2)


def _residual(profiles: list[Profile]) -> tuple[float, int]:
    square, dof = 0.0, 0
    for profile in profiles:
        centre, half = _frame(profile)
        design = np.vander((profile.log_params - centre) / half, DEGREE + 1, increasing=True)
        theta = np.linalg.lstsq(design, profile.log_loss, rcond=None)[0]
        square += float(np.sum((profile.log_loss - design @ theta) ** 2))
        dof += len(profile.log_params) - DEGREE - 1
    return square, dof
