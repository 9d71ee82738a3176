"""A batch study as a page, and as text for a terminal."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from extrap import __version__
from extrap.batching import BatchFindings
from extrap.records import BatchStudy
from extrap.reporting.batch_documents import batches_document
from extrap.reporting.batch_front_words import counted_sentence, front_sentences
from extrap.reporting.batch_noise_words import (
    agreement_of,
    agreement_sentences,
    collapse_of,
    collapse_sentences,
    growth_sentence,
)
from extrap.reporting.batch_plates import (
    course_plate,
    front_plates,
    loss_plates,
    pairs_plate,
    rate_plates,
    steps_plates,
)
from extrap.reporting.batch_rate_words import rate_sentences, rates_sentence
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
    answer_sentences,
    headline,
    held_out_sentence,
    law_sentences,
    notes_of,
)
from extrap.reporting.envelopes import PageHead
from extrap.reporting.numbers import NBSP
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.sections import Section
from extrap.reporting.tables import Table

__all__ = ["batch_page", "batches_text"]


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
    head = PageHead(
        kind="batches",
        title=study.name,
        question=study.question,
        answer=headline(findings),
        created=created,
    )
    html = render_page(
        "batches.html.j2",
        head,
        numbers=batches_document(study, findings),
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
    )
    return write_page(html, path)


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
    lines += [
        f"{flag.name} ({flag.detail}): {flag.meaning} {flag.why} {flag.action}"
        for _, flag in flags_seen(findings)
    ]
    lines += [f"note: {note}" for note in notes_of(findings)]
    return "\n".join(lines).replace(NBSP, " ")
