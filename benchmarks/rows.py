"""A figure: what was to be reached, and what was; and the published tables it was measured on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

ROOT = Path(__file__).parents[1]
DOWNLOADED = ROOT / "data"
"""Published measurements as `make data` fetches them; no part of the project."""
FOLDERS = (DOWNLOADED, ROOT.parent / "shared" / "data")
"""Where published measurements may be."""
DATA = max(FOLDERS, key=lambda folder: len(list(folder.glob("*.csv"))))
"""Of the two the folder with more tables."""
SEQUENCE = 2048
"""Tokens a sequence in Gadre et al."""
LONG_WARMUP = 0.5
"""Share of a run's steps."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Holds one line of the table.

    Attributes:
        part: The data or simulation it is about.
        figure: What was measured.
        beat: What others, or the trivial answer, reach.
        target: What was to be reached, in words.
        reached: What was reached, in words.
        met: Whether that is the target; None for a row without one.
        note: What to know before believing it.
    """

    part: str
    figure: str
    beat: str = ""
    target: str = ""
    reached: str
    met: bool | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Says whether the target is met or missed."""
        return {True: "met", False: "MISSED", None: "no target"}[self.met]


def share_row(
    part: str,
    figure: str,
    hits: Iterable[Any],
    *,
    least: float | None = None,
    most: float | None = None,
    **more: str,
) -> Row:
    """Compare the share of cases that is hit, with Wilson's 95 % interval, with its targets."""
    values = np.fromiter(hits, dtype=float)
    share, targets = float(values.mean()), []
    low, high = proportion_confint(values.sum(), len(values), method="wilson")
    targets += [f"≥ {100 * least:g} %"] if least is not None else []
    targets += [f"≤ {100 * most:g} %"] if most is not None else []
    return Row(
        part=part,
        figure=figure,
        target=", ".join(targets),
        reached=f"{share:.1%} ({low:.1%} to {high:.1%}) of {len(values)}",
        met=(least or 0.0) <= share <= (1.0 if most is None else most) if targets else None,
        **more,
    )


def table_path(data: Path, name: str) -> Path:
    """Say where a published table is, or would be.

    One of `FOLDERS` is completed by the other; tables that the project ships are beside this file.
    """
    others = FOLDERS if data in FOLDERS else ()
    paths = [folder / name for folder in (data, *others, Path(__file__).parent)]
    return next((path for path in paths if path.is_file()), paths[0])


def require(data: Path, name: str) -> Path:
    """Give the path of a published table.

    Raises:
        FileNotFoundError: It is not there.
    """
    path = table_path(data, name)
    if not path.is_file():
        raise FileNotFoundError(f"the published table {path} is missing")
    return path


def learning_curves(data: Path) -> dict[str, pd.DataFrame]:
    """Read the 92 curves: curve → its rows by `seen_examples`."""
    table = pd.read_csv(require(data, "alabdulmohsin_bench.csv")).sort_values("seen_examples")
    return {str(name): curve for name, curve in table.groupby("curve_id")}


def chinchilla(data: Path) -> pd.DataFrame:
    """Read the digitised runs without the five with the fewest tokens per parameter."""
    table = pd.read_csv(require(data, "chinchilla_epoch.csv"))
    return table[table["epoch_outlier"] == 0]


def gadre_sets(data: Path) -> dict[str, pd.DataFrame]:
    """Read Gadre's runs: training set → its runs by C4's validation loss, smallest first.

    `long_warmup` marks runs whose warm-up takes at least half of their steps. The largest run's
    batch size is given as 1, which is wrong; at any plausible one its warm-up is short.
    """
    table = pd.read_csv(require(data, "gadre_mlfoundations.csv"))
    table = table[table["val_set"].str.startswith("c4_val")].sort_values(["params", "tokens"])
    steps = table["tokens"] / (table["batch_size_seqs"] * SEQUENCE)
    table["long_warmup"] = table["warmup_steps"] / steps >= LONG_WARMUP
    return {str(name): runs.reset_index(drop=True) for name, runs in table.groupby("task")}
