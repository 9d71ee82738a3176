import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

pytest.importorskip("tensorboard")
torch_tensorboard = pytest.importorskip("torch.utils.tensorboard")
NAMES = {"size": "width", "tune": "lr", "loss": "val/loss"}


def log(folder, losses, hparams=None):
    """A run as PyTorch's own writer logs it."""
    with torch_tensorboard.SummaryWriter(str(folder)) as writer:
        for step, loss in losses.items():
            writer.add_scalar("val/loss", loss, step)
        if hparams is not None:
            writer.add_hparams(hparams, {"hparam/loss": 1.0})


def test_hyperparameters_of_the_plugin_are_settings(tmp_path, sweep, table):
    for number, run in enumerate(sweep[:6]):
        log(tmp_path / f"r{number}", {s: run.loss(s) for s in range(6)}, run._asdict())
    runs, plain = read_runs(tmp_path, **NAMES), read_runs(table[:6], size="width", tune="lr")
    ours, theirs = runs.canonical(), plain.canonical()
    assert ours[["width", "lr", "seed"]].equals(theirs[["width", "lr", "seed"]])
    assert ours["loss"].tolist() == pytest.approx(theirs["loss"].tolist(), rel=1e-6)  # float32
    assert not any("stitched" in note for note in runs.notes)


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
    folder = tmp_path / "width=8,lr=0.1"
    log(folder, {0: 4.0, 1: 3.5, 2: 3.25})
    file = next(folder.iterdir())
    file.write_bytes(file.read_bytes()[:-10])
    assert read_runs(tmp_path, **NAMES).to_frame()["loss"].tolist() == [3.5]
