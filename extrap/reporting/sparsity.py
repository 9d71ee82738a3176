"""Sparse training as a part of a page: its law, and what it saves by count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from extrap.comparing import SparseSweep
from extrap.fitting import SparsityFit
from extrap.reporting.figures import draw_sparse_losses, draw_svg, sparse_losses_info
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.numbers import NBSP, format_estimate, format_percent, format_quantity
from extrap.reporting.plates import Plate
from extrap.reporting.sections import Section
from extrap.reporting.tables import Table

__all__ = ["SparseCount", "sparsity_section"]

WIDE, NARROW = (880, 480), (390, 430)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseCount:
    """What one density saves at one size by count, as shares of dense training.

    Attributes:
        name: Of the recipe and size, as shown.
        flops: Operations of all products of linear layers, mean over the training.
        weight_bytes: Weights that forward and backward pass read, mean over the training.
        final_weight_bytes: The same at its end.
        activation_bytes: What the backward pass keeps.
        selected: Values that selections look at, over the operations that are left.
    """

    name: str
    flops: float
    weight_bytes: float
    final_weight_bytes: float
    activation_bytes: float
    selected: float


def sparsity_section(sweep: SparseSweep, counts: Sequence[SparseCount]) -> Section:
    """The law of sparse models with its picture, and the table of what is saved.

    Args:
        sweep: Tuned losses and their law.
        counts: Savings by density and size; none where they could not be counted.
    """
    tables = [_points_table(sweep)]
    if sweep.law is not None:
        tables.insert(0, _worth_table(sweep.law))
    if counts:
        tables.append(_counts_table(counts))
    return Section(
        key="sparsity",
        title="The law of sparse models",
        words=_words(sweep, counts),
        plates=(_plate(sweep),),
        tables=tuple(tables),
    )


def _words(sweep: SparseSweep, counts: Sequence[SparseCount]) -> tuple[str, ...]:
    words = []
    if sweep.law is None:
        words.append(f"No law of sparse models: {sweep.problem}")
    else:
        law = sweep.law
        sparsest = min(law.worth)
        worth, kept = law.worth[sparsest], law.size_kept[sparsest]
        words.append(
            f"With {100 * sparsest:g}{NBSP}% of its weights a model has the loss of a dense one "
            f"of {format_estimate(worth.value, worth.ci)} times as many parameters as it keeps, "
            f"which is {format_estimate(kept.value, kept.ci)} of the size it had "
            f"({100 * law.level:g}{NBSP}% intervals)."
        )
        words.append(
            "Law: L = E + (cS + aS · d^bS) · N^−bN over non-zero parameters N and density d "
            "(Frantar et al. 2023): one exponent bN for all densities."
        )
    if counts:
        words.append(
            "Savings are counted, not measured: dense kernels compute zeros too. The dense "
            "weights that are updated, their gradients and the optimiser's sums stay."
        )
    return tuple(words)


def _plate(sweep: SparseSweep) -> Plate:
    info = sparse_losses_info(sweep)
    label = "Tuned loss against non-zero parameters, one line a density."

    def drawn(shape: tuple[int, int], key: str, columns: int) -> str:
        return draw_svg(
            partial(_swap, info, columns), width=shape[0], height=shape[1], key=key, label=label
        )

    return Plate(
        title="",
        svg=drawn(WIDE, "sparsity-figure", 4),
        narrow_svg=drawn(NARROW, "sparsityn", 2),
        text="Marks: tuned losses. Lines: one law through all of them. At equal non-zero "
        "parameters a lower line is better.",
    )


def _swap(info: Any, columns: int, ax: Any) -> None:
    draw_sparse_losses(ax, info, columns=columns)


def _worth_table(law: SparsityFit) -> Table:
    terms = (
        ("bS, exponent of the density", law.density_exponent),
        ("aS / cS at density 1", law.ratio),
        ("bN, exponent of non-zero parameters", law.params_exponent),
    )
    sizes = (
        (f"dense size of equal loss over {what}, {100 * d:g} % kept", found[d])
        for what, found in (("non-zero parameters", law.worth), ("all", law.size_kept))
        for d in law.worth
        if d < 1
    )
    rows = [(name, stacked(m.value, m.ci)) for name, m in (*terms, *sizes)]
    return Table(
        caption="The density term",
        columns=("quantity", f"value, {100 * law.level:g}{NBSP}% interval"),
        rows=tuple(rows),
    )


def _points_table(sweep: SparseSweep) -> Table:
    return Table(
        caption="Tuned losses by density",
        columns=("recipe", "parameters", "not zero", "loss"),
        rows=tuple(
            (
                f"{p.arm}, {format_quantity(p.size[0])}",
                format_quantity(p.params),
                format_quantity(p.kept),
                f"{p.loss:.4f}",
            )
            for p in sweep.points
        ),
    )


def _counts_table(counts: Sequence[SparseCount]) -> Table:
    return Table(
        caption="What sparse training saves, by count",
        columns=(
            "recipe",
            "training FLOPs",
            "memory of weights",
            "… at the end",
            "memory of activations",
            "looked at by selections",
        ),
        rows=tuple(
            (
                count.name,
                *(
                    format_percent(share - 1)
                    for share in (
                        count.flops,
                        count.weight_bytes,
                        count.final_weight_bytes,
                        count.activation_bytes,
                    )
                ),
                format_percent(count.selected, signed=False),
            )
            for count in counts
        ),
        note="Against dense training. FLOPs: the three products of every linear layer, each by "
        "the density of its sparse operand, mean over the training. Weights: kept values and a "
        "bit each for which they are. Activations: kept values, a bit each, a bit for a sign; the "
        "network's input and its probabilities stay whole. Selections: values compared with a "
        "threshold or sorted for one, over the FLOPs left.",
    )
