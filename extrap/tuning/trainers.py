"""Who trains the cells: our packed loop, or a function of the user's own, one cell at a time."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from extrap.records import DATA_SIZE, EXAMPLES, Cell, OnEval, Recipe, RunResult, StudySpec
from extrap.training.preemption import Preemption
from extrap.tuning.fingerprints import fingerprint

if TYPE_CHECKING:
    from extrap.training import Pack
    from extrap.training.checkpoints import Checkpoints
    from extrap.workloads import LoadedWorkload

__all__ = ["OwnTrainer", "PackedTrainer", "TrainFunction", "Trainer"]

TrainFunction = Callable[[Mapping[str, float], Mapping[str, float], int], float | RunResult]

NVIDIA = Path("/dev/nvidiactl")
"""There where a GPU is; to ask torch would mean to import it first."""
LONG = 20_000
"""Runs times steps of a study that takes some seconds at least, whatever its model."""


class Trainer(Protocol):
    """Trains packs of cells of one size."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What identifies the data and the trainer."""

    def pack_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """Of cells of one size those to train together first, at least one."""

    def cost(self, cell: Cell) -> float:
        """Cost of one run."""

    def steps(self, cell: Cell) -> int:
        """Steps of one run."""

    def train(
        self,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        *,
        prunes: bool,
    ) -> Sequence[RunResult]:
        """Train cells of one pack, results in their order; says how it is going to."""

    def forget(self, cells: Iterable[Cell]) -> None:
        """Delete what it left of cells in case it is stopped: they are recorded."""

    def close(self) -> None:
        """Let go of whatever it holds."""


class PackedTrainer:
    """Our own training loop; torch is imported here, when training starts and not before.

    Args:
        spec: The study.
        device: Where to train.
        preemption: How training is asked to stop, and where runs leave their checkpoints.
        leaves: Whether they leave any.
    """

    def __init__(
        self,
        spec: StudySpec,
        device: str | None = None,
        preemption: Preemption | None = None,
        *,
        leaves: bool = True,
    ) -> None:
        from extrap.training import Crew, n_cores

        self._spec = spec
        self._device = device
        self._n_params: dict[tuple[tuple[str, float], ...], int] = {}
        self._crew = Crew(n_cores() - 1, spec.workload)
        try:
            is_on_gpu = NVIDIA.exists() and device != "cpu"  # which trains without them
            if _is_long(spec) and not is_on_gpu:
                self._crew.start()  # they import torch and read the data while this process does
            from extrap.workloads import load_workload

            self._workload: LoadedWorkload = load_workload(spec.workload)
        except BaseException:
            self._crew.close()
            raise
        self.fingerprint: Mapping[str, Any] = {"trainer": "extrap", **self._workload.fingerprint}
        self._checkpoints = _checkpoints(spec, self.fingerprint, preemption, leaves=leaves)

    def pack_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """Cells of the first one's batch size and steps, as many as fit into memory."""
        from extrap.training import find_device, most_runs

        shape = self._shape(cells[0])
        same = [cell for cell in cells if self._shape(cell) == shape]
        return same[: most_runs(self._pack(same), find_device(self._device))]

    def cost(self, cell: Cell) -> float:
        """FLOPs of one run."""
        from extrap.training import flops_6nd

        size = tuple((c, v) for c, v in cell.size if c not in (DATA_SIZE, EXAMPLES))
        if size not in self._n_params:
            self._n_params[size] = self._workload.n_params(dict(size))
        n_tokens = self._recipe(cell).n_examples * self._workload.tokens_per_example
        return flops_6nd(self._n_params[size], n_tokens)

    def steps(self, cell: Cell) -> int:
        """Steps of one run."""
        return self._recipe(cell).n_updates

    def train(
        self,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        *,
        prunes: bool,
    ) -> Sequence[RunResult]:
        """Train all cells as one program, or as one a core."""
        from extrap.training import train

        pack = self._pack(cells)
        return train(
            pack,
            on_eval=on_eval,
            device=self._device,
            crew=self._crew,
            on_layout=lambda how: say(str(how)),
            prunes=prunes,
            checkpoints=self._checkpoints,
        )

    def forget(self, cells: Iterable[Cell]) -> None:
        """Delete their checkpoints."""
        self._checkpoints.drop(cells)

    def close(self) -> None:
        """End the processes that share the work."""
        self._crew.close()

    def _pack(self, cells: Sequence[Cell]) -> Pack:
        from extrap.training import Pack

        return Pack(
            workload=self._workload,
            size=dict(cells[0].size),
            recipe=self._spec.recipe,
            cells=tuple(cells),
            source=self._spec.workload,
        )

    def _shape(self, cell: Cell) -> tuple[int, int]:
        """What runs of one pack have in common beside their size: batch size and steps."""
        recipe = self._recipe(cell)
        return recipe.batch_size, recipe.steps

    def _recipe(self, cell: Cell) -> Recipe:
        return self._spec.recipe.with_values(
            dict(cell.size),
            dict(cell.tuned),
            tokens_per_example=self._workload.tokens_per_example,
        )


def _checkpoints(
    spec: StudySpec, data: Mapping[str, Any], preemption: Preemption | None, *, leaves: bool
) -> Checkpoints:
    """Those of a study, in a folder of its own."""
    from extrap.training.checkpoints import Checkpoints

    asked = preemption or Preemption(folder=None)
    made_with = json.dumps(fingerprint(spec, data), sort_keys=True)
    return Checkpoints(
        asked.folder / spec.name if leaves and asked.folder is not None else None,
        hashlib.sha256(made_with.encode()).hexdigest(),
        every_s=asked.every_s,
        is_asked=lambda: asked.is_asked,
    )


def _is_long(spec: StudySpec) -> bool:
    """Whether a study is long enough to start further processes before anything is measured."""
    return len(spec.grid_cells()) * spec.recipe.steps >= LONG


class OwnTrainer:
    """A user's function `train(size, tuned, seed)`, which returns a loss or a `RunResult`."""

    def __init__(self, function: TrainFunction) -> None:
        self._function = function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.fingerprint: Mapping[str, Any] = {"trainer": name}

    def pack_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """The first: the function trains a single cell."""
        return list(cells[:1])

    def cost(self, cell: Cell) -> float:
        """Every run counts alike; what it costs is not known."""
        return 1.0

    def steps(self, cell: Cell) -> int:
        """One: what the function does is not known."""
        return 1

    def forget(self, cells: Iterable[Cell]) -> None:
        """What the function leaves is its own business."""

    def close(self) -> None:
        """Nothing to let go of."""

    def train(
        self,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        *,
        prunes: bool,
    ) -> Sequence[RunResult]:
        """Train the cells one after the other; a loss that is not finite is a diverged run."""
        return [self._train_one(cell) for cell in cells]

    def _train_one(self, cell: Cell) -> RunResult:
        started = time.perf_counter()
        answer = self._function(dict(cell.size), dict(cell.tuned), cell.seed)
        if isinstance(answer, RunResult):
            if answer.cell != cell:
                raise ValueError(
                    f"train= must answer for the cell it was given, {cell}; got {answer.cell}."
                )
            return answer
        try:
            loss = float(answer)
        except (TypeError, ValueError):
            raise TypeError(
                "train= returns the final loss as a number, nan for a diverged run, or a "
                f"RunResult; got {answer!r}."
            ) from None
        is_finite = math.isfinite(loss)
        return RunResult(
            cell=cell,
            status="complete" if is_finite else "diverged",
            loss=loss if is_finite else None,
            wall_s=time.perf_counter() - started,
        )
