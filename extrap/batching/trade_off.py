"""Steps against examples at a larger size: forecast from smaller sizes, compared with runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.batching.power_laws import BatchLaw
from extrap.batching.results import BatchGroup, BatchPrediction, times
from extrap.batching.targets import steps_to_target
from extrap.batching.tasks import TaskResult
from extrap.errors import DataError
from extrap.fitting.loss_model import LossModel, fit_loss_model
from extrap.fitting.noise import Noise
from extrap.records import Runs

BATCH = "batch_size"
FEWEST_SIZES = 4
STATUSES = ("reached", "censored", "infeasible")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsOverSize:
    """Steps to one target at any batch and size: the hyperbolas of all sizes, and laws over size.

    At each batch the steps of the hyperbolas fall with size as a loss does, towards a floor or
    without one that the data can tell. They are forecast as losses are: laws that survive,
    averaged with the local law, with a structural discrepancy. A power law of S_min alone knows
    no floor: it was 25 % short at twice the largest width of a first run of
    `studies/batch_size.py`, after which this took its place.

    Attributes:
        target: The loss to reach.
        groups: A fitted hyperbola a size, four or more.
        level: Of the intervals.
    """

    target: float
    groups: tuple[BatchGroup, ...]
    level: float

    def at(self, batch: float, size: Mapping[str, float], *, n: int = 1) -> BatchPrediction:
        """Steps at a batch and size; `pi` is for the mean of n new tuned measurements."""
        prediction = self._model(batch).predict(size, noise=self._noise(n), band="default")
        return BatchPrediction(
            value=math.exp(prediction.log_loss),
            ci=prediction.interval(self.level, new_run=False),
            pi=prediction.interval(self.level, new_run=True),
        )

    def _model(self, batch: float) -> LossModel:
        steps = [group.steps_at(batch) for group in self.groups]
        columns = list(self.groups[0].by)
        errors = [
            s.value * math.log((s.ci.upper or math.inf) / (s.ci.lower or 0.0)) / (2 * g.quantile)
            for s, g in zip(steps, self.groups, strict=True)
        ]
        return fit_loss_model(
            {c: [float(g.by[c]) for g in self.groups] for c in columns},
            [s.value for s in steps],
            loss_se=errors,
            loss_se_dof=sum(g.dof for g in self.groups),
        )

    def _noise(self, n: int) -> Noise:
        """Of a mean of n measurements about their hyperbola, pooled over sizes."""
        dof = sum(g.dof for g in self.groups)
        sd = math.sqrt(sum(g.dof * g.log_sd_of_mean(n) ** 2 for g in self.groups) / dof)
        return Noise(own_sd=sd, own_dof=dof, size_sd=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointForecast:
    """Batch and learning rate for one target at a size, together.

    Attributes:
        target: The loss to reach.
        batch: The batch at which steps exceed linear scaling by the overhead.
        lr: The best rate at that batch.
        steps: Steps to the target with both.
        examples: The same in examples.
    """

    target: float
    batch: BatchPrediction
    lr: BatchPrediction
    steps: BatchPrediction
    examples: BatchPrediction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TradeOffForecast:
    """Time against compute at a larger size, before anything was trained there.

    Attributes:
        size: The size.
        steps: Target → steps over batch and size.
        rates: Batch → the forecast learning rate.
        recommended: Batch and rate together, one per target.
        table: One row per target and batch: `target`, `batch_size`, `lr`, `predicted` steps,
            `lower`, `upper` (for a mean over the target seeds), `examples`; and `as_largest`, the
            trivial answer: the steps of the largest size of the sweep, NaN where it has none.
    """

    size: Mapping[str, float]
    steps: Mapping[float, StepsOverSize]
    rates: Mapping[int, float]
    recommended: tuple[JointForecast, ...]
    table: pd.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchFindings:
    """All that is known of a task: its sweep, and the larger size forecast from it and counted.

    Attributes:
        result: What the sweep says.
        trade_off: The forecast at the larger size; None if there is none.
        checked: The same beside what was counted there, as `check_trade_off` returns it; None if
            nothing was trained there.
    """

    result: TaskResult
    trade_off: TradeOffForecast | None = None
    checked: pd.DataFrame | None = None

    @property
    def counted(self) -> pd.DataFrame | None:
        """The rows of `checked` whose steps were counted; None without any."""
        known = None if self.checked is None else self.checked.dropna(subset="steps")
        return None if known is None or known.empty else known


def forecast_trade_off(result: TaskResult) -> TradeOffForecast | None:
    """Rates and steps at the larger size of a task; None if it names none.

    Raises:
        DataError: The sweep has no law over sizes, of the steps or of the rate.
    """
    task = result.task
    if not task.at:
        return None
    if result.joint is None:
        raise DataError(
            f"the learning rate at {dict(task.at)} needs a law over sizes and batches; "
            "tune at two sizes or more."
        )
    steps = {
        target: StepsOverSize(target=target, groups=found.groups, level=found.level)
        for target, found in result.by_target.items()
        if len(found.groups) >= FEWEST_SIZES
    }
    if not steps:
        raise DataError(
            f"steps at a larger size need {FEWEST_SIZES} sizes or more that reach the "
            "target; add sizes, or choose an easier target."
        )
    rates = {
        b: float(f"{result.joint.at(**{BATCH: b}, **task.at).value:.4g}") for b in task.batches
    }
    n_seeds, largest = len(task.study.target_seeds), _steps_at_the_largest(result)
    rows = [
        {
            "target": target,
            BATCH: batch,
            "lr": rates[batch],
            "predicted": (predicted := forecast.at(batch, task.at, n=n_seeds)).value,
            "lower": predicted.pi.lower,
            "upper": predicted.pi.upper,
            "examples": predicted.value * batch,
            "as_largest": largest.get((target, batch), math.nan),
        }
        for target, forecast in steps.items()
        for batch in task.batches
    ]
    return TradeOffForecast(
        size=dict(task.at),
        steps=steps,
        rates=rates,
        recommended=tuple(
            _recommend(
                steps[target],
                result.by_target[target].at(**task.at).b_overhead,
                result.joint,
                task.at,
            )
            for target in steps
            if result.by_target[target].laws
        ),
        table=pd.DataFrame(rows),
    )


def _steps_at_the_largest(result: TaskResult) -> dict[tuple[float, int], float]:
    """(target, batch) → tuned steps at the largest size of the sweep."""
    sizes = list(result.task.study.sizes)
    reached = result.tuned[result.tuned["status"] == "reached"]
    ordered = reached.sort_values(sizes)
    here = (
        ordered[(ordered[sizes] == ordered[sizes].iloc[-1]).all(axis=1)]
        if len(ordered)
        else ordered
    )
    return {(row["target"], row[BATCH]): row["steps"] for row in here.to_dict("records")}


def _recommend(
    steps: StepsOverSize, batch: BatchPrediction, rates: BatchLaw, size: Mapping[str, float]
) -> JointForecast:
    here = steps.at(batch.value, size)
    return JointForecast(
        target=steps.target,
        batch=batch,
        lr=rates.at(**{BATCH: batch.value, **size}),
        steps=here,
        examples=times(here, batch.value),
    )


def check_trade_off(
    trade_off: TradeOffForecast, runs: Runs, *, factors: tuple[float, ...]
) -> pd.DataFrame:
    """Compare the runs at the larger size with the forecast.

    Args:
        trade_off: The forecast.
        runs: The runs there, with curves, at `factors` times the forecast rates.
        factors: Multiples of the forecast rate that were run.

    Returns:
        The table of the forecast with `steps` (at the forecast rate), `best` (at the best of the
        factors), `best_factor`; NaN where the target was not reached. `status` is that of the
        runs at the forecast rate: `reached`, `censored`, `infeasible`, `not run`.
    """
    reached = steps_to_target(runs, targets=sorted(trade_off.steps))
    logs = np.log(reached["steps"].where(reached["status"] == "reached"))
    table = reached.assign(log_steps=logs)
    # a rate counts where all its seeds reached the target
    cells = table.groupby(["target", BATCH, "lr"])
    mean = cells["log_steps"].agg(lambda v: v.mean(skipna=False))
    worst = cells["status"].agg(lambda v: max(v, key=STATUSES.index))
    rows = []
    for row in trade_off.table.to_dict("records"):
        own = mean.get((row["target"], row[BATCH]), pd.Series(dtype=float))
        at = {f: own.get(_rate(row["lr"], f), math.nan) for f in factors}
        finite = {f: v for f, v in at.items() if np.isfinite(v)}
        best = min(finite, key=finite.__getitem__, default=math.nan)
        rows.append(
            {
                **row,
                "steps": math.exp(at.get(1.0, math.nan)),
                "best": math.exp(finite[best]) if finite else math.nan,
                "best_factor": best,
                "status": worst.get((row["target"], row[BATCH], _rate(row["lr"], 1.0)), "not run"),
            }
        )
    return pd.DataFrame(rows)


def _rate(lr: float, factor: float) -> float:
    """A rate as it was handed out."""
    return float(f"{lr * factor:.4g}")
