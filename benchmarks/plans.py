"""What `extrap plan` gains over an even grid of the same compute, and how right costs are.

    python -m benchmarks.plans [DATA] [--replicates N] [--only PART] [--out FOLDER]

A bed has runs of a full grid, a pilot within it and a target beyond it. An even grid is every
second or third value, or fewer seeds, at all sizes. `extrap plan` gets the compute of that grid,
its pilot included, and is asked again after every purchase. Both tables go through
`extrap.forecast`; their 90 % intervals at the target are compared, and held against the truth.
Where a bed is a table of runs (Step Law, Li et al. 2025, arXiv 2503.04715; the sweep of the
default study), a planned run is the nearest one of the table. Writes reports/bench-plan.csv and
reports/bench-plan.html.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.optima import SIZES, TUNED, optima_of, step_law
from benchmarks.page import Part, Words, parser_of, run_parts
from benchmarks.rows import DATA, Row
from benchmarks.samplers import exponential
from extrap.analyses.budget import Option, Plan, cost, plan
from extrap.errors import DataError

LEVEL = 0.9
SEED = 20261122
REPLICATES = 30
ROUNDS = 12
"""Most purchases within one budget."""
FARTHEST = 0.5
"""Log distance over the sizes, together, at which a run of a table stands for a planned one."""
WIDTHS, RATES, STEP, SEEDS = (16, 24, 32, 48, 64, 96, 128, 192), 9, 0.75, 4
POWER = 2.0
"""Compute of a simulated run ∝ width to this."""
SHIPPED = Path(__file__).parents[1] / "examples" / "sweep.csv"
AWAY = 5.0
"""Times the largest width: the simulated target."""
WORDS = Words(
    title="Plans",
    question="Do planned runs narrow a forecast more than an even grid of the same compute?",
    lead="Simulations with known answers, the runs of Step Law and the sweep of the default "
    "study: the runs that extrap plan chooses against an even grid; and predicted penalties held "
    "against true ones.",
    command="make bench-plan",
    seeds="every draw is seeded; the same tree gives the same table",
    libraries=("numpy", "pandas", "scipy"),
)


@dataclass(frozen=True, eq=False)
class Bed:
    """A full grid of runs, a target beyond it, and the truth there.

    Attributes:
        cells: Sizes, tuned columns, `seed`, `loss`, `cost` of every run of the full grid.
        at: The target.
        log2_optima: log2 of the best tuned values there; empty if not known.
        log_loss: At the optimum there; NaN if not known.
        excess: log2 tuned values → true log excess at the target; None if it is not known.
        pilot: The runs that a plan begins with.
        train: Sizes, tuned columns and seeds → the same with losses; None for tables.
    """

    cells: pd.DataFrame
    sizes: tuple[str, ...]
    tuned: tuple[str, ...]
    at: dict[str, float]
    log2_optima: np.ndarray
    log_loss: float
    excess: Callable[[np.ndarray], float] | None
    pilot: pd.Series
    train: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def forecast(self, table: pd.DataFrame) -> extrap.Forecast:
        """From some of the runs."""
        columns = [c for c in (*self.sizes, *self.tuned, "seed", "loss", "flops") if c in table]
        runs = extrap.read_runs(table[columns], size=self.sizes, tune=self.tuned)
        return extrap.forecast(runs, level=LEVEL)


def simulated(seed: int, *, noise: float = 0.003, scatter: float = 0.05) -> Bed:
    """A power law with a floor; curves_of_excess whose place, steepness and asymmetry scatter."""
    rng = np.random.default_rng([SEED, seed])
    floor, power = rng.uniform(1.2, 1.8), rng.uniform(0.35, 0.7)
    slope, x = rng.uniform(-0.75, -0.25), np.array([*WIDTHS, AWAY * WIDTHS[-1]], dtype=float)
    middle = np.log2(x[:8]).mean()
    optima = -7 + slope * (np.log2(x) - middle) + scatter * rng.normal(size=9)
    curvature, right, left = (c * np.exp(0.2 * rng.normal(size=9)) for c in (0.02, 0.5, 0.35))
    tuned = np.log(floor + 1.2 * (x / x[0]) ** -power)

    def excess(i: int, at: float) -> float:
        return float(curvature[i] * exponential(at - optima[i], right[i], left[i]))

    grid = np.arange(RATES) * STEP - 7 - 3
    shared, rows = 1.3 * noise * rng.normal(size=SEEDS), []
    for i, width in enumerate(WIDTHS):
        own = noise * rng.normal(size=SEEDS)
        for rate in grid:
            for s in range(SEEDS):
                y = tuned[i] + excess(i, rate) + shared[s] + own[s] + noise * rng.normal()
                rows.append((width, 2.0**rate, s, math.exp(y), 1e6 * width**POWER))
    cells = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss", "flops"])
    pilot = (cells["width"] <= WIDTHS[4]) & (cells["seed"] < 2)
    pilot &= cells["lr"].rank(method="dense").astype(int) % 2 == 1

    def place(width: float) -> tuple[float, float, float, float]:
        """Optimum, curvature and the rises of a size, drawn anew where the grid has none."""
        if width in WIDTHS:
            i = WIDTHS.index(int(width))
            return optima[i], curvature[i], right[i], left[i]
        own = np.random.default_rng([SEED, seed, round(width)])
        at = -7 + slope * (math.log2(width) - middle) + scatter * own.normal()
        k, r, low = np.array([0.02, 0.5, 0.35]) * np.exp(0.2 * own.normal(size=3))
        return float(at), k, r, low

    def train(some: pd.DataFrame) -> pd.DataFrame:
        """Runs outside the grid; each cell has noise of its own, each seed its own shares."""
        made = []
        for width, lr, s in zip(some["width"], some["lr"], some["seed"], strict=True):
            best, k, r, low = place(width)
            of_seed = np.random.default_rng([SEED, seed, 7, int(s)]).normal()
            of_size = np.random.default_rng([SEED, seed, round(width), int(s)]).normal()
            rate = math.log2(lr)
            key = [SEED, seed, round(width), int(s), round(1e4 * (rate + 64))]
            y = math.log(floor + 1.2 * (width / x[0]) ** -power)
            y += k * exponential(rate - best, r, low)
            y += (shared[int(s)] if s < SEEDS else 1.3 * noise * of_seed) + noise * of_size
            made.append(math.exp(y + noise * np.random.default_rng(key).normal()))
        flops = 1e6 * some["width"].astype(float) ** POWER
        return some.assign(loss=made, flops=flops, cost=flops)

    return Bed(
        train=train,
        cells=cells.assign(cost=cells["flops"]),
        sizes=("width",),
        tuned=("lr",),
        at={"width": float(x[-1])},
        log2_optima=optima[-1:],
        log_loss=float(tuned[-1]),
        excess=lambda at: excess(8, float(at[0])),
        pilot=pilot,
    )


def published(data: Path) -> Bed:
    """Step Law: cells below 5e8 parameters are the grid, the best of 1.07e9 × 2e10 the truth."""
    table = step_law(data)
    small = table[table["params"] < 5e8].reset_index(drop=True)
    small = small[np.isfinite(small["loss"])].drop_duplicates([*SIZES, *TUNED])
    small = small.reset_index(drop=True).assign(seed=0)
    small["flops"] = 6.0 * small["params"] * small["tokens"]
    large = table[(table["params"] > 1e9) & (table["tokens"] < 3e10)]
    best = optima_of(large, SIZES, TUNED)[0]
    cheap = small["flops"].isin(sorted(small["flops"].unique())[:7])
    spread = np.logical_and.reduce(
        [small.groupby(list(SIZES))[c].rank(method="dense") % 3 == 1 for c in TUNED]
    )
    return Bed(
        cells=small.assign(cost=small["flops"]),
        sizes=SIZES,
        tuned=TUNED,
        at=dict(best.size),
        log2_optima=np.log2([best.tuned[name].value for name in TUNED]),
        log_loss=math.log(best.loss or math.nan),
        excess=None,
        pilot=cheap & spread,
    )


def default_study() -> Bed:
    """The shipped sweep: its five smallest widths are the pilot, 1024 the target."""
    cells = pd.read_csv(SHIPPED)[["width", "lr", "seed", "loss", "flops"]]
    pilot = (cells["width"] <= WIDTHS[4]) & (cells["seed"] < 2)
    pilot &= cells["lr"].rank(method="dense").astype(int) % 2 == 1
    return Bed(
        cells=cells.assign(cost=cells["flops"]),
        sizes=("width",),
        tuned=("lr",),
        at={"width": 1024.0},
        log2_optima=np.array([]),
        log_loss=math.nan,
        excess=None,
        pilot=pilot,
    )


def judge(bed: Bed, table: pd.DataFrame) -> dict[str, float]:
    """Widths of the intervals at the target, and whether they hold the truth."""
    point, row = bed.forecast(table).at(**bed.at), {}
    low, high = point.loss_pi
    row["loss"] = math.log(high / low) if low and high else math.nan
    if low and high and math.isfinite(bed.log_loss):
        row["loss held"] = float(low <= math.exp(bed.log_loss) <= high)
    for i, name in enumerate(bed.tuned):
        low, high = point.tuned[name].pi
        row[name] = math.log2(high / low) if low and high else math.nan
        if low and high and len(bed.log2_optima):
            row[f"{name} held"] = float(low <= 2 ** bed.log2_optima[i] <= high)
    return row


def even_grids(bed: Bed) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every second or third value at all sizes; with half of the seeds where there are several."""
    cells = bed.cells
    for stride in (2, 3):
        ranks = [cells.groupby(list(bed.sizes))[c].rank(method="dense") for c in bed.tuned]
        keep = np.logical_and.reduce([rank % stride == 1 for rank in ranks])
        seeds = cells["seed"].nunique()
        for n in sorted({seeds, -(-seeds // 2)}):
            yield f"1/{stride} of the values, {n} seeds", cells[keep & (cells["seed"] < n)]


def planned(bed: Bed, budget: float) -> tuple[pd.DataFrame, Option | None]:
    """The pilot and what is planned, bought, planned again within a budget; the last purchase."""
    owned, last = bed.cells[bed.pilot], None
    for _ in range(ROUNDS):
        left = budget - float(owned["cost"].sum())
        if left <= 0:
            break
        found = plan(bed.forecast(owned), at=bed.at, budget=left)
        for option in ranked(found):
            bought = buy(bed, owned, option, left)
            if len(bought):
                break
        else:
            break
        owned, last = pd.concat([owned, bought], ignore_index=True), option
    return owned, last


def ranked(found: Plan) -> list[Option]:
    """The chosen option, and for tables of runs that lack it, the others that narrow."""
    first = [] if found.chosen is None else [found.options[found.chosen]]
    rest = [o for o in found.options if o.in_budget and (o.gain or 0.0) > 0 and o not in first]
    return [*first, *sorted(rest, key=lambda option: -(option.gain or 0.0))]


def buy(bed: Bed, owned: pd.DataFrame, option: Option, left: float) -> pd.DataFrame:
    """The runs of an option, trained, or the nearest new ones of the table; none over budget."""
    wanted = pd.DataFrame([{**run.size, **run.tuned, "seed": run.seed} for run in option.runs])
    if bed.train is not None:
        return bed.train(wanted)
    sizes, tuned = list(bed.sizes), list(bed.tuned)
    keys = [*sizes, *tuned, "seed"]
    is_owned = bed.cells.set_index(keys).index.isin(owned.set_index(keys).index)
    new, picked = bed.cells[~is_owned], list[int]()
    log_sizes, log_tuned = np.log(new[sizes].to_numpy(float)), np.log(new[tuned].to_numpy(float))
    for run in wanted.to_dict("records"):
        off = np.abs(log_sizes - np.log([run[c] for c in sizes])).sum(axis=1)
        near = off <= off.min(initial=math.inf) + 1e-9
        away = np.abs(log_tuned - np.log([run[c] for c in tuned])).sum(axis=1)
        away = away + 1e-3 * (new["seed"] != run["seed"]) + np.where(near, 0.0, math.inf)
        away.iloc[picked] = math.inf
        if len(new) and off.min() <= FARTHEST and math.isfinite(away.min()):
            picked.append(int(np.argmin(away)))
    bought = new.iloc[picked]
    return bought if float(bought["cost"].sum()) <= left else bought.iloc[:0]


def compare_strategies(task: tuple[str, Path, int]) -> list[dict[str, object]]:
    """One row per even grid and interval of a bed: the width of the plan's over the grid's."""
    name, data, number = task
    beds = {"Step Law": partial(published, data), "default study": default_study}
    bed, rows = beds.get(name, partial(simulated, number))(), []
    pilot = float(bed.cells.loc[bed.pilot, "cost"].sum())
    for grid, even in even_grids(bed):
        budget = float(even["cost"].sum())
        if budget <= pilot:
            continue
        try:
            theirs = judge(bed, even)
            owned, last = planned(bed, budget)
            ours = judge(bed, owned)
        except DataError:  # an even grid of one seed may have no forecast
            continue
        for column in ("loss", *bed.tuned):
            expected = math.nan
            if last is not None and bed.train is not None:
                low, high = last.loss_pi if column == "loss" else last.tuned_pi[column]
                expected = math.log(high / low) if low and high else math.nan
                expected /= 1.0 if column == "loss" else math.log(2)
            rows.append(
                {
                    "bed": name,
                    "replicate": number,
                    "grid": grid,
                    "interval of": column,
                    "ratio": ours[column] / theirs[column],
                    "after / expected": ours[column] / expected,
                    "spent": float(owned["cost"].sum()) / budget,
                    "held": ours.get(f"{column} held", math.nan),
                    "even held": theirs.get(f"{column} held", math.nan),
                }
            )
    return rows


def judge_strategies(data: Path, n_replicates: int) -> pd.DataFrame:
    """All beds; Step Law where its table is."""
    tasks = [("default study", data, 0), *(("simulated", data, i) for i in range(n_replicates))]
    if (data / "steplaw.csv").is_file():
        tasks.append(("Step Law", data, 0))
    with ProcessPoolExecutor(2) as pool:
        return pd.DataFrame([row for part in pool.map(compare_strategies, tasks) for row in part])


def rows(table: pd.DataFrame) -> list[Row]:
    """The figures of plans."""
    made = []
    for (bed, column), part in table.groupby(["bed", "interval of"], sort=False):
        ratio, seen = part["ratio"].median(), part["after / expected"].median()
        by_grid = part.groupby("grid", sort=False)["ratio"].median()
        held = [f"{100 * part[c].mean():.0f} %" for c in ("held", "even held")]
        is_known = part["held"].notna().any()
        note = f"By grid: {', '.join(f'{grid}: {r:.2f}' for grid, r in by_grid.items())}."
        note += f" {100 * part['spent'].mean():.0f} % of the compute was spent."
        if math.isfinite(seen):
            note += f" Width over what the last plan expected: median {seen:.2f}."
        if is_known:
            note += f" The 90 % interval holds the truth in {held[0]}, the grid's in {held[1]}."
        made.append(
            Row(
                part=f"plans: {bed}",
                figure=f"width of the interval of {column}, planned over an even grid",
                target="≤ 1.00",
                reached=f"{ratio:.2f} (median of {len(part)})",
                met=bool(ratio <= 1.0),
                note=note,
            )
        )
    return made


def penalties(n_replicates: int = REPLICATES) -> pd.DataFrame:
    """True and predicted penalties of values off by up to two octaves, one row a value."""
    with ProcessPoolExecutor(2) as pool:
        found = pool.map(_penalties, range(n_replicates))
        return pd.DataFrame([row for part in found for row in part])


def _penalties(number: int) -> list[dict[str, float]]:
    bed = simulated(1000 + number)
    assert bed.excess is not None
    made = bed.forecast(bed.cells)
    found = []
    for octaves in (-2.0, -1.0, 1.0, 2.0):
        value = 2.0 ** (float(bed.log2_optima[0]) + octaves)
        told = cost(made, at=bed.at, tuned={"lr": value}).chosen
        true = math.expm1(bed.excess(np.array([math.log2(value)])))
        low, high = told.relative.ci
        found.append(
            {
                "octaves": octaves,
                "true": true,
                "told": told.relative.value or math.nan,
                "held": float((low or 0.0) <= true <= (high or math.inf)),
            }
        )
    return found


def published_penalties(data: Path = DATA) -> pd.DataFrame:
    """Step Law's larger cells: what their runs lost against their best, told by the smaller."""
    table = step_law(data)
    small = table[table["params"] < 5e8]
    made = extrap.forecast(extrap.read_runs(small, size=SIZES, tune=TUNED), level=LEVEL)
    found = []
    for key, cell in table[table["params"] > 5e8].groupby(list(SIZES)):
        at = dict(zip(SIZES, map(float, key), strict=True))
        best = optima_of(cell, SIZES, TUNED)[0].loss
        cell = cell[np.isfinite(cell["loss"])]
        for run in cell.iloc[::6].to_dict("records"):
            told = cost(made, at=at, tuned={n: run[n] for n in TUNED}).chosen
            low, high = told.relative.ci
            true = run["loss"] / (best or math.nan) - 1
            found.append(
                {
                    "true": true,
                    "told": told.relative.value or math.nan,
                    "held": float((low or 0.0) <= true <= (high or math.inf)),
                }
            )
    return pd.DataFrame(found)


def penalty_rows(table: pd.DataFrame, *, part: str, target: bool) -> list[Row]:
    """The figures of penalties."""
    held = float(table["held"].mean())
    deep = table[table["true"] > 0.005]
    ratio = (deep["told"] / deep["true"]).quantile([0.1, 0.5, 0.9])
    return [
        Row(
            part=part,
            figure="90 % interval of the penalty holds the true one",
            target="≥ 85 %" if target else "",
            reached=f"{held:.1%} of {len(table)}",
            met=bool(held >= 0.85) if target else None,
        ),
        Row(
            part=part,
            figure="predicted / true penalty, where it is more than .5 %",
            reached=f"median {ratio[0.5]:.2f}, 80 % of them {ratio[0.1]:.2f} to {ratio[0.9]:.2f}",
            met=None,
        ),
    ]


def parts(data: Path, n_replicates: int) -> dict[str, Part]:
    """All measurements, in the order of the table."""
    return {
        "plans": Part(partial(judge_strategies, data, n_replicates), rows),
        "penalties": Part(
            partial(penalties, n_replicates),
            partial(penalty_rows, part="penalties: simulated", target=True),
        ),
        "published penalties": Part(
            partial(published_penalties, data),
            partial(penalty_rows, part="penalties: Step Law's larger cells", target=False),
            ("steplaw.csv",),
        ),
    }


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--replicates", type=int, default=REPLICATES, help="simulated sweeps")
    given = parser.parse_args()
    run_parts(parts(given.data, given.replicates), given, words=WORDS, name="bench-plan")
