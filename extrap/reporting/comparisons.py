"""A comparison of recipes over size as a page, and as text for a terminal."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from extrap import __version__
from extrap.comparing import Comparison
from extrap.records import ComparisonStudy
from extrap.records.codec import encode
from extrap.reporting.comparison_documents import checks_document, comparison_study_document
from extrap.reporting.comparison_findings import GroupFindings
from extrap.reporting.comparison_plates import group_panels, group_plates
from extrap.reporting.comparison_tables import (
    checks_table,
    costs_table,
    expectations_table,
    laws_table,
    verdicts_table,
)
from extrap.reporting.comparison_words import (
    LIMITS,
    check_sentences,
    comparison_headline,
    contrast_card,
    contrast_sentence,
)
from extrap.reporting.envelopes import PageHead
from extrap.reporting.glossary import Explanation, explain_flag
from extrap.reporting.numbers import NBSP
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.sections import Section
from extrap.reporting.tables import Table

__all__ = ["comparison_page", "comparison_study_text"]


def comparison_page(
    study: ComparisonStudy,
    findings: Sequence[GroupFindings],
    *,
    path: str | Path,
    created: str,
    provenance: Mapping[str, str],
    sections: Sequence[Section] = (),
) -> Path:
    """Write a comparison study as one HTML file that loads nothing else.

    Args:
        study: The study, for its name and question.
        findings: Of each of its groups.
        path: Where to write; missing folders are made.
        created: When, ISO 8601.
        provenance: Rows of the provenance table; empty ones are left out.
        sections: Further parts of the page, below the groups; their keys, and those of their
            pictures, differ from each other and do not begin with `group`.

    Returns:
        The path written.
    """
    own = {
        "runs": str(_n_runs(findings)),
        "extrap": __version__,
        "Python": platform.python_version(),
    }
    parts = [*(_section(found, i) for i, found in enumerate(findings)), *sections]
    head = PageHead(
        kind="comparison",
        title=study.name,
        question=study.question,
        answer=comparison_headline(findings),
        created=created,
    )
    html = render_page(
        "comparisons.html.j2",
        head,
        numbers=_numbers(study, findings),
        expectations=expectations_table(findings),
        sections=parts,
        limits=LIMITS,
        provenance=[(k, v) for k, v in {**own, **provenance}.items() if v],
    )
    return write_page(html, path)


def _numbers(study: ComparisonStudy, findings: Sequence[GroupFindings]) -> dict[str, Any]:
    """What was found and what was measured at the targets, as JSON."""
    found = comparison_study_document(study, findings)
    return encode({**found, "checks": checks_document(findings)})


def _section(found: GroupFindings, place: int) -> Section:
    """The part of a group: cards, pictures, tables, doubts."""
    group, comparison, key = found.group, found.comparison, f"group{place}"
    words = [group.question]
    if group.expected:
        words.append(f"From the literature: {group.expected}")
    if comparison is None:
        words.append(f"No comparison: {found.problem}")
        return Section(key=key, title=group.name, words=tuple(words))
    words += check_sentences(found)
    checks = {check.treated: check for check in found.checks}
    return Section(
        key=key,
        title=group.name,
        words=tuple(words),
        cards=tuple(
            contrast_card(contrast, comparison, checks.get(contrast.treated))
            for contrast in comparison.contrasts
        ),
        plates=group_plates(found, key),
        panels=group_panels(found, key),
        tables=_known(
            checks_table(found),
            verdicts_table(comparison),
            costs_table(comparison),
            laws_table(comparison),
        ),
        flags=_flags(comparison),
        notes=_remarks(found),
    )


def _flags(comparison: Comparison) -> tuple[Explanation, ...]:
    """Flags of the contrasts, each with the recipe it was raised for."""
    found: dict[tuple[str, str], Explanation] = {}
    for contrast in comparison.contrasts:
        for flag in contrast.flags:
            words = explain_flag(flag, of="comparison")
            if words.name == flag:  # none that we know: it does not say of whom it speaks
                words = replace(words, name=f"{contrast.treated}: {flag}")
            found.setdefault((words.name, words.detail), words)
    return tuple(found.values())


def _remarks(found: GroupFindings) -> tuple[str, ...]:
    """Notes of the comparison and of reading the runs."""
    own = () if found.comparison is None else found.comparison.notes
    read = [f"{name}: {note}" for name, runs in found.runs.items() for note in runs.notes]
    return tuple(dict.fromkeys([*own, *read]))


def _notes(found: GroupFindings) -> tuple[str, ...]:
    """Flags of the contrasts as they are, then the remarks: for a terminal."""
    if found.comparison is None:
        return ()
    flags = [f"{c.treated}: {flag}" for c in found.comparison.contrasts for flag in c.flags]
    return tuple(dict.fromkeys([*flags, *_remarks(found)]))


def _known(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None)


def _n_runs(findings: Sequence[GroupFindings]) -> int:
    """Runs of all sweeps, those that groups share counted once."""
    by_study = {
        spec.name: len(found.runs[arm])
        for found in findings
        for arm, spec in found.group.arms.items()
        if arm in found.runs
    }
    return sum(by_study.values())


def comparison_study_text(study: ComparisonStudy, findings: Sequence[GroupFindings]) -> str:
    """The headline, then a line a treated recipe under its group: for a terminal."""
    lines = [study.question, comparison_headline(findings)]
    for found in findings:
        lines += ["", found.group.name]
        if found.comparison is None:
            lines.append(f"- No comparison: {found.problem}")
            continue
        told = found.comparison
        lines += [f"- {contrast_sentence(contrast, told)}" for contrast in told.contrasts]
        lines += [f"- {line}" for line in check_sentences(found)]
        lines += [f"note: {note}" for note in _notes(found)]
    return "\n".join(lines).replace(NBSP, " ")
