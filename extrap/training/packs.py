"""Packs: runs of one size, one batch size and one number of steps, to be trained together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from extrap.records import EXAMPLES_COLUMN, TOKENS_COLUMN, Cell, Recipe
from extrap.workloads import LoadedWorkload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pack:
    """Runs to train together: one size, one batch size, one number of steps.

    Of the size columns `tokens` is the length of the runs, `examples` how many different ones they
    have; the others are the model's.
    """

    workload: LoadedWorkload  # model family and data
    size: Mapping[str, float]
    recipe: Recipe  # what is held fixed
    cells: tuple[Cell, ...]  # of this size; each tunes `lr` and any of the recipe's `TUNABLE`

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("a pack needs at least one cell, got none.")
        for cell in self.cells:
            if "lr" not in dict(cell.tuned):
                raise ValueError(
                    f"every run needs a learning rate, lr; got {dict(cell.tuned)}. Tune lr, "
                    "or pass your own train=."
                )
            if cell.size != Cell.of(self.size, {}, 0).size:
                raise ValueError(
                    "all runs of a pack must have the same size; the pack has "
                    f"{dict(self.size)}, a cell {dict(cell.size)}."
                )
        lengths = {(recipe.batch_size, recipe.steps) for recipe in self.recipes()}
        if len(lengths) > 1:
            raise ValueError(
                "all runs of a pack must have the same batch size and number of steps, got "
                f"{sorted(lengths)}; train them in several packs."
            )

    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of each run, its tuned values and data size put in."""
        per_example = self.workload.tokens_per_example
        return tuple(
            self.recipe.with_values(self.size, dict(c.tuned), tokens_per_example=per_example)
            for c in self.cells
        )

    def kind(self) -> tuple[Hashable, ...]:
        """What memory and time of a run depend on: packs of one workload and kind need as much."""
        recipe = self.recipes()[0]
        return (*sorted(self.size.items()), self.recipe, recipe.batch_size, recipe.steps)

    def model_size(self) -> dict[str, float]:
        """The size columns that the model has."""
        return {
            c: value for c, value in self.size.items() if c not in (TOKENS_COLUMN, EXAMPLES_COLUMN)
        }

    def n_kept(self) -> int | None:
        """Different training examples of a run, where they are a size; else None."""
        n_examples = self.size.get(EXAMPLES_COLUMN)
        if n_examples is not None and not (n_examples >= 1 and n_examples == int(n_examples)):
            raise ValueError(
                f"{EXAMPLES_COLUMN} must be a whole number above 0, got {n_examples:g}."
            )
        return None if n_examples is None else int(n_examples)


def flops_6nd(n_params: int, n_tokens: int) -> float:
    """Training compute C ≈ 6 N D: 2 operations a parameter and token forward, 4 backward.

    N counts parameters without embeddings, D the tokens predicted.

    References:
        Kaplan et al. 2020, "Scaling laws for neural language models", arXiv 2001.08361, Sec. 2.1.
    """
    return 6.0 * n_params * n_tokens


def run_flops(workload: LoadedWorkload, size: Mapping[str, float], n_tokens: int) -> float:
    """Training compute of a run, FLOPs: what the workload counts, else 6 N D.

    A workload may define `flops(size, n_tokens)`, of the model's size and the predicted tokens.
    """
    count_flops = getattr(workload, "flops", None)
    return (
        count_flops(size, n_tokens)
        if count_flops
        else flops_6nd(workload.n_params(size), n_tokens)
    )
