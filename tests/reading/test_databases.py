import math
import tomllib
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from packaging.requirements import Requirement

from extrap.reading.databases import MOST_NAMED, Database
from extrap.reading.patience import bare
from extrap.reading.storages import open_storage

LR = FloatDistribution(1e-5, 1.0, log=True)
NORMS = CategoricalDistribution(["batch", "layer", None])


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        url = server.make_database("".join(c for c in request.node.name if c.isalnum()).lower())
    made = bare(open_storage(url))._backend
    assert isinstance(made, Database)
    yield made
    made.engine.dispose()


def fill(storage):
    study = optuna.create_study(storage=storage, study_name="all")
    optuna.create_study(storage=storage, study_name="empty")
    for k in range(6):
        trial = study.ask({"lr": LR, "depth": IntDistribution(1, 9), "norm": NORMS})
        trial.set_user_attr("curve", [[1, 2.5], [2, math.pi]])
        storage.set_trial_system_attr(trial._trial_id, "mark", {"k": k})
        for step, loss in enumerate((1.0, math.inf, -math.inf, math.nan)):
            trial.report(loss, step)
        if k < 4:
            study.tell(trial, [1.5, math.inf, -math.inf, 0.1][k])
        elif k < 5:
            study.tell(trial, state=TrialState.FAIL)
    study.enqueue_trial({"lr": 0.1})
    storage.create_new_trial(study._study_id, running())
    return study._study_id


def running():
    return optuna.trial.create_trial(
        state=TrialState.RUNNING,
        params={"lr": 0.3, "batch_size": 64.0},
        distributions={"lr": LR, "batch_size": FloatDistribution(2.0, 512.0, log=True)},
        user_attrs={"seed": 3, "owner": {"host": "h", "pid": 1}, "conditions": {}},
    )


def in_words(trial):
    """All of a trial; attributes have no order, and nan is not equal to itself."""
    trial.user_attrs = dict(sorted(trial.user_attrs.items()))
    return repr(trial)


def alike(one, other, *also):
    names = ("state", "values", "params", "user_attrs", *also)
    return all(getattr(one, name) == getattr(other, name) for name in names)


def test_only_versions_of_optuna_whose_inside_is_known_are_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    needs = map(Requirement, project["project"]["optional-dependencies"]["train"])
    (optuna_is,) = [need.specifier for need in needs if need.name == "optuna"]
    assert optuna.__version__ in optuna_is
    assert [v for v in ("4.9.0", "5.0.3", "5.1.0", "6.0.0") if v in optuna_is] == ["5.0.3"]


def test_trials_are_read_as_optuna_reads_them(database):
    study_id = fill(database)
    plain = RDBStorage._get_trials
    ids = [trial._trial_id for trial in plain(database, study_id, None, set(), -1)]
    for below, above in ((set(), -1), (set(ids[:2]), ids[3]), (set(), ids[-1]), (set(ids), -1)):
        ours = database._get_trials(study_id, None, below, above)
        theirs = plain(database, study_id, None, below, above)
        assert list(map(in_words, ours)) == list(map(in_words, theirs))
    assert database._get_trials(study_id + 1, None, set(), -1) == []
    with pytest.raises(KeyError):
        database._get_trials(99, None, set(), -1)
    (waiting,) = database.get_all_trials(study_id, states=(TrialState.WAITING,))
    assert waiting.state == TrialState.WAITING
    named = {*ids[:1], *range(10**6, 10**6 + MOST_NAMED)}
    many = database._get_trials(study_id, None, named, 10**7)
    assert [trial._trial_id for trial in many] == ids[:1]


def test_trials_are_made_as_optuna_makes_them(database, monkeypatch):
    study_id = fill(database)
    ours = database.get_trial(database.create_new_trial(study_id, running()))
    theirs = RDBStorage._get_prepared_new_trial
    with database._locked(), monkeypatch.context() as patch:  # their order of questions
        patch.setattr(Database, "_get_prepared_new_trial", theirs)
        other = database.get_trial(database.create_new_trial(study_id, running()))
    assert (ours.number, other.number) == (8, 9)
    assert alike(ours, other, "distributions")
    assert list(ours.params) == list(running().params)
    numbers = [trial.number for trial in database.get_all_trials(study_id)]
    assert numbers == list(range(10))


def test_a_trial_is_finished_as_optuna_finishes_it(database):
    study_id = optuna.create_study(storage=database, study_name="ends")._study_id
    theirs, ours, third = database.create_new_trials(study_id, [running()] * 3)
    told = {"result": {"status": "complete"}, "curve": [[1, 2.5]], "seed": 4}
    for name, value in told.items():
        database.set_trial_user_attr(theirs, name, value)
    database.set_trial_state_values(theirs, TrialState.COMPLETE, [math.inf])
    database.finish_trial(ours, told, TrialState.COMPLETE, [math.inf])
    one, other = (database.get_trial(trial_id) for trial_id in (theirs, ours))
    assert alike(one, other, "intermediate_values")
    apart = other.datetime_complete - one.datetime_complete
    assert abs(apart.total_seconds()) < 600  # in the same time zone
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        database.finish_trial(ours, {"curve": []}, TrialState.FAIL, [])
    with pytest.raises(KeyError):
        database.finish_trial(10**6, {}, TrialState.FAIL, [])
    with pytest.raises(TypeError):
        database.finish_trial(third, {"curve": object()}, TrialState.COMPLETE, [1.0])
    assert database.get_trial(ours).user_attrs == other.user_attrs
    assert [t.state for t in database.get_all_trials(study_id)][2] == TrialState.RUNNING
