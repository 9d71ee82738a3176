"""Event files as torch's writer writes them, read by TensorBoard's loader."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from extrap.errors import DataError
from extrap.reading.events import read_scalars
from extrap.reading.logs import LogReader


@pytest.fixture
def write(tmp_path: Path):
    """Write scalars of one tag to a new event file of a folder."""
    from torch.utils.tensorboard import SummaryWriter

    def write(*pairs: tuple[int, float], tag: str = "loss", suffix: str = "") -> Path:
        folder = tmp_path / "run"
        with SummaryWriter(str(folder), filename_suffix=suffix) as writer:
            for step, value in pairs:
                writer.add_scalar(tag, value, step)
                writer.add_scalar("lr", 0.1, step)
                writer.add_text("note", "text", step)
        return folder

    return write


def test_folder_of_event_files_is_read_as_it_grows(write, tmp_path):
    reader = LogReader(tmp_path / "run")
    assert reader.poll() == []
    write((10, 3.5), (20, math.nan))
    first, second = reader.poll()
    assert first == (10.0, 3.5)
    assert math.isnan(second[1])
    write((30, 3.0), suffix=".resumed")
    assert reader.poll() == [(30.0, 3.0)]
    assert reader.poll() == []


def test_half_written_record_is_heard_once_it_is_whole(write, tmp_path):
    [file] = write((10, 3.5), (20, 3.25)).iterdir()
    content = file.read_bytes()
    log = tmp_path / "events.out.tfevents.1"
    reader = LogReader(log)
    heard = []
    for end in range(1, len(content) + 1, 7):
        log.write_bytes(content[:end])
        heard += reader.poll()
    log.write_bytes(content)
    heard += reader.poll()
    assert heard == [(10.0, 3.5), (20.0, 3.25)]
    assert reader.n_skipped == 0


def test_event_file_without_the_tag_says_which_it_has(write):
    reader = LogReader(write((10, 3.5), tag="train/loss"))
    assert reader.poll() == []
    assert "no column 'loss'; did you mean 'train/loss'?" in str(reader.missing())
    reader = LogReader(reader.path, loss="train/loss")
    assert reader.poll() == [(10.0, 3.5)]
    assert reader.missing() is None


def test_a_step_by_formula_is_made_of_the_step_of_the_events(write):
    reader = LogReader(
        write((10, 3.5)), step="epochs", let=["double = 2 * step", "epochs = double / 390"]
    )
    assert reader.poll() == [(20 / 390, 3.5)]


def test_a_formula_does_not_stand_before_a_tag_of_its_name(write):
    reader = LogReader(write((10, 3.5)), let=["loss = 2 * lr"])
    with pytest.raises(DataError, match=r"makes a new column, .* has 'loss' already"):
        reader.poll()


@pytest.mark.parametrize("read", [read_scalars, lambda path: LogReader(path).poll()])
def test_tensorboard_is_asked_for_before_what_it_brings(tmp_path, monkeypatch, read):
    for blocked in ("tensorboard", "google"):
        for name in [name for name in sys.modules if name.split(".")[0] == blocked]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, blocked, None)
    path = tmp_path / "events.out.tfevents.1"
    path.touch()
    with pytest.raises(ModuleNotFoundError) as caught:
        read(path)
    assert caught.value.name == "tensorboard"


def test_tag_that_is_no_scalar_is_skipped_and_counted(write):
    reader = LogReader(write((10, 3.5)), loss="note/text_summary")
    assert reader.poll() == []
    assert reader.n_skipped == 1


def test_record_that_is_no_event_is_skipped_and_counted(write, tmp_path):
    from tensorboard.summary.writer.record_writer import RecordWriter

    [file] = write((10, 3.5)).iterdir()
    log = tmp_path / "events.out.tfevents.1"
    with log.open("wb") as stream:
        RecordWriter(stream).write(b"\xff no event")
        stream.write(file.read_bytes())
    reader = LogReader(log)
    assert reader.poll() == [(10.0, 3.5)]
    assert reader.n_skipped == 1


def test_other_files_of_the_folder_are_left_alone(write):
    folder = write((10, 3.5))
    [file] = folder.iterdir()
    (folder / "backup").write_bytes(file.read_bytes())
    assert LogReader(folder).poll() == [(10.0, 3.5)]


def test_file_that_only_claims_to_hold_events_is_no_error(tmp_path):
    log = tmp_path / "events.out.tfevents.1"
    log.write_bytes(b"no event at all, whatever its name\n" * 9)
    assert LogReader(log).poll() == []
