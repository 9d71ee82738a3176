"""Losses over parameters and tokens: published ladders, small runs fitted, larger ones forecast.

Splits are made by a rule that knows no result: of each table the runs up to a quarter, a 16th, a
64th and a 256th of the largest compute (6 N D) are fitted, or those up to a third and a tenth of
the most parameters, or up to a quarter of the most tokens, and all others are forecast. Short
ladders begin at a quarter or a 16th of where they end, and are judged up to 30 times that. A split
needs three different values of each column and eight runs below, and three runs above.

Coverage and scores are means over a split's runs, then over a source's splits; each source counts
alike. "Starved" is a run more than 3 % above the best of its budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.optima import SIZES, step_law
from benchmarks.rows import DATA, gadre_sets, require
from benchmarks.scores import Table, score_all
from extrap.fitting.mixture import count_sizes

BY_COMPUTE, BY_PARAMS, BY_TOKENS = (4, 16, 64, 256), (3, 10), (4,)
SPANS, FARTHEST = (4, 16), 30
LEAST_FITTED, LEAST_SIZES, LEAST_AHEAD = 8, 3, 3
PORIAN = tuple(
    f"{data}|{rest}"
    for data in ("rw", "owt2")
    for rest in (
        "base|short|kaplan|standard|val",
        "base|short|chinchilla|standard|val",
        "tuned|short|const|standard|val",
    )
)
"""Settings with a short warm-up and all parameters counted."""
STARVED = 0.03
ROUNDED = 1.001


def ladders(data: Path = DATA) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Source, name and runs (`params`, `tokens`, `loss`) of each published ladder."""
    for name, runs in gadre_sets(data).items():
        yield "Gadre", name, runs[~runs["long_warmup"]]
    gemstones = pd.read_csv(require(data, "gemstones.csv"))
    for cooldown, runs in gemstones.groupby("cooldown"):
        yield "Gemstones", f"cooldown, {cooldown}", runs
    schedules = pd.read_csv(require(data, "schedules_slimpajama.csv")).rename(
        columns={"val_loss": "loss"}
    )
    schedules = schedules[schedules["dataset"] == "slimpajama"]
    for name, schedule, cooldown in (("cosine", "cos", 0.0), ("WSD", "wsd", 0.2)):
        runs = schedules[
            (schedules["schedule"] == schedule) & np.isclose(schedules["cooldown"], cooldown)
        ]
        yield "SlimPajama", name, runs.groupby([*SIZES], as_index=False)["loss"].min()
    porian = pd.read_csv(require(data, "porian_formll.csv"))
    for task in PORIAN:
        yield "Porian", task, porian[porian["task"] == task]
    chinchilla = pd.read_csv(require(data, "chinchilla_epoch.csv"))
    yield "Chinchilla", "digitised", chinchilla[chinchilla["epoch_outlier"] == 0]
    sweep = step_law(data)
    trained = sweep[sweep["loss"] < np.inf]
    yield "Step Law", "best", trained.groupby([*SIZES], as_index=False)["loss"].min()


def splits(source: str, name: str, runs: pd.DataFrame) -> Iterator[Table]:
    """The splits of a ladder, by compute, parameters and tokens."""
    runs = runs[[*SIZES, "loss"]].astype(float).reset_index(drop=True)
    compute = runs["params"] * runs["tokens"]
    most = compute.max()
    cuts = {f"compute / {share}": (compute, share, compute >= 0) for share in BY_COMPUTE}
    for column, shares in {"params": BY_PARAMS, "tokens": BY_TOKENS}.items():
        cuts |= {f"{column} / {share}": (runs[column], share, compute >= 0) for share in shares}
    for share, span in itertools.product(BY_COMPUTE, SPANS):
        end = most / share * ROUNDED
        near = (compute > end / span) & (compute <= FARTHEST * end)
        cuts[f"compute / {share}, of / {share * span}"] = (compute, share, near)
    for cut, (values, share, kept) in cuts.items():
        below = values <= values.max() / share * ROUNDED
        fitted, ahead = runs[below & kept], runs[~below & kept]
        if (
            len(fitted) >= LEAST_FITTED
            and len(ahead) >= LEAST_AHEAD
            and count_sizes(fitted[[*SIZES]].to_numpy()) >= LEAST_SIZES
        ):
            yield Table(f"{name}, {cut}", source, SIZES, fitted, ahead)


def all_splits(data: Path = DATA) -> list[Table]:
    """Every split of every ladder."""
    return [table for ladder in ladders(data) for table in splits(*ladder)]
