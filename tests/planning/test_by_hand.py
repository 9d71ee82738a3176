"""Costs and plans of a forecast whose laws, errors and noise are round numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import WLS

from extrap.errors import DataError
from extrap.fitting import Noise
from extrap.fitting.vertices import Design, VertexModel
from extrap.forecasting import Forecast
from extrap.planning.advice import advise
from extrap.planning.candidates import Market, new_sizes, read_among, seed_names, seed_numbers
from extrap.planning.expectations import Foresight, Widths, foresee
from extrap.planning.next_runs import plan
from extrap.planning.plans import Plan
from extrap.records import Runs
from tests.checking.byhand import LARGE, WIDTHS, by_hand, lr_at, sweep

FLOPS = 7 * 1024**2


def square(table: pd.DataFrame) -> pd.Series:
    return 7 * table["width"] ** 2


def priced(**changes: Any) -> Forecast:
    """The forecast by hand; a run costs seven times its width squared."""
    return by_hand(**{"runs": sweep(flops=square), **changes})


def vertices(octaves: list[float], **more: Any) -> Any:
    noise = Noise(own_sd=0.006, own_dof=6, size_sd=0.004, size_dof=6)
    model = VertexModel.of(by_hand().excess_curve, noise, scatter=0.0)
    design = Design(size={"width": 64.0}, octaves=np.array([octaves]).T, seeds=more["seeds"])
    return model, model.of_design(design)


def test_vertex_of_three_values_has_the_errors_of_weighted_least_squares() -> None:
    """Weights 1 / (1 + (excess / .01)²): 1/5 an octave off; the gradient over the bend of .04."""
    u = np.array([-1.0, 0.0, 1.0])
    model, found = vertices(list(u), seeds=(0, 0, 0))
    design = np.column_stack([np.ones(3), u, u**2])
    covariance = WLS(np.zeros(3), design, weights=[0.2, 1, 0.2]).fit().normalized_cov_params
    assert found.position[0] == pytest.approx(covariance[1, 1] * (0.006 / 0.04) ** 2)
    assert found.loss == pytest.approx(covariance[0, 0] * 0.006**2)
    assert found.floor == (pytest.approx(0.01),)
    assert model.spacing({"width": 64.0}) == (pytest.approx(math.sqrt(2 * 0.01 / 0.04)),)
    _, one_seed = vertices([-1.0, 0.0, 1.0] * 9, seeds=(0,) * 27)
    assert one_seed.loss == pytest.approx(0.004**2)  # what the runs of a seed share
    _, line = vertices([-1.0, 1.0], seeds=(0, 0))
    assert (line.position, line.loss) == ((1e6,), 1e6)


def test_vertex_of_five_values_shares_its_asymmetry_with_three_more_sizes() -> None:
    """Four sizes of one design by one regression, their cubic term in common."""
    u = np.array([-2.0, -0.7, 0.1, 1.0, 2.2])
    _, found = vertices(list(u), seeds=(0, 0, 1, 1, 2))
    weights = 1 / (1 + (0.02 * u**2 / 0.01) ** 2)
    own = np.column_stack([np.ones(5), u, u**2])
    design = np.column_stack([np.kron(np.eye(4), own), np.tile(u**3, 4)])
    told = WLS(np.zeros(20), design, weights=np.tile(weights, 4)).fit().normalized_cov_params
    assert found.position[0] == pytest.approx(told[1, 1] * (0.006 / 0.04) ** 2, rel=1e-6)
    assert found.loss == pytest.approx(max(told[0, 0] * 0.006**2, 0.004**2 / 3), rel=1e-6)
    assert found.floor[0] == pytest.approx((0.1 * 0.85) ** 2)  # the mean gap beside .1


@pytest.fixture(scope="module")
def sight() -> Foresight:
    return foresee(priced(), LARGE)


def test_widths_now_are_those_of_the_forecast(sight: Foresight) -> None:
    """Also by the laws' linearisation; and what makes them wide, as shares of the variance."""
    tuned_run = sight.forecast.predict_loss(LARGE).interval(0.95, new_run=True)
    loss = math.log(tuned_run.upper / tuned_run.lower)
    octaves = 2 * 2.5705818356 * 0.26 / math.log(2)
    for widths in (sight.now(), sight.quick(sight.designs)):
        assert widths.loss == pytest.approx(loss, rel=1e-9)
        assert widths.tuned["lr"] == pytest.approx(octaves, rel=1e-9)
    form = (0.15 * 0.1 * math.log(4)) ** 2
    total = 0.017**2 + form + 0.006**2
    assert sight.limits()["loss"] == pytest.approx(
        {
            "parameters of the law": 0.017**2 / total,
            "form of the law": form / total,
            "seed of the new run": 0.006**2 / total,
        }
    )
    # the scatter of .24 is half noise at most, less what the optima's own errors of .1 explain
    noise = 0.1**2 / math.log(2) ** 2 - 0.01
    scatter = (0.24 / math.log(2)) ** 2
    noise = min(noise, scatter / 2)
    assert sight.extra == pytest.approx([scatter - noise])
    told = sight.limits()["lr"]
    curve, own = (0.1 / math.log(2)) ** 2, noise / scatter
    parts = [own * (curve + scatter), (1 - own) * scatter, (1 - own) * curve]
    assert list(told.values()) == pytest.approx([p / sum(parts) for p in parts], rel=1e-5)


def test_twice_the_runs_halve_the_variances_of_noise(sight: Foresight) -> None:
    doubled = [d.with_runs(d.octaves, tuple(int(s) + 2 for s in d.seeds)) for d in sight.designs]
    before, after = sight.now(), sight.quick(doubled)
    curve, scatter = (0.1 / math.log(2)) ** 2, (0.24 / math.log(2)) ** 2
    noise = scatter - sight.extra[0]

    def width(left: float) -> float:
        """Over that before; only the height of the law is uncertain, and five optima tell it."""
        gain = 5 * (1 / left - 1 / scatter)
        return math.sqrt((1 / (1 / curve + gain) + left) / (curve + scatter))

    assert after.tuned["lr"] / before.tuned["lr"] == pytest.approx(
        width(scatter - noise / 2), rel=6e-3
    )
    assert sight.floor().tuned["lr"] / before.tuned["lr"] == pytest.approx(
        width(scatter - noise), rel=6e-3
    )
    assert sight.floor().loss < after.loss < before.loss
    assert before.log_sum(["loss", "lr"]) == pytest.approx(
        math.log(before.loss) + math.log(before.tuned["lr"])
    )
    assert before.log_sum(["lr"]) == pytest.approx(math.log(before.tuned["lr"]))


def test_widths_are_compared_one_by_one() -> None:
    now = Widths(loss=0.1, tuned={"lr": 1.0, "wd": None})
    then = Widths(loss=0.1, tuned={"lr": 1.01, "wd": 2.0})
    assert not then.widens(now, ["loss", "wd"])
    assert then.widens(now, ["lr"])
    assert replace(then, loss=None).widens(now, ["loss"])
    assert now.knows(["loss", "lr"])
    assert not now.knows(["loss", "wd"])
    assert now.log_sum(["wd"]) == pytest.approx(math.log(1e-12))


def test_a_market_offers_what_lies_about_the_predicted_optimum() -> None:
    """.8 and 1.6 of the half-weight distance √.5 octaves; tried values nearby stand for them."""
    made = priced()
    market = Market(forecast=made, model=foresee(made, LARGE).model)
    near, far = market.moves({"width": 64.0}, is_known=True)
    assert near.cells == far.cells == (((0.005,), 2), ((0.02,), 2))
    assert (near.octaves, near.reason) == (((-1,), (1,)), "replicate")
    once, twice = market.moves({"width": 512.0}, is_known=False)
    reach = [s * r * math.sqrt(0.5) for r in (0.8, 1.6) for s in (-1, 1)]
    assert [values[0] for values, _ in once.cells] == pytest.approx(
        [lr_at(512) * 2**u for u in reach], rel=1e-5
    )
    assert [u[0] for u in once.octaves] == pytest.approx(reach, abs=1e-5)
    assert (once.reason, {s for _, s in once.cells}) == ("new size", {0})
    assert [s for _, s in twice.cells] == [0] * 4 + [1] * 4
    assert market.seeds() == [0, 1, 2]
    market.take(near)
    assert market.seeds() == [0, 1, 2, 3]
    (again, _) = market.moves({"width": 64.0}, is_known=True)
    assert {s for _, s in again.cells} == {3}
    assert market.with_seed({"width": 64.0}, 2) is None
    other = market.with_seed({"width": 128.0}, 2)
    assert np.ravel(other.octaves) == pytest.approx([-1, 1])
    assert {s for _, s in other.cells} == {2}
    move = market.bracket({"width": 64.0}, {"lr": "high"})
    assert [values[0] for values, _ in move.cells] == pytest.approx([0.08, 0.16], rel=1e-5)
    low = market.bracket({"width": 64.0}, {"lr": "low"})
    assert [values[0] for values, _ in low.cells] == pytest.approx([0.00125, 0.000625], rel=1e-5)
    assert (low.reason, market.bracket({"width": 64.0}, {})) == ("bracket", None)
    fork = market.copy()
    fork.take(low)
    assert market.bracket({"width": 64.0}, {"lr": "low"}) == low


def test_new_sizes_lie_between_neighbours_and_beyond_to_half_of_the_target() -> None:
    runs = sweep()
    assert new_sizes(runs, {"width": 1024.0}) == (
        [{"width": w} for w in (23.0, 45.0, 91.0, 181.0)],
        [{"width": 362.0}, {"width": 512.0}],
    )
    assert new_sizes(runs, {"width": 1023.0})[1] == [{"width": 362.0}]
    table = pd.DataFrame({"n": [1.5, 1.9, 3.0], "d": [10.0, 20.0, 10.0], "loss": [3.0, 2.9, 2.8]})
    two = Runs.from_frame(table, sizes=["n", "d"])
    between, beyond = new_sizes(two, {"n": 12.0, "d": 57.0})
    assert between == [{"n": 1.5, "d": 20}, {"n": 1.9, "d": 10}, {"n": 3, "d": 20}]
    assert beyond == [{"n": 4.243, "d": 28.28}]
    close = Runs.from_frame(table.drop(columns="d"), sizes=["n"])
    assert new_sizes(close, {"n": 3.0})[0] == [{"n": 2.387}]


def test_seeds_are_numbers_or_names_in_the_order_they_come() -> None:
    assert list(seed_numbers(pd.Series(["3", 1.0, 2]))) == [3, 1, 2]
    names, more = pd.Series(["b", "a", "b"]), pd.Series(["c", "a", 2.0])
    assert list(seed_numbers(names)) == [0, 1, 0]
    assert list(seed_numbers(more, after=names)) == [2, 1, 3]
    table = pd.DataFrame({"width": [1.0, 2, 4], "loss": [3.0, 2, 1], "seed": names})
    runs = Runs.from_frame(table, sizes=["width"])
    offer = pd.DataFrame({"width": [8.0, 8.0, 2.0], "seed": ["c", None, "a"]})
    assert seed_names(runs, offer) == {0: "b", 1: "a", 2: "c"}
    assert seed_names(sweep(), None) == {}
    assert read_among(offer, runs) == {(8.0,): [((), 2), ((), None)], (2.0,): [((), 1)]}
    with pytest.raises(DataError, match="positive numbers"):
        read_among(pd.DataFrame({"width": [-1.0]}), runs)


@pytest.fixture(scope="module")
def bought() -> Plan:
    return plan(priced(), at=LARGE, n_runs=12, budget=1.2e7)


def test_a_plan_buys_what_narrows_most_for_its_cost(bought: Plan) -> None:
    """Runs at the larger size come first: it takes half of the change that is extrapolated."""
    steps = [(p.step, p.size["width"], p.seed, p.reason) for p in bought.purchases]
    assert steps == [
        *[(1, 512, 0, "new size")] * 4,
        *[(2, 23, 0, "new size")] * 4,
        *[(3, 16, 2, "replicate")] * 2,
        *[(4, 23, 1, "replicate")] * 2,
    ]
    for purchase in bought.purchases:
        assert purchase.cost == pytest.approx(7 * purchase.size["width"] ** 2)
    assert bought.cost == pytest.approx(28 * (512**2 + 23**2) + 14 * (16**2 + 23**2))
    assert bought.spent == pytest.approx(7 * 10 * sum(w**2 for w in WIDTHS))
    assert (bought.unit, bought.cost_from, bought.budget) == ("FLOPs", "the column flops", 1.2e7)
    told = [(o.n_runs, o.cost, o.loss_width, o.tuned_width["lr"]) for o in bought.expectations]
    assert told == [
        pytest.approx((0, 0, 0.1120379, 1.9284541), rel=1e-5),
        pytest.approx((4, 28 * 512**2, 0.0365775, 1.8213497), rel=1e-3),
        pytest.approx((12, bought.cost, 0.0333335, 1.7597976), rel=1e-3),
    ]
    larger = [(e.size["width"], e.expectation.n_runs, e.expectation.cost) for e in bought.larger]
    assert larger == [
        *(pytest.approx((width, 4, 28 * width**2)) for width in (362, 512)),
        pytest.approx((1024, 3, 21 * 1024**2)),
    ]
    assert [e.in_budget for e in bought.larger] == [True, True, False]
    assert "lr narrows from 1.9 " in bought.advice[0]
    assert bought.larger[1].expectation.loss_width == bought.expectations[1].loss_width
    # any number of runs at the swept sizes leave the form of the law and the new run's noise
    least = 2 * stats.norm.ppf(0.975) * 0.006
    assert least < bought.floor.loss_width < 1.25 * least


def test_the_larger_size_that_narrows_most_for_its_cost_is_named(bought: Plan) -> None:
    """Logs of .1 / left over the cost: .11, .15, .02; from 3 % on, where runs leave 90 %."""

    def words(floor: float, *larger: tuple[float, float, float]) -> str:
        now, size = replace(bought.now, loss_width=0.1, tuned_width={}), bought.larger[0]
        sizes = [
            replace(size, size={"width": w}, expectation=replace(now, cost=cost, loss_width=left))
            for w, cost, left in larger
        ]
        found = replace(bought, expectations=(now,), floor=replace(now, loss_width=floor))
        return "".join(advise(replace(found, larger=tuple(sizes)))[1:])

    assert "width=2 " in words(0.0901, (1, 1.0, 0.09), (2, 4.0, 0.055), (3, 100.0, 0.01))
    assert words(0.0899, (1, 1.0, 0.09)) == ""
    assert "width=1 " in words(0.1, (1, 1.0, 0.0969))
    assert "width=1 " not in words(0.1, (1, 1.0, 0.0971))


@pytest.mark.parametrize(
    ("options", "sizes", "n_runs"),
    [
        ({"n_runs": 10, "larger": False}, {23, 45}, 10),
        ({"budget": 28.0 * 512**2 * 0.999}, {16, 23, 45, 91, 181, 362}, None),
    ],
)
def test_a_plan_keeps_to_its_bounds(options, sizes, n_runs):
    found = plan(priced(), at=LARGE, **options)
    assert found.cost <= options.get("budget", math.inf)
    assert len(found.purchases) <= (n_runs or math.inf)
    assert {p.size["width"] for p in found.purchases} == sizes
    budget = options.get("budget", math.inf)
    assert [e.in_budget for e in found.larger] == [
        budget >= cost for cost in (28 * 362**2, 28 * 512**2, 21 * 1024**2)
    ]


def test_the_target_is_tried_at_what_is_advised_and_at_both_sides_of_it() -> None:
    """There a new run has the noise of .006 and what three runs leave of the loss, no more."""
    found = plan(priced(), at=LARGE, n_runs=4)
    first = [p for p in found.purchases if p.step == 1]
    assert {p.size["width"] for p in first} == {1024}
    reach = 1.6 * math.sqrt(0.5)
    rates = [lr_at(1024) * 2**octaves for octaves in (0, -reach, reach)]
    assert [p.tuned["lr"] for p in first] == pytest.approx(rates, rel=1e-5)
    assert found.cost >= 21 * 1024**2
    assert 2 * 1.96 * 0.006 < found.then.loss_width < found.now.loss_width / 3
    market = Market(forecast=priced(), model=foresee(priced(), LARGE).model, at=LARGE)
    market.take(market.moves(LARGE, is_known=False)[0])
    one, three = market.moves(LARGE, is_known=True)
    assert one.cells == ((pytest.approx((0.0025,)), 1),)
    assert [seed for _, seed in three.cells] == [1] * 3


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_cell_has_no_more_seeds_than_told_with_those_there_are(most: int) -> None:
    market = Market(
        forecast=priced(), model=foresee(priced(), LARGE).model, most_seeds=most
    )  # two seeds at every value
    for _ in range(4):
        for move in market.moves({"width": 64.0}, is_known=True)[:1]:
            market.take(move)
    seeds = {seed for values, seed in market.tried[64.0,] if values == (0.005,)}
    assert len(seeds) == max(2, most)
    assert (market.with_seed({"width": 64.0}, 9) is None) == (most < 6)
    offered = read_among(pd.DataFrame({"width": 64.0, "lr": 0.005, "seed": range(9)}), sweep())
    listed = replace(market, among=offered, tried={}, free={})
    moves = listed.moves({"width": 64.0}, is_known=True)
    assert bool(moves) == (most > 2)
