"""What the layers of a model compute in a pass, and what has changed since the first one.

Forward hooks see the output of every leaf module. A function mode sees every function of a
parameter, also outside of leaf modules, and computes it again with the initial values: the
difference is what the updates of this parameter alone change, whatever the layers before do. Where
attention takes a softmax, its scores are a layer as well.

References:
    Yang, Hu et al. 2022, arXiv 2203.03466, App. D.1. Everett et al. 2024, arXiv 2407.05872,
    Sec. 3: the aligned part of an update, the only one that a width rule can keep even.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from extrap.errors import DataError

MODEL, SCORES = "model", "scores"
"""Name of the output of the whole model; end of the name of the scores of an attention."""
PRODUCTS = ("linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "conv1d", "conv2d", "conv3d")
"""Functions that sum over the features of their first argument."""
LEAST_ALIGNED = 0.1
"""Least share of an update that counts as aligned with its input, so that it has a logarithm."""
Tensor = torch.Tensor


@dataclass(slots=True)
class Trace:
    """One layer at one width and seed.

    Attributes:
        outputs: Root mean square of its output after 0, 1, … updates.
        changes: Of the change of its output since the start, likewise.
        updates: Of what the updates of its own parameter change; empty without one.
        aligned: Of the part of that which is aligned with the input.
        head_size: Features that the score of an attention sums over; 0 of other layers.
    """

    outputs: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    aligned: list[float] = field(default_factory=list)
    head_size: int = 0


class Recorder(TorchFunctionMode):
    """Passes of one model.

    Args:
        model: The model, not yet trained.
        orthogonal: Names of parameters whose updates Muon makes orthogonal: they turn every input
            by the same factor, so that no part of them is aligned with one by chance.
        seed: Of the random numbers of every pass.
    """

    def __init__(self, model: nn.Module, orthogonal: Collection[str], seed: int) -> None:
        super().__init__()
        self.traces: dict[str, Trace] = {}
        self._model, self._seed = model, seed
        self._start = {id(p): p.detach().clone() for p in model.parameters()}
        self._parameters = {
            id(p): name.removesuffix(".weight") for name, p in model.named_parameters()
        }
        self._orthogonal = {id(p) for n, p in model.named_parameters() if n in orthogonal}
        self._first: dict[str, list[Tensor]] = {}

    @torch.no_grad()
    def record(self, forward: Callable[[], Any]) -> None:
        """One pass, always with the same random numbers; hooks and buffers are as before."""
        self._outputs: dict[str, list[Tensor]] = {}
        self._updates: dict[str, tuple[float, float]] = {}
        self._head_sizes: dict[str, int] = {}
        self._initial, self._names = dict(self._start), dict(self._parameters)
        self._derived: list[Tensor] = []  # alive, so that no other gets their ids
        self._active: list[tuple[str, bool]] = []
        self._counts: Counter[str] = Counter()
        self._n_summed = 0
        buffers = [(b, b.clone()) for b in self._model.buffers()]
        with random_state(self._seed), ExitStack() as stack:
            for name, module in self._model.named_modules():
                hook = module.register_forward_pre_hook(self._entering(name or MODEL))
                stack.callback(hook.remove)
                hook = module.register_forward_hook(self._leave, always_call=True)
                stack.callback(hook.remove)
                for key, buffer in module.named_buffers(recurse=False):
                    stack.callback(setattr, module, key, buffer)  # a pass may put another there
            for buffer, before in buffers:
                stack.callback(buffer.copy_, before)
            with self:
                forward()
        if MODEL not in self._outputs:
            raise DataError(
                "a coordinate check needs the outputs of the model as tensors, "
                f"{type(self._model).__name__} returns none; return one, or several in a tuple, "
                "list or dict."
            )
        self._first = self._first or self._outputs
        for name, outputs in self._outputs.items():
            trace = self.traces.setdefault(name, Trace(head_size=self._head_sizes.get(name, 0)))
            trace.outputs.append(_rms(outputs))
            trace.changes.append(_rms(_differences(outputs, self._first.get(name, ()))))
            if name in self._updates:
                trace.updates.append(self._updates[name][0])
                trace.aligned.append(self._updates[name][1])

    def _entering(self, name: str) -> Callable[[nn.Module, Any], None]:
        def enter(module: nn.Module, _: Any) -> None:
            is_leaf = next(module.children(), None) is None
            self._active.append((self._numbered(name) if is_leaf else name, is_leaf))

        return enter

    def _leave(self, module: nn.Module, _: Any, output: Any) -> None:
        name, is_leaf = self._active.pop()
        if is_leaf or module is self._model:
            self._keep(name, output)
        if module is self._model:
            self._keep(MODEL, output)

    def _keep(self, name: str, output: Any) -> None:
        if tensors := [t.detach().float().clone() for t in tensors_in(output) if _is_real(t)]:
            self._outputs[name] = tensors

    def _numbered(self, name: str) -> str:
        """The name of a layer; of its second use and the following with their number."""
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name} (use {self._counts[name]})"

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, and look at what it was given."""
        arguments, name = (args, dict(kwargs or {})), getattr(func, "__name__", "")
        tensors = list(tensors_in(arguments))
        parameters = [t for t in tensors if id(t) in self._initial]
        before = _generator_states() if parameters else []
        result = func(*args, **arguments[1])
        if any(result is t for t in tensors) or name.startswith("__i"):
            return result  # computed in place: its inputs are gone
        if not parameters:
            self._look_for_scores(name, tensors, arguments[1].get("scale"))
        elif any(map(_is_real, tensors_in(result))):
            main = max(parameters, key=lambda p: p.dim())  # a bias would hide what a matrix does

            def again(others: Mapping[int, Tensor]) -> Any:
                replaced, after = _replaced(arguments, others), _generator_states()
                _set_generators(before)  # a function with dropout drops the same features
                try:
                    return func(*replaced[0], **replaced[1])
                finally:
                    _set_generators(after)

            if len(parameters) < len(tensors):
                self._compare(name, again, result, main, tensors[0])
            elif isinstance(result, Tensor):  # of parameters alone, such as a transpose
                self._initial[id(result)] = again(self._initial)
                self._names[id(result)] = self._names[id(main)]
                self._derived.append(result)
        return result

    def _compare(
        self,
        name: str,
        again: Callable[[Mapping[int, Tensor]], Any],
        result: Any,
        main: Tensor,
        x: Tensor,
    ) -> None:
        """Compute a function of a parameter again, with its initial values."""
        layer, is_leaf = self._active[-1] if self._active else ("", False)
        if not is_leaf or layer in self._updates:
            layer = self._numbered(self._names[id(main)])
        initial = self._initial[id(main)]
        update = aligned = _rms(_differences(result, again({id(main): initial})))
        is_product = name in PRODUCTS and x is not main and x.is_floating_point()
        if is_product and id(main) not in self._orthogonal:
            # with random signs of its features the input meets the update by chance alone
            axis = 1 if name.startswith("conv") else x.dim() - 1
            shape = [n if i == axis else 1 for i, n in enumerate(x.shape)]
            flipped = x * (2 * torch.randint(2, shape, device=x.device) - 1).to(x.dtype)
            ends = [again({id(x): flipped, id(main): values}) for values in (main, initial)]
            square = max(update**2 - _rms(_differences(*ends)) ** 2, 0.0)
            aligned = max(math.sqrt(square), LEAST_ALIGNED * update)
        self._updates[layer] = update, aligned
        self._keep(layer, result)  # a leaf module replaces it by its own

    def _look_for_scores(self, name: str, tensors: Sequence[Tensor], scale: float | None) -> None:
        """Keep the scores of an attention, of which a softmax is taken."""
        if name in PRODUCTS:
            self._n_summed = tensors[0].shape[-1]
        if name not in ("softmax", "scaled_dot_product_attention"):
            return
        scores, n_summed = tensors[0], self._n_summed
        if name != "softmax":
            (query, key), n_summed = tensors[:2], tensors[0].shape[-1]
            n_shared = query.shape[-3] // key.shape[-3] if query.dim() > 3 else 1
            key = key.repeat_interleave(n_shared, -3) if n_shared > 1 else key
            scores = query @ key.mT * (scale or 1 / math.sqrt(n_summed))
        layer = self._numbered(f"{self._active[-1][0] if self._active else MODEL}.{SCORES}")
        self._keep(layer, torch.where(scores.isfinite(), scores, 0.0))  # others are masked
        self._head_sizes[layer] = n_summed


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors of nested tuples, lists and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(part)


def _replaced(value: Any, others: Mapping[int, Tensor]) -> Any:
    """Nested arguments with some tensors, by their ids, replaced."""
    if isinstance(value, Tensor):
        return others.get(id(value), value)
    if isinstance(value, dict):
        return {key: _replaced(part, others) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replaced(part, others) for part in value)
    return value


def _differences(after: Any, before: Any) -> list[Tensor]:
    """Of all real tensors of two results; none where their shapes differ."""
    pairs = list(zip(tensors_in(after), tensors_in(before), strict=False))
    return [a.float() - b.float() for a, b in pairs if _is_real(a) and a.shape == b.shape]


def _generator_states() -> list[Tensor]:
    return [generator.get_state() for generator in _generators()]


def _set_generators(states: Sequence[Tensor]) -> None:
    for generator, state in zip(_generators(), states, strict=True):
        generator.set_state(state)


def _generators() -> list[torch.Generator]:
    return [torch.default_generator, *torch.cuda.default_generators]


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.numel() > 0


def _rms(tensors: Sequence[Tensor]) -> float:
    total = sum(t.double().square().sum().item() for t in tensors)
    return math.sqrt(total / sum(t.numel() for t in tensors)) if tensors else math.nan


@contextmanager
def random_state(seed: int) -> Iterator[None]:
    """Within the block all generators start from a seed; afterwards they are as before."""
    python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(range(len(torch.cuda.default_generators))):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(of_numpy)  # noqa: NPY002
