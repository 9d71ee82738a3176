"""The gradient noise scale of any training, from gradients that it computes anyway.

Gradient accumulation and data-parallel processes make a step's gradient of several smaller ones.
Hooks see each of those before they are added up; no backward pass is added. In a loop of your own:

    meter = extrap.NoiseMeter(model, batch_size=32)  # examples of one backward pass on a process
    for step in range(n_steps):
        for micro in micro_batches(step):
            (loss(model, micro) / n_micro_batches).backward()
        meter.step()                                 # before clipping and the optimiser's step
        optimizer.step()
        optimizer.zero_grad()
    print(meter.estimate())
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import distributed, nn

from extrap.errors import DataError
from extrap.noise import (
    Array,
    NoiseScale,
    gradient_moments,
    noise_scale_from_moments,
)
from extrap.records import Interval

PAST = 0.95
"""Weight of the past in the running noise scale: about the last 20 measured steps count."""
READ_EVERY = 64
"""Measured steps that wait on the device before they are read out together."""
NARROW = 1.5
"""Upper over lower end of the 95 % interval at which fewer steps are measured. The noise scale
misses critical batch sizes by factors of up to 5.7 (`docs/measured.md`): a narrower interval would
say no more, and takes steps in proportion to 1 / ln² of this ratio."""
MOST_STEPS = 512
"""Evenly spaced measured steps at which fewer are measured anyway: where |G|² is not significant
by then, noise dominates."""
HALVES = (torch.float16, torch.bfloat16)
"""Types of 16 bits, of which norms are taken in 32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """Squared gradient norms of one step.

    Attributes:
        step: Its number, from 0.
        grad_sq_small: Of one backward pass, the mean over all of the step and of all processes.
        grad_sq_big: Of the whole step.
        batch_small: Examples of one backward pass.
        batch_big: Examples of the step, over all processes.
    """

    step: int
    grad_sq_small: float
    grad_sq_big: float
    batch_small: int
    batch_big: int


class NoiseMeter:
    """Measures the gradient noise scale of a training run without changing it.

    One `backward` a micro-batch is assumed, and `use_reentrant=False` where activations of a whole
    model are checkpointed. If `torch.distributed` is in use, gradients must have
    been averaged over its processes when `step` is called, as `DistributedDataParallel` does;
    every process has its own meter, and one tiny tensor is summed over them each measured step.
    Norms stay on the device until they are requested or many have accumulated.

    At first every step is measured. Whenever the 95 % interval of the noise scale is narrow, its
    upper end at most 1.5 times its lower one, or 512 evenly spaced steps were measured, the gap
    between measured steps doubles: every 2nd, 4th, 8th … step. So an estimate is always of steps
    that lie evenly over the training so far, and their share falls. A measured step of a small
    model takes up to twice its time; between them the hooks are removed.

    Args:
        model: Its parameters that require gradients are watched. Not for parameters that are
            sharded over processes.
        batch_size: Examples of one backward pass on one process.
        every: Gap in steps between measured ones, the first included, instead of that rule.
        loss_is_divided: Whether losses are divided by the number of micro-batches, so that
            gradients add up to their mean. It scales |G|² and tr Σ; their ratio does not depend on
            it.
        process_group: The data-parallel processes, by default all.
        is_last_pass: For trainers that clip before `step` can be called: asked at the end of each
            backward pass whether it was the step's last; if so the step's gradient is read then.

    Raises:
        ValueError: Nothing requires a gradient, parameters are sharded, or a number is below 1.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, App. A.1: a local gradient before, and the
        averaged one after the reduction give both norms of a step for free.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        batch_size: int,
        every: int | None = None,
        loss_is_divided: bool = True,
        process_group: distributed.ProcessGroup | None = None,
        is_last_pass: Callable[[], bool] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"a noise meter takes a torch.nn.Module, got {type(model).__name__}.")
        numbers: dict[str, Any] = {"batch_size": batch_size, "every": every}
        for name, value in numbers.items():
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
        _check_parameters(model)
        self._model = model
        self._batch_size = batch_size
        self._every = every or 1
        self._may_double = every is None
        self._loss_is_divided = loss_is_divided
        self._group = process_group
        self._is_last_pass = is_last_pass
        self._n_steps = self._n_measured = 0
        self._waiting: list[tuple[int, torch.Tensor]] = []
        self._history: list[MeasuredStep] = []
        self._sums = (0.0, 0.0)  # exponential averages of |G|² and tr Σ, times a common factor
        self._n_not_finite = 0
        self._n_undivided = 0
        self._parameters: list[nn.Parameter] = []
        self._handles: list[Any] = []
        self._forget()
        self._install()

    def step(self, *, loss_scale: float = 1.0) -> None:
        """End a step: after its last `backward`, before clipping and the optimiser's step.

        Args:
            loss_scale: Factor of the losses, if `.grad` is no longer multiplied by it: the
                `get_scale()` of a `GradScaler` whose `unscale_` was called before.

        Raises:
            ValueError: The first measured step had no backward pass, or a single one on a single
                process. Later steps like that are counted and left out.
        """
        if self._handles:
            try:
                self._measure(loss_scale)
            finally:
                self._forget()
            if self._every > 1:
                self.close()
        self._n_steps += 1
        if not self._handles and self._n_steps % self._every == 0:
            self._install()

    def __repr__(self) -> str:
        rule = "every step" if self._every == 1 else f"one step in {self._every}"
        summary = str(self.estimate()) if self.history else self._why_nothing()
        return f"NoiseMeter({summary}; measures {rule}{', for now' * self._may_double})"

    def estimate(self, *, last: int | None = None, level: float = 0.95) -> NoiseScale:
        """The noise scale with its interval.

        Args:
            last: Number of the last measured steps to use; by default those of `moments`. The
                noise scale grows during training; over a drift this is an average in which steps
                with large gradients count most.
            level: Content of the interval, in (0, 1).

        Raises:
            ValueError: `last` is below 1, or the level out of range.
            DataError: No measured step could be used; says why.
        """
        if last is not None and last < 1:
            raise ValueError(f"last must be at least 1 or None, got {last}.")
        squared, trace = self.moments
        noise_scale = noise_scale_from_moments(
            squared[-last:] if last else squared, trace[-last:] if last else trace, level=level
        )
        return replace(noise_scale, n_skipped=self.n_skipped)

    @property
    def is_measuring(self) -> bool:
        """Whether the step in progress is one of those measured."""
        return bool(self._handles)

    @property
    def moments(self) -> tuple[Array, Array]:
        """|G|² and tr Σ of the measured steps that lie evenly over the training.

        For `noise_course`. Steps between them, measured while the gap was
        smaller, are left out, so that the beginning does not stand for the whole.

        Raises:
            DataError: No measured step could be used; says why.
        """
        history = [step for step in self.history if step.step % self._every == 0]
        if not history:
            raise DataError(self._why_nothing())
        columns = ("grad_sq_small", "grad_sq_big", "batch_small", "batch_big")
        small, big, b, bb = (np.array([getattr(s, c) for s in history], float) for c in columns)
        return gradient_moments(small, big, batch_small=b, batch_big=bb)

    @property
    def history(self) -> tuple[MeasuredStep, ...]:
        """The measured steps that can be used, oldest first."""
        self._read()
        return tuple(self._history)

    @property
    def running_noise_scale(self) -> float | None:
        """Ratio of exponential averages over measured steps, about the last 20.

        None while that of |G|² is not above 0.
        """
        self._read()
        squared, trace = self._sums
        return max(0.0, trace / squared) if squared > 0 else None

    @property
    def n_skipped(self) -> int:
        """Measured steps left out: gradients not finite, or one backward pass alone."""
        self._read()
        return self._n_not_finite + self._n_undivided

    def close(self) -> None:
        """Remove the hooks; a later step that is due installs them again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for parameter in self._parameters:
            # autograd would go on calling the empty table of hooks: 4 % of a small model's step
            if not parameter._backward_hooks:
                parameter._backward_hooks = None

    def _install(self) -> None:
        self._parameters = [p for p in self._model.parameters() if p.requires_grad]
        self._handles = [p.register_hook(self._hear) for p in self._parameters]

    def _forget(self) -> None:
        """Be ready for a step's first backward pass."""
        self._norms: list[torch.Tensor] = []
        self._big: torch.Tensor | None = None
        self._open: dict[int, list[torch.Tensor]] = {}
        self._passes: list[int] = []

    def _hear(self, gradient: torch.Tensor) -> None:
        """Take the norm of one parameter's gradient of the backward pass that is running."""
        number = torch._C._current_graph_task_id()
        if number not in self._open:
            self._open[number] = []
            _at_end_of_pass(partial(self._close_pass, number))
        self._open[number].append(_norm(gradient))

    def _close_pass(self, number: int) -> None:
        """Count a pass that was not interrupted."""
        self._norms += self._open.pop(number)
        # one that began later and ended sooner ran inside of this: reentrant checkpointing
        self._passes = [other for other in self._passes if other < number] + [number]
        if self._is_last_pass is not None and self._is_last_pass():
            # queued only now, it comes after DistributedDataParallel has averaged
            _at_end_of_pass(self._read_big)

    def _read_big(self) -> None:
        norms = [_norm(p.grad) for p in self._parameters if p.grad is not None]
        self._big = _sum_of_squares(norms, self._parameters[0])

    def _measure(self, loss_scale: float) -> None:
        """Queue the step's mean squared norms: one tensor, nothing is read off the device."""
        n, n_processes = len(self._passes), _n_processes(self._group)
        if n_processes == 1 and n < 2:
            self._refuse(n)
            return
        was_early = self._big is not None
        if self._big is None:
            self._read_big()
        assert self._big is not None
        small = _sum_of_squares(self._norms, self._parameters[0])
        of_loss = n if self._loss_is_divided else 1
        sums = torch.stack([small * (of_loss / loss_scale) ** 2, torch.full_like(small, n)])
        if n_processes > 1:
            distributed.all_reduce(sums, group=self._group)
        squares, total = sums
        big = self._big / loss_scale**2 if was_early else self._big
        if not self._loss_is_divided:
            big = big * (n_processes / total) ** 2
        self._waiting.append((self._n_steps, torch.stack([squares / total, big, total])))
        self._n_measured += 1
        if self._n_measured % READ_EVERY == 0:
            self._read()
            if self._may_double and self._is_enough(n_processes):
                self._every *= 2

    def _is_enough(self, n_processes: int) -> bool:
        """Whether the gap doubles, for all processes alike, or they would wait for each other."""
        n_even = sum(step.step % self._every == 0 for step in self._history)
        lower, upper = self.estimate().ci if n_even else Interval()
        is_narrow = lower is not None and upper is not None and upper <= NARROW * lower
        is_enough = is_narrow or n_even >= MOST_STEPS
        if n_processes == 1:
            return is_enough
        agreed = torch.tensor(float(is_enough), device=self._parameters[0].device)
        distributed.all_reduce(agreed, op=distributed.ReduceOp.MIN, group=self._group)
        return bool(agreed)

    def _refuse(self, n_passes: int) -> None:
        if not (self._history or self._waiting or self.n_skipped):
            raise ValueError(
                "the noise scale compares gradients of parts of a batch with that of the whole "
                f"batch: backward passes before step() must be two or more, got "
                f"{n_passes or 'none'} on one process; split the batch into two or more, with one "
                "backward pass each (gradient accumulation)."
            )
        self._n_undivided += 1

    def _read(self) -> None:
        """Read out what waits on the device."""
        if not self._waiting:
            return
        steps = [step for step, _ in self._waiting]
        rows = torch.stack([norms for _, norms in self._waiting]).cpu().tolist()
        self._waiting.clear()
        for step, (small, big, total) in zip(steps, rows, strict=True):
            if not (np.isfinite(small) and np.isfinite(big)):
                self._n_not_finite += 1
                continue
            measured = MeasuredStep(
                step=step,
                grad_sq_small=small,
                grad_sq_big=big,
                batch_small=self._batch_size,
                batch_big=self._batch_size * round(total),
            )
            self._history.append(measured)
            squared, trace = gradient_moments(
                small, big, batch_small=measured.batch_small, batch_big=measured.batch_big
            )
            old = (PAST * total for total in self._sums)
            new = ((1 - PAST) * float(part[0]) for part in (squared, trace))
            squared_sum, trace_sum = (a + b for a, b in zip(old, new, strict=True))
            self._sums = squared_sum, trace_sum

    def _why_nothing(self) -> str:
        if not self.n_skipped:
            return "no step was measured yet; call step() after the backward passes of each step."
        return (
            f"none of {self.n_skipped} measured steps can be used: the gradients of "
            f"{self._n_not_finite} were not finite, {self._n_undivided} had a single backward "
            "pass; lower the learning rate, or split batches in two or more."
        )


def _check_parameters(model: nn.Module) -> None:
    watched = [p for p in model.parameters() if p.requires_grad]
    if not watched:
        raise ValueError("a model needs parameters that require gradients, got none.")
    is_sharded = any(hasattr(p, "full_tensor") for p in watched) or any(
        type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()
    )
    if is_sharded:
        raise ValueError(
            "the parameters are sharded over processes, so no process has the whole "
            "gradient; measure on a smaller model with DistributedDataParallel."
        )


def _n_processes(group: distributed.ProcessGroup | None) -> int:
    in_use = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size(group) if in_use else 1


def _at_end_of_pass(function: Callable[[], None]) -> None:
    """Have it called when the running backward pass ends, after what was queued before it."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


def _norm(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.detach()
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    if gradient.dtype in HALVES:
        return torch.linalg.vector_norm(gradient, dtype=torch.float32)
    return torch.linalg.vector_norm(gradient)


def _sum_of_squares(norms: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """On the device of a parameter, where a model may have several."""
    dtype = torch.float32 if like.dtype in HALVES else like.dtype
    if not norms:
        return torch.zeros((), device=like.device, dtype=dtype)
    return torch.stack([norm.to(like.device, dtype) for norm in norms]).square().sum()
