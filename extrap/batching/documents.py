"""Critical batch sizes as a JSON document.

Scripts depend on it: keys are kept, `schema_version` rises when they change, an open or missing
number is `null` and never NaN.
"""

from __future__ import annotations

from typing import Any

from extrap.batching.critical import CriticalBatches
from extrap.batching.power_laws import BatchLaw
from extrap.batching.results import BatchGroup, BatchPoint, BatchPrediction, Segments
from extrap.batching.size_laws import SizeForecast
from extrap.records import Measure

__all__ = ["critical_batches_document", "size_forecast_document"]

SCHEMA_VERSION = 1


def critical_batches_document(found: CriticalBatches) -> dict[str, Any]:
    """What `extrap critical-batch --json` prints; `ci` of a group is that of `b_crit`."""
    return {
        "kind": "extrap-critical-batches",
        "schema_version": SCHEMA_VERSION,
        "level": found.level,
        "overhead": found.overhead,
        "batch": found.batch,
        "groups": [_group(group) for group in found.groups],
        "law": None if found.law is None else _law(found.law),
        "laws": {name: _law(law) for name, law in found.laws.items()},
        "reason": found.reason or None,
        "notes": list(found.notes),
    }


def size_forecast_document(forecast: SizeForecast) -> dict[str, Any]:
    """A forecast at another size."""
    return {
        "by": dict(forecast.by),
        "extrapolation_ratio": forecast.extrapolation_ratio,
        **{
            name: _prediction(getattr(forecast, name))
            for name in ("b_crit", "b_overhead", "s_min")
        },
    }


def _group(group: BatchGroup) -> dict[str, Any]:
    regimes = group.regimes
    return {
        "by": dict(group.by),
        "b_crit": group.b_crit.value,
        "ci": list(group.b_crit.ci),
        **_plain("s_min", group.s_min),
        **_plain("e_min", group.e_min),
        "regimes": {
            "perfect": list(regimes.perfect),
            "diminishing": list(regimes.diminishing),
            "maximal": list(regimes.maximal),
        },
        "perfect_end_ci": list(regimes.perfect_end.ci),
        "maximal_start_ci": list(regimes.maximal_start.ci),
        **_plain("b_overhead", group.b_overhead),
        "overhead": group.overhead,
        "from_batch": group.from_batch,
        "log_sd": group.log_sd,
        "dof": group.dof,
        "lack_of_fit_p": group.lack_of_fit_p,
        "segments": None if group.segments is None else _segments(group.segments),
        "points": [_point(group, point) for point in group.points],
        "flags": list(group.flags),
    }


def _plain(name: str, measure: Measure) -> dict[str, Any]:
    return {name: measure.value, f"{name}_ci": list(measure.ci)}


def _segments(segments: Segments) -> dict[str, Any]:
    return {
        "perfect_end": segments.perfect_end,
        "maximal_start": segments.maximal_start,
        "slope": segments.slope,
        "log_sd": segments.log_sd,
        "gain": segments.gain,
    }


def _point(group: BatchGroup, point: BatchPoint) -> dict[str, Any]:
    fitted = group.steps_at(point.batch)
    return {
        "batch": point.batch,
        "steps": point.steps,
        "n": len(point.values),
        "n_censored": len(point.bounds),
        "n_infeasible": point.n_infeasible,
        "log_sd": point.log_sd,
        "fitted": fitted.value,
        "fitted_ci": list(fitted.ci),
        "fitted_pi": list(fitted.pi),
    }


def _law(law: BatchLaw) -> dict[str, Any]:
    exponents = {name: _measure(exponent) for name, exponent in law.exponents.items()}
    return {
        "of": law.of,
        "columns": list(law.columns),
        "coefficient": _measure(law.coefficient),
        "exponent": next(iter(exponents.values())) if len(exponents) == 1 else exponents,
        "reference": dict(zip(law.columns, law.reference, strict=True)),
        "scatter": law.scatter,
        "dof": law.dof,
        "n_groups": law.n_groups,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {"value": measure.value, "ci": list(measure.ci)}


def _prediction(prediction: BatchPrediction) -> dict[str, Any]:
    return {
        "value": prediction.value,
        "ci": list(prediction.ci),
        "pi": list(prediction.pi),
    }
