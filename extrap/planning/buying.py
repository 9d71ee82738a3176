"""Plans in the making: what is left to spend, what is bought, and the best of several plans."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from extrap.planning.candidates import Market, Move
from extrap.planning.outlooks import Foresight, Widths
from extrap.planning.run_costs import RunCost
from extrap.planning.vertices import Design

__all__ = ["Basket", "Priced", "Purse", "best_plan"]

MOST_FIRST = 3
"""Sizes beyond the sweep that a plan may begin with."""
LEAST_GAIN = 1e-3
"""Relative narrowing of an interval for which no run is bought."""
N_OUTLOOKS = 5
"""Parts of the purchases after which the laws are fitted anew to what is expected."""
RUNGS = (1.0, 5.0)
"""Times powers of ten: smaller budgets whose plans compete with that for the whole."""
DECADES = 1
"""Powers of ten over which they go down."""

Sizes = Mapping[str, float]
Bundle = tuple[Move, ...]
"""Moves that are bought together or not at all."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What is left to spend; `is_bound` once something was too dear."""

    price: RunCost
    budget: float
    n_runs: int
    spent: float = 0.0
    bought: int = 0
    is_bound: bool = False

    def cost(self, *moves: Move) -> float:
        """What moves cost."""
        return sum(self.price.of(move.size) * len(move.cells) for move in moves)

    def affords(self, *moves: Move) -> bool:
        """Whether what is left pays for moves."""
        total = self.spent + self.cost(*moves)
        n_runs = self.bought + sum(len(move.cells) for move in moves)
        pays = total <= self.budget * (1 + 1e-9) and n_runs <= self.n_runs
        self.is_bound = self.is_bound or not pays
        return pays

    def pay(self, *moves: Move) -> None:
        """Spend."""
        self.spent += self.cost(*moves)
        self.bought += sum(len(move.cells) for move in moves)


@dataclass(slots=True, kw_only=True, eq=False)
class Basket:
    """A plan in the making: what is known of each size once it is bought."""

    designs: list[Design]
    moves: list[Move] = field(default_factory=list)
    states: list[list[Design]] = field(default_factory=list)
    begun: list[Design] = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.designs

    def with_moves(self, moves: Bundle) -> list[Design]:
        """The designs with further moves."""
        designs = list(self.designs)
        for move in moves:
            octaves = np.array(move.octaves).reshape(len(move.cells), -1)
            seeds = tuple(seed for _, seed in move.cells)
            at = [i for i, design in enumerate(designs) if design.size == move.size]
            if at:
                designs[at[0]] = designs[at[0]].with_runs(octaves, seeds)
            else:
                designs.append(Design(size=move.size, octaves=octaves, seeds=seeds))
        return designs

    def add(self, move: Move) -> None:
        """Buy a move."""
        self.designs = self.with_moves((move,))
        self.moves.append(move)
        self.states.append(self.designs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """A plan whose laws were fitted anew after parts of it.

    Attributes:
        moves: What is bought, in order.
        stops: Moves after which they were, ascending; the last is all of them.
        widths: What they left there.
        n_runs: Runs bought until then.
        costs: What these cost.
    """

    moves: tuple[Move, ...] = ()
    stops: tuple[int, ...] = ()
    widths: tuple[Widths, ...] = ()
    n_runs: tuple[int, ...] = ()
    costs: tuple[float, ...] = ()

    def until(self, i: int) -> Priced:
        """The same, ended at one of its stops."""
        last = i + 1
        return Priced(
            moves=self.moves[: self.stops[i]],
            stops=self.stops[:last],
            widths=self.widths[:last],
            n_runs=self.n_runs[:last],
            costs=self.costs[:last],
        )


def best_plan(
    sight: Foresight,
    market: Market,
    purse: Purse,
    designs: Sequence[Design],
    sizes: Sequence[Sizes],
    beyond: Sequence[Sizes],
    aims: Sequence[str],
) -> Priced:
    """The best of greedy plans, up to where the forecast, refitted to them, is narrowest.

    They begin with nothing, or with a size beyond the sweep, and are made for the round parts of
    the budget and for all of it, the smallest first; a later one wins only if it is narrower by
    `LEAST_GAIN`, so that a larger budget seldom has the worse plan. None wins that
    leaves an aimed interval wider than it is.
    """
    now = sight.now()
    best, lowest = Priced(), (False, now.log_sum(aims))
    if purse.bought:  # brackets come first, whatever they do
        best = _priced(sight, Basket(designs=list(designs)), purse, n_parts=1)
        lowest = (False, best.widths[0].log_sum(aims))
    starts: list[Sizes | None] = [None, *beyond[:MOST_FIRST]]
    rungs = _rungs(purse)
    for rung in rungs:
        for first in list(starts):
            own = _Stand(market=market.copy(), purse=replace(rung))
            basket = Basket(designs=list(designs))
            if first is not None and not own.begin(basket, first):
                continue
            _spend(sight, own, basket, sizes, aims)
            found = _priced(sight, basket, purse, n_parts=N_OUTLOOKS if rung is rungs[-1] else 1)
            for i, widths in enumerate(found.widths):
                reached = (widths.widens(now, aims), widths.log_sum(aims))
                if (reached[0], reached[1] + LEAST_GAIN) < lowest:
                    best, lowest = found.until(i), reached
            if not own.purse.is_bound:  # more money buys nothing else
                starts.remove(first)
    return best


def _rungs(purse: Purse) -> list[Purse]:
    """Purses with round parts of the budget, or of the number of runs, and with all of it."""
    by_cost = math.isfinite(purse.budget)
    whole = purse.budget if by_cost else float(purse.n_runs)
    spent = purse.spent if by_cost else float(purse.bought)
    top = math.floor(math.log10(whole))
    marks = [m * 10.0**e for e in range(top - DECADES, top + 1) for m in RUNGS]
    totals = [*(m for m in marks if spent < m < whole * (1 - 1e-9)), whole]
    if by_cost:
        return [replace(purse, budget=total) for total in totals]
    return [replace(purse, n_runs=int(total)) for total in totals if total >= 1]


def _priced(sight: Foresight, basket: Basket, purse: Purse, *, n_parts: int) -> Priced:
    """The widths after parts of a plan, each half of the next in cost."""
    costs, n_runs = [purse.spent], [purse.bought]
    for move in basket.moves:
        costs.append(costs[-1] + purse.cost(move))
        n_runs.append(n_runs[-1] + len(move.cells))
    parts = [costs[-1] / 2**k for k in range(n_parts)]
    near = {int(np.argmin(np.abs(np.array(costs) - part))) for part in parts}
    stops = sorted({*near, len(basket.moves)} - ({0} if not purse.bought else set()))
    states = [basket.begun, *basket.states]
    return Priced(
        moves=tuple(basket.moves),
        stops=tuple(stops),
        widths=tuple(sight.refitted(states[i], n_new=n_runs[i]) for i in stops),
        n_runs=tuple(n_runs[i] for i in stops),
        costs=tuple(costs[i] for i in stops),
    )


@dataclass(slots=True, kw_only=True)
class _Stand:
    """A market and a purse of one's own."""

    market: Market
    purse: Purse

    def buy(self, basket: Basket, *moves: Move) -> None:
        for move in moves:
            self.purse.pay(move)
            self.market.take(move)
            basket.add(move)

    def begin(self, basket: Basket, size: Sizes) -> bool:
        """Buy the first runs at a new size; whether that could be paid."""
        moves = [m for m in self.market.moves(size, is_known=False) if self.purse.affords(m)]
        self.buy(basket, *moves[:1])
        return bool(moves)


def _spend(
    sight: Foresight, own: _Stand, basket: Basket, sizes: Sequence[Sizes], aims: Sequence[str]
) -> None:
    """Buy what narrows most for its cost, until nothing that is affordable does.

    Lazily: a gain that was told before is an upper bound, near enough, of what it is now.
    """

    def offers(size: Sizes) -> list[Bundle]:
        is_known = any(design.size == size for design in basket.designs)
        return [(move,) for move in own.market.moves(size, is_known=is_known)]

    def enter(bundles: Sequence[Bundle]) -> None:
        for bundle in bundles:
            if own.purse.affords(*bundle):
                rate = gain(bundle) / own.purse.cost(*bundle)
                heapq.heappush(queue, (-rate, next(numbers), n_bought, bundle))

    def gain(bundle: Bundle) -> float:
        return now - sight.quick(basket.with_moves(bundle)).log_sum(aims)

    now = sight.quick(basket.designs).log_sum(aims)
    queue: list[tuple[float, int, int, Bundle]] = []
    numbers, n_bought = itertools.count(), 0
    enter([*(bundle for size in sizes for bundle in offers(size)), *_common(own, basket)])
    while queue:
        rate, i, told, bundle = heapq.heappop(queue)
        if not own.purse.affords(*bundle):
            continue
        if told < n_bought:
            rate = gain(bundle) / own.purse.cost(*bundle)
            heapq.heappush(queue, (-rate, i, n_bought, bundle))
            continue
        if -rate * own.purse.cost(*bundle) < LEAST_GAIN:
            continue
        own.buy(basket, *bundle)
        n_bought += 1
        now = sight.quick(basket.designs).log_sum(aims)
        touched = [move.size for move in bundle]
        queue = [
            entry for entry in queue if len(entry[3]) == 1 and entry[3][0].size not in touched
        ]
        heapq.heapify(queue)
        enter([*(fresh for size in touched for fresh in offers(size)), *_common(own, basket)])


def _common(own: _Stand, basket: Basket) -> list[Bundle]:
    """A seed at all sizes that lack it: only seeds that all sizes have tell what seeds share."""
    price = own.purse.price
    costs = [(design, price.of(design.size)) for design in basket.designs]
    lacking = {
        seed: [(d.size, c) for d, c in costs if seed not in d.seeds] for seed in own.market.seeds()
    }
    dear = {seed: sum(c for _, c in pairs) for seed, pairs in lacking.items()}
    for seed in sorted(lacking, key=lambda each: dear[each]):
        sizes = [size for size, _ in lacking[seed]]
        moves = [own.market.with_seed(size, seed) for size in sizes]
        if sizes and None not in moves:
            return [tuple(move for move in moves if move is not None)]
    return []
