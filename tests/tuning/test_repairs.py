"""A repair finds what was left behind, mends it, and finds nothing the second time."""

import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from extrap.errors import StudyError
from extrap.reading.optuna import CURVE, FAILURE, IGNORED, OWNER, RESULT, SEED, read_storage
from extrap.reading.storages import open_storage
from extrap.study.forecasts import ForecastKind
from extrap.study.status import study_status
from extrap.study.transfer import repair_study
from extrap.tuning import merge_storages, tune
from extrap.tuning.processes import this_process
from tests.tuning.trials import OWN as SPEC
from tests.tuning.trials import valley

N = len(SPEC.grid_cells())
STUDY = ForecastKind(SPEC)
DEAD = {"pid": 2**22 + 1, "created": 1.0}
WHOLE = {SEED: 0, RESULT: {"status": "complete", "wall_s": 1.0}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The storage of the study when it is done."""
    path = tmp_path_factory.mktemp("whole") / "study.db"
    tune(SPEC, f"sqlite:///{path}", train=valley)
    return path


@pytest.fixture
def url(tmp_path, whole):
    return f"sqlite:///{shutil.copy(whole, tmp_path / 'study.db')}"


def add(url, *, state, started=None, **attributes):
    storage = open_storage(url)
    study_id = storage.get_study_id_from_name("own/width=8")
    trial = create_trial(
        state=state,
        value=9.0 if state == TrialState.COMPLETE else None,
        params={"lr": 2**-8},
        distributions={"lr": FloatDistribution(2**-8, 2**-4, log=True)},
        user_attrs=attributes,
    )
    if started is not None:
        trial.datetime_start = started
    return storage.get_trial(storage.create_new_trial(study_id, trial)).number


def mended(url):
    """What a repair finds; a dry run finds the same and changes nothing, a second one nothing."""
    path = Path(url.removeprefix("sqlite:///"))
    before = path.read_bytes()
    dry = repair_study(STUDY, storage=url, dry_run=True)
    assert path.read_bytes() == before
    found = repair_study(STUDY, storage=url)
    assert found[: len(dry)] == dry
    assert repair_study(STUDY, storage=url) == ()
    return [fault.kind for fault in found]


def test_trials_of_the_dead_and_trials_that_nobody_signed_are_failed(url):
    long_ago = datetime.now() - timedelta(minutes=2)
    dead = {**this_process(), **DEAD, "worker": "w"}
    number = add(url, state=TrialState.RUNNING, **{SEED: 7, OWNER: dead})
    add(url, state=TrialState.RUNNING, started=long_ago, **{SEED: 7})
    add(url, state=TrialState.RUNNING, started=long_ago, **{OWNER: this_process()})
    alive = add(url, state=TrialState.RUNNING, **{SEED: 8, OWNER: this_process()})
    assert sorted(mended(url)) == ["half-written", "half-written", "stale"]
    trial = open_storage(url).get_all_trials(1)[number]
    assert trial.state == TrialState.FAIL
    assert trial.user_attrs[FAILURE] == "its process died"
    assert open_storage(url).get_all_trials(1)[alive].state == TrialState.RUNNING


def test_the_first_result_of_a_cell_stays(url):
    before = read_storage(url).runs
    number = add(url, state=TrialState.COMPLETE, **WHOLE)
    assert study_status(STUDY, url).count("duplicates") == 1
    assert mended(url) == ["duplicate"]
    assert study_status(STUDY, url).count("duplicates") == 0
    assert open_storage(url).get_study_user_attrs(1)[f"{IGNORED}{number}"]
    assert read_storage(url).runs.equals(before)


HALVES: tuple[dict[str, Any], ...] = (
    {SEED: 7},
    {RESULT: {"status": "complete"}},
    {SEED: 7, RESULT: "complete"},
    {SEED: "7", RESULT: {"status": "complete"}},
    {SEED: 7, RESULT: {"status": "complete"}, CURVE: [[1, 2], [3]]},
    {SEED: 7, RESULT: {"status": ["complete"]}},
)


def test_half_written_results_are_set_aside_by_every_reader(url, tmp_path):
    before = read_storage(url).runs
    for attributes in HALVES:
        add(url, state=TrialState.COMPLETE, **attributes)
    assert mended(url) == ["half-written"] * len(HALVES)
    assert read_storage(url).runs.equals(before)
    assert study_status(STUDY, url).count("cells") == N
    other = f"sqlite:///{tmp_path}/other.db"
    assert merge_storages(SPEC, [url], other).n_copied == N
    assert len(tune(SPEC, url, train=valley)) == N


def test_text_that_is_no_json_is_found_and_its_trial_set_aside(url, tmp_path):
    with closing(sqlite3.connect(tmp_path / "study.db")) as database, database:
        where = "WHERE key = 'result' AND trial_id = 2"
        database.execute(f"UPDATE trial_user_attributes SET value_json = '{{\"st' {where}")
    with pytest.raises(StudyError, match="study repair"):
        read_storage(url)
    assert mended(url) == ["unreadable", "half-written"]
    assert len(read_storage(url).runs) == N - 1
    assert len(tune(SPEC, url, train=valley)) == N


def test_texts_of_a_server_are_mended(postgres):
    url = postgres.make_database("mended")
    tune(SPEC, url, train=valley)
    before = read_storage(url).runs
    storage = open_storage(url)
    with storage._inner._backend.engine.begin() as connection:
        for change in (
            "UPDATE study_user_attributes SET value_json = '{' WHERE key = 'schema'",
            "UPDATE trial_params SET distribution_json = '{' WHERE trial_id = 2",
        ):
            assert connection.exec_driver_sql(change).rowcount
    dry = repair_study(STUDY, storage=url, dry_run=True)
    assert [fault.kind for fault in dry] == ["unreadable"] * 3
    assert repair_study(STUDY, storage=url) == dry
    assert repair_study(STUDY, storage=url) == ()
    assert read_storage(url).runs.equals(before)
