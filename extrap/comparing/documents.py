"""A comparison of recipes as a JSON document.

Scripts depend on it: keys are kept, `schema_version` rises when they change, an open or missing
number is `null` and never NaN.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from extrap.comparing.results import Comparison, Contrast, EffectiveCompute, SizeDifference
from extrap.records import Fit, Measure

__all__ = ["comparison_document"]

SCHEMA_VERSION = 1


def comparison_document(found: Comparison) -> dict[str, Any]:
    """What `extrap compare --json` prints."""
    return {
        "kind": "extrap-comparison",
        "schema_version": SCHEMA_VERSION,
        "plain": found.plain,
        "arms": list(found.arms),
        "columns": list(found.columns),
        "target": dict(found.target),
        "level": found.level,
        "contrasts": [_contrast(each) for each in found.contrasts],
        "laws": {name: None if law is None else _law(law) for name, law in found.laws.items()},
        "costs": [asdict(cost) for cost in found.costs],
        "price": found.price,
        "notes": list(found.notes),
    }


def _contrast(found: Contrast) -> dict[str, Any]:
    crossover = found.crossover
    return {
        "treated": found.treated,
        "verdict": found.verdict,
        "p_value": found.p_value,
        "p_adjusted": found.p_adjusted,
        "by_size": [_difference(each) for each in found.by_size],
        "at_target": None if found.at_target is None else _difference(found.at_target),
        "mean_difference": _measure(found.mean_difference),
        "exponents": {name: _measure(each) for name, each in found.exponents.items()},
        "exponent_difference": _measure(found.exponent_difference),
        "effective_compute": [_worth(each) for each in found.effective_compute],
        "crossover": {
            "size": _measure(crossover.size),
            "better_below": crossover.better_below,
            "is_inside": crossover.is_inside,
        },
        "flags": list(found.flags),
    }


def _difference(found: SizeDifference) -> dict[str, Any]:
    return {
        "size": dict(found.size),
        "n_pairs": found.n_pairs,
        "plain": _measure(found.plain),
        "treated": _measure(found.treated),
        "difference": _measure(found.difference),
        "is_forecast": found.is_forecast,
    }


def _worth(found: EffectiveCompute) -> dict[str, Any]:
    return {
        "size": dict(found.size),
        "factor": _measure(found.factor),
        "level": found.level,
        "size_factor": _measure(found.size_factor),
    }


def _law(law: Fit) -> dict[str, Any]:
    return {
        "law": law.law,
        "parameters": law.parameters,
        "reference": dict(zip(law.columns, law.reference, strict=True)),
        "fixed": dict(law.fixed),
        "flags": list(law.flags),
        "n_points": law.n_points,
    }


def _measure(found: Measure) -> dict[str, Any]:
    return {"value": found.value, "ci": list(found.ci)}
