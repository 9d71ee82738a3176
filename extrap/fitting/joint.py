"""Losses over several size columns: laws averaged, with a smooth misfit that no law has.

Runs of parameters and tokens do not follow one law to the last percent: models of one shape share
a displacement, and runs with far too few tokens lie above. Fitted as if each run erred by itself,
many runs in one corner pull the law. Here what a law leaves over is a Gaussian process over the
logarithms of the sizes (universal kriging), so runs near each other count as little more than one,
and the forecast keeps what the nearest runs show and doubts what is far from all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from extrap.fitting.health import WEAK_LOG_SE
from extrap.fitting.loss_law import MAD_TO_SD, check_losses
from extrap.fitting.projection import Index
from extrap.laws import LOSS_LAWS
from extrap.laws.base import EXPONENT as EXPONENTS
from extrap.laws.base import Array
from extrap.records import Fit

N_SHARES = 16
"""Grid of the reducible share of the loss at the largest compute, uniform in (0, 1) a priori."""
POWERS = (0.35, 0.5, 0.7, 1.0)
"""How the terms of two columns add up: no sweep tells. At 1 it is the Chinchilla law; published
fits lie between .3 and .9. Terms of more columns are summed."""
EXPONENT, SPREADS, APART = 0.35, ((0.2, 0.96), (0.8, 0.04)), 0.6
"""Lognormal prior of the exponents: median, spreads in common with their prior probabilities, and
spread of one over another, as a share of that."""
BALANCE_SPREAD = 1.5
"""Spread of the log ratio of two terms at the largest compute, about equal ones."""
SMOOTHS = ((0.002, 0.28), (0.008, 0.5), (0.04, 0.22))
"""Standard deviation of the smooth misfit of a log loss, and its prior probability."""
LENGTHS = (1.5, 3.0, 6.0)
"""Distances in ln size over which it changes, equally likely."""
LEVELS = (0.0, 0.005, 0.015)
"""Standard deviation of what runs of one value of the first column share."""
NOISES = (0.0015, 0.004, 0.012, 0.03, 0.06)
"""Standard deviation of a log loss beyond known errors."""
USUAL = (0.006, 0.008, 3.0, 0.004)
"""Level, misfit, length and noise at which the laws are fitted, before all are weighed."""
WIDEST = 0.06
"""Where the laws leave over more than this, all these standard deviations grow in proportion."""
OUTLIER = 4.0
"""A run so many standard deviations off what the other runs predict counts as noisier."""
N_ROUNDS = 3
"""Fits after which runs are doubted anew."""
DOF = 7.0
"""Degrees of freedom behind the spread, with the discrepancy chosen on published ladders."""
SAME = 0.01
"""Sizes are equal within this share."""
NEGLIGIBLE, HOPELESS = 1e-3, 12.0
"""Weight of what is left out; log evidence below the best of laws that are not looked at again."""
N_STEPS, LONGEST_STEP, SOLVED = 25, 0.7, 1e-3
"""Of Gauss–Newton: most steps, the longest one of a log parameter, and when it has ended."""
PINNED, ANY, FARTHEST, LEAST = 1e-4, 1e3, 20.0, 1e-3
"""Prior spread of a pinned log exponent and of the log loss; largest log ratio of two terms; least
reducible share under a given floor."""
LARGEST_LOG, ROUNDING, MOST_DOUBT = 60.0, 1e-9, 1e8
"""Guards of an exponential, a division and a variance."""
FEWEST, MOST = 6, 250
"""Runs from which the others are predicted; and with which laws are fitted, since time grows with
their number's third power and runs near each other say much the same."""
TOO_HIGH, TOO_SURE = 0.01, 2.0
"""How far runs with few tokens lie above what the others say: at least, and in its errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """What a law leaves over, in log loss.

    Attributes:
        level: Standard deviation of what runs of one first size share.
        smooth: That of the smooth part.
        length: Distance in ln size over which that changes.
        noise: Standard deviation of a single run beyond its known error.
    """

    level: float
    smooth: float
    length: float
    noise: float

    def covariance(self, a: Array, b: Array) -> Array:
        """Between runs at points a (n, n_columns) and b (m, n_columns), noise aside; (n, m)."""
        apart = ((a[:, None] - b) ** 2).sum(axis=-1) / self.length**2
        same = np.round(a[:, None, 0] / SAME) == np.round(b[:, 0] / SAME)
        return self.smooth**2 * np.exp(-0.5 * apart) + self.level**2 * same

    @property
    def variance(self) -> float:
        """Of one run, noise aside."""
        return self.smooth**2 + self.level**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One law with one misfit.

    Attributes:
        weight: Posterior probability.
        share: s, reducible share of the loss at the reference.
        power: k.
        spread: Prior spread of its exponents.
        values: Log loss at the reference, log ratio of each further term to the first, log
            exponent of each column.
        misfit: Its standard deviations and length.
    """

    weight: float
    share: float
    power: float
    spread: float
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
        key, n = _key(len(self.columns)), len(self.columns)
        names, weight = LOSS_LAWS[key].names(n), np.array([part.weight for part in self.parts])
        table = np.array([_parameters(part, n) for part in self.parts])
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
            "undertrained-runs": self.undertrained,
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

    @cached_property
    def undertrained(self) -> bool:
        """Whether the quarter of the runs with fewest tokens a parameter lies above the others.

        The half with most tokens a parameter predicts that quarter.
        """
        x = np.array(self.points) + np.log(self.reference)
        y, errors = np.array(self.losses), np.array(self.errors)
        if len(self.columns) != 2:
            return False
        ratio = x[:, 0] - x[:, 1]
        inner, outer = ratio <= np.median(ratio), ratio > np.quantile(ratio, 0.75)
        if inner.sum() < FEWEST or not outer.any() or (np.ptp(x[inner], axis=0) < SAME).any():
            return False
        known = errors[inner] if len(errors) else errors
        others = _posterior(self.columns, x[inner], y[inner], known, self.fixed)
        mean, variance = others.predict_log(np.exp(x[outer]))
        above = float((y[outer] - mean).mean())
        return above > max(TOO_HIGH, TOO_SURE * float(np.sqrt(variance).mean()))

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture, (n, n_columns) → (n,) each.

        Where errors are known, noise beyond them counts as the law's.
        """
        at = np.log(np.asarray(x, dtype=float) / self.reference)
        points, weight = np.array(self.points), np.array([part.weight for part in self.parts])
        logs, slopes = self._laws(at)
        variances = np.empty_like(logs)
        for misfit, given in self._given.items():
            near, those = given.root @ misfit.covariance(points, at), given.parts
            logs[those] += given.rest @ near
            left = slopes[those] - near.T @ given.scaled
            own = np.maximum(misfit.variance - (near**2).sum(axis=0), 0.0)
            variances[those] = own + ((left @ given.covariance) * left).sum(axis=-1)
            variances[those] += misfit.noise**2 * bool(self.errors)
        mean = weight @ logs
        return mean, weight @ (variances + (logs - mean) ** 2)

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
        precision = np.array([_prior(0.0, n, self.fixed, part.spread)[1] for part in self.parts])
        with_misfit: dict[Misfit, list[int]] = {}
        for j, part in enumerate(self.parts):
            with_misfit.setdefault(part.misfit, []).append(j)
        logs, slopes = self._laws(x)
        found = {}
        for misfit, parts in with_misfit.items():
            root, _ = _inverse_root(x, misfit, errors, doubts)
            scaled = root @ slopes[parts]
            covariance = np.asarray(
                np.linalg.inv(scaled.swapaxes(1, 2) @ scaled + precision[parts])
            )
            rest = (np.array(self.losses) - logs[parts]) @ root.T
            found[misfit] = _Given(parts, root, rest, scaled, covariance)
        return found


def fit_joint(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    fix: Mapping[str, float] | None = None,
) -> JointPosterior:
    """Weigh laws and misfits by their posterior probability.

    For each reducible share and power the other parameters follow by Gauss–Newton steps with one
    usual misfit; then every misfit of a grid is weighed with each law, the parameters integrated
    over by their normal approximation. Of more than 250 runs, every second, third … in the order
    of the product of their sizes is taken, with the extremes of each column.

    Args:
        sizes: Size column → sizes, shape (n_points,) each; at least two columns.
        loss: Losses, shape (n_points,).
        loss_se: Known standard errors of these, same unit, or None.
        fix: Pinned parameters: `E`, exponents, of two columns `k`.

    Raises:
        DataError: Too few runs or sizes, or columns that move together.
        ValueError: A parameter that cannot be pinned.

    References:
        Kennedy, O'Hagan (2001), Bayesian calibration of computer models, Eq. 5; Rasmussen,
        Williams (2006), Gaussian processes for machine learning, Eq. 2.41–2.43.
    """
    fix, n = dict(fix or {}), len(sizes)
    collinear = check_losses(LOSS_LAWS[_key(n)], sizes, loss, loss_se, fixed=fix, n_free=n + 1)
    x = np.log(np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()]))
    y = np.log(np.asarray(loss, dtype=float))
    errors = np.empty(0) if loss_se is None else np.asarray(loss_se, dtype=float) / np.exp(y)
    kept = _thinned(x)
    known = errors[kept] if len(errors) else errors
    found = _posterior(tuple(sizes), x[kept], y[kept], known, fix)
    return replace(found, collinear=collinear)


def _thinned(x: Array) -> Index:
    """Which of the runs at log sizes x, (n, n_columns), are fitted."""
    step = math.ceil(len(x) / MOST)
    if step == 1:
        return np.arange(len(x))
    spread = np.argsort(x.sum(axis=1), kind="stable")[::-step]  # from the largest one on
    return np.unique(np.concatenate([spread, x.argmin(axis=0), x.argmax(axis=0)]))


def _posterior(
    columns: tuple[str, ...], x: Array, y: Array, errors: Array, fix: Mapping[str, float]
) -> JointPosterior:
    reference = x[np.argmax(x.sum(axis=1))]
    laws = _Laws(x - reference, y, errors, fix)
    return JointPosterior(
        columns=columns,
        reference=tuple(np.exp(reference).tolist()),
        parts=laws.weighed(),
        points=tuple(map(tuple, laws.x.tolist())),
        losses=tuple(y.tolist()),
        errors=tuple(errors.tolist()),
        doubts=tuple(laws.doubts.tolist()),
        collinear=False,
        fixed=fix,
    )


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
    ratio = np.concatenate([np.zeros_like(share), values[:, 1:n]], axis=1)[:, None]
    falls = -np.exp(values[:, None, n:]) / power[..., None] * x
    total = np.logaddexp.reduce(ratio + falls, axis=-1)
    reducible = share * np.exp(
        np.clip(power * (total - np.logaddexp.reduce(ratio, axis=-1)), -LARGEST_LOG, LARGEST_LOG)
    )
    level = 1 - share + reducible
    lean = (reducible / level * power)[..., None]
    part = np.exp(ratio + falls - total[..., None])
    by_ratio = lean * (part - special.softmax(ratio, axis=-1))
    slopes = [np.ones_like(lean), by_ratio[..., 1:], lean * part * falls]
    return values[:, :1] + np.log(level), np.concatenate(slopes, axis=-1)


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


class _Laws:
    """Shares × powers, fitted to log losses y at points x (n, n_columns)."""

    def __init__(self, x: Array, y: Array, errors: Array, fix: Mapping[str, float]) -> None:
        self.x, self.y, self.doubts = x, y, np.ones(len(y))
        self.errors = errors if len(errors) else np.zeros(len(y))
        n, last = x.shape[1], float(y[np.argmax(x.sum(axis=1))])
        steps = (np.arange(N_SHARES) + 0.5) / N_SHARES
        shares, prior = steps**2, steps / steps.sum()  # dense where little is reducible
        if "E" in fix:
            shares, prior = np.array([max(1 - fix["E"] / math.exp(last), LEAST)]), np.ones(1)
        powers = [fix["k"]] if "k" in fix else POWERS if n == 2 else [1.0]
        grid = itertools.product(zip(shares, prior, strict=True), powers, SPREADS)
        rows = [(share, power, spread, p * q) for (share, p), power, (spread, q) in grid]
        self.share, self.power, self.spread, probability = np.array(rows).T
        self.usual = _prior(last, n, fix, 1.0)[0]
        self.precision = np.array([_prior(last, n, fix, spread)[1] for spread in self.spread])
        self.log_prior = np.log(probability) + 0.5 * np.linalg.slogdet(self.precision)[1]
        self.values = np.tile(self.usual, (len(self.share), 1))
        self.ends = np.array(
            [
                [sign * ANY, *[sign * FARTHEST] * (n - 1), *[math.log(exponent)] * n]
                for sign, exponent in ((-1, EXPONENTS.low), (1, EXPONENTS.high))
            ]
        )
        self.unit, self.fitted = 1.0, self._laws()
        self._fit()

    def weighed(self) -> tuple[Part, ...]:
        """The laws with every misfit, those that count."""
        self.fitted = self._laws()
        usual = [self._evidence(self._misfit(*USUAL[:3], noise))[0] for noise in NOISES]
        self._drop(np.max(usual, axis=0))
        self.fitted = self._laws()
        found, evidence = [], []
        grid = itertools.product(LEVELS, SMOOTHS, LENGTHS, NOISES)
        for level, (smooth, prior), length, noise in grid:
            misfit = self._misfit(level, smooth, length, noise)
            of_laws, values = self._evidence(misfit)
            found.append((misfit, values))
            evidence.append(of_laws + math.log(prior))
        weight = np.exp(np.array(evidence) - np.max(evidence))
        weight[weight < min(NEGLIGIBLE * weight.sum(), weight.max() / 10)] = 0.0
        weight /= weight.sum()
        return tuple(
            Part(
                weight=float(weight[i, j]),
                share=float(self.share[j]),
                power=float(self.power[j]),
                spread=float(self.spread[j]),
                values=tuple(found[i][1][j].tolist()),
                misfit=found[i][0],
            )
            for i, j in np.argwhere(weight > 0)
        )

    def _evidence(self, misfit: Misfit) -> tuple[Array, Array]:
        """Log evidence of each law with a misfit, (n_laws,), and its likeliest parameters."""
        root, log_determinant = self._root(misfit)
        rest, scaled, covariance, step = self._solve(root, self.fitted)
        rest = rest - (scaled @ step[..., None])[..., 0]
        values = np.clip(self.values + step, *self.ends)
        off = values - self.usual
        squares = (rest**2).sum(axis=1) + np.einsum("ij,ijk,ik->i", off, self.precision, off)
        spread = np.linalg.slogdet(covariance)[1] - log_determinant
        return self.log_prior + 0.5 * (spread - squares), values

    def _drop(self, evidence: Array) -> None:
        """Leave out the laws that no misfit makes likely."""
        kept = evidence > evidence.max() - HOPELESS
        self.values, self.log_prior = self.values[kept], self.log_prior[kept]
        self.precision, self.spread = self.precision[kept], self.spread[kept]
        self.share, self.power = self.share[kept], self.power[kept]

    def _fit(self) -> None:
        """Gauss–Newton with the usual misfit; runs that the others contradict are doubted."""
        root = np.eye(len(self.y)) / WIDEST
        for k in range(N_ROUNDS + 1):
            for _ in range(N_STEPS):
                step = self._solve(root, self._laws())[-1]
                step[:, 1:] = np.clip(step[:, 1:], -LONGEST_STEP, LONGEST_STEP)
                self.values = np.clip(self.values + step, *self.ends)
                if np.abs(step).max() < SOLVED:
                    break
            off = self.y - self._laws()[0]
            if k == 0:
                self.unit = max(1.0, float(np.sqrt((off**2).mean(axis=1).min())) / WIDEST)
            elif k < N_ROUNDS:
                best = off[np.argmin(((off @ root.T) ** 2).sum(axis=1))]
                inverse = root.T @ root
                alone = inverse @ best / np.diag(inverse)  # with the run itself left out
                usual = MAD_TO_SD * float(np.median(np.abs(alone)))
                self.doubts = np.clip((alone / (OUTLIER * usual + ROUNDING)) ** 2, 1.0, MOST_DOUBT)
            root, _ = self._root(self._misfit(*USUAL))

    def _misfit(self, level: float, smooth: float, length: float, noise: float) -> Misfit:
        return Misfit(
            level=self.unit * level,
            smooth=self.unit * smooth,
            length=length,
            noise=self.unit * noise,
        )

    def _root(self, misfit: Misfit) -> tuple[Array, float]:
        return _inverse_root(self.x, misfit, self.errors, self.doubts)

    def _laws(self) -> tuple[Array, Array]:
        """Log losses and derivatives at the runs."""
        return log_law(self.values, self.share, self.power, self.x)

    def _solve(self, root: Array, laws: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
        """Whitened residuals and derivatives, covariance, step to the likeliest parameters."""
        logs, slopes = laws
        rest = (self.y - logs) @ root.T
        scaled = root @ slopes
        covariance = np.asarray(np.linalg.inv(scaled.swapaxes(1, 2) @ scaled + self.precision))
        slope = (scaled.swapaxes(1, 2) @ rest[..., None])[..., 0]
        slope -= (self.precision @ (self.values - self.usual)[..., None])[..., 0]
        step = (covariance @ slope[..., None])[..., 0]
        return rest, scaled, covariance, step


def _prior(last: float, n: int, fix: Mapping[str, float], common: float) -> tuple[Array, Array]:
    """Mean (2n,) and precision (2n, 2n) of the parameters of laws of n columns.

    The exponents have a spread in common.
    """
    mean = np.array([last, *[0.0] * (n - 1), *[math.log(EXPONENT)] * n])
    spread = np.diag([ANY**2, *[BALANCE_SPREAD**2] * (n - 1), *[(APART * common) ** 2 / 2] * n])
    spread[n:, n:] += common**2
    precision = np.linalg.inv(spread)
    for i in range(n):
        if (name := f"c{i + 1}") in fix:
            mean[n + i] = math.log(fix[name])
            precision[n + i, n + i] += PINNED**-2
    return mean, precision


def _inverse_root(x: Array, misfit: Misfit, errors: Array, doubts: Array) -> tuple[Array, float]:
    """Inverse of the Cholesky factor of the runs' covariance, and its log determinant."""
    noise = misfit.noise**2 * doubts + errors**2 + ROUNDING * misfit.variance
    root = np.linalg.cholesky(misfit.covariance(x, x) + np.diag(noise))
    inverse = linalg.solve_triangular(root, np.eye(len(x)), lower=True)
    return inverse, 2 * float(np.log(np.diag(root)).sum())


def _key(n_columns: int) -> str:
    """The law that has the terms of so many columns."""
    return "skaling" if n_columns == 2 else "power_floor"


def _parameters(part: Part, n: int) -> list[float]:
    """Of the law that is printed, in its order."""
    loss, ratios = math.exp(part.values[0]), np.exp([0.0, *part.values[1:n]])
    exponents = np.exp(part.values[n:]).tolist()
    floor, reducible = loss * (1 - part.share), loss * part.share
    if n == 2:
        scale = reducible / ratios.sum() ** part.power
        return [floor, scale, *exponents, part.power, ratios[1]]
    return [floor, *(reducible * ratios / ratios.sum()).tolist(), *exponents]
