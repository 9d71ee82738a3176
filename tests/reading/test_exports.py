import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extrap import forecast
from extrap.documents import content_hash
from extrap.errors import DataError, ExtrapError, StudyError
from extrap.reading.storages import open_to_read
from extrap.records import Cell, RunResult, StudySpec, TunedRange
from extrap.study import read_study, tune
from extrap.study.database import open_storage
from extrap.study.forecasts import ForecastKind
from extrap.study.transfer import export_study, import_study
from extrap.study.trials import DRIVER, IMPORTED_SEAL, SEALED, first_sealed

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
    created = first_sealed(open_storage(url), SPEC.name, content, made.created)
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
    path = tmp_path_factory.mktemp("sent") / "sent.db"
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
    assert seals(full, DRIVER) != {"": {}} == seals(f"sqlite:///{sent}", DRIVER)
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


def test_a_file_is_a_storage_that_tells_nothing_of_addresses(full, sent):
    url = f"sqlite:///{sent}"
    assert read_study(SPEC, url).data_hash() == read_study(SPEC, full).data_hash()
    studies = open_to_read(url).get_all_studies()
    assert len(studies) == 4
    assert seals(url) == seals(full)
    assert b"study.db" not in sent.read_bytes()


def test_an_export_is_whole_or_not_there(full, tmp_path, monkeypatch):
    path = tmp_path / "study.db"
    path.write_bytes(b"before")

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("optuna.storages.RDBStorage._create_new_trial", stop)
        with pytest.raises(KeyboardInterrupt):
            export_study(STUDY, path, storage=full)
    with pytest.raises(DataError, match=r"ends in \.db"):
        export_study(STUDY, tmp_path / "study.csv", storage=full)
    with pytest.raises(DataError, match="none of other yet"):
        export_study(ForecastKind(replace(SPEC, name="other")), path, storage=full)
    with pytest.raises(DataError, match="there is no storage"):
        export_study(STUDY, path, storage=f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(DataError, match="another file than the storage"):
        export_study(STUDY, path, storage=f"sqlite:///{path}")
    assert [p.name for p in tmp_path.iterdir()] == ["study.db"]
    assert path.read_bytes() == b"before"
    assert export_study(STUDY, path, storage=full) == N + 1


@pytest.mark.parametrize("state", ["PRUNED", "COMPLETE"])
def test_a_result_without_a_value_is_neither_written_nor_read(state, full, back, tmp_path):
    shutil.copy(full.removeprefix("sqlite:///"), tmp_path / "study.db")
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection, connection:
        connection.execute("UPDATE trials SET state = ? WHERE trial_id = 9", [state])
        connection.execute("DELETE FROM trial_values WHERE trial_id = 9")
    broken = f"sqlite:///{tmp_path}/study.db"
    assert export_study(STUDY, tmp_path / "x.db", storage=broken) == N
    assert import_study(STUDY, tmp_path / "study.db", storage=back).n_copied == N - 1
    (note,) = read_study(SPEC, broken).notes[:1]
    assert note.startswith("Trial 8 ")
    assert len(tune(SPEC, broken, train=known_as_ours(loss_of))) == N  # it is trained again


def test_other_files_are_refused(sent, back, tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        import_study(STUDY, tmp_path / "none.db", storage=back)
    path, content = tmp_path / "bad.db", sent.read_bytes()
    for bad in (b"SQLite format 3\0", content[: len(content) // 2], b"\xff" * 1000):
        path.write_bytes(bad)
        with pytest.raises((DataError, StudyError)):
            import_study(STUDY, path, storage=back)


QUIET = [HealthCheck.function_scoped_fixture]


@settings(suppress_health_check=QUIET, max_examples=20, deadline=None)
@given(data=st.data())
def test_broken_bytes_are_at_worst_an_error(data, sent, tmp_path):
    content = bytearray(sent.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "broken.db").write_bytes(bytes(content))
    with suppress(ExtrapError):
        import_study(STUDY, tmp_path / "broken.db", storage=f"sqlite:///{tmp_path}/to.db")
