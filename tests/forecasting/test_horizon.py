"""A horizon that is a size, one that was never varied, and the names by which it is asked for."""

import pytest

import extrap
from extrap.errors import DataError
from extrap.forecasting.documents import load_forecast, save_forecast
from tests.forecasting.horizons import best_lr, grid, sweep


@pytest.fixture(scope="module")
def one_horizon():
    return extrap.forecast(sweep(grid(tokens=[2e9])))


@pytest.fixture(scope="module")
def tied():
    """20 tokens per parameter."""
    return extrap.forecast(sweep([(n, 20 * n) for n in (1e7, 3e7, 1e8, 3e8)]))


@pytest.fixture(scope="module")
def over_both():
    return extrap.forecast(sweep(grid()))


def test_a_horizon_that_was_varied_is_a_size(over_both):
    point = over_both.at(params=1e8, tokens=5.12e10)
    assert point.tuned["lr"].value == pytest.approx(best_lr(1e8, 5.12e10), rel=0.1)
    assert over_both.at(params=1e8, tokens_per_param=512) == point
    assert over_both.horizon is None


def test_tokens_alone_are_a_size():
    made = extrap.forecast(sweep(grid(params=[3e7])).drop(columns="params"))
    assert made.runs.sizes == ("tokens",)
    lr = made.at(5.12e10).tuned["lr"]
    assert best_lr(3e7, 5.12e10) in lr.pi


@pytest.mark.parametrize("tokens", [3e11, 2.5e9, 1e6])
def test_nothing_is_forecast_at_a_horizon_that_was_never_varied(one_horizon, tokens):
    point = one_horizon.at(params=3e8, tokens=tokens)
    assert (point.loss, point.recommended, point.size["tokens"]) == (None, {"lr": None}, tokens)
    assert point.tuned["lr"].value is None
    assert set(point.refusals) == {"loss", "lr"}
    assert (point.confidence.level, point.confidence.is_flag) == ("low", False)
    assert "never varied" in point.confidence.reason
    assert "every run of the sweep has tokens 2B" in point.refusals["lr"]


def test_the_horizon_of_the_sweep_may_be_named_and_changes_nothing(one_horizon):
    assert one_horizon.at(params=3e8, tokens=2.1e9) == one_horizon.at(3e8)


def test_tokens_that_followed_the_parameters_are_those_of_any_size(tied):
    assert tied.at(params=6e8, tokens=1.2e10) == tied.at(6e8)
    assert tied.at(params=6e8, tpp=20) == tied.at(6e8)
    point = tied.at(params=6e8, tpp=100)
    assert (point.loss, point.size["tokens"]) == (None, 6e10)
    assert "tokens followed the size in every run" in point.refusals["loss"]


def test_known_rules_start_at_what_the_sweep_says_of_the_size(one_horizon):
    """Over 100 times the tokens by powers of −1/2, −.32, .307 and 0."""
    value = one_horizon.at(3e8).recommended["lr"]
    rules = {rule.rule: rule for rule in one_horizon.at(params=3e8, tokens=2e11).rules}
    powers = {
        "constant": 0.0,
        "inverse_root_tokens": -0.5,
        "bjorck_tokens": -0.32,
        "step_law_tokens": 0.307,
    }
    assert {key: rule.value for key, rule in rules.items()} == pytest.approx(
        {key: value * 100**power for key, power in powers.items()}
    )
    assert {(rule.octaves, rule.expected_regret) for rule in rules.values()} == {(None, None)}


@pytest.mark.parametrize("ask", ["frame", "cost", "plan", "timescale"])
def test_no_other_answer_takes_a_horizon_for_that_of_the_sweep(one_horizon, ask):
    size = {"params": 3e8, "tokens": 3e11}
    asked = {
        "frame": lambda: one_horizon.frame([size]),
        "cost": lambda: extrap.cost(one_horizon, at=size),
        "plan": lambda: extrap.plan(one_horizon, at=size),
        "timescale": lambda: one_horizon.timescale(**size),
    }
    with pytest.raises((ValueError, DataError), match="every run of the sweep has tokens 2B"):
        asked[ask]()


def test_a_sealed_forecast_knows_its_horizon(one_horizon, tmp_path):
    save_forecast(one_horizon, tmp_path / "sealed.json")
    sealed = load_forecast(tmp_path / "sealed.json")
    assert sealed.settings == one_horizon.settings
    assert sealed.at(params=3e8, tokens=3e11).loss is None


def test_steps_are_a_horizon_without_tokens():
    table = sweep(grid(tokens=[2e9])).drop(columns="tokens").assign(steps=5000)
    made = extrap.forecast(table)
    assert made.at(params=3e8, steps=50_000).loss is None
    assert made.at(params=3e8, steps=5000) == made.at(3e8)


@pytest.mark.parametrize("tokens", [0.0, -1.0, float("nan"), float("inf")])
def test_a_horizon_is_positive_and_finite(one_horizon, tokens):
    with pytest.raises(ValueError, match="positive and finite"):
        one_horizon.at(params=3e8, tokens=tokens)


def test_a_name_that_is_neither_size_nor_horizon_is_an_error(one_horizon):
    with pytest.raises(ValueError, match="exactly the size column"):
        one_horizon.at(params=3e8, depth=12)


@pytest.mark.parametrize(("tokens", "is_given"), [(1e9, True), (1.05e9, True), (3e11, False)])
def test_tokens_beside_a_ratio_are_those_of_the_ratio(over_both, tokens, is_given):
    size = {"params": 5e7, "tokens_per_param": 20, "tokens": tokens}
    if is_given:
        assert over_both.at(**size) == over_both.at(params=5e7, tokens=tokens)
    else:
        with pytest.raises(ValueError, match="tokens_per_param 20 at params 50M is tokens 1B"):
            over_both.at(**size)


@pytest.mark.parametrize("ratio", [-20.0, 0.0, float("inf")])
def test_a_ratio_is_positive_and_finite(one_horizon, ratio):
    with pytest.raises(ValueError, match="tpp must be positive and finite"):
        one_horizon.at(params=3e8, tpp=ratio)


def test_a_ratio_that_is_no_number_is_named(one_horizon):
    with pytest.raises(TypeError, match="tpp='20'"):
        one_horizon.at(params=3e8, tpp="20")
    with pytest.raises(TypeError, match="tokens='6e9'"):
        one_horizon.at(params=3e8, tpp=20, tokens="6e9")


@pytest.mark.parametrize("column", ["steps", "n_examples"])
def test_tokens_per_parameter_are_no_steps_and_no_examples(column):
    made = extrap.forecast(sweep(grid(tokens=[2e9])).rename(columns={"tokens": column}))
    with pytest.raises(ValueError, match=f"takes {column} beside them, got params, tpp"):
        made.at(params=3e8, tpp=20)


@pytest.mark.parametrize("column", ["max_steps", "updates"])
def test_steps_have_several_names(column):
    made = extrap.forecast(sweep(grid(tokens=[2e9])).rename(columns={"tokens": column}))
    assert made.at(params=3e8, steps=2e9) == made.at(3e8)
    assert made.at(params=3e8, steps=4e9).size == {"params": 3e8, column: 4e9}


def test_only_names_of_tokens_are_those_of_a_letter():
    made = extrap.forecast(
        sweep(grid(tokens=[2e9])).rename(columns={"params": "N", "tokens": "D"})
    )
    assert made.at(N=3e8, tokens=4e9).loss is None
    with pytest.raises(ValueError, match="got N, depth"):
        made.at(N=3e8, depth=4e9)


@pytest.mark.parametrize("tokens", [1e-300, 1e300])
def test_rules_are_left_out_where_no_float_holds_them(one_horizon, tokens):
    point = one_horizon.at(params=3e8, tokens=tokens)
    assert (point.loss, point.rules) == (None, ())


def test_tokens_by_no_power_of_size_are_not_said_to_follow_it():
    sizes = [(1e7, 2e9), (3e7, 2e9), (1e8, 2e9), (3e8, 8e9)]
    made = extrap.forecast(sweep(sizes))
    point = made.at(params=3e8, tokens=9e9)
    assert (point.loss, point.rules) == (None, ())
    assert "without a clear trend" in point.refusals["loss"]
    assert "follows-size: tokens goes from 2B to 8B over the sizes" in made.at(1e9).flags


def test_without_weight_decay_no_rule_keeps_its_timescale():
    made = extrap.forecast(
        sweep(grid(tokens=[2e9])).assign(weight_decay=0.0, batch_size_tokens=64)
    )
    for point in (made.at(3e8), made.at(params=3e8, tokens=4e9)):
        rules = {rule.rule for rule in point.rules}
        assert "constant" in rules
        assert "constant_timescale" not in rules
    assert made.timescale(3e8) is None


@pytest.mark.parametrize("ratio", [20, 100])
def test_a_horizon_stands_beside_the_inputs_of_a_path(ratio):
    """N = 12 · 16 depth³ by the path."""
    sizes = [(12 * 16 * depth**3, 20 * 12 * 16 * depth**3) for depth in (40, 60, 80, 100)]
    path = {"params": "12 * depth * width**2", "width": "4 * depth"}
    made = extrap.forecast(sweep(sizes), path=path)
    tokens = ratio * 12 * 16 * 120**3
    points = [made.at(depth=120, tpp=ratio), made.at(depth=120, tokens=tokens)]
    if ratio == 20:
        assert points == [made.at(depth=120)] * 2
    else:
        assert [p.loss for p in points] == [None, None]
        assert points[0].size == {"params": 12 * 16 * 120**3, "tokens": tokens}
    with pytest.raises(TypeError, match="depth='120'"):
        made.at(depth="120", tokens=tokens)
    with pytest.raises(ValueError, match="got width, tokens"):
        made.at(width=480, tokens=tokens)


def test_a_horizon_alone_or_twice_is_an_error(one_horizon):
    with pytest.raises(ValueError, match="got tokens;"):
        one_horizon.at(tokens=3e11)
    with pytest.raises(ValueError, match="got params, tokens, D;"):
        one_horizon.at(params=3e8, tokens=3e11, D=3e11)
    with pytest.raises(TypeError, match="tokens='3e11'"):
        one_horizon.at(params=3e8, tokens="3e11")


def test_a_point_at_another_horizon_is_as_far_and_as_doubtful(one_horizon):
    here, there = one_horizon.at(3e8), one_horizon.at(params=3e8, tokens=3e11)
    assert there.extrapolation_ratio == here.extrapolation_ratio == pytest.approx(3)
    assert one_horizon.flags
    assert set(one_horizon.flags) <= set(there.flags)


def test_tokens_that_a_path_starts_from_are_no_horizon(tied):
    table = sweep([(n, 20 * n) for n in (1e7, 3e7, 1e8, 3e8)])
    made = extrap.forecast(table, path={"params": "tokens / 20"})
    assert made.at(tokens=1.2e10).loss == pytest.approx(tied.at(6e8).loss)


def test_no_rule_moves_values_over_steps_where_the_batch_is_tuned():
    """In as many steps of another batch a run sees other tokens."""
    table = sweep(grid(tokens=[2e9])).rename(columns={"lr": "batch_size"}).assign(steps=5000)
    made = extrap.forecast(table.drop(columns="tokens"), tune="batch_size")
    point = made.at(params=3e8, steps=50_000)
    assert (point.recommended, point.rules) == ({"batch_size": None}, ())


def test_a_width_that_follows_the_parameters_has_its_rule():
    """The root of a hundred times the parameters of the smallest size is ten times its own."""
    table = sweep(grid(tokens=[2e9]))
    made = extrap.forecast(table.assign(width=table["params"] ** 0.5), size="params")
    rules = {rule.rule: rule.value for rule in made.at(1e9).rules}
    assert rules["inverse_width"] == pytest.approx(rules["constant"] / 10)


def test_a_constant_timescale_is_a_rule_where_weight_decay_is_known():
    """Of the rate, at its weight decay; one that varies within a size is no constant."""
    table = sweep(grid(tokens=[2e9]))
    fixed = extrap.forecast(table.assign(weight_decay=0.1))
    rules = {rule.rule: rule.value for rule in fixed.at(params=3e8, tokens=2e11).rules}
    assert rules["constant_timescale"] == pytest.approx(rules["constant"] / 100)
    varied = sweep(grid(tokens=(5e8, 4e9)), decays=(-1.0, 0.0, 1.0))
    made = extrap.forecast(varied, tune="lr", ignore="weight_decay")
    rules = {rule.rule for rule in made.at(params=1e8, tokens=8e9).rules}
    assert "constant" in rules
    assert "constant_timescale" not in rules


@pytest.mark.parametrize("ask", [extrap.cost, extrap.plan])
def test_one_size_is_asked_for_at_a_time(one_horizon, ask):
    with pytest.raises(ValueError, match="takes one size here, got 2"):
        ask(one_horizon, at=[{"params": 3e8}, {"params": 6e8}])
