"""The laws and misfits of losses over several size columns that count, found and weighed."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from extrap.fitting.joint import (
    EXPONENT_PRIORS,
    SIZE_TOLERANCE,
    FittedRuns,
    Growth,
    JointLaws,
    JointPosterior,
    Misfit,
    Whitened,
    law_key,
    parameter_prior,
    whiten,
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
GROWTH_RATES = (0.25, 0.5)
"""Misfit and noise of runs with few tokens grow by this power of what they lack to the most tokens
of a fitted run, or of their parameters a token over the lower quartile of these. No growth and
these two are equally likely."""
SMOOTH_SDS = ((0.002, 0.2), (0.005, 0.25), (0.012, 0.35), (0.03, 0.15), (0.06, 0.05))
"""Standard deviation of the smooth misfit of a log loss, and its prior probability."""
LENGTH_SCALES = ((1.5, 0.2), (3.0, 0.4), (6.0, 0.4))
"""Distance in ln size over which it changes, and its prior probability."""
LEVEL_SDS = ((0.0, 0.3), (0.002, 0.3), (0.006, 0.3), (0.015, 0.1))
"""Standard deviation of what runs of one value of the first column share, and its probability."""
LEVEL_SDS_WITH_GROWTH = ((0.0, 0.17), (0.002, 0.28), (0.006, 0.55))
"""`LEVEL_SDS` where misfit and noise grow for runs with few tokens."""
NOISE_SDS = (0.0007, 0.0015, 0.003, 0.006, 0.012, 0.03)
"""Standard deviation of a log loss beyond known errors, equally likely."""
TYPICAL_MISFIT = (0.006, 0.008, 3.0, 0.004)
"""Level, smooth misfit, length and noise with which laws are fitted, before all are weighed."""
SEARCH_START = (0, 2, 1)
"""Level, smooth misfit and length in the grid of misfits where the search begins, at any noise."""
EVIDENCE_POWER = 0.4
"""Power of the evidence of a misfit, which takes runs for more independent than they are."""
MIN_MISFIT_WEIGHT = 0.005
"""Weight of a misfit over that of the likeliest below which it is left out."""
MAX_EVIDENCE_GAP = 4.0
"""Log evidence below that of the likeliest law with a misfit from which on a law is left out."""
MAX_MISFITS, MAX_LAWS = 120, 5000
"""So many misfits, and laws with them, stay at most, at even steps of the summed weights: where
losses have large errors nearly all count alike."""
MAX_TYPICAL_RESIDUAL = 0.06
"""Where the laws leave over more than this, all these standard deviations grow in proportion."""
DOUBTED_SDS = 4.0
"""A run so many standard deviations off what the other runs predict counts as noisier."""
N_DOUBTS = 2
"""How often runs are doubted and the laws fitted anew."""
HOPELESS_EVIDENCE_GAP = 8.0
"""Log evidence below the best of laws that are not looked at again."""
MAX_STEPS, MAX_LOG_STEP, STEP_TOLERANCE = 25, 0.7, 3e-3
"""Gauss–Newton: most steps, longest step of a log parameter, tolerance of convergence."""
BATCH_SIZE = 200_000
"""Derivatives that are whitened at once: more do not stay in a processor's cache."""
MIN_PREDICTING_RUNS = 6
"""Runs from which those with few tokens are predicted, at least."""
MAX_RUNS = 250
"""Runs to which laws are fitted at most: time grows with their number's third power, and runs near
each other say much the same."""
MIN_EXCESS, MIN_EXCESS_ERRORS = 0.01, 2.0
"""How far runs with few tokens lie above what the others say: at least, and in its errors."""
MAX_LOG_RATIO = 20.0
"""Largest log ratio of two terms."""
MIN_SHARE = 1e-3
"""Least reducible share under a given floor."""
MAX_DOUBT, MIN_RESIDUAL = 1e8, 1e-9
"""Guards of the variance of a doubted run and of a division."""
_Cell = tuple[int, ...]
"""Cell of the grid of misfits: indices of growth, level, smooth misfit, length and noise."""


def fit_joint(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    fix: Mapping[str, float] | None = None,
) -> JointPosterior:
    """Weigh laws and misfits by their posterior probability.

    For each reducible share and power the other parameters follow by Gauss–Newton steps with one
    typical misfit; then every misfit of a grid is weighed with each law, the parameters integrated
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
    y = np.asarray(loss, dtype=float)
    errors = None if loss_se is None else np.asarray(loss_se, dtype=float) / y
    runs = FittedRuns(points=x, losses=np.log(y), errors=errors, doubts=np.ones(len(y)))
    posterior = _posterior(tuple(sizes), runs.subset(_thinned(x)), fix)
    return replace(posterior, collinear=collinear)


def has_undertrained(posterior: JointPosterior) -> bool:
    """Whether the quarter of the runs with fewest tokens a parameter lies above the others.

    The half with most tokens a parameter predicts that quarter, which takes another fit.
    """
    if len(posterior.columns) != 2:
        return False
    x = posterior.runs.points + np.log(posterior.reference)
    ratio = x[:, 0] - x[:, 1]
    inner, outer = ratio <= np.median(ratio), ratio > np.quantile(ratio, 0.75)
    is_narrow = (np.ptp(x[inner], axis=0) < SIZE_TOLERANCE).any()
    if inner.sum() < MIN_PREDICTING_RUNS or not outer.any() or is_narrow:
        return False
    runs = replace(posterior.runs, points=x, doubts=np.ones(len(x))).subset(inner)
    others = _posterior(posterior.columns, runs, posterior.fixed, may_grow=False)
    mean, variance = others.predict_log(np.exp(x[outer]))
    excess = float((posterior.runs.losses[outer] - mean).mean())
    return excess > max(MIN_EXCESS, MIN_EXCESS_ERRORS * float(np.sqrt(variance).mean()))


def _thinned(x: Array) -> Index:
    """Which of the runs at log sizes x, (n, n_columns), are fitted."""
    step = math.ceil(len(x) / MAX_RUNS)
    if step == 1:
        return np.arange(len(x))
    spread = np.argsort(x.sum(axis=1), kind="stable")[::-step]  # from the largest one on
    return np.unique(np.concatenate([spread, x.argmin(axis=0), x.argmax(axis=0)]))


def _posterior(
    columns: tuple[str, ...], runs: FittedRuns, fix: Mapping[str, float], *, may_grow: bool = True
) -> JointPosterior:
    """Posterior distribution of laws, given runs at log sizes."""
    reference = runs.points[np.argmax(runs.points.sum(axis=1))]
    runs = replace(runs, points=runs.points - reference)
    fits = [plain := _without_outliers(_Fit(runs=runs, laws=_grid(runs, fix))).promising]
    for growth in _growths(runs.points) if may_grow and len(columns) == 2 else ():
        growing = replace(plain, growth=growth)
        fits.append(growing.climbed(growing.typical_root).promising)
    misfits, parts, weights = zip(*_selected(_search(fits)), strict=True)
    return JointPosterior(
        columns=columns,
        reference=tuple(np.exp(reference).tolist()),
        laws=JointLaws.joined(parts),
        weights=np.concatenate(weights),
        misfits=misfits,
        misfit_index=np.repeat(np.arange(len(misfits)), [len(part) for part in weights]),
        runs=plain.runs,
        collinear=False,
        fixed=fix,
    )


def _growths(x: Array) -> Iterator[Growth]:
    """Those that are weighed, of fitted runs at points x, (n, 2)."""
    by_tokens, by_ratio = GROWTH_RATES
    yield Growth(rate=by_tokens, weights=(0.0, -1.0), start=-float(x[:, 1].max()))
    start = float(np.quantile(x[:, 0] - x[:, 1], 0.25))
    yield Growth(rate=by_ratio, weights=(1.0, -1.0), start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates(JointLaws):
    """Laws that are weighed; `log_prior` counts the normalization of the prior of their values."""

    log_prior: Array
    prior_mean: Array
    precision: Array


def _grid(runs: FittedRuns, fix: Mapping[str, float]) -> _Candidates:
    """Shares × powers × priors of the exponents, with the values that are expected a priori."""
    n, log_loss = runs.points.shape[1], float(runs.losses[np.argmax(runs.points.sum(axis=1))])
    steps = (np.arange(N_SHARES) + 0.5) / N_SHARES
    shares, probabilities = steps**2, steps / steps.sum()  # dense where little is reducible
    if "E" in fix:
        shares = np.array([max(1 - fix["E"] / math.exp(log_loss), MIN_SHARE)])
        probabilities = np.ones(1)
    powers = [fix["k"]] if "k" in fix else POWERS if n == 2 else [1.0]
    grid = itertools.product(zip(shares, probabilities, strict=True), powers, EXPONENT_PRIORS)
    share, power, probability, *exponents = np.array(
        [(share, power, p * q, *prior) for (share, p), power, (*prior, q) in grid]
    ).T
    exponent_prior = np.column_stack(exponents)
    mean, precision = parameter_prior(exponent_prior, n, fix, log_loss)
    return _Candidates(
        share=share,
        power=power,
        exponent_prior=exponent_prior,
        values=mean,
        log_prior=np.log(probability) + 0.5 * np.linalg.slogdet(precision)[1],
        prior_mean=mean,
        precision=precision,
    )


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Laws fitted with one growth; all their misfits are `scale` times as wide as usual."""

    runs: FittedRuns
    laws: _Candidates
    scale: float = 1.0
    growth: Growth | None = None

    @cached_property
    def at_runs(self) -> tuple[Array, Array]:
        """Residuals and derivatives of the laws, (n_laws, n) and (n_laws, n, 2 n_columns)."""
        log_losses, slopes = self.laws.log_losses(self.runs.points)
        return self.runs.losses - log_losses, slopes

    @cached_property
    def bounds(self) -> Array:
        """Lowest and highest values of laws, (2, 2 n_columns)."""
        n = self.runs.points.shape[1]
        ratios = [(-MAX_LOG_RATIO, MAX_LOG_RATIO)] * (n - 1)
        exponents = [(math.log(EXPONENTS.low), math.log(EXPONENTS.high))] * n
        return np.array([(-math.inf, math.inf), *ratios, *exponents]).T

    @property
    def typical_root(self) -> Array:
        """Inverse root of the runs' covariance with the typical misfit."""
        return self.runs.inverse_root(self.misfit(*TYPICAL_MISFIT))[0]

    def misfit(self, level: float, smooth: float, length: float, noise: float) -> Misfit:
        """With this scale and growth."""
        return Misfit(
            level=self.scale * level,
            smooth=self.scale * smooth,
            length=length,
            noise=self.scale * noise,
            growth=self.growth,
        )

    def climbed(self, root: Array) -> _Fit:
        """After Gauss–Newton steps with the misfit that has this inverse root."""
        laws = replace(self.laws, values=self.laws.values.copy())
        moving = np.arange(len(laws.values))
        for _ in range(MAX_STEPS):
            current = replace(self, laws=laws.subset(moving))
            _, step = current.step(root)
            step[:, 1:] = np.clip(step[:, 1:], -MAX_LOG_STEP, MAX_LOG_STEP)
            laws.values[moving] = np.clip(current.laws.values + step, *self.bounds)
            moving = moving[np.abs(step).max(axis=1) >= STEP_TOLERANCE]
            if not len(moving):
                break
        return replace(self, laws=laws)

    def step(self, root: Array) -> tuple[Whitened, Array]:
        """The laws beside the runs, with one misfit or many, and the step to likeliest values."""
        whitened = whiten(root, *self.at_runs, self.laws.precision)
        gradient = whitened.slopes.swapaxes(-1, -2) @ whitened.residuals[..., None]
        gradient -= self.laws.precision @ (self.laws.values - self.laws.prior_mean)[..., None]
        return whitened, np.asarray(np.linalg.solve(whitened.information, gradient))[..., 0]

    def evidence(self, misfits: Sequence[Misfit]) -> Iterator[tuple[Array, Array]]:
        """Log evidence of the laws with each misfit, (n_laws,), and their likeliest values."""
        laws, batch = self.laws, max(BATCH_SIZE // self.at_runs[1].size, 1)
        for start in range(0, len(misfits), batch):
            pairs = map(self.runs.inverse_root, misfits[start : start + batch])
            roots, log_determinants = map(np.array, zip(*pairs, strict=True))
            whitened, step = self.step(roots)
            residuals = whitened.residuals - (whitened.slopes @ step[..., None])[..., 0]
            values = np.clip(laws.values + step, *self.bounds)
            change = (values - laws.prior_mean)[..., None]
            squares = (residuals**2).sum(axis=-1)
            squares += (change.swapaxes(-1, -2) @ (laws.precision @ change))[..., 0, 0]
            spread = -np.linalg.slogdet(whitened.information)[1] - log_determinants[:, None]
            yield from zip(laws.log_prior + 0.5 * (spread - squares), values, strict=True)

    @property
    def promising(self) -> _Fit:
        """Without laws that no noise makes likely."""
        pairs = self.evidence([self.misfit(*TYPICAL_MISFIT[:3], noise) for noise in NOISE_SDS])
        evidence = np.array([evidence for evidence, _ in pairs])
        is_promising = evidence.max(axis=0) > evidence.max() - HOPELESS_EVIDENCE_GAP
        return replace(self, laws=self.laws.subset(is_promising))

    @cached_property
    def axes(self) -> tuple[Sequence[tuple[float, float]], ...]:
        """Axes of the grid of misfits: levels, smooth misfits, lengths, noises, with priors."""
        levels = LEVEL_SDS if self.growth is None else LEVEL_SDS_WITH_GROWTH
        return levels, SMOOTH_SDS, LENGTH_SCALES, [(noise, 1.0) for noise in NOISE_SDS]


def _without_outliers(fit: _Fit) -> _Fit:
    """With the typical misfit and its scale; runs that the others contradict are doubted."""
    fit = fit.climbed(np.eye(len(fit.runs.losses)) / MAX_TYPICAL_RESIDUAL)
    least = float(np.sqrt((fit.at_runs[0] ** 2).mean(axis=1).min()))
    fit = replace(fit, scale=max(1.0, least / MAX_TYPICAL_RESIDUAL))
    for _ in range(N_DOUBTS):
        root = fit.typical_root
        fit = fit.climbed(root)
        residuals, _ = fit.at_runs
        best = residuals[np.argmin(((residuals @ root.T) ** 2).sum(axis=1))]
        inverse = root.T @ root
        left_out = inverse @ best / np.diag(inverse)  # residuals by what the other runs predict
        outlying = DOUBTED_SDS * MAD_TO_SD * float(np.median(np.abs(left_out)))
        doubts = np.clip((left_out / (outlying + MIN_RESIDUAL)) ** 2, 1.0, MAX_DOUBT)
        fit = replace(fit, runs=replace(fit.runs, doubts=doubts))
    return fit.climbed(fit.typical_root)


class _Weighed(NamedTuple):
    """Laws with one misfit: its log weight, their log evidence and likeliest values."""

    misfit: Misfit
    log_weight: float
    laws: JointLaws
    evidence: Array
    values: Array


def _search(fits: Sequence[_Fit]) -> list[_Weighed]:
    """The misfits of the grid that count.

    From cell to neighboring cell, and on from those alone whose weight counts.
    """
    weighed: dict[_Cell, _Weighed] = {}
    cells: list[_Cell] = [
        (i, *SEARCH_START, k) for i in range(len(fits)) for k in range(len(NOISE_SDS))
    ]
    while cells:
        for i, group in itertools.groupby(cells, key=operator.itemgetter(0)):
            weighed |= _weigh(fits[i], [*group])
        least = max(part.log_weight for part in weighed.values()) + math.log(MIN_MISFIT_WEIGHT)
        likely = sorted(cell for cell, part in weighed.items() if part.log_weight >= least)
        neighbors = {
            (*cell[:k], i, *cell[k + 1 :])
            for cell in likely
            for k, axis in enumerate(fits[cell[0]].axes, start=1)
            for i in (cell[k] - 1, cell[k] + 1)
            if 0 <= i < len(axis)
        }
        cells = sorted(neighbors - weighed.keys())
    return [weighed[cell] for cell in likely]


def _weigh(fit: _Fit, cells: Sequence[_Cell]) -> dict[_Cell, _Weighed]:
    """The laws with the misfit of each cell."""
    chosen = [[axis[k] for axis, k in zip(fit.axes, cell[1:], strict=True)] for cell in cells]
    misfits = [fit.misfit(*(value for value, _ in axes)) for axes in chosen]
    weighed = {}
    for k, (evidence, values) in enumerate(fit.evidence(misfits)):
        log_prior = math.log(math.prod(prior for _, prior in chosen[k]))
        log_weight = EVIDENCE_POWER * float(np.logaddexp.reduce(evidence)) + log_prior
        weighed[cells[k]] = _Weighed(misfits[k], log_weight, fit.laws, evidence, values)
    return weighed


def _selected(weighed: Sequence[_Weighed]) -> Iterator[tuple[Misfit, JointLaws, Array]]:
    """Misfits, the laws with each that count, and the weights of these."""
    chosen, weights = _systematic(
        special.softmax([part.log_weight for part in weighed]), MAX_MISFITS
    )
    for k, weight in zip(chosen, weights, strict=True):
        misfit, _, laws, evidence, values = weighed[k]
        likely = np.flatnonzero(evidence > evidence.max() - MAX_EVIDENCE_GAP)
        shares = np.exp(evidence[likely] - evidence.max())
        among, shares = _systematic(shares / shares.sum(), MAX_LAWS // len(chosen))
        rows = likely[among]
        selected = JointLaws(
            share=laws.share[rows],
            power=laws.power[rows],
            exponent_prior=laws.exponent_prior[rows],
            values=values[rows],
        )
        yield misfit, selected, weight * shares


def _systematic(weights: Array, most: int) -> tuple[Index, Array]:
    """Which of many are chosen, at most so many, and their weights, which sum to 1."""
    if len(weights) <= most:
        return np.arange(len(weights)), weights
    steps = (np.arange(most) + 0.5) / most
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), steps)
    index, count = np.unique(chosen, return_counts=True)
    return index, count / most
