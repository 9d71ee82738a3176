"""Parts of a study for machines that can reach no common storage."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from extrap.reading import without_password
from extrap.records import Cell, StudySpec
from extrap.study.driver import default_storage
from extrap.study.protocol import Kind, Say, only
from extrap.tuning import Merged, Tune, merge_storages, shard_cells

__all__ = ["Shard", "merge_study", "work_shard"]

logger = logging.getLogger(__name__)


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

    def storage(self, name: str) -> str:
        """The storage of this shard alone: `sqlite:///.extrap/NAME.shard-1-of-4.db`."""
        return f"sqlite:///.extrap/{name}.shard-{self.index}-of-{self.n}.db"


def work_shard(
    study: Kind, shard: Shard, *, storage: str | None, tune: Tune, say: Say = logger.info
) -> None:
    """Train one part of the sweeps of a study as it gives them: nothing grows, nothing follows.

    `merge_study` puts the parts together.

    Args:
        study: The study.
        shard: Which part.
        storage: Storage URL; by default that of the shard.
        tune: Trains the cells of a sweep, as `extrap.tune` does.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name.
        ValueError: The sampler does not know its cells beforehand.
    """
    place = storage or shard.storage(study.storage_name)
    for spec in study.specs():
        cells = _part(spec, shard)
        say(f"{spec.name}: shard {shard.index} of {shard.n}, {len(cells)} runs")
        tune(spec, place, train=study.training_of(spec), extend=only(cells))
    say(f"done; combine {without_password(place)} with the other shards by extrap study merge")


def _part(spec: StudySpec, shard: Shard) -> tuple[Cell, ...]:
    if spec.sampler != "grid":
        raise ValueError(
            f"shards need sampler 'grid', got {spec.sampler!r}; let workers share a "
            "storage, or write --set sampler=grid."
        )
    return shard_cells(spec.grid_cells(), shard.index, shard.n)


def merge_study(
    study: Kind, sources: Sequence[str], *, storage: str | None = None, accepts: bool = False
) -> Merged:
    """Put the shards of a study together in one storage, from which `extrap.study.run` goes on.

    Args:
        study: The study; the shards must have been trained by its training.
        sources: URLs of the shards.
        storage: Storage URL to merge into; by default that of the study.
        accepts: Whether what another training made counts as trained by it.

    Raises:
        DataError: A source is missing or holds no run of the study.
        StudyError: A storage cannot be used, or the study was made differently in two of them, or
            by another training.
    """
    place = storage or default_storage(study)
    first, *others = (
        merge_storages(spec, sources, place, train=study.training_of(spec), accepts=accepts)
        for spec in study.specs()
    )
    return sum(others, start=first)
