"""Recipes compared: verdicts, pairs, costs, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import extrap
from benchmarks.gains import compared_arms
from benchmarks.sweeps import make_table, simulate
from extrap.analyses.comparison import Arm, tuned_arm
from extrap.analyses.comparison.arm_table import arm_table, mean_error
from extrap.errors import DataError
from extrap.fitting.gain import Pairs, fit_gain
from extrap.records import Measure, Runs

WIDTHS = (16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
NOISE = 0.003


def law(width, *, floor=1.5, scale=2.0, exponent=0.4):
    return floor + scale * (width / 16) ** -exponent


def table(*, luck=0, seeds=(0, 1, 2), widths=WIDTHS, rates=False, noise=NOISE, **of_law):
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


def runs(frame, **columns):
    return Runs.from_frame(frame, **{"sizes": ["width"], "tuned": (), **columns})


def compared(treated, *, plain=None, **options):
    plain = table() if plain is None else plain
    return extrap.compare({"plain": runs(plain), "treated": runs(treated)}, **options)


def logs(frame):
    """Log losses by size and seed, those that tests are made of."""
    by_size = tuned_arm("one", runs(frame), level=0.95).by_size
    return np.array([[*by_seed.values()] for by_seed in by_size.values()])


def half(se, dof, level=0.95):
    return float(stats.t.ppf((1 + level) / 2, dof)) * se


def rest(table):
    """Mean square of what neither sizes nor seeds explain."""
    off = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    return float((off**2).sum()) / (table.shape[0] - 1) / (table.shape[1] - 1)


def anova(table):
    """Variance of the mean at one size, and its degrees of freedom: of seeds and their rest."""
    (k, n), own = table.shape, rest(table)
    of_seeds = k * table.mean(axis=0).var(ddof=1)
    both = of_seeds + (k - 1) * own
    dof = both**2 / (of_seeds**2 / (n - 1) + ((k - 1) * own) ** 2 / (k - 1) / (n - 1))
    return both / k / n, dof


def welch(*parts):
    """Standard error and degrees of freedom of a sum of (variance, dof)."""
    variance = sum(v for v, _ in parts)
    return math.sqrt(variance), variance**2 / sum(v**2 / dof for v, dof in parts)


def test_paired_recipes_are_compared_by_t_tests_of_their_differences():
    """SciPy: pairs by seed, sizes, the mean over sizes."""
    plain, treated = table(), table(luck=2, scale=1.995)
    (found,) = compared(treated).contrasts
    a, b = logs(plain), logs(treated)
    of_means = stats.ttest_rel(b.mean(axis=0), a.mean(axis=0))
    ends = np.expm1([*of_means.confidence_interval()])
    assert tuple(found.mean.ci) == pytest.approx(tuple(ends))
    assert found.mean.value == pytest.approx(math.expm1((b - a).mean()))
    assert found.p_value == pytest.approx(of_means.pvalue)
    of_difference, dof = anova(b - a)
    for i, row in enumerate(found.by_size):
        centre, wide = (b - a)[i].mean(), half(math.sqrt(of_difference), dof)
        assert row.difference.value == pytest.approx(math.expm1(centre))
        ends = (math.expm1(centre - wide), math.expm1(centre + wide))
        assert tuple(row.difference.ci) == pytest.approx(ends)
        for measure, losses in ((row.plain, a), (row.treated, b)):
            variance, own = anova(losses)
            wide = math.log(measure.ci.upper / measure.value)
            assert wide == pytest.approx(half(math.sqrt(variance), own))
        assert row.n_pairs == 3


@pytest.mark.parametrize("seeds", [(10, 11, 12), (0, 1)])
def test_other_seeds_are_compared_by_welch_tests(seeds):
    """Without pairs all by Welch's test; two pairs are pairs."""
    n = len(seeds)
    plain, treated = table(seeds=tuple(range(n))), table(luck=1, seeds=seeds, scale=1.995)
    found = compared(treated, plain=plain)
    (contrast,) = found.contrasts
    a, b = logs(plain), logs(treated)
    means = b.mean(axis=0), a.mean(axis=0)
    of_means = stats.ttest_ind(*means, equal_var=False) if n == 3 else stats.ttest_rel(*means)
    lower, upper = np.expm1([*of_means.confidence_interval()])
    assert tuple(contrast.mean.ci) == pytest.approx((lower, upper))
    if n == 3:
        se_by_size, dof_by_size = welch(anova(a), anova(b))
        centre = math.log1p(contrast.by_size[2].difference.value)
        upper = math.log1p(contrast.by_size[2].difference.ci.upper)
        assert upper - centre == pytest.approx(half(se_by_size, dof_by_size))
        assert any("not paired" in note for note in found.notes)
    assert contrast.p_value == pytest.approx(of_means.pvalue)
    assert all(row.n_pairs == (0 if n == 3 else 2) for row in contrast.by_size)


def test_without_a_difference_one_test_in_twenty_is_significant():
    """400 pairs of recipes at .05 and .5: within three standard errors."""
    rng, n = np.random.default_rng(0), 400
    found = []
    for _ in range(n):
        seeds = rng.normal(size=3)
        arms = [
            Arm(
                name=name,
                by_size={(w,): dict(enumerate(seeds + rng.normal(size=3))) for w in WIDTHS},
            )
            for name in "ab"
        ]
        tested = arm_table(*arms)
        found.append(mean_error(tested).p_value(tested.differences.mean()))
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.033)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.075)


def test_a_gain_of_almost_exact_losses_holds_the_truth():
    treated = table(luck=1, noise=1e-7, scale=2.4, exponent=0.6)
    found = compared(treated, plain=table(noise=1e-7), at={"width": 2048})
    (contrast,) = found.contrasts
    assert contrast.verdict == "survives"
    assert law(2048, scale=2.4, exponent=0.6) / law(2048) - 1 in contrast.at_target.difference.ci
    assert compared(table(luck=2, scale=1.8), at={"width": 1024}).target == {"width": 1024.0}


def test_verdict_is_that_of_the_interval_at_the_target():
    (same,) = compared(table(luck=2)).contrasts
    assert same.verdict == "undecided"
    assert 0.0 in same.at_target.difference.ci
    (itself,) = compared(table()).contrasts
    assert (itself.verdict, itself.p_value) == ("no difference", pytest.approx(1.0))
    (shift,) = compared(table(luck=1, floor=1.5 * 0.95, scale=2 * 0.95)).contrasts
    assert shift.verdict == "survives"
    assert shift.at_target.difference.value == pytest.approx(-0.05, abs=0.01)
    (steeper,) = compared(table(luck=1, exponent=0.5)).contrasts
    assert steeper.verdict == "survives"
    arms = [table(luck=2, seeds=(5, 6), noise=0.4), table(seeds=(0, 1), noise=0.4)]
    assert compared(arms[0], plain=arms[1]).verdict == "undecided"
    low, high = table(), table(luck=1)
    low["loss"] *= 1e-49
    high["loss"] *= 1e48
    assert compared(high, plain=low).verdict == "hurts"


def test_a_gain_of_the_floor_alone_is_asked_for_by_its_least_size():
    arms = [table(luck=i, noise=3e-4, floor=1.5 * f, scale=2 * f) for i, f in ((0, 1), (1, 0.99))]
    assert compared(arms[1], plain=arms[0]).verdict == "survives"
    assert compared(arms[1], plain=arms[0], min_gain=0.005).verdict == "survives"
    assert compared(arms[1], plain=arms[0], min_gain=0.02).verdict == "no difference"
    assert compared(arms[0], plain=arms[1]).verdict == "hurts"


def test_a_gain_that_goes_fades():
    plain = table(noise=3e-4)
    gone = table(luck=1, noise=3e-4)
    gone["loss"] *= 1 - 0.02 * (gone["width"] / 16) ** -0.5
    found = compared(gone, plain=plain, at=2**16)
    assert found.verdict == "fades"
    assert found.contrasts[0].by_size[0].difference.value == pytest.approx(-0.02, abs=1e-3)


def test_one_seed_is_judged_by_the_interval_at_the_target():
    plain, treated = table(seeds=(0,)), table(luck=1, seeds=(0,), scale=1.6)
    (found,) = compared(treated, plain=plain).contrasts
    assert (found.verdict, found.p_value) == ("survives", None)
    assert found.decisive.is_forecast
    frames = (each.drop(columns="lr") for each in (treated, plain))
    assert "one seed" in repr(compared(next(frames), plain=next(frames)))
    assert found.flags == tuple(
        f"untuned: {name} has one learning rate at width 512" for name in ("plain", "treated")
    )


def test_tuned_recipes_stand_at_their_own_best():
    plain, treated = table(rates=True), table(luck=1, rates=True)
    treated["lr"] *= 4
    arms = {"plain": runs(plain, tuned=("lr",)), "treated": runs(treated, tuned=("lr",))}
    (contrast,) = extrap.compare(arms).contrasts
    assert (contrast.verdict, contrast.flags) == ("undecided", ())
    for row in contrast.by_size:
        assert row.plain.value == pytest.approx(law(row.size["width"]), rel=0.02)
    mixed = extrap.compare({"plain": runs(table()), "treated": arms["treated"]})
    assert mixed.verdict == "undecided"
    assert any("tune different" in note for note in mixed.notes)


def test_diverged_rates_sizes_and_an_edge_are_flagged():
    plain, treated = table(rates=True), table(luck=1, rates=True)
    plain.loc[plain["lr"] >= 2.0**-6, "loss"] = math.nan
    treated = treated[treated["lr"] >= 2.0**-8]
    arms = {"plain": runs(plain, tuned=("lr",)), "treated": runs(treated, tuned=("lr",))}
    (found,) = extrap.compare(arms).contrasts
    assert len(found.by_size) == len(WIDTHS)
    (edge,) = found.flags
    assert edge.startswith("edge")
    assert "of treated is bracketed at width 16; width 32" in edge
    treated = table(luck=1)
    treated.loc[treated["width"] == 512, "loss"] = math.nan
    found = compared(treated)
    assert [row.size["width"] for row in found.contrasts[0].by_size] == list(WIDTHS[:-1])
    assert any("512" in note for note in found.notes)
    assert found.target == {"width": 512.0}


def test_several_recipes_pay_for_each_other():
    arms = {"plain": table(), "b": table(luck=1), "c": table(luck=2, scale=1.8)}
    found = extrap.compare({name: runs(frame) for name, frame in arms.items()})
    assert found.arms == ("plain", "b", "c")
    b, c = found.contrasts
    assert (found.verdict, b.verdict, c.verdict) == ("survives", "undecided", "survives")
    alone = extrap.compare({name: runs(arms[name]) for name in ("plain", "b")}).contrasts[0]
    assert alone.at_target.difference.ci.lower > b.at_target.difference.ci.lower


def test_two_sizes_have_a_wider_answer_than_three():
    few, plain = WIDTHS[:2], table(widths=WIDTHS[:2])
    there = compared(table(luck=1, floor=1.35, scale=1.8, widths=few), plain=plain, at=32)
    assert there.verdict == "survives"  # measured
    frames = [table(luck=i, seeds=(0,), widths=few) for i in (0, 1)]
    (single,) = compared(frames[1], plain=frames[0], at=128).contrasts
    assert (single.verdict, single.p_value) == ("undecided", None)
    assert all(row.is_by_law for row in single.by_size)
    three = [table(luck=i, seeds=(0,), widths=WIDTHS[:3]) for i in (0, 1)]
    (more,) = compared(three[1], plain=three[0], at=256).contrasts
    wide, narrow = (found.at_target.difference.ci for found in (single, more))
    assert wide.upper - wide.lower > narrow.upper - narrow.lower
    assert single.next_runs.recipes == ("plain", "treated")
    assert 32 < single.next_runs.size["width"] < 129


def test_one_size_is_compared_where_it_is():
    frames = [table(luck=i, widths=(64.0,), scale=2 - 0.2 * i) for i in (0, 1, 2)]
    arms = dict(zip(("plain", "half", "whole"), map(runs, frames), strict=True))
    found = extrap.compare(arms, reference="whole")
    half_way, whole = found.contrasts
    assert (found.target, half_way.verdict) == ({"width": 64.0}, "better here")
    assert half_way.decisive is half_way.by_size[0]
    assert 0.5 in half_way.share.ci
    assert whole.share == Measure()


def test_costs_are_extrapolated_and_priced():
    at = {"width": 1024}
    plain = compared(table(luck=1), at=at, price=2.0).costs[0]
    flops, hours = 1e3 * 1024**2, 1024 / 3600
    assert (plain.flops, plain.gpu_hours, plain.money) == pytest.approx((flops, hours, 2 * hours))
    by_speed = compared(table(luck=1), at=at, flops_per_second=1e6).costs[0]
    assert (by_speed.gpu_hours, by_speed.money) == (pytest.approx(flops / 3.6e9), None)
    frames = [table(luck=i).drop(columns=["flops", "wall_s"]) for i in (0, 1)]
    found = compared(frames[1], plain=frames[0], price=0.0)
    assert (found.costs[0].flops, found.costs[0].money) == (None, None)
    counted = [f.assign(n_params=f["width"], n_tokens=10.0) for f in frames]
    assert compared(counted[1], plain=counted[0]).costs[0].flops == pytest.approx(60 * 1024.0)
    one_size = [f[f["width"] == 16].assign(flops=7.0) for f in (table(), table(luck=1))]
    assert compared(one_size[1], plain=one_size[0]).costs[0].flops == pytest.approx(7.0)


def test_sizes_that_move_together_count_as_one_and_others_have_a_law_of_both():
    arms = {"plain": table(), "treated": table(luck=1, scale=1.6)}
    made = {
        name: Runs.from_frame(f.assign(tokens=20 * f["width"]), sizes=["width", "tokens"])
        for name, f in arms.items()
    }
    found = extrap.compare(made)
    assert found.target == {"width": 1024.0, "tokens": 20480.0}
    assert found.contrasts[0].at_target is not None
    for luck, (name, scale) in enumerate({"plain": 2.0, "treated": 1.6}.items()):
        more = [
            f.assign(tokens=t, loss=f["loss"] + 20 / t, flops=f["flops"] * t)
            for i, t in enumerate((100.0, 400.0, 1600.0))
            for f in [table(luck=2 * i + luck, scale=scale)]
        ]
        made[name] = Runs.from_frame(pd.concat(more, ignore_index=True), sizes=["width", "tokens"])
    (contrast,) = extrap.compare(made).contrasts
    assert (contrast.verdict, len(contrast.by_size)) == ("survives", 18)
    truth = (law(1024, scale=1.6) + 20 / 3200) / (law(1024) + 20 / 3200) - 1
    assert truth in contrast.at_target.difference.ci


@pytest.mark.parametrize("n_seeds", [1, 2, 3])
def test_three_sizes_have_one_verdict_and_an_interval_that_agrees_with_it(n_seeds):
    rng, seen = np.random.default_rng(n_seeds), set()
    for draw in range(12):
        axes = {"width": (16, 32, 64), "seed": range(n_seeds)}
        plain, treated = (
            simulate(lambda width, seed: 1.5 + 8 / width, noise=0.003, rng=rng, **axes)
            for _ in range(2)
        )
        treated["loss"] *= 1 + 0.01 * (draw % 3)
        tables = {"plain": plain, "treated": treated}
        (contrast,) = extrap.compare(tables, size="width", tune=()).contrasts
        seen.add(contrast.verdict)
        shown = contrast.decisive.difference
        assert (contrast.verdict == "hurts") == (shown.ci.lower > 0)
        assert (contrast.verdict == "survives") == (shown.ci.upper < 0)
    assert {"undecided", "hurts"} <= seen


def test_recipes_of_one_table_are_those_of_several():
    arms = {"plain": table(rates=True), "treated": table(rates=True, luck=1, scale=1.6)}
    both = pd.concat([f.assign(recipe=name) for name, f in arms.items()], ignore_index=True)
    found = extrap.compare(both, by="recipe", size="width", tune="lr")
    assert found == extrap.compare(arms, size="width", tune="lr")


HALF = len(WIDTHS) * 3
"""Runs of `table`."""


@pytest.mark.parametrize(
    ("warmup", "first", "is_refused"),
    [
        ([100] * HALF + [500] * HALF, "complete", True),
        ([100] * HALF + [500] + [100] * (HALF - 1), "complete", True),
        ([*range(2 * HALF)], "complete", False),  # measured
        ([100] * HALF + [500] * HALF, "failed", False),  # trained again
    ],
)
def test_a_setting_that_varies_between_runs_of_a_seed_must_be_declared(warmup, first, is_refused):
    status = [first] * HALF + ["complete"] * HALF
    twice = pd.concat([table(luck=1), table(luck=2)]).assign(warmup=warmup, status=status)
    twice["loss"] = twice["loss"].where(twice["status"] == "complete")
    if is_refused:
        with pytest.raises(DataError, match="warmup"):
            compared(twice)
    else:
        assert compared(twice).contrasts[0].by_size[0].n_pairs == 3


def test_copies_count_once_and_replicates_do_not():
    frame = table(luck=1).drop(columns="seed")
    plain = extrap.read_runs(table(), size="width")
    once, twice = (
        extrap.compare({"plain": plain, "treated": extrap.read_runs(each, size="width")})
        for each in (frame, pd.concat([frame, frame]))
    )
    assert all(row.n_pairs == 0 for row in once.contrasts[0].by_size)
    assert twice.contrasts[0].p_value == pytest.approx(once.contrasts[0].p_value)
    assert any("18 run(s)" in note for note in twice.notes)
    measured = table().assign(wall_s=range(18), note="x")
    again = pd.concat([measured, measured.assign(loss=measured["loss"] * 1.001, wall_s=7.5)])
    assert compared(table(luck=1), plain=again).contrasts


def _arm(name, *, widths=WIDTHS, seeds=(0, 1, 2), noise=0.0, rng=None, per_seed=0.0, **of_law):
    rng = rng or np.random.default_rng(0)
    effect = {seed: per_seed * rng.normal() for seed in seeds}
    return Arm(
        name=name,
        by_size={
            (w,): {s: math.log(law(w, **of_law)) + effect[s] + noise * rng.normal() for s in seeds}
            for w in widths
        },
    )


def _two(n_seeds=3, widths=WIDTHS, noise=0.003, seed=1, per_seed=0.0, **of_law):
    rng = np.random.default_rng(seed)
    seeds = tuple(range(n_seeds))
    noises = {"widths": widths, "seeds": seeds, "noise": noise, "per_seed": per_seed, "rng": rng}
    return _arm("plain", **noises), _arm("treated", **noises, **of_law)


def _found(arms, *target, columns=("width",), level=0.9):
    at = dict(zip(columns, target, strict=True))
    return compared_arms(*arms, at, level)[0]


def test_four_sizes_with_one_seed_have_the_interval_of_gains():
    tables = [table(luck=i, seeds=(0,), widths=WIDTHS[:4]) for i in (0, 1)]
    (found,) = compared(tables[1], plain=tables[0], at=1024, level=0.9).contrasts
    gains = np.log(tables[0]["loss"]) - np.log(tables[1]["loss"])
    sizes = [[width] for width in WIDTHS[:4]]
    pairs = Pairs(columns=["width"], sizes=sizes, gains=gains.tolist(), n_pairs=[1] * 4)
    expected = fit_gain(pairs).predict({"width": 1024})
    difference = found.at_target.difference
    assert math.log1p(difference.value) == pytest.approx(-expected.mean, abs=1e-9)
    ends = [-math.log1p(end) for end in reversed(difference.ci)]
    assert ends == pytest.approx(list(expected.interval(0.9)), abs=1e-9)
    assert found.at_target.plain == Measure()


def test_a_size_with_one_seed_leaves_the_mean_the_error_of_that_size():
    plain, treated = _two(scale=1.9)
    fewer = {k: {0: v[0]} if k == (16.0,) else v for k, v in treated.by_size.items()}
    found = _found((plain, replace(treated, by_size=fewer)), 1024.0)
    single, mean = found.by_size[0].difference.ci, found.mean.ci
    assert mean.upper - mean.lower == pytest.approx(single.upper - single.lower, rel=0.1)
    assert found.p_value < 0.05


def test_a_unit_of_size_changes_no_number():
    arms = _two(exponent=0.45)
    scaled = [
        replace(arm, by_size={(k[0] * 1e3,): v for k, v in arm.by_size.items()}) for arm in arms
    ]
    one, other = _found(arms, 1024.0), _found(scaled, 1024e3)
    assert other.at_target.difference.ci == pytest.approx(one.at_target.difference.ci, rel=1e-4)
    assert other.p_value == pytest.approx(one.p_value)


@pytest.mark.parametrize("tuned", [["lr"], []])
def test_a_comparison_states_the_loss_that_the_forecast_states(tuned):
    """Of tuned runs and of runs at one rate; the seeds' mean, and `compare` itself."""
    frame = make_table(widths=WIDTHS[:4], seed=8)
    frame = frame if tuned else frame.drop_duplicates(["width", "seed"]).drop(columns="lr")
    plain = Runs.from_frame(frame, sizes=["width"], tuned=tuned)
    arm = tuned_arm("plain", plain, level=0.9)
    losses = [optimum.loss for optimum in extrap.forecast(plain).optima]
    means = [math.exp(np.mean([*seeds.values()])) for seeds in arm.by_size.values()]
    assert means == pytest.approx(losses, rel=1e-12)
    assert all(len(seeds) == 3 for seeds in arm.by_size.values())
    other = Runs.from_frame(frame.assign(loss=0.99 * frame["loss"]), sizes=["width"], tuned=tuned)
    (contrast,) = extrap.compare({"plain": plain, "other": other}).contrasts
    assert [row.plain.value for row in contrast.by_size] == pytest.approx(losses, rel=1e-10)
    assert [row.difference.value for row in contrast.by_size] == pytest.approx(
        [-0.01] * 4, abs=1e-4
    )


def test_seeds_with_other_rates_than_each_other_differ_by_a_constant():
    def loss(width, seed, lr):
        return law(width) * np.exp(0.012 * (np.log2(lr) + 8.2) ** 2 + 0.01 * seed)

    axes = {"width": WIDTHS[:4], "seed": range(3), "lr": 2.0 ** np.arange(-11, -4)}
    frame = simulate(loss, noise=1e-6, **axes)
    frame = frame[(np.log2(frame["lr"]).round().astype(int) + frame["seed"]) % 2 == 0]
    arm = tuned_arm("plain", Runs.from_frame(frame, sizes=["width"], tuned=["lr"]), level=0.9)
    for seeds in arm.by_size.values():
        assert seeds[1] - seeds[0] == pytest.approx(0.01, abs=2e-3)


def test_a_seed_that_lacks_a_rate_has_the_loss_that_the_others_tell():
    """Losses but for the seeds' own differences are the same: noise of 1e-6."""
    frame = make_table(widths=WIDTHS[:4], seed=9, noise=1e-6)
    best = frame.loc[frame["loss"].idxmin()]
    lacks = (frame["width"] == best["width"]) & (frame["lr"] == best["lr"]) & (frame["seed"] == 0)
    whole, of_two = (
        tuned_arm("plain", Runs.from_frame(f, sizes=["width"], tuned=["lr"]), level=0.9).by_size
        for f in (frame, frame[~lacks])
    )
    for size, losses in whole.items():
        assert dict(of_two[size]) == pytest.approx(dict(losses), abs=1e-5)


@pytest.mark.parametrize("noise", [0.003, 0.4])
def test_losses_of_runs_of_one_rate_are_their_means_however_they_scatter(noise):
    frame = table(seeds=(0, 1), noise=noise)
    losses = np.log(frame.pivot(index="width", columns="seed", values="loss"))
    assert logs(frame).mean(axis=1) == pytest.approx(losses.mean(axis=1), abs=noise / 100)


def test_seeds_scatter_by_what_their_curves_err_by():
    """The least-squares parabola of seven rates −3 to 3 octaves off errs by √(1/3) of the noise.

    Their mean would by √(1/7): no curve is known. Eight seeds at six sizes tell it to 11 %.
    """
    axes = {"width": WIDTHS, "seed": range(8), "lr": 2.0 ** np.arange(-3, 4)}
    frame = simulate(law, optimum=lambda width: 1.0, cost=0.012, noise=NOISE, **axes)
    arm = tuned_arm("plain", Runs.from_frame(frame, sizes=["width"], tuned=["lr"]), level=0.9)
    variances = [np.var([*by_seed.values()], ddof=1) for by_seed in arm.by_size.values()]
    assert math.sqrt(np.mean(variances)) == pytest.approx(NOISE * math.sqrt(1 / 3), rel=0.3)


@pytest.mark.parametrize(
    ("column", "values"),
    [("schedule", ("cosine", "wsd")), ("use_ema", (True, False)), ("warmup", (100, 500))],
)
@pytest.mark.parametrize("is_in_both", [True, False])
def test_a_setting_that_varies_within_a_recipe_without_seeds_is_asked_for(
    column, values, is_in_both
):
    rows = [
        (width, recipe, value, law(width) * (1 + 0.03 * i))
        for width in WIDTHS
        for recipe in ("adam", "muon")
        for i, value in enumerate(values)
        if i == 0 or recipe == "adam" or is_in_both
    ]
    both = pd.DataFrame(rows, columns=["width", "recipe", column, "loss"])
    with pytest.raises(DataError, match=f"mixes several .{column}") as caught:
        extrap.compare(both, by="recipe")
    offered = [
        choice.arguments["where"] for choice in caught.value.choices if "where" in choice[0]
    ]
    wanted = values if is_in_both else values[:1]  # of the other value there is one recipe
    assert sorted(each[column] for each in offered) == sorted(map(str, wanted))
    for choice in caught.value.choices:
        assert extrap.compare(both, by="recipe", **choice.arguments).plain == "adam"


def test_a_setting_that_is_the_same_within_each_recipe_is_no_mixture():
    arms = {"adam": "cosine", "muon": "wsd"}
    frames = [table(seeds=(0,)).assign(recipe=r, schedule=s) for r, s in arms.items()]
    both = pd.concat(frames, ignore_index=True).drop(columns="seed")
    assert extrap.compare(both, by="recipe", size="width", tune="lr").plain == "adam"


def test_recipes_say_which_columns_were_taken_for_what_once(sweep_table):
    table = sweep_table(seeds=2)
    arms = {"plain": table, "changed": table.assign(loss=0.99 * table["loss"])}
    joined = pd.concat([arm.assign(recipe=name) for name, arm in arms.items()])
    used = "Using size = width, tune = lr, loss = loss, seed = seed"
    for found in (extrap.compare(arms), extrap.compare(joined, by="recipe")):
        assert [note for note in found.notes if note.startswith("Using ")] == [used]
        assert str(found).splitlines()[0] == used
