"""The recipe: everything about a training that is held fixed while sizes and tuned values move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

__all__ = ["BUDGET", "DATA_SIZE", "TUNABLE", "Recipe"]

OPTIMIZERS = ("sgd", "adam", "adamw", "muon")
SCHEDULES = ("constant", "linear", "cosine", "wsd")
PARAMETRIZATIONS = ("standard", "mup")
PRECISIONS = ("fp32", "tf32", "bf16", "bf16-pure")

TUNABLE = (
    "batch_size",
    "momentum",
    "beta1",
    "beta2",
    "eps",
    "weight_decay",
    "clip",
    "init_scale",
    "warmup",
    "decay",
)
"""Fields that a study may tune beside `lr`: every run of a pack has its own."""
DATA_SIZE = "tokens"
"""The size column that sets how long a run trains: predicted tokens."""
BUDGET = "steps"
"""A tuned column that sets how many updates a run makes, where no size column does."""
ONLY_FOR = {
    "momentum": ("sgd", "muon"),
    "nesterov": ("sgd", "muon"),
    "beta1": ("adam", "adamw", "muon"),
    "beta2": ("adam", "adamw", "muon"),
    "eps": ("adam", "adamw", "muon"),
}
"""Fields that only some optimisers look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything about the training that is held fixed while sizes and tuned values move.

    Attributes:
        steps: Updates of one run; a size column `tokens` overrides it.
        batch_size: Examples of one update.
        optimizer: `"sgd"`, `"adam"` (weight decay as a gradient), `"adamw"` (decoupled), or
            `"muon"`: orthogonalised momentum for matrices both of whose sides grow with width,
            AdamW for everything else.
        momentum: Of SGD and Muon; the field's customs are .9 and .95.
        nesterov: Whether their momentum looks ahead.
        beta1, beta2, eps: Adam's constants (Kingma and Ba 2015, Algorithm 1).
        weight_decay: Coefficient, per update times the learning rate.
        clip: Largest Euclidean norm of one run's gradient; longer ones are scaled down. 0 is off.
        init_scale: Multiple of the initial weights of every tensor with two or more axes.
        schedule: `"constant"`, `"linear"`, `"cosine"` (both fall to 0 from the end of the warm-up)
            or `"wsd"` (warm-up, stable, linear decay to 0 over the last `decay` of the steps).
        warmup: Fraction of the steps over which the rate climbs linearly, in [0, 1).
        decay: Fraction of the steps, in [0, 1]; only `"wsd"` looks at it.
        parametrization: `"standard"`, or `"mup"`: initialisation and rates scaled with width so
            that the best rate stays put (Yang and Hu et al. 2022, arXiv 2203.03466, Table 3).
        base_width: Width at which muP changes nothing.
        precision: `"fp32"`, `"tf32"` or `"bf16"`: of matrix products; parameters, their sums and
            updates stay in fp32. Where a device lacks a format it computes in fp32. With
            `"bf16-pure"` parameters and the optimiser's sums have the 8 bits of bf16 as well:
            they are rounded after every update, and one below 1/512 of its parameter is lost.
        n_evals: Points of the validation curve; the last is after the last step.
        noise_every: The noise of the gradients is measured in every so manyth update; 0 is never.
            Such an update takes its batch in parts, which changes the last bits of a run.
    """

    steps: int = 1000
    batch_size: int = 128
    optimizer: str = "adam"
    momentum: float = 0.9
    nesterov: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 0.0
    init_scale: float = 1.0
    schedule: str = "wsd"
    warmup: float = 0.05
    decay: float = 0.5
    parametrization: str = "standard"
    base_width: int = 64
    precision: str = "fp32"
    n_evals: int = 50
    noise_every: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "n_evals", "base_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name, known in (
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("parametrization", PARAMETRIZATIONS),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}."
                )
        for name in ("momentum", "beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}.")
        for name in ("eps", "weight_decay", "clip", "init_scale"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be finite and not below 0, got {value}.")
        if self.noise_every < 0 or (self.noise_every and self.batch_size < 2):
            raise ValueError(
                "noise_every is 0 or more, and the noise of gradients is measured in batches of "
                f"2 examples or more, got noise_every={self.noise_every}, "
                f"batch_size={self.batch_size}."
            )
        # decay counts only in wsd, but a warm-up of the whole run leaves nothing to decay
        room = self.decay if self.schedule == "wsd" else 0.0
        if not (0 <= self.warmup < 1 and 0 <= self.decay <= 1 and room <= 1 - self.warmup):
            raise ValueError(
                "warmup and decay are fractions of the steps that fit into 1, got "
                f"warmup={self.warmup}, decay={self.decay}."
            )

    def in_use(self) -> tuple[str, ...]:
        """The fields that matter with this optimiser, schedule and parametrisation."""
        idle = {name for name, users in ONLY_FOR.items() if self.optimizer not in users}
        if self.schedule != "wsd":
            idle.add("decay")
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
        unknown = sorted(set(values) - {*TUNABLE, BUDGET})
        if unknown:
            raise ValueError(
                f"training tunes lr and {', '.join(TUNABLE)}; got {', '.join(unknown)}. "
                "Move other values into the recipe, or hand in a train= of your own."
            )
        batch_size = round(values.pop("batch_size", self.batch_size))
        steps = round(values.pop(BUDGET, self.steps))
        if DATA_SIZE in size:
            steps = max(1, round(size[DATA_SIZE] / (batch_size * tokens_per_example)))
        return replace(self, batch_size=batch_size, steps=steps, **values)
