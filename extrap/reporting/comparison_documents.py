"""A comparison study as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from extrap.comparing import Comparison, Contrast, SizeDifference
from extrap.records import ComparisonStudy, Measure
from extrap.reporting.comparison_findings import GroupFindings, TargetCheck
from extrap.reporting.comparison_words import contrast_sentence
from extrap.reporting.numbers import NBSP

__all__ = ["checks_document", "comparison_document"]

SCHEMA_VERSION = 1


def comparison_document(
    study: ComparisonStudy, findings: Sequence[GroupFindings]
) -> dict[str, Any]:
    """What was found before anything was trained at a target: numbers and words, plain JSON."""
    return {
        "kind": "extrap-comparison",
        "schema_version": SCHEMA_VERSION,
        "name": study.name,
        "question": study.question,
        "groups": [_group(found) for found in findings],
    }


def checks_document(findings: Sequence[GroupFindings]) -> list[dict[str, Any]]:
    """What was measured at the targets afterwards, one entry a treated recipe."""
    return [
        {"group": found.group.name, **_check(check)} for found in findings for check in found.checks
    ]


def _group(found: GroupFindings) -> dict[str, Any]:
    group, comparison = found.group, found.comparison
    head = {
        "name": group.name,
        "question": group.question,
        "expected": group.expected,
        "target": dict(group.target),
        "arms": {arm: spec.name for arm, spec in group.arms.items()},
        "data_hash": {arm: runs.data_hash() for arm, runs in found.runs.items()},
        "problem": found.problem,
    }
    if comparison is None:
        return head
    return {
        **head,
        "level": comparison.level,
        "plain": comparison.plain,
        "contrasts": [_contrast(contrast, comparison) for contrast in comparison.contrasts],
        "laws": {
            arm: None if law is None else asdict(law) for arm, law in comparison.laws.items()
        },
        "costs": [asdict(cost) for cost in comparison.costs],
        "price": comparison.price,
        "notes": list(comparison.notes),
    }


def _contrast(contrast: Contrast, comparison: Comparison) -> dict[str, Any]:
    at, crossover = contrast.at_target, contrast.crossover
    return {
        "treated": contrast.treated,
        "verdict": contrast.verdict,
        "p_value": contrast.p_value,
        "p_adjusted": contrast.p_adjusted,
        "by_size": [_place(place) for place in contrast.by_size],
        "at_target": None if at is None else _place(at),
        "exponents": {arm: _measure(own) for arm, own in contrast.exponents.items()},
        "exponent_difference": _measure(contrast.exponent_difference),
        "effective_compute": [
            {
                "size": dict(worth.size),
                "factor": _measure(worth.factor),
                "size_factor": _measure(worth.size_factor),
                "level": worth.level,
            }
            for worth in contrast.effective_compute
        ],
        "crossover": {
            "size": _measure(crossover.size),
            "better_below": crossover.better_below,
            "is_inside": crossover.is_inside,
        },
        "flags": list(contrast.flags),
        "words": contrast_sentence(contrast, comparison).replace(NBSP, " "),
    }


def _place(place: SizeDifference) -> dict[str, Any]:
    return {
        "size": dict(place.size),
        "n_pairs": place.n_pairs,
        "plain": _measure(place.plain),
        "treated": _measure(place.treated),
        "difference": _measure(place.difference),
        "is_forecast": place.is_forecast,
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
