import json

import pytest

from extrap.errors import DataError
from extrap.reading import read_runs


def state(folder, losses, *, rate=0.1, **more):
    """A checkpoint as the Trainer writes it."""
    folder.mkdir(parents=True)
    log = []
    for step, loss in losses.items():
        log.append({"epoch": 1.0, "step": step, "loss": loss + 1, "learning_rate": rate / step})
        log.append({"epoch": 1.0, "step": step, "eval_loss": loss, "eval_runtime": 1.0})
    content = {"global_step": max(losses), "log_history": log, "train_batch_size": 8, **more}
    (folder / "trainer_state.json").write_text(json.dumps(content))


def test_states_of_the_real_trainer_are_read(tmp_path):
    transformers = pytest.importorskip("transformers")
    own = transformers.TrainerState(global_step=2, max_steps=2, num_train_epochs=1)
    own.log_history = [
        {"loss": 3.5, "learning_rate": 0.01, "epoch": 0.5, "step": 1},
        {"eval_loss": 2.5, "epoch": 1.0, "step": 2},
    ]
    (tmp_path / "width=64/checkpoint-2").mkdir(parents=True)
    own.save_to_json(str(tmp_path / "width=64/checkpoint-2/trainer_state.json"))
    frame = read_runs(tmp_path, size="width", tune="learning_rate").to_frame()
    columns = ["width", "learning_rate", "loss"]
    assert frame[columns].to_numpy().tolist() == [[64.0, 0.01, 2.5]]


def test_folders_of_checkpoints_hold_the_sweep(tmp_path, sweep, table):
    for run in sweep:
        for last in (3, 5):
            losses = {step: run.loss(step) for step in range(1, last + 1)}
            state(tmp_path / run.name / f"checkpoint-{last}", losses)
    runs = read_runs(tmp_path, size="width", tune="lr")
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    assert len(runs.curves()) == 5 * len(table)
    train = read_runs(tmp_path, size="width", tune="lr", loss="loss").to_frame()
    assert train["loss"].tolist() == pytest.approx((runs.to_frame()["loss"] + 1).tolist())


def test_settings_come_from_the_config_beside_a_checkpoint_and_no_pickle_is_opened(tmp_path):
    folder = tmp_path / "a/checkpoint-2"
    state(folder, {1: 3.0, 2: 2.0}, rate=0.5)
    (folder / "config.json").write_text('{"hidden_size": 64, "layers": [1]}')
    (folder / "training_args.bin").mkdir()  # nothing that opens it could
    runs = read_runs(tmp_path, size="hidden_size", tune="learning_rate")
    assert runs.to_frame()[["hidden_size", "learning_rate"]].to_numpy().tolist() == [[64.0, 0.5]]
    alone = read_runs(folder / "trainer_state.json", size="hidden_size", stage="check")
    assert alone.to_frame()["loss"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"log_history": [{"loss"', "is no JSON"),
        ('{"a": 1}', "has no log_history"),
        ("[" * 10**5, "nested too deep"),
        ('{"log_history": [1]}', "has no log_history"),
    ],
)
def test_a_state_that_is_none_is_one_clear_error(tmp_path, content, words):
    (tmp_path / "trainer_state.json").write_text(content)
    with pytest.raises(DataError, match=words):
        read_runs(tmp_path, size="width")


def stopping(counter):
    """What is left by a run that stops early when its loss did not fall three times."""
    patience = {"early_stopping_patience": 3}
    return {"args": patience, "attributes": {"early_stopping_patience_counter": counter}}


ASKED = {"args": {"should_training_stop": True}, "attributes": {}}
LAST = "checkpoint-2"


@pytest.mark.parametrize(
    ("place", "most", "callbacks", "status"),
    [
        (LAST, 10, None, "failed"),
        (LAST, 3, None, "failed"),
        (LAST, 2, None, "complete"),
        (LAST, 1, None, "complete"),
        (LAST, 0, None, "complete"),  # not known
        ("", 10, None, "complete"),  # saved after training
        (LAST, 10, {"TrainerControl": ASKED}, "complete"),
        (LAST, 10, {"EarlyStoppingCallback": stopping(3)}, "complete"),
        (LAST, 10, {"EarlyStoppingCallback": stopping(2), "TrainerControl": []}, "failed"),
    ],
)
def test_a_run_that_ended_before_its_last_step_did_not_finish(
    tmp_path, place, most, callbacks, status
):
    more = {} if callbacks is None else {"stateful_callbacks": callbacks}
    state(tmp_path / "width=64" / place, {1: 3.0, 2: 2.0}, max_steps=most, **more)
    assert read_runs(tmp_path, size="width").to_frame()["status"].tolist() == [status]
