"""What the parts of `make backtest` measured, as sets of splits for `benchmarks.against`.

The scores of extrap are those of its parts, those of packages are the ones of `peers.csv`, and
the others are measured at once (`benchmarks.peers`, `benchmarks.target_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import peers, target_search
from benchmarks.against import COLUMNS, KEYS, LEAST_CLUSTERS, OURS, SplitSet
from benchmarks.rows import DATA
from benchmarks.scores import by_table, points_of

STUDIES = Path(__file__).parents[1] / "studies"
ONE_SWEEP = "Not counted: its fits are nested in one sweep."
NINE_SOURCES = "Not counted: the nine sources have these runs too."
"""Of Gadre, and of losses over compute."""
LOG_TITLES = {
    "mpl": "Luo et al. 2025",
    "owt": "OpenWebText2",
    "slim": "SlimPajama",
}
"""Family of `benchmarks.landing_runs` → its name."""
SWEEPS = {"Step Law dense": "Step Law", "rates of dense_c4_v0": "Misfitting", "Porian": "Porian"}
"""Beginning of a part of `benchmarks.horizons` → its data set."""


def _named(frame: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    """Select the columns of a set; the method is extrap and a ladder is its cluster by default."""
    frame = frame.assign(**columns)
    frame = frame.assign(
        method=frame.get("method", OURS), ladder=frame.get("ladder", frame["cluster"])
    )
    return frame.reindex(columns=[*KEYS, "method", *COLUMNS])


def _of_tables(found: pd.DataFrame, error: str, cluster: str = "table") -> pd.DataFrame:
    """Scores of frames as `scores.by_table` makes them, with the names of `peers.Split`."""
    names = {error: "error", "held_90": "held", "interval_score": "score"}
    split = found["group"] + ": " + found["table"]
    return _named(found.rename(columns=names), split=split, cluster=found[cluster])


def _with_others(ours: pd.DataFrame, name: str, others: pd.DataFrame) -> pd.DataFrame:
    """Add other methods on the splits of ours, with its clusters."""
    labels = ours.drop_duplicates("split")[KEYS]
    theirs = others[others["set"] == name].drop(columns="set").merge(labels, on="split")
    return pd.concat([ours, theirs.reindex(columns=ours.columns)], ignore_index=True)


def _splits_of(found: pd.DataFrame, keys: list[str], error: str) -> pd.DataFrame:
    """Turn scores of larger runs into scores of splits."""
    return (
        found.groupby(keys, sort=False)
        .agg(
            error=(error, lambda errors: errors.abs().mean()),
            bias=(error, "mean"),
            held=("held_90", "mean"),
            width=("width", "median"),
            score=("interval_score", "mean"),
            seconds=("seconds", "first"),
        )
        .reset_index()
    )


def curves(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Make the set of the 92 curves; M4 and the broken power law have errors alone."""
    scores = _of_tables(found, "rmsle")
    scores = scores[~scores["method"].isin(("M1", "M2", "M3", "last value"))]
    note = "Error: RMSLE of a curve. Clusters: curves. Alabdulmohsin et al. 2022."
    table = _with_others(scores, peers.CURVES, others)
    return [SplitSet("92 learning curves", note, table, ("learning curves",))]


def short_curves(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Make the set of four and five sizes of curves."""
    means = by_table(found)
    means["curve"] = means["table"].str.rpartition(", ")[0]
    table = _with_others(_of_tables(means, "rmsle", "curve"), peers.SHORT, others)
    note = (
        "Error: RMSLE of a curve, up to 16 times its fitted part. Clusters: curves. Not counted: "
        "they are of the 92 curves."
    )
    title = "4 and 5 sizes of curves"
    return [SplitSet(title, note, table, ("learning curves",), is_counted=False)]


def gadre(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Make a set per rule of Gadre's."""
    means = by_table(found[found["method"] == OURS])
    both = _with_others(_of_tables(means, "abs_error"), peers.GADRE, others)
    note = "Error: mean absolute error. Clusters: the three training sets. Gadre et al. 2024. "
    return [
        SplitSet(
            f"Gadre, to 154M → 411M to 6.9B, {rule}",
            note + NINE_SOURCES,
            both[both["split"].str.startswith(f"{rule}: ")],
            ("Gadre",),
            is_counted=False,
        )
        for rule in means["group"].unique()
    ]


def ladders(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Make sets of parameters and tokens: of all sources alike, and of each by itself."""
    scores = _splits_of(found, ["source", "ladder", "split"], "error")
    names = scores["source"] + ": " + scores["split"]
    pooled = _with_others(
        _named(scores, split=names, cluster=scores["source"]), peers.LADDERS, others
    )
    note, sources = "Error: mean absolute error of a split. ", tuple(scores["source"].unique())
    title = "parameters and tokens, nine sources alike"
    sets = [SplitSet(title, f"{note}Clusters: sources.", pooled, sources)]
    for source, own in pooled.groupby("cluster", sort=False):
        label, words = (
            ("ladder", "ladders")
            if own["ladder"].nunique() >= LEAST_CLUSTERS
            else ("split", "splits, which overlap: the intervals of differences are too narrow")
        )
        sets.append(
            SplitSet(
                f"parameters and tokens, {source}",
                f"{note}Clusters: {words}. Not counted: it is one of the nine sources.",
                own.assign(cluster=own[label]),
                (str(source),),
                is_counted=False,
            )
        )
    return sets


def compute(found: Any, others: pd.DataFrame) -> list[SplitSet]:
    """Make the set of one loss per compute."""
    chosen = found.chosen.assign(
        error=-found.chosen["off"],
        held_90=found.chosen["held"],
        width=np.expm1(2 * found.chosen["half"]),
        interval_score=found.chosen["score"],
        ladder=found.chosen["window"].str.rpartition(", ")[0],
    )
    scores = _splits_of(chosen, ["source", "ladder", "window"], "error")
    names = [
        f"{source}: {window.removeprefix(f'{source}, ')}"
        for source, window in zip(scores["source"], scores["window"], strict=True)
    ]
    ours = _named(scores, cluster=scores["source"], split=names)
    note = (
        "Error: mean absolute error of a window. Clusters: sources, two settings of Porian. "
        f"extrap's time is of fitting alone. {NINE_SOURCES}"
    )
    table = _with_others(ours, peers.COMPUTE, others)
    sources = tuple(scores["source"].str.replace(r" (un)?tuned$", "", regex=True).unique())
    title = "one loss per compute, sources alike"
    return [SplitSet(title, note, table, sources, is_counted=False)]


def larger_losses(found: Any) -> list[SplitSet]:
    """Make the set of the losses of Step Law's larger cells."""
    losses = found.losses
    ends = {"held": losses["held_90"], "width": losses["width"], "score": losses["interval_score"]}
    columns = {OURS: "error", "tied Chinchilla, least squares": "tied", "last value": "last"}
    cells = losses.index.astype(str)
    frames = [
        _named(
            losses[[]].assign(error=losses[column].abs(), bias=losses[column]),
            **(ends if method == OURS else {}),
            **{"cluster": cells, "split": cells, "method": method},
        )
        for method, column in columns.items()
    ]
    note = (
        "Error: mean absolute error of the loss at a cell's optimum. Clusters: five cells. Not "
        "counted: one fit forecasts all five."
    )
    title, table = "Step Law's larger cells, loss", pd.concat(frames, ignore_index=True)
    return [SplitSet(title, note, table, ("Step Law",), is_counted=False)]


def tuned_values(part: str, found: pd.DataFrame) -> list[SplitSet]:
    """Make a set per tuned value of cells, as `benchmarks.horizons` judges them."""
    names = {
        OURS: ("mid", "low", "high", "regret"),
        "straight plane": ("plane", "plane low", "plane high", "plane regret"),
        "nearest smaller cell's value": ("kept", None, None, "kept regret"),
    }
    is_counted, source = not part.endswith("over tokens"), part.partition(",")[0]
    note = "Error: mean absolute error in octaves. Clusters: cells."
    note += "" if is_counted else " Not counted: the cells over both are the same."
    sets = []
    for i, (tuned, own) in enumerate(found.groupby("tuned", sort=False)):
        split, cell = own["origin"].astype(str) + " " + own["target"].astype(str), own["cell"]
        frames = []
        for method, (mid, low, high, regret) in names.items():
            off = own[mid] - own["truth"]
            scores = pd.DataFrame({"error": off.abs(), "bias": off})
            if low is not None:
                scores = scores.assign(**_interval(own["truth"], own[low], own[high]))
            if regret in own and i == 0:  # of all tuned values at once
                scores["extra"] = own[regret]
            frames.append(_named(scores, split=split, method=method, cluster=cell.astype(str)))
        table = pd.concat(frames, ignore_index=True)
        title, data = f"{part}: {tuned}", (SWEEPS[source],)
        sets.append(SplitSet(title, note, table, data, "octaves", is_counted))
    return sets


def _interval(truth: pd.Series, low: pd.Series, high: pd.Series) -> dict[str, pd.Series]:
    """Score intervals in octaves; an open end is infinite, a missing one gives nothing."""
    is_there = low.notna() & high.notna()
    return {
        "held": ((low <= truth) & (truth <= high)).astype(float).where(is_there),
        "width": high - low,
        "score": points_of(truth, low, high),
    }


def metz_rates(found: pd.DataFrame) -> list[SplitSet]:
    """Make the set of rates of Metz' larger widths by several rules."""
    off = found["mid"] - found["truth"]
    scores = found.assign(error=off.abs(), bias=off, extra=found["regret"])
    scores = _named(scores, **_interval(found["truth"], found["low"], found["high"]))
    note = (
        "Error: mean absolute error in octaves. The best rate of a width and what others cost are "
        "of the parabola through its three best rates. Clusters: widths that are forecast. "
        f"{ONE_SWEEP}"
    )
    return [SplitSet("Metz' sizes, rate", note, scores, ("Metz",), "octaves", is_counted=False)]


def metz_losses(found: pd.DataFrame, others: pd.DataFrame) -> list[SplitSet]:
    """Make the set of losses of Metz' larger widths and the default study's sealed runs."""
    table = _with_others(_of_tables(found, "abs_error"), peers.METZ, others)
    note = (
        "Error: mean absolute error of all larger widths. Clusters: numbers of fitted widths. "
        f"{ONE_SWEEP}"
    )
    title, data = "Metz' sizes and the default study, loss", ("Metz", "default study")
    return [SplitSet(title, note, table, data, is_counted=False)]


def logs(found: pd.DataFrame) -> list[SplitSet]:
    """Make a set per family of where runs end, from a part of their logs."""
    found = found[found["refusal"].eq("")]
    split = found["name"] + " " + found["seen"].astype(str)
    columns = {OURS: "error", "power law in the steps": "power", "last value": "last"}
    ends = {
        "held": found["held"],
        "width": 2 * found["half width"] / 100,
        "score": found["score"] / 100,
        "seconds": found["seconds"],
    }
    frames = [
        _named(
            found[["cluster"]].assign(error=found[column].abs() / 100, bias=found[column] / 100),
            **(ends if method == OURS else {}),
            **{"split": split, "method": method},
        ).assign(family=found["family"])
        for method, column in columns.items()
    ]
    note = (
        "Error: mean absolute error of the end, relative to the loss there, not of its logarithm; "
        "20 to 90 % seen. Clusters: trunks."
    )
    sets = []
    for family, own in pd.concat(frames, ignore_index=True).groupby("family", sort=False):
        name = LOG_TITLES.get(str(family), str(family))
        table = own.drop(columns="family")
        sets.append(SplitSet(f"logs of runs: {name}", note, table, (f"logs: {name}",)))
    return sets


def searches(found: pd.DataFrame) -> list[SplitSet]:
    """Make sets of values at the target against a search there."""
    sets = []
    for name, own in found.groupby("set", sort=False):
        is_counted = name == target_search.COUNTED
        reason = "its ratios share their sweeps" if "simulated" in str(name) else "it is one sweep"
        runs = own.loc[own["method"] == target_search.TPE, "runs"]
        n_refused = int(own.loc[own["method"] == OURS, "extra"].isna().sum())
        note = (
            f"The small sweep's compute buys a median of {np.floor(runs).median():.0f} runs at "
            f"the target ({np.floor(runs).min():.0f} to {np.floor(runs).max():.0f}); TPE makes at "
            f"most {target_search.MAX_RUNS}, and without one it has no answer. extrap refuses "
            f"{n_refused} of {len(runs)} targets. Clusters: targets."
        )
        note += "" if is_counted else f" Not counted: {reason}."
        scores, data = _named(own), (str(name).partition(",")[0],)
        sets.append(SplitSet(f"values at the target, {name}", note, scores, data, "%", is_counted))
    return sets


def mup(folder: Path = STUDIES) -> list[SplitSet]:
    """Make the set of the largest width of `studies/mup.py` and `mup_transfer.py`."""
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
    note = (
        "extrap: its rate under the standard rule. Extra loss over the least mean of the three. "
        "Clusters: seeds. Not compared and not counted: it has two seeds. studies/mup.py, "
        "studies/mup_transfer.py."
    )
    title, table = (
        f"muP study, loss at width {width:g}",
        _named(scores, cluster=seeds, split=seeds),
    )
    return [SplitSet(title, note, table, ("muP study",), is_counted=False)]


def all_sets(found: Mapping[str, Any], data: Path = DATA) -> list[SplitSet]:
    """Make all sets whose parts were measured."""
    if not found:
        return []
    others = pd.concat([found.get("other methods", pd.DataFrame()), peers.current_peers(data)])
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
            name: partial(tuned_values, name) for name in found if name.partition(",")[0] in SWEEPS
        },
        "logs": logs,
        "search": searches,
    }
    sets = [set_ for name, make in makers.items() if name in found for set_ in make(found[name])]
    return [*sets, *mup()]
