"""Tuned values over parameters and tokens: published sweeps, and drawn ones of a known truth.

    python -m benchmarks.horizons [DATA] [--only PART …] [--sweeps N] [--draws development|report]
        [--scores FILE] [--against FILE]

1. Step Law's dense cells and those of a sweep of learning rates (arXiv 2502.18969, task
   dense_c4_v0) whose best rate lies within the grid. "tokens": the cells up to a number of tokens
   forecast those of the same parameters with more. "both": the cells below a mean of both
   logarithms forecast the others. The truth is a polynomial through a cell's own runs, a cubic for
   Step Law and a parabola through the three best rates for the other; it also tells the regret.
2. Porian et al. publish best model sizes per budget and no learning rate: their optima are
   forecast over compute by the law of optima alone, as in `benchmarks.optimum_laws`.
3. Drawn sweeps of `benchmarks.horizon_draws`, at 4 and 16 times the largest tokens and 4 times
   the largest parameters.
4. Sweeps whose horizon was never varied, asked at another one: what is given as if it were known.

`--scores` writes one row per forecast; `--against` takes such a file, of another version of the
package, and prints ratios over the forecasts that both have.

Beside each forecast stand two others: the value of the nearest smaller cell, and a log-linear
plane by least squares through the cells' optima with its interval of a new point. Intervals of
figures are over 1,000 bootstraps of cells, or of sweeps.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from scipy import stats

import extrap
from benchmarks import optimum_laws
from benchmarks.horizon_draws import (
    SIZES,
    TARGETS,
    Array,
    ask_beyond_one_horizon,
    best_rate,
    parabola_of,
    plane_columns,
    score_family,
)
from benchmarks.optima import N_BELOW, SURFACES, TUNED, cell_of, fit_cell, forecast_of, step_law
from benchmarks.page import print_rows
from benchmarks.rows import DATA, Row, require, share_row
from benchmarks.scores import LEVEL, points_of, rms, with_interval
from extrap.fitting.regression import predict_power

DRAWS = {"development": 131, "report": 132}
"""First number of every seed."""
N_SWEEPS = {"simulated": 1000, "never varied": 200}
KEY = ["part", "tuned", "origin", "cell", "target"]
"""Columns that name a forecast in a table of scores; those of a cell are drawn together."""
MOST_OF_ORACLE, MOST_OF_PLANE = 2.0, 0.9
"""Width over that of an oracle, and interval score over that of the plane."""
NO_RATE = "Porian et al. publish no learning rate: this is the best model size over compute."
NARROW_GRIDS = (
    "Most cells have three rates an octave apart: an optimum that they show lies within half an "
    "octave of the middle one, which favors keeping a value."
)


class CellOptimum(Protocol):
    """Says what a cell's own runs show of its optimum."""

    @property
    def minimum(self) -> Array:
        """log2 of the tuned values, (D,)."""

    def excess(self, values: Array, /) -> float:
        """Log excess over the minimum at log2 of tuned values, (D,)."""


Cell = tuple[float, ...]


class Source(NamedTuple):
    """Holds published runs.

    Attributes:
        table: Runs.
        tuned: Tuned columns.
        optima: Of each cell, by its sizes, that shows one.
        best: log2 of the tuned values of each cell, (D,): at its optimum, or of its best run.
    """

    table: pd.DataFrame
    tuned: tuple[str, ...]
    optima: Mapping[Cell, CellOptimum]
    best: Mapping[Cell, Array]


def step_law_source(data: Path) -> Source:
    """Read Step Law's dense cells, with cubic surfaces."""
    table = step_law(data)
    optima = {
        cell: fit_cell(cell_of(table, dict(zip(SIZES, cell, strict=True))), *SURFACES[1][:3])
        for cell in cells_of(table)
    }
    return Source(
        table, TUNED, optima, {cell: optimum.minimum for cell, optimum in optima.items()}
    )


def rates_source(data: Path) -> Source:
    """Read the sweep of learning rates, with parabolas where the optimum is inside."""
    table = pd.read_csv(require(data, "misfitting_lr_sweep_v0.csv"))
    table = table.loc[table["task"] == "dense_c4_v0", [*SIZES, "lr", "loss"]]
    cells = dict(iter(table.groupby(list(SIZES))))
    parabolas = {cell: parabola_of(runs) for cell, runs in cells.items()}
    return Source(
        table,
        ("lr",),
        {cell: parabola for cell, parabola in parabolas.items() if parabola is not None},
        {cell: np.array([best_rate(runs)]) for cell, runs in cells.items()},
    )


def cells_of(table: pd.DataFrame) -> list[Cell]:
    """List the sizes of the cells of runs, smallest first."""
    return sorted(table[list(SIZES)].drop_duplicates().itertuples(index=False, name=None))


def origins(source: Source, over: str) -> Iterator[tuple[float, pd.Series, pd.Series]]:
    """Cut the runs into those that are fitted and those to be forecast.

    Args:
        source: Runs.
        over: "tokens": up to so many, and those of the same parameters with more; "both": below a
            mean of both log2, and all others.
    """
    table = source.table
    scale = table["tokens"] if over == "tokens" else np.log2(table[list(SIZES)]).mean(axis=1)
    scale = scale.round(6)
    for cut in sorted(scale.unique()):
        below = scale <= cut if over == "tokens" else scale < cut
        above = ~below
        if over == "tokens":
            above &= table["params"].isin(table.loc[below, "params"])
        if len(table.loc[below, list(SIZES)].drop_duplicates()) >= N_BELOW and above.any():
            yield float(cut), below, above


def judge_source(load: Callable[[Path], Source], over: str, data: Path) -> pd.DataFrame:
    """Make one row per forecast of a tuned value of a cell."""
    source, rows = load(data), []
    for cut, below, above in origins(source, over):
        fitted = {cell: source.best[cell] for cell in cells_of(source.table[below])}
        targets = [cell for cell in cells_of(source.table[above]) if cell in source.optima]
        try:
            made = forecast_of(source.table[below], source.tuned)
        except extrap.DataError as error:  # sizes that vary together tell nothing of one of them
            sys.stderr.write(f"not forecast from {len(fitted)} cells: {error}\n")
            continue
        for cell in targets:
            scores = _scores_of_cell(made, cell, fitted, source.optima[cell])
            name = f"{cell[0]:g} {cell[1]:g}"
            rows += [{"origin": cut, "cell": name, "target": name} | row for row in scores]
    return pd.DataFrame(rows)


def _scores_of_cell(
    made: extrap.Forecast, cell: Cell, fitted: Mapping[Cell, Array], truth: CellOptimum
) -> list[dict[str, Any]]:
    """Compare the forecast of a cell and two trivial ones with its optimum."""
    size = dict(zip(SIZES, cell, strict=True))
    values = made.values_at(size)
    assert values is not None
    kept = fitted[_nearest_smaller(cell, list(fitted))]
    columns = dict(zip(SIZES, np.transpose(list(fitted)).tolist(), strict=True))
    best = 2.0 ** np.transpose(list(fitted.values()))
    lines = [predict_power(columns, own, None, at=size, level=LEVEL) for own in best.tolist()]
    planes = [plane_columns(line) for line in lines]
    regrets = {
        "regret": truth.excess(values.answer.values),
        "kept regret": truth.excess(kept),
        "plane regret": truth.excess(np.array([plane["plane"] for plane in planes])),
    }
    rows = []
    for j, name in enumerate(made.runs.tuned):
        low, high = np.log2([*values.estimates[name].pi])
        row = {"tuned": name, "given": made.is_tuned_at(size), "truth": truth.minimum[j]}
        row |= {"mid": values.optimum[j], "low": low, "high": high, "kept": kept[j]}
        rows.append(row | planes[j] | regrets)
    return rows


def _nearest_smaller(cell: Cell, cells: Sequence[Cell]) -> Cell:
    """Find the nearest in logarithms of the cells that are no larger in either size, if any is."""
    smaller = [c for c in cells if all(a <= b for a, b in zip(c, cell, strict=True))]
    return min(smaller or cells, key=lambda c: float(np.abs(np.log(np.divide(c, cell))).sum()))


def judge_porian(data: Path) -> pd.DataFrame:
    """Make one row per best model size beyond the budgets that it is forecast from."""
    rows = []
    for setting, optima in enumerate(optimum_laws.porian(data)):
        for below, above in optima.origins(N_BELOW):
            if not above.any():
                continue
            targets, flops = optima.log_sizes[above], (2.0 ** optima.log_sizes[below, 0]).tolist()
            mixture = optimum_laws.beyond(optima, below, targets)
            variances = np.diag(optima.covariance)
            for i, (budget, truth, variance) in enumerate(
                zip(targets[:, 0], optima.values[above], variances[above], strict=True)
            ):
                sds = np.sqrt(mixture.sds[:, i] ** 2 + variance)
                low, mid, high = _quantiles(mixture.weights, mixture.means[:, i], sds)
                size, best = {"flops": float(2.0**budget)}, (2.0 ** optima.values[below]).tolist()
                line = predict_power({"flops": flops}, best, None, at=size, level=LEVEL)
                row = {"tuned": "model size", "origin": int(below.sum()), "cell": setting}
                row |= {"target": f"{size['flops']:g}", "given": True, "truth": truth}
                row |= plane_columns(line)
                row |= {"mid": mid, "low": low, "high": high, "kept": optima.values[below][-1]}
                rows.append(row)
    return pd.DataFrame(rows)


def _quantiles(weights: Array, means: Array, sds: Array) -> Array:
    """The 5, 50 and 95 % quantiles of a mixture of normal distributions."""
    grid = np.linspace((means - 6 * sds).min(), (means + 6 * sds).max(), 4001)
    below = weights @ stats.norm.cdf(grid, means[:, None], sds[:, None])
    return np.interp([0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2], below, grid)


def of_seeds(
    measure: Callable[[np.random.Generator], list[dict[str, Any]]], n: int, draws: int
) -> pd.DataFrame:
    """What is measured of so many drawn sweeps, of which `cell` is the number."""
    return pd.DataFrame(
        [
            {"tuned": row.get("target", ""), "origin": 0, "cell": number} | row
            for number in range(n)
            for row in measure(np.random.default_rng([draws, number]))
        ]
    )


def shown(values: tuple[float, float, float], unit: str = "") -> str:
    """A figure with its interval."""
    figure, low, high = values
    return f"{figure:.3g}{unit} ({low:.3g} to {high:.3g})"


def score_ratio(table: pd.DataFrame) -> tuple[float, float, float]:
    """Interval score over that of the plane, of the same forecasts."""
    table = table[np.isfinite(table["plane low"])]
    pairs = np.column_stack(
        [
            points_of(table["truth"], table["low"], table["high"]),
            points_of(table["truth"], table["plane low"], table["plane high"]),
        ]
    )
    return with_interval(pairs, lambda means: means[0] / means[1], table["cell"])


def holds(table: pd.DataFrame, prefix: str = "") -> pd.Series:
    """Whether each interval holds the optimum."""
    return table[f"{prefix}low"].le(table["truth"]) & table["truth"].le(table[f"{prefix}high"])


def error_rows(part: str, table: pd.DataFrame) -> list[Row]:
    """Errors, intervals and scores of the forecasts of one tuned value."""
    cells, off = table["cell"], table["mid"] - table["truth"]
    others = {name: rms((table[name] - table["truth"]).dropna()) for name in ("kept", "plane")}
    width = (table["high"] - table["low"]).median()
    plane_width = (table["plane high"] - table["plane low"]).median()
    error = with_interval(off.to_frame() ** 2, lambda means: np.sqrt(means[0]), cells)
    held = with_interval(holds(table).to_frame(), lambda means: 100 * means[0], cells)
    count = f"{len(table)} forecasts of {cells.nunique()} cells"
    return [
        Row(
            part=part,
            figure=f"rms error, octaves, {count}",
            beat=f"nearest smaller cell kept {others['kept']:.3f}, plane {others['plane']:.3f}",
            reached=f"{shown(error)}; mean {off.mean():+.3f}; withheld {_withheld(table)}",
        ),
        Row(
            part=part,
            figure="90 % intervals hold; median width, octaves",
            beat=f"plane {holds(table, 'plane ').mean():.0%}, width {plane_width:.2f}",
            target="≥ 85 %",
            reached=f"{shown(held, ' %')}; {width:.2f}",
            met=bool(held[0] >= 85),
        ),
        Row(
            part=part,
            figure="interval score over that of the plane",
            reached=shown(score_ratio(table)),
        ),
    ]


def regret_row(part: str, table: pd.DataFrame) -> Row:
    """What the values to use cost by the cells' own optima, and what the trivial ones do."""
    table = table.drop_duplicates(["origin", "cell"])
    return Row(
        part=part,
        figure=f"mean regret at the values to use, {len(table)} forecasts",
        beat=f"nearest smaller cell kept {100 * table['kept regret'].mean():.4f} %, plane "
        f"{100 * table['plane regret'].mean():.4f} %",
        reached=shown(
            with_interval(table[["regret"]], lambda means: 100 * means[0], table["cell"]), " %"
        ),
    )


def source_rows(part: str, table: pd.DataFrame, note: str = "") -> list[Row]:
    """The figures of a published sweep."""
    rows = []
    for name, forecasts in table.groupby("tuned", sort=False):
        first, *others = error_rows(f"{part}: {name}", forecasts)
        rows += [replace(first, note=note), *others]
    return [*rows, regret_row(f"{part}: regret", table)] if "regret" in table else rows


def simulated_rows(part: str, table: pd.DataFrame) -> list[Row]:
    """The figures of drawn sweeps, target by target."""
    return [
        row
        for name in TARGETS
        for row in target_rows(f"{part}, {name}", table[table["target"] == name])
    ]


def target_rows(part: str, table: pd.DataFrame) -> list[Row]:
    """Coverage, width, score, what is withheld and regret at one target."""
    off, half = table["mid"] - table["truth"], (table["high"] - table["low"]) / 2
    oracle_held = (table["oracle"] - table["truth"]).abs() <= table["oracle half"]
    widths = with_interval(
        np.column_stack([half, table["oracle half"]]), lambda means: means[0] / means[1]
    )
    scores = score_ratio(table)
    bias = with_interval(off.to_frame(), lambda means: means[0])
    return [
        share_row(
            part,
            "90 % intervals of the best rate hold",
            holds(table),
            least=0.85,
            most=0.95,
            beat=f"plane {holds(table, 'plane ').mean():.1%}, oracle {oracle_held.mean():.1%}",
        ),
        Row(
            part=part,
            figure="bias; rms error; median half width, octaves",
            beat=f"rms of the plane {rms(table['plane'] - table['truth']):.2f}, of the oracle "
            f"{rms(table['oracle'] - table['truth']):.2f}, of the largest cell kept "
            f"{rms(table['kept'] - table['truth']):.2f}",
            reached=f"{bias[0]:+.3f} ({bias[1]:+.3f} to {bias[2]:+.3f}); {rms(off):.2f}; "
            f"{half.median():.2f}",
        ),
        Row(
            part=part,
            figure="mean width over that of the oracle",
            target=f"≤ {MOST_OF_ORACLE:g}",
            reached=f"{shown(widths)}; median ratio {(half / table['oracle half']).median():.2f}",
            met=bool(widths[0] <= MOST_OF_ORACLE),
        ),
        Row(
            part=part,
            figure="interval score over that of the plane",
            target=f"≤ {MOST_OF_PLANE:g}",
            reached=shown(scores),
            met=bool(scores[0] <= MOST_OF_PLANE),
        ),
        Row(
            part=part,
            figure="answers withheld",
            reached=_withheld(table),
        ),
        regret_row(part, table),
    ]


def _withheld(table: pd.DataFrame) -> str:
    """How many answers are withheld, and what they would have been beside those given."""
    withheld, given = table[~table["given"]], table[table["given"]]
    if withheld.empty:
        return "none"
    texts = [
        f"{name}: rms error {rms(rows['mid'] - rows['truth']):.2f}, regret "
        f"{100 * rows['regret'].mean():.2f} %, held {holds(rows).mean():.0%}"
        for name, rows in (("these", withheld), ("given", given))
    ]
    return f"{len(withheld)} of {len(table)}; {'; '.join(texts)}"


def never_rows(part: str, table: pd.DataFrame) -> list[Row]:
    """What is given at a horizon that was never varied."""
    rows = []
    for (is_tied, is_named), own in table.groupby(["tied", "named"]):
        sweep = "tokens tied to parameters" if is_tied else "one number of tokens"
        given, errors = own["loss"] | own["values"], own["error"] != ""
        kinds = own.loc[errors, "error"].str.replace(r"\d\S*", "…", regex=True).value_counts()
        rows.append(
            Row(
                part=part,
                figure=f"{sweep}, {'columns named' if is_named else 'no option'}, {len(own)} "
                "sweeps: given at another horizon as if known",
                target="0",
                reached=f"{given.sum()} (losses {own['loss'].sum()}, values "
                f"{own['values'].sum()}); {errors.sum()} answered by an error",
                met=not given.any(),
                note="; ".join(kinds.index[:1]),
            )
        )
    return rows


def paired_rows(now: pd.DataFrame, before: pd.DataFrame) -> list[Row]:
    """Figures over those of another version, of the forecasts that both have."""
    rows = []
    now, before = (
        table.dropna(subset="truth").astype({"origin": float}).astype(dict.fromkeys(KEY, str))
        for table in (now, before)
    )
    both = now.merge(before, on=KEY, suffixes=("", " before"), validate="one_to_one")
    for (part, tuned), own in both.groupby(["part", "tuned"], sort=False):
        pairs = {"rms error": [(own[f"mid{s}"] - own["truth"]) ** 2 for s in ("", " before")]}
        pairs["interval score"] = [
            points_of(own["truth"], own[f"low{s}"], own[f"high{s}"]) for s in ("", " before")
        ]
        if own["regret"].notna().all():
            pairs["regret"] = [own[f"regret{s}"] for s in ("", " before")]
        texts = []
        for name, pair in pairs.items():
            power = 0.5 if name == "rms error" else 1.0
            ratio = with_interval(
                np.column_stack(pair), lambda m, p=power: (m[0] / m[1]) ** p, own["cell"]
            )
            texts.append(f"{name} {shown(ratio)}")
        ends = own.assign(low=own["low before"], high=own["high before"])
        held = f"holds {holds(own).mean():.1%}, before {holds(ends).mean():.1%}"
        rows.append(
            Row(
                part="over the figures before",
                figure=f"{part}, {tuned}, {len(own)} forecasts",
                reached="; ".join([*texts, held]),
            )
        )
    return rows


class Part(NamedTuple):
    """How the scores of a part are measured, and the rows that they give."""

    measure: Callable[[], pd.DataFrame]
    rows: Callable[[str, pd.DataFrame], Sequence[Row]]


def parts(data: Path, n_sweeps: int | None, draws: int) -> dict[str, Part]:
    """All parts, in the order of the output."""
    rates_rows = partial(source_rows, note=NARROW_GRIDS)
    sources = {
        "Step Law dense": (step_law_source, source_rows),
        "rates of dense_c4_v0": (rates_source, rates_rows),
    }
    drawn = {
        "simulated": (score_family, simulated_rows),
        "never varied": (ask_beyond_one_horizon, never_rows),
    }
    published = {
        f"{name}, rolling over {over}": Part(partial(judge_source, load, over, data), rows)
        for name, (load, rows) in sources.items()
        for over in ("tokens", "both")
    }
    simulated = {
        name: Part(partial(of_seeds, measure, n_sweeps or N_SWEEPS[name], draws), rows)
        for name, (measure, rows) in drawn.items()
    }
    porian = Part(partial(judge_porian, data), partial(source_rows, note=NO_RATE))
    return {**published, "Porian": porian, **simulated}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="published tables")
    parser.add_argument("--only", nargs="+", metavar="PART", default=[""])
    parser.add_argument("--sweeps", type=int, help="drawn, instead of the usual numbers")
    parser.add_argument("--draws", choices=DRAWS, default="report")
    parser.add_argument("--scores", type=Path, help="write one row per forecast")
    parser.add_argument("--against", type=Path, help="scores of another version")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = []
    for name, part in parts(given.data, given.sweeps, DRAWS[given.draws]).items():
        if not name.startswith(tuple(given.only)):
            continue
        table = part.measure().assign(part=name)
        print_rows(part.rows(name, table))
        tables.append(table)
    if not tables:
        parser.error("--only must be the beginning of a part's name")
    scores = pd.concat(tables, ignore_index=True)
    if given.scores:
        scores.to_csv(given.scores, index=False)
    if given.against:
        print_rows(paired_rows(scores, pd.read_csv(given.against, low_memory=False)))


if __name__ == "__main__":
    main()
