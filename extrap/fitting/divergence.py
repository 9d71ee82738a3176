"""How likely a run diverges, given its size and its tuned values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array
from extrap.records import Runs

STRENGTH = 10.0
"""Inverse weight of the penalty on squared coefficients. Left out one (N, D) at a time, the dense
runs of Step Law have their smallest log score, .074 a run, from 10 to 1000 (.078 at 1; .31 for
the plain share); the penalty is there because one size alone is often separated perfectly."""
LARGEST_LOG = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceModel:
    """Chance of divergence: `1 / (1 + exp(−(intercept + Σ w_j (ln v_j − c_j) / s_j)))`.

    Attributes:
        columns: Size columns.
        tuned: Tuned columns; `v` runs over the sizes, then the tuned values.
        centre: Mean `c` of each logarithm.
        scale: Standard deviation `s` of each; 1 for a column that does not vary.
        weights: Coefficients `w`.
        intercept: Log odds at the centre.
        n_runs: Complete and diverged runs it was fitted to.
        n_diverged: How many of them diverged.
    """

    columns: tuple[str, ...]
    tuned: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    n_runs: int
    n_diverged: int

    def chance(self, size: Mapping[str, float], tuned: Mapping[str, float]) -> float:
        """Probability that a run of this size diverges at these tuned values."""
        log2 = np.log2([[tuned[name] for name in self.tuned]])
        return float(self.chances(size, log2)[0])

    def chances(self, size: Mapping[str, float], log2_tuned: Array) -> Array:
        """The same at many tuned values, given as log2, shape (n_points, n_tuned)."""
        x = np.log([size[c] for c in self.columns])
        v = np.column_stack([np.tile(x, (len(log2_tuned), 1)), log2_tuned * math.log(2)])
        log_odds = self.intercept + (v - self.centre) / self.scale @ np.asarray(self.weights)
        return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -LARGEST_LOG, LARGEST_LOG))))


def fit_divergence(runs: Runs) -> DivergenceModel | None:
    """Logistic regression of divergence on the logarithms of sizes and tuned values.

    Args:
        runs: A sweep; complete and diverged rows count. A pruned run is neither.

    Returns:
        The model, or None where no run or every run diverged, see `largest_chance`.

    References:
        Wortsman et al. (2023), Small-scale proxies for large-scale Transformer training
        instabilities, arXiv 2309.14322, for instability as a function of rate and size; the
        logistic form is ours.
    """
    frame = runs.to_frame()
    frame = frame[frame["status"].isin(["complete", "diverged"])]
    diverged = (frame["status"] == "diverged").to_numpy()
    if not runs.tuned or diverged.all() or not diverged.any():
        return None
    # it takes a second, and only sweeps in which something diverged need it
    from sklearn.linear_model import LogisticRegression

    v = np.log(frame[[*runs.sizes, *runs.tuned]].to_numpy(dtype=float))
    centre, spread = v.mean(axis=0), v.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    model = LogisticRegression(C=STRENGTH, max_iter=1000).fit((v - centre) / scale, diverged)
    return DivergenceModel(
        columns=runs.sizes,
        tuned=runs.tuned,
        centre=tuple(map(float, centre)),
        scale=tuple(map(float, scale)),
        weights=tuple(map(float, model.coef_[0])),
        intercept=float(model.intercept_[0]),
        n_runs=len(frame),
        n_diverged=int(diverged.sum()),
    )


def largest_chance(n_runs: int, level: float) -> float:
    """Largest chance of divergence that n runs without one leave open: `1 − (1 − level)^(1/n)`.

    At level .95 about 3 / n, the rule of three.

    References:
        Hanley, Lippman-Hand (1983), If nothing goes wrong, is everything all right?, JAMA 249.
    """
    if n_runs < 1:
        return 1.0
    return float(-math.expm1(math.log1p(-level) / n_runs))
