"""What `extrap plan` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.analyses.sweep.flags import MEANINGS
from extrap.forecasting.planning import Option, Plan
from extrap.records import Interval
from extrap.records.numbers import (
    format_cost,
    format_interval,
    format_level,
    format_percent,
    format_quantity,
    format_scientific,
    name_size,
)
from extrap.reporting.blocks import Answer, Block, Warnings
from extrap.reporting.flags import confidence, explain_flags
from extrap.reporting.tables import Table

WIDEST_LOSS, WIDEST_TUNED = math.log(100), 20.0
"""Widths, in log loss and in octaves, beyond which an interval says nothing."""
GRAVE = ("no-loss-law", "far-extrapolation", "lack-of-fit")
"""Flags that make the confidence low."""
OPTION_ACTIONS = {
    "bracket": "bracket the optimum",
    "seed": "one more seed at every size",
    "finer": "finer values at every size",
    "between": "a size between",
    "larger": "a larger size",
    "target": "the target itself",
    "grid": "an even grid",
}
"""Name of an option → what it does."""


def plan_blocks(plan: Plan) -> list[Block]:
    """The answer, the options, the runs of the chosen one, warnings."""
    warnings = Warnings(explain_flags(plan.flags, MEANINGS))
    return [plan_answer(plan), _options(plan), _runs(plan), warnings]


def plan_answer(plan: Plan) -> Answer:
    """What to train, what it costs, and how much narrower the intervals become."""
    budget = ""
    if plan.budget is not None:
        budget = f"; budget {format_scientific(plan.budget)} {plan.unit}"
    certain = "Confidence: high; no warnings."
    return Answer(
        text=f"For {name_size(plan.at)}, {_choice(plan)}",
        confidence=confidence(plan.flags, MEANINGS, grave=GRAVE, otherwise=certain)
        + f" Costs are from {plan.cost_from}{budget}.",
    )


def _choice(plan: Plan) -> str:
    if plan.chosen is None:
        reason = "none in the budget narrows the intervals"
        if not any(option.in_budget for option in plan.options):
            least = format_scientific(min(option.cost for option in plan.options))
            reason = f"the cheapest option costs {least} {plan.unit}, more than the budget"
        return f"no further run is suggested: {reason}."
    option = plan.options[plan.chosen]
    part = format_percent(option.cost / plan.spent, signed=False) if plan.spent else ""
    share = f", {part} of the sweep's cost" if part else ""
    text = (
        f"train {len(option.runs)} runs, {_what(option)}, for {format_scientific(option.cost)} "
        f"{plan.unit}{share}: "
    )
    if option.gain is None:
        return f"{text}the intervals are not known yet; train these runs and plan again."
    widths, then = _widths(plan.loss_pi, plan.tuned_pi), _widths(option.loss_pi, option.tuned_pi)
    changes = [
        f"the interval of {'the loss' if name == 'loss' else name} goes from {now} to {then[name]}"
        for name, now in widths.items()
    ]
    return f"{text}{', '.join(changes)}."


def _what(option: Option) -> str:
    """An option with its sizes, where they are few."""
    sizes = ", ".join(map(name_size, option.sizes))
    is_new = option.name in ("between", "larger", "bracket", "grid")
    return f"{OPTION_ACTIONS[option.name]} ({sizes})" if is_new else OPTION_ACTIONS[option.name]


def _options(plan: Plan) -> Table:
    """Each option with its runs, its cost and the intervals then; the first row is now."""
    rows = [("now", "", "", *_cells(plan.loss_pi, plan.tuned_pi))]
    for i, option in enumerate(plan.options):
        mark = "chosen: " * (i == plan.chosen) + "beyond the budget: " * (not option.in_budget)
        cost = format_scientific(option.cost)
        intervals = _cells(option.loss_pi, option.tuned_pi)
        rows.append((f"{mark}{_what(option)}", f"{len(option.runs)}", cost, *intervals))
    caption = f"Options, with the {format_level(plan.level)} prediction intervals at the target"
    return Table(caption, ("", "runs", plan.unit, "loss", *plan.tuned_pi), rows)


def _cells(loss_pi: Interval, tuned_pi: Mapping[str, Interval]) -> list[str]:
    """Each interval above its width."""
    widths, intervals = _widths(loss_pi, tuned_pi), {"loss": loss_pi, **tuned_pi}
    cells = []
    for name, interval in intervals.items():
        write = None if name == "loss" else format_quantity
        is_known = widths[name] != "unknown"
        cells.append(
            f"{format_interval(interval, write)}\n{widths[name]}" if is_known else "unknown"
        )
    return cells


def _widths(loss_pi: Interval, tuned_pi: Mapping[str, Interval]) -> dict[str, str]:
    """Widths as text: of the loss in percent, of others in octaves."""
    texts = {}
    for name, (low, high) in {"loss": loss_pi, **tuned_pi}.items():
        width = math.log(high / low) if low and high else math.inf
        if name == "loss":
            texts[name] = format_cost(width) if width <= WIDEST_LOSS else "unknown"
        else:
            octaves = width / math.log(2)
            text = f"{format_quantity(octaves, digits=2)} octaves"
            texts[name] = text if octaves <= WIDEST_TUNED else "unknown"
    return texts


def _runs(plan: Plan) -> Table:
    """One row for the seeds of one size and one set of values."""
    kinds: dict[tuple[float, ...], list[str]] = {}
    for run in plan.runs:
        kinds.setdefault((*run.size.values(), *run.tuned.values()), []).append(str(run.seed))
    columns = (*plan.at, *plan.tuned_pi, "seeds")
    rows = [(*map(format_quantity, key), ", ".join(seeds)) for key, seeds in kinds.items()]
    return Table("Runs to train", columns, rows)
