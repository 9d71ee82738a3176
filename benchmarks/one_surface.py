"""One surface beside today's estimators, on the same sweeps of a known truth.

    python -m benchmarks.one_surface [--n 200] [--draws 1] [--only KIND …] [--workers 2]
        [--table FILE] [--today FILE]

Kinds of sweeps, and groups of them, are those of `benchmarks.surface_kinds`. A table has one row
per sweep, size and estimator; with `--today` the rows of today's estimators are taken from one.

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
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.surface_kinds import GROUPS, MIXED, MOST, RATIOS, Case, case
from extrap.fitting.one_surface.answers import answer
from extrap.fitting.one_surface.draws import draw
from extrap.fitting.one_surface.surface import fit_surfaces
from extrap.fitting.one_surface.sweep_arrays import arrays_of

LEVEL = 0.9
REFUSED_WIDTH = 6.0
"""Octaves that a refusal is charged."""
N_BOOTSTRAPS = 1000
FEWEST_DIVERGED = 10.0
"""Runs that must be expected to diverge for their number to be compared."""
KINDS = (*itertools.chain(*GROUPS.values()),)
POOLS = {"all kinds": KINDS, "the mix": MIXED}


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


def surface(case: Case, number: int) -> list[dict[str, Any]]:
    """The same by one surface."""
    runs = extrap.read_runs(case.table, size=case.sizes, tune=case.tuned)
    try:
        surfaces, weights = fit_surfaces(arrays_of(runs))
    except extrap.ExtrapError:
        return [{} for _ in case.targets]
    drawn, _ = draw(surfaces, weights, case.targets, rng=np.random.default_rng(number))
    found = []
    for draws in drawn:
        advised = answer(draws, level=LEVEL)
        ends = [np.array(pair) for pair in zip(advised.low, advised.high, strict=True)]
        said = {"values": advised.values, "ends": ends, "predicted": advised.mistuned}
        said["chance"] = advised.chance
        found.append({} if advised.refusal else said)
    return found


def measure(task: tuple[str, int], *, draws: int, known: pd.DataFrame) -> list[dict[str, Any]]:
    """Scores of both at every target of one sweep; today's are taken from `known` where there."""
    warnings.simplefilter("ignore")
    kind, number = task
    drawn = case(kind, np.random.default_rng([draws, number]))
    key = {"draws": draws, "kind": kind, "number": number}
    old = known[(known[[*key]] == [*key.values()]).all(axis=1)]
    found, rows = {"surface": surface(drawn, number)}, old.to_dict("records")
    if not rows:
        found["today"] = today(drawn)
    elif not np.allclose(old["truth"], drawn.best[:, 0]):
        raise ValueError(f"the known table has another sweep of the kind {kind!r}")
    for who, answers in found.items():
        for i, (ratio, said) in enumerate(zip(RATIOS, answers, strict=True)):
            row = key | {"who": who, "ratio": ratio, "truth": drawn.best[i, 0]}
            rows.append(row | _judged(drawn, i, said) | _scored(drawn, i, said))
    return rows


def _judged(drawn: Case, i: int, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a run at the recommended values truly costs, and what was said of it."""
    values = said.get("values", drawn.kept)
    row = {"refused": not said, "cost": drawn.cost(i, values)}
    if said:
        row |= {"excess": min(drawn.excess(i, values), MOST), "diverged": drawn.chance(i, values)}
    return row | {"predicted": said.get("predicted"), "chance": said.get("chance")}


def _scored(drawn: Case, i: int, said: Mapping[str, Any]) -> dict[str, float]:
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


def ratio_of(table: pd.DataFrame, column: str) -> tuple[float, float, float]:
    """Mean of the surface over that of today, over the same sweeps, with a 95 % interval."""
    wide = table.pivot_table(index="number", columns="who", values=column)
    rng, n = np.random.default_rng(0), len(wide)
    now, new = wide["today"].to_numpy(), wide["surface"].to_numpy()
    chosen = rng.integers(0, n, (N_BOOTSTRAPS, n))
    ratios = new[chosen].mean(axis=1) / now[chosen].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(new.mean() / now.mean()), float(low), float(high)


def rows_of(kind: str, table: pd.DataFrame) -> list[Row]:
    """What was measured of a kind, per ratio of sizes."""
    rows = []
    for ratio, at in table.groupby("ratio"):
        by = {who: rows_ for who, rows_ in at.groupby("who")}
        score, low, high = ratio_of(at, "score")
        parts = [f"score {score:.2f} × ({low:.2f} to {high:.2f})"]
        for who in ("today", "surface"):
            one = by[who]
            rms = math.sqrt((one["error"].dropna() ** 2).mean())
            parts.append(
                f"{who}: refused {one['refused'].mean():.2f}, rms {rms:.2f}, held "
                f"{one['held'].mean():.2f}, width {one['width'].median():.2f}, cost "
                f"{100 * one['cost'].mean():.2f} %"
            )
        parts += [_agreement(by["surface"])]
        cost, low, high = ratio_of(at, "cost")
        parts.append(f"cost {cost:.2f} × ({low:.2f} to {high:.2f})")
        rows.append(Row(part=kind, figure=f"at {ratio:g} times", reached="; ".join(parts)))
    return rows


def _agreement(table: pd.DataFrame) -> str:
    """Predicted over true excess, and divergence seen over predicted, of what was answered."""
    said = table[~table["refused"].astype(bool)]
    ends = said[said["diverged"] < 1]
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


def main() -> None:
    """Draw, fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=KINDS, metavar="KIND")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", type=Path, help="write one row per sweep, size and estimator")
    parser.add_argument("--today", type=Path, help="such a table: take today's rows from it")
    given = parser.parse_args()
    known = pd.DataFrame(columns=["draws", "kind", "number", "who"])
    if given.today:
        known = pd.read_csv(given.today).query("who == 'today'")
    tables = []
    with ProcessPoolExecutor(given.workers) as pool:
        for kind in kinds_in(given.only):
            tasks = [(kind, number) for number in range(given.n)]
            task = partial(measure, draws=given.draws, known=known[known["kind"] == kind])
            found = pool.map(task, tasks, chunksize=4)
            tables.append(pd.DataFrame([row for rows in found for row in rows]))
            print_rows(rows_of(kind, tables[-1]))
            if given.table:
                pd.concat(tables).to_csv(given.table, index=False)
    table = pd.concat(tables)
    for name, kinds in POOLS.items():
        chosen = table[table["kind"].isin(kinds)]
        print_rows(pooled_rows(name, chosen) if chosen["kind"].nunique() > 1 else [])


if __name__ == "__main__":
    main()
