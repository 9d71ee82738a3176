"""How long refits take, ours in a batch against SciPy's one by one, in the same run.

Question: is a bootstrap that re-optimises every replicate from several starts cheap enough to be
the only one? Both sides start each replicate from the same points. SciPy refits a part of the
replicates; its time is extrapolated linearly to all of them, and the answers of that part are
compared. The second case needs the published table of Chinchilla's runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize

from benchmarks.rows import DATA, Row
from extrap.fitting import fit
from extrap.fitting.bootstrap import bootstrap, replicate_problem, replicate_starts
from extrap.fitting.projection import Problem
from extrap.records import Fit

TABLE = "chinchilla_epoch.csv"
N_REPLICATES = 4000


class Timing(NamedTuple):
    """Both sides; `difference` is the largest of a prediction, in log loss."""

    what: str
    peer: str
    target: float
    ours_s: float
    peer_s: float
    n_peer: int
    difference: float

    def row(self) -> Row:
        """The figure: how many times faster."""
        ratio = self.peer_s / self.ours_s
        return Row(
            part=f"{N_REPLICATES:,} refits",
            figure=self.what,
            beat=f"{self.peer} {self.peer_s:.1f} s ({self.n_peer} of them, extrapolated)",
            target=f"≥ {self.target:g} × faster",
            reached=f"{ratio:.1f} × ({self.ours_s:.2f} s; predictions differ by at most "
            f"{self.difference:.0e})",
            met=ratio >= self.target,
        )


def rows(data: Path = DATA) -> list[Row]:
    """The figures; without the published table only the first."""
    found = [power_floor().row()]
    if (data / TABLE).is_file():
        found.append(chinchilla(data).row())
    return found


def power_floor() -> Timing:
    """4,000 refits of a power law with a floor to 8 sizes: least squares."""
    x = 16 * 2.0 ** np.arange(8)
    y = (1.5 + 2 * (x / 16) ** -0.4) * np.exp(0.01 * np.random.default_rng(0).normal(size=8))
    return compare(
        "power_floor, 8 sizes, parametric, 4 starts each",
        fit("power_floor", {"x": x}, y),
        {"x": x},
        y,
        kind="parametric",
        n_peer=200,
        peer=least_squares_peer,
        what_peer="scipy.optimize.least_squares",
        target=5.0,
    )


def chinchilla(data: Path) -> Timing:
    """4,000 case bootstraps of the Chinchilla law on 240 runs: Huber's loss, δ = 1e-3."""
    table = pd.read_csv(data / TABLE)
    table = table[~table["epoch_outlier"].astype(bool)]
    sizes = {"params": table["params"], "tokens": table["tokens"]}
    return compare(
        "Chinchilla, 240 runs, pairs, Huber 1e-3, 4 starts each",
        fit("power_floor", sizes, table["loss"], robust=1e-3),
        sizes,
        table["loss"],
        kind="pairs",
        n_peer=40,
        peer=huber_peer,
        what_peer="scipy L-BFGS-B",
        target=3.0,
    )


def compare(
    what: str,
    fitted: Fit,
    sizes: dict,
    loss: np.ndarray | pd.Series,
    *,
    kind: str,
    n_peer: int,
    peer: Callable[[Problem, int, np.ndarray], np.ndarray],
    what_peer: str,
    target: float,
) -> Timing:
    """Time both sides on the same replicates."""
    start = time.perf_counter()
    ours = bootstrap(fitted, sizes, loss, kind=kind, n_replicates=N_REPLICATES, seed=0)
    ours_s = time.perf_counter() - start
    assert ours.n_failed == 0
    problem = replicate_problem(fitted, sizes, loss, kind=kind, n_replicates=N_REPLICATES, seed=0)
    starts = replicate_starts(fitted, problem)
    start = time.perf_counter()
    found = np.array([peer(problem, i, starts[i]) for i in range(n_peer)])
    peer_s = (time.perf_counter() - start) * N_REPLICATES / n_peer
    far = 4 * problem.z.max(axis=0, keepdims=True)
    grid = np.concatenate([problem.z, far])
    predict = problem.law.log_predict
    difference = np.abs(predict(found, grid) - predict(ours.values[:n_peer], grid)).max()
    return Timing(what, what_peer, target, ours_s, peer_s, n_peer, float(difference))


def least_squares_peer(problem: Problem, i: int, starts: np.ndarray) -> np.ndarray:
    """`scipy.optimize.least_squares` on relative residuals, analytic Jacobian, best start."""
    z, y = problem.z[:, 0], problem.y[i]

    def residual(p: np.ndarray) -> np.ndarray:
        return (p[0] + p[1] * z ** -p[2]) / y - 1

    def jacobian(p: np.ndarray) -> np.ndarray:
        power = z ** -p[2]
        return np.column_stack([np.ones_like(z), power, -p[1] * power * np.log(z)]) / y[:, None]

    low, high = np.array([0, 0, 0.005]), np.array([np.inf, np.inf, 3.0])
    found = [
        optimize.least_squares(
            residual,
            np.clip(s, low + 1e-9, high - 1e-9),
            jac=jacobian,
            bounds=(low, high),
            x_scale="jac",
            ftol=1e-12,
            xtol=1e-12,
            gtol=1e-12,
        )
        for s in starts
    ]
    return min(found, key=lambda r: r.cost).x


def huber_peer(problem: Problem, i: int, starts: np.ndarray) -> np.ndarray:
    """`scipy.optimize.minimize`, L-BFGS-B, analytic gradient of the summed loss, best start."""
    log_z, log_y, weight = np.log(problem.z), np.log(problem.y[i]), problem.weight[i]
    delta = 1e-3

    def objective(q: np.ndarray) -> tuple[float, np.ndarray]:
        terms = np.stack(
            [np.full(len(log_y), q[0]), q[1] - q[3] * log_z[:, 0], q[2] - q[4] * log_z[:, 1]]
        )
        top = terms.max(axis=0)
        total = top + np.log(np.exp(terms - top).sum(axis=0))
        share = np.exp(terms - total)
        r = total - log_y
        size = np.abs(r)
        loss = np.where(size <= delta, r**2 / 2, delta * (size - delta / 2)) / delta**2
        pull = weight * np.clip(r, -delta, delta) / delta**2
        slope = share @ pull
        by_exponent = [-(pull * share[j + 1]) @ log_z[:, j] for j in (0, 1)]
        return float(weight @ loss), np.array([*slope, *by_exponent])

    found = []
    for s in starts:
        start = np.concatenate([np.log(np.maximum(s[:3], 1e-4)), s[3:]])
        options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-10}
        found.append(
            optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        )
    best = min(found, key=lambda r: r.fun).x
    return np.concatenate([np.exp(best[:3]), best[3:]])
