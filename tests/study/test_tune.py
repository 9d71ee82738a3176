import gc
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from optuna import get_all_study_names
from optuna.trial import TrialState

from extrap.analyses.sweep.study import ForecastKind
from extrap.errors import DataError, StudyError
from extrap.records import OPTUNA_SAMPLERS, Cell, TunedRange, Workload
from extrap.study import dry_run, tune
from extrap.study.database import open_storage
from extrap.study.driver import train
from extrap.study.progress import TuneEvent
from tests.study.trials import OWN, SPEC, excess_curve, trials_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The study run once with our own training, and what was heard of it."""
    path, events = tmp_path_factory.mktemp("trained") / "study.db", list[TuneEvent]()
    return tune(SPEC, f"sqlite:///{path}", notify=events.append), events


def test_a_table_of_cells_is_trained(url):
    table = pd.DataFrame({"width": [8, 24], "lr": [0.03, 0.02], "seed": [0, 5], "cost": 1})
    runs = tune(OWN, url, train=excess_curve, extend=table)
    assert runs.to_frame()[["width", "lr", "seed"]].to_numpy().tolist() == [
        [8, 0.03, 0],
        [24, 0.02, 5],
    ]
    with pytest.raises(DataError, match="no column 'seed'"):
        tune(OWN, url, train=excess_curve, extend=table.drop(columns="seed"))


def test_every_cell_of_the_grid_is_trained_once_and_told(trained):
    runs, events = trained
    done = [event.cost_done for event in events]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(events[-1].cost_total)
    n_runs = Counter[float]()
    for event in events:
        n_runs[event.size["width"]] += event.n_runs * event.is_finished
    assert n_runs == {8.0: 6, 16.0: 6}
    frame = runs.to_frame()
    cells = [
        Cell.of({"width": w}, {"lr": lr}, s)
        for w, lr, s in zip(frame["width"], frame["lr"], frame["seed"], strict=True)
    ]
    assert cells == list(SPEC.grid_cells())
    assert set(frame["status"]) == {"complete"}
    assert set(runs.conditions) > {"workload", "steps", "optimizer"}
    assert frame["n_params"].nunique() == 2
    assert set(frame["depth"]) == {3}  # options at their defaults are columns too
    assert set(frame["corpus_bytes"]) == {60_000}
    assert frame["epochs"].tolist() == [64 / (60_000 - 20_000 - 16)] * 12
    assert "corpus_sha256" not in frame
    curves = runs.curves()
    assert curves is not None
    assert list(curves[curves["run"] == 0]["step"]) == [2, 4, 6, 8]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(url, is_enabled):
    states = []

    def extend(_):
        states.append(gc.isenabled())
        return OWN.grid_cells()[:1]

    (gc.enable if is_enabled else gc.disable)()
    try:
        tune(OWN, url, train=excess_curve, extend=extend)
    finally:
        gc.enable()
    assert set(states) == {is_enabled}


def copied(path, url):
    shutil.copy(path, url.removeprefix("sqlite:///"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The storage of the study trained by `excess_curve`."""
    path = tmp_path_factory.mktemp("excess_curve") / "study.db"
    tune(SPEC, f"sqlite:///{path}", train=excess_curve)
    return path


def test_measured_noise_comes_back_beside_the_curves(url):
    spec = replace(SPEC, sizes={"width": (8,)}, seeds=(0,))
    runs = tune(replace(spec, recipe=replace(spec.recipe, noise_every=2)), url)
    curves = runs.curves()
    assert curves is not None
    assert curves[["grad_sq_norm", "grad_cov_trace"]].notna().all(axis=None)
    assert "noise_scale" in runs.to_frame()
    with pytest.raises(StudyError, match="noise_every: 2 in the"):
        tune(spec, url)


def test_sizes_and_seeds_may_grow_and_larger_runs_are_kept_apart(url, finished):
    copied(finished, url)
    grown = replace(SPEC, sizes={"width": (8, 16, 32)}, seeds=(0, 1, 2))
    events: list[TuneEvent] = []
    assert len(tune(grown, url, train=excess_curve, notify=events.append)) == 27
    assert sum(event.is_finished for event in events) == 27 - 12
    cell = Cell.of({"width": 512}, {"lr": 0.9}, 0)
    runs = tune(SPEC, url, train=excess_curve, stage="check", extend=lambda _: [cell])
    assert list(runs.to_frame()["stage"]) == ["check"]
    tuned = {f"small/width={width}" for width in (8, 16, 32)}
    assert set(get_all_study_names(open_storage(url))) == {*tuned, "small/check/width=512"}


def test_a_grid_grows_as_in_a_study_and_says_so_once(url, tmp_path, caplog):
    spec = replace(OWN, growth=2, tune={"lr": TunedRange(low=2**-8, high=2**-6, n=3)}, seeds=(0,))
    runs = tune(spec, url, train=excess_curve)
    assert sorted(runs.to_frame()["lr"].unique()) == [2.0**i for i in range(-8, -3)]
    said = [message for message in caplog.messages if "grows" in message]
    assert [("width 8" in line, "width 16" in line, "by 2 runs" in line) for line in said] == [
        (True, False, True),
        (False, True, True),
    ]
    caplog.clear()
    assert tune(spec, url, train=excess_curve).data_hash() == runs.data_hash()
    assert caplog.messages == []
    lines = list[str]()
    study = ForecastKind(spec, excess_curve)
    train(study, f"sqlite:///{tmp_path}/other.db", reports=tmp_path, say=lines.append)
    assert lines == said
    assert "6 runs (up to 8 more" in dry_run(study)


def test_larger_runs_need_to_be_handed_in(url):
    with pytest.raises(ValueError, match="needs extend="):
        tune(SPEC, url, stage="check")
    with pytest.raises(ValueError, match="stage must be"):
        tune(SPEC, url, stage="later")


def test_a_killed_study_goes_on_where_it_was_and_ends_with_the_same_table(url, tmp_path, trained):
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal\n"
        "from tests.study.trials import OWN, SPEC, hit_at_half, train_here\n"
        "from extrap.study import tune\n"
        "train_here()\n"
        "hit_at_half(16, lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
        f"tune(SPEC, {url!r})\n"
    )
    killed = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(trials_of(url)) <= 6  # the last of them may just have been written
    assert tune(SPEC, url).data_hash() == trained[0].data_hash()
    complete = [trial for trial in trials_of(url) if trial.state == TrialState.COMPLETE]
    assert len(complete) == len(SPEC.grid_cells())


def test_resuming_with_other_settings_or_data_names_every_difference(url, finished, tmp_path):
    copied(finished, url)
    deep = Workload(name="bytes-mlp", options={"depth": 2})
    for changed, named in (
        (
            replace(SPEC, tune={**SPEC.tune, "eps": SPEC.tune["lr"]}),
            "tuned: lr in .*eps, lr now",
        ),
        (replace(SPEC, sizes={**SPEC.sizes, "depth": (1,)}), "sizes: width in "),
        (replace(SPEC, workload=deep), "workload.depth: nothing "),
        (replace(SPEC, sampler="tpe"), "sampler: grid in "),
    ):
        with pytest.raises(StudyError, match=named):
            tune(changed, url, train=excess_curve)
    # a function of one's own has no recipe
    tune(replace(SPEC, recipe=replace(SPEC.recipe, steps=9)), url, train=excess_curve)
    with pytest.raises(StudyError, match=r"recipe\.steps: nothing"):
        tune(SPEC, url)
    text = tmp_path / "text" / "a.txt"
    text.parent.mkdir()
    text.write_text("some text, and then some more. " * 2000)
    options = {**SPEC.workload.options, "corpus": str(text.parent)}
    spec = replace(SPEC, workload=replace(SPEC.workload, options=options), sizes={"width": (8,)})
    tune(replace(spec, name="text"), url)
    text.write_text("another text, and then some more. " * 2000)
    with pytest.raises(StudyError, match=r"data\.corpus_sha256"):
        tune(replace(spec, name="text"), url)


def fails(size, tuned, seed):
    raise KeyError("x")


@pytest.mark.parametrize(
    "change",
    [
        {"sampler": "tpe", "tune": {"lr": TunedRange(low=2**-9, high=2**-3, n=6)}},
        {"tune": {"rate": SPEC.tune["lr"]}, "sizes": {"depth": (1, 2), "width": (8, 16)}},
        {"path": {"depth": "width / 8"}},
    ],
)
def test_a_study_without_a_result_takes_any_settings(url, change):
    spec = replace(OWN, seeds=(0,))
    with pytest.raises(KeyError):
        tune(spec, url, train=fails)
    changed = replace(spec, **change)
    assert len(tune(changed, url, train=lambda *_: 2.0)) == len(changed.grid_cells())
    with pytest.raises(StudyError, match="has results"):
        tune(spec, url, train=fails)


@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_a_study_with_results_takes_another_grid(url, sampler):
    spec = replace(OWN, seeds=(0, 1), sampler=sampler)
    before = tune(spec, url, train=excess_curve)
    moved = replace(spec, tune={"lr": TunedRange(low=2**-7, high=2**-2, n=6)}, seeds=(0, 1, 2))
    runs = tune(moved, url, train=excess_curve)
    if sampler == "grid":
        cells = {*spec.grid_cells(), *moved.grid_cells()}
        assert len(runs) == len(cells) > len(moved.grid_cells()) > len(before)
    else:
        assert len(runs) == len(moved.grid_cells())
        assert runs.to_frame()["lr"].max() > 2**-4  # beyond the range at first


def test_a_diverged_run_tells_the_sampler_its_initial_loss(url):
    (trial,) = tune(
        replace(SPEC, seeds=(0,)), url, extend=lambda _: [Cell.of({"width": 8}, {"lr": 9}, 0)]
    ) and trials_of(url)
    assert trial.state == TrialState.COMPLETE
    assert trial.value == pytest.approx(5.5, abs=0.3)
    assert trial.user_attrs["result"]["status"] == "diverged"


@pytest.mark.parametrize("sampler", OPTUNA_SAMPLERS)
def test_optuna_samples_as_many_runs_as_the_grid_and_prunes(url, sampler):
    spec = replace(
        SPEC,
        sampler=sampler,
        sizes={"width": (8,)},
        tune={"lr": TunedRange(low=2**-9, high=2**-1, n=8)},
        recipe=replace(SPEC.recipe, steps=20, n_evals=10),
    )
    runs = tune(spec, url)
    counts = runs.counts()
    assert len(runs) == 16
    assert counts["pruned"] > 0
    assert counts["complete"] >= 5
    assert set(runs.to_frame()["seed"]) == {0, 1}
    again = tune(spec, url)
    assert again.data_hash() == runs.data_hash()
    assert len(trials_of(url)) == 16


def test_every_pack_is_reported_to_the_pruner_at_tenths_of_its_own_length(url):
    """Two batch sizes and a data size: packs of different lengths in one round of sampling."""
    spec = replace(
        SPEC,
        sampler="tpe",
        sizes={"width": (8,), "tokens": (1280,)},
        tune={
            "lr": TunedRange(low=2**-9, high=2**-5, n=4),
            "batch_size": TunedRange(low=4, high=16, n=3),
        },
        seeds=(0,),
    )
    tune(replace(spec, recipe=replace(spec.recipe, n_evals=20)), url)
    trials = trials_of(url)
    drawn = [trial.params["batch_size"] for trial in trials]
    assert len(set(drawn)) > 3
    assert all(isinstance(batch, int) and 4 <= batch <= 16 for batch in drawn)
    for trial in trials:
        steps = list(trial.intermediate_values)
        assert steps == list(range(1, len(steps) + 1))
        is_pruned = trial.user_attrs["result"]["status"] == "pruned"
        assert 3 <= len(steps) < 10 if is_pruned else len(steps) == 10
