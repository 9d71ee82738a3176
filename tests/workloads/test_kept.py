from types import SimpleNamespace

import numpy as np
import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.training.stacks import Stack
from extrap.workloads import load_workload, take_rows

CPU = torch.device("cpu")
NAMES = pytest.mark.parametrize(
    "name", ["bytes-mlp", "bytes-transformer", "digits", "images", "perceptron", "teacher"]
)
CHOOSING = pytest.mark.parametrize("name", ["bytes-mlp", "digits", "perceptron"])


def rows_of(workload, n, seed=0):
    return take_rows(workload, n, [seed])[0]


@NAMES
def test_a_run_has_as_many_different_examples_as_asked(tiny, name):
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
def test_hard_and_easy_are_the_two_ends_of_one_pool(tiny, name):
    n = 40
    pool = set(rows_of(tiny(name), 2 * n))
    hard, easy = (set(rows_of(tiny(name, keep=0.5, select=w), n)) for w in ("hard", "easy"))
    assert len(hard) == len(easy) == n
    assert hard | easy <= pool
    assert len(hard & easy) < n / 4  # none, but for the balance of classes
    assert rows_of(tiny(name, keep=0.5), n).tolist() == rows_of(tiny(name), n).tolist()


@CHOOSING
def test_without_a_size_the_options_say_how_many(tiny, name):
    n_training = tiny(name).n_training_tokens
    (found,) = take_rows(tiny(name, keep=0.25, select="hard"), None, [0])
    assert len(found) == round(0.25 * n_training)
    assert len(rows_of(tiny(name, pool=100), 30)) == 30


@pytest.mark.parametrize("name", ["bytes-mlp", "digits"])  # the perceptron is as old as they are
def test_idle_options_are_in_no_fingerprint(tiny, name):
    plain, idle = tiny(name), tiny(name, keep=1.0, select="random", pool=0, width=0)
    assert dict(plain.fingerprint) == dict(idle.fingerprint)
    assert not {"keep", "select", "pool", "width"} & set(plain.fingerprint)
    chosen = tiny(name, keep=0.5, select="easy", width=8)
    assert (chosen.fingerprint["keep"], chosen.fingerprint["width"]) == (0.5, 8)
    assert chosen.n_params({}) == plain.n_params({"width": 8})


def test_a_workload_that_cannot_choose_says_so():
    bare = SimpleNamespace(n_training_tokens=5)
    assert take_rows(bare, None, [0]) is None
    with pytest.raises(ValueError, match="kept_rows"):
        take_rows(bare, 5, [0])


def train_losses(options, size):
    source = Workload(name="digits", options={"width": 8, **options})
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


def test_training_sees_the_kept_examples_alone():
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


def test_the_byte_to_predict_has_no_part_in_difficulty(tiny):
    workload = tiny("bytes-mlp")
    (text,) = workload.training
    context = workload.examples((text,), torch.tensor([5]))[0].shape[-1]
    before = workload.embed(np.array([5]))
    for place, matters in ((5 + context, False), (5 + context - 1, True)):
        text[place] ^= 1
        assert np.array_equal(workload.embed(np.array([5])), before) != matters
        text[place] ^= 1
