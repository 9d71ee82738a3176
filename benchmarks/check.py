"""`make bench-check`: every figure of the checker and the monitor, as a table and a page.

    python -m benchmarks.check [DATA] [--only PART …] [--replicates N] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/bench-check.csv and reports/bench-check.html.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import alarms, faults, published_checks, watched
from benchmarks.backtest import REPORTS, Part, conclusion
from benchmarks.check_pictures import plates
from benchmarks.page import Words, write_page
from benchmarks.rows import DATA, Row
from benchmarks.table import print_rows, write_csv

WORDS = Words(
    title="The checker",
    question="Does the checker call what is wrong, and leave alone what is right?",
    lead="Simulations, published runs and our own runs with faults put in: how rarely it alarms "
    "without need, what it finds, which cause it names, and how soon.",
    command="make bench-check",
    seeds="every draw is seeded; the same tree gives the same table, but for times",
    libraries=("numpy", "pandas", "scipy", "statsmodels"),
)


def parts(data: Path, n_replicates: int) -> dict[str, Part]:
    """All measurements, in the order of the table."""

    def on_data(judge: Callable[[Path], Any]) -> Callable[[], Any]:
        return partial(judge, data)

    checks = published_checks
    return {
        "alarms": Part(partial(alarms.measure, n_replicates), alarms.rows),
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
    names = list(parts(DATA, 1))
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--replicates", type=int, default=alarms.N_REPLICATES)
    parser.add_argument("--out", type=Path, default=REPORTS, help="folder of the page")
    arguments = parser.parse_args()
    rows: list[Row] = []
    found: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    missing: list[str] = []
    for name, part in parts(arguments.data, arguments.replicates).items():
        absent = [table for table in part.tables if not (arguments.data / table).is_file()]
        missing += absent
        if absent or name not in arguments.only:
            continue
        start = time.perf_counter()
        found[name] = part.measure()
        rows += part.rows(found[name])
        seconds[name] = time.perf_counter() - start
        sys.stderr.write(f"{name}: {seconds[name]:.0f} s\n")
    if missing:
        said = f"Not there, and left out: {', '.join(missing)} (looked in {arguments.data}).\n"
        sys.stdout.write(said)
    print_rows(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, arguments.out / "bench-check.csv")
    path = arguments.out / "bench-check.html"
    write_page(rows, plates(found), seconds, missing, words=WORDS, path=path)
    sys.stdout.write(conclusion(rows, seconds) + "\n")


if __name__ == "__main__":
    main()
