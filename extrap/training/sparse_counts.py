"""What sparse training costs by count: operations and memory, against dense training.

Nothing here is measured: no kernel of ours skips a zero. It is what hardware or kernels that do
would compute and keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from extrap.records import Recipe
from extrap.training.costs import flops_6nd
from extrap.workloads import LoadedWorkload
from extrap.workloads.layers import Product, noted_products
from extrap.workloads.protocol import build_without_memory

VALUE_BYTES = 4.0
"""Of a kept weight or activation."""
BIT = 1 / 8
"""Byte of a mask that says for one value whether it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseCosts:
    """Operations and memory of one update of one run, means over the training.

    Attributes:
        size: Size column → value.
        n_params: Parameters without embeddings.
        n_kept: Those that are not zero at the end of the training.
        forward_flops: Of the products of all linear layers, forward.
        input_flops: Of those that give the gradients by their inputs.
        weight_flops: Of those that give the gradients by their weights.
        dense_flops: All three in dense training.
        selected: Values that selections look at: every weight once an update and once more where
            its threshold is determined, every sparse activation once.
        weight_bytes: Weights that forward and backward pass read: kept values, a bit a weight
            for which they are, and whatever stays whole. The mean over the training.
        final_weight_bytes: The same at its end, as deployed.
        dense_weight_bytes: The same in dense training.
        activation_bytes: What the backward pass keeps: kept values, a bit a value for which they
            are and one for the sign that ReLU asks for, and whatever stays whole.
        dense_activation_bytes: The same in dense training.
        state_bytes: Dense weights to update, gradients and the optimiser's sums: as in dense
            training.
    """

    size: Mapping[str, float]
    n_params: int
    n_kept: int
    forward_flops: float
    input_flops: float
    weight_flops: float
    dense_flops: float
    selected: float
    weight_bytes: float
    final_weight_bytes: float
    dense_weight_bytes: float
    activation_bytes: float
    dense_activation_bytes: float
    state_bytes: float

    @property
    def flops(self) -> float:
        """Of the three products of all linear layers."""
        return self.forward_flops + self.input_flops + self.weight_flops

    @property
    def flops_saved(self) -> float:
        """Share of dense training's, selections not counted."""
        return 1 - self.flops / self.dense_flops

    @property
    def weight_memory_saved(self) -> float:
        """Share of dense training's, mean over the training."""
        return 1 - self.weight_bytes / self.dense_weight_bytes

    @property
    def activation_memory_saved(self) -> float:
        """Share of dense training's."""
        return 1 - self.activation_bytes / self.dense_activation_bytes


def sparse_costs(
    workload: LoadedWorkload, size: Mapping[str, float], recipe: Recipe
) -> SparseCosts:
    """Count one update of a model made of `extrap.workloads`' layers.

    A product of m rows with a matrix of n weights takes 2 m n operations; of the three of each
    layer, forward and the input's gradient go by the share of weights kept and the weights'
    gradient by the share of inputs kept. The gradient by the network's own input is counted where
    something below it learns.

    Args:
        workload: Model family and data.
        size: The model's size columns.
        recipe: Its densities, batch size and schedule.

    Raises:
        ValueError: The model has no `linear` of `extrap.workloads.layers`.

    References:
        Raihan, Aamodt 2020, "Sparse weight activation training", arXiv 2001.01969: FLOPs of
        training as the sum of the three products; 50 to 90 % less memory for weights, 23 to 50 %
        for activations in the backward pass.
    """
    products, dense_activations = _one_pass(workload, size, recipe.batch_size)
    if not products:
        raise ValueError(
            "costs can be counted for models made of extrap.workloads.layers.linear, got one "
            "without; use that layer."
        )
    mean, final, share = recipe.mean_density, recipe.density, recipe.activation_density
    dense = [2.0 * p.n_rows * p.n_in * p.n_out for p in products]
    matrices = sum(p.n_in * p.n_out for p in products)
    inputs = sum(p.n_rows * p.n_in for p in products if not p.is_input)
    rest = workload.n_params_total(size) - matrices
    gradient = sum(f for f, p in zip(dense, products, strict=True) if p.passes_gradient)
    own = sum(f for f, p in zip(dense, products, strict=True) if p.is_input)
    saved = inputs * (VALUE_BYTES * (1 - share) - 2 * BIT) if share < 1 else 0.0
    n_states = 1 if recipe.optimizer == "sgd" else 2
    n_params = workload.n_params(size)
    return SparseCosts(
        size=dict(size),
        n_params=n_params,
        n_kept=n_params - matrices + round(final * matrices),
        forward_flops=mean * sum(dense),
        input_flops=mean * gradient,
        weight_flops=own + share * (sum(dense) - own),
        dense_flops=2 * sum(dense) + gradient,
        selected=matrices * (1 + 1 / recipe.mask_every) * (final < 1) + inputs * (share < 1),
        weight_bytes=_weight_bytes(matrices, rest, mean),
        final_weight_bytes=_weight_bytes(matrices, rest, final),
        dense_weight_bytes=_weight_bytes(matrices, rest, 1.0),
        activation_bytes=dense_activations - saved,
        dense_activation_bytes=dense_activations,
        state_bytes=VALUE_BYTES * workload.n_params_total(size) * (2 + n_states),
    )


def run_flops(workload: LoadedWorkload, size: Mapping[str, float], recipe: Recipe) -> float:
    """Training compute of a run: 6 N D, of sparse training each product by its density.

    A third of it is each of the three products of a layer; biases and gains count in full.

    Args:
        workload: Model family and data.
        size: The model's size columns.
        recipe: Of the run.
    """
    n_params = workload.n_params(size)
    n_tokens = recipe.n_examples * workload.tokens_per_example
    if not recipe.is_sparse:
        return flops_6nd(n_params, n_tokens)
    module = build_without_memory(workload.build, size)
    tables = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
    matrices = sum(p.numel() for p in module.parameters() if p.dim() > 1 and id(p) not in tables)
    own = 0
    if recipe.activation_density < 1:
        products, _ = _one_pass(workload, size, 2)
        own = sum(p.n_in * p.n_out for p in products if p.is_input)
    share = recipe.activation_density
    kept = (2 * recipe.mean_density * matrices + share * (matrices - own) + own) / 3
    return 6.0 * (n_params - matrices + kept) * n_tokens


def _weight_bytes(matrices: float, rest: float, density: float) -> float:
    mask = BIT if density < 1 else 0.0
    return matrices * (VALUE_BYTES * density + mask) + VALUE_BYTES * rest


def _one_pass(
    workload: LoadedWorkload, size: Mapping[str, float], n_examples: int
) -> tuple[list[Product], float]:
    """The products of a dense forward pass, and the bytes that its backward pass keeps."""
    with torch.random.fork_rng(devices=[]):
        module = workload.build(size)
    rows = workload.draw(n_examples, torch.Generator().manual_seed(0))
    batch = workload.examples(workload.training, rows)
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with noted_products() as products, saved_tensors_hooks(note, lambda tensor: tensor):
        workload.loss(module, batch)
    return products, float(sum(storage.nbytes() for storage in kept.values()))
