import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import extrap
from benchmarks.sweeps import simulate, skewed, true_loss, true_lr
from extrap.fitting.excess_curve import (
    ExcessCurve,
    Shape,
    UnbracketedSize,
    extrapolate_optima,
    fit_excess_curve,
)
from extrap.fitting.optimum import estimate_optima, place_outside
from extrap.fitting.optimum_law import fit_optimum_law
from extrap.fitting.seed_noise import estimate_noise
from extrap.reading import read_runs


def curve_of(table):
    runs = read_runs(table, size="width", tune="lr")
    return fit_excess_curve(runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95))


BOWL = ExcessCurve(
    tuned=("lr", "batch"),
    columns=("width",),
    reference=(64.0,),
    curvature=((0.04, -0.01), (-0.01, 0.02)),
    trend=(0.5,),
    rise=((0.1, 0.8), (0.0, -0.3)),
    relative_sd=0.1,
)


def h(u, rise):
    return u**2 / 2 if rise == 0 else (math.expm1(rise * u) - rise * u) / rise**2


def test_excess_is_the_formula_worked_out():
    """At four times the reference size the curvature is twice as large."""
    for (u, v), (r, q) in (((1, 2), (0.8, -0.3)), ((-2, -1), (0.1, 0)), ((3, -1), (0.8, 0))):
        x = math.copysign(math.sqrt(2 * h(abs(u), r)), u)
        y = math.copysign(math.sqrt(2 * h(abs(v), q)), v)
        half = (0.04 * x**2 + 0.02 * y**2 - 0.02 * x * y) / 2
        assert BOWL.excess([u, v], {"width": 64}) == pytest.approx(half)
        assert BOWL.excess([u, v], {"width": 256}) == pytest.approx(2 * half)
    many = BOWL.excesses(np.array([[1e-6, 0.0], [0, 0], [1e4, 0], [-1e4, 0]]), {"width": 64})
    assert many == pytest.approx([0.02e-12, 0.0, 5.0, 5.0], rel=1e-6)


@pytest.mark.parametrize("batch", [-1.5, 0.0, 1.0, 200.0])
def test_best_rate_beside_another_batch_is_that_of_a_search(batch):
    """Straightened, it lies a quarter as far as the batch: −H12 / H11."""
    size = {"width": 64.0}
    found = BOWL.best_given([7.0, batch], "lr")
    if batch == 200.0:  # as far as 100 octaves, where √(2 h) = √(2 (e^−30 − 1 + 30) / .09)
        x = math.sqrt(2 * h(100.0, -0.3)) / 4
        assert math.sqrt(2 * h(found, 0.8)) == pytest.approx(x)
        return
    searched = optimize.minimize_scalar(
        lambda u: BOWL.excess([u, batch], size), bounds=(-3, 3), options={"xatol": 1e-10}
    )
    assert found == pytest.approx(searched.x, abs=1e-5)


def test_cost_of_mistuning_is_that_of_the_truth(sweep_table):
    table = sweep_table(noise=0.001)
    excess_curve = curve_of(table)
    for u in (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0):
        for width in (16.0, 192.0, 1024.0):
            assert excess_curve.excess([u], {"width": width}) == pytest.approx(
                skewed(u, 0.03, 0.5 if u > 0 else -0.35), rel=0.12
            )
    ((low, high),) = excess_curve.rise
    assert (low, high) == pytest.approx((0.35, 0.5), abs=0.15)
    assert excess_curve.curvature[0][0] == pytest.approx(0.03, rel=0.06)
    assert excess_curve.trend == pytest.approx((0.0,), abs=0.03)
    assert excess_curve.reference == pytest.approx(
        (np.exp(np.log(table["width"]).mean()),), rel=0.1
    )


def test_scatter_about_the_shape_is_relative_to_the_excess():
    """Runs 20 % above and below the excess of a parabola in log2 of the rate."""
    u = np.tile(np.arange(-3.0, 4.0), 12)
    sign = np.repeat([1.0, -1.0], 42)
    table = pd.DataFrame({"width": np.tile(np.repeat([8, 16, 32], 14), 2), "lr": 0.01 * 2**u})
    table["loss"] = 2 * np.exp(0.03 * u**2 * (1 + 0.2 * sign))
    table["seed"] = np.tile(np.repeat([0, 1], 7), 6) + 2 * (sign > 0)
    excess_curve = curve_of(table)
    assert excess_curve.relative_sd == pytest.approx(0.2, abs=0.04)


def test_no_excess_curve_without_bracketed_optima(sweep_table):
    assert curve_of(sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0)))) is None


def test_each_of_two_tuned_values_has_its_own_steep_side():
    def side(u, low, high):
        return skewed(np.abs(u), 1.0, np.where(u > 0, high, low))

    def loss(width, lr, batch):
        of_rate, of_batch = side(np.log2(lr / 0.01), 0.1, 0.8), side(np.log2(batch / 32), 0.5, 0.1)
        return 2 * np.exp(0.03 * of_rate + 0.02 * of_batch)

    axes = {"lr": 0.01 * 2.0 ** np.arange(-3, 4), "batch": 2.0 ** np.arange(2, 9)}
    table = simulate(loss, width=(8, 16, 32), **axes)
    runs = read_runs(table, size="width", tune=("lr", "batch"))
    excess_curve = fit_excess_curve(
        runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95)
    )
    for u in (-2.0, 2.0):
        lr, batch = (excess_curve.excess(at, {"width": 64}) for at in ([u, 0.0], [0.0, u]))
        assert lr == pytest.approx(0.03 * side(u, 0.1, 0.8), rel=0.15)
        assert batch == pytest.approx(0.02 * side(u, 0.5, 0.1), rel=0.15)


RATES = tuple(map(float, 2.0 ** np.arange(-12, -4, 0.5)))


def cut(table, octaves):
    """Without the rates of the two largest widths below their best one and `octaves`."""
    least = table["width"].map(true_lr) * 2**octaves
    kept = (table["width"] < 128) | (table["lr"] >= least)
    return table[kept].reset_index(drop=True)


def optima_of(table):
    runs = extrap.read_runs(table, size="width", tune="lr")
    return estimate_optima(runs, noise=estimate_noise(runs), level=0.9)


@pytest.mark.parametrize("octaves", [0.1, 0.6, 1.2])
def test_loss_outside_a_grid_is_within_its_error(sweep_table, octaves):
    whole = optima_of(sweep_table(rates=RATES))
    found = optima_of(cut(sweep_table(rates=RATES), octaves))
    assert [o.bracketed for o in found] == [True, True, True, False, False]
    for o, bracketed in zip(found[3:], whole[3:], strict=True):
        assert o.edge == {"lr": "low"}
        assert o.tuned["lr"].value is None
        assert o.tuned["lr"].ci.lower is None
        assert o.loss < o.best_loss
        assert abs(o.loss - true_loss(o.size["width"])) < 2 * o.loss_se
        assert bracketed.loss_se < o.loss_se < 0.1


def test_two_equal_losses_at_an_edge_place_the_optimum_outside_of_it(sweep_table):
    table = cut(sweep_table(rates=RATES), 0.6)
    here = table["width"] == 192
    first, second, *_ = sorted(table["lr"][here].unique())
    lowest = table[here & (table["lr"] == first)].set_index("seed")["loss"]
    second = here & (table["lr"] == second)
    table.loc[second, "loss"] = table["seed"][second].map(lowest)
    found = optima_of(table)[-1]
    assert found.edge == {"lr": "low"}
    assert found.loss == pytest.approx(true_loss(192), rel=0.02)


def test_error_grows_with_the_distance(sweep_table):
    errors = [
        optima_of(cut(sweep_table(rates=RATES), octaves))[-1].loss_se
        for octaves in (0.1, 0.9, 1.7)
    ]
    assert errors == sorted(errors)
    assert errors[-1] > 2 * errors[0]


def test_forecast_uses_the_losses_of_sizes_at_an_edge(sweep_table):
    made = extrap.forecast(cut(sweep_table(rates=RATES), 0.5), size="width", tune="lr")
    assert made.at(width=384).extrapolation_ratio == 2
    assert made.largest() == {"width": 192.0}
    for width in (128, 192, 384):
        point = made.at(width=width)
        assert point.loss == pytest.approx(true_loss(width), rel=0.01)
        assert point.loss_pi.lower < true_loss(width) < point.loss_pi.upper
    assert any(flag.startswith("optimum-not-bracketed-") for flag in made.flags)


def test_law_of_the_optimum_uses_places_outside(sweep_table):
    made = extrap.forecast(cut(sweep_table(rates=RATES), 0.5), size="width", tune="lr")
    fit, few = made.tuned_laws["lr"], fit_optimum_law(made.optima, tuned="lr", columns=["width"])
    assert (fit.n_points, few.n_points) == (5, 3)
    assert fit.parameters["b"] == pytest.approx(-0.4, abs=0.1)
    assert [o.tuned["lr"].value is None for o in made.optima] == [False] * 3 + [True] * 2
    assert made.curvature()["lr"].dof == 2
    rate = made.at(width=384).tuned["lr"]
    assert rate.value == pytest.approx(true_lr(384), rel=0.2)
    assert rate.pi.lower < true_lr(384) < rate.pi.upper
    placed = place_outside(made.runs, made.optima, noise=made.noise)
    for o in placed[3:]:
        off = math.log(o.tuned["lr"].value / true_lr(o.size["width"]))
        assert abs(off) < 2 * o.tuned["lr"].se / o.tuned["lr"].value
    whole = extrap.forecast(sweep_table(), size="width", tune="lr")
    assert place_outside(whole.runs, whole.optima, noise=whole.noise) == whole.optima


def test_two_tuned_values_of_which_one_is_at_the_edge():
    def loss(width, lr, batch):
        u, v = np.log2(lr / 0.01), np.log2(batch / 40)
        return (2 + 1 / width) * np.exp(0.02 * u**2 + 0.015 * v**2 - 0.01 * u * v)

    axes = {"lr": 2.0 ** np.arange(-10, -3), "batch": 2.0 ** np.arange(3, 9)}
    table = simulate(loss, noise=0.002, width=(8, 16, 32, 64), **axes)
    table = table[(table["width"] < 64) | (table["lr"] > 0.012)]
    runs = extrap.read_runs(table, size="width", tune=("lr", "batch"))
    found = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)[-1]
    assert found.edge == {"lr": "low"}
    assert found.loss == pytest.approx(2 + 1 / 64, rel=0.01)
    assert found.loss_se < 0.04


def test_a_size_with_one_value_and_sweeps_without_a_curve_have_no_loss(sweep_table):
    table = sweep_table(rates=RATES)
    one = table[(table["width"] < 192) | (table["lr"] == 2.0**-7)]
    assert [o.loss is None for o in optima_of(one)] == [False] * 4 + [True]
    none = sweep_table(rates=(2.0**-5, 2.0**-4, 2.0**-3))
    assert all(o.loss is None for o in optima_of(none))


EDGE = "losses-at-an-edge"


def edge_sweep(excess, *, side="high", noise=0.0005, rng=0):
    """Five widths; six rates an octave apart, numbered from the best one at an end of the grid."""

    def loss(width, step, seed):
        return true_loss(width) * np.exp(excess(step) - excess(0))

    table = simulate(
        loss, noise=noise, rng=rng, width=(16, 32, 64, 128, 256), step=range(6), seed=range(3)
    )
    sign = -1 if side == "high" else 1
    return table.assign(lr=2.0 ** (sign * table.pop("step") - 8))


def parabola(octaves, curvature):
    """The optimum lies so many octaves beyond the edge of the grid."""
    return lambda step: curvature * (octaves + step) ** 2 / 2


def forecast_of(table):
    return extrap.forecast(table, size="width", tune="lr", level=0.9)


@pytest.mark.parametrize("side", ["high", "low"])
@pytest.mark.parametrize(("octaves", "curvature"), [(0.0, 0.003), (0.3, 0.002), (-0.3, 0.006)])
def test_flat_tops_at_every_edge_give_a_forecast(side, octaves, curvature):
    excess = parabola(octaves, curvature)
    assert 0.001 < excess(1) - excess(0) < 0.002
    made = forecast_of(edge_sweep(excess, side=side))
    assert [o.edge for o in made.optima] == [{"lr": side}] * 5
    for o in made.optima:
        tuned = true_loss(o.size["width"]) * np.exp(-excess(0))
        assert abs(o.loss - tuned) < 2 * o.loss_se < 0.02 * tuned
        assert (o.tuned["lr"].value, o.bracketed) == (None, False)
    for width in (512, 1024):
        point, tuned = made.at(width=width), true_loss(width) * np.exp(-excess(0))
        assert EDGE in point.flags
        assert point.loss == pytest.approx(tuned, rel=0.02)
        assert point.loss_pi.lower < tuned < point.loss_pi.upper < 1.06 * point.loss_pi.lower
        assert (point.tuned["lr"].value, point.recommended["lr"]) == (None, None)
        assert (point.tuned["lr"].ci.lower is None) == (side == "low")


@pytest.mark.parametrize(
    "excess",
    [
        parabola(4.5, 0.004),  # the two best are 2 % apart
        parabola(9.5, 0.0009),  # .9 % apart; the optimum is 4 % below the edge
        lambda step: -0.01 * 2.0**-step,  # the loss falls ever faster
    ],
)
def test_losses_that_fall_at_the_edge_give_no_forecast(excess):
    made = forecast_of(edge_sweep(excess))
    assert made.at(width=512).loss is None
    assert [o.loss for o in made.optima] == [None] * 5
    assert any(flag.startswith("no-loss-law") for flag in made.flags)
    assert EDGE not in made.flags


def test_one_steep_edge_among_flat_ones_gives_no_forecast():
    flat, steep = (edge_sweep(parabola(*shape)) for shape in ((0.0, 0.003), (4.5, 0.004)))
    is_steep = flat["width"] == 64
    assert forecast_of(flat.where(~is_steep, steep)).at(width=512).loss is None


@pytest.mark.slow
def test_intervals_of_sweeps_with_flat_edges_hold():
    """Losses of 90 % intervals, three times as narrow as the change since the largest size."""
    rng, held, halves, misses = np.random.default_rng(5), [], [], []
    for _ in range(60):
        octaves, curvature = rng.uniform(-0.2, 0.5), rng.uniform(0.0015, 0.004)
        excess = parabola(octaves, curvature)
        made = forecast_of(edge_sweep(excess, noise=rng.choice([0.0005, 0.001]), rng=rng))
        if EDGE not in made.flags:
            continue
        point, tuned = made.at(width=512), true_loss(512) * np.exp(-excess(0))
        held.append(point.loss_pi.lower < tuned < point.loss_pi.upper)
        halves.append(math.log(point.loss_pi.upper / point.loss_pi.lower) / 2)
        misses.append(abs(math.log(point.loss / tuned)))
    change = math.log(true_loss(256) / true_loss(512))
    assert len(held) > 40
    assert np.mean(held) > 0.88
    assert np.median(halves) < change / 3
    assert np.median(misses) < change / 10


def shape_of(*, curvature, rise, information):
    """Over one tuned column and one size column."""
    theta = np.array([np.log(curvature), 0.0, 0.0, rise])
    return Shape(n_tuned=1, reference=np.ones(1), theta=theta, root=information**0.5 * np.eye(4))


def open_size(log_loss, octaves, sd):
    return UnbracketedSize(
        octaves=octaves[:, None],
        log_loss=log_loss,
        variance=np.full(len(octaves), sd**2),
        bounds=np.array([[-np.inf], [1.0]]),
        log_x=np.zeros(1),
    )


def test_errors_are_those_of_repetitions():
    """Optima up to 1.5 octaves outside; curves whose parameters scatter as the shape says."""
    rng, sd, octaves = np.random.default_rng(0), 0.003, np.arange(5.0)
    known = shape_of(curvature=0.03, rise=0.3, information=100.0)
    scores = []
    for _ in range(150):
        theta = known.theta + 0.1 * rng.normal(size=4) + 0.2 * rng.normal() * np.eye(4)[0]
        place = -rng.uniform(0, 1.5)
        excess = known.excesses(theta, octaves[:, None] - place, np.zeros((5, 1)))
        size = open_size(0.5 + excess + sd * rng.normal(size=5), octaves, sd)
        (found,) = extrapolate_optima(known, [size])
        scores.append(
            [
                (found.log_loss - 0.5) / np.sqrt(found.log_loss_variance),
                (found.position[0] - place) / np.sqrt(found.position_variance[0]),
            ]
        )
    # the error of the curve is a share of the excess too, so they are on the safe side
    assert np.all(np.mean(np.square(scores), axis=0) < 1.2)
    assert np.all(np.mean(np.square(scores), axis=0) > 0.3)
    assert np.all(np.mean(np.abs(scores) < 1.645, axis=0) >= 0.87)


def test_what_the_shape_adds_to_a_variance_counts_once_for_each_size():
    """Exact means at four values; the variance by the runs alone is the same in all cases."""
    octaves, by_case = np.arange(5.0), {}
    for information, n in product((10.0, 1e9), (1, 2, 3)):
        shape = shape_of(curvature=0.03, rise=0.3, information=information)
        excess = shape.excesses(shape.theta, octaves[:, None] + 1.0, np.zeros((5, 1)))
        found = extrapolate_optima(shape, [open_size(excess, octaves, 0.002)] * n)[0]
        assert found.log_loss == pytest.approx(0, abs=0.006)
        assert found.position[0] == pytest.approx(-1, abs=0.2)
        by_case[information, n] = np.array([*found.position_variance, found.log_loss_variance])
    assert by_case[1e9, 3] == pytest.approx(by_case[1e9, 1], rel=1e-3)
    common = by_case[10.0, 2] - by_case[10.0, 1]
    assert np.all(common > 0)
    assert by_case[10.0, 3] - by_case[10.0, 2] == pytest.approx(common)
