import math
import sys

import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.logs import LogReader
from extrap.reading.trackers.tensorboard import EventLog

pytest.importorskip("tensorboard")
torch_tensorboard = pytest.importorskip("torch.utils.tensorboard")
NAMES = {"size": "width", "tune": "lr", "loss": "val/loss"}


def log(folder, losses, hparams=None, **options):
    """A run as PyTorch's own writer logs it."""
    with torch_tensorboard.SummaryWriter(str(folder)) as writer:
        for step, loss in losses.items():
            writer.add_scalar("speed", 0.5, step)
            writer.add_text("note", "text", step)
            writer.add_scalar("val/loss", loss, step, **options)
        if hparams is not None:
            writer.add_hparams(hparams, {"hparam/loss": 1.0})
    return folder


def test_hyperparameters_of_the_plugin_are_settings(tmp_path, sweep, table):
    for number, run in enumerate(sweep[:6]):
        log(tmp_path / f"r{number}", {s: run.loss(s) for s in range(6)}, run._asdict())
    runs, plain = read_runs(tmp_path, **NAMES), read_runs(table[:6], size="width", tune="lr")
    ours, theirs = runs.canonical(), plain.canonical()
    assert ours[["width", "lr", "seed"]].equals(theirs[["width", "lr", "seed"]])
    assert ours["loss"].tolist() == pytest.approx(theirs["loss"].tolist(), rel=1e-6)  # float32
    assert not any("joined" in note for note in runs.notes)


def test_a_scalar_of_the_name_of_a_hyperparameter_is_its_course(tmp_path, sweep, table):
    for number, run in enumerate(sweep[:6]):
        folder = log(tmp_path / f"r{number}", {s: run.loss(s) for s in range(6)}, run._asdict())
        with torch_tensorboard.SummaryWriter(str(folder), filename_suffix=".lr") as writer:
            for step in range(6):
                writer.add_scalar("lr", run.lr * (1 - step / 6), step)
    runs, plain = read_runs(tmp_path, loss="val/loss"), read_runs(table[:6], size="width")
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    assert runs.canonical()["lr"].equals(plain.canonical()["lr"])


def test_a_restart_in_the_same_folder_replaces_what_it_repeats(tmp_path):
    folder = tmp_path / "width=8,lr=0.1"
    log(folder, {0: 4.0, 1: 3.5, 2: 3.25})
    first = next(folder.iterdir())
    first.rename(folder / "events.out.tfevents.100.host.1.0")
    log(folder, {2: 3.0, 3: 2.5})
    runs = read_runs(tmp_path, **NAMES)
    assert runs.curves()["loss"].tolist() == [4.0, 3.5, 3.0, 2.5]
    assert "from 2 parts" in runs.notes[0]


def test_a_torn_file_is_read_to_where_it_is_torn_and_a_folder_without_any_is_named(tmp_path):
    with pytest.raises(DataError, match=r"leaves meta\.yaml"):
        read_runs(tmp_path, **NAMES)
    folder = log(tmp_path / "width=8,lr=0.1", {0: 4.0, 1: 3.5, 2: 3.25})
    file = next(folder.iterdir())
    file.write_bytes(file.read_bytes()[:-10])
    assert read_runs(tmp_path, **NAMES).to_frame()["loss"].tolist() == [3.5]


@pytest.mark.parametrize("options", [{}, {"new_style": True}, {"double_precision": True}])
def test_every_scalar_of_either_style_is_kept(tmp_path, options):
    """The plugin's own default keeps 10 tensors of a tag; new_style logs scalars as such."""
    losses = {step: 4 - step / 2**10 for step in range(1500)}
    points = EventLog(log(tmp_path / "run", losses, **options)).points()
    assert set(points) == {"val/loss", "speed"}
    assert points["val/loss"] == list(losses.items())


def test_folder_of_event_files_is_read_as_it_grows(tmp_path):
    reader = LogReader(tmp_path / "run")
    with pytest.raises(DataError, match="run"):
        reader.poll()
    (tmp_path / "run").mkdir()
    assert reader.poll() == []
    log(tmp_path / "run", {10: 3.5, 20: math.nan})
    (first, second) = reader.poll()
    assert first == (10.0, 3.5)
    assert math.isnan(second[1])
    first_file = next((tmp_path / "run").iterdir())
    log(tmp_path / "run", {20: 3.25, 30: 3.0})
    assert len(list((tmp_path / "run").iterdir())) == 2
    assert reader.poll() == [(30.0, 3.0)]
    assert reader.poll() == []
    reader = LogReader(
        first_file, step="epoch", let=["epoch = step / 10", "loss = `val/loss` * speed"]
    )
    assert reader.poll()[0] == (1.0, 1.75)


def test_half_written_record_is_heard_once_it_is_whole(tmp_path):
    [file] = log(tmp_path / "run", {10: 3.5, 20: 3.25}).iterdir()
    content = file.read_bytes()
    path = tmp_path / "events.out.tfevents.1"
    path.touch()
    reader, points = LogReader(path, loss="speed"), []
    for end in (*range(1, len(content), 7), len(content)):
        path.write_bytes(content[:end])
        points += reader.poll()
    assert points == [(10.0, 0.5), (20.0, 0.5)]


def test_file_of_other_records_is_named(tmp_path):
    from tensorboard.summary.writer.record_writer import RecordWriter

    path = tmp_path / "events.out.tfevents.1"
    with path.open("wb") as stream:
        RecordWriter(stream).write(b"\xff no event")
    with pytest.raises(DataError, match=r"tfevents\.1"):
        EventLog(path).points()


def test_tensorboard_is_asked_for_before_what_it_brings(tmp_path, monkeypatch):
    for blocked in ("tensorboard", "google"):
        for name in [name for name in sys.modules if name.split(".")[0] == blocked]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, blocked, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        EventLog(tmp_path)
    assert caught.value.name == "tensorboard"
