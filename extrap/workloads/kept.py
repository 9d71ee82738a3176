"""Which of its examples a run keeps: so many different ones, chosen by difficulty or at random.

A run with the size column `examples` trains on that many different examples, however long it
trains. Which ones is the seed's: it draws the pool they are chosen from. All seeds draw from the
same examples, so their pools overlap, wholly where a pool is all there is: runs differ in their
data in part, and never in data set, teacher or held-out part. The pool of a larger number holds
that of a smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from extrap.selection import choose_next, select_by
from extrap.workloads.protocol import POOL_STREAM, LoadedWorkload

Array = np.ndarray
CHOICES = ("random", "hard", "easy", "active")
IDLE = {"width": 0, "difficulty": "prototypes"}
"""Further options of single workloads, with the values at which they do nothing."""
FIRST_LABELS, GROWTH = 20, 1.25
"""Examples an active learner takes at random, and by what the labelled ones grow a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOptions:
    """Options of every workload that can choose its examples.

    Attributes:
        keep: Fraction of the pool that is kept, in (0, 1]: for n kept examples the pool has
            n / keep.
        select: `"random"`; `"hard"` or `"easy"`, by the workload's measure of difficulty; or
            `"active"`: labelled round by round, the ones that a linear model of those labelled so
            far doubts most.
        pool: Examples to choose from whatever is kept; 0 for kept / keep.
        balance: Part of its share that every class keeps at least, in [0, 1], where a choice by
            difficulty knows classes.
    """

    keep: float = 1.0
    select: str = "random"
    pool: int = 0
    balance: float = 0.5


class SelectingWorkload(LoadedWorkload, Protocol):
    """A workload that can restrict a run to some of its examples; optional in one of your own."""

    def kept_rows(self, n_examples: int | None, seed: int) -> Array | None:
        """Rows of the examples a run has, int64 of shape (n,), as `draw` counts them.

        Args:
            n_examples: How many; None for as many as its options keep.
            seed: The run's.

        Returns:
            None if it has all of them.
        """


class Choice:
    """Chooses the examples of a run as the options say.

    Args:
        name: Of the workload, for messages.
        options: What is kept.
        n_training: Examples there are.
        difficulty: Rows of a pool and a seed → the difficulty of each.
        labels: Class of each training example, for the balance; None without.
        doubts: Labelled rows and those of a pool → the doubts of a model of the former about the
            latter; None where `"active"` is not offered.

    Raises:
        ValueError: An option is impossible.
    """

    def __init__(
        self,
        name: str,
        options: SelectOptions,
        *,
        n_training: int,
        difficulty: Callable[[Array, int], Array] | None = None,
        labels: Array | None = None,
        doubts: Callable[[Array, Array], Array] | None = None,
    ) -> None:
        self._name, self._options, self._n_training = name, options, n_training
        self._difficulty, self._labels, self._doubts = difficulty, labels, doubts
        self._found: dict[tuple[int | None, int], Array | None] = {}
        self._rounds: dict[int, Array] = {}
        allowed = [c for c in CHOICES if c != "active" or doubts is not None]
        if options.select not in allowed:
            raise ValueError(
                f"select of {name} must be one of {', '.join(allowed)}, got {options.select!r}."
            )
        if not 0 < options.keep <= 1:
            raise ValueError(
                f"keep of {name} must be a fraction of the pool in (0, 1], got {options.keep:g}."
            )
        if options.balance > 1:
            raise ValueError(f"balance of {name} must be at most 1, got {options.balance:g}.")
        if options.pool and options.keep < 1:
            raise ValueError(
                f"the pool of {name} is set by keep or by pool, got keep={options.keep:g} and "
                f"pool={options.pool}; leave one out."
            )
        if options.select == "active" and not options.pool:
            raise ValueError(
                f"select='active' of {name} needs a fixed pool, got none; set pool, at most "
                f"{n_training}."
            )

    def rows(self, n_examples: int | None, seed: int) -> Array | None:
        """As `SelectingWorkload.kept_rows`; computed once.

        Raises:
            ValueError: More examples are asked for than there are.
        """
        key = n_examples, seed
        if key not in self._found:
            self._found[key] = self._rows(n_examples, seed)
        return self._found[key]

    def _rows(self, n_examples: int | None, seed: int) -> Array | None:
        options = self._options
        n_pool = options.pool or self._n_training
        if n_examples is None:
            n_examples = round(options.keep * n_pool)
            if n_examples == self._n_training:
                return None
        elif not options.pool:
            n_pool = round(n_examples / options.keep)
        if not 1 <= n_examples <= n_pool <= self._n_training:
            raise ValueError(
                f"{self._name} has {self._n_training} examples, got a request for "
                f"{n_examples} of {n_pool} with keep={options.keep:g} and "
                f"pool={options.pool}; ask for fewer, or keep more."
            )
        pool = np.random.default_rng(seed + POOL_STREAM).permutation(self._n_training)[:n_pool]
        if options.select == "random" or n_examples == n_pool:
            return pool[:n_examples]
        if options.select == "active":
            return self._labelled(pool, n_examples, seed)
        assert self._difficulty is not None
        chosen = select_by(
            self._difficulty(pool, seed),
            keep=n_examples / n_pool,
            which=options.select,
            labels=None if self._labels is None else self._labels[pool],
            balance=options.balance,
        )
        return pool[chosen.rows]

    def _labelled(self, pool: Array, n: int, seed: int) -> Array:
        """What an active learner has labelled, the first first; of more it is the beginning."""
        assert self._doubts is not None
        labelled = self._rounds.get(seed, np.arange(min(FIRST_LABELS, len(pool))))
        while len(labelled) < n:
            more = min(round(len(labelled) * GROWTH), len(pool)) - len(labelled)
            doubts = self._doubts(pool[labelled], pool)
            chosen = choose_next(None, labelled=labelled, n=more, difficulty=doubts)
            labelled = np.concatenate([labelled, chosen])
        self._rounds[seed] = labelled
        return pool[labelled[:n]]


def known_options(options: object) -> dict[str, str | int | float]:
    """Options for a fingerprint, without those that say nothing."""
    idle = {**asdict(SelectOptions()), **IDLE}
    given = asdict(options)  # type: ignore[call-overload]
    return {k: v for k, v in given.items() if k not in idle or v != idle[k]}


def take_rows(
    workload: LoadedWorkload, n_examples: int | None, seeds: list[int]
) -> list[Array] | None:
    """The rows that each seed keeps; None if every run has all examples.

    Raises:
        ValueError: The workload cannot restrict its examples, and it should.
    """
    kept_rows = getattr(workload, "kept_rows", None)
    if kept_rows is None:
        if n_examples is None:
            return None
        raise ValueError(
            "the size column 'examples' needs a workload with kept_rows(n_examples, seed), got a "
            f"{type(workload).__name__} without; derive it from extrap.workloads.TensorWorkload."
        )
    rows = [kept_rows(n_examples, seed) for seed in seeds]
    return None if rows[0] is None else rows
