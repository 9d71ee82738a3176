"""The cells of a stage: which wait, are out, done or given up. One object owns them.

The smallest sizes go first. What failed is trained again in halves until the failing cell is
alone; one that failed three times is given up. Results that cannot be written yet stay here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

from optuna.pruners import NopPruner

from extrap.records import Cell, Train
from extrap.records.numbers import format_quantity
from extrap.study.pack_requests import Pruning, Trained
from extrap.study.protocol import Say, Stage, size_words
from extrap.study.samplers import Sampled, pruner_of
from extrap.study.status import Size, SizeStatus
from extrap.study.trainers import OwnTrainer, PackedTrainer
from extrap.study.trials import SizeResults, Trials

MOST_FAILURES = 3
"""Times that a cell may fail by itself before it is given up."""
WORTH_ASKING = 0.05
"""A stage is asked again what it wants when its finished cells grew by this part."""


@dataclass(frozen=True, slots=True)
class Part:
    """Cells of one size and shape that train as one pack, and how often it was lost."""

    cells: tuple[Cell, ...]
    n_lost: int = 0


class Ledger:
    """The cells of a stage. Each is done, or waits, or is out, or was given up.

    Attributes:
        given_up: Cells that are not tried again before the next start → why.
    """

    def __init__(
        self,
        stage: Stage,
        trials: Trials,
        trainer: OwnTrainer | PackedTrainer,
        train: Train | None,
        say: Say,
    ) -> None:
        self.stage, self.trials, self.trainer, self.train = stage, trials, trainer, train
        self._say = say
        self.given_up: dict[Cell, Exception] = {}
        self._waiting: dict[Cell, None] = {}
        self._next: list[Part] = []
        self._out: set[Cell] = set()
        self._n_failed = Counter[Cell]()
        self._unwritten: list[Callable[[], None]] = []
        self._n_recorded = 0
        self._wanted_cells: Sequence[Cell] = ()
        self._n_done_when_asked = -1
        self._samplers: dict[Size, Sampled] = {}
        self._cost_done, self._cost_wanted = self.cost(trials.done()), 0.0

    def next_part(self, n_workers: int) -> Part | None:
        """The next cells to train; None while all that is wanted is done or out.

        Cells of one size and shape are dealt out evenly, so that all workers finish together;
        where a pruner compares runs they stay together.
        """
        while True:
            while self._next:
                part = self._next.pop(0)
                if cells := [cell for cell in part.cells if cell not in self.trials.done()]:
                    self._out.update(cells)
                    return replace(part, cells=tuple(cells))
            if self.stage.wants is None:
                packs = self._sample()
            else:
                self._ask_stage()
                packs = [self._cut()] if self._waiting else []
            if not packs:
                return None
            self.stage.spec.require_whole()
            # what a pruner compares must not depend on the number of workers
            n_parts = 1 if self._is_pruned() else n_workers
            for pack in packs:
                self._next += _dealt(pack, n_parts)
                for cell in pack:
                    self._waiting.pop(cell, None)

    def is_done(self) -> bool:
        """Whether nothing more is wanted."""
        if self._next or self._out or self._unwritten:
            return False
        if self.stage.wants is None:
            return self._ready_sampler() is None
        self._ask_stage()
        return not self._waiting and self._n_done_when_asked == len(self.trials.done())

    def n_waiting(self) -> int:
        """Cells that are wanted and not handed out."""
        return len(self._waiting) + len(self._parted())

    def has_results(self) -> bool:
        """Whether any cell has a result, written down or not."""
        return bool(self._n_recorded or self.trials.done())

    def put_back(self, part: Part, *, halved: bool = False) -> None:
        """Train these cells next, as one pack or as two."""
        cells = part.cells
        middle = (len(cells) + 1) // 2 if halved else len(cells)
        halves = [half for half in (cells[:middle], cells[middle:]) if half]
        self._next[:0] = [Part(half, part.n_lost if len(halves) == 1 else 0) for half in halves]
        self._out.difference_update(cells)

    def fail(self, cells: Sequence[Cell], error: Exception) -> bool:
        """Take back cells whose training raised an error; whether the last one is given up."""
        (cell, *others) = cells
        self._n_failed[cell] += not others
        if others or self._n_failed[cell] < MOST_FAILURES:
            self.put_back(Part(tuple(cells)), halved=True)
            return False
        self.given_up[cell] = error
        self._out.discard(cell)
        if cell.size in self._samplers:
            self._samplers[cell.size].give_up(cell)
        why = f"the training raised {type(error).__name__}"
        self._unwritten.append(partial(self.trials.fail, cell, why))
        return True

    def record(self, trained: Trained, then: Callable[[], None] = lambda: None) -> None:
        """Take in results, which `write` writes down; `then` is called when they are."""
        sampler = self._samplers.get(trained.results[0].cell.size)
        sampled = None if sampler is None else sampler.tell(trained.results, trained.reports)
        cells = [result.cell for result in trained.results]
        self._n_recorded += len(cells)
        self._cost_done += self.cost(cells)

        def write() -> None:
            self.trials.add(trained.results, datetime.fromtimestamp(trained.began), sampled)
            self._out.difference_update(cells)
            then()

        self._unwritten.append(write)

    def write(self) -> None:
        """Write down what has come; what cannot be written stays for the next time."""
        while self._unwritten:
            self._unwritten[0]()
            del self._unwritten[0]

    def pruning(self, cells: Sequence[Cell]) -> Pruning | None:
        """What a pruner needs to look at a pack; None where nothing is pruned."""
        if not self._is_pruned():
            return None
        sampler = self._sampler(cells[0].size)
        sampler.enter(cells)
        return sampler.pruning(cells)

    def _is_pruned(self) -> bool:
        """Whether a pruner looks at packs while they train."""
        spec, is_sampled = self.stage.spec, self.stage.wants is None
        is_sweep = self.stage.name == "tune" and self.trainer.trains_packs
        may_be = is_sampled or spec.pruner != ""
        return is_sweep and may_be and not isinstance(pruner_of(spec), NopPruner)

    def cost(self, cells: Iterable[Cell]) -> float:
        """Cost of runs, in FLOPs where they are known."""
        return sum(map(self.trainer.cost, cells))

    def costs(self) -> tuple[float, float]:
        """Cost of what is done and of what is wanted; sampled cells cost what the grid's do."""
        if self.stage.wants is None and not self._cost_wanted:
            self._cost_wanted = self.cost(self.stage.spec.grid_cells())
        return self._cost_done, max(self._cost_done, self._cost_wanted)

    def wanted_cells(self) -> Sequence[Cell]:
        """All cells wanted by now; where Optuna chooses, as many as the grid has."""
        if self.stage.wants is None:
            return self.stage.spec.grid_cells()
        if self._n_done_when_asked < 0:
            self._ask_stage()
        return self._wanted_cells

    def _ask_stage(self) -> None:
        """Ask what is wanted if enough was finished since, or nothing is left to hand out."""
        assert self.stage.wants is not None, "no sampler chooses"
        done = self.trials.done()
        n_new = len(done) - self._n_done_when_asked
        is_much = n_new > WORTH_ASKING * max(len(done), len(self._wanted_cells))
        is_due = is_much or not self._waiting
        if self._n_done_when_asked < 0 or (n_new and is_due):
            if self._n_done_when_asked < 0:
                self._announce_others(done)
            previous = self._wanted_cells
            self._wanted_cells = list(dict.fromkeys(self.stage.wants(self.trials.runs())))
            self._n_done_when_asked, self._cost_wanted = len(done), self.cost(self._wanted_cells)
            taken = {*done, *self._out, *self.given_up, *self._parted()}
            missing = [cell for cell in self._wanted_cells if cell not in taken]
            missing.sort(key=lambda cell: _values(cell.size))
            self._waiting = dict.fromkeys(missing)
            self._announce(missing, before=[*self.stage.spec.grid_cells(), *done, *previous])

    def _announce(self, missing: Sequence[Cell], *, before: Iterable[Cell]) -> None:
        """Say where the values of a sweep reach further than before."""
        if self.stage.name != "tune" or not missing:
            return
        n_missing, reached = _by_size(missing), _reach(before)
        for (size, name), (low, high) in _reach(self._wanted_cells).items():
            least, most = reached.get((size, name), (low, high))
            if n_missing[size] and (low < least or high > most):
                self._say(
                    f"{self.stage.spec.name}: the grid of {name} at {size_words(dict(size))} "
                    f"grows from {_span(least, most)} to {_span(low, high)}, by "
                    f"{n_missing[size]} runs there, as the best value lies near its edge; "
                    "growth=0 keeps it"
                )

    def _announce_others(self, done: Iterable[Cell]) -> None:
        """Say that stored runs count that the study does not name any more, or a plan added."""
        spec = self.stage.spec
        sizes = {cell.size for cell in spec.grid_cells()}
        n = sum(cell.size not in sizes or cell.seed not in spec.seeds for cell in done)
        if n and self.stage.name == "tune":
            self._say(
                f"{spec.name}: uses {n} stored runs at sizes or seeds that the study does not "
                "name; another storage or name leaves them out"
            )

    def _cut(self) -> list[Cell]:
        """Cells of the smallest size, of one shape."""
        first = next(iter(self._waiting))
        if not self.trainer.trains_packs:
            return [first]
        cells = takewhile(lambda cell: cell.size == first.size, self._waiting)
        shape = self.trainer.shape(first)
        return [cell for cell in cells if self.trainer.shape(cell) == shape]

    def _sample(self) -> list[list[Cell]]:
        """Cells of the first size whose sampler waits for no result, by their shapes."""
        while (ready := self._ready_sampler()) is not None:
            sampler, n_wanted = ready
            by_shape: dict[Any, list[Cell]] = {}
            for cell in sampler.ask(n_wanted, self.given_up):
                by_shape.setdefault(self.trainer.shape(cell), []).append(cell)
            if by_shape:
                return [*by_shape.values()]
        return []

    def _ready_sampler(self) -> tuple[Sampled, int] | None:
        """The first sampler that wants more and waits for no result, and for how many cells."""
        spec, points = self.stage.spec, self.stage.spec.size_points()
        n_wanted = len(spec.grid_cells()) // len(points)
        n_done, n_given_up = _by_size(self.trials.done()), _by_size(self.given_up)
        busy = {cell.size for cell in (*self._out, *self._parted())}
        for point in points:
            size = Cell.of(point, {}, 0).size
            if size in busy or max(n_done[size], n_given_up[size]) >= n_wanted:
                continue
            if not (sampler := self._sampler(size)).is_exhausted:
                return sampler, n_wanted
        return None

    def _parted(self) -> list[Cell]:
        """Cells that wait in a pack that is cut already."""
        return [cell for part in self._next for cell in part.cells]

    def _sampler(self, size: Size) -> Sampled:
        if size not in self._samplers:
            self._samplers[size] = Sampled(self.stage.spec, self.trials, dict(size))
        return self._samplers[size]


def size_statuses(
    ledgers: Sequence[Ledger], running: Iterable[Cell]
) -> list[tuple[SizeStatus, float]]:
    """The counts of every size of a stage, and the seconds of a run there; 0 if no run tells.

    Args:
        ledgers: Of the stage, which may be trained in several parts; the last has all results.
        running: Cells that are handed out.
    """
    first, last = ledgers[0].stage, ledgers[-1]
    done, results = last.trials.done(), last.trials.results
    wanted_cells = dict.fromkeys(cell for ledger in ledgers for cell in ledger.wanted_cells())
    failed_cells = {cell for ledger in ledgers for cell in ledger.given_up} - done
    planned, n_running = _by_size(wanted_cells), _by_size(running)
    if first.wants is not None:
        failed_cells &= wanted_cells.keys()
    n_missing, n_failed = _by_size(wanted_cells.keys() - done), _by_size(failed_cells)
    statuses = []
    for size in sorted({*planned, *results, *n_failed}, key=_values):
        of_size = results.get(size, SizeResults())
        left, failed = n_missing[size], n_failed[size]
        if first.wants is None:  # any cells will do, and another is sampled for a failed one
            left = max(0, planned[size] - of_size.complete)
            failed = min(failed, left)
        in_training = min(left - failed, n_running[size])
        status = SizeStatus(
            study=first.spec.name,
            stage=first.name,
            size=dict(size),
            cells=of_size.complete + left,
            complete=of_size.complete,
            running=in_training,
            waiting=left - failed - in_training,
            failed=failed,
            diverged=of_size.diverged,
            duplicates=of_size.duplicates,
        )
        n_results = of_size.complete + of_size.duplicates
        statuses.append((status, of_size.wall_s / max(1, n_results)))
    return statuses


def _values(size: Size) -> list[float]:
    return [value for _, value in size]


def _by_size(cells: Iterable[Cell]) -> Counter[Size]:
    return Counter(cell.size for cell in cells)


def _dealt(cells: Sequence[Cell], n: int) -> list[Part]:
    """Cells in so many parts of nearly equal size."""
    ends = [round(i * len(cells) / n) for i in range(n + 1)]
    return [Part(tuple(cells[a:b])) for a, b in pairwise(ends) if a < b]


def _reach(cells: Iterable[Cell]) -> dict[tuple[Size, str], tuple[float, float]]:
    """Size and tuned column → the smallest and largest value there."""
    values: dict[tuple[Size, str], list[float]] = {}
    for cell in cells:
        for name, value in cell.tuned:
            values.setdefault((cell.size, name), []).append(value)
    return {key: (min(of_key), max(of_key)) for key, of_key in values.items()}


def _span(low: float, high: float) -> str:
    return "–".join(format_quantity(value, digits=4) for value in (low, high))
