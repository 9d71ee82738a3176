"""The table of training runs, one row per run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.files import as_written
from extrap.records.fields import LARGEST_LOSS
from extrap.records.numbers import counted, format_quantity, plain

STATUSES = ("complete", "diverged", "pruned", "failed")
"""How a run can have ended."""
STAGES = ("tune", "check")
"""What a run belongs to: the sweep, or the larger runs after the forecast was sealed."""
ONLY_SIZE = "only size"
"""Size column, 1 throughout, of runs of one size which no column names."""
LOSS_KINDS = ("nats", "bits", "error", "accuracy", "other")
"""What a loss can be: nats or bits per token, an error rate, what an accuracy leaves, none of
these."""
WITHOUT_SEED = "row-"
"""How the seed of a run begins whose seed nobody gave."""
MOST_NAME_CHARACTERS = 100
"""Characters of the name of a column that plays a part."""
FAR_TIMES_QUARTILE = 1e8
"""Times the lower quartile of the losses of a sweep, beyond which a run has diverged. A network
before training is at most a million times worse than a trained one (a mean squared error of 1
against 1e-6), and one that is merely mistuned at most a hundred times worse than that. Forecasts
need no less: between 100 and 1e8 times the others a loss moves them by less than a hundredth."""
QUARTILE = 0.25
"""As long as that many of the runs are sound, runs that blew up do not set the scale."""
MOST_NAMED = 8
"""Runs that a note names; of more their number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """A validated tidy table of training runs, in the order they were given.

    Columns: the size and tuned columns, `loss`, `seed`, `status` (`complete`, `diverged`,
    `pruned`, `failed`), `stage` (`tune`: the sweep, the only rows a fit uses; `check`: larger
    runs to judge), the conditions, and all other columns of the source. The loss is NaN unless the
    run is complete.

    Build it with `Runs.from_frame` or `extrap.read_runs`; `to_frame()` returns a copy.

    Attributes:
        sizes: Size columns; of two, the first is the model (N), the second the data (D).
        tuned: Tuned columns.
        conditions: Recipe columns that must not vary within a sweep.
        source: Where the runs came from.
        notes: What reading had to decide, one sentence each.
    """

    _frame: pd.DataFrame
    _curves: pd.DataFrame | None = None
    sizes: tuple[str, ...]
    tuned: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        sizes: Iterable[str],
        tuned: Iterable[str] = (),
        conditions: Iterable[str] = (),
        curves: pd.DataFrame | None = None,
        source: str = "",
        notes: Iterable[str] = (),
    ) -> Runs:
        """Wrap a copy of a table that already has every required column.

        Args:
            frame: One row per run; see the class for its columns. `status` and `stage` may be
                left out: `complete` (`diverged` for a non-finite loss) and `tune` are assumed.
                A complete run with a loss above `loss_ceiling` of its stage becomes diverged; a
                note names it.
            sizes: Names of the size columns, at least one.
            tuned: Names of the tuned columns.
            conditions: Names of the recipe columns.
            curves: Long table with columns `run` (row position), `step`, `loss`.
            source: Where the runs came from.
            notes: What reading had to decide.

        Raises:
            DataError: A column is missing, a size or tuned value is not positive, a status or
                stage is unknown, or a loss is not positive.
        """
        frame = frame.reset_index(drop=True).copy()
        if "seed" not in frame:
            frame["seed"] = range(len(frame))
        if "loss" in frame and "status" not in frame:
            frame["status"] = np.where(np.isfinite(frame["loss"]), "complete", "diverged")
        if "stage" not in frame:
            frame["stage"] = "tune"
        sizes, tuned = tuple(sizes), tuple(tuned)
        far = _mark_far(frame, (*sizes, *tuned, "seed"))
        return cls(
            _frame=frame,
            _curves=None if curves is None else curves.copy(),
            sizes=sizes,
            tuned=tuned,
            conditions=tuple(conditions),
            source=source,
            notes=(*notes, *far),
        )

    def __post_init__(self) -> None:
        frame = self._frame
        if not self.sizes:
            raise DataError(
                f"runs need at least one size column; name it with {argument('size', ...)}."
            )
        _require_names((*self.sizes, *self.tuned, *self.conditions))
        needed = (*self.sizes, *self.tuned, *self.conditions, "loss", "seed", "status", "stage")
        missing = [name for name in needed if name not in frame]
        if missing:
            raise DataError(f"runs need the column(s) {missing}; the table has {list(frame)}.")
        for allowed, column in ((STATUSES, "status"), (STAGES, "stage")):
            unknown = sorted({str(value) for value in frame[column].unique()} - set(allowed))
            if unknown:
                raise DataError(
                    f"{column} must be one of {', '.join(allowed)}; got {unknown[0]!r}."
                )
        for column in self.sizes:
            _require_positive(frame, column)
        for column in self.tuned:  # a check run may not know its tuned values
            _require_positive(frame[frame["stage"].eq("tune") | frame[column].notna()], column)
        complete = frame["status"].eq("complete")
        if not np.isfinite(frame.loc[complete, "loss"]).all():
            raise DataError(
                "a complete run must have a finite loss; mark the others diverged or failed."
            )
        if (frame.loc[complete, "loss"] <= 0).any():
            row = int(frame.index[complete & frame["loss"].le(0)][0])
            raise DataError(
                "losses must be positive (nats, an error rate, …), got "
                f"{frame.loc[row, 'loss']:g} in row {row + 1}, {self.run_words(row)}; shift or "
                "rescale the metric, or leave the run out."
            )
        frame.loc[~complete, "loss"] = np.nan

    def __len__(self) -> int:
        return len(self._frame)

    def __repr__(self) -> str:
        status = self._frame["status"].value_counts()
        counts = ", ".join(f"{status[name]} {name}" for name in STATUSES if name in status)
        source = f"; source {self.source!r}" if self.source else ""
        return plain(f"Runs({'; '.join([counts or 'empty', *self._reach()])}{source})")

    def _reach(self) -> list[str]:
        """What the columns that play a part range over."""
        table = self._frame
        reach = []
        for name in (*self.sizes, *self.tuned):
            values = sorted(table[name].dropna().unique())
            ends = "–".join(
                format_quantity(value) for value in dict.fromkeys(values[:1] + values[-1:])
            )
            reach.append(f"{name} {ends} ({counted(len(values), 'value')})")
        reach.append(counted(table["seed"].nunique(), "seed"))
        stages = table["stage"].value_counts()
        if "check" in stages:
            reach.append(", ".join(f"{stages[name]} of stage {name}" for name in stages.index))
        if self._curves is not None and len(self._curves):
            reach.append(f"{self._curves['run'].nunique()} with a loss curve")
        return reach

    def run_words(self, row: int) -> str:
        """`width=64, lr=0.1, seed=0`: what names a run."""
        return _run_words(self._frame, row, (*self.sizes, *self.tuned, "seed"))

    def to_frame(self) -> pd.DataFrame:
        """A copy of the table, one row per run, in the order given."""
        return self._frame.copy()

    def curves(self) -> pd.DataFrame | None:
        """A copy of the loss curves (`run`: row position, `step`, `loss`), or None."""
        return None if self._curves is None else self._curves.copy()

    def of_stage(self, stage: str) -> Runs:
        """Only the rows of one stage."""
        return self._subset(self._frame["stage"].eq(stage))

    def complete(self) -> Runs:
        """Only the rows that have a loss."""
        return self._subset(self._frame["status"].eq("complete"))

    def without_copies(self) -> Runs:
        """One of each set of rows that agree in size, tuned values, status, stage and loss."""
        same = [*self.sizes, *self.tuned, "status", "stage", "loss"]
        return self._subset(~self._frame.duplicated(same))

    def with_seedless_once(self) -> Runs:
        """`without_copies` where no run has a seed of its own: a copy would pass for a seed."""
        seeds = self._frame["seed"].map(str)
        return self.without_copies() if seeds.str.startswith(WITHOUT_SEED).all() else self

    def without_rows(self, rows: Iterable[int]) -> Runs:
        """All rows but those at these positions."""
        return self._subset(~self._frame.index.isin(list(rows)))

    def counts(self) -> dict[str, int]:
        """Number of rows by status, and `replicates`: rows that repeat an earlier row's cell."""
        status = self._frame["status"].value_counts()
        cells = [*self.sizes, *self.tuned, "seed"]
        return {
            "runs": len(self._frame),
            **{name: int(status.get(name, 0)) for name in STATUSES},
            "replicates": int(self._frame.duplicated(cells).sum()),
        }

    def canonical(self, *, also: Iterable[str] = ()) -> pd.DataFrame:
        """The columns a fit depends on, sorted: the same table whatever order the rows came in.

        Args:
            also: Further columns, where there are any of that name.
        """
        columns = [*self.sizes, *self.tuned, "seed", "status", "loss", *self.conditions]
        columns += [
            c
            for c in ("loss_se", "seed_sd", "n_seeds", *also)
            if c in self._frame and c not in columns
        ]
        return self._frame.loc[self._order(), columns].reset_index(drop=True)

    def in_order(self) -> Runs:
        """The same rows in the order of `canonical`: sums then come out alike to the last bit."""
        return self._subset(self._order())

    def data_hash(self) -> str:
        """SHA-256 of the canonical table; times and costs are left out."""
        text = self.canonical().to_csv(index=False, float_format="%.12g", lineterminator="\n")
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def beside(self, sweep: Runs) -> Runs:
        """The same runs, those diverged that have a loss above the ceiling of a sweep."""
        frame = self.to_frame()
        far = frame["loss"] > loss_ceiling(sweep.complete().to_frame()["loss"])
        return replace(self, _frame=frame.assign(status=frame["status"].mask(far, "diverged")))

    def _order(self) -> pd.Index:
        """Row labels sorted by size, tuned values, seed, status and loss."""
        by = [*self.sizes, *self.tuned, "seed", "status", "loss"]
        rows = self._frame[by].sort_values(
            by, key=lambda c: text_ranks(c) if c.dtype == object else c, kind="stable"
        )
        return rows.index

    def _subset(self, keep: pd.Series | pd.Index | np.ndarray) -> Runs:
        frame = self._frame.loc[keep]
        curves = self._curves
        if curves is not None:
            position = {int(old): new for new, old in enumerate(frame.index)}
            curves = curves[curves["run"].isin(position.keys())].copy()
            curves["run"] = curves["run"].map(position)
        subset = copy(self)  # rows of a table that was looked at need no second look
        object.__setattr__(subset, "_frame", frame.reset_index(drop=True))
        object.__setattr__(subset, "_curves", curves)
        return subset


def loss_ceiling(losses: Iterable[float]) -> float:
    """The loss above which a run has diverged, though its loss is a number.

    It is `FAR_TIMES_QUARTILE` times the lower quartile of the losses, of those alone that are not
    above it; and at most `LARGEST_LOSS` unless all are above that. The unit of the losses does not
    matter, nor their order.

    Args:
        losses: Of the complete runs of a sweep.

    Example:
        >>> loss_ceiling([2.0, 2.1, 2.5, 4.9e298])
        200000000.0
    """
    within = np.sort(np.fromiter(losses, dtype=float))
    ceiling, n_before = math.inf, -1
    while len(within) and len(within) != n_before:
        n_before = len(within)
        ceiling = FAR_TIMES_QUARTILE * float(np.quantile(within, QUARTILE, method="lower"))
        ceiling = min(ceiling, LARGEST_LOSS) if within[0] <= LARGEST_LOSS else ceiling
        within = within[within <= ceiling]
    return ceiling


def _mark_far(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Complete runs above the ceiling of their stage are diverged; a note on them."""
    if not {"loss", "status", "stage", *names} <= set(frame):
        return []
    notes = []
    for stage in STAGES:
        losses = frame.loc[frame["status"].eq("complete") & frame["stage"].eq(stage), "loss"]
        ceiling = loss_ceiling(losses[losses > 0])
        far = losses[losses > ceiling]
        far = far[np.isfinite(far)]
        if far.empty:
            continue
        frame.loc[far.index, "status"] = "diverged"
        rows = [f"{_run_words(frame, row, names)} ({loss:.3g})" for row, loss in far.items()]
        more = f"; and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
        notes.append(
            f"{len(rows)} run(s) count as diverged, with a loss above {ceiling:.3g} "
            f"({FAR_TIMES_QUARTILE:g} times the lower quartile of the losses): "
            f"{'; '.join(rows[:MOST_NAMED])}{more}"
        )
    return notes


def _run_words(frame: pd.DataFrame, row: int, names: Sequence[str]) -> str:
    values = ((name, frame.loc[row, name]) for name in names)
    return ", ".join(f"{n}={v:g}" if isinstance(v, float) else f"{n}={v}" for n, v in values)


def condition_text(value: object) -> str:
    """A condition as text; numbers that are equal read the same (`1`, `1.0`, `"1"`)."""
    text = "" if value is None or value is pd.NA else str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text or "empty"
    return "empty" if np.isnan(number) else f"{number:.12g}"


def text_ranks(values: pd.Series) -> np.ndarray:
    """The place of each value among the distinct ones in the order of their text."""
    codes, distinct = pd.factorize(values, use_na_sentinel=False)
    texts = pd.Series(distinct, dtype=object).astype(str)
    return texts.rank(method="dense").to_numpy()[codes]


def _require_names(names: Iterable[str]) -> None:
    for name in names:
        if not 0 < len(name) <= MOST_NAME_CHARACTERS or as_written(name) != name or "\n" in name:
            raise DataError(
                f"a column's name must have 1 to {MOST_NAME_CHARACTERS} visible characters, got "
                f"{name[:MOST_NAME_CHARACTERS]!r}; rename the column."
            )


def _require_positive(frame: pd.DataFrame, column: str) -> None:
    values = frame[column].to_numpy(dtype=float)
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        row = int(frame.index[bad][0])
        raise DataError(
            f"{column} must be positive and finite, got {values[bad][0]:g} in row {row + 1}; "
            "laws use its logarithm."
        )
