"""Gradient clipping, every run by its own norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from extrap.training.optimizers.base import over

# As in torch.nn.utils.clip_grad_norm_: keeps a gradient of 0 from dividing by 0.
SMALLEST_NORM = 1e-6


@torch.no_grad()
def clip_by_run(gradients: Sequence[torch.Tensor], clip_M: torch.Tensor) -> None:
    """Scale each run's gradient down to its largest allowed norm, in place.

    A run below its norm is multiplied by exactly 1; a run that is not finite spoils only itself.

    References:
        Pascanu et al. 2013, "On the difficulty of training recurrent neural networks",
        arXiv 1211.5063, Algorithm 1.
    """
    factor_M = (clip_M / (squares_by_run(gradients).sqrt() + SMALLEST_NORM)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(over(factor_M, gradient))


@torch.no_grad()
def squares_by_run(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Squared Euclidean norm of every run's gradient over all its tensors, (M,).

    Each is a product or norm of one run's tensor alone: a sum over a stack of runs would round
    differently with their number.
    """
    if gradients[0].is_cuda:  # where a product may be rounded to fewer bits
        norms = torch._foreach_norm([own for stacked in gradients for own in stacked.unbind(0)])
        squares_TM = list(torch.stack(norms).view(len(gradients), -1).square())
    else:
        with torch.autocast("cpu", enabled=False):
            rows = [g.reshape(len(g), 1, -1) for g in gradients]
            squares_TM = [torch.bmm(row, row.transpose(1, 2)).view(-1) for row in rows]
    total_M = squares_TM[0]
    for squares_M in squares_TM[1:]:
        total_M = total_M + squares_M
    return total_M
