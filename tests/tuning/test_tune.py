from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from extrap.errors import StudyError
from extrap.reading.optuna import study_names
from extrap.reading.storages import open_storage
from extrap.records import OPTUNA_SAMPLERS, Cell, Recipe, Runs, StudySpec, TunedRange, Workload
from extrap.records.study import RunResult
from extrap.tuning import TuneEvent, tune
from extrap.tuning.ledger import Ledger
from extrap.tuning.processes import this_process

SPEC = StudySpec(
    name="small",
    question="Does tuning work?",
    workload=Workload(
        name="bytes-mlp",
        options={"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256},
    ),
    sizes={"width": (8, 16)},
    tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)},
    recipe=Recipe(steps=8, batch_size=8, n_evals=4),
    seeds=(0, 1),
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/inner/study.db"


def valley(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    return 1 + 1 / size["width"] + (tuned["lr"] - 0.02) ** 2 + 0.001 * seed


def trials_of(url: str) -> list[optuna.trial.FrozenTrial]:
    storage = open_storage(url)
    return [
        trial
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name))
    ]


def test_every_cell_of_the_grid_is_trained_once(url: str) -> None:
    runs = tune(SPEC, url)
    frame = runs.to_frame()
    cells = [
        Cell.of({"width": w}, {"lr": lr}, s)
        for w, lr, s in zip(frame["width"], frame["lr"], frame["seed"], strict=True)
    ]
    assert cells == list(SPEC.grid_cells())
    assert set(frame["status"]) == {"complete"}
    assert set(runs.conditions) > {"workload", "steps", "optimizer"}
    assert frame["n_params"].nunique() == 2
    curves = runs.curves()
    assert curves is not None
    assert list(curves[curves["run"] == 0]["step"]) == [2, 4, 6, 8]


def test_measured_noise_comes_back_beside_the_curves(url: str) -> None:
    spec = replace(SPEC, sizes={"width": (8,)}, recipe=replace(SPEC.recipe, noise_every=2))
    runs = tune(spec, url)
    curves = runs.curves()
    assert curves is not None
    assert curves[["grad_sq_norm", "grad_cov_trace"]].notna().all(axis=None)
    assert "noise_scale" in runs.to_frame()
    with pytest.raises(StudyError, match="noise_every: 2 in the storage, nothing now"):
        tune(replace(SPEC, sizes={"width": (8,)}), url)


def test_fields_newer_than_a_storage_matter_only_in_use(url: str) -> None:
    tune(SPEC, url, train=valley)
    assert not {name for name in stored_fingerprint(url) if "noise" in name}


def test_runs_may_have_batches_and_lengths_of_their_own(url: str) -> None:
    ranges = {
        "lr": TunedRange(low=2**-8, high=2**-4, n=2),
        "batch_size": TunedRange(low=4, high=8, n=2),
        "steps": TunedRange(low=4, high=8, n=2),
    }
    cells = tuple(
        Cell.of({"width": 8}, {"lr": 2**-6, "batch_size": b, "steps": s}, 0)
        for b, s in ((4, 8), (8, 4))
    )
    spec = replace(SPEC, sizes={"width": (8,)}, tune=ranges, seeds=(0,))
    runs = tune(spec, url, extend=lambda _: cells)
    assert list(runs.to_frame()["n_tokens"]) == [32, 32]
    curves = runs.curves()
    assert curves is not None
    assert list(curves.groupby("run")["step"].max()) == [8, 4]


def test_options_at_their_defaults_are_columns_too(url: str) -> None:
    frame = tune(replace(SPEC, sizes={"width": (8,)}), url).to_frame()
    assert set(frame["depth"]) == {3}
    assert set(frame["corpus_bytes"]) == {60_000}
    assert frame["epochs"].tolist() == [64 / (60_000 - 20_000 - 16)] * 6
    assert "corpus_sha256" not in frame


def test_a_storage_from_before_options_were_conditions_is_read(url: str) -> None:
    spec = replace(SPEC, workload=Workload(name="mine", options={"depth": 5, "place": "here"}))
    tune(spec, url, train=valley)
    storage = open_storage(url)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:  # as it was written then
        key = "key = 'conditions'"
        (text,) = database.execute(
            f"SELECT value_json FROM trial_user_attributes WHERE {key}"
        ).fetchone()
        old = {name: value for name, value in json.loads(text).items() if name != "depth"}
        database.execute(
            f"UPDATE trial_user_attributes SET value_json = ? WHERE {key}", (json.dumps(old),)
        )
    database.close()
    storage.remove_session()
    frame = tune(spec, url, train=valley).to_frame()
    assert set(frame["depth"]) == {5}
    assert "place" not in frame


def test_a_finished_study_trains_nothing_again(url: str) -> None:
    first = tune(SPEC, url, train=valley)
    events: list[TuneEvent] = []
    again = tune(SPEC, url, train=valley, notify=events.append)
    assert again.data_hash() == first.data_hash()
    assert events == []
    assert len(trials_of(url)) == len(SPEC.grid_cells())


def test_sizes_and_seeds_may_grow(url: str) -> None:
    tune(SPEC, url, train=valley)
    grown = replace(SPEC, sizes={"width": (8, 16, 32)}, seeds=(0, 1, 2))
    events: list[TuneEvent] = []
    runs = tune(grown, url, train=valley, notify=events.append)
    assert len(runs) == 27
    assert sum(event.is_finished for event in events) == 27 - 12


def test_extend_is_asked_until_it_wants_nothing_more(url: str) -> None:
    def one_more_rate(runs: object) -> list[Cell]:
        n = min(4, 1 + len(runs))  # type: ignore[arg-type]
        return [Cell.of({"width": 8}, {"lr": 2.0**-i}, 0) for i in range(n)]

    assert len(tune(SPEC, url, train=valley, extend=one_more_rate)) == 4


def test_progress_goes_on_when_more_is_wanted(url: str) -> None:
    cells = SPEC.grid_cells()
    events: list[TuneEvent] = []

    def two_more(runs: Runs) -> tuple[Cell, ...]:
        return cells[: len(runs) + 2]

    tune(SPEC, url, train=valley, extend=two_more, notify=events.append)
    done = [event.cost_done for event in events]
    assert done == sorted(done)
    assert all(event.cost_done <= event.cost_total for event in events)
    assert events[-1].cost_total == pytest.approx(len(cells) * events[0].cost_total / 2)


def test_a_sampler_that_asks_for_runs_needs_to_be_handed_in(url: str) -> None:
    with pytest.raises(ValueError, match="sampler='law' needs extend="):
        tune(replace(SPEC, sampler="law"), url, train=valley)


def test_larger_runs_live_in_studies_of_their_own(url: str) -> None:
    tune(SPEC, url, train=valley)
    cell = Cell.of({"width": 512}, {"lr": 0.9}, 0)
    runs = tune(SPEC, url, train=valley, stage="check", extend=lambda _: [cell])
    assert list(runs.to_frame()["stage"]) == ["check"]
    assert set(study_names(open_storage(url))) == {
        "small/width=8",
        "small/width=16",
        "small/check/width=512",
    }


def test_a_killed_study_goes_on_where_it_was_and_ends_with_the_same_table(
    url: str, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_tune import SPEC\n"
        "from extrap.tuning import tune\n"
        "def kill(event):\n"
        "    if event.size == {'width': 16} and event.fraction == 0.5:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"tune(SPEC, {url!r}, notify=kill)\n"
    )
    root = str(Path(__file__).parents[2])
    killed = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    states = [trial.state for trial in trials_of(url)]
    assert states == [TrialState.COMPLETE] * 6 + [TrialState.RUNNING] * 6

    resumed = tune(SPEC, url)
    whole = tune(SPEC, f"sqlite:///{tmp_path}/whole.db")
    assert resumed.data_hash() == whole.data_hash()
    complete = [trial for trial in trials_of(url) if trial.state == TrialState.COMPLETE]
    assert len(complete) == len(SPEC.grid_cells())
    assert resumed.notes == ("6 interrupted attempts were left out.",)


def test_ctrl_c_frees_the_cells_at_once(url: str) -> None:
    def interrupt(event: TuneEvent) -> None:
        if event.fraction == 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(SPEC, url, notify=interrupt)
    assert {trial.state for trial in trials_of(url)} == {TrialState.FAIL}
    assert len(tune(SPEC, url)) == 12


def test_an_error_of_ones_own_function_passes_through_and_frees_its_cell(url: str) -> None:
    def broken(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        tune(SPEC, url, train=broken)
    assert [trial.state for trial in trials_of(url)] == [TrialState.FAIL]


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (-1.0, ValueError, "must be a positive number, got -1.0"),
        (None, TypeError, "got None"),
        (
            RunResult(cell=Cell.of({"width": 8}, {"lr": 9}, 0), status="complete", loss=1.0),
            ValueError,
            "must answer for the cell it was given",
        ),
    ],
)
def test_a_wrong_answer_of_ones_own_function_leaves_nothing_behind(
    url: str, answer: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tune(SPEC, url, train=lambda size, tuned, seed: answer)  # type: ignore[arg-type,return-value]
    assert [trial.state for trial in trials_of(url)] == [TrialState.FAIL]


def test_a_cell_belongs_to_its_lowest_numbered_trial(url: str) -> None:
    ledgers = [Ledger(open_storage(url), SPEC, stage="tune", fingerprint={}) for _ in range(2)]
    cells = list(SPEC.grid_cells()[:3])
    with ledgers[0].claimed(cells) as first, ledgers[1].claimed(cells) as second:
        assert [claim.cell for claim in first] == cells
        assert second == []
        for claim in first:
            result = RunResult(cell=claim.cell, status="complete", loss=1.0)
            ledgers[0].tell(claim, result)
    states = [trial.state for trial in trials_of(url)]
    assert states == [TrialState.COMPLETE] * 3 + [TrialState.FAIL] * 3


@pytest.mark.parametrize(
    ("change", "is_freed"),
    [
        ({}, False),
        ({"pid": 2**22 + 1}, True),  # above the largest process id there can be
        ({"created": 1.0, "start": 1}, True),  # another process has got the number since
        ({"host": "elsewhere"}, False),
    ],
)
def test_only_cells_of_dead_processes_are_freed(
    url: str, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], is_freed: bool
) -> None:
    ledger = Ledger(open_storage(url), SPEC, stage="tune", fingerprint={})
    owner = {**this_process(), **change}
    monkeypatch.setattr("extrap.tuning.ledger.this_process", lambda: owner)
    with ledger.claimed([SPEC.grid_cells()[0]]):
        assert bool(ledger.taken()) != is_freed


def test_cells_of_a_process_at_work_are_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cells = list(SPEC.grid_cells()[:2])
    tune(SPEC, url, train=valley, extend=lambda _: cells[:1])
    other = Ledger(open_storage(url), SPEC, stage="tune", fingerprint=stored_fingerprint(url))

    with other.claimed(cells[1:]) as claims:

        def finish(seconds: float) -> None:
            other.tell(claims[0], RunResult(cell=cells[1], status="complete", loss=7.0))

        monkeypatch.setattr("extrap.tuning.loop.time.sleep", finish)
        runs = tune(SPEC, url, train=valley, extend=lambda _: cells)
    assert 7.0 in set(runs.to_frame()["loss"])
    assert str(os.getpid()) in caplog.text


def stored_fingerprint(url: str) -> dict[str, object]:
    storage = open_storage(url)
    study_id = storage.get_study_id_from_name(study_names(storage)[0])
    return storage.get_study_user_attrs(study_id)["fingerprint"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (replace(SPEC, recipe=replace(SPEC.recipe, steps=9)), "recipe.steps: 8 in the storage, 9"),
        (
            replace(SPEC, tune={"lr": TunedRange(low=2**-8, high=2**-4, n=4)}),
            "tune.lr.n: 3 in the storage, 4 now",
        ),
        (
            replace(SPEC, workload=Workload(name="bytes-mlp", options={"depth": 2})),
            "workload.depth: nothing in the storage, 2 now",
        ),
        (replace(SPEC, sampler="tpe"), "sampler: grid in the storage, tpe now"),
    ],
)
def test_resuming_with_another_recipe_names_every_difference(
    url: str, changed: StudySpec, message: str
) -> None:
    tune(SPEC, url, train=valley)
    with pytest.raises(StudyError, match=message):
        tune(changed, url, train=valley)


def test_resuming_with_other_data_names_the_hash(url: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    (text / "a.txt").write_text("some text, and then some more. " * 2000)
    options = {**SPEC.workload.options, "corpus": str(text)}
    spec = replace(SPEC, workload=replace(SPEC.workload, options=options), sizes={"width": (8,)})
    tune(spec, url)
    (text / "a.txt").write_text("another text, and then some more. " * 2000)
    with pytest.raises(StudyError, match=r"data\.corpus_sha256"):
        tune(spec, url)


def test_a_diverged_run_of_ones_own_function_is_recorded(url: str) -> None:
    def breaks_at_the_top(
        size: Mapping[str, float], tuned: Mapping[str, float], seed: int
    ) -> float:
        return float("nan") if tuned["lr"] > 0.05 else valley(size, tuned, seed)

    runs = tune(SPEC, url, train=breaks_at_the_top)
    assert runs.counts()["diverged"] == 4


def test_a_diverged_run_tells_the_sampler_its_initial_loss(url: str) -> None:
    (trial,) = tune(
        replace(SPEC, seeds=(0,)), url, extend=lambda _: [Cell.of({"width": 8}, {"lr": 9}, 0)]
    ) and trials_of(url)
    assert trial.state == TrialState.COMPLETE
    assert trial.value == pytest.approx(5.5, abs=0.3)
    assert trial.user_attrs["result"]["status"] == "diverged"


@pytest.mark.parametrize("sampler", OPTUNA_SAMPLERS)
def test_optuna_samples_as_many_runs_as_the_grid_and_prunes(url: str, sampler: str) -> None:
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


def test_every_pack_is_reported_to_the_pruner_at_tenths_of_its_own_length(url: str) -> None:
    """Two batch sizes and a data size: packs of different lengths in one round of sampling."""
    spec = replace(
        SPEC,
        sampler="tpe",
        sizes={"width": (8,), "tokens": (2560,)},
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


def test_a_sampled_study_that_was_begun_with_fractions_is_not_gone_on_with(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(
        SPEC,
        sampler="tpe",
        sizes={"width": (8,)},
        tune={**SPEC.tune, "batch_size": TunedRange(low=4, high=16, n=2)},
    )
    with monkeypatch.context() as before:
        before.setattr(StudySpec, "is_whole", lambda spec, name: False)  # as it was once
        tune(replace(spec, seeds=(0,)), url)
    with pytest.raises(StudyError, match="a sampled batch_size is a whole number now, trial 0"):
        tune(spec, url)


def test_sampled_cells_of_another_process_are_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(SPEC, sampler="tpe", sizes={"width": (8,)})
    tune(replace(spec, seeds=(0,)), url, train=valley)
    other = Ledger(open_storage(url), spec, stage="tune", fingerprint=stored_fingerprint(url))
    cells = [Cell.of({"width": 8}, {"lr": 0.02 + 0.001 * i}, 1) for i in range(3)]
    with other.claimed(cells) as claims:

        def finish(seconds: float) -> None:
            for claim in claims:
                result = RunResult(cell=claim.cell, status="complete", loss=7.0)
                other.tell(claim, result)

        monkeypatch.setattr("extrap.tuning.loop.time.sleep", finish)
        runs = tune(spec, url, train=valley)
    assert len(runs) == 6
    assert (runs.to_frame()["loss"] == 7.0).sum() == 3


def test_events_tell_how_far_the_stage_is(url: str) -> None:
    events: list[TuneEvent] = []
    tune(SPEC, url, notify=events.append)
    done = [event.cost_done for event in events]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(events[-1].cost_total)
    finished = [(dict(e.size), e.n_runs) for e in events if e.is_finished]
    assert finished == [({"width": 8.0}, 6), ({"width": 16.0}, 6)]
    assert 0.25 in {event.fraction for event in events}


def test_a_training_function_of_ones_own_needs_no_torch(url: str) -> None:
    code = (
        "import sys\n"
        "from extrap.records import StudySpec, TunedRange, Workload\n"
        "from extrap.tuning import tune\n"
        "spec = StudySpec(name='own', question='', workload=Workload(name='mine'),\n"
        "    sizes={'width': (8, 16)}, tune={'lr': TunedRange(low=.01, high=.1, n=2)})\n"
        f"tune(spec, {url!r}, train=lambda size, tuned, seed: 1.0)\n"
        "assert 'torch' not in sys.modules\n"
    )
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=True
    )


def test_check_runs_need_to_be_named(url: str) -> None:
    with pytest.raises(ValueError, match="needs extend="):
        tune(SPEC, url, stage="check")
    with pytest.raises(ValueError, match="stage must be"):
        tune(SPEC, url, stage="later")
