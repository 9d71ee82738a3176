"""`plan`: options for the next runs, with their cost and the intervals they would leave.

The intervals are those of a forecast of the sweep with the option's runs, whose losses are
imagined as the forecast expects them, the noise as it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.fitting.run_costs import read_run_cost
from extrap.fitting.surface.imagined_runs import expect_sizes, imagine
from extrap.fitting.surface.surface import Surface
from extrap.forecasting import Forecast
from extrap.forecasting.documents import of_forecast
from extrap.laws.base import Array
from extrap.records import WITHOUT_SEED, Interval, Shown
from extrap.records.codec import shape
from extrap.records.fields import require_positive
from extrap.records.flags import Flag

NEAR_EXCESS = 0.01
"""Log excess that sets how far from an optimum values are tried."""
OFFSETS = {1: (-1.6, -0.8, 0.0, 0.8, 1.6)}
"""Values to try at a new size: distances from its predicted optimum, in units of the distance at
which the excess is `NEAR_EXCESS` …"""
OFFSETS_OF_SEVERAL = (-1.2, 0.0, 1.2)
"""… and along each of several tuned columns."""
WITHIN = 2.0
"""Values of a swept size within so many such distances of its optimum are tried again."""
LARGER = (2**0.5, 2.0)
"""Sizes beyond the sweep, as multiples of the largest."""
MOST_VALUES = 12
"""A size with more values near its optimum was sampled; a finer grid has no meaning there."""
SEVERAL_SIZES = Flag(
    "even-grid", "with several size columns an even grid of all sizes may narrow more"
)
"""Flag; measured on Step Law's runs at version 0.1."""
LEAST_GAIN = 0.25
"""An option that narrows by less, the logs of all widths together, is chosen only if none does:
by a tenth and more widths also change with the noise that is imagined for its runs."""
UNKNOWN_LOG_WIDTH = math.log(100.0)
"""Log width of an interval that is not known: of the loss, and of a tuned value as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run to train: its size, tuned values, seed, and cost in the plan's unit."""

    size: Mapping[str, float]
    tuned: Mapping[str, float]
    seed: int | str
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Runs that may be trained next, and the prediction intervals at the target then.

    Attributes:
        name: `"bracket"`, `"seed"`, `"finer"`, `"between"`, `"larger"`, `"target"` or `"grid"`.
        sizes: The sizes of its runs.
        runs: The runs.
        cost: What they cost together.
        in_budget: Whether the budget pays for them.
        loss_pi: Interval of one new run's loss; open where it is not known.
        tuned_pi: Tuned column → interval of its optimum.
        gain: Sum of the logs of all widths now less that then; None where none is known.
    """

    name: str
    sizes: tuple[Mapping[str, float], ...]
    runs: tuple[PlannedRun, ...]
    cost: float
    in_budget: bool
    loss_pi: Interval
    tuned_pi: Mapping[str, Interval]
    gain: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Shown):
    """Options for the next runs, and the one to choose.

    Attributes:
        at: The target: size column → value.
        level: Level of the intervals.
        budget: Largest cost; None for no bound.
        unit: Of all costs: `"FLOPs"`, `"hours"`, or `"units"` of the user's formula.
        cost_from: Source of the costs of runs, as text.
        spent: Cost of the sweep.
        loss_pi: Interval of one new run's loss at the target now; open where it is not known.
        tuned_pi: Tuned column → interval of its optimum there now.
        options: The options.
        chosen: Index of the option that brackets optima where it is in the budget, else of the one
            with the largest gain per cost of those that gain a quarter, else of all; None where
            none in the budget narrows the intervals.
        flags: Reasons to doubt the plan.
    """

    at: Mapping[str, float]
    level: float
    budget: float | None
    unit: str
    cost_from: str
    spent: float
    loss_pi: Interval
    tuned_pi: Mapping[str, Interval]
    options: tuple[Option, ...]
    chosen: int | None
    flags: tuple[str, ...]

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """The runs of the chosen option."""
        return () if self.chosen is None else self.options[self.chosen].runs

    def frame(self) -> pd.DataFrame:
        """One row per run of the chosen option: sizes, tuned values, seed, cost."""
        rows = ({**run.size, **run.tuned, "seed": run.seed, "cost": run.cost} for run in self.runs)
        return pd.DataFrame(rows, columns=[*self.at, *self.tuned_pi, "seed", "cost"])


@of_forecast
def plan(
    forecast: Forecast,
    *,
    at: Mapping[str, float] | float,
    budget: float | None = None,
    hours: bool = False,
    cost: str | None = None,
    larger: bool = True,
) -> Plan:
    """Choose the runs that narrow the forecast at a size most for their cost.

    The options: bracket optima at the edge of their grid; one more seed at every size; values
    between those near each optimum; a size between two swept ones; √2 and 2 times the largest; the
    target itself; an even grid, all of the new sizes but the target. A new size is tried at five
    values around its predicted optimum, with one seed and with those of the sweep.

    Args:
        forecast: The forecast, the file it was sealed in, or runs as `extrap.forecast` takes them.
        at: The target: one value per size column, or the value of the only one.
        budget: Largest cost, in FLOPs, in hours, or in the unit of `cost`.
        hours: Whether costs are in hours, measured by the column `wall_s`.
        cost: Cost of a run as arithmetic over columns, such as `6 * n_params * n_tokens`; by
            default as `read_run_cost` says.
        larger: Whether to consider sizes beyond the sweep.

    Raises:
        ValueError: The budget is not positive, the target is not a size, the formula is invalid.
        DataError: The costs of the runs are unknown, or there is no forecast and no edge at which
            an optimum could be bracketed.

    Example:
        >>> import extrap
        >>> result = extrap.plan("examples/sweep.csv", at={"width": 1024}, budget=2e12)
        >>> sum(run.cost for run in result.runs) <= 2e12
        True
    """
    if not isinstance(budget, Real | None) or isinstance(budget, bool):
        raise TypeError(f"{argument('budget')} must be a number, got {budget!r}; give its amount.")
    if budget is not None:
        require_positive(argument("budget"), budget, "leave it out")
    point = forecast.point(forecast.one_size(at))
    price = read_run_cost(forecast.runs, formula=cost, hours=hours, seconds=budget is None)
    sweep = _Sweep.of(forecast)
    target, now = point.size, _intervals(forecast, point.size)
    options = []
    for name, cells in sweep.changes(target, larger=larger):
        if not cells:
            continue
        runs = [PlannedRun(size=s, tuned=t, seed=k, cost=price.of(s)) for s, t, k in cells]
        total = sum(run.cost for run in runs)
        loss_pi, tuned_pi = sweep.then(cells, target)
        is_bounded = loss_pi != Interval() or any(pi != Interval() for pi in tuned_pi.values())
        options.append(
            Option(
                name=name,
                sizes=tuple({tuple(run.size.items()): run.size for run in runs}.values()),
                runs=tuple(runs),
                cost=total,
                in_budget=budget is None or total <= budget,
                loss_pi=loss_pi,
                tuned_pi=tuned_pi,
                gain=_log_widths(*now) - _log_widths(loss_pi, tuned_pi) if is_bounded else None,
            )
        )
    if not options:
        raise DataError(
            "a plan needs a forecast, or an optimum at an edge of its grid, got neither "
            f"({'; '.join(forecast.flags)}); extend the sweep first."
        )
    sizes = forecast.runs.to_frame()[list(forecast.runs.sizes)].astype(float)
    return Plan(
        at=target,
        level=forecast.level,
        budget=budget,
        unit=price.unit,
        cost_from=price.source,
        spent=sum(map(price.of, sizes.to_dict("records"))),
        loss_pi=now[0],
        tuned_pi=now[1],
        options=tuple(options),
        chosen=_best(options),
        flags=(*point.flags, *price.flags, *[SEVERAL_SIZES] * (len(target) > 1)),
    )


def _best(options: Sequence[Option]) -> int | None:
    """The brackets, else the best per cost of those that are worth it, else of all."""
    payable = {i: option.gain or 0.0 for i, option in enumerate(options) if option.in_budget}
    if brackets := [i for i in payable if options[i].name == "bracket"]:
        return brackets[0]
    worth = [i for i, gain in payable.items() if gain >= LEAST_GAIN] or [*payable]
    best = max(worth, key=lambda i: payable[i] / options[i].cost, default=None)
    return best if best is not None and payable[best] > 0 else None


Cell = tuple[Mapping[str, float], Mapping[str, float], int | str]
"""Size, tuned values and seed of a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sweep:
    """What the options are made from: the forecast, and its runs near the optima.

    `near` are the runs within `WITHIN` distances of their size's optimum, `step` that distance in
    octaves, one per tuned column; `held` has the noise, which no option changes.
    """

    forecast: Forecast
    near: Mapping[tuple[float, ...], pd.DataFrame]
    step: Array
    seeds: tuple[int | str, ...]
    next_seed: int | str
    held: Surface | None

    @classmethod
    def of(cls, forecast: Forecast) -> _Sweep:
        """Collect the runs near the optima of a forecast."""
        runs = forecast.runs
        frame, names = runs.complete().to_frame(), list(runs.tuned)
        step, values = np.ones(len(names)), forecast.values_at(forecast.optima[-1].size)
        if values is not None:
            octave = np.vstack([np.eye(len(names)), -np.eye(len(names))])
            excess = values.typical.excesses(values.optimum + octave)[0]
            excess = excess.reshape(2, -1).mean(axis=0)
            step = np.clip(np.sqrt(NEAR_EXCESS / np.maximum(excess, 1e-9)), 0.5, 2.0)
        near = {}
        for o in forecast.optima:
            rows = frame[np.logical_and.reduce([frame[c] == v for c, v in o.size.items()])]
            best = np.array([o.tuned[n].value or math.nan for n in names])
            far = np.abs(np.log2(rows[names].to_numpy(dtype=float) / best)) > WITHIN * step
            near[tuple(o.size.values())] = rows[~far.any(axis=1)]
        seeds = [seed_name(seed) for seed in frame["seed"].drop_duplicates()]
        if all(str(seed).startswith(WITHOUT_SEED) for seed in seeds):
            seeds = [0]
        numbers = [seed for seed in seeds if isinstance(seed, int)]
        return cls(
            forecast=forecast,
            near=near,
            step=step,
            seeds=tuple(sorted(numbers) if len(numbers) == len(seeds) else seeds),
            next_seed=max(numbers) + 1 if numbers else f"new-{len(seeds)}",
            held=forecast.likeliest_surface(),
        )

    def changes(
        self, target: Mapping[str, float], *, larger: bool
    ) -> Iterator[tuple[str, list[Cell]]]:
        """Every option with its runs, brackets first."""
        if any(o.edge for o in self.forecast.optima):
            yield "bracket", self._bracket()
        if self.forecast.loss_model is None:
            return
        yield "seed", self._next_seeds()
        if finer := self._between_values():
            yield "finer", finer
        new = [(name, [size]) for name, size in self._new_sizes(target, larger=larger)]
        grid = [size for name, (size,) in new if name != "target"]
        for name, sizes in (*new, *[("grid", grid)] * (len(grid) > 1)):
            for n in dict.fromkeys([1, len(self.seeds)]):
                yield name, self._at_new_sizes(sizes, self.seeds[:n])

    def then(
        self, cells: Sequence[Cell], target: Mapping[str, float]
    ) -> tuple[Interval, dict[str, Interval]]:
        """The intervals at the target after forecasts of the sweep with imagined runs."""
        forecast = self.forecast
        fitted = [o.size for o in forecast.optima]
        new = {tuple(size.values()): size for size, _, _ in cells if size not in fitted}
        expected = expect_sizes(
            forecast.runs,
            forecast.surface,
            list(new.values()),
            log_loss=forecast.expected_log_loss,
        )
        added = pd.DataFrame([{**size, **tuned, "seed": seed} for size, tuned, seed in cells])
        runs = imagine(forecast.runs, added, expected, forecast.noise, rng=None)
        extended = forecast.made_of(runs, held=self.held)
        if extended is None:
            return Interval(), dict.fromkeys(forecast.runs.tuned, Interval())
        return _intervals(extended, target)

    def _next_seeds(self) -> list[Cell]:
        """A further seed at every value near the optimum of every size; none if one has none."""
        names, cells = list(self.forecast.runs.tuned), list[Cell]()
        if any(rows.empty for rows in self.near.values()):
            return []
        for o in self.forecast.optima:
            rows = self.near[tuple(o.size.values())]
            tried = rows[names].astype(float).drop_duplicates().to_dict("records")
            cells += [(o.size, values, self.next_seed) for values in (tried if names else [{}])]
        return cells

    def _between_values(self) -> list[Cell]:
        """The middles of neighbouring values near each optimum, other columns at their best."""
        cells = list[Cell]()
        for o, name in itertools.product(self.forecast.optima, self.forecast.runs.tuned):
            tried = sorted(set(self.near[tuple(o.size.values())][name].astype(float)))
            best = {n: e.value for n, e in o.tuned.items() if e.value is not None}
            if len(tried) <= MOST_VALUES and len(best) == len(o.tuned):
                for low, high in itertools.pairwise(tried):
                    values = {**best, name: math.sqrt(low * high)}
                    cells += [(o.size, values, seed) for seed in self.seeds]
        return cells

    def _new_sizes(
        self, target: Mapping[str, float], *, larger: bool
    ) -> Iterator[tuple[str, Mapping[str, float]]]:
        """In the widest gap of the sweep, beyond it, the target; of several columns, pairs.

        Those are values of each that were swept, but not together.
        """
        swept = [dict(o.size) for o in self.forecast.optima]
        columns = {c: sorted({size[c] for size in swept}) for c in target}
        if len(columns) == 1:
            ((column, values),) = columns.items()
            gaps = np.diff(np.log(values))
            middle = math.exp(math.log(values[int(np.argmax(gaps))]) + gaps.max() / 2)
            yield "between", self._rounded({column: middle})
        else:
            pairs = [
                dict(zip(columns, key, strict=True))
                for key in itertools.product(*columns.values())
            ]
            new = sorted((s for s in pairs if s not in swept), key=lambda s: math.prod(s.values()))
            for i in sorted({round(k * (len(new) - 1) / 3) for k in range(4)} if new else ()):
                yield "between", new[i]
        top = self.forecast.largest()
        for factor in LARGER if larger else ():
            size = self._rounded({c: min(v * factor, target[c]) for c, v in top.items()})
            if size not in (*swept, dict(target)):
                yield "larger", size
        if larger and dict(target) not in swept:
            yield "target", dict(target)

    def _rounded(self, size: Mapping[str, float]) -> dict[str, float]:
        whole = all(float(v).is_integer() for o in self.forecast.optima for v in o.size.values())
        return {c: float(round(v) if whole else f"{v:.4g}") for c, v in size.items()}

    def _at_new_sizes(
        self, sizes: Sequence[Mapping[str, float]], seeds: Sequence[int | str]
    ) -> list[Cell]:
        """Values around the predicted optima of sizes."""
        tuned, cells = self.forecast.runs.tuned, list[Cell]()
        offsets = OFFSETS.get(len(tuned), OFFSETS_OF_SEVERAL)
        steps = np.array([*itertools.product(offsets, repeat=len(tuned))]) * self.step
        for size in sizes:
            values = self.forecast.values_at(size)
            best = np.zeros(0) if values is None else values.optimum
            tries = [
                dict(zip(tuned, (2.0 ** (best + step)).tolist(), strict=True)) for step in steps
            ]
            cells += [(size, tried, seed) for seed in seeds for tried in tries]
        return cells

    def _bracket(self) -> list[Cell]:
        """Two values beyond each edge at which a size was best."""
        frame, names = self.forecast.runs.complete().to_frame(), list(self.forecast.runs.tuned)
        cells = list[Cell]()
        for o in self.forecast.optima:
            rows = frame[np.logical_and.reduce([frame[c] == v for c, v in o.size.items()])]
            if not o.edge or rows.empty:
                continue
            best = rows.loc[rows["loss"].idxmin(), names].astype(float).to_dict()
            for name, side in o.edge.items():
                tried = np.unique(rows[name].astype(float))
                gap = float(np.median(tried[1:] / tried[:-1])) if len(tried) > 1 else 2.0
                end, ratio = (tried[0], 1 / gap) if side == "low" else (tried[-1], gap)
                new = [{**best, name: float(end * ratio**k)} for k in (1, 2)]
                cells += [(o.size, values, seed) for values in new for seed in self.seeds]
        return cells


def seed_name(seed: object) -> int | str:
    """A seed as a whole number where it is one."""
    text = str(seed)
    number = pd.to_numeric(text, errors="coerce")
    return int(number) if np.isfinite(number) and float(number).is_integer() else text


def _intervals(
    forecast: Forecast, size: Mapping[str, float]
) -> tuple[Interval, dict[str, Interval]]:
    """Prediction intervals of the loss of one new run and of each optimum, refused or not."""
    prediction, values, loss_pi = forecast.predict_loss(size), forecast.values_at(size), Interval()
    if prediction is not None:
        loss_pi = forecast.as_run(prediction, size).interval(forecast.level, new_run=True)
    tuned = {} if values is None else values.estimates
    return loss_pi, {name: estimate.pi for name, estimate in tuned.items()}


def _log_widths(loss_pi: Interval, tuned_pi: Mapping[str, Interval]) -> float:
    """Sum of the logarithms of all widths, ln(upper / lower) each."""
    widths = [
        math.log(high / low) if low and high else UNKNOWN_LOG_WIDTH
        for low, high in (loss_pi, *tuned_pi.values())
    ]
    return sum(math.log(max(min(width, UNKNOWN_LOG_WIDTH), 1e-12)) for width in widths)


shape(Plan, kind="extrap-plan")
