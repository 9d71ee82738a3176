"""`plan`: which runs to buy next, so that the forecast at one size tightens most for its cost."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.forecasting import Forecast, forecast
from extrap.planning.advice import advise
from extrap.planning.candidates import Market, Move, new_sizes, read_among, seed_numbers
from extrap.planning.outlooks import Foresight, Widths, foresee
from extrap.planning.plans import LargerSize, Outlook, Plan, Purchase
from extrap.planning.run_costs import RunCost, read_run_cost
from extrap.planning.vertices import Design, VertexModel
from extrap.records import Optimum, Runs

__all__ = ["plan"]

MOST_RUNS = 2000
"""A plan longer than this is no next step."""
MOST_FIRST = 3
"""Sizes beyond the sweep that a plan may begin with."""
LEAST_GAIN = 1e-3
"""Relative narrowing of an interval for which no run is bought."""
N_OUTLOOKS = 5
"""Parts of the purchases after which the laws are fitted anew to what is expected."""

Sizes = Mapping[str, float]
Bundle = tuple[Move, ...]
"""Moves that are bought together or not at all."""


def plan(
    runs: Runs | Forecast,
    *,
    at: Sizes,
    budget: float | None = None,
    n_runs: int | None = None,
    hours: bool = False,
    cost: str | None = None,
    aim: str | None = None,
    among: pd.DataFrame | None = None,
    larger: bool = True,
) -> Plan:
    """Choose the runs that narrow the forecast at a size most for what they cost.

    Candidates are one more seed, or values farther out, around the predicted optimum of a swept
    size, and the first runs at sizes between and beyond them. Bought is, one step after the
    other, what lowers the sum of the logarithms of the widths of all prediction intervals at the
    target most for its cost; each first step at a size beyond the sweep is tried too, and the
    best plan wins. Widths come from the least-squares variance of the optima that the design
    gives, through the laws' gradients; after parts of the purchases the laws are fitted anew to
    losses as they are expected. A size without an optimum inside its values is bracketed first.

    Args:
        runs: The sweep, or its forecast.
        at: The target: one value a size column.
        budget: What may be spent, in FLOPs, or in hours, or in the unit of `cost`.
        n_runs: The most runs to buy.
        hours: The budget is in hours, those of the column `wall_s`.
        cost: What a run costs, as arithmetic over columns, such as `6 * n_params * n_tokens`;
            else the column `flops`, else `n_params` and `n_tokens`.
        aim: Only narrow the interval of `"loss"` or of one tuned column; None for all of them.
        among: Only runs of this table may be bought: size and tuned columns, perhaps `seed`.
        larger: Whether sizes beyond the sweep may be bought.

    Raises:
        ValueError: No budget at all, or one that is not positive; the target is no size; `aim` is
            no tuned column; the formula is none.
        DataError: The runs do not say what they cost, or give no forecast and no hint how to
            bracket their optima.

    References:
        Ours. The value of a run per cost as in Schram et al. (PMLR v306), who buy runs of a
        scaling law one after the other; greedy gain by cost as in Khuller, Moss, Naor (1999), The
        budgeted maximum coverage problem, Inf. Process. Lett. 70, 39.

    Example:
        >>> import extrap
        >>> runs = extrap.read_runs("examples/sweep.csv", size="width", tune="lr")
        >>> made = extrap.plan(runs, at={"width": 1024}, budget=2e12)
        >>> made.cost <= 2e12
        True
    """
    _check_budget(budget, n_runs)
    made = runs if isinstance(runs, Forecast) else forecast(runs)
    target = dict(made.at(**at).size)
    price = read_run_cost(made.runs, formula=cost, hours=hours)
    aims = _aims(made, aim)
    cells = None if among is None else read_among(among, made.runs)
    noise_free = VertexModel.of(made.valley, made.noise, scatter=0.0)
    market = Market(forecast=made, model=noise_free, among=cells)
    purse = _Purse(
        price=price,
        budget=math.inf if budget is None else budget,
        n_runs=min(n_runs or MOST_RUNS, MOST_RUNS),
    )
    brackets = _bracketed(made, market, purse)
    try:
        sight = foresee(made, target)
    except DataError:
        if not brackets:
            raise
        return _unseen(made, target, price, brackets, budget=budget)
    market.model = sight.model
    between, beyond = _places(made, target, cells)
    designs = [*sight.designs, *_expected(made, sight, brackets)]
    swept = [dict(o.size) for o in made.optima if o.loss is not None] + [
        dict(design.size) for design in designs[len(sight.designs) :]
    ]
    sizes = [*swept, *between, *(beyond if larger else [])]
    found = _best(sight, market, purse, designs, sizes, beyond if larger else [], aims)
    n_moves, outlooks = _outlooks(sight, designs, brackets, found, price, aims)
    moves = [*brackets, *found.moves[:n_moves]]
    beyond_outlooks = _larger(sight, market, price, beyond, purse.budget)
    made_plan = Plan(
        at=target,
        level=made.level,
        budget=budget,
        unit=price.unit,
        cost_from=price.source,
        spent=_spent(made.runs, price),
        purchases=_purchases(made, moves, price),
        outlooks=tuple(outlooks),
        floor=_outlook(sight.floor(), n_runs=0, cost=0.0),
        limits=sight.limits(),
        larger=tuple(beyond_outlooks),
        advice=(),
        flags=(*made.at(**target).flags, *_flags(brackets)),
    )
    return replace(made_plan, advice=advise(made_plan))


@dataclass(slots=True, kw_only=True)
class _Purse:
    """What is left to spend."""

    price: RunCost
    budget: float
    n_runs: int
    spent: float = 0.0
    bought: int = 0

    def cost(self, *moves: Move) -> float:
        return sum(self.price.of(move.size) * len(move.cells) for move in moves)

    def affords(self, *moves: Move) -> bool:
        total = self.spent + self.cost(*moves)
        n_runs = self.bought + sum(len(move.cells) for move in moves)
        return total <= self.budget * (1 + 1e-9) and n_runs <= self.n_runs

    def pay(self, *moves: Move) -> None:
        self.spent += self.cost(*moves)
        self.bought += sum(len(move.cells) for move in moves)


@dataclass(slots=True, kw_only=True, eq=False)
class _Basket:
    """A plan in the making: what is known of each size once it is bought."""

    designs: list[Design]
    moves: list[Move] = field(default_factory=list)
    states: list[list[Design]] = field(default_factory=list)

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
        self.designs = self.with_moves((move,))
        self.moves.append(move)
        self.states.append(self.designs)


def _best(
    sight: Foresight,
    market: Market,
    purse: _Purse,
    designs: Sequence[Design],
    sizes: Sequence[Sizes],
    beyond: Sequence[Sizes],
    aims: Sequence[str],
) -> _Basket:
    """The best of the greedy plans that begin with nothing, or with a size beyond the sweep.

    One that leaves an interval wider than it is comes after all that do not.
    """
    now = sight.now()
    best, lowest = None, (True, math.inf)
    for first in (None, *beyond[:MOST_FIRST]):
        basket = _Basket(designs=list(designs))
        own = _Stand(
            market=market.copy(),
            purse=replace(purse),
        )
        if first is not None:
            begin = [m for m in own.market.moves(first, is_known=False) if own.purse.affords(m)]
            if not begin:
                continue
            own.buy(basket, begin[0])
        _spend(sight, own, basket, sizes, aims)
        n_bought = sum(len(move.cells) for move in basket.moves)
        then = sight.refitted(basket.designs, n_new=n_bought)
        reached = (then.widens(now, aims), then.log_sum(aims) + LEAST_GAIN)
        if best is None or reached < lowest:
            best, lowest = basket, (reached[0], then.log_sum(aims))
    assert best is not None
    return best


@dataclass(slots=True, kw_only=True)
class _Stand:
    """A market and a purse of one's own."""

    market: Market
    purse: _Purse

    def buy(self, basket: _Basket, *moves: Move) -> None:
        for move in moves:
            self.purse.pay(move)
            self.market.take(move)
            basket.add(move)


def _spend(
    sight: Foresight, own: _Stand, basket: _Basket, sizes: Sequence[Sizes], aims: Sequence[str]
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


def _common(own: _Stand, basket: _Basket) -> list[Bundle]:
    """A seed at all sizes that lack it: only seeds that all sizes have tell what seeds share."""
    price = own.purse.price
    lacking = {
        seed: [d.size for d in basket.designs if seed not in d.seeds]
        for seed in own.market.seeds()
    }
    for seed, sizes in sorted(lacking.items(), key=lambda pair: sum(map(price.of, pair[1]))):
        moves = [own.market.with_seed(size, seed) for size in sizes]
        if sizes and None not in moves:
            return [tuple(move for move in moves if move is not None)]
    return []


def _places(
    made: Forecast, at: Sizes, cells: Mapping[tuple[float, ...], object] | None
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """New sizes that may be bought: within the sweep's range, and beyond it."""
    if cells is None:
        between, beyond = new_sizes(made.runs, at)
        return between, beyond
    columns = made.runs.sizes
    swept = {tuple(o.size.values()) for o in made.optima}
    low, top = ([end(key[i] for key in swept) for i in range(len(columns))] for end in (min, max))
    fresh = [k for k in sorted(cells) if k not in swept]
    fresh = [k for k in fresh if all(v >= m for v, m in zip(k, low, strict=True))]
    is_inside = [all(v <= m for v, m in zip(k, top, strict=True)) for k in fresh]
    named = [dict(zip(columns, k, strict=True)) for k in fresh]
    inside, outside = (
        [s for s, i in zip(named, is_inside, strict=True) if i == w] for w in (1, 0)
    )
    return inside, outside


def _bracketed(made: Forecast, market: Market, purse: _Purse) -> list[Move]:
    """Values beyond the edges of sizes whose optimum is not inside, the cheapest sizes first."""
    moves = []
    for optimum in sorted(made.optima, key=lambda o: purse.price.of(o.size)):
        move = _bracket_move(optimum, market)
        if move is not None and purse.affords(move):
            purse.pay(move)
            market.take(move)
            moves.append(move)
    return moves


def _bracket_move(optimum: Optimum, market: Market) -> Move | None:
    return None if not optimum.edge else market.bracket(optimum.size, optimum.edge)


def _expected(made: Forecast, sight: Foresight, brackets: Sequence[Move]) -> list[Design]:
    """Sizes that will be bracketed, as far as their runs then suffice."""
    found = []
    frame = made.runs.complete().to_frame()
    for move in brackets:
        here = frame[np.logical_and.reduce([frame[c] == v for c, v in move.size.items()])]
        centre = [made.predict_tuned(move.size)[n].value or 1.0 for n in made.runs.tuned]
        own = np.log2(here[list(made.runs.tuned)].to_numpy(dtype=float) / np.array(centre))
        seeds = tuple(seed_numbers(frame["seed"])[here.index])
        design = Design(size=move.size, octaves=own, seeds=seeds)
        whole = design.with_runs(np.array(move.octaves), tuple(s for _, s in move.cells))
        if sight.model.of_design(whole).loss < 1.0:
            found.append(whole)
    return found


def _outlooks(
    sight: Foresight,
    designs: Sequence[Design],
    brackets: Sequence[Move],
    found: _Basket,
    price: RunCost,
    aims: Sequence[str],
) -> tuple[int, list[Outlook]]:
    """Widths now and after parts of the purchases, up to where they are least; moves until then.

    The laws' linearisation does not see that another law may fit better, or a local one hold
    fewer points: what follows the narrowest of the refitted forecasts is not worth its cost.
    """
    now = sight.now()
    costs = [sum(price.of(m.size) * len(m.cells) for m in brackets)]
    runs = [sum(len(m.cells) for m in brackets)]
    for move in found.moves:
        costs.append(costs[-1] + price.of(move.size) * len(move.cells))
        runs.append(runs[-1] + len(move.cells))
    states = [list(designs), *found.states]
    stops = sorted({*_stops(costs), len(states) - 1} - ({0} if not brackets else set()))
    widths = [sight.refitted(states[i], n_new=runs[i]) for i in stops]
    told = [_outlook(now, n_runs=0, cost=0.0)]
    if not stops:
        return 0, told
    rank = [(each.widens(now, aims), each.log_sum(aims)) for each in widths]
    last = rank.index(min(rank))
    if rank[last][0] and not brackets:
        return 0, told
    for i, each in list(zip(stops, widths, strict=True))[: last + 1]:
        told.append(_outlook(each, n_runs=runs[i], cost=costs[i]))
    return stops[last], told


def _outlook(widths: Widths, *, n_runs: int, cost: float) -> Outlook:
    return Outlook(n_runs=n_runs, cost=cost, loss_width=widths.loss, tuned_width=widths.tuned)


def _stops(costs: Sequence[float]) -> list[int]:
    """Moves after which the cost is nearest to parts of the whole, each half of the next."""
    aims = [costs[-1] / 2**k for k in range(N_OUTLOOKS)]
    return [int(np.argmin(np.abs(np.array(costs) - aim))) for aim in aims]


def _larger(
    sight: Foresight,
    market: Market,
    price: RunCost,
    beyond: Sequence[Sizes],
    budget: float,
) -> list[LargerSize]:
    """The first runs at each size beyond the sweep, bought alone."""
    found = []
    for size in beyond[:4]:
        moves = market.moves(size, is_known=False)
        if moves:
            designs = _Basket(designs=list(sight.designs)).with_moves((moves[0],))
            widths = sight.refitted(designs, n_new=len(moves[0].cells))
            cost = price.of(size) * len(moves[0].cells)
            outlook = _outlook(widths, n_runs=len(moves[0].cells), cost=cost)
            found.append(LargerSize(size=size, outlook=outlook, in_budget=cost <= budget))
    return found


def _purchases(made: Forecast, moves: Sequence[Move], price: RunCost) -> tuple[Purchase, ...]:
    return tuple(
        Purchase(
            size=dict(move.size),
            tuned=dict(zip(made.runs.tuned, values, strict=True)),
            seed=seed,
            cost=price.of(move.size),
            step=step,
            reason=move.reason,
        )
        for step, move in enumerate(moves, start=1)
        for values, seed in move.cells
    )


def _unseen(
    made: Forecast,
    at: Sizes,
    price: RunCost,
    brackets: Sequence[Move],
    *,
    budget: float | None,
) -> Plan:
    """A plan where no width can be told yet: bracket the optima, then plan again."""
    unknown = Outlook(
        n_runs=0, cost=0.0, loss_width=None, tuned_width=dict.fromkeys(made.runs.tuned)
    )
    bought = _purchases(made, brackets, price)
    then = replace(unknown, n_runs=len(bought), cost=sum(p.cost for p in bought))
    found = Plan(
        at=at,
        level=made.level,
        budget=budget,
        unit=price.unit,
        cost_from=price.source,
        spent=_spent(made.runs, price),
        purchases=bought,
        outlooks=(unknown, then),
        floor=unknown,
        limits={},
        larger=(),
        advice=(),
        flags=(*made.flags, *_flags(brackets)),
    )
    return replace(found, advice=advise(found))


def _spent(runs: Runs, price: RunCost) -> float:
    frame = runs.to_frame()
    return float(sum(price.of(row) for row in frame[list(runs.sizes)].to_dict("records")))


def _flags(brackets: Sequence[Move]) -> list[str]:
    if not brackets:
        return []
    sizes = "; ".join(", ".join(f"{c}={v:g}" for c, v in m.size.items()) for m in brackets)
    return [f"brackets-first: {sizes}"]


def _aims(made: Forecast, aim: str | None) -> tuple[str, ...]:
    known = ("loss", *made.runs.tuned)
    if aim is None:
        return known
    if aim not in known:
        raise ValueError(f"aim is one of {', '.join(known)}, got {aim!r}; leave it out for all.")
    return (aim,)


def _check_budget(budget: float | None, n_runs: int | None) -> None:
    if budget is None and n_runs is None:
        raise ValueError(
            "a plan needs a budget, got none; give budget=…, or a number of runs, n_runs=…."
        )
    if budget is not None and not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"a budget must be positive and finite, got {budget:g}; give one.")
    if n_runs is not None and n_runs < 1:
        raise ValueError(f"n_runs must be at least 1, got {n_runs}; leave it out for no bound.")
