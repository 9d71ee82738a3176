"""Power laws with a floor through the losses of two recipes, with what each point does to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array

FLOORS = 1 - np.concatenate([np.logspace(0, -3, 80)[1:]])
"""Trial floors, as shares of the smallest loss."""
STEPS = 60
TOLERANCE = 1e-13
EXPONENTS = (-3.0, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmLaws:
    """`L = E + b z^(−c)`, `z = x / x0`, for a plain and a treated recipe.

    Attributes:
        floors: E, plain and treated; the same twice where it is shared.
        log_scales: ln b.
        exponents: c.
        log_reference: ln x0.
        is_shared: Whether the floor is one.
        influence: Change of (E…, ln b, c, ln b, c) by a change of the mean log losses, plain
            then treated: shape (n_parameters, 2 n_sizes).
        log_size: ln x, shape (n_sizes,).
        square: Weighted sum of squared log residuals.
    """

    floors: tuple[float, float]
    log_scales: tuple[float, float]
    exponents: tuple[float, float]
    log_reference: float
    is_shared: bool
    influence: Array
    log_size: Array
    square: float

    def log_loss(self, arm: int, log_size: float | Array) -> Array:
        """Log loss of an arm (0 plain, 1 treated) at ln x."""
        t = np.asarray(log_size, dtype=float) - self.log_reference
        reducible = np.exp(np.clip(self.log_scales[arm] - self.exponents[arm] * t, -700, 700))
        return np.asarray(np.log(self.floors[arm] + reducible))

    def gradient(self, arm: int, log_size: float | Array) -> Array:
        """Derivatives of `log_loss` by the parameters, shape (…, n_parameters)."""
        t = np.asarray(log_size, dtype=float) - self.log_reference
        reducible = np.exp(np.clip(self.log_scales[arm] - self.exponents[arm] * t, -700, 700))
        loss = self.floors[arm] + reducible
        n_floors = 1 if self.is_shared else 2
        found = np.zeros((*t.shape, n_floors + 4))
        found[..., 0 if self.is_shared else arm] = 1 / loss
        found[..., n_floors + 2 * arm] = reducible / loss
        found[..., n_floors + 2 * arm + 1] = -t * reducible / loss
        return found

    def weights(self, gradient: Array) -> tuple[Array, Array]:
        """What the mean log losses, plain and treated, do to a number of this gradient."""
        both = gradient @ self.influence
        n = len(self.log_size)
        return both[..., :n], both[..., n:]

    def exponent_gradient(self, arm: int) -> Array:
        """Gradient of an exponent by the parameters."""
        n_floors = 1 if self.is_shared else 2
        found = np.zeros(n_floors + 4)
        found[n_floors + 2 * arm + 1] = 1.0
        return found

    def designs(self) -> tuple[Array, Array]:
        """Derivatives of the difference and of the mean of both laws, at their average."""
        t = self.log_size - self.log_reference
        reducible = np.exp(np.mean(self.log_scales) - np.mean(self.exponents) * t)
        share = reducible / (np.mean(self.floors) + reducible)
        of_mean = np.column_stack([1 - share, share, t * share])
        return (of_mean[:, 1:] if self.is_shared else of_mean), of_mean


def fit_arm_laws(
    log_size: Array, log_loss: Array, counts: Array, *, is_shared: bool
) -> ArmLaws | None:
    """Weighted least squares on log losses.

    Args:
        log_size: ln x, shape (n_sizes,).
        log_loss: Mean log losses, plain and treated, shape (2, n_sizes).
        counts: Weights of the sizes.
        is_shared: Whether both have one floor.

    Returns:
        The laws; None where they have as many parameters as there are losses.
    """
    n = len(log_size)
    if n < 3 or (not is_shared and n < 4):
        return None
    reference = float(log_size.mean())
    t, loss = log_size - reference, np.exp(log_loss)
    trials = [_on_floors(t, loss[a], counts, smallest=float(loss.min())) for a in (0, 1)]
    if is_shared:
        best = int(np.argmin(trials[0][0] + trials[1][0]))
        picks = (best, best)
    else:
        own = [_on_floors(t, loss[a], counts, smallest=float(loss[a].min())) for a in (0, 1)]
        trials, picks = own, (int(np.argmin(own[0][0])), int(np.argmin(own[1][0])))
    start = [trials[a][1][picks[a]] for a in (0, 1)]  # (E, ln b, c)
    floors = [start[0][0]] if is_shared else [start[0][0], start[1][0]]
    theta = np.array([*floors, start[0][1], start[0][2], start[1][1], start[1][2]])
    return _refine(theta, log_size, log_loss, counts, reference, is_shared=is_shared)


def _on_floors(t: Array, loss: Array, counts: Array, *, smallest: float) -> tuple[Array, Array]:
    """Sum of squares and (E, ln b, c) at every trial floor, by lines in logarithms."""
    floors = np.concatenate([[0.0], FLOORS * smallest])
    rest = loss - floors[:, None]
    y, w = np.log(rest), counts * (rest / loss) ** 2
    total = w.sum(axis=1)
    mean_t, mean_y = (w @ t) / total, (w * y).sum(axis=1) / total
    centred = t - mean_t[:, None]
    slope = (w * centred * (y - mean_y[:, None])).sum(axis=1) / (w * centred**2).sum(axis=1)
    fitted = mean_y[:, None] + slope[:, None] * centred
    off = np.log(floors[:, None] + np.exp(fitted)) - np.log(loss)
    values = np.column_stack([floors, mean_y - slope * mean_t, -slope])
    return (counts * off**2).sum(axis=1), values


def _refine(
    theta: Array,
    log_size: Array,
    log_loss: Array,
    counts: Array,
    reference: float,
    *,
    is_shared: bool,
) -> ArmLaws:
    """Levenberg–Marquardt with floors in [0, smallest loss) and exponents within bounds."""
    n_floors = 1 if is_shared else 2
    top = np.exp(log_loss.min()) if is_shared else np.exp(log_loss.min(axis=1))
    ceiling = (1 - 1e-4) * np.atleast_1d(top)
    low = np.array([*([0.0] * n_floors), -700, EXPONENTS[0], -700, EXPONENTS[0]])
    high = np.array([*ceiling, 700, EXPONENTS[1], 700, EXPONENTS[1]])
    theta = np.clip(theta, low, high)
    root = np.sqrt(np.concatenate([counts, counts]))
    laws = _laws(theta, log_size, reference, is_shared=is_shared)
    off, jacobian = _residuals(laws, log_size, log_loss, root)
    damping, square = 1e-6, float(off @ off)
    for _ in range(STEPS):
        norm = np.maximum(np.linalg.norm(jacobian, axis=0), 1e-12)
        scaled = jacobian / norm
        right = scaled.T @ off
        step = np.linalg.solve(scaled.T @ scaled + (damping + 1e-12) * np.eye(len(theta)), -right)
        trial = np.clip(theta + step / norm, low, high)
        laws_trial = _laws(trial, log_size, reference, is_shared=is_shared)
        off_trial, jacobian_trial = _residuals(laws_trial, log_size, log_loss, root)
        square_trial = float(off_trial @ off_trial)
        if square_trial <= square:
            done = square - square_trial <= TOLERANCE * square
            theta, laws, off, jacobian = trial, laws_trial, off_trial, jacobian_trial
            square, damping = square_trial, damping / 10
            if done:
                break
        else:
            damping = max(damping * 10, 1e-9)
            if damping > 1e8:
                break
    norm = np.maximum(np.linalg.norm(jacobian, axis=0), 1e-12)
    influence = (np.linalg.pinv(jacobian / norm, rcond=1e-9) / norm[:, None]) * root
    return _laws(
        theta, log_size, reference, is_shared=is_shared, influence=influence, square=square
    )


def _laws(
    theta: Array,
    log_size: Array,
    reference: float,
    *,
    is_shared: bool,
    influence: Array | None = None,
    square: float = 0.0,
) -> ArmLaws:
    n_floors = 1 if is_shared else 2
    rest = theta[n_floors:]
    return ArmLaws(
        floors=(float(theta[0]), float(theta[n_floors - 1])),
        log_scales=(float(rest[0]), float(rest[2])),
        exponents=(float(rest[1]), float(rest[3])),
        log_reference=reference,
        is_shared=is_shared,
        influence=np.empty((0, 0)) if influence is None else influence,
        log_size=log_size,
        square=square,
    )


def _residuals(
    laws: ArmLaws, log_size: Array, log_loss: Array, root: Array
) -> tuple[Array, Array]:
    fitted = np.concatenate([laws.log_loss(arm, log_size) for arm in (0, 1)])
    gradient = np.concatenate([laws.gradient(arm, log_size) for arm in (0, 1)])
    return root * (fitted - log_loss.ravel()), root[:, None] * gradient
