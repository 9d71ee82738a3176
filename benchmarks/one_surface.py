"""One surface beside today's estimators, on the same sweeps of a known truth.

    python -m benchmarks.one_surface [--n 200] [--draws 1] [--only KIND …] [--workers 2]
        [--table FILE] [--today FILE]

Kinds of sweeps, and their groups (gridded, sampled, shaped, mixed, other), are those of
`benchmarks.surface_kinds`. A table has one row per sweep, size and estimator; with `--today` the
rows of today's estimators are taken from one.

Scored are the 90 % interval of the optimum (width, and 20 times what the truth lies outside, in
octaves; a mean over the tuned values that matter) and the true excess of the recommended value at
2, 4 and 16 times the largest size. A refusal is charged a width of 6 octaves and the cost of the
largest size's best value. Ratios are of means over the same sweeps, with a bootstrap interval over
sweeps. What is predicted is compared where it is said: excess without divergence, and divergence.

References:
    Gneiting, Raftery (2007), Strictly proper scoring rules, JASA 102, Eq. 43 (interval score).
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.surface_kinds import GROUPS, MOST, RATIOS, Array, Case, case
from extrap.fitting.surface.answers import answer
from extrap.fitting.surface.draws import draw
from extrap.fitting.surface.surface import fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of
from extrap.records import Runs

LEVEL = 0.9
REFUSED_WIDTH = 6.0
"""Octaves that a refusal is charged."""
N_BOOTSTRAPS = 1000
FEWEST_DIVERGED = 10.0
"""Runs that must be expected to diverge for their number to be compared."""
KINDS = (*itertools.chain(*GROUPS.values()),)
POOLS = {"all kinds": KINDS, "the mix": GROUPS["mixed"]}


def today(case: Case) -> list[dict[str, Any]]:
    """Today's estimators: of each target the values to use and the intervals, log2."""
    try:
        made = extrap.forecast(case.table, size=case.sizes, tune=case.tuned, level=LEVEL)
    except extrap.ExtrapError:
        return [{} for _ in case.targets]
    found = []
    for target in case.targets:
        point = made.at(**dict(zip(case.sizes, map(float, 2.0**target), strict=True)))
        # a value that is said to be flat is left at the middle of the runs
        middle = {name: float(np.exp(np.log(case.table[name]).median())) for name in case.tuned}
        values = {name: point.recommended.get(name, middle[name]) for name in case.tuned}
        pi = {name: estimate.pi for name, estimate in point.tuned.items()}
        if None in values.values():
            found.append({})
            continue
        known = [pi.get(name) for name in case.tuned]
        ends = [None if one is None or None in one else np.log2([*one]) for one in known]
        found.append({"values": np.log2([values[name] for name in case.tuned]), "ends": ends})
    return found


def surface(runs: Runs, targets: Array, number: int) -> list[dict[str, Any]]:
    """The same by one surface."""
    try:
        surfaces, weights = fit_surfaces(arrays_of(runs))
    except extrap.ExtrapError:
        return [{} for _ in targets]
    drawn, _ = draw(surfaces, weights, targets, rng=np.random.default_rng(number))
    found = []
    for draws in drawn:
        advised = answer(draws, level=LEVEL)
        ends = [np.array(pair) for pair in zip(advised.low, advised.high, strict=True)]
        said = {"values": advised.values, "ends": ends, "predicted": advised.mistuned}
        said["chance"] = advised.chance
        found.append({} if advised.refusal else said)
    return found


def measure(task: tuple[str, int], *, draws: int, known: Path | None) -> list[dict[str, Any]]:
    """Scores of both at every target of one sweep; today's from a table that has them."""
    warnings.simplefilter("ignore")
    kind, number = task
    drawn, key = case(kind, np.random.default_rng([draws, number])), (draws, kind, number)
    runs = extrap.read_runs(drawn.table, size=drawn.sizes, tune=drawn.tuned)
    mean = float(drawn.table["loss"].replace(math.inf, np.nan).mean())  # to know a sweep again
    found, rows = {"surface": surface(runs, drawn.targets, number)}, todays(known).get(key, [])
    if not rows:
        found["today"] = today(drawn)
    elif not np.isclose(rows[0]["mean_loss"], mean):
        raise ValueError(f"{known} has another sweep of the kind {kind!r}")
    for who, answers in found.items():
        for i, (ratio, said) in enumerate(zip(RATIOS, answers, strict=True)):
            row = {"draws": draws, "kind": kind, "number": number, "who": who, "ratio": ratio}
            row |= {"mean_loss": mean, "truth": drawn.best[i, 0]} | scored(drawn, i, said)
            rows = [*rows, row]
    return rows


@cache
def todays(known: Path | None) -> dict[tuple[int, str, int], list[dict[str, Any]]]:
    """Rows of today's estimators by draws, kind and number of the sweep."""
    if known is None:
        return {}
    table = pd.read_csv(known).query("who == 'today'")
    sweeps = table.groupby(["draws", "kind", "number"])
    return {key: own.to_dict("records") for key, own in sweeps}


def scored(drawn: Case, i: int, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a run at the recommended values truly costs, what was said of it, and the interval."""
    values = said.get("values", drawn.kept)
    row = {"refused": not said, "cost": drawn.cost(i, values)} | _interval(drawn, i, said)
    row |= {"predicted": said.get("predicted"), "chance": said.get("chance")}
    if said:
        row |= {"excess": min(drawn.excess(i, values), MOST), "diverged": drawn.chance(i, values)}
    return row


def _interval(drawn: Case, i: int, said: Mapping[str, Any]) -> dict[str, float]:
    """Interval score, whether it holds and width, means over tuned values; error of the first."""
    truths = drawn.best[i, : drawn.n_scored]
    scores, held, widths = [], [], []
    for truth, ends in zip(truths, said.get("ends", [None] * len(truths)), strict=False):
        if ends is None:
            scores.append(REFUSED_WIDTH)
            continue
        outside = max(ends[0] - truth, 0.0) + max(truth - ends[1], 0.0)
        widths.append(ends[1] - ends[0])
        scores.append(widths[-1] + 2 / (1 - LEVEL) * outside)
        held.append(outside == 0)
    row = {"score": float(np.mean(scores))}
    if held:
        row |= {"held": float(np.mean(held)), "width": float(np.mean(widths))}
        row["error"] = said["values"][0] - truths[0]
    return row


def ratio_words(table: pd.DataFrame, column: str, new: str = "surface", now: str = "today") -> str:
    """The ratio in words."""
    ratio, low, high = ratio_of(table, column, new, now)
    return f"{column} {ratio:.2f} × ({low:.2f} to {high:.2f})"


def ratio_of(
    table: pd.DataFrame, column: str, new: str = "surface", now: str = "today"
) -> tuple[float, float, float]:
    """Mean of the surface over that of today, over the same sweeps, with a 95 % interval."""
    wide = table.pivot_table(index="number", columns="who", values=column)
    pairs = wide[[new, now]].dropna().to_numpy()
    chosen = np.random.default_rng(0).integers(0, len(pairs), (N_BOOTSTRAPS, len(pairs)))
    means = pairs[chosen].mean(axis=1)
    low, high = np.quantile(means[:, 0] / means[:, 1], [0.025, 0.975])
    return float(pairs[:, 0].mean() / pairs[:, 1].mean()), float(low), float(high)


def rows_of(kind: str, table: pd.DataFrame) -> list[Row]:
    """What was measured of a kind, per ratio of sizes."""
    rows = []
    for ratio, at in table.groupby("ratio"):
        by = {who: rows_ for who, rows_ in at.groupby("who")}
        parts = [ratio_words(at, "score"), ratio_words(at, "cost")]
        for who in ("today", "surface"):
            one = by[who]
            rms = math.sqrt((one["error"].dropna() ** 2).mean())
            parts.append(
                f"{who}: refused {one['refused'].mean():.2f}, rms {rms:.2f}, held "
                f"{one['held'].mean():.2f}, width {one['width'].median():.2f}, cost "
                f"{100 * one['cost'].mean():.2f} %"
            )
        parts += [_agreement(by["surface"])]
        rows.append(Row(part=kind, figure=f"at {ratio:g} times", reached="; ".join(parts)))
    return rows


def _agreement(table: pd.DataFrame) -> str:
    """Predicted over true excess, and divergence seen over predicted, of what was answered."""
    said = table[~table["refused"].astype(bool)]
    ends = said[said["diverged"] < 1]
    if ends.empty:
        return "nothing to compare"
    text = (
        f"predicted {ends['predicted'].sum() / max(ends['excess'].sum(), 1e-9):.2f} × the excess"
    )
    seen, expected = said["diverged"].sum(), said["chance"].sum()
    if expected >= FEWEST_DIVERGED:
        text += f"; diverged {seen / expected:.2f} × the chance"
    return text


def pooled_rows(name: str, table: pd.DataFrame) -> list[Row]:
    """The same over several kinds: medians of their ratios, and shares over all sweeps."""
    rows = []
    for ratio, at in table.groupby("ratio"):
        kinds = [of_kind for _, of_kind in at.groupby("kind")]
        parts = []
        for column in ("score", "cost"):
            ratios = [ratio_of(of_kind, column)[0] for of_kind in kinds]
            parts.append(f"{column} {np.median(ratios):.2f} × (median of {len(kinds)} kinds)")
        for who, own in sorted(at.groupby("who"), reverse=True):
            held, refused = own["held"].mean(), own["refused"].mean()
            parts.append(f"{who}: refused {refused:.3f}, held {held:.3f}")
        parts.append(_agreement(at[at["who"] == "surface"]))
        rows.append(Row(part=name, figure=f"at {ratio:g} times", reached="; ".join(parts)))
    return rows


def kinds_in(names: Iterable[str]) -> list[str]:
    """Kinds by their names or their groups'."""
    return list(dict.fromkeys(kind for name in names for kind in GROUPS.get(name, (name,))))


def parser_of(
    doc: str, kinds: Sequence[str], others: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """Options of these benchmarks: by default all kinds; others may be named."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--draws", type=int, default=1)
    known = dict.fromkeys([*kinds, *others])
    parser.add_argument("--only", nargs="+", default=kinds, metavar="KIND", choices=known)
    parser.add_argument("--workers", type=int, default=2)
    return parser


def tables_of(
    given: argparse.Namespace, measure: Callable[..., list[dict[str, Any]]]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows measured of so many sweeps of every kind, kind by kind."""
    with ProcessPoolExecutor(given.workers) as pool:
        for kind in kinds_in(given.only):
            tasks = [(kind, number) for number in range(given.n)]
            found = pool.map(partial(measure, draws=given.draws), tasks, chunksize=4)
            yield kind, pd.DataFrame([row for rows in found for row in rows])


def main() -> None:
    """Draw, fit and print."""
    parser = parser_of(__doc__, KINDS, GROUPS)
    parser.add_argument("--table", type=Path, help="write one row per sweep, size and estimator")
    parser.add_argument("--today", type=Path, help="such a table: take today's rows from it")
    given, tables = parser.parse_args(), []
    for kind, table in tables_of(given, partial(measure, known=given.today)):
        print_rows(rows_of(kind, table))
        tables.append(table)
        if given.table:
            pd.concat(tables).to_csv(given.table, index=False)
    table = pd.concat(tables)
    for name, kinds in POOLS.items():
        chosen = table[table["kind"].isin(kinds)]
        if chosen["kind"].nunique() > 1:
            print_rows(pooled_rows(name, chosen))


if __name__ == "__main__":
    main()
