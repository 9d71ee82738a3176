"""Two studies beside each other: what each asked, answered, and forecasts at common sizes.

It sets numbers side by side and marks intervals that do not meet; whether a difference is more
than chance is what `extrap compare` tests, with the runs of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.records import Interval
from extrap.reporting.envelopes import PageHead
from extrap.reporting.figures import Beside, draw_beside, draw_svg
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.glossary import explain_flag
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_interval,
    format_percent,
    format_quantity,
    format_value,
    name_size,
)
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["beside_page", "common_targets"]

CAUTION = (
    "Two forecasts beside each other, each with its own intervals; ≠ marks intervals that do not "
    "meet. Whether the recipes differ by more than chance is another question: extrap compare "
    "tests it on the runs of both, paired by seed."
)
LIMITS = (
    "Whether a difference is more than chance: intervals that meet may hide one, and intervals "
    "that part may come from data or seeds that the studies do not share.",
    "Anything about the two where their sizes do not count the same thing, or their losses are of "
    "other data; nothing here can tell.",
)
_OTHER = "≠"
NAMELESS = ("A", "B")
LONGEST_NAME = 40

Document = Mapping[str, Any]


def beside_page(
    first: Document, second: Document, *, path: str | Path, title: str | None = None
) -> Path:
    """Write a page with two studies side by side.

    Args:
        first: What `read_report` returns of one report, or `report_document` of a forecast.
        second: Of the other.
        path: Where to write.
        title: Heading; by default both titles.

    Returns:
        The path written.

    Raises:
        DataError: One of them is no report on a forecast.
    """
    both = (first, second)
    for document in both:
        if document["kind"] != "report":
            raise DataError(
                f"side by side stand two reports on forecasts, got a page of the kind "
                f"{document['kind']!r}: {document['title'][:80]}; give two pages of extrap report."
            )
    numbers = (first["numbers"], second["numbers"])
    names = _names(both)
    targets = common_targets(*numbers)
    notes = _notes(names, numbers, targets)
    head = PageHead(
        kind="beside",
        title=title or f"{names[0]} beside {names[1]}",
        question="What do the two studies say of the same sizes?",
        answer=_headline(names, numbers, targets),
        created=max(document["created"] for document in both),
        status="differ" if any(_differs(*pair) for _, pair in targets) else "",
    )
    html = render_page(
        "beside.html.j2",
        head,
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
        limits=LIMITS,
        caution=CAUTION,
        notes=notes,
        studies=_studies_table(names, both),
        targets=_targets_table(names, numbers, targets) if targets else None,
        plates=_plates(names, numbers),
        laws=_laws_table(names, numbers),
        judged=_judged_table(names, numbers),
        warnings=[
            (name, [_explained(flag) for flag in n["flags"]])
            for name, n in zip(names, numbers, strict=True)
        ],
    )
    return write_page(html, path)


def common_targets(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[tuple[dict[str, float], tuple[dict[str, Any], dict[str, Any]]]]:
    """Sizes that either study forecast and both can tell of, smallest first.

    A size that a study did not forecast is read off its curve, between points a few percent apart
    on log axes; beyond the curve it tells nothing.

    Args:
        first: Numbers of one report.
        second: Of the other.

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


def _notes(
    names: tuple[str, str], numbers: Sequence[Mapping[str, Any]], targets: Sequence[Any]
) -> list[str]:
    """What the two do not share, said before anything is read into it."""
    first, second = numbers
    found = []
    if set(first["sizes"]) != set(second["sizes"]):
        found.append(
            f"The sizes differ, {' and '.join(first['sizes'])} against "
            f"{' and '.join(second['sizes'])}, so nothing stands on common axes. Read both runs "
            "with one size column that they share, such as the number of parameters."
        )
    elif not targets:
        found.append(
            "Neither study tells of a size that the other forecast. Write both reports with "
            "larger runs of the same sizes, or forecast both at one size."
        )
    if set(first["tuned"]) != set(second["tuned"]):
        found.append(
            f"The tuned values differ: {', '.join(first['tuned']) or 'none'} in {names[0]}, "
            f"{', '.join(second['tuned']) or 'none'} in {names[1]}; only shared ones are compared."
        )
    levels = [numbers_of["forecast"]["level"] for numbers_of in numbers]
    if levels[0] != levels[1]:
        found.append(
            f"The intervals have other levels, {100 * levels[0]:g}{NBSP}% and "
            f"{100 * levels[1]:g}{NBSP}%; make both reports with one --level."
        )
    if first["forecast"]["data_hash"] == second["forecast"]["data_hash"]:
        found.append("Both rest on the same runs.")
    return found


def _headline(
    names: tuple[str, str], numbers: Sequence[Mapping[str, Any]], targets: Sequence[Any]
) -> str:
    """The largest common size in a sentence."""
    known = [(size, pair) for size, pair in targets if all(p["loss"] is not None for p in pair)]
    if not known:
        return f"{names[0]} and {names[1]} have no size in common that both forecast."
    size, (a, b) = known[-1]
    told = [format_estimate(p["loss"], Interval(*p["loss_pi"])) for p in (a, b)]
    meet = "do not meet" if _apart(a["loss_pi"], b["loss_pi"]) else "overlap"
    text = (
        f"At {name_size(size)} {names[0]} forecasts a loss of {told[0]}, {names[1]} {told[1]}: "
        f"{format_percent(b['loss'] / a['loss'] - 1)}, and the intervals {meet}."
    )
    for name in _shared_tuned(numbers):
        values = [p["tuned"][name]["value"] for p in (a, b)]
        if None not in values:
            text += (
                f" The best {name} is {format_quantity(values[0])} against "
                f"{format_quantity(values[1])}, {abs(math.log2(values[1] / values[0])):.2f} "
                "octaves apart."
            )
    return text


def _shared_tuned(numbers: Sequence[Mapping[str, Any]]) -> list[str]:
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
    told = [document["numbers"] for document in both]
    rows = [("question", *(d["question"] for d in both)), ("answer", *(d["answer"] for d in both))]
    rows += [
        ("status", *(d["status"] or "–" for d in both)),
        ("forecast made", *(d["created"][:16].replace("T", " ") for d in both)),
        ("sizes", *(_range_words(n) for n in told)),
        ("tuned", *(", ".join(n["tuned"]) or "nothing" for n in told)),
        ("runs", *(str(n["forecast"]["runs"]["runs"]) for n in told)),
        ("level", *(f"{100 * n['forecast']['level']:g}{NBSP}%" for n in told)),
        ("data hash", *(n["forecast"]["data_hash"][:12] for n in told)),
    ]
    return Table(caption="The studies", columns=("what", *names), rows=tuple(rows))


def _range_words(numbers: Mapping[str, Any]) -> str:
    """Each size column with the sizes that were swept."""
    words = []
    for name in numbers["sizes"]:
        values = sorted({float(o["size"][name]) for o in numbers["forecast"]["optima"]})
        span = f"{format_quantity(values[0])} to {format_quantity(values[-1])}" if values else ""
        words.append(f"{name}: {len(values)} from {span}")
    return "; ".join(words)


def _targets_table(
    names: tuple[str, str], numbers: Sequence[Mapping[str, Any]], targets: Sequence[Any]
) -> Table:
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
        rows.append(tuple(line))
        read_off = read_off or a["is_read_off"] or b["is_read_off"]
    columns = [*numbers[0]["sizes"]]
    for quantity in ("loss", *shared):
        columns += [f"{quantity}, {names[0]}", f"{quantity}, {names[1]}", "difference"]
    level = f"{100 * numbers[0]['forecast']['level']:g}{NBSP}%"
    note = f"{_OTHER}: the intervals do not meet. Difference: the second over the first, minus 1."
    if read_off:
        note += " Values after ≈ are read off the study's curve, at a size it did not forecast."
    return Table(
        caption=f"Forecasts with {level} prediction intervals (for one new run)",
        columns=tuple(columns),
        rows=tuple(rows),
        note=note,
    )


def _cell(value: float | None, pi: Sequence[float | None], point: Mapping[str, Any]) -> str:
    text = stacked(value, Interval(pi[0], pi[1]))
    return f"{text}\n≈" if point["is_read_off"] else text


def _laws_table(names: tuple[str, str], numbers: Sequence[Mapping[str, Any]]) -> Table:
    """Parameters of the laws beside each other, one row a parameter."""
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
            reference = ", ".join(
                f"{column} {format_quantity(value)}" for column, value in law["x0"].items()
            )
            rows.setdefault((target, law["law"], "reference size"), ["–", "–"])[i] = reference
    return Table(
        caption="Parameters of the fitted laws (± standard error)",
        columns=("law of", "form", "parameter", *names),
        rows=tuple((*key, *cells) for key, cells in rows.items()),
        note="Only laws with a weight in the forecast. Exponents compare as they are; the other "
        "parameters only where the reference sizes agree.",
    )


def _judged_table(names: tuple[str, str], numbers: Sequence[Mapping[str, Any]]) -> Table | None:
    """How the larger runs of each study did, one row a size."""
    found: dict[tuple[float, ...], tuple[str, list[str]]] = {}
    for i, told in enumerate(numbers):
        by_size: dict[tuple[float, ...], list[Mapping[str, Any]]] = {}
        for verdict in (told["verdicts"] or {}).get("verdicts", []):
            by_size.setdefault(tuple(verdict["run"]["size"].values()), []).append(verdict)
        for key, verdicts in by_size.items():
            cells = found.setdefault(key, (name_size(verdicts[0]["run"]["size"]), ["–", "–"]))[1]
            cells[i] = _counted(verdicts)
    rows = tuple((where, *cells) for _, (where, cells) in sorted(found.items()))
    if not rows:
        return None
    return Table(caption="Larger runs on and off their law", columns=("size", *names), rows=rows)


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


def _plates(names: tuple[str, str], numbers: Sequence[Mapping[str, Any]]) -> tuple[Plate, ...]:
    """The laws on common axes; none where the studies share no size column."""
    if set(numbers[0]["sizes"]) != set(numbers[1]["sizes"]):
        return ()
    column = numbers[0]["sizes"][0]
    plates = []
    for i, quantity in enumerate(("loss", *_shared_tuned(numbers))):
        curves = [_curve(told, column, quantity) for told in numbers]
        points = [_points(told, column, quantity) for told in numbers]
        if all(c.empty for c in curves) and all(p.empty for p in points):
            continue
        info = Beside(
            column=column,
            quantity=quantity if quantity == "loss" else f"best {quantity}",
            names=names,
            curves=(curves[0], curves[1]),
            points=(points[0], points[1]),
        )
        plates.append(_plate(i, info))
    return tuple(plates)


def _plate(i: int, info: Beside) -> Plate:
    title = f"{info.quantity[0].upper()}{info.quantity[1:]} against {info.column}"
    svg, narrow = (
        draw_svg(
            lambda ax: draw_beside(ax, info),
            width=width,
            height=440,
            key=f"beside{i}{suffix}",
            label=f"{title} in {info.names[0]} and {info.names[1]}: laws with their prediction "
            "intervals, and the optima they were fitted to.",
        )
        for width, suffix in ((880, ""), (390, "narrow"))
    )
    tables = tuple(
        _curve_table(name, info.column, info.quantity, curve)
        for name, curve in zip(info.names, info.curves, strict=True)
        if not curve.empty
    )
    text = "Lines: the laws. Shaded: where one new run, or the optimum of one size, may fall."
    return Plate(title=title, svg=svg, narrow_svg=narrow, text=text, tables=tables)


def _curve(numbers: Mapping[str, Any], column: str, quantity: str) -> pd.DataFrame:
    curve = numbers["curve"]
    keys = {"x": column, "value": quantity}
    keys |= {side: f"{quantity}_pi_{side}" for side in ("lower", "upper")}
    if not curve or any(key not in curve for key in keys.values()):
        return pd.DataFrame(columns=list(keys), dtype=float)
    frame = pd.DataFrame({k: curve[key] for k, key in keys.items()}).astype(float)
    return frame.dropna()


def _points(numbers: Mapping[str, Any], column: str, quantity: str) -> pd.DataFrame:
    rows = [
        (o["size"][column], o["loss"] if quantity == "loss" else o["tuned"][quantity]["value"])
        for o in numbers["forecast"]["optima"]
    ]
    return pd.DataFrame(rows, columns=["x", "value"], dtype=float).dropna()


def _curve_table(name: str, column: str, quantity: str, curve: pd.DataFrame) -> Table:
    step = max(1, (len(curve) - 1) // 9)
    shown = pd.concat([curve.iloc[:-1:step], curve.iloc[-1:]])
    rows = tuple(
        (
            format_quantity(float(f"{row['x']:.3g}")),
            format_value(row["value"]),
            format_interval(Interval(row["lower"], row["upper"])),
        )
        for row in shown.to_dict("records")
    )
    return Table(caption=name, columns=(column, quantity, "interval"), rows=rows)


def _explained(flag: Mapping[str, Any]) -> Any:
    """A flag of a page in the words of this version."""
    detail = f": {flag['detail']}" if flag["detail"] else ""
    return explain_flag(f"{flag['name']}{detail}")
