"""Commands on a sweep or a sealed forecast: forecast, plan, cost, backtest, check, watch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.analysis import EXIT_DEVIATES, EXIT_FINE, Printed, analysis, command
from extrap.commands.inputs import (
    checked_source_kind,
    load_or_fit_forecast,
    parse_forecast_size,
    read_big,
    read_table,
    refuse_options_but,
)
from extrap.commands.option_table import FORECAST_OPTIONS, SWEEP_OPTIONS, parse_size
from extrap.commands.printing import say
from extrap.errors import DataError, OnlyBestValues

if TYPE_CHECKING:
    from extrap.checking.monitoring import Reading
    from extrap.records import Recipe

OWN_RUNS = (
    "The forecast was fitted to all of these runs, so they do not test it; give runs that it has "
    "not seen."
)
"""Warning of a check where every run is one of the sweep's own."""


@analysis(
    "forecast SWEEP",
    f"{FORECAST_OPTIONS} loss details",
    """
    --at SIZE... | A size to forecast: 4096, 8x (8 times the largest fitted), width=4096, or
        params=1e9,tokens=2e10 (repeatable).
    --save FILE | Seal the forecast in this file.
    """,
)
def forecast_command(
    sweep: str, *, at: Sequence[str], save: str | None, **options: Any
) -> Printed:
    """Forecast the best values and the loss at larger sizes.

    SWEEP is a CSV, Parquet or JSONL file, the URL of an Optuna storage or MLflow store, a folder
    of a tracker's runs, a sealed forecast (.json), or - for CSV on the standard input. A table of
    the best values of each size, without losses, gives the laws of these values.
    """
    from extrap.analyses.sweep.page import forecast_blocks
    from extrap.forecasting.documents import HASH_DIGITS_SHOWN, save_forecast

    try:
        forecast = load_or_fit_forecast(sweep, options)
    except OnlyBestValues as only:
        useless = [name for name in ("fix", "path", "loss", "maximise") if options[name]]
        if save or useless:
            flag = "save" if save else useless[0]
            raise DataError(
                f"--{flag} has no effect on a table of best values, whose law is not sealed; "
                "leave it out."
            ) from only
        return _of_best_values(only, at, level=options["level"])
    sizes = [parse_forecast_size(text, forecast) for text in at] or forecast.default_targets()
    points = [forecast.at(**size) for size in sizes]
    notes = []
    if save:
        notes.append(
            f"sealed in {save}, content hash {save_forecast(forecast, save)[:HASH_DIGITS_SHOWN]}"
        )
    blocks = forecast_blocks(forecast, points)
    return Printed(forecast, blocks, document=lambda: forecast.to_dict(sizes), notes=notes)


def _of_best_values(only: OnlyBestValues, at: Sequence[str], *, level: float) -> Printed:
    """What is printed of a table of best values."""
    from extrap.analyses.best_values import laws_of_values
    from extrap.analyses.best_values.page import best_values_blocks

    best = laws_of_values(only, level=level)
    sizes = [parse_size(text, best.design.names, largest=best.design.largest()) for text in at]
    if odd := [name for size in sizes for name in size if name not in best.columns]:
        raise click.UsageError(
            f"--at takes {', '.join(best.columns)}, got one of {odd[0]}; leave that out."
        )
    blocks = best_values_blocks(best, sizes)
    return Printed(best, blocks, document=lambda: best.to_dict(sizes))


@analysis(
    "plan SWEEP",
    f"{FORECAST_OPTIONS} loss cost",
    """
    --at SIZE | The target: 4096, 8x (the largest fitted), or params=1e9,tokens=2e10. [required]
    --budget FLOAT | Budget, in FLOPs or the unit of --cost.
    --budget-hours FLOAT | Budget, in hours of the column wall_s.
    --no-larger | Suggest no size above those of the sweep.
    -o --out FILE | Write the suggested runs to this CSV file.
    """,
)
def plan_command(
    sweep: str,
    *,
    at: str,
    budget: float | None,
    budget_hours: float | None,
    out: str | None,
    **options: Any,
) -> Printed:
    """Suggest the next runs.

    Options for them, each with its cost and the intervals it would leave; the runs of the chosen
    one are listed. SWEEP is what extrap forecast reads.
    """
    from extrap.files import write_csv
    from extrap.forecasting.planning import plan

    if budget is not None and budget_hours is not None:
        raise click.UsageError("--budget and --budget-hours are two units; give one of them.")
    forecast = load_or_fit_forecast(sweep, options)
    chosen = plan(
        forecast,
        at=parse_forecast_size(at, forecast),
        budget=budget if budget_hours is None else budget_hours,
        hours=budget_hours is not None,
        cost=options["cost"],
        larger=not options["no_larger"],
    )
    notes = []
    if out:
        write_csv(chosen.frame(), Path(out))
        notes.append(f"wrote {len(chosen.runs)} runs to {out}")
    return Printed(chosen, notes=notes)


@analysis(
    "cost FORECAST_OR_SWEEP",
    f"{FORECAST_OPTIONS} loss price cost flops_per_second",
    """
    --at SIZE | The size: 4096, 8x (the largest fitted), or params=1e9,tokens=2e10. [required]
    --set tuned NAME=NUMBER... | Tuned value at that size, e.g. lr=3e-4 (repeatable); default: the
        recommended one.
    --flops FLOAT | FLOPs of the run; default: from the sweep.
    --gpu-hours FLOAT | GPU-hours of the run; default: from the column wall_s.
    """,
)
def cost_command(
    forecast_or_sweep: str, *, at: str, tuned: dict[str, float], **options: Any
) -> Printed:
    """Estimate what a choice of tuned values costs.

    The cost is in loss, compute, GPU-hours and money. FORECAST_OR_SWEEP is a sealed forecast
    (.json) or a sweep.
    """
    from extrap.forecasting.mistuning_cost import cost

    forecast = load_or_fit_forecast(forecast_or_sweep, options)
    names = ("flops", "gpu_hours", "flops_per_second", "price")
    run = {name: options[name] for name in names} | {"formula": options["cost"]}
    return Printed(
        cost(forecast, at=parse_forecast_size(at, forecast), tuned=tuned or None, **run)
    )


@analysis(
    "backtest SWEEP",
    f"{SWEEP_OPTIONS} loss",
    "--level FLOAT | Level of the intervals. [default: 0.9]",
)
def backtest_command(sweep: str, *, level: float, **options: Any) -> Printed:
    """Fit the small sizes, test on the larger ones.

    SWEEP is what extrap forecast reads. A sealed forecast gives its runs, its band, its prior and
    its fixed parameters.
    """
    from extrap.forecasting.backtesting import backtest

    if checked_source_kind(sweep) == "sealed":
        from extrap.analyses.sweep.statements import pins_of
        from extrap.forecasting.documents import load_forecast

        forecast = load_forecast(sweep)
        band, pins, prior = forecast.band, pins_of(forecast), forecast.prior
        tested = backtest(forecast.runs, level=level, band=band, fix=pins, prior=prior)
    else:
        runs = read_table(sweep, options)
        fit_options = {name: options[name] for name in ("band", "fix", "prior")}
        tested = backtest(runs, level=level, **fit_options)
    return Printed(tested)


@analysis(
    "check FORECAST_OR_SWEEP BIG",
    f"{FORECAST_OPTIONS} loss big_curves",
    """
    --tolerance FLOAT | Relative deviation that raises no alarm, however significant.
        [default: 0.005]
    --familywise | Apply the level to all configurations together, not to each.
    --worse | Ask only whether runs are worse than forecast, by one-sided tests.
    """,
)
def check_command(
    forecast_or_sweep: str,
    big: str,
    *,
    tolerance: float,
    familywise: bool,
    worse: bool,
    **options: Any,
) -> Printed:
    """Check finished runs against a forecast.

    FORECAST_OR_SWEEP is a sealed forecast (.json) or a sweep; BIG holds the larger runs. Runs that
    differ only in their seed are one configuration and are judged together. A landing that extrap
    land sealed is checked against BIG, the log of its run.

    The exit code is 1 if a run is off the law of tuned runs, else 0, even if runs are undecided.
    With --json these have on_law null, and n_judged counts the others.
    """
    from extrap.records.seals import sealed_kind
    from extrap.registry import judge_of

    if judge := judge_of(kind := sealed_kind(forecast_or_sweep)):
        refuse_options_but("loss as_json details", forecast_or_sweep, f"a sealed {kind}")
        judged = judge(forecast_or_sweep, big, options)
        return Printed(judged, code=EXIT_FINE if judged.is_fine else EXIT_DEVIATES)
    from extrap.analyses.sweep.verdicts import ALL_UNDECIDED, check, check_answer, verdicts_blocks
    from extrap.forecasting.documents import verdicts_document
    from extrap.reporting.blocks import Paragraph

    forecast = load_or_fit_forecast(forecast_or_sweep, options, big=big)
    runs = read_big(big, forecast, options, sweep=forecast_or_sweep)
    test_options: dict[str, Any] = {"familywise": familywise, "worse": worse}
    verdicts = check(forecast, runs, tolerance=tolerance, **test_options)
    answer = check_answer(verdicts, forecast, **test_options).plain
    document = verdicts_document(verdicts, level=forecast.level, forecast=forecast, **test_options)
    seals = {verdict.seal for verdict in verdicts if verdict.status == "complete"}
    warnings = [OWN_RUNS] if seals == {"in-sweep"} else []
    return Printed(
        verdicts,
        [
            *map(Paragraph, warnings),
            *verdicts_blocks(verdicts, forecast, **test_options),
        ],
        document=lambda: {"answer": answer, **document},
        code=EXIT_FINE if document["ok"] else EXIT_DEVIATES,
        json_notes=[*warnings, *([] if document["n_judged"] else [ALL_UNDECIDED])],
    )


@command(
    "watch FORECAST LOG",
    "",
    """
    --at SIZE | Size of the job: 4096, 8x (8 times the largest fitted) or width=64,depth=8.
        [required]
    --total-steps FLOAT | Number of steps of the whole job; default: that of the sweep's runs.
    --schedule constant|linear|cosine|wsd | Its schedule, to say where it ends by its own log;
        default: that of the sweep's runs, where they say it.
    --warmup FLOAT | Share of the steps of its warm-up. [default: 0]
    --decay FLOAT | Share of the steps of the last decay of wsd. [default: 0.2]
    --tuned NAME=NUMBER... | Tuned value of the job, e.g. lr=0.001 (repeatable), which the
        advice compares with the recommended one.
    --step TEXT | Column or key of the step. [default: step]
    --loss TEXT | Column, key or tag of the loss; default loss.
    --let FORMULA... | Formula of the loss or step, e.g. "error = 1 - acc / 100" (repeatable, in
        order).
    --maximise METRIC | Metric that is better when larger: the loss is 1 − x of a share, −x below
        0.
    --level FLOAT | Level of the band and the alarm. [default: 0.95]
    --once | Judge what is logged so far, and stop.
    --interval SECONDS | Seconds between two readings of the log. [default: 10]
    --json as_json | Print JSON, one object per line.
    """,
)
def watch_command(
    forecast: str,
    log: str,
    *,
    at: str,
    loss: str | None,
    maximise: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Check a running job against a forecast.

    FORECAST is a forecast of a sweep with curves: extrap forecast SWEEP --curves FILE --save
    FORECAST. LOG is a CSV or JSONL file with a step and a loss per line, or TensorBoard's event
    files or their folder. The exit code is 1 at an alarm, and 0 when the run is over.

    The e-value is the evidence that the run is off. At a level of 0.95, an alarm is raised when it
    reaches 20.

    Use --let and --maximise to turn what is logged into the loss of the sweep. There is no
    --final: a running job has no final loss.

    Example: extrap watch forecast.json train.csv --at 4096 --total-steps 20000
    """
    from extrap.checking.monitoring import Monitor, watch
    from extrap.forecasting.documents import load_forecast
    from extrap.reading.logs import LogReader
    from extrap.records.codec import encode
    from extrap.records.numbers import counted, plain

    loss = loss or maximise or "loss"
    if maximise not in (None, loss):
        raise click.UsageError(
            f"one metric is watched, got --loss {loss} and --maximise {maximise}; name the same "
            "one, or leave --loss out."
        )
    sealed = load_forecast(forecast)
    monitor = Monitor(
        sealed,
        at=parse_forecast_size(at, sealed),
        total_steps=options["total_steps"],
        tuned=options["tuned"] or None,
        level=options["level"],
        schedule=_recipe(options["schedule"], options["warmup"], options["decay"]),
    )
    is_maximised = maximise is not None
    reader = LogReader(
        log, step=options["step"], loss=loss, let=options["let"], maximised=is_maximised
    )
    reading = None
    for reading in watch(monitor, reader, interval=options["interval"], once=options["once"]):
        line = _reading_line(reading)
        say(json.dumps(encode(reading), allow_nan=False) if as_json else plain(line))
    if not as_json:
        say(reading.advice if reading else f"{log} has no loss yet.")
        if monitor.n_ignored:
            reason = "their steps had been passed, as after a resume, or lie after the end"
            say(f"Not compared: {counted(monitor.n_ignored, 'point')}, as {reason}.")
    return EXIT_DEVIATES if reading and reading.alarm else EXIT_FINE


def _recipe(schedule: str | None, warmup: float, decay: float) -> Recipe | None:
    """The recipe of a schedule that was named."""
    from extrap.records import Recipe

    if schedule is None:
        return None
    return Recipe(schedule=schedule, warmup=warmup, decay=decay if schedule == "wsd" else 0.0)


def _reading_line(reading: Reading) -> str:
    """Where a running job stands, on one line."""
    from extrap.records.numbers import (
        format_interval,
        format_percent,
        format_quantity,
        format_value,
    )

    alarm = f"; alarm: {reading.cause or 'unknown'}" if reading.alarm else ""
    first, last = reading.first_step, format_quantity(reading.step)
    is_mean = first is not None and first < reading.step
    step = f"steps {format_quantity(first)} to {last}" if is_mean else f"step {last}"
    step += f" ({format_percent(reading.fraction, signed=False)})"
    if reading.loss is None or not math.isfinite(reading.loss):
        return f"{step}: not a positive loss{alarm}" if alarm else f"{step}: not compared yet"
    return (
        f"{step}: {'mean loss' if is_mean else 'loss'} {format_value(reading.loss)}, "
        f"expected {format_value(reading.expected)} ({format_interval(reading.band)}), "
        f"e-value {format_quantity(reading.e_value)}{alarm}{_landing_text(reading)}"
    )


def _landing_text(reading: Reading) -> str:
    """Where the job ends by its own log."""
    from extrap.records.numbers import format_interval, format_value

    if reading.landing is None:
        return ""
    interval = format_interval(reading.landing.interval)
    return f"; ends at {format_value(reading.landing.loss)} ({interval})"
