"""One surface beside today's estimators, on published and measured tables.

    python -m benchmarks.published_surfaces [--only PART …]

| part | table |
|---|---|
| steplaw | Step Law's dense runs: larger cells from the smaller ones |
| divergence | the same: chance of divergence of the runs of a cell that is left out |
| metz, sweep | `studies/metz_full.csv`, `examples/sweep.csv`: larger widths from four or more |
| porian | Porian et al.: best model size at larger budgets, by the law of optima alone |
| cases | tables of users whose best value is known |
| effects | simulated optima over two size columns |
| spreads | log scores of the law of optima under other prior probabilities of its spreads |

"today" has the optima that all runs give, "runs below" only the smaller cells' runs, as the
surface has. Intervals and scores are in octaves, see `forecast_scores`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.forecast_scores import SURFACE, TODAY, paired_row, scored, words
from benchmarks.optima import Surface as Cubic
from benchmarks.optima import (
    SIZES,
    TUNED,
    by_law,
    cell_of,
    fit_cell,
    optima_of,
    origins,
    step_law,
)
from benchmarks.page import ROOT, print_rows
from benchmarks.rows import DATA, Row
from benchmarks.scores import LEVEL, rms
from extrap.fitting.divergence import fit_divergence
from extrap.fitting.one_surface.answers import answer
from extrap.fitting.one_surface.draws import SizeDraws, draw
from extrap.fitting.one_surface.surface import Surface, fit_surfaces
from extrap.fitting.one_surface.sweep_arrays import arrays_of
from extrap.fitting.posterior import fit_posterior
from extrap.records import Optimum, Runs

Array = np.ndarray
BELOW = "runs below"
REFERENCES = {"truth": "today's fit of all runs", "cubic": "a cubic of the cell"}
N_WIDTHS = 4
"""Widths at least that forecast the others."""
ENDS = (0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2)
LEAST_CHANCE = 1e-4
LEAST_LOSS_SD, LEAST_DOF = 1e-5, 3


class Fitted:
    """The surfaces of some runs, and draws at targets.

    Args:
        runs: Of a sweep.
        targets: Sizes, (T, C).
    """

    def __init__(self, runs: Runs, targets: Sequence[Sequence[float]]) -> None:
        self.surfaces, self.weights = fit_surfaces(arrays_of(runs))
        logs = np.log2(np.array(targets, dtype=float))
        rng = np.random.default_rng(0)
        self.draws, self.losses = draw(self.surfaces, self.weights, logs, rng=rng)

    @property
    def optima(self) -> Array:
        """log2 of the optima of the fitted sizes, (S, D)."""
        each = [surface.theta[surface.places.optimum] for surface in self.surfaces]
        return np.tensordot(self.weights, np.array(each), axes=1)

    @property
    def heaviest(self) -> Surface:
        """The likeliest surface."""
        return self.surfaces[int(np.argmax(self.weights))]

    def log_losses(self, targets: Array) -> Array:
        """Mean log loss at targets of one size column, by today's laws through l_s."""
        surface = self.heaviest
        done = surface.sweep.size[~surface.sweep.diverged]
        seen = np.isin(np.arange(surface.shape[0]), done)
        loss, sd = np.exp(self.losses.mean(axis=0)), self.losses.std(axis=0)
        law = fit_posterior(
            "size",
            2.0 ** surface.sweep.log_sizes[seen, 0],
            loss[seen],
            loss_se=(loss * np.maximum(sd, LEAST_LOSS_SD))[seen],
            loss_se_dof=max(int(surface.noise.dof), LEAST_DOF),
        )
        return law.predict_log(targets)[0]


def ends_of(draws: SizeDraws, j: int = 0) -> dict[str, float]:
    """Median and interval of an optimum."""
    quantiles = np.quantile(draws.optimum[:, j], ENDS)
    return dict(zip(("low", "mid", "high"), map(float, quantiles), strict=True))


def key_of(optimum: Optimum) -> tuple[float, ...]:
    """Its size."""
    return tuple(optimum.size[column] for column in SIZES)


def runs_of(table: pd.DataFrame, cells: Sequence[Optimum]) -> pd.DataFrame:
    """The rows of some cells."""
    keys = pd.MultiIndex.from_frame(table[[*SIZES]])
    return table[keys.isin([key_of(o) for o in cells])].reset_index(drop=True)


def steplaw() -> list[Row]:
    """Rolling origin over 17 cells; optima and regrets by a cubic surface of each cell alone."""
    table = step_law(DATA).reset_index(drop=True)
    cells = optima_of(table, SIZES, TUNED)
    cubic = {key_of(o): fit_cell(cell_of(table, o), 3, 0.1, 0.01) for o in cells}
    rows = [
        row
        for number, (below, above) in enumerate(origins(cells, SIZES))
        for row in _origin(runs_of(table, below), below, above, number)
    ]
    found = pd.DataFrame(rows)
    places = zip(found["key"], found["j"], strict=True)
    found["cubic"] = [cubic[key].minimum[j] for key, j in places]
    made = [
        paired_row(f"Step Law, {name}", f"to {of}", found[found["j"] == j], truth, (TODAY, BELOW))
        for j, name in enumerate(TUNED)
        for truth, of in REFERENCES.items()
    ]
    return [*made, _regret_row(found, cubic), _whole_row(table, cells, cubic)]


def _whole_row(
    table: pd.DataFrame, cells: Sequence[Optimum], cubic: Mapping[tuple[float, ...], Cubic]
) -> Row:
    everything = Fitted(extrap.read_runs(table, size=SIZES, tune=TUNED), [key_of(cells[-1])])
    order = [2.0**logs for logs in everything.heaviest.sweep.log_sizes]
    regrets: dict[str, list[float]] = {TODAY: [], SURFACE: []}
    for cell in cells:
        nearest = int(np.argmin([abs(np.log(x / key_of(cell))).sum() for x in order]))
        surface = cubic[key_of(cell)]
        at = np.log2([cell.tuned[name].value for name in TUNED])
        regrets[TODAY].append(surface.excess(at))
        regrets[SURFACE].append(surface.excess(everything.optima[nearest]))
    return _mean_row("of the fit of all runs", regrets)


def _origin(
    runs: pd.DataFrame, below: list[Optimum], above: list[Optimum], number: int
) -> Iterator[dict[str, Any]]:
    """Every forecast from the runs of some cells: by today's law in two ways, by the surface."""
    made = Fitted(extrap.read_runs(runs, size=SIZES, tune=TUNED), [key_of(o) for o in above])
    refitted = optima_of(runs, SIZES, TUNED)
    for j, name in enumerate(TUNED):
        ways = {TODAY: below, BELOW: [o for o in refitted if o.tuned[name].value]}
        found = {who: by_law(optima, above, name, SIZES) for who, optima in ways.items()}
        for i, target in enumerate(above):
            truth, key = math.log2(target.tuned[name].value), key_of(target)
            head = {"j": j, "key": key, "cluster": key, "case": (number, key), "truth": truth}
            for who, laws in found.items():
                if laws:
                    mid, half = truth + laws[i]["off"], laws[i]["half"]
                    yield {**head, "who": who, "mid": mid, "low": mid - half, "high": mid + half}
            yield {**head, "who": SURFACE, **ends_of(made.draws[i], j)}


def _regret_row(found: pd.DataFrame, cubic: Mapping[tuple[float, ...], Cubic]) -> Row:
    points = found.pivot_table(index=["who", "case"], columns="j", values="mid")
    regrets = {
        str(who): [cubic[case[1]].excess(at.to_numpy()) for (_, case), at in here.iterrows()]
        for who, here in points.groupby("who")
    }
    return _mean_row("of the forecast at the larger cell", regrets)


def _mean_row(figure: str, regrets: Mapping[str, Sequence[float]]) -> Row:
    now = (f"{who} {100 * np.mean(regrets[who]):.4f} %" for who in regrets if who != SURFACE)
    return Row(
        part="Step Law, regret by a cubic of the cell",
        figure=f"mean {figure}, {len(regrets[SURFACE])}",
        beat=", ".join(now),
        reached=f"{100 * np.mean(regrets[SURFACE]):.4f} %",
    )


def divergence() -> list[Row]:
    """Log score a run of the chance of divergence, one cell left out."""
    table = step_law(DATA)
    found: dict[str, list[Array]] = {TODAY: [], SURFACE: []}
    for size, cell in table.groupby(list(SIZES)):
        rest = table.drop(cell.index).reset_index(drop=True)
        runs = extrap.read_runs(rest, size=SIZES, tune=TUNED)
        values = np.log2(cell[list(TUNED)].to_numpy(dtype=float))
        gone = ~np.isfinite(cell["loss"].to_numpy())
        now = fit_divergence(runs).chances(dict(zip(SIZES, size, strict=True)), values)
        new = Fitted(runs, [size]).draws[0].chances(values).mean(axis=0)
        for who, chances in ((TODAY, now), (SURFACE, new)):
            p = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
            found[who].append(-np.log(np.where(gone, p, 1 - p)))
    means = {who: float(np.concatenate(parts).mean()) for who, parts in found.items()}
    return [
        Row(
            part="Step Law, chance of divergence",
            figure=f"log score a run, {len(table)} runs, their cell left out",
            beat=f"{means[TODAY]:.4f}",
            reached=f"{means[SURFACE]:.4f}",
        )
    ]


def widths(part: str, path: Path) -> list[Row]:
    """Every larger width from four or more smaller ones."""
    table = pd.read_csv(path)[["width", "lr", "seed", "loss", "status"]]
    every = sorted(table["width"].unique())
    made = extrap.forecast(extrap.read_runs(table, size=["width"], tune=["lr"]), level=LEVEL)
    truth = {o.size["width"]: o for o in made.optima}
    whole = Fitted(extrap.read_runs(table, size=["width"], tune=["lr"]), [[every[-1]]])
    own = dict(zip(every, whole.optima[:, 0], strict=True))
    rows = []
    for k in range(N_WIDTHS, len(every)):
        below = table[table["width"].isin(every[:k])].reset_index(drop=True)
        for row in _beyond(below, every[k:]):
            optimum, width = truth[row["width"]], row["width"]
            value = optimum.tuned["lr"].value
            references = {"truth": math.log2(value) if value else math.nan, "own": own[width]}
            rows.append({**row, **references, "cluster": width, "case": (k, width)})
            rows[-1]["loss off"] = row["loss"] - math.log(optimum.loss)
    return _width_rows(part, pd.DataFrame(rows))


def _beyond(table: pd.DataFrame, larger: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Forecasts at larger widths, today's and the surface's: log2 rate, log loss."""
    runs = extrap.read_runs(table, size=["width"], tune=["lr"])
    made, new = extrap.forecast(runs, level=LEVEL), Fitted(runs, [[w] for w in larger])
    losses = new.log_losses(np.array(larger, dtype=float))
    for width, draws, loss in zip(larger, new.draws, losses, strict=True):
        point = made.at(width=float(width))
        rate = point.tuned.get("lr")
        ends = {"mid": math.nan, "low": math.nan, "high": math.nan}
        if rate and rate.value:
            three = (rate.value, rate.pi.lower, rate.pi.upper)
            ends = dict(zip(ends, map(math.log2, three), strict=True))
        log_loss = math.log(point.loss) if point.loss else math.nan
        refused = math.isnan(ends["mid"])
        yield {"width": width, "who": TODAY, **ends, "loss": log_loss, "refused": refused}
        said = {"loss": loss, "refused": bool(answer(draws, level=LEVEL).refusal)}
        yield {"width": width, "who": SURFACE, **ends_of(draws), **said}


def _width_rows(part: str, found: pd.DataFrame) -> list[Row]:
    rows = []
    for truth, of in {"truth": "today's fit of all", "own": "the surface's fit of all"}.items():
        rows.append(paired_row(part, f"rate to {of}, both answer", found, truth))
        new = scored(found[found["who"] == SURFACE], truth)
        rows.append(Row(part=part, figure=f"the same, all {len(new)}", reached=words(new)))
    by = {who: found[found["who"] == who].set_index("case") for who in (TODAY, SURFACE)}
    refused = {who: f"{here['refused'].sum()} of {len(here)}" for who, here in by.items()}
    rows.append(Row(part=part, figure="refused", beat=refused[TODAY], reached=refused[SURFACE]))
    said = by[TODAY].index[by[TODAY]["loss"].notna()]
    off = {who: 100 * here["loss off"].astype(float) for who, here in by.items()}
    errors = {who: f"rms {rms(here[said]):.2f} %" for who, here in off.items()}
    rows.append(
        Row(
            part=part,
            figure=f"loss, {len(said)} that today says; all {len(off[SURFACE])}",
            beat=errors[TODAY],
            reached=f"{errors[SURFACE]}; {rms(off[SURFACE]):.2f} %",
        )
    )
    return rows


PARTS = {
    "steplaw": steplaw,
    "divergence": divergence,
    "metz": lambda: widths("Metz", ROOT / "studies" / "metz_full.csv"),
    "sweep": lambda: widths("examples/sweep.csv", ROOT / "examples" / "sweep.csv"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[*PARTS], choices=PARTS, metavar="PART")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().only:
        began = time.perf_counter()
        try:
            rows = PARTS[name]()
        except FileNotFoundError as error:
            rows = [Row(part=name, figure="left out", reached=str(error))]
        print_rows(rows)
        sys.stdout.write(f"{name}: {time.perf_counter() - began:.0f} s\n\n")


if __name__ == "__main__":
    main()
