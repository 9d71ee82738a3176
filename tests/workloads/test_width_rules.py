import math

import pytest
import torch
from torch import nn

from extrap.workloads import tensor_roles, width_rules


def rules_of(workload, width=64, **choices):
    given = {"parametrization": "mup", "base_width": 16, "optimizer": "adam", **choices}
    return width_rules(workload.build, {"width": width}, **given)


def test_roles_follow_from_which_sides_grow(tiny):
    assert tensor_roles(tiny("bytes-mlp").build, {"width": 8}) == {
        "embedding.weight": "fixed",
        "mlp.hidden.0.weight": "input",
        "mlp.hidden.0.bias": "input",
        "mlp.hidden.1.weight": "hidden",
        "mlp.hidden.1.bias": "input",
        "mlp.hidden.2.weight": "hidden",
        "mlp.hidden.2.bias": "input",
        "mlp.output.weight": "output",
        "mlp.output.bias": "fixed",
    }


@pytest.mark.parametrize(
    ("optimizer", "rates"),
    [
        ("adam", {"input": 1.0, "hidden": 0.25, "output": 0.25, "fixed": 1.0}),
        ("adamw", {"input": 1.0, "hidden": 0.25, "output": 0.25, "fixed": 1.0}),
        ("muon", {"input": 1.0, "hidden": 0.5, "output": 0.25, "fixed": 1.0}),
        ("sgd", {"input": 4.0, "hidden": 1.0, "output": 0.25, "fixed": 1.0}),
    ],
)
def test_rates_at_four_times_the_base_width(tiny, optimizer, rates):
    for rule in rules_of(tiny("bytes-mlp"), optimizer=optimizer).values():
        assert rule.rate == rates[rule.role]


def test_starts_at_four_times_the_base_width(tiny):
    rules = rules_of(tiny("bytes-mlp"))
    assert rules["mlp.output.weight"].init == 0.5  # sd 1 / fan-in, drawn as 1 / √fan-in
    assert rules["mlp.hidden.1.bias"].init == 2.0  # drawn as 1 / √fan-in, wanted constant
    assert rules["mlp.output.bias"].init == 2.0
    assert rules["mlp.hidden.0.bias"].init == 1.0  # its fan-in does not grow
    assert rules["mlp.hidden.1.weight"].init == 1.0


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "muon"])
def test_nothing_changes_at_the_base_width_or_under_the_standard_rule(tiny, optimizer):
    at_base = rules_of(tiny("bytes-mlp"), width=16, optimizer=optimizer)
    standard = rules_of(tiny("bytes-mlp"), optimizer=optimizer, parametrization="standard")
    for rules in (at_base, standard):
        assert {(rule.init, rule.rate) for rule in rules.values()} == {(1.0, 1.0)}


MUP = {"parametrization": "mup", "base_width": 2}


def test_convolutions_count_by_their_channels_and_what_muon_leaves_to_adam_has_its_rate():
    def build(size):
        n = int(size["width"])
        return nn.Sequential(nn.Conv2d(3, n, 3), nn.Conv2d(n, n, 3), nn.Linear(n, n))

    rules = width_rules(build, {"width": 8}, **MUP, optimizer="adam")
    assert [rules[f"{i}.weight"].role for i in range(3)] == ["input", "hidden", "hidden"]
    assert math.isclose(rules["1.bias"].init, 2.0)
    rules = width_rules(build, {"width": 8}, **MUP, optimizer="muon")
    assert (rules["1.weight"].rate, rules["2.weight"].rate) == (0.25, 0.5)

    def end(size):
        return nn.Conv2d(int(size["width"]), 10, 1)

    (output, _) = width_rules(end, {"width": 8}, **MUP, optimizer="adam").values()
    assert (output.role, output.init) == ("output", 0.5)


def test_mup_needs_a_width():
    def build(size):
        return nn.Linear(3, int(size["channels"]))

    with pytest.raises(ValueError, match="column 'width'"):
        width_rules(build, {"channels": 4}, **MUP, optimizer="adam")
    assert set(tensor_roles(build, {"channels": 4}).values()) == {"fixed"}


def test_roles_allocate_nothing(tiny):
    state = torch.random.get_rng_state()
    tensor_roles(tiny("bytes-mlp").build, {"width": 2**20})
    assert torch.equal(state, torch.random.get_rng_state())
