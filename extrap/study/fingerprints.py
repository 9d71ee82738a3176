"""What determines the results of a study, and whether two studies agree on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from extrap.errors import StudyError, argument
from extrap.records import OWN, Recipe, StudySpec
from extrap.records.recipe import STEPS_ONLY

SCHEMA_VERSION = 2
OWN_PARTS = ("trainer", "command", "source", "loss", "result")
"""What of the data identifies a function or command of the user's own."""
IDLE = ("noise_every", *STEPS_ONLY)
"""Fields of a recipe that are left out where they have no effect."""


def fingerprint(spec: StudySpec, data: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted name → value of everything that determines what a cell's training gives.

    Sizes, seeds and targets are left out: a study may grow by them freely.
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
    return {"schema_version": SCHEMA_VERSION, **chosen, **_flat(parts)}


ACCEPT = " If only the training changed and the change does not matter, use --accept-training."


def require_same(stored: Mapping[str, Any], now: Mapping[str, Any], *, study: str) -> None:
    """Raise unless a stored study was made with the same fingerprint; name every difference."""
    names = dict.fromkeys([*now, *stored])
    if differ := [name for name in names if stored.get(name) != now.get(name)]:
        differences = "; ".join(
            f"{name}: {stored.get(name, 'nothing')} in the storage, {now.get(name, 'nothing')} now"
            for name in differ
        )
        raise StudyError(
            f"the study {study!r} can be resumed only with its original settings; {differences}. "
            f"Choose another {argument('storage')} or another name, or delete the old storage."
            + (ACCEPT if all(map(is_of_own_training, differ)) else "")
        )


def is_of_own_training(name: str) -> bool:
    """Whether a name of a fingerprint is of the function or command that trains."""
    data, _, part = name.partition(".")
    return data == "data" and part.partition(".")[0] in OWN_PARTS


def _recipe(recipe: Recipe) -> dict[str, Any]:
    """All fields; of those in `IDLE` only what is in use."""
    in_use = recipe.in_use()
    known = {k: v for k, v in asdict(recipe).items() if k in in_use or k not in IDLE}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}  # as JSON has it


def _flat(parts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in parts.items():
        is_table = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if is_table else {f"{prefix}{name}": value}
    return flat
