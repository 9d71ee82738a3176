"""Recipes compared: verdicts, pairs, worth, crossing, costs, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.comparing import Comparison, comparison_document
from extrap.errors import DataError
from extrap.records import Interval, Measure, Runs

WIDTHS = (16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
NOISE = 0.003


def law(width: float, *, floor: float = 1.5, scale: float = 2.0, exponent: float = 0.4) -> float:
    return floor + scale * (width / 16) ** -exponent


def table(
    *,
    luck: int = 0,
    seeds: tuple[object, ...] = (0, 1, 2),
    widths: tuple[float, ...] = WIDTHS,
    rates: bool = False,
    noise: float = NOISE,
    **of_law: float,
) -> pd.DataFrame:
    """Runs of one recipe; what a seed does is shared by tables, `luck` is not."""
    rng = np.random.default_rng(luck)
    rows = []
    for width in widths:
        for number, seed in enumerate(seeds):
            common = np.random.default_rng([number, int(width)]).normal()
            log_loss = math.log(law(width, **of_law)) + 2 * noise * common
            row = {"width": width, "seed": seed, "flops": 1e3 * width**2, "wall_s": width}
            for rate in range(-11, -4) if rates else (-8,):
                excess = 0.012 * (rate + 8.2) ** 2 if rates else 0.0
                value = math.exp(log_loss + excess + noise * rng.normal())
                rows.append({**row, "lr": 2.0**rate, "loss": value})
    return pd.DataFrame(rows)


def runs(frame: pd.DataFrame, *, tuned: tuple[str, ...] = ()) -> Runs:
    return Runs.from_frame(frame, sizes=["width"], tuned=tuned)


def compared(treated: pd.DataFrame, *, plain: pd.DataFrame | None = None, **options) -> Comparison:
    plain = table() if plain is None else plain
    return extrap.compare({"plain": runs(plain), "treated": runs(treated)}, **options)


def test_equal_recipes_are_the_same() -> None:
    (found,) = compared(table(luck=2)).contrasts
    assert found.verdict == "same"
    assert not found.differs
    assert found.p_value > 0.05
    assert 0.0 in found.at_target.difference.ci
    assert 0.0 in found.exponent_difference.ci
    assert all(1.0 in each.factor.ci for each in found.effective_compute)
    assert found.crossover.size.value is None


def test_a_recipe_is_the_same_as_itself() -> None:
    (found,) = compared(table()).contrasts
    assert found.verdict == "same"
    assert found.p_value == pytest.approx(1.0)
    assert found.effective_compute[0].factor.value == pytest.approx(1.0)


def test_shift_is_told_as_a_shift() -> None:
    (found,) = compared(table(luck=1, floor=1.5 * 0.95, scale=2 * 0.95)).contrasts
    assert found.verdict == "shift"
    assert found.at_target.difference.value == pytest.approx(-0.05, abs=0.01)
    assert -0.05 in found.at_target.difference.ci
    assert 0.0 not in found.at_target.difference.ci
    assert all(row.n_pairs == 3 for row in found.by_size)
    assert all(-0.05 in row.difference.ci for row in found.by_size)


def test_exponent_is_told_as_an_exponent() -> None:
    (found,) = compared(table(luck=1, exponent=0.5)).contrasts
    assert found.verdict == "exponent"
    assert 0.1 in found.exponent_difference.ci
    assert 0.0 not in found.exponent_difference.ci
    assert set(found.exponents) == {"plain", "treated"}


def test_effective_compute_is_that_of_the_laws() -> None:
    (found,) = compared(table(luck=2, scale=1.8), at={"width": 1024}).contrasts
    largest, target = found.effective_compute
    truth = 0.9 ** (-1 / 0.4)  # equal loss at so many times the width
    assert (largest.size, target.size) == ({"width": 512.0}, {"width": 1024.0})
    assert truth in largest.size_factor.ci
    assert truth**2 in largest.factor.ci
    assert largest.factor.value == pytest.approx(largest.size_factor.value**2, rel=1e-6)
    assert largest.level == 0.9


def test_a_loss_below_the_floor_leaves_the_side_open() -> None:
    (found,) = compared(table(luck=1, floor=0.9)).contrasts
    factor = found.effective_compute[0].factor
    assert factor.ci.upper is None
    assert factor.value is None
    assert factor.ci.lower > 10


def test_crossing_inside_is_found() -> None:
    (found,) = compared(table(luck=1, scale=2.4, exponent=0.6)).contrasts
    truth = 16 * (2.4 / 2.0) ** (1 / 0.2)
    assert truth in found.crossover.size.ci
    assert found.crossover.is_inside
    assert found.crossover.better_below == "plain"


def test_pairs_are_narrower_than_other_seeds() -> None:
    (paired,) = compared(table(luck=1)).contrasts
    other = compared(table(luck=1, seeds=(10, 11, 12)))
    width = {
        name: np.mean([r.difference.ci.upper - r.difference.ci.lower for r in c.by_size])
        for name, c in (("paired", paired), ("other", other.contrasts[0]))
    }
    assert width["paired"] < width["other"]
    assert all(row.n_pairs == 0 for row in other.contrasts[0].by_size)
    assert any("not paired" in note for note in other.notes)


def test_rows_without_a_seed_are_nobodys_pair() -> None:
    frames = [table(luck=i).drop(columns="seed") for i in (0, 1)]
    arms = [extrap.read_runs(frame, size="width") for frame in frames]
    found = extrap.compare({"plain": arms[0], "treated": arms[1]})
    assert all(row.n_pairs == 0 for row in found.contrasts[0].by_size)


def test_order_of_rows_and_unit_of_size_do_not_matter() -> None:
    treated = table(luck=1, scale=1.9)
    (found,) = compared(treated).contrasts
    shuffled = treated.sample(frac=1, random_state=0)
    (again,) = compared(shuffled).contrasts
    assert again == found
    plain, treated = (f.assign(width=f["width"] * 1e6) for f in (table(), treated))
    (scaled,) = compared(treated, plain=plain).contrasts
    assert scaled.p_value == pytest.approx(found.p_value, rel=1e-6)
    assert scaled.exponent_difference.value == pytest.approx(
        found.exponent_difference.value, rel=1e-4
    )


def test_tuned_recipes_stand_at_their_own_best() -> None:
    plain = table(rates=True)
    treated = table(luck=1, rates=True)
    treated["lr"] *= 4
    found = extrap.compare(
        {"plain": runs(plain, tuned=("lr",)), "treated": runs(treated, tuned=("lr",))}
    )
    (contrast,) = found.contrasts
    assert contrast.verdict == "same"
    assert contrast.flags == ()
    for row in contrast.by_size:
        assert row.plain.value == pytest.approx(law(row.size["width"]), rel=0.02)


def test_diverged_rates_and_an_edge_are_no_obstacle() -> None:
    plain, treated = table(rates=True), table(luck=1, rates=True)
    plain.loc[plain["lr"] >= 2.0**-6, "loss"] = math.nan
    treated = treated[treated["lr"] >= 2.0**-8]
    arms = {"plain": runs(plain, tuned=("lr",)), "treated": runs(treated, tuned=("lr",))}
    (found,) = extrap.compare(arms).contrasts
    assert len(found.by_size) == len(WIDTHS)
    assert sum(flag.startswith("edge: the best of treated") for flag in found.flags) == 6
    assert not any("best of plain" in flag for flag in found.flags)


def test_a_size_that_diverged_in_one_recipe_is_left_out() -> None:
    treated = table(luck=1)
    treated.loc[treated["width"] == 512, "loss"] = math.nan
    found = compared(treated)
    assert [row.size["width"] for row in found.contrasts[0].by_size] == list(WIDTHS[:-1])
    assert any(flag.startswith("diverged: 3 of 3") for flag in found.contrasts[0].flags)
    assert any("512" in note for note in found.notes)
    assert found.target == {"width": 512.0}


def test_recipes_may_tune_different_columns() -> None:
    arms = {"plain": runs(table()), "treated": runs(table(luck=1, rates=True), tuned=("lr",))}
    found = extrap.compare(arms)
    assert found.contrasts[0].verdict == "same"
    assert any("tune different columns" in note for note in found.notes)


def test_several_recipes_pay_for_each_other() -> None:
    arms = {"plain": table(), "b": table(luck=1), "c": table(luck=2, scale=1.8)}
    found = extrap.compare({name: runs(frame) for name, frame in arms.items()})
    assert found.arms == ("plain", "b", "c")
    b, c = found.contrasts
    assert (b.verdict, c.verdict) == ("same", "shift")
    assert c.p_adjusted == pytest.approx(2 * c.p_value)
    assert b.p_adjusted == pytest.approx(max(b.p_value, c.p_adjusted))


def test_two_sizes_say_what_was_measured_and_nothing_of_laws() -> None:
    treated = table(luck=1, floor=1.35, scale=1.8, widths=WIDTHS[:2])
    found = compared(treated, plain=table(widths=WIDTHS[:2]))
    (contrast,) = found.contrasts
    assert contrast.verdict == "shift"
    assert contrast.at_target is None
    assert contrast.effective_compute == ()
    assert any("at least 3 common sizes" in note for note in found.notes)
    (alike,) = compared(table(luck=1, widths=WIDTHS[:2]), plain=table(widths=WIDTHS[:2])).contrasts
    assert alike.verdict == "unknown"


def test_single_runs_at_two_sizes_say_nothing() -> None:
    frames = [table(luck=i, seeds=(0,), widths=WIDTHS[:2]) for i in (0, 1)]
    (found,) = compared(frames[1], plain=frames[0]).contrasts
    assert (found.verdict, found.p_value) == ("unknown", None)
    assert all(row.difference.ci == Interval(None, None) for row in found.by_size)


def test_one_seed_is_flagged() -> None:
    (found,) = compared(table(luck=1, seeds=(0,)), plain=table(seeds=(0,))).contrasts
    assert any(flag.startswith("one-seed") for flag in found.flags)


def test_noise_that_drowns_everything_is_unknown() -> None:
    (found,) = compared(
        table(luck=2, seeds=(5, 6), noise=0.4), plain=table(seeds=(0, 1), noise=0.4)
    ).contrasts
    assert found.verdict == "unknown"


def test_costs_are_extrapolated_and_priced() -> None:
    found = compared(table(luck=1), at={"width": 1024}, price=2.0)
    plain = found.costs[0]
    assert plain.flops == pytest.approx(1e3 * 1024**2)
    assert plain.gpu_hours == pytest.approx(1024 / 3600)
    assert plain.money == pytest.approx(2 * 1024 / 3600)
    by_speed = compared(table(luck=1), at={"width": 1024}, flops_per_second=1e6).costs[0]
    assert by_speed.gpu_hours == pytest.approx(1e3 * 1024**2 / 1e6 / 3600)
    assert by_speed.money is None


def test_without_compute_only_the_size_factor_is_known() -> None:
    frames = [table(luck=i).drop(columns=["flops", "wall_s"]) for i in (0, 1)]
    found = compared(frames[1], plain=frames[0])
    worth = found.contrasts[0].effective_compute[0]
    assert worth.factor.value is None
    assert worth.size_factor.value is not None
    assert found.costs[0].flops is None
    counted = [f.assign(n_params=f["width"], n_tokens=10.0) for f in frames]
    assert compared(counted[1], plain=counted[0]).costs[0].flops == pytest.approx(60 * 1024.0)


def test_compute_that_does_not_move_with_size_is_worth_nothing_known() -> None:
    frames = [table(luck=i, scale=2 - 0.2 * i).assign(flops=1e9) for i in (0, 1)]
    frames[1].loc[::5, "flops"] *= 1.0001  # of rounding
    found = compared(frames[1], plain=frames[0])
    for worth in found.contrasts[0].effective_compute:
        assert worth.factor == Measure(value=None, ci=Interval(None, None))
        assert worth.size_factor.value > 1.1
    assert found.contrasts[0].crossover.size == compared(frames[1]).contrasts[0].crossover.size
    (note,) = [note for note in found.notes if "compute" in note]
    assert "of plain is the same at every width" in note
    moving = frames[0].assign(flops=1e9 * frames[0]["width"] ** 0.1)
    worth = compared(frames[1], plain=moving).contrasts[0].effective_compute[0]
    assert worth.factor.value is not None


def test_sizes_that_move_together_count_as_one() -> None:
    arms = {}
    for name, frame in (("plain", table()), ("treated", table(luck=1, scale=1.8))):
        both = frame.assign(tokens=20 * frame["width"])
        arms[name] = Runs.from_frame(both, sizes=["width", "tokens"])
    found = extrap.compare(arms)
    assert found.target == {"width": 1024.0, "tokens": 20480.0}
    assert found.contrasts[0].at_target is not None


def test_sizes_that_vary_independently_have_no_law() -> None:
    arms = {}
    for name, luck, scale in (("plain", 0, 2.0), ("treated", 1, 1.6)):
        parts = [table(luck=luck, scale=scale).assign(tokens=t) for t in (100.0, 400.0)]
        both = pd.concat(parts, ignore_index=True)
        arms[name] = Runs.from_frame(both, sizes=["width", "tokens"])
    found = extrap.compare(arms)
    assert found.contrasts[0].verdict == "shift"
    assert found.contrasts[0].at_target is None
    assert len(found.contrasts[0].by_size) == 12
    assert any("vary independently" in note for note in found.notes)


def test_document_holds_numbers_and_no_nan() -> None:
    document = comparison_document(compared(table(luck=1, floor=0.9), price=2.0))
    text = json.dumps(document, allow_nan=False)
    (contrast,) = json.loads(text)["contrasts"]
    assert contrast["effective_compute"][0]["factor"]["ci"][1] is None
    assert set(contrast["at_target"]["difference"]) == {"value", "ci"}


def test_laws_are_those_of_each_recipe() -> None:
    found = compared(table(luck=1, scale=1.8))
    fitted = found.laws["plain"]
    z = 64 / fitted.reference[0]
    numbers = fitted.parameters
    assert numbers["E"] + numbers["b"] * z ** -numbers["c"] == pytest.approx(law(64), rel=0.01)


@pytest.mark.parametrize(
    ("arms", "error", "words"),
    [
        ({"a": table()}, DataError, "at least two recipes"),
        ({"a": table(), "b": table(widths=(8.0, 24.0))}, DataError, "common size"),
        (
            {"a": table(), "b": table().assign(loss=math.nan)},
            DataError,
            "needs runs with a loss, 'b' has none",
        ),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(arms, error, words) -> None:
    with pytest.raises(error, match=words):
        extrap.compare({name: runs(frame) for name, frame in arms.items()})


def test_other_size_columns_are_refused() -> None:
    other = Runs.from_frame(table().rename(columns={"width": "depth"}), sizes=["depth"])
    with pytest.raises(DataError, match="same size columns, 'a' has width and 'b' depth"):
        extrap.compare({"a": runs(table()), "b": other})
    with pytest.raises(TypeError, match="'b' is DataFrame"):
        extrap.compare({"a": runs(table()), "b": table()})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 95}, "level must lie in"),
        ({"price": -1.0}, "price must be finite and not negative"),
        ({"price": math.inf}, "price must be finite and not negative, got inf"),
        ({"flops_per_second": math.inf}, "flops_per_second must be finite and positive, got inf"),
        ({"flops_per_second": 0.0}, "flops_per_second must be finite and positive"),
        ({"at": {"depth": 4}}, "exactly the size column"),
        ({"at": {"width": 4}}, "below the smallest common size"),
    ],
)
def test_arguments_out_of_range_are_refused(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        compared(table(luck=1), **options)


def test_a_pure_shift_crosses_nowhere_whatever_the_target() -> None:
    for luck in (0, 14, 22, 28, 33, 35):  # the fitted laws of all but the first cross somewhere
        arms = table(luck=100 + luck), table(luck=200 + luck, floor=1.5 * 0.97, scale=2 * 0.97)
        near, far = (
            compared(arms[1], plain=arms[0], at={"width": at}).contrasts[0].crossover
            for at in (512, 50_000)
        )
        assert near == far
        assert near.size.value is None


def test_a_crossing_lies_between_the_measured_signs() -> None:
    (found,) = compared(table(luck=1, scale=2.4, exponent=0.6)).contrasts
    ((before, after),) = found.sign_changes
    assert before.size["width"] <= found.crossover.size.value <= after.size["width"]


def test_a_crossing_without_an_end_is_not_told() -> None:
    (found,) = compared(table(luck=1, scale=2.1, exponent=0.42)).contrasts
    assert found.differs
    assert not found.sign_changes
    assert found.crossover.size.value is None


def test_the_mean_difference_is_handed_out_with_its_interval() -> None:
    (found,) = compared(table(luck=2)).contrasts
    lower, upper = found.mean_difference.ci
    assert found.verdict == "same"
    assert -0.01 < lower < 0 < upper < 0.01
    document = comparison_document(compared(table(luck=2)))
    assert document["contrasts"][0]["mean_difference"]["ci"] == [lower, upper]


def test_a_mixture_of_rates_that_nobody_named_is_refused() -> None:
    with pytest.raises(DataError, match=r"several of 'plain' differ in lr; name it with --tune"):
        compared(table(luck=1, rates=True), plain=table(rates=True))
    measured = table().assign(wall_s=range(18), note="x")
    again = pd.concat([measured, measured.assign(loss=measured["loss"] * 1.001, wall_s=7.5)])
    assert compared(table(luck=1), plain=again).contrasts  # replicates


def test_copies_count_once() -> None:
    frame = table(luck=1).drop(columns="seed")
    plain = extrap.read_runs(table(), size="width")
    once, twice = (
        extrap.compare({"plain": plain, "treated": extrap.read_runs(each, size="width")})
        for each in (frame, pd.concat([frame, frame]))
    )
    assert twice.contrasts[0].p_value == pytest.approx(once.contrasts[0].p_value)
    assert any("copies count once" in note for note in twice.notes)
    labelled = extrap.read_runs(pd.concat([table(luck=1)] * 2), size="width")
    found = extrap.compare({"plain": plain, "treated": labelled})
    assert any("18 row(s) are copies of an earlier one" in note for note in found.notes)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_losses_beyond_reason_are_refused(scale: float) -> None:
    wild = table(luck=1)
    wild["loss"] *= scale
    with pytest.raises(DataError, match="losses must lie between 1e-50 and 1e"):
        compared(wild)


def test_losses_far_apart_within_reason_are_compared() -> None:
    low, high = table(), table(luck=1)
    low["loss"] *= 1e-49
    high["loss"] *= 1e48
    (found,) = compared(high, plain=low).contrasts
    assert found.verdict == "shift"


def test_conditions_must_not_vary_within_a_recipe() -> None:
    frame = table().assign(optimizer=["adam", "sgd"] * 9)
    mixed = Runs.from_frame(frame, sizes=["width"], conditions=["optimizer"])
    with pytest.raises(DataError, match="condition optimizer must not vary within a recipe"):
        extrap.compare({"a": mixed, "b": runs(table())})


def test_comparison_can_be_replaced_and_compared() -> None:
    found = compared(table(luck=1))
    assert replace(found, price=1.0) != found
