from dataclasses import replace

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, layouts
from extrap.training.layouts import choose_layout
from extrap.workloads import load_workload

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pack():
    size = {"width": 4}
    return Pack(
        workload=load_workload(Workload(name="teacher", options={"n_examples": 200})),
        size=size,
        recipe=Recipe(steps=10_000, batch_size=4),
        cells=tuple(Cell.of(size, {"lr": 0.01}, seed) for seed in range(36)),
    )


def pretend(monkeypatch, seconds):
    """Stacks take given seconds a step and run, by (threads, runs); what was asked is kept."""
    asked = []

    def step_s(pack, place, at_once):
        asked.append((torch.get_num_threads(), at_once))
        return seconds.get(asked[-1], 1.0)

    monkeypatch.setattr(layouts, "_run_step_s", step_s)
    return asked


@pytest.mark.parametrize(
    ("seconds", "chosen", "asked"),
    [
        # 8 is much dearer than 12, which ends the search
        (
            {(1, 8): 0.0019, (1, 36): 0.0013, (1, 18): 0.00121, (1, 12): 0.0012},
            (1, 12),
            [(1, 8), (1, 36), (1, 18), (1, 12)],
        ),
        # long steps are tried in small stacks first
        (
            {(1, 8): 0.02, (1, 1): 0.014, (1, 2): 0.012, (1, 4): 0.0119},
            (1, 4),
            [(1, 8), (1, 1), (1, 2), (1, 4)],
        ),
        ({(1, 8): 1e-7}, (1, 36), [(1, 8)]),  # little work is measured once
    ],
)
def test_the_quickest_stack_is_chosen(pack, monkeypatch, seconds, chosen, asked):
    measured = pretend(monkeypatch, seconds)
    found = choose_layout(pack, CPU)
    assert (found.n_threads, found.at_once) == chosen
    assert measured == asked


def test_few_large_runs_may_use_the_cores_that_no_other_pack_uses(pack, monkeypatch):
    pretend(monkeypatch, {(1, 1): 1.0, (2, 1): 0.4})
    few = replace(pack, cells=pack.cells[:1])
    assert [choose_layout(few, CPU, n_threads=n).n_threads for n in (1, 2)] == [1, 2]


def test_on_a_gpu_all_runs_share_a_stack_and_nothing_is_measured(pack, monkeypatch):
    asked = pretend(monkeypatch, {})
    assert choose_layout(pack, torch.device("cuda"), n_threads=2).at_once == 36
    assert asked == []


@pytest.mark.parametrize(("decay_by", "first"), [("batch", 5_000 + 625), ("rate", 0)])
def test_steps_are_timed_with_the_largest_batch_of_the_run(pack, monkeypatch, decay_by, first):
    starts = []

    def timed(stack, start, stop):
        starts.append(start)
        return 1.0

    monkeypatch.setattr(layouts, "_timed_steps", timed)
    recipe = replace(pack.recipe, schedule="steps", drop_factor=4, decay_by=decay_by)
    assert layouts._run_step_s(replace(pack, recipe=recipe), CPU, 2) == 0.5
    assert starts == [first, first + 1]
