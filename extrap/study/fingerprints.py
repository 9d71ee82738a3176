"""What determines the results of a study, and where two studies differ in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from extrap.errors import StudyError, argument
from extrap.records import OWN, Recipe, StudySpec
from extrap.records.recipe import STEPS_ONLY

FINGERPRINT_VERSION = 2
"""Of the fingerprints of studies; a part of them."""
OWN_PARTS = ("trainer", "command", "source", "loss", "result")
"""What of the data identifies a function or command of the user's own."""
IDLE = ("noise_every", *STEPS_ONLY)
"""Fields of a recipe that are left out where they have no effect."""


def fingerprint(spec: StudySpec, data: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted name → value of everything that determines what a cell's training gives.

    Sizes, seeds and targets are left out: a study may change them freely, and the ranges of its
    tuned columns too, which stand here as they first were.
    """
    parts = {
        "workload": {"name": spec.workload.name, **spec.workload.options},
        "recipe": {} if spec.workload.name == OWN else _recipe(spec.recipe),
        "tune": {name: asdict(tuned) for name, tuned in spec.tune.items()},
        "data": dict(data),
        "path": dict(spec.path),
    }
    pruner = spec.pruner if isinstance(spec.pruner, str) else type(spec.pruner).__name__
    chosen = {"sampler": spec.sampler_name, **({"pruner": pruner} if pruner else {})}
    return {"schema_version": FINGERPRINT_VERSION, **chosen, **_flat(parts)}


ACCEPT = " If only the training changed and the change does not matter, use --accept-training."


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Name → what a study was made with and would be now, where runs of both do not compare.

    A tuned column may get other values: its range is left out.
    """
    old, new = _shared(stored), _shared(now)
    return {
        name: f"{name}: {old.get(name, 'nothing')} in the storage, {new.get(name, 'nothing')} now"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    }


def refuse(changed: Mapping[str, str], *, study: str) -> StudyError:
    """The error that names the `differences` of a study that has results."""
    return StudyError(
        f"the study {study!r} has results and can be resumed only with the settings that gave "
        f"them; {'; '.join(changed.values())}. Choose another {argument('storage')} or another "
        "name, or delete the old storage."
        + (ACCEPT if all(map(is_of_own_training, changed)) else "")
    )


def _shared(made_with: Mapping[str, Any]) -> dict[str, Any]:
    """What all runs of a study share: of tuned columns their names."""
    columns = sorted({name.split(".")[1] for name in made_with if name.startswith("tune.")})
    others = {name: value for name, value in made_with.items() if not name.startswith("tune.")}
    return {**others, "tuned": ", ".join(columns)}


def is_of_own_training(name: str) -> bool:
    """Whether a name of a fingerprint is of the function or command that trains."""
    data, _, part = name.partition(".")
    return data == "data" and part.partition(".")[0] in OWN_PARTS


def _recipe(recipe: Recipe) -> dict[str, Any]:
    """All fields; of those in `IDLE` only what is in use."""
    in_use = recipe.in_use()
    used = {k: v for k, v in asdict(recipe).items() if k in in_use or k not in IDLE}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in used.items()}  # as JSON has it


def _flat(parts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in parts.items():
        is_table = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if is_table else {f"{prefix}{name}": value}
    return flat
