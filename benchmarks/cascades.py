"""Cascades: what a small model before the large one of the default study saves.

    python -m benchmarks.cascades            # from the committed curves of studies/cascade.py
    python -m benchmarks.cascades --train    # the pairs anew: some minutes on two cores

`studies/cascade.csv` has one row a point of a curve: the small model, the pair of trainings, what
a quality is, whether a rule answers first, threshold, share, quality and cost with intervals.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row
from extrap.cascading import MARGIN, CascadeFinding, CascadeReport
from extrap.records import Measure
from extrap.study import open_study, run, runs_of_table

STUDY = Path(__file__).parents[1] / "studies" / "cascade.py"
TABLE = STUDY.with_suffix(".csv")
PART = "cascade on the default study's models"
COST = 0.7
"""Of the large model's, wanted at its quality."""


def train_all(path: Path = TABLE) -> None:
    """Train every pair and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(open_study(STUDY), storage=f"{folder}/answers", reports=folder)
        shutil.copyfile(outcome.table_paths["curves"], path)


def measure(path: Path = TABLE) -> CascadeReport:
    """The cascades judged from the committed curves."""
    study = open_study(STUDY)
    report: CascadeReport = study.analyse(runs_of_table(study, path))
    return report


def rows(report: CascadeReport) -> list[Row]:
    """The figures."""
    best = report.best
    lines = [
        Row(
            part=PART,
            figure=f"{best.small} before {report.large}: cost at the large model's share correct",
            target=f"≤ {COST:.0%} of the large model's, share correct told to be less than "
            f"{100 * MARGIN:g} points below",
            reached=f"{_percent(best.surely_cost)}; {_points(best, best.surely_difference)}",
            met=best.is_as_good and (best.cost.value or 1.0) <= COST,
            note=f"{best.n_pairs} pairs of trainings, each with a threshold chosen on other inputs"
            f"; the small model is the one of {len(report.of('correct'))} whose interval ends "
            "lowest, and the intervals are those of all at once (Bonferroni)",
        )
    ]
    lines += [
        Row(
            part=PART,
            figure=f"{finding.small} before {report.large}: {_way(finding)}",
            reached=f"{_percent(finding.cost)}; {_points(finding)}",
        )
        for finding in report.findings
        if finding is not best
    ]
    return lines


def _way(finding: CascadeFinding) -> str:
    if finding.outcome == "loss":
        return "cost at the large model's mean loss"
    return "cost at its share correct" + (", behind the rule" if finding.rule else "")


def _percent(measure: Measure) -> str:
    lower, upper = (100 * (side or 0.0) for side in measure.ci)
    return f"{100 * (measure.value or 0.0):.1f} % ({lower:.1f} to {upper:.1f} %)"


def _points(finding: CascadeFinding, difference: Measure | None = None) -> str:
    """The difference from the large model."""
    told = finding.difference if difference is None else difference
    factor, unit = (100, "points") if finding.outcome == "correct" else (1, "nats")
    value, lower, upper = (factor * (number or 0.0) for number in (told.value, *told.ci))
    return f"difference {value:+.3g} ({lower:+.3g} to {upper:+.3g}) {unit}".replace("-", "−")


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
