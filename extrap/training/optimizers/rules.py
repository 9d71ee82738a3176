"""The update rules that torch has fused kernels for: SGD, Adam, AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from extrap.records import Recipe
from extrap.training.optimizers.optimizer import Optimizer, RunSlice, Tensors, Value, flat_of


class SGD(Optimizer):
    """SGD with momentum μ, plain or Nesterov's, equal to `torch.optim.SGD` without dampening.

    b ← μ b + g;  p ← p − η b, or p − η (g + μ b) with Nesterov. Weight decay adds λ p to g.

    References:
        Sutskever et al. 2013, "On the importance of initialization and momentum in deep
        learning", Eq. 1–4, with the rate outside the momentum as in PyTorch.
    """

    n_states = 1
    constants = ("momentum", "weight_decay")

    def _step_fused(self, part: RunSlice, gradients: Tensors, lr: Value, recipe: Recipe) -> None:
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
        mu, decay = (self._flat[name] for name in self.constants)
        (momentum,), g = self._flat_states, flat_of(gradients)
        if self._decays:
            g += decay * flat_of(self._parameters)
        momentum.mul_(mu).add_(g)
        update = g + mu * momentum if self._recipes[0].nesterov else momentum
        self._subtract(update * self._spread_rates(lr_M))


class Adam(Optimizer):
    """Adam with bias correction, equal to `torch.optim.Adam`; weight decay adds λ p to g.

    References:
        Kingma and Ba 2015, "Adam: a method for stochastic optimization", arXiv 1412.6980,
        Algorithm 1; eps is added to the bias-corrected root, as there.
    """

    n_states = 2
    constants = ("beta1", "beta2", "eps", "weight_decay")
    is_decoupled = False

    def _step_fused(self, part: RunSlice, gradients: Tensors, lr: Value, recipe: Recipe) -> None:
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

    def _step_together(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        g = flat_of(gradients)
        if self._decays and not self.is_decoupled:
            g += self._flat["weight_decay"] * flat_of(self._parameters)
        update = self._direction(g)
        update *= self._spread_rates(lr_M)
        if self._decays and self.is_decoupled:
            update += self._spread(lr_M * self._by_run["weight_decay"]) * flat_of(self._parameters)
        self._subtract(update)

    def _direction(self, g: torch.Tensor) -> torch.Tensor:
        """What the rate is multiplied by, (N,), from the flat gradient; updates the moments.

        Where all runs share its constants, torch's kernel makes it in one launch: at a rate of -1
        it turns zeros into the direction.
        """
        first, second = self._flat_states
        beta1, beta2, eps = (self._by_run[name] for name in ("beta1", "beta2", "eps"))
        if all(isinstance(constant, float) for constant in (beta1, beta2, eps)):
            direction = torch.zeros_like(g)
            part = RunSlice(1.0, [direction], ([first], [second]))
            self._step_fused(part, [g], -1.0, replace(self._recipes[0], weight_decay=0.0))
            return direction
        n_done = self._n_updates.double()
        first.lerp_(g, self._spread(1 - beta1))
        second.lerp_(g * g, self._spread(1 - beta2))
        root = self._spread((1 - beta2**n_done).sqrt())
        direction = second.sqrt().div_(root).add_(self._flat["eps"])
        torch.div(first, direction, out=direction)
        return direction.div_(self._spread(1 - beta1**n_done))


class AdamW(Adam):
    """Adam with decoupled weight decay, equal to `torch.optim.AdamW`: first p ← p (1 − η λ).

    The decay goes with the run's rate η, whatever a width rule makes of the rate of a tensor.

    References:
        Loshchilov and Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101,
        Algorithm 2.
    """

    is_decoupled = True
