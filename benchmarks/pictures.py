"""The pictures of the page, each with its words and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks import curves, peers
from extrap.reporting.figures.canvas import colour, draw_svg, ramp
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["plates"]

WIDE, PANEL = (880, 420), (480, 400)
LEVELS = (50, 80, 90)
DOMAINS = {"IC": "o", "NMT": "s", "LM": "^", "BB": "D"}
KINDS = {
    "well": "truth inside the family",
    "other": "outside the family",
    "harder": "harder",
    "break": "with a break",
}
FARTHEST = 64.0
MARKERS = "osDX^vP*"
STYLES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1)))
LEAST = 8
"""Fewer observations than this are not drawn."""
TOO_RARE = 10
"""Points of coverage below 90 % that the words mention."""


def plates(found: Mapping[str, Any]) -> list[Plate]:
    """Those whose data were measured."""
    made: list[Plate] = []
    if "curves" in found:
        made.append(error_plate(found["curves"]))
    coverage = pd.DataFrame(_coverage(found))
    made.append(coverage_plate(coverage[coverage["kind"] != "real"], "simulated"))
    real = coverage[coverage["kind"] == "real"]
    if (real["n"] >= LEAST).any():
        made.append(coverage_plate(real, "real"))
    made.append(trade_plate(pd.DataFrame(_trades(found))))
    if "gadre" in found:
        made.append(gadre_plate(found["gadre"]))
    if "larger" in found:
        made.append(optima_plate(found["larger"].tuned))
    return made


def _picture(draw: Callable[[Axes], None], size: tuple[int, int], *, key: str, label: str) -> str:
    width, height = size
    return draw_svg(draw, width=width, height=height, key=key, label=label)


def _table(caption: str, frame: pd.DataFrame, formats: Mapping[str, str]) -> Table:
    """A frame as finished text; formats by column, dashes for missing values."""
    cells = [
        tuple(
            "–" if pd.isna(value) else format(value, formats.get(str(name), ""))
            for name, value in row.items()
        )
        for row in frame.to_dict("records")
    ]
    return Table(caption=caption, columns=tuple(map(str, frame)), rows=tuple(cells))


def error_plate(table: pd.DataFrame) -> Plate:
    """RMSLE a method and domain on the 92 curves."""
    theirs = peers.read_peers()
    theirs = theirs[theirs["part"] == curves.PART]
    theirs = theirs.assign(method=theirs["peer"], curve=theirs["set"])
    both = pd.concat([table, theirs[["curve", "domain", "method", "rmsle"]]])
    means = curves.mean_errors(both).sort_values("all")
    height = {method: i for i, method in enumerate(means.index)}

    def draw(ax: Axes) -> None:
        for i, (domain, marker) in enumerate(DOMAINS.items()):
            sns.scatterplot(
                x=means[domain],
                y=[height[m] + 0.12 * (i - 1.5) for m in means.index],
                ax=ax,
                marker=marker,
                s=55,
                color=ramp("tuned", i / (len(DOMAINS) - 1)),
                edgecolor=colour("paper"),
                label=domain,
                zorder=4,
            )
        ax.plot(
            means["all"], list(height.values()), "|", ms=22, mew=3, color=colour("ink"),
            label="all 92", zorder=5,
        )  # fmt: skip
        ours = height[curves.OURS]
        ax.axhspan(ours - 0.42, ours + 0.42, color=colour("shade"), zorder=0)
        set_log_axis(ax, "x", means.stack(), label="mean held-out RMSLE", pad=0.04)
        ax.set_yticks(list(height.values()), list(height), color=colour("ink"))
        ax.set_ylabel("")
        ax.invert_yaxis()
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, borderaxespad=0.2)

    counts = both.groupby("method")["curve"].nunique()
    numbers = means[["all", *DOMAINS]].reset_index().assign(curves=counts[means.index].to_numpy())
    return Plate(
        title="Errors on the 92 curves",
        svg=_picture(draw, WIDE, key="errors", label="Mean RMSLE of each method, by domain."),
        text="Left is better. Bars: the mean over all curves, mostly image classification (IC, "
        "72 curves). Shaded: this project's default forecast. The last value and BNSL do well on "
        "the flat ends of NMT, M3 on BIG-Bench (BB).",
        tables=(
            _table("Mean RMSLE", numbers, dict.fromkeys(["all", *DOMAINS], ".4f")),
        ),
    )  # fmt: skip


def _coverage(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row a set, ratio, band and level: the share of observations inside."""

    def shares(
        head: dict[str, Any], rows: pd.DataFrame, bands: Sequence[str], name: str
    ) -> Iterator[dict[str, Any]]:
        for band in bands:
            for level in LEVELS:
                held = rows[name.format(band=band, level=level)].astype(float)
                yield {**head, "band": band, "nominal": level, "held": 100 * held.mean()}

    both = ("default", "family")
    simulated = found["simulated"].set_index(["kind", "ratio"]).sort_index()
    for kind, ratio in ((k, r) for k in KINDS for r in sorted(set(simulated.index.levels[1]))):
        rows = simulated.loc[(kind, ratio)]
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
    """Extrapolation ratios drawn together, and where they stand on the colour scale."""
    if ratio <= 2:
        return "up to ×2", 2.0
    return ("×2–4", 4.0) if ratio <= 4 else ("beyond ×4", 20.0)


def _far(ratio: float) -> str:
    """Colour of an extrapolation ratio."""
    return ramp("size", np.log(ratio) / np.log(FARTHEST))


def coverage_plate(table: pd.DataFrame, which: str) -> Plate:
    """How many observations the intervals hold against how many they should."""
    drawn = table[(table["band"] == "default") & (table["n"] >= LEAST)]
    sources = list(dict.fromkeys(drawn["set"].str.rpartition(",")[0]))

    def draw(ax: Axes) -> None:
        ax.plot([40, 100], [40, 100], color=colour("muted"), lw=1, zorder=1)
        for name, rows in drawn.groupby("set", sort=False):
            source = sources.index(str(name).rpartition(",")[0])
            style, marker = STYLES[source], MARKERS[source]
            sns.lineplot(
                x=rows["nominal"],
                y=rows["held"],
                ax=ax,
                linestyle=style,
                marker=marker,
                ms=7,
                color=_far(rows["ratio"].iloc[0]),
                markeredgecolor=colour("paper"),
                label=f"{name} ({rows['n'].iloc[0]})",
            )
        ax.set_xticks(LEVELS)
        ax.set_xlabel("nominal, %")
        ax.set_ylabel("observed inside, %")
        ax.set_xlim(46, 94)
        ax.set_ylim(min(40.0, 5 * (drawn["held"].min() // 5)) - 3, 103)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9.5)

    wide = table.pivot_table(
        index=["set", "band", "n"], columns="nominal", values="held", sort=False
    ).reset_index()
    wide.columns = [f"{c} %" if isinstance(c, int) else str(c) for c in wide.columns]
    words = {
        "simulated": "What leaves the family is held less often the farther it is followed. "
        "Behind a break intervals are so wide that they hold and say little.",
        "real": "Fewer than eight observations are only in the table; those of one set share "
        f"their training runs.{_below(drawn)}",
    }
    title = {"simulated": "Coverage where the truth is known", "real": "Coverage on real runs"}
    return Plate(
        title=title[which],
        svg=_picture(draw, WIDE, key=f"cover{which}", label=f"{title[which]}, against nominal."),
        text="Default band; in brackets how many observations. On the line intervals hold as "
        "often as they say, above it they are wider than needed. Brighter is farther beyond the "
        f"sweep. {words[which]}",
        tables=(
            _table(
                "Share of observations inside, %",
                wide,
                {f"{level} %": ".0f" for level in LEVELS} | {"n": ".0f"},
            ),
        ),
    )


def _below(drawn: pd.DataFrame) -> str:
    """Which sets the 90 % intervals hold far too rarely."""
    rows = drawn[(drawn["nominal"] == 90) & (drawn["held"] < 90 - TOO_RARE)]
    if rows.empty:
        return ""
    names = "; ".join(f"{r['set']} ({r['held']:.0f} %)" for r in rows.to_dict("records"))
    return f" Far below the line, with intervals that are too narrow: {names}."


def _trades(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row a set and band: median full width of the 90 % interval, %, and share inside, %."""
    simulated = found["simulated"]
    for kind, words in KINDS.items():
        rows, name = simulated[simulated["kind"] == kind], f"simulated, {words}"
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


def trade_plate(table: pd.DataFrame) -> Plate:
    """Width against coverage: what the wider band buys."""
    inks = {"default": ("law", "o"), "family": ("fixed", "s")}

    def draw(ax: Axes) -> None:
        ax.axhline(90, color=colour("muted"), lw=1)
        sets = list(dict.fromkeys(table["set"]))
        for name, rows in table[table["band"].isin(inks)].groupby("set", sort=False):
            ax.plot(rows["width"], rows["held"], color=colour("muted"), lw=0.8, zorder=1)
            wider = rows.set_index("band").loc["default"]
            ax.annotate(
                str(sets.index(name) + 1),
                (wider["width"], wider["held"]),
                xytext=(0, 9),
                textcoords="offset points",
                ha="center",
                fontsize=10,
                color=colour("ink"),
            )
        for band, rows in table.groupby("band", sort=False):
            ink, marker = inks.get(str(band), ("muted", "X"))
            sns.scatterplot(
                x=rows["width"],
                y=rows["held"],
                ax=ax,
                marker=marker,
                s=75,
                color=colour(ink),
                edgecolor=colour("paper"),
                label=band,
                zorder=4,
            )
        others = table[~table["band"].isin(inks)]
        for row in others.to_dict("records"):
            ax.annotate(
                str(sets.index(row["set"]) + 1),
                (row["width"], row["held"]),
                xytext=(9, -4),
                textcoords="offset points",
                fontsize=10,
                color=colour("muted"),
            )
        label = "median full width of the 90 % interval, %"
        set_log_axis(ax, "x", table["width"], label=label, pad=0.08)
        ax.set_ylim(table["held"].min() - 6, 105)
        ax.set_ylabel("observed inside, %")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0.2)

    names = dict.fromkeys(table["set"])
    legend = "; ".join(f"({i}) {name}" for i, name in enumerate(names, start=1))
    return Plate(
        title="What the wider band buys",
        svg=_picture(draw, WIDE, key="trade", label="Width against coverage of both bands."),
        text=f"Up is more often right, left is sharper; lines join the two bands. {legend}.",
        tables=(
            _table("Width and coverage, %", table, {"width": ".1f", "held": ".1f"}),
        ),
    )  # fmt: skip


def _signed(value: float, _: object) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+g}".replace("-", "−")


def gadre_plate(table: pd.DataFrame) -> Plate:
    """Observed against forecast for the larger models, with both bands."""
    ours = table[(table["method"] == "extrap") & (table["rule"] == "short warm-up")].copy()
    ours["deviation"] = 100 * (ours["loss"] / ours["predicted"] - 1)
    sets = sorted(ours["set"].unique())
    order = ours.sort_values(["params", "tokens", "set"]).reset_index(drop=True)

    def draw(ax: Axes) -> None:
        ax.axhline(0, color=colour("law"), lw=1.5)
        for band, width, alpha in (("default", 9, 0.2), ("family", 4, 0.35)):
            low, high = (
                100 * (order[f"{end}_{band}"] / order["predicted"] - 1)
                for end in ("lower", "upper")
            )
            ax.vlines(order.index, low, high, color=colour("law"), lw=width, alpha=alpha,
                      label=f"90 % band {band}")  # fmt: skip
        for i, name in enumerate(sets):
            rows = order[order["set"] == name]
            sns.scatterplot(
                x=rows.index,
                y=rows["deviation"],
                ax=ax,
                marker=MARKERS[i],
                s=55,
                color=ramp("tuned", i / (len(sets) - 1)),
                edgecolor=colour("paper"),
                label=name,
                zorder=5,
            )
        first = order.groupby("params").apply(lambda rows: rows.index.min())
        for start in first.iloc[1:]:
            ax.axvline(start - 0.5, color=colour("muted"), lw=0.8)
        ax.set_xticks(list(first), [f"{p / 1e9:.2g}B" for p in first.index])
        ax.set_xlabel("parameters; within a size, more tokens to the right")
        ax.set_ylabel("observed against forecast, %")
        ax.yaxis.set_major_formatter(FuncFormatter(_signed))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, borderaxespad=0.2)

    numbers = order[["set", "params", "tokens", "ratio", "loss", "predicted", "deviation"]]
    return Plate(
        title="Gadre: small models forecast larger ones",
        svg=_picture(draw, WIDE, key="gadre", label="Deviations of the larger models."),
        text="Zero is the forecast from models up to 154M parameters. Runs whose warm-up takes "
        "half of their steps are left out, here and in the fit.",
        tables=(
            _table(
                "Forecast and observed losses",
                numbers,
                {
                    "params": ".3g",
                    "tokens": ".3g",
                    "ratio": ".2g",
                    "loss": ".3f",
                    "predicted": ".3f",
                    "deviation": "+.2f",
                },
            ),
        ),
    )


def optima_plate(table: pd.DataFrame) -> Plate:
    """Forecast optima of the larger Step Law cells against what their own runs say."""
    cells = list(dict.fromkeys(table["cell"]))
    names = list(dict.fromkeys(table["name"]))
    place = {(n, c): i * (len(cells) + 1) + j for i, n in enumerate(names)
             for j, c in enumerate(cells)}  # fmt: skip
    table = table.assign(
        place=[place[n, c] for n, c in zip(table["name"], table["cell"], strict=True)],
        own_off=table["own"] - table["forecast"],
        quadratic_off=table["quadratic"] - table["forecast"],
    )

    def draw(ax: Axes) -> None:
        ax.axvline(0, color=colour("law"), lw=1.5)
        ax.hlines(table["place"], -table["half"], table["half"], color=colour("law"), lw=9,
                  alpha=0.25, label="forecast, 90 %")  # fmt: skip
        ax.hlines(table["place"], table["own_off"] - table["own_half"],
                  table["own_off"] + table["own_half"], color=colour("good"), lw=1.5)  # fmt: skip
        for column, label, marker, ink in (
            ("own_off", "cell's own optimum, 90 %", "o", "good"),
            ("quadratic_off", "quadratic through its best 1 %", "D", "fixed"),
        ):
            sns.scatterplot(x=table[column], y=table["place"], ax=ax, marker=marker, s=55,
                            color=colour(ink), edgecolor=colour("paper"), label=label,
                            zorder=5)  # fmt: skip
        labels = [f"{'rate' if n == 'lr' else 'batch'}, {c}" for n, c in place]
        ax.set_yticks(list(place.values()), labels, color=colour("ink"))
        ax.set_ylabel("")
        ax.set_xlabel("octaves from the forecast optimum")
        ax.invert_yaxis()
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2)

    columns = ["cell", "name", "forecast", "half", "own", "own_half", "quadratic"]
    numbers = table[columns].assign(
        **{c: 2.0 ** table[c] for c in ("forecast", "own", "quadratic")}
    )
    return Plate(
        title="Step Law: rate and batch size of the larger cells",
        svg=_picture(draw, WIDE, key="optima", label="Forecast and own optima, in octaves."),
        text="Zero is the forecast from the smaller cells; an octave is a factor of two. The two "
        "estimates of a cell's own optimum differ as well: no truth is known better than that.",
        tables=(
            _table(
                "Optima; half widths of the 90 % intervals in octaves",
                numbers,
                {
                    "forecast": ".3g",
                    "own": ".3g",
                    "quadratic": ".3g",
                    "half": ".2f",
                    "own_half": ".2f",
                },
            ),
        ),
    )
