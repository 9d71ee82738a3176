from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.records.study import RunResult
from extrap.training import Pack, loop, parts, train
from extrap.training.loop import train_alone
from extrap.training.parts import Run
from extrap.training.stacks import Stack
from extrap.workloads import LoadedWorkload, load_workload

RECIPE = Recipe(steps=12, batch_size=16, n_evals=4)
GOLDEN = (5.68638, 3.2932)
RATES = (2**-9, 2**-7, 2**-5)


@pytest.fixture(scope="module")
def workload() -> LoadedWorkload:
    options = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 1500}
    return load_workload(Workload(name="bytes-mlp", options=options))


def pack_of(
    workload: LoadedWorkload,
    rates: tuple[float, ...] = RATES,
    seeds: tuple[int, ...] = (0, 1),
    width: int = 8,
    recipe: Recipe = RECIPE,
) -> Pack:
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in rates for seed in seeds)
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells)


def timeless(results: tuple[RunResult, ...]) -> list[RunResult]:
    return [replace(result, wall_s=0.0) for result in results]


def test_a_pack_equals_packs_of_one_to_the_last_bit(workload: LoadedWorkload, device: str) -> None:
    pack = pack_of(workload)
    together = train(pack, device=device)
    alone = [train(replace(pack, cells=(cell,)), device=device)[0] for cell in pack.cells]
    if device == "cpu":
        assert timeless(together) == timeless(tuple(alone))
    for one, other in zip(together, alone, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)


def test_a_run_equals_a_plain_loop_with_torch_adam(workload: LoadedWorkload) -> None:
    recipe = replace(RECIPE, warmup=0, decay=0)
    (result,) = train(pack_of(workload, (2**-6,), (3,), recipe=recipe), device="cpu")
    torch.manual_seed(3)
    module = workload.build({"width": 8})
    optimizer = torch.optim.Adam(module.parameters(), lr=2**-6)
    generator = torch.Generator().manual_seed(3 + 2**31)
    for _ in range(recipe.steps):
        optimizer.zero_grad()
        rows = workload.draw(recipe.batch_size, generator)
        workload.loss(module, workload.examples(workload.training, rows)).backward()
        optimizer.step()
    loss = workload.loss(module, workload.validation).item()
    assert result.loss == pytest.approx(loss, rel=1e-5)


def test_a_few_steps_give_the_known_losses(tmp_path: Path) -> None:
    """The golden step: initialisation, data order, schedule and optimiser on a fixed text."""
    for name in "abcdef":
        (tmp_path / name).write_text(f"{name} is followed by {name}. " * 200)
    options = {"corpus": str(tmp_path), "validation_bytes": 4000, "n_validation": 512}
    fixed = load_workload(Workload(name="bytes-mlp", options=options))
    (result,) = train(pack_of(fixed, (2**-6,), (0,)), device="cpu")
    assert result.initial_loss == pytest.approx(GOLDEN[0], abs=5e-5)
    assert result.loss == pytest.approx(GOLDEN[1], abs=5e-4)  # kernels round differently


def test_a_run_that_turns_nan_touches_no_other_by_one_bit(workload: LoadedWorkload) -> None:
    sick = train(pack_of(workload, (2**-9, 1e30, 2**-5)), device="cpu")
    healthy = train(pack_of(workload, (2**-9, 2**-5)), device="cpu")
    assert [r.status for r in sick] == ["complete"] * 2 + ["diverged"] * 2 + ["complete"] * 2
    assert timeless(sick[:2] + sick[4:]) == timeless(healthy)
    assert sick[2].loss is None
    assert sick[2].diverged_step is not None
    assert 1 < sick[2].diverged_step <= 12
    assert all(math.isfinite(loss) for _, loss in sick[2].curve)


def test_a_run_above_its_start_for_good_is_stopped(workload: LoadedWorkload) -> None:
    high, low = train(pack_of(workload, (3.0, 2**-7), (0,)), device="cpu")
    assert high.status == "diverged"
    assert high.loss is None
    assert high.diverged_step == 9  # the third evaluation in a row, of four
    assert len(high.curve) == 3
    assert timeless((low,)) == timeless(train(pack_of(workload, (2**-7,), (0,)), device="cpu"))


def test_a_run_that_ends_above_its_start_has_diverged(workload: LoadedWorkload) -> None:
    few = pack_of(workload, (3.0,), (0,), recipe=replace(RECIPE, n_evals=2))
    (result,) = train(few, device="cpu")
    assert (result.status, result.diverged_step) == ("diverged", 12)


def test_a_run_that_hardly_moves_has_not_diverged(
    workload: LoadedWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points of the curve come from a few examples, which may be harder than all of them."""
    monkeypatch.setattr(parts, "CURVE_TOKENS", 4)
    monkeypatch.setattr(parts, "CURVE_EXAMPLES", 4)
    slow = pack_of(workload, (1e-12,), tuple(range(8)), recipe=replace(RECIPE, n_evals=12))
    results = train(slow, device="cpu")
    assert any(r.curve[0][1] > r.initial_loss for r in results)
    assert {r.status for r in results} == {"complete"}


def test_stacks_of_a_pack_share_its_data(
    workload: LoadedWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Stack] = []

    class Seen(Stack):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            seen.append(self)

    monkeypatch.setattr(parts, "Stack", Seen)
    train_alone(pack_of(workload, (2**-9, 2**-7), (0,)), place=torch.device("cpu"), at_once=1)
    assert len(seen) == 2
    assert seen[0].data is seen[1].data


def test_a_run_that_comes_back_below_its_start_goes_on() -> None:
    run = Run(Cell.of({}, {"lr": 1.0}, 0))
    for step, loss in enumerate((3.0, 3.0, 1.0, 3.0, 3.0)):
        run.add(step, loss, start=2.0, patience=3)
    assert run.is_alive
    run.add(5, 3.0, start=2.0, patience=3)
    assert (run.status, run.diverged_step) == ("diverged", 5)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory: 8 GB")],
)
def test_out_of_memory_divides_the_pack_and_goes_on(
    workload: LoadedWorkload, monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    pack = pack_of(workload, seeds=(0, 1, 2))
    whole = train(pack, device="cpu")
    sizes = []

    class SmallStack(Stack):
        def advance(self, start: int, stop: int) -> list[int | None]:
            if len(self) > 3:
                raise error
            sizes.append(len(self))
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", SmallStack)
    heard: list[tuple[int, tuple[float, ...]]] = []
    place = torch.device("cpu")

    def hear(step: int, losses: tuple[float, ...]) -> None:
        heard.append((step, losses))

    halves = loop.train_alone(pack, place=place, at_once=9, on_eval=hear)
    assert timeless(halves) == timeless(whole)
    assert max(sizes) <= 3
    assert {len(losses) for _, losses in heard} == {9}
    ends = {loss for step, losses in heard for loss in losses if step == 12 and loss == loss}
    assert ends == {result.loss for result in whole}
    for i, result in enumerate(whole):  # heard in its own place
        own = [losses[i] for step, losses in heard if step == 12]
        assert [loss for loss in own if math.isfinite(loss)] == [result.loss]


def test_another_error_is_no_lack_of_memory(
    workload: LoadedWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Stack, "advance", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train(pack_of(workload), device="cpu")


@pytest.mark.parametrize("at_once", [1, 2, 4, 5])
def test_stacks_of_any_size_give_the_same(workload: LoadedWorkload, at_once: int) -> None:
    pack = pack_of(workload)
    place = torch.device("cpu")
    whole = loop.train_alone(pack, place=place, at_once=6)
    assert timeless(loop.train_alone(pack, place=place, at_once=at_once)) == timeless(whole)


def test_a_pack_in_which_everything_diverges_ends(workload: LoadedWorkload) -> None:
    results = train(pack_of(workload, (1e30,)), device="cpu")
    assert {result.status for result in results} == {"diverged"}


def test_pruned_runs_stop_and_the_others_do_not_notice(workload: LoadedWorkload) -> None:
    seen: list[tuple[int, tuple[float, ...]]] = []

    def keep_all_but_the_second(step: int, losses: tuple[float, ...]) -> list[bool]:
        seen.append((step, losses))
        return [i != 1 for i in range(len(losses))]

    pack = pack_of(workload)
    pruned = train(pack, on_eval=keep_all_but_the_second, device="cpu")
    whole = train(pack, device="cpu")
    assert pruned[1].status == "pruned"
    assert pruned[1].loss is None
    assert [step for step, _ in pruned[1].curve] == [3]
    assert timeless(pruned[:1] + pruned[2:]) == timeless(whole[:1] + whole[2:])
    assert [step for step, _ in seen] == [3, 6, 9, 12]
    assert [math.isnan(losses[1]) for _, losses in seen] == [False, True, True, True]
    assert not any(math.isnan(losses[2]) for _, losses in seen)


def test_a_run_that_diverged_is_not_called_pruned(workload: LoadedWorkload) -> None:
    def keep_finite(step: int, losses: tuple[float, ...]) -> list[bool]:
        return [math.isfinite(loss) for loss in losses]

    results = train(pack_of(workload, (2**-9, 1e30)), on_eval=keep_finite, device="cpu")
    assert [r.status for r in results] == ["complete"] * 2 + ["diverged"] * 2


def test_the_curve_ends_with_the_final_loss(workload: LoadedWorkload) -> None:
    result = train(pack_of(workload), device="cpu")[0]
    assert [step for step, _ in result.curve] == [3, 6, 9, 12]
    assert result.curve[-1][1] == result.loss


def test_runs_of_one_seed_start_alike_and_count_the_same_cost(workload: LoadedWorkload) -> None:
    results = train(pack_of(workload), device="cpu")
    assert len({r.initial_loss for r in results}) == 2
    assert {r.n_tokens for r in results} == {12 * 16}
    assert {r.flops for r in results} == {6.0 * workload.n_params({"width": 8}) * 12 * 16}


def test_epochs_count_how_often_the_training_bytes_were_predicted(
    workload: LoadedWorkload,
) -> None:
    (result,) = train(pack_of(workload, RATES[:1], (0,)), device="cpu")
    assert result.n_tokens == 12 * 16
    assert result.epochs == 12 * 16 / (60_000 - 20_000 - 16)


def test_training_leaves_the_callers_random_state_and_threads_alone(
    workload: LoadedWorkload,
) -> None:
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    train(pack_of(workload, (2**-7,), (0,)), device="cpu")
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_ctrl_c_passes_through(workload: LoadedWorkload) -> None:
    def interrupt(step: int, losses: tuple[float, ...]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(pack_of(workload), on_eval=interrupt, device="cpu")


def test_a_run_with_a_growing_batch_counts_updates_and_examples(workload: LoadedWorkload) -> None:
    grows = replace(
        RECIPE, steps=16, schedule="steps", drops=(0.5,), drop_factor=4, decay_by="batch"
    )
    (result,) = train(pack_of(workload, (2**-6,), (0,), recipe=grows), device="cpu")
    assert (result.updates, result.n_tokens) == (8 + 2, 16 * 16)
    assert [step for step, _ in result.curve] == [2, 5, 8, 10]
    falls = replace(grows, decay_by="rate")
    (other,) = train(pack_of(workload, (2**-6,), (0,), recipe=falls), device="cpu")
    assert (other.updates, other.n_tokens) == (16, 16 * 16)
