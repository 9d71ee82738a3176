"""A knob study as plain data: which fixed values of a study to move, where, and by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from extrap.records.fields import require_name
from extrap.records.recipe import TUNABLE
from extrap.records.study import Cell, StudySpec, TunedRange

ONE_MINUS = ("momentum", "beta1", "beta2")
"""Knobs whose distance from 1 is what is doubled and halved."""
DEFAULT_KNOBS = (
    "warmup",
    "decay",
    "momentum",
    "beta1",
    "beta2",
    "eps",
    "weight_decay",
    "clip",
    "init_scale",
    "depth",
    "precision",
)
"""Moved where a recipe uses them; the batch is not: twice the batch would see twice the data."""
OTHER_PRECISION = {"fp32": "bf16", "tf32": "bf16", "bf16": "fp32"}
SMALLEST_MOVE = 0.25
"""Octaves; a value that a recipe lets move by less is not moved to that side."""
N_SIZES = 3
FAR_ENOUGH = 0.75
"""How far up a study's sizes knobs are moved by default: the largest cost most."""
TIMES_LARGEST = 8.0
"""How far beyond the moved sizes the target lies when nobody names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobMove:
    """The values at which one knob is tried.

    Attributes:
        name: The knob: a field of the recipe, or `depth`.
        base: The value it is held at.
        values: Where it is moved to, lower first; empty if it cannot be moved.
        note: Why it is moved differently than to the half and the double; empty if it is not.
    """

    name: str
    base: float | str
    values: tuple[float | str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobStudy:
    """Which of a study's fixed values will be wrong at a larger size: one at a time, ×½ and ×2.

    Attributes:
        name: Name of the report.
        study: The study whose recipe is held fixed; its sweep says what the tuned values are at
            each size. One size column.
        knobs: What is moved; by default whatever the recipe uses.
        sizes: Where; by default three of the study's sizes, from the smallest to three quarters
            of the way up.
        seeds: Seeds, the same for all moves so that contrasts are paired; by default the study's.
        target: The size asked about; by default the study's largest target, or 8 times the
            largest moved size.
        question: Printed on the report.
    """

    name: str
    study: StudySpec
    knobs: tuple[str, ...] = ()
    sizes: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    target: Mapping[str, float] = field(default_factory=dict)
    question: str = "Which fixed value should be tuned before scaling up?"

    def __post_init__(self) -> None:
        require_name(self.name)
        if len(self.study.sizes) != 1:
            raise ValueError(
                "a sensitivity study needs one size column, got "
                f"{', '.join(self.study.sizes)}; fix the others in the workload's options."
            )
        known = {*TUNABLE, "depth", "precision"}
        for name in self.knobs:
            if name in self.study.tune:
                raise ValueError(
                    f"{name} is tuned by the study, so it is not a fixed setting; leave it out."
                )
            if name not in known:
                raise ValueError(
                    f"a setting must be one of {', '.join(sorted(known))}, got {name!r}."
                )
        points = self.sizes or self._default_sizes()
        if len(set(points)) < 2:
            raise ValueError(f"a drift needs at least 2 sizes, got {points}; add one.")
        n_seeds = len(set(self.seeds or self.study.seeds))
        if n_seeds < 2:
            raise ValueError(f"intervals need at least 2 seeds, got {n_seeds}; add seeds.")
        if self.target and set(self.target) != set(self.study.sizes):
            raise ValueError(
                f"the target must name the size column {self.column}, got {dict(self.target)}."
            )

    @property
    def column(self) -> str:
        """The size column."""
        return next(iter(self.study.sizes))

    @property
    def points(self) -> tuple[float, ...]:
        """The sizes at which knobs are moved, smallest first."""
        return tuple(sorted(set(self.sizes or self._default_sizes())))

    @property
    def target_size(self) -> float:
        """The size asked about."""
        asked = [self.target] if self.target else [target.size for target in self.study.targets]
        return max((size[self.column] for size in asked), default=TIMES_LARGEST * self.points[-1])

    def moves(self) -> tuple[KnobMove, ...]:
        """What each knob is moved to, those that cannot be moved included."""
        if self.knobs:
            return tuple(self._move(name) for name in dict.fromkeys(self.knobs))
        in_use = {*self.study.recipe.in_use(), *self.study.workload.options} - {*self.study.tune}
        return tuple(self._move(name) for name in DEFAULT_KNOBS if name in in_use)

    def moved_spec(self) -> StudySpec:
        """The study of the moves: tuned values and knobs are its tuned columns."""
        ranges = {name: replace(each, n=2) for name, each in self.study.tune.items()}
        sizes: dict[str, tuple[float, ...]] = {self.column: self.points}
        for move in self.moves():
            levels = [v for v in (move.base, *move.values) if not isinstance(v, str)]
            if move.name == "depth":
                sizes["depth"] = tuple(sorted(levels))
            elif move.values and move.name in TUNABLE:
                ranges[move.name] = TunedRange(low=min(levels), high=max(levels), n=2)
        return replace(
            self.study,
            name=f"{self.name}-moved",
            sizes=sizes,
            tune=ranges,
            seeds=self.seeds or self.study.seeds,
            targets=(),
            sampler="grid",
        )

    def precision_spec(self) -> StudySpec | None:
        """The study of the runs in the other precision; None if precision is no knob."""
        other = [v for move in self.moves() if move.name == "precision" for v in move.values]
        if not other:
            return None
        spec = self.moved_spec()
        recipe = replace(spec.recipe, precision=str(other[0]))
        return replace(spec, name=f"{spec.name}-{other[0]}", recipe=recipe)

    def cells(self, tuned: Mapping[float, Mapping[str, float]]) -> tuple[Cell, ...]:
        """Every run but those in another precision: the centre, then one knob moved at a time.

        Args:
            tuned: Size → the tuned values there.
        """
        spec, found = self.moved_spec(), []
        for point in self.points:
            for changed in [{}, *self._changes()]:
                values = {**self._bases(), **changed}
                size = {c: point if c == self.column else values[c] for c in spec.sizes}
                own = {**values, **tuned[point]}
                found += [
                    Cell.of(size, {c: own[c] for c in spec.tune}, seed) for seed in spec.seeds
                ]
        return tuple(found)

    def centre_cells(self, tuned: Mapping[float, Mapping[str, float]]) -> tuple[Cell, ...]:
        """The runs at which no knob is moved; in another precision the only ones."""
        n_seeds, n_settings = len(self.seeds or self.study.seeds), 1 + len(self._changes())
        cells = self.cells(tuned)
        return tuple(cell for i, cell in enumerate(cells) if i % (n_seeds * n_settings) < n_seeds)

    def _default_sizes(self) -> tuple[float, ...]:
        sizes = sorted(set(self.study.sizes[next(iter(self.study.sizes))]))
        end = len(sizes) - 1
        last = min(end, max(N_SIZES - 1, round(FAR_ENOUGH * end)))
        return tuple(sizes[round(i * last / (N_SIZES - 1))] for i in range(N_SIZES))

    def _bases(self) -> dict[str, float]:
        return {m.name: m.base for m in self.moves() if m.values and not isinstance(m.base, str)}

    def _changes(self) -> list[dict[str, float]]:
        return [
            {move.name: value}
            for move in self.moves()
            for value in move.values
            if not isinstance(value, str)
        ]

    def _move(self, name: str) -> KnobMove:
        if name == "precision":
            kept = self.study.recipe.precision
            return KnobMove(name=name, base=kept, values=(OTHER_PRECISION[kept],))
        if name == "depth":
            return self._move_depth()
        base = float(getattr(self.study.recipe, name))
        if base == 0:
            return KnobMove(
                name=name,
                base=0.0,
                values=(),
                note="it is 0, which cannot be doubled; give it a value",
            )
        halves = (self._moved(name, base, -1.0), self._moved(name, base, 1.0))
        values = tuple(sorted(v for v in halves if v is not None))
        moved = [octaves_from(name, base, value) for value in values]
        if len(values) == 2 and all(abs(abs(u) - 1) < 1e-6 for u in moved):
            return KnobMove(name=name, base=base, values=values)
        note = "neither half nor twice its value is allowed by the recipe"
        return KnobMove(name=name, base=base, values=values, note=note)

    def _move_depth(self) -> KnobMove:
        base = self.study.workload.options.get("depth")
        if not isinstance(base, int):
            raise ValueError(
                "depth is varied through the workload's option depth, which the study leaves "
                "at its default; name it: Workload(name=…, options={'depth': 3})."
            )
        halved = max(1, round(base / 2))
        values = tuple(float(v) for v in (halved, 2 * base) if v != base)
        note = "" if 2 * halved == base else "it is a whole number"
        return KnobMove(name="depth", base=float(base), values=values, note=note)

    def _moved(self, name: str, base: float, octaves: float) -> float | None:
        """A value so many octaves off, or as far as the recipe allows; None if too near."""
        part = 1.0
        while part * abs(octaves) >= SMALLEST_MOVE:
            value = _at(name, base, part * octaves)
            if self.study.recipe.allows(name, value):
                return value
            part -= 1 / 16
        return None


def octaves_from(name: str, base: float, value: float) -> float:
    """Octaves of a knob's value from its base; of β and momentum those of their distance to 1."""
    if name in ONE_MINUS:
        return math.log2((1 - value) / (1 - base))
    return math.log2(value / base)


def _at(name: str, base: float, octaves: float) -> float:
    """The value so many octaves from the base."""
    value = 1 - (1 - base) * 2**octaves if name in ONE_MINUS else base * 2**octaves
    return float(f"{value:.12g}")
