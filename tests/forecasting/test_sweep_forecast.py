import copy
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import WLS

from benchmarks.sweeps import true_loss, true_lr
from extrap.errors import DataError
from extrap.forecasting import forecast, sweep_forecast, sweep_laws
from extrap.forecasting.documents import load_forecast, save_forecast
from extrap.reading import read_runs
from extrap.records import Interval, Runs
from tests.checking.byhand import LARGE, by_hand, loss_at, of_loss, of_rate


def width_of(interval):
    assert interval.lower is not None
    assert interval.upper is not None
    return math.log(interval.upper / interval.lower)


def forecast_of(table, *, level=0.95):
    return forecast(read_runs(table, size="width", tune="lr"), level=level)


def around(centre, half):
    return pytest.approx((centre * math.exp(-half), centre * math.exp(half)), rel=1e-8)


@pytest.mark.parametrize(("level", "z"), [(0.95, 1.9599639845), (0.8, 1.2815515655)])
def test_optimum_has_normal_intervals_of_its_law_and_of_one_more_optimum(level, z):
    """Standard error .1 of the law, .26 with the scatter of .24; 2048 draws, hence 3 permille."""
    made = by_hand(level=level)
    found = made.at(**LARGE).tuned["lr"]
    assert found.value == pytest.approx(0.0025, rel=1e-12)
    assert found.se == pytest.approx(0.00025, rel=1e-3)
    for interval, sd in ((found.ci, 0.1), (found.pi, 0.26)):
        ends = [math.log(end / 0.0025) for end in interval]
        assert ends == pytest.approx([-sd * z, sd * z], rel=3e-3)
    octaves = made.values_at(LARGE).octave_sds["lr"]
    assert octaves == pytest.approx(0.26 / math.log(2), rel=1e-3)


def test_loss_has_students_t_intervals_inside_the_fitted_sizes():
    """At width 128 the law's error is 8.5 permille and a run's own noise 6: both of 6 dof."""
    made, t6 = by_hand(), 2.4469118511
    point = made.at(width=128)
    se = math.hypot(0.008, 0.015 / 4)
    assert point.loss == pytest.approx(3 * 2**-0.1, rel=1e-12)
    assert point.loss_ci == around(point.loss, se * t6)
    tuned = made.predict_loss({"width": 128.0}).interval(0.95, new_run=True)
    assert tuned == around(point.loss, math.hypot(se, 0.006) * t6)
    assert point.loss_pi.lower == tuned.lower
    assert (point.extrapolation_ratio, point.flags, point.path_inputs) == (0.5, (), {})
    for times, distance_flags in ((8, []), (8.01, ["far-extrapolation: 8.01 times"])):
        *others, imprecise = made.at(width=256 * times).flags
        assert others == distance_flags
        assert imprecise.startswith("imprecise-loss: ")
    family = replace(made, band="family").at(**LARGE)
    assert family.loss_ci == around(loss_at(1024), 0.017 * t6)


def test_structural_discrepancy_joins_beyond_the_fitted_sizes():
    """15 % of the fall between widths 256 and 1024; degrees of freedom by Satterthwaite."""
    made = by_hand()
    point, prediction = made.at(**LARGE), made.predict_loss(LARGE)
    form = (0.15 * 0.1 * math.log(4)) ** 2
    halves = []
    for own in (0.017**2, 0.017**2 + 0.006**2):
        dof = 6 * (own + form) ** 2 / own**2
        halves.append(stats.t.ppf(0.975, dof) * math.sqrt(own + form))
    assert point.loss == pytest.approx(3 * 16**-0.1, rel=1e-12)
    assert point.loss_ci == around(point.loss, halves[0])
    assert prediction.interval(0.95, new_run=True) == around(point.loss, halves[1])
    assert prediction.curve_log_sd == pytest.approx(math.sqrt(0.017**2 + form), rel=1e-12)
    (row,) = made.frame([LARGE]).to_dict("records")
    assert row["loss_se"] == pytest.approx(point.loss * math.sqrt(0.017**2 + form), rel=1e-12)
    sides = ("loss_ci", "loss_pi", "lr_ci", "lr_pi")
    told = [(row[f"{name}_lower"], row[f"{name}_upper"]) for name in sides]
    lr = point.tuned["lr"]
    assert told == [tuple(i) for i in (point.loss_ci, point.loss_pi, lr.ci, lr.pi)]
    assert (row["width"], row["loss"], row["lr"]) == (1024, point.loss, lr.value)
    assert (row["lr_se"], row["extrapolation_ratio"]) == (lr.se, 4)


def test_optima_beyond_the_sweep_lie_on_the_line_through_those_of_it(made):
    """The line is statsmodels' through the optima; the truth is a power law."""
    tuned = [o.tuned["lr"] for o in made.optima]
    x = np.log([o.size["width"] for o in made.optima])
    weights = np.array([(e.value / e.se) ** 2 for e in tuned])
    fitted = WLS(np.log([e.value for e in tuned]), np.column_stack([np.ones(5), x]), weights).fit()
    found = made.at(width=1024).tuned["lr"]
    off = math.log(found.value) - fitted.predict([[1, math.log(1024)]])[0]
    assert abs(off) < 0.1 * found.se / found.value
    assert true_lr(1024) in found.ci
    assert found.pi.lower <= found.ci.lower < found.ci.upper <= found.pi.upper


def test_excess_and_recommendation_follow_the_parabola():
    """.02 u²; over a normal optimum its mean is .02 σ²."""
    made = by_hand()
    point = made.at(**LARGE)
    found = point.recommendation
    assert found.tuned["lr"] == pytest.approx(0.0025, rel=1e-3)
    assert point.recommended == found.tuned
    near = found.expected_excess
    assert near == pytest.approx(0.02 * (0.26 / math.log(2)) ** 2, rel=0.002)
    assert (found.at_optimum, found.chance_of_divergence) == (pytest.approx(near), None)
    (kept,) = point.transfer
    assert (kept.kept_from, kept.level) == ({"width": 256.0}, 0.95)
    assert kept.octaves == pytest.approx(1)
    assert kept.penalty == pytest.approx(0.02 + near, rel=1e-6)
    rules = {r.rule: (r.value, r.octaves, r.expected_regret) for r in point.rules}
    assert rules["constant"] == pytest.approx((0.02, 3, 0.18 + near), rel=2e-3)
    assert rules["inverse_width"] == pytest.approx((0.02 / 64, -3, 0.18 + near), rel=2e-3)
    assert rules["inverse_root_width"] == pytest.approx((0.0025, 0, near), abs=1e-6)


def test_a_value_beyond_which_runs_diverge_is_kept_away_from():
    """Half of the runs diverge an octave below the optimum: there nothing better is reached."""
    made = by_hand(surface=of_rate(cliff=-1.0))
    point = made.at(**LARGE)
    assert point.tuned == by_hand().at(**LARGE).tuned
    found = point.recommendation
    assert -2 < found.octaves["lr"] < -1
    assert found.chance_of_divergence < 0.01
    assert found.expected_cost < 0.001 < 0.02 < found.expected_excess
    assert found.at_optimum > 0.99  # a run that diverged counts as 1
    assert point.transfer[0].chance_of_divergence > 0.99
    assert "refused-lr" not in names_of(point.flags)


def test_values_are_advised_without_a_law_of_the_loss_and_not_priced():
    made = by_hand(loss_model=None, flags=("no-loss-law",))
    assert made.at(**LARGE).recommendation == by_hand().at(**LARGE).recommendation
    untuned = replace(made.runs, tuned=())
    plain = by_hand(surface=None, runs=untuned)
    assert plain.values_at(LARGE) is None
    point = plain.at(**LARGE)
    assert (point.recommendation, point.recommended, point.tuned) == (None, {}, {})
    assert point.transfer == point.kept_smallest == point.rules == ()
    for doubtful, tuned in ((made, {"lr": 0.01}), (plain, {})):
        with pytest.raises(DataError, match="needs a law of the loss"):
            doubtful.frame_at_values([LARGE], tuned=tuned)


def test_kept_values_cost_their_distance():
    """Two octaves off cost .08, and what is not known of the law, .1, costs .02 (.1 / ln 2)²."""
    sure = by_hand(surface=of_rate(scatter=0.0))
    sizes = [{"width": 256.0}, LARGE]
    near, far = sure.frame_at_values(sizes, tuned={"lr": 0.01}).to_dict("records")
    assert [near["width"], far["width"]] == [256, 1024]
    assert [near["lr_octaves"], far["lr_octaves"]] == pytest.approx([1, 2])
    of_distance, sds = (0.02, 0.08), (math.hypot(0.06, 0.04), 0.1)
    of_law = [0.02 * (sd / math.log(2)) ** 2 for sd in sds]
    excesses = list(map(sum, zip(of_distance, of_law, strict=True)))
    assert [near["log_excess"], far["log_excess"]] == pytest.approx(excesses, rel=1e-4)
    for row, excess in ((near, excesses[0]), (far, excesses[1])):
        centre = loss_at(row["width"]) * math.exp(excess)
        assert row["loss"] == pytest.approx(centre, rel=1e-6)


def test_interval_of_a_run_at_kept_values_is_that_of_its_law_and_its_excess():
    """By draws: a normal optimum of .26 in log rate, two octaves away, .02 octave² of cost."""
    made, rng, n = by_hand(), np.random.default_rng(0), 1_000_000
    (row,) = made.frame_at_values([LARGE], tuned={"lr": 0.01}).to_dict("records")
    tuned = made.predict_loss(LARGE)
    excess = 0.02 * (2 + 0.26 * rng.normal(size=n) / math.log(2)) ** 2
    ((sd, dof),) = [max(tuned.spreads())]
    draws = tuned.log_loss + sd * rng.standard_t(dof, n) + excess
    ends = [math.log(row[f"loss_pi_{side}"]) for side in ("lower", "upper")]
    assert ends == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=2e-3)


def test_forecast_without_a_law_of_the_loss_has_the_last_value_as_its_bound():
    made = by_hand(loss_model=None)
    point = made.at(width=1024)
    assert point.loss is None
    assert point.loss_ci == point.loss_pi == Interval(None, loss_at(256))
    assert made.last_value() == loss_at(256)
    assert (made.loss_laws, made.predict_loss(LARGE)) == ((), None)
    assert point.extrapolation_ratio == 4
    assert made.frame([LARGE])["loss_se"].isna().all()
    assert made.default_targets() == [{"width": w} for w in (512.0, 1024.0, 2048.0)]


def test_what_is_known_of_errors_reaches_the_law_of_the_loss(monkeypatch, sweep_table):
    """Of a tuned sweep those of its surface; without noise that of evaluating each size's run."""
    told = []
    real = sweep_laws.fit_loss_model

    def listen(sizes, loss, **options):
        told.append(options)
        if len(sizes) > 1:
            raise DataError("it was heard")
        return real(sizes, loss, **options)

    monkeypatch.setattr(sweep_laws, "fit_loss_model", listen)
    made = forecast_of(sweep_table())
    assert told[0]["loss_se_dof"] == made.noise.own_dof
    assert told[0]["loss_se"] == [o.paired_loss_se for o in made.optima]
    assert told[0]["evaluation_se"] is None
    table = sweep_table(rates=(0.01,), seeds=1).drop(columns="lr")
    known = table["loss_se"] = 0.003 * table["width"] / 16
    forecast(read_runs(table, size="width"))
    assert told[1]["loss_se"] is None
    assert told[1]["loss_se_dof"] is None
    assert told[1]["evaluation_se"] == pytest.approx([*known], rel=1e-12)
    parts = [table.assign(tokens=1e4 * n, loss=table["loss"] + 40 / n) for n in (40, 80, 160)]
    joint = pd.concat(parts)
    with pytest.raises(DataError, match="heard"):
        forecast(read_runs(joint, size=["width", "tokens"]))
    assert told[2]["evaluation_se"] == pytest.approx(np.repeat(known, 3), rel=1e-12)
    table.loc[0, "loss_se"] = None
    forecast(read_runs(table, size="width"))
    assert told[3]["evaluation_se"] is None


def test_a_size_that_is_known_well_keeps_its_error_beside_others_that_are_not(sweep_table):
    """Noise of 2 permille and 24 runs there; at the other sizes all rates are far too large."""
    too_large = tuple(2.0**k for k in range(-5, 0))
    parts = [sweep_table(widths=(16, 32, 64), rates=too_large), sweep_table(widths=(128,))]
    *others, last = forecast_of(pd.concat(parts)).optima
    assert last.loss == pytest.approx(true_loss(128), rel=0.002)
    assert 0.002 / math.sqrt(24) < last.paired_loss_se / last.loss < 0.002
    assert all(o.paired_loss_se / o.loss > 0.005 for o in others)
    assert [o.bracketed for o in (*others, last)] == [False, False, False, True]


@pytest.mark.parametrize(
    "names",
    ["mean residual", "log_loss self", "index run", "lr size", "count cell", "_merge mean"],
)
def test_names_of_the_columns_do_not_matter(sweep_table, made, names):
    size, rate = names.split()
    table = sweep_table().rename(columns={"width": size, "lr": rate})
    point = forecast(read_runs(table, size=size, tune=rate)).at(**{size: 1024})
    plain = made.at(width=1024)
    assert point.loss_pi == plain.loss_pi
    assert point.tuned[rate] == plain.tuned["lr"]


def test_identical_losses_go_on_and_every_value_does_as_well(sweep_table):
    made = forecast_of(sweep_table().assign(loss=2.0))
    point = made.at(width=1024)
    assert point.loss == pytest.approx(2.0, rel=0.002)
    assert 2.0 in point.loss_ci
    assert point.imprecise.keys() == {"loss"}  # for all it says the largest size is as good
    assert "flat-lr" in names_of(made.flags)
    assert point.recommendation.expected_excess < 0.001


def says_nothing(point, *names):
    """Whether there is neither a value nor a side of an interval."""
    told = {"loss": (point.loss, *point.loss_ci, *point.loss_pi)}
    told |= {n: (e.value, e.se, *e.ci, *e.pi) for n, e in point.tuned.items()}
    return all(set(told[name]) == {None} for name in names)


def reasons(point):
    return [f.partition(":")[0] for f in point.flags if f.startswith("refused-")]


def test_interval_of_a_new_run_allows_for_values_that_are_not_the_best():
    """By draws: a normal optimum of .26 in log rate, and .02 octave² for its cost."""
    made, rng, n = by_hand(), np.random.default_rng(0), 1_000_000
    point, tuned = made.at(**LARGE), made.predict_loss(LARGE)
    octaves = 0.26 * rng.normal(size=n) / math.log(2)
    excess = np.minimum(0.02 * octaves**2, 1.0)
    ((sd, dof),) = [max(tuned.spreads())]
    draws = math.log(point.loss) + sd * rng.standard_t(dof, n) + excess
    assert point.loss_pi.lower == tuned.interval(0.95, new_run=True).lower
    assert math.log(point.loss_pi.upper) == pytest.approx(np.quantile(draws, 0.975), abs=2e-3)


def test_refused_loss_has_no_number_but_a_reason_and_leaves_the_rest():
    """±.39 by a law that errs by .2 of 6 degrees of freedom, and a fall of .1 ln 4."""
    fitted = of_loss()
    covariance = ((0.36, 0.0), (0.0, fitted.covariance[1][1]))
    model = by_hand().loss_model
    rough = replace(model, family=((replace(fitted, covariance=covariance), 1.0),))
    made = by_hand(loss_model=rough)
    point = made.at(**LARGE)
    assert says_nothing(point, "loss")
    assert reasons(point) == ["refused-loss"]
    assert point.tuned == by_hand().at(**LARGE).tuned
    assert made.at(width=64).refusals.keys() == {"loss"}  # 20 % among the fitted sizes too
    assert made.frame([LARGE]).filter(regex="^loss(?!_wls)").isna().all(axis=None)
    assert made.doubt_loss(LARGE).is_refused
    assert made.predict_loss(LARGE).half_width(0.9, new_run=True) > 0.39
    assert made.expected_log_loss(LARGE) == pytest.approx(math.log(loss_at(1024)))
    assert point.recommendation is not None
    assert made.frame_at_values([LARGE], tuned={"lr": 0.01})["loss"].isna().all()
    assert by_hand().at(**LARGE).refusals == {}


def test_refused_value_is_neither_advised_nor_priced_and_leaves_the_loss():
    """Two octaves and .1 of standard deviation on .02 octave² cost a log loss of .0804."""
    made = by_hand(surface=of_rate(scatter=2 * math.log(2)))
    point = made.at(**LARGE)
    assert says_nothing(point, "lr")
    assert reasons(point) == ["refused-lr"]
    assert "cost 8.4 % of the loss" in point.flags[-1]
    assert point.loss == by_hand().at(**LARGE).loss
    assert point.loss_pi == made.predict_loss(LARGE).interval(0.95, new_run=True)
    assert (point.recommendation, point.rules, point.transfer) == (None, (), ())
    assert point.recommended == {"lr": None}
    assert not made.is_tuned_at(LARGE)
    assert 2 ** made.values_at(LARGE).optimum == pytest.approx(0.0025)
    assert made.frame_at_values([LARGE], tuned={"lr": 0.01})["loss"].isna().all()


@pytest.mark.parametrize(("scatter", "is_given"), [(1.2, True), (1.24, False)])
def test_a_value_is_refused_from_an_expected_cost_of_3_percent_on(scatter, is_given):
    """.02 (s² + (.1 / ln 2)²) of a scatter of s octaves: .0292 and .0312."""
    point = by_hand(surface=of_rate(scatter=scatter * math.log(2))).at(**LARGE)
    assert (point.recommended["lr"] is not None) == is_given


def test_remedy_of_a_refusal_is_one_after_which_the_number_is_given(noisy):
    """Seeds end one near the sweep; far from it no runs do, and a nearer size is named."""
    near, far = {"width": 128.0}, {"width": 4096.0}
    assert [noisy.remedy("loss", size).cause for size in (near, far)] == ["noise", "sizes"]
    assert noisy.remedy("loss", far).runs == ()
    target = noisy.remedy("lr", far).target
    assert noisy.is_tuned_at(target)
    assert not noisy.is_tuned_at({"width": 2 * target["width"]})


def test_curves_lie_beside_laws_whether_or_not_these_are_refused(watched, monkeypatch):
    monkeypatch.setattr(sweep_laws, "fit_reference_curves", lambda curves, **given: given)
    model = by_hand().loss_model
    plain = replace(watched, loss_model=model, surface=of_rate())
    rough = replace(
        plain,
        loss_model=replace(
            model, family=((replace(of_loss(), covariance=((9.0, 0.0), (0.0, 9.0))), 1.0),)
        ),
        surface=of_rate(scatter=20.0),
    )
    assert rough.doubt_loss({"width": 64.0}).is_refused
    assert not rough.is_tuned_at({"width": 64.0})
    given, expected = map(sweep_forecast._curves, (rough, plain))
    for name in ("log_loss", "octaves"):
        assert given[name] == pytest.approx(expected[name])


@pytest.fixture(scope="module")
def noisy(sweep_table):
    """Three sizes, one seed, and a noise of 10 %."""
    return forecast_of(sweep_table(widths=(16.0, 32.0, 64.0), seeds=1, noise=0.1, seed=5))


def test_noisy_sweep_of_three_sizes_is_refused(noisy):
    for size in noisy.default_targets():
        point = noisy.at(**size)
        assert point.loss is None or "loss" in point.imprecise
    assert says_nothing(noisy.at(width=4096), "loss", "lr")


def test_conditions_are_compared_as_numbers_where_they_are_some(sweep_table):
    table = sweep_table().assign(optimizer="adam", decay=["0.1", "0.10", "1e-1"] * 40)
    forecast(read_runs(table, size="width", tune="lr", conditions=("optimizer", "decay")))


@pytest.mark.parametrize("stage", ["tune", "check"])
def test_only_rows_of_the_sweep_are_fitted(sweep_table, made, stage):
    table = sweep_table().assign(stage="tune")
    extra = table.tail(3).assign(width=1024.0, loss=0.5, stage=stage)
    both = Runs.from_frame(pd.concat([table, extra]), sizes=["width"], tuned=["lr"])
    assert (forecast(both).optima == made.optima) == (stage == "check")


def test_pins_reach_the_laws_they_name_and_are_told(sweep):
    made = forecast(sweep, fix={"E": 1.5, "lr.b": -0.4})
    assert [(fit.parameters["E"], dict(fit.fixed)) for fit, _ in made.loss_laws] == [
        (1.5, {"E": 1.5})
    ]
    law = made.tuned_laws["lr"]
    assert law.parameters["b"] == -0.4
    assert "pinned: E = 1.5" in made.flags


def test_tied_size_columns_ask_for_a_pin_and_go_on_with_one():
    n = 2.0 ** np.arange(7) * 1e8
    table = pd.DataFrame({"params": n, "tokens": 20 * n})
    table["loss"] = 1.7 + (n / 1e8) ** -0.34 + 0.8 * (n / 1e8) ** -0.28
    runs = read_runs(table, size=["params", "tokens"])
    made = forecast(runs, fix={"c1": 0.34, "c2": 0.28})
    target = {"params": 4 * n[-1], "tokens": 80 * n[-1]}
    truth = 1.7 + (target["params"] / 1e8) ** -0.34 + 0.8 * (target["params"] / 1e8) ** -0.28
    assert made.at(**target).loss == pytest.approx(truth, rel=0.01)
    assert "columns-collinear" in made.flags


COMPUTE = 1e18 * 4.0 ** np.arange(6)


def ladder(noise=0.004, compute=COMPUTE, **columns):
    rng = np.random.default_rng(3)
    loss = 1.7 + 1.6 * (compute / 1e18) ** -0.17
    loss = loss * np.exp(noise * rng.normal(size=len(compute)))
    return pd.DataFrame({"compute": compute, "loss": loss}).rename(columns=columns)


def names_of(flags):
    return {flag.partition(":")[0] for flag in flags}


def test_losses_over_compute_have_the_intervals_of_published_ladders_unless_told_otherwise(
    tmp_path,
):
    made, bare = forecast(ladder()), forecast(ladder(), prior="none")
    far = {"compute": 1e23}
    assert "published-prior" in names_of(made.flags)
    assert "published-prior" not in names_of(bare.flags)
    assert made.at(**far).loss == bare.at(**far).loss
    assert width_of(made.at(**far).loss_pi) < 0.8 * width_of(bare.at(**far).loss_pi)
    for table, options in (
        (ladder().rename(columns={"compute": "width"}), {"size": "width"}),
        (ladder(), {"loss_kind": "other"}),
        (ladder().assign(loss=ladder()["loss"] / 100), {}),
    ):
        assert "published-prior" not in names_of(forecast(table, **options).flags)
    with pytest.raises(ValueError, match="prior must be one of published, none; got 'flat'"):
        forecast(ladder(), prior="flat")
    for each in (made, bare):
        save_forecast(each, tmp_path / "f.json")
        assert load_forecast(tmp_path / "f.json").at(**far) == each.at(**far)


def test_how_far_the_loss_moves_with_its_floor_is_told_where_that_is_far():
    far = {"compute": 1e23}
    for table in (ladder(), ladder(compute=1e18 * 2.0 ** np.arange(11))):
        made = forecast(table)
        law = made.loss_laws[0][0]
        floor, sd = law.values[0], math.sqrt(law.covariance[0][0])
        pinned = (forecast(table, fix={"E": e}).at(**far).loss for e in (floor - sd, floor + sd))
        low, high = map(math.log, pinned)
        told = [flag for flag in made.at(**far).flags if flag.startswith("floor-matters")]
        (percent,) = re.fullmatch(r"floor-matters: ([\d.]+) % per 0.1 of E", *told).groups()
        moved = 100 * math.expm1(0.1 * (high - low) / (2 * sd))
        assert float(percent) == pytest.approx(moved, rel=0.1)
    assert "floor-matters" not in names_of(made.at(compute=COMPUTE[-1]).flags)
    with pytest.raises(ValueError, match="the loss that no size goes below, got 9, and the sweep"):
        forecast(ladder(), fix={"E": 9})
    assert "floor-matters" not in names_of(forecast(ladder(), fix={"E": 1.7}).at(**far).flags)


def test_a_setting_that_changes_with_the_size_is_told_and_costs_no_confidence(sweep_table):
    table = sweep_table()
    batch = 2 * table["width"]
    told = forecast_of(table.assign(batch_size=batch, note="x", n_params=table["width"] ** 2))
    plain = forecast_of(table.assign(batch_size=64))
    low, high = batch.min(), batch.max()
    extra = set(told.flags) - set(plain.flags)
    assert extra == {f"follows-size: batch_size goes from {low:g} to {high:g} over the sizes"}
    assert told.at(**LARGE).confidence == plain.at(**LARGE).confidence


def test_of_accuracies_only_the_best_values_are_forecast(sweep_table):
    table = sweep_table().assign(acc=lambda t: 1 - t["loss"] / 100).drop(columns="loss")
    made = forecast(table, size="width", tune="lr", loss="acc", maximise="acc")
    point = made.at(width=4 * table["width"].max())
    assert point.loss is None
    assert "accuracy-refused" in made.flags
    assert point.tuned["lr"].value is not None
    plain = ladder().assign(acc=lambda t: 1 - t["loss"] / 100).drop(columns="loss")
    accuracy = {"size": "compute", "loss": "acc", "maximise": "acc"}
    with pytest.raises(DataError, match='say loss_kind="error" if 1 − accuracy falls'):
        forecast(plain, **accuracy)
    said = forecast(plain, **accuracy, loss_kind="error")
    assert said.at(compute=1e22).loss is not None
    assert "accuracy-as-error" in said.flags


def test_runs_of_too_few_tokens_are_told():
    """Loss of Chinchilla's form; runs with fewer than six tokens a parameter lie above it."""
    budgets = 1e18 * 4.0 ** np.arange(3)
    params = (np.sqrt(budgets / 120)[:, None] * np.geomspace(0.2, 5, 7)).ravel()
    tokens = np.repeat(budgets, 7) / (6 * params)
    law = 1.7 + 400 * params**-0.34 + 410 * tokens**-0.28
    excess = np.exp(0.02 * np.maximum(np.log(6 * params / tokens), 0) ** 2)
    flags = [
        forecast(pd.DataFrame({"params": params, "tokens": tokens, "loss": loss}), tune=[]).flags
        for loss in (law, law * excess)
    ]
    assert ["undertrained-runs" in of_table for of_table in flags] == [False, True]


def test_a_point_does_not_depend_on_the_order_of_its_size_columns():
    params, tokens = (axis.ravel() for axis in np.meshgrid(10.0 ** np.arange(7, 10), [2e9, 8e9]))
    loss = 1.7 + 400 * params**-0.34 + 410 * tokens**-0.28
    made = forecast(pd.DataFrame({"params": params, "tokens": tokens, "loss": loss}), tune=[])
    size = {"params": 1e10, "tokens": 1e11}
    swapped = dict(reversed(size.items()))
    assert made.point(size).flags == made.point(swapped).flags
    assert made.point(size) == made.point(swapped)


def test_what_was_computed_on_the_way_is_not_copied_or_pickled():
    made = forecast("examples/sweep.csv")
    made.at(width=1024)
    assert made.surface.computed
    copied = copy.deepcopy(made)
    assert copied.surface.computed == {}
    assert copied.at(1024) == made.at(1024)
