import json
import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

import extrap
from extrap.analyses.coordinates.page import coordinate_blocks
from extrap.errors import DataError
from extrap.records import Recipe
from extrap.records.codec import document
from tests.study import trials

WIDTHS = (16, 32, 64, 128)
DRAW = torch.Generator().manual_seed(0)
BATCH = torch.randn(16, 12, generator=DRAW), torch.randint(0, 8, (16,), generator=DRAW)
TOKENS = torch.randint(0, 12, (8, 9), generator=DRAW)
SPEC = replace(
    trials.SPEC,
    sizes={"width": WIDTHS},
    tune=trials.rates(2**-9, 2**-7, 3),
    recipe=Recipe(base_width=16),
    seeds=(0, 1, 2),
)


class MLP(nn.Module):
    """Under muP for Adam from width 16 on, unless its arguments say otherwise."""

    def __init__(self, width, *, multiplier=1.0, init=0.0):
        super().__init__()
        self.first = nn.Linear(12, width, bias=False)
        self.hidden = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, 8, bias=False)
        self.factor = (width / 16) ** -multiplier
        with torch.no_grad():
            self.hidden.weight *= (width / 16) ** init
            self.readout.weight *= (width / 16) ** 0.5

    def forward(self, x):
        return self.readout(self.norm(self.hidden(self.first(x).relu())).relu() * self.factor)


class Attention(nn.Module):
    """One layer with two heads, whose scores are divided by a power of their size."""

    def __init__(self, width, *, power, tied=1.0):
        super().__init__()
        self.table = nn.Embedding(12, width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.scale, self.factor = (width / 2) ** -power, (width / 16) ** -tied / 4

    def forward(self, x):
        h = functional.layer_norm(self.table(x), (self.table.weight.shape[1],))
        parts = (
            f(h).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True, scale=self.scale)
        h = h + seen.transpose(1, 2).flatten(2)
        return functional.linear(h * self.factor, self.table.weight)


def adam(kind=torch.optim.Adam, **powers):
    """Adam with rates that go as powers of the width; that of matrices as -1."""

    def make(model, lr):
        groups = []
        for name, p in model.named_parameters():
            power = powers.get(
                name.split(".")[0], -1.0 if p.dim() > 1 and p.shape[0] == p.shape[1] else 0.0
            )
            rate = lr * (model.first.weight.shape[0] / 16) ** power
            groups.append({"params": [p], "lr": rate})
        return kind(groups, lr=lr, **({"weight_decay": 0.1} if "decay" in powers else {}))

    return make


def check(model=MLP, make_optimizer=None, widths=WIDTHS, batch=BATCH, **options):
    made = adam() if make_optimizer is None else make_optimizer
    options = {"make_optimizer": made, "steps": 2, **options}
    return extrap.coordinate_check(model, widths, batch, **options)


def test_a_correct_model_is_stable_at_every_layer():
    checked = check()
    assert checked.is_flat
    assert [layer.name for layer in checked.coordinates] == [
        "first",
        "hidden",
        "norm",
        "readout",
        "model",
    ]
    assert {layer.verdict for layer in checked.coordinates} == {"stable"}
    assert (checked.first, checked.cause, checked.coupled_decay) == (None, "", ())
    answer, table = coordinate_blocks(checked)
    assert answer.color == "good"
    assert [row[-1] for row in table.rows] == ["stable"] * 5


@pytest.mark.parametrize(
    ("model", "optimizer", "first", "cause"),
    [
        (MLP, adam(hidden=0.0), "hidden", r"not scaled.*width\^0\.00, width\^−[01]\.\d\d would"),
        (MLP, adam(hidden=-2.0), "hidden", r"scaled twice.*width\^−2\.00, width\^−[01]\.\d"),
        (MLP, adam(first=-1.0), "first", "scaled twice, or too much"),
        (MLP, adam(norm=-1.0), "norm", "of a gain or bias is scaled"),
        (
            lambda width: MLP(width, multiplier=0.0),
            None,
            "readout",
            r"neither a multiplier.*width\^0\.00, width\^−[01]\.\d",
        ),
        (lambda width: MLP(width, init=0.5), None, "hidden", r"not rescaled.*width\^0\.[45]"),
    ],
    ids=["not scaled", "twice", "input", "gain", "readout", "init"],
)
def test_the_first_layer_that_breaks_is_named_with_its_cause(model, optimizer, first, cause):
    checked = check(model, optimizer)
    assert checked.is_flat is False
    assert checked.first == first

    assert re.search(cause, checked.cause), checked.cause


def test_an_embedding_whose_rate_falls_vanishes():
    def model(width):
        return nn.Sequential(nn.Embedding(12, width), nn.Linear(width, 12))

    def optimizer(model, lr):
        table, *others = model.parameters()
        falling = {"params": [table], "lr": lr * 16 / table.shape[1]}
        return torch.optim.Adam([falling, {"params": others, "lr": 0.0}], lr=lr)

    checked = check(model, optimizer, batch=(TOKENS, TOKENS))
    assert (checked.first, checked.coordinates[0].verdict) == ("0", "vanishes")
    assert checked.coordinates[0].exponent == pytest.approx(-1, abs=0.02)
    assert "rate of the embedding" in checked.cause


def no_rates(model, lr):
    return torch.optim.SGD(model.parameters(), lr=1e-6 * lr)


@pytest.mark.parametrize(("power", "first"), [(1.0, None), (0.5, "model.scores")])
def test_scores_must_be_divided_by_the_size_of_a_head(power, first):
    checked = check(lambda width: Attention(width, power=power), no_rates, batch=(TOKENS, TOKENS))
    scores = next(layer for layer in checked.coordinates if layer.name.endswith("scores"))
    assert scores.output_slope.value == pytest.approx(1 - power, abs=0.1)
    assert checked.first == first
    assert ("square root" in checked.cause) == (first is not None)


def test_tied_embeddings_need_a_multiplier():
    def optimizer(model, lr):
        return torch.optim.Adam(model.table.parameters(), lr=lr)

    checked = check(
        lambda width: Attention(width, power=1.0, tied=0.0), optimizer, batch=(TOKENS, TOKENS)
    )
    assert checked.first == "table (use 2)"
    assert "tied" in checked.cause


def test_weight_decay_that_goes_with_a_rate_is_read_from_the_groups():
    checked = check(make_optimizer=adam(torch.optim.AdamW, decay=True))
    assert checked.coupled_decay == ("hidden.weight",)
    assert (checked.first, checked.is_flat) == ("hidden.weight", False)
    assert "weight decay" in checked.cause
    assert {layer.verdict for layer in checked.coordinates} == {"stable"}
    assert check(make_optimizer=adam(torch.optim.AdamW)).is_flat is False  # its default is .01


def test_muon_with_the_factor_of_adam_vanishes():
    def muon(power):
        def make(model, lr):
            factor = (model.first.weight.shape[0] / 16) ** power
            others = [p for p in model.parameters() if p is not model.hidden.weight]
            matrix = torch.optim.Muon(
                [model.hidden.weight],
                lr * factor,
                weight_decay=0.0,
                adjust_lr_fn="match_rms_adamw",
            )
            return [matrix, torch.optim.Adam(others, lr)]

        return make

    assert check(make_optimizer=muon(-0.5)).is_flat
    checked = check(make_optimizer=muon(-1.0))
    assert checked.first == "hidden"
    assert "Muon" in checked.cause


def test_layers_and_optimizers_of_the_package_mup_are_read_as_they_are(mup):

    def made(width):
        return nn.Sequential(
            nn.Linear(12, width), nn.ReLU(), nn.Linear(width, width), mup.MuReadout(width, 8)
        )

    def model(width):
        return mup.set_base_shapes(made(width), made(16), delta=made(32))

    def mu_adam(model, lr):
        return mup.MuAdam(model.parameters(), lr=lr)

    checked = check(model, mu_adam)
    assert checked.is_flat
    table = pytest.importorskip("mup.coord_check").get_coord_data(
        {width: lambda width=width: (torch.manual_seed(0), model(width))[1] for width in WIDTHS},
        [BATCH],
        optimizer="adam",
        lr=1e-3,
        nsteps=3,
        output_fdict={"l2": "l2"},
        cuda=False,
        show_progress=False,
    )
    hidden = table[table["module"] == "2"].sort_values(["t", "width"])["l2"].to_numpy()
    ours = [row[0] for rows in checked.coordinates[2].outputs for row in rows]
    assert ours == pytest.approx(hidden.tolist(), rel=1e-5)
    broken = check(model, lambda m, lr: torch.optim.Adam(m.parameters(), lr=lr))
    assert (broken.first, broken.is_flat) == ("2", False)


class Experts(nn.Module):
    """Each example goes to one of four layers; there are more layers at some widths."""

    def __init__(self, width):
        super().__init__()
        self.first, self.router = nn.Linear(12, width), nn.Linear(width, 4)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.more = nn.ModuleList(nn.Linear(width, width) for _ in range(128 // width))
        self.readout = nn.Linear(width, 8)

    def forward(self, x):
        h = self.first(x)
        shares, out = self.router(h).softmax(-1), torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            chosen = shares.argmax(-1) == i
            if chosen.any():
                out[chosen] = expert(h[chosen]) * shares[chosen, i : i + 1]
        for layer in self.more:
            out = out + layer(out)
        return self.readout(out)


def test_layers_are_those_of_every_width_and_pass():
    draw = torch.Generator().manual_seed(1)
    batch = torch.randn(64, 12, generator=draw), torch.randint(0, 8, (64,), generator=draw)

    def optimizer(model, lr):
        return torch.optim.Adam(model.parameters(), lr)

    checked = check(Experts, optimizer, batch=batch, lr=0.02)
    names = [layer.name for layer in checked.coordinates]
    assert {"first", "router", "more.0", "readout", "model"} <= set(names)
    assert "more.1" not in names
    assert "diverged" not in {layer.verdict for layer in checked.coordinates}
    assert "diverges" not in checked.cause


def test_without_a_change_there_is_no_verdict():
    checked = check(lr=0.0)
    assert checked.is_flat is None
    answer, _ = coordinate_blocks(checked)
    assert (answer.text.partition(":")[0], answer.color) == (
        "No verdict, as nothing moves",
        "warn",
    )


def test_fewer_than_four_widths_have_no_verdict():
    checked = check(make_optimizer=adam(hidden=0.0), widths=WIDTHS[:3])
    assert checked.is_flat is None
    assert {layer.verdict for layer in checked.coordinates} == {None}
    assert coordinate_blocks(checked)[0].color == "warn"


def test_the_document_has_every_number():
    written = json.loads(json.dumps(document(check(seeds=(0, 1))), allow_nan=False))
    assert (written["schema_version"], written["is_flat"], written["transfer"]) == (2, True, None)
    layer = written["coordinates"][1]
    shapes = [(len(rows), len(rows[0])) for rows in (*layer["outputs"], *layer["changes"])] + [
        (len(layer["updates"]), len(layer["updates"][0]))
    ]
    assert (len(layer["outputs"]), len(layer["changes"])) == (3, 2)
    assert set(shapes) == {(4, 2)}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"widths": (16,)}, ValueError, "at least two widths, got 16"),
        ({"widths": (0, 16)}, ValueError, "at least 1"),
        ({"widths": ()}, ValueError, "at least 1"),
        ({"lr": -1.0}, ValueError, "lr must be at least 0"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"tune": 0}, ValueError, "tune must be at least 1"),
        ({"seeds": ()}, ValueError, "seeds must have at least one"),
        ({"model": lambda _: MLP(16)}, DataError, "same shapes at every width"),
        ({"lr": 1e30, "steps": 3}, DataError, "finite"),
    ],
)
def test_what_cannot_be_checked_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        check(**options)


def study(lr=2**-9, **recipe):
    return extrap.coordinate_check(replace(SPEC, recipe=replace(SPEC.recipe, **recipe)), lr=lr)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_study_under_mup_is_stable(optimizer):
    checked = study(parametrization="mup", optimizer=optimizer)
    assert checked.is_flat
    names = [layer.name for layer in checked.coordinates]
    assert (names[0], names[-2:], len(names)) == ("embedding", ["mlp.output", "model"], 6)
    _, table = coordinate_blocks(checked)
    assert table.note.startswith("mup rule, ")


def test_a_study_under_the_standard_rule_breaks_and_is_told_of_mup():
    checked = study()
    assert checked.first in ("mlp.hidden.1", "mlp.hidden.2", "mlp.output")
    assert checked.coordinates[-1].change_slope.value > 0.5
    assert "parametrization=mup" in coordinate_blocks(checked)[0].text


def test_a_study_that_diverges_says_so():
    checked = study(lr=1e30, optimizer="sgd")
    assert "diverged" in {layer.verdict for layer in checked.coordinates}
    assert "smaller" in checked.cause
    assert None in {
        layer["change_slope"]["value"]
        for layer in json.loads(json.dumps(document(checked), allow_nan=False))["coordinates"]
    }


def test_a_study_without_widths_is_refused_and_at_a_rate_of_0_nothing_moves():
    with pytest.raises(ValueError, match="column 'width'"):
        extrap.coordinate_check(replace(SPEC, sizes={"depth": (1, 2)}))
    assert {layer.verdict for layer in study(lr=0.0).coordinates} == {"still"}
