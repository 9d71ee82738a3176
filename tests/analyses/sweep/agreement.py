"""Which numbers a page of a forecast states for one question, and where they differ.

`python -m tests.analyses.sweep.agreement SWEEP BIG` prints them for the page of two tables.
"""

import re
import sys
from collections import defaultdict
from typing import NamedTuple

from extrap.analyses.sweep.answer import answer_rows
from extrap.analyses.sweep.judged_groups import group_verdicts
from extrap.analyses.sweep.page import forecast_page
from extrap.analyses.sweep.verdicts import check
from extrap.forecasting import forecast
from extrap.forecasting.documents import forecast_document
from extrap.reporting.blocks import Answer, Figure, Paragraph
from extrap.reporting.charts import XYChart
from extrap.reporting.tables import Table
from tests.analyses.conftest import opened, plain

NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
USE, LOSS, INTERVAL = "value to use", "loss", "interval of the loss"
DRAWN = {"tuned": LOSS, "recommended": USE}
"""Line or marks of a chart → what they show."""
OTHER_FITS = "Held-out sizes"
"""The table of a backtest, each row of which belongs to another forecast."""
SEEN, COST, COST_INTERVAL = "measured loss", "cost of keeping", "interval of that cost"
SENTENCES = (
    (USE, rf"Use \w+ ({NUMBER})"),
    (USE, rf"[Rr]ecommended (?:\w+ = )?({NUMBER})"),
    (LOSS, rf"expect a loss of ({NUMBER})"),
    (INTERVAL, rf"expect a loss of {NUMBER} \(.*?: ({NUMBER}) to ({NUMBER})\)"),
    (SEEN, rf"runs there reached ({NUMBER}) ± ({NUMBER})"),
    (COST, rf"keeping {NUMBER} .*?costs? ({NUMBER}) %"),
    (COST_INTERVAL, rf"costs? {NUMBER} % in loss \(.*?: ({NUMBER}) % to ({NUMBER}) %\)"),
)
"""What sentences say to use, to expect, was seen, and what keeping a value costs."""


class Statement(NamedTuple):
    """Numbers as a page writes them, and where."""

    numbers: tuple[str, ...]
    place: str


def questions(page, document):
    """(quantity, size) → the statements of a page, and of the document of its forecast."""
    found = defaultdict(list)
    for point in document["points"]:
        size = " ".join(f"{name} {value:g}" for name, value in point["size"].items())
        for quantity, numbers in (
            (USE, point["recommended"].values()),
            (LOSS, [point["loss"]]),
            (INTERVAL, point["loss_pi"]),
        ):
            numbers = tuple(f"{number:.10g}" for number in numbers)
            found[quantity, size].append(Statement(numbers, "JSON"))
    for block in opened(page.blocks):
        if isinstance(block, Answer | Paragraph):
            text = plain(block.text)
            read_text(found, text, re.findall(rf"at (\w+ {NUMBER})", text)[:1], "text")
        elif isinstance(block, Figure) and isinstance(block.chart, XYChart):
            _read_chart(found, block.chart)
        elif isinstance(block, Table) and block.caption != OTHER_FITS:
            columns = [*map(plain, block.columns)]
            for row in block.rows:
                cells = dict(zip(columns, map(plain, row), strict=True))
                _read_row(found, plain(block.caption), cells)
    return dict(found)


def conflicts(page, document):
    """The questions for which these state numbers that differ."""
    return {
        question: statements
        for question, statements in questions(page, document).items()
        if any(
            not _agree(one.numbers, other.numbers) for one in statements for other in statements
        )
    }


def document_of(made, verdicts):
    """What `extrap forecast --json` prints at the sizes of the page."""
    rows = answer_rows(made, group_verdicts(verdicts))
    return forecast_document(made, [row.point for row in rows])


def _agree(ours, theirs):
    """Whether two statements are the same numbers, rounded each in its own way."""
    return len(ours) != len(theirs) or all(
        abs(float(a) - float(b)) <= 0.51 * (_step(a) + _step(b))
        for a, b in zip(ours, theirs, strict=True)
    )


def _step(number):
    """One unit of the last digit that is written."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def read_text(found, text, sizes, place):
    """Add what the sentences of a text say of these sizes."""
    for size in sizes:
        for quantity, pattern in SENTENCES:
            for match in re.finditer(pattern, text):
                found[quantity, size].append(Statement(match.groups(), place))


def _read_chart(found, chart):
    """What the marks of a chart over size say."""
    for each in chart.series:
        if (quantity := DRAWN.get(each.label)) is not None:
            for i, (x, y) in enumerate(zip(each.x, each.y, strict=True)):
                size, place = f"{chart.x.label} {x:g}", f"{chart.title}: {each.label}"
                found[quantity, size].append(Statement((f"{y:.10g}",), place))
                if quantity == LOSS and each.lower:
                    ends = tuple(f"{end[i]:.10g}" for end in (each.lower, each.upper))
                    found[INTERVAL, size].append(Statement(ends, f"{place}, interval"))


def _read_row(found, caption, row):
    """What a row of a table says of its size."""
    width = f"width {row['width']}" if "width" in row else f"{row.get('size', '')} {caption}"
    for size in re.findall(rf"width {NUMBER}", width)[:1]:
        best = next((s.numbers[0] for s in found[USE, size]), "nan")
        is_best = re.findall(NUMBER, row.get("values", row.get("lr", "")))[:1]
        is_best = is_best and _agree((is_best[0],), (best,))
        for column, cell in row.items():
            place = f"{caption}: {column}"
            read_text(found, cell, [size], place)
            quantity = _quantity(caption, column, row, is_best=is_best)
            numbers = re.findall(rf"(?<![\w.]){NUMBER}", cell) if quantity else []
            parts = {quantity: numbers[:1]}
            if quantity == SEEN:
                parts = {SEEN: numbers[:2]}
            elif quantity == LOSS:
                parts[INTERVAL] = numbers[1:3]
            elif quantity == COST:
                parts[COST_INTERVAL] = numbers[1:3]
            for part, values in parts.items():
                if values:
                    found[part, size].append(Statement(tuple(values), place))


def _quantity(caption, column, row, *, is_best):
    """What the first number of a cell is; None for what no other place of a page states."""
    if (line := row.get("tuned value")) is not None:  # the cost of other values
        kept = COST if line.endswith("best at width 16") else None
        named = USE if line.endswith(", recommended") else None
        return {"extra loss": kept, "tuned value": named}.get(column)
    if column == "recommended lr":
        return USE
    if re.fullmatch(r"forecast( \(.*\)| loss)?", column):
        return LOSS
    is_seen = column == "observed" or (is_best and caption.startswith("Larger runs"))
    return SEEN if is_seen and column in ("observed", "loss") else None


if __name__ == "__main__":
    sweep, big = sys.argv[1:]
    made = forecast(sweep)
    larger = check(made, big)
    said = conflicts(forecast_page(made, larger), document_of(made, larger))
    for (quantity, size), statements in sorted(said.items()):
        print(f"{quantity} at {size}")  # noqa: T201
        for statement in statements:
            print(f"  {' to '.join(statement.numbers)}  {statement.place}")  # noqa: T201
