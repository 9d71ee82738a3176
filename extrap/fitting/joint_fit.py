"""The laws and misfits of losses over several size columns that count, found and weighed."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from extrap.fitting.joint import (
    ANY,
    EXPONENT_PRIORS,
    ROUNDING,
    SAME,
    Growth,
    JointPosterior,
    Misfit,
    Part,
    correlation,
    inverse_root,
    law_key,
    log_law,
    parameter_prior,
    share_first,
    squares_between,
    whitened,
)
from extrap.fitting.loss_law import MAD_TO_SD, check_losses
from extrap.fitting.projection import Index
from extrap.laws import LOSS_LAWS
from extrap.laws.base import EXPONENT_RANGE as EXPONENTS
from extrap.laws.base import Array

N_SHARES = 16
"""Grid of the reducible share of the loss at the largest compute, uniform in (0, 1) a priori."""
POWERS = (0.35, 0.5, 0.7, 1.0)
"""How the terms of two columns add up: no sweep tells. At 1 it is the Chinchilla law; published
fits lie between .3 and .9. Terms of more columns are summed."""
RATES = (0.25, 0.5)
"""Misfit and noise of runs with few tokens grow by this power of what they lack to the most tokens
of a fitted run, or of their parameters a token over the lower quartile of these. No growth and
these two are equally likely."""
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
HOPELESS = 8.0
"""Log evidence below the best of laws that are not looked at again."""
N_STEPS, LONGEST_STEP, SOLVED = 25, 0.7, 3e-3
"""Of Gauss–Newton: most steps, the longest one of a log parameter, and when it has ended."""
AT_ONCE = 200_000
"""Derivatives that are whitened at once: more do not stay in a processor's cache."""
FEWEST, MOST = 6, 250
"""Runs from which the others are predicted; and with which laws are fitted, since time grows with
their number's third power and runs near each other say much the same."""
TOO_HIGH, TOO_SURE = 0.01, 2.0
"""How far runs with few tokens lie above what the others say: at least, and in its errors."""
FARTHEST, LEAST = 20.0, 1e-3
"""Largest log ratio of two terms; least reducible share under a given floor."""
MOST_DOUBT = 1e8
"""Guard of a variance."""


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
    collinear = check_losses(LOSS_LAWS[law_key(n)], sizes, loss, loss_se, fixed=fix, n_free=n + 1)
    x = np.log(np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()]))
    y = np.log(np.asarray(loss, dtype=float))
    errors = np.empty(0) if loss_se is None else np.asarray(loss_se, dtype=float) / np.exp(y)
    kept = _thinned(x)
    known = errors[kept] if len(errors) else errors
    found = _posterior(tuple(sizes), x[kept], y[kept], known, fix)
    return replace(found, collinear=collinear)


def has_undertrained(posterior: JointPosterior) -> bool:
    """Whether the quarter of the runs with fewest tokens a parameter lies above the others.

    The half with most tokens a parameter predicts that quarter, which takes another fit.
    """
    x = np.array(posterior.points) + np.log(posterior.reference)
    y, errors = np.array(posterior.losses), np.array(posterior.errors)
    if len(posterior.columns) != 2:
        return False
    ratio = x[:, 0] - x[:, 1]
    inner, outer = ratio <= np.median(ratio), ratio > np.quantile(ratio, 0.75)
    if inner.sum() < FEWEST or not outer.any() or (np.ptp(x[inner], axis=0) < SAME).any():
        return False
    known = errors[inner] if len(errors) else errors
    fixed = posterior.fixed
    others = _posterior(posterior.columns, x[inner], y[inner], known, fixed, may_grow=False)
    mean, variance = others.predict_log(np.exp(x[outer]))
    above = float((y[outer] - mean).mean())
    return above > max(TOO_HIGH, TOO_SURE * float(np.sqrt(variance).mean()))


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
        self.squares, self.same = squares_between(x, x), share_first(x, x)
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
        moments = {of: parameter_prior(last, n, fix, of) for of in set(self.priors)}
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
            self.correlations[misfit.length] = grown * correlation(self.squares, misfit.length)
        covariance = misfit.smooth**2 * self.correlations[misfit.length]
        covariance += misfit.level**2 * self.same
        return inverse_root(covariance, misfit, self.x, self.errors, self.doubts)

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
            root: As of `inverse_root`, of one misfit or of many, (…, n, n).
            values: Of the laws.
            usual: Prior means of these.
            precision: Prior precision of these.
            laws: Log losses and derivatives at the runs.
        """
        logs, slopes = laws
        rest = (self.y - logs) @ root.swapaxes(-1, -2)
        scaled = whitened(root, slopes)
        information = scaled.swapaxes(-1, -2) @ scaled + precision
        pull = (scaled.swapaxes(-1, -2) @ rest[..., None])[..., 0]
        pull -= (precision @ (values - usual)[..., None])[..., 0]
        step = np.asarray(np.linalg.solve(information, pull[..., None]))[..., 0]
        return rest, scaled, information, step
