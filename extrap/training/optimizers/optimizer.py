"""What all optimisers share: state, constants of each run, and the two ways to update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from extrap.records import Recipe

Tensors = list[torch.Tensor]
Value = float | torch.Tensor
Way = Literal["fused", "flat"]
FUSED_FROM = 2**20
"""Parameters a run from which a launch for each costs a GPU less than several passes over all.

Estimated from the launches (2 ms for 36 runs) and the bandwidth of an NVIDIA H200.
"""

SMALLEST_GRADIENT_NORM = 1e-6
"""As in `torch.nn.utils.clip_grad_norm_`: keeps a gradient of 0 from dividing by 0."""


class RunSlice(NamedTuple):
    """One run's parameters of one rate scale, and their states: what a fused kernel takes."""

    scale: float
    parameters: Tensors
    states: tuple[Tensors, ...]


class Optimizer(ABC):
    """An update rule over stacked parameters; its arguments are those of `build_optimizer`.

    There are two ways to update.

    | way | is | serves |
    |---|---|---|
    | `"fused"` | torch's fused kernel, run by run | a CPU; large runs on a GPU |
    | `"flat"` | elementwise operations over all runs at once | small runs on a GPU |

    The second sees the numbers of all runs as one flat vector (N,): few launches, however many
    tensors there are.
    """

    n_states: int
    constants: tuple[str, ...]

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        recipes: Sequence[Recipe],
        *,
        scales: Sequence[float],
        way: Way | None = None,
    ) -> None:
        self._way = _quickest_way(parameters) if way is None else way
        self._recipes = list(recipes)
        self._scales = list(scales)
        zeros = [[torch.zeros_like(p) for p in parameters] for _ in range(self.n_states)]
        self._flat_states, self._states = _flattened(zeros)
        device = parameters[0].device if parameters else torch.device("cpu")
        self._n_updates = torch.zeros((), device=device)
        self._is_rounded = any(recipe.precision == "bf16-pure" for recipe in recipes)
        self._bind(parameters)
        self._round()

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update every parameter in place."""
        self._n_updates += 1
        if self._way == "fused":
            self._step_apart(gradients, lr_M)
        else:
            self._step_together(gradients, lr_M)
        self._round()

    def _step_apart(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update the runs one after the other."""
        # the kernels read memory, not strides
        by_run = zip(*(g.contiguous().unbind() for g in gradients), strict=True)
        # a number where it can be read at no cost, a tensor where a CUDA graph records the step
        rates = lr_M.tolist() if lr_M.device.type == "cpu" else lr_M.float().unbind()
        for m, (run_gradients, lr) in enumerate(zip(by_run, rates, strict=True)):
            for part, chosen in zip(self._parts[m], self._groups, strict=True):
                self._step_fused(part, [run_gradients[i] for i in chosen], lr, self._recipes[m])

    def keep(self, rows: torch.Tensor, parameters: Sequence[torch.Tensor]) -> None:
        """Drop the state of all other runs."""
        remaining = [[state[rows] for state in states] for states in self._states]
        self._flat_states, self._states = _flattened(remaining)
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

    @abstractmethod
    def _step_fused(self, part: RunSlice, gradients: Tensors, lr: Value, recipe: Recipe) -> None:
        """Update one run's part; `lr` is the run's, before the part's scale."""

    @abstractmethod
    def _step_together(self, gradients: Sequence[torch.Tensor], lr_M: torch.Tensor) -> None:
        """Update all runs."""

    def _spread(self, value: Value) -> Value:
        """One value per run, (M,), for every number of its flat state, (N,), in its precision."""
        if isinstance(value, float):
            return value
        value = value.to(self._flat_states[0].dtype)
        return value.index_select(0, self._runs_N) if value.dim() else value

    def _spread_rates(self, rate_M: torch.Tensor) -> torch.Tensor:
        """The rate of every number of the flat state, (N,): its run's times its tensor's scale."""
        rates = (rate_M.unsqueeze(1) * self._scales_T).to(self._flat_states[0].dtype)
        return rates.view(-1).index_select(0, self._rates_N)

    def _subtract(self, update_N: torch.Tensor) -> None:
        """Take a flat update from the parameters."""
        parts = update_N.split([p.numel() for p in self._parameters])
        updates = [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]
        torch._foreach_sub_(self._parameters, updates)

    def _bind(self, parameters: Sequence[torch.Tensor]) -> None:
        """Take the stacked parameters, each run's part of them, and its constants."""
        self._parameters = [p.detach() for p in parameters]
        by_scale: dict[float, list[int]] = {}
        for i, scale in enumerate(self._scales):
            by_scale.setdefault(scale, []).append(i)
        self._groups = list(by_scale.values())
        self._parts = [
            [self._part(m, scale, chosen) for scale, chosen in by_scale.items()]
            for m in range(len(self._recipes) if self._way == "fused" else 0)
        ]
        device = self._n_updates.device
        by_run = [[float(getattr(r, name)) for name in self.constants] for r in self._recipes]
        self._constants_MC = torch.tensor(by_run, dtype=torch.float64, device=device)
        if self._way == "flat":
            self._bind_flat(device)

    def _bind_flat(self, device: torch.device) -> None:
        """Where in the flat state which run and which scale is, and the constants there."""
        n_runs, kinds = len(self._recipes), list(dict.fromkeys(self._scales))
        self._scales_T = torch.tensor(kinds, dtype=torch.float64, device=device)
        runs = [torch.arange(n_runs).repeat_interleave(p[0].numel()) for p in self._parameters]
        rates = [
            run * len(kinds) + kinds.index(s) for run, s in zip(runs, self._scales, strict=True)
        ]
        self._runs_N, self._rates_N = (
            flat_of(indices).int().to(device) for indices in (runs, rates)
        )
        self._by_run: dict[str, Value] = {}  # a number where all runs share it, else (M,)
        for name, constant_M in zip(self.constants, self._constants_MC.unbind(1), strict=True):
            numbers = {getattr(recipe, name) for recipe in self._recipes}
            self._by_run[name] = float(numbers.pop()) if len(numbers) == 1 else constant_M
        self._flat = {name: self._spread(value) for name, value in self._by_run.items()}
        self._decays = any(recipe.weight_decay for recipe in self._recipes)

    def _round(self) -> None:
        """Parameters and states to the nearest bf16, if the recipe keeps nothing finer."""
        if self._is_rounded:
            for tensor in (*self._parameters, *self._flat_states):
                tensor.copy_(tensor.bfloat16())

    def _part(self, m: int, scale: float, chosen: list[int]) -> RunSlice:
        return RunSlice(
            scale,
            [self._parameters[i][m] for i in chosen],
            tuple([states[i][m] for i in chosen] for states in self._states),
        )


def _quickest_way(parameters: Sequence[torch.Tensor]) -> Way:
    if all(p.device.type == "cpu" for p in parameters):
        return "fused"
    return "fused" if sum(p[0].numel() for p in parameters) >= FUSED_FROM else "flat"


def flat_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All numbers of some tensors one after the other, (N,)."""
    return torch.cat([t.reshape(-1) for t in tensors]) if tensors else torch.empty(0)


def _flattened(states: list[Tensors]) -> tuple[Tensors, list[Tensors]]:
    """The numbers of every state in one vector, and the tensors as views of it."""
    flat = [flat_of(tensors) for tensors in states]
    views = [
        [
            part.view(t.shape)
            for part, t in zip(vector.split([t.numel() for t in tensors]), tensors, strict=True)
        ]
        for vector, tensors in zip(flat, states, strict=True)
    ]
    return flat, views


def over(value_M: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """One value per run, shaped to multiply a stacked tensor, in its precision."""
    return value_M.to(like.dtype).view(-1, *[1] * (like.dim() - 1))


@torch.no_grad()
def clip_by_run(gradients: Sequence[torch.Tensor], clip_M: torch.Tensor) -> None:
    """Scale each run's gradient down to its largest allowed norm, in place.

    A run below its norm is multiplied by exactly 1; a run that is not finite spoils only itself.

    References:
        Pascanu et al. 2013, "On the difficulty of training recurrent neural networks",
        arXiv 1211.5063, Algorithm 1.
    """
    factor_M = (clip_M / (squares_by_run(gradients).sqrt() + SMALLEST_GRADIENT_NORM)).clamp(
        max=1.0
    )
    for gradient in gradients:
        gradient.mul_(over(factor_M, gradient))


@torch.no_grad()
def squares_by_run(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Squared Euclidean norm of every run's gradient over all its tensors, (M,).

    Each is a product or norm of one run's tensor alone: a sum over a stack of runs would round
    differently with their number.
    """
    if gradients[0].is_cuda:  # where a product may be rounded to fewer bits
        norms = torch._foreach_norm(
            [gradient for stacked in gradients for gradient in stacked.unbind(0)]
        )
        squares_TM = list(torch.stack(norms).view(len(gradients), -1).square())
    else:
        with torch.autocast("cpu", enabled=False):
            rows = [g.reshape(len(g), 1, -1) for g in gradients]
            squares_TM = [torch.bmm(row, row.transpose(1, 2)).view(-1) for row in rows]
    total_M = squares_TM[0]
    for squares_M in squares_TM[1:]:
        total_M = total_M + squares_M
    return total_M
