"""Who trains the cells: our packed loop, or a function of the user's own, one cell at a time."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from extrap import training
from extrap.records import (
    EXAMPLES_COLUMN,
    OWN,
    STEPS_COLUMN,
    TOKENS_COLUMN,
    TUNABLE,
    Cell,
    Command,
    OnEval,
    Recipe,
    RunResult,
    StudySpec,
    Train,
    TrainFunction,
)
from extrap.records.numbers import format_exact
from extrap.records.own_training import StudyFunction
from extrap.study.fingerprints import fingerprint
from extrap.training.own.answers import read_answer
from extrap.training.own.commands import CommandRunner
from extrap.training.preemption import CHECKPOINT_EVERY_S

if TYPE_CHECKING:
    from extrap.training.checkpoints import Checkpoints
    from extrap.workloads import LoadedWorkload

NVIDIA = Path("/dev/nvidiactl")
"""There where a GPU is; to ask torch would mean to import it first."""
MOST_TRAINERS = 4
"""Studies whose data a process keeps."""


class PackedTrainer:
    """Our own training loop; torch is imported here, when training starts and not before."""

    trains_packs = True

    def __init__(self, spec: StudySpec, device: str | None) -> None:
        if spec.workload.name == OWN:
            raise ValueError(
                f"the study {spec.name!r} names neither a workload nor its own training; "
                "give workload=Workload(name=…), define TRAIN or COMMAND in the study "
                "file, or pass train= in Python."
            )
        self._spec = spec
        self._device = device
        self._layouts: dict[Hashable, training.Layout] = {}
        self._values = cache(lambda size: spec.size_values(dict(size)))
        self._size_of_model = cache(lambda size: self._model_size(dict(size)))
        self._handed = cache(self._handed_out)
        self._recipe = cache(self._recipe_of)
        from extrap.training.packs import run_flops
        from extrap.workloads import load_workload

        self._workload: LoadedWorkload = load_workload(spec.workload)
        self.fingerprint: Mapping[str, Any] = {"trainer": "extrap", **self._workload.fingerprint}
        self.made_with = hash_of(spec, self.fingerprint)
        self._run_flops = cache(lambda size, n: run_flops(self._workload, dict(size), n))

    @property
    def processor(self) -> str:
        """What it computes on, `"NVIDIA H100 80GB HBM3"` or `"cpu AVX2"`."""
        from extrap.training.checkpoints import processor_of

        return processor_of(training.find_device(self._device))

    def pack_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """Of cells of one size and shape those to train together first: as many as fit."""
        device = training.find_device(self._device)
        return list(cells[: training.most_runs(self._pack(cells), device)])

    def cost(self, cell: Cell) -> float:
        """FLOPs of one run."""
        handed = self._handed(cell).size
        size = tuple((c, v) for c, v in handed if c not in (TOKENS_COLUMN, EXAMPLES_COLUMN))
        n_tokens = self._recipe(cell).n_examples * self._workload.tokens_per_example
        return self._run_flops(size, n_tokens)

    def steps(self, cell: Cell) -> int:
        """Steps of one run."""
        return self._recipe(cell).n_updates

    def train(
        self,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        *,
        n_threads: int,
        checkpoints: Checkpoints | None,
    ) -> Sequence[RunResult]:
        """Train all cells as one program."""
        pack = self._pack(cells)
        key = (pack.kind(), len(cells), n_threads)

        def note(layout: training.Layout) -> None:
            self._layouts[key] = layout
            say(str(layout))

        results = training.train(
            pack,
            on_eval=on_eval,
            device=self._device,
            n_threads=n_threads,
            layout=self._layouts.get(key),
            on_layout=note,
            checkpoints=checkpoints,
        )
        if not self._spec.path:
            return results
        return [replace(r, cell=c) for r, c in zip(results, cells, strict=True)]

    def checkpoints(
        self,
        folder: str | None,
        *,
        every_s: float = CHECKPOINT_EVERY_S,
        is_stop_requested: Callable[[], bool] = bool,
    ) -> Checkpoints:
        """The checkpoints of the study in a folder."""
        from extrap.training.checkpoints import Checkpoints

        return Checkpoints(
            folder, self.made_with, every_s=every_s, is_stop_requested=is_stop_requested
        )

    def forget(self, cells: Iterable[Cell], folder: str) -> None:
        """Delete the checkpoints of runs that are recorded."""
        self.checkpoints(folder).drop(self._handed(cell) for cell in cells)

    def _pack(self, cells: Sequence[Cell]) -> training.Pack:
        handed = tuple(self._handed(cell) for cell in cells)
        return training.Pack(
            workload=self._workload,
            size=dict(handed[0].size),
            recipe=self._recipe_at(cells[0]),
            cells=handed,
        )

    def shape(self, cell: Cell) -> Hashable:
        """Batch size and steps."""
        recipe = self._recipe(cell)
        return recipe.batch_size, recipe.steps

    def _recipe_of(self, cell: Cell) -> Recipe:
        handed = self._handed(cell)
        return self._recipe_at(cell).with_values(
            dict(handed.size),
            dict(handed.tuned),
            tokens_per_example=self._workload.tokens_per_example,
        )

    def _recipe_at(self, cell: Cell) -> Recipe:
        """The recipe at the size of a cell, the fields that the path sets put in."""
        recipe = self._spec.recipe
        if not self._spec.path:
            return recipe
        values = self._values(cell.size)
        fields = {
            name: values[name] for name in self._spec.path if name in (*TUNABLE, STEPS_COLUMN)
        }
        return recipe.with_values({}, fields, tokens_per_example=1)

    def _handed_out(self, cell: Cell) -> Cell:
        """A cell as the model gets it: with what the path makes of its size.

        A column of the study that is no size of the model is left out.
        """
        if not self._spec.path:
            return cell
        size, values = self._size_of_model(cell.size), self._values(cell.size)
        tuned = dict(cell.tuned)
        rate = {} if "lr" in tuned or "lr" not in values else {"lr": values["lr"]}
        return Cell.of(size, {**rate, **tuned}, cell.seed)

    def _model_size(self, inputs: Mapping[str, float]) -> dict[str, float]:
        values = self._spec.size_values(inputs)
        unused = (*TUNABLE, STEPS_COLUMN, "lr")
        defined = {name: values[name] for name in self._spec.path if name not in unused}
        whole, data = {**inputs, **defined}, (TOKENS_COLUMN, EXAMPLES_COLUMN)
        try:
            self._workload.n_params({n: v for n, v in whole.items() if n not in data})
        except ValueError:
            self._workload.n_params({n: v for n, v in defined.items() if n not in data})
            return defined
        return whole


class OwnTrainer:
    """A user's function `train(size, tuned, seed)`, or a command that does as much."""

    trains_packs, processor = False, ""

    def __init__(self, function: TrainFunction, spec: StudySpec) -> None:
        self._function = function
        self._values = cache(lambda size: spec.size_values(dict(size)))
        self.fingerprint = own_fingerprint(function)
        self.made_with = hash_of(spec, self.fingerprint)

    def shape(self, cell: Cell) -> Hashable:
        """Each cell is a pack of its own."""
        return cell

    def cost(self, cell: Cell) -> float:
        """FLOPs or cost where the path of the study tells them; else every run counts alike."""
        values = self._values(cell.size)
        return values.get("flops", values.get("cost", 1.0))

    def steps(self, cell: Cell) -> int:
        """One: what the function does is not known."""
        return 1

    def pack_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """The first: the function trains a single cell."""
        return list(cells[:1])

    def train(
        self,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        *,
        n_threads: int,
        checkpoints: Checkpoints | None,
    ) -> Sequence[RunResult]:
        """Train the cells one after the other; a loss that is not finite is a diverged run."""
        return [self._train_one(cell) for cell in cells]

    def checkpoints(self, folder: str | None, **options: Any) -> None:
        """None: what the function leaves is its own."""

    def forget(self, cells: Iterable[Cell], folder: str) -> None:
        """There is nothing to delete."""

    def _train_one(self, cell: Cell) -> RunResult:
        size = dict(self._values(cell.size))
        started = time.perf_counter()
        try:
            answer = self._function(_whole(size), _whole(dict(cell.tuned)), cell.seed)
            wall_s = time.perf_counter() - started
            return read_answer(answer, cell, wall_s=wall_s, size_values=size)
        except Exception as error:
            error.add_note(f"raised by the training function in the run {run_words(cell)}")
            raise


def run_words(cell: Cell) -> str:
    """`width=64, lr=0.001, seed=0`."""
    values = [f"{name}={format_exact(value)}" for name, value in (*cell.size, *cell.tuned)]
    return ", ".join([*values, f"seed={cell.seed}"])


def _whole(values: Mapping[str, float]) -> dict[str, float]:
    """Values of which the whole ones are `int`, so that they may be the shape of an array."""
    return {name: int(v) if float(v).is_integer() else v for name, v in values.items()}


def own_fingerprint(function: TrainFunction) -> Mapping[str, Any]:
    """What tells a user's training from another one: its name, and of a study file its source."""
    if isinstance(function, CommandRunner):
        return function.fingerprint
    if isinstance(function, StudyFunction):
        return {"trainer": function.name, "source": dict(function.source)}
    return {"trainer": getattr(function, "__qualname__", type(function).__qualname__)}


def hash_of(spec: StudySpec, data: Mapping[str, Any]) -> str:
    """Hash of what determines the results of a study."""
    made_with = json.dumps(fingerprint(spec, data), sort_keys=True)
    return hashlib.sha256(made_with.encode()).hexdigest()


_TRAINERS: dict[str, PackedTrainer] = {}
_TRAINERS_LOCK = Lock()


def trainer_of(
    spec: StudySpec,
    train: Train | None,
    device: str | None = None,
    *,
    is_stop_requested: Callable[[], bool] = bool,
    origin: str = "",
) -> OwnTrainer | PackedTrainer:
    """The trainer of a study in this process, which keeps its data for the next pack."""
    if train is not None:
        if isinstance(train, Command):
            train = CommandRunner(train, spec, is_stop_requested=is_stop_requested, origin=origin)
        return OwnTrainer(train, spec)
    key = repr((spec.workload, spec.recipe, spec.path, spec.sizes, spec.name, device))
    with _TRAINERS_LOCK:
        trainer = _TRAINERS.pop(key, None) or PackedTrainer(spec, device)
        _TRAINERS[key] = trainer  # the last one used comes last
        if len(_TRAINERS) > MOST_TRAINERS:
            del _TRAINERS[next(iter(_TRAINERS))]
        return trainer


def forget_trainers() -> None:
    """Forget the data of all studies; those that change on the disk are read anew."""
    with _TRAINERS_LOCK:
        _TRAINERS.clear()
