"""`extrap compare LOG`: a log of experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.analyses.comparison.gate import BETTER_HERE, SURVIVES, UNDECIDED
from extrap.commands.analysis import EXIT_DEVIATES, EXIT_FINE, EXIT_UNDECIDED, Printed
from extrap.commands.inputs import path_or_stdin, refuse_options_but
from extrap.commands.option_table import parse_size

if TYPE_CHECKING:
    from extrap.analyses.comparison.experiments import Experiments
    from extrap.reading.experiment_log import ExperimentLog

LOG_OPTIONS = (
    "loss maximise size where rename let statuses at level min_gain next_file gate output as_json "
    "details"
)
"""Arguments of the options that apply to a log of experiments."""


def read_log(
    source: str, statuses: Mapping[str, str], options: Mapping[str, Any]
) -> ExperimentLog | None:
    """The log of experiments that a source is; None for any other table."""
    from extrap.reading.experiment_log import is_experiment_log, read_experiment_log
    from extrap.reading.sources import read_rows

    table, _ = read_rows(path_or_stdin(source), rename=options["rename"])
    if not statuses and not is_experiment_log(table):
        return None
    refuse_options_but(LOG_OPTIONS, source, "a log of experiments")
    if len(options["maximise"]) > 1:
        raise click.UsageError("a log of experiments has one metric; leave one --maximise.")
    return read_experiment_log(
        table if source == "-" else source,
        loss=options["loss"] or "",
        maximise="".join(options["maximise"]),
        statuses=statuses,
        sizes=options["size"],
        where=options["where"],
        rename={} if source == "-" else options["rename"],
        let=options["let"],
    )


def judged_log(
    log: ExperimentLog,
    at: str | None,
    min_gain: float | None,
    next_file: str | None,
    *,
    gate: bool,
    level: float,
    output: str | None,
    **_: Any,
) -> Printed:
    """What a log says, its page and the table of its next runs."""
    from extrap.analyses.comparison.cells import log_cells, write_cells
    from extrap.analyses.comparison.experiments import judge_experiments

    sizes = list(log.experiments[0].size)
    if at is not None and not sizes:
        raise click.UsageError(
            f"--at names a larger size, {log.source} has no column of sizes in which runs differ; "
            "name it: --size width."
        )
    target = None if at is None else parse_size(at, sizes, largest=_largest(log))
    experiments = judge_experiments(log, at=target, level=level, min_gain=min_gain)
    notes = [] if output is None else [_log_page(experiments, log, output)]
    if next_file is not None:
        notes.append(write_cells(log_cells(log, experiments), next_file))
    code = log_gate_code(experiments, is_named=at is not None) if gate else EXIT_FINE
    return Printed(experiments, code=code, notes=notes)


def log_gate_code(experiments: Experiments, *, is_named: bool) -> int:
    """Exit code 0 if a change is confirmed, at the target if it is named; 4 if one may be; else 1.

    Args:
        experiments: The log.
        is_named: Whether a target was named.
    """
    verdicts = {comparison.verdict for comparison in experiments.comparisons.values()}
    is_here = experiments.verdict == BETTER_HERE and (not is_named or BETTER_HERE in verdicts)
    if experiments.verdict == SURVIVES or is_here:
        return EXIT_FINE
    return EXIT_UNDECIDED if experiments.verdict in (BETTER_HERE, UNDECIDED) else EXIT_DEVIATES


def _largest(log: ExperimentLog) -> dict[str, float]:
    """Size column → its largest value."""
    return {c: max(run.size[c] for run in log.experiments) for c in log.experiments[0].size}


def _log_page(experiments: Experiments, log: ExperimentLog, path: str) -> str:
    """Write the page; the line that says where."""
    from extrap.analyses.comparison.experiments_page import experiments_page
    from extrap.reporting.html import write_page
    from extrap.reporting.study_page import About

    rows = {"log": log.source, "data hash (SHA-256)": log.data_hash()}
    about = About(Path(log.source).name, "Which changes are better than noise?", rows)
    return f"wrote {write_page(experiments_page(experiments, about), path)}"
