import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import WLS

import extrap.forecasting as forecasting
from extrap.documents import load_forecast, save_forecast
from extrap.errors import DataError
from extrap.fitting.seed_noise import Noise
from extrap.forecasting import forecast
from extrap.reading import read_runs
from extrap.records import Interval, Runs
from tests.checking.byhand import LARGE, by_hand, law, loss_at, of_loss, of_rate


def width_of(interval):
    assert interval.lower is not None
    assert interval.upper is not None
    return math.log(interval.upper / interval.lower)


def forecast_of(table, *, level=0.95):
    return forecast(read_runs(table, size="width", tune="lr"), level=level)


EXACT = {"scatter": 1e-9, "dof": 5, "scale_dof": 5}


def around(centre, half):
    return pytest.approx((centre * math.exp(-half), centre * math.exp(half)), rel=1e-8)


@pytest.mark.parametrize(("level", "t5"), [(0.95, 2.5705818356), (0.8, 1.4758840488)])
def test_optimum_has_students_t_intervals_of_its_law_and_of_one_more_optimum(level, t5):
    """Standard error .1 of the law, .26 with the scatter of .24; a table gives t."""
    made = by_hand(level=level)
    found = made.at(**LARGE).tuned["lr"]
    assert found.value == pytest.approx(0.0025, rel=1e-12)
    assert found.se == pytest.approx(0.00025, rel=1e-12)
    assert found.ci == around(0.0025, 0.1 * t5)
    assert found.pi == around(0.0025, 0.26 * t5)
    assert made.octave_sd("lr", LARGE) == pytest.approx(0.26 / math.log(2), rel=1e-12)


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


def test_optima_have_the_prediction_interval_of_their_law(made):
    """The line is statsmodels'; the t distribution has 3 degrees of freedom more, of the prior."""
    tuned = [o.tuned["lr"] for o in made.optima]
    x = np.log([o.size["width"] for o in made.optima])
    weights = np.array([(e.value / e.se) ** 2 for e in tuned])
    fitted = WLS(np.log([e.value for e in tuned]), np.column_stack([np.ones(5), x]), weights).fit()
    point, law = made.at(width=1024).tuned["lr"], made.tuned_laws["lr"]
    away = math.log(1024) - x.mean()
    gradient = np.array([1.0, away, away**2])
    se, t = math.sqrt(gradient @ np.array(law.covariance) @ gradient), stats.t.ppf(0.975, 3 + 3)
    assert math.log(point.value) == pytest.approx(fitted.predict([[1, math.log(1024)]])[0])
    assert width_of(point.ci) == pytest.approx(2 * t * se, rel=1e-6)
    assert width_of(point.pi) == pytest.approx(2 * t * math.hypot(se, law.scatter), rel=1e-6)


def test_excess_and_recommendation_follow_the_parabola():
    """.02 u²; over a Student t of 5 degrees of freedom its mean is .02 σ² · 5/3, but for tails."""
    made = by_hand()
    point = made.at(**LARGE)
    found = point.recommendation
    assert found.tuned["lr"] == pytest.approx(0.0025, rel=1e-3)
    assert point.recommended == found.tuned
    assert found.expected_excess == pytest.approx(
        0.02 * 0.26**2 / math.log(2) ** 2 * 5 / 3, rel=0.01
    )
    (kept,) = point.transfer
    assert (kept.kept_from, kept.level) == ({"width": 256.0}, 0.95)
    assert kept.octaves == pytest.approx(1)
    assert kept.penalty == pytest.approx(0.02 + found.expected_excess, rel=1e-6)
    rules = {r.rule: (r.value, r.octaves, r.expected_regret) for r in point.rules}
    near = found.expected_excess
    assert rules["constant"] == pytest.approx((0.02, 3, 0.18 + near), rel=2e-3)
    assert rules["inverse_width"] == pytest.approx((0.02 / 64, -3, 0.18 + near), rel=2e-3)
    assert rules["inverse_root_width"] == pytest.approx((0.0025, 0, near), abs=1e-6)


@pytest.mark.parametrize("change", [{"excess_curve": None}, {"tuned_laws": {"lr": None}}])
def test_without_an_excess_curve_or_a_law_nothing_is_recommended(change):
    made = by_hand(**change)
    point = made.at(**LARGE)
    assert point.recommendation is None
    assert point.recommended == {"lr": point.tuned["lr"].value}
    assert point.transfer == point.kept_smallest == point.rules == ()
    with pytest.raises(DataError, match="excess-loss curve"):
        made.frame_at_values([LARGE], tuned={"lr": 0.01})


def test_kept_values_cost_their_distance():
    """Two octaves off cost .08 where the optimum is known, with 30 % of scatter about it."""
    exact = law("optimum_power", {"a": math.log(0.01), "b": -0.5}, (1e-9, 1e-9), **EXACT)
    excess_curve = replace(by_hand().excess_curve, relative_sd=0.3)
    sure = by_hand(tuned_laws={"lr": exact}, excess_curve=excess_curve)
    sizes = [{"width": 256.0}, LARGE]
    near, far = sure.frame_at_values(sizes, tuned={"lr": 0.01}).to_dict("records")
    assert [near["width"], far["width"]] == [256, 1024]
    assert [near["lr_octaves"], far["lr_octaves"]] == pytest.approx([1, 2])
    assert [near["log_excess"], far["log_excess"]] == pytest.approx([0.02, 0.08])
    for row, size, excess in ((near, sizes[0], 0.02), (far, LARGE, 0.08)):
        tuned, centre = sure.at(**size), loss_at(size["width"]) * math.exp(excess)
        half = math.hypot(width_of(tuned.loss_pi) / 2, 1.959963985 * 0.3 * excess)
        assert row["loss"] == pytest.approx(centre, rel=1e-6)
        assert (row["loss_pi_lower"], row["loss_pi_upper"]) == around(centre, half)


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


def test_unknown_optimum_is_bounded_by_the_largest_size_that_says_anything():
    made = by_hand(tuned_laws={"lr": None})
    bound = Interval(None, 0.125)
    optima = list(made.optima)
    for i, ci in ((1, Interval(0.5, None)), (3, bound)):
        estimate = replace(optima[i].tuned["lr"], ci=ci)
        optima[i] = replace(optima[i], tuned={"lr": estimate})
    found = replace(made, optima=tuple(optima)).at(**LARGE).tuned["lr"]
    assert (found.value, found.se, found.ci, found.pi) == (None, None, bound, bound)
    for factor, told in ((255.0, True), (257.0, False)):  # eight octaves say nothing
        ci = Interval(0.001, 0.001 * factor)
        lr = replace(optima[4].tuned["lr"], ci=ci)
        wide = (*optima[:4], replace(optima[4], tuned={"lr": lr}))
        assert replace(made, optima=wide).at(**LARGE).tuned["lr"].ci == (ci if told else bound)
    assert made.octave_sd("lr", LARGE) == 0
    assert made.at(**LARGE).tuned["lr"].ci == Interval(None, None)


def test_what_is_known_of_errors_reaches_the_law_of_the_loss(monkeypatch, sweep_table):
    """Two-way degrees of freedom (5 − 1)(3 − 1), and evaluation noise over √n of a size's runs."""
    told = []
    real = forecasting.fit_loss_model

    def listen(sizes, loss, **options):
        told.append(options)
        if len(sizes) > 1:
            raise DataError("it was heard")
        return real(sizes, loss, **options)

    monkeypatch.setattr(forecasting, "fit_loss_model", listen)
    made = forecast_of(sweep_table())
    assert told[0]["loss_se_dof"] == made.noise.size_dof == 8
    assert told[0]["loss_se"] == [o.paired_loss_se for o in made.optima]
    assert told[0]["evaluation_se"] is None
    unknown = Noise(own_sd=None, own_dof=0, size_sd=None, source="none")
    monkeypatch.setattr(forecasting, "estimate_noise", lambda runs: unknown)
    table = sweep_table(rates=(0.01,), seeds=4).drop(columns="lr")
    table["loss_se"] = 0.003 * table["width"] / 16
    forecast(read_runs(table, size="width"))
    assert told[1]["loss_se"] is None
    assert told[1]["loss_se_dof"] is None
    known = [0.003 * o.size["width"] / 16 / 2 for o in made.optima]
    assert told[1]["evaluation_se"] == pytest.approx(known, rel=1e-12)
    parts = [table.assign(tokens=1e4 * n, loss=table["loss"] + 40 / n) for n in (40, 80, 160)]
    joint = pd.concat(parts)
    with pytest.raises(DataError, match="heard"):
        forecast(read_runs(joint, size=["width", "tokens"]))
    assert told[2]["evaluation_se"] == pytest.approx(np.repeat(known, 3), rel=1e-12)
    table.loc[0, "loss_se"] = None
    forecast(read_runs(table, size="width"))
    assert told[3]["evaluation_se"] is None


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


def test_identical_losses_say_nothing_of_larger_sizes(sweep_table):
    made = forecast_of(sweep_table().assign(loss=2.0))
    assert says_nothing(made.at(width=1024), "loss", "lr")
    assert made.at(width=1024).recommended == {"lr": None}


def says_nothing(point, *names):
    """Whether there is neither a value nor a side of an interval."""
    told = {"loss": (point.loss, *point.loss_ci, *point.loss_pi)}
    told |= {n: (e.value, e.se, *e.ci, *e.pi) for n, e in point.tuned.items()}
    return all(set(told[name]) == {None} for name in names)


def reasons(point):
    return [f.partition(":")[0] for f in point.flags if f.startswith("refused-")]


def test_interval_of_a_new_run_allows_for_values_that_are_not_the_best():
    """By draws: a t of 5 degrees of freedom and .26 for the rate, .02 octave² for its cost."""
    made, rng, n = by_hand(), np.random.default_rng(0), 1_000_000
    point, tuned = made.at(**LARGE), made.predict_loss(LARGE)
    octaves = 0.26 * rng.standard_t(5, n) / math.log(2)
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
    assert made.predict_loss(LARGE) is None
    spread = made.predict_loss(LARGE, refuse=False)
    assert spread.half_width(0.9, new_run=True) > 0.39
    assert made.expected(LARGE).log_loss == pytest.approx(math.log(loss_at(1024)))
    assert point.recommendation is not None
    assert made.frame_at_values([LARGE], tuned={"lr": 0.01})["loss"].isna().all()
    assert by_hand().at(**LARGE).refusals == {}


def test_refused_value_is_neither_advised_nor_priced_and_leaves_the_loss():
    """Two octaves of standard deviation on a parabola of .02 octave² cost .08 · 5/3."""
    made = by_hand(tuned_laws={"lr": of_rate(scatter=2 * math.log(2))})
    point = made.at(**LARGE)
    assert says_nothing(point, "lr")
    assert reasons(point) == ["refused-lr"]
    assert point.loss == by_hand().at(**LARGE).loss
    assert point.loss_pi == made.predict_loss(LARGE).interval(0.95, new_run=True)
    assert (point.recommendation, point.rules, point.transfer) == (None, (), ())
    assert point.recommended == {"lr": None}
    assert made.predict_tuned(LARGE)["lr"].value is None
    assert made.predict_tuned(LARGE, refuse=False)["lr"].value == pytest.approx(0.0025)
    assert made.expected(LARGE).tuned == {"lr": pytest.approx(math.log(0.0025))}


def test_remedy_of_a_loss_is_not_one_after_which_it_is_still_refused():
    """Losses of standard error 4, of which 64 times the seeds leave .7: ± 20 % and more."""
    made = by_hand(optima=[replace(o, paired_loss_se=4.0) for o in by_hand().optima])
    remedy = made.with_optima(made.optima, made.noise).remedy("loss", LARGE)
    assert (remedy.cause, remedy.sizes) == ("sizes", ())


def test_curves_lie_beside_laws_whether_or_not_these_are_refused(watched, monkeypatch):
    monkeypatch.setattr(forecasting, "fit_reference_curves", lambda curves, **given: given)
    model = by_hand().loss_model
    plain = replace(watched, loss_model=model, tuned_laws={"lr": of_rate()})
    rough = replace(
        plain,
        loss_model=replace(
            model, family=((replace(of_loss(), covariance=((9.0, 0.0), (0.0, 9.0))), 1.0),)
        ),
        tuned_laws={"lr": of_rate(scatter=20.0)},
    )
    assert rough.predict_loss({"width": 64.0}) is None
    assert rough.predict_tuned({"width": 64.0})["lr"].value is None
    given, expected = map(forecasting._reference_curves, (rough, plain))
    for name in ("log_loss", "octaves"):
        assert given[name] == pytest.approx(expected[name])


def test_noisy_sweep_of_three_sizes_is_refused(sweep_table):
    made = forecast_of(sweep_table(widths=(16.0, 32.0, 64.0), seeds=1, noise=0.1, seed=5))
    for size in made.default_targets():
        point = made.at(**size)
        assert point.loss is None or "loss" in point.imprecise
    assert says_nothing(made.at(width=4096), "loss", "lr")


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
        floor = made.loss_laws[0][0].values[0]
        low, high = (forecast(table, fix={"E": e}).at(**far).loss for e in (floor, floor + 0.1))
        told = [flag for flag in made.at(**far).flags if flag.startswith("floor-matters")]
        assert told == [f"floor-matters: {100 * (high / low - 1):.1f} % per 0.1 of E"]
    assert "floor-matters" not in names_of(made.at(compute=COMPUTE[-1]).flags)
    with pytest.raises(ValueError, match="the loss that no size goes below, got 9, and the sweep"):
        forecast(ladder(), fix={"E": 9})
    assert "floor-matters" not in names_of(forecast(ladder(), fix={"E": 1.7}).at(**far).flags)


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
