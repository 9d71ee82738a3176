"""A pack in training: stacked parameters, optimiser state, one data stream a seed.

Shapes: M runs, S distinct seeds, B examples, K steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import groupby, repeat
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from extrap.noise import gradient_moments
from extrap.records.schedules import multiplier
from extrap.training.graphs import RecordedSteps, Step
from extrap.training.optimizers import build_optimizer, clip_by_run, squares_by_run
from extrap.training.packs import Pack
from extrap.workloads import (
    Batch,
    LoadedWorkload,
    TensorRule,
    is_orthogonalized,
    take_rows,
    width_rules,
)

DATA_STREAM = 2**31
"""Added to a seed where its data are drawn: its initialisation comes from another stream."""
RANDOM = "random state"
"""Key, in the snapshot of a run, of the random state of its data stream."""
EVALUATION_EXAMPLES, EVALUATION_TOKENS = 256, 512
"""Examples and predicted tokens of one evaluation pass, by the model's size alone, so that sums do
not depend on the number of runs: few enough for the outputs of some small runs to stay in a
processor's cache, and enough for the products of a large one."""
LARGE_MODEL, LARGE_EVALUATION = 2**17, 1024
"""Parameters from which a model is a large one, and predicted tokens of its evaluation pass."""
NOISE_PARTS = 2
"""Parts in which a batch is taken where the noise of gradients is measured. With n of them the
variance of |G|² goes as n / (n - 1); twice as many measurements with 2 cost as much as with 4."""
READ_BYTES = {"cpu": 2**17, "cuda": 2**22}
"""Largest size in bytes of the batches that are read at once, by type of device: reading several
steps in one operation costs less than an operation per step."""


class _Loss(nn.Module):
    """A workload's loss as a module, so that its parameters can be swapped."""

    def __init__(self, workload: LoadedWorkload, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.workload = workload

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        return self.workload.loss(self.module, batch)


class Stack:
    """The state of a pack in training.

    A seed fixes initialisation, data order and, where runs have some of the examples, which ones;
    all drawn on the CPU. Runs that share it start alike and see the same batches.

    Args:
        pack: The runs.
        device: Where they are trained.
        dtype: Of parameters and real-valued data.
        run_axis: Whether to use the workload's own run axis; by default if it has one.
        data: Training and held-out tensors where another stack of this workload has placed them.
    """

    def __init__(
        self,
        pack: Pack,
        device: torch.device,
        *,
        dtype: torch.dtype = torch.float32,
        run_axis: bool | None = None,
        data: tuple[Batch, Batch] | None = None,
    ) -> None:
        self._has_run_axis = pack.workload.has_run_axis if run_axis is None else run_axis
        self._shares_inputs = self._has_run_axis and getattr(pack.workload, "shares_inputs", False)
        self._workload, self._device, self._dtype = pack.workload, device, dtype
        self._recipes = list(pack.recipes())
        self._rates_M = _doubles([dict(cell.tuned)["lr"] for cell in pack.cells])
        self._recorded: RecordedSteps | None = None
        self._recorded_size = 0
        self._squares: list[tuple[int, torch.Tensor]] = []
        seeds = sorted({cell.seed for cell in pack.cells})
        self._begin_streams(pack, seeds)
        self.data = data or (
            self._to_device(pack.workload.training),
            self._to_device(pack.workload.validation),
        )
        self._training, self._held_out = self.data
        self._begin_models(pack, [_initial(pack, seed) for seed in seeds])
        self._set_clips()

    def _begin_streams(self, pack: Pack, seeds: list[int]) -> None:
        """One generator per seed, the examples it has, and which of them each run takes."""
        self._generators = [torch.Generator().manual_seed(s + DATA_STREAM) for s in seeds]
        pools = take_rows(pack.workload, pack.n_kept(), seeds)
        self._pools_S = [
            None if pools is None else torch.from_numpy(pools[s]) for s in range(len(seeds))
        ]
        streams = [seeds.index(cell.seed) for cell in pack.cells]
        self._streams_M = torch.tensor(streams).to(self._device)
        self._rows = self._rows_of_batch()

    def _begin_models(self, pack: Pack, modules: list[_Loss]) -> None:
        """Stacked parameters, buffers and optimiser from a module a seed."""
        # a batched product may round by the number of runs in it
        self._is_one_by_one = not self._has_run_axis and self._device.type == "cpu"
        rules = _rules(pack)
        self._names = [name for name, _ in modules[0].named_parameters()]
        self._parameters = self._stacked_parameters(modules, rules)
        self._buffers = self._stacked_buffers(modules)
        running = [name for name in self._buffer_names if "running_" in name]
        if running and any(recipe.noise_every for recipe in self._recipes):
            raise ValueError(
                "noise_every splits a batch, which changes a model with running statistics, "
                f"got {running[0].removeprefix('module.')}; set noise_every=0, or use a "
                "model without them."
            )
        self._optimizer = build_optimizer(
            self._parameters,
            self._recipes,
            scales=[rules[name].rate for name in self._names],
            matrices=self._matrices(rules),
        )
        self._template = modules[0].to("meta")
        self._hang_in()

    def __len__(self) -> int:
        return len(self._recipes)

    @property
    def tokens_per_example(self) -> int:
        """Predicted tokens in one example."""
        return self._workload.tokens_per_example

    @property
    def is_recorded(self) -> bool:
        """Whether the step is recorded, so that dropping runs means to record it again."""
        return self._device.type == "cuda"

    def advance(self, start: int, stop: int) -> list[int | None]:
        """Train; the step at which each run's training loss was first not finite, or None."""
        rates_KM = self._schedule(start, stop).to(self._device)
        losses_KM = torch.empty(rates_KM.shape, dtype=self._dtype, device=self._device)
        done, every, self._squares = 0, self._recipes[0].noise_every, []
        with self._precision():
            for n_steps, batch_size in self._stretches(start, stop):
                rows_KSB = self._draw(n_steps, batch_size).to(self._device)
                for batches in self._read(rows_KSB):
                    span = slice(done, done + len(batches[0]))
                    do, finish = self._step_functions(
                        batch_size, rates_KM[span], batches, losses_KM[span]
                    )
                    while done < span.stop:
                        done += 1
                        if every > 0 and batch_size > 1 and (start + done) % every == 0:
                            outputs = do("measured", self._measured_step)
                            self._squares.append((batch_size, outputs[1:].clone()))
                        else:
                            do("plain", self._step)
                    finish()
        broke_MK = (~torch.isfinite(losses_KM)).T.tolist()
        return [start + 1 + row.index(True) if True in row else None for row in broke_MK]

    def gradient_moments(self) -> list[tuple[float, float] | None]:
        """|G|² and tr Σ of every run, means over the measured steps of the last `advance`.

        Both are unbiased (`extrap.noise.gradient_moments`) and of the gradient before clipping;
        None for a run of which no finite gradient was measured.
        """
        sums_2M, counts_M = np.zeros((2, len(self))), np.zeros(len(self))
        for batch_size, squares_2M in self._squares:
            small_M, big_M = squares_2M.double().cpu().numpy()
            is_finite = np.isfinite(small_M) & np.isfinite(big_M)
            if is_finite.any():
                sums_2M[:, is_finite] += gradient_moments(
                    small_M[is_finite],
                    big_M[is_finite],
                    batch_small=batch_size // min(NOISE_PARTS, batch_size),
                    batch_big=batch_size,
                )
            counts_M += is_finite
        pairs = zip(*sums_2M, counts_M, strict=True)
        return [(float(g / n), float(s / n)) if n else None for g, s, n in pairs]

    def evaluate(self, n_examples: int | None = None) -> list[float]:
        """Held-out loss of every run, on the first so many examples; on all of them by default."""
        return self._evaluate(self._parameters, self._buffers, n_examples)

    def evaluate_initial(self, n_examples: int | None = None) -> list[float]:
        """Held-out loss of every run before the first step: measured once for each start.

        Runs of one seed start alike unless they tune the scale of the initialisation.
        """
        starts = list(
            zip(self._streams_M.tolist(), (r.init_scale for r in self._recipes), strict=True)
        )
        distinct = list(dict.fromkeys(starts))
        first = torch.tensor([starts.index(start) for start in distinct], device=self._device)
        chosen = [p.detach()[first] for p in self._parameters]
        losses = self._evaluate(chosen, [b[first] for b in self._buffers], n_examples)
        return [losses[distinct.index(start)] for start in starts]

    def keep(self, rows: list[int]) -> None:
        """Go on with these runs only."""
        index = torch.tensor(rows, device=self._device)
        self._parameters = [p.detach()[index].requires_grad_() for p in self._parameters]
        self._buffers = [b[index] for b in self._buffers]
        self._hang_in()
        self._optimizer.keep(index, self._parameters)
        self._rates_M = self._rates_M[index.cpu()]
        self._streams_M = self._streams_M[index]
        self._rows = self._rows_of_batch()
        self._recipes = [self._recipes[row] for row in rows]
        self._recorded = None
        self._set_clips()

    def parameters(self) -> dict[str, torch.Tensor]:
        """Name → stacked parameters (M, …), as they are now."""
        names = (name.removeprefix("module.") for name in self._names)
        return {name: p.detach() for name, p in zip(names, self._parameters, strict=True)}

    def snapshot(self, run: int) -> dict[str, torch.Tensor]:
        """Name → all that one run needs to go on, on the CPU; its own memory.

        With the number of updates made it fixes what `advance` does, to the last bit.
        """
        stream = self._generators[int(self._streams_M[run])]
        state = {name: t[run].detach().cpu().clone() for name, t in self._live().items()}
        return {**state, RANDOM: stream.get_state()}

    @torch.no_grad()
    def restore(self, snapshots: Sequence[Mapping[str, torch.Tensor]], step: int) -> None:
        """Put every run where a snapshot was taken of it, before this stack's first step."""
        for name, tensor in self._live().items():
            tensor.copy_(torch.stack([snapshot[name] for snapshot in snapshots]))
        for stream, snapshot in zip(self._streams_M.tolist(), snapshots, strict=True):
            self._generators[stream].set_state(snapshot[RANDOM])
        self._optimizer.resume(step)

    def _live(self) -> dict[str, torch.Tensor]:
        """Name → stacked tensor (M, …) that changes as the runs train."""
        return {
            **{f"parameter {n}": t for n, t in zip(self._names, self._parameters, strict=True)},
            **{f"buffer {n}": t for n, t in zip(self._buffer_names, self._buffers, strict=True)},
            **{f"optimizer {name}": t for name, t in self._optimizer.tensors().items()},
        }

    def _rows_of_batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Which seed's examples each input has, and which each run has.

        If the workload shares inputs, an input serves n consecutive runs of one seed, where n
        divides the length of every sequence of consecutive runs of one seed. Otherwise each run
        has its own input.
        """
        streams = self._streams_M.tolist()
        in_a_row = [len(list(group)) for _, group in groupby(streams)]
        n_each = math.gcd(*in_a_row) if self._shares_inputs else 1
        return self._streams_M[::n_each].contiguous(), self._streams_M

    def _of_runs(self, batch_SB: Batch) -> Batch:
        """A batch with one entry per seed as one with an entry per input or run."""
        inputs, others = self._rows
        return tuple(t_SB[others if i else inputs] for i, t_SB in enumerate(batch_SB))

    def _step(self, rate_M: torch.Tensor, *batch: torch.Tensor) -> torch.Tensor:
        """One update of every run; returns the losses before it, (M,)."""
        losses_M, gradients = self._gradients(batch)
        self._update(gradients, rate_M)
        return losses_M

    def _measured_step(self, rate_M: torch.Tensor, *batch: torch.Tensor) -> torch.Tensor:
        """One update of every run from the gradients of parts of its batch.

        The update is that of `_step` but for rounding, and takes no further backward pass. Returns
        the losses, the mean square of the parts' gradients and that of the batch's, (3, M).
        """
        n_examples = batch[0].shape[1]
        n_parts = min(NOISE_PARTS, n_examples)
        total: list[torch.Tensor] = []
        squares, losses = [], []
        for first in range(n_parts):
            # every so manyth example: a batch may be ordered, as one per stretch of a text is
            part = tuple(t[:, first::n_parts] for t in batch)
            n_in_part = part[0].shape[1]
            losses_M, gradients = self._gradients(part)
            losses.append(losses_M * (n_in_part / n_examples))
            if n_in_part == n_examples // n_parts:
                squares.append(squares_by_run(gradients))
            torch._foreach_mul_(gradients, n_in_part / n_examples)
            if total:
                torch._foreach_add_(total, gradients)
            else:
                total = gradients
        small_M, big_M = torch.stack(squares).mean(0), squares_by_run(total)
        self._update(total, rate_M)
        return torch.stack([torch.stack(losses).sum(0), small_M, big_M])

    def _gradients(self, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Losses of every run, (M,), each on its own batch, and the stacked gradients."""
        losses_M = self._losses(self._parameters, self._buffers, batch, paired=True)
        # what is saved for the backward pass has its precision; and on a GPU that pass runs in a
        # thread of its own, which would keep casts of weights from one step to the next
        is_cast = self._recipes[0].precision.startswith("bf16")
        with torch.autocast(self._device.type, enabled=False) if is_cast else nullcontext():
            # of the sum: gradients of several losses make torch import a second's worth of modules
            gradients = torch.autograd.grad(
                losses_M.sum(), self._parameters, allow_unused=True, materialize_grads=True
            )
        return losses_M.detach(), list(gradients)

    def _update(self, gradients: list[torch.Tensor], rate_M: torch.Tensor) -> None:
        if self._clip_M is not None:
            clip_by_run(gradients, self._clip_M)
        self._optimizer.step(gradients, rate_M)

    def _losses(
        self,
        parameters: list[torch.Tensor],
        buffers: list[torch.Tensor],
        batch: Batch,
        *,
        paired: bool,
    ) -> torch.Tensor:
        """Loss of every run, (M,), on a batch of its own (paired) or on one for all."""
        if self._has_run_axis:
            if not paired:
                n_runs = len(parameters[0])
                times = [1 if self._shares_inputs else n_runs, *[n_runs] * len(batch)]
                batch = tuple(t.expand(n, *t.shape) for n, t in zip(times, batch, strict=False))
            return self._call(parameters, buffers, batch)
        if self._is_one_by_one:
            batches = zip(*(t.unbind() for t in batch), strict=True) if paired else repeat(batch)
            by_run = zip(*(p.unbind() for p in parameters), strict=True)
            return torch.stack(
                [
                    self._call(run_parameters, [b[m] for b in buffers], run_batch)
                    for m, (run_parameters, run_batch) in enumerate(
                        zip(by_run, batches, strict=False)
                    )
                ]
            )
        with sdpa_kernel(SDPBackend.MATH):  # the other kernels have no batching rule on a CPU
            per_run = vmap(
                self._call, in_dims=(0, 0, 0 if paired else None), randomness="different"
            )
            return per_run(parameters, buffers, batch)

    def _call(
        self, parameters: Sequence[torch.Tensor], buffers: list[torch.Tensor], batch: Batch
    ) -> torch.Tensor:
        if self._has_run_axis and parameters is self._parameters:
            return self._template(*batch)
        named = dict(zip(self._names, parameters, strict=True))
        named.update(zip(self._buffer_names, buffers, strict=True))
        return functional_call(self._template, named, batch)

    def _hang_in(self) -> None:
        """Give a module with a run axis the stacked tensors for good: swapping them costs time."""
        if not self._has_run_axis:
            return
        parameters = zip(self._names, self._parameters, strict=True)
        for name, tensor in (*parameters, *zip(self._buffer_names, self._buffers, strict=True)):
            path, _, leaf = name.rpartition(".")
            module: Any = self._template.get_submodule(path)
            (module._parameters if leaf in module._parameters else module._buffers)[leaf] = tensor

    @torch.no_grad()
    def _evaluate(
        self,
        parameters: list[torch.Tensor],
        buffers: list[torch.Tensor],
        n_examples: int | None,
    ) -> list[float]:
        examples = tuple(t[:n_examples] for t in self._held_out)
        n_at_once = self.n_evaluated_at_once
        totals_M = torch.zeros(len(parameters[0]), dtype=torch.float64, device=self._device)
        self._template.eval()
        with self._precision():
            for batch in zip(*(t.split(n_at_once) for t in examples), strict=True):
                losses_M = self._losses(parameters, buffers, batch, paired=False)
                totals_M += losses_M.double() * len(batch[0])
        self._template.train()
        return (totals_M / len(examples[0])).tolist()

    @property
    def n_evaluated_at_once(self) -> int:
        """Examples of one evaluation pass."""
        tokens = self._workload.tokens_per_example
        if sum(p[0].numel() for p in self._parameters) >= LARGE_MODEL:
            return max(1, LARGE_EVALUATION // tokens)
        return max(1, min(EVALUATION_EXAMPLES, EVALUATION_TOKENS // tokens))

    def _schedule(self, start: int, stop: int) -> torch.Tensor:
        """Learning rate of every run at every step, (K, M)."""
        courses = {
            recipe: _doubles([multiplier(recipe, step) for step in range(start, stop)])
            for recipe in dict.fromkeys(self._recipes)
        }
        return torch.stack([courses[recipe] for recipe in self._recipes], 1) * self._rates_M

    def _stretches(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Numbers of steps from one to another that have one batch size, and that size."""
        sizes = (self._recipes[0].phase_at(step).batch_size for step in range(start, stop))
        return [(len(list(group)), size) for size, group in groupby(sizes)]

    def _step_functions(
        self,
        batch_size: int,
        rates_kM: torch.Tensor,
        batches: Batch,
        losses_kM: torch.Tensor,
    ) -> tuple[Callable[[str, Step], torch.Tensor], Callable[[], object]]:
        """Two functions: one makes the next update and returns its output, one ends them.

        The second, to be called after the last update, completes `losses_kM`. On a GPU updates
        are recorded, for one batch size.
        """
        inputs = (rates_kM, *batches)
        if not self.is_recorded:
            left = zip(losses_kM, *inputs, strict=True)

            def do(_: str, step: Step) -> torch.Tensor:
                losses_M, rate_M, *batch_SB = next(left)
                outputs = step(rate_M, *self._of_runs(tuple(batch_SB)))
                losses_M.copy_(outputs if outputs.dim() == 1 else outputs[0])
                return outputs

            return do, lambda: None
        if self._recorded is None or batch_size != self._recorded_size:  # batches only grow
            self._recorded_size, capacity = batch_size, self._n_read_at_once(batches)
            rows = (None, *(self._rows[i > 0] for i in range(len(batches))))
            self._recorded = RecordedSteps(inputs, capacity, rows=rows)
        recorded = self._recorded
        recorded.put(inputs)
        return recorded.do, lambda: losses_kM.copy_(recorded.losses(len(losses_kM)))

    def _draw(self, n_steps: int, n_examples: int) -> torch.Tensor:
        """Rows of the next batches of every seed, (K, S, B)."""
        shape = (n_steps, n_examples)
        rows_SKB = [
            self._workload.draw_batches(*shape, generator)
            if pool is None
            else pool[torch.randint(len(pool), shape, generator=generator)]
            for generator, pool in zip(self._generators, self._pools_S, strict=True)
        ]
        return torch.stack(rows_SKB, 1)

    def _read(self, rows_KSB: torch.Tensor) -> Iterator[Batch]:
        """Tensors (k, S, B, …) for the batches of some steps at once."""
        n_at_once = 1
        while len(rows_KSB):
            rows, rows_KSB = rows_KSB[:n_at_once], rows_KSB[n_at_once:]
            read = self._as_dtype(self._workload.examples(self._training, rows))
            yield read
            n_at_once = self._n_read_at_once(read)

    def _n_read_at_once(self, batches: Batch) -> int:
        n_bytes = sum(t[0].numel() * t.element_size() for t in batches)
        n_bytes += 16 * len(self)  # a rate and a loss of every run
        return max(1, READ_BYTES.get(self._device.type, READ_BYTES["cuda"]) // n_bytes)

    def _to_device(self, tensors: Batch) -> Batch:
        return tuple(t.to(self._device) for t in self._as_dtype(tensors))

    def _as_dtype(self, tensors: Batch) -> Batch:
        return tuple(t.to(self._dtype) if t.is_floating_point() else t for t in tensors)

    def _stacked_parameters(
        self, modules: list[_Loss], rules: Mapping[str, TensorRule]
    ) -> list[torch.Tensor]:
        """Every run's start: its seed's, times the width rule and the run's scale."""
        by_seed = [dict(module.named_parameters()) for module in modules]
        scale_M = _doubles([recipe.init_scale for recipe in self._recipes]).to(self._device)
        stacked = []
        for name in self._names:
            values_S = torch.stack([named[name].detach() for named in by_seed])
            for named in by_seed[1:]:  # the first module becomes the template
                named[name].data = named[name].data.new_empty(0)
            values_S = values_S.to(self._device, self._dtype) * rules[name].init
            values_M = values_S[self._streams_M]
            if values_M.dim() > 2:
                values_M *= scale_M.to(self._dtype).view(-1, *[1] * (values_M.dim() - 1))
            stacked.append(values_M.contiguous().requires_grad_())
        return stacked

    def _stacked_buffers(self, modules: list[_Loss]) -> list[torch.Tensor]:
        by_seed = [dict(module.named_buffers()) for module in modules]
        self._buffer_names = list(by_seed[0])
        stacked = (torch.stack([named[name] for named in by_seed]) for name in self._buffer_names)
        return [t[self._streams_M] for t in self._to_device(tuple(stacked))]

    def _matrices(self, rules: Mapping[str, TensorRule]) -> list[bool]:
        """Which tensors Muon orthogonalises."""
        named = zip(self._names, self._parameters, strict=True)
        is_matrix = [is_orthogonalized(rules[name].role, p.dim() - 1) for name, p in named]
        if self._recipes[0].optimizer == "muon" and not any(is_matrix):
            raise ValueError(
                "muon needs matrices of which both sides grow with the size column 'width', "
                "this model has none; use optimizer='adamw', or rename the column."
            )
        return is_matrix

    def _set_clips(self) -> None:
        """Largest norm of every run's gradient; nothing if none is limited."""
        clips = [recipe.clip or float("inf") for recipe in self._recipes]
        is_clipped = min(clips) < float("inf")
        self._clip_M = _doubles(clips).to(self._device) if is_clipped else None

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """Matrix products in the recipe's precision, where the device has it.

        A module without a run axis has one thread: sums of several round by their number.
        """
        precision, kind = self._recipes[0].precision, self._device.type
        before = torch.get_float32_matmul_precision()
        with ExitStack() as stack:
            if kind == "cpu" and not self._has_run_axis and torch.get_num_threads() > 1:
                stack.callback(torch.set_num_threads, torch.get_num_threads())
                torch.set_num_threads(1)
            if precision.startswith("bf16"):
                # a recorded step must cast again each time, so no cache of casts
                cast = torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=False)
                stack.enter_context(cast)
            if kind == "cuda":
                stack.enter_context(torch.cuda.device(self._device))
                stack.callback(torch.set_float32_matmul_precision, before)
                name = "highest" if precision == "fp32" else "high"
                torch.set_float32_matmul_precision(name)
            yield


def _initial(pack: Pack, seed: int) -> _Loss:
    """A model under its own seed; the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _Loss(pack.workload, pack.workload.build(pack.model_size()))


def _rules(pack: Pack) -> dict[str, TensorRule]:
    """Name of a parameter of `_Loss` → its width rule."""
    rules = width_rules(
        pack.workload.build,
        pack.model_size(),
        parametrization=pack.recipe.parametrization,
        base_width=pack.recipe.base_width,
        optimizer=pack.recipe.optimizer,
    )
    return {f"module.{name}": rule for name, rule in rules.items()}


def _doubles(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
