"""`NoiseMeter`: the gradient noise scale of a training, from gradients that it computes anyway.

With gradient accumulation or data-parallel processes, the gradient of a step is the mean of
gradients of smaller batches. Hooks read those before they are averaged; no backward pass is added.
In a training loop of your own:

    meter = extrap.NoiseMeter(model, batch_size=32)  # examples per backward pass and process
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

AVERAGE_DECAY = 0.95
"""Decay per measured step of the exponential averages: they cover about the last 20 steps."""
STEPS_PER_READ = 64
"""Number of measured steps whose norms are copied from the device together."""
NARROW_RATIO = 1.5
"""Ratio of the upper to the lower end of the 95 % interval below which the gap between measured
steps doubles. The noise scale differs from critical batch sizes by factors of up to 5.7
(`docs/measured.md`), so that a narrower interval has no use. The number of steps needed for a
ratio is proportional to 1 / ln² of it."""
MAX_EVEN_STEPS = 512
"""Number of evenly spaced measured steps at which the gap doubles however wide the interval is: if
|G|² is not significant by then, noise dominates."""
HALF_PRECISION = (torch.float16, torch.bfloat16)
"""Types of 16 bits; norms of such gradients are computed in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """Squared gradient norms of one step.

    Attributes:
        step: Number of the step, from 0.
        grad_sq_small: Squared norm of the gradient of one backward pass, averaged over the passes
            of the step on all processes.
        grad_sq_big: Squared norm of the gradient of the whole step.
        batch_small: Number of examples of one backward pass.
        batch_big: Number of examples of the step, over all processes.
    """

    step: int
    grad_sq_small: float
    grad_sq_big: float
    batch_small: int
    batch_big: int


class NoiseMeter:
    """Measures the gradient noise scale of a training run without changing it.

    The meter assumes one call of `backward` per micro-batch. Activation checkpointing of a whole
    model needs `use_reentrant=False`. If `torch.distributed` is in use, gradients must have been
    averaged over its processes before `step` is called, as `DistributedDataParallel` does. Every
    process has its own meter, and each measured step sums one tiny tensor over the processes.
    Norms stay on the device until they are requested or many have accumulated.

    At first every step is measured. The gap between measured steps then doubles, to every 2nd,
    4th, 8th … step, each time that the 95 % interval of the noise scale is narrow (upper end at
    most 1.5 times the lower end) or 512 evenly spaced steps have been measured. An estimate thus
    always uses steps that are evenly spaced over the training so far, and fewer and fewer steps
    are measured. With a small model, a measured step takes up to twice as long as another one;
    between measured steps the hooks are removed.

    Args:
        model: The model whose parameters that require gradients are watched; they must not be
            sharded over processes.
        batch_size: Number of examples of one backward pass on one process.
        every: Constant gap between measured steps, from the first step on; by default the gap
            doubles as described above.
        loss_is_divided: Whether losses are divided by the number of micro-batches, so that
            gradients add up to their mean. It scales |G|² and tr Σ; their ratio does not depend on
            it.
        process_group: The data-parallel processes, by default all.
        is_last_pass: For trainers that clip gradients before `step` can be called: a function that
            tells, at the end of a backward pass, whether that was the last pass of the step. The
            gradient of the step is then read at once.

    Raises:
        ValueError: Nothing requires a gradient, parameters are sharded, or a number is below 1.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, App. A.1: the norm of the local gradient before
        the reduction, and of the averaged gradient after it, cost nothing extra.
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
        self._gap = every or 1
        self._may_double = every is None
        self._loss_is_divided = loss_is_divided
        self._group = process_group
        self._is_last_pass = is_last_pass
        self._n_steps = self._n_measured = 0
        self._unread: list[tuple[int, torch.Tensor]] = []
        self._history: list[MeasuredStep] = []
        # Of |G|² and tr Σ, whose ratio is the noise scale. They begin at 0, so both are too small
        # by the same factor, which cancels.
        self._averages: tuple[float, ...] = (0.0, 0.0)
        self._n_not_finite = 0
        self._n_undivided = 0
        self._parameters: list[nn.Parameter] = []
        self._handles: list[Any] = []
        self._clear_step()
        self._install()

    def step(self, *, loss_scale: float = 1.0) -> None:
        """End a step: after its last `backward`, before clipping and the optimiser's step.

        Args:
            loss_scale: Factor by which the losses were multiplied, if `.grad` has already been
                divided by it: `get_scale()` of a `GradScaler` after its `unscale_` was called.

        Raises:
            ValueError: The first measured step had no backward pass, or a single one on a single
                process. Later ones are left out, and counted in `n_skipped`.
        """
        if self._handles:
            try:
                self._measure(loss_scale)
            finally:
                self._clear_step()
            if self._gap > 1:
                self.close()
        self._n_steps += 1
        if not self._handles and self._n_steps % self._gap == 0:
            self._install()

    def __repr__(self) -> str:
        rule = "every step" if self._gap == 1 else f"one step in {self._gap}"
        summary = str(self.estimate()) if self.history else self._why_no_estimate()
        return f"NoiseMeter({summary}; measures {rule}{', for now' * self._may_double})"

    def estimate(self, *, last: int | None = None, level: float = 0.95) -> NoiseScale:
        """The noise scale with its interval.

        Args:
            last: How many of the latest steps of `moments` to use; by default all. The noise
                scale grows during training: the estimate is an average over the steps used, in
                which steps with large gradients count most.
            level: Confidence level of the interval, in (0, 1).

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
        """|G|² and tr Σ at evenly spaced measured steps, as `noise_course` takes them.

        Further steps, measured while the gap was smaller, are left out: otherwise the beginning of
        the training would dominate.

        Raises:
            DataError: No measured step could be used; says why.
        """
        history = [step for step in self.history if step.step % self._gap == 0]
        if not history:
            raise DataError(self._why_no_estimate())
        columns = ("grad_sq_small", "grad_sq_big", "batch_small", "batch_big")
        grad_sq_small, grad_sq_big, batch_small, batch_big = (
            np.array([getattr(step, column) for step in history], float) for column in columns
        )
        return gradient_moments(
            grad_sq_small, grad_sq_big, batch_small=batch_small, batch_big=batch_big
        )

    @property
    def history(self) -> tuple[MeasuredStep, ...]:
        """The measured steps that can be used, oldest first."""
        self._read_norms()
        return tuple(self._history)

    @property
    def running_noise_scale(self) -> float | None:
        """The noise scale of about the last 20 measured steps.

        The ratio of the exponential averages of tr Σ and |G|²; None while that of |G|² is not
        positive.
        """
        self._read_norms()
        squared, trace = self._averages
        return max(0.0, trace / squared) if squared > 0 else None

    @property
    def n_skipped(self) -> int:
        """Number of measured steps left out: gradients not finite, or fewer than two passes."""
        self._read_norms()
        return self._n_not_finite + self._n_undivided

    def close(self) -> None:
        """Remove the hooks; `step` installs them again before the next step to measure."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for parameter in self._parameters:
            # autograd goes on calling a table of hooks that is empty: 4 % of a small model's step
            if not parameter._backward_hooks:
                parameter._backward_hooks = None

    def _install(self) -> None:
        """Register the hooks that record gradient norms."""
        self._parameters = [p for p in self._model.parameters() if p.requires_grad]
        self._handles = [p.register_hook(self._record_norm) for p in self._parameters]

    def _clear_step(self) -> None:
        """Clear what was recorded of a step, before the first backward pass of the next one."""
        self._pass_norms: list[torch.Tensor] = []
        self._step_norm_sq: torch.Tensor | None = None
        self._norms_of_open_passes: dict[int, list[torch.Tensor]] = {}
        self._completed_passes: list[int] = []

    def _record_norm(self, gradient: torch.Tensor) -> None:
        """Record the norm of one parameter's gradient in the current backward pass."""
        number = torch._C._current_graph_task_id()
        if number not in self._norms_of_open_passes:
            self._norms_of_open_passes[number] = []
            _at_end_of_pass(partial(self._end_pass, number))
        self._norms_of_open_passes[number].append(_norm(gradient))

    def _end_pass(self, number: int) -> None:
        """Record a backward pass that ran to its end."""
        self._pass_norms += self._norms_of_open_passes.pop(number)
        # a pass with a higher number ran within this one: reentrant activation checkpointing
        earlier = [other for other in self._completed_passes if other < number]
        self._completed_passes = [*earlier, number]
        if self._is_last_pass is not None and self._is_last_pass():
            # queued now, it runs after DistributedDataParallel has averaged the gradients
            _at_end_of_pass(self._compute_step_norm)

    def _compute_step_norm(self) -> None:
        """Compute the squared norm of the gradient of the whole step."""
        norms = [_norm(p.grad) for p in self._parameters if p.grad is not None]
        self._step_norm_sq = _sum_of_squares(norms, self._parameters[0])

    def _measure(self, loss_scale: float) -> None:
        """Append the squared norms of the step to those unread, as one tensor on the device."""
        n, n_processes = len(self._completed_passes), _n_processes(self._group)
        if n_processes == 1 and n < 2:
            self._skip_undivided(n)
            return
        was_early = self._step_norm_sq is not None
        if self._step_norm_sq is None:
            self._compute_step_norm()
        assert self._step_norm_sq is not None
        small = _sum_of_squares(self._pass_norms, self._parameters[0])
        loss_divisor = n if self._loss_is_divided else 1
        sums = torch.stack([small * (loss_divisor / loss_scale) ** 2, torch.full_like(small, n)])
        if n_processes > 1:
            distributed.all_reduce(sums, group=self._group)
        squares, n_passes = sums
        big = self._step_norm_sq / loss_scale**2 if was_early else self._step_norm_sq
        if not self._loss_is_divided:
            big = big * (n_processes / n_passes) ** 2
        self._unread.append((self._n_steps, torch.stack([squares / n_passes, big, n_passes])))
        self._n_measured += 1
        if self._n_measured % STEPS_PER_READ == 0:
            self._read_norms()
            if self._may_double and self._should_double(n_processes):
                self._gap *= 2

    def _should_double(self, n_processes: int) -> bool:
        """Whether the gap should double: the same on all processes, or they would deadlock."""
        n_even = sum(step.step % self._gap == 0 for step in self._history)
        lower, upper = self.estimate().ci if n_even else Interval()
        is_narrow = lower is not None and upper is not None and upper <= NARROW_RATIO * lower
        should_double = is_narrow or n_even >= MAX_EVEN_STEPS
        if n_processes == 1:
            return should_double
        all_agree = torch.tensor(float(should_double), device=self._parameters[0].device)
        distributed.all_reduce(all_agree, op=distributed.ReduceOp.MIN, group=self._group)
        return bool(all_agree)

    def _skip_undivided(self, n_passes: int) -> None:
        """Count a step whose batch was not divided; raise an error if it is the first step."""
        if not (self._history or self._unread or self.n_skipped):
            raise ValueError(
                "the noise scale compares gradients of parts of a batch with that of the whole "
                f"batch: backward passes before step() must be two or more, got "
                f"{n_passes or 'none'} on one process; split the batch into two or more, with one "
                "backward pass each (gradient accumulation)."
            )
        self._n_undivided += 1

    def _read_norms(self) -> None:
        """Copy the unread norms from the device, and add their steps to the history."""
        if not self._unread:
            return
        steps = [step for step, _ in self._unread]
        rows = torch.stack([norms for _, norms in self._unread]).cpu().tolist()
        self._unread.clear()
        for step, (small, big, n_passes) in zip(steps, rows, strict=True):
            if not (np.isfinite(small) and np.isfinite(big)):
                self._n_not_finite += 1
                continue
            measured = MeasuredStep(
                step=step,
                grad_sq_small=small,
                grad_sq_big=big,
                batch_small=self._batch_size,
                batch_big=self._batch_size * round(n_passes),
            )
            self._history.append(measured)
            squared, trace = gradient_moments(
                small, big, batch_small=measured.batch_small, batch_big=measured.batch_big
            )
            self._averages = tuple(
                AVERAGE_DECAY * average + (1 - AVERAGE_DECAY) * float(moment[0])
                for average, moment in zip(self._averages, (squared, trace), strict=True)
            )

    def _why_no_estimate(self) -> str:
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
    """Queue a function to be called when the current backward pass ends."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


def _norm(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.detach()
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    if gradient.dtype in HALF_PRECISION:
        return torch.linalg.vector_norm(gradient, dtype=torch.float32)
    return torch.linalg.vector_norm(gradient)


def _sum_of_squares(norms: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """The sum of the squared norms, on the device of `like`: a model may be on several devices."""
    dtype = torch.float32 if like.dtype in HALF_PRECISION else like.dtype
    if not norms:
        return torch.zeros((), device=like.device, dtype=dtype)
    return torch.stack([norm.to(like.device, dtype) for norm in norms]).square().sum()
