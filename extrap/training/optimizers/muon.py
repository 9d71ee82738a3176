"""Muon: orthogonalised momentum for hidden matrices, AdamW for everything else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from extrap.records import Recipe
from extrap.training.optimizers.optimizer import Optimizer, RunSlice, Tensors, Value, Way, over
from extrap.training.optimizers.rules import AdamW

COEFFICIENTS = (3.4445, -4.775, 2.0315)
"""Of the quintic Newton–Schulz iteration, as in `torch.optim.Muon`."""
N_ITERATIONS = 5
"""Newton–Schulz iterations, as in `torch.optim.Muon`."""
SMALLEST_MATRIX_NORM = 1e-7
"""As in `torch.optim.Muon`: keeps a matrix of 0 from dividing by 0."""
RMS_OF_ADAM = 0.2
"""An Adam update has about this root mean square, so one learning rate serves both kinds."""


class Muon(Optimizer):
    """Muon, equal to `torch.optim.Muon(adjust_lr_fn="match_rms_adamw")` beside `AdamW`.

    m ← μ m + (1 − μ) g;  p ← (1 − η λ) p − .2 √max(rows, columns) η · orthogonal(m), or with
    Nesterov of (1 − μ) g + μ m.

    References:
        Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; Liu et al.
        2025, "Muon is scalable for LLM training", arXiv 2502.16982, Eq. 4 (the .2 √max).
    """

    n_states = 1
    constants = ("momentum", "weight_decay")

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        recipes: Sequence[Recipe],
        *,
        scales: Sequence[float],
        matrices: Sequence[bool],
        way: Way | None = None,
    ) -> None:
        self._chosen = [i for i, is_matrix in enumerate(matrices) if is_matrix]
        self._others = [i for i, is_matrix in enumerate(matrices) if not is_matrix]
        other_parameters = [parameters[i] for i in self._others]
        self._adamw = AdamW(
            other_parameters, recipes, scales=[scales[i] for i in self._others], way=way
        )
        matrix_parameters = [parameters[i] for i in self._chosen]
        # products over all runs: there is no fused kernel for one
        super().__init__(
            matrix_parameters, recipes, scales=[scales[i] for i in self._chosen], way="flat"
        )

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update every parameter in place, as in `Optimizer.step`."""
        self._adamw.step([gradients[i] for i in self._others], lr_M)
        super().step([gradients[i] for i in self._chosen], lr_M)

    def keep(self, rows: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
        """Drop the state of all other runs, as in `Optimizer.keep`."""
        self._adamw.keep(rows, [parameters[i] for i in self._others])
        super().keep(rows, [parameters[i] for i in self._chosen])

    def tensors(self) -> dict[str, torch.Tensor]:
        """Name → state of all runs, as in `Optimizer.tensors`."""
        other_states = {f"rest.{name}": tensor for name, tensor in self._adamw.tensors().items()}
        return {**super().tensors(), **other_states}

    def resume(self, n_updates: int) -> None:
        """Go on after so many updates, as in `Optimizer.resume`."""
        self._adamw.resume(n_updates)
        super().resume(n_updates)

    def _step_fused(self, part: RunSlice, gradients: Tensors, lr: Value, recipe: Recipe) -> None:
        raise AssertionError("Muon updates all runs together")

    def _step_together(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        constants = dict(zip(self.constants, self._constants_MC.unbind(1), strict=True))
        nesterov = self._recipes[0].nesterov if self._recipes else False
        states = zip(self._parameters, gradients, self._states[0], self._scales, strict=True)
        for parameter, gradient, momentum, scale in states:
            mu = over(constants["momentum"], parameter)
            momentum.lerp_(gradient, 1 - mu)
            ahead = torch.lerp(gradient, momentum, mu) if nesterov else momentum
            update = orthogonalize(ahead).to(parameter.dtype)
            size = RMS_OF_ADAM * math.sqrt(max(parameter.shape[1:]))
            parameter.mul_(over(1 - lr_M * constants["weight_decay"], parameter))
            parameter.sub_(update.mul_(over(lr_M * (scale * size), update)))


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Every matrix with its singular values brought near 1, by five Newton–Schulz iterations.

    Args:
        matrices: (M, rows, columns).

    Returns:
        The same shape in bfloat16, the precision that the iteration was tuned for.
    """
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST_MATRIX_NORM)
    for _ in range(N_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
