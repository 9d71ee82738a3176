import math
import sys

import pytest

from extrap.errors import DataError
from extrap.reading.events import read_scalars
from extrap.reading.logs import LogReader


@pytest.fixture
def write(tmp_path):
    """Write scalars of one tag to a new event file of a folder."""
    from torch.utils.tensorboard import SummaryWriter

    def write(*pairs, tag="loss", suffix=""):
        with SummaryWriter(str(tmp_path / "run"), filename_suffix=suffix) as writer:
            for step, value in pairs:
                writer.add_scalar(tag, value, step)
                writer.add_scalar("lr", 0.1, step)
                writer.add_text("note", "text", step)
        return tmp_path / "run"

    return write


def heard(log, **options):
    """The points of a log, and how many entries were skipped."""
    reader = LogReader(log, **options)
    return reader.poll(), reader.n_skipped


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
    reader, found = LogReader(log), []
    for end in (*range(1, len(content), 7), len(content)):
        log.write_bytes(content[:end])
        found += reader.poll()
    assert (found, reader.n_skipped) == ([(10.0, 3.5), (20.0, 3.25)], 0)


def test_formulas_are_made_of_the_step_and_stand_before_no_tag_of_their_name(write):
    folder = write((10, 3.5))
    let = ["double = 2 * step", "epochs = double / 390"]
    assert heard(folder, step="epochs", let=let) == ([(20 / 390, 3.5)], 0)
    with pytest.raises(DataError, match="has 'loss' already"):
        heard(folder, let=["loss = 2 * lr"])


@pytest.mark.parametrize("read", [read_scalars, heard])
def test_tensorboard_is_asked_for_before_what_it_brings(tmp_path, monkeypatch, read):
    for blocked in ("tensorboard", "google"):
        for name in [name for name in sys.modules if name.split(".")[0] == blocked]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, blocked, None)
    (tmp_path / "events.out.tfevents.1").touch()
    with pytest.raises(ModuleNotFoundError) as caught:
        read(tmp_path / "events.out.tfevents.1")
    assert caught.value.name == "tensorboard"


def test_scalars_are_numbers_of_any_shape_of_one_and_nothing_else(tmp_path):
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.util.tensor_util import make_tensor_proto
    from torch.utils.tensorboard import SummaryWriter

    values = {"flat": [2.5], "square": [[3]], "two": [1.0, 2.0], "text": ["2"], "none": [[], []]}
    with SummaryWriter(str(tmp_path)) as writer:
        for tag, value in values.items():
            tensor = make_tensor_proto(value)
            writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, tensor=tensor)]))
    assert read_scalars(next(tmp_path.iterdir())).points == {
        "flat": [(0, 2.5)],
        "square": [(0, 3)],
    }


def test_what_is_no_event_is_skipped_and_other_files_are_left_alone(write, tmp_path):
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder = write((10, 3.5))
    [file] = folder.iterdir()
    log = tmp_path / "events.out.tfevents.1"
    with log.open("wb") as stream:
        RecordWriter(stream).write(b"\xff no event")
        stream.write(file.read_bytes())
    assert heard(log) == ([(10.0, 3.5)], 1)
    (folder / "backup").write_bytes(file.read_bytes())
    assert heard(folder) == ([(10.0, 3.5)], 0)
    log.write_bytes(b"no event at all, whatever its name\n" * 9)
    assert heard(log)[0] == []


def test_tags_are_named_and_those_of_no_scalar_are_skipped(write):
    reader = LogReader(write((10, 3.5), tag="train/loss"))
    assert reader.poll() == []
    assert "mean 'train/loss'" in str(reader.missing())
    reader = LogReader(reader.path, loss="train/loss")
    assert reader.poll() == [(10.0, 3.5)]
    assert reader.missing() is None
    assert heard(reader.path, loss="note/text_summary") == ([], 1)
