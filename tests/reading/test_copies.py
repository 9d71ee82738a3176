"""What is read stays as it is: storages of other versions, of killed writers, read-only ones."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

from extrap.cli import main
from extrap.errors import DataError, StudyError
from extrap.reading import copies
from extrap.reading.copies import open_if_there, open_to_read
from extrap.reading.optuna import SCHEMA, SCHEMA_VERSION, kept_trials, read_storage, study_names
from extrap.reading.storages import engine_options, open_storage, require_storage
from extrap.records import StudySpec, TunedRange, Workload
from extrap.tuning import tune

optuna.logging.set_verbosity(optuna.logging.WARNING)
DUMPS = sorted((Path(__file__).parent / "storages").glob("*.sql"))
SPEC = StudySpec(
    name="read",
    question="Does reading write?",
    workload=Workload(name="mine"),
    sizes={"width": (8, 16, 32, 64)},
    tune={"lr": TunedRange(low=2**-8, high=2**-2, n=7)},
    seeds=(0, 1),
    growth=0,
)


STUDY = """
from extrap.records import *
STUDY = StudySpec(
    name="read", question="?", workload=Workload(name="mine"), growth=0,
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)}, seeds=(0, 1),
)
"""


def loss_of(size: dict[str, float], tuned: dict[str, float], seed: int) -> float:
    octaves = (tuned["lr"] * size["width"] ** 0.5 / 0.1) ** 0.5
    return 1.0 + size["width"] ** -0.5 + 0.05 * (octaves - 1) ** 2 + 0.001 * seed


def restored(dump: Path, folder: Path) -> Path:
    path = folder / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    return path


def state(folder: Path) -> dict[str, str]:
    """Every file of a folder with its content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage of ours with a whole sweep."""
    path = tmp_path_factory.mktemp("full") / "study.db"
    tune(SPEC, f"sqlite:///{path}", train=loss_of)
    return path


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_storages_of_older_versions_are_read_without_being_changed(
    dump: Path, tmp_path: Path
) -> None:
    path = restored(dump, tmp_path)
    before = state(tmp_path)
    url = f"sqlite:///{path}"
    runs, curves, notes = read_storage(url, study="theirs")
    assert list(runs["status"]) == [
        *("complete", "complete", "diverged", "complete"),
        *("failed", "failed", "pruned"),
    ]
    assert runs["loss"][1] == 1e300
    assert set(map(str, runs["kind"][:4])) <= {"sgd", "adam", "None", "3", "True"}
    assert curves is not None
    first = curves[curves["run"] == 0]["loss"].tolist()
    assert first[:2] == [3.0, float("inf")]
    assert str(first[2]) == "nan"
    assert first[3] == -1e308
    assert notes == ("attributes that are not single values were left out: many.",)
    assert list(read_storage(url, study="old").runs["width"]) == [8]
    with pytest.raises(DataError, match="minimize, maximize"):
        read_storage(url, study="both")
    opened = open_to_read(url)
    states = [trial.state for trial in kept_trials(opened, 1)]
    assert states[-2:] == [TrialState.RUNNING, TrialState.WAITING]
    assert study_names(opened) == ("theirs", "both", "old/width=8")
    assert state(tmp_path) == before


def test_one_of_them_has_tables_that_must_be_upgraded(tmp_path: Path) -> None:
    head = optuna.storages.RDBStorage("sqlite://").get_head_version()
    versions = set()
    for dump in DUMPS:
        (folder := tmp_path / dump.stem).mkdir()
        with sqlite3.connect(restored(dump, folder)) as connection:
            versions |= set(connection.execute("SELECT version_num FROM alembic_version"))
        connection.close()
    assert versions - {(head,)}


def test_a_storage_of_a_newer_optuna_is_one_clear_error(tmp_path: Path) -> None:
    path = restored(DUMPS[-1], tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
    connection.close()
    with pytest.raises(StudyError, match=r"of a newer one \(tables v99.0.0.a\); pip install -U"):
        read_storage(f"sqlite:///{path}", study="theirs")


def test_a_writer_may_be_there_while_one_reads(full: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    shutil.copy(full, path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE trials SET state = 'FAIL'")
    assert len(read_storage(f"sqlite:///{path}").runs) == len(SPEC.grid_cells())
    writer.execute("COMMIT")
    writer.close()


def test_a_file_that_stays_locked_is_given_up(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "LOCKED_FOR_S", 0.0)
    path = tmp_path / "study.db"
    shutil.copy(full, path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StudyError, match="must not be locked for long"):
        read_storage(f"sqlite:///{path}")
    writer.close()


def test_what_a_killed_writer_left_is_rolled_back_in_the_copy_only(
    full: Path, tmp_path: Path
) -> None:
    path, killed = tmp_path / "study.db", tmp_path / "killed"
    killed.mkdir()
    shutil.copy(full, path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE trial_user_attributes SET value_json = '\"gone\"'")
    for name in ("study.db", "study.db-journal"):  # as the machine would leave them
        shutil.copy(tmp_path / name, killed / name)
    writer.close()
    assert (killed / "study.db").read_bytes() != full.read_bytes()
    before = state(killed)
    url = f"sqlite:///{killed}/study.db"
    assert read_storage(url).runs.equals(read_storage(f"sqlite:///{full}").runs)
    assert state(killed) == before


def test_a_file_with_a_log_beside_it_is_read_without_one_being_made(
    full: Path, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    shutil.copy(full, path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    before = state(tmp_path)
    assert read_storage(f"sqlite:///{path}").runs.equals(read_storage(f"sqlite:///{full}").runs)
    assert state(tmp_path) == before
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("UPDATE trials SET state = 'FAIL' WHERE trial_id = 1")
    before = state(tmp_path)
    assert len(read_storage(f"sqlite:///{path}").runs) == len(SPEC.grid_cells()) - 1
    assert state(tmp_path) == before
    writer.close()


def test_a_journal_with_half_a_line_is_read_as_it_is(tmp_path: Path) -> None:
    url = f"journal:///{tmp_path}/study.log"
    tune(SPEC, url, train=loss_of)
    with (tmp_path / "study.log").open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    before = state(tmp_path)
    assert len(read_storage(url).runs) == len(SPEC.grid_cells())
    assert state(tmp_path) == before


def test_where_nothing_is_nothing_is_made(tmp_path: Path) -> None:
    for kind in ("sqlite", "journal"):
        assert open_if_there(f"{kind}:///{tmp_path}/none/x") is None
        with pytest.raises(DataError, match="there is no storage"):
            open_to_read(f"{kind}:///{tmp_path}/none/x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("database", ["file:made.db?uri=true", "file:made.db?mode=rwc&uri=true"])
def test_no_address_makes_reading_create_a_file(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{database}"
    for read in (open_if_there, open_to_read, read_storage, require_storage):
        with pytest.raises(StudyError, match="given by its path"):
            read(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "1",
        '{"op_code": 99, "worker_id": "w"}',
        '{"op_code": 0, "worker_id": "w"}',
        '{"op_code": 0, "worker_id": "w", "study_name": "a", "directions": [9]}',
        '{"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": 5}',
    ],
)
@pytest.mark.parametrize("command", ["status", "export", "repair"])
def test_a_journal_that_is_none_is_one_clear_error(
    command: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.py").write_text(STUDY)
    begun = '{"op_code": 0, "worker_id": "w", "study_name": "read/width=8", "directions": [1]}\n'
    (tmp_path / "study.log").write_text(f"{begun}{line}\n")
    url = f"journal:///{tmp_path}/study.log"
    options = ["--out", "x.parquet"] if command == "export" else []
    assert main(["study", command, "study.py", "--storage", url, *options]) == 2
    said = capsys.readouterr().err
    assert "a storage must be an Optuna database" in said
    assert "Traceback" not in said


def test_commands_that_read_do_not_write(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "shared").mkdir()
    shutil.copy(full, folder / "study.db")
    for path in (folder / "study.db", folder):
        path.chmod(path.stat().st_mode & ~0o222)
    before, url = state(folder), f"sqlite:///{folder}/study.db"
    columns = ["--size", "width", "--tune", "lr"]
    try:
        assert main(["forecast", url, *columns, "--at", "128"]) == 0
        assert main(["report", url, *columns]) == 0
        assert main(["backtest", url, *columns]) in (0, 2)
        assert state(folder) == before
    finally:
        folder.chmod(0o755)


def test_a_server_is_read_in_transactions_that_cannot_write(postgres) -> None:
    url = postgres.make_database("readonly")
    assert open_if_there(url) is None
    with pytest.raises(DataError, match="holds no Optuna studies yet"):
        read_storage(url)
    tune(SPEC, url, train=loss_of)
    storage = open_to_read(url)
    assert len(read_storage(url).runs) == len(SPEC.grid_cells())
    with pytest.raises(optuna.exceptions.StorageInternalError) as caught:
        storage.set_study_user_attr(1, "a", 1)
    assert "read-only transaction" in str(caught.value.__cause__)
    made = open_storage(url)
    with made._inner._backend.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v3.0.0.d'")
    with pytest.raises(StudyError, match=r"of an older Optuna \(v3.0.0.d, .*storage upgrade"):
        read_storage(url)


def test_options_of_a_user_do_not_make_a_server_writable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[dict[str, object]] = []

    def stop(*_: object, connect_args: dict[str, object], **__: object) -> None:
        seen.append(connect_args)
        raise RuntimeError("seen")

    pytest.importorskip("psycopg")
    monkeypatch.setattr(copies.sqlalchemy, "create_engine", stop)
    for query in ("", "?options=-c%20statement_timeout=9s", "?options=-c%20a=1&options=-c%20b=2"):
        with pytest.raises(StudyError, match="seen"):
            open_if_there(f"postgresql://me@localhost/x{query}")
    options = [str(each["options"]) for each in seen]
    assert all(each.endswith(copies.READ_ONLY) for each in options)
    assert options[1] == f"-c statement_timeout=9s {copies.READ_ONLY}"
    assert engine_options(sqlalchemy.make_url("mysql://me@localhost/x?options=a")) == {}


def test_a_server_with_options_of_its_user_is_read_only(postgres) -> None:
    url = postgres.make_database("optioned")
    tune(SPEC, url, train=loss_of)
    sign = "&" if "?" in url else "?"
    storage = open_to_read(f"{url}{sign}options=-c%20statement_timeout=90s")
    with pytest.raises(optuna.exceptions.StorageInternalError) as caught:
        storage.set_study_user_attr(1, "a", 1)
    assert "read-only transaction" in str(caught.value.__cause__)


def test_a_schema_is_written_and_a_newer_one_is_refused(full: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    shutil.copy(full, path)
    url = f"sqlite:///{path}"
    storage = open_storage(url)
    for study in storage.get_all_studies():
        assert study.user_attrs[SCHEMA] == SCHEMA_VERSION
    storage.set_study_user_attr(1, SCHEMA, SCHEMA_VERSION + 1)
    words = rf"schema {SCHEMA_VERSION} or older, got {SCHEMA_VERSION + 1}.*install that version"
    with pytest.raises(StudyError, match=words):
        read_storage(url)
    with pytest.raises(StudyError, match=words):
        tune(SPEC, url, train=loss_of)
    storage.set_study_user_attr(1, SCHEMA, "two")
    with pytest.raises(StudyError, match="got 'two'"):
        read_storage(url)


def test_a_storage_of_before_there_were_schemas_is_of_the_first(
    full: Path, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    shutil.copy(full, path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM study_user_attributes WHERE key = 'schema'")
    connection.close()
    assert len(tune(SPEC, f"sqlite:///{path}", train=loss_of)) == len(SPEC.grid_cells())
