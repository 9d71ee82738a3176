import math
from dataclasses import replace

import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, parts, train
from extrap.training.layouts import Layout
from extrap.training.parts import Run
from extrap.training.stacks import Stack
from extrap.workloads import load_workload

CPU = torch.device("cpu")
RECIPE = Recipe(steps=12, batch_size=16, n_evals=4)
GOLDEN = (5.68638, 3.2932)
RATES = (2**-9, 2**-7, 2**-5)


@pytest.fixture(scope="module")
def workload():
    options = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 1500}
    return load_workload(Workload(name="bytes-mlp", options=options))


def pack_of(workload, rates=RATES, seeds=(0, 1), recipe=RECIPE):
    size = {"width": 8}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in rates for seed in seeds)
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells)


def timeless(results):
    return [replace(result, wall_s=0.0) for result in results]


def alone(pack, at_once=6, **given):
    return timeless(
        train(pack, device="cpu", layout=Layout(n_threads=1, at_once=at_once), **given)
    )


@pytest.fixture(scope="module")
def whole(workload):
    """Six runs together: three rates, two seeds each."""
    return alone(pack_of(workload))


def test_a_pack_equals_packs_of_one_on_any_device(workload, whole, device):
    pack = pack_of(workload)
    for one, cell in zip(whole, pack.cells, strict=True):
        (other,) = train(replace(pack, cells=(cell,)), device=device)
        assert one.loss == pytest.approx(other.loss, rel=1e-6)
        if device == "cpu":
            assert replace(other, wall_s=0.0) == one


@pytest.mark.parametrize("at_once", [2, 4, 5])
def test_stacks_of_any_size_give_the_same(workload, whole, at_once):
    assert alone(pack_of(workload), at_once) == whole


def test_a_run_says_what_it_cost_and_where_it_was_evaluated(workload, whole):
    for result in whole:
        assert [step for step, _ in result.curve] == [3, 6, 9, 12]
        assert result.curve[-1][1] == result.loss
        assert (result.n_tokens, result.updates) == (12 * 16, 12)
        assert result.n_params == workload.n_params({"width": 8})
        assert result.flops == 6.0 * result.n_params * 12 * 16
        assert result.epochs == 12 * 16 / (60_000 - 20_000 - 16)
    assert len({result.initial_loss for result in whole}) == 2  # one a seed


def test_a_few_steps_give_the_known_losses(tmp_path):
    """The golden step: initialisation, data order, schedule and optimiser on a fixed text."""
    for name in "abcdef":
        (tmp_path / name).write_text(f"{name} is followed by {name}. " * 200)
    options = {"corpus": str(tmp_path), "validation_bytes": 4000, "n_validation": 512}
    fixed = load_workload(Workload(name="bytes-mlp", options=options))
    (result,) = train(pack_of(fixed, (2**-6,), (0,)), device="cpu")
    assert result.initial_loss == pytest.approx(GOLDEN[0], abs=5e-5)
    assert result.loss == pytest.approx(GOLDEN[1], abs=5e-4)  # kernels round differently


def test_a_run_that_turns_nan_touches_no_other_by_one_bit(workload, whole):
    sick = alone(pack_of(workload, (2**-9, 1e30, 2**-5)))
    assert [r.status for r in sick] == ["complete"] * 2 + ["diverged"] * 2 + ["complete"] * 2
    assert sick[:2] + sick[4:] == whole[:2] + whole[4:]
    assert sick[2].loss is None
    assert 1 < sick[2].diverged_step <= 12
    assert all(math.isfinite(loss) for _, loss in sick[2].curve)
    assert {r.status for r in alone(pack_of(workload, (1e30,)))} == {"diverged"}


def test_a_run_above_its_start_for_good_is_stopped(workload, whole):
    high, low = alone(pack_of(workload, (3.0, 2**-7), (0,)))
    assert (high.status, high.loss) == ("diverged", None)
    assert high.diverged_step == 9  # the third evaluation in a row, of four
    assert len(high.curve) == 3
    assert low == whole[2]
    few = pack_of(workload, (3.0,), (0,), recipe=replace(RECIPE, n_evals=2))
    (result,) = train(few, device="cpu")
    assert (result.status, result.diverged_step) == ("diverged", 12)  # it ends above its start


def test_a_run_that_hardly_moves_has_not_diverged(workload, monkeypatch):
    """Points of the curve come from a few examples, which may be harder than all of them."""
    monkeypatch.setattr(parts, "CURVE_TOKENS", 4)
    monkeypatch.setattr(parts, "CURVE_EXAMPLES", 4)
    slow = pack_of(workload, (1e-12,), tuple(range(8)), recipe=replace(RECIPE, n_evals=12))
    results = train(slow, device="cpu")
    assert any(r.curve[0][1] > r.initial_loss for r in results)
    assert {r.status for r in results} == {"complete"}


def test_a_run_that_comes_back_below_its_start_goes_on():
    run = Run(Cell.of({}, {"lr": 1.0}, 0))
    for step, loss in enumerate((3.0, 3.0, 1.0, 3.0, 3.0)):
        run.add(step, loss, start=2.0, patience=3)
    assert run.is_alive
    run.add(5, 3.0, start=2.0, patience=3)
    assert (run.status, run.diverged_step) == ("diverged", 5)


class SmallStack(Stack):
    error = torch.OutOfMemoryError("CUDA out of memory")

    def advance(self, start, stop):
        if len(self) > 3:
            raise self.error
        return super().advance(start, stop)


def prune_two(step, losses):
    return [step != 6 or i not in (1, 7) for i in range(len(losses))]


@pytest.fixture(scope="module")
def nine_at_once(workload):
    """Of a pack that fits into the memory, two runs are pruned."""
    pack = pack_of(workload, seeds=(0, 1, 2))
    return pack, alone(pack, at_once=9, on_eval=prune_two)


@pytest.mark.parametrize("error", [SmallStack.error, RuntimeError("can't allocate memory: 8 GB")])
def test_out_of_memory_divides_the_pack_and_goes_on(nine_at_once, monkeypatch, error):
    pack, expected = nine_at_once
    assert [i for i, run in enumerate(expected) if run.status == "pruned"] == [1, 7]
    monkeypatch.setattr(SmallStack, "error", error)
    monkeypatch.setattr(parts, "Stack", SmallStack)
    heard = []

    def hear(step, losses):
        heard.append((step, losses))
        return prune_two(step, losses)

    assert alone(pack, at_once=9, on_eval=hear) == expected
    assert {len(losses) for _, losses in heard} == {9}
    for i, run in enumerate(expected):  # each is heard once, in its own place, halves in turn
        own = [(step, losses[i]) for step, losses in heard if math.isfinite(losses[i])]
        assert own == list(run.curve)


def test_another_error_is_no_lack_of_memory(workload, monkeypatch):
    def broken(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Stack, "advance", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train(pack_of(workload), device="cpu")


def test_pruned_runs_stop_and_the_others_do_not_notice(workload, whole):
    seen = []

    def keep_all_but_the_second(step, losses):
        seen.append((step, losses))
        return [i != 1 for i in range(len(losses))]

    pruned = alone(pack_of(workload), on_eval=keep_all_but_the_second)
    assert (pruned[1].status, pruned[1].loss) == ("pruned", None)
    assert pruned[1].curve == whole[1].curve[:1]
    assert pruned[:1] + pruned[2:] == whole[:1] + whole[2:]
    assert [step for step, _ in seen] == [3, 6, 9, 12]
    assert [math.isnan(losses[1]) for _, losses in seen] == [False, True, True, True]
    assert not any(math.isnan(losses[2]) for _, losses in seen)


def test_a_run_with_a_growing_batch_counts_updates_and_examples(workload):
    grows = {"schedule": "steps", "drops": (0.5,), "drop_factor": 4, "decay_by": "batch"}
    recipe = replace(RECIPE, steps=16, **grows)
    (result,) = alone(pack_of(workload, (2**-6,), (0,), recipe=recipe))
    assert (result.updates, result.n_tokens) == (8 + 2, 16 * 16)
    assert [step for step, _ in result.curve] == [2, 5, 8, 10]


def test_training_leaves_the_callers_random_state_and_threads_alone(workload):
    state, threads, told = torch.random.get_rng_state(), torch.get_num_threads(), []
    layout = Layout(n_threads=1, at_once=2)
    pack = pack_of(workload, (2**-7,), (0,))
    train(pack, device="cpu", layout=layout, on_layout=told.append)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    assert told == [layout]
