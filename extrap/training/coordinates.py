"""The coordinate check: does what a layer computes move equally far at every width?

Under a width rule that lets the learning rate transfer, a few updates change the outputs of every
layer by the same amount at every width. Under the standard rule they change more the wider the
model: that is why its best rate falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from extrap.errors import argument
from extrap.records import Cell, StudySpec
from extrap.records.codec import shape
from extrap.records.fields import require
from extrap.records.results import Encoded
from extrap.training.packs import Pack
from extrap.training.stacks import Stack
from extrap.workloads import LoadedWorkload, load_workload
from extrap.workloads.width_rules import WIDTH_COLUMN

FLAT_SLOPE = 0.3
"""Slopes this small are called flat: less than a factor of three over a factor of 32 in width."""
CHECK_EXAMPLES = 256
"""Held-out examples over which the change of an output is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """The outputs that one parameter tensor makes.

    Attributes:
        name: Of the tensor.
        changes: Root mean square change of the outputs since initialisation, one per width, over
            examples, features and seeds.
        slope: Of log change on log width; 0 is flat, 1/2 and 1 are what the standard rule gives.
        slope_se: Its standard error over seeds; None of one seed.
        verdict: `"flat"`, `"grows"`, `"shrinks"`, or `"diverged"` where a change is not finite.
    """

    name: str
    changes: tuple[float, ...]
    slope: float
    slope_se: float | None
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateCheck(Encoded):
    """Changes of every layer's outputs in a few updates, at several widths.

    Attributes:
        widths: Smallest first.
        coordinates: In the order of the computation.
        parametrization: The width rule.
        optimizer: The optimiser.
        lr: The learning rate, the same at every width.
        steps: Updates made.
        seeds: Seeds averaged over.
    """

    widths: tuple[int, ...]
    coordinates: tuple[Coordinate, ...]
    parametrization: str
    optimizer: str
    lr: float
    steps: int
    seeds: tuple[int, ...]

    @property
    def is_flat(self) -> bool:
        """Whether every coordinate is."""
        return all(c.verdict == "flat" for c in self.coordinates)


shape(
    CoordinateCheck,
    kind="extrap-coordinate-check",
    add={"is_flat": lambda checked: checked.is_flat},
)


def coordinate_check(
    spec: StudySpec,
    *,
    widths: Sequence[int] | None = None,
    steps: int = 5,
    lr: float | None = None,
    seeds: Sequence[int] | None = None,
    device: str = "cpu",
) -> CoordinateCheck:
    """Measure how far each layer's outputs move in a few updates, at several widths.

    Args:
        spec: The study, with workload, recipe (including its width rule), sizes, rates and seeds.
        widths: At least two; the study's widths by default. Other size columns stay at their
            smallest value.
        steps: Number of updates, at a constant learning rate.
        lr: Learning rate; the middle of the study's range by default.
        seeds: The study's by default.
        device: Where to train.

    Returns:
        The changes with their slopes over width.

    Raises:
        ValueError: The study has no `width`, or fewer than two widths are given, or a width or
            the learning rate is out of range.

    References:
        Yang, Hu et al. 2022, arXiv 2203.03466, App. D.1; Yang and Hu 2021, arXiv 2011.14522,
        Desiderata of Sec. 5.
    """
    if WIDTH_COLUMN not in spec.sizes:
        raise ValueError(
            f"a coordinate check needs a size column {WIDTH_COLUMN!r}, got {sorted(spec.sizes)}."
        )
    chosen = tuple(sorted({int(w) for w in widths or spec.sizes[WIDTH_COLUMN]}))
    if chosen[0] < 1:
        raise ValueError(f"a width must be at least 1, got {chosen[0]}.")
    if len(chosen) < 2:
        two = argument("widths", [chosen[0], 2 * chosen[0]])
        raise ValueError(
            f"a coordinate check needs at least two widths, got {chosen[0]}; write {two}."
        )
    if lr is not None:
        require(0 <= lr < math.inf, f"{argument('lr')} must be at least 0 and finite", float(lr))
    rates = spec.tune["lr"].values() if "lr" in spec.tune else (1e-3,)
    rate = rates[len(rates) // 2] if lr is None else lr
    recipe = replace(spec.recipe, steps=steps, schedule="constant", warmup=0.0, n_evals=1)
    spec = replace(spec, recipe=recipe, seeds=tuple(seeds or spec.seeds))
    workload = load_workload(spec.workload)
    changes = {w: _changes(spec, workload, w, rate, torch.device(device)) for w in chosen}
    return CoordinateCheck(
        widths=chosen,
        coordinates=tuple(
            _coordinate(name, np.array([changes[w][name] for w in chosen]), chosen)
            for name in changes[chosen[0]]
        ),
        parametrization=recipe.parametrization,
        optimizer=recipe.optimizer,
        lr=float(rate),
        steps=steps,
        seeds=spec.seeds,
    )


def _changes(
    spec: StudySpec, workload: LoadedWorkload, width: int, lr: float, device: torch.device
) -> dict[str, list[float]]:
    """Tensor → root mean square change of its outputs, one per seed."""
    size = {column: min(values) for column, values in spec.sizes.items()} | {WIDTH_COLUMN: width}
    size.pop("tokens", None)
    pack = Pack(
        workload=workload,
        size=size,
        recipe=spec.recipe,
        cells=tuple(Cell.of(size, {"lr": lr}, seed) for seed in spec.seeds),
    )
    stack = Stack(pack, device)
    module = workload.build(size).to(device)
    batch = tuple(t[:CHECK_EXAMPLES].to(device) for t in workload.validation)

    def outputs() -> list[dict[str, torch.Tensor]]:
        parameters = stack.parameters()
        return [
            _outputs(workload, module, {n: p[m] for n, p in parameters.items()}, batch)
            for m in range(len(stack))
        ]

    before = outputs()
    stack.advance(0, spec.recipe.n_updates)
    changes: dict[str, list[float]] = {}
    for at_start, at_end in zip(before, outputs(), strict=True):
        for name, value in at_end.items():
            moved = (value - at_start[name]).double().square().mean().sqrt().item()
            changes.setdefault(name, []).append(moved)
    return changes


@torch.no_grad()
def _outputs(
    workload: LoadedWorkload,
    module: nn.Module,
    parameters: Mapping[str, torch.Tensor],
    batch: tuple[torch.Tensor, ...],
) -> dict[str, torch.Tensor]:
    """What every matrix or table makes of a batch, in the order of the computation."""
    module.load_state_dict(parameters, strict=False)  # it may have constants of its own
    names = {id(p): name for name, p in module.named_parameters() if p.dim() > 1}
    with _Recorder(names) as recorder:
        workload.loss(module, batch)
    return recorder.outputs


class _Recorder(TorchFunctionMode):
    """Keeps the output of every function that is handed one of certain tensors."""

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__()
        self._names = names
        self.outputs: dict[str, torch.Tensor] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, and look at what it was given."""
        result = func(*args, **(kwargs or {}))
        tensors = [v for v in (*args, *(kwargs or {}).values()) if isinstance(v, torch.Tensor)]
        # a function of the tensor alone, say its transpose, is no output of a layer
        if isinstance(result, torch.Tensor) and len(tensors) > 1:
            for name in (self._names[id(v)] for v in tensors if id(v) in self._names):
                self.outputs[name] = result.detach().clone()
        return result


def _coordinate(name: str, changes: np.ndarray, widths: Sequence[int]) -> Coordinate:
    """Slope of log change on log width, a line for each seed (columns of `changes`)."""
    slope, error, verdict = math.nan, None, "diverged"
    if np.isfinite(changes).all():
        slopes = np.polyfit(np.log(widths), np.log(np.maximum(changes, 1e-30)), 1)[0]
        slope, n = float(slopes.mean()), len(slopes)
        error = float(slopes.std(ddof=1)) / math.sqrt(n) if n > 1 else None
        verdict = "flat" if abs(slope) <= FLAT_SLOPE else "grows" if slope > 0 else "shrinks"
    rms = np.sqrt((changes**2).mean(axis=1))
    return Coordinate(
        name=name, changes=tuple(rms.tolist()), slope=slope, slope_se=error, verdict=verdict
    )
