from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs


def state(folder: Path, losses: dict[int, float], *, rate: float = 0.1, **more: Any) -> None:
    """A checkpoint as the Trainer writes it."""
    folder.mkdir(parents=True)
    log: list[dict[str, Any]] = []
    for step, loss in losses.items():
        log.append({"epoch": 1.0, "step": step, "loss": loss + 1, "learning_rate": rate / step})
        log.append({"epoch": 1.0, "step": step, "eval_loss": loss, "eval_runtime": 1.0})
    content = {"global_step": max(losses), "log_history": log, "train_batch_size": 8, **more}
    (folder / "trainer_state.json").write_text(json.dumps(content))


def test_states_of_the_real_trainer_are_read(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    own = transformers.TrainerState(global_step=2, max_steps=2, num_train_epochs=1)
    own.log_history = [
        {"loss": 3.5, "learning_rate": 0.01, "epoch": 0.5, "step": 1},
        {"eval_loss": 2.5, "epoch": 1.0, "step": 2},
    ]
    (tmp_path / "width=64/checkpoint-2").mkdir(parents=True)
    own.save_to_json(str(tmp_path / "width=64/checkpoint-2/trainer_state.json"))
    runs = read_runs(tmp_path, size="width", tune="learning_rate")
    assert runs.to_frame()[["width", "learning_rate", "loss"]].to_numpy().tolist() == [
        [64.0, 0.01, 2.5]
    ]
    assert "learning_rate is the largest that a run logged" in runs.notes


def test_folders_of_checkpoints_hold_the_sweep(
    tmp_path: Path, sweep: list[Any], table: pd.DataFrame
) -> None:
    for run in sweep:
        for last in (3, 5):
            losses = {step: run.loss(step) for step in range(1, last + 1)}
            state(tmp_path / run.name / f"checkpoint-{last}", losses)
    runs = read_runs(tmp_path, size="width", tune="lr")
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    curves = runs.curves()
    assert curves is not None
    assert len(curves) == 5 * len(table)
    train = read_runs(tmp_path, size="width", tune="lr", loss="loss").to_frame()
    assert (train["loss"] > runs.to_frame()["loss"]).all()


def test_settings_come_from_the_config_beside_a_checkpoint(tmp_path: Path) -> None:
    state(tmp_path / "a/checkpoint-2", {1: 3.0, 2: 2.0}, rate=0.5)
    (tmp_path / "a/checkpoint-2/config.json").write_text('{"hidden_size": 64, "layers": [1]}')
    runs = read_runs(tmp_path, size="hidden_size", tune="learning_rate")
    assert runs.to_frame()[["hidden_size", "learning_rate"]].to_numpy().tolist() == [[64.0, 0.5]]


def test_a_state_in_the_folder_of_the_run_and_alone_is_read(tmp_path: Path) -> None:
    state(tmp_path / "width=64", {1: 3.0, 2: 2.0})
    assert len(read_runs(tmp_path, size="width")) == 1
    alone = tmp_path / "width=64/trainer_state.json"
    assert read_runs(alone, size="width", stage="check").to_frame()["loss"].tolist() == [2.0]


def test_a_pickle_beside_a_state_is_never_opened(tmp_path: Path) -> None:
    state(tmp_path / "width=64/checkpoint-2", {1: 3.0, 2: 2.0})
    (tmp_path / "width=64/checkpoint-2/training_args.bin").mkdir()  # nothing that opens it could
    assert len(read_runs(tmp_path, size="width")) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"log_history": [{"loss"', "is no JSON"),
        ('{"a": 1}', "has no log_history"),
        ("[" * 10**5, "nested too deep"),
        ('{"log_history": [1]}', "has no log_history"),
    ],
)
def test_a_state_that_is_none_is_one_clear_error(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "trainer_state.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_runs(tmp_path, size="width")


@pytest.mark.parametrize(
    ("place", "more", "status"),
    [
        ("checkpoint-2", {"max_steps": 10}, "failed"),
        ("checkpoint-2", {"max_steps": 2}, "complete"),
        ("checkpoint-2", {"max_steps": 0}, "complete"),  # not known
        ("", {"max_steps": 10}, "complete"),  # saved after training
        (
            "checkpoint-2",
            {
                "max_steps": 10,
                "stateful_callbacks": {
                    "TrainerControl": {"args": {"should_training_stop": True}, "attributes": {}}
                },
            },
            "complete",
        ),
        (
            "checkpoint-2",
            {
                "max_steps": 10,
                "stateful_callbacks": {
                    "EarlyStoppingCallback": {
                        "args": {"early_stopping_patience": 3},
                        "attributes": {"early_stopping_patience_counter": 3},
                    }
                },
            },
            "complete",
        ),
        (
            "checkpoint-2",
            {
                "max_steps": 10,
                "stateful_callbacks": {
                    "EarlyStoppingCallback": {
                        "args": {"early_stopping_patience": 3},
                        "attributes": {"early_stopping_patience_counter": 1},
                    },
                    "TrainerControl": [],
                },
            },
            "failed",
        ),
    ],
)
def test_a_run_that_ended_before_its_last_step_did_not_finish(
    tmp_path: Path, place: str, more: dict[str, Any], status: str
) -> None:
    state(tmp_path / "width=64" / place, {1: 3.0, 2: 2.0}, **more)
    runs = read_runs(tmp_path, size="width").to_frame()
    assert runs["status"].tolist() == [status]
