from __future__ import annotations

import sqlite3
from pathlib import Path

import optuna
import pytest

from extrap.errors import DataError, StudyError
from extrap.reading.optuna import parse_study_name, read_storage, study_name
from extrap.reading.storages import open_storage

optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def plain_study(url: str, name: str = "theirs", direction: str = "minimize") -> optuna.Study:
    """A study as anybody would make it."""
    study = optuna.create_study(
        storage=url,
        study_name=name,
        direction=direction,
        sampler=optuna.samplers.RandomSampler(seed=0),
    )
    for width in (8, 16, 32):
        trial = study.ask()
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.set_user_attr("width", width)
        trial.set_user_attr("layers", [1, 2])
        trial.report(3.0, step=1)
        trial.report(2.0 + lr, step=2)
        study.tell(trial, 2.0 + lr)
    study.tell(study.ask(), state=optuna.trial.TrialState.PRUNED)
    study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)
    study.tell(study.ask(), float("inf"))
    study.ask()
    study.enqueue_trial({"lr": 0.01})
    return study


@pytest.mark.parametrize("stage", ["tune", "check"])
@pytest.mark.parametrize("size", [{"width": 64}, {"params": 1000, "tokens": 2.5e9}, {"w": 0.5}])
def test_study_names_go_there_and_back(stage: str, size: dict[str, float]) -> None:
    key = parse_study_name(study_name("metz", size, stage=stage))
    assert key is not None
    assert (key.name, key.stage, dict(key.size)) == ("metz", stage, size)


def test_sizes_are_written_one_way() -> None:
    assert study_name("metz", {"width": 64.0}, stage="tune") == "metz/width=64"
    assert study_name("metz", {"width": 512}, stage="check") == "metz/check/width=512"
    both = {"params": 1000, "tokens": 5000}
    assert study_name("n", both, stage="tune") == "n/params=1000,tokens=5000"


@pytest.mark.parametrize("name", ["theirs", "a/b", "a/b/width=3", "a/width=wide", "width=3"])
def test_other_names_are_not_ours(name: str) -> None:
    assert parse_study_name(name) is None


def test_anybodys_study_is_read(url: str) -> None:
    plain_study(url)
    runs, curves, notes = read_storage(url)
    assert list(runs["status"]) == ["complete"] * 3 + ["pruned", "failed", "diverged"]
    assert list(runs["width"][:3]) == [8, 16, 32]
    assert list(runs["loss"][:3]) == list(2.0 + runs["lr"][:3])
    assert runs["loss"][3:].isna().all()
    assert set(runs["stage"]) == {"tune"}
    assert curves is not None
    assert list(curves[curves["run"] == 1]["step"]) == [1, 2]
    assert notes == ("attributes that are not single values were left out: layers.",)


def test_several_studies_need_a_name(url: str) -> None:
    plain_study(url, "one")
    plain_study(url, "two")
    with pytest.raises(DataError, match="several studies, one, two; name one"):
        read_storage(url)
    assert len(read_storage(url, study="two").runs) == 6
    with pytest.raises(DataError, match="no study 'three'; it has one, two"):
        read_storage(url, study="three")


def test_a_study_that_maximises_is_refused(url: str) -> None:
    plain_study(url, direction="maximize")
    with pytest.raises(DataError, match="minimised"):
        read_storage(url)


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no storage"):
        read_storage(f"sqlite:///{tmp_path}/none.db")
    assert list(tmp_path.iterdir()) == []


def test_somebody_elses_database_is_left_alone(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(DataError, match="holds other tables"):
        read_storage(url)
    assert (tmp_path / "study.db").read_bytes() == before


def test_a_corrupt_file_is_one_clear_error(url: str, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_bytes(b"this is no database at all " * 100)
    for use in (open_storage, read_storage):
        with pytest.raises(StudyError, match=r"not a database.*anew") as caught:
            use(url)
        assert "\n" not in str(caught.value)


def test_a_damaged_study_is_one_clear_error(url: str, tmp_path: Path) -> None:
    plain_study(url)
    path = tmp_path / "study.db"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StudyError, match="storage must be"):
        read_storage(url)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("", "got an empty one"),
        ("study.db", "given by a database address"),
        ("nodatabase://x", "given by a database address"),
        ("postgresql://me:secret@localhost:1/x", r"me:\*\*\*@localhost"),
        ("mysql://me:secret@localhost:1/x", r"me:\*\*\*@localhost"),
        ("sqlite:////proc/nowhere/x.db", "storage"),
    ],
)
def test_an_address_that_cannot_be_opened_is_explained(bad: str, message: str) -> None:
    with pytest.raises(StudyError, match=message) as caught:
        open_storage(bad)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_folder_of_a_new_storage_is_made(tmp_path: Path) -> None:
    open_storage(f"sqlite:///{tmp_path}/a/b/study.db")
    assert (tmp_path / "a/b/study.db").is_file()


def test_a_study_begun_twice_under_one_prefix_reads_as_one(url: str) -> None:
    storage = open_storage(url)
    for width in (8, 16):
        name = study_name("ours", {"width": width}, stage="tune")
        study = optuna.create_study(storage=storage, study_name=name)
        for lr in (0.1, 0.1, 0.01):  # the second trial of a cell does not count
            trial = study.ask()
            trial.suggest_float("lr", lr, lr)
            trial.set_user_attr("seed", 0)
            trial.set_user_attr("result", {"status": "complete", "flops": 1.0})
            trial.set_user_attr("curve", [(1, 3.0)])
            study.tell(trial, 2.0 + trial.number)
    runs, curves, notes = read_storage(url)
    assert list(runs["width"]) == [8, 8, 16, 16]
    assert list(runs["lr"]) == [0.01, 0.1, 0.01, 0.1]
    assert list(runs["loss"]) == [4.0, 2.0, 4.0, 2.0]
    assert curves is not None
    assert list(curves["run"]) == [0, 1, 2, 3]
    assert notes == ()
    assert read_storage(url, stage="check").runs.empty
