"""Losses over several size columns: laws averaged, with a smooth misfit that no law has.

Runs of parameters and tokens do not follow one law to the last percent: models of one shape share
a displacement, and runs with far too few tokens lie above. Fitted as if each run erred by itself,
many runs in one corner pull the law. Here what a law leaves over is a Gaussian process over the
logarithms of the sizes (universal kriging), so runs near each other count as little more than one,
and the forecast keeps what the nearest runs show and doubts what is far from all. Runs with few
tokens may err and scatter more than others: whether they do, the evidence of the table decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import linalg

from extrap.fitting.health import has_weak_exponent
from extrap.fitting.mixture import averaged_law
from extrap.fitting.posterior import PINNED_SPREAD
from extrap.fitting.projection import Index, Mask
from extrap.laws.base import Array
from extrap.records import Fit

EXPONENT_PRIORS = ((0.35, 0.35, 0.2, 0.48), (0.35, 0.25, 0.2, 0.48), (0.3, 0.3, 0.8, 0.04))
"""Lognormal priors of the exponents: medians of the first column's and of the others', spread in
common, and prior probability. Chosen, with all that follows of misfits, on published ladders and
simulated ones (`python -m benchmarks.ladders`)."""
EXPONENT_RATIO_SPREAD = 0.6
"""Prior spread of the log ratio of two exponents, as a share of the spread in common."""
BALANCE_SPREAD = 1.5
"""Prior spread of the log ratio of two terms at the largest compute, about equal ones."""
LOG_LOSS_SPREAD = 1e3
"""Prior spread of the log loss at the largest compute: wide enough to say nothing."""
MAX_LOG_GROWTH = 6.0
"""Misfit and noise grow by at most the exponential of this."""
JOINT_DOF = 30.0
"""Degrees of freedom behind the spread, chosen on published ladders."""
SIZE_TOLERANCE = 0.01
"""Sizes are equal within this share."""
MAX_LOG_CHANGE = 60.0
"""Bounds the argument of an exponential: the reducible loss changes by no more."""
JITTER = 1e-9
"""Share of a misfit's variance that is added to the noise, so that a covariance has an inverse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How much more than others a run with few tokens errs and scatters: exp(rate · depth).

    Attributes:
        rate: A power.
        weights: One per column: the depth of a run at ln sizes x from the reference is
            `weights · x − start`, and 0 below that.
        start: From which on a run lacks tokens.
    """

    rate: float
    weights: tuple[float, ...]
    start: float

    def factors(self, x: Array) -> Array:
        """Factors of misfit and noise, (n,), for runs at points (n, n_columns)."""
        depth = np.maximum(x @ np.array(self.weights) - self.start, 0.0)
        return np.asarray(np.exp(np.minimum(self.rate * depth, MAX_LOG_GROWTH)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Deviation of log losses from a law: its standard deviations and correlations.

    Attributes:
        level: Standard deviation of what runs of one first size share.
        smooth: Standard deviation of a part that varies smoothly with size.
        length: Distance in ln size over which the smooth part changes.
        noise: Standard deviation of a single run beyond its known error.
        growth: Growth of the smooth part and of the noise; None if they do not grow.
    """

    level: float
    smooth: float
    length: float
    noise: float
    growth: Growth | None = None

    def covariance(self, a: Array, b: Array) -> Array:
        """Between runs at points a (n, n_columns) and b (m, n_columns), noise aside; (n, m)."""
        return self.smooth**2 * self.correlation(a, b) + self.level**2 * share_first(a, b)

    def correlation(self, a: Array, b: Array) -> Array:
        """Correlation of the smooth parts at a and b, times their growth factors, (n, m)."""
        squares = sum(np.subtract.outer(u, v) ** 2 for u, v in zip(a.T, b.T, strict=True))
        growth = np.multiply.outer(self.factors(a), self.factors(b))
        return np.asarray(growth * np.exp(-0.5 / self.length**2 * squares))

    def variances(self, x: Array) -> Array:
        """Variances without noise, (n,), of runs at points (n, n_columns)."""
        return np.asarray((self.smooth * self.factors(x)) ** 2 + self.level**2)

    def factors(self, x: Array) -> Array:
        """Growth factors of smooth part and noise, (n,), for runs at points (n, n_columns)."""
        return np.ones(len(x)) if self.growth is None else self.growth.factors(x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A record of arrays that have a row for each of many things."""

    def subset(self, rows: Index | Mask) -> Self:
        """Some of the rows."""
        columns = ((f.name, getattr(self, f.name)) for f in fields(self))
        return type(self)(**{name: v if v is None else v[rows] for name, v in columns})


@dataclass(frozen=True, kw_only=True)
class FittedRuns(Columns):
    """Runs that laws are fitted to.

    Attributes:
        points: ln size of each run and column, from the reference, (n, n_columns).
        losses: Log losses, (n,).
        errors: Known standard errors of these; None where they are not known.
        doubts: Variance of a run's noise over that of the others: more than 1 for an outlier.
    """

    points: Array
    losses: Array
    errors: Array | None
    doubts: Array

    def inverse_root(self, misfit: Misfit) -> tuple[Array, float]:
        """Inverse of the Cholesky factor of their covariance, and its log determinant."""
        x, key = self.points, (misfit.length, misfit.growth)
        if (correlation := self._correlations.get(key)) is None:
            correlation = self._correlations[key] = misfit.correlation(x, x)
        covariance = misfit.smooth**2 * correlation
        covariance += misfit.level**2 * self._share_first
        noise = (misfit.noise * misfit.factors(x)) ** 2 * self.doubts
        noise += JITTER * misfit.variances(x) + (0.0 if self.errors is None else self.errors**2)
        root = np.linalg.cholesky(covariance + np.diag(noise))
        inverse = linalg.solve_triangular(root, np.eye(len(x)), lower=True, check_finite=False)
        return inverse, 2 * float(np.log(np.diag(root)).sum())

    @cached_property
    def _correlations(self) -> dict[tuple[float, Growth | None], Array]:
        """Cache: length and growth of a misfit → correlation of its smooth part at the runs."""
        return {}

    @cached_property
    def _share_first(self) -> Array:
        return share_first(self.points, self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLaws(Columns):
    """Laws `ln L = l + ln(1 − s + s S(x)^k)`, as columns with a row a law.

    `S(x) = Σ_i r_i (x_i / x0_i)^(−c_i / k) / Σ_i r_i`, x0 being the reference.

    Attributes:
        share: s, reducible share of the loss at the reference, (n_laws,).
        power: k, (n_laws,).
        exponent_prior: Medians of the first column's exponent and of the others', spread in
            common, one of `EXPONENT_PRIORS`, (n_laws, 3).
        values: l, log ratio of each further term to the first, log exponent of each column,
            (n_laws, 2 n_columns).
    """

    share: Array
    power: Array
    exponent_prior: Array
    values: Array

    @classmethod
    def joined(cls, parts: Sequence[JointLaws]) -> Self:
        """The laws of all parts."""
        return cls(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        )

    @property
    def floors(self) -> Array:
        """Irreducible losses, (n_laws,)."""
        return np.asarray(np.exp(self.values[:, 0]) * (1 - self.share))

    @property
    def printed(self) -> Array:
        """Parameters of the law that is printed, in its order, (n_laws, n_parameters)."""
        n = self.values.shape[1] // 2
        share, power, floors = self.share[:, None], self.power[:, None], self.floors[:, None]
        ratios = np.exp(np.hstack([np.zeros_like(share), self.values[:, 1:n]]))
        exponents, total = np.exp(self.values[:, n:]), ratios.sum(axis=1, keepdims=True)
        reducible = np.exp(self.values[:, :1]) * share
        if n == 2:
            return np.hstack([floors, reducible / total**power, exponents, power, ratios[:, 1:]])
        return np.hstack([floors, reducible * ratios / total, exponents])

    def log_losses(self, x: Array) -> tuple[Array, Array]:
        """Log losses and their derivatives by `values`.

        Args:
            x: ln sizes from the reference, shape (n, n_columns).

        Returns:
            Shapes (n_laws, n) and (n_laws, n, 2 n_columns).
        """
        n, values = x.shape[1], self.values
        share, power = self.share[:, None], self.power[:, None]
        ratio = np.vstack([np.zeros(len(values)), values[:, 1:n].T])[..., None]
        falls = -np.exp(values[:, n:].T)[..., None] / power * x.T[:, None]
        terms = ratio + falls
        largest = terms.max(axis=0)
        part = np.exp(terms - largest)
        total = part.sum(axis=0)
        part /= total
        at_reference = np.logaddexp.reduce(ratio, axis=0)
        change = power * (largest + np.log(total) - at_reference)
        reducible = share * np.exp(np.clip(change, -MAX_LOG_CHANGE, MAX_LOG_CHANGE))
        level = 1 - share + reducible
        lean = reducible / level * power
        slopes = np.empty((*level.shape, 2 * n))
        slopes[..., 0] = 1.0
        balance = lean * (part - np.exp(ratio - at_reference))
        slopes[..., 1:n] = np.moveaxis(balance[1:], 0, -1)
        slopes[..., n:] = np.moveaxis(lean * part * falls, 0, -1)
        return values[:, :1] + np.log(level), slopes


@dataclass(frozen=True, kw_only=True)
class JointPosterior:
    """Mixture of laws, each with a misfit g: `ln L = l + ln(1 − s + s S(x)^k) + g(x)`.

    g is a Gaussian process given the runs.

    Attributes:
        columns: The size columns.
        reference: The sizes of the run with the largest product of sizes.
        laws: The laws of the mixture.
        weights: Their posterior probabilities, (n_laws,).
        misfits: What laws leave over.
        misfit_index: Which of these each law has, (n_laws,).
        runs: The fitted runs.
        collinear: Whether columns move together, so that only pinned exponents separate them.
        fixed: Pinned parameters.
    """

    columns: tuple[str, ...]
    reference: tuple[float, ...]
    laws: JointLaws
    weights: Array
    misfits: tuple[Misfit, ...]
    misfit_index: Index
    runs: FittedRuns
    collinear: bool
    fixed: Mapping[str, float] = field(default_factory=dict)

    @property
    def fitted_range(self) -> dict[str, tuple[float, float]]:
        """Size column → smallest and largest fitted size."""
        x = np.exp(self.runs.points) * self.reference
        low, high = x.min(axis=0).tolist(), x.max(axis=0).tolist()
        return dict(zip(self.columns, zip(low, high, strict=True), strict=True))

    @property
    def scatter(self) -> float:
        """Standard deviation of the log loss of a run about the law and its misfit."""
        noise = np.array([misfit.noise for misfit in self.misfits])[self.misfit_index]
        return math.sqrt(float(self.weights @ noise**2))

    @property
    def later(self) -> float:
        """Share of the laws that leave out the smallest sizes: none."""
        return 0.0

    @property
    def dof(self) -> float:
        """Degrees of freedom behind the spread."""
        return JOINT_DOF

    @property
    def law(self) -> Fit:
        """The averaged law without its misfit: means and covariance of the parameters."""
        n, n_runs = len(self.columns), len(self.runs.losses)
        law = averaged_law(
            law_key(n),
            self.laws.printed,
            self.weights,
            fitted_range=self.fitted_range,
            reference=self.reference,
            scatter=self.scatter,
            dof=max(n_runs - 2.0 * n, 1.0),
            n_points=n_runs,
            fixed=self.fixed,
        )
        flags = {
            "too-few-sizes": n_runs <= 2 * n,
            "columns-collinear": self.collinear,
            "exponent-weakly-identified": has_weak_exponent(law),
        }
        return replace(law, flags=tuple(name for name, applies in flags.items() if applies))

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture, (n, n_columns) → (n,) each.

        What the noise of a run with few tokens has more than `scatter` counts as the law's; where
        errors are known, so does all noise beyond them.
        """
        logs, variances = self._predicted(x)
        mean = self.weights @ logs
        return mean, self.weights @ (variances + (logs - mean) ** 2)

    def by_law(self, x: Array) -> tuple[Array, Array, Array]:
        """Weight, floor and log loss of each law at one size x, (n_columns,); (n_laws,) each."""
        logs, _ = self._predicted(np.asarray(x)[None])
        return self.weights, self.laws.floors, logs[:, 0]

    def _predicted(self, x: Array) -> tuple[Array, Array]:
        """Log losses of each law with its misfit, and their variances, (n_laws, n) each."""
        x = np.log(np.asarray(x, dtype=float) / self.reference)
        logs, slopes = self.laws.log_losses(x)
        variances = np.empty_like(logs)
        for misfit, rows, root, runs, covariance in self._factors:
            shared = root @ misfit.covariance(self.runs.points, x)
            logs[rows] += runs.residuals @ shared
            lean = slopes[rows] - shared.T @ runs.slopes
            variance = np.maximum(misfit.variances(x) - (shared**2).sum(axis=0), 0.0)
            growth = misfit.factors(x) ** 2
            variance += misfit.noise**2 * (growth - 1.0 if self.runs.errors is None else growth)
            variances[rows] = variance + ((lean @ covariance) * lean).sum(axis=-1)
        return logs, variances

    @cached_property
    def _factors(self) -> list[tuple[Misfit, Index, Array, Whitened, Array]]:
        """What prediction needs of each misfit.

        The misfit, the laws that have it, the inverse root of the runs' covariance, the runs
        whitened by it, and the covariance of those laws' values.
        """
        logs, slopes = self.laws.log_losses(self.runs.points)
        _, precision = parameter_prior(self.laws.exponent_prior, len(self.columns), self.fixed)
        factors = []
        for i, misfit in enumerate(self.misfits):
            rows = np.flatnonzero(self.misfit_index == i)
            root, _ = self.runs.inverse_root(misfit)
            whitened = whiten(root, self.runs.losses - logs[rows], slopes[rows], precision[rows])
            covariance = np.asarray(np.linalg.inv(whitened.information))
            factors.append((misfit, rows, root, whitened, covariance))
        return factors


class Whitened(NamedTuple):
    """Residuals of n runs (…, n_laws, n) and slopes (…, n_laws, n, n_values), made independent.

    Errors of these residuals have variance 1; `information` is the precision of the laws' values.
    """

    residuals: Array
    slopes: Array
    information: Array


def whiten(root: Array, residuals: Array, slopes: Array, precision: Array) -> Whitened:
    """Multiply by the inverse root of the runs' covariance with one misfit or many, (…, n, n).

    `precision` is that of the laws' values a priori, (n_laws, n_values, n_values).
    """
    m, n, p = slopes.shape
    flat = root @ slopes.transpose(1, 0, 2).reshape(n, m * p)  # all laws in one product
    slopes = np.ascontiguousarray(flat.reshape(*flat.shape[:-1], m, p).swapaxes(-3, -2))
    information = slopes.swapaxes(-1, -2) @ slopes + precision
    return Whitened(residuals @ root.swapaxes(-1, -2), slopes, information)


def share_first(a: Array, b: Array) -> Array:
    """Whether points have one first size, (n, m)."""
    first, second = (np.round(points[:, 0] / SIZE_TOLERANCE) for points in (a, b))
    return np.asarray(np.equal.outer(first, second))


def parameter_prior(
    exponent_prior: Array, n: int, fix: Mapping[str, float], log_loss: float = 0.0
) -> tuple[Array, Array]:
    """Mean (n_laws, 2n) and precision (n_laws, 2n, 2n) of the values of laws of n columns.

    Args:
        exponent_prior: As in `JointLaws`.
        n: Number of columns.
        fix: Pinned parameters.
        log_loss: Expected at the reference.
    """
    first, others, common = exponent_prior.T
    mean = np.zeros((len(common), 2 * n))
    mean[:, 0], mean[:, n], mean[:, n + 1 :] = log_loss, np.log(first), np.log(others)[:, None]
    covariance = np.zeros((len(common), 2 * n, 2 * n))
    covariance[:, :n, :n] = np.diag([LOG_LOSS_SPREAD**2, *[BALANCE_SPREAD**2] * (n - 1)])
    alike = 1 + EXPONENT_RATIO_SPREAD**2 / 2 * np.eye(n)
    covariance[:, n:, n:] = common[:, None, None] ** 2 * alike
    precision = np.asarray(np.linalg.inv(covariance))
    for i in range(n):
        if (name := f"c{i + 1}") in fix:
            mean[:, n + i] = math.log(fix[name])
            precision[:, n + i, n + i] += PINNED_SPREAD**-2
    return mean, precision


def law_key(n_columns: int) -> str:
    """The law that has the terms of so many columns."""
    return "skaling" if n_columns == 2 else "power_floor"
