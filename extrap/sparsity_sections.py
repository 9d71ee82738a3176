"""From the run table of a comparison of densities to its law and accounts, a part of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from extrap.comparing import SparseArm, SparseSweep, sparse_sweep
from extrap.errors import ExtrapError
from extrap.fitting import SparsityFit, predict_log, relative_sizes
from extrap.reading import read_runs
from extrap.records import Recipe, Workload
from extrap.reporting.blocks import Block, Details, Figure, Paragraph
from extrap.reporting.charts import Axis, Series, XYChart
from extrap.reporting.numbers import NBSP, format_percent, format_quantity, stacked
from extrap.reporting.study_page import estimate
from extrap.reporting.tables import Table, tabulated

if TYPE_CHECKING:
    from extrap.training import SparseCosts

N_CURVE = 40
DENSITY, RATE = "density", "lr"
FEWEST_DENSITIES = 3
COUNTED = ("steps", "batch_size", "optimizer", "activation_density", "sparsify", "mask_every")
"""Fields of a recipe, beside the density, that its costs depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAccounts:
    """What the run table of several densities says.

    Attributes:
        sweep: Tuned losses and their law.
        costs: (name of the sweep, size) → its costs by count; the target's sizes as well.
    """

    sweep: SparseSweep
    costs: Mapping[tuple[str, float], SparseCosts]


def sparsity_sections(table: pd.DataFrame) -> list[Details]:
    """The law of sparse models and what they save; nothing for a table without three densities.

    Counting needs the workload of the runs and the libraries of training: without, nothing too.
    """
    found = sparse_accounts(table)
    if found is None:
        return []
    law, blocks = found.sweep.law, list[Block]()
    text = f"No law of sparse models: {found.sweep.problem}"
    if law is not None:
        sparsest = min(law.worth)
        worth, kept = estimate(law.worth[sparsest]), estimate(law.size_kept[sparsest])
        text = (
            f"A model with {100 * sparsest:g}{NBSP}% of its weights has the loss of a dense model "
            f"with {worth} times its non-zero parameters, or {kept} of its full size "
            f"({100 * law.level:g}{NBSP}% intervals). Law (Frantar et al. 2023): "
            "L = E + (cS + aS · d^bS) · N^−bN, N non-zero parameters, d density."
        )
        blocks.append(_law_table(law))
    figure = Figure(_chart(found.sweep), "At equal non-zero parameters a lower line is better.")
    counts = _counts_table(found)
    blocks += [_points_table(found.sweep), *([counts] if counts.rows else [])]
    return [Details("Sparse training", (Paragraph(text), figure, *blocks))]


def sparse_accounts(table: pd.DataFrame, *, level: float = 0.95) -> SparseAccounts | None:
    """Sweep, law and counts of a run table; None if it is not one of three densities.

    Args:
        table: Run table of a comparison, with one size column, `width`, and the columns of its
            recipes.
        level: Of the intervals.
    """
    if not {DENSITY, "width", RATE, "workload", "n_params"} <= set(table):
        return None
    densities = table[DENSITY].fillna(1.0)
    if densities.nunique() < FEWEST_DENSITIES:
        return None
    try:
        from extrap.training import sparse_costs
        from extrap.workloads import load_workload
    except ImportError:
        return None
    arms, costs = [], {}
    for name, own in table.groupby("arm", sort=False):
        recipe = _recipe(own.iloc[0])
        try:
            workload = load_workload(Workload(name=str(own["workload"].iloc[0])))
            for width in sorted(set(own["width"])):
                costs[str(name), float(width)] = sparse_costs(workload, {"width": width}, recipe)
        except (ExtrapError, ValueError, OSError):
            return None
        runs = read_runs(
            own[own["stage"] == "tune"].dropna(axis="columns", how="all").drop(columns="arm"),
            size="width",
            tune=RATE,
        )
        mine = {(size,): cost for (arm, size), cost in costs.items() if arm == name}
        arms.append(
            SparseArm(
                name=str(name),
                density=recipe.density,
                runs=runs,
                params={size: float(cost.n_params) for size, cost in mine.items()},
                kept={size: float(cost.n_kept) for size, cost in mine.items()},
            )
        )
    return SparseAccounts(sweep=sparse_sweep(arms, level=level), costs=costs)


def _recipe(row: pd.Series) -> Recipe:
    """The recipe of a row as far as its costs go."""
    kinds = {field.name: field.type for field in fields(Recipe)}
    given = {name: row[name] for name in (DENSITY, *COUNTED) if name in row}
    known: dict[str, Any] = {
        name: int(value) if kinds[name] == "int" else value
        for name, value in given.items()
        if not pd.isna(value)
    }
    return Recipe(**known)


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
    rows = tuple((name, stacked(found.value, found.ci)) for name, found in (*terms, *sizes))
    columns = ("quantity", f"value, {100 * law.level:g}{NBSP}% interval")
    return Table(caption="The law of sparse models", columns=columns, rows=rows)


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


def _counts_table(found: SparseAccounts) -> Table:
    """Changes against dense training at the smallest and the largest size; selections a share."""
    sizes = [size for _, size in found.costs]
    shown = {point.arm: point.density for point in found.sweep.points}
    return tabulated(
        "Savings of sparse training against dense training, by count",
        [
            (f"{arm}, {size:g}", costs)
            for (arm, size), costs in found.costs.items()
            if shown.get(arm, 1.0) < 1 and size in (min(sizes), max(sizes))
        ],
        {
            "recipe": lambda row: row[0],
            "training FLOPs": lambda row: format_percent(-row[1].flops_saved),
            "memory of weights": lambda row: format_percent(-row[1].weight_memory_saved),
            "at the end": lambda row: format_percent(
                row[1].final_weight_bytes / row[1].dense_weight_bytes - 1
            ),
            "memory of activations": lambda row: format_percent(-row[1].activation_memory_saved),
            "compared by selections": lambda row: format_percent(
                row[1].selected / row[1].flops, signed=False
            ),
        },
        note="Counted, not measured: dense kernels compute zeros too; updated dense weights, "
        "their gradients and the optimiser's sums stay. FLOPs: three products per linear layer, "
        "each by the density of its sparse operand. Memory: kept values and a bit for each "
        "position; the network's input and its probabilities stay whole. Selections: values "
        "compared with a threshold or sorted, over the remaining FLOPs.",
    )
