"""Stochastic gradient descent, with momentum if wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from extrap.records import Recipe
from extrap.training.optimizers.base import Optimizer, Part, over

__all__ = ["SGD"]


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

    def _step_together(
        self,
        gradients: Sequence[torch.Tensor],
        lr_M: torch.Tensor,
        constants: Mapping[str, torch.Tensor],
    ) -> None:
        nesterov = self._recipes[0].nesterov
        states = zip(self._parameters, gradients, self._states[0], self._scales, strict=True)
        for parameter, gradient, momentum, scale in states:
            mu = over(constants["momentum"], parameter)
            g = torch.addcmul(gradient, over(constants["weight_decay"], parameter), parameter)
            momentum.mul_(mu).add_(g)
            update = torch.addcmul(g, mu, momentum) if nesterov else momentum
            parameter.sub_(update * over(lr_M * scale, parameter))
