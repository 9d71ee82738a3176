"""Whether what is named against a refusal is what was wrong, and whether it ends the refusal.

    python -m benchmarks.refusal_causes [--n 24] [--draws 1] [--only CAUSE …]

| cause | sweep of a learning rate, five widths, three seeds, asked at eight times the largest |
|---|---|
| none | .3 % noise, six values an octave apart |
| flat | the same, and a weight decay that does nothing |
| edge | the grid ends above the best values of the larger widths |
| noise | 8 to 30 %, two or three seeds |
| grid | four widths, three values a factor of 23 apart |
| sizes | three widths within a factor of two, asked at 32 to 64 times the largest |
| diverged | no run of the largest width finishes: all values are too large there |

A sweep is drawn and forecast. Where the learning rate is refused, the runs that its remedy names
are trained by the same law and added, and the sweep is forecast again.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from benchmarks.sweeps import grid, skewed

CAUSES = ("none", "flat", "edge", "noise", "grid", "sizes", "diverged")
WIDTHS = tuple(16.0 * 2.0 ** np.arange(5))
DECAYS = (1e-4, 1e-3, 1e-2)
RIGHT = {"diverged": "edge"}
"""Cause that is planted → the one to be named, where it has another name."""
MOST = 3.0
"""Log excess of a run at most."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A sweep with one fault.

    Attributes:
        rates: log2 of the learning rates.
        target: Width that is asked for.
        law: Numbers of the draw of the law, which stays the same when a remedy is tried.
        widths, seeds: Of the sweep.
        noise: Standard deviation of a log loss.
        decays: Values that do nothing; empty without a second column.
        cliff: Octaves above the optimum from which on runs diverge at the largest width.
    """

    rates: np.ndarray
    target: float
    law: tuple[int, int]
    widths: tuple[float, ...] = WIDTHS
    seeds: int = 3
    noise: float = 0.003
    decays: tuple[float, ...] = ()
    cliff: float = math.inf

    @property
    def tuned(self) -> tuple[str, ...]:
        """Its tuned columns."""
        return ("lr", "weight_decay") if self.decays else ("lr",)

    def optimum(self, width: Any) -> Any:
        """log2 of the best rate."""
        return np.log2(0.02) - self._rng(1).uniform(0.2, 0.5) * np.log2(width / 16)

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([*self.law, number])

    def table(self) -> pd.DataFrame:
        """Its runs."""
        axes = {"width": self.widths, "lr": 2.0**self.rates, "weight_decay": self.decays}
        axes = {name: axes[name] for name in ("width", *self.tuned)}
        return self.trained(grid(**axes, seed=range(self.seeds)), 3)

    def trained(self, rows: pd.DataFrame, number: int) -> pd.DataFrame:
        """Runs with their losses: a floor, and an excess that is steeper at high rates."""
        rng = self._rng(2)
        floor, exponent = rng.uniform(0.5, 2), rng.uniform(0.25, 0.5)
        cost, rise = rng.uniform(0.02, 0.08), rng.uniform(0.2, 0.8)
        octaves = np.log2(rows["lr"]) - self.optimum(rows["width"])
        error = self.noise * self._rng(number).normal(size=len(rows))
        excess = np.minimum(skewed(octaves, 2 * cost, rise), MOST)
        loss = (floor + 2 * (rows["width"] / 16) ** -exponent) * np.exp(excess + error)
        over = (octaves > self.cliff) & (rows["width"] >= WIDTHS[-1])
        return rows.assign(loss=np.where(over, np.inf, loss))


def plant(cause: str, number: int, draws: int) -> Planted:
    """A sweep with one fault, see the module."""
    law = (draws, number)
    rng = np.random.default_rng([*law, 0])
    start = rng.uniform(-0.5, 0.5)
    common: dict[str, Any] = {"target": 2048.0, "law": law}
    rates = {
        "edge": start + np.arange(-6.8, -2.0),
        "noise": start + np.arange(-10.0, -2.0),
        "grid": 2 * start + np.array([-11.5, -7.0, -2.5]),
    }.get(cause, start + np.arange(-9.0, -3.0))
    changes: Mapping[str, Callable[[], dict[str, Any]]] = {
        "flat": lambda: {"decays": DECAYS},
        "noise": lambda: {"seeds": int(rng.integers(2, 4)), "noise": rng.uniform(0.08, 0.3)},
        "grid": lambda: {"widths": WIDTHS[:4], "target": 1024.0},
        "sizes": lambda: {"widths": ((16.0, 24.0, 32.0), (32.0, 45.0, 64.0))[number % 2]},
        "diverged": lambda: {"cliff": rng.uniform(0.3, 1.5)},
    }
    planted = Planted(rates=rates, **common | changes.get(cause, dict)())
    if cause == "diverged":  # the lowest value lies just above the threshold of the largest
        low = planted.optimum(WIDTHS[-1]) + planted.cliff + rng.uniform(0.05, 0.5)
        planted = replace(planted, rates=low + np.arange(6.0))
    return planted


class Outcome(NamedTuple):
    """Whether a sweep is refused, and what is named: cause, runs, whether it is given then."""

    refused: bool
    named: str = "nothing"
    n_runs: int = 0
    mended: bool = False


def outcome(sweep: Planted) -> Outcome:
    """Forecast a sweep, add the runs that are named, and forecast it again."""
    size, table = {"width": sweep.target}, sweep.table()

    def ask(table: pd.DataFrame) -> tuple[extrap.Forecast | None, bool]:
        try:
            made = extrap.forecast(table, size="width", tune=sweep.tuned)
        except extrap.ExtrapError:
            return None, False
        return made, made.is_tuned_at(size)

    made, is_given = ask(table)
    if made is None or is_given:
        return Outcome(refused=not is_given)
    remedy = made.remedy("lr", size)
    if not remedy.runs:
        return Outcome(refused=True, named="smaller target" if remedy.target else "nothing")
    rows = pd.DataFrame(list(remedy.runs))
    rows = rows.loc[rows.index.repeat(remedy.seeds)].reset_index(drop=True)
    rows["seed"] = 1000 + np.arange(len(rows)) % remedy.seeds
    more = pd.concat([table, sweep.trained(rows, 4)], ignore_index=True)
    return Outcome(True, remedy.cause, remedy.n_runs, ask(more)[1])


def rows_of(cause: str, outcomes: list[Outcome]) -> list[Row]:
    """How many are refused, which of them name the cause, and of which the runs end it."""
    refused = [outcome for outcome in outcomes if outcome.refused]
    rows = [Row(part=cause, figure="refused", reached=f"{len(refused)} of {len(outcomes)}")]
    if not refused:
        return rows
    counts = Counter(outcome.named for outcome in refused).most_common()
    right = [o.named == RIGHT.get(cause, cause) for o in refused]
    note = ", ".join(f"{name} {n}" for name, n in counts)
    rows.append(share_row(cause, "the cause is named", right, note=note))
    n_runs = np.median([o.n_runs for o in refused if o.n_runs] or [0])
    mended = [o.mended for o in refused]
    rows.append(share_row(cause, f"then given, median {n_runs:.0f} runs", mended))
    return rows


def main() -> None:
    """Draw, apply and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=24)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=CAUSES, choices=CAUSES, metavar="CAUSE")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with ProcessPoolExecutor(given.workers) as pool:
        for cause in given.only:
            sweeps = [plant(cause, number, given.draws) for number in range(given.n)]
            print_rows(rows_of(cause, list(pool.map(outcome, sweeps))))


if __name__ == "__main__":
    main()
