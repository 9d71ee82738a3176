"""Levers for larger batches: what growing batches and ghost batches do to the final loss.

    python -m benchmarks.levers            # from the committed runs of studies/batch_levers.py
    python -m benchmarks.levers --train    # the runs anew: five minutes on two cores

`studies/batch_levers.csv` has one row a run: its arm, whether it chose a rate (`tune`) or compares
arms (`check`), rate, seed and final held-out loss.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks.rows import Row
from extrap.levers import LeverFinding, LeverReport
from extrap.records import Measure
from extrap.study import open_study, run, runs_of_table

STUDY = Path(__file__).parents[1] / "studies" / "batch_levers.py"
TABLE = STUDY.with_suffix(".csv")
KEPT = ["arm", "stage", "lr", "seed", "status", "loss", "updates", "n_tokens"]
GROWN, GHOSTS = "batch grown", "ghosts"
"""How the names of the levers begin."""
FEWER = 2.0
"""Times fewer updates than the falling rate takes, wanted of the batch that grows."""
PART = "levers for larger batches"


def train_all(path: Path = TABLE) -> None:
    """Train every run and write the table."""
    study = open_study(STUDY)
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/levers.db"
        write_table(run(study, storage=storage, reports=folder).tables["runs"], path)


def write_table(table: pd.DataFrame, path: Path = TABLE) -> None:
    """The columns that the figures rest on."""
    table[KEPT].to_csv(path, index=False, float_format="%.10g")


def measure(path: Path = TABLE) -> LeverReport:
    """The levers judged from the committed runs."""
    study = open_study(STUDY)
    report: LeverReport = study.analyse(runs_of_table(study, path))
    return report


def rows(report: LeverReport) -> list[Row]:
    """The figures."""
    grown = [f for f in report.findings if f.lever.name.startswith(GROWN)]
    (ghosts,) = (f for f in report.findings if f.lever.name.startswith(GHOSTS))
    return [
        *(_grown_row(finding) for finding in grown),
        Row(
            part=PART,
            figure="ghost batch norm at a large batch: share of the generalisation gap it closes",
            reached=f"{_words(ghosts.share)} of a gap of {_words(ghosts.gap)} nats",
            note=f"{ghosts.n_seeds} seeds; every arm at its own best rate, of a grid and chosen "
            "on other seeds",
        ),
    ]


def _grown_row(finding: LeverFinding) -> Row:
    noise, words = finding.plain.seed_sd or 0.0, finding.lever.name.removeprefix(f"{GROWN} ")
    return Row(
        part=PART,
        figure=f"growing the batch instead of decaying the rate, {words}: final loss",
        target=f"within one run's seed noise of decay, with ≥ {FEWER:g}× fewer updates",
        reached=f"{_words(finding.difference, signed=True)} nats, seed noise {noise:.4f}; "
        f"{finding.updates_ratio:.2f}× fewer updates",
        met=finding.is_within_noise and finding.updates_ratio >= FEWER,
        note=f"{finding.n_seeds} pairs; met if all of the 95 % interval is within the noise",
    )


def _words(measured: Measure, *, signed: bool = False) -> str:
    """A number with its interval; a side that is open is said."""
    sign = "+" if signed else ""
    value = "unknown" if measured.value is None else f"{measured.value:{sign}.3g}"
    lower, upper = ("open" if side is None else f"{side:{sign}.3g}" for side in measured.ci)
    return f"{value} ({lower} to {upper})".replace("-", "−")


def main() -> None:
    """Train if asked to; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="make the table anew")
    if parser.parse_args().train:
        train_all()
    for line in rows(measure()):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
