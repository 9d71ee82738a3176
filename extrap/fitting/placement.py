"""Where the next runs of a sweep teach most about the optimum and how it moves with size.

Four values a size, one and two octaves to each side of the optimum, locate it better than a grid:
a value at the optimum itself says nothing about where it is. The law through the sizes done
predicts where to put them at the next.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.surface import MISFIT_SCALE
from extrap.laws.base import Array
from extrap.records import Cell, Runs, StudySpec
from extrap.records.fields import ROUNDING

SPACING = 1.0
"""Octaves between neighbouring values on a side …"""
SPACINGS = 6.0
"""… or, of a narrow range, its width over this."""
FINENESS = 8
"""Values lie on a lattice of so many points per spacing."""
SCAN = 1.5
"""Spacings between the values tried first at the smallest size."""
FIRST_SEEDS = 2
"""Seeds at every value until every size is bracketed."""
INNER, OUTER = (-1.0, 1.0), (-2.0, 2.0)
"""Offsets from the optimum, in spacings."""
REACH = 0.5
"""A value tried within so many spacings of an offset stands for it."""

Place = tuple[int, int, int]
"""Number of the size, index on the lattice, seed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """A study in the terms of this module.

    The value of an index is `2^(low + step · index)`; `first` and `last` are the range grown by
    the study's growth. Grid values are log2; `log2_sizes` has shape (n_sizes, n_columns).
    """

    name: str
    low: float
    step: float
    first: int
    last: int
    grid: Array
    seeds: tuple[int, ...]
    sizes: tuple[Mapping[str, float], ...]
    log2_sizes: Array
    budget: int

    @property
    def spacing(self) -> float:
        return self.step * FINENESS

    def log2(self, index: int) -> float:
        return self.low + self.step * index

    def nearest(self, log2_value: float) -> int:
        """The index nearest to a value, within the range."""
        return min(max(round((log2_value - self.low) / self.step), self.first), self.last)

    def cell(self, place: Place) -> Cell:
        number, index, seed = place
        return Cell.of(self.sizes[number], {self.name: 2 ** self.log2(index)}, seed)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Profile:
    """What one size has shown.

    Attributes:
        losses: Lattice index → log loss without what seeds do; infinite if any seed failed.
        position: log2 of the optimum, as far as it is known.
    """

    losses: Mapping[int, float]
    position: float


def can_place(spec: StudySpec) -> bool:
    """Whether `place_runs` designs the sweep itself, and so spends no more than the grid would.

    It takes one tuned column, and a grid that costs at least as much as the first runs.
    """
    if len(spec.tune) != 1:
        return False
    plan = _plan(spec, None)
    return plan.budget >= len(_scan(plan)) + len(plan.sizes) * _block_size(plan)


def place_runs(spec: StudySpec, runs: Runs, *, budget: int | None = None) -> tuple[Cell, ...]:
    """The runs that teach most about the law of the optimum: a sequential design.

    The smallest size is scanned over the declared range. Every size then gets four values, one
    and two octaves to either side of its predicted optimum and corrected until they surround the
    observed one, with two seeds each: it is bracketed as far as growth and budget allow. The other
    seeds follow at the same values of all sizes.

    Each round looks only at the runs of the rounds before it, all of them finished: whatever the
    order of finishing, a resumed study, or one shared by several processes, wants the same cells.
    A run that is not complete counts as worse than any other.

    Args:
        spec: A study of which `can_place` says yes.
        runs: Its runs so far.
        budget: The most runs to spend; by default as many as the declared grid has.

    Returns:
        All cells wanted, the finished ones among them.

    References:
        Ours. Chernoff (1953), Locally optimal designs for estimating parameters, Ann. Math.
        Statist. 24, 586: the best places depend on what they are to find, hence the rounds.
    """
    plan, finished = _plan(spec, budget), _finished(runs)
    wanted: dict[Place, Cell] = {}
    while all(cell in finished for cell in wanted.values()):
        known = {place: finished[cell] for place, cell in wanted.items()}
        batch = _next_batch(plan, known)
        if not batch or len(wanted) + len(batch) > plan.budget:
            break
        wanted.update((place, plan.cell(place)) for place in batch)
    return tuple(wanted.values())


def _plan(spec: StudySpec, budget: int | None) -> _Plan:
    ((name, tune),) = spec.tune.items()
    grid = np.log2(tune.values())
    step = min(SPACING, float(grid[-1] - grid[0]) / SPACINGS) / FINENESS
    low, high = (math.log2(tune.value(i)) for i in (-spec.growth, tune.n - 1 + spec.growth))
    points = spec.size_points()
    return _Plan(
        name=name,
        low=float(grid[0]),
        step=step,
        first=-math.floor((grid[0] - low) / step + ROUNDING),
        last=math.floor((high - grid[0]) / step + ROUNDING),
        grid=grid,
        seeds=spec.seeds,
        sizes=points,
        log2_sizes=np.log2([[point[c] for c in spec.sizes] for point in points]),
        budget=len(spec.grid_cells()) if budget is None else budget,
    )


def _finished(runs: Runs) -> dict[Cell, float]:
    """Finished cell → log loss, infinite unless complete."""
    finished = {}
    for row in runs.to_frame().to_dict("records"):
        if row["status"] != "failed":
            size, tuned = ({c: row[c] for c in columns} for columns in (runs.sizes, runs.tuned))
            loss = math.log(row["loss"]) if row["status"] == "complete" else math.inf
            finished[Cell.of(size, tuned, row["seed"])] = loss
    return finished


def _next_batch(plan: _Plan, known: Mapping[Place, float]) -> list[Place]:
    """What to train next: the first size that is not settled yet, else the seeds left for all.

    A correction must leave enough for the sizes that have not begun.
    """
    profiles: list[_Profile] = []
    for number in range(len(plan.sizes)):
        here = {(index, seed): y for (size, index, seed), y in known.items() if size == number}
        if not here:
            return _begin(plan, number, [profile.position for profile in profiles])
        profiles.append(_profile(plan, here))
        wanted = _places(plan, number, profiles[-1], plan.seeds[:FIRST_SEEDS])
        batch = [place for place in wanted if place not in known]
        begun = len({size for size, _, _ in known})
        reserved = (len(plan.sizes) - begun) * _block_size(plan)
        if batch and len(known) + len(batch) + reserved <= plan.budget:
            return batch
    wanted = [
        place
        for seed in plan.seeds
        for number, profile in enumerate(profiles)
        for place in _places(plan, number, profile, [seed])
    ]
    return [place for place in wanted if place not in known][: plan.budget - len(known)]


def _begin(plan: _Plan, number: int, positions: Sequence[float]) -> list[Place]:
    """The first runs of a size: a scan, or around what the smaller sizes predict."""
    if not positions:
        return _scan(plan)
    x = np.column_stack([np.ones(len(plan.sizes)), plan.log2_sizes - plan.log2_sizes[0]])
    law = np.linalg.lstsq(x[:number], np.array(positions), rcond=None)[0]
    centre = plan.log2(plan.nearest(float(x[number] @ law)))
    aims = (centre + offset * plan.spacing for offset in sorted(OUTER + INNER))
    indices = dict.fromkeys(plan.nearest(aim) for aim in aims)
    return [(number, index, seed) for index in indices for seed in plan.seeds[:FIRST_SEEDS]]


def _scan(plan: _Plan) -> list[Place]:
    """One seed over the declared range at the smallest size."""
    stride = round(SCAN * FINENESS)
    scanned = range(0, plan.nearest(plan.grid[-1]) + 1, stride)
    return [(0, index, plan.seeds[0]) for index in scanned]


def _block_size(plan: _Plan) -> int:
    """Runs of a size until it is bracketed."""
    return len(INNER + OUTER) * min(FIRST_SEEDS, len(plan.seeds))


def _profile(plan: _Plan, here: Mapping[tuple[int, int], float]) -> _Profile:
    """Take out what seeds do, then find the minimum."""
    failed = {index for (index, _), y in here.items() if math.isinf(y)}
    tried = sorted({index for index, _ in here})
    stable = np.array([index for index in tried if index not in failed], dtype=int)
    rows = [(index, seed) for index, seed in here if index not in failed]
    values, seeds = np.array(rows, dtype=int).reshape(-1, 2).T
    y = np.array([here[row] for row in rows])
    contrasts = seeds[:, None] == np.unique(seeds)[1:]
    design = np.column_stack([values[:, None] == stable, contrasts]).astype(float)
    effects = np.linalg.lstsq(design, y, rcond=None)[0]
    n_runs = (values[:, None] == stable).sum(axis=0)
    losses = dict(zip(stable.tolist(), effects[: len(stable)].tolist(), strict=True))
    return _Profile(
        losses=losses | dict.fromkeys(sorted(failed), math.inf),
        position=_vertex(plan, losses, n_runs, failed),
    )


def _vertex(
    plan: _Plan, losses: Mapping[int, float], n_runs: Array, failed: Collection[int]
) -> float:
    """log2 of the optimum by a weighted parabola.

    It is at most a spacing from the best value, and that value itself at the end of those tried.
    """
    if not losses:  # everything failed: lower
        return plan.log2(min(failed)) - plan.spacing
    best = min(losses, key=lambda index: (losses[index], index))
    tried = (*losses, *failed)
    if len(losses) < 3 or best in (min(tried), max(tried)):
        return plan.log2(best)
    u = plan.step * (np.array(list(losses)) - best)
    excess = np.array(list(losses.values())) - losses[best]
    weights = n_runs / (1 + (excess / MISFIT_SCALE) ** 2)
    _, slope, half = np.polynomial.polynomial.polyfit(u, excess, 2, w=np.sqrt(weights))
    if half <= 0:
        return plan.log2(best)
    shift = min(max(-slope / (2 * half), -plan.spacing), plan.spacing)
    return plan.log2(best) + float(shift)


def _places(plan: _Plan, number: int, profile: _Profile, seeds: Sequence[int]) -> list[Place]:
    """The four values of a size, each with these seeds."""
    indices = dict.fromkeys(_stand_in(plan, profile, offset) for offset in INNER + OUTER)
    return [(number, index, seed) for index in indices if index is not None for seed in seeds]


def _stand_in(plan: _Plan, profile: _Profile, offset: float) -> int | None:
    """The index that stands for an offset: one tried nearby, else the nearest there is.

    Beside the optimum a value that failed is replaced by one halfway to those that did not;
    beyond it nothing is tried.
    """
    aim = profile.position + offset * plan.spacing
    reach = REACH * plan.spacing
    failed = [index for index, y in profile.losses.items() if math.isinf(y)]
    near = [index for index in profile.losses if abs(plan.log2(index) - aim) <= reach]
    stable = [index for index in near if index not in failed]
    if stable:
        return min(stable, key=lambda index: (abs(plan.log2(index) - aim), index))
    if near and offset in INNER:
        return _halfway(profile, failed, upwards=offset > 0)
    nominal = plan.nearest(aim)
    low, high = sorted((profile.position, plan.log2(nominal)))
    is_beyond = any(low <= plan.log2(index) <= high for index in failed)
    return None if is_beyond or abs(plan.log2(nominal) - aim) > reach else nominal


def _halfway(profile: _Profile, failed: Sequence[int], *, upwards: bool) -> int | None:
    """Between the last stable value on a side and the first that failed; None if they are near."""
    sign = 1 if upwards else -1
    last = max((sign * index for index in profile.losses if index not in failed), default=None)
    if last is None:
        return None
    first = min((sign * index for index in failed if sign * index > last), default=last)
    return None if first - last <= FINENESS // 4 else sign * ((first + last) // 2)
