"""`make bench-check`: every figure of the checker and the monitor, as a table and a page.

    python -m benchmarks.check [DATA] [--only PART …] [--out FOLDER]

What simulations say of the checker is `make calibrate`. DATA is the folder of the published
tables that `make data` fetches; what is not there is said and left out. Writes
reports/bench-check.html.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import faults, published_checks, watched
from benchmarks.page import Part, Words, parser_of, run_parts

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
    checks = published_checks
    step_law, warmups = (partial(j, data) for j in (checks.judge_step_law, checks.judge_warmups))
    return {
        "step law": Part(step_law, checks.step_law_rows, ("steplaw.csv",)),
        "warm-ups": Part(warmups, checks.warmup_rows, ("gadre_warmup_grid.csv",)),
        "faults": Part(faults.judge_all, faults.rows),
        "monitor": Part(watched.watch_all, watched.rows),
    }


if __name__ == "__main__":
    given = parser_of(__doc__).parse_args()
    run_parts(parts(given.data), given, words=WORDS, name="bench-check")
