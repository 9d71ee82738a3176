"""`make calibrate`: what the checker calls off, over settings that are drawn for every sweep.

    python -m benchmarks.calibrate [--only PART …] [--sweeps N] [--draws development|report]

A configuration is all seeds of a sweep at one size and value. Every sweep has settings of its own,
drawn from the prior below, which was written down before the checker was changed to meet the
targets. Development uses other draws than the report.

| setting | prior |
|---|---|
| loss, seeds, curve of the excess loss, displaced grid | as in `benchmarks.interval_draws` |
| sizes | 4 to 7, each twice the one before |
| noise of the log loss | sd 0.2 to 1 %, log-uniform; normal, or t with 5 dof (probability 0.3) |
| share of its variance that runs of one seed have in common | 0 to 0.5, uniform |
| optimum, octaves per octave of size | -0.8 to 0; its bend normal, sd 0.02 |

References:
    The rows follow what was measured of version 0.1; the prior is ours.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import Row
from benchmarks.sweeps import (
    DrawnPart,
    SimulatedSweep,
    World,
    forecast_of,
    judged,
    log_uniform,
    print_parts,
)

DRAWS = {"development": 1, "report": 2}
"""First number of every seed."""
FALSE_ALARM_RATIOS = (2.0, 4.0, 8.0)
RATIO = 4.0
PART = "settings drawn per sweep, level .95"
FIVE_PERCENT = {"+5 %": 5, "+5 %, four sizes": 4}
"""Losses that are so much too high → sizes of the sweep."""
WRONG, FLAG = 0.7, "outlier"
"""Factor of a loss that is wrong, and the name of the flag that tells of it."""


def draw(rng: np.random.Generator, *, n_sizes: int = 0, **fixed: float) -> World:
    """Settings from the prior, but for those that are given."""
    floor, height, slope = rng.uniform(0.8, 1.8), rng.uniform(0.8, 2.5), rng.uniform(0.2, 0.6)
    n_drawn, n_seeds = int(rng.integers(4, 8)), int(rng.integers(1, 5))
    drawn = {
        "noise": log_uniform(rng, 0.002, 0.01),
        "tail": 5.0 if rng.random() < 0.3 else math.inf,
        "share": rng.uniform(0, 0.5),
        "displaced": rng.uniform(-0.5, 0.5),
        "curvature": log_uniform(rng, 0.01, 0.06),
        "steepness": rng.uniform(0, 0.15),
    }
    drift, bend = rng.uniform(-0.8, 0.0), 0.02 * rng.normal()
    return World(
        doublings=np.arange(n_sizes or n_drawn, dtype=float)[:, None],
        best_loss=lambda s: floor + height * 2.0 ** (-slope * s),
        optimum=lambda s: drift * s[:, 0] + bend * s[:, 0] ** 2,
        **{"n_seeds": n_seeds, **drawn, **fixed},  # type: ignore[arg-type]
    )


class CheckedSweep(SimulatedSweep):
    """A sweep, perhaps with a row that is `wrong`, its forecast, and larger runs to check."""

    def __init__(
        self, world: World, rng: np.random.Generator, *, wrong: int | None = None
    ) -> None:
        super().__init__(world, rng)
        if wrong is not None:
            self.table.loc[wrong, "loss"] *= WRONG
        self.forecast = forecast_of(self.table, level=0.95)

    def forecast_octaves(self, s: np.ndarray) -> float:
        """The value to use by the forecast, in octaves; the true optimum where it is refused."""
        size = {"x": float(2.0 ** s[0, 0])}
        values = self.forecast.values_at(size)
        if values is None or not self.forecast.is_tuned_at(size):
            return float(self.world.optimum(s)[0])
        return float(values.answer.values[0])

    def tuned(self, ratio: float, log_shift: float = 0.0) -> pd.DataFrame:
        """Runs at the forecast's value, `ratio` times the largest size, with every seed."""
        s = self.world.beyond(ratio)
        return self.configuration(s, self.forecast_octaves(s), log_shift)

    def configuration(self, s: np.ndarray, octaves: float, log_shift: float = 0.0) -> pd.DataFrame:
        """Runs at a size and value with every seed of the sweep."""
        seed = np.arange(self.world.n_seeds)
        ones = np.ones(len(seed))
        return self.runs(ones[:, None] * s, octaves * ones, seed, log_shift)

    def fresh(self, ratio: float) -> pd.DataFrame:
        """One tuned run of a seed that the sweep does not have."""
        run, s = self.tuned(ratio).head(1), self.world.beyond(ratio)
        error = self.errors(self._draw(1), 1)
        log_loss = self.world.log_loss(s, self.forecast_octaves(s)) + error
        return run.assign(seed=self.world.n_seeds, loss=np.exp(log_loss))

    def judge(
        self,
        *configurations: pd.DataFrame,
        **options: float,
    ) -> list[tuple[bool, str | None]]:
        """Whether each configuration is off, and the cause, checked in one table."""
        table = pd.concat(configurations, ignore_index=True)
        runs = extrap.read_runs(table, size="x", tune="lr", stage="check")
        verdicts = iter(extrap.check(self.forecast, runs, **options))
        found = []
        for configuration in configurations:
            own = [next(verdicts) for _ in range(len(configuration))]
            off = [verdict for verdict in own if verdict.on_law is False]
            found.append((bool(off), off[0].cause if off else None))
        return found


def false_alarms(rng: np.random.Generator) -> dict[str, float]:
    """Three tuned configurations in one table."""
    sweep = CheckedSweep(draw(rng), rng)
    tuned = [sweep.tuned(r) for r in FALSE_ALARM_RATIOS]
    found = sweep.judge(*tuned)
    jointly = sweep.judge(*tuned, familywise=True)
    fresh = [sweep.judge(sweep.fresh(r))[0] for r in FALSE_ALARM_RATIOS]
    return {
        "familywise": float(any(off for off, _ in jointly)),
        "fresh": float(np.mean([off for off, _ in fresh])),
        "n_seeds": sweep.world.n_seeds,
        "alarms": float(np.mean([off for off, _ in found])),
        "any": float(any(off for off, _ in found)),
        "mistuned": float(np.mean([cause == "mistuned" for _, cause in found])),
    }


def power(rng: np.random.Generator) -> dict[str, float]:
    """One configuration at ×4 of 5 or 4 sizes, 2 seeds and .4 % noise, each checked alone."""
    sweep = CheckedSweep(draw(rng, n_sizes=5, n_seeds=2, noise=0.004), rng)
    s = sweep.world.beyond(RATIO)
    best = float(sweep.world.optimum(s)[0])
    moved = {f"+{p} %": sweep.tuned(RATIO, math.log1p(p / 100)) for p in (8, 15)}
    rates = {name: sweep.configuration(s, best + u) for name, u in (("high", 2), ("low", -2))}
    found = {name: sweep.judge(table)[0] for name, table in (moved | rates).items()}
    by_loss = {name: float(found[name][0]) for name in moved}
    by_loss["curvature"] = sweep.world.curvature
    for name, n_sizes in FIVE_PERCENT.items():
        sweep = CheckedSweep(draw(rng, n_sizes=n_sizes, n_seeds=2, noise=0.004), rng)
        table = sweep.tuned(RATIO, math.log1p(0.05))
        by_loss[name] = float(sweep.judge(table)[0][0])
    return by_loss | {name: float(found[name][1] == "mistuned") for name in rates}


def outliers(rng: np.random.Generator) -> dict[str, float]:
    """105 runs with one wrong loss, and 105 without, whose noise is Student's t with 3 dof."""
    size = {"n_sizes": 5, "n_seeds": 3}
    wrong = int(rng.integers(105))
    spoiled = CheckedSweep(draw(rng, **size), rng, wrong=wrong).forecast.flags
    clean = CheckedSweep(draw(rng, **size, tail=3.0), rng).forecast.flags
    named = [flag for flag in spoiled if flag.startswith(FLAG)]
    return {
        "named": float(any(f"row {wrong + 1} " in flag for flag in named)),
        "false": float(any(flag.startswith(FLAG) for flag in clean)),
    }


def alarm_rows(part: str, found: pd.DataFrame) -> list[Row]:
    """False alarms."""
    by_seeds = found.groupby("n_seeds")["alarms"].mean()
    worst = found["alarms"].sort_values().tail(max(1, len(found) // 10)).mean()
    row = judged(part, "false alarms per tuned configuration", found["alarms"], 0.06, most=True)
    spread = ", ".join(f"{n:g} seeds {share:.1%}" for n, share in by_seeds.items())
    details = f" ({spread}; any of 3 {found['any'].mean():.1%}; worst decile {worst:.0%})"
    return [
        replace(row, reached=row.reached + details),
        judged(part, "tuned configurations called mistuned", found["mistuned"], 0.03, most=True),
        judged(part, "false alarms per run of a new seed", found["fresh"], 0.06, most=True),
        judged(part, "any false alarm of three, familywise", found["familywise"], 0.06, most=True),
    ]


def power_rows(part: str, found: pd.DataFrame) -> list[Row]:
    """Detection."""
    limits = {"+8 %": 0.98, "+15 %": 0.99, "high": 0.95, "low": 0.95}
    limits |= dict(zip(FIVE_PERCENT, (0.6, 0.3), strict=True))
    names = {
        **{name: f"found at ×4, {name}" for name in found},
        "high": "mistuned at ×4, 2 octaves high",
        "low": "mistuned at ×4, 2 octaves low",
    }
    tenth = pd.qcut(found["curvature"], 10, labels=False)
    rows = []
    for name, limit in limits.items():
        row = judged(part, names[name], found[name], limit)
        worst = found.groupby(tenth)[name].mean()
        rows.append(
            replace(row, reached=f"{row.reached} (worst tenth by curvature {min(worst):.0%})")
        )
    return rows


def outlier_rows(part: str, found: pd.DataFrame) -> list[Row]:
    """Runs that are named as outliers."""
    return [
        judged(part, "one run 30 % too low among 105 named", found["named"], 0.95),
        judged(
            part, "some run named in a clean sweep with t3 noise", found["false"], 0.05, most=True
        ),
    ]


PARTS = {
    "alarms": DrawnPart(false_alarms, alarm_rows, 1000),
    "power": DrawnPart(power, power_rows, 400),
    "outliers": DrawnPart(outliers, outlier_rows, 400),
}


if __name__ == "__main__":
    print_parts(__doc__, PARTS, DRAWS, title=PART)
