from __future__ import annotations

import numpy as np
import pytest

import extrap
from extrap.errors import DataError
from extrap.selection import choose_next, prototype_distance, select, select_by


def clusters(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three directions in the plane and two strays, rows n and n + 1."""
    rng = np.random.default_rng(seed)
    angles = np.repeat([0.0, 2.0, 4.0], n // 3)
    angles = np.append(angles + 0.05 * rng.standard_normal(n), [1.0, 3.0])
    labels = np.append(np.repeat([0, 1, 2], n // 3), [0, 1])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1), labels


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_strays_are_the_hardest_and_the_last_of_the_easy(metric: str) -> None:
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


def test_cosine_looks_at_directions_alone() -> None:
    points, _ = clusters()
    scaled = points * np.random.default_rng(1).uniform(0.1, 10, len(points))[:, None]
    one, other = (prototype_distance(p, n_clusters=3) for p in (points, scaled))
    np.testing.assert_allclose(one, other, atol=1e-12)
    assert not np.allclose(
        prototype_distance(points, n_clusters=3, metric="euclidean"),
        prototype_distance(scaled, n_clusters=3, metric="euclidean"),
    )


def test_distance_to_one_cluster_is_that_to_the_mean() -> None:
    points = np.random.default_rng(0).standard_normal((50, 4))
    found = prototype_distance(points, n_clusters=1, metric="euclidean")
    np.testing.assert_allclose(found, np.linalg.norm(points - points.mean(0), axis=1))
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    mean = unit.mean(0) / np.linalg.norm(unit.mean(0))
    np.testing.assert_allclose(prototype_distance(points, n_clusters=1), 1 - unit @ mean)


def test_many_points_are_taken_in_batches_with_the_same_strays() -> None:
    points, _ = clusters(30_000)
    found = prototype_distance(points, n_clusters=3)
    assert set(np.argsort(found)[-2:]) == {30_000, 30_001}
    assert np.array_equal(found, prototype_distance(points, n_clusters=3))


@pytest.mark.parametrize(("keep", "n"), [(0.2, 20), (1.0, 100), (30, 30), (1e-9, 1), (100, 100)])
def test_keep_is_a_fraction_or_a_number(keep: float, n: int) -> None:
    difficulty = np.random.default_rng(0).permutation(100)
    for which in ("hard", "easy", "random"):
        kept = select_by(difficulty, keep=keep, which=which)
        assert len(np.unique(kept.rows)) == n
    assert sorted(difficulty[select_by(difficulty, keep=keep).rows]) == list(range(100 - n, 100))


def test_half_of_the_balance_of_classes_is_kept() -> None:
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
    full = select_by(difficulty, keep=0.2, labels=labels, balance=1, which="easy")
    assert set(full.rows) == {*range(16), *range(80, 84)}


def test_a_random_choice_is_its_seeds() -> None:
    difficulty = np.zeros(50)
    one, again, other = (select_by(difficulty, keep=10, which="random", seed=s) for s in (0, 0, 1))
    assert np.array_equal(one.rows, again.rows)
    assert not np.array_equal(one.rows, other.rows)
    assert one.threshold is None


def test_the_next_examples_are_unlabelled_and_hardest_first() -> None:
    points, _ = clusters()
    assert choose_next(points, labelled=[60], n=1, n_clusters=3).tolist() == [61]
    chosen = choose_next(None, labelled=[0, 3], n=2, difficulty=[9, 1, 2, 8, 3])
    assert chosen.tolist() == [4, 2]
    assert choose_next(None, labelled=[], n=9, difficulty=[1, 2], which="easy").tolist() == [0, 1]
    random = choose_next(None, labelled=[0], n=2, difficulty=[1, 1, 1], which="random", seed=3)
    assert set(random) == {1, 2}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"keep": 0}, ValueError, "keep is a fraction in"),
        ({"keep": 1.5}, ValueError, "keep is a fraction in"),
        ({"keep": 63}, ValueError, "of the 62 examples, got 63"),
        ({"keep": float("nan")}, ValueError, "keep is a fraction in"),
        ({"which": "best"}, ValueError, "which must be one of hard, easy, random, got 'best'"),
        ({"metric": "l1"}, ValueError, "metric must be one of cosine, euclidean, got 'l1'"),
        ({"balance": 2}, ValueError, r"balance must lie in \[0, 1\], got 2"),
        ({"n_clusters": 0}, ValueError, "n_clusters is at least 1, got 0"),
        ({"n_clusters": 63}, DataError, "63 clusters need as many points, got 62"),
        ({"labels": [1, 2]}, DataError, r"labels are one an example, 62, got shape \(2,\)"),
    ],
)
def test_what_cannot_be_selected_is_refused(
    change: dict[str, object], error: type[Exception], message: str
) -> None:
    points, _ = clusters()
    with pytest.raises(error, match=message):
        select(points, **{"keep": 0.5, **change})


def test_an_embedding_is_a_finite_table() -> None:
    points, _ = clusters()
    points[7, 1] = np.nan
    with pytest.raises(DataError, match="nan or inf in 1 of 62 rows, first in row 7"):
        select(points, keep=0.5)
    with pytest.raises(DataError, match=r"got an array of shape \(3,\)"):
        select([1.0, 2.0, 3.0], keep=0.5)
    with pytest.raises(DataError, match="row 1 of the embedding is all 0"):
        select([[1.0, 0.0], [0.0, 0.0]], keep=0.5)
    with pytest.raises(DataError, match="with 1 that are not"):
        select_by([1.0, np.inf], keep=0.5)
    with pytest.raises(DataError, match="labelled rows lie among the 2 examples"):
        choose_next(None, labelled=[2], n=1, difficulty=[1, 2])
    with pytest.raises(ValueError, match="is at least 1, got 0"):
        choose_next(points, labelled=[], n=0)
    with pytest.raises(ValueError, match="needs an embedding or difficulty"):
        choose_next(None, labelled=[], n=1)


def test_equal_examples_have_no_hardest() -> None:
    with pytest.raises(DataError, match="do not vary, got the same direction in all 300 rows"):
        select(np.ones((300, 5)), keep=0.2)
    with pytest.raises(DataError, match="do not vary, got the same features in all 30 rows"):
        select(np.full((30, 5), 7.0), keep=0.2, metric="euclidean")
    with pytest.raises(DataError, match="17 clusters need as many different points, got 2"):
        select(np.tile(np.eye(2), (150, 1)), keep=0.2)
    with pytest.raises(DataError, match=r"differ in difficulty, got 0.5 for all 8"):
        select_by(np.full(8, 0.5), keep=2)
    assert select_by(np.full(8, 0.5), keep=1.0).rows.tolist() == list(range(8))
    assert len(select(np.ones((300, 5)), keep=0.2, which="random")) == 60


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_numbers_whose_squares_overflow_are_refused(metric: str) -> None:
    points, _ = clusters()
    with pytest.raises(DataError, match=r"or their squares overflow, got .*e.300; divide them"):
        select(1e300 * points, keep=0.2, metric=metric)
    with pytest.raises(DataError, match="squares overflow"):
        select((1e30 * points).astype(np.float32), keep=0.2, metric=metric)
    assert len(select(1e150 * points, keep=0.2, metric=metric)) == round(0.2 * len(points))


def test_a_random_choice_keeps_the_balance_and_needs_no_prototypes() -> None:
    labels = np.array([0] * 90 + [1] * 10)
    points = np.zeros((100, 3))  # without a direction
    for seed in range(20):
        kept = select(points, keep=0.2, which="random", labels=labels, balance=1.0, seed=seed)
        assert (labels[kept.rows] == 1).sum() == 2
    assert np.isnan(kept.difficulty).all()
    assert kept.threshold is None
    unbalanced = [
        (
            labels[select(points, keep=0.2, which="random", labels=labels, balance=0, seed=s).rows]
        ).sum()
        for s in range(20)
    ]
    assert len(set(unbalanced)) > 1


def test_seeds_and_labels_are_told_what_they_are() -> None:
    points, _ = clusters()
    for which in ("random", "hard"):
        with pytest.raises(ValueError, match=r"seed is a whole number from 0 to .*, got -1"):
            select(points, keep=0.2, which=which, seed=-1)
    for blank in (None, np.nan, ""):
        labels = np.array(["a"] * len(points), dtype=object)
        labels[4] = blank
        with pytest.raises(DataError, match=r"got none in 1 of .* first in row 4"):
            select_by(np.arange(len(points)), keep=0.2, labels=labels)


def test_it_is_public() -> None:
    assert extrap.select is select
