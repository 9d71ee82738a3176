"""Critical batches of four optimizers: the figures that `studies/registered.md` names.

    python -m benchmarks.evidence_optimizers [PREFIX]

PREFIX names the tables of `studies/optimizer_batch_full.py`, `PREFIX.seeds.csv` and
`PREFIX.tuned.csv`; they lie beside the study unless it is given.

1. "critical batch": of every optimizer and width, for both targets, the momentum chosen anew at
   every batch as the one with the fewest steps (geometric mean over seeds) of those tried. By
   `critical_batch`: the interval is the package's. Beside, momentum .9 throughout.
2. "regimes": perfect scaling up to .2 B_crit, maximal data parallelism from 4 B_crit, as the
   package has them. One is seen if a measured batch lies in it for all of the interval.
3. "order": per seed ln B_crit of a hyperbola through this seed's steps, averaged over widths; the
   mean difference of two optimizers over their common seeds with its interval by Student's t. It
   decides at 95 %; else "cannot tell", with the seeds that would tell: the least n at which
   t(n) sd / √n is below the mean difference.
4. "perfect scaling": the same of the batch at which examples exceed their least number by 20 %,
   from examples made to rise with the batch (isotonic in logarithms), without any hyperbola.
5. "steps": of two optimizers, at the smallest and at the largest batch.
6. "width": the slope of ln B_crit over ln width, per seed.

Whoever goes by another optimizer's critical batch is wrong by the ratios of part 3.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, stats

from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.analyses.batch_size import BatchGroup, critical_batch
from extrap.errors import DataError
from extrap.records import Interval, Measure

PREFIX = Path(__file__).parents[1] / "studies" / "optimizer_batch_full"
OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam")
PAIRS = (
    ("sgd", "momentum"),
    ("sgd", "nesterov"),
    ("momentum", "nesterov"),
    ("momentum", "adam"),
    ("nesterov", "adam"),
    ("sgd", "adam"),
)
PUBLISHED = {
    ("sgd", "momentum"): "above 1 (Shallue et al. 2019)",
    ("sgd", "nesterov"): "above 1 (Shallue et al. 2019)",
    ("momentum", "nesterov"): "near 1 (Shallue et al. 2019)",
    ("momentum", "adam"): "above 1 (Zhang et al. 2019)",
    ("nesterov", "adam"): "above 1 (Zhang et al. 2019)",
    ("sgd", "adam"): "above 1 (Zhang et al. 2019)",
}
"""Arms whose second is set over the first, and what is published of the ratio."""
USUAL_MOMENTUM = 0.9
MOST_EXCESS = 0.2
LEVEL = 0.95
EQUAL_WITHIN = 1.25
"""A ratio whose interval lies within this factor of 1 is none."""
MOST_SEEDS = 1000
KEYS = ["optimizer", "width", "target", "batch_size"]
CURVES = ["optimizer", "width", "target", "seed"]


def load(prefix: Path = PREFIX) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Steps by seed, and those at the best rate of every momentum, by optimizer and momentum."""
    return _named(pd.read_csv(f"{prefix}.seeds.csv")), _named(pd.read_csv(f"{prefix}.tuned.csv"))


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """A task `momentum-0.9` is an optimizer and a momentum."""
    parts = table["task"].str.partition("-")
    return table.assign(optimizer=parts[0], momentum=pd.to_numeric(parts[2]).fillna(0.0))


def best_momenta(seeds: pd.DataFrame, tuned: pd.DataFrame) -> pd.DataFrame:
    """The rows by seed of the momentum with the fewest steps, at every batch.

    Where no momentum reached the target, of the one that was trained longest: a lower bound.
    """
    is_reached = tuned["status"] == "reached"
    order = tuned.assign(
        late=~is_reached, by=np.where(is_reached, tuned["steps"], -tuned["budget"])
    ).sort_values([*KEYS, "late", "by", "momentum"])
    chosen = order.groupby(KEYS, sort=True).head(1)[[*KEYS, "momentum"]]
    return seeds.merge(chosen, on=[*KEYS, "momentum"])


def of_usual_momentum(seeds: pd.DataFrame) -> pd.DataFrame:
    """The rows by seed without a choice of momentum: .9 where there is one."""
    return seeds[seeds["momentum"].isin([0.0, USUAL_MOMENTUM])]


def critical_groups(steps: pd.DataFrame) -> dict[tuple[str, float, float], BatchGroup]:
    """Optimizer, width and target → the fitted group."""
    groups = {}
    for name, rows in steps.groupby("optimizer"):
        table = rows[["width", "target", "batch_size", "seed", "steps", "budget", "status"]]
        made = critical_batch(table, by=["width", "target"], level=LEVEL)
        for group in made.groups:
            groups[str(name), float(group.by["width"]), float(group.by["target"])] = group
    return groups


def curve_figures(steps: pd.DataFrame) -> pd.DataFrame:
    """One row per optimizer, width, target and seed: ln B_crit, and ln where perfect scaling ends.

    NaN where the steps of a seed show one regime only, or examples never exceed the share.
    """
    rows = []
    reached = steps[steps["status"] == "reached"].dropna(subset=["steps", "seed"])
    for key, curve in reached.groupby(CURVES, sort=True):
        try:
            group = critical_batch(curve[["batch_size", "steps"]], level=LEVEL).groups[0]
            b_crit = group.b_crit.value
        except DataError:
            b_crit = None
        rows.append(
            {
                **dict(zip(CURVES, key, strict=True)),
                "log_b_crit": math.nan if b_crit is None else math.log(b_crit),
                "log_end": log_perfect_end(curve["batch_size"], curve["steps"]),
            }
        )
    return pd.DataFrame(rows)


def log_perfect_end(batch: Sequence[float], steps: Sequence[float]) -> float:
    """Log of the batch at which examples, made to rise, exceed their least number by 20 %."""
    x, y = np.log(np.asarray(batch, float)), np.log(np.asarray(steps, float))
    order = np.argsort(x)
    x, y = x[order], (x + y)[order]
    rising = optimize.isotonic_regression(y).x
    limit = rising[0] + math.log1p(MOST_EXCESS)
    beyond = np.flatnonzero(rising > limit)
    if not len(beyond):
        return math.nan
    i = int(beyond[0])
    share = (limit - rising[i - 1]) / (rising[i] - rising[i - 1])
    return float(x[i - 1] + share * (x[i] - x[i - 1]))


def differences(figures: pd.DataFrame, of: str, first: str, second: str) -> pd.Series:
    """Seed → the second optimizer's mean over widths less the first's, at the widths both have."""
    table = figures.pivot_table(index=["seed", "width"], columns="optimizer", values=of)
    if not {first, second} <= set(table):
        return pd.Series(dtype=float)
    return (table[second] - table[first]).dropna().groupby("seed").mean()


def mean_of(values: Sequence[float]) -> Measure:
    """A mean with its interval by Student's t."""
    numbers = np.asarray(values, float)
    if len(numbers) < 2:
        return Measure(value=float(numbers[0]) if len(numbers) else None)
    half = stats.t.ppf((1 + LEVEL) / 2, len(numbers) - 1) * stats.sem(numbers)
    mean = float(numbers.mean())
    return Measure(value=mean, ci=Interval(mean - half, mean + half))


def seeds_to_tell(values: Sequence[float]) -> int | None:
    """The least number of seeds at which a mean and a scatter as these would differ from 0."""
    numbers = np.asarray(values, float)
    if len(numbers) < 2:
        return None
    mean, sd = abs(numbers.mean()), numbers.std(ddof=1)
    for n in range(2, MOST_SEEDS + 1):
        if stats.t.ppf((1 + LEVEL) / 2, n - 1) * sd / math.sqrt(n) < mean:
            return n
    return None


def verdict(values: Sequence[float]) -> str:
    """Whether a log ratio is above 0, below it, none, or not known."""
    low, high = mean_of(values).ci
    if low is None or high is None:
        return "cannot tell, too few seeds"
    if low > 0:
        return "larger"
    if high < 0:
        return "smaller"
    if max(-low, high) < math.log(EQUAL_WITHIN):
        return f"equal within a factor of {EQUAL_WITHIN:g}"
    n = seeds_to_tell(values)
    return f"cannot tell; {n or f'more than {MOST_SEEDS}'} seeds would"


def regimes_seen(group: BatchGroup) -> str:
    """The regimes in which a batch was measured, for all of the interval."""
    low, high = group.b_crit.ci
    batches = group.batches
    seen = []
    if low is not None and batches[0] <= group.perfect_end.ci.lower:
        seen.append("perfect")
    seen.append("diminishing")
    if high is not None and batches[-1] >= group.maximal_start.ci.upper:
        seen.append("maximal")
    return ", ".join(seen)


def factor_text(log: Measure) -> str:
    """A log ratio as a factor with its interval."""
    if log.value is None:
        return "not known"
    low, high = log.ci
    if low is None or high is None:
        return f"{math.exp(log.value):.3g}"
    return f"{math.exp(log.value):.3g} ({math.exp(low):.3g} to {math.exp(high):.3g})"


def plain_text(measure: Measure) -> str:
    """A value with its interval."""
    low, high = ("open" if end is None else f"{end:.3g}" for end in measure.ci)
    value = "not known" if measure.value is None else f"{measure.value:.3g}"
    return f"{value} ({low} to {high})"


def rows_of(prefix: Path = PREFIX) -> list[Row]:
    """All figures."""
    seeds, tuned = load(prefix)
    steps = best_momenta(seeds, tuned)
    groups, usual = critical_groups(steps), critical_groups(of_usual_momentum(seeds))
    figures = curve_figures(steps)
    rows = []
    for key in sorted(groups, key=lambda k: (k[2], k[1], OPTIMIZERS.index(k[0]))):
        name, width, target = key
        group, plain = groups[key], usual.get(key)
        where = f"{name}, width {width:g}, loss {target:g}"
        rows.append(
            Row(
                part="critical batch",
                figure=where,
                beat=""
                if plain is None or plain is group
                else f"momentum {USUAL_MOMENTUM:g}: {plain_text(plain.b_crit)}",
                reached=plain_text(group.b_crit),
                note=", ".join(group.flags),
            )
        )
        ends = f"up to {plain_text(group.perfect_end)}, from {plain_text(group.maximal_start)}"
        seen = f"{ends}; seen: {regimes_seen(group)}"
        rows.append(Row(part="regimes", figure=where, reached=seen))
    for target, of_target in figures.groupby("target"):
        rows += order_rows(of_target, f"loss {target:g}")
    rows += steps_rows(steps)
    rows += width_rows(figures)
    return [*rows, *momentum_rows(steps), edge_row(tuned)]


def order_rows(figures: pd.DataFrame, where: str) -> list[Row]:
    """Ratios of critical batches, and of the ends of perfect scaling."""
    rows = []
    for of, part in (("log_b_crit", "order"), ("log_end", "perfect scaling")):
        for first, second in PAIRS:
            values = differences(figures, of, first, second)
            rows.append(
                Row(
                    part=part,
                    figure=f"{second} over {first}, {where}",
                    beat=f"published {PUBLISHED[first, second]}",
                    reached=f"{factor_text(mean_of(values))} of {len(values)} seeds: "
                    f"{verdict(values)}",
                )
            )
        means = figures.groupby("optimizer")[of].mean().sort_values()
        rows.append(
            Row(
                part=part,
                figure=f"order, {where}",
                beat="published: sgd, momentum and nesterov, adam",
                reached=order_text(figures, of, list(means.index)),
            )
        )
    return rows


def order_text(figures: pd.DataFrame, of: str, names: Sequence[str]) -> str:
    """Optimizers in ascending order; neighbours that are not told apart in one place."""
    text = names[0] if names else ""
    for first, second in pairwise(names):
        is_larger = verdict(differences(figures, of, first, second)) == "larger"
        text += f"{' < ' if is_larger else ' ? '}{second}"
    return text


def steps_rows(steps: pd.DataFrame) -> list[Row]:
    """Ratios of steps at the smallest and at the largest batch, over seeds."""
    reached = steps[steps["status"] == "reached"].dropna(subset=["steps", "seed"])
    reached = reached.assign(log_steps=np.log(reached["steps"]))
    ends = sorted(reached["batch_size"].unique())
    rows = []
    for target, batch in product(sorted(reached["target"].unique()), (ends[0], ends[-1])):
        here = reached[(reached["target"] == target) & (reached["batch_size"] == batch)]
        for first, second in PAIRS:
            values = differences(here, "log_steps", first, second)
            rows.append(
                Row(
                    part="steps",
                    figure=f"{second} over {first}, batch {batch:g}, loss {target:g}",
                    beat="published: 1 at small batches"
                    if batch == ends[0] and "adam" not in (first, second)
                    else "",
                    reached=f"{factor_text(mean_of(values))} of {len(values)} seeds: "
                    f"{verdict(values)}",
                )
            )
    return rows


def width_rows(figures: pd.DataFrame) -> list[Row]:
    """The exponent of the critical batch in the width, seed by seed."""
    rows = []
    for (target, name), of in figures.dropna(subset="log_b_crit").groupby(["target", "optimizer"]):
        slopes = [
            float(np.polyfit(np.log(curve["width"]), curve["log_b_crit"], 1)[0])
            for _, curve in of.groupby("seed")
            if curve["width"].nunique() > 1
        ]
        rows.append(
            Row(
                part="width",
                figure=f"exponent of {name}, loss {target:g}",
                beat="published: near 0 at one loss (McCandlish et al. 2018)",
                reached=f"{plain_text(mean_of(slopes))} of {len(slopes)} seeds",
            )
        )
    return rows


def momentum_rows(steps: pd.DataFrame) -> list[Row]:
    """The momentum that was best at every batch."""
    rows = []
    chosen = steps[steps["momentum"] > 0].drop_duplicates([*KEYS, "momentum"])
    for (name, width, target), of in chosen.groupby(["optimizer", "width", "target"]):
        momenta = of.sort_values("batch_size")
        pairs: Mapping[float, float] = dict(
            zip(momenta["batch_size"], momenta["momentum"], strict=True)
        )
        rows.append(
            Row(
                part="momentum",
                figure=f"{name}, width {width:g}, loss {target:g}",
                reached=", ".join(f"{batch:g}: {value:g}" for batch, value in pairs.items()),
            )
        )
    return rows


def edge_row(tuned: pd.DataFrame) -> Row:
    """Places whose steps are bounds only."""
    n, n_late = int(tuned["at_edge"].sum()), int((tuned["status"] != "reached").sum())
    return Row(
        part="grids",
        figure="best rate at the edge of its grid; target not reached",
        reached=f"{n} and {n_late} of {len(tuned)} places",
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path, nargs="?", default=PREFIX)
    print_rows(rows_of(parser.parse_args(argv).prefix))


if __name__ == "__main__":
    main()
