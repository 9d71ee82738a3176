"""Adam, with weight decay as a gradient or decoupled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from extrap.records import Recipe
from extrap.training.optimizers.base import Optimizer, Part, over

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam with bias correction, equal to `torch.optim.Adam`; weight decay adds λ p to g.

    References:
        Kingma and Ba 2015, "Adam: a method for stochastic optimization", arXiv 1412.6980,
        Algorithm 1; eps is added to the bias-corrected root, as there.
    """

    n_states = 2
    constants = ("beta1", "beta2", "eps", "weight_decay")
    is_decoupled = False

    def _step_fused(
        self, part: Part, gradients: list[torch.Tensor], lr: float | torch.Tensor, recipe: Recipe
    ) -> None:
        first, second = part.states
        kernel = torch._fused_adamw_ if self.is_decoupled else torch._fused_adam_
        kernel(
            part.parameters,
            gradients,
            first,
            second,
            [],
            [self._n_updates] * len(gradients),
            lr=lr * part.scale,
            beta1=recipe.beta1,
            beta2=recipe.beta2,
            weight_decay=recipe.weight_decay / (part.scale if self.is_decoupled else 1.0),
            eps=recipe.eps,
            amsgrad=False,
            maximize=False,
        )

    def _step_together(
        self,
        gradients: Sequence[torch.Tensor],
        lr_M: torch.Tensor,
        constants: Mapping[str, torch.Tensor],
    ) -> None:
        beta1_M, beta2_M, decay_M = (constants[c] for c in ("beta1", "beta2", "weight_decay"))
        rate_M = lr_M / (1 - beta1_M**self._n_updates)
        root_M = (1 - beta2_M**self._n_updates).sqrt()
        states = zip(self._parameters, gradients, *self._states, self._scales, strict=True)
        for parameter, gradient, first, second, scale in states:
            if self.is_decoupled:
                g = gradient
                parameter.mul_(over(1 - lr_M * decay_M, parameter))
            else:
                g = torch.addcmul(gradient, over(decay_M, parameter), parameter)
            first.lerp_(g, over(1 - beta1_M, first))
            second.lerp_(g * g, over(1 - beta2_M, second))
            update = second.sqrt().div_(over(root_M, second)).add_(over(constants["eps"], second))
            torch.div(first, update, out=update)
            parameter.sub_(update.mul_(over(rate_M * scale, update)))


class AdamW(Adam):
    """Adam with decoupled weight decay, equal to `torch.optim.AdamW`: first p ← p (1 − η λ).

    The decay goes with the run's rate η, whatever a width rule makes of the rate of a tensor.

    References:
        Loshchilov and Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
        Algorithm 2.
    """

    is_decoupled = True
