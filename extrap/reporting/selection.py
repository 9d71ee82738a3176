"""Choices of data in words: where hard examples win, where easy ones, what labels are saved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from extrap.comparing.paired_sizes import ChoiceCrossover, DataSaved, difference_by_size
from extrap.comparing.selections import RANDOM, SelectionFindings, selection_findings
from extrap.errors import DataError
from extrap.records import Measure
from extrap.reporting.figures import draw_svg
from extrap.reporting.figures.selection import (
    choice_losses_info,
    choice_map_info,
    draw_choice_losses,
    draw_choice_map,
)
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_percent,
    format_quantity,
    format_value,
)
from extrap.reporting.plates import Plate
from extrap.reporting.sections import Section
from extrap.reporting.tables import Table

__all__ = [
    "crossover_sentence",
    "labels_sentence",
    "selection_sections",
    "selection_text",
]

WIDE, NARROW, PANEL = (880, 460), (390, 430), (480, 240)
EDGE = "†"
EDGE_WORDS = "a best rate it rests on lies at the edge of its grid"
NOTES = (
    "Losses are those of the tuned values with the lowest mean on the grid; intervals of losses, "
    "places, exponents and savings choose them anew for seeds drawn again.",
    "Beyond seed noise, everywhere: 0 lies outside the interval of the difference at a size, each "
    "seed judged at the tuned values that the other seeds choose, the interval widened for the "
    "number of sizes. A change of places is beyond it if the ways are told apart on both sides of "
    "it and nowhere otherwise.",
    "Seeds draw their examples and pools from one set, so that they overlap, wholly where the "
    "pool is all there is; held-out data, and a teacher, are the same for all. Intervals and what "
    "is told hold for this data set and its held-out part.",
    f"{EDGE}: rests on a tuned value at the edge of its grid, which growth did not bracket; that "
    "loss is an upper bound.",
    "A choice of fraction keep draws on a pool larger by 1 / keep: it is cheap to train on, not "
    "cheap to collect. What it costs to find the difficulties is not counted.",
    "Runs have the same number of steps whatever they keep; where a curve bends up at its end, "
    "steps and not examples may be what is missing.",
)


def selection_sections(table: pd.DataFrame) -> tuple[Section, ...]:
    """A part of the page for each problem of a study that chooses data; none for other studies."""
    try:
        found = selection_findings(table)
    except DataError:
        return ()
    return tuple(_section(each, i, is_last=i == len(found) - 1) for i, each in enumerate(found))


def selection_text(findings: Sequence[SelectionFindings]) -> str:
    """A few lines a problem, for a terminal."""
    lines = []
    for found in findings:
        lines += [found.problem, *(f"- {line}" for line in _words(found))]
    return "\n".join(lines).replace(NBSP, " ")


def crossover_sentence(keep: float, crossing: ChoiceCrossover) -> str:
    """Where the better of easy and hard examples changes."""
    if not crossing.below:
        return f"Keeping {keep:g}: easy and hard examples do not change places."
    told = "beyond seed noise on both sides" if crossing.is_told else "not told from seed noise"
    edge = f"; {EDGE_WORDS}" if crossing.is_edge else ""
    if crossing.earlier:
        told = "one change is " + ("told from seed noise" if crossing.is_told else "not told")
        return (
            f"Keeping {keep:g}: easy and hard examples change places "
            f"{1 + len(crossing.earlier)} times, at {_earlier(crossing)} and last at "
            f"{_count(crossing.size)} kept ones, above which {_way(crossing.above)} ones win; "
            f"{told}{edge}."
        )
    return (
        f"Keeping {keep:g}: {_way(crossing.below)} examples win below "
        f"{_count(crossing.size)} kept ones, {_way(crossing.above)} ones above; {told}{edge}."
    )


def labels_sentence(saved: DataSaved) -> str:
    """What an active learner saves for the loss that random labels reach."""
    if saved.needed.value is None:
        return (
            f"The loss of {format_quantity(saved.size)} random labels is not within the active "
            "learner's sizes."
        )
    share = saved.saved.value or 0.0
    low, high = saved.saved.ci
    ends = f" ({_bound(low)} to {_bound(high)})"
    verb = "saves" if share >= 0 else "costs"
    return (
        f"For the loss of {format_quantity(saved.size)} random labels the active learner needs "
        f"{_count(saved.needed)}: it {verb} {format_percent(abs(share), signed=False)}"
        f"{ends if share >= 0 else ''}{f'; {EDGE_WORDS}' if saved.is_edge else ''}."
    )


def _words(found: SelectionFindings) -> list[str]:
    words = [crossover_sentence(keep, c) for keep, c in found.crossovers.items()]
    for way, crossing in found.against_random.items():
        words.append(_against_random(way, crossing, found))
    if found.labels:
        within = [s for s in found.labels if s.needed.value is not None]
        words.append(labels_sentence((within or list(found.labels))[-1]))
    return words


def _against_random(way: str, crossing: ChoiceCrossover, found: SelectionFindings) -> str:
    """Where a way and random examples change places, or who wins throughout."""
    if crossing.below:
        told = "" if crossing.is_told else ", not told from seed noise"
        told += f"; {EDGE_WORDS}" if crossing.is_edge else ""
        name = {RANDOM: "random", way: way}
        if crossing.earlier:
            return (
                f"{way} against random: they change places {1 + len(crossing.earlier)} times, at "
                f"{_earlier(crossing)} and last at {_count(crossing.size)}, above which "
                f"{name[crossing.above]} wins{told}."
            )
        return (
            f"{way} against random: {name[crossing.below]} wins below "
            f"{_count(crossing.size)}, {name[crossing.above]} above{told}."
        )
    steps = difference_by_size(found.losses, way, RANDOM, level=found.level)
    apart = [step for step in steps if step.is_told]
    changes = [step.difference.value or 0.0 for step in apart]
    better, worse = sum(d < 0 for d in changes), sum(d > 0 for d in changes)
    n_edges = sum(step.is_edge for step in apart)
    edges = f"; {n_edges} of these with a best rate at the edge of its grid" if n_edges else ""
    return (
        f"{way} against random: better at {better}, worse at {worse} of {len(steps)} sizes beyond "
        f"seed noise{edges}; they do not change places."
    )


def _section(found: SelectionFindings, place: int, *, is_last: bool) -> Section:
    key = f"selection{place}"
    is_labels = bool(found.labels)
    title = f"{'Labels saved' if is_labels else 'Hard or easy examples'}: {found.problem}"
    tables = [_crossover_table(found), _exponent_table(found)]
    if is_labels:
        tables = [_labels_table(found), _exponent_table(found)]
    return Section(
        key=key,
        title=title,
        words=tuple(_words(found)),
        plates=(_losses_plate(found, key),),
        panels=tuple(filter(None, [_map_plate(found, key)])),
        tables=tuple(tables),
        notes=NOTES if is_last else (),
    )


def _losses_plate(found: SelectionFindings, key: str) -> Plate:
    info = choice_losses_info(found)
    level = f"{100 * info.level:g}{NBSP}%"
    label = f"Tuned loss against {info.column}, a line a choice: {', '.join(found.ways)}."
    words = (
        f"Bars: {level} intervals over {found.losses.n_seeds} seeds, which draw start, batches "
        "and pool from one data set."
    )
    if len(info.crossings):
        words += " Dotted: where easy and hard examples change places; shaded: its interval."
    rows = tuple(
        (way, *(_loss_at(found, info.points, way, size) for size in found.losses.sizes[RANDOM]))
        for way in found.ways
    )
    sizes = tuple(format_quantity(s) for s in found.losses.sizes[RANDOM])
    table = Table(caption=f"Tuned loss by {info.column}", columns=("choice", *sizes), rows=rows)
    narrow = partial(draw_choice_losses, columns=2)
    return Plate(
        title="",
        svg=_drawn(draw_choice_losses, info, WIDE, f"{key}losses", label),
        narrow_svg=_drawn(narrow, info, NARROW, f"{key}lossesn", label),
        text=words,
        tables=(table,),
    )


def _loss_at(found: SelectionFindings, points: pd.DataFrame, way: str, size: float) -> str:
    here = points[(points["way"] == way) & (points["x"] == size)]
    if here.empty:
        return "–"
    loss, lower, upper = (format_value(here.iloc[0][c]) for c in ("loss", "lower", "upper"))
    edge = found.losses.at_edge[way][found.losses.sizes[way].index(size)]
    return f"{loss}{EDGE if edge else ''}\n{lower} to {upper}"


def _map_plate(found: SelectionFindings, key: str) -> Plate | None:
    info = choice_map_info(found)
    if info is None:
        return None
    rows = tuple(
        (
            f"{keep:g}",
            *(
                next(
                    (b.choice if b.is_told else f"({b.choice})") + (EDGE if b.is_edge else "")
                    for b in found.best
                    if b.keep == keep and b.size == size
                )
                for size in info.sizes
            ),
        )
        for keep in info.keeps
    )
    columns = ("kept fraction", *(format_quantity(s) for s in info.sizes))
    return Plate(
        title="The best choice",
        svg=_drawn(draw_choice_map, info, PANEL, f"{key}map", "The best choice of examples."),
        text="The lowest loss of random, hard and easy examples; in brackets and pale where it "
        f"is not told from both others beyond seed noise; {EDGE}: a best rate of the three lies "
        "at the edge of its grid.",
        tables=(Table(caption="The best choice", columns=columns, rows=rows),),
    )


def _crossover_table(found: SelectionFindings) -> Table:
    pairs = [
        *((f"easy and hard, {keep:g}", c) for keep, c in found.crossovers.items()),
        *((f"{way} and random", c) for way, c in found.against_random.items()),
    ]
    rows = tuple(
        (
            name,
            c.below or "–",
            c.above or "–",
            _places(c),
            ("yes" if c.is_told else "no") + (EDGE if c.is_edge else ""),
        )
        for name, c in pairs
    )
    columns = ("pair", "better below", "better above", "kept examples", "beyond seed noise")
    return Table(caption="Where the better choice changes", columns=columns, rows=rows)


def _places(crossing: ChoiceCrossover) -> str:
    """Where the better choice changes, the last place first."""
    if not crossing.below:
        return "no change of places"
    before = f"\nbefore at {_earlier(crossing)}" if crossing.earlier else ""
    return f"{_count(crossing.size)}{before}"


def _earlier(crossing: ChoiceCrossover) -> str:
    return ", ".join(f"{size:.0f}" for size in crossing.earlier)


def _exponent_table(found: SelectionFindings) -> Table:
    steps = next(iter(found.exponents.values()))
    columns = tuple(f"{format_quantity(s.lower)} to {format_quantity(s.upper)}" for s in steps)
    rows = tuple(
        (way, *(_stacked(step.exponent, step.is_edge) for step in own))
        for way, own in found.exponents.items()
        if len(own) == len(steps)
    )
    return Table(
        caption="How fast the loss falls: −Δ ln loss / Δ ln examples",
        columns=("choice", *columns),
        rows=rows,
    )


def _labels_table(found: SelectionFindings) -> Table:
    rows = tuple(
        (
            format_quantity(each.size),
            _count(each.needed) + (EDGE if each.is_edge else "")
            if each.needed.value is not None
            else "beyond its sizes",
            "–"
            if each.saved.value is None
            else f"{format_percent(each.saved.value)}\n{_bound(each.saved.ci.lower)} to "
            f"{_bound(each.saved.ci.upper)}",
        )
        for each in found.labels
    )
    columns = ("random labels", "active labels of equal loss", "labels saved")
    return Table(caption="Labels saved at equal loss", columns=columns, rows=rows)


def _stacked(measure: Measure, is_edge: bool) -> str:
    if measure.value is None:
        return "–"
    lower, upper = measure.ci
    return f"{_two(measure.value)}{EDGE if is_edge else ''}\n" + (
        f"{_two(lower)} to {_two(upper)}" if lower is not None or upper is not None else ""
    )


def _two(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}".replace("-", "−")


def _count(measure: Measure) -> str:
    """A number of examples with its interval, whole."""
    if measure.value is None:
        return format_estimate(None, measure.ci)
    lower, upper = (None if side is None else round(side) for side in measure.ci)
    if lower is None and upper is None:
        return f"{measure.value:.0f}"
    if lower is None:
        return f"{measure.value:.0f} (at most {upper})"
    if upper is None:
        return f"{measure.value:.0f} (at least {lower})"
    return f"{measure.value:.0f} ({lower} to {upper})"


def _bound(side: float | None) -> str:
    return "unknown" if side is None else format_percent(side)


def _way(name: str) -> str:
    return name.split()[0]


def _drawn(draw: Any, info: Any, shape: tuple[int, int], key: str, label: str) -> str:
    width, height = shape
    return draw_svg(lambda ax: draw(ax, info), width=width, height=height, key=key, label=label)
