"""A repair finds what was left behind, mends it, and finds nothing the second time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from extrap.errors import DataError, StudyError
from extrap.pipeline import sweeps_of
from extrap.reading.optuna import (
    CURVE,
    FAILURE,
    IGNORED,
    OWNER,
    RESULT,
    SEED,
    UNREADABLE,
    WORKER,
    read_storage,
)
from extrap.reading.storages import open_storage
from extrap.records import StudySpec, TunedRange, Workload
from extrap.standing import study_status
from extrap.sweeps import StudyFile, repair_study
from extrap.tuning import merge_storages, repairs, tune
from extrap.tuning.ledger import Ledger
from extrap.tuning.processes import this_process

SPEC = StudySpec(
    name="mend",
    question="Is it mended?",
    workload=Workload(name="mine"),
    sizes={"width": (8, 16)},
    tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)},
    seeds=(0, 1),
    growth=0,
)
N = len(SPEC.grid_cells())
DEAD = {"pid": 2**22 + 1, "created": 1.0}
WHOLE = {SEED: 0, RESULT: {"status": "complete", "wall_s": 1.0}}


def loss_of(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    return 1.0 + size["width"] ** -0.5 + tuned["lr"] + 0.001 * seed


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/study.db"
    tune(SPEC, url, train=loss_of)
    return url


def file_of(url: str) -> StudyFile:
    return StudyFile(name=SPEC.name, kind="STUDY", storage=url, sweeps=sweeps_of(SPEC))


def add(url: str, *, state: TrialState, started: datetime | None = None, **attributes: Any) -> int:
    storage = open_storage(url)
    study_id = storage.get_study_id_from_name("mend/width=8")
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


def mended(url: str) -> list[str]:
    """What a repair finds; a dry run finds the same and changes nothing, a second one nothing."""
    path = Path(url.removeprefix("sqlite:///"))
    before = path.read_bytes()
    dry = repair_study(file_of(url), dry_run=True)
    assert path.read_bytes() == before
    found = repair_study(file_of(url))
    assert found[: len(dry)] == dry
    assert repair_study(file_of(url)) == ()
    return [fault.kind for fault in found]


def test_there_is_nothing_to_mend(url: str) -> None:
    assert mended(url) == []


def test_trials_of_the_dead_are_failed(url: str) -> None:
    dead = {**this_process(), **DEAD, "worker": "w"}
    number = add(url, state=TrialState.RUNNING, **{SEED: 7, OWNER: dead})
    assert mended(url) == ["stale"]
    trial = open_storage(url).get_all_trials(1)[number]
    assert trial.state == TrialState.FAIL
    assert trial.user_attrs[FAILURE] == "its process died"


def test_a_trial_at_work_is_left_alone(url: str) -> None:
    number = add(url, state=TrialState.RUNNING, **{SEED: 7, OWNER: this_process()})
    young = add(url, state=TrialState.RUNNING, **{SEED: 8})
    assert mended(url) == []
    trials = open_storage(url).get_all_trials(1)
    assert not trials[number].state.is_finished()
    assert not trials[young].state.is_finished()


def test_trials_that_nobody_signed_are_half_written(url: str) -> None:
    long_ago = datetime.now() - timedelta(minutes=2)
    add(url, state=TrialState.RUNNING, started=long_ago, **{SEED: 7})
    add(url, state=TrialState.RUNNING, started=long_ago, **{OWNER: this_process()})
    assert mended(url) == ["half-written"] * 2


def test_the_first_result_of_a_cell_stays(url: str) -> None:
    before = read_storage(url).runs
    number = add(url, state=TrialState.COMPLETE, **WHOLE)
    assert study_status(file_of(url)).count("duplicates") == 1
    assert mended(url) == ["duplicate"]
    assert study_status(file_of(url)).count("duplicates") == 0
    assert open_storage(url).get_study_user_attrs(1)[f"{IGNORED}{number}"]
    assert read_storage(url).runs.equals(before)


@pytest.mark.parametrize(
    "attributes",
    [
        {SEED: 7},
        {RESULT: {"status": "complete"}},
        {SEED: 7, RESULT: "complete"},
        {SEED: "7", RESULT: {"status": "complete"}},
        {SEED: 7, RESULT: {"status": "complete"}, CURVE: [[1, 2], [3]]},
        {SEED: 7, RESULT: {"status": ["complete"]}},
    ],
    ids=str,
)
def test_half_written_results_are_set_aside_by_every_reader(
    attributes: dict[str, Any], url: str, tmp_path: Path
) -> None:
    before = read_storage(url).runs
    add(url, state=TrialState.COMPLETE, **attributes)
    assert mended(url) == ["half-written"]
    assert read_storage(url).runs.equals(before)
    assert study_status(file_of(url)).count("cells") == N
    other = f"sqlite:///{tmp_path}/other.db"
    assert merge_storages(SPEC, [url], other).n_copied == N
    assert len(tune(SPEC, url, train=loss_of)) == N


def test_a_cell_whose_only_result_is_set_aside_is_trained_anew(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    with closing(Ledger(open_storage(url), SPEC, stage="tune", fingerprint=made_with())) as own:
        own.study_of({"width": 8.0})
    add(url, state=TrialState.COMPLETE, **{SEED: 0})
    assert mended(url) == ["half-written"]
    runs = tune(SPEC, url, train=loss_of).to_frame()
    assert len(runs) == N
    assert 9.0 not in set(runs["loss"])


def made_with() -> dict[str, Any]:
    from extrap.tuning.fingerprints import fingerprint

    return fingerprint(SPEC, {"trainer": "loss_of"})


def test_text_that_is_no_json_is_found_and_its_trial_set_aside(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute(
            "UPDATE trial_user_attributes SET value_json = '{\"status\": ' "
            "WHERE key = 'result' AND trial_id = 2"
        )
    connection.close()
    with pytest.raises(StudyError, match=r"no JSON .*extrap study repair finds and mends it"):
        read_storage(url)
    assert mended(url) == ["unreadable", "half-written"]
    text = '{"status": '
    assert kept(tmp_path / "study.db", "trial_user_attributes") == {f"{UNREADABLE}result": text}
    assert len(read_storage(url).runs) == N - 1
    assert len(tune(SPEC, url, train=loss_of)) == N


def broken(path: Path, table: str, column: str, where: str, text: str = '{"a": ') -> None:
    with sqlite3.connect(path) as connection:
        changed = connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", [text])
        assert changed.rowcount == 1
    connection.close()


def kept(path: Path, table: str) -> dict[str, str]:
    """What a repair could not read, by name."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT key, value_json FROM {table}").fetchall()
    return {key: json.loads(text) for key, text in rows if key.startswith(UNREADABLE)}


@pytest.mark.parametrize(
    "key", ["fingerprint", "schema", "sealed:abc", "ignored:3", "x", "worker"]
)
def test_an_attribute_of_a_study_that_is_no_json_is_mended(
    key: str, url: str, tmp_path: Path
) -> None:
    path, storage = tmp_path / "study.db", open_storage(url)
    if key == "worker":
        attributes = storage.get_study_user_attrs(1)
        key = next(k for k in attributes if k.startswith(WORKER))
    elif key not in ("fingerprint", "schema"):
        storage.set_study_user_attr(1, key, "2026-01-01T00:00:00+00:00")
    broken(path, "study_user_attributes", "value_json", f"key = '{key}' AND study_id = 1")
    with pytest.raises(StudyError, match=r"no JSON .*extrap study repair finds and mends it"):
        read_storage(url)
    assert "unreadable" in mended(url)
    assert kept(path, "study_user_attributes") == {UNREADABLE + key: '{"a": '}
    assert len(read_storage(url).runs) == N - (key == "ignored:3")
    assert (key in open_storage(url).get_study_user_attrs(1)) == (key == "ignored:3")
    assert len(tune(SPEC, url, train=loss_of)) == N


def test_an_attribute_of_anybodys_study_that_is_no_json_is_mended(
    url: str, tmp_path: Path
) -> None:
    storage = open_storage(url)
    other = storage.create_new_study([StudyDirection.MINIMIZE], "theirs")
    storage.set_study_system_attr(other, "x", 1)
    broken(tmp_path / "study.db", "study_system_attributes", "value_json", "key = 'x'")
    assert mended(url) == ["unreadable"]
    assert len(read_storage(url, study="mend").runs) == N


@pytest.mark.parametrize("text", ['{"a": ', "{}", "3", '{"name": "None", "attributes": {}}'])
def test_a_range_that_is_none_is_mended(text: str, url: str, tmp_path: Path) -> None:
    before, path = read_storage(url).runs, tmp_path / "study.db"
    broken(path, "trial_params", "distribution_json", "trial_id = 2", text)
    with pytest.raises(StudyError):
        read_storage(url)
    assert mended(url) == ["unreadable"]
    assert read_storage(url).runs.equals(before)
    assert kept(path, "trial_user_attributes") == {f"{UNREADABLE}the range of lr": text}
    assert len(tune(SPEC, url, train=loss_of)) == N


def test_texts_of_a_server_are_mended(postgres) -> None:
    url = postgres.make_database("mended")
    tune(SPEC, url, train=loss_of)
    before = read_storage(url).runs
    storage = open_storage(url)
    with storage._inner._backend.engine.begin() as connection:
        for change in (
            "UPDATE study_user_attributes SET value_json = '{' WHERE key = 'schema'",
            "UPDATE trial_params SET distribution_json = '{' WHERE trial_id = 2",
        ):
            assert connection.exec_driver_sql(change).rowcount
    dry = repair_study(file_of(url), dry_run=True)
    assert [fault.kind for fault in dry] == ["unreadable"] * 3
    assert repair_study(file_of(url)) == dry
    assert repair_study(file_of(url)) == ()
    assert read_storage(url).runs.equals(before)


def test_ranges_that_are_all_none_are_those_of_one_value(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("UPDATE trial_params SET distribution_json = 'x'")
    connection.close()
    assert mended(url) == ["unreadable"] * N
    assert len(read_storage(url).runs) == N


def test_beats_of_the_dead_say_that_they_left(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listened: list[float] = []
    monkeypatch.setattr(repairs.time, "sleep", listened.append)
    storage, here = open_storage(url), this_process()
    beat = {"beat": 3, "grace_s": 30.0, "at": "2026-01-01T00:00:00+00:00"}
    said = {
        "dead": {**beat, **here, **DEAD},
        "left": {**beat, **here, "host": "elsewhere", "left": True},
        "silent": {**beat, **here, "host": "elsewhere"},
        "patient": {**beat, **here, "host": "elsewhere", "grace_s": 1e9},
        "fresh": {**beat, **here, "host": "elsewhere", "at": "2999-01-01T00:00:00+00:00"},
        "odd": "nonsense",
    }
    for name, each in said.items():
        storage.set_study_user_attr(1, WORKER + name, each)
    add(url, state=TrialState.RUNNING, **{SEED: 7, OWNER: {**said["silent"], "worker": "silent"}})
    add(url, state=TrialState.RUNNING, **{SEED: 8, OWNER: {**said["fresh"], "worker": "fresh"}})
    assert mended(url) == ["stale", "beat", "beat", "beat"]
    assert listened[:2] == [32.0, 32.0]
    after = open_storage(url).get_study_user_attrs(1)
    left = {name for name in said if after[WORKER + name].get("left")}
    assert left == {"dead", "left", "silent", "odd"}
    assert after[WORKER + "silent"] == {**said["silent"], "left": True}


def test_a_worker_that_is_heard_while_one_listens_lives(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(url)
    said = {"beat": 3, "grace_s": 30.0, "at": "2026-01-01T00:00:00+00:00"}
    said = {**said, **this_process(), "host": "elsewhere"}
    storage.set_study_user_attr(1, WORKER + "w", said)

    def beat(_: float) -> None:
        storage.set_study_user_attr(1, WORKER + "w", {**said, "beat": 4})

    monkeypatch.setattr(repairs.time, "sleep", beat)
    assert repair_study(file_of(url)) == ()


def test_a_missing_storage_is_not_made(tmp_path: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(DataError, match="there is no storage"):
            repair_study(file_of(f"sqlite:///{tmp_path}/none.db"), dry_run=dry_run)
    assert list(tmp_path.iterdir()) == []
