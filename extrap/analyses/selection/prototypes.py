"""Data selection: which examples are worth keeping (`select`), and which to label next.

An embedding, as an array, is enough; nothing here trains a network. Theory has hard examples win
where data are plentiful and easy ones where they are scarce; compare both with random ones.

References:
    Sorscher, Geirhos, Shekhar, Ganguli, Morcos 2022, "Beyond neural scaling laws: beating power
    law scaling via data pruning", arXiv 2206.14486, Sections 2 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from extrap.errors import DataError, argument
from extrap.records.fields import Rule, fitted, one_of

Array = np.ndarray
MOST_CLUSTERS = 100
"""Where nobody says how many; any number within tenfold of the classes does (their Section 5)."""
KMEANS_STARTS, KMEANS_BATCH = 3, 4096
"""Starts of k-means, and points in each of its batches."""
CHUNK_POINTS = 65_536
"""Points whose distances from all prototypes are in memory at once."""
ROUNDING_ULPS = 8
"""Units in the last place within which numbers are the same."""
MOST_SEED = 2**32 - 1
"""The largest seed that scikit-learn takes."""
SEED_RULE = Rule(
    f"be a whole number from 0 to {MOST_SEED}", lambda seed: 0 <= seed <= MOST_SEED, "write 0"
)
OPTION_RULES = {
    "which": Annotated[str, one_of("hard", "easy", "random")],
    "metric": Annotated[str, one_of("cosine", "euclidean")],
    "balance": Annotated[
        float, Rule("lie in [0, 1]", lambda share: 0 <= share <= 1, "the paper's is 0.5")
    ],
    "seed": Annotated[int, SEED_RULE],
}
"""What an option may be."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Which examples were kept.

    Attributes:
        rows: Rows of the kept examples, rising, int64.
        difficulty: Difficulty of every example, kept or not; nan where `select` chose at random.
        threshold: Difficulty of the last kept example: the easiest of the hard ones, or the
            hardest of the easy ones. With class balance, some kept examples lie beyond it. None
            for a random choice.
        which: `"hard"`, `"easy"` or `"random"`.
        n_balanced: Examples kept only because of the share of their class.
    """

    rows: Array
    difficulty: Array
    threshold: float | None
    which: str
    n_balanced: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_kept(self) -> Array:
        """Whether each example is kept."""
        mask = np.zeros(len(self.difficulty), dtype=bool)
        mask[self.rows] = True
        return mask


def select(
    embedding: ArrayLike | Path,
    *,
    keep: float,
    which: str = "hard",
    labels: ArrayLike | None = None,
    balance: float = 0.5,
    n_clusters: int | None = None,
    metric: str = "cosine",
    seed: int = 0,
) -> Selection:
    """Keep a part of the examples, chosen by distance to the nearest prototype.

    Args:
        embedding: Shape (n, f): the features of each example by any model, or a file of them: an
            `.npy` array or a table of numbers.
        keep: A fraction in (0, 1], or a whole number of examples above 1.
        which: `"hard"`, the farthest; `"easy"`, the nearest; or `"random"`.
        labels: Class of each example; every class then keeps a share, see `balance`.
        balance: Smallest share that a class keeps, as a part in [0, 1] of what it would keep if
            all classes kept the same fraction.
        n_clusters: Prototypes; by default as many as classes, else √n, at most 100.
        metric: `"cosine"`: 1 − cos of the angle, of points and prototypes scaled to length 1; or
            `"euclidean"`.
        seed: Of k-means and of a random choice.

    Raises:
        ValueError: `keep`, `which`, `metric`, `balance`, `n_clusters` or `seed` is impossible.
        DataError: The embedding is not a table of finite numbers, its squares overflow, all points
            are the same, or one has no direction; all examples are equally hard; a label is
            missing.

    References:
        Sorscher et al. 2022, arXiv 2206.14486, Section 5 and Appendix C: the self-supervised
        prototype metric, with half of the balance of classes.

    Example:
        >>> import extrap
        >>> points = [[1, 0], [1, 0.01], [1, 0.02], [0, 1], [0.01, 1], [1, 1]]
        >>> extrap.select(points, keep=1 / 6, n_clusters=2).rows.tolist()
        [5]
    """
    _check_options(which=which, metric=metric, balance=balance, seed=seed)
    points = _points(embedding)
    if labels is not None:
        n_classes = len(np.unique(_classes(labels, len(points))))
        n_clusters = n_classes if n_clusters is None else n_clusters
    difficulty = np.full(len(points), math.nan)
    if which != "random":
        difficulty = _prototype_distance(points, n_clusters=n_clusters, metric=metric, seed=seed)
    return _selected(difficulty, keep=keep, which=which, labels=labels, balance=balance, seed=seed)


def _selected(
    values: Array, *, keep: float, which: str, labels: ArrayLike | None, balance: float, seed: int
) -> Selection:
    """What is kept by difficulties, nan where the choice is random; of equal ones the first."""
    n_kept = _n_kept(keep, len(values))
    if which != "random" and n_kept < len(values) and values.min() == values.max():
        raise DataError(
            f"hard and easy examples must differ in difficulty, got {values[0]:g} for all "
            f"{len(values)}; use another embedding or metric, or "
            f"{argument('which', 'random')}."
        )
    order = _order(values, which, seed)
    forced = np.zeros(len(values), dtype=bool)
    if labels is not None:
        forced = _forced(order, _classes(labels, len(values)), n_kept, balance)
    free = order[~forced[order]][: n_kept - int(forced.sum())]
    best = np.zeros(len(values), dtype=bool)
    best[order[:n_kept]] = True
    return Selection(
        rows=np.sort(np.concatenate([np.flatnonzero(forced), free])),
        difficulty=values,
        threshold=float(values[free[-1]]) if len(free) and which != "random" else None,
        which=which,
        n_balanced=int((forced & ~best).sum()),
    )


def _prototype_distance(points: Array, *, n_clusters: int | None, metric: str, seed: int) -> Array:
    """Distance of every point to the nearest k-means prototype: larger is harder."""
    from sklearn.cluster import MiniBatchKMeans

    points = _directions(points) if metric == "cosine" else points
    same = ROUNDING_ULPS * float(np.finfo(points.dtype).eps) * float(np.abs(points).max())
    if len(points) > 1 and float(np.ptp(points, axis=0).max()) <= same:
        what = "the same direction" if metric == "cosine" else "the same features"
        raise DataError(
            f"difficulty must vary between examples, got {what} in all {len(points)} rows of "
            "the embedding; use another embedding or metric."
        )
    n = len(points)
    k = min(n, MOST_CLUSTERS, max(1, round(math.sqrt(n)))) if n_clusters is None else n_clusters
    if not 1 <= k <= n:
        raise ValueError(
            f"{argument('n_clusters')} must lie between 1 and the {n} examples, got {k}; leave it "
            "out for √n."
        )
    means = MiniBatchKMeans(k, n_init=KMEANS_STARTS, batch_size=KMEANS_BATCH, random_state=seed)
    means.fit(points)
    nearest = means.predict(points)
    for i in np.unique(nearest):  # batches leave prototypes off the mean of their points
        means.cluster_centers_[i] = points[nearest == i].mean(axis=0)
    if metric == "cosine":
        centres = means.cluster_centers_
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        means.cluster_centers_ = centres / np.where(lengths > 0, lengths, 1)
    parts = [means.transform(points[i : i + CHUNK_POINTS]) for i in range(0, n, CHUNK_POINTS)]
    distance = np.concatenate([part.min(axis=1) for part in parts])
    return distance**2 / 2 if metric == "cosine" else distance


def choose_next(
    embedding: ArrayLike | Path | None,
    *,
    labelled: ArrayLike,
    n: int,
    which: str = "hard",
    difficulty: ArrayLike | None = None,
    n_clusters: int | None = None,
    metric: str = "cosine",
    seed: int = 0,
) -> Array:
    """Choose the examples to label next: one round of active learning.

    Without `difficulty`, it chooses the examples far from (or near to) the prototypes of all
    examples, labelled or not. With it, it chooses those that a model trained on the labelled ones
    finds hard, such as those of small margin, given as `difficulty=-margin`.

    Args:
        embedding: Shape (n_all, f); None where `difficulty` is given.
        labelled: Rows that already have a label; may be empty.
        n: Number of examples to choose; fewer if fewer are left.
        which: As in `select`.
        difficulty: Shape (n_all,), larger is harder.
        n_clusters: As in `select`, like the others.
        metric: Of the embedding.
        seed: Of k-means and of a random choice.

    Returns:
        Rows without a label, int64, the first choice first.

    Raises:
        ValueError: `n`, `which` or `seed` is impossible, or neither embedding nor difficulty is
            given.
        DataError: As `select`, or a labelled row is not among the examples.
    """
    if n < 1:
        raise ValueError(f"n, the number of examples to choose, must be at least 1, got {n}.")
    _check_options(which=which, seed=seed)
    if difficulty is None:
        if embedding is None:
            raise ValueError("choose_next needs an embedding or difficulty=, got neither.")
        _check_options(metric=metric)
        points = _points(embedding)
        difficulty = _prototype_distance(points, n_clusters=n_clusters, metric=metric, seed=seed)
    values = np.asarray(difficulty, dtype=float)
    labelled_rows = np.asarray(labelled, dtype=np.int64).reshape(-1)
    if len(labelled_rows) and not 0 <= labelled_rows.min() <= labelled_rows.max() < len(values):
        raise DataError(
            f"labelled rows must lie among the {len(values)} examples, got {labelled_rows.min()} "
            f"to {labelled_rows.max()}; rows count from 0."
        )
    unlabelled = np.setdiff1d(np.arange(len(values)), labelled_rows)
    return unlabelled[_order(values[unlabelled], which, seed)][:n]


def _points(embedding: ArrayLike | Path) -> Array:
    if isinstance(embedding, str | Path):
        from extrap.reading import read_embedding

        embedding, _ = read_embedding(embedding)
    points = np.asarray(embedding)
    if points.ndim != 2 or not points.size or points.dtype.kind not in "biuf":
        raise DataError(
            "an embedding must be a table of numbers with one row per example and one column "
            f"per feature, got an array of shape {points.shape} and type {points.dtype}."
        )
    points = points.astype(np.float32 if points.dtype == np.float32 else np.float64)
    bad = ~np.isfinite(points).all(axis=1)
    if bad.any():
        raise DataError(
            f"an embedding must be finite, got nan or inf in {int(bad.sum())} of "
            f"{len(points)} rows, first in row {int(np.flatnonzero(bad)[0])} (from 0); leave "
            "those examples out."
        )
    most = math.sqrt(float(np.finfo(points.dtype).max) / (4 * points.size))
    largest = float(np.abs(points).max())
    if largest > most:
        raise DataError(
            f"features of this embedding must be at most {most:.0e} in magnitude, or their "
            f"squares overflow, got {largest:.2g}; divide them by a common scale."
        )
    return points


def _directions(points: Array) -> Array:
    """Points scaled to length 1."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    if (lengths == 0).any():
        raise DataError(
            f"cosine distance needs a direction, row {int(np.flatnonzero(lengths == 0)[0])} "
            "of the embedding is all 0; leave it out, or use "
            f"{argument('metric', 'euclidean')}."
        )
    return points / lengths


def _order(values: Array, which: str, seed: int) -> Array:
    """All rows, the first choice first."""
    if which == "random":
        return np.random.default_rng(seed).permutation(len(values))
    return np.argsort(-values if which == "hard" else values, kind="stable")


def _forced(order: Array, classes: Array, n_kept: int, balance: float) -> Array:
    """Which rows are kept for the balance: the first choices of each class."""
    quota = np.floor(balance * n_kept * np.bincount(classes) / len(classes))
    forced = np.zeros(len(classes), dtype=bool)
    rank = pd.Series(classes[order]).groupby(classes[order]).cumcount()
    forced[order] = rank < quota[classes[order]]
    return forced


def _classes(labels: ArrayLike, n: int) -> Array:
    classes = np.asarray(labels)
    if classes.shape != (n,):
        raise DataError(
            f"labels must be given for each of {n} examples, got shape {classes.shape}."
        )
    missing = np.array(
        [label is None or label != label or label == "" for label in classes.tolist()]
    )
    if missing.any():
        raise DataError(
            f"every example needs a label, got none in {int(missing.sum())} of {n} rows, "
            f"first in row {int(np.flatnonzero(missing)[0])}; name the class, or leave "
            "the example out."
        )
    return np.unique(classes, return_inverse=True)[1]


def _n_kept(keep: float, n: int) -> int:
    """Examples to keep: at least one."""
    is_count = keep > 1 and float(keep).is_integer()
    if not (math.isfinite(keep) and keep > 0 and (keep <= 1 or is_count)) or keep > max(n, 1):
        raise ValueError(
            f"{argument('keep')} must be a fraction in (0, 1] or a whole number of the {n} "
            f"examples, got {keep:g}; write 0.2 for a fifth."
        )
    return int(keep) if is_count else max(1, round(keep * n))


def _check_options(**options: object) -> None:
    for name, value in options.items():
        fitted(value, OPTION_RULES[name], argument(name))
