"""A plan as a JSON document, and its purchases as a table for a trainer.

Scripts depend on it: keys are kept, `schema_version` rises when they change, a missing number is
`null` and never NaN.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from extrap.planning.plans import Outlook, Plan

__all__ = ["plan_document", "purchases_table"]

SCHEMA_VERSION = 1


def plan_document(found: Plan) -> dict[str, Any]:
    """What `extrap plan --json` prints."""
    return {
        "kind": "extrap-plan",
        "schema_version": SCHEMA_VERSION,
        "at": dict(found.at),
        "level": found.level,
        "budget": found.budget,
        "unit": found.unit,
        "cost_from": found.cost_from,
        "spent": found.spent,
        "cost": found.cost,
        "purchases": [
            {
                "size": dict(p.size),
                "tuned": dict(p.tuned),
                "seed": p.seed,
                "cost": p.cost,
                "step": p.step,
                "reason": p.reason,
            }
            for p in found.purchases
        ],
        "outlooks": [_outlook(outlook) for outlook in found.outlooks],
        "floor": _outlook(found.floor),
        "limits": {name: dict(parts) for name, parts in found.limits.items()},
        "larger": [
            {"size": dict(e.size), **_outlook(e.outlook), "in_budget": e.in_budget}
            for e in found.larger
        ],
        "advice": list(found.advice),
        "flags": list(found.flags),
    }


def purchases_table(found: Plan) -> pd.DataFrame:
    """One row a run: sizes, tuned values, seed, cost, step, reason."""
    columns = [*found.at, *found.now.tuned_width, "seed", "cost", "step", "reason"]
    rows = [
        {**p.size, **p.tuned, "seed": p.seed, "cost": p.cost, "step": p.step, "reason": p.reason}
        for p in found.purchases
    ]
    return pd.DataFrame(rows, columns=columns)


def _outlook(outlook: Outlook) -> dict[str, Any]:
    return {
        "n_runs": outlook.n_runs,
        "cost": outlook.cost,
        "loss_width": _finite(outlook.loss_width),
        "tuned_width": {name: _finite(width) for name, width in outlook.tuned_width.items()},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
