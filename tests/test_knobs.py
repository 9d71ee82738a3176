"""The ranking of knobs: known truths come back, intervals hold them, doubts are said."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.knobs import Knob, rank_knobs, read_moves

SIZES, TARGET = (16, 64, 256), 2048
CURVATURE = {"steady": 0.04, "moving": 0.04, "steep": 0.0, "idle": 0.0}


def truth(name: str, size: float, u: float) -> float:
    """Log loss so many octaves from the fixed value: valleys, a slope, and nothing at all."""
    x = math.log2(size / 64)
    if name == "steep":
        return -0.01 * u * (1 + 0.2 * x)
    centre = {"steady": 0.2, "moving": 0.2 + 0.3 * x, "idle": 0.0}[name]
    return 0.5 * CURVATURE[name] * (u - centre) ** 2


def table(
    rng: np.random.Generator,
    *,
    names: tuple[str, ...] = tuple(CURVATURE),
    noise: float = 0.002,
    seeds: int = 4,
    common: float = 0.02,
) -> pd.DataFrame:
    """One knob at a time at ×½ and ×2; seeds differ by ten times the noise."""
    rows = []
    for seed in range(seeds):
        for size in SIZES:
            shift = common * rng.normal() - 0.1 * math.log(size)
            for name, u in [("", 0.0), *((n, u) for n in names for u in (-1.0, 1.0))]:
                own = truth(name, size, u) if name else 0.0
                rest = sum(truth(n, size, 0.0) for n in names if n != name)
                log_loss = 2 + shift + own + rest + noise * rng.normal()
                values = {n: 0.1 * 2**u if n == name else 0.1 for n in names}
                rows.append({"width": size, "seed": seed, "loss": math.exp(log_loss), **values})
    return pd.DataFrame(rows)


def ranked(frame: pd.DataFrame, **knobs: float | str | None) -> dict[str, Knob]:
    named: Mapping[str, float | str | None] = knobs or dict.fromkeys(CURVATURE)
    moves = read_moves(frame, column="width", knobs=named)
    return {k.name: k for k in rank_knobs(moves, column="width", target=TARGET).knobs}


@pytest.fixture(scope="module")
def knobs() -> dict[str, Knob]:
    return ranked(table(np.random.default_rng(1)))


def test_valley_that_moves_is_found_with_its_drift_and_cost(knobs: dict[str, Knob]) -> None:
    moving = knobs["moving"]
    at_target = 0.2 + 0.3 * math.log2(TARGET / 64)
    assert moving.kind == "valley"
    assert moving.drift.value == pytest.approx(0.3, abs=0.05)
    assert 0.3 in moving.drift.ci
    assert at_target in moving.optimum.ci
    assert math.expm1(0.02 * at_target**2) in moving.at_stake.ci
    assert [o.octaves.value for o in moving.offsets] == pytest.approx([-0.4, 0.2, 0.8], abs=0.2)
    assert moving.value_at(1.0) == pytest.approx(0.2)


def test_knobs_are_ranked_by_what_is_at_stake_and_by_drift() -> None:
    moves = read_moves(
        table(np.random.default_rng(1)), column="width", knobs=dict.fromkeys(CURVATURE)
    )
    report = rank_knobs(moves, column="width", target=TARGET)
    assert [k.name for k in report.knobs][:2] == ["moving", "steep"]
    assert report.by_drift()[0].name == "moving"
    assert [k.name for k in report.by_drift()][:3] == ["moving", "steady", "steep"]
    assert report.by_worst_case()[0].name == "moving"
    assert report.n_runs == len(SIZES) * 4 * 9


def test_optimum_beyond_the_moved_range_has_a_direction_but_no_number(
    knobs: dict[str, Knob],
) -> None:
    steep = knobs["steep"]
    assert (steep.kind, steep.better) == ("slope", 1)
    assert steep.optimum.value is None
    assert steep.drift.ci == (None, None)
    assert -0.002 in steep.trend.ci
    assert -0.01 * (1 + 0.2 * 5) in steep.octave.ci
    assert steep.at_stake.ci.lower is not None
    assert steep.at_stake.ci.lower > 0


def test_knob_without_effect_is_flat_and_may_cost_little(knobs: dict[str, Knob]) -> None:
    idle = knobs["idle"]
    assert idle.kind == "flat"
    assert idle.at_stake.ci.lower == 0.0
    assert idle.at_stake.ci.upper is not None
    assert idle.at_stake.ci.upper < 0.03


def test_loss_that_only_rises_with_a_knob_is_no_valley() -> None:
    rng, rows = np.random.default_rng(0), []
    for seed in range(4):
        for size in SIZES:
            for u in (-1.0, 0.0, 1.0):
                log_loss = 0.02 * 2**u + 1e-4 * rng.normal()
                row = {"width": size, "seed": seed, "wd": 0.1 * 2**u, "loss": math.exp(log_loss)}
                rows.append(row)
    assert ranked(pd.DataFrame(rows), wd=0.1)["wd"].kind == "slope"


def test_what_seeds_have_in_common_cancels() -> None:
    quiet, loud = (
        ranked(table(np.random.default_rng(2), common=common))["moving"].drift.ci
        for common in (0.0, 0.5)
    )
    assert loud == pytest.approx(quiet, abs=1e-6)


def test_order_of_runs_does_not_matter() -> None:
    frame = table(np.random.default_rng(3))
    mixed = frame.sample(frac=1.0, random_state=0)
    for name, knob in ranked(frame).items():
        other = ranked(mixed)[name]
        assert other.at_stake.ci == pytest.approx(knob.at_stake.ci)


def test_doubling_is_of_the_distance_from_one_for_beta() -> None:
    frame = table(np.random.default_rng(4), names=("moving",))
    frame["beta2"] = 1 - frame["moving"]
    knob = ranked(frame, beta2=0.9)["beta2"]
    assert knob.drift.value == pytest.approx(0.3, abs=0.05)
    assert knob.value_at(1.0) == pytest.approx(0.8)


def test_two_levels_are_a_choice_with_a_trend() -> None:
    rng, rows = np.random.default_rng(5), []
    for seed in range(4):
        for size in SIZES:
            for precision, worse in (("fp32", 0.0), ("bf16", 0.01 * math.log2(size / 16))):
                loss = math.exp(1 + worse + 1e-3 * rng.normal() + 0.1 * seed)
                rows.append({"width": size, "seed": seed, "precision": precision, "loss": loss})
    frame = pd.DataFrame(rows)
    knob = ranked(frame, precision="fp32")["precision"]
    assert (knob.kind, knob.other) == ("choice", "bf16")
    assert 0.01 in knob.trend.ci
    assert knob.drift.value is None
    assert 0.07 in knob.octave.ci
    assert (knob.at_stake.value, knob.at_stake.ci) == (0.0, (0.0, 0.0))
    back = ranked(frame, precision="bf16")["precision"]
    assert back.at_stake.value == pytest.approx(math.expm1(0.07), abs=0.01)


def test_diverged_runs_take_their_seed_out_and_are_counted() -> None:
    frame = table(np.random.default_rng(6), seeds=5)
    high = frame["moving"].eq(0.2) & frame["width"].eq(256)
    frame["status"] = "complete"
    frame.loc[high & frame["seed"].eq(0), "status"] = "pruned"  # its loss is that of no end
    knob = ranked(frame)["moving"]
    assert (knob.kind, knob.n_seeds, knob.flags) == ("valley", 4, ("lost-runs",))
    assert [o.lost for o in knob.offsets] == [0, 0, 1]
    frame.loc[high, ["loss", "status"]] = [math.nan, "diverged"]
    knob = ranked(frame)["moving"]
    assert (knob.kind, knob.at_stake.value, knob.at_stake.ci) == ("unknown", None, (0.0, None))


def test_bend_over_the_sizes_is_flagged() -> None:
    frame = table(np.random.default_rng(7), names=("steady",), noise=1e-4)
    assert ranked(frame, steady=0.1)["steady"].flags == ()
    up = frame["steady"].eq(0.2) & frame["width"].eq(64)
    bent = frame.assign(loss=frame["loss"].where(~up, frame["loss"] * 1.01))
    assert "bends" in ranked(bent, steady=0.1)["steady"].flags


def test_valley_that_narrows_with_size_is_flagged() -> None:
    frame = table(np.random.default_rng(8), names=("steady",), noise=1e-4)
    off = frame["steady"].ne(0.1)
    sharper = np.exp(0.005 * np.log2(frame["width"] / 16))
    narrowed = frame.assign(loss=frame["loss"].where(~off, frame["loss"] * sharper))
    assert "curvature-drifts" in ranked(narrowed, steady=0.1)["steady"].flags


def test_drift_that_leads_far_beyond_the_moves_is_flagged() -> None:
    frame = table(np.random.default_rng(1), names=("moving",))
    (moves,) = read_moves(frame, column="width", knobs={"moving": 0.1})
    (knob,) = rank_knobs([moves], column="width", target=2.0**20).knobs
    assert knob.flags == ("far",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 0}, "has two at width"),
        ({"width": 16}, "has two at width"),
        ({"moving": -1.0}, "are positive"),
    ],
)
def test_impossible_tables_are_refused(change: dict[str, float], message: str) -> None:
    frame = table(np.random.default_rng(0), names=("moving",)).assign(other=1.0)
    frame.loc[frame.index[-1:] if "moving" in change else frame.index, list(change)] = [
        *change.values()
    ]
    with pytest.raises(DataError, match=message):
        ranked(frame, moving=0.1)


def test_missing_columns_and_levels_are_named() -> None:
    frame = table(np.random.default_rng(0), names=("moving",))
    with pytest.raises(DataError, match=r"need the column\(s\) \['warmup'\]"):
        ranked(frame, warmup=None)
    with pytest.raises(DataError, match=r"no run has the fixed moving 0\.3"):
        ranked(frame, moving=0.3)
    with pytest.raises(DataError, match="no commonest value"):
        ranked(frame[frame["moving"].ne(0.1)], moving=None)
    with pytest.raises(DataError, match=r"moved at 1 size\(s\)"):
        ranked(frame[frame["width"].eq(16)], moving=0.1)
    (moves,) = read_moves(frame, column="width", knobs={"moving": 0.1})
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 95"):
        rank_knobs([moves], column="width", target=512, level=95)
    with pytest.raises(ValueError, match="must be positive, got -1"):
        rank_knobs([moves], column="width", target=-1)
    with pytest.raises(DataError, match="at least one knob"):
        rank_knobs([], column="width", target=512)


def coverage(n: int, *, shared: float = 0.0) -> dict[str, float]:
    """How often the 95 % intervals of a moving valley hold the truth.

    Args:
        n: Replicates.
        shared: Part of the noise of a move that a seed has at every size alike.
    """
    rng = np.random.default_rng(0)
    centre = 0.2 + 0.3 * math.log2(TARGET / 64)
    hits = dict.fromkeys(("drift", "optimum", "at_stake", "octave"), 0)
    for _ in range(n):
        frame = table(rng, names=("moving",), noise=0.003)
        bump = rng.normal(0, 0.003, 4) * shared
        up = frame["moving"].eq(0.2)
        frame["loss"] *= np.exp(np.where(up, bump[frame["seed"]], 0.0))
        knob = ranked(frame, moving=0.1)["moving"]
        better = -1 if knob.better < 0 else 1
        octave = truth("moving", TARGET, better) - truth("moving", TARGET, 0.0)
        hits["drift"] += 0.3 in knob.drift.ci
        hits["optimum"] += centre in knob.optimum.ci
        hits["at_stake"] += math.expm1(0.02 * centre**2) in knob.at_stake.ci
        hits["octave"] += octave in knob.octave.ci
    return {name: count / n for name, count in hits.items()}


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    assert min(coverage(60).values()) >= 0.87


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_intervals_hold_the_truth_as_often_as_they_say(shared: float) -> None:
    found = coverage(400, shared=shared)
    for name, share in found.items():
        assert share == pytest.approx(0.95, abs=0.033), name


def share_at_no_cost(n: int) -> float:
    """How often a knob that is held at its optimum is said to cost nothing, perhaps."""
    rng, zero = np.random.default_rng(1), 0
    for _ in range(n):
        frame = table(rng, names=("steady",), noise=0.003)
        octaves = np.log2(frame["steady"] / 0.1)
        frame["loss"] *= np.exp(0.04 * 0.2 * octaves)  # puts the optimum at the fixed value
        zero += ranked(frame, steady=0.1)["steady"].at_stake.ci.lower == 0.0
    return zero / n


def test_knob_at_its_optimum_is_rarely_said_to_cost_anything() -> None:
    assert share_at_no_cost(40) >= 0.87


@pytest.mark.slow
def test_knob_at_its_optimum_is_said_to_cost_as_rarely_as_the_level_says() -> None:
    assert share_at_no_cost(400) >= 0.95 - 0.033
