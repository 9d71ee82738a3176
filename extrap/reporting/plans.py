"""A plan as plain text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.files import as_written
from extrap.planning import Outlook, Plan, Purchase
from extrap.reporting.numbers import NBSP, format_quantity
from extrap.reporting.text import text_columns

__all__ = ["plan_text"]

MOST_LINES = 60
"""Kinds of purchase that are listed."""


def plan_text(found: Plan) -> str:
    """What to buy, how wide the intervals will be, what limits them, and every doubt."""
    budget = "" if found.budget is None else f" of {found.budget:.3g}"
    target = ", ".join(f"{c} {v:g}" for c, v in found.at.items())
    n_runs = f"{len(found.purchases)} run" + "s" * (len(found.purchases) != 1)
    lines = [
        f"plan for {target}: {n_runs}, {found.cost:.3g}{budget} {found.unit} "
        f"(cost from {found.cost_from})",
        "",
        *_purchase_lines(found),
        f"width of the {found.level:.0%} prediction intervals at the target",
        *_outlook_lines(found),
        "",
    ]
    for name, parts in found.limits.items():
        ordered = sorted(parts.items(), key=lambda pair: -pair[1])
        said = ", ".join(f"{cause} {share:.0%}" for cause, share in ordered if share >= 0.005)
        lines.append(f"what makes {name} uncertain now: {said}")
    lines += [""] * bool(found.limits)
    lines += [*found.advice, *("flag: " + flag for flag in found.flags)]
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def _purchase_lines(found: Plan) -> list[str]:
    """One line for the seeds of one size and one set of values, in the order of buying."""
    kinds: dict[tuple[object, ...], list[Purchase]] = {}
    for purchase in found.purchases:
        key = (*purchase.size.values(), *purchase.tuned.values(), purchase.reason)
        kinds.setdefault(key, []).append(purchase)
    if not kinds:
        return []
    rows = [
        [
            *(f"{value:g}" for value in runs[0].size.values()),
            *(format_quantity(value) for value in runs[0].tuned.values()),
            _seeds([run.seed for run in runs]),
            f"{sum(run.cost for run in runs):.3g}",
            runs[0].reason,
        ]
        for runs in kinds.values()
    ]
    header = [*found.at, *found.now.tuned_width, "seeds", found.unit, "why"]
    more = [f"… and {len(rows) - MOST_LINES} more kinds of run"] * (len(rows) > MOST_LINES)
    return ["runs to buy, in order", *text_columns(header, rows[:MOST_LINES]), *more, ""]


def _seeds(found: list[int | str]) -> str:
    seeds = [seed for seed in found if isinstance(seed, int)]
    if len(seeds) < len(found):
        return ",".join(as_written(str(seed)) for seed in dict.fromkeys(found))
    ordered = sorted(set(seeds))
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}–{ordered[-1]}"
    return ",".join(map(str, ordered))


def _outlook_lines(found: Plan) -> list[str]:
    names = list(found.now.tuned_width)
    header = ["", "runs", found.unit, "loss", *(f"{name}, octaves" for name in names)]
    rows = [_row("now" if not o.n_runs else "then", o) for o in found.outlooks]
    rows.append(["any number of runs at the swept sizes alone", "", "", *_widths(found.floor)])
    for each in found.larger:
        where = ", ".join(f"{c} {v:g}" for c, v in each.size.items())
        rows.append(_row(f"{where} alone", each.outlook))
    return text_columns(header, rows)


def _row(name: str, outlook: Outlook) -> list[str]:
    return [name, f"{outlook.n_runs}", f"{outlook.cost:.3g}", *_widths(outlook)]


def _widths(outlook: Outlook) -> list[str]:
    tuned: Mapping[str, float | None] = outlook.tuned_width
    loss = outlook.loss_width
    told = "unknown" if loss is None or loss > math.log(100) else f"{100 * math.expm1(loss):.3g} %"
    return [told, *("unknown" if w is None else f"{w:.2g}" for w in tuned.values())]
