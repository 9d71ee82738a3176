import math
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from extrap.errors import DataError
from extrap.training.layer_traces import Recorder

X = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))


def rms(tensor):
    return tensor.square().mean().sqrt().item()


def recorded(model, x=X, change=None, orthogonal=()):
    """The traces of a model before and after its parameters are changed."""
    recorder = Recorder(model, orthogonal, seed=0)
    recorder.record(lambda: model(x))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += torch.zeros(()) if change is None else change(name, parameter)
    recorder.record(lambda: model(x))
    return recorder.traces


def a_tenth(name, parameter):
    return 0.1 * torch.ones_like(parameter)


class Written(nn.Module):
    """What a test hands it, as a forward pass."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, x):
        return self._forward(self, x)


def test_buffers_that_a_pass_replaces_are_as_before():
    def forward(model, x):
        model.count = model.count + 1
        return model.layer(x)

    model = Written(forward, layer=nn.Linear(5, 4))
    model.register_buffer("count", torch.zeros(()))
    recorded(model)
    assert model.count == 0


def test_a_function_with_dropout_drops_the_same_when_it_is_computed_again():
    model = Written(
        lambda m, x: m.attention(x, x, x)[0],
        attention=nn.MultiheadAttention(6, 2, dropout=0.5, batch_first=True),
    )
    x = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0))
    trace = recorded(model, x)["attention.in_proj_weight"]
    assert trace.outputs[0] > 0.01
    assert [*trace.updates, *trace.changes] == pytest.approx([0.0] * 4, abs=1e-6)


def test_outputs_changes_and_updates_are_those_of_the_formula():
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    weights = [p.detach().clone() for p in model.parameters()]
    traces = recorded(model, change=a_tenth)
    assert list(traces) == ["0", "1", "2", "model"]
    hidden = torch.tanh(X @ weights[0].T + weights[1])
    now = torch.tanh(X @ (weights[0] + 0.1).T + weights[1] + 0.1)
    out, out_now = (
        hidden @ weights[2].T + weights[3],
        now @ (weights[2] + 0.1).T + weights[3] + 0.1,
    )
    last = traces["2"]
    assert last.outputs == pytest.approx([rms(out), rms(out_now)], rel=1e-5)
    assert last.changes == pytest.approx([0, rms(out_now - out)], rel=1e-5)
    # of the matrix alone: a bias moves as far at every width
    assert last.updates == pytest.approx([0, rms(now @ torch.full((4, 3), 0.1))], rel=1e-5)
    assert traces["1"].updates == []
    assert traces["model"].changes == last.changes


def test_an_update_is_aligned_with_what_it_was_made_of_and_not_with_chance():
    n = 512
    x = torch.randn(1, n, generator=torch.Generator().manual_seed(1))
    draw = torch.Generator().manual_seed(2)

    def aligned(name, parameter):
        return torch.ones(n, 1) @ x.sign() / n

    def by_chance(name, parameter):
        return torch.randn(n, n, generator=draw) / n

    made_of = recorded(nn.Linear(n, n, bias=False), x, aligned)["model"]
    assert made_of.aligned[1] == pytest.approx(made_of.updates[1], rel=0.01)
    other = recorded(nn.Linear(n, n, bias=False), x, by_chance)["model"]
    assert other.aligned[1] < 0.4 * other.updates[1]
    by_muon = recorded(nn.Linear(n, n, bias=False), x, by_chance, orthogonal={"weight"})["model"]
    assert by_muon.aligned == by_muon.updates


@pytest.mark.parametrize(
    ("forward", "names"),
    [
        (lambda m, x: m.lin(m.lin(x)), ["lin", "lin (use 2)", "model"]),
        (lambda m, x: functional.linear(m.lin(x), m.lin.weight), ["lin", "lin (use 2)", "model"]),
        (lambda m, x: m.lin(x) @ m.table.T + m.shift, ["lin", "table", "shift", "model"]),
        (lambda m, x: {"a": (m.lin(x), None), "b": 3}, ["lin", "model"]),
    ],
    ids=["called twice", "tied", "parameters of the whole", "nested outputs"],
)
def test_layers_are_named_by_what_computes(forward, names):
    model = Written(
        forward,
        lin=nn.Linear(5, 5),
        table=nn.Parameter(torch.ones(3, 5)),
        shift=nn.Parameter(torch.ones(3)),
    )
    traces = recorded(model, change=a_tenth)
    assert list(traces) == names
    updated = [traces[name].updates[-1] for name in names[:-1]]
    assert all(update > 0 for update in updated)


def test_an_update_is_seen_through_a_transpose_and_a_multiple():
    model = Written(lambda m, x: x @ (2 * m.table.T), table=nn.Parameter(torch.ones(3, 5)))
    assert recorded(model, change=a_tenth)["model"].updates[1] == pytest.approx(
        rms(X @ torch.full((5, 3), 0.2)), rel=1e-5
    )


def test_what_is_computed_in_place_is_not_computed_again():
    model = Written(lambda m, x: m.lin(x).add_(m.shift), lin=nn.Linear(5, 5), shift=None)
    model.shift = nn.Parameter(torch.ones(5))
    output = model(X)
    traces = recorded(model)
    assert traces["model"].outputs[0] == pytest.approx(rms(output), rel=1e-6)


@pytest.mark.parametrize("is_fused", [True, False])
def test_scores_of_an_attention_are_those_before_the_softmax(is_fused):
    q, k, v = torch.randn(3, 2, 6, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(6, 6).tril().log()

    def attend(m, x):
        if is_fused:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / 16)
        return ((q @ k.mT) / 16 + mask).softmax(-1) @ v

    scores = (q @ k.mT) / 16
    trace = recorded(Written(attend))["model.scores"]
    assert trace.head_size == 16
    seen = scores if is_fused else torch.where(mask == 0, scores, 0.0)
    assert trace.outputs[0] == pytest.approx(rms(seen), rel=1e-5)


def test_a_query_group_shares_its_key():
    q = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(0))
    k = q[:, :2]
    model = Written(lambda m, x: functional.scaled_dot_product_attention(q, k, k, enable_gqa=True))
    scores = q @ k.repeat_interleave(2, 1).mT / math.sqrt(8)
    assert recorded(model)["model.scores"].outputs[0] == pytest.approx(rms(scores), rel=1e-5)


def test_a_model_without_tensors_is_refused():
    with pytest.raises(DataError, match="as tensors"):
        recorded(Written(lambda m, x: "text"))


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_modes_buffers_and_random_states_are_as_before(fails):
    def forward(m, x):
        random.random()
        np.random.rand()  # noqa: NPY002
        y = m.drop(m.norm(x))
        if fails:
            raise RuntimeError("no")
        return y

    model = Written(forward, norm=nn.BatchNorm1d(5), drop=nn.Dropout(0.5)).train()
    model.drop.eval()
    torch.rand(3)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    recorder = Recorder(model, (), seed=0)
    if fails:
        with pytest.raises(RuntimeError, match="no"):
            recorder.record(lambda: model(X))
    else:
        recorder.record(lambda: model(X))
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert after == states
    assert (model.training, model.drop.training) == (True, False)
    assert model.norm.running_mean.tolist() == [0] * 5
    assert int(model.norm.num_batches_tracked) == 0
    hooks = [h for m in model.modules() for h in (m._forward_hooks, m._forward_pre_hooks) if h]
    assert hooks == []


def test_passes_of_a_model_with_dropout_differ_by_its_parameters_alone():
    traces = recorded(nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5)).train())
    assert traces["model"].changes == [0, 0]
