from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.training import Layout, Pack, layouts
from extrap.training.layouts import choose_layout
from extrap.workloads import load_workload

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pack() -> Pack:
    size = {"width": 4}
    return Pack(
        workload=load_workload(Workload(name="teacher", options={"n_examples": 200})),
        size=size,
        recipe=Recipe(steps=10_000, batch_size=4),
        cells=tuple(Cell.of(size, {"lr": 0.01}, seed) for seed in range(36)),
    )


def pretend(monkeypatch: pytest.MonkeyPatch, seconds: Mapping[tuple[int, int], float]) -> list:
    """Stacks take given seconds a step and run, by (threads, runs); what was asked is kept."""
    asked: list[tuple[int, int]] = []

    def step_s(pack: Pack, place: torch.device, at_once: int) -> float:
        asked.append((torch.get_num_threads(), at_once))
        return seconds.get(asked[-1], 1.0)

    monkeypatch.setattr(layouts, "_run_step_s", step_s)
    monkeypatch.setattr(layouts, "n_cores", lambda: 2)
    return asked


def test_the_quickest_stack_is_chosen(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {(1, 8): 0.0019, (1, 18): 0.00121, (1, 9): 0.00122, (1, 6): 0.0012}
    asked = pretend(monkeypatch, seconds)
    chosen = choose_layout(pack, CPU, n_processes=2)
    assert (chosen.n_processes, chosen.n_threads, chosen.at_once) == (2, 1, 6)
    assert chosen.step_s == pytest.approx(0.0006)
    assert asked[-1] == (1, 4)  # much dearer, which ends the search


def test_long_steps_are_tried_in_small_stacks_first(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {(1, 8): 0.02, (1, 1): 0.014, (1, 2): 0.012, (1, 4): 0.0119}
    asked = pretend(monkeypatch, seconds)
    assert choose_layout(pack, CPU, n_processes=2).at_once == 4
    assert asked == [(1, 8), (1, 1), (1, 2), (1, 4)]


def test_stacks_share_the_runs_out_evenly(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pretend(monkeypatch, {(1, n): 0.001 for n in range(1, 37)})
    choose_layout(pack, CPU, n_processes=2)
    assert {at_once for _, at_once in asked} <= {1, 2, 4, 6, 8, 9, 18}
    assert {9, 18} <= {at_once for _, at_once in asked}


def test_few_large_runs_may_use_all_threads(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {(1, 1): 1.0, (2, 1): 0.4})
    few = replace(pack, cells=pack.cells[:1])
    chosen = choose_layout(few, CPU, n_processes=2)
    assert (chosen.n_processes, chosen.n_threads, chosen.at_once) == (1, 2, 1)


def test_an_odd_run_out_counts(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs on two processes take as long as four."""
    pretend(monkeypatch, {(1, 1): 1.0, (1, 2): 1.0, (1, 3): 1.0, (2, 1): 0.6, (2, 3): 0.6})
    three = replace(pack, cells=pack.cells[:3])
    assert choose_layout(three, CPU, n_processes=2).n_processes == 1


def test_little_work_is_measured_once(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pretend(monkeypatch, {(1, 8): 1e-7})
    chosen = choose_layout(pack, CPU, n_processes=2)
    assert asked == [(1, 8)]
    assert (chosen.n_processes, chosen.at_once) == (1, 36)


def test_threads_are_as_they_were_afterwards(pack: Pack) -> None:
    before = torch.get_num_threads()
    choose_layout(replace(pack, cells=pack.cells[:2]), CPU, n_processes=1)
    assert torch.get_num_threads() == before


def test_a_layout_reads_as_a_clause() -> None:
    assert str(Layout(n_processes=1, n_threads=2, at_once=4)) == (
        "1 process × 2 threads, stacks of 4"
    )
    assert str(Layout(n_processes=2, n_threads=1, at_once=9, step_s=1.2e-4)) == (
        "2 processes × 1 thread, stacks of 9, 0.12 ms a step and run"
    )


@pytest.mark.parametrize(("decay_by", "first"), [("batch", 5_000 + 625), ("rate", 0)])
def test_steps_are_timed_with_the_largest_batch_of_the_run(
    pack: Pack, monkeypatch: pytest.MonkeyPatch, decay_by: str, first: int
) -> None:
    starts: list[int] = []

    def timed(stack: object, start: int, stop: int) -> float:
        starts.append(start)
        return 1.0

    monkeypatch.setattr(layouts, "_timed_steps", timed)
    recipe = replace(pack.recipe, schedule="steps", drop_factor=4, decay_by=decay_by)
    assert layouts._run_step_s(replace(pack, recipe=recipe), CPU, 2) == 0.5
    assert starts == [first, first + 1]
