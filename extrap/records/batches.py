"""A batch study as plain data: steps to a target against batch size, the rate tuned at each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from extrap.records.fields import require_level, require_name
from extrap.records.recipe import BUDGET, DATA_SIZE
from extrap.records.study import Cell, StudySpec, TunedRange

BATCH = "batch_size"
FEWEST_BATCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One workload of a batch study: at every batch the learning rate is tuned again.

    Attributes:
        study: Workload, recipe, sizes, seeds, and the range of `lr` at the reference batch; it
            tunes nothing else.
        steps: Batch size → updates of a run, enough to reach the lowest target with a good rate.
        targets: Held-out losses to reach, in nats.
        reference_batch: Where the range of `lr` holds; by default the middle batch.
        rate_exponent: The range moves with the batch as its ratio to the reference batch to this
            power: .5 for Adam, 1 for SGD.
        noise_batch: The batch at which the noise scale is read; by default the reference batch.
    """

    study: StudySpec
    steps: Mapping[int, int]
    targets: tuple[float, ...]
    reference_batch: int = 0
    rate_exponent: float = 0.5
    noise_batch: int = 0

    def __post_init__(self) -> None:
        name = self.study.name
        if set(self.study.tune) != {"lr"}:
            raise ValueError(
                f"the task {name!r} must tune lr only, got "
                f"{', '.join(self.study.tune) or 'nothing'}; move the rest into its "
                "recipe."
            )
        if DATA_SIZE in self.study.sizes:
            raise ValueError(
                f"the task {name!r} sets the length of its runs with steps=, so {DATA_SIZE} "
                "cannot be a size; leave it out."
            )
        if any(b < 1 or s < 1 for b, s in self.steps.items()):
            raise ValueError(
                f"batches and steps of {name!r} must be at least 1, got {dict(self.steps)}."
            )
        if len(self.steps) < FEWEST_BATCHES:
            raise ValueError(
                f"a law over batches needs at least {FEWEST_BATCHES} of them, got "
                f"{sorted(self.steps)} for {name!r}; add some to steps=."
            )
        if not self.targets or not all(0 < t < math.inf for t in self.targets):
            raise ValueError(
                f"targets of {name!r} must be positive losses, at least one, got {self.targets}."
            )
        known = {self.reference_batch, self.noise_batch} - {0}
        if not known <= set(self.steps):
            raise ValueError(
                f"{name!r} names the batches {sorted(known - set(self.steps))} without steps; "
                "add them to steps=."
            )

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes, smallest first."""
        return tuple(sorted(self.steps))

    @property
    def reference(self) -> int:
        """The reference batch."""
        return self.reference_batch or self.batches[len(self.batches) // 2]

    @property
    def n_rates(self) -> int:
        """Rates at each batch before any growth."""
        return self.study.tune["lr"].n

    def rate(self, batch: int, index: int) -> float:
        """The learning rate of an index of the grid; beyond its ends the grid goes on."""
        factor = (batch / self.reference) ** self.rate_exponent
        return float(f"{self.study.tune['lr'].value(index) * factor:.6g}")

    def spec(self) -> StudySpec:
        """The study that is trained: rate, batch and length are its tuned columns."""
        rates = [self.rate(b, i) for b in self.batches for i in (0, self.n_rates - 1)]
        return replace(
            self.study,
            tune={
                "lr": TunedRange(low=min(rates), high=max(rates), n=2),
                BATCH: TunedRange(low=self.batches[0], high=self.batches[-1], n=2),
                BUDGET: _range(self.steps.values()),
            },
            targets=(),
            sampler="grid",
        )

    def cells(
        self,
        size: Mapping[str, float],
        indices: Mapping[int, Iterable[int]],
        *,
        seeds: Iterable[int] = (),
    ) -> tuple[Cell, ...]:
        """Runs of one size.

        Args:
            size: Size column → value.
            indices: Batch → indices of its rates.
            seeds: By default those of the study.
        """
        return tuple(
            Cell.of(size, {"lr": self.rate(b, i), BATCH: b, BUDGET: self.steps[b]}, seed)
            for b, of_batch in indices.items()
            for i, seed in itertools.product(of_batch, tuple(seeds) or self.study.seeds)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStudy:
    """Steps to targets against batch size, for one workload or for several to be compared.

    Attributes:
        name: Name of the report.
        question: Printed on the report.
        tasks: The workloads; the names of their studies differ.
        overhead: Examples above linear scaling at which a batch counts as too large.
        level: Level of all intervals, in (0, 1).
    """

    name: str
    question: str
    tasks: tuple[BatchTask, ...]
    overhead: float = 0.2
    level: float = 0.95

    def __post_init__(self) -> None:
        require_name(self.name)
        names = [task.study.name for task in self.tasks]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"the tasks of a batch study need studies of different names, got {names}; "
                "rename them."
            )
        require_level(self.level)
        if self.overhead <= 0:
            raise ValueError(f"overhead must be above 0, got {self.overhead:g}; write 0.2.")


def _range(values: Iterable[int]) -> TunedRange:
    low, high = min(values), max(values)
    return TunedRange(low=low, high=max(high, low + 1), n=2)
