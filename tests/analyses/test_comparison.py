import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.analyses.comparison import Arm, contrast_arms, tuned_arm
from extrap.analyses.comparison.arm_errors import joint_p_value, mean_error
from extrap.analyses.comparison.arm_table import arm_table
from extrap.analyses.comparison.contrasts import fit_laws, share_closed, two_laws
from extrap.errors import DataError
from extrap.records import Runs

WIDTHS = tuple(16.0 * 2**i for i in range(6))


def _loss(width, *, floor=1.5, scale=2.0, exponent=0.4):
    return floor + scale * (width / 16) ** -exponent


def _arm(name, *, widths=WIDTHS, seeds=(0, 1, 2), noise=0.0, rng=None, per_seed=0.0, **law):
    rng = rng or np.random.default_rng(0)
    effect = {seed: per_seed * rng.normal() for seed in seeds}
    return Arm(
        name=name,
        by_size={
            (w,): {s: math.log(_loss(w, **law)) + effect[s] + noise * rng.normal() for s in seeds}
            for w in widths
        },
    )


def _two(n_seeds=3, widths=WIDTHS, noise=0.003, seed=1, per_seed=0.0, **law):
    rng = np.random.default_rng(seed)
    seeds = tuple(range(n_seeds))
    noises = {"widths": widths, "seeds": seeds, "noise": noise, "per_seed": per_seed, "rng": rng}
    return _arm("plain", **noises), _arm("treated", **noises, **law)


def _found(arms, *target, columns=("width",), level=0.9):
    at = dict(zip(columns, target, strict=True))
    return contrast_arms(*arms, columns=columns, target=at, level=level)[0]


def _sweep(rng, noise=0.003):
    rows = []
    for i, width in enumerate(WIDTHS[:4]):
        for seed in range(3):
            for rate in range(-11, -4):
                off = rate + 8 + 0.3 * i
                loss = _loss(width) * math.exp(0.012 * off**2 + noise * rng.normal())
                rows.append({"width": width, "seed": seed, "lr": 2.0**rate, "loss": loss})
    return pd.DataFrame(rows)


def test_noiseless_laws_give_their_own_numbers():
    found = _found(_two(noise=0.0, floor=1.4, exponent=0.45), 1024.0)
    truth = _loss(1024, floor=1.4, exponent=0.45) / _loss(1024) - 1
    assert found.at_target.difference.value == pytest.approx(truth, abs=1e-6)
    assert [e.value for e in found.exponents.values()] == pytest.approx([0.4, 0.45], abs=1e-4)
    assert found.by_size[0].difference.value == pytest.approx(_loss(16, floor=1.4) / _loss(16) - 1)


def test_worth_is_the_size_of_equal_loss():
    found = _found(_two(noise=1e-5, scale=1.8), 1024.0)
    factor = (2.0 / 1.8) ** (1 / 0.4)
    assert [w.size_factor.value for w in found.worth] == pytest.approx([factor, factor], rel=1e-2)
    assert found.worth[0].size_factor.ci.lower < factor < found.worth[0].size_factor.ci.upper


def test_worth_is_open_where_the_plain_law_never_gets_there():
    found = _found(_two(noise=1e-4, floor=1.0), 4096.0)
    assert found.worth[1].size_factor.value is None
    assert found.worth[1].size_factor.ci.upper is None


def test_laws_that_cross_inside_the_sizes_cross_where_they_do():
    scale = (_loss(90) - 1.6) / (90 / 16) ** -0.5
    found = _found(_two(noise=1e-4, floor=1.6, scale=scale, exponent=0.5), 1024.0)
    assert found.crossing.value == pytest.approx(90, rel=0.02)
    assert found.crossing.ci.lower < 90 < found.crossing.ci.upper


def test_an_effect_of_seeds_moves_the_target_and_leaves_the_exponent_alone():
    rng = np.random.default_rng(3)
    plain, own = (_arm(name, noise=0.003, rng=rng) for name in ("plain", "treated"))
    moved = Arm(
        name="treated",
        by_size={k: {s: v + 0.02 * s for s, v in row.items()} for k, row in own.by_size.items()},
    )
    before, after = (_found((plain, arm), 1024.0) for arm in (own, moved))
    gaps = [each.exponent_difference for each in (before, after)]
    widths = [gap.ci.upper - gap.ci.lower for gap in gaps]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    targets = [each.at_target.difference.ci for each in (before, after)]
    assert targets[1].upper - targets[1].lower > 3 * (targets[0].upper - targets[0].lower)


def test_four_sizes_with_one_seed_are_refused_with_what_to_add():
    found = _found(_two(n_seeds=1, widths=WIDTHS[:4]), 1024.0)
    assert found.at_target is None
    assert set(found.refusals) == {"at_target", "mean"}
    assert "add a second seed" in found.refusals["at_target"]


def test_differences_of_single_seeds_are_not_given():
    found = _found(_two(n_seeds=1, widths=WIDTHS[:5]), 1024.0)
    assert [place.difference.value for place in found.by_size] == [None] * 5
    assert (found.mean.value, found.p_value) == (None, None)
    assert found.by_size[0].plain.value == pytest.approx(_loss(16), rel=0.02)


def test_a_size_with_one_seed_leaves_the_mean_the_error_of_that_size():
    plain, treated = _two(scale=1.9)
    fewer = {k: {0: v[0]} if k == (16.0,) else v for k, v in treated.by_size.items()}
    found = _found((plain, replace(treated, by_size=fewer)), 1024.0)
    single, mean = found.by_size[0].difference.ci, found.mean.ci
    assert mean.upper - mean.lower == pytest.approx(single.upper - single.lower, rel=0.1)
    assert found.p_value < 0.05


def test_the_share_of_a_gap_is_a_ratio_of_means():
    plain, treated = _two(noise=1e-3, scale=1.9)
    reference = _arm("reference", noise=1e-3, scale=1.8, rng=np.random.default_rng(7))
    share = share_closed(plain, treated, reference, level=0.9)
    assert share.value == pytest.approx(0.5, abs=0.1)
    assert share.ci.lower < 0.5 < share.ci.upper
    assert share_closed(plain, treated, plain, level=0.9).value is None


def test_five_sizes_with_one_seed_carry_a_hidden_effect_of_the_seed():
    arms = _two(n_seeds=1, widths=WIDTHS[:5])
    assert two_laws(arm_table(*arms)).seed_error.se > 0
    assert _found(arms, 1024.0).at_target.difference.ci.upper is not None


def test_another_exponent_is_significant_though_the_mean_is_not():
    table = arm_table(*_two(noise=0.002, per_seed=0.01, exponent=0.3, seed=4))
    table = replace(table, treated=table.treated - table.differences.mean())
    mean = mean_error(table)
    assert mean.p_value(float(table.differences.mean())) > 0.9
    assert joint_p_value(table) < 0.01


def test_seeds_that_are_not_shared_are_not_paired():
    rng = np.random.default_rng(5)
    plain = _arm("plain", noise=0.003, rng=rng)
    treated = _arm("treated", seeds=(7, 8, 9), noise=0.003, rng=rng)
    assert not arm_table(plain, treated).is_paired
    assert _found((plain, treated), 1024.0).p_value > 0.01


def test_two_size_columns_that_vary_independently_have_a_law_of_both():
    rng = np.random.default_rng(6)
    grid = [(2.0**i, 2.0**j) for i in range(4) for j in range(4)]

    def arm(name, scale):
        of = {k: math.log(1.5 + scale * k[0] ** -0.4 + k[1] ** -0.3) for k in grid}
        return Arm(
            name=name,
            by_size={k: {s: v + 0.002 * rng.normal() for s in (0, 1)} for k, v in of.items()},
        )

    arms = arm("plain", 1.2), arm("treated", 1.1)
    found = _found(arms, 16.0, 16.0, columns=("width", "examples"))
    truth = (1.5 + 1.1 * 16**-0.4 + 16**-0.3) / (1.5 + 1.2 * 16**-0.4 + 16**-0.3) - 1
    assert truth in found.at_target.difference.ci
    assert found.p_value < 0.05


def test_columns_that_move_together_count_as_one():
    plain, treated = _arm("plain"), _arm("treated", scale=1.9)
    both = [
        Arm(name=a.name, by_size={(k[0], k[0] ** 2): v for k, v in a.by_size.items()})
        for a in (plain, treated)
    ]
    one = _found((plain, treated), 1024.0)
    two = _found(both, 1024.0, 1024.0**2, columns=("width", "tokens"))
    assert two.at_target.difference.value == pytest.approx(one.at_target.difference.value)


def test_a_unit_of_size_changes_no_number():
    arms = _two(exponent=0.45)
    scaled = [
        replace(arm, by_size={(k[0] * 1e3,): v for k, v in arm.by_size.items()}) for arm in arms
    ]
    one, other = _found(arms, 1024.0), _found(scaled, 1024e3)
    assert other.at_target.difference.ci == pytest.approx(one.at_target.difference.ci, rel=1e-4)
    assert other.p_value == pytest.approx(one.p_value)


def test_mean_of_the_seeds_is_the_loss_that_the_forecast_states():
    runs = Runs.from_frame(_sweep(np.random.default_rng(8)), sizes=["width"], tuned=["lr"])
    arm = tuned_arm("plain", runs, level=0.9)
    optima = extrap.forecast(runs).optima
    means = [math.exp(np.mean([*seeds.values()])) for seeds in arm.by_size.values()]
    assert means == pytest.approx([optimum.loss for optimum in optima], rel=1e-12)
    assert all(len(seeds) == 3 for seeds in arm.by_size.values())


def test_seeds_with_other_rates_than_each_other_differ_by_a_constant():
    frame = _sweep(np.random.default_rng(9), noise=1e-6)
    frame["loss"] *= np.exp(0.01 * frame["seed"])
    frame = frame[(np.log2(frame["lr"]).round().astype(int) + frame["seed"]) % 2 == 0]
    arm = tuned_arm("plain", Runs.from_frame(frame, sizes=["width"], tuned=["lr"]), level=0.9)
    for seeds in arm.by_size.values():
        assert seeds[1] - seeds[0] == pytest.approx(0.01, abs=2e-3)


def test_an_arm_without_a_loss_is_refused():
    frame = _sweep(np.random.default_rng(9)).assign(loss=np.nan)
    with pytest.raises(DataError, match="'plain' has none"):
        tuned_arm("plain", Runs.from_frame(frame, sizes=["width"], tuned=["lr"]), level=0.9)


def test_curves_of_resamples_are_those_of_fits_of_their_own():
    rng = np.random.default_rng(10)
    logs = np.log(np.array(WIDTHS))[:, None]
    y = np.log([_loss(w) for w in WIDTHS]) + 0.002 * rng.normal(size=(5, 6))
    weights = np.ones((5, 6))
    weights[3, 2] = 0
    together = fit_laws(logs, y, weights)
    alone = [fit_laws(logs, y[i : i + 1], weights[i : i + 1])[0] for i in range(5)]
    assert together == pytest.approx(np.array(alone), rel=1e-5)
