"""Critical batches of four optimizers: the figures that `studies/registered.md` names.

    python -m benchmarks.evidence_optimizers [PREFIX] [--ship]

PREFIX names the tables of `studies/optimizer_batch_full.py`, `PREFIX.seeds.csv` and
`PREFIX.tuned.csv`; they lie beside the study unless it is given. `--ship` first copies them, and
`.rates.csv`, from `reports/`.

1. "critical batch": of every optimizer, width and target, the momentum chosen anew at every batch
   as the one with the fewest steps (geometric mean over seeds) of those tried. By
   `critical_batch`: the interval is the package's. Beside, momentum .9 throughout. A group of too
   few measurements is "not fitted".
2. "regimes": perfect scaling up to .2 B_crit, maximal data parallelism from 4 B_crit, as the
   package has them, diminishing returns between. One is seen if a batch that reached the target
   lies in it for all of the interval.
3. "order": per seed ln B_crit of a hyperbola through this seed's steps, averaged over widths; the
   mean difference of two optimizers over their common seeds with its interval by Student's t. All
   seeds are averaged over the same widths: of the sets of widths and seeds without a gap, at
   least two seeds if there are, the one with the most curves. It decides at 95 %: larger,
   smaller, equal within 1.25; else "cannot tell", with the seeds that would tell: the least n at
   which t(n) sd / √n is below the mean difference. Curves of one regime only have no B_crit and
   are counted as left out.
4. "perfect scaling": the same of the batch at which examples exceed their least number by 20 %,
   from examples made to rise with the batch (isotonic in logarithms), without any hyperbola.
   Curves that never exceed it, though they scale the longest, are counted as left out. Does
   momentum extend it? "yes" if the ratio to SGD is above 1 with its interval at all losses, "no"
   if it is below 1 at all, else "cannot tell".
5. "steps": of two optimizers, at the smallest and at the largest batch, as in part 3.
6. "width": the slope of ln B_crit over ln width, per seed, all seeds at the same widths.
7. "against us" and "grids": rejected hyperbolas (`lack-of-fit`), pairs of optimizers whose ratios
   in parts 3 and 4 lie on opposite sides of 1, both with intervals, and places (sweep, width,
   target, batch) with the best rate at the edge of its grid.

Whoever goes by another optimizer's critical batch is wrong by the ratios of part 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, stats

from benchmarks.evidence_batches import STUDIES, place_rows, print_figures
from benchmarks.rows import Row
from extrap.analyses.batch_size import BatchGroup, critical_batch
from extrap.errors import DataError
from extrap.fitting.means import paired_mean
from extrap.records import Measure

PREFIX = STUDIES / "optimizer_batch_full"
SHIPPED = ("seeds", "tuned", "rates")
"""Tables to ship."""
OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam")
PUBLISHED = {
    ("sgd", "momentum"): "above 1 (Shallue et al. 2019)",
    ("sgd", "nesterov"): "above 1 (Shallue et al. 2019)",
    ("momentum", "nesterov"): "near 1 (Shallue et al. 2019)",
    ("momentum", "adam"): "above 1 (Zhang et al. 2019)",
    ("nesterov", "adam"): "above 1 (Zhang et al. 2019)",
    ("sgd", "adam"): "above 1 (Zhang et al. 2019)",
}
"""First and second optimizer → what is published of the ratio of the second to the first."""
PAIRS = tuple(PUBLISHED)
USUAL_MOMENTUM = 0.9
MOST_EXCESS = 0.2
LEVEL = 0.95
EQUAL_WITHIN = 1.25
"""A ratio whose interval lies within this factor of 1 is none."""
MOST_SEEDS = 1000
GROUPS = ["optimizer", "width", "target"]
KEYS = [*GROUPS, "batch_size"]
CURVES = [*GROUPS, "seed"]
Group = tuple[str, float, float]
"""Optimizer, width and target."""


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


def critical_groups(steps: pd.DataFrame) -> dict[Group, BatchGroup | str]:
    """Optimizer, width and target → the fitted group, or why there is none."""
    groups: dict[Group, BatchGroup | str] = {}
    for (name, width, target), rows in steps.groupby(GROUPS):
        table = rows[["batch_size", "seed", "steps", "budget", "status"]]
        key = str(name), float(width), float(target)
        try:
            (groups[key],) = critical_batch(table, level=LEVEL).groups
        except DataError as error:
            groups[key] = str(error)
    return groups


def curve_figures(steps: pd.DataFrame) -> pd.DataFrame:
    """One row per optimizer, width, target and seed: ln B_crit, and ln where perfect scaling ends.

    NaN where the steps of a seed show one regime only, or examples never exceed the share.
    """
    reached = steps[steps["status"] == "reached"].dropna(subset=["steps", "seed"])
    by_curve = dict(iter(reached.groupby(CURVES)))
    curves = steps[GROUPS].drop_duplicates().merge(reached[["seed"]].drop_duplicates(), "cross")
    rows = []
    for key in curves.itertuples(index=False, name=None):
        curve = by_curve.get(key, reached.iloc[:0])
        try:
            (group,) = critical_batch(curve[["batch_size", "steps"]], level=LEVEL).groups
            b_crit = group.b_crit.value
        except DataError:
            b_crit = None
        log_b_crit = math.nan if b_crit is None else math.log(b_crit)
        rows.append((log_b_crit, log_perfect_end(curve["batch_size"], curve["steps"])))
    return curves.assign(**pd.DataFrame(rows, columns=["log_b_crit", "log_end"], dtype=float))


def log_perfect_end(batch: Sequence[float], steps: Sequence[float]) -> float:
    """Log of the batch at which examples, made to rise, exceed their least number by 20 %."""
    if len(batch) < 2:
        return math.nan
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


def differences(figures: pd.DataFrame, of: str, first: str, second: str) -> pd.DataFrame:
    """Seed × width → the second optimizer less the first, without a gap."""
    table = figures.pivot_table(index=["seed", "width"], columns="optimizer", values=of)
    if not {first, second} <= set(table):
        return pd.DataFrame()
    return without_gaps((table[second] - table[first]).unstack("width"))


def without_gaps(table: pd.DataFrame, *, fewest_columns: int = 1) -> pd.DataFrame:
    """The columns, and the rows that have them all, with the most cells; two rows if there are.

    So all seeds have the same widths, and differences between widths do not scatter as seeds do.
    """
    choices = [
        table[list(columns)].dropna()
        for n in range(fewest_columns, table.shape[1] + 1)
        for columns in combinations(table, n)
    ]
    return max(choices, key=lambda c: (len(c) > 1, c.size, len(c)), default=pd.DataFrame())


def seeds_to_tell(values: Sequence[float]) -> int | None:
    """The least number of seeds at which a mean and a scatter as these would differ from 0."""
    numbers = np.asarray(values, float)
    if len(numbers) < 2:
        return None
    mean, sd = abs(numbers.mean()), numbers.std(ddof=1)
    n = np.arange(2, MOST_SEEDS + 1)
    is_enough = stats.t.ppf((1 + LEVEL) / 2, n - 1) * sd / np.sqrt(n) < mean
    return int(n[is_enough.argmax()]) if is_enough.any() else None


def verdict(values: Sequence[float]) -> str:
    """Whether a log ratio is above 0, below it, none, or not known."""
    low, high = paired_mean(values, level=LEVEL).ci
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
    perfect, maximal = group.perfect_end.ci, group.maximal_start.ci
    limits = {
        "perfect": (0.0, perfect.lower),
        "diminishing": (perfect.upper, maximal.lower),
        "maximal": (maximal.upper, math.inf),
    }
    seen = [
        name
        for name, (low, high) in limits.items()
        if low is not None
        and high is not None
        and any(low <= batch <= high for batch in group.batches)
    ]
    return ", ".join(seen) or "none"


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


def parts_of(prefix: Path = PREFIX) -> Iterator[list[Row]]:
    """The rows of every part."""
    seeds, tuned = load(prefix)
    steps = best_momenta(seeds, tuned)
    groups = critical_groups(steps)
    yield from group_rows(groups, critical_groups(seeds[seeds["momentum"] == USUAL_MOMENTUM]))
    figures = curve_figures(steps)
    yield ratio_rows(figures, "log_b_crit", "order")
    yield [*ratio_rows(figures, "log_end", "perfect scaling"), extension_row(figures)]
    yield steps_rows(steps)
    yield width_rows(figures)
    yield momentum_rows(steps)
    yield against_rows(groups, figures)
    yield place_rows(tuned, against="against us: more than a tenth")


def group_rows(
    groups: Mapping[Group, BatchGroup | str], usual: Mapping[Group, BatchGroup | str]
) -> tuple[list[Row], list[Row]]:
    """Critical batches, beside those at momentum .9, and regimes."""
    critical, regimes = [], []
    for key in sorted(groups, key=lambda k: (k[2], k[1], OPTIMIZERS.index(k[0]))):
        name, width, target = key
        where = f"{name}, width {width:g}, loss {target:g}"
        beside = (
            f"momentum {USUAL_MOMENTUM:g}: {critical_text(usual[key])}" if key in usual else ""
        )
        critical.append(
            Row(
                part="critical batch",
                figure=where,
                beat=beside,
                reached=critical_text(groups[key]),
            )
        )
        regimes.append(Row(part="regimes", figure=where, reached=regimes_text(groups[key])))
    return critical, regimes


def critical_text(group: BatchGroup | str) -> str:
    """A critical batch with its interval and flags."""
    if isinstance(group, str):
        return f"not fitted: {group}"
    return "; ".join([plain_text(group.b_crit), *group.flags])


def regimes_text(group: BatchGroup | str) -> str:
    """The limits of the regimes, and which were seen."""
    if isinstance(group, str):
        return "not fitted"
    ends = f"up to {plain_text(group.perfect_end)}, from {plain_text(group.maximal_start)}"
    return f"{ends}; seen: {regimes_seen(group)}"


def ratio_rows(figures: pd.DataFrame, of: str, part: str) -> list[Row]:
    """Ratios of critical batches, or of the ends of perfect scaling."""
    rows = []
    for target, here in figures.groupby("target"):
        where = f"loss {target:g}"
        for pair in PAIRS:
            first, second = pair
            rows.append(
                Row(
                    part=part,
                    figure=f"{second} over {first}, {where}",
                    beat=f"published {PUBLISHED[pair]}",
                    reached=f"{ratio_text(differences(here, of, first, second))}; "
                    f"left out: {left_out_text(here, of, pair)}",
                )
            )
        rows.append(
            Row(
                part=part,
                figure=f"order, {where}",
                beat="published: sgd, momentum and nesterov, adam",
                reached=order_text(here, of),
            )
        )
    return rows


def ratio_text(logs: pd.DataFrame) -> str:
    """A ratio from differences of logarithms by seed and width."""
    values, (n_seeds, n_widths) = logs.mean(axis="columns"), logs.shape
    ratio = factor_text(paired_mean(values, level=LEVEL))
    return f"{ratio} of {n_seeds} seeds at {n_widths} widths: {verdict(values)}"


def left_out_text(figures: pd.DataFrame, of: str, names: Sequence[str]) -> str:
    """How many curves of each optimizer have no such figure."""
    is_missing = figures[of].isna().groupby(figures["optimizer"])
    missing, curves = is_missing.sum(), is_missing.size()
    return ", ".join(f"{n} {missing.get(n, 0)} of {curves.get(n, 0)} curves" for n in names)


def order_text(figures: pd.DataFrame, of: str) -> str:
    """Optimizers in ascending order, "?" between neighbours that are not known to differ."""
    table = figures.pivot_table(index=["seed", "width"], columns="optimizer", values=of)
    common = table.dropna()
    names = list((common if len(common) else table).mean().sort_values().index)
    text = "".join(names[:1])
    for first, second in pairwise(names):
        is_larger = verdict_of(figures, of, first, second) == "larger"
        text += f"{' < ' if is_larger else ' ? '}{second}"
    unknown = [name for name in OPTIMIZERS if name not in names]
    return "; ".join([text] * bool(text) + [f"unknown: {', '.join(unknown)}"] * bool(unknown))


def verdict_of(figures: pd.DataFrame, of: str, first: str, second: str) -> str:
    """The verdict on the second optimizer over the first."""
    return verdict(differences(figures, of, first, second).mean(axis="columns"))


def extension_row(figures: pd.DataFrame) -> Row:
    """Whether momentum extends perfect scaling at all losses."""
    by_target = [here for _, here in figures.groupby("target")]
    verdicts = {verdict_of(here, "log_end", "sgd", "momentum") for here in by_target}
    answers = {"larger": "yes", "smaller": "no"}
    return Row(
        part="perfect scaling",
        figure=f"does momentum extend it? at {len(by_target)} losses",
        beat="published: yes",
        reached=answers.get("; ".join(verdicts), "cannot tell"),
    )


def steps_rows(steps: pd.DataFrame) -> list[Row]:
    """Ratios of steps at the smallest and at the largest batch, over seeds."""
    reached = steps[steps["status"] == "reached"].dropna(subset=["steps", "seed"])
    reached = reached.assign(log_steps=np.log(reached["steps"]))
    smallest, largest = steps["batch_size"].min(), steps["batch_size"].max()
    rows = []
    for target, batch in product(sorted(steps["target"].unique()), (smallest, largest)):
        here = reached[(reached["target"] == target) & (reached["batch_size"] == batch)]
        for first, second in PAIRS:
            rows.append(
                Row(
                    part="steps",
                    figure=f"{second} over {first}, batch {batch:g}, loss {target:g}",
                    beat="published: 1 at small batches"
                    if batch == smallest and "adam" not in (first, second)
                    else "",
                    reached=ratio_text(differences(here, "log_steps", first, second)),
                )
            )
    return rows


def width_rows(figures: pd.DataFrame) -> list[Row]:
    """The exponent of the critical batch in the width, over seeds with the same widths."""
    rows = []
    for (target, name), of in figures.groupby(["target", "optimizer"]):
        table = of.pivot_table(index="seed", columns="width", values="log_b_crit")
        curves = without_gaps(table, fewest_columns=2)
        log_widths = np.log(curves.columns.to_numpy(float))
        slopes = [float(np.polyfit(log_widths, logs, 1)[0]) for logs in curves.to_numpy()]
        mean = plain_text(paired_mean(slopes, level=LEVEL))
        rows.append(
            Row(
                part="width",
                figure=f"exponent of {name}, loss {target:g}",
                beat="published: near 0 at one loss (McCandlish et al. 2018)",
                reached=f"{mean} of {len(slopes)} seeds at {curves.shape[1]} widths",
            )
        )
    return rows


def momentum_rows(steps: pd.DataFrame) -> list[Row]:
    """The momentum that was best at every batch."""
    chosen = steps[steps["momentum"] > 0].drop_duplicates(KEYS).sort_values("batch_size")
    return [
        Row(
            part="momentum",
            figure=f"{name}, width {width:g}, loss {target:g}",
            reached=", ".join(
                f"{batch:g}: {momentum:g}"
                for batch, momentum in zip(of["batch_size"], of["momentum"], strict=True)
            ),
        )
        for (name, width, target), of in chosen.groupby(GROUPS)
    ]


def against_rows(groups: Mapping[Group, BatchGroup | str], figures: pd.DataFrame) -> list[Row]:
    """Hyperbolas that replicates reject, and orders that contradict each other."""
    fitted = [group for group in groups.values() if not isinstance(group, str)]
    n_rejected = sum("lack-of-fit" in group.flags for group in fitted)
    pairs = contradictions(figures)
    return [
        Row(
            part="against us",
            figure="groups whose hyperbola is rejected (lack-of-fit)",
            beat="against us: more than half",
            reached=f"{n_rejected} of {len(groups)}, {len(groups) - len(fitted)} not fitted",
        ),
        Row(
            part="against us",
            figure="order by hyperbolas and by the end of perfect scaling contradict each other",
            beat="against us: any",
            reached="; ".join(pairs) or "at no pair and loss",
        ),
    ]


def contradictions(figures: pd.DataFrame) -> list[str]:
    """Pairs and losses where one figure is larger and the other smaller, both with intervals."""
    names = []
    for (target, here), (first, second) in product(figures.groupby("target"), PAIRS):
        verdicts = {verdict_of(here, of, first, second) for of in ("log_b_crit", "log_end")}
        if verdicts == {"larger", "smaller"}:
            names.append(f"{second} over {first}, loss {target:g}")
    return names


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures."""
    print_figures(argv, about=__doc__, prefix=PREFIX, tables=SHIPPED, parts=parts_of)


if __name__ == "__main__":
    main()
