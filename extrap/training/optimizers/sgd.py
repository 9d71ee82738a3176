"""Stochastic gradient descent, with momentum if wanted."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from extrap.records import Recipe
from extrap.training.optimizers.base import Optimizer, Part, flat_of


class SGD(Optimizer):
    """SGD with momentum μ, plain or Nesterov's, equal to `torch.optim.SGD` without dampening.

    b ← μ b + g;  p ← p − η b, or p − η (g + μ b) with Nesterov. Weight decay adds λ p to g.

    References:
        Sutskever et al. 2013, "On the importance of initialization and momentum in deep
        learning", Eq. 1–4, with the rate outside the momentum as in PyTorch.
    """

    n_states = 1
    constants = ("momentum", "weight_decay")

    def _step_fused(
        self, part: Part, gradients: list[torch.Tensor], lr: float | torch.Tensor, recipe: Recipe
    ) -> None:
        torch._fused_sgd_(
            part.parameters,
            gradients,
            part.states[0] if recipe.momentum else [],
            weight_decay=recipe.weight_decay,
            momentum=recipe.momentum,
            lr=lr * part.scale,
            dampening=0.0,
            nesterov=recipe.nesterov and recipe.momentum > 0,
            maximize=False,
            is_first_step=False,  # the momentum starts at 0, which gives the same
        )

    def _step_together(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        mu, decay = (self._constants[name] for name in self.constants)
        (momentum,), g = self._flat_states, flat_of(gradients)
        if not decay.is_zero:
            g += decay.spread * flat_of(self._parameters)
        momentum.mul_(mu.spread).add_(g)
        update = g + mu.spread * momentum if self._recipes[0].nesterov else momentum
        self._subtract(update * self._spread_rates(lr_M))
