"""Optimisers over stacked parameters: one update rule, every run with its own constants.

Every tensor has a leading run axis M. No operation mixes values of two runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from extrap.records import Recipe
from extrap.training.optimizers.muon import Muon
from extrap.training.optimizers.optimizer import Optimizer, Way, clip_by_run, squares_by_run
from extrap.training.optimizers.rules import SGD, Adam, AdamW

__all__ = ["build_optimizer", "clip_by_run", "squares_by_run"]

BY_NAME: Mapping[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def build_optimizer(
    parameters: Sequence[torch.Tensor],
    recipes: Sequence[Recipe],
    *,
    scales: Sequence[float] | None = None,
    matrices: Sequence[bool] | None = None,
    way: Way | None = None,
) -> Optimizer:
    """The optimiser that the recipes name.

    Args:
        parameters: Stacked parameters, each (M, …); updated in place.
        recipes: One per run; all of one optimiser.
        scales: What each parameter's learning rate is multiplied by; 1 by default.
        matrices: Which parameters Muon orthogonalises; none by default.
        way: How to update, see `Optimizer`; by default what is quickest.
    """
    scales = scales or [1.0] * len(parameters)
    if recipes[0].optimizer == "muon":
        chosen = matrices or [False] * len(parameters)
        return Muon(parameters, recipes, scales=scales, matrices=chosen, way=way)
    return BY_NAME[recipes[0].optimizer](parameters, recipes, scales=scales, way=way)
