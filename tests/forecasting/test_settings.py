"""How columns of a sweep follow its sizes."""

import numpy as np
import pandas as pd
import pytest

from extrap.forecasting.settings import settings_of
from extrap.records import Runs

WIDTHS = (16.0, 32.0, 64.0, 128.0)


def by_role(sizes=("width",), tuned=("lr",), **columns):
    width = np.repeat(WIDTHS, 2)
    table = {"width": width, "lr": np.tile([0.1, 0.2], 4), "loss": np.full(8, 2.0)}
    table |= {name: of(width) if callable(of) else of for name, of in columns.items()}
    table = {k: np.broadcast_to(v, 8) for k, v in table.items()}
    runs = Runs.from_frame(pd.DataFrame(table), sizes=sizes, tuned=tuned)
    return {setting.role: setting for setting in settings_of(runs)}


def test_one_value_of_all_runs_has_no_powers():
    settings = by_role(tokens=2e9, weight_decay=0.1, batch_size=64)
    assert {role: (s.column, s.amount, s.powers) for role, s in settings.items()} == {
        "tokens": ("tokens", 2e9, {}),
        "batch": ("batch_size", 64.0, {}),
        "decay": ("weight_decay", 0.1, {}),
    }


def test_a_power_of_the_size_is_found_and_whole_ones_exactly():
    tokens = by_role(tokens=lambda width: 300 * width**2 * (1 + 0.01 * np.sin(width)))["tokens"]
    assert tokens.powers == {"width": 2.0}
    assert tokens.amount == pytest.approx(300, rel=0.02)
    assert by_role(tokens=lambda width: 300 * width**0.7)["tokens"].powers == pytest.approx(
        {"width": 0.7}
    )


def test_what_follows_no_power_has_no_amount_beyond_the_sweep():
    tokens = by_role(tokens=lambda width: np.where(width > 40, 9e9, 1e9))["tokens"]
    assert (tokens.amount, tokens.value({"width": 64.0})) == (None, None)


def test_what_varies_within_a_size_is_no_setting():
    assert "tokens" not in by_role(tokens=np.tile([1e9, 2e9], 4))


def test_a_horizon_that_is_a_size_is_no_setting_and_neither_are_steps_beside_it():
    sizes, tokens = ("width", "tokens"), np.repeat([1e9, 2e9, 4e9, 8e9], 2)
    assert not by_role(sizes=sizes, tokens=tokens, steps=1000.0)


def test_runs_that_did_not_finish_say_nothing():
    stopped = np.where(np.arange(8) == 5, 1e6, 2e9)
    status = np.where(np.arange(8) == 5, "pruned", "complete")
    assert by_role(tokens=stopped, status=status)["tokens"].amount == 2e9


def test_a_decay_of_none_is_known_and_other_zeros_are_not():
    settings = by_role(weight_decay=0.0, tokens=0.0, batch_size=0)
    assert {role: s.amount for role, s in settings.items()} == {"decay": 0.0}
    assert not settings["decay"].is_at({"width": 16.0}, 1.0)


def test_the_likeliest_column_of_a_role_stands_alone():
    settings = by_role(batch_size=64, global_batch_size=8, batch_size_tokens=65536, tokens=2e9)
    assert settings["batch"].column == "batch_size_tokens"
    made = Runs.from_frame(
        pd.DataFrame({"width": WIDTHS, "loss": 2.0, "batch_size": 64, "batch_size_tokens": 65536}),
        sizes=["width"],
        tuned=[],
    )
    assert [setting.role for setting in settings_of(made)] == ["batch"]


@pytest.mark.parametrize("column", ["steps", "max_steps", "tokens_per_param"])
def test_what_says_how_long_runs_train_is_a_horizon_that_is_a_size(column):
    amounts = np.repeat([1e3, 2e3, 4e3, 8e3], 2)
    sizes = ("width", column)
    of_sizes = by_role(sizes=sizes, **{column: amounts}, tokens=2e9, updates=10)
    assert not of_sizes.keys() & {"tokens", "steps"}


def test_two_sizes_do_not_tell_a_power():
    width = np.repeat([16.0, 32.0], 4)
    assert by_role(width=width, tokens=20 * width)["tokens"].amount is None
    assert by_role(width=width, tokens=20.0)["tokens"].amount == 20.0


def test_a_size_that_does_not_vary_has_no_power():
    tokens = by_role(sizes=("width", "depth"), depth=4.0, tokens=lambda width: 20 * width)[
        "tokens"
    ]
    assert (tokens.amount, tokens.powers) == (20.0, {"width": 1.0})
