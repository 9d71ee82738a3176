"""A comparison study as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extrap.comparing import comparison_document
from extrap.records import ComparisonStudy, Measure
from extrap.reporting.comparison_answer import found_sentence
from extrap.reporting.comparison_findings import GroupFindings, TargetCheck
from extrap.reporting.numbers import NBSP

__all__ = ["checks_document", "comparison_study_document"]

SCHEMA_VERSION = 1


def comparison_study_document(
    study: ComparisonStudy, findings: Sequence[GroupFindings]
) -> dict[str, Any]:
    """What was found before anything was trained at a target: numbers and words, plain JSON."""
    return {
        "kind": "extrap-comparison-study",
        "schema_version": SCHEMA_VERSION,
        "name": study.name,
        "question": study.question,
        "groups": [_group(found) for found in findings],
    }


def checks_document(findings: Sequence[GroupFindings]) -> list[dict[str, Any]]:
    """What was measured at the targets afterwards, one entry a treated recipe."""
    return [
        {"group": found.group.name, **_check(check)}
        for found in findings
        for check in found.checks
    ]


def _group(found: GroupFindings) -> dict[str, Any]:
    group, comparison = found.group, found.comparison
    return {
        "name": group.name,
        "question": group.question,
        "expected": group.expected,
        "target": dict(group.target),
        "arms": {arm: spec.name for arm, spec in group.arms.items()},
        "data_hash": {arm: runs.data_hash() for arm, runs in found.runs.items()},
        "problem": found.problem,
        "words": found_sentence(found).replace(NBSP, " "),
        "comparison": None if comparison is None else comparison_document(comparison),
    }


def _check(check: TargetCheck) -> dict[str, Any]:
    return {
        "treated": check.treated,
        "n_pairs": check.n_pairs,
        "plain": check.plain,
        "loss": check.loss,
        "difference": _measure(check.difference),
        "forecast": _measure(check.forecast),
        "agrees": check.agrees,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {"value": measure.value, "ci": list(measure.ci)}
