from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.records.study import RunResult
from extrap.training import Pack, train
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
        workload.loss(module, workload.draw(recipe.batch_size, generator)).backward()
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


def test_a_run_that_ends_above_its_start_has_diverged(workload: LoadedWorkload) -> None:
    (result,) = train(pack_of(workload, (3.0,), (0,)), device="cpu")
    assert result.status == "diverged"
    assert result.loss is None
    assert result.diverged_step == 12


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


def test_the_curve_ends_with_the_final_loss(workload: LoadedWorkload) -> None:
    result = train(pack_of(workload), device="cpu")[0]
    assert [step for step, _ in result.curve] == [3, 6, 9, 12]
    assert result.curve[-1][1] == result.loss


def test_runs_of_one_seed_start_alike_and_count_the_same_cost(workload: LoadedWorkload) -> None:
    results = train(pack_of(workload), device="cpu")
    assert len({r.initial_loss for r in results}) == 2
    assert {r.n_tokens for r in results} == {12 * 16}
    assert {r.flops for r in results} == {6.0 * workload.n_params({"width": 8}) * 12 * 16}


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": ()}, "at least one cell"),
        ({"cells": (Cell.of({"width": 8}, {"beta1": 0.9}, 0),)}, "learning rate"),
        ({"cells": (Cell.of({"width": 9}, {"lr": 0.1}, 0),)}, "one size"),
    ],
)
def test_a_pack_that_cannot_be_trained_is_refused(
    workload: LoadedWorkload, changes: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(pack_of(workload), **changes)
