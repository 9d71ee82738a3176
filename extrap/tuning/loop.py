"""`tune`: train every cell that is wanted, exactly once, and read the runs back."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress

import pandas as pd
from optuna.storages import BaseStorage

from extrap.reading.optuna import Tables, read_tables
from extrap.reading.storages import open_storage, storage_faults
from extrap.records import OPTUNA_SAMPLERS, STAGES, Cell, Runs, StudySpec, Train
from extrap.training.preemption import Preemption, current_preemption
from extrap.tuning.events import Notify, TuneEvent
from extrap.tuning.fingerprints import fingerprint
from extrap.tuning.leases import GRACE_S
from extrap.tuning.ledger import Claim, Ledger, LostError
from extrap.tuning.sampling import Sampling
from extrap.tuning.trainers import OwnTrainer, PackedTrainer, Trainer, own_trainer

__all__ = ["Extend", "Tune", "tune"]

logger = logging.getLogger(__name__)

Extend = Callable[[Runs], Sequence[Cell]]
Tune = Callable[..., Runs]
"""`tune` with some of its arguments given: how cells are trained, and who else does."""
Keep = Callable[[float, Sequence[float]], Sequence[bool] | None]
"""From the part of a run that is done and a loss a run to which runs go on."""
# How often to look again at cells that other processes are training.
WAIT_S = 2.0
# What was read so recently is good enough to choose what to claim: a claim looks for itself.
RECENT_S = 1.0
# What is wanted is asked again when the finished cells grew by this part, or nothing is left.
WORTH_ASKING = 0.05
# Runs that are trained one by one are claimed for about so long, but no more than so many.
CLAIM_S, MOST_SINGLES = 1.0, 16


def tune(
    spec: StudySpec,
    storage: str,
    *,
    train: Train | None = None,
    extend: Extend | None = None,
    stage: str = "tune",
    notify: Notify | None = None,
    progress: bool = False,
    device: str | None = None,
    shares: bool = False,
    grace_s: float = GRACE_S,
    preemption: Preemption | None = None,
) -> Runs:
    """Train every wanted cell exactly once, smallest sizes first, and return the runs.

    After an interruption it resumes: finished cells are kept, cells of a dead process resume from
    their last checkpoints, and cells that another process trains are waited for.

    Args:
        spec: The study.
        storage: URL of its storage, `sqlite:///…` or any other that Optuna can open.
        train: Your own training function `train(size, tuned, seed)`; it returns the loss, NaN for
            a diverged run, a mapping with `loss` and optionally `curve`, `n_params`, `n_tokens`
            and
            `flops`, or a `RunResult`. Or a `Command` that trains a run. By default extrap's own
            training.
        extend: Function from the runs so far to all wanted cells; finished cells are skipped. The
            study's grid by default, or with `sampler="tpe"` or `"gp"` nothing
            beyond what Optuna samples. `extrap.study` passes that of the study's sampler.
        stage: `"tune"` for the sweep, `"check"` for larger runs; the latter needs `extend`.
        notify: Called with a `TuneEvent` at every evaluation and when a pack is done.
        progress: Whether to show progress: a bar in a notebook or on a terminal, else one line per
            minute.
        device: `"cpu"`, `"cuda:1"`, …, of extrap's own training; by default CUDA if available.
        shares: Whether other processes will train cells of this study too, so that this process
            leaves some to them. Processes already at work are always taken into account.
        grace_s: Seconds without a heartbeat after which others may treat this process as dead and
            train its cells.
        preemption: Object that requests a stop, from a signal handler or another thread, and names
            the folder of checkpoints: by default `.extrap/checkpoints/NAME`, written once a
            minute. Cells that Optuna samples have no checkpoints: the next start samples others.

    Returns:
        The runs of this stage in the order of size, tuned values and seed.

    Raises:
        KeyboardInterrupt: A stop was requested (`extrap.training.preemption.StopAsked`).
        StudyError: The storage cannot be used, or holds a study of this name made differently.
        ValueError: The study names a workload, option or stage that does not exist, or its path
            gives a fraction for a whole number.
        DataError: The workload's data are missing.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, got {stage!r}.")
    if stage == "check" and extend is None:
        raise ValueError(
            "stage='check' needs extend=, a function that returns the next runs; got None."
        )
    if stage == "tune" and spec.sampler == "law" and extend is None:
        raise ValueError(
            "sampler='law' needs extend=, a function that returns the next runs; got "
            "None. extrap.study.run provides it."
        )
    if not grace_s > 0:
        raise ValueError(f"grace_s must be above 0 seconds, got {grace_s}.")
    samples = spec.sampler in OPTUNA_SAMPLERS and stage == "tune"
    preemption = preemption or current_preemption()
    if train is None:
        trainer: Trainer = PackedTrainer(spec, device, preemption, leaves=not samples)
    else:
        trainer = own_trainer(train, spec, preemption)
    with closing(trainer), storage_faults(storage), ExitStack() as stack:
        opened = open_storage(storage)
        made_with = fingerprint(spec, trainer.fingerprint)
        ledger = Ledger(opened, spec, stage=stage, fingerprint=made_with, grace_s=grace_s)
        stack.enter_context(closing(ledger))
        if isinstance(trainer, OwnTrainer):
            trainer.belong_to(ledger.origin)
        if progress:
            from extrap.tuning.progress import StudyProgress

            notify = stack.enter_context(StudyProgress()).beside(notify)
        stage_of = _Stage(
            spec, opened, trainer, ledger, stage, notify, shares=shares, preemption=preemption
        )
        if samples:
            stage_of.sample()
            extend = extend or (lambda _: ())
        stage_of.exhaust(extend)
        trainer.forget(ledger.finished())
        return stage_of.runs()


class _Stage:
    """One stage of one study while it is trained."""

    def __init__(
        self,
        spec: StudySpec,
        storage: BaseStorage,
        trainer: Trainer,
        ledger: Ledger,
        stage: str,
        notify: Notify | None,
        *,
        shares: bool,
        preemption: Preemption,
    ) -> None:
        self._spec = spec
        self._preemption = preemption
        self._storage = storage
        self._trainer = trainer
        self._stage = stage
        self._notify = notify
        self._ledger = ledger
        self._n_expected = 2 if shares else 1
        self._n_singles = 1
        self._singles_of: tuple[tuple[str, float], ...] | None = None

    def runs(self) -> Runs:
        """The finished runs of this stage."""
        sizes, tuned = tuple(self._spec.sizes), tuple(self._spec.tune)
        conditions = tuple(self._spec.conditions())
        if any(self._ledger.taken().values()):
            tables = read_tables(self._storage, study=self._spec.name, stage=self._stage)
        else:
            columns = [*sizes, *tuned, *conditions, "loss", "seed", "status", "stage"]
            tables = Tables(pd.DataFrame(columns=columns).astype({"loss": float}), None, ())
        return Runs.from_frame(
            tables.runs,
            sizes=sizes,
            tuned=tuned,
            conditions=conditions,
            curves=tables.curves,
            source=f"study {self._spec.name}",
            notes=tables.notes,
        )

    def exhaust(self, extend: Extend | None) -> None:
        """Train until nothing more is wanted, by default of the grid."""
        has_said, n_asked = False, -1
        wanted: list[Cell] = []
        missing: list[Cell] = []
        while True:
            is_quick = bool(missing)
            taken = self._ledger.taken(seen_within_s=RECENT_S if is_quick else 0.0)
            missing = [cell for cell in wanted if cell not in taken]
            if is_quick and not missing:
                continue  # this time all is read
            n_new = (n_done := sum(taken.values())) - n_asked
            n_much = WORTH_ASKING * max(n_done, len(wanted))
            is_much = self._spec.sampler == "law" or abs(n_new) > n_much
            if n_new and (is_much or not missing):
                cells = self._spec.grid_cells() if extend is None else extend(self.runs())
                wanted, n_asked = list(dict.fromkeys(cells)), n_done
                missing = [cell for cell in wanted if cell not in taken]
            if missing:
                self._spec.require_whole()
                self._train_claimed(self._next_pack(missing), wanted)
            elif all(taken[cell] for cell in wanted):
                return
            else:
                has_said = self._wait(has_said)

    def sample(self) -> None:
        """Let Optuna choose as many cells of each size as the grid has, and wait for all of them.

        Cells that another process trains count; if it dies they are sampled again.
        """
        has_said = False
        while True:
            self._sample_missing()
            if all(self._ledger.taken().values()):
                return
            has_said = self._wait(has_said)

    def _sample_missing(self) -> None:
        points = self._spec.size_points()
        wanted = self._spec.grid_cells()  # they cost what the sampled cells do
        for size in points:
            sampling = Sampling(self._spec, self._storage, self._ledger, size)
            n_wanted = len(wanted) // len(points)
            while n_left := self._left_to_sample(size, n_wanted):
                self._spec.require_whole()
                n_runs = min(n_left, sampling.pack_size())
                with self._ledger.held() as claims:
                    sampling.ask(n_runs, claims, n_wanted=n_wanted)
                    self._train(claims, wanted, sampling.keep)

    def _left_to_sample(self, size: Mapping[str, float], n_wanted: int) -> int:
        key = Cell.of(size, {}, 0).size
        return max(0, n_wanted - sum(cell.size == key for cell in self._ledger.taken()))

    def _wait(self, has_said: bool) -> bool:
        if not has_said:
            owners = ", ".join(self._ledger.owners())
            logger.warning("waiting for runs that other processes train (%s)", owners)
        self._preemption.stop_if_asked()
        time.sleep(WAIT_S)
        return True

    def _next_pack(self, missing: list[Cell]) -> list[Cell]:
        """Missing cells of the smallest size, as many as may be trained together.

        Workers begin at different places of a size, so that they do not want the same cells, and
        take no more than half of their part of what is left, so that all finish together.
        """
        first = min(missing, key=lambda cell: [value for _, value in cell.size]).size
        cells = [cell for cell in missing if cell.size == first]
        place, n_seen = self._ledger.company(dict(first))
        n_workers = max(n_seen, self._n_expected)
        start = place * len(cells) // n_workers
        cells = cells[start:] + cells[:start]
        pack = self._trainer.pack_of(cells)
        if first != self._singles_of:  # which may take very much longer
            self._n_singles, self._singles_of = 1, first
        if len(pack) == 1:
            pack = cells[: self._n_singles]
        if n_workers == 1 or len(pack) == 1:
            return pack
        n_most = math.ceil(len(cells) / n_workers)
        cost = self._cost(missing) / (2 * n_workers)
        return pack[: max(1, min(n_most, int(cost / self._trainer.cost(pack[0]))))]

    def _train_claimed(self, cells: list[Cell], wanted: Sequence[Cell]) -> None:
        started = time.monotonic()
        with self._ledger.claimed(cells) as claims:
            if claims:
                self._train(claims, wanted, None)
        if len(cells) == self._n_singles:  # not where others or the end left fewer
            self._n_singles = _next_number(self._n_singles, time.monotonic() - started)

    def _train(self, claims: list[Claim], wanted: Sequence[Cell], keep: Keep | None) -> None:
        """Train what was claimed, pack by pack, and record it.

        The pruner, if there is one, receives all claims at every evaluation; of those in other
        packs, NaN.
        """
        waiting = dict(enumerate(claims))
        while waiting:
            mine = set(self._ledger.still_mine(list(waiting.values())))
            waiting = {place: claim for place, claim in waiting.items() if claim in mine}
            if not waiting:
                return
            chosen = set(self._trainer.pack_of([claim.cell for claim in waiting.values()]))
            places = [i for i, claim in waiting.items() if claim.cell in chosen]

            own = None if keep is None else _for_some(keep, places, len(claims))
            with suppress(LostError):  # others train these cells now
                self._train_pack([waiting.pop(place) for place in places], wanted, own)

    def _train_pack(self, claims: list[Claim], wanted: Sequence[Cell], keep: Keep | None) -> None:
        cells = [claim.cell for claim in claims]
        size = dict(cells[0].size)
        started = time.perf_counter()
        cost_total = self._cost(wanted)
        cost_before = self._cost(self._ledger.finished())
        cost_here = self._cost(cells)
        layout = ""

        def say(fraction: float, *, is_finished: bool = False) -> None:
            if self._notify is not None:
                event = TuneEvent(
                    stage=self._stage,
                    size=size,
                    n_runs=len(cells),
                    fraction=fraction,
                    cost_done=cost_before + fraction * cost_here,
                    cost_total=cost_total,
                    is_finished=is_finished,
                    wall_s=time.perf_counter() - started,
                    layout=layout,
                )
                self._notify(event)

        def say_how(how: str) -> None:
            nonlocal layout
            layout = how

        def on_eval(step: int, losses: tuple[float, ...]) -> Sequence[bool] | None:
            say(step / n_steps)
            self._ledger.attend(claims)
            return None if keep is None else keep(step / n_steps, losses)

        say(0.0)
        n_steps = self._trainer.steps(cells[0])
        with self._preemption.heard(), self._ledger.blamed(claims):
            results = self._trainer.train(cells, on_eval, say_how, prunes=keep is not None)
            each = zip(claims, results, strict=True)
            self._trainer.forget([c.cell for c, result in each if self._ledger.tell(c, result)])
            say(1.0, is_finished=True)

    def _cost(self, cells: Iterable[Cell]) -> float:
        return sum(self._trainer.cost(cell) for cell in cells)


def _next_number(n: int, took_s: float) -> int:
    """How many runs that are trained one by one to claim together, after so many took so long.

    To claim a run takes as long as a quick one: of such a second's worth is claimed at once.
    """
    if took_s < CLAIM_S / 2:
        return min(2 * n, MOST_SINGLES)
    return n if took_s <= CLAIM_S else max(1, n // 2)


def _for_some(keep: Keep, places: Sequence[int], n_runs: int) -> Keep:
    """A pruner of many runs that receives some of them."""

    def hear(fraction: float, losses: Sequence[float]) -> Sequence[bool] | None:
        everyone = [math.nan] * n_runs
        for place, loss in zip(places, losses, strict=True):
            everyone[place] = loss
        kept = keep(fraction, tuple(everyone))
        return None if kept is None else [kept[place] for place in places]

    return hear
