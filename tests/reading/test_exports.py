import json
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extrap import forecast, read_runs
from extrap.documents import content_hash
from extrap.errors import DataError, ExtrapError, StudyError
from extrap.reading.exports import COLUMNS, KEY, read_export, write_export
from extrap.reading.optuna import IMPORTED_SEAL, SCHEMA_VERSION, SEALED, seal_time
from extrap.reading.storages import open_storage
from extrap.records import Cell, RunResult, StudySpec, TunedRange
from extrap.study import read_study, tune
from extrap.study.forecasts import ForecastKind
from extrap.study.transfer import export_study, import_study

SPEC = StudySpec(
    name="sent",
    question="?",
    sizes={"width": (8, 16, 32, 64)},
    tune={"lr": TunedRange(low=2**-8, high=2**-2, n=4)},
    seeds=(0, 1),
    growth=0,
)
STUDY = ForecastKind(SPEC)
N = 4 * 4 * 2
OURS = "study export wrote"


def loss_of(size, tuned, seed):
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


def known_as_ours(function):
    """A function by the name of the one that trained `full`: in Python one is known by that."""

    def train(*words):
        return function(*words)

    train.__qualname__ = "sealed.<locals>.train"
    return train


def seal(made, url):
    """A forecast with the time at which it was first sealed in a storage, and its hash."""
    content = content_hash(made)
    created = seal_time(url, study=SPEC.name, content_hash=content, now=made.created)
    return replace(made, created=created), content


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A storage with a whole sweep, a failed trial, and a sealed forecast."""
    url = f"sqlite:///{tmp_path_factory.mktemp('full')}/study.db"
    faults = [TypeError]

    def train(size, tuned, seed):
        if faults:
            raise faults[0]
        return loss_of(size, tuned, seed)

    with pytest.raises(TypeError):
        tune(SPEC, url, train=train)
    faults.clear()
    made = forecast(tune(SPEC, url, train=train))
    return url, *seal(made, url)


@pytest.fixture(scope="module")
def full(sealed):
    return sealed[0]


@pytest.fixture(scope="module")
def sent(full, tmp_path_factory):
    path = tmp_path_factory.mktemp("sent") / "study.parquet"
    assert export_study(STUDY, path, storage=full) == N + 1
    return path


@pytest.fixture
def back(tmp_path):
    return f"sqlite:///{tmp_path}/back.db"


def seals(url, beginning=SEALED):
    """Seals of all sizes in a storage, with their times."""
    return {
        key.removeprefix(beginning): value
        for study in open_storage(url).get_all_studies()
        for key, value in study.user_attrs.items()
        if key.startswith(beginning)
    }


def test_there_and_back_gives_the_same_runs_and_seals(sealed, sent, back):
    full, first, content = sealed
    merged = import_study(STUDY, sent, storage=back)
    assert (merged.n_copied, merged.n_same, merged.n_seals) == (N, 0, 1)
    ours, theirs = read_study(SPEC, full), read_study(SPEC, back)
    assert theirs.data_hash() == ours.data_hash()
    assert theirs.to_frame().equals(ours.to_frame())
    assert theirs.curves().equals(ours.curves())
    later = replace(forecast(theirs), created="2999-01-01T00:00:00+00:00")
    again, same = seal(later, back)
    assert (again.created, same) == (first.created, content)
    assert content_hash(again) == content_hash(first)
    assert seals(back) == seals(full)
    assert set(seals(back, IMPORTED_SEAL)) == set(seals(full))
    assert not seals(full, IMPORTED_SEAL)
    trials = open_storage(back).get_all_trials(1)
    merged = import_study(STUDY, sent, storage=back)
    assert (merged.n_copied, merged.n_same) == (0, N)
    assert open_storage(back).get_all_trials(1) == trials


def test_an_import_of_another_study_or_fingerprint_is_refused(sent, back, tmp_path):
    for changes, words in (
        ({"name": "other"}, "needs runs of other, "),
        ({"sizes": {"depth": (8, 16)}}, "its study, depth, lr;"),
    ):
        with pytest.raises(DataError, match=words):
            import_study(ForecastKind(replace(SPEC, **changes)), sent, storage=back)
    assert list(tmp_path.iterdir()) == []
    tune(replace(SPEC, tune={"lr": TunedRange(low=2**-9, high=2**-2, n=3)}), back, train=loss_of)
    with pytest.raises(StudyError, match=r"tune\.lr"):
        import_study(STUDY, sent, storage=back)


def test_a_file_is_a_table_that_tells_nothing_of_workers_and_addresses(sent):
    table = pq.read_table(sent)
    assert table.schema.remove_metadata().equals(COLUMNS)
    assert sorted(table["state"].to_pylist()) == ["COMPLETE"] * N + ["FAIL"]
    assert len(set(table["study"].to_pylist())) == 4
    told = table.schema.metadata[KEY].decode()
    assert "driver" not in told
    assert "study.db" not in told
    assert SEALED in told
    assert f'"schema": {SCHEMA_VERSION}' in told
    with pytest.raises(DataError):
        read_runs(str(sent), size="width", tune="lr")  # it is no run table


def test_an_export_is_whole_or_not_there(full, tmp_path, monkeypatch):
    path = tmp_path / "study.parquet"
    path.write_bytes(b"before")

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("extrap.reading.exports.pq.write_table", stop)
        with pytest.raises(KeyboardInterrupt):
            export_study(STUDY, path, storage=full)
    with pytest.raises(DataError, match=r"ends in \.parquet"):
        export_study(STUDY, tmp_path / "study.csv", storage=full)
    with pytest.raises(DataError, match="none of other yet"):
        write_export(open_storage(full), ["other"], path)
    with pytest.raises(DataError, match="there is no storage"):
        export_study(STUDY, path, storage=f"sqlite:///{tmp_path}/none.db")
    for limit in ("ROWS", "BYTES", "VALUES", "METADATA"):
        with monkeypatch.context() as patch:
            patch.setattr(f"extrap.reading.exports.MOST_{limit}", N)
            with pytest.raises(DataError, match=f"at most {N} .* have"):
                export_study(STUDY, path, storage=full)
    assert [p.name for p in tmp_path.iterdir()] == ["study.parquet"]
    assert path.read_bytes() == b"before"
    monkeypatch.setattr("extrap.reading.exports.MOST_ROWS", N + 1)
    monkeypatch.setattr("extrap.reading.exports.WRITTEN_AT_ONCE", 2000)
    assert export_study(STUDY, path, storage=full) == N + 1
    assert pq.ParquetFile(path).num_row_groups > 10
    assert len(read_export(path).get_all_studies()) == 4


def changed(sent, path, **cells):
    """The export with the cells of one trial that gave a result replaced."""
    table = pq.read_table(sent)
    rows = table.to_pylist()
    row = next(i for i, each in enumerate(rows) if each["state"] == "COMPLETE")
    rows[row] |= cells
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return path


def told(sent, path, change):
    table = pq.read_table(sent)
    document = json.loads(table.schema.metadata[KEY])
    document = change(document) or document
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(document)}), path)
    return path


DEEP = "[" * 40 + "]" * 40
EVIL = '{"lr": "{\\"name\\": \\"os.system\\", \\"attributes\\": {}}"}'
BAD_CELLS = {
    "study": [None, "sent/width=9", "<script>alert(1)</script>"],
    "number": [None, -1, 2**40],
    "state": ["RUNNING", None],
    "values": [None, [], [1.0, 2.0], [None], [float("nan")]],
    "params": [
        *(None, "no json", "[" * 100_000, "[]", "{}", '{"lr": "0.1"}', '{"lr": 9.0}'),
        *('{"lr": NaN}', '{"lr": [0.1]}', '{"lr": ' + "9" * 5000 + "}"),
    ],
    "distributions": ["{}", '{"lr": 1}', '{"lr": "{}"}', EVIL],
    "user_attrs": [
        *("1", '{"result": 1}', '{"curve": [[1]]}', '{"curve": "abc"}', '{"seed": 1.5}'),
        *('{"seed": "1"}', '{"result": {"status": {}}}', '{"a": ' + DEEP + "}"),
        '{"a": ' + "[" * 900 + "]" * 900 + "}",
    ],
    "intermediate_values": ["{}", "[[1]]", '[["1", 2]]', "[[1, 1" + "0" * 400 + "]]"],
}


@pytest.mark.parametrize("column", BAD_CELLS)
def test_a_trial_that_is_none_is_refused(column, sent, back, tmp_path):
    path = tmp_path / "bad.parquet"
    for cell in BAD_CELLS[column]:
        with pytest.raises(DataError, match=OURS) as caught:
            import_study(STUDY, changed(sent, path, **{column: cell}), storage=back)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500 + len(str(path))
        assert not (tmp_path / "back.db").exists()


BAD_STUDIES = [
    *({"name": name} for name in ("nothing", "sent/width=nan", "sent/width=-1")),
    *({"name": name} for name in (["sent/width=8"], "sent/" + "w" * 5000 + "=8")),
    {"directions": ["MAXIMIZE"]},
    {"attributes": []},
]
BAD_ATTRIBUTES = [
    *({"fingerprint": [1]}, {"fingerprint": None}, {"deep": json.loads(DEEP)}),
    *({"sealed:abc": "yesterday"}, {"sealed:abc": 3}, {"sealed:abc": "2026-01-01T00:00:00"}),
    {"schema": SCHEMA_VERSION + 1},
]
BAD_TOLD = [
    *(lambda _: [1], lambda _: {"format": 1}, lambda d: d["studies"].append(d["studies"][0])),
    *((lambda d, f=f: d.update(format=f)) for f in ("1", 0, True, 2)),
    *((lambda d, s=s: d.update(studies=s)) for s in ({}, [1])),
    *((lambda d, c=c: d["studies"][0].update(c)) for c in BAD_STUDIES),
    *((lambda d, a=a: d["studies"][0]["attributes"].update(a)) for a in BAD_ATTRIBUTES),
]


@pytest.mark.parametrize("change", BAD_TOLD)
def test_metadata_that_are_none_are_refused(change, sent, tmp_path):
    with pytest.raises(ExtrapError) as caught:
        read_export(told(sent, tmp_path / "bad.parquet", change))
    assert "\n" not in str(caught.value)


def test_other_files_are_refused(sent, tmp_path):
    path = tmp_path / "bad.parquet"
    table, content = pq.read_table(sent), sent.read_bytes()
    for bad in (
        *(b"", b"PAR1", content[: len(content) // 2], b"PAR1" + b"\xff" * 1000 + b"PAR1"),
        table.replace_schema_metadata(None),
        table.drop_columns(["params"]),
        table.append_column("more", table["number"]),
        table.set_column(1, "number", table["study"]),
    ):
        path.write_bytes(bad) if isinstance(bad, bytes) else pq.write_table(bad, path)
        with pytest.raises(DataError, match=OURS):
            read_export(path)
    with pytest.raises(DataError, match="there is no file"):
        read_export(tmp_path / "none.parquet")


LIMITS = {"ROWS": N, "BYTES": 1000, "VALUES": 2000, "METADATA": 100}


@pytest.mark.parametrize(("limit", "too_little"), [*LIMITS.items(), ("LONGEST_TEXT", 10)])
def test_a_file_that_unpacks_to_too_much_is_refused(limit, too_little, sent, monkeypatch):
    name = limit if limit == "LONGEST_TEXT" else f"MOST_{limit}"
    monkeypatch.setattr(f"extrap.reading.exports.{name}", too_little)
    with pytest.raises(DataError, match=OURS):
        read_export(sent)


def test_what_unpacks_to_too_much_is_not_parsed(sent, tmp_path, monkeypatch):
    """Files of a few kilobytes: one long text that all rows share, and many small values."""
    parsed, load = [], json.loads

    def loads(text):
        parsed.append(len(text))
        return load(text)

    table = pq.read_table(sent)
    rows = table.filter(pa.compute.equal(table["state"], "COMPLETE")).slice(0, 1).to_pylist()
    path = tmp_path / "bomb.parquet"
    monkeypatch.setattr("extrap.reading.exports.json.loads", loads)
    for long, n_rows in (('{"a": "' + "x" * 2**20 + '"}', 200), ("[" + "[]," * 4_000_000, 1)):
        many = [{**rows[0], "number": i, "user_attrs": long} for i in range(n_rows)]
        pq.write_table(pa.Table.from_pylist(many, schema=table.schema), path, compression="zstd")
        assert path.stat().st_size < 100_000
        with pytest.raises(DataError, match="more than"):
            read_export(path)
        assert max(parsed) < 100_000


@pytest.mark.parametrize("state", ["PRUNED", "COMPLETE"])
def test_a_result_without_a_value_is_neither_written_nor_read(state, full, sent, back, tmp_path):
    path = tmp_path / "bad.parquet"
    with pytest.raises(DataError, match="without a value"):
        import_study(STUDY, changed(sent, path, state=state, values=None), storage=back)
    shutil.copy(full.removeprefix("sqlite:///"), tmp_path / "study.db")
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection, connection:
        connection.execute("UPDATE trials SET state = ? WHERE trial_id = 9", [state])
        connection.execute("DELETE FROM trial_values WHERE trial_id = 9")
    broken = f"sqlite:///{tmp_path}/study.db"
    assert export_study(STUDY, tmp_path / "x.parquet", storage=broken) == N
    (note,) = read_study(SPEC, broken).notes[:1]
    assert "was left out: it has not one value" in note
    assert len(tune(SPEC, broken, train=known_as_ours(loss_of))) == N  # it is trained again


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_broken_bytes_are_at_worst_an_error(data, sent, tmp_path):
    content = bytearray(sent.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "broken.parquet").write_bytes(bytes(content))
    with suppress(ExtrapError):
        read_export(tmp_path / "broken.parquet")


def test_broken_metadata_of_a_column_are_at_worst_an_error(sent, tmp_path):
    """Empty lists of the footer that claim four entries: pyarrow aborted the process at some."""
    content, path = sent.read_bytes(), tmp_path / "broken.parquet"
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places = [i for i in range(footer, len(content) - 8) if content[i] == 6]
    assert len(places) > 20
    for i in places:
        path.write_bytes(content[:i] + b"\x4b" + content[i + 1 :])
        with suppress(ExtrapError):
            read_export(path)
