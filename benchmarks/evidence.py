"""What registered studies of the kind `SERIES` say: the rules of their figures.

    python -m benchmarks.evidence NAME

copies the tables of a finished study from `reports/` to `studies/`: `NAME.csv` has its runs,
`NAME.sealed.csv`, or `NAME.comparison.json`, what was sealed before the larger ones.
`studies/registered.md` registers the figures, which other modules print; they make the forecasts
again from the table. A rate is too high by positive octaves; intervals are of 95 %.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

import extrap
from benchmarks.rows import Row, share_row
from extrap.analyses.sweep.study import smallest_optimum
from extrap.files import import_source
from extrap.fitting.means import paired_mean
from extrap.records import RECOMMENDED, Interval, Measure, StudySpec, Verdict
from extrap.study import Kind, open_study
from extrap.study.driver import runs_of_table

STUDIES = Path(__file__).parents[1] / "studies"
LEVEL = 0.95
RATE = "lr"
FAR = 2.0
"""Octaves from the recommended rate from which a run must be called mistuned."""
SAME = 1e-3
"""Octaves between a rate and the digits that were handed to a run."""
LOCAL, LEAST_RATES = 1.6, 3
"""Octaves to either side of the recommended rate of the runs that measure the best one."""
MISTUNED = "mistuned"
SHIPPED = ["seed", "status", "stage", "role", "loss", "n_params", "epochs", "started_at"]
"""Columns of a shipped table, after those of the arm, the sizes and the rate."""
REPORTS = STUDIES.parent / "reports"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One study of a series.

    Attributes:
        spec: The study.
        forecast: Of its sweep, made again.
        sweep: The runs of the sweep.
        larger: The larger runs, with `octaves` from the recommended rate, whether their rate is
            `kept` from the smallest size, `cause`, `on_law` and the forecast loss. The runs of one
            rate at one size have one verdict.
        sealed: What was sealed of each target; empty without the table.
    """

    spec: StudySpec
    forecast: extrap.Forecast
    sweep: pd.DataFrame
    larger: pd.DataFrame
    sealed: pd.DataFrame

    @property
    def columns(self) -> list[str]:
        """The size columns."""
        return list(self.spec.sizes)

    def at(self, size: Mapping[str, float]) -> pd.DataFrame:
        """The larger runs of one size."""
        return self.larger[_is_at(self.larger, size)]

    @property
    def kept_rate(self) -> float | None:
        """The rate that is best at the smallest size, as larger runs were given it."""
        rates = self.larger.loc[self.larger["kept"].astype(bool), RATE]
        return float(rates.iloc[0]) if len(rates) else smallest_optimum(self.forecast).get(RATE)

    def targets(self) -> list[dict[str, float]]:
        """The sizes of which there are larger runs."""
        sizes = [dict(target.size) for target in self.spec.targets]
        return [size for size in sizes if len(self.at(size))]


def load_series(name: str, folder: Path = STUDIES) -> list[Arm]:
    """The studies of a series that are in its table; one that was not run is left out.

    Args:
        name: Of the study file, and of its tables.
        folder: Of the tables.
    """
    kind, path = open_study(STUDIES / f"{name}.py"), folder / f"{name}.csv"
    if not path.is_file():
        return []
    sealed_path = folder / f"{name}.sealed.csv"
    sealed = pd.read_csv(sealed_path) if sealed_path.is_file() else pd.DataFrame({"arm": []})
    return arms_of(kind, path, sealed)


def arms_of(kind: Kind, path: Path, sealed: pd.DataFrame) -> list[Arm]:
    """The studies of a series in a table."""
    names = set(pd.read_csv(path, usecols=["arm"])["arm"])
    specs = [spec for spec in kind.specs() if spec.name in names]
    kind.study = replace(kind.study, studies=tuple(specs))
    runs = runs_of_table(kind, path)
    arms = []
    for spec in specs:
        sweep_runs, larger = runs.of(spec), runs.of(spec, "check")
        made = extrap.forecast(sweep_runs, level=spec.level)
        verdicts = extrap.check(made, larger) if len(larger) else ()
        arms.append(
            Arm(
                spec=spec,
                forecast=made,
                sweep=sweep_runs.to_frame(),
                larger=judged(larger.to_frame(), verdicts, made, list(spec.sizes)),
                sealed=sealed[sealed["arm"] == spec.name],
            )
        )
    return arms


def judged(
    frame: pd.DataFrame,
    verdicts: Sequence[Verdict],
    made: extrap.Forecast,
    columns: Sequence[str],
) -> pd.DataFrame:
    """Larger runs with what was forecast and what was said of them."""
    rows, first = [], smallest_optimum(made).get(RATE)
    for run, verdict in zip(frame.to_dict("records"), verdicts, strict=True):
        point = made.at(**{column: run[column] for column in columns})
        rows.append(
            {
                **run,
                "octaves": math.log2(run[RATE] / point.recommended[RATE]),
                "kept": first is not None and abs(math.log2(run[RATE] / first)) < SAME,
                "cause": verdict.cause,
                "on_law": verdict.on_law,
                "forecast": point.loss,
                "low": point.loss_pi.lower,
                "high": point.loss_pi.upper,
            }
        )
    return pd.DataFrame(
        rows, columns=None if rows else [*frame, "octaves", "kept", "cause", "on_law"]
    )


class Tuned(NamedTuple):
    """What anybody reads off a sweep at one size: the best rate, and the least mean loss."""

    size: dict[str, float]
    rate: float
    loss: float


def tuned_sizes(arm: Arm) -> list[Tuned]:
    """Of each size the best rate and the least mean log loss over seeds, smallest size first.

    The rate is that of the least mean, or, where it has neighbors on both sides, the vertex of the
    parabola through the three.
    """
    sizes = []
    for values, frame in arm.sweep.groupby(arm.columns):
        of_rate = _log_losses(frame).mean(axis="columns")
        i, octaves = int(of_rate.argmin()), np.log2(of_rate.index.to_numpy(float))
        best, near = octaves[i], slice(max(i - 1, 0), i + 2)
        if 0 < i < len(octaves) - 1:
            square, slope, _ = np.polyfit(octaves[near] - best, of_rate.iloc[near], 2)
            best -= slope / (2 * square)
        size = dict(zip(arm.columns, values, strict=True))
        sizes.append(Tuned(size, float(2**best), math.exp(of_rate.min())))
    return sizes


def straight(arm: Arm, what: Callable[[Tuned], float], size: Mapping[str, float]) -> float:
    """A line, or plane, through logarithms of what `tuned_sizes` says, at another size."""
    sizes = tuned_sizes(arm)
    x = np.array([[1.0, *(math.log(t.size[c]) for c in arm.columns)] for t in sizes])
    y = np.log([what(t) for t in sizes])
    at = [1.0, *(math.log(size[c]) for c in arm.columns)]
    return float(np.exp(np.linalg.lstsq(x, y, rcond=None)[0] @ at))


class Local(NamedTuple):
    """The best rate of one size by the runs there.

    Attributes:
        best: Its log2.
        octaves: How much too high the recommended rate is.
        is_inside: Whether the best rate lies between those trained.
    """

    best: float
    octaves: Measure
    is_inside: bool

    def off(self, rate: float) -> Measure:
        """How many octaves another rate is too high, with the interval of the best one."""
        value, ci = math.log2(rate) - self.best, Interval()
        if None not in self.octaves.ci:
            half = (self.octaves.ci.upper - self.octaves.ci.lower) / 2
            ci = Interval(value - half, value + half)
        return Measure(value=value, ci=ci)


def local_best(frame: pd.DataFrame) -> Local | None:
    """The vertex of a parabola through log losses over log2 rates, within `LOCAL` octaves.

    The value is that of the mean over seeds, the interval Student's t over the seeds' vertices. A
    vertex beyond the trained rates, or that of a parabola with a maximum, is the better end. There
    is none of fewer than three rates.

    Args:
        frame: Larger runs of one size, with `octaves`; rates at which a seed failed, and the one
            that is kept from the smallest size, are left out.
    """
    near = frame[(frame["octaves"].abs() <= LOCAL) & ~frame["kept"].astype(bool)]
    losses = _log_losses(near)
    if len(losses) < LEAST_RATES:
        return None
    octaves = np.log2(losses.index.to_numpy(float))
    recommended = float(np.log2(near[RATE].to_numpy(float))[near["octaves"].abs().argmin()])

    def vertex(log_losses: np.ndarray) -> float:
        square, slope, _ = np.polyfit(octaves - recommended, log_losses, 2)
        if square <= 0:
            return float(octaves[log_losses.argmin()])
        return float(np.clip(recommended - slope / (2 * square), octaves[0], octaves[-1]))

    best = vertex(losses.mean(axis="columns").to_numpy())
    by_seed = paired_mean(map(vertex, losses.to_numpy().T), level=LEVEL)
    value, ci = recommended - best, Interval()
    if by_seed.value is not None:
        half = (by_seed.ci.upper - by_seed.ci.lower) / 2
        ci = Interval(value - half, value + half)
    return Local(best, Measure(value=value, ci=ci), bool(octaves[0] < best < octaves[-1]))


def cost(frame: pd.DataFrame, rate: float, best: float) -> Measure:
    """Log excess of a rate over the best one; nothing beyond the trained rates.

    Log losses are interpolated between the rates, seed by seed, by monotone cubics; the interval
    is Student's t over seeds.

    Args:
        frame: Larger runs of one size.
        rate: The rate.
        best: log2 of the best one.
    """
    return paired_mean(excesses(frame, rate, best), level=LEVEL)


def excesses(frame: pd.DataFrame, rate: float, best: float) -> np.ndarray:
    """`cost` of each seed, (seeds,); empty beyond the trained rates."""
    losses = _log_losses(frame)
    octaves = np.log2(losses.index.to_numpy(float))
    if not octaves[0] - SAME <= math.log2(rate) <= octaves[-1] + SAME:
        return np.array([])
    log_loss = PchipInterpolator(octaves, losses.to_numpy(float))
    at = float(np.clip(math.log2(rate), octaves[0], octaves[-1]))
    return np.asarray(log_loss(at) - log_loss(best))


def flag_rows(part: str, arms: Sequence[Arm]) -> list[Row]:
    """How many runs far off are called mistuned, and how many tuned ones raise an alarm.

    All seeds of a rate have one verdict: shares and intervals are of configurations.
    """
    larger = pd.concat([arm.larger.assign(arm=arm.spec.name) for arm in arms], ignore_index=True)
    keys = ["arm", *dict.fromkeys(column for arm in arms for column in arm.columns), RATE]
    n_runs = larger.groupby(keys, dropna=False)[RATE].transform("size")
    larger = larger.assign(n_runs=n_runs).drop_duplicates(keys)
    kept, tuned = larger["kept"].astype(bool), larger["role"] == RECOMMENDED
    far = kept & (larger["octaves"].abs() >= FAR)
    middle = f"median {larger.loc[kept, 'octaves'].median():.2f} octaves too high"
    figures = {
        f"smallest size's rate, {FAR:g} and more octaves off: mistuned": far,
        f"smallest size's rate, all, {middle}: mistuned": kept,
        "other rates off the recommended one: mistuned": ~kept & ~tuned,
        "recommended rate: any alarm": tuned,
    }
    rows = []
    for figure, chosen in figures.items():
        own = larger[chosen]
        hits = own["on_law"].eq(False) if chosen is tuned else own["cause"].eq(MISTUNED)
        if len(own):
            note = f"configurations; {own['n_runs'].sum()} runs"
            rows.append(share_row(part, figure, hits, note=note))
    if tuned.any():
        alarmed = larger[tuned].groupby("arm")["on_law"].agg(lambda on_law: on_law.eq(False).any())
        reached = f"{alarmed.sum()} of {len(alarmed)}"
        rows.append(Row(part=part, figure="studies with an alarm there", reached=reached))
    return rows


def completeness_rows(part: str, arms: Sequence[Arm], names: Iterable[str]) -> list[Row]:
    """Which registered runs are there, and whether the forecast is the sealed one."""
    by_name = {arm.spec.name: arm for arm in arms}
    rows = []
    for name in names:
        if name not in by_name:
            rows.append(Row(part=part, figure=name, reached="not run"))
            continue
        arm = by_name[name]
        n_grid = len(arm.spec.grid_cells())
        n_seeds = len(arm.spec.target_seeds)
        n_larger = sum((len(t.factors) + t.fixed) * n_seeds for t in arm.spec.targets)
        seal = "made again as sealed" if is_as_sealed(arm) else "NOT what was sealed"
        seal = seal if len(arm.sealed) else "no seal was shipped"
        rows.append(
            Row(
                part=part,
                figure=name,
                reached=f"{len(arm.sweep)} runs of the sweep (registered: {n_grid} and what an "
                f"open grid adds), {len(arm.larger)} of {n_larger} larger ones; forecast {seal}",
            )
        )
    return rows


def is_as_sealed(arm: Arm) -> bool:
    """Whether rates and losses made again from the table are those that were sealed.

    A row without the hash of a sealed document was not sealed.
    """
    for row in arm.sealed.to_dict("records"):
        if not isinstance(row["content_hash"], str) or not row["content_hash"]:
            return False
        point = arm.forecast.at(**{column: row[column] for column in arm.columns})
        made = [point.loss, point.loss_pi.lower, point.loss_pi.upper, point.recommended[RATE]]
        sealed = [row["loss"], row["loss low"], row["loss high"], row[RATE]]
        values = np.array([made, sealed], dtype=float)
        if not np.allclose(*values, rtol=1e-6, equal_nan=True):
            return False
    return True


def slope_rows(part: str, arms: Iterable[Arm]) -> list[Row]:
    """Exponents of the best rate."""
    return [
        Row(
            part=part,
            figure=f"{arm.spec.name}: log2 of the best rate on log2 of {column}",
            reached=words(measure),
        )
        for arm in arms
        for column, measure in slopes(arm.forecast).items()
    ]


def slopes(made: extrap.Forecast) -> dict[str, Measure]:
    """Size column → exponent of the best rate, with its normal interval."""
    kind = import_source(STUDIES / "series" / "kind.py", "extrap_series")
    exponents: dict[str, Measure] = kind.exponents(made, RATE)
    return exponents


def difference(first: Measure, second: Measure) -> Measure:
    """Of two independent values with about symmetric intervals; without one where one is open."""
    value = first.value - second.value
    if None in (*first.ci, *second.ci):
        return Measure(value=value)
    half = math.hypot(*((m.ci.upper - m.ci.lower) / 2 for m in (first, second)))
    return Measure(value=value, ci=Interval(value - half, value + half))


def words(measure: Measure, unit: str = "", *, digits: int = 2) -> str:
    """A value with its interval."""
    if measure.value is None:
        return "–"
    ends = [f"{end:.{digits}f}" for end in (measure.ci.lower, measure.ci.upper) if end is not None]
    return f"{measure.value:.{digits}f}{unit}" + (f" ({' to '.join(ends)})" if ends else "")


def percent(measure: Measure) -> str:
    """A log excess in percent."""
    return words(measure.map(lambda log: 100 * math.expm1(log)), " %")


def _log_losses(frame: pd.DataFrame) -> pd.DataFrame:
    """Log losses by rate and seed, of the rates at which every seed has one."""
    table = frame.pivot_table(index=RATE, columns="seed", values="loss", dropna=False)
    return np.log(table.dropna().sort_index())


def _is_at(frame: pd.DataFrame, size: Mapping[str, float]) -> pd.Series:
    return (frame[list(size)] == list(size.values())).all(axis="columns")


def shipped(runs: pd.DataFrame, sizes: Sequence[str]) -> pd.DataFrame:
    """The columns of a table of runs that figures need, with the starts of larger runs only."""
    runs = runs.assign(started_at=runs["started_at"].where(runs["stage"] == "check"))
    return runs[["arm", *sizes, RATE, *(name for name in SHIPPED if name in runs)]]


def main() -> None:
    """Copy the tables of a study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of the study file")
    parser.add_argument("--reports", type=Path, default=REPORTS)
    given = parser.parse_args()
    sizes = list(open_study(STUDIES / f"{given.name}.py").specs()[0].sizes)
    runs = pd.read_csv(given.reports / f"{given.name}.runs.csv")
    shipped(runs, sizes).to_csv(STUDIES / f"{given.name}.csv", index=False)
    for ending in ("sealed.csv", "comparison.json"):
        sealed = given.reports / f"{given.name}.{ending}"
        if sealed.is_file():
            (STUDIES / sealed.name).write_bytes(sealed.read_bytes())


if __name__ == "__main__":
    main()
