"""A batch study as a JSON document: keys are kept, open and missing numbers are null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from extrap.batching import (
    BatchFindings,
    BatchLaw,
    RateLaw,
    critical_batches_document,
    growth,
)
from extrap.records import BatchStudy, Measure
from extrap.reporting.critical_batches import agreement_of, batches_answer, collapse_of
from extrap.reporting.numbers import NBSP

__all__ = ["batches_document"]

SCHEMA_VERSION = 1


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
        "headline": batches_answer(findings).text.replace(NBSP, " "),
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
        if found.trade_off is None
        else {
            "size": dict(found.trade_off.size),
            "targets": list(found.trade_off.steps),
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
                for each in found.trade_off.recommended
            ],
            "points": _records(found.trade_off.table if found.checked is None else found.checked),
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
