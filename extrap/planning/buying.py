"""Plans in the making: what is left to spend, what is bought, and the best of several plans."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from extrap.fitting.run_costs import RunCost
from extrap.planning.candidates import Market, Move
from extrap.planning.outlooks import Foresight, Widths
from extrap.planning.vertices import Design

__all__ = ["Basket", "Priced", "Purse", "best_plan"]

MOST_FIRST = 3
"""Sizes beyond the sweep that a plan may begin with."""
LEAST_GAIN = 1e-3
"""Relative narrowing of an interval for which no run is bought."""
FAITH = 0.2
"""Sum of logarithms by which a refit may be narrower, against its linearisation, than others."""
NEAR = 0.9
"""Share of a plan's cost from which on a part of it is no other plan."""
N_OUTLOOKS = 5
"""Parts of the purchases after which the laws are fitted anew to what is expected."""
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

    def until(self, n_moves: int) -> Basket:
        """Its first moves, to go on with alone."""
        found = Basket(
            designs=self.begun, moves=self.moves[:n_moves], states=self.states[:n_moves]
        )
        found.designs = found.states[-1] if n_moves else self.begun
        return found

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


def best_plan(
    sight: Foresight,
    market: Market,
    purse: Purse,
    designs: Sequence[Design],
    sizes: Sequence[Sizes],
    beyond: Sequence[Sizes],
    aims: Sequence[str],
) -> Priced:
    """The best of greedy plans, by the widths of the forecast refitted to them.

    They begin with nothing, or with a size beyond the sweep, and are made for every round budget
    below and for all of it; each competes whole, its cheaper half, and up to where it parts from
    those for more. The round budgets do not depend on the whole, so that a plan is seldom worse
    than that for a smaller one. None wins that leaves an aimed interval wider than it is.
    """
    best, without = Priced(), sight.now().log_sum(aims)
    if purse.bought:  # brackets come first, whatever they do
        best = _priced(sight, Basket(designs=list(designs)), purse)
        without = best.widths[0].log_sum(aims)
    rungs = _rungs(purse, min(map(purse.of, sizes), default=purse.budget))
    found: list[_Stand] = []
    for first in (None, *beyond[:MOST_FIRST]):
        own = _Trip(
            sight=sight,
            market=market.copy(),
            basket=Basket(designs=list(designs)),
            purse=replace(rungs[-1]),
            aims=aims,
        )
        found += own.plans(first, sizes, rungs)
    chosen = _narrowest(sight, found, purse, aims, without)
    return best if chosen is None else _priced(sight, chosen, purse, n_parts=N_OUTLOOKS)


def _narrowest(
    sight: Foresight,
    found: Sequence[_Stand],
    purse: Purse,
    aims: Sequence[str],
    without: float,
) -> Basket | None:
    """The plan for the smallest purse that is narrowest but for `LEAST_GAIN`; None for none.

    A refit is dear: it is made for the plan whose linearisation is narrowest, then for the next,
    until one is so wide that no refit has been so much narrower than its linearisation.
    """
    now, reached = sight.now(), dict[int, float]()
    least, off = without, 0.0
    for i, stand in sorted(enumerate(found), key=lambda each: each[1].sum):
        if stand.sum + off - FAITH >= least + LEAST_GAIN:
            break
        widths = _priced(sight, stand.basket, purse).widths[0]
        if widths.knows(aims):
            off = min(off, widths.log_sum(aims) - stand.sum)
        if not widths.widens(now, aims):
            reached[i] = widths.log_sum(aims)
            least = min(least, reached[i])
    good = [i for i, value in reached.items() if value < least + LEAST_GAIN]
    if without < least + LEAST_GAIN:
        return None
    return found[min(good, key=lambda i: (found[i].rung, i))].basket


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


def _priced(sight: Foresight, basket: Basket, purse: Purse, *, n_parts: int = 1) -> Priced:
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stand:
    """A plan for the budget of a rung; `sum` of the logarithms of its widths, linearised."""

    rung: int
    basket: Basket
    sum: float


@dataclass(slots=True, kw_only=True, eq=False)
class _Trip:
    """A plan in the making, and what could be bought next.

    Attributes:
        sight: Tells what designs are worth.
        market: What may be bought.
        basket: What is bought.
        purse: What is left.
        aims: Intervals to narrow.
        now: Sum of the logarithms of their widths.
        queue: Falls of that sum per cost, negative, as they were told after so many purchases.
    """

    sight: Foresight
    market: Market
    basket: Basket
    purse: Purse
    aims: Sequence[str]
    now: float = math.nan
    queue: list[tuple[float, int, int, Bundle]] = field(default_factory=list)
    n_entered: int = 0

    def plans(
        self, first: Sizes | None, sizes: Sequence[Sizes], rungs: Sequence[Purse]
    ) -> list[_Stand]:
        """Plans that begin with a size, for every purse from the smallest up.

        Purchases are the same until one of them is too dear for a smaller purse, which then goes
        on alone. Purses beyond the first to which nothing is too dear have its plan.
        """
        rest = list(enumerate(rungs[:-1]))
        if first is not None:
            moves = [m for m in self.market.moves(first, is_known=False) if self.purse.affords(m)]
            if not moves:
                return []
            rest = [(i, rung) for i, rung in rest if rung.affords(moves[0])]
            self.buy(moves[0])
        self.now = self._sum(self.basket.designs)
        self.enter([(move,) for size in sizes for move in self._moves(size)])
        self.enter(_common(self))
        rest.append((len(rungs) - 1, self.purse))
        found: list[_Stand] = []
        while self.queue and rest:
            if not self._pays(rest[0][1], self.queue[0][3]):
                found += self._alone(*rest.pop(0))
            else:
                self.step()
        if rest:
            found += self._stands(rest[0][0], len(self.basket.moves))
        return found

    def _alone(self, i: int, rung: Purse) -> list[_Stand]:
        fork = self._fork(rung)
        while fork.queue:
            fork.step()
        return fork._stands(i, len(self.basket.moves))

    def _stands(self, rung: int, n_moves: int) -> list[_Stand]:
        """The whole plan, half of it, and its first moves where they are not most of it."""
        spent = [self.purse.spent - self.purse.cost(*self.basket.moves)]
        for move in self.basket.moves:
            spent.append(spent[-1] + self.purse.cost(move))
        parts = {int(np.argmin(np.abs(np.array(spent) - spent[-1] / 2))), len(self.basket.moves)}
        if spent[n_moves] <= NEAR * spent[-1]:
            parts.add(n_moves)
        baskets = [self.basket.until(n) for n in sorted(parts) if n]
        return [_Stand(rung=rung, basket=b, sum=self._sum(b.designs)) for b in baskets]

    def step(self) -> None:
        """Buy what narrows most for its cost, if it is affordable and narrows enough.

        Lazily: a gain that was told before is an upper bound, near enough, of what it is now.
        """
        rate, i, told, bundle = heapq.heappop(self.queue)
        if not self.purse.affords(*bundle):
            return
        n_bought = len(self.basket.moves)
        if told < n_bought:
            heapq.heappush(self.queue, (-self._rate(bundle), i, n_bought, bundle))
            return
        if -rate * self.purse.cost(*bundle) < LEAST_GAIN:
            return
        self.buy(*bundle)
        self.now = self._sum(self.basket.designs)
        touched = [move.size for move in bundle]
        self.queue = [e for e in self.queue if len(e[3]) == 1 and e[3][0].size not in touched]
        heapq.heapify(self.queue)
        self.enter([(move,) for size in touched for move in self._moves(size)])
        self.enter(_common(self))

    def buy(self, *moves: Move) -> None:
        """Pay for moves and take them."""
        for move in moves:
            self.purse.pay(move)
            self.market.take(move)
            self.basket.add(move)

    def enter(self, bundles: Sequence[Bundle]) -> None:
        """Put what is affordable where it may be bought."""
        for bundle in bundles:
            if self.purse.affords(*bundle):
                entry = -self._rate(bundle), self.n_entered, len(self.basket.moves), bundle
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
            basket=self.basket.until(len(self.basket.moves)),
            queue=list(self.queue),
        )

    def _moves(self, size: Sizes) -> list[Move]:
        is_known = any(design.size == size for design in self.basket.designs)
        return self.market.moves(size, is_known=is_known)

    def _rate(self, bundle: Bundle) -> float:
        gain = self.now - self._sum(self.basket.with_moves(bundle))
        return gain / self.purse.cost(*bundle)

    def _sum(self, designs: Sequence[Design]) -> float:
        return self.sight.quick(designs).log_sum(self.aims)


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
