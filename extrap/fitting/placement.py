"""Where the next runs of a sweep teach most about the optimum and how it moves with size.

Four values a size, one and two octaves to each side of the optimum, locate it better than a grid:
a value at the optimum itself says nothing about where it is. The law through the sizes done
predicts where to put them at the next; seeds are added where they shrink the error of the slope.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.surface import MISFIT_SCALE, POOLED
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
"""Seeds at every value, before more are spent."""
INNER, OUTER, BETWEEN = (-1.0, 1.0), (-2.0, 2.0), (-1.5, 1.5)
"""Offsets from the optimum, in spacings."""
LEVELS = ((INNER + OUTER, FIRST_SEEDS), (INNER, None), (OUTER, None), (BETWEEN, None))
"""What a size is given, step by step: offsets, and how many seeds at each; None for all."""
REACH = 0.5
"""A value tried within so many spacings of an offset stands for it."""
UNKNOWN_SD = 0.01
"""Standard deviation of a log loss where nothing was repeated."""
MISFIT = 0.05
"""Share of its excess by which a value lies off the polynomial."""
SEPARABLE = 1e-9
"""Least share of a third-order term that lower orders must leave."""

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
        curvature: Second derivative of the log loss there, per octave²; None without a minimum.
        square: Squares of what values and seeds leave of the log losses.
        dof: Degrees of freedom of it.
    """

    losses: Mapping[int, float]
    position: float
    curvature: float | None
    square: float
    dof: int


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
    observed one, with two seeds each: it is bracketed as far as growth and budget allow. Then more
    seeds, those of the two inner values first, go where they most reduce the predicted variance of
    the slope of log2 optimum on log2 size. It ends when that variance is what the declared grid
    would give, or when the budget is spent.

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
    """What to train next: the first size that is not settled yet, else seeds for all.

    A correction must leave enough for the sizes that have not begun.
    """
    profiles: list[_Profile] = []
    for number in range(len(plan.sizes)):
        here = {(index, seed): y for (size, index, seed), y in known.items() if size == number}
        if not here:
            return _begin(plan, number, [profile.position for profile in profiles])
        profiles.append(_profile(plan, here))
        batch = [p for p in _places(plan, number, profiles[-1], level=0) if p not in known]
        begun = len({size for size, _, _ in known})
        reserved = (len(plan.sizes) - begun) * _block_size(plan)
        if batch and len(known) + len(batch) + reserved <= plan.budget:
            return batch
    return _reinforce(plan, profiles, known)


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
    """Runs of a size at level 0."""
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
    effects, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    n_runs = (values[:, None] == stable).sum(axis=0)
    losses = dict(zip(stable.tolist(), effects[: len(stable)].tolist(), strict=True))
    position, curvature = _vertex(plan, losses, n_runs, failed)
    return _Profile(
        losses=losses | dict.fromkeys(sorted(failed), math.inf),
        position=position,
        curvature=curvature,
        square=float(np.sum((y - design @ effects) ** 2)),
        dof=len(y) - int(rank),
    )


def _vertex(
    plan: _Plan, losses: Mapping[int, float], n_runs: Array, failed: Collection[int]
) -> tuple[float, float | None]:
    """log2 of the optimum by a weighted parabola, and the curvature there.

    It is at most a spacing from the best value, and that value itself at the end of those tried.
    """
    if not losses:  # everything failed: lower
        return plan.log2(min(failed)) - plan.spacing, None
    best = min(losses, key=lambda index: (losses[index], index))
    tried = (*losses, *failed)
    if len(losses) < 3 or best in (min(tried), max(tried)):
        return plan.log2(best), None
    u = plan.step * (np.array(list(losses)) - best)
    excess = np.array(list(losses.values())) - losses[best]
    weights = n_runs / (1 + (excess / MISFIT_SCALE) ** 2)
    _, slope, half = np.polynomial.polynomial.polyfit(u, excess, 2, w=np.sqrt(weights))
    if half <= 0:
        return plan.log2(best), None
    shift = min(max(-slope / (2 * half), -plan.spacing), plan.spacing)
    return plan.log2(best) + float(shift), float(2 * half)


def _places(plan: _Plan, number: int, profile: _Profile, *, level: int) -> list[Place]:
    """The runs of a size up to a level."""
    places: dict[Place, None] = {}
    for offsets, n_seeds in LEVELS[: level + 1]:
        for offset in offsets:
            index = _stand_in(plan, profile, offset)
            if index is not None:
                places.update(((number, index, seed), None) for seed in plan.seeds[:n_seeds])
    return list(places)


def _stand_in(plan: _Plan, profile: _Profile, offset: float) -> int | None:
    """The index that stands for an offset: one tried nearby, else the nearest there is.

    Beside the optimum a value that failed is replaced by one halfway to those that did not;
    beyond it nothing is tried.
    """
    aim = profile.position + offset * plan.spacing
    reach = REACH * plan.spacing
    failed = [index for index, y in profile.losses.items() if math.isinf(y)]
    if offset not in BETWEEN:
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


def _reinforce(
    plan: _Plan, profiles: Sequence[_Profile], known: Mapping[Place, float]
) -> list[Place]:
    """More runs, step by step those that help most, until the slope is known as by the grid."""
    curvatures = [p.curvature for p in profiles if p.curvature is not None]
    if not curvatures:
        return []
    dof = sum(p.dof for p in profiles)
    precision = Precision(
        curvature=float(np.median(curvatures)),
        sd=math.sqrt(sum(p.square for p in profiles) / dof) if dof else UNKNOWN_SD,
        weights=slope_weights(plan.log2_sizes),
    )
    n_seeds = np.full(len(plan.grid), len(plan.seeds))
    grid = [precision.of_position(plan.grid - p.position, n_seeds) for p in profiles]
    chosen: dict[Place, None] = dict.fromkeys(known)
    variances = [_variance(plan, precision, i, p, chosen) for i, p in enumerate(profiles)]
    while precision.of_slope(variances) > precision.of_slope(grid):
        step = _best_step(plan, precision, profiles, variances, chosen)
        if not step:
            break
        chosen.update(dict.fromkeys(step))
        number = step[0][0]
        variances[number] = _variance(plan, precision, number, profiles[number], chosen)
    return [place for place in chosen if place not in known]


def _best_step(
    plan: _Plan,
    precision: Precision,
    profiles: Sequence[_Profile],
    variances: Sequence[float],
    chosen: Mapping[Place, None],
) -> list[Place]:
    """The next level of the size where it reduces the slope's variance most, for each run."""
    best: list[Place] = []
    most = 0.0
    for number, profile in enumerate(profiles):
        new = _next_level(plan, number, profile, chosen)
        if not new or len(chosen) + len(new) > plan.budget:
            continue
        after = _variance(plan, precision, number, profile, [*chosen, *new])
        changed = [*variances[:number], after, *variances[number + 1 :]]
        gain = (precision.of_slope(variances) - precision.of_slope(changed)) / len(new)
        if gain > most or (math.isnan(gain) and not best):  # both infinite
            best, most = new, max(gain, 0.0)
    return best


def _next_level(
    plan: _Plan, number: int, profile: _Profile, chosen: Mapping[Place, None]
) -> list[Place]:
    """The runs that take a size to its next level; none at the last."""
    for level in range(1, len(LEVELS)):
        new = [p for p in _places(plan, number, profile, level=level) if p not in chosen]
        if new:
            return new
    return []


def _variance(
    plan: _Plan, precision: Precision, number: int, profile: _Profile, chosen: Iterable[Place]
) -> float:
    """Predicted variance of the optimum of a size with the runs chosen."""
    counts: dict[int, int] = {}
    for size, index, _ in chosen:
        if size == number and math.isfinite(profile.losses.get(index, 0.0)):
            counts[index] = counts.get(index, 0) + 1
    offsets = np.array([plan.log2(index) for index in counts]) - profile.position
    return precision.of_position(offsets, np.array(list(counts.values())))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Precision:
    """Predicted variances from noise and curvature alone; unit octave², one tuned value.

    Attributes:
        curvature: Second derivative of the log loss at the optimum, per octave².
        sd: Standard deviation of the log loss of one run, without what its seed does to all runs.
        weights: Of the optima in each slope, shape (n_slopes, n_sizes).
    """

    curvature: float
    sd: float
    weights: Array

    def of_position(self, offsets: Array, n_runs: Array) -> float:
        """Variance of the vertex of a cubic, fitted with the weights of `estimate_optima`."""
        if len(offsets) < 3:
            return math.inf
        excess = 0.5 * self.curvature * offsets**2
        share = (excess - excess.min()) / max(MISFIT_SCALE, self.sd)
        weights = n_runs / (1 + share**2)
        terms = offsets[:, None] ** np.arange(4)
        normal = (terms.T * weights) @ terms
        lower = np.linalg.lstsq(normal[:3, :3], normal[:3, 3], rcond=None)[0]
        third = normal[3, 3] - normal[3, :3] @ lower
        kept = slice(0, 4 if third > SEPARABLE * normal[3, 3] else 3)
        normal[3, 3] += POOLED * third
        gain = np.linalg.pinv(normal[kept, kept])[1] @ (terms[:, kept].T * weights)
        variance = self.sd**2 / n_runs + (MISFIT * excess) ** 2
        return float(gain**2 @ variance) / self.curvature**2

    def of_slope(self, variances: Sequence[float]) -> float:
        """Variance of the slope of log2 optimum on log2 size; of several slopes, the sum."""
        return float(np.sum(self.weights**2 @ np.array(variances)))


def slope_weights(log2_sizes: Array) -> Array:
    """Weights of the optima in the least-squares slopes; alike where the sizes do not tell."""
    n, columns = log2_sizes.shape
    design = np.column_stack([np.ones(n), log2_sizes])
    if np.linalg.matrix_rank(design) <= columns:
        return np.full((1, n), 1 / n)
    return np.asarray(np.linalg.pinv(design)[1:])
