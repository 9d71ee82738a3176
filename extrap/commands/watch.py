"""`extrap watch`: a running job checked against its forecast."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from extrap.commands.arguments import parse_assignments, parse_size
from extrap.commands.exits import DEVIATES, FINE
from extrap.commands.helping import Command
from extrap.commands.printing import say


@click.command(name="watch", cls=Command)
@click.argument("forecast")
@click.argument("log")
@click.option("--at", required=True, help="Size of the job: 4096, width=4096 or width=64,depth=8.")
@click.option("--total-steps", type=float, help="Number of steps of the whole job.")
@click.option(
    "--tuned",
    multiple=True,
    metavar="NAME=VALUE",
    help="Tuned value of the job, e.g. lr=0.001 (repeatable).",
)
@click.option("--step", default="step", show_default=True, help="Column or key of the step.")
@click.option("--loss", help="Column, key or tag of the loss; default loss.")
@click.option(
    "--let",
    multiple=True,
    metavar="FORMULA",
    help='Formula of the loss or step, e.g. "error = 1 - acc / 100" (repeatable, in order).',
)
@click.option(
    "--maximise",
    metavar="METRIC",
    help="Metric that is better when larger: the loss is 1 − x of a share, −x below 0.",
)
@click.option("--level", default=0.95, show_default=True, help="Level of the band and the alarm.")
@click.option("--once", is_flag=True, help="Judge what is logged so far, and stop.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds between two readings of the log.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def watch_command(
    forecast: str,
    log: str,
    *,
    at: str,
    total_steps: float | None,
    tuned: Sequence[str],
    step: str,
    loss: str | None,
    let: Sequence[str],
    maximise: str | None,
    level: float,
    once: bool,
    interval: float,
    as_json: bool,
) -> int:
    """Check a running job against a forecast.

    FORECAST is a sealed forecast (.json). LOG is a CSV or JSONL file, or TensorBoard's event files
    or their folder. The exit code is 1 at an alarm, and 0 when the run is over.

    Use --let and --maximise to turn what is logged into the loss of the sweep. There is no
    --final: a running job has no final loss.
    """
    from extrap.documents import load_forecast
    from extrap.monitoring import Monitor
    from extrap.reading.logs import LogReader
    from extrap.records.codec import encode
    from extrap.reporting.terminal import reading_text
    from extrap.watching import watch

    loss = loss or maximise or "loss"
    if maximise not in (None, loss):
        raise click.UsageError(
            f"one metric is watched, got --loss {loss} and --maximise {maximise}; name the same "
            "one, or leave --loss out."
        )
    made = load_forecast(forecast)
    monitor = Monitor(
        made,
        at=parse_size(at, made.runs.sizes),
        total_steps=total_steps,
        tuned=parse_assignments(tuned, option="--tuned", example="lr=0.001") or None,
        level=level,
    )
    reader = LogReader(log, step=step, loss=loss, let=let, maximised=maximise is not None)
    reading = None
    for reading in watch(monitor, reader, interval=interval, once=once):
        if as_json:
            say(json.dumps(encode(reading), allow_nan=False))
        else:
            say(reading_text(reading))
    if not as_json:
        say(reading.advice if reading else f"{log} has no loss yet.")
    return DEVIATES if reading and reading.alarm else FINE
