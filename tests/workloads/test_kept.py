from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from extrap.records import Cell, Recipe, StudySpec, TunedRange, Workload
from extrap.training import Pack, train
from extrap.training.stacks import Stack
from extrap.tuning import tune
from extrap.workloads import LoadedWorkload, load_workload, take_rows

CPU = torch.device("cpu")
Load = Callable[..., LoadedWorkload]
NAMES = pytest.mark.parametrize(
    "name", ["bytes-mlp", "bytes-transformer", "digits", "images", "perceptron", "teacher"]
)
CHOOSING = pytest.mark.parametrize("name", ["bytes-mlp", "digits", "perceptron"])


def rows_of(workload: LoadedWorkload, n: int, seed: int = 0) -> np.ndarray:
    found = take_rows(workload, n, [seed])
    assert found is not None
    return found[0]


@NAMES
def test_a_run_has_as_many_different_examples_as_asked(tiny: Load, name: str) -> None:
    workload = tiny(name)
    rows = rows_of(workload, 30)
    assert rows.dtype == np.int64
    assert len(np.unique(rows)) == 30
    assert set(rows_of(workload, 12)) < set(rows)
    assert not np.array_equal(rows, rows_of(workload, 30, seed=1))
    assert take_rows(workload, None, [0, 1]) is None
    with pytest.raises(ValueError, match="ask for fewer"):
        take_rows(workload, 10**7, [0])


@CHOOSING
def test_hard_and_easy_are_the_two_ends_of_one_pool(tiny: Load, name: str) -> None:
    n = 40
    pool = set(rows_of(tiny(name), 2 * n))
    hard, easy = (set(rows_of(tiny(name, keep=0.5, select=w), n)) for w in ("hard", "easy"))
    assert len(hard) == len(easy) == n
    assert hard | easy <= pool
    assert len(hard & easy) < n / 4  # none, but for the balance of classes
    assert rows_of(tiny(name, keep=0.5), n).tolist() == rows_of(tiny(name), n).tolist()


@CHOOSING
def test_without_a_size_the_options_say_how_many(tiny: Load, name: str) -> None:
    n_training = tiny(name).n_training_tokens
    found = take_rows(tiny(name, keep=0.25, select="hard"), None, [0])
    assert found is not None
    assert len(found[0]) == round(0.25 * n_training)
    found = take_rows(tiny(name, pool=100), 30, [0])
    assert found is not None
    assert len(found[0]) == 30


@CHOOSING
def test_idle_options_are_in_no_fingerprint(tiny: Load, name: str) -> None:
    if name == "perceptron":  # it is as old as they are
        return
    plain, idle = tiny(name), tiny(name, keep=1.0, select="random", pool=0, width=0)
    assert dict(plain.fingerprint) == dict(idle.fingerprint)
    assert not {"keep", "select", "pool", "width"} & set(plain.fingerprint)
    chosen = tiny(name, keep=0.5, select="easy", width=8)
    assert chosen.fingerprint["keep"] == 0.5
    assert chosen.fingerprint["width"] == 8
    assert chosen.n_params({}) == plain.n_params({"width": 8})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 0.0}, "keep of digits is a fraction of the pool"),
        ({"keep": 1.5}, "keep of digits is a fraction of the pool"),
        ({"select": "best"}, "select of digits must be one of random, hard, easy, active, got"),
        ({"keep": 0.5, "pool": 100}, "told its pool by keep or by pool"),
        ({"select": "active"}, "labels examples of a pool that stays, got none; set pool"),
    ],
)
def test_impossible_options_are_refused(tiny: Load, options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        tiny("digits", **options)


def test_bytes_have_no_active_learner(tiny: Load) -> None:
    with pytest.raises(ValueError, match="must be one of random, hard, easy, got 'active'"):
        tiny("bytes-mlp", select="active", pool=50)


def test_a_workload_that_cannot_choose_says_so() -> None:
    class Bare:
        n_training_tokens = 5

    assert take_rows(Bare(), None, [0]) is None  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a workload with kept_rows"):
        take_rows(Bare(), 5, [0])  # type: ignore[arg-type]


def train_losses(options: dict[str, object], size: dict[str, float]) -> list[float]:
    source = Workload(name="digits", options={"width": 8, **options})  # type: ignore[dict-item]
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in (0.01, 0.1) for seed in (0, 1))
    pack = Pack(
        workload=load_workload(source),
        size=size,
        recipe=Recipe(steps=30, batch_size=16, n_evals=2),
        cells=cells,
    )
    results = train(pack)
    assert {r.epochs for r in results} == {30 * 16 / size["examples"]}
    return [r.loss or np.nan for r in results]


def test_training_sees_the_kept_examples_alone() -> None:
    workload = load_workload(Workload(name="digits", options={"width": 8}))
    size = {"examples": 10.0}
    cells = tuple(Cell.of(size, {"lr": 0.1}, seed) for seed in (3, 5))
    stack = Stack(Pack(workload=workload, size=size, recipe=Recipe(), cells=cells), CPU)
    rows_KSB = stack._draw(20, 16)
    for s, seed in enumerate((3, 5)):
        assert set(rows_KSB[:, s].flatten().tolist()) == set(rows_of(workload, 10, seed))
    together = train_losses({}, {"examples": 64.0})
    hard = train_losses({"keep": 0.2, "select": "hard"}, {"examples": 64.0})
    assert not np.allclose(together, hard)
    assert train_losses({}, {"examples": 64.0}) == together


def test_a_number_of_examples_is_whole() -> None:
    with pytest.raises(ValueError, match=r"examples is a whole number above 0, got 1\.5"):
        train_losses({}, {"examples": 1.5})


def test_a_study_sweeps_the_number_of_examples(tmp_path) -> None:
    spec = StudySpec(
        name="plane",
        question="Does it learn?",
        workload=Workload(name="perceptron", options={"dimension": 8, "n_examples": 400}),
        recipe=Recipe(steps=60, batch_size=8, n_evals=2),
        sizes={"examples": (6, 300)},
        tune={"lr": TunedRange(low=0.01, high=0.1, n=2)},
        seeds=(0, 1),
    )
    table = tune(spec, f"sqlite:///{tmp_path}/plane.db").to_frame()
    assert sorted(table["examples"]) == [6] * 4 + [300] * 4
    assert (table["epochs"] == 60 * 8 / table["examples"]).all()
    assert set(table["n_params"]) == {8}
    means = table.groupby("examples")["loss"].mean()
    assert means[300] < means[6] < 0.5


def test_the_byte_to_predict_has_no_part_in_difficulty(tiny: Load) -> None:
    workload = tiny("bytes-mlp")
    (text,) = workload.training
    context = workload.examples((text,), torch.tensor([5]))[0].shape[-1]
    before = workload.embed(np.array([5]))
    text[5 + context] ^= 1
    assert np.array_equal(workload.embed(np.array([5])), before)
    text[5 + context - 1] ^= 1
    assert not np.allclose(workload.embed(np.array([5])), before)
    text[5 + context] ^= 1
    text[5 + context - 1] ^= 1
