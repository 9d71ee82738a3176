"""A cascade as a JSON document."""

from __future__ import annotations

from typing import Any

from extrap.cascading.results import Cascade, CascadePoint
from extrap.records import Measure

__all__ = ["cascade_document"]

SCHEMA_VERSION = 1


def cascade_document(found: Cascade) -> dict[str, Any]:
    """What `extrap cascade --json` prints; scripts depend on its keys, null is not known.

    `share`, `cost`, `quality` and `difference` are `{"value", "ci"}`; costs are in units of one
    input by the large model alone.
    """
    return {
        "kind": "extrap-cascade",
        "schema_version": SCHEMA_VERSION,
        "level": found.level,
        "seed": found.seed,
        "outcome": found.kind,
        "asked": found.asked,
        "is_reached": found.is_reached,
        "validation_quality": found.validation_quality,
        **_point_document(found.chosen),
        "small": _measure_document(found.small),
        "large": _measure_document(found.large),
        "costs": {
            "small": found.cost_small,
            "large": found.cost_large,
            "filter": found.cost_filter,
        },
        "share_filtered": found.share_filtered,
        "n_validation": found.n_validation,
        "n_judged": found.n_judged,
        "curve": [_point_document(point) for point in found.curve],
        "notes": list(found.notes),
        "flags": list(found.flags),
    }


def _point_document(point: CascadePoint) -> dict[str, Any]:
    names = ("share", "quality", "difference", "cost")
    measures = {name: _measure_document(getattr(point, name)) for name in names}
    return {"threshold": point.threshold, **measures}


def _measure_document(measure: Measure) -> dict[str, Any]:
    return {"value": measure.value, "ci": list(measure.ci)}
