"""What `extrap plan` prints."""

from __future__ import annotations

from collections.abc import Mapping

from extrap.files import as_written
from extrap.planning.advice import WIDEST_LOSS, WIDEST_TUNED
from extrap.planning.plans import Expectation, Plan, Purchase
from extrap.records.numbers import (
    format_cost,
    format_level,
    format_quantity,
    format_scientific,
    name_size,
)
from extrap.reporting.blocks import Answer, Block, Paragraph, Warnings, shown
from extrap.reporting.glossary import confidence, explain_flags
from extrap.reporting.tables import Table

MOST_LINES = 60
"""Kinds of purchase that are listed."""
GRAVE = ("no-loss-law", "far-extrapolation", "brackets-first", "lack-of-fit")
"""Flags that make the confidence low."""


def plan_blocks(found: Plan) -> list[Block]:
    """The answer, the runs to train, the widths they leave, what limits them, warnings."""
    tables = shown((_purchases(found), _expectations(found), _limits(found)))
    advice = map(Paragraph, found.advice[1:])
    warnings = Warnings(explain_flags(found.flags))
    return [plan_answer(found), *tables, *advice, warnings]


def plan_answer(found: Plan) -> Answer:
    """What to train, what it costs, and how much narrower the intervals become."""
    text = found.advice[0]
    if found.purchases:
        text = f"Train {text}"
    budget = ""
    if found.budget is not None:
        budget = f"; budget {format_scientific(found.budget)} {found.unit}"
    certain = "Confidence: high; no warnings."
    return Answer(
        text=f"For {name_size(found.at)}: {text[0].lower()}{text[1:]}".replace("e+", "e"),
        confidence=confidence(found.flags, grave=GRAVE, otherwise=certain)
        + f" Costs are from {found.cost_from}{budget}.",
    )


def _purchases(found: Plan) -> Table:
    """One row for the seeds of one size and one set of values, in the order of training."""
    kinds: dict[tuple[object, ...], list[Purchase]] = {}
    for purchase in found.purchases:
        key = (*purchase.size.values(), *purchase.tuned.values(), purchase.reason)
        kinds.setdefault(key, []).append(purchase)
    rows = [
        (
            *(format_quantity(value) for value in runs[0].size.values()),
            *(format_quantity(value) for value in runs[0].tuned.values()),
            _seeds([run.seed for run in runs]),
            format_scientific(sum(run.cost for run in runs)),
            runs[0].reason,
        )
        for runs in kinds.values()
    ]
    n_more = len(rows) - MOST_LINES
    columns = (*found.at, *found.now.tuned_width, "seeds", found.unit, "why")
    note = f"… and {n_more} more kinds of run" if n_more > 0 else ""
    return Table("runs to train, in order", columns, rows[:MOST_LINES], note)


def _seeds(found: list[int | str]) -> str:
    seeds = [seed for seed in found if isinstance(seed, int)]
    if len(seeds) < len(found):
        return ",".join(as_written(str(seed)) for seed in dict.fromkeys(found))
    ordered = sorted(set(seeds))
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}–{ordered[-1]}"
    return ",".join(map(str, ordered))


def _expectations(found: Plan) -> Table:
    """The widths now, after the plan, and what else could be bought would leave."""
    n = len(found.expectations)
    stages = ["now", *["during the plan"] * (n - 2), "after the plan"]
    rows = [_row(*pair) for pair in zip(stages, found.expectations, strict=False)]
    rows.append(("best possible without new sizes", "–", "–", *_widths(found.floor)))
    rows += [_row(f"only {name_size(each.size)}", each.expectation) for each in found.larger]
    names = (f"{name}, octaves" for name in found.now.tuned_width)
    caption = f"width of the {format_level(found.level)} prediction intervals at the target"
    return Table(caption, ("", "runs", found.unit, "loss", *names), rows)


def _row(name: str, expectation: Expectation) -> tuple[str, ...]:
    return (
        name,
        f"{expectation.n_runs}",
        format_scientific(expectation.cost),
        *_widths(expectation),
    )


def _widths(expectation: Expectation) -> list[str]:
    tuned: Mapping[str, float | None] = expectation.tuned_width
    loss = expectation.loss_width
    is_known = loss is not None and loss <= WIDEST_LOSS
    first = format_cost(loss or 0.0) if is_known else "unknown"
    octaves = (
        w is not None and w <= WIDEST_TUNED and format_quantity(w, digits=2)
        for w in tuned.values()
    )
    return [first, *(width or "unknown" for width in octaves)]


def _limits(found: Plan) -> Table:
    """What makes each interval wide, as shares of its variance."""
    rows = [
        (name, cause, format_level(round(share, 2)))
        for name, parts in found.limits.items()
        for cause, share in sorted(parts.items(), key=lambda pair: -pair[1])
        if share >= 0.005
    ]
    columns = ("interval of", "source", "share of the variance")
    return Table("sources of uncertainty now", columns, rows)
