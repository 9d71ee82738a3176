"""The monitor on runs in progress: how soon mistuned ones are called, how rarely tuned ones are.

    python -m benchmarks.watched [--draws choose] [--sweeps 200]

A sweep as in `studies/metz.py` at widths 16 to 128, then runs at three small widths and two larger
ones that it has not seen, with seeds of their own: half of them within a quarter octave of the
forecast rate, half of them 2 and 3 octaves off on either side. `watched.csv` has one row per run
and one column per step of its held-out curve; the program that trained them is in version 0.1.
The largest widths of this sweep and of a user's, with 25 steps between losses, are watched by
forecasts of the smaller ones. The command simulates sweeps and runs at four times their largest
width, 1 to 4 octaves off the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import ROOT, Row, share_row
from benchmarks.sweeps import Array, DrawnPart, grid, log_uniform, print_parts
from extrap.errors import DataError
from extrap.records import Runs

TABLE = Path(__file__).with_name("watched.csv")
KNOWN = ["width", "lr", "seed", "status", "stage", "loss"]
CASES = ROOT.parent / "shared" / "cases2"
PART = "monitor, our own runs"


def load() -> tuple[Runs, Runs]:
    """The sweep and the watched runs, with curves."""
    table = pd.read_csv(TABLE)
    curves = table.drop(columns=KNOWN).rename(columns=float)
    long = curves.stack().dropna().rename_axis(["run", "step"]).rename("loss").reset_index()
    sweep, watched = (_runs(table[table["stage"] == s], long) for s in ("tune", "check"))
    return sweep, watched


def _runs(table: pd.DataFrame, curves: pd.DataFrame) -> Runs:
    """Rows of a table as runs; the curves are of its index."""
    row = pd.Series(range(len(table)), index=table.index)
    own = curves[curves["run"].isin(row.index)]
    own = own.assign(run=own["run"].map(row))
    return Runs.from_frame(table, sizes=["width"], tuned=["lr"], curves=own)


def follow(made: extrap.Forecast, watched: Runs, optimum: extrap.Forecast) -> pd.DataFrame:
    """One row a watched run: how far off its rate is, when it was called, and what was said."""
    curves, rows = watched.curves(), []
    assert curves is not None
    by_run = dict(iter(curves.groupby("run")))
    for i, row in enumerate(watched.to_frame().to_dict("records")):
        size = {"width": float(row["width"])}
        values = optimum.values_at(size)
        assert values is not None
        off = round(float(values.octaves({"lr": row["lr"]})[0]))
        points = by_run[i][["step", "loss"]].astype(float).itertuples(index=False)
        rows.append({"width": row["width"], **called(extrap.Monitor(made, at=size), points, off)})
    return pd.DataFrame(rows)


def called(
    monitor: extrap.Monitor, points: Iterable[tuple[float, float]], octaves: int
) -> dict[str, object]:
    """When a run so far off is called, as what, and whether the direction is named and wrong."""
    monitor.restart()
    *_, last = (monitor.reading, *monitor.feed(points))
    sides = [sign for sign, word in ((1, "high"), (-1, "low")) if f"too {word}" in last.advice]
    return {
        "octaves": octaves,
        "fraction": last.fraction if last.alarm else math.inf,
        "cause": last.cause,
        "named": bool(sides),
        "wrong": any(side * octaves < 0 for side in sides),
    }


def watch_all() -> pd.DataFrame:
    """All runs of our own, by source: the check runs, and the widths that fits left out."""
    sweep, watched = load()
    whole = extrap.forecast(sweep)
    found = {"check": follow(whole, watched, whole), "widths left out": _left_out(sweep, 48, 64)}
    if CASES.is_dir():
        tables = (pd.read_csv(CASES / f"own_grid{name}.csv") for name in ("", "_curves"))
        found["a user's widths left out"] = _left_out(_runs(*tables), 10, 16)
    return pd.concat(found, names=["source"]).reset_index("source")


def _left_out(runs: Runs, *largest: float) -> pd.DataFrame:
    """The widths above each of these, watched by the forecast of the others."""
    whole, table, curves = extrap.forecast(runs), runs.to_frame(), runs.curves()
    assert curves is not None
    return pd.concat(
        follow(
            extrap.forecast(_runs(table[table["width"] <= width], curves)),
            _runs(table[table["width"] > width], curves),
            whole,
        )
        for width in largest
    )


def rows(found: pd.DataFrame) -> list[Row]:
    """The figures."""
    checks = found[found["source"] == "check"]
    off, tuned = checks[checks["octaves"].abs() >= 2], checks[checks["octaves"] == 0]
    mistuned = "mistuned by ≥ 2 octaves called within"
    false = np.isfinite(tuned["fraction"])
    return [
        share_row(PART, f"{mistuned} 10 % of training", off["fraction"] <= 0.1001, least=0.8),
        share_row(PART, f"{mistuned} 25 % of training", off["fraction"] <= 0.2501, least=0.95),
        share_row(PART, "false alarms over whole tuned runs", false, most=0.05),
        share_row(PART, "cause of those called: mistuned", off["cause"] == "mistuned"),
        *(row for name, runs in found.groupby("source") for row in sides(f"{PART}: {name}", runs)),
    ]


def sides(part: str, runs: pd.DataFrame) -> list[Row]:
    """How often the direction is named and wrong: over all, and by factor and side.

    Runs of one simulated sweep are one observation for the intervals; those of our own two sweeps
    are of their runs only.
    """
    runs = runs.assign(sweep=runs["sweep"] if "sweep" in runs else range(len(runs)))
    far, named = runs[runs["octaves"].abs() >= 2], runs[runs["named"] & (runs["octaves"] != 0)]
    figures = [share_row(part, "≥ 4 times off: direction named", _means(far, "named"), least=0.7)]
    if len(named):
        figures.append(share_row(part, "named: wrong", _means(named, "wrong"), most=0.02))
    for octaves, own in runs[runs["octaves"] != 0].groupby("octaves"):
        words = f"{2 ** abs(octaves):g} times too {'high' if octaves > 0 else 'low'}: named"
        figures.append(share_row(part, f"{words} ({own['wrong'].sum()} wrong)", own["named"]))
    return figures


def _means(runs: pd.DataFrame, column: str) -> pd.Series:
    return runs.groupby("sweep")[column].mean()


MODES = np.geomspace(1, 3000, 60)
SHARE = MODES * math.log(3000) / 60
"""Number of modes that each stands for."""
FRACTIONS = np.arange(1, 101) / 100
WIDTHS, BIG = (16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0), 512.0


class World:
    """A noisy quadratic, of which a width has the first modes; rates beyond an edge are slower.

    References:
        Zhang et al. (2019), Which algorithmic choices matter at which batch sizes?, arXiv
        1907.04164, for the model; the edge is ours.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, u = rng, rng.uniform
        self._hessian, self._excess = MODES ** -u(0.8, 1.4), 4 * SHARE * MODES ** -u(1.3, 1.7)
        self._fall, self._floor = u(0.2, 0.6), u(0.5, 2)
        self._noise = log_uniform(rng, 0.03, 30) * SHARE * self._hessian
        decays = (np.ones(100), 1.01 - FRACTIONS, 0.51 + 0.5 * np.cos(np.pi * FRACTIONS))
        self._schedule = np.minimum(1, FRACTIONS / u(0.005, 0.1)) * decays[rng.integers(3)]
        self._sd, self._point_sd = log_uniform(rng, 0.001, 0.01), log_uniform(rng, 0.001, 0.016)
        self._every, self._edge = rng.choice([1, 2, 5]), math.inf
        self._edge = 2 ** (self.best(WIDTHS[0])[0] + u(0.5, 5))

    def log_losses(self, width: Array, octaves: Array) -> Array:
        """Curves without noise of the seed, shape (n_runs, 100)."""
        kept, scale = width[:, None] >= MODES, (width / WIDTHS[0]) ** -self._fall
        bias, variance = np.ones(kept.shape), np.zeros(kept.shape)
        found = []
        for of_peak in self._schedule:
            rate = 2.0**octaves * of_peak
            slowed = (scale * rate / (1 + (rate / self._edge) ** 2))[:, None]
            left = 1 / (1 + slowed * kept * self._hessian)
            bias *= left
            step = (scale * rate)[:, None] * kept
            variance = left**2 * (variance + step**2 * self._noise)
            found.append(bias**2 @ self._excess + variance @ self._hessian / 2)
        return np.log(self._floor + np.transpose(found))

    def best(self, width: float) -> Array:
        """The best rate in octaves, and what two octaves less and more cost in log loss."""
        octaves = np.arange(-8, 14, 0.25)
        last = self.log_losses(np.full(len(octaves), width), octaves)[:, -1]
        i = np.clip(last.argmin(), 8, len(octaves) - 9)
        return np.array([octaves[i], *(last[[i - 8, i + 8]] - last[i])])

    def is_usual(self) -> bool:
        """Whether two octaves cost 2 to 40 % everywhere."""
        costs = (self.best(width)[1:] for width in (WIDTHS[0], WIDTHS[-1], BIG))
        return all(((cost > 0.02) & (cost < 0.4)).all() for cost in costs)

    def curves(self, width: Array, octaves: Array) -> tuple[Array, Array]:
        """Steps and losses of runs with seeds of their own, (n,) and (n_runs, n)."""
        shape = (len(width), 1)
        moved = octaves + 0.1 * self._rng.normal(size=len(width))
        log_loss = self.log_losses(width, moved) + self._sd * self._rng.normal(size=shape)
        log_loss += self._point_sd * self._rng.normal(size=log_loss.shape)
        logged = slice(self._every - 1, None, self._every)
        return 1000 * FRACTIONS[logged], np.exp(log_loss[:, logged])

    def sweep(self) -> Runs:
        """Seven widths, nine rates, three seeds."""
        middle = round(np.mean([self.best(width)[0] for width in (WIDTHS[0], WIDTHS[-1])]))
        table = grid(width=WIDTHS, octaves=range(middle - 4, middle + 5), seed=range(3))
        steps, losses = self.curves(*table[["width", "octaves"]].to_numpy(float).T)
        long = pd.DataFrame(losses, columns=steps).stack().rename_axis(["run", "step"])
        table = table.assign(lr=2.0 ** table["octaves"], loss=losses[:, -1])
        return _runs(table.drop(columns="octaves"), long.rename("loss").reset_index())


def simulate(rng: np.random.Generator) -> dict[str, object]:
    """What is said of nine runs at four times the largest width; nothing if it is refused."""
    world = World(rng)
    while not world.is_usual():
        world = World(rng)
    try:
        monitor = extrap.Monitor(extrap.forecast(world.sweep()), at={"width": BIG})
    except DataError:
        return {}
    off = range(-4, 5)
    steps, losses = world.curves(np.full(9, BIG), world.best(BIG)[0] + np.array(off))
    watched = zip(losses, off, strict=True)
    return {"runs": [called(monitor, zip(steps, own, strict=True), u) for own, u in watched]}


def simulated_rows(part: str, table: pd.DataFrame) -> list[Row]:
    """The figures of the simulated sweeps."""
    runs = pd.DataFrame([{"sweep": i, **run} for i, own in table["runs"].items() for run in own])
    false = np.isfinite(runs.loc[runs["octaves"] == 0, "fraction"])
    far = runs[runs["octaves"].abs() >= 2]
    early = _means(far.assign(early=far["fraction"] <= 0.1001), "early")
    return [
        *sides(part, runs),
        share_row(part, "≥ 4 times off: called within 10 % of training", early),
        share_row(part, "false alarms over whole tuned runs", false, most=0.05),
    ]


if __name__ == "__main__":
    simulated = {"simulated": DrawnPart(simulate, simulated_rows, 200)}
    print_parts(__doc__ or "", simulated, {"choose": 1, "report": 2})
