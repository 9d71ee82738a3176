"""An allocation study as plain data: isoFLOP profiles of a model, and a budget beyond them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

from extrap.records.fields import Name, Positive, Rule, Seeds, above, fewest, fit_fields, require
from extrap.records.recipe import TOKENS_COLUMN
from extrap.records.study import Cell, StudySpec

RATE = "lr"
"""The one tuned value of a study."""
ASCENDING = Rule("ascend", lambda values: all(a < b for a, b in pairwise(values)))
"""Rule of the budgets."""
WITH_ONE = Rule("include 1", lambda factors: 1 in factors)
"""Rule of the factors: the recommended split itself is trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationStudy:
    """How a budget is best split between parameters and tokens, and whether that holds further on.

    At each budget C every size of the study trains on `C / (6 N)` tokens, N without embeddings, at
    every rate of its grid.

    Attributes:
        name: Name of the storage and of the report.
        question: Printed on the report.
        study: Workload, recipe, rates, seeds, and one size column: the model's.
        budgets: FLOPs, ascending.
        times: The budget that is checked, in units of the largest of `budgets`.
        factors: Multiples of the recommended parameters that are trained there; with 1.
        check_seeds: Seeds of these runs.
        unique_tokens: Tokens there are, for the answer with repeated data.
        inference_tokens: Tokens to be served, for the answer that counts serving.
    """

    name: Name
    question: str
    study: StudySpec
    budgets: Annotated[tuple[Positive, ...], fewest(3, "write (1e9, 2e9, 4e9)"), ASCENDING]
    times: Annotated[float, above(1)] = 4.0
    factors: Annotated[tuple[Positive, ...], WITH_ONE] = (0.5, 1.0, 2.0)
    check_seeds: Annotated[Seeds, fewest(2)] = (100, 101, 102, 103)
    unique_tokens: Positive | None = None
    inference_tokens: Positive | None = None

    def __post_init__(self) -> None:
        fit_fields(self)
        sizes, tuned = list(self.study.sizes), list(self.study.tune)
        is_single, rule = (
            len(sizes) == 1 and TOKENS_COLUMN not in sizes,
            "study must have one size column",
        )
        require(is_single, rule, sizes, "name the model's; tokens follow from the budgets")
        require(tuned == [RATE], f"study must tune {RATE} only", tuned, "fix the rest")

    @property
    def study_named(self) -> StudySpec:
        """The study under this one's name, which is that of the storage."""
        return replace(self.study, name=self.name)

    @property
    def column(self) -> str:
        """The model's size column."""
        (name,) = self.study.sizes
        return name

    @property
    def target(self) -> float:
        """The budget that is checked, in FLOPs."""
        return self.times * max(self.budgets)

    def tokens(self, flops: float, n_params: int, *, tokens_per_example: int) -> int:
        """Tokens of one run of a budget, in whole batches: `C / (6 N)`."""
        batch = self.study.recipe.batch_size * tokens_per_example
        return batch * max(1, round(flops / 6 / n_params / batch))

    def cells(self, size: float, tokens: int) -> tuple[Cell, ...]:
        """The runs of the sweep at one size and length: every rate and seed."""
        return tuple(
            Cell.of({self.column: size, TOKENS_COLUMN: tokens}, {RATE: rate}, seed)
            for rate in self.study.tune[RATE].values()
            for seed in self.study.seeds
        )
