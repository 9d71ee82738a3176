"""The noise scale over a ladder of difficulty: the figures that `studies/registered.md` names.

    python -m benchmarks.evidence_noise [PREFIX] [--ship]

PREFIX names the tables of `studies/noise_ladder_full.py`, `PREFIX.noise.csv`, `PREFIX.tuned.csv`
and `PREFIX.courses.csv`; they lie beside the study unless it is given. `--ship` first copies them,
and `.seeds.csv`, from `reports/`. Real networks are all of them; the linear teachers are those of
`studies/noise_scale.py`, whose tables were there before. Intervals of 95 % are over 1,000
bootstraps of tasks, both targets of a task together, unless a part says otherwise. Fewer than six
tasks, as the four teachers, have none: the range of five values holds their median with 94 %.

1. "agreement": of ln B_crit and ln of the mean noise scale up to the target, over the pairs (a
   task of the study and one of its targets) that have both: the squared correlation; of
   ln(B_crit / noise scale) the standard deviation, the root mean square, and e to its mean, the
   geometric mean of the ratio; the decades that both span. Pairs of the study that have no point
   estimate of one, or are missing from the table, are counted.
2. "without the noise scale": the root mean square error of ln B_crit predicted from the other
   tasks alone: one batch for all (their mean), and a line in ln loss; beside the noise scale as
   it is, times the other tasks' mean ratio, and a line in its logarithm.
3. "growth": per task the slope of ln noise scale over ln step, and over ln loss, by least squares
   over the windows of one course, four or more, with its interval by Student's t; the median over
   tasks with the interval between two of their slopes, by the binomial. And the pairs: the noise
   scale at the lower target over that at the higher one, a geometric mean over tasks.
4. "trade-off": ln steps at every batch that reached the target, but the one at which the noise was
   measured, predicted from the steps at that one by the hyperbola with the noise scale for B_crit:
   root mean square error and bias, the mean of predicted less measured, at smaller and at larger
   batches. Beside: perfect scaling, one critical batch for all tasks and the line in ln loss (each
   from the other tasks), and the hyperbola with the measured critical batch, which has seen these
   steps. A pair whose target was not reached at the batch of the noise is left out.
5. "grids": places (task, target, batch) whose steps are bounds only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.evidence_batches import STUDIES, place_rows, print_figures
from benchmarks.rows import Row
from benchmarks.scores import with_interval
from extrap.analyses.batch_size.spec import BatchTask
from extrap.laws.batch import log_steps
from extrap.study import open_study

Array = np.ndarray
PREFIX, TEACHERS = STUDIES / "noise_ladder_full", STUDIES / "noise_scale"
SHIPPED = ("noise", "tuned", "courses", "seeds")
"""Tables to ship."""
REAL, LINEAR = "real networks", "linear teachers"
PUBLISHED = "r² .8 over six decades (McCandlish et al. 2018)"
LEVEL, FEWEST_WINDOWS, FEWEST_TASKS = 0.95, 4, 3
FEWEST_OF_INTERVAL = 6
"""Values of which the least and the largest hold the median with 95 %."""


def tasks_of(prefix: Path, kind: str) -> tuple[BatchTask, ...]:
    """The tasks of the study that wrote the tables of a name; of the older one its teachers."""
    tasks: tuple[BatchTask, ...] = open_study(STUDIES / f"{prefix.name}.py").study.tasks
    return tuple(t for t in tasks if kind == REAL or t.study.name.startswith("teacher"))


def n_pairs_of(tasks: Sequence[BatchTask]) -> int:
    """Pairs that a study has if none is missing."""
    return sum(len(task.targets) * len(task.study.size_points()) for task in tasks)


def load(prefix: Path, kind: str) -> dict[str, pd.DataFrame]:
    """The tables; of the older study only its teachers, of the ladder all."""
    tables = {}
    for name in ("noise", "tuned", "courses"):
        table = pd.read_csv(f"{prefix}.{name}.csv")
        if kind == LINEAR:
            table = table[table["task"].str.startswith("teacher")]
        tables[name] = table.reset_index(drop=True)
    return tables


def known_pairs(noise: pd.DataFrame) -> pd.DataFrame:
    """The pairs that have both, with their logarithms."""
    values = noise[["noise_scale", "b_crit"]].astype(float)
    is_known = (np.isfinite(values) & (values > 0)).all(axis=1)
    pairs = noise[is_known].reset_index(drop=True)
    return pairs.assign(
        x=np.log(pairs["noise_scale"]), y=np.log(pairs["b_crit"]), z=np.log(pairs["target"])
    )


def interval_text(figure: tuple[float, float, float]) -> str:
    """A figure with its interval."""
    value, low, high = (f"{number:.2f}" for number in figure)
    return f"{value} ({low} to {high})"


def figure_text(
    values: Array, figure: Callable[[Array], Array], tasks: pd.Series | None = None
) -> str:
    """A figure of means with its interval over bootstraps of tasks, or without for few tasks.

    Args:
        values: What is averaged, (n, k).
        figure: Of k means.
        tasks: The task of each row; by default every row is one.
    """
    n_tasks = len(values) if tasks is None else tasks.nunique()
    if n_tasks < FEWEST_OF_INTERVAL:
        return f"{float(figure(values.mean(axis=0))):.2f} ({n_tasks} tasks: no interval)"
    return interval_text(with_interval(values, figure, tasks))


def agreement_rows(noise: pd.DataFrame, kind: str, n_pairs: int) -> list[Row]:
    """Part 1, of a study of so many pairs."""
    pairs = known_pairs(noise)
    x, y, tasks = pairs["x"].to_numpy(), pairs["y"].to_numpy(), pairs["task"]
    counts = f"{len(pairs)} pairs of {tasks.nunique()} tasks, "
    counts += f"{n_pairs - len(pairs)} of {n_pairs} without one of the two"
    if tasks.nunique() < FEWEST_TASKS:
        return [Row(part="agreement", figure=kind, reached=f"{counts}: too few tasks")]
    off = y - x
    moments = np.column_stack([x, y, x * x, y * y, x * y])

    def r_squared(mean: Array) -> Array:
        cov = mean[4] - mean[0] * mean[1]
        return cov**2 / ((mean[2] - mean[0] ** 2) * (mean[3] - mean[1] ** 2))

    def sd(mean: Array) -> Array:
        return np.sqrt(np.maximum(mean[1] - mean[0] ** 2, 0))

    off_moments = np.column_stack([off, off**2])
    ratio = "critical batch / noise scale"
    figures = {
        "r² of the logarithms": (figure_text(moments, r_squared, tasks), PUBLISHED),
        f"sd of ln({ratio})": (
            figure_text(off_moments, sd, tasks),
            f"sd of ln critical batch alone: {y.std():.2f}",
        ),
        f"root mean square of ln({ratio})": (
            figure_text(off_moments, lambda mean: np.sqrt(mean[1]), tasks),
            "",
        ),
        f"{ratio}, geometric mean": (
            figure_text(off_moments, lambda mean: np.exp(mean[0]), tasks),
            "1",
        ),
    }
    decades = " and ".join(f"{np.ptp(v) / math.log(10):.2f}" for v in (y, x))
    spanned = f"{decades} of critical batch and noise scale; {counts}"
    rows = [Row(part="agreement", figure=f"{kind}: decades", reached=spanned)]
    for name, (reached, beside) in figures.items():
        rows.append(Row(part="agreement", figure=f"{kind}: {name}", beat=beside, reached=reached))
    return rows


def left_out_predictions(pairs: pd.DataFrame) -> dict[str, Array]:
    """Ln B_crit of every pair from all other tasks, by each predictor."""
    predictors: Mapping[str, Callable[[pd.DataFrame, pd.DataFrame], Array]] = {
        "one batch for all": lambda others, own: np.full(len(own), others["y"].mean()),
        "loss alone": lambda others, own: _line(others, own, "z"),
        "noise scale": lambda others, own: own["x"].to_numpy(),
        "noise scale, mean ratio": lambda others, own: (
            own["x"].to_numpy() + (others["y"] - others["x"]).mean()
        ),
        "noise scale, line": lambda others, own: _line(others, own, "x"),
    }
    made = {name: np.full(len(pairs), np.nan) for name in predictors}
    for task in pairs["task"].unique():
        is_own = (pairs["task"] == task).to_numpy()
        for name, predict in predictors.items():
            made[name][is_own] = predict(pairs[~is_own], pairs[is_own])
    return made


def _line(others: pd.DataFrame, own: pd.DataFrame, column: str) -> Array:
    """Ln B_crit by a line through the other tasks."""
    slope, start = np.polyfit(others[column], others["y"], 1)
    return np.asarray(start + slope * own[column])


def predictor_rows(noise: pd.DataFrame, kind: str) -> list[Row]:
    """Part 2."""
    pairs = known_pairs(noise)
    if pairs["task"].nunique() < FEWEST_TASKS:
        return []
    rows = []
    for name, predicted in left_out_predictions(pairs).items():
        squares = (predicted - pairs["y"].to_numpy())[:, None] ** 2
        rows.append(
            Row(
                part="without the noise scale",
                figure=f"{kind}: error of ln critical batch, {name}",
                reached=figure_text(squares, lambda mean: np.sqrt(mean[0]), pairs["task"]),
            )
        )
    return rows


def slope_of(x: Array, y: Array) -> tuple[float, float, float]:
    """A slope by least squares with its interval by Student's t; open without a scatter."""
    fit = stats.linregress(x, y)
    half = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def median_text(values: Array) -> str:
    """The median, with its interval between two of the values unless they are few."""
    ordered, n = np.sort(values), len(values)
    if n < FEWEST_OF_INTERVAL:
        return f"{np.median(ordered):.2f} ({n} tasks: no interval)"
    rank = int(stats.binom.ppf((1 - LEVEL) / 2, n, 0.5)) - 1
    return interval_text((float(np.median(ordered)), ordered[rank], ordered[n - 1 - rank]))


def course_slopes(courses: pd.DataFrame) -> pd.DataFrame:
    """Per task: windows, and the slopes of ln noise scale over ln step and over ln loss."""
    rows = []
    for task, course in courses.groupby("task", sort=False):
        windows = course[course["noise_scale"] > 0]
        row: dict[str, object] = {
            "task": task,
            "n": len(windows),
            "n_left_out": len(course) - len(windows),
        }
        for over in ("step", "loss"):
            slope = (math.nan,) * 3
            if len(windows) >= FEWEST_WINDOWS:
                logs = np.log(windows[[over, "noise_scale"]].to_numpy(float))
                slope = slope_of(*logs.T)
            row |= dict(zip((over, f"{over}_low", f"{over}_high"), slope, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def growth_rows(tables: Mapping[str, pd.DataFrame], kind: str) -> list[Row]:
    """Part 3."""
    slopes, rows = course_slopes(tables["courses"]), []
    for over, expected in (("step", "above 0"), ("loss", "below 0")):
        for row in slopes.to_dict("records"):
            reached = "too few"
            if row["n"] >= FEWEST_WINDOWS:
                reached = interval_text((row[over], row[f"{over}_low"], row[f"{over}_high"]))
            windows = f"{row['n']} windows, {row['n_left_out']} without a noise scale"
            rows.append(
                Row(
                    part="growth",
                    figure=f"{kind}: slope over ln {over}, {row['task']}",
                    reached=f"{reached}; {windows}",
                )
            )
        values = slopes[over].dropna().to_numpy()
        if len(values) < FEWEST_TASKS:
            continue
        sign = 1 if over == "step" else -1
        n_right = int((sign * values > 0).sum())
        n_sure = int((sign * slopes[f"{over}_{'low' if sign > 0 else 'high'}"] > 0).sum())
        shares = f"{n_right} {expected}, {n_sure} with the whole interval, of {len(values)} tasks"
        rows.append(
            Row(
                part="growth",
                figure=f"{kind}: median slope over ln {over}",
                beat=f"published: {expected} (McCandlish et al. 2018)",
                reached=f"{median_text(values)}; {shares}",
            )
        )
    pairs = tables["noise"][tables["noise"]["noise_scale"] > 0]
    by_target = pairs.sort_values("target").groupby("task")["noise_scale"]
    ratios = by_target.agg(lambda scales: math.log(scales.iloc[0] / scales.iloc[-1]))
    ratios = ratios[by_target.size() > 1]
    if len(ratios) >= FEWEST_TASKS:
        ratio = figure_text(ratios.to_numpy()[:, None], lambda mean: np.exp(mean[0]))
        rows.append(
            Row(
                part="growth",
                figure=f"{kind}: noise scale, lower over higher target, geometric mean",
                reached=f"{ratio}; {int((ratios > 0).sum())} of {len(ratios)} above 1",
            )
        )
    return rows


def trade_off(tables: Mapping[str, pd.DataFrame], tasks: Sequence[BatchTask]) -> pd.DataFrame:
    """One row per task, target and batch: errors of ln steps by each predictor, and `log_ratio`.

    `log_ratio` is the log of the batch over the one at which the noise was measured.
    """
    pairs = known_pairs(tables["noise"])
    if pairs["task"].nunique() < FEWEST_TASKS:
        return pd.DataFrame()
    others = left_out_predictions(pairs)
    log_b_crits = {
        "noise scale": pairs["x"].to_numpy(),
        "one batch for all": others["one batch for all"],
        "loss alone": others["loss alone"],
        "measured critical batch": pairs["y"].to_numpy(),
    }
    measured_at = {task.study.name: task.noise_batch or task.reference for task in tasks}
    reached = tables["tuned"][tables["tuned"]["status"] == "reached"]
    rows = []
    for i, pair in enumerate(pairs.to_dict("records")):
        is_here = (reached["task"] == pair["task"]) & (reached["target"] == pair["target"])
        curve = reached[is_here].set_index("batch_size")["steps"]
        start = measured_at[pair["task"]]
        if start not in curve:
            continue
        batch = curve.drop(start).index.to_numpy(float)
        measured = np.log(curve.drop(start).to_numpy(float))
        from_start = math.log(curve[start])
        errors = {
            name: from_start + log_steps(logs[i], batch, reference=start) - measured
            for name, logs in log_b_crits.items()
        }
        errors["perfect scaling"] = from_start + np.log(start / batch) - measured
        rows.append(
            pd.DataFrame(errors).assign(
                task=pair["task"],
                target=pair["target"],
                batch_size=batch,
                log_ratio=np.log(batch / start),
            )
        )
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def trade_off_rows(
    tables: Mapping[str, pd.DataFrame], tasks: Sequence[BatchTask], kind: str
) -> list[Row]:
    """Part 4."""
    errors = trade_off(tables, tasks)
    if errors.empty:
        return [Row(part="trade-off", figure=kind, reached="no steps to predict")]
    names = [c for c in errors if c not in ("task", "target", "batch_size", "log_ratio")]
    rows = []
    sides = {
        "all batches": np.ones(len(errors), bool),
        "smaller batches": (errors["log_ratio"] < 0).to_numpy(),
        "larger batches": (errors["log_ratio"] > 0).to_numpy(),
    }
    for side, is_there in sides.items():
        if not is_there.any():
            continue
        for name in names:
            off = errors.loc[is_there, name].to_numpy()
            values = np.column_stack([off, off**2])
            named = errors.loc[is_there, "task"]
            error = figure_text(values, lambda mean: np.sqrt(mean[1]), named)
            bias = figure_text(values, lambda mean: mean[0], named)
            rows.append(
                Row(
                    part="trade-off",
                    figure=f"{kind}: ln steps, {side}, {name}",
                    reached=f"root mean square {error}; mean of predicted - measured {bias}; "
                    f"{len(off)} steps of {named.nunique()} tasks",
                )
            )
    return rows


def parts_of(prefix: Path = PREFIX) -> Iterator[list[Row]]:
    """The rows of every part."""
    for kind, where in ((REAL, prefix), (LINEAR, TEACHERS)):
        tables, tasks = load(where, kind), tasks_of(where, kind)
        yield agreement_rows(tables["noise"], kind, n_pairs_of(tasks))
        yield predictor_rows(tables["noise"], kind)
        yield growth_rows(tables, kind)
        yield trade_off_rows(tables, tasks, kind)
        yield place_rows(tables["tuned"], where=f"{kind}: ")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures."""
    print_figures(argv, about=__doc__, prefix=PREFIX, tables=SHIPPED, parts=parts_of)


if __name__ == "__main__":
    main()
