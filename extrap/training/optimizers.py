"""Optimisers over stacked parameters: one update rule, a rate for each run.

Every tensor has a leading run axis M. No operation mixes values of two runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.optim.adam import adam

from extrap.records import Recipe

__all__ = ["Adam"]

FUSED_FROM = 49_152
"""Parameters a run from which one fused pass a run beats several passes over all runs (CPU)."""


class Adam:
    """Adam with bias correction, equal to `torch.optim.Adam`, one learning rate a run.

    Small runs are updated together, a few operations over the whole stack. Large ones on a CPU are
    bound by memory, and go through torch's fused kernel one by one.

    Args:
        parameters: Stacked parameters, each (M, …); updated in place.
        recipe: Gives beta1, beta2 and eps.
        fused: Whether to use the fused kernel; by default where it is faster.

    References:
        Kingma and Ba 2015, "Adam: a method for stochastic optimization", arXiv 1412.6980,
        Algorithm 1; eps is added to the bias-corrected root, as there.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], recipe: Recipe, *, fused: bool | None = None
    ) -> None:
        self._recipe = recipe
        self._first = [torch.zeros_like(p) for p in parameters]
        self._second = [torch.zeros_like(p) for p in parameters]
        self._n_updates = 0
        size = sum(p[0].numel() for p in parameters)
        on_cpu = all(p.device.type == "cpu" for p in parameters)
        self._is_fused = on_cpu and size >= FUSED_FROM if fused is None else fused
        self._bind(parameters)

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update every parameter in place.

        Args:
            gradients: One per parameter, same shapes.
            lr_M: Learning rate of each run at this step.
        """
        if self._is_fused:
            self._step_run_by_run(gradients, lr_M.tolist())
        else:
            self._step_together(gradients, lr_M)
        self._n_updates += 1

    def keep(self, rows: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
        """Drop the state of all other runs.

        Args:
            rows: Positions of the runs that stay, int64.
            parameters: The stacked parameters of those runs.
        """
        self._first = [state[rows] for state in self._first]
        self._second = [state[rows] for state in self._second]
        self._bind(parameters)

    def _bind(self, parameters: Sequence[torch.Tensor]) -> None:
        """Take the stacked parameters, and each run's part of them and of the state."""
        self._parameters = [p.detach() for p in parameters]
        n_runs = len(self._parameters[0])
        self._by_run = [
            tuple([t[m] for t in ts] for ts in (self._parameters, self._first, self._second))
            for m in range(n_runs if self._is_fused else 0)
        ]

    def _step_together(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        beta1, beta2 = self._recipe.beta1, self._recipe.beta2
        n = self._n_updates + 1
        root_correction = (1 - beta2**n) ** 0.5
        rate_M = lr_M / (1 - beta1**n)
        states = zip(self._parameters, gradients, self._first, self._second, strict=True)
        for parameter, gradient, first, second in states:
            first.lerp_(gradient, 1 - beta1)
            second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            update = second.sqrt().div_(root_correction).add_(self._recipe.eps)
            torch.div(first, update, out=update)
            parameter.sub_(update.mul_(rate_M.view(-1, *[1] * (update.dim() - 1))))

    def _step_run_by_run(self, gradients: Sequence[torch.Tensor], rates: list[float]) -> None:
        for m, (parameters, first, second) in enumerate(self._by_run):
            # the kernel counts the step itself, once for every tensor it is handed
            steps = [torch.tensor(float(self._n_updates)) for _ in parameters]
            adam(
                parameters,
                [g[m].contiguous() for g in gradients],  # the kernel reads memory, not strides
                first,
                second,
                [],
                steps,
                fused=True,
                amsgrad=False,
                beta1=self._recipe.beta1,
                beta2=self._recipe.beta2,
                lr=rates[m],
                weight_decay=0.0,
                eps=self._recipe.eps,
                maximize=False,
            )
