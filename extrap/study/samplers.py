"""Optuna's samplers and pruners, on a copy in memory of the trials of one size.

The marks that a sampler leaves on its trials are stored with them. What it asked for is not: after
a driver was killed it may ask for other cells.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Container, Mapping, Sequence

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, QMCSampler, TPESampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from extrap.errors import StudyError
from extrap.reading.optuna import cell_of
from extrap.records import Cell, RunResult, StudySpec
from extrap.study.pack_requests import REPORTS, Pruning
from extrap.study.trials import Trials, range_of, reported_value

PACKS_PER_SIZE = 4
"""A sampler learns between packs only: this many packs a size."""
SAFE_RUNS, SAFE_REPORTS = 5, 3
"""Runs that must be complete before any is pruned, and the reports that never prune."""
RESUMABLE = (
    "RandomSampler",
    "TPESampler",
    "GPSampler",
    "CmaEsSampler",
    "QMCSampler",
)
"""Samplers that work from the trials alone, or keep what they know on them; one of somebody's own
says so by an attribute `resumes`."""
MOST_REDRAWS = 20
"""How often to draw again what was drawn before, for each run; whole numbers may run out."""


class Sampled:
    """The sampler and pruner of one size.

    References:
        Bergstra et al. 2011, "Algorithms for hyper-parameter optimization", Sec. 4 (TPE).
        Snoek et al. 2012, "Practical Bayesian optimization of machine learning algorithms",
        arXiv 1206.2944, Sec. 3 (Gaussian process).
    """

    def __init__(self, spec: StudySpec, trials: Trials, size: Mapping[str, float]) -> None:
        self._spec, self._trials, self._size = spec, trials, dict(size)
        stored = trials.trials_of(size)
        name = trials.study_of(size).study_name
        self._ranges = {column: range_of(spec, column) for column in spec.tune}
        self._memory = InMemoryStorage()
        self._study = optuna.create_study(
            study_name=name,
            storage=self._memory,
            sampler=sampler_of(spec, seed=len(stored)),
            pruner=pruner_of(spec),
        )
        for trial in filter(self._is_comparable, stored):
            adjusted = copy.copy(trial)
            adjusted.distributions = self._ranges  # samplers learn from trials of one range only
            self._study.add_trial(adjusted)
        if stored and not isinstance(spec.sampler, str):
            self._study.sampler.reseed_rng()  # or it would draw its first values again
        self._running: dict[Cell, optuna.Trial] = {}
        self._values = {
            cell_of(t, tuple(size.items()), spec): t.values[0]
            for t in stored
            if t.values is not None
        }
        self.is_exhausted = False

    def ask(self, n_wanted: int, given_up: Container[Cell] = ()) -> list[Cell]:
        """The next cells to train together; none if enough are there or in training.

        `n_wanted` is how many of this size there are to be in all.
        """
        size = Cell.of(self._size, {}, 0).size
        n_there = sum(cell.size == size for cell in self._trials.done())
        n_new = min(self.pack_size(), n_wanted - n_there - len(self._running))
        cells: list[Cell] = []
        for _ in range(MOST_REDRAWS * max(0, n_new)):
            if len(cells) == n_new:
                break
            trial = self._ask()
            seed = self._spec.seeds[trial.number % len(self._spec.seeds)]
            cell = Cell.of(self._size, trial.params, seed)
            if cell in self._running or cell in given_up:  # drawn twice: whole numbers
                self._study.tell(trial, state=TrialState.FAIL)
            elif cell in self._values:
                self._study.tell(trial, self._values[cell])
            else:
                self._running[cell] = trial
                cells.append(cell)
        self.is_exhausted = len(cells) < n_new or not cells
        return cells

    def _is_comparable(self, trial: FrozenTrial) -> bool:
        """Whether a trial has values of the tuned ranges as they are now."""
        tune = self._spec.tune
        return trial.params.keys() == tune.keys() and all(
            tuned.low <= trial.params[name] <= tuned.high for name, tuned in tune.items()
        )

    def _ask(self) -> optuna.Trial:
        try:
            return self._study.ask(self._ranges)
        except Exception as error:
            error.add_note(f"raised by the study's sampler, {type(self._study.sampler).__name__}")
            raise

    def enter(self, cells: Sequence[Cell]) -> None:
        """Take in cells that somebody else chose, so that the pruner may look at them."""
        for cell in cells:
            if cell not in self._running:
                trial = create_trial(
                    state=TrialState.RUNNING,
                    params=dict(cell.tuned),
                    distributions=self._trials.distributions(cell),
                )
                trial_id = self._memory.create_new_trial(self._study._study_id, trial)
                self._running[cell] = optuna.Trial(self._study, trial_id)

    def pruning(self, cells: Sequence[Cell]) -> Pruning:
        """A copy for the pruner to look at while cells train."""
        trials = tuple(self._running[cell] for cell in cells)
        return copy.deepcopy(Pruning(study=self._study, trials=trials))  # ours stay as they are

    def tell(
        self, results: Sequence[RunResult], reports: Sequence[Mapping[int, float]]
    ) -> dict[Cell, FrozenTrial]:
        """Tell the sampler what runs gave; their trials with what it keeps on them."""
        finished = {}
        for i, result in enumerate(results):
            trial = self._running.pop(result.cell)
            for step, loss in (reports[i] if reports else {}).items():
                trial.report(loss, step)
            if reports:  # rungs and the like, which a pruner keeps on its trials
                trial.should_prune()
            self._values[result.cell] = value = reported_value(result)
            finished[result.cell] = (
                self._study.tell(trial, state=TrialState.PRUNED)
                if result.status == "pruned"
                else self._study.tell(trial, value)
            )
        return finished

    def give_up(self, cell: Cell) -> None:
        """A cell that cannot be trained counts as failed; another is asked for instead."""
        if (trial := self._running.pop(cell, None)) is not None:
            self._study.tell(trial, state=TrialState.FAIL)

    def pack_size(self) -> int:
        """Runs to sample together."""
        return math.ceil(
            len(self._spec.grid_cells()) / len(self._spec.size_points()) / PACKS_PER_SIZE
        )


def sampler_of(spec: StudySpec, *, seed: int) -> BaseSampler:
    """Optuna's sampler of a study; the seed moves on, or a resumed study would begin again."""
    sampler = spec.sampler
    if not isinstance(sampler, str):
        does_resume = type(sampler).__name__ in RESUMABLE or getattr(sampler, "resumes", False)
        if not (isinstance(sampler, BaseSampler) and does_resume):
            raise StudyError(
                f"a sampler must be able to resume from its trials, as {', '.join(RESUMABLE)} "
                f"can; got {type(sampler).__name__}, which may keep state outside its trials. "
                "Choose one of these, or write resumes = True in the class of one that does not."
            )
        return sampler
    if sampler == "gp":
        return GPSampler(seed=seed)
    if sampler == "cmaes":
        return CmaEsSampler(seed=seed)
    if sampler == "qmc":
        with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
            return QMCSampler(seed=0, scramble=True, warn_independent_sampling=False)
    return TPESampler(constant_liar=True, seed=seed)


def pruner_of(spec: StudySpec) -> BasePruner:
    """Optuna's pruner of a study: by default the median where a sampler chooses, else none."""
    pruner = spec.pruner
    if not isinstance(pruner, str):
        if not isinstance(pruner, BasePruner):
            raise StudyError(
                "a pruner must be 'median', 'hyperband', 'none' or one of Optuna's, got "
                f"{type(pruner).__name__}."
            )
        return pruner
    if pruner == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=REPORTS)
    if pruner == "none" or (not pruner and not spec.is_sampled):
        return NopPruner()
    return MedianPruner(n_startup_trials=SAFE_RUNS, n_warmup_steps=SAFE_REPORTS)
