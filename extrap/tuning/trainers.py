"""Who trains the cells: our packed loop, or a function of the user's own, one cell at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from extrap.records import Cell, OnEval, RunResult, StudySpec

if TYPE_CHECKING:
    from extrap.workloads import LoadedWorkload

__all__ = ["OwnTrainer", "PackedTrainer", "TrainFunction", "Trainer"]

TrainFunction = Callable[[Mapping[str, float], Mapping[str, float], int], float | RunResult]

# Beyond this many small runs a run gets no cheaper, and a kill loses more.
MOST_RUNS = 128
# Parameter, gradient and Adam's two moments of every run must fit beside everything else.
STATE_BYTES = 2 * 2**30
BYTES_PER_PARAMETER = 16


class Trainer(Protocol):
    """Trains packs of cells of one size."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What identifies the data and the trainer."""

    def pack_size(self, size: Mapping[str, float]) -> int:
        """The most runs of one size to train together."""

    def cost(self, size: Mapping[str, float]) -> float:
        """Cost of one run."""

    def train(
        self, size: Mapping[str, float], cells: Sequence[Cell], on_eval: OnEval
    ) -> Sequence[RunResult]:
        """Train cells of one size; results in their order."""


class PackedTrainer:
    """Our own training loop; torch is imported here, when training starts and not before."""

    def __init__(self, spec: StudySpec) -> None:
        from extrap.workloads import load_workload

        self._spec = spec
        self._workload: LoadedWorkload = load_workload(spec.workload)
        self.fingerprint: Mapping[str, Any] = {"trainer": "extrap", **self._workload.fingerprint}

    def pack_size(self, size: Mapping[str, float]) -> int:
        """As many runs as fit into memory, at most `MOST_RUNS`."""
        state = BYTES_PER_PARAMETER * self._workload.n_params_total(size)
        return max(1, min(MOST_RUNS, STATE_BYTES // state))

    def cost(self, size: Mapping[str, float]) -> float:
        """FLOPs of one run."""
        from extrap.training import flops_6nd

        recipe = self._spec.recipe
        n_tokens = recipe.steps * recipe.batch_size * self._workload.tokens_per_example
        return flops_6nd(self._workload.n_params(size), n_tokens)

    def train(
        self, size: Mapping[str, float], cells: Sequence[Cell], on_eval: OnEval
    ) -> Sequence[RunResult]:
        """Train all cells as one program."""
        from extrap.training import Pack, train

        pack = Pack(
            workload=self._workload, size=size, recipe=self._spec.recipe, cells=tuple(cells)
        )
        return train(pack, on_eval=on_eval)


class OwnTrainer:
    """A user's function `train(size, tuned, seed)`, which returns a loss or a `RunResult`."""

    def __init__(self, function: TrainFunction) -> None:
        self._function = function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.fingerprint: Mapping[str, Any] = {"trainer": name}

    def pack_size(self, size: Mapping[str, float]) -> int:
        """One: the function trains a single cell."""
        return 1

    def cost(self, size: Mapping[str, float]) -> float:
        """Every run counts alike; what it costs is not known."""
        return 1.0

    def train(
        self, size: Mapping[str, float], cells: Sequence[Cell], on_eval: OnEval
    ) -> Sequence[RunResult]:
        """Train the cells one after the other; a loss that is not finite is a diverged run."""
        return [self._train_one(cell) for cell in cells]

    def _train_one(self, cell: Cell) -> RunResult:
        started = time.perf_counter()
        answer = self._function(dict(cell.size), dict(cell.tuned), cell.seed)
        if isinstance(answer, RunResult):
            return answer
        loss = float(answer)
        is_finite = math.isfinite(loss)
        return RunResult(
            cell=cell,
            status="complete" if is_finite else "diverged",
            loss=loss if is_finite else None,
            wall_s=time.perf_counter() - started,
        )
