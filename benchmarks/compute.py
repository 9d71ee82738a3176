"""`make bench-compute`: every figure about splits of a budget and comparisons of recipes.

    python -m benchmarks.compute [DATA] [--only PART …] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/bench-compute.csv and reports/bench-compute.html.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import allocations, comparisons
from benchmarks.page import Part, Words, parser_of, run_parts

WORDS = Words(
    title="Compute and recipes",
    question="Are budgets split right, and recipes told apart?",
    lead="Published laws and runs, and simulations with known answers: splits of a budget, "
    "comparisons of recipes.",
    command="make bench-compute",
    seeds="every draw is seeded; the same tree gives the same table, but for times",
    libraries=("numpy", "pandas", "scipy"),
)


def parts(data: Path) -> dict[str, Part]:
    """All measurements, in the order of the table."""
    return {
        "allocation": Part(
            partial(allocations.measure, data),
            allocations.rows,
            ("chinchilla_epoch.csv", "porian_formll.csv"),
        ),
        "comparison": Part(comparisons.measure, comparisons.rows),
    }


if __name__ == "__main__":
    given = parser_of(__doc__).parse_args()
    run_parts(parts(given.data), given, words=WORDS, name="bench-compute")
