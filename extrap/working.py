"""A worker of a study: trains what the study wants now, beside as many others as there are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from extrap.forecasting import forecast
from extrap.pipeline import (
    default_storage,
    extend_rule,
    seal_in_storage,
    target_cells,
    untrained_targets,
    wants_only,
)
from extrap.reading import without_password
from extrap.records import Cell, Runs, StudySpec
from extrap.tuning import (
    GRACE_S,
    Merged,
    Notify,
    Train,
    merge_storages,
    shard_cells,
    tune,
)

__all__ = ["Shard", "merge_study", "work_study"]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A part of a study for a worker that can reach no other: the `index`-th of `n`, from 1."""

    index: int
    n: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.n:
            raise ValueError(
                f"a shard i/n needs 1 ≤ i ≤ n, got {self.index}/{self.n}; write --shard 1/4."
            )

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From `i/n`."""
        index, found, n = text.partition("/")
        if not (found and index.strip().isdigit() and n.strip().isdigit()):
            raise ValueError(f"a shard has the form i/n, got {text!r}; write --shard 1/4.")
        return cls(index=int(index), n=int(n))

    def storage(self, spec: StudySpec) -> str:
        """The storage of this shard alone: `sqlite:///.extrap/NAME.shard-1-of-4.db`."""
        return f"sqlite:///.extrap/{spec.name}.shard-{self.index}-of-{self.n}.db"


def work_study(
    spec: StudySpec,
    baseline: StudySpec | None = None,
    *,
    storage: str | None = None,
    shard: Shard | None = None,
    device: str | None = None,
    grace_s: float = GRACE_S,
    train: Train | None = None,
    train_baseline: Train | None = None,
    notify: Notify | None = None,
    say: Say = logger.info,
) -> None:
    """Train cells of a study until none is missing; others may do the same at the same time.

    First the sweep, as far as it grows; then the larger runs, which follow from its forecast; then
    the sweep of a baseline. The forecast is sealed in the storage before anything larger is
    trained. No report is written: `extrap.pipeline.run_study` on the same storage does that.

    Args:
        spec: The study.
        baseline: A second sweep, as in `run_study`.
        storage: Storage URL; by default that of `run_study`, or of the shard.
        shard: Train only this part of the sweep as the study gives it: nothing grows, and nothing
            larger is trained. `merge_study` puts the parts together.
        device: `"cpu"`, `"cuda:1"`, …; CUDA where there is any by default.
        grace_s: Silence after which others may take this worker for dead.
        train: Your own training function or command, as in `extrap.tune`.
        train_baseline: The same for the baseline.
        notify: Hears of the progress.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        DataError: The sweep supports no forecast, and there are larger runs to make.
        ValueError: A shard of a study whose sampler does not know its cells beforehand.
    """
    if shard is not None:
        place = storage or shard.storage(spec)
        for each, function in ((spec, train), (baseline, train_baseline)):
            if each is not None:
                cells = _part(each, shard)
                say(f"{each.name}: shard {shard.index} of {shard.n}, {len(cells)} runs")
                tune(
                    each,
                    place,
                    train=function,
                    extend=wants_only(cells),
                    notify=notify,
                    device=device,
                    grace_s=grace_s,
                )
        shown = without_password(place)
        say(f"done; combine {shown} with the other shards by extrap study merge")
        return
    place = storage or default_storage(spec)
    share = partial(
        tune, storage=place, notify=notify, device=device, shares=True, grace_s=grace_s
    )
    sweep = share(spec, train=train, extend=extend_rule(spec))
    say(f"{spec.name}: the sweep is complete with {len(sweep)} runs")
    if spec.targets:
        _work_larger(spec, sweep, place, partial(share, spec, train=train), say)
    if baseline is not None:
        runs = share(baseline, train=train_baseline, extend=extend_rule(baseline))
        say(f"{baseline.name}: the sweep is complete with {len(runs)} runs")


def _work_larger(
    spec: StudySpec, sweep: Runs, storage: str, share: Callable[..., Runs], say: Say
) -> None:
    made, seal = seal_in_storage(forecast(sweep, level=spec.level), storage, study=spec.name)
    say(f"forecast sealed in the storage ({made.created}, content hash {seal})")
    cells = target_cells(spec, made)
    if cells:
        large = share(stage="check", extend=wants_only(cells))
        say(f"{spec.name}: {len(large)} larger runs are complete")
    for line in untrained_targets(spec, made):
        say(line)


def _part(spec: StudySpec, shard: Shard) -> tuple[Cell, ...]:
    if spec.sampler != "grid":
        raise ValueError(
            f"shards need sampler 'grid', got {spec.sampler!r}; let workers share a "
            "storage, or write --set sampler=grid."
        )
    return shard_cells(spec.grid_cells(), shard.index, shard.n)


def merge_study(
    spec: StudySpec,
    baseline: StudySpec | None,
    sources: Sequence[str],
    *,
    storage: str | None = None,
    train: Train | None = None,
    train_baseline: Train | None = None,
    accepts: bool = False,
) -> Merged:
    """Put the shards of a study together in one storage, from which `run_study` goes on.

    Args:
        spec: The study.
        baseline: A second sweep, as in `run_study`.
        sources: URLs of the shards.
        storage: Storage URL to merge into; by default that of `run_study`.
        train: Your own training function or command: the shards must have been trained by it.
        train_baseline: The same for the baseline.
        accepts: Whether what another training made counts as trained by it.

    Raises:
        DataError: A source is missing or holds no run of the study.
        StudyError: A storage cannot be used, or the study was made differently in two of them, or
            by another training.
    """
    place = storage or default_storage(spec)
    merged = merge_storages(spec, sources, place, train=train, accepts=accepts)
    if baseline is None:
        return merged
    return merged + merge_storages(baseline, sources, place, train=train_baseline, accepts=accepts)
