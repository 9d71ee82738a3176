import json
import math
import os

import pytest

from extrap.cli import main
from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.reader import read_sweep
from extrap.reading.request import Request

NAMES = {"size": "width", "tune": "lr", "loss": "val_loss"}


def state(folder, losses, *, rate=0.1, config=None, **more):
    """A checkpoint as the Trainer writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    log = []
    for step, loss in losses.items():
        log.append({"epoch": 1.0, "step": step, "loss": loss + 1, "learning_rate": rate / step})
        log.append({"epoch": 1.0, "step": step, "eval_loss": loss, "eval_runtime": 1.0})
    content = {"global_step": max(losses), "log_history": log, "train_batch_size": 8, **more}
    (folder / "trainer_state.json").write_text(json.dumps(content))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))


def csv_log(folder, hparams, losses):
    """A version as Lightning's CSVLogger writes it."""
    folder.mkdir(parents=True)
    rows = "".join(f"{step},{loss},\n{step},,{loss}\n" for step, loss in losses.items())
    (folder / "metrics.csv").write_text("step,val_loss,train_loss\n" + rows)
    if hparams is not None:
        (folder / "hparams.yaml").write_text(hparams)


def test_files_at_any_depth_are_read_and_pipes_passed_over(tmp_path):
    state(tmp_path / "width=8", {1: 2.0})
    state(tmp_path / "a/b/c/d/width=16", {1: 2.0})
    os.mkfifo(tmp_path / "metrics.csv")
    (tmp_path / "round").symlink_to(tmp_path)
    assert read_runs(tmp_path, size="width").to_frame()["width"].tolist() == [16.0, 8.0]


def test_names_cannot_command_the_terminal(tmp_path, capsys):
    state(tmp_path / "width=8\x1b[31m", {1: 2.0}, config={"\x1b]0;owned\x07lr": 0.1})
    assert main(["forecast", str(tmp_path), "--size", "wide"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_settings_called_like_our_own_columns_do_no_harm(tmp_path):
    config = {"status": "broken", "stage": "check", "run": "x", "eval_loss": 9, "loss": 7}
    state(tmp_path / "width=8", {1: 2.0}, config=config)
    runs = read_runs(tmp_path, size="width").to_frame()
    assert runs[["loss", "status", "stage"]].to_numpy().tolist() == [[2.0, "complete", "tune"]]
    assert runs["config.eval_loss"].tolist() == [9]


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
    state(folder, {1: 3.0, 2: 2.0}, rate=0.5, config={"hidden_size": 64, "layers": [1]})
    (folder / "training_args.bin").mkdir()  # nothing that opens it could
    runs = read_runs(tmp_path, size="hidden_size", tune="learning_rate")
    assert runs.to_frame()[["hidden_size", "learning_rate"]].to_numpy().tolist() == [[64.0, 0.5]]
    alone = read_runs(folder / "trainer_state.json", size="hidden_size", stage="check")
    assert alone.to_frame()["loss"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("trainer_state.json", '{"log_history": [{"loss"', "is no JSON"),
        ("trainer_state.json", "[" * 10**5, "recursion"),
        ("trainer_state.json", '{"log_history": [1]}', "has no log_history"),
        ("trainer_state.json", '{"a": 1}', "has no log_history"),
        ("metrics.csv", "width,loss\n1,2\n", "has no column step"),
        ("notes.txt", "", "without runs"),
    ],
)
def test_a_log_that_is_none_is_one_clear_error(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words):
        read_runs(tmp_path, size="width")


@pytest.mark.filterwarnings("ignore")
def test_csv_logs_of_lightning_hold_the_sweep(tmp_path, sweep, table):
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    for number, run in enumerate(sweep):
        logger = loggers.CSVLogger(str(tmp_path), name=f"run{number}")
        logger.log_hyperparams(run._asdict())
        for step in range(6):
            logger.log_metrics({"val_loss": run.loss(step), "lr-AdamW": 0.1}, step=step)
            logger.log_metrics({"train_loss": run.loss(step) + 1}, step=step)
        logger.save()
    runs = read_runs(tmp_path, **NAMES)
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    assert len(runs.curves()) == 6 * len(table)


def test_a_version_is_a_run_and_one_that_was_cut_short_does_not_count(tmp_path):
    pytest.importorskip("yaml")
    for version, losses in {
        0: {0: 4.0, 10: 3.0, 20: 2.5},
        1: {20: 2.0, 30: 1.5},
        2: {0: 4.5, 10: 3.5, 20: 3.0},
        10: {30: 2.0},
    }.items():
        csv_log(tmp_path / f"logs/version_{version}", "width: 8\nlr: 0.1\n", losses)
    runs = read_runs(tmp_path, **NAMES)
    assert len(runs) == 4
    assert runs.complete().to_frame()["loss"].tolist() == [1.5, 2.0]
    assert any(note.startswith("2 run(s) stop before") for note in runs.notes)


def test_settings_are_read_from_folders_where_the_file_holds_no_plain_data(tmp_path):
    pytest.importorskip("yaml")
    hostile = "lr: !!python/object/apply:os.system ['touch owned']\n"
    csv_log(tmp_path / "width=8,lr=0.1/version_0", hostile, {0: 2.0})
    csv_log(tmp_path / "width=16,lr=0.1/version_0", None, {0: math.nan})
    runs = read_runs(tmp_path, **NAMES).to_frame()
    assert runs["width"].tolist() == [16.0, 8.0]
    assert runs["status"].tolist() == ["diverged", "complete"]


def test_the_loss_of_held_out_data_is_taken_where_none_is_named(tmp_path):
    folder = tmp_path / "width=8"
    folder.mkdir()
    (folder / "metrics.csv").write_text("step,loss,val_loss\n9,1.0,2.0\n19,0.5,2.2\n")
    assert read_runs(tmp_path, size="width").to_frame()["loss"].tolist() == [2.2]


N_STEPS, WARMUP = 1200, 100


def linear(step, warmup=0):
    return (N_STEPS - step) / (N_STEPS - warmup)


def with_floor(step):
    """A cosine decay to a tenth of the peak."""
    return 0.1 + 0.45 * (1 + math.cos(math.pi * step / N_STEPS))


def logged(root, share, steps, *, name="r{i}", config=None):
    """States of two widths and two peaks, whose rate was logged at some steps."""
    for i, (width, peak) in enumerate((w, p) for w in (64, 128) for p in (0.01, 0.02)):
        folder = root / name.format(i=i, width=width, peak=peak)
        folder.mkdir(parents=True)
        rates = [{"step": step, "learning_rate": peak * share(step)} for step in steps]
        log = [*rates, {"step": N_STEPS, "eval_loss": 2.0 + peak}]
        content = {"log_history": log, "global_step": N_STEPS, "max_steps": N_STEPS}
        (folder / "trainer_state.json").write_text(json.dumps(content))
        settings = {"hidden_size": width, **(config or {})}
        (folder / "config.json").write_text(json.dumps(settings))
    return root


@pytest.mark.parametrize(
    ("share", "steps", "config"),
    [
        (linear, (500, 1000), {}),
        (
            lambda step: linear(step, WARMUP),
            (500, 1000),
            {"lr_scheduler_type": "linear", "warmup_steps": WARMUP},
        ),
        (with_floor, range(1, N_STEPS), {}),  # logged from the first step on
        (lambda step: 1.0, (500, 1000), {}),
        (lambda step: min(step / WARMUP, with_floor(step - WARMUP)), range(20, N_STEPS, 20), {}),
    ],
)
def test_the_peak_of_a_logged_rate_is_found_where_the_log_tells_it(tmp_path, share, steps, config):
    runs, said = read_sweep(logged(tmp_path, share, steps, config=config), Request())
    assert runs.tuned == ("learning_rate",)
    peaks = sorted(set(runs.to_frame()["learning_rate"].round(5)))
    assert peaks == pytest.approx([0.01, 0.02], rel=0.001)
    assert "learning_rate was read from the log" in said


def test_a_peak_that_the_log_does_not_tell_is_asked_for(tmp_path):
    with pytest.raises(DataError, match="do not tell its peak") as caught:
        read_runs(logged(tmp_path, with_floor, (500, 1000)))
    (choice,) = caught.value.choices
    frame = read_runs(tmp_path, **choice.arguments).to_frame()
    largest = frame["largest_logged_learning_rate"].max()
    assert largest == pytest.approx(0.02 * with_floor(500))
    with pytest.raises(DataError, match="no column 'learning_rate'"):  # nor the last logged one
        read_runs(tmp_path, tune="learning_rate")


@pytest.mark.parametrize(
    "name",
    [
        "run-h{width}-lr{peak}",
        "h{width}_lr_{peak}",
        "{width}/lr={peak}",
        "learning_rate{peak}-{i}",
    ],
)
def test_a_rate_in_the_name_of_a_folder_comes_before_a_logged_one(tmp_path, name):
    runs = read_runs(logged(tmp_path, with_floor, (500, 1000), name=name))
    assert sorted(set(runs.to_frame()[runs.tuned[0]])) == [0.01, 0.02]


def test_unknown_words_in_the_names_of_folders_are_offered_as_a_size(tmp_path):
    for width in (64, 128):
        for rate in ("0p01", "0p02"):
            csv_log(tmp_path / f"run-h{width}-lr{rate}", None, {0: 2.0, 10: 1.5})
    with pytest.raises(DataError) as caught:
        read_runs(tmp_path)
    (choice,) = caught.value.choices
    assert choice.arguments == {"size": "h", "tune": ["lr"]}
    frame = read_runs(tmp_path, **choice.arguments).to_frame()
    assert sorted(zip(frame["h"], frame["lr"], strict=True)) == [
        (64, 0.01), (64, 0.02), (128, 0.01), (128, 0.02)
    ]  # fmt: skip


@pytest.mark.parametrize("log", ["", "csv/version_0"])
@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        (["hidden_dim={w}", "lr={x:.1e}", "+model.x=3", "seed=1"], None),
        (["++model.hidden_dim={w}", "optim.lr='{x}'", "~dropout", "ids=[1,2]", "seed=1"], "a: ["),
        ([], "model: {{hidden_dim: {w}}}\noptim: {{name: adam, lr: {x}}}\nseed: 1\n"),
    ],
)
def test_settings_of_hydra_are_read(tmp_path, log, overrides, config):
    pytest.importorskip("yaml")
    cells = [(w, x) for w in (32, 64) for x in (0.01, 0.02)]
    for i, (w, x) in enumerate(cells):
        home = tmp_path / f"10-00-00/{i}"
        csv_log(home / log, None, {0: 3.0, 10: 2.0 + x}) if log else csv_log(home, None, {9: 2.0})
        (home / ".hydra").mkdir()
        lines = [f"- {text.format(w=w, x=x)}\n" for text in overrides]
        (home / ".hydra/overrides.yaml").write_text("".join(lines))
        if config is not None:
            (home / ".hydra/config.yaml").write_text(config.format(w=w, x=x))
    runs, said = read_sweep(tmp_path, Request())
    frame = runs.to_frame()
    assert sorted(zip(frame["hidden_dim"], frame["lr"], strict=True)) == cells
    assert "seed = seed" in said


def test_a_folder_of_hydra_without_losses_says_what_is_missing(tmp_path):
    (tmp_path / "0/.hydra").mkdir(parents=True)
    (tmp_path / "0/.hydra/overrides.yaml").write_text("- lr=0.1\n")
    with pytest.raises(DataError, match=r"has Hydra's settings and no metrics\.csv"):
        read_runs(tmp_path)
