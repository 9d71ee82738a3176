"""One loss per compute: envelopes of published ladders, small sizes fitted, larger ones forecast.

    python -m benchmarks.envelopes

Envelopes are made by a rule that knows no result: of each table the run with the lowest loss in
each doubling of compute (6 N D). Five to eight of these in a row are fitted, and those 2 to 5 and
14 to 70 times above the last fitted one are forecast. A ladder gives at most three windows: the
first, the middle and the last one that has something to forecast, as long as it can be. Coverage
and widths are of the 90 % interval of a new run; each source counts alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.ladders import ladders
from benchmarks.rows import DATA
from benchmarks.scores import Table

FEWEST, MOST = 5, 8
NEAR, FAR = (2.0, 5.0), (14.0, 70.0)
MOST_WINDOWS = 3


def envelope(runs: pd.DataFrame) -> pd.DataFrame:
    """The best run in each doubling of compute: `compute`, `loss`."""
    compute = 6.0 * runs["params"] * runs["tokens"]
    doubling = np.floor(np.log2(compute / compute.min()) + 0.5)
    best = runs.groupby(doubling)["loss"].idxmin()
    found = pd.DataFrame({"compute": compute[best], "loss": runs["loss"][best]})
    return found.sort_values("compute").reset_index(drop=True)


def windows(source: str, name: str, runs: pd.DataFrame) -> Iterator[Table]:
    """The splits of an envelope."""
    points = envelope(runs.astype({"params": float, "tokens": float}).reset_index(drop=True))
    compute = points["compute"].to_numpy()
    lasts = []
    for last in range(FEWEST - 1, len(points)):
        times = compute / compute[last]
        if any(((times >= low) & (times <= high)).any() for low, high in (NEAR, FAR)):
            lasts.append(last)
    picked = np.unique(np.linspace(0, len(lasts) - 1, MOST_WINDOWS).round().astype(int))
    for last in (lasts[i] for i in picked if lasts):
        times = compute / compute[last]
        ahead = [(times >= low) & (times <= high) for low, high in (NEAR, FAR)]
        yield Table(
            f"{name}, {last + 1}",
            source,
            ("compute",),
            points[max(last + 1 - MOST, 0) : last + 1],
            points[np.any(ahead, axis=0)].assign(times=times[np.any(ahead, axis=0)]),
        )


def all_windows(data: Path = DATA) -> list[Table]:
    """Every window of every published ladder."""
    found = []
    for source, name, runs in ladders(data):
        if source == "Porian":
            source = f"Porian {'tuned' if 'tuned' in name else 'untuned'}"
        found += windows(source, name, runs)
    return found
