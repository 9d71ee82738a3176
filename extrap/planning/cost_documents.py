"""What being wrong costs, as a JSON document.

Scripts depend on it: keys are kept, `schema_version` rises when they change, an open or missing
number is `null` and never NaN.
"""

from __future__ import annotations

from typing import Any

from extrap.planning.costs import Cost, Penalty
from extrap.records import Measure

__all__ = ["cost_document"]

SCHEMA_VERSION = 1
MEASURES = (
    "relative",
    "nats",
    "equivalent_compute",
    "wasted_flops",
    "wasted_gpu_hours",
    "wasted_money",
)


def cost_document(found: Cost) -> dict[str, Any]:
    """What `extrap cost --json` prints."""
    return {
        "kind": "extrap-cost",
        "schema_version": SCHEMA_VERSION,
        "size": dict(found.size),
        "level": found.level,
        "loss": found.loss,
        "flops": found.flops,
        "gpu_hours": found.gpu_hours,
        "money": found.money,
        "is_recommended": found.is_recommended,
        **_penalty(found.chosen),
        "around": [
            {"name": e.name, "factor": e.factor, **_penalty(e.penalty)} for e in found.around
        ],
        "kept": [
            {"name": e.name, "kept_from": dict(e.kept_from or {}), **_penalty(e.penalty)}
            for e in found.kept
        ],
        "flags": list(found.flags),
    }


def _penalty(found: Penalty) -> dict[str, Any]:
    measures: dict[str, Any] = {}
    for name in MEASURES:
        measure = getattr(found, name)
        assert isinstance(measure, Measure)
        measures[name] = {"value": measure.value, "ci": list(measure.ci)}
    return {
        "tuned": dict(found.tuned),
        "octaves": dict(found.octaves),
        **measures,
        "chance_of_divergence": found.chance_of_divergence,
    }
