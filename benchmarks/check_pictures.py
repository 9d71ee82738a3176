"""The pictures of `make bench-check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from benchmarks.faults import CAUSES, Confusion
from extrap.reporting.figures.canvas import colour, draw_svg
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["plates"]

SIZE = (880, 460)
NAMES = {-3: "3 too low", -2: "2 too low", 0: "tuned", 2: "2 too high", 3: "3 too high"}
"""Octaves off the forecast rate → words."""
INKS = {-3: "law", -2: "law", 0: "good", 2: "fixed", 3: "fixed"}


def plates(found: Mapping[str, Any]) -> list[Plate]:
    """Those whose data were measured."""
    made = []
    if "faults" in found:
        made.append(confusion_plate(found["faults"]))
    if "monitor" in found:
        made.append(monitor_plate(found["monitor"]))
    return made


def confusion_plate(found: Confusion) -> Plate:
    """Which cause was named for which fault."""
    order = list(dict.fromkeys([*CAUSES.values(), *found.matrix.columns]))
    matrix = found.matrix.reindex(columns=order, fill_value=0)
    shares = matrix.div(matrix.sum(axis=1), axis=0)

    def draw(axes: Axes) -> None:
        for i, (fault, row) in enumerate(matrix.iterrows()):
            for j, (cause, count) in enumerate(row.items()):
                if not count:
                    continue
                ink = colour("good" if CAUSES[str(fault)] == cause else "bad")
                share = float(shares.loc[fault, cause])
                patch = Rectangle(
                    (j - 0.5, i - 0.5), 1, 1, color=ink, alpha=0.1 + 0.4 * share, lw=0
                )
                axes.add_patch(patch)
                axes.text(j, i, str(count), ha="center", va="center", color=colour("ink"))
        axes.set_xlim(-0.5, len(order) - 0.5)
        axes.set_ylim(len(matrix) - 0.5, -0.5)
        axes.set_xticks(range(len(order)), order)
        axes.set_yticks(range(len(matrix)), list(matrix.index))
        axes.set_xlabel("cause the checker named")
        axes.set_ylabel("fault put in")
        axes.grid(visible=False)

    rows = tuple(
        (str(fault), *(str(int(count)) for count in row)) for fault, row in matrix.iterrows()
    )
    return Plate(
        title="Faults and the causes named",
        svg=draw_svg(
            draw, width=SIZE[0], height=SIZE[1], key="confusion", label="fault against cause, runs"
        ),
        text=f"Runs; the right cause in {found.right:.0%} of the faulty ones, none named in "
        f"{found.silent:.0%} of the clean ones.",
        tables=(Table(caption="Runs", columns=("fault", *order), rows=rows),),
    )


def monitor_plate(found: pd.DataFrame) -> Plate:
    """The share of runs called so far against the fraction of the training."""
    at = np.array([0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0])
    share = {
        octaves: [(group["fraction"] <= x * (1 + 1e-6)).mean() for x in at]
        for octaves, group in found.groupby("octaves")
        if octaves in NAMES
    }

    def draw(axes: Axes) -> None:
        for octaves, values in share.items():
            sns.lineplot(
                x=at,
                y=100 * np.array(values),
                ax=axes,
                color=colour(INKS[octaves]),
                ls="-" if abs(octaves) != 2 else "--",
                lw=2,
                marker="o",
                errorbar=None,
                label=NAMES[octaves],
            )
        axes.set_xscale("log")
        axes.set_xticks([0.01, 0.03, 0.1, 0.3, 1.0], ["1 %", "3 %", "10 %", "30 %", "100 %"])
        axes.set_xticks([], minor=True)
        axes.set_ylim(-3, 103)
        axes.set_xlabel("of the training")
        axes.set_ylabel("runs called, %")

    rows = tuple(
        (f"{x:.0%}", *(f"{100 * share[octaves][i]:.0f} %" for octaves in share))
        for i, x in enumerate(at)
    )
    columns = ("of the training", *(NAMES[octaves] for octaves in share))
    return Plate(
        title="How soon a mistuned run is called",
        svg=draw_svg(
            draw, width=SIZE[0], height=SIZE[1], key="monitor", label="runs called over training"
        ),
        text="Octaves off the forecast rate. Where lines meet, the last one covers the others; "
        "the table has them all.",
        tables=(Table(caption="Runs called so far", columns=columns, rows=rows),),
    )
