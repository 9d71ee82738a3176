"""The gradient noise scale from squared gradient norms at two batch sizes.

`B_simple = tr Σ / |G|²`, with G the true gradient and Σ the covariance of the gradient of one
example: the batch size at which noise and signal of a gradient are equal. Both parts are estimated
without bias at every step, averaged over steps *separately*, and only then divided: a ratio a step
is dominated by steps whose |G|² happens to be small or negative, and its mean is far off.

- `noise_scale`: norms of some steps, over which the noise scale is about constant;
- `noise_scale_from_moments`: the same from |G|² and tr Σ that are averages already;
- `noise_course`: how it moves over training; `mean_noise_scale`: its mean over training, to
  compare with a critical batch size.

References:
    McCandlish, Kaplan, Amodei et al. (2018), An Empirical Model of Large-Batch Training,
    arXiv 1812.06162: Sec. 2.2 (noise scale), App. A.1 (estimators), App. D (mean over training).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extrap.errors import DataError
from extrap.records import Interval
from extrap.records.fields import require_level

Array = NDArray[np.float64]

MOST_BLOCKS = 20
"""Blocks are then a twentieth of the steps long: longer than what correlates neighbours, while
19 degrees of freedom widen an interval by 5 %."""
WIDENING = 1.5
"""Ratio of the steps at which a window ends and begins."""
LEFT_OUT = 0.1
"""Part of the steps that may be left out at the start of a training."""
MIN_POINTS = 4
"""Measurements that a window has at least, so that it has an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScale:
    """A gradient noise scale with its interval, which may have an open side.

    Attributes:
        noise_scale: `tr Σ / |G|²`, in examples; 0 where the estimate of tr Σ is negative; `None`
            where |G|² is not significantly different from 0.
        ci: Its interval at `level`. `upper` is `None` where |G|² is not significantly different
            from 0; both sides are `None` after a single step.
        grad_sq_norm: Estimate of |G|², may be negative.
        grad_cov_trace: Estimate of tr Σ, may be negative.
        level: Content of `ci`, in (0, 1).
        n_steps: Steps it is based on.
        n_blocks: Blocks of neighbouring steps whose scatter gave the errors.
        n_skipped: Measured steps that were left out.
    """

    noise_scale: float | None
    ci: Interval
    grad_sq_norm: float
    grad_cov_trace: float
    level: float
    n_steps: int
    n_blocks: int
    n_skipped: int = 0

    @property
    def is_one_sided(self) -> bool:
        """Whether there is a lower bound only."""
        return self.ci.lower is not None and self.ci.upper is None

    def __repr__(self) -> str:
        return f"NoiseScale({self})"

    def __str__(self) -> str:
        """One sentence, which says what is not known."""
        skipped = f" ({self.n_skipped} more skipped)" if self.n_skipped else ""
        source = f"from {self.n_steps} {'step' if self.n_steps == 1 else 'steps'}{skipped}"
        lower, upper = self.ci
        content, unknown = f"{100 * self.level:g} %", "the true gradient is not significantly"
        if lower is not None and upper is None:
            return (
                f"noise scale at least {lower:.3g} ({content}), {source}: {unknown} different "
                "from 0; measure more steps or compare with a larger batch"
            )
        if self.noise_scale is None:
            return f"no noise scale {source}: {unknown} different from 0"
        if lower is None or upper is None:
            return f"noise scale {self.noise_scale:.3g}, {source}: too few steps for an interval"
        ends = f"({content}: {lower:.3g} to {upper:.3g})"
        return f"noise scale {self.noise_scale:.3g} {ends}, {source}"


def gradient_moments(
    grad_sq_small: ArrayLike,
    grad_sq_big: ArrayLike,
    *,
    batch_small: ArrayLike,
    batch_big: ArrayLike,
) -> tuple[Array, Array]:
    """Unbiased |G|² and tr Σ of every step, from E|G_B|² = |G|² + tr Σ / B at two batches b < B.

    |G|² = (B |G_B|² − b |G_b|²) / (B − b) and tr Σ = (|G_b|² − |G_B|²) / (1/b − 1/B).

    Args:
        grad_sq_small: Squared norm of the gradient of a small batch, |G_b|², or the mean of it
            over small batches of the step. Shape (n_steps,), or one number.
        grad_sq_big: The same of the big batch, |G_B|². Same shape.
        batch_small: Examples in the small batch, b ≥ 1; a number, or one per step.
        batch_big: Examples in the big batch, B > b; likewise.

    Returns:
        |G|² and tr Σ, both of shape (n_steps,); single ones may well be negative.

    Raises:
        ValueError: A batch is below 1, or a small one not below its big one.
        DataError: No step; norms of different length, not finite or negative.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, App. A.1.
    """
    small, big = _checked(least=0.0, grad_sq_small=grad_sq_small, grad_sq_big=grad_sq_big)
    b, bb = (np.asarray(batch, dtype=float) for batch in (batch_small, batch_big))
    if not (np.all(np.isfinite(bb)) and np.all(b >= 1) and np.all(b < bb)):
        raise ValueError(
            f"batch sizes need 1 ≤ batch_small < batch_big, got {b} and {bb}; give the "
            "number of examples behind each gradient."
        )
    return (bb * big - b * small) / (bb - b), (small - big) / (1 / b - 1 / bb)


def noise_scale(
    grad_sq_small: ArrayLike,
    grad_sq_big: ArrayLike,
    *,
    batch_small: float,
    batch_big: float,
    level: float = 0.95,
) -> NoiseScale:
    """The noise scale from squared gradient norms at two batch sizes, step by step.

    The moments of `gradient_moments` are averaged over steps, then divided; the interval is that
    of `noise_scale_from_moments`. The precision is set by `batch_big` times the number of steps,
    and `batch_small` should be as small as possible.

    Args:
        grad_sq_small: |G_b|² of each step, shape (n_steps,), or the mean over its small batches.
        grad_sq_big: |G_B|² of each step, shape (n_steps,).
        batch_small: Examples in the small batch, b ≥ 1.
        batch_big: Examples in the big batch, B > b.
        level: Content of the interval, in (0, 1).

    Raises:
        ValueError: A batch size or the level is out of range.
        DataError: No step; norms of different length, not finite or negative.

    Example:
        >>> import extrap
        >>> small, big = [3.1, 2.9, 3.0], [1.2, 1.1, 1.3]
        >>> found = extrap.noise_scale(small, big, batch_small=8, batch_big=64)
        >>> round(found.noise_scale, 1)
        17.5
    """
    moments = gradient_moments(
        grad_sq_small, grad_sq_big, batch_small=batch_small, batch_big=batch_big
    )
    return noise_scale_from_moments(*moments, level=level)


def noise_scale_from_moments(
    grad_sq_norm: ArrayLike, grad_cov_trace: ArrayLike, *, level: float = 0.95
) -> NoiseScale:
    """The noise scale from |G|² and tr Σ of single steps, or of averages over equally many steps.

    The interval is Fieller's: every ratio ρ for which mean(tr Σ) − ρ mean(|G|²) lies within
    Student's t of 0, cut at 0. The covariance of the two means is that of a delete-one jackknife
    over `min(n_steps, 20)` blocks of neighbouring steps, so that steps that are correlated over
    less than a twentieth of them are not taken for independent. A drift counts as scatter and
    widens the interval; `noise_course` follows it.

    Args:
        grad_sq_norm: |G|², shape (n_steps,) in the order of training.
        grad_cov_trace: tr Σ of one example's gradient, same shape.
        level: Content of the interval, in (0, 1).

    Raises:
        ValueError: The level is not in (0, 1).
        DataError: No step; moments of different length or not finite.

    References:
        Fieller (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16, 175. Busing,
        Meijer, van der Leeden (1999), Delete-m jackknife for unequal m, Stat. Comput. 9, 3, eq. 8.
    """
    require_level(level)
    squared, trace = _checked(grad_sq_norm=grad_sq_norm, grad_cov_trace=grad_cov_trace)
    units = [float(np.abs(x).max()) or 1.0 for x in (squared, trace)]  # means are about one
    n, mean, covariance = _block_means(np.stack([squared / units[0], trace / units[1]]))
    unit = units[1] / units[0]
    is_known, ci = bool(mean[0] > 0), Interval()
    if n > 1:
        from scipy import special  # a trainer imports this module, and needs no scipy

        t = float(special.stdtrit(n - 1, (1 + level) / 2))
        low, high = _fieller(float(mean[0]), float(mean[1]), t * t * covariance)
        is_known = high is not None
        ci = Interval(low * unit, None if high is None else high * unit)
    return NoiseScale(
        noise_scale=max(0.0, float(mean[1] / mean[0]) * unit) if is_known else None,
        ci=ci,
        grad_sq_norm=float(squared.mean()),
        grad_cov_trace=float(trace.mean()),
        level=level,
        n_steps=squared.size,
        n_blocks=n,
    )


def noise_course(
    grad_sq_norm: ArrayLike, grad_cov_trace: ArrayLike, steps: ArrayLike, *, level: float = 0.95
) -> list[tuple[slice, NoiseScale]]:
    """The noise scale over training, in windows that each distinguish it from infinite.

    Windows are even in ln step, for gradients shrink as powers of it. In the first steps they may
    shrink too fast for a window to have an upper limit: windows of the first tenth of the steps
    are then left out. A later one is joined to the next, the last one to that before.

    Args:
        grad_sq_norm: |G|², shape (n_steps,) in the order of training.
        grad_cov_trace: tr Σ, same shape.
        steps: The steps they were measured at, positive and ascending, same shape.
        level: Of the intervals.

    Returns:
        The measurements of each window and its noise scale.
    """
    squared, trace, measured_at = _checked(
        grad_sq_norm=grad_sq_norm, grad_cov_trace=grad_cov_trace, steps=steps
    )
    edges = measured_at[0] * WIDENING ** np.arange(
        1, math.log(measured_at[-1] / measured_at[0], WIDENING) + 1
    )
    starts = [0]
    for start in map(int, np.searchsorted(measured_at, edges)):
        if min(start - starts[-1], len(measured_at) - start) >= MIN_POINTS:
            starts.append(start)
    while True:
        places = [slice(*pair) for pair in pairwise([*starts, len(measured_at)])]
        scales = [noise_scale_from_moments(squared[p], trace[p], level=level) for p in places]
        is_open = [window.noise_scale is None for window in scales]
        if not any(is_open) or len(starts) == 1:
            return list(zip(places, scales, strict=True))
        i = is_open.index(True)
        if i == 0 and measured_at[starts[1] - 1] <= LEFT_OUT * measured_at[-1]:
            del starts[0]
        else:
            del starts[min(i + 1, len(starts) - 1)]


def mean_noise_scale(
    windows: Sequence[NoiseScale], *, batch_size: float | None = None
) -> NoiseScale:
    """The mean noise scale over training, which is what predicts a critical batch size.

    Where the noise scale 𝓑(s) varies, `E_min / S_min = ∫ 𝓑 ds / ∫ ds` over optimal steps s, those
    of a very large batch. A step at batch size B makes 1 / (1 + 𝓑/B) of such a step. The interval
    combines the windows' own, so that a drift from window to window is not taken for noise. Where
    a window has only a lower bound, the mean has only one as well.

    Args:
        windows: Of one training, as those of `noise_course`.
        batch_size: Examples a step of that training, B. `None`: all steps count the same.

    Raises:
        ValueError: `batch_size` is out of range.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, App. D. Zou and Donner (2008), Construction of
        confidence limits about effect measures, Stat. Med. 27, 1693: limits of a sum from the
        limits of its parts.
    """
    if batch_size is not None and not batch_size >= 1:
        raise ValueError(f"batch_size must be at least 1 or None, got {batch_size}.")
    batch = math.inf if batch_size is None else batch_size
    rows = [(w.n_steps, w.noise_scale, *w.ci, w.grad_sq_norm, w.grad_cov_trace) for w in windows]
    steps, value, lower, upper, squared, trace = np.array(rows, dtype=float).T
    point = np.where(np.isnan(value), np.nan_to_num(lower), value)
    progress = 1 / (1 + point / batch)
    weights = steps * progress
    mean = float(weights @ point / weights.sum())
    # the derivative of that mean by the noise scale of each window, which is never negative
    slope = steps * progress**2 * (1 + mean / batch) / weights.sum()
    below, above = (float(np.linalg.norm(slope * (side - point))) for side in (lower, upper))
    return NoiseScale(
        noise_scale=None if np.isnan(value).any() else mean,
        ci=Interval(
            None if math.isnan(below) else max(0.0, mean - below),
            None if math.isnan(above) else mean + above,
        ),
        grad_sq_norm=float(np.average(squared, weights=steps)),
        grad_cov_trace=float(np.average(trace, weights=steps)),
        level=windows[0].level,
        n_steps=int(steps.sum()),
        n_blocks=sum(window.n_blocks for window in windows),
    )


def _block_means(values: Array) -> tuple[int, Array, Array]:
    """Blocks, means over steps and their covariance, of shape (2, n_steps).

    Pseudo-values of a mean are the block means, weighed by m / (n − m) of m of n steps.
    """
    size, mean = values.shape[1], values.mean(axis=1)
    n = min(size, MOST_BLOCKS)
    covariance = np.zeros((2, 2))
    for block in np.array_split(values, n, axis=1) if n > 1 else ():
        off, m = block.mean(axis=1) - mean, block.shape[1]
        covariance += np.outer(off, off) * m / (size - m) / n
    return n, mean, covariance


def _fieller(squared: float, trace: float, covariance: Array) -> tuple[float, float | None]:
    """Ratios ρ ≥ 0 with (trace − ρ squared)² ≤ Var(trace − ρ squared), or what holds them.

    That is a ρ² − 2 b ρ + c ≤ 0: between two roots if |G|² is distinguished from 0 (a > 0), else
    outside them, where the positive root is a lower bound if tr Σ is distinguished from 0 (c > 0).
    """
    (v_squared, v_both), (_, v_trace) = covariance.tolist()
    a, b, c = squared**2 - v_squared, squared * trace - v_both, trace**2 - v_trace
    root = math.sqrt(max(0.0, b * b - a * c))
    if a > 0 and squared > 0:
        return max(0.0, (b - root) / a), max(0.0, (b + root) / a)
    # c / (b + root) is the positive root, without a division by an `a` that may be 0
    bounded = a <= 0 and c > 0 and trace > 0 and b + root > 0
    return (c / (b + root) if bounded else 0.0), None


def _checked(*, least: float = -math.inf, **values: ArrayLike) -> list[Array]:
    """Columns of one number per step, all alike in length, finite and not below `least`."""
    columns = {name: np.atleast_1d(np.asarray(x, dtype=float)) for name, x in values.items()}
    for name, column in columns.items():
        if column.ndim != 1 or not column.size:
            raise DataError(
                f"{name} needs one number per step, got an array of shape {column.shape}."
            )
        if bad := [x for x in column.tolist() if not (math.isfinite(x) and x >= least)]:
            raise DataError(
                f"{name} must be finite{' and at least 0' if least == 0 else ''}, got {bad[0]}; "
                "leave out steps whose gradient overflowed."
            )
    if len({column.size for column in columns.values()}) > 1:
        sizes = " and ".join(f"{column.size} {name}" for name, column in columns.items())
        raise DataError(f"every step needs all of its numbers, got {sizes}; leave out the others.")
    return list(columns.values())
