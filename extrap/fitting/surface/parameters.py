"""The parameters of a surface: where each stands in one vector, and their priors.

Those of the optima are in `optimum_process`, those of noise in `surface_noise`. Turns were chosen
in sight of Step Law (`python -m benchmarks.backtest --only rolling`), other shapes are
weak priors. Margins: `python -m benchmarks.tuned_values --draws 7 --only cliff "falling threshold"
"random cliff" "largest diverged" "mix cliff"`; a threshold may have a slope of its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from extrap.fitting.surface.cost_shape import turn_pairs
from extrap.fitting.surface.sweep_arrays import Indices
from extrap.laws.base import Array

LOSS_SD = 10.0
"""Of the log loss of a size about its best cell: no prior to speak of."""
CURVATURE, CURVATURE_SD = math.log(0.03), 1.5
"""Of ln curvature: an octave off costs 1.5 %, give or take a factor of 4.5."""
SIZE_CURVATURE_SD, TREND_SD = 0.2, 0.2
"""Of ln curvature of a size about its line over log2 size, and of the line's slope a doubling."""
ASYMMETRY, ASYMMETRY_SD = (0.0, 0.3), 0.35
"""Below and above the optimum, per octave: high values cost more than low ones."""
TURN_SD = 0.4
"""Octaves of another column that move an axis by one, as where the best learning rate depends on
the weight decay."""
DIVERGENCE_WIDTH, DIVERGENCE_WIDTH_SD = math.log(0.08), 0.9
"""Of ln octaves over which the log odds of divergence rise by one: Step Law's rise over .16, those
of one run at sharp thresholds over less."""
LEAN_SD, FIXED_SD = 0.7, 1e-3
"""How far a further column moves the threshold of divergence; the main one does so by one."""
THRESHOLD_MARGIN, THRESHOLD_MARGIN_SD, LINE_RIDGE = 2.5, 2.5, 1e-2
"""Octaves from the line through the optima to the threshold, before any run has diverged."""


class Margin(NamedTuple):
    """Standard deviations of the threshold: a size's, of a slope a doubling, of a step at the end.

    A step at the largest size stays for larger ones.
    """

    size: float
    slope: float
    step: float


MARGINS = (
    (Margin(0.08, 0.08, 0.0), 0.45),
    (Margin(0.08, 0.4, 0.0), 0.35),
    (Margin(0.35, 0.2, 0.0), 0.12),
    (Margin(0.08, 0.08, 4.0), 0.08),
)
"""The threshold follows the line through the optima, has a slope of its own, scatters, or falls
at the end; with their prior probabilities."""
ASYMMETRY_SDS = ((0.05, 0.35), (0.2, 0.4), (0.5, 0.25))
"""Of the asymmetry of a size about that of all, with prior probabilities."""


class Places:
    """Where the parameters stand in the vector of all.

    Attributes:
        loss: l of each size, (S,).
        optimum: u of each size and tuned column, (S, D).
        size_curvature: Of ln curvature, about its line, (S, D).
        curvature: ln k at the largest size, (D,).
        curvature_trend: Its slope, (C, D).
        asymmetry: Below and above, (2, D).
        size_asymmetry: Of a size about that, (2, S, D).
        turns: Of the axes, (D (D − 1),).
        effects: Of seeds, then of completed runs, (K + P + Q,).
        width, lean, threshold, threshold_trend, size_threshold: Of divergence, (1,), (D,), (1,),
            (C,), (S,); empty without.
        divergence: All of these, (q,).
        n: Number of parameters.
    """

    def __init__(self, shape: tuple[int, int, int], n_effects: int, *, diverging: bool) -> None:
        self.n = 0
        n_sizes, n_columns, n_tuned = shape
        self.loss = self._take(n_sizes)
        self.optimum = self._take(n_sizes, n_tuned)
        self.size_curvature = self._take(n_sizes, n_tuned)
        self.curvature = self._take(n_tuned)
        self.curvature_trend = self._take(n_columns, n_tuned)
        self.asymmetry = self._take(2, n_tuned)
        self.size_asymmetry = self._take(2, n_sizes, n_tuned)
        self.turns = self._take(len(turn_pairs(n_tuned)))
        self.effects = self._take(n_effects)
        self.width = self._take(int(diverging))
        self.lean = self._take(n_tuned if diverging else 0)
        self.threshold = self._take(int(diverging))
        self.threshold_trend = self._take(n_columns if diverging else 0)
        self.size_threshold = self._take(n_sizes if diverging else 0)
        parts = (self.width, self.lean, self.threshold, self.threshold_trend, self.size_threshold)
        self.divergence = np.concatenate(parts)

    def _take(self, *shape: int) -> Indices:
        """The next places, of a shape."""
        first, self.n = self.n, self.n + math.prod(shape)
        return np.arange(first, self.n).reshape(shape)


def priors(
    places: Places,
    *,
    losses: Array,
    centre: Array,
    asymmetry_sd: float,
    effect_sds: Array,
    margin: Margin,
    main: int,
    side: float,
) -> tuple[Array, Array]:
    """Means and standard deviations of all parameters; those of optima are the process's.

    Args:
        places: Where they stand.
        losses: Best log loss of each size.
        centre: Of the optima, log2, one per tuned column; thresholds are counted from it.
        asymmetry_sd: One of `ASYMMETRY_SDS`.
        effect_sds: Of the effects of seeds and of completed runs.
        margin: One of `MARGINS`.
        main: The column along which runs diverge.
        side: 1 where large values of it do, else −1.
    """
    mean, sd = np.zeros(places.n), np.ones(places.n)
    mean[places.loss], sd[places.loss] = losses, LOSS_SD
    mean[places.optimum] = centre
    sd[places.size_curvature], sd[places.curvature_trend] = SIZE_CURVATURE_SD, TREND_SD
    mean[places.curvature], sd[places.curvature] = CURVATURE, CURVATURE_SD
    mean[places.asymmetry], sd[places.asymmetry] = np.array(ASYMMETRY)[:, None], ASYMMETRY_SD
    sd[places.size_asymmetry], sd[places.turns] = asymmetry_sd, TURN_SD
    sd[places.effects] = effect_sds
    if places.width.size:
        mean[places.width], sd[places.width] = DIVERGENCE_WIDTH, DIVERGENCE_WIDTH_SD
        sd[places.lean] = LEAN_SD
        mean[places.lean[main]], sd[places.lean[main]] = side, FIXED_SD
        mean[places.threshold], sd[places.threshold] = THRESHOLD_MARGIN, THRESHOLD_MARGIN_SD
        sd[places.threshold_trend], sd[places.size_threshold] = margin.slope, margin.size
        sd[places.size_threshold[-1]] = math.hypot(margin.size, margin.step)
    return mean, sd


def line_of(from_largest: Array) -> Array:
    """Weights (1 + C, S) of values at the sizes in a line through them: at the largest, slopes.

    Args:
        from_largest: log2 of the sizes over the largest, (S, C).
    """
    x = np.column_stack([np.ones(len(from_largest)), from_largest])
    ridge = LINE_RIDGE * np.diag([0.0] + [1.0] * from_largest.shape[1])
    return np.asarray(np.linalg.solve(x.T @ x + ridge, x.T))
