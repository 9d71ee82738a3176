import optuna
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

optuna.logging.set_verbosity(optuna.logging.WARNING)
RATES = (0.01, 0.02, 0.04)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/theirs.db"


def loss_at(width, lr):
    return 1 + 8 / width + 100 * (lr - 0.02) ** 2


def score_at(width, lr):
    return 1 - loss_at(width, lr) / 4


LOSSES = [loss_at(width, lr) for width in (16, 32, 64) for lr in RATES]


def study(url, name="theirs", values=loss_at, *, width=None, **options):
    """A sweep as anybody would make it, of one width or with the width as an attribute."""
    made = optuna.create_study(storage=url, study_name=name, **options)
    for own in (width,) if width else (16, 32, 64):
        for lr in RATES:
            trial = made.ask()
            trial.suggest_float("lr", lr, lr)
            if not width:
                trial.set_user_attr("width", own)
            made.tell(trial, values(own, lr))
    return made


def losses(url, **options):
    return read_runs(url, **{"size": "width", **options}).to_frame()["loss"].tolist()


def test_tuned_columns_are_those_that_the_study_tuned_and_nothing_is_written(url, tmp_path):
    study(url).set_user_attr("optimizer", "adam")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    runs = read_runs(url, size="width", conditions="optimizer")
    assert runs.to_frame()["loss"].tolist() == LOSSES
    assert runs.tuned == ("lr",)
    assert set(runs.to_frame()["optimizer"]) == {"adam"}
    assert read_runs(url, size="width", tune=()).tuned == ()
    assert read_runs(url, size="width", conditions="lr").tuned == ()  # it has a part already
    again = read_runs(url, size="width", tune="lr", conditions="optimizer")
    assert again.data_hash() == runs.data_hash()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_study_that_maximises_is_turned_into_losses(url):
    study(url, values=score_at, direction="maximize")
    assert losses(url) == pytest.approx([loss / 4 for loss in LOSSES])
    assert "the loss is 1 − value" in " ".join(read_runs(url, size="width").notes)


def test_one_of_several_objectives_is_chosen_by_its_name(url):
    both = ["minimize", "maximize"]
    made = study(url, values=lambda w, lr: (loss_at(w, lr), score_at(w, lr)), directions=both)
    assert losses(url, loss="values_0") == LOSSES
    assert losses(url, loss="values_1") == pytest.approx([loss / 4 for loss in LOSSES])
    with pytest.raises(DataError, match='loss="values_0"; loss="values_1"'):
        losses(url)
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        made.set_metric_names(["nll", "accuracy"])
    assert losses(url, loss="nll") == LOSSES


def test_sweeps_of_several_names_need_one_of_them(url):
    for width in (16, 32):
        study(url, f"adam-width{width}", width=width)
        study(url, f"sgd-width{width}", width=width)
    with pytest.raises(DataError, match="adam-width, sgd-width; name one"):
        losses(url)
    with pytest.raises(DataError, match="no study 'three'"):
        losses(url, study="three")
    assert len(losses(url, study="sgd-width")) == 6
    assert len(losses(url, size="lr", tune=(), study="sgd-width16")) == 3


def test_a_study_named_after_its_size_may_tune_what_is_no_number(url):
    for width in (16, 32):
        made = optuna.create_study(storage=url, study_name=f"theirs/width={width}")
        for lr in (*RATES, RATES[0]):  # a repeated trial is a run of its own
            trial = made.ask()
            trial.suggest_float("lr", lr, lr)
            trial.suggest_categorical("optimizer", ["adam"])
            trial.report(3.0, step=1)
            made.tell(trial, loss_at(width, lr))
    runs = read_runs(url)
    assert (runs.sizes, runs.tuned, len(runs)) == (("width",), ("lr",), 8)
    assert runs.curves()["loss"].tolist() == [3.0] * 8


@pytest.mark.parametrize("pattern", ["adam_width{}", "2026-11-{} width{}", "width={} v1"])
def test_one_study_a_size_is_found_by_the_number_behind_the_name_of_a_size(url, pattern):
    for width in (16, 32, 64):
        study(url, pattern.format(*[width] * pattern.count("{}")), width=width)
    runs = read_runs(url)
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    assert runs.to_frame()["width"].tolist() == [w for w in (16, 32, 64) for _ in RATES]
    assert runs.to_frame()["loss"].tolist() == LOSSES
    with pytest.raises(DataError, match="lr is a tuned parameter"):
        read_runs(url, size="lr")


@pytest.mark.parametrize(
    "names",
    [["tiny", "small-32", "base-64"], ["exp-16", "exp-32", "exp-64"], ["a-8", "b-16", "c-32"]],
)
def test_studies_of_any_name_are_one_sweep_by_an_attribute_of_theirs(url, names):
    for name, width in zip(names, (16, 32, 64), strict=True):
        study(url, name, width=width)
    with pytest.raises(DataError, match=r"NAME/SIZE=VALUE.*set_user_attr") as caught:
        read_runs(url)
    assert [choice.arguments for choice in caught.value.choices] == [{"study": n} for n in names]
    for name, width in zip(names, (16, 32, 64), strict=True):
        optuna.load_study(study_name=name, storage=url).set_user_attr("d_model", width)
    runs = read_runs(url)
    assert runs.sizes == ("d_model",)
    assert runs.to_frame()["d_model"].tolist() == [w for w in (16, 32, 64) for _ in RATES]
    assert any("one sweep" in note for note in runs.notes)


def test_studies_that_tuned_something_else_are_no_sweep(url):
    for name, width in (("a", 16), ("b", 32), ("c", 64)):
        study(url, name, width=width).set_user_attr("width", width)
    made = optuna.create_study(storage=url, study_name="d")
    made.set_user_attr("width", 128)
    trial = made.ask()
    trial.suggest_float("momentum", 0.9, 0.9)
    made.tell(trial, 1.0)
    with pytest.raises(DataError, match="a, b, c, d; name one"):
        read_runs(url)
