"""Exports go there and back, and a file from a stranger is at worst an error."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extrap import forecast, read_runs
from extrap.documents import content_hash
from extrap.errors import DataError, ExtrapError, StudyError
from extrap.pipeline import read_study, seal_in_storage, sweeps_of
from extrap.reading.exports import COLUMNS, KEY, read_export, write_export
from extrap.reading.optuna import IMPORTED_SEAL, SCHEMA_VERSION, SEALED, WORKER
from extrap.reading.storages import open_storage
from extrap.records import Cell, RunResult, StudySpec, TunedRange, Workload
from extrap.sweeps import StudyFile, export_study, import_study, repair_study
from extrap.tuning import merge_storages, tune

SPEC = StudySpec(
    name="sent",
    question="Does it come back?",
    workload=Workload(name="mine"),
    sizes={"width": (8, 16, 32, 64)},
    tune={"lr": TunedRange(low=2**-8, high=2**-2, n=7)},
    seeds=(0, 1),
    growth=0,
)
N = len(SPEC.grid_cells())


def loss_of(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
    octaves = (tuned["lr"] * size["width"] ** 0.5 / 0.1) ** 0.5
    loss = 1.0 + size["width"] ** -0.5 + 0.05 * (octaves - 1) ** 2 + 0.001 * seed
    is_bad = tuned["lr"] > 0.2 and seed == 1
    return RunResult(
        cell=Cell.of(size, tuned, seed),
        status="diverged" if is_bad else "complete",
        loss=None if is_bad else loss,
        curve=((1, 3.0), (2, loss)),
        flops=1e15,
    )


def file_of(url: str, spec: StudySpec = SPEC) -> StudyFile:
    return StudyFile(name=spec.name, kind="STUDY", storage=url, sweeps=sweeps_of(spec))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A storage with a whole sweep, a failed trial, and a sealed forecast."""
    url = f"sqlite:///{tmp_path_factory.mktemp('full')}/study.db"
    raises = True

    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> RunResult:
        nonlocal raises
        if raises:
            raises = False
            raise ZeroDivisionError
        return loss_of(size, tuned, seed)

    with pytest.raises(ZeroDivisionError):
        tune(SPEC, url, train=train)
    sweep = tune(SPEC, url, train=train)
    seal_in_storage(forecast(sweep), url, study=SPEC.name)
    return url


@pytest.fixture(scope="module")
def sent(full: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sent") / "study.parquet"
    assert export_study(file_of(full), path) > N
    return path


def test_there_and_back_gives_the_same_runs_and_seals(
    full: str, sent: Path, tmp_path: Path
) -> None:
    back = f"sqlite:///{tmp_path}/back.db"
    merged = import_study(file_of(back), sent)
    assert (merged.n_copied, merged.n_same) == (N, 0)
    ours, theirs = read_study(SPEC, full), read_study(SPEC, back)
    assert theirs.data_hash() == ours.data_hash()
    columns = [c for c in ours.to_frame() if c != "started_at"]
    assert theirs.to_frame()[columns].equals(ours.to_frame()[columns])
    assert list(theirs.to_frame()["started_at"]) == list(ours.to_frame()["started_at"])
    assert theirs.curves().equals(ours.curves())
    made = forecast(theirs)
    later = replace(made, created="2999-01-01T00:00:00+00:00")
    sealed, seal = seal_in_storage(later, back, study=SPEC.name)
    first, again = seal_in_storage(forecast(ours), full, study=SPEC.name)
    assert (sealed.created, seal) == (first.created, again)
    assert content_hash(sealed) == content_hash(first)


def seals(url: str, beginning: str = SEALED) -> dict[str, str]:
    """Seals of all sizes in a storage, with their times."""
    return {
        key.removeprefix(beginning): value
        for study in open_storage(url).get_all_studies()
        for key, value in study.user_attrs.items()
        if key.startswith(beginning)
    }


def test_a_merge_brings_seals_along_and_marks_them(full: str, sent: Path, tmp_path: Path) -> None:
    merged, back = f"sqlite:///{tmp_path}/merged.db", f"sqlite:///{tmp_path}/back.db"
    for url, found in (
        (merged, merge_storages(SPEC, [full], merged)),
        (back, import_study(file_of(back), sent)),
    ):
        assert seals(url) == seals(full)
        assert set(seals(url, IMPORTED_SEAL)) == set(seals(full))
        assert (found.n_copied, found.n_seals) == (N, len(seals(full)))
        assert "1 seals, whose times are as their sender has them" in str(found)
    assert merge_storages(SPEC, [full], merged).n_seals == 0
    assert not seals(full, IMPORTED_SEAL)


def test_failed_trials_alone_are_imported_as_nothing(full: str, tmp_path: Path) -> None:
    table = pq.read_table(export_of(full, tmp_path))
    failed = table.filter(pa.compute.equal(table["state"], "FAIL"))
    pq.write_table(failed, tmp_path / "failed.parquet")
    back = f"sqlite:///{tmp_path}/back.db"
    merged = import_study(file_of(back), tmp_path / "failed.parquet")
    assert (merged.n_copied, merged.n_seals) == (0, 0)


def export_of(url: str, folder: Path) -> Path:
    export_study(file_of(url), folder / "x.parquet")
    return folder / "x.parquet"


def test_importing_twice_changes_nothing(sent: Path, tmp_path: Path) -> None:
    back = f"sqlite:///{tmp_path}/back.db"
    import_study(file_of(back), sent)
    before = open_storage(back).get_all_trials(1)
    merged = import_study(file_of(back), sent)
    assert (merged.n_copied, merged.n_same) == (0, N)
    assert open_storage(back).get_all_trials(1) == before


def test_an_import_of_another_study_or_fingerprint_is_refused(sent: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/back.db"
    with pytest.raises(DataError, match="an import holds runs of other, "):
        import_study(file_of(url, replace(SPEC, name="other")), sent)
    wide = replace(SPEC, sizes={"depth": (8, 16)})
    with pytest.raises(DataError, match=r"the columns of its study, depth, lr; .* has others"):
        import_study(file_of(url, wide), sent)
    assert not Path(f"{tmp_path}/back.db").exists()
    tune(replace(SPEC, tune={"lr": TunedRange(low=2**-9, high=2**-2, n=3)}), url, train=loss_of)
    with pytest.raises(StudyError, match=r"can only be resumed as it was begun; tune.lr"):
        import_study(file_of(url), sent)


def test_a_file_tells_nothing_of_workers_and_addresses(sent: Path) -> None:
    table = pq.read_table(sent)
    assert table.schema.remove_metadata().equals(COLUMNS)
    assert set(table["state"].to_pylist()) == {"COMPLETE", "FAIL"}
    told = table.schema.metadata[KEY].decode()
    assert WORKER not in told
    assert "study.db" not in told
    assert SEALED in told
    assert f'"schema": {SCHEMA_VERSION}' in told


def test_an_export_is_whole_or_not_there(full: str, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "study.parquet"
    path.write_bytes(b"before")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("extrap.reading.exports.pq.write_table", stop)
    with pytest.raises(KeyboardInterrupt):
        export_study(file_of(full), path)
    assert [p.name for p in tmp_path.iterdir()] == ["study.parquet"]
    assert path.read_bytes() == b"before"
    with pytest.raises(DataError, match=r"ends in \.parquet"):
        export_study(file_of(full), tmp_path / "study.csv")


def test_long_curves_are_written_in_smaller_parts(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extrap.reading.exports.WRITTEN_AT_ONCE", 2000)
    export_study(file_of(full), tmp_path / "x.parquet")
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups > 10
    assert set(read_export(tmp_path / "x.parquet").attributes) == {
        f"sent/width={width}" for width in (8, 16, 32, 64)
    }


def test_there_is_nothing_to_export(full: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is none of other yet"):
        write_export(open_storage(full), ["other"], tmp_path / "x.parquet")
    with pytest.raises(DataError, match="there is no storage"):
        export_study(file_of(f"sqlite:///{tmp_path}/none.db"), tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def changed(sent: Path, path: Path, **cells: Any) -> Path:
    """The export with the cells of one trial that gave a result replaced."""
    table = pq.read_table(sent)
    rows = table.to_pylist()
    row = next(i for i, each in enumerate(rows) if each["state"] == "COMPLETE")
    rows[row] |= cells
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return path


def told(sent: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The export with its metadata changed."""
    table = pq.read_table(sent)
    document = json.loads(table.schema.metadata[KEY])
    document = change(document) or document
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(document)}), path)
    return path


DEEP = "[" * 40 + "]" * 40
BAD_CELLS: list[dict[str, Any]] = [
    {"study": None},
    {"study": "sent/width=9"},
    {"study": "<script>alert(1)</script>"},
    {"number": None},
    {"number": -1},
    {"number": 2**40},
    {"state": "RUNNING"},
    {"state": None},
    {"values": None},
    {"values": []},
    {"values": [1.0, 2.0]},
    {"values": [None]},
    {"values": [float("nan")]},
    {"params": None},
    {"params": "no json"},
    {"params": "[" * 100_000},
    {"params": "[]"},
    {"params": "{}"},
    {"params": '{"lr": "0.1"}'},
    {"params": '{"lr": 9.0}'},
    {"params": '{"lr": NaN}'},
    {"params": '{"lr": [0.1]}'},
    {"params": '{"lr": ' + "9" * 5000 + "}"},
    {"distributions": "{}"},
    {"distributions": '{"lr": 1}'},
    {"distributions": '{"lr": "{}"}'},
    {"distributions": '{"lr": "{\\"name\\": \\"os.system\\", \\"attributes\\": {}}"}'},
    {"user_attrs": "1"},
    {"user_attrs": '{"result": 1}'},
    {"user_attrs": '{"curve": [[1]]}'},
    {"user_attrs": '{"curve": "abc"}'},
    {"user_attrs": '{"seed": 1.5}'},
    {"user_attrs": '{"seed": "1"}'},
    {"user_attrs": '{"result": {"status": {}}}'},
    {"user_attrs": '{"a": ' + DEEP + "}"},
    {"user_attrs": '{"a": ' + "[" * 900 + "]" * 900 + "}"},
    {"intermediate_values": "{}"},
    {"intermediate_values": "[[1]]"},
    {"intermediate_values": '[["1", 2]]'},
    {"intermediate_values": "[[1, 1" + "0" * 400 + "]]"},
]


@pytest.mark.parametrize("cells", BAD_CELLS, ids=lambda cells: f"{str(cells)[:40]}")
def test_a_trial_that_is_none_is_refused(
    cells: dict[str, Any], sent: Path, tmp_path: Path
) -> None:
    url, path = f"sqlite:///{tmp_path}/back.db", tmp_path / "bad.parquet"
    with pytest.raises(DataError, match="extrap study export wrote") as caught:
        import_study(file_of(url), changed(sent, path, **cells))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))
    assert not (tmp_path / "back.db").exists()


BAD_TOLD: list[Callable[[dict[str, Any]], object]] = [
    lambda _: [1],
    lambda _: {"format": 1},
    lambda d: d.update(format="1"),
    lambda d: d.update(format=0),
    lambda d: d.update(format=True),
    lambda d: d.update(format=2),
    lambda d: d.update(studies={}),
    lambda d: d.update(studies=[1]),
    lambda d: d["studies"].append(d["studies"][0]),
    lambda d: d["studies"][0].update(name="nothing"),
    lambda d: d["studies"][0].update(name="sent/width=nan"),
    lambda d: d["studies"][0].update(name="sent/width=-1"),
    lambda d: d["studies"][0].update(name=["sent/width=8"]),
    lambda d: d["studies"][0].update(name="sent/" + "w" * 5000 + "=8"),
    lambda d: d["studies"][0].update(directions=["MAXIMIZE"]),
    lambda d: d["studies"][0].update(attributes=[]),
    lambda d: d["studies"][0]["attributes"].pop("fingerprint"),
    lambda d: d["studies"][0]["attributes"].update(fingerprint=[1]),
    lambda d: d["studies"][0]["attributes"].update({"sealed:abc": "yesterday"}),
    lambda d: d["studies"][0]["attributes"].update({"sealed:abc": 3}),
    lambda d: d["studies"][0]["attributes"].update(deep=json.loads(DEEP)),
    lambda d: d["studies"][0]["attributes"].update(schema=SCHEMA_VERSION + 1),
]


@pytest.mark.parametrize("number", range(len(BAD_TOLD)))
def test_metadata_that_are_none_are_refused(number: int, sent: Path, tmp_path: Path) -> None:
    path = told(sent, tmp_path / "bad.parquet", BAD_TOLD[number])
    with pytest.raises(ExtrapError) as caught:
        read_export(path)
    assert "\n" not in str(caught.value)


def test_other_files_are_refused(sent: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    table = pq.read_table(sent)
    content = sent.read_bytes()
    for write in (
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(b"PAR1"),
        lambda: path.write_bytes(content[: len(content) // 2]),
        lambda: path.write_bytes(b"PAR1" + b"\xff" * 1000 + b"PAR1"),
        lambda: pq.write_table(table.replace_schema_metadata(None), path),
        lambda: pq.write_table(table.drop_columns(["params"]), path),
        lambda: pq.write_table(table.append_column("more", table["number"]), path),
        lambda: pq.write_table(table.set_column(1, "number", table["study"]), path),
    ):
        write()
        with pytest.raises(DataError, match="extrap study export wrote"):
            read_export(path)
    with pytest.raises(DataError, match="there is no file"):
        read_export(tmp_path / "none.parquet")


def test_a_file_that_unpacks_to_too_much_is_refused(
    sent: Path, tmp_path: Path, monkeypatch
) -> None:
    for limit, value in (
        ("MOST_ROWS", 10),
        ("MOST_BYTES", 1000),
        ("MOST_VALUES", 5000),
        ("MOST_METADATA", 100),
        ("LONGEST_TEXT", 10),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"extrap.reading.exports.{limit}", value)
            with pytest.raises(DataError, match="extrap study export wrote"):
                read_export(sent)


def test_what_unpacks_to_too_much_is_not_parsed(
    sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a few kilobytes: one long text that all rows share, and many small values."""
    parsed: list[int] = []
    load = json.loads

    def loads(text: str) -> Any:
        parsed.append(len(text))
        return load(text)

    table = pq.read_table(sent)
    rows = table.filter(pa.compute.equal(table["state"], "COMPLETE")).slice(0, 1).to_pylist()
    for long, n_rows in (('{"a": "' + "x" * 2**20 + '"}', 200), ("[" + "[]," * 4_000_000, 1)):
        many = [{**rows[0], "number": i} for i in range(n_rows)]
        many = [{**row, "user_attrs": long} for row in many]
        path = tmp_path / "bomb.parquet"
        pq.write_table(pa.Table.from_pylist(many, schema=table.schema), path, compression="zstd")
        assert path.stat().st_size < 100_000
        with monkeypatch.context() as patch:
            patch.setattr("extrap.reading.exports.json.loads", loads)
            with pytest.raises(DataError, match=r"unpacks to more than|holds more than"):
                read_export(path)
        assert max(parsed) < 100_000


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_BYTES", "MOST_VALUES", "MOST_METADATA"])
def test_what_could_not_be_read_is_not_written(
    limit: str, full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"extrap.reading.exports.{limit}", 50)
    with pytest.raises(DataError, match=r"an export holds at most 50 .*study merge"):
        export_study(file_of(full), tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", ["PRUNED", "COMPLETE"])
def test_a_result_without_a_value_is_neither_written_nor_read(
    state: str, full: str, sent: Path, tmp_path: Path
) -> None:
    url, path = f"sqlite:///{tmp_path}/back.db", tmp_path / "bad.parquet"
    with pytest.raises(DataError, match="finished without a value"):
        import_study(file_of(url), changed(sent, path, state=state, values=None))
    shutil.copy(full.removeprefix("sqlite:///"), tmp_path / "study.db")
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("UPDATE trials SET state = ? WHERE trial_id = 9", [state])
        connection.execute("DELETE FROM trial_values WHERE trial_id = 9")
    connection.close()
    broken = f"sqlite:///{tmp_path}/study.db"
    with pytest.raises(DataError, match=r"it has not one value .*extrap study repair sets"):
        export_study(file_of(broken), tmp_path / "x.parquet")
    assert [fault.kind for fault in repair_study(file_of(broken))] == ["half-written"]
    assert export_study(file_of(broken), tmp_path / "x.parquet") == N


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_broken_bytes_are_at_worst_an_error(data: st.DataObject, sent: Path, tmp_path: Path):
    content = bytearray(sent.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "broken.parquet"
    path.write_bytes(bytes(content))
    with suppress(ExtrapError):
        read_export(path)


def test_an_export_is_read_by_everybody_as_a_table(sent: Path) -> None:
    frame = pq.read_table(sent).to_pandas()
    assert frame["study"].nunique() == 4
    with pytest.raises(DataError):
        read_runs(str(sent), size="width", tune="lr")  # it is no run table
