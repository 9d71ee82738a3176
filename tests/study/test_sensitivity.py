"""Sensitivity studies end to end, with a training function whose truth is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.errors import StudyError
from extrap.reading.runs import as_runs
from extrap.records import KnobStudy
from extrap.reporting.sensitivity_page import knobs_document
from extrap.study import dry_run, report, run
from extrap.study.events import TuneEvent
from extrap.study.forecasts import ForecastKind
from extrap.study.sensitivity import SensitivityKind, rank_table
from extrap.study.status import study_status

STUDY = StudySpec(
    name="toy",
    question="?",
    workload=Workload(name="bytes-mlp", options={"depth": 2}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1, warmup=0.1, decay=0.4),
    sizes={"width": (16, 64, 256)},
    tune={"lr": TunedRange(low=2**-9, high=2**-4, n=6)},
    seeds=(0, 1, 2),
)
KNOBS = KnobStudy(
    name="toy-knobs",
    study=STUDY,
    knobs=("warmup", "beta2", "weight_decay", "depth"),
    target={"width": 2048},
)


def toy(size, tuned, seed):
    """The best rate falls as width^-.4; the best warm-up grows as width^.3, the best depth not."""
    x = math.log2(size["width"] / 64)
    off = {
        "lr": math.log2(tuned["lr"]) + 6 + 0.4 * x,
        "warmup": math.log2(tuned.get("warmup", 0.1) / 0.1) - 0.3 * x,
        "beta2": 0.5 * math.log2((1 - tuned.get("beta2", 0.999)) / 0.001),
        "depth": math.log2(size.get("depth", 2) / 2) - 0.5,
    }
    noise = np.random.default_rng([seed, int(size["width"]), int(1e6 * sum(tuned.values()))])
    rise = 0.03 * sum(u * u for u in off.values()) + 0.002 * noise.normal()
    return (1.5 + 2 * size["width"] ** -0.5) * math.exp(rise + 0.01 * seed)


KIND = SensitivityKind(KNOBS, toy)


@pytest.fixture(scope="module")
def first_run(places):
    """The study run once."""
    return run(KIND, **places)


def test_knob_that_drifts_is_found_at_the_tuned_rates_and_a_second_start_trains_nothing(
    first_run, places
):
    lines: list[str] = []
    trained: list[TuneEvent] = []
    outcome = run(KIND, say=lines.append, notify=trained.append, **places)
    knobs = {knob.name: knob for knob in outcome.result.knobs}
    assert trained == []
    assert outcome.result.knobs[0].name == "warmup"
    assert knobs["warmup"].drift.value == pytest.approx(0.3, abs=0.06)
    assert 1.5 in knobs["warmup"].optimum.ci
    assert knobs["depth"].optimum.value == pytest.approx(0.5, abs=0.3)
    first, *at, last = lines
    assert (first[:5], last[:17]) == ("toy: ", "toy-knobs-moved: ")
    assert [line.split(":")[0] for line in at] == ["width 16", "width 64", "width 256"]
    rates = [float(line.split("lr ")[1]) for line in at]
    assert rates == pytest.approx([2**-5.2, 2**-6, 2**-6.8], rel=0.1)

    told = report(KIND, **places)
    for again in (first_run, told):
        assert knobs_document(again.result) == knobs_document(outcome.result)
    assert "toy-knobs" in told.index_path.read_text(encoding="utf-8")
    table = places["reports"] / "toy-knobs.runs.csv"
    ranked, page = rank_table(
        as_runs(table, {"size": "width", "tune": ()}, may_mix=True),
        knobs=dict.fromkeys(KNOBS.knobs),
        target=2048,
    )
    assert page is None
    for ours, theirs in zip(ranked.knobs, told.result.knobs, strict=True):
        assert ours.name == theirs.name
        assert ours.at_stake.ci == pytest.approx(theirs.at_stake.ci)


def test_runs_at_rates_of_an_earlier_sweep_are_left_out(tmp_path):
    where = {"storage": f"sqlite:///{tmp_path / 'toy.db'}", "reports": tmp_path}
    few = replace(KNOBS, knobs=("warmup",))
    first = run(SensitivityKind(few, toy), **where).result
    more = replace(few, study=replace(STUDY, seeds=(0, 1, 2, 3)), seeds=(0, 1, 2))
    second = run(SensitivityKind(more, toy), **where).result
    assert second.n_runs == first.n_runs == 3 * 3 * 3


def test_what_cannot_be_swept_is_refused(tmp_path):
    where = {"storage": f"sqlite:///{tmp_path / 'toy.db'}", "reports": tmp_path}
    with pytest.raises(ValueError, match="own trainer"):
        SensitivityKind(replace(KNOBS, knobs=("warmup", "precision")), toy)
    edge = replace(STUDY, tune={"lr": TunedRange(low=2**-3, high=2**-2, n=3)}, growth=0)
    with pytest.raises(StudyError, match="width 16 has no best lr"):
        run(SensitivityKind(replace(KNOBS, study=edge), toy), **where)


def test_plan_counts_runs_and_moves_without_opening_a_storage(tmp_path):
    knobs = replace(KNOBS, knobs=(*KNOBS.knobs, "precision"))
    text = dry_run(SensitivityKind(knobs), storage=f"sqlite:///{tmp_path / 'never.db'}")
    # 3 widths, 6 rates, 3 seeds; 3 widths, 3 seeds, 10 settings
    for words in ("toy: 54 runs", "then 90 runs", "to 0.05 and 0.2", "to bf16"):
        assert words in text
    assert not (tmp_path / "never.db").exists()


def test_status_finds_every_cell_done(first_run, places):
    first, status = (
        study_status(kind, places["storage"]) for kind in (ForecastKind(STUDY, toy), KIND)
    )
    assert status.done
    assert status.count("cells") == status.count("complete") > first.count("complete") > 0
    assert status.count("duplicates") == 0
