import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from optuna import get_all_study_names
from optuna.trial import TrialState

from extrap.errors import DataError, StudyError
from extrap.reading import copies, read_runs
from extrap.reading.optuna import SCHEMA_KEY, STORAGE_SCHEMA_VERSION, find_study
from extrap.reading.storages import open_if_there, open_to_read
from extrap.records import Workload
from extrap.study import read_study, tune
from extrap.study.database import open_storage
from extrap.study.trials import first_sealed, sealed_at
from tests.study.trials import rates, spec

optuna.logging.set_verbosity(optuna.logging.WARNING)
MINE = {"workload": Workload(name="mine"), "seeds": (0, 1)}
SPEC = spec("read", sizes={"width": (8, 16, 32, 64)}, tune=rates(2**-8, 2**-2, 4), **MINE)
TOLD = SPEC.without_recipe()
"""The study as its runs are stored: of a function of the user's own."""
N = 4 * 4 * 2


def loss_of(size, tuned, seed):
    octaves = (tuned["lr"] * size["width"] ** 0.5 / 0.1) ** 0.5
    return 1.0 + size["width"] ** -0.5 + 0.05 * (octaves - 1) ** 2 + 0.001 * seed


def restored(version, folder):
    dump = Path(__file__).parent / f"storages/optuna-{version}.sql"
    with closing(sqlite3.connect(folder / "old.db")) as connection:
        connection.executescript(dump.read_text(encoding="utf-8"))
    return folder / "old.db"


def changed(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return f"sqlite:///{path}"


def state(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "study.db"
    tune(SPEC, f"sqlite:///{path}", train=loss_of)
    return path


@pytest.fixture
def own(full, tmp_path):
    return Path(shutil.copy(full, tmp_path / "study.db"))


def test_a_storage_of_an_earlier_version_is_read_without_being_changed(tmp_path):
    url = f"sqlite:///{restored('4.5', tmp_path)}"
    before = state(tmp_path)
    found = find_study(url, study="theirs")
    runs, curves = found.table, found.curves("loss")
    assert list(runs["status"]) == [
        *("complete", "complete", "diverged", "complete"),
        *("failed", "failed", "pruned"),
    ]
    assert runs["loss"][1] == 1e300
    assert set(map(str, runs["kind"][:4])) <= {"sgd", "adam", "None", "3", "True"}
    first = curves[curves["run"] == 0]["loss"].tolist()
    assert list(map(str, first)) == ["3.0", "inf", "nan", "-1e+308"]
    assert list(find_study(url, study="old").table["width"]) == [8]
    both = find_study(url, study="both")
    assert (both.metrics, both.losses) == (("values_0", "values_1"), ())
    assert both.maximised == ("values_1",)
    with pytest.raises(DataError, match="values_0"):
        read_runs(url, study="both", size="width")
    opened = open_to_read(url)
    states = [trial.state for trial in opened.get_all_trials(1)]
    assert states[-2:] == [TrialState.RUNNING, TrialState.WAITING]
    assert set(get_all_study_names(opened)) == {"theirs", "both", "old/width=8"}
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    ("dump", "version", "remedy"),
    [("3.0", "v3.0.0.d", "optuna storage upgrade"), ("4.5", "v99.0.0.a", "pip install -U optuna")],
)
def test_tables_of_another_version_are_refused(dump, version, remedy, tmp_path):
    statement = f"UPDATE alembic_version SET version_num = '{version}'"
    with pytest.raises(StudyError, match=remedy):
        find_study(changed(restored(dump, tmp_path), statement), study="theirs")


def test_a_writer_may_be_there_while_one_reads_but_not_lock_the_file(own, monkeypatch):
    monkeypatch.setattr(copies, "TIMEOUT_S", 0.0)
    writer = sqlite3.connect(own, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE trials SET state = 'FAIL'")
    assert len(find_study(f"sqlite:///{own}").table) == N
    writer.execute("ROLLBACK")
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StudyError, match="is locked"):
        find_study(f"sqlite:///{own}")
    writer.close()


@pytest.mark.parametrize("is_file", [True, False])
def test_a_copied_storage_has_the_runs_and_the_seals_and_nothing_is_trained_again(
    is_file, own, tmp_path
):
    source, copy = f"sqlite:///{own}", f"sqlite:///{tmp_path}/copy.db"
    first_sealed(open_storage(source), SPEC.name, "hash", "2026-01-01T00:00:00+00:00")
    if is_file:
        shutil.copy(own, tmp_path / "copy.db")
    else:
        for name in get_all_study_names(source):
            optuna.copy_study(from_study_name=name, from_storage=source, to_storage=copy)
    assert read_study(TOLD, copy).to_frame().equals(read_study(TOLD, source).to_frame())
    assert sealed_at(copy, SPEC.name, "hash") == "2026-01-01T00:00:00+00:00"
    trained = []
    assert len(tune(SPEC, copy, train=loss_of, notify=trained.append)) == N
    assert trained == []


@pytest.mark.parametrize("state", ["PRUNED", "COMPLETE"])
def test_a_result_without_a_value_is_not_read_but_trained_again(state, own):
    url = changed(
        own,
        f"UPDATE trials SET state = '{state}' WHERE trial_id = 8",
        "DELETE FROM trial_values WHERE trial_id = 8",
    )
    (note,) = read_study(TOLD, url).notes[:1]
    assert note.startswith("Trial 7 ")
    assert len(tune(SPEC, url, train=loss_of)) == N


def test_what_a_killed_writer_left_is_rolled_back_in_the_copy_only(full, own, tmp_path):
    (killed := tmp_path / "killed").mkdir()
    writer = sqlite3.connect(own, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE trial_user_attributes SET value_json = '\"gone\"'")
    writer.execute("UPDATE trial_params SET param_value = 1")
    writer.execute("UPDATE study_user_attributes SET value_json = '\"gone\"'")
    for name in ("study.db", "study.db-journal"):  # as the machine would leave them
        shutil.copy(tmp_path / name, killed / name)
    writer.close()
    assert (killed / "study.db").read_bytes() != full.read_bytes()
    before = state(killed)
    url = f"sqlite:///{killed}/study.db"
    assert find_study(url).table.equals(find_study(f"sqlite:///{full}").table)
    assert state(killed) == before


def test_a_file_with_a_log_beside_it_is_read_without_one_being_made(full, own, tmp_path):
    url = changed(own, "PRAGMA journal_mode = WAL")
    before = state(tmp_path)
    assert find_study(url).table.equals(find_study(f"sqlite:///{full}").table)
    assert state(tmp_path) == before
    writer = sqlite3.connect(own, isolation_level=None)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("UPDATE trials SET state = 'FAIL' WHERE trial_id = 1")
    before = state(tmp_path)
    assert len(find_study(url).table) == N - 1
    assert state(tmp_path) == before
    writer.close()


@pytest.mark.parametrize("address", ["none/x", "file:made.db?mode=rwc&uri=true", ""])
def test_no_address_makes_reading_create_a_file(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_if_there(f"sqlite:///{address}") is None
    for read in (open_to_read, find_study):
        with pytest.raises(DataError, match="no storage" if address else "no Optuna studies"):
            read(f"sqlite:///{address}")
    assert list(tmp_path.iterdir()) == []


def test_a_server_is_read_in_transactions_that_cannot_write(postgres):
    url = postgres.make_database("readonly")
    assert open_if_there(url) is None
    with pytest.raises(DataError, match="no Optuna studies"):
        find_study(url)
    tune(SPEC, url, train=loss_of)
    sign = "&" if "?" in url else "?"
    for address in (url, f"{url}{sign}options=-c%20statement_timeout=90s"):
        storage = open_to_read(address)
        assert len(find_study(address).table) == N
        with pytest.raises(optuna.exceptions.StorageInternalError) as caught:
            storage.set_study_user_attr(1, "a", 1)
        assert "read-only" in str(caught.value.__cause__)


def test_a_schema_is_written_and_another_one_is_refused(own):
    url = f"sqlite:///{own}"
    storage = open_storage(url)
    assert {study.user_attrs[SCHEMA_KEY] for study in storage.get_all_studies()} == {
        STORAGE_SCHEMA_VERSION
    }
    for schema in (STORAGE_SCHEMA_VERSION + 1, STORAGE_SCHEMA_VERSION - 1, "two"):
        storage.set_study_user_attr(1, SCHEMA_KEY, schema)
        for use in (find_study, lambda url: tune(SPEC, url, train=loss_of)):
            with pytest.raises(StudyError, match=f"got {schema!r}"):
                use(url)
