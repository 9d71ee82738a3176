"""A study as plain data: what to train, at which sizes, with which values to try."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from extrap.errors import nearest
from extrap.records.command import RUN_DIR, SEED_PLACEHOLDER, Command
from extrap.records.fields import (
    SMALLEST_LOSS,
    Level,
    Name,
    Positive,
    Seeds,
    at_least,
    fewest,
    fit_fields,
    one_of,
    require,
)
from extrap.records.recipe import STEPS_COLUMN, TOKENS_COLUMN, Recipe
from extrap.records.size_paths import SizePath

Option = int | float | str | bool | None
OnEval = Callable[[int, tuple[float, ...]], Sequence[bool] | None]
"""Receives a step and the held-out loss of every run; may say which runs to keep."""
OWN = "own"
"""The workload of a study that names none: whatever its training function or command trains."""
WHOLE_FIELDS = ("batch_size", STEPS_COLUMN)
"""What of a recipe is trained as a whole number."""
OPTUNA_SAMPLERS = ("tpe", "gp", "cmaes", "qmc")
"""Names of Optuna's samplers in a study."""
RECOMMENDED, CONTRAST = ROLES = ("recommended", "contrast")
"""Roles of larger runs: at the recommended tuned values, or mistuned to show what that costs."""
RESULT_STATUSES = ("complete", "diverged", "pruned")
"""How a run can have ended that counts as trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model and its data stream, by name, with options the workload documents itself."""

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fit_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRange:
    """A geometric grid `low · ratio^i`, `i = 0 … n − 1`, over which one value is tuned."""

    low: Positive
    high: Positive
    n: Annotated[int, at_least(2)]

    def __post_init__(self) -> None:
        fit_fields(self)
        ends = [self.low, self.high]
        require(self.low < self.high, "a tuned range must have low below high", ends)

    def value(self, index: int) -> float:
        """The value at a grid index; indices below 0 or above `n − 1` extend the grid.

        Computed in powers of two, so that every process names a cell by the same float.
        """
        return float(f"{2 ** (math.log2(self.low) + self._step * index):.12g}")

    def values(self) -> tuple[float, ...]:
        """The grid."""
        return tuple(self.value(i) for i in range(self.n))

    def index(self, value: float) -> float:
        """The (fractional) grid index of a value."""
        return (math.log2(value) - math.log2(self.low)) / self._step

    @property
    def _step(self) -> float:
        return (math.log2(self.high) - math.log2(self.low)) / (self.n - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A larger size to train after the forecast is sealed.

    Attributes:
        size: Size column → value.
        factors: Multiples of the recommended tuned values to run at.
        fixed: Whether to run at the values tuned at the smallest size as well.
    """

    size: Mapping[str, Positive]
    factors: tuple[Positive, ...] = (1.0,)
    fixed: bool = True

    def __post_init__(self) -> None:
        fit_fields(self)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What is trained exactly once: one size, one choice of tuned values, one seed."""

    size: tuple[tuple[str, float], ...]
    tuned: tuple[tuple[str, float], ...]
    seed: int

    @classmethod
    def of(cls, size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> Cell:
        """A cell from mappings; values are kept to 12 digits so that they compare equal."""
        return cls(
            tuple((k, float(f"{v:.12g}")) for k, v in size.items()),
            tuple((k, float(f"{v:.12g}")) for k, v in tuned.items()),
            int(seed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What training one cell gave.

    Attributes:
        cell: What was trained.
        status: `"complete"`, `"diverged"` or `"pruned"`.
        loss: Held-out loss after the last step, nats; `None` unless complete.
        initial_loss: Held-out loss before the first step; `None` if nobody measured it.
        curve: Held-out losses as (step, loss); the last of a complete run is `loss`, the others
            may come from a subset of the held-out examples.
        n_params: Parameters without embeddings; 0 if unknown, as for the following five.
        n_params_total: Parameters with embeddings.
        n_tokens: Predicted tokens the run was to train on.
        epochs: How often that is every token there is to train on.
        flops: Training compute of the run.
        wall_s: Wall-clock seconds; runs trained together share theirs equally.
        diverged_step: First step at which the run was seen to have diverged.
        noise_scale: Mean over the training of the gradient noise scale, examples
            (`extrap.noise.mean_noise_scale`); None if it was not measured or cannot be
            distinguished from infinite.
        gradients: What was measured of the gradients since the point of the curve before, as
            (step, |G|², tr Σ), both unbiased.
        updates: Updates the run was to make; 0 if unknown.
        cost: Of the run in a unit of the user's own; 0 if unknown.
    """

    cell: Cell
    status: str
    loss: float | None
    initial_loss: float | None = None
    curve: tuple[tuple[int, float], ...] = ()
    n_params: int = 0
    n_params_total: int = 0
    n_tokens: int = 0
    epochs: float = 0.0
    flops: float = 0.0
    wall_s: float = 0.0
    diverged_step: int | None = None
    noise_scale: float | None = None
    gradients: tuple[tuple[int, float, float], ...] = ()
    updates: int = 0
    cost: float = 0.0

    def __post_init__(self) -> None:
        statuses = ", ".join(RESULT_STATUSES)
        require(self.status in RESULT_STATUSES, f"status must be one of {statuses}", self.status)
        if self.status != "complete":
            require(self.loss is None, f"a {self.status} run must have loss=None", self.loss)
            return
        is_loss = isinstance(self.loss, numbers.Real) and SMALLEST_LOSS <= self.loss < math.inf
        rule = f"the loss of a complete run must be finite and at least {SMALLEST_LOSS:g}"
        advice = "give a loss, not a score; where it ended in nan or inf, 'diverged' and loss=None"
        require(is_loss, rule, self.loss, advice)


TrainFunction = Callable[
    [Mapping[str, float], Mapping[str, float], int], float | Mapping[str, Any] | RunResult
]
"""A user's own `train(size, tuned, seed)`: the loss, a mapping with it, or a `RunResult`."""
Train = TrainFunction | Command
"""How a user trains: a function or a command."""


def _single(value: Option | tuple[float, ...]) -> Option:
    """A field as one value of a column."""
    return " ".join(f"{part:g}" for part in value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """A study as frozen, plain data; importing a study file imports no heavy library.

    Attributes:
        name: Name of the study in its storage and of its report; letters, digits, `-`, `_`, `.`.
        question: The question of the study, one sentence; printed on the report.
        workload: Model and data. If a function or command of your own trains the runs, neither it
            nor the recipe is used or recorded; leave both out.
        recipe: The fixed training settings.
        sizes: Size column → tuned sizes. Several columns: every combination.
        tune: Tuned column → range.
        seeds: Seeds of the sweep; each fixes initialisation and data order.
        targets: Larger sizes, trained after the forecast is sealed.
        target_seeds: Their seeds.
        sampler: `"grid"`; `"tpe"`, `"gp"`, `"cmaes"` or `"qmc"`, Optuna's samplers; or a sampler
            object of Optuna's that can resume from its trials; a class of your own says that it
            can by the attribute `resumes = True`.
        pruner: `"median"` or `"hyperband"`, Optuna's pruners, `"none"`, or a pruner object; by
            default the median where Optuna samples, else none.
        growth: Number of values by which a grid may grow on each side if its optimum is not
            bracketed.
        level: Level of all intervals, in (0, 1).
        path: Other values that follow from the size, name → formula, as in `{"width": "64 *
            depth"}`: size columns of the model, `tokens`, fields of the recipe, `lr` if it is not
            tuned, and any argument of your own function or command.
    """

    name: Name
    question: str
    workload: Workload = field(default_factory=lambda: Workload(name=OWN))
    sizes: Annotated[
        Mapping[str, Annotated[tuple[Positive, ...], fewest(1)]],
        fewest(1, "write {'width': (16, 32, 64)}"),
    ]
    tune: Mapping[str, TunedRange]
    recipe: Recipe = field(default_factory=Recipe)
    seeds: Seeds = (0, 1, 2)
    targets: tuple[Target, ...] = ()
    target_seeds: Seeds = (0, 1)
    sampler: Annotated[str | object, one_of("grid", *OPTUNA_SAMPLERS)] = "grid"
    pruner: Annotated[str | object, one_of("", "none", "median", "hyperband")] = ""
    growth: Annotated[int, at_least(0)] = 4
    level: Level = 0.95
    path: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fit_fields(self)
        for target in self.targets:
            self.require_target(target.size)
        if self.path:
            clashing = sorted({*self.sizes, *self.tune, "seed"}.intersection(self.path))
            rule = "a path must define no size and no tuned column"
            require(not clashing, rule, clashing, "leave it out")
            unknown = [name for name in SizePath(self.path).inputs if name not in self.sizes]
            rule = f"formulas of a path must use sizes, {', '.join(self.sizes)}, or each other"
            require(not unknown, rule, unknown, "define it, or make it a size")
            for size in self._all_sizes():
                self.size_values(size)

    def require_target(self, size: Mapping[str, float]) -> None:
        """Raise a `ValueError` unless a size has the study's columns and lies not below them."""
        columns = ", ".join(self.sizes)
        require(set(size) == set(self.sizes), f"a target must name the sizes {columns}", size)
        for column, value in size.items():
            least = min(self.sizes[column])
            rule = f"a target must not lie below the smallest tuned {column}, {least:g}"
            require(value >= least, rule, value, "give a larger size")

    def require_command(self, command: Command) -> None:
        """Raise a `ValueError` unless a command contains what moves in the study, and no more."""
        placeholders = command.placeholders()
        allowed = [*self.sizes, *self.path, *self.tune, SEED_PLACEHOLDER, RUN_DIR]
        unknown = [name for name in placeholders if name not in allowed]
        rule = f"placeholders of a command must be among {', '.join(allowed)}"
        near, advice = nearest(unknown[0], allowed) if unknown else "", "name it in the study"
        advice = f"{near} Otherwise {advice}" if near else advice
        require(not unknown, rule, unknown, advice)
        moving = [*self.tune, *(() if set(self.path) & set(placeholders) else self.sizes)]
        missing = [f"{{{name}}}" for name in moving if name not in placeholders]
        rule = "a command must contain the size and the tuned values of its run"
        require(not missing, rule, list(placeholders), f"add {', '.join(missing)}")
        n_seeds = max(len(self.seeds), len(self.target_seeds) if self.targets else 0)
        rule = "a study must have one seed where its command does not contain it"
        advice = "add the word '--seed={seed}', or set seeds=(0,) and target_seeds=(0,)"
        require(SEED_PLACEHOLDER in placeholders or n_seeds == 1, rule, n_seeds, advice)

    def require_whole(self) -> None:
        """Raise if a built-in workload would train a rounded number instead of the study's.

        It is called before training; existing runs are read as they are.

        Raises:
            ValueError: A formula of the path, a grid or a sampler gives no whole number where one
                is trained.
        """
        for name in filter(self.is_whole, (*self.path, *self.tune)):
            rule = f"{name} must be a whole number to be trained as recorded"
            if name in self.path:
                values = [self.size_values(size)[name] for size in self._all_sizes()]
                advice = f"write round({self.path[name]})"
            else:
                tuned, advice = self.tune[name], "choose whole values, as of low=8, high=512, n=7"
                values = [tuned.low, tuned.high] if self.is_sampled else list(tuned.values())
            fractions = [value for value in values if not float(value).is_integer()]
            require(not fractions, rule, fractions[:1], advice)

    @property
    def is_sampled(self) -> bool:
        """Whether Optuna chooses the values of its runs."""
        return self.sampler != "grid"

    @property
    def sampler_name(self) -> str:
        """The sampler in one word."""
        return self.sampler if isinstance(self.sampler, str) else type(self.sampler).__name__

    def is_whole(self, name: str) -> bool:
        """Whether a tuned column takes whole numbers only; a function or command takes any."""
        return name in WHOLE_FIELDS and self.workload.name != OWN

    def allows(self, name: str, value: float) -> bool:
        """Whether training takes a value of a tuned column."""
        return (value.is_integer() or not self.is_whole(name)) and self.recipe.allows(name, value)

    def _all_sizes(self) -> tuple[Mapping[str, float], ...]:
        return (*self.size_points(), *(target.size for target in self.targets))

    def size_values(self, size: Mapping[str, float]) -> dict[str, float]:
        """A size's columns and the values that follow from them by the path.

        Raises:
            ValueError: A formula of the path gives no positive number there.
        """
        return {**size, **SizePath(self.path).values(size)} if self.path else dict(size)

    def conditions(self) -> dict[str, Option]:
        """Settings that all runs of the study share: the workload, its options, the recipe.

        Without what is tuned, what is a size or set by one, and what the optimiser does not look
        at. Of the options the numbers that the study gives: texts are places of data, which
        differ from machine to machine. Runs read from a storage have columns of the others too.
        """
        moving = {*self.tune, *self.sizes, *self.path}
        moving |= {"steps"} if TOKENS_COLUMN in moving else set()
        fields = () if self.workload.name == OWN else self.recipe.in_use()
        common = {
            **{k: v for k, v in self.workload.options.items() if not isinstance(v, str)},
            "workload": self.workload.name,
            **{name: _single(getattr(self.recipe, name)) for name in fields},
        }
        return {name: value for name, value in common.items() if name not in moving}

    def size_points(self) -> tuple[dict[str, float], ...]:
        """Every combination of the sizes, smallest first."""
        columns = list(self.sizes)
        grids = itertools.product(*(sorted(self.sizes[c]) for c in columns))
        return tuple(dict(zip(columns, point, strict=True)) for point in grids)

    def without_recipe(self) -> StudySpec:
        """The study as a function or command trains it: what that does is its own affair."""
        return replace(self, workload=replace(self.workload, name=OWN), recipe=Recipe())

    def grid_cells(self) -> tuple[Cell, ...]:
        """The cells of the sweep before any growth, sizes outermost, seeds innermost."""
        names = list(self.tune)
        grid = list(itertools.product(*(self.tune[name].values() for name in names)))
        return tuple(
            Cell.of(size, dict(zip(names, values, strict=True)), seed)
            for size in self.size_points()
            for values in grid
            for seed in self.seeds
        )

    def indices(self, name: str, start: int, stop: int) -> range:
        """The indices of a tuned column whose values training takes; no momentum of 1 and more."""
        tune = self.tune[name]
        possible = [
            i for i in range(start, stop) if 0 <= i < tune.n or self.allows(name, tune.value(i))
        ]
        return range(possible[0], possible[-1] + 1)

    def most_cells(self) -> int:
        """How many cells the grid has if it grows at every size as far as it may."""
        grown = [self.indices(n, -self.growth, r.n + self.growth) for n, r in self.tune.items()]
        return len(self.size_points()) * math.prod(map(len, grown)) * len(self.seeds)
