"""The pictures of `make bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.training import N_RUNS, STEPS, TARGETS, Race
from extrap.reporting.figures.canvas import colour, draw_svg
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["plates"]

SIZE = (880, 420)
WAYS = {"ordinary_s": "one run at a time", "vmap_s": "eager vmap", "ours_s": "extrap"}


def plates(found: Mapping[str, Any]) -> list[Plate]:
    """Those whose data were measured."""
    return [training_plate(found["training"])] if found.get("training") else []


def training_plate(races: Sequence[Race]) -> Plate:
    """Milliseconds of one step of one run against width, by way."""
    table = pd.DataFrame(
        [
            {"width": race.width, "way": name, "ms": 1e3 * getattr(race, column) / race.run_steps}
            for race in races
            for column, name in WAYS.items()
        ]
    )

    def draw(axes: Axes) -> None:
        palette = dict(zip(WAYS.values(), map(colour, ("muted", "fixed", "law")), strict=True))
        sns.lineplot(
            table,
            x="width",
            y="ms",
            hue="way",
            style="way",
            palette=palette,
            markers=True,
            dashes=False,
            ax=axes,
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([race.width for race in races])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("width of the byte MLP")
        axes.set_ylabel("milliseconds a step and run")
        axes.get_legend().set_title("")

    width, height = SIZE
    label = "milliseconds of a step of one run against width, three ways of training"
    cells = tuple(
        (
            f"{race.width}",
            *(f"{getattr(race, column):.1f}" for column in WAYS),
            f"{race.ordinary_s / race.ours_s:.2f}×",
            f"≥ {TARGETS[race.width]:g}×",
        )
        for race in races
    )
    columns = ("width", *(f"{name}, s" for name in WAYS.values()), "ratio", "target")
    return Plate(
        title="Training many small runs",
        svg=draw_svg(draw, width=width, height=height, key="training", label=label),
        text=f"{N_RUNS} runs of {STEPS:,} steps, whole processes by the clock, divided by runs "
        "and steps. The wider the model, the less there is to save: then arithmetic is all.",
        tables=(Table(caption="Seconds for all runs", columns=columns, rows=cells),),
    )
