"""Plans in the making: what is left to spend, what is bought, and the best of several plans."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from extrap.fitting.run_costs import RunCost
from extrap.fitting.vertices import Design
from extrap.planning.candidates import Market, Move
from extrap.planning.expectations import Foresight, Widths

MOST_FIRST = 3
"""Sizes beyond the sweep that a plan may begin with."""
LEAST_GAIN = 1e-3
"""Relative narrowing of an interval for which no run is bought."""
RUNGS = (1.0, 2.0, 5.0)
"""Times powers of ten: smaller budgets whose plans compete with that for the whole."""

Sizes = Mapping[str, float]
Bundle = tuple[Move, ...]
"""Moves that are bought together or not at all."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What is left to spend."""

    price: RunCost
    budget: float
    n_runs: int
    spent: float = 0.0
    bought: int = 0
    _prices: dict[tuple[float, ...], float] = field(default_factory=dict)

    def cost(self, *moves: Move) -> float:
        """What moves cost."""
        return sum(self.of(move.size) * len(move.cells) for move in moves)

    def of(self, size: Sizes) -> float:
        """What one run of a size costs."""
        key = tuple(size.values())
        if key not in self._prices:
            self._prices[key] = self.price.of(size)
        return self._prices[key]

    def affords(self, *moves: Move) -> bool:
        """Whether what is left pays for moves."""
        total = self.spent + self.cost(*moves)
        n_runs = self.bought + sum(len(move.cells) for move in moves)
        return total <= self.budget * (1 + 1e-9) and n_runs <= self.n_runs

    def pay(self, *moves: Move) -> None:
        """Spend."""
        self.spent += self.cost(*moves)
        self.bought += sum(len(move.cells) for move in moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Moves that are bought together, and all that is bought until then.

    Attributes:
        moves: What is bought.
        n_runs: Runs bought until then.
        cost: What these cost.
        widths: What they leave, the laws fitted again.
    """

    moves: Bundle
    n_runs: int
    cost: float
    widths: Widths


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basket:
    """A plan in the making: what is known of each size once it is bought.

    Attributes:
        designs: The runs of every size.
        now: The widths before anything is bought.
        aims: Intervals to narrow.
        steps: What is bought, in order.
    """

    designs: Sequence[Design]
    now: Widths
    aims: Sequence[str]
    steps: tuple[Step, ...] = ()

    @property
    def widths(self) -> Widths:
        """What is left of the widths."""
        return self.steps[-1].widths if self.steps else self.now

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

    def bought(
        self,
        moves: Bundle,
        designs: Sequence[Design],
        widths: Widths,
        *,
        market: Market,
        purse: Purse,
    ) -> Basket:
        """The basket with moves that lead to these designs and widths, paid for."""
        purse.pay(*moves)
        for move in moves:
            market.take(move)
        step = Step(moves=moves, n_runs=purse.bought, cost=purse.spent, widths=widths)
        return replace(self, designs=designs, steps=(*self.steps, step))


def best_plan(
    sight: Foresight,
    market: Market,
    purse: Purse,
    begun: Basket,
    sizes: Sequence[Sizes],
    beyond: Sequence[Sizes],
) -> Basket:
    """The best of greedy plans, by the widths of the forecast refitted to them.

    They begin with nothing, or with a size beyond the sweep, and are made for every round budget
    below and for all of it. The round budgets do not depend on the whole, so that a plan is seldom
    worse than that for a smaller one. Of those but for `LEAST_GAIN` as narrow as the narrowest
    the one for the smallest budget wins.
    """
    rungs = _rungs(purse, min(map(purse.of, sizes), default=purse.budget))
    found = [(len(rungs), begun)]
    for first in (None, *beyond[:MOST_FIRST]):
        own = _Trip(sight=sight, market=market.copy(), basket=begun, purse=replace(rungs[-1]))
        found += own.plans(first, sizes, rungs)
    sums = [basket.widths.log_sum(begun.aims) for _, basket in found]
    if sums[0] < min(sums) + LEAST_GAIN:
        return begun
    good = [pair for pair, each in zip(found, sums, strict=True) if each < min(sums) + LEAST_GAIN]
    return min(good, key=lambda pair: pair[0])[1]


def _rungs(purse: Purse, least: float) -> list[Purse]:
    """Purses with every round budget, or number of runs, below the whole, and with all of it.

    Args:
        purse: The whole.
        least: What the cheapest run costs.
    """
    by_cost = math.isfinite(purse.budget)
    whole = purse.budget if by_cost else float(purse.n_runs)
    spent = purse.spent if by_cost else float(purse.bought)
    first, top = (math.floor(math.log10(v)) for v in (least if by_cost else 1.0, whole))
    marks = [m * 10.0**e for e in range(first, top + 1) for m in RUNGS]
    totals = [*(m for m in marks if spent < m < whole * (1 - 1e-9)), whole]
    if by_cost:
        return [replace(purse, budget=total) for total in totals]
    return [replace(purse, n_runs=int(total)) for total in totals if total >= 1]


@dataclass(slots=True, kw_only=True, eq=False)
class _Trip:
    """A plan in the making, and what could be bought next.

    Attributes:
        sight: Tells what designs are worth.
        market: What may be bought.
        basket: What is bought.
        purse: What is left.
        now: Sum of the logarithms of the widths aimed at, linearised.
        queue: Falls of that sum per cost, negative, as they were found after so many purchases.
    """

    sight: Foresight
    market: Market
    basket: Basket
    purse: Purse
    now: float = math.nan
    queue: list[tuple[float, int, int, Bundle]] = field(default_factory=list)
    n_entered: int = 0

    def plans(
        self, first: Sizes | None, sizes: Sequence[Sizes], rungs: Sequence[Purse]
    ) -> list[tuple[int, Basket]]:
        """Plans that begin with a size, each with the number of the purse it is for.

        Purchases are the same until one of them is too dear for a smaller purse, which then goes
        on alone. Purses beyond the first to which nothing is too dear have its plan.
        """
        rest = list(enumerate(rungs[:-1]))
        if first is not None:
            moves = [m for m in self.market.moves(first, is_known=False) if self.purse.affords(m)]
            bought = next((move for move in moves if self.buy((move,))), None)
            if bought is None:
                return []
            rest = [(i, rung) for i, rung in rest if rung.affords(bought)]
        self.now = self._sum(self.basket.designs)
        self.enter([(move,) for size in sizes for move in self._moves(size)])
        self.enter(_common(self))
        rest.append((len(rungs) - 1, self.purse))
        found: list[tuple[int, Basket]] = []
        while self.queue and rest:
            if not self._pays(rest[0][1], self.queue[0][3]):
                found.append(self._alone(*rest.pop(0)))
            else:
                self.step()
        return [*found, *((i, self.basket) for i, _ in rest[:1])]

    def _alone(self, i: int, rung: Purse) -> tuple[int, Basket]:
        fork = self._fork(rung)
        while fork.queue:
            fork.step()
        return i, fork.basket

    def step(self) -> None:
        """Buy what narrows most for its cost, if it is affordable, narrows enough, widens nothing.

        Lazily: a gain that was found before is an upper bound, near enough, of what it is now.
        """
        rate, i, n_then, bundle = heapq.heappop(self.queue)
        if not self.purse.affords(*bundle):
            return
        n_bought = len(self.basket.steps)
        if n_then < n_bought:
            heapq.heappush(self.queue, (-self._rate(bundle), i, n_bought, bundle))
            return
        if -rate * self.purse.cost(*bundle) < LEAST_GAIN or not self.buy(bundle):
            return
        self.now = self._sum(self.basket.designs)
        touched = [move.size for move in bundle]
        self.queue = [e for e in self.queue if len(e[3]) == 1 and e[3][0].size not in touched]
        heapq.heapify(self.queue)
        self.enter([(move,) for size in touched for move in self._moves(size)])
        self.enter(_common(self))

    def buy(self, moves: Bundle) -> bool:
        """Pay for moves and take them, unless they narrow too little or widen an interval."""
        designs, before, aims = self.basket.with_moves(moves), self.basket.widths, self.basket.aims
        n_new = self.purse.bought + sum(len(move.cells) for move in moves)
        widths = self.sight.refitted(designs, n_new=n_new)
        gain = before.log_sum(aims) - widths.log_sum(aims)
        if gain < LEAST_GAIN or widths.widens(before, aims):
            return False
        self.basket = self.basket.bought(
            moves, designs, widths, market=self.market, purse=self.purse
        )
        return True

    def enter(self, bundles: Sequence[Bundle]) -> None:
        """Put what is affordable where it may be bought."""
        for bundle in bundles:
            if self.purse.affords(*bundle):
                entry = -self._rate(bundle), self.n_entered, len(self.basket.steps), bundle
                heapq.heappush(self.queue, entry)
                self.n_entered += 1

    def _pays(self, rung: Purse, bundle: Bundle) -> bool:
        """Whether a smaller purse would still pay for more."""
        return replace(self.purse, budget=rung.budget, n_runs=rung.n_runs).affords(*bundle)

    def _fork(self, rung: Purse) -> _Trip:
        """The same with another purse, to go on alone."""
        return replace(
            self,
            purse=replace(self.purse, budget=rung.budget, n_runs=rung.n_runs),
            market=self.market.copy(),
            queue=list(self.queue),
        )

    def _moves(self, size: Sizes) -> list[Move]:
        is_known = any(design.size == size for design in self.basket.designs)
        return self.market.moves(size, is_known=is_known)

    def _rate(self, bundle: Bundle) -> float:
        gain = self.now - self._sum(self.basket.with_moves(bundle))
        return gain / self.purse.cost(*bundle)

    def _sum(self, designs: Sequence[Design]) -> float:
        return self.sight.quick(designs).log_sum(self.basket.aims)


def _common(own: _Trip) -> list[Bundle]:
    """A seed at all sizes that lack it: only seeds that all sizes have tell what seeds share."""
    costs = [(design, own.purse.of(design.size)) for design in own.basket.designs]
    lacking = {
        seed: [(d.size, c) for d, c in costs if seed not in d.distinct]
        for seed in own.market.seeds()
    }
    dear = {seed: sum(c for _, c in pairs) for seed, pairs in lacking.items()}
    for seed in sorted(lacking, key=lambda each: dear[each]):
        sizes = [size for size, _ in lacking[seed]]
        moves = [own.market.with_seed(size, seed) for size in sizes]
        if sizes and None not in moves:
            return [tuple(move for move in moves if move is not None)]
    return []
