"""Cells chosen by Optuna's samplers, a pack at a time, with a median pruner at the evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, GPSampler, TPESampler
from optuna.storages import BaseStorage

from extrap.errors import StudyError, argument
from extrap.records import Cell, StudySpec
from extrap.tuning.ledger import Claim, Ledger

__all__ = ["Sampling"]

# A sampler learns between packs only: this many packs a size.
PACKS = 4
# Reports to the pruner in one run, each a transaction, at steps of its own: tenths of the run, so
# that runs of different length compare.
REPORTS = 10
# Runs that must be complete before any is pruned, and the reports that never prune.
SAFE_RUNS, SAFE_REPORTS = 5, 3
# An evaluation stands for a tenth that it misses by less: steps are whole numbers.
SLACK = 0.25


class Sampling:
    """One size's sampler and pruner.

    References:
        Bergstra et al. 2011, "Algorithms for hyper-parameter optimization", Sec. 4 (TPE).
        Snoek et al. 2012, "Practical Bayesian optimization of machine learning algorithms",
        arXiv 1206.2944, Sec. 3 (Gaussian process).
    """

    def __init__(
        self, spec: StudySpec, storage: BaseStorage, ledger: Ledger, size: Mapping[str, float]
    ) -> None:
        name = ledger.study_of(size)
        n_before = len(
            storage.get_all_trials(storage.get_study_id_from_name(name), deepcopy=False)
        )
        self._spec = spec
        self._ledger = ledger
        self._size = dict(size)
        self._study = optuna.load_study(
            study_name=name,
            storage=storage,
            sampler=_sampler(spec.sampler, seed=n_before),
            pruner=MedianPruner(
                n_startup_trials=SAFE_RUNS,
                n_warmup_steps=SAFE_REPORTS,
            ),
        )
        self._ranges = {name: _range(spec, name) for name in spec.tune}
        _require_ranges(self._study, self._ranges)
        self._trials: list[optuna.Trial] = []
        self._n_reports: list[int] = []

    def ask(self, n_runs: int, claims: list[Claim], *, n_wanted: int) -> list[Claim]:
        """Sample cells for this process into a list of claims; seeds take turns.

        Args:
            n_runs: How many to sample; fewer are left if other processes sampled too.
            claims: Where to put them.
            n_wanted: How many of this size there are to be.
        """
        self._ledger.company(self._size)
        self._trials = []
        for _ in range(n_runs):
            trial = self._study.ask(self._ranges)
            seed = self._spec.seeds[trial.number % len(self._spec.seeds)]
            claims.append(Claim(Cell.of(self._size, trial.params, seed), trial._trial_id))
            if self._ledger.sign(trial._trial_id, seed):
                self._trials.append(trial)
            else:
                claims.pop()
        self._ledger.keep_first(self._size, claims, n_wanted)
        kept = {claim.trial_id for claim in claims}
        self._trials = [trial for trial in self._trials if trial._trial_id in kept]
        self._n_reports = [0] * len(claims)
        return claims

    def keep(self, fraction: float, losses: Sequence[float]) -> list[bool] | None:
        """Report held-out losses; which runs the pruner keeps.

        Args:
            fraction: Of its steps that the pack at work has made.
            losses: One per run asked for; NaN for those not trained now.
        """
        due = int(REPORTS * fraction + SLACK)
        kept = [True] * len(losses)
        for i, (trial, loss) in enumerate(zip(self._trials, losses, strict=True)):
            if math.isfinite(loss) and due > self._n_reports[i]:
                self._n_reports[i] = due
                try:
                    trial.report(loss, due)
                    kept[i] = not trial.should_prune()
                except optuna.exceptions.UpdateFinishedTrialError:  # it was given to others
                    kept[i] = False
        return None if all(kept) else kept

    def pack_size(self) -> int:
        """Runs to sample together."""
        return math.ceil(len(self._spec.grid_cells()) / len(self._spec.size_points()) / PACKS)


def _range(spec: StudySpec, name: str) -> BaseDistribution:
    tuned = spec.tune[name]
    if spec.is_whole(name):
        return IntDistribution(int(tuned.low), int(tuned.high), log=True)
    return FloatDistribution(tuned.low, tuned.high, log=True)


def _require_ranges(study: optuna.Study, ranges: Mapping[str, BaseDistribution]) -> None:
    """Raise where an earlier version drew fractions of what is trained whole.

    Raises:
        StudyError: It did.
    """
    for trial in study.get_trials(deepcopy=False):
        for name, known in trial.distributions.items():
            if isinstance(known, FloatDistribution) and isinstance(
                ranges.get(name), IntDistribution
            ):
                raise StudyError(
                    f"{name} is sampled as a whole number, trial {trial.number} of "
                    f"{study.study_name!r} has {trial.params[name]:g}, which was rounded "
                    f"for training; start again with another {argument('storage')} or "
                    "name."
                )


def _sampler(name: str, *, seed: int) -> BaseSampler:
    """Optuna's sampler; the seed moves on, or a resumed study would draw its first values again.

    The Gaussian process needs torch and SciPy, which Optuna imports when it first samples.
    """
    if name == "gp":
        return GPSampler(seed=seed)
    return TPESampler(constant_liar=True, seed=seed)
