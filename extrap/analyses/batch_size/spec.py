"""A batch study as plain data: steps to a target against batch size, the rate tuned at each."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from extrap.records.fields import Count, Level, Name, Positive, fewest, fit_fields, require
from extrap.records.recipe import STEPS_COLUMN, TOKENS_COLUMN
from extrap.records.study import Cell, StudySpec, TunedRange

BATCH_COLUMN = "batch_size"
"""Column of batch sizes."""


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
    steps: Annotated[Mapping[Count, Count], fewest(3, "write {16: 400, 64: 100, 256: 50}")]
    targets: Annotated[tuple[Positive, ...], fewest(1)]
    reference_batch: int = 0
    rate_exponent: float = 0.5
    noise_batch: int = 0

    def __post_init__(self) -> None:
        fit_fields(self)
        tuned, sizes, steps = list(self.study.tune), list(self.study.sizes), list(self.steps)
        require(tuned == ["lr"], "the study of a task must tune lr only", tuned, "fix the rest")
        rule = f"the study of a task must not have {TOKENS_COLUMN} as a size"
        require(TOKENS_COLUMN not in sizes, rule, sizes, "steps= sets how long its runs are")
        named = {self.reference_batch, self.noise_batch} - {0, *steps}
        require(not named, f"batches must be among those of steps=, {steps}", sorted(named))

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
        steps = sorted(self.steps.values())
        return replace(
            self.study,
            tune={
                "lr": TunedRange(low=min(rates), high=max(rates), n=2),
                BATCH_COLUMN: TunedRange(low=self.batches[0], high=self.batches[-1], n=2),
                STEPS_COLUMN: TunedRange(low=steps[0], high=max(steps[-1], steps[0] + 1), n=2),
            },
            targets=(),
            sampler="grid",
        )

    def cells(
        self, size: Mapping[str, float], indices: Mapping[int, Iterable[int]]
    ) -> tuple[Cell, ...]:
        """Runs of one size, at the rates of some indices of each batch, of every seed."""
        return tuple(
            Cell.of(
                size, {"lr": self.rate(b, i), BATCH_COLUMN: b, STEPS_COLUMN: self.steps[b]}, seed
            )
            for b, of_batch in indices.items()
            for i, seed in itertools.product(of_batch, self.study.seeds)
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

    name: Name
    question: str
    tasks: Annotated[tuple[BatchTask, ...], fewest(1)]
    overhead: Positive = 0.2
    level: Level = 0.95

    def __post_init__(self) -> None:
        fit_fields(self)
        names = [task.study.name for task in self.tasks]
        require(len(set(names)) == len(names), "tasks must have studies of different names", names)
