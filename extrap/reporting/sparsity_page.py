"""Sparse training as a closed part of a page: its law, and what it saves by count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from extrap.comparing import SparseSweep
from extrap.fitting import SparsityFit, predict_log, relative_sizes
from extrap.reporting.blocks import Block, Details, Figure, Paragraph
from extrap.reporting.charts import Axis, Series, XYChart
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_percent,
    format_quantity,
    stacked,
)
from extrap.reporting.study_page import tabulated
from extrap.reporting.tables import Table

__all__ = ["COUNTS", "sparsity_section"]

COUNTS = (
    "training FLOPs",
    "memory of weights",
    "at the end",
    "memory of activations",
    "compared by selections",
)
"""What is counted of a recipe: changes against dense training, the last one a share."""
N_CURVE = 40


def sparsity_section(sweep: SparseSweep, counts: Mapping[str, Sequence[float]]) -> Details:
    """The law of sparse models with its chart, and the table of what is saved.

    Args:
        sweep: Tuned losses and their law.
        counts: Recipe and size → one number for each of `COUNTS`; none where not counted.
    """
    law, blocks = sweep.law, list[Block]()
    text = f"No law of sparse models: {sweep.problem}"
    if law is not None:
        sparsest = min(law.worth)
        found = (law.worth[sparsest], law.size_kept[sparsest])
        worth, kept = (format_estimate(measure.value, measure.ci) for measure in found)
        text = (
            f"A model with {100 * sparsest:g}{NBSP}% of its weights has the loss of a dense model "
            f"with {worth} times its non-zero parameters, or {kept} of its full size "
            f"({100 * law.level:g}{NBSP}% intervals). Law (Frantar et al. 2023): "
            "L = E + (cS + aS · d^bS) · N^−bN, N non-zero parameters, d density."
        )
        blocks.append(_law_table(law))
    figure = Figure(_chart(sweep), "At equal non-zero parameters a lower line is better.")
    blocks += [_points_table(sweep), *([_counts_table(counts)] if counts else [])]
    return Details("Sparse training", (Paragraph(text), figure, *blocks))


def _chart(sweep: SparseSweep) -> XYChart:
    """Tuned losses over non-zero parameters, one line per density."""
    shown = []
    densities = sorted({point.density for point in sweep.points}, reverse=True)
    for place, density in enumerate(densities):
        ink = f"size:{1 - place / max(1, len(densities) - 1):.3f}"
        own = [point for point in sweep.points if point.density == density]
        name = f"{100 * density:g}{NBSP}%"
        if sweep.law is not None:
            fitted, x = sweep.law.fitted, [point.kept for point in own]
            xs = [float(v) for v in np.geomspace(min(x), max(x), N_CURVE)]
            losses = [
                predict_log(fitted, relative_sizes(fitted, {"params": v, "density": density}))[0]
                for v in xs
            ]
            y = tuple(math.exp(float(loss[0])) for loss in losses)
            shown.append(Series(label=name, x=tuple(xs), y=y, ink=ink, line="-"))
        label = name if sweep.law is None else ""
        kept, loss = tuple(p.kept for p in own), tuple(p.loss for p in own)
        shown.append(Series(label=label, x=kept, y=loss, ink=ink, marker="osD^vP"[place % 6]))
    return XYChart(
        title="Tuned loss by share of weights kept",
        x=Axis("non-zero parameters"),
        y=Axis("tuned loss"),
        series=tuple(shown),
    )


def _law_table(law: SparsityFit) -> Table:
    terms = (
        ("bS, exponent of the density", law.density_exponent),
        ("aS / cS at density 1", law.ratio),
        ("bN, exponent of non-zero parameters", law.params_exponent),
    )
    sizes = (
        (f"dense size of equal loss over {what}, {100 * d:g}{NBSP}% kept", found[d])
        for what, found in (("non-zero parameters", law.worth), ("all", law.size_kept))
        for d in law.worth
        if d < 1
    )
    return Table(
        caption="The law of sparse models",
        columns=("quantity", f"value, {100 * law.level:g}{NBSP}% interval"),
        rows=tuple((name, stacked(m.value, m.ci)) for name, m in (*terms, *sizes)),
    )


def _points_table(sweep: SparseSweep) -> Table:
    return tabulated(
        "Tuned losses by density",
        sweep.points,
        {
            "recipe": lambda point: f"{point.arm}, {format_quantity(point.size[0])}",
            "parameters": lambda point: format_quantity(point.params),
            "non-zero": lambda point: format_quantity(point.kept),
            "loss": lambda point: f"{point.loss:.4f}",
        },
    )


def _counts_table(counts: Mapping[str, Sequence[float]]) -> Table:
    rows = (
        (name, *map(format_percent, values[:-1]), format_percent(values[-1], signed=False))
        for name, values in counts.items()
    )
    return Table(
        caption="Savings of sparse training against dense training, by count",
        columns=("recipe", *COUNTS),
        rows=tuple(rows),
        note="Counted, not measured: dense kernels compute zeros too; updated dense weights, "
        "their gradients and the optimiser's sums stay. FLOPs: three products per linear layer, "
        "each by the density of its sparse operand. Memory: kept values and a bit for each "
        "position; the network's input and its probabilities stay whole. Selections: values "
        "compared with a threshold or sorted, over the remaining FLOPs.",
    )
