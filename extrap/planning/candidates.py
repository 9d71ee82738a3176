"""What may be bought next: seeds and values at swept sizes, first runs at new ones, the target."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.fitting import recommend
from extrap.fitting.vertices import VertexModel
from extrap.forecasting import Forecast
from extrap.laws.base import Array
from extrap.records import Runs

INNER, OUTER = 0.8, 1.6
"""Offsets from the optimum, in units of the distance at which a run's weight halves."""
REACH = 0.5
"""A value tried within so many octaves of the one wanted stands for it."""
FAR = 1.5
"""Of cells that are given, none farther than so many octaves from the one wanted is bought."""
FACTORS = (2**0.5, 2.0)
"""Sizes beyond the sweep, as multiples of the largest …"""
MOST_OF_TARGET = 0.5
"""… and at most this share of the target."""
MOST_SIZES = 40
MOST_SEEDS = 4
"""At one size and one set of values: what a law errs by at a size is not mended by more."""
SAME = 1e-6

Cell = tuple[tuple[float, ...], int]
"""Tuned values and seed."""
Offer = tuple[tuple[float, ...], int | None]
"""The same; without a seed where none is named."""
Key = tuple[float, ...]
"""A size, in the order of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Runs that are bought together at one size."""

    size: Mapping[str, float]
    cells: tuple[Cell, ...]
    octaves: tuple[tuple[float, ...], ...]
    reason: str


@dataclass(slots=True, kw_only=True)
class Market:
    """Which runs exist, and which may be bought.

    Attributes:
        forecast: Where the optima are.
        model: How far from them runs tell most.
        among: Size → the cells that may be bought there; None where any may.
        at: The target: there the recommended values are tried.
        most_seeds: At one size and one set of values, with those that exist.
        tried: Size → the cells that exist or are bought, in order.
        free: Size → the cells of `among` that are left.
    """

    forecast: Forecast
    model: VertexModel
    among: Mapping[Key, list[Offer]] | None = None
    at: Mapping[str, float] = field(default_factory=dict)
    most_seeds: int = MOST_SEEDS
    tried: dict[Key, list[Cell]] = field(default_factory=dict)
    free: dict[Key, list[Offer]] = field(default_factory=dict)
    _centres: dict[Key, Array | None] = field(default_factory=dict)
    _reaches: dict[Key, Array] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)

    def copy(self) -> Market:
        """The same, to buy from on its own."""
        tried, free = ({k: [*v] for k, v in d.items()} for d in (self.tried, self.free))
        return replace(self, tried=tried, free=free, _known=set(self._known))

    def __post_init__(self) -> None:
        if self.tried:
            return
        for size, cell in _cells(self.forecast.runs, self.forecast.runs.to_frame()):
            self.tried.setdefault(size, []).append((cell[0], cell[1] or 0))
            self._known.add(cell[1] or 0)
        for size, offered in (self.among or {}).items():
            self.free[size] = [c for c in offered if not self._is_tried(size, c)]

    def _is_tried(
        self, size: tuple[float, ...], cell: tuple[tuple[float, ...], int | None]
    ) -> bool:
        if not cell[0] and cell[1] is None:  # the next free seed
            return False
        return any(
            _alike(cell[0], values) and cell[1] in (None, seed)
            for values, seed in self.tried.get(size, [])
        )

    def take(self, move: Move) -> None:
        """Buy."""
        key = tuple(move.size.values())
        self.tried.setdefault(key, []).extend(move.cells)
        self._known.update(seed for _, seed in move.cells)
        if key in self.free:
            for cell in move.cells:
                offer = cell if cell in self.free[key] else (cell[0], None)
                if offer in self.free[key]:
                    self.free[key].remove(offer)

    def moves(self, size: Mapping[str, float], *, is_known: bool) -> list[Move]:
        """What may be bought at a size next; `is_known`: its optimum is, or will be."""
        if not self.forecast.runs.tuned:
            found = [self._seed_alone(size, is_known=is_known)]
        elif is_known:
            found = [self._around(size, shape, n_seeds=1) for shape in self._shapes(size)]
        else:
            shape = self._block(size)
            found = [self._around(size, shape, n_seeds=n, is_first=True) for n in (1, 2)]
        return [move for move in found if move is not None]

    def with_seed(self, size: Mapping[str, float], seed: int) -> Move | None:
        """One seed at the values beside the optimum."""
        if not self.forecast.runs.tuned:
            move = Move(size=dict(size), cells=(((), seed),), octaves=((),), reason="replicate")
            return move if self._is_free(size, ((), seed)) else None
        return self._around(size, self._shapes(size)[0], n_seeds=1, seed=seed)

    def seeds(self) -> list[int]:
        """Every seed there is, and where any may be bought the next one, in order."""
        if self.among is None:
            return [*sorted(self._known), max(self._known, default=-1) + 1]
        offered = {s for cells in self.among.values() for _, s in cells if s is not None}
        return sorted(self._known | offered)

    def _is_free(self, size: Mapping[str, float], cell: Cell) -> bool:
        key = tuple(size.values())
        if self.among is not None and cell not in self.among.get(key, []):
            return False
        return cell not in self.tried.get(key, []) and self._may_add(key, cell[0])

    def _may_add(self, key: Key, values: Sequence[float], more: Iterable[Cell] = ()) -> bool:
        """Whether a place may have a seed more than those there, and those about to be."""
        cells = (*self.tried.get(key, []), *more)
        return len({seed for v, seed in cells if _alike(v, values)}) < self.most_seeds

    def bracket(self, size: Mapping[str, float], edge: Mapping[str, str]) -> Move | None:
        """The next two values beyond the edge at which a size was best."""
        key = tuple(size.values())
        names = self.forecast.runs.tuned
        values = np.log2([cell[0] for cell in self.tried.get(key, [])])
        if not len(values) or not edge:
            return None
        wanted = []
        for step in (1.0, 2.0):
            at = np.median(values, axis=0)
            for name, side in edge.items():
                j = names.index(name)
                ends = np.unique(np.round(values[:, j], 6))
                gap = float(np.median(np.diff(ends))) if len(ends) > 1 else 1.0
                at[j] = ends[0] - step * gap if side == "low" else ends[-1] + step * gap
            wanted.append(at)
        centre = self._centre(size)
        shift = np.zeros(len(names)) if centre is None else centre
        return self._around(size, np.array(wanted) - shift, n_seeds=1, reason="bracket")

    def _seed_alone(self, size: Mapping[str, float], *, is_known: bool) -> Move | None:
        key = tuple(size.values())
        used = [seed for _, seed in self.tried.get(key, [])]
        if not self._may_add(key, ()):
            return None
        if self.among is not None:
            offered = [s for _, s in self.free.get(key, [])]
            free = [s for s in offered if s is not None and s not in used]
            if None in offered:
                free.append(_fresh(used, self._seeds()))
            seed = min(free, default=None)
        else:
            seed = _fresh(used, self._seeds())
        if seed is None:
            return None
        reason = "replicate" if is_known else "new size"
        return Move(size=dict(size), cells=(((), seed),), octaves=((),), reason=reason)

    def _centre(self, size: Mapping[str, float]) -> Array | None:
        """The predicted optimum, log2; None without a law."""
        key = tuple(size.values())
        if key not in self._centres:
            found = self.forecast.predict_tuned(size, refuse=False)
            values = [estimate.value for estimate in found.values()]
            known = None if None in values else np.log2(np.array(values, dtype=float))
            self._centres[key] = known
        return self._centres[key]

    def _shapes(self, size: Mapping[str, float]) -> list[Array]:
        """Where a further seed is trained: about the optimum, at the target at what is advised."""
        stars = [self._star(size, radius) for radius in (INNER, OUTER)]
        if dict(size) != dict(self.at):
            return stars
        made, middle = self.forecast, np.zeros((1, len(stars[0][0])))
        laws = {name: law for name, law in made.tuned_laws.items() if law is not None}
        if made.excess_curve is not None and len(laws) == middle.size:
            advised = recommend(
                laws, size, excess_curve=made.excess_curve, divergence=made.divergence
            )
            middle[0] = [*advised.octaves.values()]
        return [middle, np.vstack([middle, stars[1]])]

    def _star(self, size: Mapping[str, float], radius: float) -> Array:
        """Two places on each axis, one to either side."""
        reach = self._reach(size) * radius
        return np.vstack([np.diag(-reach), np.diag(reach)])

    def _reach(self, size: Mapping[str, float]) -> Array:
        """Octaves at which a run costs what halves its weight."""
        key = tuple(size.values())
        if key not in self._reaches:
            self._reaches[key] = np.array(self.model.spacing(size))
        return self._reaches[key]

    def _block(self, size: Mapping[str, float]) -> Array:
        """What determines a surface: all shapes, and the corners between several columns."""
        parts = self._shapes(size)[-1:] if dict(size) == dict(self.at) else self._shapes(size)
        d = len(self.forecast.runs.tuned)
        if d > 1:
            reach = self._reach(size) * INNER
            parts.append(np.array(list(itertools.product((-1.0, 1.0), repeat=d))) * reach)
        return np.vstack(parts)

    def _around(
        self,
        size: Mapping[str, float],
        wanted: Array,
        *,
        n_seeds: int,
        is_first: bool = False,
        reason: str | None = None,
        seed: int | None = None,
    ) -> Move | None:
        """Cells at places about the predicted optimum, in octaves from it."""
        centre = self._centre(size)
        if centre is None and reason is None:
            return None
        middle = np.zeros(wanted.shape[1]) if centre is None else centre
        key = tuple(size.values())
        tried = self.tried.get(key, [])
        choose = self._anything if self.among is None else self._among
        cells = choose(key, wanted + middle, tried, n_seeds, seed)
        if not cells or (is_first and not self._determine(cells, wanted, middle, n_seeds)):
            return None
        values = {cell[0] for cell in tried}
        repeats = all(cell[0] in values or _is_among(cell[0], values) for cell in cells)
        known = "new size" if is_first else "replicate" if repeats else "new values"
        octaves = tuple(tuple(map(float, np.log2(cell[0]) - middle)) for cell in cells)
        return Move(size=dict(size), cells=tuple(cells), octaves=octaves, reason=reason or known)

    def _determine(
        self, cells: Sequence[Cell], wanted: Array, centre: Array, n_seeds: int
    ) -> bool:
        """Whether the first runs of a size tell its optimum.

        Of cells that are given, these are values enough for a surface, to both sides of it.
        """
        if self.among is None:
            return len(cells) >= len(wanted) * n_seeds
        values = np.log2(sorted({cell[0] for cell in cells})) - centre
        enough = len(values) >= min(2 * wanted.shape[1] + 1, len(wanted))
        return enough and bool(((values.min(axis=0) < 0) & (values.max(axis=0) > 0)).all())

    def _anything(
        self,
        key: tuple[float, ...],
        places: Array,
        tried: Sequence[Cell],
        n_seeds: int,
        only: int | None,
    ) -> list[Cell]:
        """The values tried nearby, else those wanted; with the first seed that is new to all."""
        known = list(dict.fromkeys(cell[0] for cell in tried))
        near = [_nearest(place, known) for place in places]
        chosen = [
            tuple(float(f"{v:.6g}") for v in 2.0**place) if values is None else values
            for place, values in zip(places, near, strict=True)
        ]
        chosen = list(dict.fromkeys(chosen))
        used = [seed for values, seed in tried if values in chosen]
        cells: list[Cell] = []
        for _ in range(n_seeds):
            seed = _fresh(used, self._seeds()) if only is None else only
            used.append(seed)
            fresh = [(values, seed) for values in chosen if (values, seed) not in tried]
            cells += [cell for cell in fresh if self._may_add(key, cell[0], cells)]
        return cells

    def _among(
        self,
        key: tuple[float, ...],
        places: Array,
        tried: Sequence[Cell],
        n_seeds: int,
        only: int | None,
    ) -> list[Cell]:
        """The nearest cells that may be bought and were not."""
        free = [cell for cell in self.free.get(key, []) if only in (None, cell[1])]
        free = [cell for cell in free if self._may_add(key, cell[0])]
        if not free:
            return []
        log2_values = np.log2([values for values, _ in free])
        cells: list[Cell] = []
        left = np.ones(len(free), dtype=bool)
        for place in [p for p in places for _ in range(n_seeds)]:
            away = np.where(left, np.linalg.norm(log2_values - place, axis=1), np.inf)
            best = int(np.argmin(away))
            if away[best] <= FAR:
                left[best] = False
                values, seed = free[best]
                if not self._may_add(key, values, cells):
                    continue
                used = [s for v, s in (*tried, *cells) if v == values]
                cells.append((values, _fresh(used, self._seeds()) if seed is None else seed))
        return cells

    def _seeds(self) -> list[int]:
        """Every seed there is, in order."""
        return sorted(self._known)


def new_sizes(runs: Runs, at: Mapping[str, float]) -> tuple[list[dict[str, float]], ...]:
    """Sizes that the sweep lacks: between its own, and beyond them towards the target.

    Between are geometric means of neighbours, or with several columns those of their combinations
    that are missing; beyond are multiples of the largest, all columns alike.
    """
    frame = runs.to_frame()
    swept = {tuple(map(float, row)) for row in frame[list(runs.sizes)].to_numpy()}
    whole = bool((frame[list(runs.sizes)].to_numpy(dtype=float) % 1 == 0).all())
    values = [sorted({key[i] for key in swept}) for i in range(len(runs.sizes))]
    if len(runs.sizes) == 1:
        pairs = itertools.pairwise(values[0])
        between: Iterable[tuple[float, ...]] = [
            (_rounded(math.sqrt(a * b), whole),) for a, b in pairs if b / a > 2**0.4
        ]
    else:
        between = itertools.islice(itertools.product(*values), 10 * MOST_SIZES)
    top = tuple(v[-1] for v in values)
    beyond = [tuple(_rounded(v * f, whole) for v in top) for f in FACTORS]
    limits = [max(MOST_OF_TARGET * at[c], 0.0) for c in runs.sizes]
    beyond = [key for key in beyond if all(v <= m for v, m in zip(key, limits, strict=True))]

    def named(keys: Iterable[tuple[float, ...]]) -> list[dict[str, float]]:
        kept = [key for key in dict.fromkeys(keys) if key not in swept]
        return [dict(zip(runs.sizes, key, strict=True)) for key in kept[:MOST_SIZES]]

    return named(between), named(beyond)


def read_among(table: pd.DataFrame, runs: Runs) -> dict[Key, list[Offer]]:
    """Size → the cells of a table of `read_cells`, each with its seed if it names one.

    Seeds are numbered together with those of the runs. A row without one means the next seed that
    is free.

    Raises:
        DataError: A value is no positive number.
    """
    numbers = table[[*runs.sizes, *runs.tuned]].to_numpy(dtype=float)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise DataError(
            "sizes and tuned values of the available runs must be positive numbers; correct "
            "the table."
        )
    found: dict[Key, list[Offer]] = {}
    for size, cell in _cells(runs, table):
        found.setdefault(size, []).append(cell)
    return found


def _cells(runs: Runs, table: pd.DataFrame) -> Iterable[tuple[Key, Offer]]:
    """Size, tuned values and seed of every row; seeds that are no whole numbers are counted."""
    k, columns = len(runs.sizes), [*runs.sizes, *runs.tuned]
    seeds: list[int | None] = [None] * len(table)
    if "seed" in table:
        own = runs.to_frame()["seed"]
        named = [i for i, is_significant in enumerate(table["seed"].notna()) if is_significant]
        known = seed_numbers(table["seed"].dropna(), after=own)
        for i, seed in zip(named, known, strict=True):
            seeds[i] = int(seed)
    for row, seed in zip(table[columns].to_numpy(dtype=float), seeds, strict=True):
        yield tuple(map(float, row[:k])), (tuple(map(float, row[k:])), seed)


def seed_numbers(seeds: pd.Series, *, after: pd.Series | None = None) -> Array:
    """Seeds as whole numbers, (n,); names are numbered in the order they come.

    Args:
        seeds: Numbers or names.
        after: Seeds that are numbered first, so that the same name has the same number.
    """
    if after is None:
        if _are_whole(seeds):
            return pd.to_numeric(seeds).to_numpy(dtype=int)
        return np.asarray(seeds.astype(str).factorize()[0], dtype=int)
    if _are_whole(after) and _are_whole(seeds):
        return pd.to_numeric(seeds).to_numpy(dtype=int)
    known = dict(zip(_names(after), map(int, seed_numbers(after)), strict=True))
    for name in _names(seeds):
        known.setdefault(name, max(known.values(), default=-1) + 1)
    return np.array([known[name] for name in _names(seeds)], dtype=int)


def seed_names(runs: Runs, among: pd.DataFrame | None) -> dict[int, str]:
    """Number → name of the seeds that are no whole numbers."""
    own = runs.to_frame()["seed"]
    offered = among["seed"].dropna() if among is not None and "seed" in among else own[:0]
    if _are_whole(own) and _are_whole(offered):
        return {}
    names = [*_names(own), *_names(offered)]
    numbers = [*seed_numbers(own), *seed_numbers(offered, after=own)]
    return dict(zip(map(int, numbers), names, strict=True))


def _names(seeds: pd.Series) -> list[str]:
    """As text, a whole number without its point."""
    whole = pd.to_numeric(seeds, errors="coerce")
    return [
        f"{number:.0f}" if number % 1 == 0 else str(seed)
        for seed, number in zip(seeds, whole, strict=True)
    ]


def _are_whole(seeds: pd.Series) -> bool:
    numbers = pd.to_numeric(seeds, errors="coerce")
    return bool(numbers.notna().all() and (numbers % 1 == 0).all())


def _fresh(used: Sequence[int], known: Sequence[int]) -> int:
    """The first seed of the sweep that is not used here, else the next number."""
    free = [seed for seed in known if seed not in used]
    return free[0] if free else max([*known, *used, -1]) + 1


def _nearest(place: Array, tried: Sequence[tuple[float, ...]]) -> tuple[float, ...] | None:
    if not tried:
        return None
    away = np.abs(np.log2(tried) - place).max(axis=1)
    best = int(np.argmin(away))
    return tried[best] if away[best] <= REACH else None


def _is_among(values: tuple[float, ...], others: Iterable[tuple[float, ...]]) -> bool:
    """Whether values are others but for rounding."""
    rounded = tuple(round(v, 12) for v in values)
    return rounded in {tuple(round(v, 12) for v in other) for other in others}


def _alike(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(abs(x - y) <= SAME * abs(y) for x, y in zip(a, b, strict=True))


def _rounded(value: float, whole: bool) -> float:
    return float(round(value)) if whole and value < 1e6 else float(f"{value:.4g}")
