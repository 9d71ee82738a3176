"""extrap against what a user would take instead, on the same splits: `reports/against.html`.

`make backtest` writes the page; `benchmarks.against_sets` makes the sets of splits.

In each set a method is compared with extrap on the splits that both forecast. The figure of a
cluster is the mean over its splits, and that of the set is the mean over clusters. The difference
has a 95 % interval by Student's t over the clusters, of jackknife pseudo-values; of a mean this is
the paired t interval. Where the interval holds 0, the two are tied. Fewer than three clusters are
not compared. Of an interval that holds too often or too rarely the distance to 90 % is compared,
and of a bias its size. A width is no merit by itself, because the interval score judges both.
An infinite figure is worse than any finite one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import peers, target_search
from benchmarks.scores import LEVEL
from extrap.fitting.means import paired_mean
from extrap.reporting import html
from extrap.reporting.blocks import Answer, Block, Details, Page, Paragraph
from extrap.reporting.tables import Colored, Table
from extrap.reporting.text import blocks_text

OURS = "extrap"
LEAST_CLUSTERS = 3
CONFIDENCE = 0.95
"""Level of the interval of a difference."""
KEYS = ["cluster", "ladder", "split"]
OURS_BETTER, PEER_BETTER, TIE = "extrap better", "peer better", "tie"
COLORS = {OURS_BETTER: "good", PEER_BETTER: "bad", TIE: ""}
SIGNS = {OURS_BETTER: "▼", PEER_BETTER: "▲", TIE: "="}


class Column(NamedTuple):
    """Describes a figure of a method.

    Attributes:
        heading: Heading of its column.
        loss_of: Turns means over clusters into what is to be small.
        is_counted: Whether the answer counts it.
    """

    heading: str
    loss_of: Callable[[Any], Any]
    is_counted: bool = False


COLUMNS = {
    "error": Column("error", lambda mean: mean, is_counted=True),
    "bias": Column("bias", np.abs),
    "held": Column("90 % intervals hold", lambda mean: np.abs(mean - LEVEL)),
    "width": Column("median width", lambda mean: mean),
    "score": Column("interval score", lambda mean: mean, is_counted=True),
    "extra": Column("extra loss", lambda mean: mean, is_counted=True),
    "seconds": Column("processor seconds", lambda mean: mean),
}
UNJUDGED = ("width",)
MEDIANS = ("seconds", "width")
"""Columns of which a median over splits is shown."""
WIDEST = 10.0


class SplitSet(NamedTuple):
    """Holds splits on which methods are compared.

    Attributes:
        title: What they are.
        note: What the error is a mean of, what the clusters are, and why a set is not counted.
        scores: One row per split and method: `cluster`, `ladder`, `split`, `method` and columns.
        data: The data sets behind it.
        unit: Unit of errors and widths: "%" of logarithms, or "octaves".
        is_counted: Whether the answer counts it. A set is left out whose clusters share their
            runs, or whose data another counted set has.
    """

    title: str
    note: str
    scores: pd.DataFrame
    data: tuple[str, ...] = ()
    unit: str = "%"
    is_counted: bool = True

    @property
    def peers(self) -> list[str]:
        """Lists the other methods."""
        return [method for method in self.scores["method"].unique() if method != OURS]


class Comparison(NamedTuple):
    """Compares a method with extrap in one figure, on the splits that both have.

    Attributes:
        difference: The method's less ours, of what is to be small, with its 95 % interval.
        verdict: Who is better.
    """

    difference: tuple[float, float, float]
    verdict: str


def cluster_means(scores: pd.DataFrame, column: str) -> pd.Series:
    """Take means of one method over splits, then over ladders, by cluster."""
    by_ladder = scores.groupby(["cluster", "ladder"], sort=False)[column].mean()
    return by_ladder.groupby("cluster", sort=False).mean()


def on_common_splits(scores: pd.DataFrame, method: str, column: str) -> list[pd.DataFrame]:
    """Select the rows of extrap, and those of a method, where both have a figure."""
    present = scores.dropna(subset=column)
    pair = [present[present["method"] == name].set_index(KEYS) for name in (OURS, method)]
    common = pair[0].index.intersection(pair[1].index)
    return [own.loc[common].reset_index() for own in pair]


def compare(scores: pd.DataFrame, method: str, column: str) -> Comparison | None:
    """Compare a method with extrap; None where too few clusters have both."""
    pair = on_common_splits(scores, method, column)
    means = np.column_stack([cluster_means(own, column).astype(float) for own in pair])
    if len(means) < LEAST_CLUSTERS:
        return None
    difference = difference_of(means, COLUMNS[column].loss_of)
    return Comparison(difference, verdict_of(difference))


def difference_of(means: np.ndarray, loss_of: Callable[[Any], Any]) -> tuple[float, float, float]:
    """Subtract the first method's loss from the second one's; with an interval.

    Args:
        means: Means of the two methods by cluster, (n, 2).
        loss_of: Turns means over clusters into losses.
    """

    def difference(rows: np.ndarray) -> float:
        ours, theirs = loss_of(rows.mean(axis=0))
        return 0.0 if ours == theirs else float(theirs - ours)  # two infinite losses are equal

    n, whole = len(means), difference(means)
    if not np.isfinite(means).all():
        return whole, whole, whole
    others = np.array([difference(np.delete(means, i, axis=0)) for i in range(n)])
    found = paired_mean(n * whole - (n - 1) * others, level=CONFIDENCE)
    assert found.value is not None
    assert found.ci.lower is not None
    assert found.ci.upper is not None
    return found.value, found.ci.lower, found.ci.upper


def verdict_of(difference: tuple[float, float, float]) -> str:
    """Say who is better by an interval of the method's loss less ours."""
    _, low, high = difference
    if low > 0:
        return OURS_BETTER
    return PEER_BETTER if high < 0 else TIE


def faster(scores: pd.DataFrame, method: str) -> str:
    """Say who takes less processor time; times of packages are of another environment."""
    ours, theirs = (own["seconds"].median() for own in on_common_splits(scores, method, "seconds"))
    if not np.isfinite([ours, theirs]).all():
        return TIE
    return PEER_BETTER if theirs < ours else OURS_BETTER


def _shown(scores: pd.DataFrame, column: str, unit: str) -> str:
    """Write the figure of one method."""
    figures = scores[column] if column in MEDIANS else cluster_means(scores, column)
    value = float(figures.median() if column in MEDIANS else figures.mean())
    if not np.isfinite(value):
        return "-∞" if value < 0 else "∞"
    if column == "held":
        return f"{value:.0%}"
    if column == "seconds":
        return f"{value:.2g}" if value < 10 else f"{value:.0f}"
    if column == "extra" or (unit == "%" and column != "score"):
        sign = "+" if column == "bias" and value > 0 else ""
        if value > WIDEST:
            return f"> {100 * WIDEST:g} %"
        return f"{sign}{100 * value:.3g} %"
    return f"{value:.3g}"


def _cell(set_: SplitSet, method: str, column: str) -> str:
    """Write the figure of a method where extrap has one too, marked by who is better."""
    scores, unit = set_.scores.dropna(subset=column), set_.unit
    own, ours = (scores[scores["method"] == name] for name in (method, OURS))
    if own.empty:
        return "–"
    common_ours, common = on_common_splits(scores, method, column)
    if method == OURS or common.empty:
        return _shown(own, column, unit)
    text, there = _shown(common, column, unit), _shown(common_ours, column, unit)
    if there != _shown(ours, column, unit):
        text += f"\nextrap there {there}"
    if column == "seconds":
        verdict = faster(scores, method)
        words = "peer faster" if verdict == PEER_BETTER else "extrap faster"
    elif column in UNJUDGED or (comparison := compare(scores, method, column)) is None:
        return text
    else:
        words = verdict = comparison.verdict
    return Colored(f"{text}\n{SIGNS[verdict]} {words}", COLORS[verdict])


def table_of(set_: SplitSet) -> Table:
    """Make one row per method, extrap first."""
    scores = set_.scores
    columns = [c for c in COLUMNS if c in scores and scores[c].notna().any()]
    n_splits = scores.loc[scores["method"] == OURS, "split"].nunique()
    rows = []
    for method in (OURS, *set_.peers):
        own = scores[scores["method"] == method]
        judged = own[own[columns].drop(columns="seconds", errors="ignore").notna().any(axis=1)]
        n, name = judged["split"].nunique(), method
        if n < n_splits:
            name += f"\n{n} of {n_splits} splits"
        rows.append([name, *(_cell(set_, method, column) for column in columns)])
    unit = "" if set_.unit == "%" else f", {set_.unit}"
    headings = [COLUMNS[c].heading + unit * (c in ("error", "bias", "width")) for c in columns]
    return Table(set_.title, ("method", *headings), rows, set_.note)


class Count(NamedTuple):
    """Counts who is better in a figure; says where a peer is, and which data were compared."""

    n: int
    ours: int
    peer: int
    where: tuple[str, ...]
    data: frozenset[str]


def count_verdicts(sets: Iterable[SplitSet], column: str) -> Count:
    """Count the comparisons of all sets and methods."""
    compared = [
        (set_, method, comparison.verdict)
        for set_ in sets
        if column in set_.scores
        for method in set_.peers
        if (comparison := compare(set_.scores, method, column))
    ]
    verdicts = [verdict for *_, verdict in compared]
    return Count(
        len(verdicts),
        verdicts.count(OURS_BETTER),
        verdicts.count(PEER_BETTER),
        tuple(f"{set_.title}: {method}" for set_, method, v in compared if v == PEER_BETTER),
        frozenset(name for set_, *_ in compared for name in set_.data),
    )


NOUNS = {"error": "errors", "score": "interval scores", "extra": "extra losses"}


def answer(sets: Sequence[SplitSet]) -> Answer:
    """Say how often extrap is better and how often a peer is, over the sets that are counted."""
    counted = [set_ for set_ in sets if set_.is_counted]
    counts = {c: count_verdicts(counted, c) for c, column in COLUMNS.items() if column.is_counted}
    n, ours, peer = (
        sum(getattr(c, name) for c in counts.values()) for name in ("n", "ours", "peer")
    )
    if not n:
        return Answer(text="No comparison that counts was measured.", color="warn")
    n_data, n_ties = len(frozenset().union(*(c.data for c in counts.values()))), n - ours - peer
    ties = "1 is a tie" if n_ties == 1 else f"{n_ties} are ties"
    each = "; ".join(
        f"{c.ours} of {c.n} {NOUNS[name]}, a peer in {c.peer}" for name, c in counts.items() if c.n
    )
    return Answer(
        text=f"extrap is better in {ours} of {n} comparisons, a peer in {peer}, {ties} ({each}). "
        f"{n_data} data set{'s' * (n_data != 1)} stand{'s' * (n_data == 1)} behind them.",
        color="warn" if peer else "good",
    )


def peer_wins(sets: Sequence[SplitSet]) -> list[Block]:
    """Name where a peer is better, in all sets, and say how often one is faster."""
    lines: list[Block] = []
    for name, noun in NOUNS.items():
        if where := count_verdicts(sets, name).where:
            lines.append(Paragraph(f"A peer is better in {noun}: {'; '.join(where)}."))
    if not lines:
        lines.append(Paragraph("In no comparison of these is a peer better."))
    timed = [
        faster(set_.scores, method) for set_ in sets if set_.is_counted for method in set_.peers
    ]
    n_peer, n = timed.count(PEER_BETTER), len(timed) - timed.count(TIE)
    if n:
        lines.append(Paragraph(f"A peer is faster in {n_peer} of {n} comparisons of times."))
    return lines


def page_of(sets: Sequence[SplitSet]) -> Page:
    """Make the page."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Page(
        kind="benchmark",
        title="extrap against the others",
        question="Is extrap better than what you would take instead?",
        created=created,
        blocks=(
            answer(sets),
            *peer_wins(sets),
            Paragraph(
                "All methods forecast the same splits: small runs are fitted, larger ones "
                "forecast. A method's figure is of the splits that it and extrap forecast; where "
                "extrap's own figure differs there, it stands beside it. "
                f"{SIGNS[PEER_BETTER]} marks a figure in which the method is better than extrap, "
                f"{SIGNS[OURS_BETTER]} one in which extrap is, {SIGNS[TIE]} a tie: the 95 % "
                "interval of the difference, by Student's t over clusters, holds 0. Fewer than "
                "three clusters are not compared. The answer counts each data set once per kind "
                "of forecast and figure; the note of a set that is not counted says why. Errors "
                "are of the log loss unless a note says otherwise. Priors and settings of extrap "
                "were chosen with most of these runs in sight; those of the others were not."
            ),
            *map(table_of, sets),
            Details("Methods", [Paragraph(text) for text in METHODS_TEXT]),
        ),
        made_by="make backtest",
    )


METHODS_TEXT = (
    *(
        f"{name} {peers.VERSIONS[name]}: {setting}. Measured by `make peers`, which writes "
        "benchmarks/peers.csv; its times are of that environment."
        for name, setting in peers.SETTINGS.items()
    ),
    "vpnls' law: E + Σ A_i x_i^-a_i, non-negative least squares of the losses for E and A over a "
    "grid of exponents, then L-BFGS-B (Czech 2026). It gives no interval.",
    "Straight line: least squares of ln loss over ln sizes, with its own t interval of a new run.",
    "Least squares: the laws of Hoffmann et al. 2022 in logarithms, without a prior or interval.",
    "M4: Alabdulmohsin et al. 2022, by the authors' code. BNSL: a broken power law (Caballero et "
    "al. 2023).",
    (target_search.__doc__ or "").partition("\n\n")[2].replace("\n", " "),
    "Processor seconds: the median of one split, one thread, all its larger runs; of one machine.",
)


def write(sets: Sequence[SplitSet], path: Path) -> None:
    """Print the tables and write the page, unless nothing was measured."""
    if not sets:
        sys.stdout.write("against.html: left out, no set of splits was measured\n")
        return
    page = page_of(sets)
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(blocks_text(page.blocks) + "\n")
    html.write_page(page, path)
