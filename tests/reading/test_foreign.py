from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

optuna.logging.set_verbosity(optuna.logging.WARNING)
RATES = (0.01, 0.02, 0.04)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/theirs.db"


def loss_at(width: float, lr: float) -> float:
    return 1 + 8 / width + 100 * (lr - 0.02) ** 2


def study(
    url: str,
    name: str,
    values: Callable[[float, float], object],
    *,
    width: int | None = None,
    **options: object,
) -> optuna.Study:
    """A sweep as anybody would make it, of one width or with the width as an attribute."""
    made = optuna.create_study(storage=url, study_name=name, **options)  # type: ignore[arg-type]
    for own in (width,) if width else (16, 32, 64):
        for lr in RATES:
            trial = made.ask()
            trial.suggest_float("lr", lr, lr)
            if not width:
                trial.set_user_attr("width", own)
            made.tell(trial, values(own, lr))  # type: ignore[arg-type]
    return made


def test_tuned_columns_are_those_that_the_study_tuned(url: str) -> None:
    study(url, "theirs", loss_at)
    runs = read_runs(url, size="width")
    assert runs.tuned == ("lr",)
    assert read_runs(url, size="width", tune=()).tuned == ()
    assert read_runs(url, size="width", tune="lr").data_hash() == runs.data_hash()


def test_parameters_that_are_no_positive_numbers_are_named_and_not_tuned(url: str) -> None:
    made = study(url, "theirs", loss_at)
    trial = made.ask()
    trial.suggest_float("lr", 0.01, 0.02)
    trial.suggest_categorical("optimizer", ["adam", "sgd"])
    trial.set_user_attr("width", 16)
    made.tell(trial, 2.0)
    runs = read_runs(url, size="width")
    assert runs.tuned == ("lr",)
    assert runs.notes[0].startswith("optimizer: not every trial has a positive number")
    assert not any("optimizer" in n for n in read_runs(url, size="width", tune="lr").notes[:1])


def test_a_study_that_maximises_is_turned_into_losses(url: str) -> None:
    study(url, "theirs", lambda w, lr: 1 - loss_at(w, lr) / 4, direction="maximize")
    runs = read_runs(url, size="width")
    expected = [loss_at(w, lr) / 4 for w in (16, 32, 64) for lr in RATES]
    assert runs.to_frame()["loss"].tolist() == pytest.approx(expected)
    assert "value is maximised: the loss is 1 − value" in runs.notes


def test_a_metric_without_a_loss_is_read_by_formula(url: str) -> None:
    study(url, "theirs", lambda w, lr: 100 - loss_at(w, lr), direction="maximize")
    with pytest.raises(DataError, match="say what its loss is"):
        read_runs(url, size="width")
    runs = read_runs(url, size="width", let="error = 100 - value", loss="error")
    assert runs.to_frame()["loss"][0] == pytest.approx(loss_at(16, 0.01))


def test_one_of_several_objectives_is_chosen_by_its_name(url: str) -> None:
    made = study(
        url,
        "theirs",
        lambda w, lr: (loss_at(w, lr), 1 - loss_at(w, lr) / 4),
        directions=["minimize", "maximize"],
    )
    first = read_runs(url, size="width", loss="values_0")
    second = read_runs(url, size="width", loss="values_1")
    assert second.to_frame()["loss"].tolist() == pytest.approx(
        [loss / 4 for loss in first.to_frame()["loss"]]
    )
    with pytest.raises(DataError, match="did you mean loss: 'values_0', 'values_1'"):
        read_runs(url, size="width")
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        made.set_metric_names(["nll", "accuracy"])
    named = read_runs(url, size="width", loss="nll")
    assert named.to_frame()["loss"].tolist() == first.to_frame()["loss"].tolist()


@pytest.mark.parametrize("pattern", ["sweep-width={}", "sweep_width{}", "width={} sweep"])
def test_one_study_a_size_is_one_sweep(url: str, pattern: str) -> None:
    for width in (16, 32, 64):
        study(url, pattern.format(width), loss_at, width=width)
    runs = read_runs(url, size="width")
    assert runs.to_frame()["width"].tolist() == [16.0] * 3 + [32.0] * 3 + [64.0] * 3
    assert runs.tuned == ("lr",)
    assert "width was read from the names of the runs" in runs.notes


def test_sweeps_of_several_names_need_one_of_them(url: str) -> None:
    for width in (16, 32):
        study(url, f"adam-width{width}", loss_at, width=width)
        study(url, f"sgd-width{width}", loss_at, width=width)
    with pytest.raises(DataError, match="several studies, adam, sgd; name one"):
        read_runs(url, size="width")
    assert len(read_runs(url, size="width", study="sgd")) == 6
    assert len(read_runs(url, size="lr", tune=(), study="sgd-width16")) == 3


def test_studies_named_like_ours_may_maximise(url: str) -> None:
    for width in (16, 32):
        study(
            url,
            f"theirs/width={width}",
            lambda w, lr: 1 - loss_at(w, lr) / 4,
            width=width,
            direction="maximize",
        )
    runs = read_runs(url, size="width")
    assert runs.to_frame()["loss"][0] == pytest.approx(loss_at(16, 0.01) / 4)


def test_attributes_of_a_study_are_columns(url: str) -> None:
    study(url, "theirs", loss_at).set_user_attr("optimizer", "adam")
    runs = read_runs(url, size="width", conditions="optimizer")
    assert set(runs.to_frame()["optimizer"]) == {"adam"}


def test_the_best_of_what_trials_reported_is_taken(url: str) -> None:
    made = optuna.create_study(storage=url, study_name="theirs", direction="maximize")
    trial = made.ask({"lr": optuna.distributions.FloatDistribution(0.1, 0.2)})
    trial.set_user_attr("width", 16)
    for step, accuracy in enumerate((0.25, 0.75, 0.5)):
        trial.report(accuracy, step)
    made.tell(trial, 0.5)
    assert read_runs(url, size="width", final="best").to_frame()["loss"].tolist() == [0.25]
    assert read_runs(url, size="width").to_frame()["loss"].tolist() == [0.5]


def test_nothing_is_written(url: str, tmp_path: Path) -> None:
    study(url, "theirs", loss_at)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    read_runs(url, size="width")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("version", ["3.0", "3.6", "4.5"])
def test_studies_of_older_versions_that_maximise_are_read(version: str, tmp_path: Path) -> None:
    import sqlite3

    dump = Path(__file__).parent / "storages" / f"optuna-{version}.sql"
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    with pytest.raises(DataError, match="values_0"):
        read_runs(f"sqlite:///{tmp_path}/old.db", study="both", size="width")
