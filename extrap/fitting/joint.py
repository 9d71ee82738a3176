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
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg

from extrap.fitting.health import WEAK_LOG_SE
from extrap.laws import LOSS_LAWS
from extrap.laws.base import Array
from extrap.records import Fit

EXPONENT_PRIORS = ((0.35, 0.35, 0.2, 0.48), (0.35, 0.25, 0.2, 0.48), (0.3, 0.3, 0.8, 0.04))
"""Lognormal priors of the exponents: medians of the first column's and of the others', spread in
common, and prior probability. Chosen, with all that follows of misfits, on published ladders and
simulated ones (`python -m benchmarks.ladders`)."""
APART = 0.6
"""Spread of one exponent over another, as a share of the spread in common."""
BALANCE_SPREAD = 1.5
"""Spread of the log ratio of two terms at the largest compute, about equal ones."""
MOST_GROWTH = 6.0
"""ln of a growth at most."""
DOF = 30.0
"""Degrees of freedom behind the spread, chosen on published ladders."""
SAME = 0.01
"""Sizes are equal within this share."""
PINNED, ANY = 1e-4, 1e3
"""Prior spread of a pinned log exponent and of the log loss."""
LARGEST_LOG, ROUNDING = 60.0, 1e-9
"""Guards of an exponential and of a division."""


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
        """Of runs at points (n, n_columns), (n,)."""
        depth = np.maximum(x @ np.array(self.weights) - self.start, 0.0)
        return np.asarray(np.exp(np.minimum(self.rate * depth, MOST_GROWTH)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """What a law leaves over, in log loss.

    Attributes:
        level: Standard deviation of what runs of one first size share.
        smooth: That of the smooth part.
        length: Distance in ln size over which that changes.
        noise: Standard deviation of a single run beyond its known error.
        growth: Of the smooth part and of the noise; None for none.
    """

    level: float
    smooth: float
    length: float
    noise: float
    growth: Growth | None = None

    def covariance(self, a: Array, b: Array) -> Array:
        """Between runs at points a (n, n_columns) and b (m, n_columns), noise aside; (n, m)."""
        grown = np.multiply.outer(self.factors(a), self.factors(b))
        smooth = self.smooth**2 * grown * correlation(squares_between(a, b), self.length)
        return np.asarray(smooth + self.level**2 * share_first(a, b))

    def variances(self, x: Array) -> Array:
        """Of runs at points (n, n_columns), noise aside, (n,)."""
        return np.asarray((self.smooth * self.factors(x)) ** 2 + self.level**2)

    def factors(self, x: Array) -> Array:
        """By which smooth part and noise of runs at points (n, n_columns) grow, (n,)."""
        return np.ones(len(x)) if self.growth is None else self.growth.factors(x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One law with one misfit.

    Attributes:
        weight: Posterior probability.
        share: s, reducible share of the loss at the reference.
        power: k.
        prior: Of its exponents, one of `EXPONENT_PRIORS`: medians and spread.
        values: Log loss at the reference, log ratio of each further term to the first, log
            exponent of each column.
        misfit: Its standard deviations and length.
    """

    weight: float
    share: float
    power: float
    prior: tuple[float, float, float]
    values: tuple[float, ...]
    misfit: Misfit


@dataclass(frozen=True, kw_only=True)
class JointPosterior:
    """Mixture over j of `ln L = l_j + ln(1 − s_j + s_j S_j(x)^k_j) + g_j(x)`.

    `S(x) = Σ_i r_i (x_i / x0_i)^(−c_i / k) / Σ_i r_i`, and g is a Gaussian process given the runs.

    Attributes:
        columns: The size columns.
        reference: x0, the sizes of the run with the largest product of sizes.
        parts: The mixture.
        points: ln size of each fitted run and column, from the reference.
        losses: Log losses of the fitted runs.
        errors: Known standard errors of these; none where they are not known.
        doubts: Variance of a run's noise over that of the others: more than 1 for an outlier.
        collinear: Whether columns move together, so that only pinned exponents separate them.
        fixed: Pinned parameters.
    """

    columns: tuple[str, ...]
    reference: tuple[float, ...]
    parts: tuple[Part, ...]
    points: tuple[tuple[float, ...], ...]
    losses: tuple[float, ...]
    errors: tuple[float, ...]
    doubts: tuple[float, ...]
    collinear: bool
    fixed: Mapping[str, float] = field(default_factory=dict)

    @property
    def fitted_range(self) -> dict[str, tuple[float, float]]:
        """Size column → smallest and largest fitted size."""
        x = np.exp(np.array(self.points)) * self.reference
        low, high = x.min(axis=0).tolist(), x.max(axis=0).tolist()
        return dict(zip(self.columns, zip(low, high, strict=True), strict=True))

    @property
    def scatter(self) -> float:
        """Standard deviation of the log loss of a run about the law and its misfit."""
        return math.sqrt(sum(part.weight * part.misfit.noise**2 for part in self.parts))

    @property
    def later(self) -> float:
        """Share of the laws that leave out the smallest sizes: none."""
        return 0.0

    @property
    def dof(self) -> float:
        """Degrees of freedom behind the spread."""
        return DOF

    @property
    def law(self) -> Fit:
        """The averaged law without its misfit: means and covariance of the parameters."""
        key, n = law_key(len(self.columns)), len(self.columns)
        names, weight = LOSS_LAWS[key].names(n), np.array([part.weight for part in self.parts])
        table = _parameters(self.parts, n)
        mean = weight @ table
        covariance = (weight[:, None] * (table - mean)).T @ (table - mean)
        for i, name in enumerate(names):
            if name in self.fixed:
                mean[i], covariance[i], covariance[:, i] = self.fixed[name], 0.0, 0.0
        is_weak = np.diag(covariance) > (WEAK_LOG_SE * mean) ** 2
        flags = {
            "too-few-sizes": len(self.points) <= 2 * n,
            "columns-collinear": self.collinear,
            "exponent-weakly-identified": any(
                is_weak[i] for i, c in enumerate(names) if c[0] == "c"
            ),
        }
        dof = max(len(self.points) - 2 * n, 1)
        return Fit(
            law=key,
            names=names,
            values=tuple(mean.tolist()),
            covariance=tuple(tuple(row) for row in covariance.tolist()),
            scatter=self.scatter,
            dof=dof,
            scale_dof=dof,
            chi2=float(dof),
            columns=self.columns,
            reference=self.reference,
            fitted_range=tuple(self.fitted_range.values()),
            n_points=len(self.points),
            fixed=dict(self.fixed),
            flags=tuple(name for name, applies in flags.items() if applies),
        )

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture, (n, n_columns) → (n,) each.

        What the noise of a run with few tokens has more than `scatter` counts as the law's; where
        errors are known, so does all noise beyond them.
        """
        logs, variances = self._predicted(x)
        weight = np.array([part.weight for part in self.parts])
        mean = weight @ logs
        return mean, weight @ (variances + (logs - mean) ** 2)

    def by_law(self, x: Array) -> tuple[Array, Array, Array]:
        """Weight, floor and log loss of each law at one size x, (n_columns,); (n_laws,) each."""
        logs, _ = self._predicted(np.asarray(x)[None])
        rows = [(p.weight, math.exp(p.values[0]) * (1 - p.share)) for p in self.parts]
        weights, floors = np.array(rows).T
        return weights, floors, logs[:, 0]

    def _predicted(self, x: Array) -> tuple[Array, Array]:
        """Log losses of each law with its misfit, and their variances, (n_laws, n) each."""
        at, points = np.log(np.asarray(x, dtype=float) / self.reference), np.array(self.points)
        logs, slopes = self._laws(at)
        variances = np.empty_like(logs)
        for misfit, given in self._given.items():
            near, those = given.root @ misfit.covariance(points, at), given.parts
            logs[those] += given.rest @ near
            left = slopes[those] - near.T @ given.scaled
            own = np.maximum(misfit.variances(at) - (near**2).sum(axis=0), 0.0)
            variances[those] = own + ((left @ given.covariance) * left).sum(axis=-1)
            grown = misfit.factors(at) ** 2
            variances[those] += misfit.noise**2 * (grown if self.errors else grown - 1.0)
        return logs, variances

    def _laws(self, x: Array) -> tuple[Array, Array]:
        """Log losses of the laws at points, and their derivatives."""
        values = np.array([part.values for part in self.parts])
        share, power = np.array([(part.share, part.power) for part in self.parts]).T
        return log_law(values, share, power, x)

    @cached_property
    def _given(self) -> dict[Misfit, _Given]:
        """What the runs say of the laws with each misfit."""
        x, n = np.array(self.points), len(self.columns)
        errors, doubts = np.array(self.errors or [0.0] * len(x)), np.array(self.doubts)
        priors = {part.prior for part in self.parts}
        precisions = {prior: parameter_prior(0.0, n, self.fixed, prior)[1] for prior in priors}
        precision = np.array([precisions[part.prior] for part in self.parts])
        with_misfit: dict[Misfit, list[int]] = {}
        for j, part in enumerate(self.parts):
            with_misfit.setdefault(part.misfit, []).append(j)
        logs, slopes = self._laws(x)
        found = {}
        for misfit, parts in with_misfit.items():
            root, _ = inverse_root(misfit.covariance(x, x), misfit, x, errors, doubts)
            scaled = whitened(root, slopes[parts])
            covariance = np.asarray(
                np.linalg.inv(scaled.swapaxes(1, 2) @ scaled + precision[parts])
            )
            rest = (np.array(self.losses) - logs[parts]) @ root.T
            found[misfit] = _Given(parts, root, rest, scaled, covariance)
        return found


def log_law(values: Array, share: Array, power: Array, x: Array) -> tuple[Array, Array]:
    """Log losses of many laws at points, and their derivatives.

    Args:
        values: Of the laws, shape (n_laws, 2 n_columns), as in `Part`.
        share: Shape (n_laws,).
        power: Shape (n_laws,).
        x: ln size from the reference, shape (n, n_columns).

    Returns:
        Shapes (n_laws, n) and (n_laws, n, 2 n_columns).
    """
    n = x.shape[1]
    share, power = share[:, None], power[:, None]
    ratio = np.vstack([np.zeros(len(values)), values[:, 1:n].T])[..., None]
    falls = -np.exp(values[:, n:].T)[..., None] / power * x.T[:, None]
    terms = ratio + falls
    top = terms.max(axis=0)
    part = np.exp(terms - top)
    total = part.sum(axis=0)
    part /= total
    at_reference = np.logaddexp.reduce(ratio, axis=0)
    change = np.clip(power * (top + np.log(total) - at_reference), -LARGEST_LOG, LARGEST_LOG)
    reducible = share * np.exp(change)
    level = 1 - share + reducible
    lean = reducible / level * power
    slopes = np.empty((*level.shape, 2 * n))
    slopes[..., 0] = 1.0
    slopes[..., 1:n] = np.moveaxis(lean * (part - np.exp(ratio - at_reference)), 0, -1)[..., 1:]
    slopes[..., n:] = np.moveaxis(lean * part * falls, 0, -1)
    return values[:, :1] + np.log(level), slopes


class _Given(NamedTuple):
    """Of n runs with the m laws of p parameters that have one misfit.

    Attributes:
        parts: Which parts of the mixture these are.
        root: Inverse of the Cholesky factor of the runs' covariance, (n, n).
        rest: What each law leaves over, times that, (m, n).
        scaled: Each law's derivatives, times that, (m, n, p).
        covariance: Of each law's parameters, (m, p, p).
    """

    parts: list[int]
    root: Array
    rest: Array
    scaled: Array
    covariance: Array


def whitened(root: Array, slopes: Array) -> Array:
    """`root @ slopes` of derivatives (m, n, p) in one product, (…, m, n, p)."""
    m, n, p = slopes.shape
    flat = root @ slopes.transpose(1, 0, 2).reshape(n, m * p)
    return np.ascontiguousarray(flat.reshape(*flat.shape[:-1], m, p).swapaxes(-3, -2))


def squares_between(a: Array, b: Array) -> Array:
    """Squared distances between points (n, n_columns) and (m, n_columns), (n, m)."""
    return np.asarray(sum(np.subtract.outer(u, v) ** 2 for u, v in zip(a.T, b.T, strict=True)))


def share_first(a: Array, b: Array) -> Array:
    """Whether points have one first size, (n, m)."""
    return np.asarray(np.equal.outer(np.round(a[:, 0] / SAME), np.round(b[:, 0] / SAME)))


def correlation(squares: Array, length: float) -> Array:
    """Of the smooth misfit at points whose squared distances these are."""
    return np.asarray(np.exp(-0.5 / length**2 * squares))


def parameter_prior(
    last: float, n: int, fix: Mapping[str, float], of: tuple[float, float, float]
) -> tuple[Array, Array]:
    """Mean (2n,) and precision (2n, 2n) of the parameters of laws of n columns.

    Args:
        last: Log loss at the reference.
        n: Number of columns.
        fix: Pinned parameters.
        of: Medians of the first column's exponent and of the others', spread in common.
    """
    first, others, common = of
    medians = [math.log(first), *[math.log(others)] * (n - 1)]
    mean = np.array([last, *[0.0] * (n - 1), *medians])
    spread = np.diag([ANY**2, *[BALANCE_SPREAD**2] * (n - 1), *[(APART * common) ** 2 / 2] * n])
    spread[n:, n:] += common**2
    precision = np.linalg.inv(spread)
    for i in range(n):
        if (name := f"c{i + 1}") in fix:
            mean[n + i] = math.log(fix[name])
            precision[n + i, n + i] += PINNED**-2
    return mean, precision


def inverse_root(
    covariance: Array, misfit: Misfit, x: Array, errors: Array, doubts: Array
) -> tuple[Array, float]:
    """Inverse of the Cholesky factor of the runs' covariance, and its log determinant.

    Args:
        covariance: Of their misfit at points x, to which their noise is added.
        misfit: That misfit.
        x: ln sizes of the runs, shape (n, n_columns).
        errors: Known standard errors.
        doubts: Variance of a run's noise over that of the others.
    """
    own = (misfit.noise * misfit.factors(x)) ** 2
    noise = own * doubts + errors**2 + ROUNDING * misfit.variances(x)
    root = np.linalg.cholesky(covariance + np.diag(noise))
    inverse = linalg.solve_triangular(root, np.eye(len(x)), lower=True, check_finite=False)
    return inverse, 2 * float(np.log(np.diag(root)).sum())


def law_key(n_columns: int) -> str:
    """The law that has the terms of so many columns."""
    return "skaling" if n_columns == 2 else "power_floor"


def _parameters(parts: Sequence[Part], n: int) -> Array:
    """Of the law that is printed, in its order, one row a part."""
    values, rest = np.array([part.values for part in parts]), np.zeros((len(parts), 1))
    share, power = np.array([(part.share, part.power) for part in parts]).T[..., None]
    loss, ratios = np.exp(values[:, :1]), np.exp(np.hstack([rest, values[:, 1:n]]))
    exponents = np.exp(values[:, n:])
    floor, reducible, total = loss * (1 - share), loss * share, ratios.sum(axis=1, keepdims=True)
    if n == 2:
        return np.hstack([floor, reducible / total**power, exponents, power, ratios[:, 1:]])
    return np.hstack([floor, reducible * ratios / total, exponents])
