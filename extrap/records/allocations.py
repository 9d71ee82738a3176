"""An allocation study as plain data: isoFLOP profiles of a model, and a budget beyond them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from extrap.records.fields import require_name
from extrap.records.recipe import DATA_SIZE
from extrap.records.study import Cell, StudySpec

RATE = "lr"


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

    name: str
    question: str
    study: StudySpec
    budgets: tuple[float, ...]
    times: float = 4.0
    factors: tuple[float, ...] = (0.5, 1.0, 2.0)
    check_seeds: tuple[int, ...] = (100, 101, 102, 103)
    unique_tokens: float | None = None
    inference_tokens: float | None = None

    def __post_init__(self) -> None:
        require_name(self.name)
        if len(self.study.sizes) != 1 or DATA_SIZE in self.study.sizes:
            raise ValueError(
                "the study of an allocation needs one size column, the model's, got "
                f"{list(self.study.sizes)}; tokens follow from the budgets."
            )
        if tuple(self.study.tune) != (RATE,):
            raise ValueError(
                f"the study of an allocation must tune {RATE} only, got "
                f"{', '.join(self.study.tune) or 'nothing'}; fix the rest in its recipe."
            )
        ascending = all(a < b for a, b in zip(self.budgets, self.budgets[1:], strict=False))
        if len(self.budgets) < 3 or self.budgets[0] <= 0 or not ascending:
            raise ValueError(
                "budgets must be three or more positive, ascending numbers, got "
                f"{self.budgets}; write (1e9, 2e9, 4e9)."
            )
        if not self.times > 1:
            raise ValueError(f"times must be above 1, got {self.times:g}; write 4.")
        if 1.0 not in self.factors or min(self.factors) <= 0:
            raise ValueError(
                f"factors must be positive and include 1, got {self.factors}; write (0.5, 1, 2)."
            )
        if len(set(self.check_seeds)) < max(2, len(self.check_seeds)):
            raise ValueError(
                f"check_seeds must be distinct and at least 2, got {self.check_seeds}."
            )

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
            Cell.of({self.column: size, DATA_SIZE: tokens}, {RATE: rate}, seed)
            for rate in self.study.tune[RATE].values()
            for seed in self.study.seeds
        )
