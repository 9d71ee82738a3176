"""Runs of one size trained as one program: stacked parameters, paired data, per-run rates.

Shapes: M runs, S distinct seeds, B examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call, vmap

from extrap.records import Cell, Recipe
from extrap.training.optimizers import Adam
from extrap.workloads import Batch, LoadedWorkload

__all__ = ["Pack", "Stack"]

# A seed's initialisation and its data come from different streams of torch's generator.
DATA_STREAM = 2**31
# Examples of one evaluation pass: fixed, so that sums do not depend on the number of runs, and
# small enough for the logits of some forty runs to stay in a processor's cache.
EVALUATION_BATCH = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pack:
    """Runs to train together: one size, one recipe, any tuned values and seeds.

    Attributes:
        workload: Model family and data.
        size: Size column → value.
        recipe: What is held fixed.
        cells: The runs, all of this size; each tunes `lr` and nothing else.
    """

    workload: LoadedWorkload
    size: Mapping[str, float]
    recipe: Recipe
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("a pack needs at least one cell, got none.")
        for cell in self.cells:
            names = [name for name, _ in cell.tuned]
            if names != ["lr"]:
                raise ValueError(
                    f"training tunes the learning rate, lr, and nothing else; got {names}. "
                    "Move the other values into the recipe, or hand in a train= of your own."
                )
            if cell.size != Cell.of(self.size, {}, 0).size:
                raise ValueError(
                    f"all runs of a pack have one size; the pack has {dict(self.size)}, "
                    f"a cell {dict(cell.size)}."
                )


class _Loss(nn.Module):
    """A workload's loss as a module, so that its parameters can be swapped."""

    def __init__(self, workload: LoadedWorkload, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.workload = workload

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        return self.workload.loss(self.module, batch)


class Stack:
    """The state of a pack in training: parameters, optimiser, one data stream a seed.

    A seed fixes initialisation and data order, both drawn on the CPU; runs that share it start
    alike and see the same batches.
    """

    def __init__(self, pack: Pack, device: torch.device) -> None:
        self._pack = pack
        self._device = device
        self._rates = torch.tensor([dict(cell.tuned)["lr"] for cell in pack.cells], device=device)
        seeds = sorted({cell.seed for cell in pack.cells})
        self._generators = [torch.Generator().manual_seed(s + DATA_STREAM) for s in seeds]
        self._streams = torch.tensor([seeds.index(cell.seed) for cell in pack.cells])
        modules = [_initial(pack, seed) for seed in seeds]
        self._names = [name for name, _ in modules[0].named_parameters()]
        by_seed = [[p.detach() for p in module.parameters()] for module in modules]
        self._parameters = [
            torch.stack([values[i] for i in self._streams]).to(device).requires_grad_()
            for values in zip(*by_seed, strict=True)
        ]
        self._optimizer = Adam(self._parameters, pack.recipe)
        self._template = modules[0].to("meta")
        self._held_out = tuple(t.to(device) for t in pack.workload.validation)

    def __len__(self) -> int:
        return len(self._rates)

    def step(self, multiplier: float) -> torch.Tensor:
        """One update of every run; returns the training losses before it, shape (M,)."""
        losses_M = vmap(self._loss)(self._parameters, self._batches())
        gradients = torch.autograd.grad(losses_M.sum(), self._parameters)
        self._optimizer.step(gradients, self._rates * multiplier)
        return losses_M.detach()

    def evaluate(self, n_examples: int | None = None) -> list[float]:
        """Held-out loss of every run.

        Args:
            n_examples: The first so many held-out examples; all of them by default.
        """
        return self._evaluate(self._parameters, n_examples)

    def evaluate_initial(self) -> list[float]:
        """Held-out loss of every run before the first step: measured once for each seed."""
        streams = self._streams.tolist()
        first = torch.tensor([streams.index(s) for s in range(len(self._generators))])
        losses = self._evaluate([p[first.to(self._device)] for p in self._parameters], None)
        return [losses[s] for s in streams]

    def keep(self, rows: list[int]) -> None:
        """Go on with these runs only."""
        index = torch.tensor(rows, device=self._device)
        self._parameters = [p.detach()[index].requires_grad_() for p in self._parameters]
        self._optimizer.keep(index, self._parameters)
        self._rates = self._rates[index]
        self._streams = self._streams[index.cpu()]

    @torch.no_grad()
    def _evaluate(self, parameters: list[torch.Tensor], n_examples: int | None) -> list[float]:
        examples = tuple(t[:n_examples] for t in self._held_out)
        loss_of_all = vmap(self._loss, in_dims=(0, None))
        totals_M = torch.zeros(len(parameters[0]), dtype=torch.float64)
        for batch in zip(*(t.split(EVALUATION_BATCH) for t in examples), strict=True):
            totals_M += loss_of_all(parameters, batch).cpu().double() * len(batch[0])
        return (totals_M / len(examples[0])).tolist()

    def _batches(self) -> Batch:
        """One batch a run: drawn once for each seed, then handed to the runs that share it."""
        draws = [
            self._pack.workload.draw(self._pack.recipe.batch_size, generator)
            for generator in self._generators
        ]
        stacked = (torch.stack(tensors) for tensors in zip(*draws, strict=True))
        return tuple(t_SB[self._streams].to(self._device) for t_SB in stacked)

    def _loss(self, parameters: list[torch.Tensor], batch: Batch) -> torch.Tensor:
        named = dict(zip(self._names, parameters, strict=True))
        return functional_call(self._template, named, batch)


def _initial(pack: Pack, seed: int) -> _Loss:
    """A model under its own seed; the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _Loss(pack.workload, pack.workload.build(pack.size))
