import math

import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

pytest.importorskip("yaml")
NAMES = {"size": "width", "tune": "lr", "loss": "val_loss"}


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


def written(folder, hparams, losses):
    folder.mkdir(parents=True)
    rows = "".join(f"{step},{loss},\n{step},,{loss}\n" for step, loss in losses.items())
    (folder / "metrics.csv").write_text("step,val_loss,train_loss\n" + rows)
    if hparams is not None:
        (folder / "hparams.yaml").write_text(hparams)


def test_a_version_is_a_run_and_one_that_was_cut_short_does_not_count(tmp_path):
    for version, losses in {
        0: {0: 4.0, 10: 3.0, 20: 2.5},
        1: {20: 2.0, 30: 1.5},
        2: {0: 4.5, 10: 3.5, 20: 3.0},
        10: {30: 2.0},
    }.items():
        written(tmp_path / f"logs/version_{version}", "width: 8\nlr: 0.1\n", losses)
    runs = read_runs(tmp_path, **NAMES)
    assert len(runs) == 4
    assert runs.complete().to_frame()["loss"].tolist() == [1.5, 2.0]
    assert any(note.startswith("2 run(s) stop before") for note in runs.notes)


def test_settings_are_read_from_folders_where_the_file_holds_no_plain_data(tmp_path):
    hostile = "lr: !!python/object/apply:os.system ['touch owned']\n"
    written(tmp_path / "width=8,lr=0.1/version_0", hostile, {0: 2.0})
    written(tmp_path / "width=16,lr=0.1/version_0", None, {0: math.nan})
    runs = read_runs(tmp_path, **NAMES)
    assert runs.to_frame()["width"].tolist() == [16.0, 8.0]
    assert runs.to_frame()["status"].tolist() == ["diverged", "complete"]
    assert any(note.startswith("2 run(s) without") for note in runs.notes)


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(tmp_path):
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(30)) + "}"]
    for level in range(1, 8):
        inner = ", ".join(f"k{i}: *a{level - 1}" for i in range(30))
        lines.append(f"a{level}: &a{level} {{{inner}}}")
    written(tmp_path / "version_0", "\n".join(lines), {0: 2.0})
    with pytest.raises(DataError, match="20,000 settings"):
        read_runs(tmp_path, **NAMES)


def test_the_loss_of_held_out_data_is_taken_where_none_is_named(tmp_path):
    (tmp_path / "metrics.csv").write_text("width,loss\n1,2\n")
    with pytest.raises(DataError, match="has no column step"):
        read_runs(tmp_path, **NAMES)
    (tmp_path / "metrics.csv").write_text("step,loss,val_loss\n9,1.0,2.0\n19,0.5,2.2\n")
    (tmp_path / "hparams.yaml").write_text("width: 8\n")
    assert read_runs(tmp_path, size="width").to_frame()["loss"].tolist() == [2.2]
