"""What a pack is and how it is laid out: layouts, memory, schedules, denormals."""

import math
from dataclasses import replace

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.records.schedules import multiplier
from extrap.training import Pack, layouts, memory, train
from extrap.training.layouts import choose_layout, without_denormals
from extrap.training.memory import most_runs
from extrap.workloads import load_workload
from tests.study_workloads import TEACHER

CPU = torch.device("cpu")


def pack_of(workload, *tuned, size=None, **recipe):
    size = size or {"width": 4}
    cells = tuple(Cell.of(size, values, seed) for seed, values in enumerate(tuned))
    made = Recipe(**{"steps": 10, "batch_size": 4, **recipe})
    return Pack(workload=workload, size=size, recipe=made, cells=cells)


@pytest.fixture(scope="module")
def teacher():
    return load_workload(Workload(name=TEACHER, options={"n_examples": 200}))


def test_tokens_set_the_steps_and_are_no_size_of_the_model(teacher):
    pack = pack_of(teacher, {"lr": 0.1, "batch_size": 4}, size={"width": 4, "tokens": 400})
    assert pack.recipes()[0].steps == 100
    assert pack.model_size() == {"width": 4}


@pytest.mark.parametrize(
    ("tuned", "message"),
    [
        ([], "at least one cell"),
        ([{"beta1": 0.9}], "a learning rate"),
        ([{"lr": 0.1, "dropout": 0.1}], "dropout"),
        ([{"lr": 0.1, "warmup": 1.5}], "warmup"),
        ([{"lr": 0.1, "batch_size": 4}, {"lr": 0.1, "batch_size": 8}], "same batch size"),
    ],
)
def test_a_pack_that_cannot_be_trained_is_refused(teacher, tuned, message):
    with pytest.raises(ValueError, match=message):
        pack_of(teacher, *tuned)
    with pytest.raises(ValueError, match="same size"):
        replace(pack_of(teacher, {"lr": 0.1}), size={"width": 8})


# Layouts


@pytest.fixture(scope="module")
def pack(teacher):
    return pack_of(teacher, *36 * [{"lr": 0.01}], steps=10_000)


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


# Memory


def test_a_pack_takes_no_more_than_its_share_of_what_is_free(tiny, monkeypatch):
    workload = tiny("bytes-mlp")
    pack = pack_of(workload, *40 * [{"lr": 0.01}])
    one = memory.run_bytes(pack)
    for free, expected in ((20.5 * one, 18), (0, 1), (1e12, 40)):
        monkeypatch.setattr(memory, "_free_bytes", lambda place, free=free: int(free))
        assert most_runs(pack, CPU) == expected
    assert most_runs(pack_of(workload, *200 * [{"lr": 0.01}]), CPU) == 128


@pytest.mark.parametrize(
    ("limit", "left"), [("1000", 1000 - 700 + 200), ("600", 100), ("100", 0), ("max", math.inf)]
)
def test_a_container_may_take_less_than_the_machine_has(limit, left, tmp_path, monkeypatch):
    (tmp_path / "own").write_text("0::/job\n")
    (tmp_path / "job").mkdir()
    told = {"max": limit, "current": "700", "stat": "anon 500\ninactive_file 200"}
    for name, text in told.items():
        (tmp_path / "job" / f"memory.{name}").write_text(text)
    monkeypatch.setattr(memory, "GROUP", tmp_path / "own")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory._left_of_the_group() == left
    assert memory._free_bytes(CPU) <= left


def test_memory_is_that_of_the_largest_batch(tiny):
    workload = tiny("bytes-mlp")
    grows = {"steps": 64, "schedule": "steps", "drops": (0.5,), "drop_factor": 8}
    grown, small, large = (
        memory.run_bytes(pack_of(workload, {"lr": 0.01}, **recipe))
        for recipe in (
            {**grows, "decay_by": "batch"},
            {**grows, "decay_by": "rate"},
            {"batch_size": 32},
        )
    )
    assert grown == large > small


def test_errors_for_want_of_memory_are_told_from_others():
    hidden = RuntimeError("operation failed during capture")
    hidden.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    for error in (
        hidden,
        torch.OutOfMemoryError("?"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: StreamCaptureInvalidated"),
    ):
        assert memory.is_out_of_memory(error)
    other = RuntimeError("CUDA error: device-side assert triggered")
    assert not memory.is_out_of_memory(other)


# Schedules

DROPS = {"schedule": "steps", "warmup": 0.1, "drops": (0.4, 0.8)}


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (
            {"schedule": "wsd", "warmup": 0.1, "decay": 0.5},
            {0: 0.1, 1: 0.2, 9: 1.0, 50: 1.0, 75: 0.5, 99: 1 / 50},
        ),
        ({"schedule": "linear", "warmup": 0.2}, {9: 0.5, 19: 1, 20: 1, 60: 0.5, 99: 1 / 80}),
        (
            {"schedule": "cosine", "warmup": 0.2},
            {9: 0.5, 20: 1.0, 40: 0.5 * (1 + math.cos(math.pi / 4)), 60: 0.5},
        ),
        (
            {"schedule": "wsd-sqrt", "warmup": 0.1, "decay": 0.4},
            {0: 0.1, 10: 1.0, 60: 1.0, 70: 0.5, 82: 1 - math.sqrt(0.55), 99: 1 - math.sqrt(0.975)},
        ),
        ({"schedule": "constant", "warmup": 0.1}, {0: 0.1, **dict.fromkeys(range(10, 100), 1.0)}),
        ({"schedule": "constant", "warmup": 0.0}, dict.fromkeys(range(100), 1.0)),
        (
            {**DROPS, "drop_factor": 5},
            {0: 0.1, 1: 0.2, 10: 1.0, 39: 1.0, 40: 0.2, 79: 0.2, 80: 0.04, 99: 0.04},
        ),
        (
            {**DROPS, "decay_by": "batch"},
            {**{i: (i + 1) / 10 for i in range(10)}, **dict.fromkeys(range(10, 100), 1.0)},
        ),
    ],
)
def test_a_schedule_has_its_textbook_values(recipe, expected):
    made = Recipe(steps=100, **recipe)
    assert {step: multiplier(made, step) for step in expected} == pytest.approx(
        expected, rel=1e-12
    )


# Denormals


@pytest.fixture(params=[False, True])
def before(request):
    """Whether denormals are taken for 0 already."""
    if not torch.set_flush_denormal(request.param):
        pytest.skip("this processor cannot take denormals for 0")
    yield request.param
    torch.set_flush_denormal(False)


def product():
    return (torch.full((8,), 1e-30) * 1e-10).sum().item()


def test_denormals_are_zero_inside_and_what_they_were_outside_even_after_an_error(before):
    outside = product()
    assert (outside == 0.0) == before
    with without_denormals():
        assert product() == 0.0
        with pytest.raises(KeyError), without_denormals():
            raise KeyError
        assert product() == 0.0
    assert product() == outside


def test_training_takes_them_for_zero_and_leaves_the_setting(before, tiny):
    pack = pack_of(tiny("bytes-mlp"), {"lr": 0.01}, steps=2, n_evals=2)
    seen = []
    train(pack, on_eval=lambda *_: seen.append(product()))
    assert seen == [0.0, 0.0]
    assert (product() == 0.0) == before
