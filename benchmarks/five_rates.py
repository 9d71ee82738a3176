"""The best rate from five rates an octave apart: what an ordinary sweep can know.

Step Law's dense runs (Li et al. 2025, arXiv 2503.04715) as curves of loss against rate at one
model, number of tokens and batch size. Five rates one octave apart that bracket the best one are
drawn from a curve, and noise is added. The truth they are held against is the optimum of all rates
of the curve, by a cubic; by a quadratic it lies .1 octave elsewhere, so the truth itself is known
no better. One sweep holds one curve of each cell: `alone` estimates each by itself, with what a
package learns from no other size, `pooled` learns the asymmetry from all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.optima import SIZES, TUNED, optima_of, rms, step_law
from benchmarks.rows import DATA, Row

NOISES = (0.001, 0.003, 0.01)
NOISE = 0.003
"""The one with a target."""
RATES, REPETITIONS, SEED = 5, 20, 20261121
REFERENCES = ("cubic", "quadratic")
ESTIMATORS = ("argmin", "parabola", "alone", "pooled")


@dataclass(frozen=True)
class Curve:
    """Loss against rate at one (N, D, batch size): log2 rates, log losses, references."""

    cell: tuple[float, float]
    x: np.ndarray
    y: np.ndarray
    cubic: float
    quadratic: float


def curves(data: Path) -> list[Curve]:
    """Curves with nine trained rates or more and two on each side of the best one."""
    table = step_law(data)
    table = table[np.isfinite(table["loss"])]
    found = []
    for (params, tokens, _), group in table.groupby([*SIZES, TUNED[1]]):
        mean = group.groupby("lr")["loss"].mean()
        x, y = np.log2(mean.index.to_numpy(dtype=float)), np.log(mean.to_numpy())
        if len(x) >= 9 and 2 <= y.argmin() <= len(x) - 3:
            cubic, quadratic = (full_optimum(x, y, degree) for degree in (3, 2))
            found.append(Curve((params, tokens), x, y, cubic, quadratic))
    return found


def full_optimum(x: np.ndarray, y: np.ndarray, degree: int) -> float:
    """Weighted polynomial over all rates within 10 % of the best."""
    excess = y - y.min()
    near = excess <= 0.1
    start = x[y.argmin()]
    misfit = 0.01 if degree == 3 else 0.005
    root = (1 + (excess[near] / misfit) ** 2) ** -0.5
    line = np.polynomial.Polynomial.fit(x[near] - start, y[near], degree, w=root)
    flat = line.deriv().roots()
    real = flat[np.isreal(flat)].real
    lowest = real[line.deriv(2)(real) > 0]
    return float(start + lowest[np.argmin(abs(lowest))])


def judge_sweeps(data: Path = DATA) -> pd.DataFrame:
    """One row a noise, sweep and curve: references and what each estimator found, octaves."""
    with ProcessPoolExecutor(2) as pool:
        return pd.concat(pool.map(partial(_judge_noise, curves(data)), NOISES), ignore_index=True)


def _judge_noise(found: list[Curve], noise: float) -> pd.DataFrame:
    cells = sorted({curve.cell for curve in found})
    rng = np.random.default_rng(SEED)
    trials = [t for _ in range(REPETITIONS) for t in trial(found, cells, noise, rng)]
    return pd.DataFrame(trials).assign(noise=noise)


def trial(
    found: list[Curve], cells: list[tuple[float, float]], noise: float, rng: np.random.Generator
) -> Iterator[dict[str, object]]:
    """One sweep: a curve and five bracketing rates a cell; asymmetry comes from the others."""
    tables, chosen = [], []
    for cell in cells:
        here = [curve for curve in found if curve.cell == cell]
        curve = here[rng.integers(len(here))]
        best = curve.y.argmin()
        windows = [
            w
            for first in range(len(curve.x) - 2 * (RATES - 1))
            if (w := first + 2 * np.arange(RATES))[0] < best < w[-1]
        ]
        picked = windows[rng.integers(len(windows))]
        z = curve.y[picked] + noise * rng.normal(size=RATES)
        chosen.append((curve, curve.x[picked], z))
        rates = {"params": cell[0], "tokens": cell[1], "lr": 2 ** curve.x[picked]}
        tables.append(pd.DataFrame({**rates, "loss": np.exp(z)}))
    pooled = {tuple(o.size.values()): o for o in optima_of(pd.concat(tables), SIZES, ("lr",))}
    for (curve, x, z), table in zip(chosen, tables, strict=True):
        (alone,) = optima_of(table, SIZES, ("lr",))
        edge = z.argmin() in (0, RATES - 1)
        row = {"cubic": curve.cubic, "quadratic": curve.quadratic, "edge": edge}
        row |= {"argmin": x[z.argmin()], "parabola": np.nan if edge else parabola(x, z)}
        for name, optimum in (("alone", alone), ("pooled", pooled[curve.cell])):
            lr = optimum.tuned["lr"]
            known = lr.value is not None and lr.ci.lower and lr.ci.upper
            row[name] = np.log2(lr.value) if known else np.nan
            row[f"{name}_half"] = np.log2(lr.ci.upper / lr.ci.lower) / 2 if known else np.nan
        yield row


def parabola(x: np.ndarray, y: np.ndarray) -> float:
    """Vertex through the best point and its neighbours."""
    i = int(y.argmin())
    a, b, _ = np.polyfit(x[i - 1 : i + 2] - x[i], y[i - 1 : i + 2], 2)
    return float(x[i] - b / (2 * a))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Errors and coverage of each estimator at each noise, against each reference.

    Trials whose best rate lies at an end are left out for all; `refused` counts them and those
    where the estimator gave no number.
    """
    found = []
    for noise, trials in table.groupby("noise"):
        kept = trials[~trials["edge"]]
        for name in ESTIMATORS:
            known = kept[kept[name].notna()]
            row = {"noise": noise, "estimator": name, "n": len(known)}
            row["refused"] = len(trials) - len(known)
            for reference in REFERENCES:
                error = known[name] - known[reference]
                row[f"rms, {reference}"] = rms(error.to_numpy())
                if f"{name}_half" in known:
                    inside = error.abs() <= known[f"{name}_half"]
                    row[f"held, {reference}"] = float(inside.mean())
            found.append(row)
    return pd.DataFrame(found)


def rows(table: pd.DataFrame) -> list[Row]:
    """The figures at the noise that has a target, against the cubic."""
    part = "Step Law, best rate from 5 rates an octave apart"
    found = summary(table).set_index(["noise", "estimator"])
    here = found.loc[NOISE]
    argmin, vertex, alone, pooled = (here.loc[name, "rms, cubic"] for name in ESTIMATORS)
    others = ", ".join(
        f"{100 * noise:g} % noise {found.loc[(noise, 'alone'), 'rms, cubic']:.2f} / "
        f"{found.loc[(noise, 'pooled'), 'rms, cubic']:.2f}"
        for noise in NOISES
        if noise != NOISE
    )
    errors = Row(
        part=part,
        figure=f"rms error, octaves, {100 * NOISE:g} % noise",
        beat=f"argmin {argmin:.2f} (earlier .50), parabola {vertex:.2f} (earlier .42)",
        target="≤ .42 alone or ≤ .40 pooled",
        reached=f"alone {alone:.2f}, pooled {pooled:.2f} ({others})",
        met=bool(alone <= 0.42 or pooled <= 0.40),
        note="The test bed of the earlier figures (129 curves) cannot be identified exactly. "
        f"Here it is {len(table) // len(NOISES)} draws from the curves with nine trained rates "
        "and two on each side of the best; the parabola does better on them than it did "
        "there, so beating the earlier figures alone would prove little: the same-bed figures "
        "stand beside them. Estimator settings were chosen while looking at these curves.",
    )
    held = {name: here.loc[name, "held, cubic"] for name in ("alone", "pooled")}
    other = {name: here.loc[name, "held, quadratic"] for name in held}
    coverage = Row(
        part=part,
        figure=f"90 % intervals hold, {100 * NOISE:g} % noise",
        target="85–95 %",
        reached=", ".join(
            f"{name} {held[name]:.1%} (of the quadratic's optimum {other[name]:.1%})"
            for name in held
        ),
        met=all(0.85 <= share <= 0.95 for share in held.values()),
    )
    return [errors, coverage]


def main() -> None:
    """Print every noise."""
    table = judge_sweeps(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    sys.stdout.write(summary(table).round(3).to_string(index=False, na_rep="") + "\n")


if __name__ == "__main__":
    main()
