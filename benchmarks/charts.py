"""The charts and tables of the benchmarks' pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import curves, peers
from benchmarks.faults import CAUSES, Confusion
from benchmarks.training import N_RUNS, STEPS, Race
from extrap.records import Interval
from extrap.reporting.blocks import Block, Figure
from extrap.reporting.charts import Axis, Row, RowsChart, Series, XYChart, series
from extrap.reporting.tables import Table

LEVELS = (50, 80, 90)
KINDS = {
    "well": "truth inside the family",
    "other": "truth outside the family",
    "harder": "harder truth",
    "break": "truth with a break",
}
BANDS = {"default": ("law", "o"), "family": ("fixed", "s")}
LEAST = 8
"""Sets with fewer observations are only in the table."""
OFF = {-3: "3 octaves low", -2: "2 octaves low", 0: "tuned", 2: "2 high", 3: "3 high"}
"""Octaves from the forecast learning rate → label."""
WAYS = {"ordinary_s": "one run at a time", "ours_s": "extrap"}


def backtest_blocks(found: Mapping[str, Any]) -> list[Block]:
    """Of the parts that were measured."""
    made: list[Block] = []
    if "curves" in found:
        made += _errors(found["curves"])
    coverage = pd.DataFrame(_coverage(found))
    if len(coverage):
        for which in ("simulated data", "real runs"):
            chosen = (coverage["kind"] == "real") == (which == "real runs")
            made += _coverage_blocks(coverage[chosen], which)
    if len(trades := pd.DataFrame(_trades(found))):
        made += _trade_blocks(trades)
    if "gadre" in found:
        made += _gadre(found["gadre"])
    if "larger" in found:
        made += _optima(found["larger"].tuned)
    return made


def check_blocks(found: Mapping[str, Any]) -> list[Block]:
    """Of the parts that were measured."""
    made: list[Block] = [_confusion(found["faults"])] if "faults" in found else []
    return [*made, *([Figure(_monitor(found["monitor"]))] if "monitor" in found else [])]


def _table(caption: str, frame: pd.DataFrame, formats: Mapping[str, str]) -> Table:
    """A frame as text, formats by column."""
    cells = [
        ["–" if pd.isna(v) else format(v, formats.get(str(name), "")) for name, v in row.items()]
        for row in frame.to_dict("records")
    ]
    return Table(caption, list(map(str, frame)), cells)


def _errors(table: pd.DataFrame) -> list[Block]:
    """RMSLE by method and domain on the 92 curves."""
    theirs = peers.read_peers()
    theirs = theirs[theirs["part"] == curves.PART]
    theirs = theirs.assign(method=theirs["peer"], curve=theirs["set"])
    both = pd.concat([table, theirs[["curve", "domain", "method", "rmsle"]]])
    means = curves.mean_errors(both).sort_values("all")
    counts = both.groupby("method")["curve"].nunique()
    chart = RowsChart(
        title="Mean held-out RMSLE on the 92 curves",
        axis=Axis("RMSLE"),
        rows=tuple(
            Row(label=str(method), value=value, ink="law" if method == curves.OURS else "muted")
            for method, value in means["all"].items()
        ),
    )
    numbers = means.reset_index().assign(curves=counts[means.index].to_numpy())
    return [Figure(chart), _table("RMSLE by domain", numbers, dict.fromkeys(means, ".4f"))]


def _coverage(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per set, ratio, band and level: the share of observations inside."""

    def shares(
        head: dict[str, Any], rows: pd.DataFrame, bands: Sequence[str], name: str
    ) -> Iterator[dict[str, Any]]:
        for band in bands:
            for level in LEVELS:
                held = rows[name.format(band=band, level=level)].astype(float)
                yield {**head, "band": band, "nominal": level, "held": 100 * held.mean()}

    both = ("default", "family")
    simulated = found.get("simulated", pd.DataFrame(columns=["kind", "ratio"]))
    for (kind, ratio), rows in simulated.groupby(["kind", "ratio"], sort=False):
        head = {"kind": kind, "set": f"{KINDS[kind]}, ×{ratio:g}", "ratio": ratio}
        yield from shares({**head, "n": len(rows)}, rows, both, "{band}_held_{level}")
    if "curves" in found:
        for band in both:
            rows = found["curves"]
            rows = rows[rows["method"] == f"extrap, {band}"]
            head = {"kind": "real", "set": "92 curves, up to ×2", "ratio": 2.0, "n": len(rows)}
            yield from shares(head, rows, (band,), "held_{level}")
    if "gadre" in found:
        ours = found["gadre"]
        ours = ours[(ours["method"] == "extrap") & (ours["rule"] == "short warm-up")]
        for (label, far), rows in ours.groupby(ours["ratio"].map(_class)):
            head = {"kind": "real", "set": f"Gadre large models, {label}", "ratio": far}
            yield from shares({**head, "n": len(rows)}, rows, both, "held_{band}_{level}")
    if "verb" in found:
        yield from _own_backtests(found["verb"])


def _own_backtests(scores: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Coverage of the project's own backtests, sweeps of one source and classes pooled."""
    scores = scores[scores["extrapolation_ratio"] != "all"]
    upper = {"up to 1": 1.0, "1 to 2": 2.0, "2 to 4": 4.0, "4 to 8": 8.0, "above 8": 32.0}
    classes = scores["extrapolation_ratio"].map(upper).map(_class)
    source = scores["sweep"].map(lambda name: name.split(",")[0].split("/")[-1])
    for (name, (label, far)), rows in scores.groupby([source, classes]):
        n = int(rows["n"].sum())
        head = {"kind": "real", "set": f"{name} backtest, {label}", "ratio": far, "n": n}
        for level in LEVELS:
            held = np.average(rows[f"coverage_{level}"], weights=rows["n"])
            yield {**head, "band": "default", "nominal": level, "held": 100 * held}


def _class(ratio: float) -> tuple[str, float]:
    """Extrapolation ratios drawn together, and one that stands for them."""
    if ratio <= 2:
        return "up to ×2", 2.0
    return ("×2–4", 4.0) if ratio <= 4 else ("beyond ×4", 20.0)


def _coverage_blocks(table: pd.DataFrame, which: str) -> list[Block]:
    """How often intervals contain the observation."""
    if table.empty:
        return []
    drawn = table[
        (table["band"] == "default") & (table["n"] >= LEAST) & (table["nominal"] == LEVELS[-1])
    ]
    chart = RowsChart(
        title=f"Coverage of the 90 % intervals, {which}",
        axis=Axis("observations inside, %", is_log=False),
        rows=tuple(
            Row(label=f"{row['set']} (n={row['n']})", value=row["held"])
            for row in drawn.to_dict("records")
        ),
        reference=float(LEVELS[-1]),
    )
    wide = table.pivot_table(
        index=["set", "band", "n"], columns="nominal", values="held", sort=False
    ).reset_index()
    wide.columns = [f"{c} %" if isinstance(c, int) else str(c) for c in wide.columns]
    formats = {f"{level} %": ".0f" for level in LEVELS} | {"n": ".0f"}
    table_ = _table(f"Observations inside the intervals, %, {which}", wide, formats)
    return [*([Figure(chart)] if len(drawn) else []), table_]


def _trades(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per set and band: median full width of the 90 % interval, %, share inside, %."""
    simulated = found.get("simulated", pd.DataFrame(columns=["kind"]))
    for kind, words in KINDS.items():
        rows, name = simulated[simulated["kind"] == kind], f"simulated, {words}"
        if rows.empty:
            continue
        for band in ("default", "family"):
            width = float(np.expm1(rows[f"{band}_width"].median()))
            yield _trade(name, band, width, rows[f"{band}_held_90"].mean())
    theirs = peers.read_peers()
    if "curves" in found:
        for band in ("default", "family"):
            rows = found["curves"]
            rows = rows[rows["method"] == f"extrap, {band}"]
            yield _trade("92 curves", band, rows["width"].median(), rows["held_90"].mean())
        rows = theirs[theirs["part"] == curves.PART]
        name = rows["peer"].iloc[0]
        yield _trade("92 curves", name, rows["width"].median(), rows["covered"].mean())
    if "gadre" in found:
        ours = found["gadre"]
        ours = ours[ours["method"] == "extrap"]
        for rule, rows in ours.groupby("rule"):
            for band in ("default", "family"):
                width, held = rows[f"width_{band}"].median(), rows[f"held_{band}_90"].mean()
                yield _trade(f"Gadre, {rule}", band, width, held)
            rows = theirs[theirs["part"] == f"Gadre, {rule}"]
            rows = rows[rows["setting"] == "separable-power, params"]
            held = np.average(rows["covered"], weights=rows["n"])
            yield _trade(f"Gadre, {rule}", rows["peer"].iloc[0], rows["width"].median(), held)


def _trade(name: str, band: str, width: float, held: float) -> dict[str, Any]:
    return {"set": name, "band": band, "width": 100 * width, "held": 100 * float(held)}


def _trade_blocks(table: pd.DataFrame) -> list[Block]:
    """Width against coverage of both bands and of other methods."""
    shown = [
        series(rows, "width", "held", label=str(band), ink=ink, marker=marker)
        for band, rows in table.groupby("band", sort=False)
        for ink, marker in [BANDS.get(str(band), ("muted", "X"))]
    ]
    chart = XYChart(
        title="Width and coverage of the 90 % intervals",
        x=Axis("median full width, %"),
        y=Axis("observations inside, %", is_log=False),
        series=tuple(shown),
        reference=90.0,
    )
    formats = {"width": ".1f", "held": ".1f"}
    return [Figure(chart), _table("Width and coverage by set, %", table, formats)]


def _gadre(table: pd.DataFrame) -> list[Block]:
    """Observed against forecast losses of the larger models, with the 90 % band."""
    ours = table[(table["method"] == "extrap") & (table["rule"] == "short warm-up")]
    ours = ours.sort_values(["params", "tokens", "set"]).copy()
    for column in ("loss", "lower_default", "upper_default"):
        ours[f"{column}_off"] = ours[column] / ours["predicted"] - 1
    chart = RowsChart(
        title="Gadre: loss of larger models against the forecast from models up to 154M",
        axis=Axis("difference; bar: 90 % interval", is_log=False, is_percent=True),
        rows=tuple(
            Row(
                label=f"{row['set']}, {row['params'] / 1e9:.2g}B on {row['tokens'] / 1e9:.3g}B",
                value=row["loss_off"],
                interval=Interval(row["lower_default_off"], row["upper_default_off"]),
            )
            for row in ours.to_dict("records")
        ),
        reference=0.0,
    )
    names = ["set", "params", "tokens", "ratio", "loss", "predicted", "loss_off"]
    names += [f"{end}_{band}" for band in BANDS for end in ("lower", "upper")]
    formats = dict.fromkeys(names[4:], ".3f") | {"params": ".3g", "tokens": ".3g", "ratio": ".2g"}
    numbers = ours[names]
    return [
        Figure(chart, "Without runs whose warm-up takes half of their steps."),
        _table("Gadre: forecast and observed losses", numbers, formats | {"loss_off": "+.2%"}),
    ]


def _optima(table: pd.DataFrame) -> list[Block]:
    """Optima of the larger Step Law cells, in octaves from their forecast."""
    table = table.sort_values("name", ascending=False, kind="stable")
    table = table.assign(off=table["own"] - table["forecast"])
    chart = RowsChart(
        title="Step Law: optimum of the larger cells against the forecast",
        axis=Axis("octaves; bar: 90 % interval", is_log=False),
        rows=tuple(
            Row(
                label=f"{'rate' if row['name'] == 'lr' else 'batch'}, {row['cell']}",
                value=row["off"],
                interval=Interval(row["off"] - row["own_half"], row["off"] + row["own_half"]),
            )
            for row in table.to_dict("records")
        ),
        reference=0.0,
    )
    values = ("forecast", "own", "quadratic")
    numbers = table[["cell", "name", "forecast", "half", "own", "own_half", "quadratic"]]
    numbers = numbers.assign(**{name: 2.0 ** numbers[name] for name in values})
    formats = dict.fromkeys(values, ".3g") | {"half": ".2f", "own_half": ".2f"}
    caption = "Step Law optima; half widths of the 90 % intervals in octaves"
    return [Figure(chart), _table(caption, numbers, formats)]


def _confusion(found: Confusion) -> Table:
    """Which cause was named for which fault."""
    order = list(dict.fromkeys([*CAUSES.values(), *found.matrix.columns]))
    matrix = found.matrix.reindex(columns=order, fill_value=0)
    return Table(
        "Faults, and runs by the cause that was named",
        ("fault", *order),
        [(str(fault), *(str(int(n)) for n in row)) for fault, row in matrix.iterrows()],
        note=f"The right cause in {found.right:.0%} of the faulty runs, none in "
        f"{found.silent:.0%} of the clean ones.",
    )


def _monitor(found: pd.DataFrame) -> XYChart:
    """The share of runs with an alarm so far against the fraction of the training."""
    at = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
    groups = [(OFF[k], rows) for k, rows in found.groupby("octaves") if k in OFF]
    return XYChart(
        title="Runs with an alarm, by distance from the forecast learning rate",
        x=Axis("fraction of the training"),
        y=Axis("runs with an alarm, %", is_log=False, limits=(0.0, 100.0)),
        series=tuple(
            Series(
                label=label,
                x=at,
                y=tuple(100 * float((rows["fraction"] <= x * (1 + 1e-6)).mean()) for x in at),
                ink=f"tuned:{i / max(1, len(groups) - 1):.3f}",
                line="-",
                marker="o",
            )
            for i, (label, rows) in enumerate(groups)
        ),
    )


def speed_blocks(found: Mapping[str, Any]) -> list[Block]:
    """Milliseconds per step and run against width, both ways of training."""
    races: Sequence[Race] = found.get("training") or ()
    widths = tuple(float(race.width) for race in races)
    chart = XYChart(
        title=f"Training {N_RUNS} runs of {STEPS:,} steps",
        x=Axis("width of the byte MLP"),
        y=Axis("milliseconds per step and run"),
        series=tuple(
            Series(
                label=name,
                x=widths,
                y=tuple(1e3 * getattr(race, column) / race.run_steps for race in races),
                ink=ink,
                line="-",
                marker="o",
            )
            for (column, name), ink in zip(WAYS.items(), ("muted", "law"), strict=True)
        ),
    )
    return [Figure(chart, "Wall time of whole processes.")] if races else []
