"""A model at one width and seed, a few updates long: its layers, and how it is updated.

`StudyModels` has the models of a study, `FactoryModels` those of a function of the width.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from extrap.errors import DataError, ExtrapError, argument, first_line
from extrap.records import Cell, StudySpec, Train, TunedRange
from extrap.training.layer_traces import Recorder, Trace, random_state, tensors_in
from extrap.training.packs import Pack
from extrap.training.stacks import Stack
from extrap.workloads import is_orthogonalized, load_workload, width_rules
from extrap.workloads.width_rules import WIDTH_COLUMN

CHECK_EXAMPLES = 256
"""Held-out examples of a study over which outputs are measured."""
TAIL_SHARE = 0.2
"""Share of the last updates of a run whose mean loss is its loss."""
Factory = Callable[[int], nn.Module]
MakeOptimizer = Callable[[nn.Module, float], Any]
Loss = Callable[[nn.Module, Any], torch.Tensor]


class Group(NamedTuple):
    """How one parameter is updated at one width.

    Attributes:
        shape: Its shape.
        uses: Modules that hold it; several if it is tied.
        is_table: Whether one of them is an `nn.Embedding`.
        optimizer: Name of the optimizer's class; empty if none has it.
        rate: Its learning rate.
        decay: Share of it that an update takes away, rate times weight decay; 0 where weight decay
            is a part of the gradient of Adam.
        is_orthogonal: Whether Muon makes its updates orthogonal.
    """

    shape: tuple[int, ...]
    uses: tuple[str, ...] = ()
    is_table: bool = False
    optimizer: str = ""
    rate: float = 0.0
    decay: float = 0.0
    is_orthogonal: bool = False


class Measured(NamedTuple):
    """Layers, in the order of the computation, and parameters, at one width and seed."""

    traces: Mapping[str, Trace]
    groups: Mapping[str, Group]


class FactoryModels:
    """Models that a function makes of a width; see `coordinate_check` for the arguments."""

    lr, parametrization = 1e-3, ""
    seeds: tuple[int, ...] = (0, 1, 2)
    widths: tuple[float, ...] = ()

    def __init__(
        self,
        factory: Factory,
        batch: Any,
        make_optimizer: MakeOptimizer | None,
        loss: Loss | None,
        device: str,
    ) -> None:
        try:
            inspect.signature(factory).bind(64)
        except TypeError as error:
            raise ValueError(
                "a model must be a function of its width, which can be called with one number, "
                f"got {factory!r}: {error}; write def make_model(width): …"
            ) from None
        if batch is None:
            raise ValueError(
                f"a coordinate check needs a batch, got none; give {argument('batch', ...)}."
            )
        # an empty tensor begins CUDA, whose random state is kept from then on
        self._factory, self._device = factory, torch.empty(0, device=device).device
        self._batch: Callable[[int], Any] = batch if callable(batch) else lambda step: batch
        self._loss = loss or _default_loss
        self._make_optimizer = make_optimizer or (
            lambda m, lr: torch.optim.Adam(m.parameters(), lr)
        )

    def measure(self, width: int, lr: float, steps: int, seed: int) -> Measured:
        """The layers before and after each of some updates on one batch."""
        with random_state(seed), _trained(width):
            model, optimizers, groups = self._build(width, lr)
            batch = _on(self._device, self._batch(0))
            recorder = Recorder(model, _orthogonal(groups), seed)
            recorder.record(lambda: self._loss(model, batch))
            for _ in range(steps):
                loss = self._update(model, optimizers, batch)
                if not math.isfinite(loss):
                    raise DataError(
                        f"the loss must be finite, got {loss:g} at width {width}; give a smaller "
                        f"{argument('lr')}, or look at the model."
                    )
                recorder.record(lambda: self._loss(model, batch))
        return Measured(recorder.traces, groups)

    def sweep(
        self, widths: Sequence[int], steps: int, seeds: tuple[int, ...]
    ) -> tuple[StudySpec, Train | None]:
        """A study of these widths, and what trains its runs: the mean loss of the last updates."""

        def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
            width = int(size[WIDTH_COLUMN])
            with random_state(seed), _trained(width):
                model, optimizers, _ = self._build(width, tuned["lr"])
                losses = [
                    self._update(model, optimizers, _on(self._device, self._batch(step)))
                    for step in range(steps)
                ]
            return sum(losses[-(n := math.ceil(TAIL_SHARE * steps)) :]) / n

        sizes, question = {WIDTH_COLUMN: tuple(widths)}, "Does the best rate move with width?"
        any_rates = {"lr": TunedRange(low=1e-3, high=1e-2, n=2)}
        spec = StudySpec(name="transfer", question=question, sizes=sizes, tune=any_rates)
        return replace(spec, seeds=seeds), train

    def _build(self, width: int, lr: float) -> tuple[nn.Module, list[Any], dict[str, Group]]:
        try:
            model = self._factory(width).to(self._device)
            one_or_more = self._make_optimizer(model, lr)
            optimizers = (
                list(one_or_more) if isinstance(one_or_more, list | tuple) else [one_or_more]
            )
            return model, optimizers, read_groups(model, optimizers)
        except Exception as error:
            raise DataError(
                f"the model of width {width} cannot be made: {type(error).__name__}: "
                f"{first_line(error)}; correct the factory or its optimizer."
            ) from error

    def _update(self, model: nn.Module, optimizers: Sequence[Any], batch: Any) -> float:
        """One update; the loss before it."""
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = self._loss(model, batch)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return float(loss.detach())


class StudyModels:
    """Models of a study's workload, sizes and recipe; its training draws its batches."""

    def __init__(self, spec: StudySpec, device: str) -> None:
        if WIDTH_COLUMN not in spec.sizes:
            raise ValueError(
                f"a coordinate check needs a size column {WIDTH_COLUMN!r}, got "
                f"{sorted(spec.sizes)}."
            )
        rates = spec.tune["lr"].values() if "lr" in spec.tune else (1e-3,)
        self.lr, self.seeds, self.spec = rates[len(rates) // 2], spec.seeds, spec
        self.parametrization, self.widths = spec.recipe.parametrization, spec.sizes[WIDTH_COLUMN]
        self._workload, self._device = load_workload(spec.workload), torch.device(device)

    def measure(self, width: int, lr: float, steps: int, seed: int) -> Measured:
        """As of a factory; the outputs are those of held-out examples."""
        workload, spec = self._workload, self.spec
        recipe = replace(spec.recipe, steps=steps, schedule="constant", warmup=0.0, n_evals=1)
        size = {column: min(values) for column, values in spec.sizes.items()}
        size[WIDTH_COLUMN] = width
        size.pop("tokens", None)
        cells = (Cell.of(size, {"lr": lr}, seed),)
        stack = Stack(Pack(workload=workload, size=size, recipe=recipe, cells=cells), self._device)
        rules = width_rules(
            workload.build,
            size,
            parametrization=recipe.parametrization,
            base_width=recipe.base_width,
            optimizer=recipe.optimizer,
        )
        with random_state(seed):
            model = workload.build(size).to(self._device)
        names, groups = {"adam": "Adam", "adamw": "AdamW", "muon": "Muon", "sgd": "SGD"}, {}
        for name, group in read_groups(model, ()).items():
            is_matrix = is_orthogonalized(rules[name].role, len(group.shape))
            groups[name] = group._replace(
                optimizer=names[recipe.optimizer],
                rate=lr * rules[name].rate,
                # decay of ours goes with the rate of the run, whatever a rule makes of it
                decay=0.0 if recipe.optimizer == "adam" else lr * recipe.weight_decay,
                is_orthogonal=recipe.optimizer == "muon" and is_matrix,
            )
        batch = tuple(t[:CHECK_EXAMPLES].to(self._device) for t in workload.validation)

        def load() -> None:
            parameters = {name: p[0] for name, p in stack.parameters().items()}
            model.load_state_dict(parameters, strict=False)  # it may have constants of its own

        load()
        recorder = Recorder(model, _orthogonal(groups), seed)
        recorder.record(lambda: workload.loss(model, batch))
        for step in range(recipe.n_updates):
            stack.advance(step, step + 1)
            load()
            recorder.record(lambda: workload.loss(model, batch))
        return Measured(recorder.traces, groups)

    def sweep(
        self, widths: Sequence[int], steps: int, seeds: tuple[int, ...]
    ) -> tuple[StudySpec, Train | None]:
        """The study at these widths, with runs of so many updates."""
        sizes: dict[str, tuple[float, ...]]
        sizes = {column: (min(values),) for column, values in self.spec.sizes.items()}
        sizes[WIDTH_COLUMN] = tuple(map(float, widths))
        recipe = replace(self.spec.recipe, steps=steps)
        return replace(self.spec, sizes=sizes, recipe=recipe, seeds=seeds, targets=()), None


def read_groups(model: nn.Module, optimizers: Sequence[Any]) -> dict[str, Group]:
    """Parameter name → how it is updated, from the groups of the optimizers."""
    uses: dict[int, list[tuple[str, nn.Module]]] = {}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            uses.setdefault(id(parameter), []).append((name, module))
    settings: dict[int, dict[str, Any]] = {}
    for optimizer in optimizers:
        kind = type(optimizer).__name__
        for group in optimizer.param_groups:
            rate = float(group["lr"])
            is_decoupled = group.get("decoupled_weight_decay", kind not in ("Adam", "RMSprop"))
            by_muon = "ns_steps" in group or (
                "muon" in kind.lower() and group.get("use_muon", True)
            )
            setting = {
                "optimizer": kind,
                "rate": rate,
                "decay": rate * float(group.get("weight_decay", 0.0)) if is_decoupled else 0.0,
                "is_orthogonal": by_muon,
            }
            settings |= dict.fromkeys(map(id, group["params"]), setting)
    return {
        name: Group(
            tuple(p.shape),
            tuple(module_name for module_name, _ in uses[id(p)]),
            any(isinstance(module, nn.Embedding) for _, module in uses[id(p)]),
            **settings.get(id(p), {}),
        )
        for name, p in model.named_parameters()
    }


def _orthogonal(groups: Mapping[str, Group]) -> set[str]:
    return {name for name, group in groups.items() if group.is_orthogonal}


def _default_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """The loss of the output for a mapping, else that of inputs and targets."""
    if isinstance(batch, Mapping):
        output = model(**batch)
        return output["loss"] if isinstance(output, Mapping) else output.loss
    inputs, targets = batch
    output = next(tensors_in(model(inputs)), None)
    if output is None:
        return targets.new_zeros(())  # the recorder says what is missing
    if targets.is_floating_point():
        return functional.mse_loss(output.float().reshape_as(targets), targets.float())
    return functional.cross_entropy(output.float().flatten(0, -2), targets.flatten())


@contextmanager
def _trained(width: int) -> Iterator[None]:
    """Within the block an error of the user's model, loss or optimizer is one of the data."""
    try:
        yield
    except ExtrapError:
        raise
    except Exception as error:
        raise DataError(
            f"the model of width {width} cannot be trained: {type(error).__name__}: "
            f"{first_line(error)}; correct the model, its batch, loss or optimizer."
        ) from error


def _on(device: torch.device, batch: Any) -> Any:
    """A batch, nested tensors, on a device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: _on(device, part) for key, part in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [_on(device, part) for part in batch]
        return batch._make(parts) if hasattr(batch, "_make") else type(batch)(parts)
    return batch
