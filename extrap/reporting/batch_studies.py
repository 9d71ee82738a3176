"""A batch study as a page, as text for a terminal, and as a JSON document."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from extrap import __version__
from extrap.batching import (
    BatchFindings,
    BatchLaw,
    RateLaw,
    critical_batches_document,
    growth,
)
from extrap.records import BatchStudy, Measure
from extrap.reporting.batch_plates import (
    course_plate,
    front_plates,
    loss_plates,
    pairs_plate,
    rate_plates,
    steps_plates,
)
from extrap.reporting.batch_tables import (
    counts_table,
    critical_table,
    flags_seen,
    front_check_table,
    growth_table,
    held_out_table,
    laws_table,
    rates_table,
)
from extrap.reporting.batch_words import (
    LIMITS,
    agreement_of,
    agreement_sentences,
    answer_sentences,
    collapse_of,
    collapse_sentences,
    counted_sentence,
    front_sentences,
    growth_sentence,
    headline,
    held_out_sentence,
    law_sentences,
    notes_of,
    rate_sentences,
    rates_sentence,
)
from extrap.reporting.figures import style_sheet
from extrap.reporting.numbers import NBSP
from extrap.reporting.page import environment
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["batch_page", "batches_document", "batches_text"]

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page.

    Attributes:
        key: Its anchor.
        title: Its heading.
        words: Paragraphs.
        panels: Plates two abreast.
        plates: Plates across the page.
        tables: Tables below them.
    """

    key: str
    title: str
    words: tuple[str, ...] = ()
    panels: tuple[Plate, ...] = ()
    plates: tuple[Plate, ...] = ()
    tables: tuple[Table, ...] = ()


def batch_page(
    study: BatchStudy,
    findings: Sequence[BatchFindings],
    *,
    path: str | Path,
    created: str,
    provenance: Mapping[str, str],
) -> Path:
    """Write a batch study as one HTML file that loads nothing else.

    Args:
        study: The study, for its name and question.
        findings: Of each of its tasks.
        path: Where to write; missing folders are made.
        created: When, ISO 8601.
        provenance: Rows of the provenance table; empty ones are left out.

    Returns:
        The path written.
    """
    own = {
        "runs of the sweeps": str(sum(_n_runs(found) for found in findings)),
        "extrap": __version__,
        "Python": platform.python_version(),
    }
    sections = _sections(findings)
    html = (
        environment()
        .get_template("batches.html.j2")
        .render(
            title=study.name,
            question=study.question,
            created=created,
            headline=headline(findings),
            answer=[
                *answer_sentences(findings),
                *filter(None, map(counted_sentence, findings)),
            ],
            critical=critical_table(findings),
            flags=flags_seen(findings),
            sections=sections,
            counts=counts_table(findings),
            notes=notes_of(findings),
            limits=LIMITS,
            provenance=[(k, v) for k, v in {**own, **provenance}.items() if v],
            light=style_sheet("light"),
            dark=style_sheet("dark"),
        )
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
    return path


def _sections(findings: Sequence[BatchFindings]) -> list[Section]:
    """The parts that have something to show, those that answer the question first."""
    steps = [_steps_section(findings), _front_section(findings), _rate_section(findings)]
    noise = [_pairs_section(findings), _noise_section(findings), *_loss_sections(findings)]
    found = [*noise, *steps] if len(findings) > 1 else [*steps, *noise]
    return [section for section in found if section is not None]


def _steps_section(findings: Sequence[BatchFindings]) -> Section | None:
    panels = steps_plates(findings)
    if not panels:
        return None
    words = [
        "Each point is tuned: the steps at the best learning rate of that batch. On log axes "
        "perfect scaling is a line of slope −1, and steps that fall no more are level.",
        held_out_sentence(findings),
    ]
    for each in findings if len(findings) > 1 else ():
        words += law_sentences(each.result) if each.result.critical.laws else []
    return Section(
        key="steps",
        title="Steps against batch size",
        words=tuple(filter(None, words)),
        panels=panels,
        tables=_known(held_out_table(findings), laws_table(findings)),
    )


def _front_section(findings: Sequence[BatchFindings]) -> Section | None:
    panels = front_plates(findings)
    if not panels:
        return None
    words = [
        "Steps are time, examples are compute; each batch size buys one with the other. Left of "
        "the bend a little more compute saves much time, right of it much compute saves little.",
        *(line for found in findings for line in front_sentences(found)),
    ]
    tables = [front_check_table(found) for found in findings]
    return Section(
        key="front",
        title="Time against compute",
        words=tuple(words),
        panels=panels,
        tables=_known(*tables),
    )


def _rate_section(findings: Sequence[BatchFindings]) -> Section | None:
    panels = rate_plates(findings)
    if not panels:
        return None
    return Section(
        key="rate",
        title="The learning rate that goes with a batch",
        words=tuple(_rate_words(findings)),
        panels=panels,
        tables=_known(rates_table(findings)),
    )


def _rate_words(findings: Sequence[BatchFindings]) -> list[str]:
    if len(findings) > 1:
        return [line for line in [rates_sentence(findings)] if line]
    return [" ".join(rate_sentences(found.result)) for found in findings]


def _noise_section(findings: Sequence[BatchFindings]) -> Section | None:
    plate = course_plate(findings)
    if plate is None:
        return None
    return Section(
        key="noise",
        title="The noise scale over training",
        words=tuple(filter(None, [growth_sentence(findings)])),
        plates=(plate,),
        tables=_known(growth_table(findings)),
    )


def _loss_sections(findings: Sequence[BatchFindings]) -> list[Section]:
    return [
        Section(
            key=f"collapse{i}",
            title="Do the sizes collapse over the loss?"
            + (f" {found.result.task.study.name}" if len(findings) > 1 else ""),
            words=tuple(collapse_sentences(collapse_of(found.result), found.result)),
            plates=(plate,),
        )
        for i, (found, plate) in enumerate(loss_plates(findings))
    ]


def _pairs_section(findings: Sequence[BatchFindings]) -> Section | None:
    plate = pairs_plate(findings)
    if plate is None:
        return None
    return Section(
        key="agreement",
        title="Does the noise scale foretell the critical batch?",
        words=tuple(agreement_sentences(agreement_of(findings))),
        plates=(plate,),
    )


def _known(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None)


def _n_runs(found: BatchFindings) -> int:
    """Runs of a sweep: those of one target, for each target counts all of them."""
    tuned = found.result.tuned
    return int(tuned.loc[tuned["target"] == tuned["target"].iloc[0], "n_runs"].sum())


def batches_text(study: BatchStudy, findings: Sequence[BatchFindings]) -> str:
    """The headline, then a line a finding: for a terminal."""
    lines = [study.question, headline(findings), ""]
    lines += [f"- {line}" for line in answer_sentences(findings)]
    if held := held_out_sentence(findings):
        lines.append(f"- {held}")
    for found in findings:
        lines += [f"- {line}" for line in front_sentences(found)]
    lines += [f"- {line}" for line in _rate_words(findings)]
    if growth_words := growth_sentence(findings):
        lines.append(f"- {growth_words}")
    for found in findings:
        if (collapsed := collapse_of(found.result)) is not None:
            lines.append(f"- {' '.join(collapse_sentences(collapsed, found.result))}")
    if (agreed := agreement_of(findings)) is not None:
        lines.append(f"- {' '.join(agreement_sentences(agreed))}")
    lines += [f"{flag} ({where}): {text}" for _, flag, text, where in flags_seen(findings)]
    lines += [f"note: {note}" for note in notes_of(findings)]
    return "\n".join(lines).replace(NBSP, " ")


def batches_document(study: BatchStudy, findings: Sequence[BatchFindings]) -> dict[str, Any]:
    """The findings as a JSON document; a number that is open or missing is null."""
    agreed = agreement_of(findings)
    document = {
        "kind": "extrap-batches",
        "schema_version": SCHEMA_VERSION,
        "name": study.name,
        "question": study.question,
        "level": study.level,
        "overhead": study.overhead,
        "headline": headline(findings).replace(NBSP, " "),
        "agreement": None if agreed is None else asdict(agreed),
        "tasks": [_task_document(found) for found in findings],
    }
    cleaned = _clean(document)
    assert isinstance(cleaned, dict)
    return cleaned


def _task_document(found: BatchFindings) -> dict[str, Any]:
    result = found.result
    collapsed, names = collapse_of(result), list(result.task.study.sizes)
    return {
        "name": result.task.study.name,
        "workload": result.task.study.workload.name,
        "targets": list(result.task.targets),
        "batches": list(result.task.batches),
        "critical": critical_batches_document(result.critical),
        "held_out": _records(result.held_out),
        "rates": [
            {"size": dict(zip(names, key, strict=True)), **_rate_document(law)}
            for key, law in sorted(result.rate_laws.items())
        ],
        "joint_rate_law": None if result.joint is None else _exponents(result.joint),
        "noise": _records(result.noise),
        "courses": _records(result.courses),
        "growth": [
            {"size": dict(zip(names, map(float, key), strict=True)), **_measure(growth(course))}
            for key, course in (result.courses.groupby(names) if len(result.courses) else ())
        ],
        "collapse": None
        if collapsed is None
        else {
            **asdict(collapsed),
            "size_exponent": _measure(collapsed.size_exponent),
            "loss_exponent": _measure(collapsed.loss_exponent),
        },
        "front": None
        if found.front is None
        else {
            "size": dict(found.front.size),
            "targets": list(found.front.steps),
            "recommended": [
                {
                    "target": each.target,
                    **{
                        name: {"value": of.value, "ci": list(of.ci), "pi": list(of.pi)}
                        for name, of in (
                            ("batch", each.batch),
                            ("lr", each.lr),
                            ("steps", each.steps),
                            ("examples", each.examples),
                        )
                    },
                }
                for each in found.front.recommended
            ],
            "points": _records(found.front.table if found.checked is None else found.checked),
            "is_counted": found.checked is not None,
        },
        "notes": list(result.notes),
    }


def _rate_document(law: RateLaw) -> dict[str, Any]:
    return {
        "exponent": _measure(law.exponent),
        "bend_p": law.bend_p,
        "n": law.n,
        "rules": [
            {
                "name": rule.name,
                "holds": rule.holds,
                "p_value": rule.p_value,
                "weight": rule.weight,
                "noise_scale": None if rule.noise_scale is None else _measure(rule.noise_scale),
            }
            for rule in law.rules
        ],
    }


def _exponents(law: BatchLaw) -> dict[str, Any]:
    return {
        "coefficient": _measure(law.coefficient),
        "exponents": {name: _measure(each) for name, each in law.exponents.items()},
        "log_sd": law.log_sd,
        "n": law.n_groups,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {"value": measure.value, "ci": list(measure.ci)}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]


def _clean(value: Any) -> Any:
    """Plain numbers, lists and mappings; what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
