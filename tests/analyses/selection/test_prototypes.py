import numpy as np
import pytest

from extrap.analyses.selection import choose_next, select
from extrap.analyses.selection.prototypes import _selected


def select_by(difficulty, *, keep, which="hard", labels=None, balance=0.5):
    values = np.asarray(difficulty, dtype=float)
    return _selected(values, keep=keep, which=which, labels=labels, balance=balance, seed=0)


def clusters(n=60, seed=0):
    """Three directions in the plane and two strays, rows n and n + 1."""
    rng = np.random.default_rng(seed)
    angles = np.repeat([0.0, 2.0, 4.0], n // 3)
    angles = np.append(angles + 0.05 * rng.standard_normal(n), [1.0, 3.0])
    labels = np.append(np.repeat([0, 1, 2], n // 3), [0, 1])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1), labels


def distance(points, **options):
    """From every point to the nearest prototype."""
    return select(points, keep=1.0, **options).difficulty


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_strays_are_the_hardest_and_the_last_of_the_easy(metric):
    points, labels = clusters()
    hard = select(points, keep=2, labels=labels, balance=0, metric=metric)
    assert hard.rows.tolist() == [60, 61]
    easy = select(points, keep=60, which="easy", labels=labels, balance=0, metric=metric)
    assert easy.rows.tolist() == list(range(60))
    assert hard.threshold is not None
    assert easy.threshold is not None
    assert easy.threshold < hard.threshold == hard.difficulty[hard.rows].min()
    assert len(hard) == 2
    assert np.flatnonzero(hard.is_kept).tolist() == [60, 61]


def test_cosine_looks_at_directions_alone():
    points, _ = clusters()
    scaled = points * np.random.default_rng(1).uniform(0.1, 10, len(points))[:, None]
    one, other = (distance(p, n_clusters=3) for p in (points, scaled))
    np.testing.assert_allclose(one, other, atol=1e-12)
    one, other = (distance(p, n_clusters=3, metric="euclidean") for p in (points, scaled))
    assert not np.allclose(one, other)


def test_distance_to_one_cluster_is_that_to_the_mean():
    points = np.random.default_rng(0).standard_normal((50, 4))
    found = distance(points, n_clusters=1, metric="euclidean")
    np.testing.assert_allclose(found, np.linalg.norm(points - points.mean(0), axis=1))
    corners = distance(np.repeat(np.eye(2), 3, 0), n_clusters=2, metric="euclidean")
    assert corners == pytest.approx([0.0] * 6, abs=1e-7)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    mean = unit.mean(0) / np.linalg.norm(unit.mean(0))
    np.testing.assert_allclose(distance(points, n_clusters=1), 1 - unit @ mean)


@pytest.mark.parametrize(("keep", "n"), [(0.2, 20), (1.0, 100), (30, 30), (1e-9, 1), (100, 100)])
def test_keep_is_a_fraction_or_a_number(keep, n):
    difficulty = np.random.default_rng(0).permutation(100)
    for which in ("hard", "easy", "random"):
        kept = select_by(difficulty, keep=keep, which=which)
        assert len(np.unique(kept.rows)) == n
    assert sorted(difficulty[select_by(difficulty, keep=keep).rows]) == list(range(100 - n, 100))


def test_half_of_the_balance_of_classes_is_kept():
    difficulty = np.arange(100.0)
    labels = np.repeat(["a", "b"], [80, 20])
    free = select_by(difficulty, keep=0.2, labels=labels, balance=0)
    assert (labels[free.rows] == "b").sum() == 20
    assert free.n_balanced == 0
    half = select_by(difficulty, keep=0.2, labels=labels)
    assert (labels[half.rows] == "a").sum() == 8  # half of 80 % of 20
    assert half.n_balanced == 8
    assert set(half.rows) == {*range(72, 80), *range(88, 100)}
    assert half.threshold == 88
    assert select_by(difficulty, keep=2, labels=labels).n_balanced == 0  # of .8 of an example
    full = select_by(difficulty, keep=0.2, labels=labels, balance=1, which="easy")
    assert set(full.rows) == {*range(16), *range(80, 84)}


def test_the_next_examples_are_unlabelled_and_hardest_first():
    points, _ = clusters()
    assert choose_next(points, labelled=[60], n=1, n_clusters=3).tolist() == [61]
    chosen = choose_next(None, labelled=[0, 3], n=2, difficulty=[9, 1, 2, 8, 3])
    assert chosen.tolist() == [4, 2]
    assert choose_next(None, labelled=[], n=9, difficulty=[1, 2], which="easy").tolist() == [0, 1]
    random = choose_next(None, labelled=[0], n=2, difficulty=[1, 1, 1], which="random", seed=3)
    assert set(random) == {1, 2}


def test_a_random_choice_is_its_seeds_keeps_the_balance_and_needs_no_prototypes():
    labels, points = np.array([0] * 90 + [1] * 10), np.zeros((100, 3))  # without a direction

    def kept(seed, balance):
        own = {"which": "random", "labels": labels, "balance": balance, "seed": seed}
        return select(points, keep=0.2, **own)

    assert all((labels[kept(s, 1.0).rows] == 1).sum() == 2 for s in range(20))
    assert (np.isnan(kept(0, 1.0).difficulty).all(), kept(0, 1.0).threshold) == (True, None)
    assert len({labels[kept(s, 0).rows].sum() for s in range(20)}) > 1
    assert np.array_equal(kept(0, 0).rows, kept(0, 0).rows)
    many, _ = clusters(30_000)  # taken in batches, with the same strays
    found = distance(many, n_clusters=3)
    assert set(np.argsort(found)[-2:]) == {30_000, 30_001}
    assert np.array_equal(found, distance(many, n_clusters=3))
