"""Two packages that fit scaling laws, on the same data as ours: peers.csv against our figures.

simple-scaling-laws 0.2.0 (400 bootstrap draws, 90 % band of a new run) and chinchilla 0.2.0, all
settings their own otherwise, as measured at commit 6310f3e; on the 92 curves with at most 120
training points each. 4 and 5 sizes: of every third of the 92 curves the last fitted x and those a
half, a quarter … of it, and what follows up to 16 times it. A lower end of an interval below 1e-6
counts as 1e-6 in the interval score, in the peer's favour.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import DATA, Row, learning_curves

OUT = Path(__file__).with_name("peers.csv")
LEVEL = 0.9
LEAST = 1e-6
FEW, FARTHEST, SHORT = (4, 5), 16.0, "4 and 5 sizes"


def short_curves(data: Path) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Name, rows to fit and to forecast: few sizes of a curve, each twice the one before."""
    for name, curve in list(learning_curves(data).items())[::3]:
        x, rest = curve["seen_examples"].to_numpy(float), curve["split"] == "test"
        last = x[~rest.to_numpy()].max()
        for n in FEW:
            wanted = last / 2.0 ** np.arange(n)
            near = {int(np.abs(np.log(x / w)).argmin()) for w in wanted}
            if len(near) == n and np.abs(np.log(x[sorted(near)] / wanted[::-1])).max() < 0.2:
                test = curve[rest & (curve["seen_examples"] <= FARTHEST * last)]
                yield f"{name}, {n} sizes", curve.iloc[sorted(near)], test


def judge_short(data: Path = DATA) -> pd.DataFrame:
    """Ours on the same; a row a curve and number of sizes."""
    rows = []
    for name, train, test in short_curves(data):
        table = train[["seen_examples", "loss"]].reset_index(drop=True)
        made = extrap.forecast(extrap.read_runs(table, size="seen_examples"), level=LEVEL)
        found = [
            made.predict_loss({"seen_examples": x}, refuse=False) for x in test["seen_examples"]
        ]
        ends = np.array(
            [p.interval(LEVEL, new_run=True) for p in found if p is not None], dtype=float
        )
        loss = np.exp([p.log_loss for p in found if p is not None])
        rows.append({"set": name, **judge(loss, *ends.T, test["loss"])})
    return pd.DataFrame(rows)


def short_rows(ours: pd.DataFrame) -> list[Row]:
    """Errors and widths of the same data."""
    peers = read_peers()
    both = ours.merge(peers[peers["part"] == SHORT], on="set", suffixes=("", "_theirs"))
    found = []
    for column, what in (
        ("rmsle", "mean RMSLE"),
        ("width", "median width of the 90 % interval"),
        ("interval_score", "mean interval score"),
    ):
        mine, other = (
            both[c].median() if column == "width" else both[c].mean()
            for c in (column, f"{column}_theirs")
        )
        held = f"; holds {both['covered'].mean():.0%} (theirs {both['covered_theirs'].mean():.0%})"
        found.append(
            Row(
                part="other packages, same data",
                figure=f"{SHORT} of the curves, {len(both)} fits: {what}",
                beat=f"simple-scaling-laws {other:.3f}",
                target="smaller",
                reached=f"{mine:.3f}{held if column == 'width' else ''}",
                met=bool(mine < other),
            )
        )
    return found


def judge(
    loss: np.ndarray, lower: np.ndarray, upper: np.ndarray, observed: pd.Series
) -> dict[str, float]:
    """Error, and how often intervals hold, their width and interval score in log loss."""
    y = observed.to_numpy(float)
    low, high = (np.log(np.maximum(end, LEAST)) for end in (lower, upper))
    outside = np.maximum(low - np.log(y), 0) + np.maximum(np.log(y) - high, 0)
    return {
        "rmsle": float(np.sqrt(np.mean(np.log(np.maximum(loss, LEAST) / y) ** 2))),
        "covered": float(np.mean(outside == 0)),
        "width": float(np.median(np.expm1(high - low))),
        "interval_score": float(np.mean(high - low + 2 / (1 - LEVEL) * outside)),
    }


def read_peers() -> pd.DataFrame:
    """What was measured."""
    return pd.read_csv(OUT, keep_default_na=False, na_values=[""])


def rows(curves: pd.DataFrame | None, gadre: pd.DataFrame | None) -> list[Row]:
    """Ours against theirs: errors and interval scores of the same data.

    Args:
        curves: As `benchmarks.curves.judge_curves`, or None.
        gadre: As `benchmarks.gadre.judge_runs`, or None.
    """
    peers = read_peers()
    found: list[Row] = []
    if curves is not None:
        found += _curve_rows(peers[peers["part"] == "92 curves"], curves)
    if gadre is not None:
        for rule in gadre["rule"].unique():
            theirs = peers[peers["part"] == f"Gadre, {rule}"]
            found += _gadre_rows(rule, theirs, gadre[gadre["rule"] == rule])
    return found


def _curve_rows(theirs: pd.DataFrame, curves: pd.DataFrame) -> Iterator[Row]:
    ours = curves[curves["method"] == "extrap, default"]
    name = theirs["peer"].iloc[0]
    for column, what, digits in (
        ("rmsle", "RMSLE", 4),
        ("interval_score", "interval score of the 90 % band, log loss", 3),
    ):
        mine, other = ours[column], theirs[column]
        held = ""
        if column == "interval_score":
            held = f"; holds {ours['held_90'].mean():.0%} (theirs {theirs['covered'].mean():.0%})"
        yield Row(
            part="other packages, same data",
            figure=f"92 curves: mean {what} (median)",
            beat=f"{name} {other.mean():.{digits}f} ({other.median():.{digits}f})",
            target="smaller",
            reached=f"{mine.mean():.{digits}f} ({mine.median():.{digits}f}){held}",
            met=bool(mine.mean() < other.mean() and mine.median() < other.median()),
            note="Measured once, see benchmarks/peers.py." if column == "rmsle" else "",
        )


def _gadre_rows(rule: str, theirs: pd.DataFrame, ours: pd.DataFrame) -> Iterator[Row]:
    ours = ours[ours["method"] == "extrap"]
    by_set = ours.groupby("set")[["error", "interval_score_default", "interval_score_family"]]
    mine = by_set.mean().mean()
    scores = theirs.groupby(["peer", "setting"])[["abs_error", "interval_score"]].mean()
    best = scores["abs_error"].groupby("peer").idxmin()
    yield Row(
        part="other packages, same data",
        figure=f"Gadre, {rule}: mean abs. error",
        beat="; ".join(
            f"{peer} {100 * scores.loc[key, 'abs_error']:.2f} % ({key[1]})"
            for peer, key in best.items()
        ),
        target="smaller",
        reached=f"{100 * mine['error']:.2f} %",
        met=bool(mine["error"] < scores["abs_error"].min()),
        note="Of all settings of a package the one that is best on these very runs is shown: a "
        "choice in its favour that no user could make. By default they reach "
        + ", ".join(
            f"{100 * scores.loc[key, 'abs_error']:.1f} % ({key[0]})" for key in _defaults(scores)
        )
        + ".",
    )
    sharp = scores["interval_score"].dropna()
    yield Row(
        part="other packages, same data",
        figure=f"Gadre, {rule}: interval score of the 90 % band, log loss",
        beat=f"{sharp.idxmin()[0]} {sharp.min():.3f} ({sharp.idxmin()[1]}); chinchilla has none",
        target="smaller",
        reached=f"default {mine['interval_score_default']:.3f}, family "
        f"{mine['interval_score_family']:.3f}",
        met=bool(mine["interval_score_default"] < sharp.min()),
    )


def _defaults(scores: pd.DataFrame) -> list[tuple[str, str]]:
    usual = ("separable-power, params", "its loss")
    return [key for key in scores.index if key[1] in usual]
