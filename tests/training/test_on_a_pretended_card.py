"""Training on the pretended CUDA device: kernels, waits, memory, and faults known of each."""

import gc
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
import torch

from extrap.records import Cell, Recipe
from extrap.study import tune
from extrap.training import Pack, layouts, train
from extrap.training.graphs import WARM_UP, RecordedSteps
from extrap.training.layouts import Layout
from extrap.training.stacks import Stack
from tests.pretended_cuda import begin_process
from tests.study.trials import CUT

pytestmark = pytest.mark.pretended

CARD = torch.device("cuda", 0)
KERNELS = 54  # of one step of Adam, for any number of small runs


def pack_of(workload, n_runs, **recipe):
    size, rates = {"width": 16}, (2**-9, 2**-8, 2**-7)
    cells = [Cell.of(size, {"lr": rates[i % 3]}, seed=i // 3) for i in range(n_runs)]
    settings = {"batch_size": 8, "optimizer": "adam", "steps": 12, "n_evals": 2, **recipe}
    return Pack(workload=workload, size=size, recipe=Recipe(**settings), cells=tuple(cells))


def losses(results):
    assert {result.status for result in results} == {"complete"}
    return [result.loss for result in results]


@pytest.fixture
def replay_clock(monkeypatch, card):
    """A replay takes a tenth of a second, whatever it does: larger stacks are cheaper."""
    clock = SimpleNamespace(perf_counter=lambda: 0.1 * card.replays)
    monkeypatch.setattr(layouts, "time", clock)


def test_recorded_steps_take_every_input_once(card):
    steps = RecordedSteps([torch.zeros(1, 2, device="cuda")], capacity=4, rows=[None])
    total = torch.zeros(2, device="cuda")

    def plain(given):
        total.add_(given)
        return 10 * total

    def measured(given):
        return torch.stack([plain(given), -given])

    before = np.zeros(2)
    for n_steps in (1, 4, 3, 4):
        given = np.arange(2.0 * n_steps).reshape(n_steps, 2)
        steps.put([torch.tensor(given, device="cuda", dtype=torch.float32)])
        for i in range(n_steps):
            if i % 2:
                assert steps.do("measured", measured)[1].tolist() == (-given[i]).tolist()
            else:
                steps.do("plain", plain)
        expected = before + np.cumsum(given, axis=0)
        assert steps.losses(n_steps).tolist() == (10 * expected).tolist()
        before = expected[-1]
    assert (card.captures, card.replays) == (2, 12 - 2 * WARM_UP)


@pytest.mark.parametrize(
    ("name", "recipe", "run_axis"),
    [
        ("bytes-mlp", {"noise_every": 2, "clip": 1.0}, True),
        ("bytes-mlp", {"optimizer": "adam"}, True),
        ("bytes-mlp", {"optimizer": "sgd", "weight_decay": 0.1}, True),
        ("bytes-transformer", {"optimizer": "muon"}, True),
        ("bytes-transformer", {"optimizer": "adamw"}, False),
        *((name, {}, None) for name in ("digits", "images", "teacher")),
    ],
)
def test_every_workload_trains_as_on_a_cpu(tiny, name, recipe, run_axis):
    pack = pack_of(tiny(name), 3, **recipe)
    ours = Stack(pack, CARD, run_axis=run_axis)
    expected = Stack(pack, torch.device("cpu"), run_axis=run_axis)
    for stack in (ours, expected):
        assert stack.advance(0, 5) == [None] * 3
        stack.keep([0, 2])
        assert stack.advance(5, 10) == [None] * 2
    assert ours.evaluate() == pytest.approx(expected.evaluate(), rel=1e-4)
    if "noise_every" in recipe:
        found, known = (np.array(stack.gradient_moments()) for stack in (ours, expected))
        assert found == pytest.approx(known, rel=1e-3)


@pytest.mark.usefixtures("replay_clock")
def test_a_pack_that_does_not_fit_is_trained_in_parts(tiny, card, device):
    workload = tiny("bytes-mlp")
    nine = Layout(n_threads=1, at_once=9)
    gc.collect()
    card.reset()
    before = card.allocated
    train(pack_of(workload, 9), device=device, layout=nine)
    room = card.peak - before
    gc.collect()
    pack = pack_of(workload, 16)
    expected = losses(train(pack, device="cpu"))
    card.limit = card.allocated + room
    assert losses(train(pack, device=device)) == pytest.approx(expected, rel=1e-3)


def test_steps_take_the_known_kernels_wait_for_nothing_and_leave_no_memory(tiny, card):
    gc.collect()
    gc.disable()
    before = card.allocated
    for n_runs in (1, 36):
        card.reset()
        stack = Stack(pack_of(tiny("bytes-mlp"), n_runs), CARD)
        stack.advance(0, 6)
        assert (card.captures, card.recorded.total()) == (1, KERNELS), card.recorded
        waits = []
        for start, stop in ((6, 7), (7, 12)):
            card.reset()
            stack.advance(start, stop)
            assert card.replays == stop - start
            waits.append(card.syncs.total())
        assert waits == [3, 3]  # rates, rows of the batches, losses
        del stack
        assert card.allocated == before
    gc.enable()


STUDY = replace(CUT, name="card", growth=0)


def test_a_study_on_two_cards_that_is_killed_goes_on_though_memory_is_short(tmp_path):
    """Each card has a process of its own, and memory for three runs of a pack."""

    def kill(event):
        if event.is_finished:
            raise KeyboardInterrupt

    url = f"sqlite:///{tmp_path}/card.db"
    cards = partial(ProcessPoolExecutor, 2, get_context("spawn"), begin_process)
    with cards() as executor, pytest.raises(KeyboardInterrupt):
        tune(STUDY, url, executor=executor, notify=kill)
    before = len(optuna.load_study(study_name="card/width=4", storage=url).trials)
    with cards() as executor:
        found = tune(STUDY, url, executor=executor).to_frame()
    expected = tune(STUDY, f"sqlite:///{tmp_path}/cpu.db", device="cpu").to_frame()
    cells = ["width", "lr", "seed"]
    assert 0 < before < 16
    assert len(found) == len(expected) == len(found[cells].drop_duplicates()) == 16
    both = found.merge(expected, on=cells)
    assert both["loss_x"].tolist() == pytest.approx(both["loss_y"].tolist(), rel=1e-3)
