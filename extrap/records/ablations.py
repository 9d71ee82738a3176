"""An ablation study as plain data: treatments of the training, each beside the plain run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extrap.records.fields import require_level, require_name
from extrap.records.recipe import DATA_SIZE
from extrap.records.study import StudySpec

RATE = "lr"
SAME_EXAMPLES = 0.01
"""Arms of an ablation may differ in the examples they see by this part: batches are whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One treatment, compared with the plain run at equal examples and equal seeds.

    Attributes:
        name: What the treatment is, a few words.
        group: Heading under which ablations of one kind are reported together.
        question: What is asked of it.
        plain: The plain arm; one size, its learning rate tuned on its grid.
        treated: The treated arm, of the same kind.
        rate: The treated arm's rate as a multiple of the plain one's best; None if it is tuned on
            a grid of its own.
        reference: A third arm: the gap is the plain arm's loss above its loss, and the ablation
            closes a share of it.
        beside: Another ablation with an effect to compare: the difference of the two is told.
        expected: What the literature lets one expect, a sentence.
    """

    name: str
    group: str
    question: str
    plain: StudySpec
    treated: StudySpec
    rate: float | None = None
    reference: StudySpec | None = None
    beside: str = ""
    expected: str = ""

    def __post_init__(self) -> None:
        if self.rate is not None and not self.rate > 0:
            raise ValueError(
                f"rate must be a positive multiple of the plain arm's best, got {self.rate:g} "
                f"for {self.name!r}; write 1 to keep it."
            )
        for spec in self.arms():
            _check_arm(spec, self.name)
        if len({spec.name for spec in self.arms()}) < len(tuple(self.arms())):
            raise ValueError(
                f"the arms of {self.name!r} need different study names, got "
                f"{', '.join(spec.name for spec in self.arms())}; rename one."
            )
        examples = [spec.recipe.n_examples for spec in self.arms()]
        if max(examples) > (1 + SAME_EXAMPLES) * min(examples):
            raise ValueError(
                f"the arms of an ablation must see equally many examples, got {examples} for "
                f"{self.name!r}; set steps to the examples divided by the batch size."
            )

    def arms(self) -> Iterator[StudySpec]:
        """Plain, treated and, if there is one, reference."""
        yield from (self.plain, self.treated)
        if self.reference is not None:
            yield self.reference

    def tuned_arms(self) -> Iterator[StudySpec]:
        """The arms whose best rate is searched on their own grid."""
        return (spec for spec in self.arms() if spec is not self.treated or self.rate is None)


def _check_arm(spec: StudySpec, ablation: str) -> None:
    if len(spec.size_points()) != 1 or DATA_SIZE in spec.sizes:
        raise ValueError(
            f"an arm needs one size and the length of its recipe, got {dict(spec.sizes)} for "
            f"{spec.name!r} of {ablation!r}; name one width."
        )
    if tuple(spec.tune) != (RATE,):
        raise ValueError(
            f"an arm must tune {RATE} only, got {', '.join(spec.tune) or 'nothing'} for "
            f"{spec.name!r} of {ablation!r}; fix the rest in its recipe."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationStudy:
    """Which ablations change what a training ends at, and by how much.

    The best rate of an arm is chosen on the seeds of its study and judged on others: the best of a
    grid looks better than it is on the seeds it was chosen on.

    Attributes:
        name: Name of the storage and of the report.
        question: Printed on the report.
        ablations: What is compared; arms of one name are one and the same study.
        judge_seeds: Seeds on which arms are compared, pair by pair; none of any arm's own.
        level: Level of all intervals, in (0, 1).
    """

    name: str
    question: str
    ablations: tuple[Ablation, ...]
    judge_seeds: tuple[int, ...] = (100, 101, 102, 103, 104, 105, 106, 107)
    level: float = 0.95

    def __post_init__(self) -> None:
        require_name(self.name)
        names = [ablation.name for ablation in self.ablations]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"a study needs ablations of different names, got {names}; rename one."
            )
        require_level(self.level)
        if len(set(self.judge_seeds)) < max(2, len(self.judge_seeds)):
            raise ValueError(
                f"judge_seeds must be distinct and at least 2, got {self.judge_seeds}; add seeds."
            )
        for ablation in self.ablations:
            if ablation.beside and ablation.beside not in set(names) - {ablation.name}:
                raise ValueError(
                    f"{ablation.name!r} must be compared with another ablation, got "
                    f"{ablation.beside!r}; there are {', '.join(names)}."
                )
        known: dict[str, StudySpec] = {}
        for spec in (arm for ablation in self.ablations for arm in ablation.arms()):
            if known.setdefault(spec.name, spec) != spec:
                raise ValueError(f"two different arms are called {spec.name!r}; rename one.")
            both = sorted({*spec.seeds} & {*self.judge_seeds})
            if both:
                raise ValueError(
                    "judge_seeds must differ from the tuning seeds, got "
                    f"{', '.join(map(str, both))} in both for {spec.name!r}; change "
                    "judge_seeds."
                )

    def arms(self) -> tuple[StudySpec, ...]:
        """Every arm once."""
        found = (arm for ablation in self.ablations for arm in ablation.arms())
        return tuple({spec.name: spec for spec in found}.values())

    def tuned_arms(self) -> tuple[StudySpec, ...]:
        """Every arm once whose best rate is searched on its own grid."""
        found = (arm for ablation in self.ablations for arm in ablation.tuned_arms())
        return tuple({spec.name: spec for spec in found}.values())

    def rates(self, best: dict[str, float]) -> dict[str, tuple[float, ...]]:
        """Arm → the rates it is judged at.

        Args:
            best: Tuned arm → its best rate.
        """
        found: dict[str, list[float]] = {spec.name: [] for spec in self.arms()}
        for ablation in self.ablations:
            for spec in ablation.arms():
                found[spec.name].append(ablation_rate(ablation, spec, best))
        return {name: tuple(dict.fromkeys(rates)) for name, rates in found.items()}


def ablation_rate(ablation: Ablation, spec: StudySpec, best: dict[str, float]) -> float:
    """The rate at which an ablation has one of its arms, to 12 digits as cells have it."""
    if spec.name == ablation.treated.name and ablation.rate is not None:
        return float(f"{ablation.rate * best[ablation.plain.name]:.12g}")
    return best[spec.name]
