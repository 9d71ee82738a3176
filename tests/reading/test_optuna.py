import sqlite3
from contextlib import closing

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution

from extrap.errors import DataError, StudyError
from extrap.reading import read_runs
from extrap.reading.optuna import find_study, study_name
from extrap.study.database import open_storage

optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


def plain_study(url, name="theirs", direction="minimize"):
    """A study as anybody would make it."""
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(storage=url, study_name=name, direction=direction, sampler=sampler)
    for width in (8, 16, 32):
        trial = study.ask()
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.set_user_attr("width", width)
        trial.set_user_attr("layers", [1, 2])  # no single value, so no column
        trial.report(3.0, step=1)
        trial.report(2.0 + lr, step=2)
        study.tell(trial, 2.0 + lr)
    study.tell(study.ask(), state=optuna.trial.TrialState.PRUNED)
    study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)
    study.tell(study.ask(), float("inf"))
    study.ask()
    study.enqueue_trial({"lr": 0.01})


def test_every_trial_is_read_as_optuna_reads_it(url):
    plain_study(url)
    plain_study(url, "other", direction="maximize")
    several = optuna.create_study(storage=url, study_name="two", directions=["minimize"] * 2)
    trial = several.ask({"kind": CategoricalDistribution(["a", None]), "n": IntDistribution(1, 9)})
    several.tell(trial, (float("-inf"), 1.0))
    theirs = optuna.storages.get_storage(url)
    ours = open_storage(url)
    for study in theirs.get_all_studies():
        expected = theirs.get_all_trials(study._study_id)
        assert ours.get_all_trials(study._study_id) == expected
        n_new = len(ours._backend._get_trials(study._study_id, None, set(), expected[0]._trial_id))
        assert n_new == len(expected) - 1


def test_somebody_elses_database_is_left_alone(url, tmp_path):
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(DataError, match="no Optuna studies"):
        find_study(url)
    assert (tmp_path / "study.db").read_bytes() == before


def test_a_corrupt_or_damaged_file_is_one_clear_error(url, tmp_path):
    path = tmp_path / "study.db"
    path.write_bytes(b"this is no database at all " * 100)
    for use in (open_storage, find_study):
        with pytest.raises(StudyError, match="not a database") as caught:
            use(url)
        assert "\n" not in str(caught.value)
    path.unlink()
    plain_study(url)
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(StudyError, match="storage must be"):
        find_study(url)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("", "got an empty one"),
        ("study.db", "a database address"),
        ("nodatabase://x", "a database address"),
        ("postgresql://me:secret@localhost:1/x", r"me@localhost"),
        ("mysql://me:secret@localhost:1/x", r"me@localhost"),
        ("sqlite:////proc/nowhere/x.db", "storage"),
    ],
)
def test_an_address_that_cannot_be_opened_is_explained(bad, words):
    with pytest.raises(StudyError, match=words) as caught:
        open_storage(bad)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_study_begun_twice_under_one_prefix_reads_as_one(url):
    storage = open_storage(url)
    for width in (8, 16):
        name = study_name("ours", {"width": width}, stage="tune")
        study = optuna.create_study(storage=storage, study_name=name)
        study.set_user_attr("schema", 2)
        for lr in (0.1, 0.1, 0.01):  # the second trial of a cell does not count
            trial = study.ask()
            trial.suggest_float("lr", lr, lr)
            trial.set_user_attr("seed", 0)
            trial.set_user_attr("result", {"status": "complete", "flops": 1.0})
            trial.set_user_attr("curve", [(1, 3.0)])
            study.tell(trial, 2.0 + trial.number)
    found = find_study(url)
    runs, curves, notes = found.table, found.curves("loss"), found.notes
    assert runs[["width", "lr", "loss"]].to_numpy().tolist() == [
        *([8, 0.01, 4.0], [8, 0.1, 2.0], [16, 0.01, 4.0], [16, 0.1, 2.0])
    ]
    assert list(curves["run"]) == [0, 1, 2, 3]
    assert notes == ()
    assert find_study(url, stage="check").table.empty


def test_the_folder_of_a_new_storage_is_made(tmp_path):
    open_storage(f"sqlite:///{tmp_path}/a/b/study.db")
    assert (tmp_path / "a/b/study.db").is_file()


def test_a_space_that_depends_on_a_choice_offers_its_branches(url):
    best = {"adam": 0.02, "sgd": 0.5}

    def objective(trial):
        optimizer = trial.suggest_categorical("optimizer", list(best))
        width = trial.suggest_categorical("width", [16, 32, 64])
        rate = trial.suggest_float(f"{optimizer}_lr", 1e-3, 10, log=True)
        momentum = trial.suggest_float("momentum", 0.1, 0.9) if optimizer == "sgd" else 0.1
        return 2 + 1 / width + (rate / best[optimizer] - 1) ** 2 + momentum

    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(storage=url, study_name="theirs", sampler=sampler)
    study.optimize(objective, n_trials=40)
    with pytest.raises(DataError, match="is given where optimizer = ") as caught:
        read_runs(url)
    assert [choice.arguments for choice in caught.value.choices] == [
        {"where": {"optimizer": "adam"}, "tune": ["adam_lr"]},
        {"where": {"optimizer": "sgd"}, "tune": ["sgd_lr", "momentum"]},
    ]
    for choice in caught.value.choices:
        assert read_runs(url, **choice.arguments).tuned == tuple(choice.arguments["tune"])
