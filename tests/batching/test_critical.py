from __future__ import annotations

import io
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from extrap import critical_batch
from extrap.batching import FLAGS, critical_batches_document
from extrap.errors import DataError
from extrap.laws.batch import steps_to_target

BATCHES = 2.0 ** np.arange(6, 15)
NOISE = 0.03


def table(
    b_crit: float = 2000.0,
    *,
    s_min: float = 1000.0,
    noise: float = NOISE,
    replicates: int = 1,
    batches: np.ndarray = BATCHES,
    seed: int = 0,
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    batch = np.repeat(batches, replicates)
    steps = steps_to_target(batch, s_min=s_min, b_crit=b_crit)
    steps = steps * np.exp(noise * rng.normal(size=len(batch)))
    seeds = np.tile(np.arange(replicates), len(batches))
    return pd.DataFrame({"batch_size": batch, "steps": steps, "seed": seeds})


def sizes(noise: float = NOISE, n: int = 5) -> pd.DataFrame:
    """Sizes 1, 2, 4, … with B_crit = 300 √size and S_min = 100 size^.3."""
    parts = []
    for i in range(n):
        one = table(300 * 2 ** (i / 2), s_min=100 * 2 ** (0.3 * i), noise=noise, seed=i)
        parts.append(one.assign(params=2.0**i))
    return pd.concat(parts)


def test_hyperbola_gives_the_golden_steps_and_examples():
    exact = critical_batch(table(1000.0, noise=0.0)).groups[0]
    assert exact.b_crit.value == pytest.approx(1000)
    assert exact.s_min.value == pytest.approx(1000)
    assert exact.e_min.value == pytest.approx(1e6)
    for batch, times_steps, times_examples in ((250, 5, 1.25), (1000, 2, 2), (4000, 1.25, 5)):
        assert exact.steps_at(batch).value / 1000 == pytest.approx(times_steps)
        assert exact.examples_at(batch).value / 1e6 == pytest.approx(times_examples)


def test_regimes_and_overhead_follow_from_the_hyperbola():
    exact = critical_batch(table(1000.0, noise=0.0), overhead=0.2, from_batch=256).groups[0]
    assert exact.regimes.perfect_end.value == pytest.approx(200)
    assert exact.regimes.maximal_start.value == pytest.approx(4000)
    assert exact.steps_at(8000).value / exact.steps_at(4000).value == pytest.approx(0.9)
    assert exact.b_overhead.value == pytest.approx(1.2 * 256 + 0.2 * 1000)
    at = exact.b_overhead.value
    linear = exact.steps_at(256).value * 256 / at
    assert exact.steps_at(at).value == pytest.approx(1.2 * linear)
    assert [exact.regime_at(b) for b in (100, 1000, 9000)] == [
        "perfect",
        "diminishing",
        "maximal",
    ]


def test_first_reached_batch_is_where_linear_scaling_is_counted_from():
    assert critical_batch(table(noise=0.0)).groups[0].from_batch == 64


def test_groups_are_scaled_from_one_batch_so_that_their_law_compares():
    parts = [
        table(100.0, noise=0.0, batches=2.0 ** np.arange(first, 13)).assign(params=4.0**i)
        for i, first in enumerate((4, 6, 8))
    ]
    found = critical_batch(pd.concat(parts), by="params")
    assert {group.from_batch for group in found.groups} == {256}
    assert found.law.exponents["params"].value == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 900.0, "budget": 500.0}, "at most the budget, got 900 of 500 in row 1"),
        ({"target": np.tile([2.0, 2.5, 3.0], 3)}, "the column 'target' has 3 in one group"),
    ],
)
def test_tables_that_mean_something_else_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        critical_batch(table().assign(**change))


@pytest.mark.parametrize("value", [np.nan, np.inf, "nan"])
def test_groups_are_set_apart_by_finite_values(value):
    data = sizes().reset_index(drop=True).astype({"params": object})
    data.loc[3, "params"] = value
    with pytest.raises(DataError, match="row 4"):
        critical_batch(data, by="params")


def test_rows_that_say_they_are_censored_are_bounds():
    data = table().assign(is_censored=lambda rows: rows["batch_size"] == 64)
    assert critical_batch(data).groups[0].points[0].bounds == (data["steps"][0],)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.assign(at_edge=rows["batch_size"] < 200), "2 row.s. have their best"),
        (lambda rows: pd.concat([rows, rows]).drop(columns="seed"), "copies of others"),
        (
            lambda rows: pd.concat([rows.assign(lr=lr, seed=0) for lr in (1, 2)]),
            "9 batch size.s. have several values of lr",
        ),
    ],
)
def test_doubts_about_a_table_are_noted(change, words):
    assert any(
        re.match(words, note) or words in note for note in critical_batch(change(table())).notes
    )


def test_targets_of_one_size_do_not_count_as_further_sizes():
    """Fifteen groups, five sizes: what a size does to all its targets widens the law."""
    rng = np.random.default_rng(3)
    parts = []
    for i, off in enumerate(0.4 * rng.normal(size=5)):
        for j, target in enumerate((2.0, 2.5, 3.0)):
            b_crit = 2000 * np.exp(off) * target**-4
            one = table(b_crit, noise=0.02, seed=10 * i + j)
            parts.append(one.assign(params=2.0**i, target=target))
    data = pd.concat(parts)
    law = critical_batch(data, by=["params", "target"]).laws["b_crit"]
    apart = critical_batch(data.rename(columns={"target": "loss"}), by=["params", "loss"])
    alone = apart.laws["b_crit"]
    assert (law.dof, alone.dof) == (4, 12)
    assert 0 in law.exponents["params"].ci
    wide, narrow = (each.exponents["params"].ci for each in (law, alone))
    assert wide.upper - wide.lower > 1.5 * (narrow.upper - narrow.lower)
    assert law.exponents["target"].value == pytest.approx(-4, abs=0.3)


def test_intervals_hold_the_truth_and_widen_with_level_and_noise():
    narrow, wide, noisy = (
        critical_batch(table(noise=n), level=level).groups[0]
        for n, level in ((NOISE, 0.8), (NOISE, 0.99), (3 * NOISE, 0.8))
    )
    assert 2000 in wide.b_crit.ci
    for name in ("b_crit", "s_min", "e_min", "b_overhead"):
        width = [_width(getattr(g, name).ci) for g in (narrow, wide, noisy)]
        assert width[0] < width[1]
        assert width[0] < width[2]
    point = wide.steps_at(700.0)
    assert point.pi.lower < point.ci.lower < point.value < point.ci.upper < point.pi.upper


def _width(interval) -> float:
    return math.log(interval.upper / interval.lower)


def test_examples_are_not_regressed_beside_steps():
    """The residual sd is that of ln S: E = S · B has the same noise, and no say."""
    found = critical_batch(table(replicates=40)).groups[0]
    assert found.log_sd == pytest.approx(NOISE, rel=0.1)


def test_profile_interval_is_that_of_the_f_region():
    data = table()
    found = critical_batch(data).groups[0]
    ln_s, batch = np.log(data["steps"].to_numpy()), data["batch_size"].to_numpy()

    def squares(b_crit: float) -> float:
        rest = ln_s - np.log1p(b_crit / batch)
        return float(((rest - rest.mean()) ** 2).sum())

    limit = squares(found.b_crit.value) * (1 + found.quantile**2 / found.dof)
    assert squares(found.b_crit.ci.lower) == pytest.approx(limit, rel=1e-5)
    assert squares(found.b_crit.ci.upper) == pytest.approx(limit, rel=1e-5)
    assert found.log_sd**2 * found.dof == pytest.approx(squares(found.b_crit.value), rel=1e-6)


def test_unit_of_the_batch_changes_nothing():
    data = table()
    first = critical_batch(data).groups[0]
    second = critical_batch(data.assign(batch_size=512 * data["batch_size"])).groups[0]
    assert second.b_crit.value == pytest.approx(512 * first.b_crit.value, rel=1e-5)
    assert second.b_crit.ci.upper == pytest.approx(512 * first.b_crit.ci.upper, rel=1e-5)
    assert second.s_min.value == pytest.approx(first.s_min.value, rel=1e-5)


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_perfect_scaling_throughout_bounds_b_crit_from_below_only(noise):
    found = critical_batch(table(1e13, s_min=1e-4, noise=noise)).groups[0]
    assert found.b_crit.ci.lower > 2**14
    assert found.b_crit.ci.upper is None
    assert found.s_min.ci.lower is None
    assert found.e_min.value == pytest.approx(1e9, rel=0.05)
    assert found.b_overhead.ci.upper is None
    assert "perfect-only" in found.flags


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_steps_that_do_not_fall_bound_b_crit_from_above_only(noise):
    found = critical_batch(table(1e-6, noise=noise)).groups[0]
    assert found.b_crit.ci.lower is None
    assert found.b_crit.ci.upper < 64
    assert found.s_min.value == pytest.approx(1000, rel=0.05)
    assert found.e_min.ci.lower is None
    assert "flat-only" in found.flags


def test_censored_steps_pull_the_small_batches_up():
    """A batch of which nothing but a lower bound is known must not be read as flat there."""
    data = table(2000.0, noise=0.05, replicates=3).assign(budget=15_000.0)
    late = data["steps"] > data["budget"]
    without = critical_batch(data[~late]).groups[0]
    assert late.sum() > 3
    data.loc[late, "steps"] = np.nan
    found = critical_batch(data).groups[0]
    assert 2000 in found.b_crit.ci
    assert found.b_crit.ci.lower >= without.b_crit.ci.lower * 0.999
    assert "censored" in found.flags
    assert found.points[0].values == ()
    assert found.points[0].bounds == (15_000,) * 3
    assert found.steps_at(64).ci.upper > 15_000


def test_censored_fit_is_the_likeliest():
    """At the found standard deviation no other hyperbola has a higher Tobit likelihood."""
    data = table(noise=0.05, replicates=3).assign(budget=16_600.0)
    late = (data["steps"] > data["budget"]).to_numpy()
    y = np.log(data["steps"].clip(upper=16_600).to_numpy())
    batch = data["batch_size"].to_numpy()
    found = critical_batch(data.assign(steps=data["steps"].mask(late))).groups[0]

    def negative(parameters: np.ndarray) -> float:
        centre = parameters[1] + np.log1p(np.exp(parameters[0]) / batch)
        off = (y - centre) / found.log_sd
        likelihood = np.where(late, stats.norm.logsf(off), stats.norm.logpdf(off))
        return -float(likelihood.sum())

    best = optimize.minimize(negative, [7.0, 7.0], method="Nelder-Mead", tol=1e-10).x
    assert found.b_crit.value == pytest.approx(np.exp(best[0]), rel=1e-3)
    assert found.s_min.value == pytest.approx(np.exp(best[1]), rel=1e-3)


def test_bound_beyond_the_hyperbola_moves_it():
    data = table().assign(budget=np.nan)
    free = critical_batch(data).groups[0]
    data.loc[len(data)] = {"batch_size": 32, "steps": np.nan, "seed": 0, "budget": 1e5}
    data["budget"] = data["budget"].astype(float)
    assert critical_batch(data).groups[0].b_crit.value > 1.1 * free.b_crit.value


def test_status_decides_over_steps():
    data = table().assign(status="reached", budget=np.nan)
    data.loc[0, "status"] = "censored"
    data.loc[1, "status"] = "diverged"
    found = critical_batch(data).groups[0]
    assert found.points[0].bounds == (pytest.approx(data["steps"][0]),)
    assert found.points[1].n_infeasible == 1
    assert {"censored", "infeasible"} <= set(found.flags)


def test_an_empty_status_says_nothing():
    for empty in (None, np.nan, "", pd.NA):
        data = table().assign(status=pd.Series([empty] * 9, dtype=object))
        assert critical_batch(data).groups[0].flags == critical_batch(table()).groups[0].flags


def test_missing_steps_without_a_budget_are_left_out_and_counted():
    data = table()
    data.loc[0, "steps"] = np.nan
    found = critical_batch(data)
    assert "1 row(s) without steps and without a budget" in found.notes[0]
    assert len(found.groups[0].points) == 8


def test_replicates_that_contradict_the_hyperbola_are_flagged_and_widen():
    data = table(replicates=4, noise=0.005, seed=3)
    bump = {b: 0.1 * (-1) ** i for i, b in enumerate(BATCHES)}
    bent = data.assign(steps=data["steps"] * np.exp(data["batch_size"].map(bump)))
    good, bad = (critical_batch(part).groups[0] for part in (data, bent))
    assert good.lack_of_fit_p > 0.05
    assert "lack-of-fit" not in good.flags
    assert bad.lack_of_fit_p < 1e-6
    assert "lack-of-fit" in bad.flags
    assert bad.dof == len(BATCHES) - 2
    assert bad.log_sd > 0.08


def test_segments_find_corners_and_object_to_a_hyperbola():
    batch = 2.0 ** np.arange(3, 15)
    log_steps = -np.clip(np.log(batch), None, np.log(256)) + 10
    rng = np.random.default_rng(0)
    steps = np.exp(log_steps + 0.01 * rng.normal(size=len(batch)))
    found = critical_batch(pd.DataFrame({"batch_size": batch, "steps": steps})).groups[0]
    assert found.segments.perfect_end == pytest.approx(256, rel=0.2)
    assert found.segments.maximal_start == pytest.approx(256, rel=0.3)
    assert "segments-disagree" in found.flags
    smooth = critical_batch(table()).groups[0]
    assert smooth.segments.gain < 0
    assert -1 < smooth.segments.slope < 0


def test_a_large_batch_that_takes_more_steps_is_flagged():
    data = table()
    data.loc[8, "steps"] *= 1.5
    assert "steps-rise" in critical_batch(data).groups[0].flags
    assert "steps-rise" not in critical_batch(table()).groups[0].flags


def test_laws_over_groups_are_those_of_the_truth():
    found = critical_batch(sizes(noise=0.0), by="params", from_batch=64)
    assert found.laws["b_crit"].exponents["params"].value == pytest.approx(0.5, abs=1e-4)
    assert found.laws["b_crit"].coefficient.value == pytest.approx(300, rel=1e-3)
    assert found.laws["s_min"].exponents["params"].value == pytest.approx(0.3, abs=1e-4)
    noisy = critical_batch(sizes(), by="params", from_batch=64)
    assert 0.5 in noisy.laws["b_crit"].exponents["params"].ci
    assert 300 in noisy.laws["b_crit"].coefficient.ci
    assert noisy.law is noisy.laws["b_overhead"]


def test_forecast_at_another_size_holds_the_truth():
    found = critical_batch(sizes(), by="params", from_batch=64)
    there = found.at(params=128.0)
    b_crit, s_min = 300 * 128**0.5, 100 * 128**0.3
    assert b_crit in there.b_crit.pi
    assert s_min in there.s_min.pi
    assert there.extrapolation_ratio == 8
    for batch in (64.0, 1000.0, 30_000.0):
        steps = there.steps_at(batch)
        assert float(steps_to_target(batch, s_min=s_min, b_crit=b_crit)) in steps.pi
        assert steps.pi.lower < steps.ci.lower < steps.value < steps.ci.upper < steps.pi.upper
    front = there.front([100, 1000])
    assert front[1].examples.value == pytest.approx(1000 * front[1].steps.value)
    assert front[0].steps.value > front[1].steps.value
    assert front[0].examples.value < front[1].examples.value


def scattered(scatter: float = 0.2, n: int = 8) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    parts = []
    for i in range(n):
        b_crit, s_min = np.exp(scatter * rng.normal(size=2)) * (300 * 2 ** (i / 2), 100.0)
        parts.append(table(b_crit, s_min=s_min, noise=0.01, seed=i).assign(params=2.0**i))
    return pd.concat(parts)


def test_groups_that_scatter_about_the_law_widen_it():
    calm, wild = (critical_batch(scattered(s), by="params").laws["b_crit"] for s in (0.0, 0.2))
    assert calm.scatter < 0.03
    assert wild.scatter == pytest.approx(0.2, abs=0.1)
    exponents = [law.exponents["params"].ci for law in (calm, wild)]
    assert exponents[1].upper - exponents[1].lower > 3 * (exponents[0].upper - exponents[0].lower)
    assert _width(wild.at(params=300.0).pi) > 3 * _width(calm.at(params=300.0).pi)


def test_forecast_of_steps_goes_over_into_that_of_its_limits():
    """At huge batches the steps are S_min; at tiny ones the examples are E_min."""
    there = critical_batch(scattered(), by="params").at(params=300.0)
    assert there.steps_at(1e12).value == pytest.approx(there.s_min.value)
    assert there.steps_at(1e12).ci.upper == pytest.approx(there.s_min.ci.upper, rel=0.01)
    assert there.examples_at(1e-6).value == pytest.approx(there.s_min.value * there.b_crit.value)
    new, mean = (_width(getattr(there.steps_at(1000.0), name)) for name in ("pi", "ci"))
    noise = 2 * there.quantile * there.log_sd
    assert new > 1.3 * math.hypot(mean, noise)


def test_two_groups_make_a_law_without_intervals():
    found = critical_batch(sizes(n=2), by="params")
    law = found.law
    assert law.exponents["params"].ci == (None, None)
    assert found.at(params=4).steps_at(100).pi == (None, None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"params": 1.0}, "no numeric --by column differs"),
        ({"params": list("ab") * 4 + ["a"]}, "text"),
    ],
)
def test_without_a_law_there_is_a_reason(change, reason):
    data = pd.concat([table().assign(**change), table(seed=1).assign(**change)])
    found = critical_batch(data, by="params")
    assert found.law is None
    assert reason in found.reason
    with pytest.raises(DataError, match="no law over groups"):
        found.at(params=2.0)


def test_columns_that_move_together_have_no_law():
    data = sizes().assign(tokens=lambda t: 20 * t["params"])
    assert "move together" in critical_batch(data, by=["params", "tokens"]).reason


def test_a_group_bounded_on_one_side_is_left_out_of_the_laws():
    flat = table(1e-6).assign(params=64.0)
    found = critical_batch(pd.concat([sizes(), flat]), by="params")
    assert found.law.n_groups == 5
    assert "1 group(s) bound B_crit on one side only" in found.notes[0]


def test_a_group_with_an_estimate_but_an_open_side_is_left_out_too():
    straight = table(1e9, s_min=1e-3, batches=2.0 ** np.arange(0, 7)).assign(params=64.0)
    found = critical_batch(pd.concat([sizes(), straight]), by="params")
    alone = found.group(params=64.0).b_crit
    assert alone.value is not None
    assert alone.ci.upper is None
    assert found.law.n_groups == 5
    alike = critical_batch(pd.concat([straight, straight.assign(params=1.0)]), by="params")
    assert "both sides" in alike.reason


def test_groups_too_small_are_left_out_and_named():
    small = table().iloc[:2].assign(params=99.0)
    found = critical_batch(pd.concat([sizes(), small]), by="params")
    assert len(found.groups) == 5
    assert "critical batch size of params 99" in found.notes[0]


@pytest.mark.parametrize("kept", [slice(0, 1), slice(0, 2)])
def test_too_few_batch_sizes_are_an_error_that_says_what_to_do(kept):
    with pytest.raises(DataError, match="three measurements that reached the target, at two"):
        critical_batch(table().iloc[kept])


def test_replicates_of_one_batch_size_are_not_enough():
    with pytest.raises(DataError, match="got 9 at 1"):
        critical_batch(table(batches=np.full(9, 64.0)))


def test_a_target_nobody_reaches_is_an_error():
    with pytest.raises(DataError, match="got 0 at 0"):
        critical_batch(table().assign(steps=np.nan, budget=100.0))
    with pytest.raises(DataError, match="no row has steps or a budget"):
        critical_batch(table().assign(steps=np.nan))


def test_a_batch_of_one_is_fine():
    found = critical_batch(table(8.0, batches=2.0 ** np.arange(0, 8))).groups[0]
    assert 8 in found.b_crit.ci
    assert found.points[0].batch == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": -1.0}, "steps must be positive"),
        ({"batch_size": 0.0}, "batch_size must be positive"),
        ({"batch_size": np.nan}, "batch_size must be filled in"),
        ({"steps": "many"}, "steps must hold numbers"),
        ({"status": "lost"}, "status must be one of"),
    ],
)
def test_impossible_cells_are_errors(change, message):
    with pytest.raises(DataError, match=message):
        critical_batch(table().assign(**change))


def test_bad_arguments_are_errors():
    with pytest.raises(ValueError, match="level must lie in"):
        critical_batch(table(), level=95)
    with pytest.raises(ValueError, match="overhead must be positive"):
        critical_batch(table(), overhead=-0.2)
    with pytest.raises(ValueError, match="each column plays one part"):
        critical_batch(table(), by="steps")
    with pytest.raises(DataError, match="did you mean 'batch_size'"):
        critical_batch(table(), batch="batchsize")
    with pytest.raises(ValueError, match="batch size must be positive"):
        critical_batch(table()).groups[0].steps_at(0.0)


def test_repeated_seeds_are_noted():
    data = pd.concat([table(), table(seed=1)])
    assert "9 row(s) repeat a batch size and seed" in critical_batch(data).notes[0]
    assert critical_batch(table(replicates=2)).notes == ()


def test_csv_and_order_change_nothing():
    data = sizes()
    whole = critical_batch(data, by="params")
    text = critical_batch(io.StringIO(data.to_csv(index=False)), by="params")
    mixed = critical_batch(data.sample(frac=1, random_state=0), by="params")
    for other in (text, mixed):
        assert [g.b_crit.value for g in other.groups] == pytest.approx(
            [g.b_crit.value for g in whole.groups], rel=1e-6
        )
        assert other.law.coefficient.value == pytest.approx(whole.law.coefficient.value, rel=1e-5)


def test_document_has_the_promised_keys_and_no_nan():
    for data in (sizes(), table(1e9, s_min=1.0).assign(params=1)):
        found = critical_batch(data, by="params")
        document = critical_batches_document(found)
        text = json.dumps(document, allow_nan=False)
        group = json.loads(text)["groups"][0]
        assert {"by", "b_crit", "ci", "s_min", "e_min", "regimes", "b_overhead"} <= set(group)
        assert list(group["regimes"]) == ["perfect", "diminishing", "maximal"]
        assert group["regimes"]["perfect"][0] is None
        assert group["regimes"]["maximal"][1] is None
        assert (document["law"] is None) == (found.law is None)
    document = critical_batches_document(critical_batch(sizes(), by="params"))
    assert document["law"]["of"] == "b_overhead"
    assert set(document["law"]["exponent"]) == {"value", "ci"}
    assert set(document["laws"]) == {"b_crit", "b_overhead", "s_min"}


def test_every_flag_has_a_sentence_that_says_what_to_do():
    assert all(":" in text or ";" in text for text in FLAGS.values())


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [1, 3])
def test_intervals_cover_at_their_level(replicates):
    truth = {"b_crit": 2000.0, "s_min": 1000.0, "e_min": 2e6, "b_overhead": 1.2 * 64 + 400}
    n, held, new = 400, dict.fromkeys(truth, 0), 0
    rng = np.random.default_rng(1)
    for i in range(n):
        found = critical_batch(table(replicates=replicates, seed=100 + i)).groups[0]
        for name, value in truth.items():
            held[name] += value in getattr(found, name).ci
        observed = float(steps_to_target(700, s_min=1000, b_crit=2000))
        new += observed * np.exp(NOISE * rng.normal()) in found.steps_at(700).pi
    for count in (*held.values(), new):
        assert count / n == pytest.approx(0.95, abs=0.033)
