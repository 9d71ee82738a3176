"""HF Trainer's `trainer_state.json`, of a run's folder and of its checkpoints.

All of one run's folder are one run; a later checkpoint holds what an earlier one logged. Settings
come from names of folders, from `config.json` beside the checkpoint, and from what the state says.
`training_args.bin` is a pickle, which would run what its author wrote: it is never opened. The
rate it holds is in the log, as the largest `learning_rate`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from extrap.errors import DataError
from extrap.reading.bounds import MOST_BYTES, first_line, parse_json, require_file
from extrap.reading.found import Found
from extrap.reading.settings import settings_in
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import Points, TrackedRun, number_of, settings_of, table_of

LOSSES = ("eval_loss", "loss")
RATE = "learning_rate"
STATED = ("train_batch_size", "max_steps", "num_train_epochs")
STOPPER = "EarlyStoppingCallback"
OWN = ("step", "epoch")
"""Of an entry of the log: where it stands."""


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of `trainer_state.json` files."""
    del study
    runs, notes = stitched([_read_part(folder, path) for path in files])
    checkpointed = [note for note in notes if "stitched" not in note]  # every run has checkpoints
    rates = any(RATE in run.settings for run in runs)
    said = f"{RATE} is the largest that a run logged" if rates else ""
    return table_of(
        runs, where=str(folder), losses=LOSSES, notes=[*checkpointed, *([said] if said else [])]
    )


def _read_part(root: Path, path: Path) -> TrackedRun:
    state = _json(path)
    log = state.get("log_history")
    if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
        raise DataError(f"{path} has no log_history; it is no state of a Trainer, leave it out.")
    home = path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent
    inside = home != root and home.is_relative_to(root)
    name = str(home.relative_to(root)) if inside else home.name
    history: dict[str, list[tuple[float, float]]] = {}
    for entry in log:
        step = number_of(entry.get("step"))
        for key, value in entry.items():
            number = number_of(value)
            if step is not None and number is not None and key not in OWN:
                history.setdefault(str(key), []).append((step, number))
    measured: dict[str, Points] = {k: v for k, v in history.items() if k != RATE}
    return TrackedRun(
        name=name,
        settings=_settings(path, state, history, name),
        history=measured,
        status=_status(state, is_checkpoint=home != path.parent),
        identity=str(home),
        started=number_of(state.get("global_step")) or 0.0,
    )


def _status(state: dict[str, Any], *, is_checkpoint: bool) -> str:
    """How a run ended: a checkpoint before the last step is of one that did not finish.

    One that a callback stopped did, and so did one whose state was saved after training, beside
    its checkpoints. Empty where the state does not say how many steps there should be.
    """
    done, most = number_of(state.get("global_step")), number_of(state.get("max_steps"))
    if done is None or most is None or most <= 0:
        return ""
    is_whole = done >= most or not is_checkpoint or _was_stopped(state)
    return "finished" if is_whole else "running"


def _was_stopped(state: dict[str, Any]) -> bool:
    """Whether the state says that training was to stop there, early stopping among the reasons."""
    callbacks = state.get("stateful_callbacks")
    found = callbacks if isinstance(callbacks, dict) else {}
    control, stopper = _saved(found.get("TrainerControl")), _saved(found.get(STOPPER))
    waited = number_of(stopper.get("early_stopping_patience_counter"))
    patience = number_of(stopper.get("early_stopping_patience"))
    has_waited = waited is not None and patience is not None and waited >= patience
    return control.get("should_training_stop") is True or has_waited


def _saved(callback: object) -> dict[str, Any]:
    """Arguments and attributes of a callback as the state has them; a list is of several such."""
    each = callback[-1] if isinstance(callback, list) and callback else callback
    parts = [each.get(key) for key in ("args", "attributes")] if isinstance(each, dict) else []
    return {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}


def _settings(
    path: Path, state: dict[str, Any], history: dict[str, list[tuple[float, float]]], name: str
) -> dict[str, Any]:
    config = path.with_name("config.json")
    model = settings_of(_json(config)) if config.is_file() else {}
    trial = state.get("trial_params")
    found = {
        **model,
        **{key: state[key] for key in STATED if number_of(state.get(key)) is not None},
        **(settings_of(trial) if isinstance(trial, dict) else {}),
    }
    if RATE in history:
        found.setdefault(RATE, max(rate for _, rate in history[RATE]))
    return {**found, **settings_in(name)}


def _json(path: Path) -> dict[str, Any]:
    require_file(path, "state of a Trainer", most=MOST_BYTES)
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(
            f"{path} is no JSON ({first_line(error)}); a run may have been writing it: leave it "
            "out."
        ) from error
    return found if isinstance(found, dict) else {}
