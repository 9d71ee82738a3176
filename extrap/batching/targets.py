"""From loss curves to steps to a target, and from a sweep of rates to tuned steps.

A curve is smoothed by parabolas through ln loss over ln step in a window about each point: a
power law with a floor is nearly one there, so that its crossing hardly moves. The smoothed curve
is cut at its minimum and made to fall throughout (isotonic regression); unlike a running minimum
that does not prefer the first lucky point. The crossing is interpolated in ln step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize

from extrap.errors import DataError
from extrap.records import Runs

Array = npt.NDArray[np.float64]
SMOOTHING = 0.5
"""Half width of the window in ln step: from .6 to 1.65 times the step."""
MIN_NEIGHBOURS = 2
"""Points on either side that a window has at least, where there are that many."""
LOST = ("diverged", "failed")
SMALLEST_SPREAD = 1e-9
SMALLEST_DETERMINANT = 1e-9
"""Of moments in units of their spread: below, too few different steps for a parabola."""
FLOOR = 0.25
"""Share of the grid's spacing that an optimum is uncertain by at least (as in `optimum`)."""


def steps_to_target(
    runs: Runs,
    *,
    targets: float | Iterable[float],
    batch: str = "batch_size",
    smoothing: float = SMOOTHING,
) -> pd.DataFrame:
    """The step at which each run's smoothed loss first reaches each target.

    A target that the first point of a curve already meets counts as reached there.

    Args:
        runs: Runs with loss curves.
        targets: Losses to reach, positive.
        batch: The column of batch sizes.
        smoothing: Half width of the window in ln step; 0 takes the curve as it is.

    Returns:
        One row per run and target: the size, tuned and batch columns, `seed`, `target`, `steps`
        (NaN unless reached), `budget` (steps trained), `status`: `reached`, `censored` (not within
        the budget), `infeasible` (diverged or failed before); `is_first`: the first point of the
        curve meets the target, so that `steps` is an upper bound.

    Raises:
        DataError: The runs have no curves, or no column of that name.
        ValueError: A target or the smoothing is out of range.
    """
    wanted = [float(t) for t in ([targets] if isinstance(targets, int | float) else targets)]
    if not wanted or any(not (math.isfinite(t) and t > 0) for t in wanted):
        raise ValueError(f"targets must be positive losses, got {wanted}; name at least one.")
    if not (math.isfinite(smoothing) and smoothing >= 0):
        raise ValueError(f"smoothing must be at least 0 in ln step, got {smoothing:g}.")
    frame, curves = runs.to_frame(), runs.curves()
    if curves is None:
        raise DataError("steps to a target need loss curves, these runs have none; give curves=….")
    if batch not in frame:
        raise DataError(f"the runs have no column {batch!r}; their columns are {list(frame)}.")
    by_run = dict(iter(curves.sort_values("step", kind="stable").groupby("run")))
    kept = list(dict.fromkeys([*runs.sizes, *runs.tuned, *runs.conditions, batch, "seed"]))
    rows = []
    for i, known in enumerate(frame[kept].to_dict("records")):
        curve = _curve(by_run.get(i))
        smoothed = smooth_curve(curve.step, curve.loss, smoothing=smoothing)
        is_lost = frame["status"].iloc[i] in LOST or curve.broke
        for target in wanted:
            step = _crossing(curve.step, smoothed, target)
            is_first = step is not None and 1 < step == curve.step[0]
            status = "reached" if step is not None else "infeasible" if is_lost else "censored"
            found = {"target": target, "steps": step, "budget": curve.budget, "status": status}
            rows.append({**known, **found, "is_first": is_first})
    outcome = ["target", "steps", "budget", "status", "is_first"]
    table = pd.DataFrame(rows, columns=list(dict.fromkeys([*kept, *outcome])))
    return table.astype({"steps": float, "budget": float})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Curve:
    """The sound beginning of a curve: its steps, losses, last step, and whether it broke off."""

    step: Array
    loss: Array
    budget: float
    broke: bool


def _curve(points: pd.DataFrame | None) -> _Curve:
    if points is None or points.empty:
        return _Curve(step=np.empty(0), loss=np.empty(0), budget=math.nan, broke=False)
    step, loss = points["step"].to_numpy(float), points["loss"].to_numpy(float)
    sound = np.isfinite(loss) & (loss > 0)
    end = len(loss) if sound.all() else int(np.argmin(sound))
    first = int(np.searchsorted(step, 0, side="right"))  # ln 0 has no place on the axis
    return _Curve(
        step=step[first:end],
        loss=loss[first:end],
        budget=float(step[-1]),
        broke=end < len(loss),
    )


def smooth_curve(step: Array, loss: Array, *, smoothing: float = SMOOTHING) -> Array:
    """A loss curve smoothed and made to fall, up to its minimum; level beyond.

    Args:
        step: Positive, ascending, shape (n,).
        loss: Positive, shape (n,).
        smoothing: Half width of the window in ln step; with 0 only the rises are taken out.
    """
    if len(step) == 0:
        return np.empty(0)
    y = np.log(loss)
    smooth = _local_parabolas(np.log(step), y, smoothing) if smoothing > 0 else y
    end = int(np.argmin(smooth)) + 1
    falling = optimize.isotonic_regression(smooth[:end], increasing=False).x
    return np.asarray(np.exp(np.append(falling, np.full(len(step) - end, falling[-1]))))


def _local_parabolas(x: Array, y: Array, half: float) -> Array:
    """At each point the parabola through its neighbours, all of one weight.

    Least squares from running sums of the moments of x about each point.
    """
    n = len(x)
    if n < 3:
        return y
    place = np.arange(n)
    first = np.minimum(np.searchsorted(x, x - half), np.maximum(place - MIN_NEIGHBOURS, 0))
    last = np.maximum(
        np.searchsorted(x, x + half, side="right"), np.minimum(place + MIN_NEIGHBOURS + 1, n)
    )
    centred = x - x.mean()

    def about(values: Array) -> list[Array]:
        """Sums of values · (x − x_i)^k over the window of point i, k = 0 … 4."""
        sums = []
        for k in range(5):
            running = np.concatenate([[0.0], np.cumsum(values * centred**k)])
            sums.append(running[last] - running[first])
        return [
            np.sum([math.comb(k, j) * (-centred) ** (k - j) * sums[j] for j in range(k + 1)], 0)
            for k in range(5)
        ]

    m, t = about(np.ones(n)), about(y)
    normal = np.stack([np.stack(m[k : k + 3], axis=-1) for k in range(3)], axis=-2)
    right = np.stack(t[:3], axis=-1)
    scale = np.maximum(np.sqrt(m[2] / m[0]), SMALLEST_SPREAD)[:, None] ** np.arange(3)
    normal = normal / (scale[:, :, None] * scale[:, None, :] * m[0][:, None, None])
    solvable = np.linalg.det(normal) > SMALLEST_DETERMINANT
    safe = np.where(solvable[:, None, None], normal, np.eye(3))
    value = np.linalg.solve(safe, (right / (scale * m[0][:, None]))[..., None])[:, 0, 0]
    # a parabola through a blow-up would undershoot every loss beside it
    least = [y[i:j].min() for i, j in zip(first, last, strict=True)]
    return np.maximum(np.where(solvable, value, t[0] / m[0]), least)


def _crossing(step: Array, loss: Array, target: float) -> float | None:
    """First step at which a falling curve is at the target; None if it never is."""
    if len(loss) == 0 or loss[-1] > target:
        return None
    i = int(np.argmax(loss <= target))
    if i == 0 or loss[i] == loss[i - 1]:
        return float(step[i])
    share = math.log(loss[i - 1] / target) / math.log(loss[i - 1] / loss[i])
    return float(step[i - 1] * (step[i] / step[i - 1]) ** share)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tuned:
    """One group, target and batch size, its rate tuned.

    Attributes:
        log_steps: Per seed, ln of the steps at the best rate; empty where none reached the target.
        late: Per seed that did not reach it at that rate, ln of the steps it was given.
        is_first: Whether a seed met the target at the first point of its curve.
    """

    known: Mapping[str, Any]
    log_steps: Mapping[Any, float]
    late: Mapping[Any, float]
    is_first: bool
    lr_opt: float
    lr_se: float
    at_edge: str
    counts: Mapping[str, int]
    budget: float

    @property
    def status(self) -> str:
        if self.log_steps and not self.late:
            return "reached"
        return "censored" if self.late or self.counts["censored"] else "infeasible"


def tuned_steps(
    table: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    batch: str = "batch_size",
    tune: str = "lr",
    seed: str = "seed",
) -> pd.DataFrame:
    """Steps to each target at the best rate, tuned again at every batch size.

    A rate counts where all its seeds reached the target: the mean of their ln steps. A parabola in
    ln rate through the best one and its neighbours gives the optimum; a rate with a seed that did
    not is counted, never given a number, and bounds the optimum on its side. Where every rate has
    such a seed, the one at which most seeds reach the target stands, and the others are bounds.

    The rate is chosen on the seeds whose steps are known. With three seeds and 5 % between them
    steps are short by about 1.5 % for that, with one seed by 6 %.

    Args:
        table: What `steps_to_target` returns, or a table of its kind.
        by: Columns that set groups apart, such as the size.
        batch: The column of batch sizes.
        tune: The column of rates.
        seed: The column of seeds.

    Returns:
        One row per group, target and batch size: `steps`, `log_steps_se` (from the seeds; NaN for
        one), `lr_opt`, `lr_se` (of ln rate), `at_edge`, `warning`, `n_reached`, `n_censored`,
        `n_infeasible`, `n_runs`, `budget`, `status`, `is_censored`: then no rate reached the
        target with all its seeds and `steps` is a lower bound; NaN where all runs were lost.
        `critical_batch` takes the table as it is, with `by=[*by, "target"]`.
    """
    rows = []
    for cell in _cells(table, by=by, batch=batch, tune=tune, seed=seed):
        logs = np.array([*cell.log_steps.values(), *cell.late.values()])
        n, is_censored = len(cell.log_steps), cell.status == "censored"
        bound = cell.budget if is_censored else math.nan
        rows.append(
            {
                **cell.known,
                "steps": float(np.exp(logs.mean())) if n else bound,
                "log_steps_se": math.nan
                if is_censored or n < 2
                else float(logs.std(ddof=1) / math.sqrt(n)),
                tune + "_opt": cell.lr_opt,
                tune + "_se": cell.lr_se,
                "at_edge": bool(cell.at_edge),
                "warning": _warning(cell, tune),
                **{f"n_{name}": count for name, count in cell.counts.items()},
                "n_runs": sum(cell.counts.values()),
                "budget": cell.budget,
                "status": cell.status,
                "is_censored": is_censored,
            }
        )
    return pd.DataFrame(rows)


def seed_steps(
    table: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    batch: str = "batch_size",
    tune: str = "lr",
    seed: str = "seed",
) -> pd.DataFrame:
    """The same as `tuned_steps`, one row per seed: its steps at the common best rate.

    The replicates that `critical_batch` wants. A batch size at which no rate reached the target
    has one row without steps and with its budget; a seed that did not at the best rate likewise.

    Returns:
        The `by` columns, `target`, batch and seed columns, `steps`, `budget`, `status`.
    """
    rows = []
    for cell in _cells(table, by=by, batch=batch, tune=tune, seed=seed):
        known = {**cell.known, "budget": cell.budget, "status": cell.status}
        if not cell.log_steps:
            rows.append({**known, seed: None, "steps": math.nan})
        known["status"] = "reached"
        rows += [{**known, seed: s, "steps": math.exp(y)} for s, y in cell.log_steps.items()]
        known["status"] = "censored"
        rows += [
            {**known, seed: s, "steps": math.nan, "budget": math.exp(y)}
            for s, y in cell.late.items()
        ]
    return pd.DataFrame(rows)


def _cells(
    table: pd.DataFrame, *, by: Sequence[str], batch: str, tune: str, seed: str
) -> list[_Tuned]:
    keys = [*by, *(["target"] if "target" in table else []), batch]
    needed = [*keys, tune, seed, "steps", "budget", "status"]
    if missing := [name for name in needed if name not in table]:
        raise DataError(
            f"tuned steps need the column(s) {missing}; the table has {list(table)}; make it "
            "with steps_to_target."
        )
    if table.duplicated([*keys, tune, seed]).any():
        raise DataError(
            f"each group, target, batch size, {tune} and {seed} must have one row, some "
            "have more; name the columns in which they differ in by=…."
        )
    return [
        _tune(dict(zip(keys, key, strict=True)), rows, tune=tune, seed=seed)
        for key, rows in table.groupby(keys, sort=True)
    ]


def _tune(known: Mapping[str, Any], rows: pd.DataFrame, *, tune: str, seed: str) -> _Tuned:
    status = rows["status"].value_counts()
    counts = {name: int(status.get(name, 0)) for name in ("reached", "censored", "infeasible")}
    late = rows[rows["status"] != "infeasible"]
    budget = float(late["budget"].min()) if len(late) else math.nan
    logs = np.log(rows.assign(steps=rows["steps"].where(rows["status"] == "reached"))["steps"])
    grid = rows.assign(y=logs).pivot(index=tune, columns=seed, values="y").sort_index()
    all_reached = grid.notna().all(axis=1).to_numpy()
    if not all_reached.any():
        return _partly(known, rows, grid, counts=counts, budget=budget, tune=tune, seed=seed)
    x, y = np.log(grid.index.to_numpy(dtype=float)), grid.to_numpy()
    best = int(np.argmin(np.where(all_reached, y.mean(axis=1), np.inf)))
    at_edge = "low" if best == 0 else "high" if best == len(x) - 1 else ""
    around = slice(best - 1, best + 2)
    if at_edge or not all_reached[around].all():
        weights, lr, se = np.array([1.0]), float(x[best]), _gap(x, best) / 2
        around = slice(best, best + 1)
    else:
        weights, lr, se = _vertex(x[around], y[around])
    seeds = weights @ y[around]
    return _Tuned(
        known=known,
        log_steps=dict(zip(grid.columns, map(float, seeds), strict=True)),
        late={},
        is_first=_is_first(rows, tune, [grid.index[best]]),
        lr_opt=math.exp(lr),
        lr_se=se,
        at_edge=at_edge,
        counts=counts,
        budget=budget,
    )


def _partly(
    known: Mapping[str, Any],
    rows: pd.DataFrame,
    grid: pd.DataFrame,
    *,
    counts: Mapping[str, int],
    budget: float,
    tune: str,
    seed: str,
) -> _Tuned:
    """Where every rate has a seed that did not reach the target: the rate with most that did.

    A rate at which a seed is lost is none to train at, whatever the others reached.
    """
    lost = rows.loc[rows["status"] == "infeasible", tune]
    whole = grid[~grid.index.isin(lost)]
    n_reached = whole.notna().sum(axis=1)
    most = whole[(n_reached == n_reached.max()) & (n_reached > 0)].mean(axis=1)
    lr = most.idxmin() if len(most) else math.nan
    here = rows[(rows[tune] == lr) & (rows["status"] == "censored")]
    log_steps = whole.loc[lr].dropna() if len(most) else {}
    return _Tuned(
        known=known,
        log_steps={s: float(y) for s, y in log_steps.items()},
        late={s: math.log(b) for s, b in zip(here[seed], here["budget"], strict=True)},
        is_first=False,
        lr_opt=math.nan,
        lr_se=math.nan,
        at_edge="",
        counts=counts,
        budget=budget,
    )


def _is_first(rows: pd.DataFrame, tune: str, rates: Sequence[float]) -> bool:
    """Whether a seed at one of the rates met the target at the first point of its curve."""
    if "is_first" not in rows:
        return False
    return bool(rows.loc[rows[tune].isin(list(rates)), "is_first"].any())


def _gap(x: Array, i: int) -> float:
    """Distance to the nearest neighbour on the grid; 0 of a single value."""
    return float(np.abs(np.delete(x, i) - x[i]).min()) if len(x) > 1 else 0.0


def _vertex(x: Array, y: Array) -> tuple[Array, float, float]:
    """Where the parabola through three mean points is least.

    Args:
        x: ln rate, shape (3,), the middle one best.
        y: ln steps, shape (3, n_seeds).

    Returns:
        Weights of the three points in the value there, the place, and its standard error: from
        the scatter of the seeds about their common parabola, and a share of the spacing.
    """
    to_parabola = np.linalg.inv(np.vander(x - x[1], 3))  # y → (curvature, slope, value)
    c, b, _ = to_parabola @ y.mean(axis=1)
    u = -b / (2 * c) if c > 0 else 0.0
    weights = np.array([u * u, u, 1.0]) @ to_parabola
    se = FLOOR * float(np.diff(x).min())
    n_seeds = y.shape[1]
    if n_seeds > 1 and c > 0:
        gradient = (-to_parabola[1] - 2 * u * to_parabola[0]) / (2 * c)
        se = math.hypot(se, float(np.std(gradient @ y, ddof=1)) / math.sqrt(n_seeds))
    return weights, float(x[1] + u), se


def _warning(cell: _Tuned, tune: str) -> str:
    if not cell.log_steps:
        return ""
    if cell.at_edge:
        side = "smaller" if cell.at_edge == "low" else "larger"
        return (
            f"the best {tune} is at the edge of its grid, so steps are a bound: try {side} values"
        )
    if cell.is_first:
        return (
            "the first point of a curve reaches the target, so steps are a bound: evaluate earlier"
        )
    return ""
