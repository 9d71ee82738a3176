import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import can_place, estimate_noise, estimate_optima, place_runs
from extrap.fitting.placement import _plan, _vertex
from extrap.records import Cell, Runs, StudySpec, TunedRange, Workload
from extrap.study import protocol

WIDTHS = (16.0, 32.0, 64.0, 128.0, 256.0)
SPEC = StudySpec(
    name="s",
    question="?",
    workload=Workload(name="w"),
    sizes={"width": WIDTHS},
    tune={"lr": TunedRange(low=2**-10, high=2**-4, n=9)},
    seeds=(0, 1, 2, 3),
)


def optimum(width):
    return -6.0 - 0.5 * math.log2(width / 16)


def excess_curve(width, rate, seed):
    """Steeper to the right; noise of .3 %, and what a seed does."""
    u = rate - optimum(width)
    key = [seed, int(width), round(1000 * (rate + 64))]
    noise = 0.003 * np.random.default_rng(key).normal()
    return math.exp(1 + 0.012 * u**2 + 0.001 * u**3 + 0.004 * seed + noise)


def train(cells, loss=excess_curve):
    """Runs of cells; a rate column each for as many tuned values as there are."""
    rows = []
    for cell in cells:
        size, tuned = dict(cell.size), dict(cell.tuned)
        y = loss(size["width"], math.log2(tuned["lr"]), cell.seed)
        rows.append({**size, **tuned, "seed": cell.seed, "loss": y})
    table = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"]).astype({"loss": float})
    return Runs.from_frame(table, sizes=["width"], tuned=["lr"])


def sweep(spec=SPEC, loss=excess_curve):
    """What is wanted after each round, until nothing more is."""
    rounds = [place_runs(spec, train((), loss))]
    while True:
        wanted = place_runs(spec, train(rounds[-1], loss))
        if wanted == rounds[-1]:
            return rounds
        rounds.append(wanted)


def rates_of(cells, width):
    """log2 rate → number of seeds."""
    counts = {}
    for cell in cells:
        if dict(cell.size)["width"] == width:
            rate = math.log2(dict(cell.tuned)["lr"])
            counts[rate] = counts.get(rate, 0) + 1
    return dict(sorted(counts.items()))


@pytest.fixture(scope="module")
def rounds():
    return sweep()


def test_first_round_scans_the_smallest_size_over_the_declared_range(rounds):
    """Every octave and a half, with one seed."""
    assert {dict(cell.size)["width"] for cell in rounds[0]} == {16.0}
    assert list(rates_of(rounds[0], 16.0)) == pytest.approx([-10, -8.5, -7, -5.5, -4])
    assert len(rounds[0]) == 5


def test_each_round_keeps_the_rounds_before_it(rounds):
    for before, after in itertools.pairwise(rounds):
        assert after[: len(before)] == before
    assert all(len(set(cells)) == len(cells) for cells in rounds)
    assert len(rounds) <= 3 * len(WIDTHS)


def test_order_of_the_runs_and_runs_from_elsewhere_change_nothing(rounds):
    stray = Cell.of({"width": 64}, {"lr": 0.3}, 9)
    cells = [*rounds[-1], stray]
    shuffled = [cells[i] for i in np.random.default_rng(0).permutation(len(cells))]
    assert place_runs(SPEC, train(shuffled)) == rounds[-1]


def test_a_size_begins_where_the_smaller_ones_predict_its_optimum(rounds):
    first = next(cells for cells in rounds if rates_of(cells, 256.0))
    assert np.mean(list(rates_of(first, 256.0))) == pytest.approx(optimum(256.0), abs=0.5)


@pytest.mark.parametrize("n_done", [1, 3, 11, 30])
def test_an_unfinished_round_is_wanted_as_it_was_begun(rounds, n_done):
    """Whatever is killed when: the last cells of a round never change what it wants."""
    (whole,) = [cells for cells in rounds if len(cells) > n_done][:1]
    assert place_runs(SPEC, train(whole[:n_done])) == whole


def test_every_size_is_bracketed_with_values_one_and_two_octaves_away(rounds):
    runs = train(rounds[-1])
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    for found in optima:
        best, tried = optimum(found.size["width"]), rates_of(rounds[-1], found.size["width"])
        assert math.log2(found.tuned["lr"].value) == pytest.approx(best, abs=0.4)
        for side in (-1, 1):
            distances = [side * (rate - best) for rate in tried]
            assert any(0.25 < d <= 1.75 for d in distances)
            assert any(1.25 < d <= 3 for d in distances)


def place_while(spec, *, budget, loss=excess_curve):
    cells = ()
    while (wanted := place_runs(spec, train(cells, loss), budget=budget)) != cells:
        cells = wanted
    return cells


def test_no_more_runs_than_the_grid_has_however_noisy():
    def noise(width, rate, seed):
        key = [seed, int(width), round(1000 * (rate + 64))]
        return math.exp(1 + 0.05 * np.random.default_rng(key).normal())

    cells = sweep(SPEC, noise)[-1]
    assert len(cells) <= len(SPEC.grid_cells())
    assert {dict(cell.size)["width"] for cell in cells} == set(WIDTHS)
    assert len(place_while(SPEC, budget=20, loss=noise)) <= 20


def test_a_diverged_run_is_worse_and_bounds_the_optimum():
    def edge(width, rate, seed):
        return math.inf if rate > optimum(width) + 0.8 else excess_curve(width, rate, seed)

    cells = sweep(SPEC, edge)[-1]
    for width in WIDTHS:
        stable = [r for r in rates_of(cells, width) if r <= optimum(width) + 0.8]
        assert any(r > optimum(width) for r in stable)
        assert len(stable) < len(rates_of(cells, width))


def test_where_everything_diverged_it_goes_lower_and_ends():
    rates = rates_of(sweep(SPEC, lambda width, rate, seed: math.inf)[-1], 16.0)
    assert min(rates) == pytest.approx(-10 - 4 * 0.75, abs=0.25)


def test_a_narrow_range_is_divided_not_left():
    spec = replace(SPEC, tune={"lr": TunedRange(low=2**-6.5, high=2**-5.5, n=9)}, growth=0)
    cells = sweep(spec, lambda width, rate, seed: math.exp((rate + 6) ** 2))[-1]
    rates = [rate for width in WIDTHS for rate in rates_of(cells, width)]
    assert min(rates) >= -6.5 - 1e-9
    assert max(rates) <= -5.5 + 1e-9
    assert len(rates_of(cells, 64.0)) >= 4


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, tune={**SPEC.tune, "wd": TunedRange(low=0.1, high=1, n=3)}),
        replace(SPEC, tune={}),
        replace(SPEC, tune={"lr": TunedRange(low=0.1, high=1, n=2)}),
    ],
    ids=["two columns", "none", "a grid cheaper than the first runs"],
)
def test_where_it_cannot_place_the_grid_is_grown(spec):
    stage = protocol.sweep(replace(spec, sampler="law"))
    assert (can_place(spec), stage.n_most > 0) == (False, True)
    assert stage.wants is not None
    assert stage.wants(protocol.no_runs(spec)) == spec.grid_cells()


@pytest.mark.parametrize("widths", [(64.0,), (64.0, 128.0)])
def test_one_seed_and_few_sizes_are_enough(widths):
    spec = replace(SPEC, sizes={"width": widths}, seeds=(7,))
    cells = sweep(spec)[-1]
    assert {cell.seed for cell in cells} == {7}
    assert 4 * len(widths) <= len(cells) <= 9 * len(widths)


@pytest.mark.parametrize("place", [-0.3, 0.0, 0.4])
def test_parabola_is_placed_at_its_lowest_point(place):
    plan = _plan(SPEC, None)
    losses = {index: 0.001 * (plan.step * index - place) ** 2 for index in (-8, -4, 0, 4, 8)}
    position = _vertex(plan, losses, np.ones(5), ())
    assert position == pytest.approx(plan.log2(0) + place, abs=1e-9)
