"""Two studies side by side: what each asked, answered, and forecasts at common sizes.

It compares numbers and marks intervals that do not overlap; whether a difference is significant
is what `extrap compare` tests, with the runs of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.records import Interval
from extrap.reporting.blocks import (
    Answer,
    Block,
    Columns,
    Details,
    Figure,
    Page,
    Paragraph,
    Warnings,
)
from extrap.reporting.charts import Axis, Series, XYChart, points, series
from extrap.reporting.forecast_page import limits
from extrap.reporting.glossary import explain_flags
from extrap.reporting.html import write_page
from extrap.reporting.numbers import (
    format_estimate,
    format_interval,
    format_level,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    stacked,
)
from extrap.reporting.tables import Table

CAUTION = "This is no test: extrap compare tests a difference on the runs of both studies."
LIMITS = (
    "Whether a difference is significant: intervals that overlap may hide one, and intervals that "
    "do not may come from data or seeds that the studies do not share.",
    "Whether the sizes of both count the same thing and the losses are of the same data.",
)
_OTHER = "≠"
NAMELESS = ("A", "B")
INKS, LINES, MARKERS = ("law", "fixed"), ("-", "--"), ("o", "D")
LONGEST_NAME = 40

Document = Mapping[str, Any]
Both = tuple[Mapping[str, Any], Mapping[str, Any]]
Target = tuple[dict[str, float], tuple[dict[str, Any], dict[str, Any]]]


def beside_page(
    first: Document, second: Document, *, path: str | Path, title: str | None = None
) -> Path:
    """Write a page with two studies side by side.

    Args:
        first: What `read_report` returns of one report, or `report_document` of a forecast.
        second: Of the other.
        path: Where to write.
        title: Heading; by default both titles.

    Raises:
        DataError: One of them is no report on a forecast.
    """
    both = (first, second)
    for document in both:
        if document["kind"] != "report":
            raise DataError(
                "extrap beside takes two reports on forecasts, got a page of the kind "
                f"{document['kind']!r}: {document['title'][:80]}; give two pages of extrap report."
            )
    numbers: Both = (both[0]["numbers"], both[1]["numbers"])
    names = _names(both)
    targets = common_targets(*numbers)
    figures = [Figure(chart) for chart in _charts(names, numbers)]
    warnings = [
        replace(flag, detail=": ".join(filter(None, (name, flag.detail))))
        for name, each in zip(names, numbers, strict=True)
        for flag in explain_flags([f"{f['name']}: {f['detail']}" for f in each["flags"]])
    ]
    blocks: list[Block] = [
        _answer(names, numbers, targets),
        *(Paragraph(f"▲ {note}") for note in _notes(names, numbers, targets)),
        Columns(figures[:2]),
        Warnings(warnings),
        _targets_table(names, numbers, targets),
        Details("Other tuned values", [Columns(figures[2:])]),
        Details("Studies", [_studies_table(names, both)]),
        Details("Laws", [_laws_table(names, numbers)]),
        Details("Larger runs", [_judged_table(names, numbers)]),
        limits(LIMITS),
    ]
    page = Page(
        kind="beside",
        title=title or f"{names[0]} beside {names[1]}",
        question="How do the forecasts of two studies differ?",
        created=max(document["created"] for document in both),
        blocks=blocks,
        numbers={
            "kind": "extrap-beside",
            "schema_version": 1,
            "names": names,
            "studies": [
                {k: document[k] for k in ("title", "question", "answer", "created", "status")}
                | {"ok": document.get("ok")}
                for document in both
            ],
            "targets": [{"size": size, "points": list(pair)} for size, pair in targets],
        },
        status="differ" if any(_differs(*pair) for _, pair in targets) else "",
    )
    return write_page(page, path)


def common_targets(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Target]:
    """Sizes that either study forecast and for which both have a value, smallest first.

    A size that a study did not forecast is interpolated on its curve, between points a few percent
    apart on log axes; beyond the curve there is no value.

    Returns:
        Size, and for both studies `loss`, `loss_pi`, `tuned` (name → value and pi), `is_read_off`.
    """
    if set(first["sizes"]) != set(second["sizes"]):
        return []
    sizes: dict[tuple[float, ...], dict[str, float]] = {}
    for numbers in (first, second):
        for point in numbers["forecast"]["points"]:
            size = {name: float(point["size"][name]) for name in first["sizes"]}
            sizes.setdefault(tuple(float(f"{v:.9g}") for v in size.values()), size)
    found = []
    for _, size in sorted(sizes.items()):
        a, b = (_point(numbers, size) for numbers in (first, second))
        if a is not None and b is not None:
            found.append((size, (a, b)))
    return found


def _point(numbers: Mapping[str, Any], size: Mapping[str, float]) -> dict[str, Any] | None:
    """The forecast at a size: its own point there, else its curve."""
    for point in numbers["forecast"]["points"]:
        if all(math.isclose(point["size"][name], value) for name, value in size.items()):
            tuned = {
                name: {"value": e["value"], "pi": e["pi"]} for name, e in point["tuned"].items()
            }
            return {
                "loss": point["loss"],
                "loss_pi": point["loss_pi"],
                "tuned": tuned,
                "is_read_off": False,
            }
    curve = numbers["curve"]
    if len(size) != 1 or not curve:
        return None
    ((column, value),) = size.items()
    x = [float(v) for v in curve[column]]
    if not x[0] <= value <= x[-1]:
        return None

    def at(name: str) -> float | None:
        y = np.array(curve[name], dtype=float) if name in curve else np.array([math.nan])
        if len(y) != len(x) or not (np.isfinite(y) & (y > 0)).all():
            return None
        return float(np.exp(np.interp(math.log(value), np.log(x), np.log(y))))

    return {
        "loss": at("loss"),
        "loss_pi": [at("loss_pi_lower"), at("loss_pi_upper")],
        "tuned": {
            name: {"value": at(name), "pi": [at(f"{name}_pi_lower"), at(f"{name}_pi_upper")]}
            for name in numbers["tuned"]
        },
        "is_read_off": True,
    }


def _names(both: Sequence[Document]) -> tuple[str, str]:
    """What the studies are called, short, and not alike."""
    shown = []
    for document, letter in zip(both, NAMELESS, strict=True):
        name = " ".join(str(document["title"]).removeprefix("Forecast from ").split())
        name = name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME + 1 :]}"
        shown.append(name or letter)
    if shown[0] == shown[1]:
        shown = [f"{letter}: {name}" for letter, name in zip(NAMELESS, shown, strict=True)]
    return shown[0], shown[1]


def _notes(names: tuple[str, str], numbers: Both, targets: Sequence[Target]) -> list[str]:
    """What the two do not share."""
    first, second = numbers
    found = []
    if set(first["sizes"]) != set(second["sizes"]):
        found.append(
            f"The sizes differ, {' and '.join(first['sizes'])} against "
            f"{' and '.join(second['sizes'])}. Read both runs with one shared size column, such "
            "as the number of parameters."
        )
    elif not targets:
        found.append(
            "Neither study covers a size that the other forecast. Write both reports with larger "
            "runs of the same sizes, or forecast both at one size."
        )
    if set(first["tuned"]) != set(second["tuned"]):
        found.append(
            f"The tuned values differ: {', '.join(first['tuned']) or 'none'} in {names[0]}, "
            f"{', '.join(second['tuned']) or 'none'} in {names[1]}; only shared ones are compared."
        )
    levels = [numbers_of["forecast"]["level"] for numbers_of in numbers]
    if levels[0] != levels[1]:
        found.append(
            f"The intervals have different levels, {format_level(levels[0])} and "
            f"{format_level(levels[1])}; make both reports with one --level."
        )
    if first["forecast"]["data_hash"] == second["forecast"]["data_hash"]:
        found.append("Both use the same runs.")
    return found


def _answer(names: tuple[str, str], numbers: Both, targets: Sequence[Target]) -> Answer:
    """What both forecast for the largest common size."""
    known = [(size, pair) for size, pair in targets if all(p["loss"] is not None for p in pair)]
    if not known:
        return Answer(
            text=f"{names[0]} and {names[1]} have no size in common that both forecast.",
            kind="none",
        )
    size, (a, b) = known[-1]
    losses = [format_estimate(p["loss"], Interval(*p["loss_pi"])) for p in (a, b)]
    level = format_level(numbers[0]["forecast"]["level"])
    is_apart = _apart(a["loss_pi"], b["loss_pi"])
    meet = "do not overlap" if is_apart else "overlap"
    text = (
        f"At {name_size(size)}, {names[0]} forecasts a loss of "
        f"{losses[0].replace('(', f'({level}: ', 1)} and {names[1]} {losses[1]}: "
        f"{format_percent(b['loss'] / a['loss'] - 1)}, and the intervals {meet}."
    )
    for name in _shared_tuned(numbers):
        values = [p["tuned"][name]["value"] for p in (a, b)]
        if None not in values:
            text += (
                f" The best {name} is {format_quantity(values[0])} and "
                f"{format_quantity(values[1])}, {abs(math.log2(values[1] / values[0])):.2f} "
                "octaves apart."
            )
    return Answer(text=text, confidence=CAUTION, kind="mixed" if is_apart else "forecast")


def _shared_tuned(numbers: Both) -> list[str]:
    return [name for name in numbers[0]["tuned"] if name in numbers[1]["tuned"]]


def _apart(a: Sequence[float | None], b: Sequence[float | None]) -> bool:
    """Whether two intervals have nothing in common."""
    (a_low, a_high), (b_low, b_high) = a, b
    if None in (a_low, a_high, b_low, b_high):
        return False
    return bool(a_high < b_low or b_high < a_low)  # type: ignore[operator]


def _differs(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    pairs = [(a["loss_pi"], b["loss_pi"])]
    pairs += [(a["tuned"][n]["pi"], b["tuned"][n]["pi"]) for n in a["tuned"] if n in b["tuned"]]
    return any(_apart(*pair) for pair in pairs)


def _studies_table(names: tuple[str, str], both: Sequence[Document]) -> Table:
    numbers = [document["numbers"] for document in both]
    rows = [("question", *(d["question"] for d in both)), ("answer", *(d["answer"] for d in both))]
    rows += [
        ("status", *(d["status"] or "–" for d in both)),
        ("forecast made", *(d["created"][:16].replace("T", " ") for d in both)),
        ("sizes", *(_ranges(n) for n in numbers)),
        ("tuned", *(", ".join(n["tuned"]) or "nothing" for n in numbers)),
        ("runs", *(str(n["forecast"]["runs"]["runs"]) for n in numbers)),
        ("level", *(format_level(n["forecast"]["level"]) for n in numbers)),
        ("data hash", *(n["forecast"]["data_hash"][:12] for n in numbers)),
    ]
    return Table("The studies", ("what", *names), rows)


def _ranges(numbers: Mapping[str, Any]) -> str:
    """Each size column with the sizes that were swept."""
    found = []
    for name in numbers["sizes"]:
        values = sorted({float(o["size"][name]) for o in numbers["forecast"]["optima"]})
        span = f"{format_quantity(values[0])} to {format_quantity(values[-1])}" if values else ""
        found.append(f"{name}: {len(values)} from {span}")
    return "; ".join(found)


def _targets_table(names: tuple[str, str], numbers: Both, targets: Sequence[Target]) -> Table:
    shared, read_off = _shared_tuned(numbers), False
    rows = []
    for size, (a, b) in targets:
        line = [*map(format_quantity, size.values())]
        quantities = [(a["loss"], a["loss_pi"], b["loss"], b["loss_pi"])]
        for name in shared:
            own, other = a["tuned"][name], b["tuned"][name]
            quantities.append((own["value"], own["pi"], other["value"], other["pi"]))
        for value, pi, other, other_pi in quantities:
            line += [_cell(value, pi, a), _cell(other, other_pi, b)]
            change = "–" if not value or not other else format_percent(other / value - 1)
            line.append(f"{change}\n{_OTHER}" if _apart(pi, other_pi) else change)
        rows.append(line)
        read_off = read_off or a["is_read_off"] or b["is_read_off"]
    columns = [*numbers[0]["sizes"]]
    for quantity in ("loss", *shared):
        columns += [f"{quantity}, {names[0]}", f"{quantity}, {names[1]}", "difference"]
    level = format_level(numbers[0]["forecast"]["level"])
    note = (
        f"{_OTHER}: the intervals do not overlap. Difference: the second over the first, minus 1."
    )
    if read_off:
        note += " Values after ≈ are interpolated on the study's curve."
    caption = f"Forecasts with {level} prediction intervals (for one new run)"
    return Table(caption, columns, rows, note)


def _cell(value: float | None, pi: Sequence[float | None], point: Mapping[str, Any]) -> str:
    text = stacked(value, Interval(pi[0], pi[1]))
    return f"{text}\n≈" if point["is_read_off"] else text


def _laws_table(names: tuple[str, str], numbers: Both) -> Table:
    """Parameters of the laws beside each other, one row per parameter."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for i, told in enumerate(numbers):
        for law in told["forecast"]["laws"]:
            if law["weight"] == 0:
                continue
            target = "loss" if law["of"] == "loss" else f"best {law['of']}"
            for name, entry in law["parameters"].items():
                key = (target, law["law"], name)
                cell = format_value(entry["value"], entry["se"])
                rows.setdefault(key, ["–", "–"])[i] = cell
            key = (target, law["law"], "reference size")
            rows.setdefault(key, ["–", "–"])[i] = name_size(law["x0"])
    return Table(
        "Parameters of the fitted laws (± standard error)",
        ("law of", "form", "parameter", *names),
        [(*key, *cells) for key, cells in rows.items()],
        "Only laws with a weight in the forecast. Exponents compare as they are; the other "
        "parameters only where the reference sizes agree.",
    )


def _judged_table(names: tuple[str, str], numbers: Both) -> Table:
    """How the larger runs of each study did, one row per size."""
    found: dict[tuple[float, ...], tuple[str, list[str]]] = {}
    for i, told in enumerate(numbers):
        by_size: dict[tuple[float, ...], list[Mapping[str, Any]]] = {}
        for verdict in (told["verdicts"] or {}).get("verdicts", []):
            by_size.setdefault(tuple(verdict["run"]["size"].values()), []).append(verdict)
        for key, verdicts in by_size.items():
            cells = found.setdefault(key, (name_size(verdicts[0]["run"]["size"]), ["–", "–"]))[1]
            cells[i] = _counted(verdicts)
    rows = [(where, *cells) for _, (where, cells) in sorted(found.items())]
    return Table("Larger runs on and off their law", ("size", *names), rows)


def _counted(verdicts: Sequence[Mapping[str, Any]]) -> str:
    judged = [v for v in verdicts if v["on_law"] is not None]
    off = [v for v in judged if v["on_law"] is False]
    losses = [v["run"]["loss"] for v in verdicts if v["run"]["loss"] is not None]
    text = f"{len(judged) - len(off)} of {len(judged)} on law"
    causes = sorted({v["cause"] for v in off if v["cause"]})
    text += f" ({', '.join(causes)})" if causes else ""
    if losses:
        text += f"\nlosses {format_interval(Interval(min(losses), max(losses)))}"
    return text


def _charts(names: tuple[str, str], numbers: Both) -> list[XYChart]:
    """Loss and best values against size; none where the studies share no size column."""
    if set(numbers[0]["sizes"]) != set(numbers[1]["sizes"]):
        return []
    column = numbers[0]["sizes"][0]
    found = []
    for quantity in ("loss", *_shared_tuned(numbers)):
        label = quantity if quantity == "loss" else f"best {quantity}"
        shown = [
            each
            for i, name in enumerate(names)
            for each in _study_series(numbers[i], i, name, column=column, quantity=quantity)
        ]
        title = f"{label[0].upper()}{label[1:]} against {column}"
        found.append(XYChart(title=title, x=Axis(column), y=Axis(label), series=shown))
    return [chart for chart in found if chart.series]


def _study_series(
    numbers: Mapping[str, Any], i: int, name: str, *, column: str, quantity: str
) -> list[Series]:
    """The law of one study with its prediction interval, and the optima it was fitted to."""
    keys = [column, quantity, *(f"{quantity}_pi_{side}" for side in ("lower", "upper"))]
    curve = pd.DataFrame({k: (numbers["curve"] or {}).get(k, []) for k in keys}, dtype=float)
    sides = {"lower": keys[2], "upper": keys[3]}
    law = series(
        curve.dropna(), *keys[:2], **sides, label=name, ink=INKS[i], line=LINES[i], is_band=True
    )
    rows = [
        (o["size"][column], o["loss"] if quantity == "loss" else o["tuned"][quantity]["value"])
        for o in numbers["forecast"]["optima"]
    ]
    known = [row for row in rows if row[1] is not None]
    return [law, points(known, label="" if law.x else name, ink=INKS[i], marker=MARKERS[i])]
