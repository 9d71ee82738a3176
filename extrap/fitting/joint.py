"""Losses over several size columns: laws averaged, with a smooth misfit that no law has.

Runs of parameters and tokens do not follow one law to the last percent: models of one shape share
a displacement, and runs with far too few tokens lie above. Fitted as if each run erred by itself,
many runs in one corner pull the law. Here what a law leaves over is a Gaussian process over the
logarithms of the sizes (universal kriging), so runs near each other count as little more than one,
and the forecast keeps what the nearest runs show and doubts what is far from all. Runs with few
tokens may err and scatter more than others: whether they do, the evidence of the table decides.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
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
EXPONENT_PRIORS = ((0.35, 0.35, 0.2, 0.48), (0.35, 0.25, 0.2, 0.48), (0.3, 0.3, 0.8, 0.04))
"""Lognormal priors of the exponents: medians of the first column's and of the others', spread in
common, and prior probability. Chosen, with all that follows of misfits, on published ladders and
simulated ones (`python -m benchmarks.ladders`)."""
APART = 0.6
"""Spread of one exponent over another, as a share of the spread in common."""
BALANCE_SPREAD = 1.5
"""Spread of the log ratio of two terms at the largest compute, about equal ones."""
RATES = (0.25, 0.5)
"""Misfit and noise of runs with few tokens grow by this power of what they lack to the most tokens
of a fitted run, or of their parameters a token over the lower quartile of these. No growth and
these two are equally likely."""
MOST_GROWTH = 6.0
"""ln of a growth at most."""
SMOOTHS = ((0.002, 0.2), (0.005, 0.25), (0.012, 0.35), (0.03, 0.15), (0.06, 0.05))
"""Standard deviation of the smooth misfit of a log loss, and its prior probability."""
LENGTHS = ((1.5, 0.2), (3.0, 0.4), (6.0, 0.4))
"""Distance in ln size over which it changes, and its prior probability."""
LEVELS = ((0.0, 0.3), (0.002, 0.3), (0.006, 0.3), (0.015, 0.1))
"""Standard deviation of what runs of one value of the first column share, and its probability."""
LEVELS_GROWING = ((0.0, 0.17), (0.002, 0.28), (0.006, 0.55))
"""The same with a growth."""
NOISES = (0.0007, 0.0015, 0.003, 0.006, 0.012, 0.03)
"""Standard deviation of a log loss beyond known errors, equally likely."""
USUAL = (0.006, 0.008, 3.0, 0.004)
"""Level, misfit, length and noise at which the laws are fitted, before all are weighed."""
FIRST_SMOOTH, FIRST_LENGTH = 2, 1
"""Where in the grid of misfits the search begins, with every noise."""
TEMPER = 0.4
"""Power of the evidence of a misfit, which takes runs for more independent than they are."""
RARE, UNLIKELY = 0.005, 4.0
"""Weight of a misfit over that of the likeliest below which it is left out; log evidence below
that of the likeliest law with a misfit from which on a law is."""
MOST_MISFITS, MOST_PARTS = 120, 5000
"""So many are kept at most, at even steps of the summed weights: where losses have large errors
nearly all count alike."""
WIDEST = 0.06
"""Where the laws leave over more than this, all these standard deviations grow in proportion."""
OUTLIER = 4.0
"""A run so many standard deviations off what the other runs predict counts as noisier."""
N_ROUNDS = 3
"""Fits after which runs are doubted anew."""
DOF = 30.0
"""Degrees of freedom behind the spread, chosen on published ladders."""
SAME = 0.01
"""Sizes are equal within this share."""
HOPELESS = 8.0
"""Log evidence below the best of laws that are not looked at again."""
N_STEPS, LONGEST_STEP, SOLVED = 25, 0.7, 3e-3
"""Of Gauss–Newton: most steps, the longest one of a log parameter, and when it has ended."""
PINNED, ANY, FARTHEST, LEAST = 1e-4, 1e3, 20.0, 1e-3
"""Prior spread of a pinned log exponent and of the log loss; largest log ratio of two terms; least
reducible share under a given floor."""
AT_ONCE = 200_000
"""Derivatives that are whitened at once: more do not stay in a processor's cache."""
LARGEST_LOG, ROUNDING, MOST_DOUBT = 60.0, 1e-9, 1e8
"""Guards of an exponential, a division and a variance."""
FEWEST, MOST = 6, 250
"""Runs from which the others are predicted; and with which laws are fitted, since time grows with
their number's third power and runs near each other say much the same."""
TOO_HIGH, TOO_SURE = 0.01, 2.0
"""How far runs with few tokens lie above what the others say: at least, and in its errors."""


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
        smooth = self.smooth**2 * grown * _correlation(_squares(a, b), self.length)
        return np.asarray(smooth + self.level**2 * _same_first(a, b))

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
        key, n = _key(len(self.columns)), len(self.columns)
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

    @cached_property
    def undertrained(self) -> bool:
        """Whether the quarter of the runs with fewest tokens a parameter lies above the others.

        The half with most tokens a parameter predicts that quarter, which takes another fit.
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
        others = _posterior(self.columns, x[inner], y[inner], known, self.fixed, may_grow=False)
        mean, variance = others.predict_log(np.exp(x[outer]))
        above = float((y[outer] - mean).mean())
        return above > max(TOO_HIGH, TOO_SURE * float(np.sqrt(variance).mean()))

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture, (n, n_columns) → (n,) each.

        What the noise of a run with few tokens has more than `scatter` counts as the law's; where
        errors are known, so does all noise beyond them.
        """
        at = np.log(np.asarray(x, dtype=float) / self.reference)
        points, weight = np.array(self.points), np.array([part.weight for part in self.parts])
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
        priors = {part.prior for part in self.parts}
        precisions = {prior: _prior(0.0, n, self.fixed, prior)[1] for prior in priors}
        precision = np.array([precisions[part.prior] for part in self.parts])
        with_misfit: dict[Misfit, list[int]] = {}
        for j, part in enumerate(self.parts):
            with_misfit.setdefault(part.misfit, []).append(j)
        logs, slopes = self._laws(x)
        found = {}
        for misfit, parts in with_misfit.items():
            root, _ = _inverse_root(misfit.covariance(x, x), misfit, x, errors, doubts)
            scaled = _whitened(root, slopes[parts])
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
    columns: tuple[str, ...],
    x: Array,
    y: Array,
    errors: Array,
    fix: Mapping[str, float],
    *,
    may_grow: bool = True,
) -> JointPosterior:
    """Of the laws at log sizes x, (n, n_columns), and log losses y, (n,)."""
    reference = x[np.argmax(x.sum(axis=1))]
    x = x - reference
    plain = _Laws(x, y, errors, fix)
    laws = [plain]
    if may_grow and x.shape[1] == 2:
        laws += [_Laws(x, y, errors, fix, growth=growth, like=plain) for growth in _growths(x)]
    return JointPosterior(
        columns=columns,
        reference=tuple(np.exp(reference).tolist()),
        parts=_weighed(laws),
        points=tuple(map(tuple, x.tolist())),
        losses=tuple(y.tolist()),
        errors=tuple(errors.tolist()),
        doubts=tuple(plain.doubts.tolist()),
        collinear=False,
        fixed=fix,
    )


def _growths(x: Array) -> Iterator[Growth]:
    """Those that are weighed, of fitted runs at points x, (n, 2)."""
    by_tokens, by_ratio = RATES
    yield Growth(rate=by_tokens, weights=(0.0, -1.0), start=-float(x[:, 1].max()))
    start = float(np.quantile(x[:, 0] - x[:, 1], 0.25))
    yield Growth(rate=by_ratio, weights=(1.0, -1.0), start=start)


def _weighed(laws: Sequence[_Laws]) -> tuple[Part, ...]:
    """The laws with the misfits that count, by a search over the grid of misfits.

    It goes from cell to neighbouring cell, and on from those alone whose weight counts.

    Args:
        laws: With each growth.
    """
    levels = [LEVELS if of.growth is None else LEVELS_GROWING for of in laws]
    log_weights: dict[tuple[int, ...], float] = {}
    kept: dict[tuple[int, ...], tuple[Misfit, Array, Array]] = {}
    waiting: list[tuple[int, ...]] = [
        (i, 0, FIRST_SMOOTH, FIRST_LENGTH, k) for i in range(len(laws)) for k in range(len(NOISES))
    ]
    while waiting:
        for i, cells in itertools.groupby(waiting, key=operator.itemgetter(0)):
            here = [*cells]
            grid = [
                (levels[i][level], SMOOTHS[smooth], LENGTHS[length], (NOISES[noise], 1.0))
                for _, level, smooth, length, noise in here
            ]
            misfits = [laws[i].misfit(*(scale for scale, _ in axes)) for axes in grid]
            evidence, values = laws[i].evidence(misfits)
            for k, (cell, axes) in enumerate(zip(here, grid, strict=True)):
                prior = math.prod(share for _, share in axes)
                total = float(np.logaddexp.reduce(evidence[k]))
                log_weights[cell] = TEMPER * total + math.log(prior)
                kept[cell] = misfits[k], evidence[k], values[k]
        least = max(log_weights.values()) + math.log(RARE)
        likely = sorted(cell for cell, log_weight in log_weights.items() if log_weight >= least)
        ends = [(len(levels[c[0]]), len(SMOOTHS), len(LENGTHS), len(NOISES)) for c in likely]
        near = {
            (*cell[: k + 1], cell[k + 1] + step, *cell[k + 2 :])
            for cell, end in zip(likely, ends, strict=True)
            for k in range(4)
            for step in (-1, 1)
            if 0 <= cell[k + 1] + step < end[k]
        }
        waiting = sorted(near - log_weights.keys())
    parts = list[Part]()
    chosen, weights = _even(special.softmax([log_weights[cell] for cell in likely]), MOST_MISFITS)
    for cell, weight in zip([likely[k] for k in chosen], weights.tolist(), strict=True):
        of, (misfit, evidence, values) = laws[cell[0]], kept[cell]
        is_likely = evidence > evidence.max() - UNLIKELY
        shares = np.exp(evidence[is_likely] - evidence.max())
        rows, shares = _even(shares / shares.sum(), MOST_PARTS // len(chosen))
        parts += [
            Part(
                weight=weight * share,
                share=float(of.share[j]),
                power=float(of.power[j]),
                prior=of.priors[j],
                values=tuple(values[j].tolist()),
                misfit=misfit,
            )
            for j, share in zip(np.flatnonzero(is_likely)[rows], shares.tolist(), strict=True)
        ]
    return tuple(parts)


def _even(weights: Array, most: int) -> tuple[Index, Array]:
    """Which of many are kept, at most so many, and their weights, which sum to 1."""
    if len(weights) <= most:
        return np.arange(len(weights)), weights
    steps = (np.arange(most) + 0.5) / most
    at = np.searchsorted(np.cumsum(weights) / weights.sum(), steps)
    index, count = np.unique(at, return_counts=True)
    return index, count / most


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


class _Laws:
    """Shares × powers, fitted to log losses y at points x (n, n_columns)."""

    def __init__(
        self,
        x: Array,
        y: Array,
        errors: Array,
        fix: Mapping[str, float],
        *,
        growth: Growth | None = None,
        like: _Laws | None = None,
    ) -> None:
        self.x, self.y, self.growth = x, y, growth
        self.squares, self.same = _squares(x, x), _same_first(x, x)
        self.correlations: dict[float, Array] = {}
        self.errors = errors if len(errors) else np.zeros(len(y))
        n, last = x.shape[1], float(y[np.argmax(x.sum(axis=1))])
        steps = (np.arange(N_SHARES) + 0.5) / N_SHARES
        shares, prior = steps**2, steps / steps.sum()  # dense where little is reducible
        if "E" in fix:
            shares, prior = np.array([max(1 - fix["E"] / math.exp(last), LEAST)]), np.ones(1)
        powers = [fix["k"]] if "k" in fix else POWERS if n == 2 else [1.0]
        grid = itertools.product(zip(shares, prior, strict=True), powers, EXPONENT_PRIORS)
        rows = [(share, power, p * q, of) for (share, p), power, (*of, q) in grid]
        self.share, self.power, probability = np.array([row[:3] for row in rows]).T
        self.priors = [(first, others, spread) for *_, (first, others, spread) in rows]
        moments = {of: _prior(last, n, fix, of) for of in set(self.priors)}
        self.usual, self.precision = (
            np.array([moments[of][i] for of in self.priors]) for i in (0, 1)
        )
        self.log_prior = np.log(probability) + 0.5 * np.linalg.slogdet(self.precision)[1]
        self.ends = np.array(
            [
                [sign * ANY, *[sign * FARTHEST] * (n - 1), *[math.log(exponent)] * n]
                for sign, exponent in ((-1, EXPONENTS.low), (1, EXPONENTS.high))
            ]
        )
        if like is None:
            self.values = self.usual.copy()
            self.doubts, self.unit = np.ones(len(y)), 1.0
            self._fit()
        else:  # the doubts of runs are those without growth
            self.share, self.power, self.priors = like.share, like.power, like.priors
            self.usual, self.precision = like.usual, like.precision
            self.log_prior = like.log_prior
            self.values, self.doubts, self.unit = like.values.copy(), like.doubts, like.unit
            self._climb(self._root(self.misfit(*USUAL))[0])
        self.fitted = self._laws()
        self._drop()

    def evidence(self, misfits: Sequence[Misfit]) -> tuple[Array, Array]:
        """Log evidence of laws with misfits, and their likeliest parameters.

        Returns:
            Shapes (n_misfits, n_laws) and (n_misfits, n_laws, 2 n_columns).
        """
        n_together = max(AT_ONCE // self.fitted[1].size, 1)
        starts = range(0, len(misfits), n_together)
        found = [self._evidence(misfits[start : start + n_together]) for start in starts]
        evidence, values = zip(*found, strict=True)
        return np.concatenate(evidence), np.concatenate(values)

    def _evidence(self, misfits: Sequence[Misfit]) -> tuple[Array, Array]:
        roots, log_determinants = zip(*map(self._root, misfits), strict=True)
        rest, scaled, information, step = self._solve(
            np.array(roots), self.values, self.usual, self.precision, self.fitted
        )
        rest = rest - (scaled @ step[..., None])[..., 0]
        values = np.clip(self.values + step, *self.ends)
        off = (values - self.usual)[..., None]
        squares = (rest**2).sum(axis=-1)
        squares += (off.swapaxes(-1, -2) @ (self.precision @ off))[..., 0, 0]
        spread = -np.linalg.slogdet(information)[1] - np.array(log_determinants)[:, None]
        return self.log_prior + 0.5 * (spread - squares), values

    def misfit(self, level: float, smooth: float, length: float, noise: float) -> Misfit:
        """With the growth of these laws, wider where they leave over more than usual."""
        return Misfit(
            level=self.unit * level,
            smooth=self.unit * smooth,
            length=length,
            noise=self.unit * noise,
            growth=self.growth,
        )

    def _drop(self) -> None:
        """Leave out laws that no noise makes likely."""
        usual, _ = self.evidence([self.misfit(*USUAL[:3], noise) for noise in NOISES])
        is_kept = usual.max(axis=0) > usual.max() - HOPELESS
        self.values, self.log_prior = self.values[is_kept], self.log_prior[is_kept]
        self.usual, self.precision = self.usual[is_kept], self.precision[is_kept]
        self.share, self.power = self.share[is_kept], self.power[is_kept]
        self.priors = list(itertools.compress(self.priors, is_kept))
        logs, slopes = self.fitted
        self.fitted = logs[is_kept], slopes[is_kept]

    def _fit(self) -> None:
        """Gauss–Newton with the usual misfit; runs that the others contradict are doubted."""
        root = np.eye(len(self.y)) / WIDEST
        for k in range(N_ROUNDS + 1):
            self._climb(root)
            off = self.y - self._laws()[0]
            if k == 0:
                self.unit = max(1.0, float(np.sqrt((off**2).mean(axis=1).min())) / WIDEST)
            elif k < N_ROUNDS:
                best = off[np.argmin(((off @ root.T) ** 2).sum(axis=1))]
                inverse = root.T @ root
                alone = inverse @ best / np.diag(inverse)  # with the run itself left out
                usual = MAD_TO_SD * float(np.median(np.abs(alone)))
                self.doubts = np.clip((alone / (OUTLIER * usual + ROUNDING)) ** 2, 1.0, MOST_DOUBT)
            root, _ = self._root(self.misfit(*USUAL))

    def _climb(self, root: Array) -> None:
        """Gauss–Newton steps of all laws."""
        moving = np.arange(len(self.values))
        for _ in range(N_STEPS):
            values = self.values[moving]
            laws = log_law(values, self.share[moving], self.power[moving], self.x)
            priors = self.usual[moving], self.precision[moving]
            step = self._solve(root, values, *priors, laws)[-1]
            step[:, 1:] = np.clip(step[:, 1:], -LONGEST_STEP, LONGEST_STEP)
            self.values[moving] = np.clip(values + step, *self.ends)
            moving = moving[np.abs(step).max(axis=1) >= SOLVED]
            if not len(moving):
                break

    def _root(self, misfit: Misfit) -> tuple[Array, float]:
        if misfit.length not in self.correlations:
            grown = np.multiply.outer(*[misfit.factors(self.x)] * 2)
            self.correlations[misfit.length] = grown * _correlation(self.squares, misfit.length)
        covariance = misfit.smooth**2 * self.correlations[misfit.length]
        covariance += misfit.level**2 * self.same
        return _inverse_root(covariance, misfit, self.x, self.errors, self.doubts)

    def _laws(self) -> tuple[Array, Array]:
        """Log losses and derivatives at the runs."""
        return log_law(self.values, self.share, self.power, self.x)

    def _solve(
        self,
        root: Array,
        values: Array,
        usual: Array,
        precision: Array,
        laws: tuple[Array, Array],
    ) -> tuple[Array, Array, Array, Array]:
        """Whitened residuals and derivatives, information, step to the likeliest parameters.

        Args:
            root: As of `_inverse_root`, of one misfit or of many, (…, n, n).
            values: Of the laws.
            usual: Prior means of these.
            precision: Prior precision of these.
            laws: Log losses and derivatives at the runs.
        """
        logs, slopes = laws
        rest = (self.y - logs) @ root.swapaxes(-1, -2)
        scaled = _whitened(root, slopes)
        information = scaled.swapaxes(-1, -2) @ scaled + precision
        pull = (scaled.swapaxes(-1, -2) @ rest[..., None])[..., 0]
        pull -= (precision @ (values - usual)[..., None])[..., 0]
        step = np.asarray(np.linalg.solve(information, pull[..., None]))[..., 0]
        return rest, scaled, information, step


def _whitened(root: Array, slopes: Array) -> Array:
    """`root @ slopes` of derivatives (m, n, p) in one product, (…, m, n, p)."""
    m, n, p = slopes.shape
    flat = root @ slopes.transpose(1, 0, 2).reshape(n, m * p)
    return np.ascontiguousarray(flat.reshape(*flat.shape[:-1], m, p).swapaxes(-3, -2))


def _squares(a: Array, b: Array) -> Array:
    """Squared distances between points (n, n_columns) and (m, n_columns), (n, m)."""
    return np.asarray(sum(np.subtract.outer(u, v) ** 2 for u, v in zip(a.T, b.T, strict=True)))


def _same_first(a: Array, b: Array) -> Array:
    """Whether points have one first size, (n, m)."""
    return np.asarray(np.equal.outer(np.round(a[:, 0] / SAME), np.round(b[:, 0] / SAME)))


def _correlation(squares: Array, length: float) -> Array:
    """Of the smooth misfit at points whose squared distances these are."""
    return np.asarray(np.exp(-0.5 / length**2 * squares))


def _prior(
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


def _inverse_root(
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


def _key(n_columns: int) -> str:
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
