"""`make bench-check`: every figure of the checker and the monitor, as a table and a page.

    python -m benchmarks.check [DATA] [--only PART …] [--out FOLDER]

What simulations say of the checker is `make calibrate`. DATA is the folder of the published
tables, `../shared/data` unless given; what is not there is said and left out. Writes
reports/bench-check.csv and reports/bench-check.html.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import faults, published_checks, watched
from benchmarks.backtest import REPORTS, Part, conclusion, measure
from benchmarks.check_pictures import plates
from benchmarks.page import Words, write_page
from benchmarks.rows import DATA
from benchmarks.table import print_rows, write_csv

WORDS = Words(
    title="The checker",
    question="Does the checker call what is wrong, and leave alone what is right?",
    lead="Published runs and our own runs with faults put in: how rarely it alarms "
    "without need, what it finds, which cause it names, and how soon.",
    command="make bench-check",
    seeds="every draw is seeded; the same tree gives the same table, but for times",
    libraries=("numpy", "pandas", "scipy", "statsmodels"),
)


def parts(data: Path) -> dict[str, Part]:
    """All measurements, in the order of the table."""

    def on_data(judge: Callable[[Path], Any]) -> Callable[[], Any]:
        return partial(judge, data)

    checks = published_checks
    return {
        "step law": Part(on_data(checks.judge_step_law), checks.step_law_rows, ("steplaw.csv",)),
        "warm-ups": Part(
            on_data(checks.judge_warmups), checks.warmup_rows, ("gadre_warmup_grid.csv",)
        ),
        "faults": Part(faults.confusion, faults.rows),
        "monitor": Part(watched.watch_all, watched.rows),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="published tables")
    names = list(parts(DATA))
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--out", type=Path, default=REPORTS, help="folder of the page")
    arguments = parser.parse_args()
    every = parts(arguments.data)
    wanted = {name: part for name, part in every.items() if name in arguments.only}
    found, rows, seconds, missing = measure(wanted, arguments.data)
    print_rows(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, arguments.out / "bench-check.csv")
    path = arguments.out / "bench-check.html"
    write_page(rows, plates(found), seconds, missing, words=WORDS, path=path)
    sys.stdout.write(conclusion(rows, seconds) + "\n")


if __name__ == "__main__":
    main()
