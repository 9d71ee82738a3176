"""The noise scale over a ladder of difficulty: the figures that `studies/registered.md` names.

    python -m benchmarks.evidence_noise [PREFIX]

PREFIX names the tables of `studies/noise_ladder_full.py`, `PREFIX.noise.csv`, `PREFIX.tuned.csv`
and `PREFIX.courses.csv`; they lie beside the study unless it is given. Real networks are all of
them; the linear teachers are those of `studies/noise_scale.py`, whose tables were there before.
Intervals of 95 % are over 1,000 bootstraps of tasks, both targets of a task together, unless a
part says otherwise.

1. "agreement": of ln B_crit and ln of the mean noise scale up to the target, over the pairs that
   have both: the squared correlation, the standard deviation of their difference, its root mean
   square, and its mean. What has no point estimate is counted.
2. "without the noise scale": the root mean square error of ln B_crit predicted from the other
   tasks alone: one batch for all (their mean), and a line in ln loss; beside the noise scale as
   it is, times the other tasks' mean ratio, and a line in its logarithm.
3. "growth": per task the slope of ln noise scale over ln step, and over ln loss, by least squares
   over the windows of one course, four or more, with its interval by Student's t; the median over
   tasks with the interval between two of their slopes, by the binomial. And the pairs: the noise
   scale at the lower target over that at the higher one.
4. "trade-off": ln steps at every batch that reached the target, but the one at which the noise was
   measured, predicted from the steps at that one by the hyperbola with the noise scale for B_crit:
   root mean square and mean error, at smaller and at larger batches. Beside: perfect scaling, one
   critical batch for all tasks and the line in ln loss (each from the other tasks), and the
   hyperbola with the measured critical batch, which has seen these steps.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.scores import with_interval
from extrap.analyses.batch_size import BatchStudy
from extrap.files import import_source
from extrap.laws.batch import log_steps

Array = np.ndarray
STUDIES = Path(__file__).parents[1] / "studies"
PREFIX, TEACHERS = STUDIES / "noise_ladder_full", STUDIES / "noise_scale"
REAL, LINEAR = "real networks", "linear teachers"
PUBLISHED = "r² .8 over six decades (McCandlish et al. 2018)"
LEVEL, FEWEST_WINDOWS, FEWEST_TASKS = 0.95, 4, 3


def study_of(prefix: Path) -> BatchStudy:
    """The study that wrote the tables of a name."""
    made: BatchStudy = import_source(STUDIES / f"{prefix.name}.py", prefix.name).BATCHES
    return made


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


def text(figure: tuple[float, float, float], digits: int = 2) -> str:
    """A figure with its interval."""
    value, low, high = (f"{number:.{digits}f}" for number in figure)
    return f"{value} ({low} to {high})"


def agreement_rows(noise: pd.DataFrame, kind: str) -> list[Row]:
    """Part 1."""
    pairs = known_pairs(noise)
    x, y, tasks = pairs["x"].to_numpy(), pairs["y"].to_numpy(), pairs["task"]
    if tasks.nunique() < FEWEST_TASKS:
        return [Row(part="agreement", figure=kind, reached=f"{tasks.nunique()} tasks, too few")]
    off = y - x
    moments = np.column_stack([x, y, x * x, y * y, x * y])

    def r_squared(mean: Array) -> Array:
        cov = mean[4] - mean[0] * mean[1]
        return cov**2 / ((mean[2] - mean[0] ** 2) * (mean[3] - mean[1] ** 2))

    def sd(mean: Array) -> Array:
        return np.sqrt(np.maximum(mean[1] - mean[0] ** 2, 0))

    off_moments = np.column_stack([off, off**2])
    figures = {
        "r² of the logarithms": (text(with_interval(moments, r_squared, tasks)), PUBLISHED),
        "sd of ln(critical batch / noise scale)": (
            text(with_interval(off_moments, sd, tasks)),
            f"sd of ln critical batch alone: {y.std():.2f}",
        ),
        "root mean square of the same": (
            text(with_interval(off_moments, lambda mean: np.sqrt(mean[1]), tasks)),
            "",
        ),
        "critical batch / noise scale, mean": (
            text(with_interval(off_moments, lambda mean: np.exp(mean[0]), tasks)),
            "1",
        ),
    }
    decades = " and ".join(f"{np.ptp(v) / math.log(10):.1f}" for v in (y, x))
    spanned = f"{decades} of critical batch and noise scale; {len(pairs)} pairs of "
    spanned += f"{tasks.nunique()} tasks, {len(noise) - len(pairs)} pairs without one of them"
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
        figure = with_interval(squares, lambda mean: np.sqrt(mean[0]), pairs["task"])
        rows.append(
            Row(
                part="without the noise scale",
                figure=f"{kind}: error of ln critical batch, {name}",
                reached=text(figure),
            )
        )
    return rows


def slope_of(x: Array, y: Array) -> tuple[float, float, float]:
    """A slope by least squares with its interval by Student's t; open without a scatter."""
    fit = stats.linregress(x, y)
    half = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def median_of(values: Array) -> tuple[float, float, float]:
    """The median with its interval between two of the values; the outermost where they are few."""
    ordered, n = np.sort(values), len(values)
    rank = max(int(stats.binom.ppf((1 - LEVEL) / 2, n, 0.5)) - 1, 0)
    return float(np.median(ordered)), float(ordered[rank]), float(ordered[n - 1 - rank])


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
            reached = f"{row['n']} windows, too few"
            if row["n"] >= FEWEST_WINDOWS:
                reached = text((row[over], row[f"{over}_low"], row[f"{over}_high"]))
            rows.append(
                Row(
                    part="growth",
                    figure=f"{kind}: slope over ln {over}, {row['task']}",
                    reached=reached,
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
                reached=f"{text(median_of(values))}; {shares}",
            )
        )
    pairs = tables["noise"][tables["noise"]["noise_scale"] > 0]
    by_target = pairs.sort_values("target").groupby("task")["noise_scale"]
    ratios = by_target.agg(lambda scales: math.log(scales.iloc[0] / scales.iloc[-1]))
    ratios = ratios[by_target.size() > 1]
    if len(ratios) >= FEWEST_TASKS:
        figure = with_interval(ratios.to_numpy()[:, None], lambda mean: np.exp(mean[0]))
        rows.append(
            Row(
                part="growth",
                figure=f"{kind}: noise scale, lower over higher target",
                reached=f"{text(figure)}; {int((ratios > 0).sum())} of {len(ratios)} above 1",
            )
        )
    return rows


def trade_off(tables: Mapping[str, pd.DataFrame], study: BatchStudy) -> pd.DataFrame:
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
    measured_at = {task.study.name: task.noise_batch or task.reference for task in study.tasks}
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
    return pd.concat(rows, ignore_index=True)


def trade_off_rows(tables: Mapping[str, pd.DataFrame], study: BatchStudy, kind: str) -> list[Row]:
    """Part 4."""
    errors = trade_off(tables, study)
    if errors.empty:
        return []
    names = [c for c in errors if c not in ("task", "target", "batch_size", "log_ratio")]
    rows = []
    sides = {
        "all batches": np.ones(len(errors), bool),
        "smaller batches": (errors["log_ratio"] < 0).to_numpy(),
        "larger batches": (errors["log_ratio"] > 0).to_numpy(),
    }
    for side, is_there in sides.items():
        for name in names:
            off = errors.loc[is_there, name].to_numpy()
            values = np.column_stack([off, off**2])
            tasks = errors.loc[is_there, "task"]
            error = text(with_interval(values, lambda mean: np.sqrt(mean[1]), tasks))
            bias = text(with_interval(values, lambda mean: mean[0], tasks))
            rows.append(
                Row(
                    part="trade-off",
                    figure=f"{kind}: ln steps, {side}, {name}",
                    reached=f"{error}; bias {bias}; {len(off)} steps of {tasks.nunique()} tasks",
                )
            )
    return rows


def edge_row(tuned: pd.DataFrame, kind: str) -> Row:
    """Places whose steps are bounds only."""
    n, n_late = int(tuned["at_edge"].sum()), int((tuned["status"] != "reached").sum())
    return Row(
        part="grids",
        figure=f"{kind}: best rate at the edge of its grid; target not reached",
        reached=f"{n} and {n_late} of {len(tuned)} places",
    )


def rows_of(prefix: Path = PREFIX) -> list[Row]:
    """All figures."""
    rows = []
    for kind, where in ((REAL, prefix), (LINEAR, TEACHERS)):
        tables, study = load(where, kind), study_of(where)
        rows += agreement_rows(tables["noise"], kind)
        rows += predictor_rows(tables["noise"], kind)
        rows += growth_rows(tables, kind)
        rows += trade_off_rows(tables, study, kind)
        rows.append(edge_row(tables["tuned"], kind))
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path, nargs="?", default=PREFIX)
    print_rows(rows_of(parser.parse_args(argv).prefix))


if __name__ == "__main__":
    main()
