"""Sparse weight activation training of a pack: which weights each run computes with.

Shapes: M runs; `…` the axes of one parameter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from extrap.records import Recipe

Tensors = list[torch.Tensor]


class SparseWeights:
    """The largest weights of every matrix of every run, and zeros: what a model computes with.

    A kept weight has at least a magnitude, a number for each matrix and run, that is determined
    again every `mask_every` updates; in between weights come and go as they cross it. The
    gradient by these tensors is that of all weights, kept or not: all are updated.

    Args:
        parameters: Stacked parameters, each (M, …).
        is_matrix: Which of them are sparse.
        recipe: Of any of the runs: they share its density.

    References:
        Raihan, Aamodt 2020, "Sparse weight activation training", arXiv 2001.01969, SWAT-U.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], *, is_matrix: Sequence[bool], recipe: Recipe
    ) -> None:
        self._recipe = recipe
        self._sparse = [i for i, sparse in enumerate(is_matrix) if sparse and recipe.density < 1]
        self._bind(parameters)
        self._thresholds = [self._magnitude(i, recipe.density_at(0)) for i in self._sparse]
        self.refresh()

    @property
    def tensors(self) -> Tensors:
        """What the model computes with: every parameter, or its largest values and zeros."""
        return self._tensors

    @property
    def thresholds(self) -> Tensors:
        """The least magnitude kept, (M, 1, …) of every sparse parameter, as it is now."""
        return list(self._thresholds)

    def is_due(self, update: int) -> bool:
        """Whether thresholds are determined again before the update after so many earlier ones."""
        return bool(self._sparse) and update % self._recipe.mask_every == 0

    @torch.no_grad()
    def determine(self, update: int) -> None:
        """Set the thresholds to the density of an update, in place: a recorded step reads them."""
        density = self._recipe.density_at(update)
        for threshold, i in zip(self._thresholds, self._sparse, strict=True):
            threshold.copy_(self._magnitude(i, density))

    @torch.no_grad()
    def refresh(self) -> None:
        """Fill the tensors with the parameters as they are now, in place."""
        for threshold, i in zip(self._thresholds, self._sparse, strict=True):
            weight = self._parameters[i]
            torch.mul(weight, weight.abs() >= threshold, out=self._tensors[i].detach())

    def kept_share(self) -> float:
        """Part of the weights of sparse matrices that is not zero now; 1 if none is sparse."""
        own = [self._tensors[i] for i in self._sparse]
        kept = sum(int(tensor.count_nonzero()) for tensor in own)
        return kept / sum(tensor.numel() for tensor in own) if own else 1.0

    def largest(self, parameters: Sequence[torch.Tensor], update: int) -> Tensors:
        """Parameters of which exactly the density of an update is kept, for evaluation."""
        density, found = self._recipe.density_at(update), list(parameters)
        for i in self._sparse:
            found[i] = keep_largest(found[i].detach(), density)
        return found

    def keep(self, rows: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
        """Go on with some runs only.

        Args:
            rows: Their positions, int64.
            parameters: Their stacked parameters.
        """
        self._bind(parameters)
        self._thresholds = [threshold[rows] for threshold in self._thresholds]
        self.refresh()

    def _bind(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = [p.detach() for p in parameters]
        self._tensors = list(parameters)
        for i in self._sparse:
            self._tensors[i] = torch.empty_like(self._parameters[i]).requires_grad_()

    def _magnitude(self, i: int, density: float) -> torch.Tensor:
        return smallest_kept(self._parameters[i], density)


def keep_largest(weight: torch.Tensor, density: float) -> torch.Tensor:
    """The largest values of every run, zeros elsewhere; (M, …)."""
    return weight * (weight.abs() >= smallest_kept(weight, density))


def smallest_kept(weight: torch.Tensor, density: float) -> torch.Tensor:
    """The least magnitude among the largest values of every run, (M, 1, …); 0 to keep all."""
    flat, shape = weight.flatten(1).abs(), (len(weight), *[1] * (weight.dim() - 1))
    n_left = flat.shape[1] - math.ceil(density * flat.shape[1])
    if n_left == 0:
        return weight.new_zeros(shape)
    return flat.kthvalue(n_left + 1, dim=1).values.view(shape)
