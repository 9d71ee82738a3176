from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from extrap.errors import DataError
from extrap.records import Recipe
from extrap.training.coordinates import FactoryModels, StudyModels, read_groups
from tests.study import trials

DRAW = torch.Generator().manual_seed(0)
BATCH = torch.randn(16, 6, generator=DRAW), torch.randint(0, 3, (16,), generator=DRAW)
SPEC = replace(
    trials.SPEC,
    sizes={"width": (16, 32)},
    tune=trials.rates(2**-9, 2**-7, 3),
    recipe=Recipe(base_width=16),
)


def mlp(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


def measured(factory=mlp, batch=BATCH, *, make_optimizer=None, loss=None, lr=0.01, steps=1):
    models = FactoryModels(factory, batch, make_optimizer, loss, "cpu")
    return models.measure(8, lr, steps, 0)


def test_a_step_of_sgd_changes_the_readout_as_its_gradient_says():
    torch.manual_seed(0)
    model = mlp(8)
    hidden = model[1](model[0](BATCH[0]))
    nn.functional.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    with torch.no_grad():
        after = torch.relu(
            BATCH[0] @ (model[0].weight - 0.5 * model[0].weight.grad).T
            + (model[0].bias - 0.5 * model[0].bias.grad)
        )
        update = (after @ (0.5 * model[2].weight.grad).T).square().mean().sqrt().item()
    sgd = measured(make_optimizer=lambda m, lr: torch.optim.SGD(m.parameters(), lr), lr=0.5)
    assert sgd.traces["2"].updates == pytest.approx([0, update], rel=1e-4)
    assert sgd.traces["2"].outputs[0] == pytest.approx(
        model[2](hidden).square().mean().sqrt().item(), rel=1e-5
    )


def test_groups_have_rates_and_the_decay_that_acts():
    model = nn.ModuleDict({"table": nn.Embedding(4, 8), "hidden": nn.Linear(8, 8, bias=False)})
    model["out"] = nn.Linear(8, 4, bias=False)
    model["out"].weight = model["table"].weight
    model["frozen"] = nn.Linear(8, 8, bias=False)
    adamw = torch.optim.AdamW(model["table"].parameters(), 0.1, weight_decay=0.5)
    muon = torch.optim.Muon(model["hidden"].parameters(), 0.2, weight_decay=0.1)
    groups = read_groups(model, [adamw, muon])
    table, hidden = groups["table.weight"], groups["hidden.weight"]
    assert (table.uses, table.is_table, table.shape) == (("table", "out"), True, (4, 8))
    assert (table.rate, table.decay, table.is_orthogonal) == (0.1, pytest.approx(0.05), False)
    assert (hidden.optimizer, hidden.decay, hidden.is_orthogonal) == (
        "Muon",
        pytest.approx(0.02),
        True,
    )
    assert (groups["frozen.weight"].optimizer, groups["frozen.weight"].rate) == ("", 0.0)
    in_the_gradient = torch.optim.Adam(model.parameters(), 0.1, weight_decay=0.5)
    assert read_groups(model, [in_the_gradient])["table.weight"].decay == 0


def test_groups_of_the_package_mup_are_read(mup):
    model = nn.Sequential(nn.Linear(6, 32), nn.Linear(32, 32), mup.MuReadout(32, 3))
    small, wide = (
        nn.Sequential(nn.Linear(6, n), nn.Linear(n, n), mup.MuReadout(n, 3)) for n in (8, 16)
    )
    mup.set_base_shapes(model, small, delta=wide)
    groups = read_groups(model, [mup.MuAdam(model.parameters(), lr=0.1)])
    rates = {name: group.rate for name, group in groups.items() if "weight" in name}
    assert rates == pytest.approx({"0.weight": 0.1, "1.weight": 0.025, "2.weight": 0.1})


def test_several_optimizers_and_frozen_layers():
    def factory(width):
        model = nn.Sequential(nn.Linear(6, width), nn.Linear(width, width), nn.Linear(width, 3))
        model[0].requires_grad_(False)
        return model

    def both(model, lr):
        return [
            torch.optim.Muon([model[1].weight], lr),
            torch.optim.AdamW([model[1].bias, *model[2].parameters()], lr),
        ]

    traces = measured(factory, make_optimizer=both).traces
    assert traces["0"].changes == [0, 0]
    assert traces["1"].updates[1] > 0 < traces["2"].updates[1]


class WithLoss(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.readout = nn.Linear(6, width), nn.Linear(width, 1)

    def forward(self, x, y):
        output = self.readout(self.hidden(x).tanh())
        return {"loss": (output - y).square().mean(), "output": output}


@pytest.mark.parametrize(
    ("factory", "batch"),
    [
        (lambda width: mlp(width), lambda step: BATCH),
        (lambda width: mlp(width), (BATCH[0], torch.randn(16, 3))),
        (WithLoss, {"x": BATCH[0], "y": torch.randn(16, 1)}),
        (
            lambda width: mlp(width).bfloat16(),
            (BATCH[0].bfloat16(), BATCH[1]),
        ),
    ],
    ids=["batches by step", "real targets", "a mapping", "bfloat16"],
)
def test_batches_have_a_loss_by_default(factory, batch):
    traces = measured(factory, batch, lr=0.05).traces
    assert all(trace.changes[1] > 0 for trace in traces.values())


def test_sequences_of_classes_have_one_loss():
    tokens = torch.randint(0, 5, (4, 7), generator=torch.Generator().manual_seed(0))
    factory = lambda width: nn.Sequential(nn.Embedding(5, width), nn.Linear(width, 5))  # noqa: E731
    assert list(measured(factory, (tokens, tokens)).traces) == ["0", "1", "model"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"factory": lambda: None}, ValueError, "function of its width"),
        ({"batch": None}, ValueError, "needs a batch"),
        ({"factory": lambda width: 1 / 0}, DataError, "width 8 cannot be made: ZeroDivisionError"),
        ({"factory": lambda width: None}, DataError, "width 8 cannot be made: AttributeError"),
        ({"factory": lambda width: nn.LazyLinear(3)}, DataError, "cannot be made: RuntimeError"),
        ({"make_optimizer": lambda m, lr: 1 / 0}, DataError, "cannot be made"),
        ({"lr": 1e30, "steps": 3}, DataError, "finite, got .* at width 8"),
        (
            {"factory": lambda width: nn.Linear(7, 3)},
            DataError,
            "8 cannot be trained: RuntimeError",
        ),
        ({"loss": lambda m, batch: m(batch[0])}, DataError, "8 cannot be trained: RuntimeError"),
        ({"batch": 2 * BATCH}, DataError, "8 cannot be trained: ValueError: too many values"),
        ({"factory": lambda w: mlp(w).requires_grad_(False)}, DataError, "cannot be trained"),
    ],
)
def test_bad_input_is_refused_in_one_line(options, error, message):
    with pytest.raises(error, match=message) as caught:
        measured(**options)
    assert "\n" not in str(caught.value)


def test_a_batch_has_the_type_that_its_loss_is_given():
    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch.inputs), batch.classes)

    named = namedtuple("Batch", "inputs classes")(*BATCH)
    traces = measured(batch=named, loss=loss).traces
    assert traces["model"].outputs == measured().traces["model"].outputs


def test_outputs_of_one_feature_are_compared_with_a_column_of_targets():
    x, y = BATCH[0], BATCH[0].sum(1)
    outputs = [
        measured(lambda width: nn.Linear(6, 1), (x, targets)).traces["model"].outputs
        for targets in (y, y[:, None])
    ]
    assert outputs[0] == outputs[1]
    with pytest.raises(DataError, match="cannot be trained"):
        measured(batch=(x, y))


def test_the_caller_s_random_state_is_as_before():
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    measured()
    StudyModels(SPEC, "cpu").measure(16, 0.01, 1, 0)
    with pytest.raises(DataError):
        measured(lr=1e30, steps=3)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1] == after[1]


@pytest.mark.gpu
def test_a_gpu_measures_what_the_processor_does(device):
    here, there = (
        FactoryModels(mlp, BATCH, None, None, name).measure(32, 0.01, 2, 0).traces
        for name in ("cpu", str(device))
    )
    assert list(here) == list(there)
    assert there["2"].updates[-1] > 0
    assert there["model"].outputs == pytest.approx(here["model"].outputs, rel=1e-3)


def test_runs_of_a_sweep_fall_at_a_good_rate():
    models = FactoryModels(mlp, BATCH, None, None, "cpu")
    spec, train = models.sweep((8, 16), 10, (3,))
    assert (spec.sizes, spec.seeds) == ({"width": (8, 16)}, (3,))
    slow, good = (train({"width": 8.0}, {"lr": lr}, 3) for lr in (1e-6, 0.05))
    assert good < slow - 0.1


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon", "sgd"])
def test_models_of_a_study_are_those_it_trains(optimizer):
    recipe = Recipe(
        base_width=16, parametrization="mup", optimizer=optimizer, weight_decay=0.1, steps=50
    )
    models = StudyModels(replace(SPEC, recipe=recipe), "cpu")
    one, other = (models.measure(32, 0.01, 2, seed) for seed in (0, 1))
    assert list(one.traces)[:1] == ["embedding"]
    assert len(one.traces["model"].changes) == 3
    assert one.traces["embedding"].outputs != other.traces["embedding"].outputs
    hidden = next(group for name, group in one.groups.items() if "hidden.1.weight" in name)
    expected = {"adam": 0.005, "adamw": 0.005, "muon": 0.01 / 2**0.5, "sgd": 0.01}[optimizer]
    assert hidden.rate == pytest.approx(expected)
    assert hidden.is_orthogonal == (optimizer == "muon")
    # decay of ours goes with the rate of the run; that of Adam is a part of the gradient
    assert hidden.decay == pytest.approx(0.0 if optimizer == "adam" else 0.001)
