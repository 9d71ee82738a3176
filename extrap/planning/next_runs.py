"""`plan`: which runs to buy next, so that the forecast at one size tightens most for its cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral, Real
from typing import Any, Unpack

import numpy as np

from extrap.documents import as_forecast
from extrap.errors import DataError, argument
from extrap.fitting.run_costs import RunCost, read_run_cost
from extrap.fitting.vertices import Design, VertexModel
from extrap.forecasting import Forecast
from extrap.planning.advice import advise
from extrap.planning.buying import Basket, Purse, best_plan
from extrap.planning.candidates import (
    MOST_SEEDS,
    Market,
    Move,
    new_sizes,
    read_among,
    seed_names,
    seed_numbers,
)
from extrap.planning.expectations import Foresight, Widths, foresee
from extrap.planning.plans import Expectation, LargerSize, Plan, Purchase
from extrap.reading.runs import ReadingKeywords
from extrap.reading.sources import read_cells
from extrap.records import Runs

MOST_RUNS = 2000
"""A plan longer than this is no next step."""
N_PARTS = 5
"""Parts of the purchases after which the widths are given."""

Sizes = Mapping[str, float]
ABOUT = 1.1
"""A size at the edge of its grid is bracketed unless the widths expected then are so many times as
large: what it says now is an estimate, so they are known to about that."""


def plan(
    source: Any,
    *,
    at: Sizes | float,
    budget: float | None = None,
    n_runs: int | None = None,
    hours: bool = False,
    cost: str | None = None,
    aim: str | None = None,
    among: Any = None,
    larger: bool = True,
    most_seeds: int = MOST_SEEDS,
    **columns: Unpack[ReadingKeywords],
) -> Plan:
    """Choose the runs that narrow the forecast at a size most for their cost.

    Candidates are further seeds and values around the predicted optimum of a swept size, and the
    first runs at sizes between and beyond the swept ones, up to the target: at the recommended
    values and on both sides of them, because a size whose optimum is not bracketed does not inform
    the laws. The plan adds runs step by step. Each step lowers the sum of the log widths of all
    prediction intervals at the target most for its cost. The plan also tries each first step at a
    size beyond the sweep, and keeps the best result. Gains are computed from the least-squares
    variance of the optima in the design, through the gradients of the laws; then the laws are
    refitted to the expected losses, and a step that widens an interval is dropped. A size whose
    optimum is not bracketed is bracketed first.

    Args:
        source: The forecast, the file it was sealed in, or runs as `extrap.forecast` takes them.
        at: The target: one value per size column, or the value of the only one.
        budget: Largest total cost, in FLOPs, in hours, or in the unit of `cost`.
        n_runs: Largest number of runs.
        hours: Whether the budget is in hours, measured by the column `wall_s`.
        cost: Cost of a run as arithmetic over columns, such as `6 * n_params * n_tokens`; by
            default the column `flops`, else `n_params` and `n_tokens`, else `cost`; without a
            budget the seconds of `wall_s` where nothing else is known.
        aim: `"loss"` or a tuned column, to narrow its interval only; None for all intervals.
        among: The runs to choose from, a path or a frame: size and tuned columns, and optionally
            `seed`.
        larger: Whether the plan may contain sizes beyond the sweep.
        most_seeds: Largest number of seeds per size and values, including those of the sweep.
        columns: How runs are read, as for `extrap.forecast`.

    Raises:
        ValueError: No budget, or one that is not positive; the target is not a size; `aim` is not
            a tuned column; the formula is invalid.
        DataError: The costs of the runs are unknown, or the runs give neither a forecast nor a
            direction in which to bracket their optima.

    References:
        Ours. The value of a run per cost as in Schram et al. (PMLR v306), who buy runs of a
        scaling law one after the other; greedy gain by cost as in Khuller, Moss, Naor (1999), The
        budgeted maximum coverage problem, Inf. Process. Lett. 70, 39.

    Example:
        >>> import extrap
        >>> made = extrap.plan("examples/sweep.csv", at={"width": 1024}, budget=2e12)
        >>> made.cost <= 2e12
        True
    """
    _check_budget(budget, n_runs, most_seeds)
    made = as_forecast(source, columns)
    target = dict((made.at(**at) if isinstance(at, Mapping) else made.at(at)).size)
    price = read_run_cost(made.runs, formula=cost, hours=hours, seconds=budget is None)
    aims = _aims(made, aim)
    offered = None
    if among is not None:
        columns_of_cells = (*made.runs.sizes, *made.runs.tuned)
        offered = read_cells(among, columns_of_cells, "the table of available runs")
    cells = None if offered is None else read_among(offered, made.runs)
    names = seed_names(made.runs, offered)
    noise_free = VertexModel.of(made.excess_curve, made.noise, scatter=0.0)
    market = Market(forecast=made, model=noise_free, among=cells, at=target, most_seeds=most_seeds)
    purse = Purse(
        price=price,
        budget=math.inf if budget is None else budget,
        n_runs=min(n_runs or MOST_RUNS, MOST_RUNS),
    )
    try:
        sight = foresee(made, target)
    except DataError:
        brackets = []
        for move in _bracketed(made, market, purse):
            purse.pay(move)
            brackets.append(move)
        if not brackets:
            raise
        return _unseen(made, target, price, brackets, names, budget=budget)
    begun = Basket(designs=sight.designs, now=sight.now(), aims=aims)
    first = aims[:1] if begun.now.knows(aims[:1]) else aims
    for move in _bracketed(made, market, purse):
        designs = [*begun.designs, *_expected(made, sight, move)]
        widths = sight.refitted(designs, n_new=purse.bought + len(move.cells))
        if not widths.widens(begun.widths, first, by=ABOUT):
            begun = begun.bought((move,), designs, widths, market=market, purse=purse)
    market.model = sight.model
    between, beyond = _places(made, target, cells)
    swept = [dict(design.size) for design in begun.designs]
    sizes = [*swept, *between, *(beyond if larger else [])]
    found = best_plan(sight, market, purse, begun, sizes, beyond if larger else [])
    brackets = [move for step in begun.steps for move in step.moves]
    beyond_expectations = _larger(sight, market, price, beyond, purse.budget)
    made_plan = Plan(
        at=target,
        level=made.level,
        budget=budget,
        unit=price.unit,
        cost_from=price.source,
        spent=_spent(made.runs, price),
        purchases=_purchases(made, [step.moves for step in found.steps], price, names),
        expectations=tuple(_expectations(found)),
        floor=_expectation(sight.floor(), n_runs=0, cost=0.0),
        limits=sight.limits(),
        larger=tuple(beyond_expectations),
        advice=(),
        flags=(*made.at(**target).flags, *price.flags, *_flags(brackets)),
    )
    why = "" if found.steps else _why_none(market, purse, sizes, swept)
    return replace(made_plan, advice=advise(made_plan, why=why))


def _places(
    made: Forecast, at: Sizes, cells: Mapping[tuple[float, ...], object] | None
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """New sizes that may be bought, the target among them: in the sweep's range, and beyond it."""
    columns = made.runs.sizes
    swept = {tuple(o.size.values()) for o in made.optima}
    low, top = ([end(key[i] for key in swept) for i in range(len(columns))] for end in (min, max))
    if cells is None:
        offered = [tuple(s.values()) for s in (*chain(*new_sizes(made.runs, at)), at)]
    else:
        offered = sorted(cells)
    fresh = [k for k in offered if k not in swept]
    fresh = [k for k in fresh if all(v >= m for v, m in zip(k, low, strict=True))]
    is_inside = [all(v <= m for v, m in zip(k, top, strict=True)) for k in fresh]
    named = [dict(zip(columns, k, strict=True)) for k in fresh]
    inside, outside = (
        [s for s, i in zip(named, is_inside, strict=True) if i == w] for w in (1, 0)
    )
    return inside, outside


def _bracketed(made: Forecast, market: Market, purse: Purse) -> Iterator[Move]:
    """Values beyond the edges of sizes whose optimum is not inside, the cheapest sizes first."""
    for optimum in sorted(made.optima, key=lambda o: purse.price.of(o.size)):
        move = None if not optimum.edge else market.bracket(optimum.size, optimum.edge)
        if move is not None and purse.affords(move):
            yield move


def _expected(made: Forecast, sight: Foresight, move: Move) -> list[Design]:
    """A size that will be bracketed, if its runs then suffice."""
    frame = made.runs.complete().to_frame()
    here = frame[np.logical_and.reduce([frame[c] == v for c, v in move.size.items()])]
    centre = [e.value or 1.0 for e in made.predict_tuned(move.size, refuse=False).values()]
    own = np.log2(here[list(made.runs.tuned)].to_numpy(dtype=float) / np.array(centre))
    seeds = tuple(seed_numbers(frame["seed"])[here.index])
    design = Design(size=move.size, octaves=own, seeds=seeds)
    whole = design.with_runs(np.array(move.octaves), tuple(s for _, s in move.cells))
    return [whole] if sight.model.of_design(whole).loss < 1.0 else []


def _expectations(found: Basket) -> list[Expectation]:
    """Widths now, after parts of the purchases, each half of the next, and after all of them."""
    every = [_expectation(found.now, n_runs=0, cost=0.0)]
    every += [_expectation(s.widths, n_runs=s.n_runs, cost=s.cost) for s in found.steps]
    costs = np.array([each.cost for each in every])
    near = {int(np.argmin(np.abs(costs - costs[-1] / 2**k))) for k in range(N_PARTS)}
    return [every[i] for i in sorted({0, *near})]


def _expectation(widths: Widths, *, n_runs: int, cost: float) -> Expectation:
    return Expectation(n_runs=n_runs, cost=cost, loss_width=widths.loss, tuned_width=widths.tuned)


def _why_none(market: Market, purse: Purse, sizes: Sequence[Sizes], swept: Sequence[Sizes]) -> str:
    """Why nothing is bought, as a clause."""
    moves = [m for size in sizes for m in market.moves(size, is_known=size in swept)]
    if not moves:
        return (
            "every available run exists already, exceeds the number of seeds per cell, "
            "lies too far from a predicted optimum, or is at a new size without values "
            "on both sides"
        )
    if not any(purse.affords(move) for move in moves):
        least = min(moves, key=lambda m: (len(m.cells) > purse.n_runs, purse.cost(m)))
        where = ", ".join(f"{c}={v:g}" for c, v in least.size.items())
        bound = "the budget" if purse.cost(least) > purse.budget else "the number of runs"
        runs = f"{len(least.cells)} run{'s' * (len(least.cells) > 1)}"
        return f"the smallest step, {runs} at {where} for {purse.cost(least):.3g}, exceeds {bound}"
    return "no affordable run narrows one interval without widening another"


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
            basket = Basket(designs=sight.designs, now=sight.now(), aims=())
            widths = sight.refitted(basket.with_moves((moves[0],)), n_new=len(moves[0].cells))
            cost = price.of(size) * len(moves[0].cells)
            expectation = _expectation(widths, n_runs=len(moves[0].cells), cost=cost)
            found.append(LargerSize(size=size, expectation=expectation, in_budget=cost <= budget))
    return found


def _purchases(
    made: Forecast, steps: Iterable[Sequence[Move]], price: RunCost, names: Mapping[int, str]
) -> tuple[Purchase, ...]:
    return tuple(
        Purchase(
            size=dict(move.size),
            tuned=dict(zip(made.runs.tuned, values, strict=True)),
            seed=names.get(seed, seed),
            cost=price.of(move.size),
            step=step,
            reason=move.reason,
        )
        for step, moves in enumerate(steps, start=1)
        for move in moves
        for values, seed in move.cells
    )


def _unseen(
    made: Forecast,
    at: Sizes,
    price: RunCost,
    brackets: Sequence[Move],
    names: Mapping[int, str],
    *,
    budget: float | None,
) -> Plan:
    """A plan whose widths are not known yet: bracket the optima, then plan again."""
    unknown = Expectation(
        n_runs=0, cost=0.0, loss_width=None, tuned_width=dict.fromkeys(made.runs.tuned)
    )
    bought = _purchases(made, [[move] for move in brackets], price, names)
    then = replace(unknown, n_runs=len(bought), cost=sum(p.cost for p in bought))
    found = Plan(
        at=at,
        level=made.level,
        budget=budget,
        unit=price.unit,
        cost_from=price.source,
        spent=_spent(made.runs, price),
        purchases=bought,
        expectations=(unknown, then),
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
        raise ValueError(
            f"aim must be one of {', '.join(known)}, got {aim!r}; leave it out for all."
        )
    return (aim,)


def _check_types(budget: object, n_runs: object, most_seeds: object) -> None:
    if isinstance(budget, bool) or not isinstance(budget, Real | None):
        raise TypeError(f"a budget must be a number, got {budget!r}; give its amount.")
    for name, count in (("n_runs", 1 if n_runs is None else n_runs), ("most_seeds", most_seeds)):
        if isinstance(count, bool) or not isinstance(count, Integral):
            what = name.partition("_")[2]
            raise TypeError(
                f"{argument(name)} must be a whole number, got {count!r}; give how many {what}."
            )


def _check_budget(budget: float | None, n_runs: int | None, most_seeds: int) -> None:
    _check_types(budget, n_runs, most_seeds)
    if most_seeds < 1:
        raise ValueError(
            f"{argument('most_seeds')} must be at least 1, got {most_seeds}; leave it out for 4."
        )
    if budget is None and n_runs is None:
        raise ValueError(
            f"a plan needs a budget, got none; give {argument('budget', ...)}, or a number of "
            f"runs, {argument('n_runs', ...)}."
        )
    if budget is not None and not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"a budget must be positive and finite, got {budget:g}; give its amount.")
    if n_runs is not None and n_runs < 1:
        raise ValueError(
            f"{argument('n_runs')} must be at least 1, got {n_runs}; leave it out for no bound."
        )
