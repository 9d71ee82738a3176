"""From the run table of a comparison of densities to its law and its accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from extrap.comparing import SparseArm, SparseSweep, sparse_sweep
from extrap.errors import ExtrapError
from extrap.reading import read_runs
from extrap.records import Recipe, Workload
from extrap.reporting.blocks import Details
from extrap.reporting.sparsity_page import sparsity_section

if TYPE_CHECKING:
    from extrap.training import SparseCosts

__all__ = ["SparseAccounts", "sparse_accounts", "sparsity_sections"]

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
    """The law of sparse models and its accounts; nothing for a table without three densities.

    Counting needs the workload of the runs and the libraries of training: without, nothing too.
    """
    found = sparse_accounts(table)
    if found is None:
        return []
    sizes = [size for _, size in found.costs]
    shown = {point.arm: point.density for point in found.sweep.points}
    counts = {
        f"{arm}, {size:g}": (
            -costs.flops_saved,
            -costs.weight_memory_saved,
            costs.final_weight_bytes / costs.dense_weight_bytes - 1,
            -costs.activation_memory_saved,
            costs.selected / costs.flops,
        )
        for (arm, size), costs in found.costs.items()
        if shown.get(arm, 1.0) < 1 and size in (min(sizes), max(sizes))
    }
    return [sparsity_section(found.sweep, counts)]


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
