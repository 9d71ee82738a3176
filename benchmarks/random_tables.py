"""Tables that people may have, made from known laws: are they read right, or asked about?

    python -m benchmarks.random_tables [--n 2000] [--seed 0] [--show OUTCOME]

Half of the tables are sweeps of learning rates over widths, with columns renamed, reordered,
dropped and duplicated, cells as text or in other units, other settings that vary, runs that
failed. Half are of one further kind each: units, logarithms, ratios and symbols in the headers,
compute as an axis, text in the losses, layouts. They are read without any option.

| outcome | is |
|---|---|
| right, wrong | the loss, the best value or the allocation is within 3 half-widths of the truth |
| …, warned | a flag, a warning or a refusal of a number goes with it |
| asked, refused | an error with choices, without |
| crash | any other exception |
"""

from __future__ import annotations

import argparse
import io
import math
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.table_kinds import (
    CHANGES,
    HEADERS,
    LAYOUTS,
    WIDE,
    Sweep,
    data_table,
    rate_sweep,
    rename,
)
from extrap.errors import DataError, ExtrapError

HALF_WIDTHS = 3.0
MOST_WRONG, MOST_REFUSED = 0.002, 0.05
OF_ANY_TABLE = (
    *("flat-", "no-replicates", "published-prior", "too-few-sizes", "floor-matters", "isoflop"),
    *("imprecise-loss", "far-extrapolation", "exponent-weakly-identified"),
)
"""Beginnings of flags that sound tables have as well: they warn of no mistake in reading."""
LEAST_OFF = math.log(1.5)
"""Log ratio below which no allocation counts as wrong."""


def random_table(number: int, seed: int) -> tuple[str, Sweep]:
    """The kind and the table of a number; the same whatever was made before it."""
    rng = np.random.default_rng([seed, number])
    kinds = [*HEADERS, *LAYOUTS]
    kind = kinds[number // 2 % len(kinds)] if number % 2 else "sweeps of rates"
    if kind in HEADERS:
        return kind, data_table(rng, kind)
    sweep = rate_sweep(rng)
    if kind in LAYOUTS:
        LAYOUTS[kind](sweep)
        sweep.names = {"rate": "lr", "loss": "loss"}
        sweep.table = sweep.table.rename(columns={"rate": "lr"})
        if sweep.table.get("seed", pd.Series([0])).nunique() == 1:
            sweep.table = sweep.table.drop(columns="seed", errors="ignore")
        return kind, sweep
    for share, change in CHANGES:
        if rng.random() < share:
            change(sweep)
    rename(sweep)
    return kind, sweep


def judge(sweep: Sweep, folder: Path) -> tuple[str, str]:
    """How it was answered, `refused`, `right`, `wrong, warned` and so on, and in which words."""
    text = io.StringIO()
    sweep.table.to_csv(text, index=False)
    path = folder / "table.csv"
    path.write_text(sweep.title + text.getvalue(), encoding="utf-8")
    answer = _allocated if sweep.is_allocated else _forecast
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_off, is_warned, told = answer(sweep, path)
    except DataError as error:
        return "asked" if error.choices else "refused", str(error)
    except ExtrapError as error:
        return "refused", str(error)
    except Exception as error:  # a benchmark of all that can happen
        return "crash", f"{type(error).__name__}: {error}"
    return f"{'wrong' if is_off else 'right'}{', warned' * is_warned}", told


def _forecast(sweep: Sweep, path: Path) -> tuple[bool, bool, str]:
    """Whether a forecast is wrong, whether it warns, and its words."""
    forecast = extrap.forecast(path)
    frame, sizes = forecast.runs.to_frame(), forecast.runs.sizes
    by = {"n_params": 4.0, "flops": 8.0}  # of twice the width
    target = {c: by.get(c, 2.0) * frame[c].max() for c in sizes}
    target |= {c: frame[c].max() + 1 for c in sizes if c.startswith("log2")}
    if sweep.quantities:
        target = {c: 2 * frame[c].max() for c in sizes}
    point = forecast.at(**target)
    flags = [f for f in (*forecast.flags, *point.flags) if not f.startswith(OF_ANY_TABLE)]
    best: dict[str, float] = {}
    if sweep.quantities:
        losses, best = _truths(sweep, frame, target, forecast.runs.tuned)
    else:
        width = 2 * sweep.largest
        losses = [sweep.loss_at(width) * math.exp(offset) for offset in sweep.offsets]
        rates = (name for name in point.tuned if sweep.names["rate"].endswith(name))
        best = {name: sweep.rate_at(width) for name in rates}
        best |= {name: by * sweep.rate_at(width) for name, by in SPLIT if name in point.tuned}
    is_off = point.loss is not None and not losses
    is_off |= _is_off(point.loss, point.loss_pi, losses)
    tuned = point.tuned
    is_off |= any(_is_off(tuned[n].value, tuned[n].pi, [true]) for n, true in best.items())
    told = f"size {sizes}, tuned {dict(tuned)} (true {best}), at {target} loss {point.loss} "
    is_warned = bool(flags) or point.loss is None or bool(point.refusals)
    return is_off, is_warned, f"{told} {point.loss_pi} (true {losses or 'unknown'})"


SPLIT = (("adam_lr", 1.0), ("sgd_lr", 10.0))
"""Rates of two optimizers → how many times the best rate of the first their best one is."""


def _truths(
    sweep: Sweep, frame: pd.DataFrame, target: dict[str, float], tuned: Sequence[str]
) -> tuple[list[float], dict[str, float]]:
    """The loss at a target, none where the sizes leave it open, and the best tuned values."""
    known = {}
    for column, value in target.items():
        if (meaning := _meaning(frame[column].to_numpy(float), sweep)) is not None:
            known[meaning[0]] = meaning[1](value)
    params = known.get("N", WIDE * known["width"] ** 2 if "width" in known else None)
    tokens, flops, ratio = (known.get(name) for name in ("D", "C", "ratio"))
    best = {}
    if flops and len(known) == 1 and len(tuned) == 1:
        params = sweep.best_params(flops)
        meaning = _meaning(frame[tuned[0]].to_numpy(float), sweep)
        if meaning is not None and meaning[0] in ("N", "width"):
            best[tuned[0]] = params if meaning[0] == "N" else math.sqrt(params / WIDE)
    if flops and ratio:
        params = math.sqrt(flops / 6 / ratio)
    if params and tokens is None:
        tokens = flops / 6 / params if flops else params * ratio if ratio else None
    elif tokens and params is None:
        params = flops / 6 / tokens if flops else tokens / ratio if ratio else None
    return [sweep.loss_of(params, tokens)] if params and tokens else [], best


def _meaning(
    values: NDArray[np.float64], sweep: Sweep
) -> tuple[str, Callable[[float], float]] | None:
    """Which quantity a column holds, and its value from what the column would hold."""
    for name, true in sweep.quantities.items():
        for unit in (1.0, 1e3, 1e6, 1e9, 1e12):
            if _holds(values, true / unit):
                return name, lambda value, unit=unit: value * unit
        for base in (2.0, math.e, 10.0):
            if _holds(values, np.log(true) / math.log(base)):
                return name, lambda value, base=base: base**value
    return None


def _holds(values: NDArray[np.float64], true: NDArray[np.float64]) -> bool:
    alike = np.isclose(values[:, None], np.unique(true)[None, :], rtol=1e-5)
    return bool(alike.any(axis=1).all())


def _allocated(sweep: Sweep, path: Path) -> tuple[bool, bool, str]:
    """Whether an allocation is wrong, whether it warns, and its words."""
    budget = 100 * float(sweep.quantities["C"].max())
    found, true = extrap.allocate(path, flops=budget), sweep.best_params(budget)
    pairs = [(found.params, true), (found.tokens, budget / 6 / true)]
    is_off = any(e.value and abs(math.log(e.value / t)) > LEAST_OFF for e, t in pairs)
    told = f"params {found.params}, tokens {found.tokens} at {budget:.3g} (true {true:.4g})"
    flags = [flag for flag in found.warnings if not flag.startswith(OF_ANY_TABLE)]
    return is_off, bool(flags or found.refused), told


def _is_off(value: float | None, interval: Sequence[float | None], truths: list[float]) -> bool:
    low, high = interval
    if value is None or low is None or high is None:
        return False
    return all(abs(value - truth) > HALF_WIDTHS * (high - low) / 2 for truth in truths)


def rows(n: int, seed: int, show: str) -> list[Row]:
    """What became of `n` tables, by kind and in all."""
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    sound: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(n):
            kind, sweep = random_table(number, seed)
            outcome, told = judge(sweep, Path(folder))
            by_kind[kind][outcome] += 1
            if sweep.is_sound:
                sound[outcome] += 1
            is_refused = outcome in ("asked", "refused")
            if outcome == show or (show == "sound" and sweep.is_sound and is_refused):
                sys.stdout.write(f"{number}: {'; '.join(sweep.kinds)} ({sweep.names}): {told}\n\n")
    every = sum(by_kind.values(), Counter[str]())
    wrong = (every["wrong"] + every["crash"]) / n
    refused = (sound["asked"] + sound["refused"]) / max(sound.total(), 1)
    listed = [
        Row(part=f"{n} tables, seed {seed}", figure=kind, reached=_counted(outcomes))
        for kind, outcomes in by_kind.items()
    ]
    return [
        *listed,
        Row(
            part=f"{n} tables, seed {seed}",
            figure="all: wrong without a warning, or a crash",
            target=f"≤ {MOST_WRONG:.1%}",
            reached=f"{wrong:.2%}; {_counted(every)}",
            met=wrong <= MOST_WRONG,
        ),
        Row(
            part=f"{sound.total()} sound tables",
            figure="asked or refused",
            target=f"≤ {MOST_REFUSED:.0%}",
            reached=f"{refused:.1%}; {_counted(sound)}",
            met=refused <= MOST_REFUSED,
        ),
    ]


def _counted(outcomes: Counter[str]) -> str:
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))


def main() -> None:
    """Read the tables and print both figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", default="", help="an outcome, or sound: refused sound tables")
    given = parser.parse_args()
    print_rows(rows(given.n, given.seed, given.show))


if __name__ == "__main__":
    main()
