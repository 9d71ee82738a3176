"""`extrap coord-check`: of a file with models and of a study, exit codes, JSON, bad input."""

import json

import pytest

MODELS = """
import torch
from torch import nn

draw = torch.Generator().manual_seed(0)
INPUTS = torch.randn(16, 8, generator=draw)
CLASSES = torch.randint(0, 4, (16,), generator=draw)


def batch(step):
    return INPUTS, CLASSES


def make_model(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))


def no_width():
    return nn.Linear(8, 4)


def fails(width):
    raise OSError("no\\nmemory")


class Text(nn.Module):
    def forward(self, x):
        return "text"


def without_tensor(width):
    model = Text()
    model.weight = nn.Parameter(torch.ones(width))
    return model


def make_optimizer(model, lr):
    first, readout = model[0].parameters(), model[2].parameters()
    falling = {"params": readout, "lr": lr * 16 / model[0].weight.shape[0]}
    return torch.optim.Adam([{"params": first}, falling], lr=lr)


def one_rate(model, lr):
    return torch.optim.Adam(model.parameters(), lr=lr)
"""
FOUR = ("--width", "16,32,64,128")


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    (tmp_path / "bare.py").write_text("def make_model(width): ...", encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code", "first"),
    [
        (FOUR, 0, None),
        ((*FOUR, "--optimizer", "one_rate"), 1, "2"),
        (("--width", "16", "--width", "32", "--width", "64"), 4, None),
    ],
)
def test_exit_code_tells_whether_a_layer_breaks(called, models, options, code, first):
    words = ("coord-check", "models.py:make_model", *options, "--steps", "2", "--json")
    returned, out, err = called(*words)
    assert (returned, err) == (code, "")
    written = json.loads(out)
    assert written["first"] == first
    assert written["steps"] == 2


def test_the_best_rate_is_tuned_beside(called, models):
    words = ("coord-check", "models.py:make_model", "--width", "16,32", "--tune", "4", "--json")
    code, out, _ = called(*words)
    transfer = json.loads(out)["transfer"]
    assert code == 4
    assert (transfer["widths"], transfer["steps"]) == ([16, 32], 4)
    assert len(transfer["slope"]["ci"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("models.py:make_model", "--width", "16,wide"), "--width takes whole numbers"),
        (("models.py:make_model", "--width", "16"), "at least two widths, got 16"),
        (("models.py:make_model",), "at least 1"),
        (("models.py:other", *FOUR), "needs 'other' in its file"),
        (("models.py:make_model", *FOUR, "--optimizer", "other"), "needs 'other' in its file"),
        (("bare.py:make_model", *FOUR), "needs 'batch' in its file"),
        (("missing.py:make_model", *FOUR), "missing.py"),
        (("models.py:no_width", *FOUR), "function of its width"),
        (("models.py:fails", *FOUR), "width 16 cannot be made: OSError: no"),
        (("models.py:without_tensor", *FOUR, "--optimizer", "one_rate"), "as tensors"),
        (("models.py:make_model", *FOUR, "--lr", "1e30"), "loss must be finite"),
        (
            ("models.py:make_model", *FOUR, "--set", "recipe.steps=3"),
            "models.py:make_model is a model",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_2(called, models, words, message):
    code, out, err = called("coord-check", *words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err
