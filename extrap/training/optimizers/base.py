"""What all optimisers share: state, constants of each run, and the two ways to update."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from extrap.records import Recipe

__all__ = ["Optimizer", "Part", "over"]

Tensors = list[torch.Tensor]
FUSED_FROM = 2**17
"""Parameters a run from which a launch for each costs a GPU less than several passes over all."""


class Part(NamedTuple):
    """One run's parameters of one rate scale, and their states: what a fused kernel takes."""

    scale: float
    parameters: Tensors
    states: tuple[Tensors, ...]


class Optimizer(ABC):
    """An update rule over stacked parameters.

    On a CPU, and large runs on a GPU, each run goes through torch's fused kernel by itself, with
    its own constants as plain numbers: one pass over memory. Small runs on a GPU are updated
    together by elementwise operations whose constants are tensors over M: few launches.

    Args:
        parameters: Stacked parameters, each (M, …); updated in place.
        recipes: One a run.
        scales: What each parameter's learning rate is multiplied by.
        fused: Whether to use the fused kernels; by default where that is quicker.
    """

    n_states: int
    constants: tuple[str, ...]

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        recipes: Sequence[Recipe],
        *,
        scales: Sequence[float],
        fused: bool | None = None,
    ) -> None:
        self._is_fused = _is_fused_quicker(parameters) if fused is None else fused
        self._recipes = list(recipes)
        self._scales = list(scales)
        self._states = [[torch.zeros_like(p) for p in parameters] for _ in range(self.n_states)]
        device = parameters[0].device if parameters else torch.device("cpu")
        self._n_updates = torch.zeros((), device=device)
        self._is_rounded = any(recipe.precision == "bf16-pure" for recipe in recipes)
        self._bind(parameters)
        self._round()

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update every parameter in place.

        Args:
            gradients: One a parameter, same shapes.
            lr_M: Learning rate of each run at this step, float64.
        """
        self._n_updates += 1
        if self._is_fused:
            self._step_apart(gradients, lr_M)
        else:
            self._step_together(gradients, lr_M, self._constants_M)
        self._round()

    def _step_apart(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update the runs one after the other."""
        # the kernels read memory, not strides
        by_run = zip(*(g.contiguous().unbind() for g in gradients), strict=True)
        # a number where it can be read at no cost, a tensor where a CUDA graph records the step
        rates = lr_M.tolist() if lr_M.device.type == "cpu" else lr_M.float().unbind()
        for m, (own, lr) in enumerate(zip(by_run, rates, strict=True)):
            for part, chosen in zip(self._parts[m], self._groups, strict=True):
                self._step_fused(part, [own[i] for i in chosen], lr, self._recipes[m])

    def keep(self, rows: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
        """Drop the state of all other runs.

        Args:
            rows: Positions of the runs that stay, int64.
            parameters: The stacked parameters of those runs.
        """
        self._states = [[state[rows] for state in states] for states in self._states]
        self._recipes = [self._recipes[m] for m in rows.tolist()]
        self._bind(parameters)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Name → state of all runs, (M, …), as it is now; with the updates made it is all."""
        return {
            f"{kind}.{i}": tensor
            for kind, states in enumerate(self._states)
            for i, tensor in enumerate(states)
        }

    def resume(self, n_updates: int) -> None:
        """Go on after so many updates, once `tensors` are filled."""
        self._n_updates.fill_(n_updates)

    def state_bytes(self) -> int:
        """Memory of the state of all runs."""
        return sum(t.numel() * t.element_size() for states in self._states for t in states)

    @abstractmethod
    def _step_fused(
        self, part: Part, gradients: Tensors, lr: float | torch.Tensor, recipe: Recipe
    ) -> None:
        """Update one run's part; `lr` is the run's, before the part's scale."""

    @abstractmethod
    def _step_together(
        self,
        gradients: Sequence[torch.Tensor],
        lr_M: torch.Tensor,
        constants: Mapping[str, torch.Tensor],
    ) -> None:
        """Update all runs; `constants` are float64 of shape (M,)."""

    def _bind(self, parameters: Sequence[torch.Tensor]) -> None:
        """Take the stacked parameters, each run's part of them, and its constants."""
        self._parameters = [p.detach() for p in parameters]
        by_scale: dict[float, list[int]] = {}
        for i, scale in enumerate(self._scales):
            by_scale.setdefault(scale, []).append(i)
        self._groups = list(by_scale.values())
        self._parts = [
            [self._part(m, scale, chosen) for scale, chosen in by_scale.items()]
            for m in range(len(self._recipes) if self._is_fused else 0)
        ]
        device = self._n_updates.device
        self._constants_M = {
            name: torch.tensor(
                [getattr(recipe, name) for recipe in self._recipes],
                dtype=torch.float64,
                device=device,
            )
            for name in self.constants
        }

    def _round(self) -> None:
        """Parameters and states to the nearest bf16, if the recipe keeps nothing finer."""
        if self._is_rounded:
            for tensor in itertools.chain(self._parameters, *self._states):
                tensor.copy_(tensor.bfloat16())

    def _part(self, m: int, scale: float, chosen: list[int]) -> Part:
        return Part(
            scale,
            [self._parameters[i][m] for i in chosen],
            tuple([states[i][m] for i in chosen] for states in self._states),
        )


def _is_fused_quicker(parameters: Sequence[torch.Tensor]) -> bool:
    if all(p.device.type == "cpu" for p in parameters):
        return True
    return sum(p[0].numel() for p in parameters) >= FUSED_FROM


def over(value_M: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """One value a run, shaped to multiply a stacked tensor, in its precision."""
    return value_M.to(like.dtype).view(-1, *[1] * (like.dim() - 1))
