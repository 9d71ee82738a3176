"""Laws of a loss over one column with many sizes and unknown noise, and how much each counts.

No law follows published learning curves throughout. The family is every law that the data cannot
reject. The local law is a power law with a floor as the largest sizes see it: the error of a law
is no noise there, it grows with the distance from where one stands, so points count by
`(x / x_max)^(2k)`, and because few then remain, exponents come with a prior and are averaged over
instead of being chosen. What both would have said of the last doublings of size, from the sizes
below, tells the share of each and how far they may be off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extrap.errors import DataError
from extrap.fitting.distributions import f_tail
from extrap.fitting.health import LACK_OF_FIT_P
from extrap.fitting.loss_law import fit, predict_log
from extrap.fitting.mixture import Mixture, averaged_law
from extrap.fitting.seed_noise import neighbor_scatter
from extrap.laws import FAMILY, LOSS_LAWS
from extrap.laws.base import Array
from extrap.records import Fit

SAME_SIZE_SHARE = 0.05
"""Sizes within 5 % of each other are one size."""
SURVIVAL_P = 0.05
"""A law is dropped when an F-test against the best one rejects it at this level."""
LOWEST_LOSS_SHARE = 0.3
"""A law that would turn negative is followed down to this share of its last fitted loss."""
LEAST_REACH = 64.0
"""It is dropped if it is there within so many times the largest fitted size."""
LARGEST_EXPONENT = 700.0
"""Guard of an exponential."""
SMALLEST_SLOPE = 1e-300
"""Guard of a division by the slope of a law."""
MIN_NEIGHBOR_DOF = 3
"""Degrees of freedom from which on the scatter about neighboring sizes can refuse every law."""
DISCOUNT_POWERS = (1.0, 1.5, 2.0)
"""Powers k of the discount `(x / x_max)^k` of a residual; averaged over: no curve can choose."""
EXPONENT_MEDIANS = (0.4, 0.6, 0.8)
"""Medians of the lognormal priors of a local exponent; averaged over, too."""
EXPONENT_SPREADS = (0.35, 0.6)
"""Spreads of these priors, each with each median."""
EXPONENT_GRID = np.exp(np.linspace(np.log(0.02), np.log(3.0), 100))
"""Exponents of the local law that are averaged over."""
NEGLIGIBLE_WEIGHT = 1e-5
"""Components of the local law with a smaller weight are left out."""
LEAST_PRECISION = 1 / 1.2
"""The point that counts most counts at least so much, however well others far off are known."""
LEAST_SQUARES = 1e-30
"""Mean squared residual below which only rounding is left, which must not choose an exponent."""
N_DOUBLINGS = 2
"""The last doublings of size that are predicted from the sizes below them."""
HALVING_ERROR = 1e-9
"""Relative error of a size that is written down as half of another."""
MIN_SIZES_BELOW = 4
"""Different sizes below a cut from which the sizes above are predicted."""
LEAST_DISCREPANCY = 0.15
"""Least structural error of a law as a share of the change it predicts: a stated prior, as the
data cannot choose it: their own cuts are an easier regime."""
LEAST_CHANGE_SHARE = 0.3
"""Least change predicted at a held-out size that tells an error, over the largest of its cut."""
SMALLEST_CHANGE = 1e-12
"""Change of a log loss below which only rounding is left."""

Laws = tuple[tuple[Fit, float], ...]
"""Laws and their weights, which sum to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLaw:
    """Mixture `ln L = Σ_j w_j ln(E_j + b_j (x / x_max)^(−c_j))` over laws and their discounts.

    Attributes:
        column: The size column.
        smallest: The smallest fitted size.
        largest: x_max, the largest one.
        n_points: Number of fitted points.
        weights: w_j, which sum to 1.
        floors: E_j, in the unit of the loss.
        coefficients: b_j, in the unit of the loss.
        exponents: c_j.
        scatter: Standard deviation of the log loss of a point at x_max about the laws.
        dof: Points that effectively count, `Σ (x / x_max)^(2k)`; behind `scatter`.
    """

    column: str
    smallest: float
    largest: float
    n_points: int
    weights: tuple[float, ...]
    floors: tuple[float, ...]
    coefficients: tuple[float, ...]
    exponents: tuple[float, ...]
    scatter: float
    dof: float

    @property
    def law(self) -> Fit:
        """The averaged law."""
        return averaged_law(
            "power_floor",
            np.array([self.floors, self.coefficients, self.exponents]).T,
            np.asarray(self.weights),
            fitted_range={self.column: (self.smallest, self.largest)},
            reference=(self.largest,),
            scatter=self.scatter,
            dof=self.dof,
            n_points=self.n_points,
            fixed={},
        )

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture at n sizes x, shape (n,) each."""
        z = np.ravel(x) / self.largest
        floors, coefficients, exponents = (
            np.asarray(values)[:, None]
            for values in (self.floors, self.coefficients, self.exponents)
        )
        logs = np.log(floors + coefficients * z**-exponents)
        return Mixture(np.asarray(self.weights), logs, np.zeros_like(logs)).moments


class HeldOut(NamedTuple):
    """Log losses of the sizes above a cut, and what the sizes below predict.

    Attributes:
        observed: Shape (n_held,).
        family: By the family, of the sizes above and last of the largest one below; (n_held + 1,).
        local: The same by the local law.
    """

    observed: Array
    family: Array
    local: Array


def count_sizes(x: Array) -> int:
    """Number of different sizes, (n,) → int."""
    n, smallest = 0, 0.0
    for size in np.sort(x):
        if n == 0 or size > smallest * (1 + SAME_SIZE_SHARE):
            n, smallest = n + 1, float(size)
    return n


def fit_surviving_laws(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> Laws:
    """Fit every law of the family and weigh those that survive.

    A forecast from the best-fitting law alone is overconfident: laws that agree within the data
    part ways beyond them. The laws that an F-test against the best one does not reject count
    alike, except that one which would soon turn negative is dropped where another does not.
    """
    refusals: list[DataError] = []
    fits: list[Fit] = []
    for law in _candidates(len(sizes), fix or {}):
        try:
            fits.append(fit(law, sizes, loss, weights=weights, fix=fix))
        except DataError as error:
            refusals.append(error)
    if not fits:
        raise refusals[-1]
    best = min(fits, key=lambda law: law.chi2 / law.dof)
    survives = np.array([_survives(law, best) for law in fits])
    lasts = np.array(
        [_reach(law) >= LEAST_REACH * law.fitted_range[0][1] / law.reference[0] for law in fits]
    )
    if np.any(survives & lasts):
        survives &= lasts
    return tuple(zip(fits, (survives / survives.sum()).tolist(), strict=True))


def _candidates(n_columns: int, fix: Mapping[str, float]) -> list[str]:
    """The laws of the family that take so many size columns and have the pinned parameters."""
    laws = [LOSS_LAWS[key] for key in FAMILY if n_columns in LOSS_LAWS[key].n_columns]
    if not laws:
        raise ValueError(f"no law takes {n_columns} size columns; leave some out.")
    candidates = [law.key for law in laws if set(fix) <= set(law.names(n_columns))]
    if not candidates:
        pinnable = {name for law in laws for name in law.unit_free(n_columns)}
        raise ValueError(
            f"no law has the pinned parameters {', '.join(fix)}; pin one of "
            f"{', '.join(sorted(pinnable))}."
        )
    return candidates


def _survives(candidate: Fit, best: Fit) -> bool:
    extra = candidate.chi2 - best.chi2
    if candidate is best or extra <= 0:
        return True
    noise = best.chi2 / best.dof
    if noise <= np.finfo(float).eps * candidate.chi2:
        return False
    n_extra = max(candidate.dof - best.dof, 1)
    return bool(f_tail(extra / n_extra / noise, n_extra, best.scale_dof) > SURVIVAL_P)


def _reach(law: Fit) -> float:
    """Relative size up to which a log-linear law is followed; infinite for other laws."""
    if not LOSS_LAWS[law.law].may_turn_negative:
        return math.inf
    a, b = law.values
    last = a - b * math.log(law.fitted_range[0][1] / law.reference[0])
    log_reach = (a - LOWEST_LOSS_SHARE * last) / max(b, SMALLEST_SLOPE)
    return math.exp(min(log_reach, LARGEST_EXPONENT))


def family_at(laws: Sequence[tuple[Fit, float]], x: Array) -> Mixture:
    """Weighted laws at sizes x, (n, n_columns), each as far as it is followed."""
    laws = [(law, weight) for law, weight in laws if weight > 0]
    log_losses, errors = zip(
        *(predict_log(law, np.minimum(x / law.reference, _reach(law))) for law, _ in laws),
        strict=True,
    )
    weights = np.array([weight for _, weight in laws])
    return Mixture(weights, np.array(log_losses), np.array(errors) ** 2)


def none_fits(
    laws: Sequence[tuple[Fit, float]], sizes: Sequence[float], loss: Sequence[float]
) -> bool:
    """Whether every law lacks fit against the scatter of neighboring sizes.

    The residual variance of each law is compared with that of points about the line through their
    two neighbors; a law's bend between neighbors counts as scatter, so the test is conservative.
    """
    variance, dof = neighbor_scatter(np.asarray(sizes, dtype=float), np.asarray(loss))
    if dof < MIN_NEIGHBOR_DOF or variance == 0:
        return False
    return all(f_tail(law.scatter**2 / variance, law.dof, dof) < LACK_OF_FIT_P for law, _ in laws)


def fit_local(
    column: str,
    sizes: Sequence[float],
    loss: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
) -> LocalLaw:
    """Fit power laws with a floor that discount a point by its distance from the largest size.

    For each exponent c on a grid and each discount k, floor and coefficient follow by non-negative
    least squares on relative residuals `(1 − f / L) (x / x_max)^k`. With R their sum of squares
    and n = Σ (x / x_max)^(2k), the weight of c is `R^(−n/2)` times its prior. Where the largest
    size is known badly, n is in units of the point that then counts most.
    """
    x, y = np.asarray(sizes, dtype=float), np.asarray(loss, dtype=float)
    z, precision = x / x.max(), np.ones(len(y))
    if weights is not None:
        precision = np.sqrt(np.asarray(weights, dtype=float) / np.max(weights))
    parts, variances, dofs = [], [], []
    for power in DISCOUNT_POWERS:
        root = z**power * precision
        root = root * max(1.0, LEAST_PRECISION / float(root.max()))
        floor, coefficient, squares = _profile(z, y, root)
        dof = float(root @ root)
        weight = _exponent_weights(squares, dof)
        parts.append([weight / len(DISCOUNT_POWERS), floor, coefficient, EXPONENT_GRID])
        variances.append(float(weight @ squares) / dof)
        dofs.append(dof)
    components = np.hstack(parts)
    components = components[:, components[0] > NEGLIGIBLE_WEIGHT]
    components[0] /= components[0].sum()
    shares, floors, coefficients, exponents = map(tuple, components.tolist())
    return LocalLaw(
        column=column,
        smallest=float(x.min()),
        largest=float(x.max()),
        n_points=len(x),
        weights=shares,
        floors=floors,
        coefficients=coefficients,
        exponents=exponents,
        scatter=float(np.sqrt(np.mean(variances))),
        dof=float(np.mean(dofs)),
    )


def _profile(z: Array, y: Array, root: Array) -> tuple[Array, Array, Array]:
    """Floor, coefficient and sum of squares at each exponent: NNLS of two columns, solved."""
    flat = (root / y)[None]
    power = flat * z ** -EXPONENT_GRID[:, None]
    ff, fp, pp = (flat * flat).sum(1), (flat * power).sum(1), (power * power).sum(1)
    ft, pt = flat @ root, power @ root
    determinant = ff * pp - fp**2
    is_singular = determinant <= 0  # all but one size count nothing: the columns are alike
    divisor = np.where(is_singular, 1.0, determinant)
    floor = (pp * ft - fp * pt) / divisor
    coefficient = (ff * pt - fp * ft) / divisor
    no_floor, no_power = (floor < 0) | is_singular, (coefficient < 0) & ~is_singular
    floor = np.where(no_floor, 0.0, np.where(no_power, ft / ff, floor))
    coefficient = np.where(no_floor, pt / pp, np.where(no_power, 0.0, coefficient))
    residual = root - floor[:, None] * flat - coefficient[:, None] * power
    return floor, coefficient, (residual**2).sum(axis=1)


def _exponent_weights(squares: Array, dof: float) -> Array:
    """Posterior probabilities of the exponents, averaged over the priors."""
    likelihood = -dof / 2 * np.log(squares + np.finfo(float).tiny + LEAST_SQUARES * dof)
    weights = np.zeros(len(EXPONENT_GRID))
    for median in EXPONENT_MEDIANS:
        for spread in EXPONENT_SPREADS:
            log_weight = likelihood - 0.5 * (np.log(EXPONENT_GRID / median) / spread) ** 2
            weight = np.exp(log_weight - log_weight.max())
            weights += weight / weight.sum()
    return weights / weights.sum()


def hold_out_last_doublings(
    column: str,
    sizes: Sequence[float],
    loss: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> tuple[HeldOut, ...]:
    """Fit the sizes up to a half and a quarter of the largest, and predict those above."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(loss, dtype=float)
    cuts = []
    for doublings in range(1, N_DOUBLINGS + 1):
        below = x <= x.max() / 2**doublings * (1 + HALVING_ERROR)
        if count_sizes(x[below]) < MIN_SIZES_BELOW:
            continue
        weights_below = None if weights is None else np.asarray(weights)[below]
        try:
            laws = fit_surviving_laws({column: x[below]}, y[below], weights=weights_below, fix=fix)
        except DataError:  # the sizes below do not carry a law
            continue
        local = fit_local(column, x[below], y[below], weights=weights_below)
        points = np.append(x[~below], x[below].max())
        cuts.append(
            HeldOut(
                observed=np.log(y[~below]),
                family=family_at(laws, points[:, None]).mean,
                local=local.predict_log(points)[0],
            )
        )
    return tuple(cuts)


def local_share(cuts: Sequence[HeldOut]) -> float:
    """Weight of the local law, `A² / (A² + B²)`, A and B the squared errors of family and it."""
    family = sum(float(np.mean((cut.family[:-1] - cut.observed) ** 2)) for cut in cuts)
    local = sum(float(np.mean((cut.local[:-1] - cut.observed) ** 2)) for cut in cuts)
    return 0.0 if family == 0 else family**2 / (family**2 + local**2)


def largest_discrepancy(cuts: Sequence[HeldOut], *, local_weight: float) -> float:
    """Largest error of the forecast of a held-out size, as a share of the predicted change."""
    largest = LEAST_DISCREPANCY
    for cut in cuts:
        forecast = local_weight * cut.local + (1 - local_weight) * cut.family
        error, change = np.abs(forecast[:-1] - cut.observed), np.abs(forecast[:-1] - forecast[-1])
        tells = change >= max(LEAST_CHANGE_SHARE * change.max(), SMALLEST_CHANGE)
        largest = float(np.max(error[tells] / change[tells], initial=largest))
    return largest
