"""The recipe: everything about a training that is held fixed while sizes and tuned values move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from extrap.records.fields import Count, Rule, above, at_least, fit_fields, one_of, require

BelowOne = Annotated[float, Rule("lie in [0, 1)", lambda value: 0 <= value < 1)]
UpToOne = Annotated[float, Rule("lie in [0, 1]", lambda value: 0 <= value <= 1)]
NotNegative = Annotated[float, at_least(0)]

TUNABLE = (
    *("batch_size", "momentum", "beta1", "beta2", "eps", "weight_decay", "clip", "init_scale"),
    *("warmup", "decay"),
)
"""Fields that a study may tune beside `lr`: every run of a pack has its own."""
ONE_MINUS = ("momentum", "beta1", "beta2")
"""Values whose distance from 1 is multiplied when they are moved."""
TOKENS_COLUMN = "tokens"
"""Size column of predicted tokens; it sets the number of steps of a run."""
EXAMPLES_COLUMN = "examples"
"""Size column of distinct training examples; it does not change the number of steps."""
STEPS_COLUMN = "steps"
"""Tuned column of the number of steps, where no size column sets it."""
ONLY_FOR = {
    **dict.fromkeys(("momentum", "nesterov"), ("sgd", "muon")),
    **dict.fromkeys(("beta1", "beta2", "eps"), ("adam", "adamw", "muon")),
}
"""Fields that only some optimisers look at."""
DECAYING = ("wsd", "wsd-sqrt")
"""Schedules that look at the field `decay`."""
STEPS_ONLY = ("drops", "drop_factor", "decay_by")
"""Fields that only the schedule `"steps"` looks at; studies without it do not record them."""


class Phase(NamedTuple):
    """A stretch of a run with one batch size.

    Attributes:
        n_updates: Its updates.
        batch_size: Examples of each.
        rate: Multiple of the peak learning rate.
    """

    n_updates: int
    batch_size: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All training settings that stay fixed while sizes and tuned values vary.

    Attributes:
        steps: Updates of one run; a size column `tokens` overrides it. If the batch grows, there
            are fewer updates, `n_updates`, and a run still sees `steps` times `batch_size`
            examples.
        batch_size: Examples per update; of the first update if the batch grows.
        optimizer: `"sgd"`, `"adam"` (weight decay as a gradient), `"adamw"` (decoupled), or
            `"muon"`: orthogonalised momentum for matrices both of whose sides grow with width,
            AdamW for everything else.
        momentum: Momentum of SGD and Muon; usually 0.9 and 0.95.
        nesterov: Whether it is Nesterov momentum.
        beta1, beta2, eps: Adam's constants (Kingma and Ba 2015, Algorithm 1).
        weight_decay: Coefficient, per update times the learning rate.
        clip: Largest Euclidean norm of one run's gradient; longer ones are scaled down. 0 disables
            clipping.
        init_scale: Factor of the initial weights of every tensor with two or more axes.
        schedule: `"constant"`, `"linear"`, `"cosine"` (both fall to 0 from the end of the
            warm-up), `"wsd"` (warm-up, stable, linear decay to 0 over the last `decay` of the
            steps), `"wsd-sqrt"` (the same, but a share x of the decay leaves 1 − √x of the rate:
            Hägele et al. 2024, arXiv 2405.18392) or `"steps"` (constant, with a drop at each of
            `drops`).
        warmup: Fraction of the steps over which the rate climbs linearly, in [0, 1).
        decay: Fraction of the steps, in [0, 1]; used only by `"wsd"` and `"wsd-sqrt"`.
        drops: Rising fractions of the examples, after the end of the warm-up; only `"steps"` uses
            this field and the next two.
        drop_factor: Factor, above 1, by which each drop divides the rate or multiplies the batch.
        decay_by: `"rate"`, or `"batch"`: the batch grows and the rate stays (Smith, Kindermans,
            Ying, Le 2018, arXiv 1711.00489).
        parametrization: `"standard"`, or `"mup"`: initialisation and rates scaled with width so
            that the best rate does not depend on width (Yang and Hu et al. 2022, arXiv 2203.03466,
            Table 3).
        base_width: Width at which muP equals the standard parametrisation.
        precision: `"fp32"`, `"tf32"` or `"bf16"`: of matrix products; parameters, their sums and
            updates stay in fp32. A device without the format computes in fp32. With
            `"bf16-pure"` parameters and the optimiser's sums have the 8 bits of bf16 as well:
            they are rounded after every update, and one below 1/512 of its parameter is lost.
        n_evals: Points of the validation curve; the last is after the last step.
        noise_every: Interval in updates between measurements of gradient noise; 0 disables them. A
            measured update splits its batch, which changes the last bits of a run; a batch of one
            example cannot be split and is not measured.
    """

    steps: Count = 1000
    batch_size: Count = 128
    optimizer: Annotated[str, one_of("sgd", "adam", "adamw", "muon")] = "adam"
    momentum: BelowOne = 0.9
    nesterov: bool = False
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.999
    eps: NotNegative = 1e-8
    weight_decay: NotNegative = 0.0
    clip: NotNegative = 0.0
    init_scale: NotNegative = 1.0
    schedule: Annotated[
        str, one_of("constant", "linear", "cosine", "wsd", "wsd-sqrt", "steps")
    ] = "wsd"
    warmup: BelowOne = 0.05
    decay: UpToOne = 0.5
    drops: tuple[float, ...] = (0.5, 0.75)
    drop_factor: Annotated[float, above(1)] = 2.0
    decay_by: Annotated[str, one_of("rate", "batch")] = "rate"
    parametrization: Annotated[str, one_of("standard", "mup")] = "standard"
    base_width: Count = 64
    precision: Annotated[str, one_of("fp32", "tf32", "bf16", "bf16-pure")] = "fp32"
    n_evals: Count = 50
    noise_every: Annotated[int, at_least(0)] = 0

    def __post_init__(self) -> None:
        fit_fields(self)
        if self.schedule in DECAYING:
            settings = [f"warmup={self.warmup}", f"decay={self.decay}"]
            require(
                self.decay <= 1 - self.warmup, "warmup and decay must sum to at most 1", settings
            )
        if self.schedule == "steps":
            ends = (0.0, *self.drops, 1.0)
            are_rising = self.warmup <= ends[1] < 1 and all(a < b for a, b in pairwise(ends))
            rule = "drops must be rising fractions of the examples, after the warm-up"
            require(are_rising, rule, [*self.drops, f"warmup={self.warmup}"], "write (0.5, 0.75)")

    @property
    def n_updates(self) -> int:
        """Updates of one run: `steps`, or fewer where the batch grows."""
        return sum(phase.n_updates for phase in self.phases())

    @property
    def n_examples(self) -> int:
        """Examples a run sees, each as often as it is drawn.

        `steps` times `batch_size`; where the batch grows by a factor that does not divide a
        phase evenly, within half a batch a phase of that.
        """
        return sum(phase.n_updates * phase.batch_size for phase in self.phases())

    @property
    def largest_from(self) -> int:
        """The first update with the largest batch of the run."""
        phases = self.phases()
        sizes = [phase.batch_size for phase in phases]
        return sum(phase.n_updates for phase in phases[: sizes.index(max(sizes))])

    def phase_at(self, update: int) -> Phase:
        """The phase of the update that follows so many earlier ones; the last one goes on."""
        phases = self.phases()
        for phase in phases:
            if update < phase.n_updates:
                return phase
            update -= phase.n_updates
        return phases[-1]

    def phases(self) -> tuple[Phase, ...]:
        """The stretches between drops, one after the other; a single one for other schedules.

        Each has the same examples whether the rate falls or the batch grows: by `drop_factor`
        fewer updates after every drop.
        """
        if self.schedule != "steps":
            return (Phase(self.steps, self.batch_size, 1.0),)
        ends = [round(part * self.steps) for part in (0.0, *self.drops, 1.0)]
        phases = []
        for i, (start, end) in enumerate(pairwise(ends)):
            factor = self.drop_factor**i
            if end == start:
                continue
            if self.decay_by == "rate":
                phases.append(Phase(end - start, self.batch_size, 1 / factor))
                continue
            batch = round(self.batch_size * factor)
            n_updates = max(1, round((end - start) * self.batch_size / batch))
            phases.append(Phase(n_updates, batch, 1.0))
        return tuple(phases)

    def in_use(self) -> tuple[str, ...]:
        """The fields that matter with this optimiser, schedule and parametrisation."""
        idle = {name for name, users in ONLY_FOR.items() if self.optimizer not in users}
        if self.schedule not in DECAYING:
            idle.add("decay")
        if self.schedule != "steps":
            idle.update(STEPS_ONLY)
        if self.schedule == "constant" and not self.warmup:
            idle.add("warmup")
        if self.parametrization == "standard":
            idle.add("base_width")
        if not self.noise_every:
            idle.add("noise_every")
        return tuple(f.name for f in fields(self) if f.name not in idle)

    def allows(self, column: str, value: float) -> bool:
        """Whether a tuned column may have a value; columns of your own may have any."""
        if column not in TUNABLE:
            return True
        try:
            self.with_values({}, {column: value}, tokens_per_example=1)
        except ValueError:
            return False
        return True

    def with_values(
        self,
        size: Mapping[str, float],
        tuned: Mapping[str, float],
        *,
        tokens_per_example: int,
    ) -> Recipe:
        """The recipe of one run: its tuned values and its data size put in.

        Args:
            size: Size column → value; `tokens` sets the steps, at least one.
            tuned: Tuned column → value; `lr` is no part of a recipe and is skipped; `steps` is
                the length of a run.
            tokens_per_example: Predicted tokens in one example.

        Raises:
            ValueError: A tuned name is no tunable field, or a value is impossible.
        """
        values: dict[str, Any] = {n: value for n, value in tuned.items() if n != "lr"}
        unknown = sorted(set(values) - {*TUNABLE, STEPS_COLUMN})
        if unknown:
            raise ValueError(
                f"training can tune lr and {', '.join(TUNABLE)}; got {', '.join(unknown)}. "
                "Move other values into the recipe, or pass your own train=."
            )
        batch_size = round(values.pop("batch_size", self.batch_size))
        steps = round(values.pop(STEPS_COLUMN, self.steps))
        if TOKENS_COLUMN in size:
            steps = max(1, round(size[TOKENS_COLUMN] / (batch_size * tokens_per_example)))
        return replace(self, batch_size=batch_size, steps=steps, **values)


def moved_value(name: str, base: float, factor: float) -> float:
    """A value times a factor; of momentum and β the distance from 1 is multiplied."""
    return 1 - (1 - base) * factor if name in ONE_MINUS else base * factor
