"""A cascade study as plain data: small models that answer before a large one, and a rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from extrap.records.fields import require_name
from extrap.records.recipe import DATA_SIZE, Recipe
from extrap.records.study import Cell, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedModel:
    """A model of one size and the learning rate it is trained at.

    Attributes:
        size: Size column → value.
        lr: Its rate, tuned elsewhere.
    """

    size: Mapping[str, float]
    lr: float

    def __post_init__(self) -> None:
        if not self.size or any(value <= 0 for value in self.size.values()):
            raise ValueError(f"a model needs positive sizes, got {dict(self.size)}; name a width.")
        if DATA_SIZE in self.size:
            raise ValueError(
                "the models of a cascade are trained for the steps of the recipe, got a size "
                f"{DATA_SIZE!r}; set recipe.steps."
            )
        if not self.lr > 0:
            raise ValueError(f"lr must be positive, got {self.lr:g}; give a tuned one.")

    @property
    def label(self) -> str:
        """Its sizes in words."""
        return ", ".join(f"{column} {value:g}" for column, value in self.size.items())

    def cell(self, seed: int) -> Cell:
        """What is trained under one seed."""
        return Cell.of(self.size, {"lr": self.lr}, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRule:
    r"""A rule that answers in place of any model where the text before matches; it costs nothing.

    Attributes:
        name: What it says, a few words.
        pattern: Regular expression, searched in the bytes that a model sees; end it with `\Z`.
        answer: The one byte that it answers.
    """

    name: str
    pattern: str
    answer: str

    def __post_init__(self) -> None:
        if len(self.answer.encode()) != 1:
            raise ValueError(
                f"a rule must answer one byte, got {self.answer!r}; give one character."
            )
        try:
            re.compile(self.pattern.encode())
        except re.error as error:
            raise ValueError(
                f"pattern must be a regular expression, got {self.pattern!r}: {error}; correct it."
            ) from error

    def matches(self, text: bytes) -> bool:
        """Whether it answers after these bytes."""
        return re.search(self.pattern.encode(), text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeStudy:
    """What a small model before a large one saves at the large one's quality.

    Attributes:
        name: Name of the report.
        question: Printed on the report.
        workload: Model family and data; it must answer classes, as bytes and digits do.
        smalls: Models, each of them tried before the large one.
        large: The large model.
        recipe: Of all trainings.
        pairs: Seeds of the small and of the large model, a pair each: what is found holds for new
            trainings of both.
        rule: A rule that answers before any model; it is tried beside the cascade without.
        validation: Share of the held-out inputs on which thresholds are chosen, in (0, 1).
        level: Level of all intervals, in (0, 1).
    """

    name: str
    question: str
    workload: Workload
    smalls: tuple[SizedModel, ...]
    large: SizedModel
    recipe: Recipe = field(default_factory=Recipe)
    pairs: tuple[tuple[int, int], ...] = ((100, 101), (102, 103), (104, 105), (106, 107))
    rule: TextRule | None = None
    validation: float = 0.5
    level: float = 0.95

    def __post_init__(self) -> None:
        require_name(self.name)
        labels = [model.label for model in (*self.smalls, self.large)]
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise ValueError(
                "a cascade study needs small models of different sizes and a large one, got "
                f"{labels}."
            )
        seeds = [seed for pair in self.pairs for seed in pair]
        if len(self.pairs) < 2 or len(set(seeds)) < len(seeds):
            raise ValueError(
                "pairs must be two or more, of seeds that are all different, got "
                f"{self.pairs}; write ((100, 101), (102, 103))."
            )
        for name, value in (("validation", self.validation), ("level", self.level)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must lie in (0, 1), got {value:g}.")

    def trainings(self) -> tuple[tuple[SizedModel, tuple[int, ...]], ...]:
        """Every model with its seeds, small ones first."""
        small = tuple(pair[0] for pair in self.pairs)
        return (
            *((model, small) for model in self.smalls),
            (self.large, tuple(pair[1] for pair in self.pairs)),
        )
