import hashlib
import sys
from pathlib import Path

import pytest
import torch

from extrap.errors import DataError
from extrap.records import Workload
from extrap.workloads import load_workload

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
import torch
from torch import nn
from extrap.errors import DataError
from extrap.workloads import TensorWorkload

@dataclass
class Config:  # a dataclass looks its module up
    slope: float = 2.0

class Line(TensorWorkload):
    def __init__(self, slope: float = 2.0, n: int = 20) -> None:
        if n < 2:
            raise DataError("too few")
        x = torch.linspace(0, 1, n)[:, None]
        y = Config(slope).slope * x
        super().__init__(training=(x, y), validation=(x, y), options={"slope": slope})

    def build(self, size):
        return nn.Linear(1, 1)

    def loss(self, module, batch):
        x, y = batch
        return (module(x) - y).square().mean()

def make_line(slope: float):
    return Line(slope)

class NoLoss(Line):
    loss = TensorWorkload.loss

class Nothing:
    training = ()

number = 3
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("name", ["Line", "make_line"])
def test_a_class_or_a_function_in_a_file_is_called_with_the_options(source, name):
    workload = load_workload(Workload(name=f"{source}:{name}", options={"slope": 3.0}))
    assert workload.fingerprint["slope"] == 3.0
    assert workload.fingerprint["source_sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert not workload.has_run_axis
    rows = workload.draw_batches(1, 7, torch.Generator().manual_seed(0))[0]
    x, y = workload.examples(workload.training, rows)
    assert torch.equal(y, 3 * x)
    assert workload.n_params({}) == 2
    assert workload.loss(workload.build({}), workload.validation).dim() == 0


def test_a_relative_path_or_a_module_is_as_good(source, monkeypatch):
    monkeypatch.chdir(source.parent)
    monkeypatch.syspath_prepend(str(source.parent))
    (source.parent / "someones_package").mkdir()
    (source.parent / "someones_package" / "models.py").write_text(SOURCE)
    for name in ("mine.py:Line", "someones_package.models:Line"):
        found = load_workload(Workload(name=name)).fingerprint
        assert found["slope"] == 2.0
        assert found["source_sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()


def test_a_changed_file_is_read_anew_and_has_another_fingerprint(source):
    first = load_workload(Workload(name=f"{source}:Line"))
    source.write_text(SOURCE.replace("slope: float = 2.0, n", "slope: float = 4.0, n"))
    second = load_workload(Workload(name=f"{source}:Line"))
    assert second.fingerprint["slope"] == 4.0
    assert first.fingerprint["source_sha256"] != second.fingerprint["source_sha256"]
    with pytest.raises(DataError, match="too few"):  # its own error
        load_workload(Workload(name=f"{source}:Line", options={"n": 1}))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("{}", {}, "mine.py cannot be"),
        ("{}:", {}, "package.module:Name"),
        (":Line", {}, "package.module:Name"),
        ("{}x.py:Line", {}, r"mine\.pyx\.py"),
        ("{}:Lime", {}, "'Lime'"),
        ("{}:number", {}, "3 is not a callable"),
        ("{}:Line", {"slop": 1}, "argument 'slop'"),
        ("{}:make_line", {}, "argument: 'slope'"),
        ("{}:NoLoss", {}, "NoLoss without loss"),
        ("{}:Nothing", {}, "build, draw_batches, examples"),
        ("no_such_package.x:Line", {}, "ModuleNotFoundError"),
        ("import a_missing_library", {}, "mine.py.*'a_missing_library'"),
        ("def (", {}, "mine.py.*SyntaxError"),
    ],
)
def test_what_is_no_workload_is_refused(source, name, options, message):
    if ":" not in name and "{" not in name:
        source.write_text(name)
        name = "{}:Line"
    before = set(sys.modules)
    with pytest.raises(ValueError, match=message):
        load_workload(Workload(name=name.format(source), options=options))
    assert not {name for name in set(sys.modules) - before if "mine" in name}


def test_the_example_in_the_studies_is_a_workload_that_learns():
    path = Path(__file__).parents[2] / "studies" / "own_model_workload.py"
    workload = load_workload(Workload(name=f"{path}:Digits", options={"noise": 0.0}))
    torch.manual_seed(0)
    module = workload.build({"width": 8})
    parameters = list(module.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.03)
    generator = torch.Generator().manual_seed(0)
    start = workload.loss(module, workload.validation).item()
    for _ in range(60):
        batch = workload.examples(workload.training, workload.draw_batches(1, 64, generator)[0])
        optimizer.zero_grad()
        workload.loss(module, batch).backward()
        optimizer.step()
    assert start == pytest.approx(2.3, abs=0.3)  # log 10
    assert workload.loss(module, workload.validation).item() < 0.7
