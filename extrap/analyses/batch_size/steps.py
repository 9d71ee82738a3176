"""Steps to a target: from loss curves, and tuned at every batch size as the loss of a sweep.

A curve is made to fall throughout (isotonic regression); unlike a running minimum that does not
prefer the first lucky point. The crossing is interpolated in ln step and ln loss, monotonically
(Fritsch, Carlson 1980): straight pieces through a convex curve cross late.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import interpolate, optimize

from extrap.errors import DataError
from extrap.fitting.surface.fitted_sizes import fit_sweep, seed_losses
from extrap.laws.base import Array
from extrap.records import Optimum, Runs

LOST_STATUSES = ("diverged", "failed")
"""Statuses of runs that are infeasible unless they reached the target before."""
RATE_LEVEL = 0.95
"""Level of the intervals of best rates, which are not read."""
LEAST_REACHED_SHARE = 0.5
"""Share of the seeds of some rate, above which a batch size has reached a target."""


def steps_to_target(
    runs: Runs, *, targets: float | Iterable[float], batch: str = "batch_size"
) -> pd.DataFrame:
    """The step at which each run's loss, made to fall, first reaches each target.

    Args:
        runs: Runs with loss curves.
        targets: Losses to reach, positive. One that the first point of a curve already meets
            counts as reached there.
        batch: The column of batch sizes.

    Returns:
        One row per run and target: the size, tuned and batch columns, `seed`, `target`, `steps`
        (NaN unless reached), `budget` (steps trained), `status`: `reached`, `censored` (not within
        the budget), `infeasible` (diverged or failed before).

    Raises:
        DataError: The runs have no curves, or no column of that name.
        ValueError: A target is out of range.
    """
    target_losses = [
        float(t) for t in ([targets] if isinstance(targets, int | float) else targets)
    ]
    if not target_losses or any(not (math.isfinite(t) and t > 0) for t in target_losses):
        raise ValueError(
            f"targets must be positive losses, got {target_losses}; name at least one."
        )
    frame, curves = runs.to_frame(), runs.curves()
    if curves is None:
        raise DataError("steps to a target need loss curves, these runs have none; give curves=….")
    if batch not in frame:
        raise DataError(f"the runs have no column {batch!r}; their columns are {list(frame)}.")
    by_run = dict(iter(curves.sort_values("step", kind="stable").groupby("run")))
    names = list(dict.fromkeys([*runs.sizes, *runs.tuned, *runs.conditions, batch, "seed"]))
    rows = []
    for i, run in enumerate(frame[names].to_dict("records")):
        points = by_run.get(i, curves.iloc[:0])
        step, loss = points["step"].to_numpy(float), points["loss"].to_numpy(float)
        budget = float(step[-1]) if len(step) else math.nan
        is_sound = np.cumprod(np.isfinite(loss) & (loss > 0)).astype(bool)
        is_lost = frame["status"].iloc[i] in LOST_STATUSES or not is_sound.all()
        is_sound &= step > 0  # ln 0 has no place on the axis
        step, loss = step[is_sound], loss[is_sound]
        for target in target_losses:
            steps = _crossing(step, loss, target)
            status = "reached" if steps is not None else "infeasible" if is_lost else "censored"
            outcome = {"target": target, "steps": steps, "budget": budget, "status": status}
            rows.append({**run, **outcome})
    columns = list(dict.fromkeys([*names, "target", "steps", "budget", "status"]))
    return pd.DataFrame(rows, columns=columns).astype({"steps": float, "budget": float})


def _crossing(step: Array, loss: Array, target: float) -> float | None:
    """First step at which a loss made to fall is at the target; None if it never is."""
    if not len(loss) or loss.min() > target:
        return None
    end = int(np.argmin(loss)) + 1
    falls = optimize.isotonic_regression(np.log(loss[:end]), increasing=False).x
    level, block = np.unique(-falls, return_inverse=True)
    log_step = np.bincount(block, np.log(step[:end])) / np.bincount(block)
    target_level = max(-math.log(target), level[0])
    if (
        len(level) < 2 or target_level > level[-1]
    ):  # the last points are no lower than those before
        return float(np.exp(log_step[-1]))
    return float(np.exp(interpolate.PchipInterpolator(level, log_step)(target_level)))


def tuned_steps(
    table: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    batch: str = "batch_size",
    tune: str = "lr",
    seed: str = "seed",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Steps to each target at the best rate, tuned again at every batch size.

    In each group, and for each target, steps are the loss of a sweep whose size is the batch:
    `extrap.fitting.surface`. A run that did not reach the target counts as one that diverged: it
    is never a number and tells where such runs begin. Where the best rate lies beyond those that
    reached the target, steps are those of the best of these, an upper bound.

    The rate is chosen on the seeds whose steps are known. With three seeds and 5 % between them
    steps are short by about 1.5 % for that, with one seed by 6 %.

    Args:
        table: What `steps_to_target` returns, or a table of its kind.
        by: Columns that set groups apart, such as the size; numbers.
        batch: The column of batch sizes.
        tune: The column of rates.
        seed: The column of seeds.

    Returns:
        One row per group, target and batch size: `steps` (geometric mean of the seeds; the budget
        where it is `censored`: no rate reached the target with most of its seeds; NaN where runs
        were lost for other reasons), `lr_opt` and `lr_se` (of ln rate), NaN without an optimum
        among the rates that reached it, `edge` (`low`, `high` or empty: the side on which these
        end), `at_edge`, `budget`, `status`. And by seed, as `critical_batch` takes them with
        `by=[*by, "target"]`: `steps`, `budget`, `status`.

    Raises:
        DataError: A column is missing, or a rate and seed have more than one row.
    """
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
    optima = _optima(table, keys, tune=tune, seed=seed)
    rows, by_seed = [], []
    for key, cell in table.groupby(keys, sort=True):
        key_columns = dict(zip(keys, key, strict=True))
        optimum, steps = optima.get(tuple(map(float, key)), (None, {}))
        late = cell[cell["status"] != "infeasible"]
        budget = float(late["budget"].min()) if len(late) else math.nan
        is_censored = not steps and bool((cell["status"] == "censored").any())
        rate, rate_se, edge = _best_rate(optimum, tune)
        logs = np.array([*steps.values()])
        typical = float(np.exp(logs.mean())) if steps else budget if is_censored else math.nan
        status = "reached" if steps else "censored" if is_censored else "infeasible"
        outcome = {"budget": budget, "status": status}
        rows.append(
            {
                **key_columns,
                "steps": typical,
                f"{tune}_opt": rate,
                f"{tune}_se": rate_se,
                "edge": edge,
                "at_edge": bool(edge),
                **outcome,
            }
        )
        # the budget is that of the run of the cell that ended first
        by_seed += [
            {**key_columns, seed: s, "steps": n, **outcome, "budget": max(budget, n)}
            for s, n in ((s, math.exp(y)) for s, y in steps.items())
        ]
        if not steps:
            by_seed.append({**key_columns, seed: None, "steps": math.nan, **outcome})
    return pd.DataFrame(rows), pd.DataFrame(by_seed)


def _best_rate(optimum: Optimum | None, tune: str) -> tuple[float, float, str]:
    """The best rate, the standard error of its log, and the side on which the grid ends."""
    if optimum is None:
        return math.nan, math.nan, ""
    if tune not in optimum.tuned:
        return math.nan, math.nan, ""
    value, se = optimum.tuned[tune].value, optimum.tuned[tune].se
    if not optimum.bracketed or value is None or se is None:
        return math.nan, math.nan, (optimum.edge or {}).get(tune, "")
    return value, se / value, ""


def _optima(
    table: pd.DataFrame, keys: Sequence[str], *, tune: str, seed: str
) -> dict[tuple[float, ...], tuple[Optimum, dict[object, float]]]:
    """Key → the optimum of the rate, and ln steps there by seed; keys where a rate has them."""
    reached = table["status"] == "reached"
    shares = reached.groupby([table[name] for name in (*keys, tune)]).mean()
    most = shares.groupby(level=keys).max() > LEAST_REACHED_SHARE
    frame = table[[*keys, tune]].assign(
        seed=table[seed],
        loss=table["steps"].where(reached),
        status=np.where(reached, "complete", "diverged"),
    )
    if not reached.any():
        return {}
    by_key: dict[tuple[float, ...], tuple[Optimum, dict[object, float]]] = {}
    *by, batch = keys
    groups = frame.groupby(by, sort=True) if by else [((), frame)]
    for key, rows in groups:
        if not rows["loss"].notna().any():
            continue
        sweep = Runs.from_frame(rows, sizes=[batch], tuned=[tune]).in_order()
        if sweep.to_frame()[tune].nunique() < 2:
            sweep = Runs.from_frame(rows, sizes=[batch], tuned=[]).in_order()
        fitted = fit_sweep(sweep, level=RATE_LEVEL)
        rates = dict(iter(rows[rows["status"] == "complete"].groupby(batch)[tune]))
        optima = tuple(_among(rates.get(o.size[batch]), o, tune) for o in fitted.optima)
        losses = seed_losses(sweep, fitted._replace(optima=optima))
        for optimum, steps in zip(optima, losses, strict=True):
            cell_key = (*map(float, key), *optimum.size.values())
            if steps and most[cell_key if by else cell_key[0]]:
                by_key[cell_key] = optimum, steps
    return by_key


def _among(rates: pd.Series | None, optimum: Optimum, tune: str) -> Optimum:
    """The optimum; without a loss where it lies beyond the rates that reached the target."""
    best = optimum.tuned[tune].value if tune in optimum.tuned else None
    edge = optimum.edge
    if rates is not None and best is not None and not rates.min() <= best <= rates.max():
        edge = {tune: "low" if best < rates.min() else "high"}
    if edge is None and optimum.bracketed:
        return optimum
    return replace(optimum, loss=None, bracketed=False, edge=edge)
