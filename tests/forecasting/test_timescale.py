"""AdamW's timescale of the best values, of a sweep in which it stays."""

import pytest

import extrap
from extrap.errors import DataError
from tests.forecasting.horizons import BATCH, grid, sweep

SIZES = grid(params=(1e7, 4e7, 1.6e8), tokens=(5e8, 4e9))


@pytest.fixture(scope="module")
def table():
    return sweep(SIZES, decays=(-2.0, -1.0, 0.0, 1.0, 2.0))


@pytest.fixture(scope="module")
def forecast(table):
    return extrap.forecast(table)


def test_it_is_the_share_of_a_run_and_stays(forecast):
    timescale = forecast.timescale(params=1.6e8, tokens=1.6e10)
    assert timescale.formula == "batch_size_tokens / (tokens * lr * weight_decay)"
    assert 0.05 in timescale.value.ci
    assert timescale.value.value == pytest.approx(0.05, rel=0.15)
    for column in ("params", "tokens"):
        assert abs(timescale.exponents[column].value) < 0.05
        assert 0 in timescale.exponents[column].ci


def test_moves_that_keep_it_cost_what_the_loss_says(forecast):
    """.01 u² + .01 (u + v)²: .02 of the rate alone, .01 of the decay, .01 against each other."""
    costs = forecast.timescale(params=1.6e8, tokens=4e9).octave_costs
    expected = {"lr": 0.02, "weight_decay": 0.01, "lr and weight_decay": 0.01}
    assert costs == pytest.approx(expected, rel=0.2)


def test_steps_stand_for_batch_and_tokens(table, forecast):
    in_steps = table.assign(steps=table["tokens"] / BATCH).drop(columns="batch_size_tokens")
    made = extrap.forecast(in_steps, size=["params", "steps"], ignore="tokens")
    timescale = made.timescale(params=1.6e8, steps=1.6e10 / BATCH)
    assert timescale.formula == "1 / (steps * lr * weight_decay)"
    there = forecast.timescale(params=1.6e8, tokens=1.6e10)
    assert timescale.value.value == pytest.approx(there.value.value, rel=0.02)


def test_a_fixed_weight_decay_of_each_size_counts(table):
    """The decay is 1 at the smallest size, twice that at each fourfold: τ goes as 1 / (η λ D)."""
    fixed = sweep(SIZES).assign(batch_size_tokens=BATCH)
    fixed["weight_decay"] = (fixed["params"] / 1e7) ** 0.5
    timescale = extrap.forecast(fixed).timescale(params=1.6e8, tokens=1.6e10)
    assert timescale.exponents["params"].value == pytest.approx(0.4 - 0.5, abs=0.03)
    assert timescale.exponents["tokens"].value == pytest.approx(0.2 - 1.0, abs=0.03)
    assert timescale.octave_costs == {}


@pytest.mark.parametrize("missing", ["", "weight_decay", "batch_size_tokens"])
def test_it_is_unknown_without_one_of_its_parts(missing):
    table = sweep(SIZES).assign(batch_size_tokens=BATCH, weight_decay=0.1)
    made = extrap.forecast(table.drop(columns=missing or []))
    timescale = made.timescale(params=1.6e8, tokens=1.6e10)
    assert (timescale is None) is bool(missing)


def test_keeping_it_loses_nothing_where_it_stays_and_a_kept_value_its_distance(forecast):
    """From the smallest size on the rate falls by .4 · 4 + .2 · 3 octaves, decay by their sum."""
    costs = forecast.timescale(params=1.6e8, tokens=4e9).kept_costs
    octaves = 0.4 * 4 + 0.2 * 3
    # .01 u² + .01 (u + v)² with u = octaves, v = −u the best then
    assert costs["timescale"] < 0.001
    assert costs["lr"] == pytest.approx(0.01 * octaves**2, rel=0.2)
    # of decay v is off by octaves − 3: u = −v / 2 is best, .01 v² / 2 is left
    assert costs["weight_decay"] == pytest.approx(0.005 * (octaves - 3) ** 2, abs=0.002)


def test_it_may_be_tuned_itself(table):
    made = extrap.forecast(table, let="tau", tune=["tau", "lr"])
    assert made.at(params=1.6e8, tokens=1.6e10).recommended["tau"] == pytest.approx(0.05, rel=0.15)


def test_costs_are_those_of_the_moves_however_little_is_known(table):
    """Beside what it costs not to know the optimum, .03 and more on average here."""
    noisy = sweep(SIZES, decays=(-2.0, -1.0, 0.0, 1.0, 2.0), noise=0.02)
    costs = extrap.forecast(noisy).timescale(params=1.6e9, tokens=2.56e11).octave_costs
    assert costs["lr"] == pytest.approx(0.02, abs=0.01)
    assert costs["weight_decay"] == pytest.approx(0.01, abs=0.01)


def test_a_batch_in_sequences_is_none_in_tokens(table):
    made = extrap.forecast(table.rename(columns={"batch_size_tokens": "batch_size"}))
    assert made.timescale(params=1.6e8, tokens=1.6e10) is None


def test_tokens_by_no_power_of_size_give_none():
    decays = (-2.0, -1.0, 0.0, 1.0, 2.0)
    sizes = [(1e7, 2e9), (3e7, 2e9), (1e8, 2e9), (3e8, 8e9)]
    assert extrap.forecast(sweep(sizes, decays=decays)).timescale(6e8) is None


def test_there_is_none_where_only_another_value_is_tuned():
    table = sweep(grid(tokens=[2e9])).rename(columns={"lr": "warmup_steps"})
    made = extrap.forecast(
        table.assign(lr=0.01, weight_decay=0.1, batch_size_tokens=BATCH), tune="warmup_steps"
    )
    assert {setting.role for setting in made.settings} == {"tokens", "batch", "decay", "rate"}
    assert made.timescale(3e8) is None


def test_sizes_that_move_together_have_no_powers_of_their_own():
    table = sweep([(n, 20 * n) for n in (1e7, 3e7, 1e8, 3e8)])
    table = table.assign(weight_decay=0.1, batch_size_tokens=BATCH)
    made = extrap.forecast(table, size=["params", "tokens"], fix={"lr.b1": -0.4, "c1": 0.34})
    assert made.timescale(params=6e8, tokens=1.2e10).exponents == {}


def test_values_that_a_formula_ties_are_not_tuned_together(table):
    with pytest.raises(DataError, match="tau follows from lr and weight_decay and tokens"):
        extrap.forecast(table, let="tau", tune=["tau", "lr", "weight_decay"])


def test_a_rate_may_be_defined_anew(table):
    in_thousandths = table.assign(lr=1000 * table["lr"])
    made = extrap.forecast(in_thousandths, let=["lr = lr / 1000", "tau"])
    assert made.runs.tuned == ("lr", "weight_decay")
    timescale = made.timescale(params=1.6e8, tokens=1.6e10)
    assert timescale.value.value == pytest.approx(0.05, rel=0.15)
