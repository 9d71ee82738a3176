"""An allocation as a JSON document.

Scripts depend on it: keys are kept, `schema_version` rises when they change, an open or missing
number is `null` and never NaN.
"""

from __future__ import annotations

from typing import Any

from extrap.planning.results import Allocation, Estimated, RepeatedData, Serving
from extrap.records import Fit, Measure

__all__ = ["allocation_document"]

SCHEMA_VERSION = 1
SPLIT = ("params", "tokens", "loss", "loss_if_right", "exponent", "tokens_per_param")


def allocation_document(found: Allocation) -> dict[str, Any]:
    """What `extrap allocate --json` prints; an estimator that was not possible says why."""
    return {
        "kind": "extrap-allocation",
        "schema_version": SCHEMA_VERSION,
        "flops": found.flops,
        "level": found.level,
        "estimator": found.estimator,
        **_split(found.chosen),
        "estimators": {
            **{name: {**_split(e), "how": e.how} for name, e in found.estimators.items()},
            **{name: {"refused": reason} for name, reason in found.refused.items()},
        },
        "law": None if found.law is None else _law(found.law),
        "extrapolation_ratio": found.extrapolation_ratio,
        "discrepancy": found.discrepancy,
        "frontier_offset": found.frontier_offset,
        **_measures(found, ("forecast_loss",)),
        "repeated": None if found.repeated is None else _repeated(found.repeated),
        "serving": None if found.serving is None else _serving(found.serving),
        "warnings": list(found.warnings),
        "notes": list(found.notes),
    }


def _split(found: Estimated) -> dict[str, Any]:
    return _measures(found, SPLIT)


def _law(law: Fit) -> dict[str, Any]:
    return {
        "law": law.law,
        "parameters": law.parameters,
        "reference": dict(zip(law.columns, law.reference, strict=True)),
        "fixed": dict(law.fixed),
        "flags": list(law.flags),
        "n_points": law.n_points,
    }


def _repeated(found: RepeatedData) -> dict[str, Any]:
    names = ("params", "tokens", "epochs", "effective_epochs", "loss")
    return {"unique_tokens": found.unique_tokens, **_measures(found, names)}


def _serving(found: Serving) -> dict[str, Any]:
    names = ("params", "tokens", "train_flops", "total_flops", "saving", "loss")
    return {"inference_tokens": found.inference_tokens, **_measures(found, names)}


def _measures(record: object, names: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        measure = getattr(record, name)
        assert isinstance(measure, Measure)
        found[name] = {"value": measure.value, "ci": list(measure.ci)}
    return found
