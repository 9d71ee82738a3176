"""Optimisers over stacked parameters: one update rule, a rate for each run.

Every tensor has a leading run axis M. Only elementwise operations mix values, so no run can touch
another.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from extrap.records import Recipe

__all__ = ["Adam"]


class Adam:
    """Adam with bias correction, equal to `torch.optim.Adam`, one learning rate a run.

    Args:
        parameters: Stacked parameters, each (M, …); updated in place.
        recipe: Gives beta1, beta2 and eps.

    References:
        Kingma and Ba 2015, "Adam: a method for stochastic optimization", arXiv 1412.6980,
        Algorithm 1; eps is added to the bias-corrected root, as there.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], recipe: Recipe) -> None:
        self._recipe = recipe
        self._parameters = list(parameters)
        self._first = [torch.zeros_like(p) for p in parameters]
        self._second = [torch.zeros_like(p) for p in parameters]
        self._n_updates = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update every parameter in place.

        Args:
            gradients: One per parameter, same shapes.
            lr_M: Learning rate of each run at this step.
        """
        beta1, beta2 = self._recipe.beta1, self._recipe.beta2
        self._n_updates += 1
        root_correction = (1 - beta2**self._n_updates) ** 0.5
        rate_M = lr_M / (1 - beta1**self._n_updates)
        states = zip(self._parameters, gradients, self._first, self._second, strict=True)
        for parameter, gradient, first, second in states:
            first.lerp_(gradient, 1 - beta1)
            second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            update = second.sqrt().div_(root_correction).add_(self._recipe.eps)
            torch.div(first, update, out=update)
            parameter.sub_(update.mul_(rate_M.view(-1, *[1] * (update.dim() - 1))))

    def keep(self, rows: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
        """Drop the state of all other runs.

        Args:
            rows: Positions of the runs that stay, int64.
            parameters: The stacked parameters of those runs.
        """
        self._parameters = list(parameters)
        self._first = [state[rows] for state in self._first]
        self._second = [state[rows] for state in self._second]
