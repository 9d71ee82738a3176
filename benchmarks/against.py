"""extrap against what a user would take instead, on the same splits: `reports/against.html`.

Written by `make backtest`. The scores of extrap are those of its parts, those of packages the ones
of `peers.csv`, the others are measured at once (`benchmarks.peers`, `benchmarks.target_search`).

In each set of splits a method is compared with extrap on the splits that both forecast: the
figure of a cluster is the mean over its splits, that of the set the mean over clusters. The
difference has a 95 % interval over bootstraps of clusters; where it holds 0, or there are fewer
than three clusters, the two are tied. Of an interval that holds too often or too rarely the
distance to 90 % is compared, of a bias its size. A width is no merit by itself: the interval
score judges both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import peers, target_search
from benchmarks.scores import by_table, points_of, with_interval
from extrap.reporting import html
from extrap.reporting.blocks import Answer, Block, Details, Page, Paragraph
from extrap.reporting.tables import Colored, Table
from extrap.reporting.text import blocks_text

OURS = "extrap"
LEAST_CLUSTERS = 3
LEVEL = 0.9
KEYS = ["cluster", "ladder", "split"]
OURS_BETTER, PEER_BETTER, TIE = "extrap better", "peer better", "tie"
COLORS = {OURS_BETTER: "good", PEER_BETTER: "bad", TIE: ""}
SIGNS = {OURS_BETTER: "▼", PEER_BETTER: "▲", TIE: "="}
STUDIES = Path(__file__).parents[1] / "studies"


class Column(NamedTuple):
    """A figure of a method.

    Attributes:
        heading: Of its column.
        badness: Of the mean over clusters: what is to be small.
        counts: Whether it is counted in the answer.
    """

    heading: str
    badness: Callable[[Any], Any]
    counts: bool = False


COLUMNS = {
    "error": Column("error", lambda mean: mean, counts=True),
    "bias": Column("bias", np.abs),
    "held": Column("90 % intervals hold", lambda mean: np.abs(mean - LEVEL)),
    "width": Column("median width", lambda mean: mean),
    "score": Column("interval score", lambda mean: mean, counts=True),
    "extra": Column("extra loss", lambda mean: mean, counts=True),
    "seconds": Column("processor seconds", lambda mean: mean),
}
UNJUDGED = ("width",)
MEDIANS = ("seconds", "width")
"""Columns of which a median over splits is shown."""
WIDEST = 10.0


class SplitSet(NamedTuple):
    """Splits on which methods are compared.

    Attributes:
        title: What they are.
        note: What the error is a mean of, and what the clusters are.
        scores: One row per split and method: `cluster`, `ladder`, `split`, `method` and columns.
        unit: Of errors and widths: "%" of logarithms, or "octaves".
        counts: Whether the answer counts it; not if its splits are those of another set.
    """

    title: str
    note: str
    scores: pd.DataFrame
    unit: str = "%"
    counts: bool = True


class Comparison(NamedTuple):
    """A method against extrap in one figure: the difference of what is to be small, who is better.

    `difference` is the method's less ours, with a 95 % interval.
    """

    difference: tuple[float, float, float]
    verdict: str


def cluster_means(scores: pd.DataFrame, column: str) -> pd.Series:
    """Of one method: means over splits, then over ladders, by cluster."""
    by_ladder = scores.groupby(["cluster", "ladder"], sort=False)[column].mean()
    return by_ladder.groupby("cluster", sort=False).mean()


def compare(scores: pd.DataFrame, method: str, column: str) -> Comparison | None:
    """A method against extrap on the splits that both have; None where there are none."""
    both = scores.dropna(subset=column)
    pair = [both[both["method"] == name].set_index(KEYS) for name in (OURS, method)]
    common = pair[0].index.intersection(pair[1].index)
    if not len(common):
        return None
    means = [cluster_means(own.loc[common].reset_index(), column) for own in pair]
    values, badness = np.column_stack(means), COLUMNS[column].badness
    difference = with_interval(values, lambda m: badness(m[1]) - badness(m[0]))
    return Comparison(difference, verdict_of(difference, len(values)))


def verdict_of(difference: tuple[float, float, float], n_clusters: int) -> str:
    """Who is better by an interval of the method's less ours."""
    _, low, high = difference
    if n_clusters < LEAST_CLUSTERS or low <= 0 <= high or not np.isfinite([low, high]).all():
        return TIE
    return OURS_BETTER if low > 0 else PEER_BETTER


def faster(scores: pd.DataFrame, method: str) -> str:
    """Who takes less processor time per split; times of packages are of another environment."""
    medians = scores.groupby("method")["seconds"].median()
    if not np.isfinite([medians[OURS], medians[method]]).all():
        return TIE
    return PEER_BETTER if medians[method] < medians[OURS] else OURS_BETTER


def _shown(column: str, value: float, unit: str) -> str:
    """A figure in words."""
    if not np.isfinite(value):
        return "–"
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
    own = set_.scores[set_.scores["method"] == method]
    if own[column].isna().all():
        return "–"
    if column in MEDIANS:
        value = float(own[column].median())
    else:
        value = float(cluster_means(own.dropna(subset=column), column).mean())
    text = _shown(column, value, set_.unit)
    if method == OURS or column in UNJUDGED:
        return text
    if column == "seconds":
        verdict = faster(set_.scores, method)
        words = {PEER_BETTER: "peer faster", OURS_BETTER: "extrap faster", TIE: ""}[verdict]
        return Colored(f"{text}\n{SIGNS[verdict]} {words}", COLORS[verdict]) if words else text
    found = compare(set_.scores, method, column)
    if found is None:
        return text
    return Colored(f"{text}\n{SIGNS[found.verdict]} {found.verdict}", COLORS[found.verdict])


def table_of(set_: SplitSet) -> Table:
    """One row per method, extrap first."""
    scores = set_.scores
    columns = [c for c in COLUMNS if c in scores and scores[c].notna().any()]
    methods = [OURS, *(m for m in scores["method"].unique() if m != OURS)]
    n_splits = scores.loc[scores["method"] == OURS, "split"].nunique()
    rows = []
    for method in methods:
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
    """How many comparisons of a figure went which way, and where a peer is better."""

    n: int
    ours: int
    peer: int
    where: tuple[str, ...]


def count(sets: Iterable[SplitSet], column: str) -> Count:
    """Over all sets and methods."""
    verdicts = []
    for set_ in sets:
        if column not in set_.scores:
            continue
        for method in set_.scores["method"].unique():
            if method != OURS and (found := compare(set_.scores, method, column)):
                verdicts.append((f"{set_.title}: {method}", found.verdict))
    words = [verdict for _, verdict in verdicts]
    return Count(
        len(words),
        words.count(OURS_BETTER),
        words.count(PEER_BETTER),
        tuple(name for name, verdict in verdicts if verdict == PEER_BETTER),
    )


NOUNS = {"error": "errors", "score": "interval scores", "extra": "extra losses"}


def answer(sets: Sequence[SplitSet]) -> Answer:
    """How often extrap is better, and where a peer is."""
    sets = [set_ for set_ in sets if set_.counts]
    counts = {c: count(sets, c) for c, column in COLUMNS.items() if column.counts}
    n, ours, peer = (
        sum(getattr(c, name) for c in counts.values()) for name in ("n", "ours", "peer")
    )
    each = "; ".join(
        f"{c.ours} of {c.n} {NOUNS[name]}, a peer in {c.peer}" for name, c in counts.items() if c.n
    )
    return Answer(
        text=f"extrap is better in {ours} of {n} comparisons, a peer in {peer}, {n - ours - peer} "
        f"are ties ({each}).",
        color="warn" if peer else "good",
    )


def worse(sets: Sequence[SplitSet]) -> list[Block]:
    """Where a peer is better, a line per figure, and how often one is faster."""
    lines: list[Block] = []
    for name, noun in NOUNS.items():
        if where := count(sets, name).where:
            lines.append(Paragraph(f"A peer is better in {noun}: {'; '.join(where)}."))
    if not lines:
        lines.append(Paragraph("In no comparison of these is a peer better."))
    timed = [
        faster(set_.scores, method)
        for set_ in sets
        if set_.scores["seconds"].notna().any()
        for method in set_.scores["method"].unique()
        if method != OURS
    ]
    n_peer, n = timed.count(PEER_BETTER), len(timed) - timed.count(TIE)
    if n:
        lines.append(Paragraph(f"A peer is faster in {n_peer} of {n} comparisons of times."))
    return lines


def page_of(sets: Sequence[SplitSet]) -> Page:
    """The page."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Page(
        kind="benchmark",
        title="extrap against the others",
        question="Is extrap better than what you would take instead?",
        created=created,
        blocks=(
            answer(sets),
            *worse(sets),
            Paragraph(
                "The same splits for all methods: small runs are fitted, larger ones forecast. In "
                f"a method's row, {SIGNS[PEER_BETTER]} marks a figure in which it is better than "
                f"extrap, {SIGNS[OURS_BETTER]} one in which extrap is, {SIGNS[TIE]} a tie: the 95 "
                "% interval of the difference, over bootstraps of clusters, holds 0, or there are "
                "fewer than three clusters. Errors are of the log loss. Priors and settings of "
                "extrap were chosen with most of these runs in sight; those of the others were "
                "not."
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
    """Print the tables, write the page; nothing where nothing was measured."""
    if not sets:
        sys.stdout.write("against.html: left out, no set of splits was measured\n")
        return
    page = page_of(sets)
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(blocks_text(page.blocks) + "\n")
    html.write_page(page, path)


# What the parts of `make backtest` measured, as scores of splits.


def _named(frame: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    """With columns of a set of splits."""
    return frame.assign(**columns).reindex(columns=[*KEYS, "method", *COLUMNS])


def _of_tables(found: pd.DataFrame, error: str, **columns: Any) -> pd.DataFrame:
    """Of frames as `scores.by_table` makes them."""
    names = {error: "error", "held_90": "held", "interval_score": "score"}
    return _named(found.rename(columns=names), **columns)


def _with_others(ours: pd.DataFrame, name: str, others: pd.DataFrame) -> pd.DataFrame:
    """Ours and other methods on the splits of a set, with the clusters of ours."""
    labels = ours.drop_duplicates("split")[KEYS]
    theirs = others[others["set"] == name].drop(columns="set").merge(labels, on="split")
    return pd.concat([ours, theirs.reindex(columns=ours.columns)], ignore_index=True)


def curves(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """The 92 curves; M4 and the broken power law have errors alone."""
    names = found["group"] + ": " + found["table"]
    scores = _of_tables(found, "rmsle", split=names, cluster=found["table"], ladder=found["table"])
    scores = scores[~scores["method"].isin(("M1", "M2", "M3", "last value"))]
    note = "Error: RMSLE of a curve. Clusters: curves. Alabdulmohsin et al. 2022."
    return [SplitSet("92 learning curves", note, _with_others(scores, peers.CURVES, others))]


def short_curves(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Four and five sizes of curves."""
    means = by_table(found)
    curve = means["table"].str.rpartition(", ")[0]
    names = means["group"] + ": " + means["table"]
    scores = _of_tables(means, "rmsle", split=names, cluster=curve, ladder=curve, method=OURS)
    note = "Error: RMSLE of a curve, up to 16 times its fitted part. Clusters: curves."
    return [SplitSet("4 and 5 sizes of curves", note, _with_others(scores, peers.SHORT, others))]


def gadre(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Gadre's rules."""
    means = by_table(found[found["method"] == OURS])
    names = means["group"] + ": " + means["table"]
    scores = _of_tables(
        means, "abs_error", split=names, cluster=means["table"], ladder=means["table"], method=OURS
    )
    note = "Error: mean absolute error. Clusters: the three training sets. Gadre et al. 2024."
    both = _with_others(scores, peers.GADRE, others)
    return [
        SplitSet(
            f"Gadre, to 154M → 411M to 6.9B, {rule}",
            note,
            both[both["split"].str.startswith(f"{rule}: ")],
        )
        for rule in means["group"].unique()
    ]


def ladders(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Parameters and tokens: all sources alike, and each by itself."""
    scores = _splits_of(found, ["source", "ladder", "split"], "error", "width")
    scores["cluster"] = scores["source"]
    names = scores["source"] + ": " + scores["split"]
    pooled = _with_others(_named(scores, split=names, method=OURS), peers.LADDERS, others)
    note = "Error: mean absolute error of a split. "
    sets = [
        SplitSet(
            "parameters and tokens, nine sources alike",
            note + "Clusters: sources.",
            pooled,
        )
    ]
    for source, own in pooled.groupby("cluster", sort=False):
        n = own["ladder"].nunique()
        label, words = (
            ("ladder", "ladders")
            if n >= LEAST_CLUSTERS
            else ("split", "splits, which overlap: its intervals are too narrow")
        )
        own = own.assign(cluster=own[label])
        sets.append(
            SplitSet(
                f"parameters and tokens, {source}", f"{note}Clusters: {words}.", own, counts=False
            )
        )
    return sets


def compute(found: Any, others: pd.DataFrame) -> list[SplitSet]:
    """One loss per compute."""
    chosen = found.chosen.rename(columns={"off": "error", "held": "held_90"})
    chosen = chosen.assign(
        error=-chosen["error"],
        width=np.expm1(2 * chosen["half"]),
        interval_score=chosen["score"],
        ladder=chosen["window"].str.rpartition(", ")[0],
    )
    scores = _splits_of(chosen, ["source", "ladder", "window"], "error", "width")
    names = [
        f"{source}: {window.removeprefix(f'{source}, ')}"
        for source, window in zip(scores["source"], scores["window"], strict=True)
    ]
    ours = _named(scores, cluster=scores["source"], split=names, method=OURS)
    note = "Error: mean absolute error of a window. Clusters: sources, two settings of Porian."
    title = "one loss per compute, sources alike"
    return [SplitSet(title, note, _with_others(ours, peers.COMPUTE, others))]


def _splits_of(found: pd.DataFrame, keys: list[str], error: str, width: str) -> pd.DataFrame:
    """Scores of larger runs as scores of splits."""
    return (
        found.groupby(keys, sort=False)
        .agg(
            error=(error, lambda errors: errors.abs().mean()),
            bias=(error, "mean"),
            held=("held_90", "mean"),
            width=(width, "median"),
            score=("interval_score", "mean"),
            seconds=("seconds", "first"),
        )
        .reset_index()
    )


def larger_losses(found: Any) -> list[SplitSet]:
    """The losses of Step Law's larger cells."""
    losses = found.losses
    ends = {"held": losses["held_90"], "width": losses["width"], "score": losses["interval_score"]}
    frames = []
    for method, column in {
        OURS: "error",
        "tied Chinchilla, least squares": "tied",
        "last value": "last",
    }.items():
        cells = losses.index.astype(str)
        own = pd.DataFrame({"error": losses[column].abs(), "bias": losses[column]})
        own = own.assign(**(ends if method == OURS else {}))
        frames.append(_named(own, cluster=cells, ladder=cells, split=cells, method=method))
    note = "Error: mean absolute error of the loss at a cell's optimum. Clusters: five cells."
    return [SplitSet("Step Law's larger cells, loss", note, pd.concat(frames, ignore_index=True))]


def tuned_values(part: str, found: pd.DataFrame) -> list[SplitSet]:
    """Best values of cells, as `benchmarks.horizons` judges them."""
    names = {
        OURS: ("mid", "low", "high", "regret"),
        "straight plane": ("plane", "plane low", "plane high", "plane regret"),
        "nearest smaller cell's value": ("kept", None, None, "kept regret"),
    }
    sets = []
    for i, (tuned, own) in enumerate(found.groupby("tuned", sort=False)):
        split = own["origin"].astype(str) + " " + own["target"].astype(str)
        frames = []
        for method, (mid, low, high, regret) in names.items():
            off = own[mid] - own["truth"]
            scores = pd.DataFrame({"error": off.abs(), "bias": off})
            if low is not None:
                scores = scores.assign(**_interval(own["truth"], own[low], own[high]))
            if regret in own and i == 0:  # of all tuned values at once
                scores["extra"] = own[regret]
            labels = {"cluster": own["cell"].astype(str), "ladder": own["cell"].astype(str)}
            frames.append(_named(scores, split=split, method=method, **labels))
        note = "Error: mean absolute error in octaves. Clusters: cells."
        table = pd.concat(frames, ignore_index=True)
        sets.append(SplitSet(f"{part}: {tuned}", note, table, "octaves"))
    return sets


def _interval(truth: pd.Series, low: pd.Series, high: pd.Series) -> dict[str, pd.Series]:
    """What intervals in octaves do; nothing where an end is missing."""
    is_there = np.isfinite(low) & np.isfinite(high)
    return {
        "held": ((low <= truth) & (truth <= high)).astype(float).where(is_there),
        "width": (high - low).where(is_there),
        "score": points_of(truth, low, high).where(is_there),
    }


def metz_rates(found: pd.DataFrame) -> list[SplitSet]:
    """Rates of Metz' larger widths by several rules."""
    off = found["mid"] - found["truth"]
    scores = found.assign(error=off.abs(), bias=off, extra=found["regret"])
    scores = scores.assign(**_interval(found["truth"], found["low"], found["high"]))
    labels = {"cluster": found["cluster"], "ladder": found["cluster"]}
    note = "Error: mean absolute error in octaves. Clusters: widths that are forecast."
    return [SplitSet("Metz' sizes, rate", note, _named(scores, **labels), "octaves")]


def metz_losses(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Losses of Metz' larger widths and of the sealed runs of the default study."""
    names = found["group"] + ": " + found["table"]
    scores = _of_tables(
        found, "abs_error", split=names, cluster=found["table"], ladder=found["table"], method=OURS
    )
    both = _with_others(scores, peers.METZ, others)
    note = "Error: mean absolute error of all larger widths. Clusters: numbers of fitted widths."
    return [SplitSet("Metz' sizes and the default study, loss", note, both)]


LOG_TITLES = {
    "mpl": "Luo et al. 2025",
    "owt": "OpenWebText2",
    "slim": "SlimPajama",
}
"""Family of `benchmarks.landing_runs` → its name."""


def logs(found: pd.DataFrame) -> list[SplitSet]:
    """Where runs end, from a part of their logs."""
    found = found[found["refusal"].eq("")]
    split = found["name"] + " " + found["seen"].astype(str)
    labels = {"cluster": found["cluster"], "ladder": found["cluster"], "split": split}
    frames = []
    for method, column in {
        OURS: "error",
        "power law in the steps": "power",
        "last value": "last",
    }.items():
        scores = pd.DataFrame({"error": found[column].abs() / 100, "bias": found[column] / 100})
        if method == OURS:
            scores = scores.assign(
                held=found["held"],
                width=2 * found["half width"] / 100,
                score=found["score"] / 100,
                seconds=found["seconds"],
            )
        frames.append(_named(scores, method=method, **labels))
    table = pd.concat(frames, ignore_index=True).assign(family=[*found["family"]] * len(frames))
    return [
        SplitSet(
            f"logs of runs: {LOG_TITLES.get(str(family), family)}",
            "Error: mean absolute error of the end, 20 to 90 % seen. Clusters: trunks.",
            own.drop(columns="family"),
        )
        for family, own in table.groupby("family", sort=False)
    ]


def searches(found: pd.DataFrame) -> list[SplitSet]:
    """Values at the target against a search there."""
    sets = []
    for name, own in found.groupby("set", sort=False):
        runs = own.loc[own["method"] == target_search.TPE, "runs"]
        n = f"{runs.min():.2g} to {runs.max():.2g}"
        note = (
            f"The small sweep's compute buys {n} runs at the target; TPE makes at most "
            f"{target_search.MOST_RUNS}, and without one it has no answer. Clusters: targets."
        )
        scores = _named(own, ladder=own["cluster"])
        sets.append(SplitSet(f"values at the target, {name}", note, scores, "octaves"))
    return sets


def mup(folder: Path = STUDIES) -> list[SplitSet]:
    """Runs of `studies/mup.py` and `mup_transfer.py` at their largest width, where they are."""
    paths = [folder / name for name in ("mup.csv", "mup_transfer.csv")]
    if not all(path.is_file() for path in paths):
        return []
    rules, transfer = (pd.read_csv(path) for path in paths)
    standard = rules[(rules["stage"] == "check") & rules["arm"].str.endswith("standard")]
    checks, tuned = (transfer[transfer["stage"] == stage] for stage in ("check", "tune"))
    smallest = tuned[tuned["width"] == tuned["width"].min()].groupby("lr")["loss"].mean().idxmin()
    kept = min(checks["lr"].unique(), key=lambda rate: abs(np.log(rate / smallest)))
    is_kept = checks["lr"] == kept
    runs = pd.concat(
        [
            standard.assign(method=OURS),
            checks[is_kept].assign(method="muP, smallest width's rate"),
            checks[~is_kept].assign(method="muP, extrap's rate"),
        ]
    )
    width = runs["width"].max()
    runs = runs[runs["width"] == width]
    log_loss, seeds = np.log(runs["loss"]), runs["seed"].astype(str)
    scores = runs[["method"]].assign(
        extra=log_loss - log_loss.groupby(runs["method"]).mean().min()
    )
    labels = {"cluster": seeds, "ladder": seeds, "split": seeds}
    note = (
        "extrap: its rate under the standard rule. Extra loss over the least mean of the three. "
        "Clusters: seeds. studies/mup.py, studies/mup_transfer.py."
    )
    title = f"muP study, loss at width {width:g}"
    return [SplitSet(title, note, _named(scores, **labels), "octaves")]


def sets(found: Mapping[str, Any]) -> list[SplitSet]:
    """All sets whose parts were measured."""
    others = pd.concat([found.get("other methods", pd.DataFrame()), peers.read_peers()])
    makers: dict[str, Callable[[Any], list[SplitSet]]] = {
        "curves": partial(curves, others=others),
        "short curves": partial(short_curves, others=others),
        "gadre": partial(gadre, others=others),
        "ladders": partial(ladders, others=others),
        "compute": partial(compute, others=others),
        "metz losses": partial(metz_losses, others=others),
        "larger": larger_losses,
        "metz rates": metz_rates,
        **{
            name: partial(tuned_values, name)
            for name in found
            if name.startswith(("Step Law dense, ", "rates of dense", "Porian"))
        },
        "logs": logs,
        "search": searches,
    }
    made = [set_ for name, make in makers.items() if name in found for set_ in make(found[name])]
    return [*made, *(mup() if found else [])]
