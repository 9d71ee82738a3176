"""`make bench-compute`: every figure about compute, data, sparsity and comparisons of recipes.

    python -m benchmarks.compute [DATA] [--only PART …] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/bench-compute.csv and reports/bench-compute.html.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from benchmarks import allocations, cascades, comparisons, selection, sparsity
from benchmarks.backtest import REPORTS, Part, conclusion, measure
from benchmarks.page import Words, write_page
from benchmarks.rows import DATA
from benchmarks.table import print_rows, write_csv

WORDS = Words(
    title="Compute, data and sparsity",
    question="Which lever changes the law, and is the tool right about it?",
    lead="Published laws and runs, simulations with known answers, and our own studies: splits of "
    "a compute budget, comparisons of recipes, selected data, sparse weights, cascades.",
    command="make bench-compute",
    seeds="every draw is seeded; the same tree gives the same table, but for times",
    libraries=("numpy", "pandas", "scipy", "torch"),
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
        "selection": Part(selection.measure, selection.rows),
        "sparsity": Part(sparsity.measure, sparsity.rows),
        "cascade": Part(cascades.measure, cascades.rows),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="published tables")
    names = list(parts(DATA))
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--out", type=Path, default=REPORTS, help="folder of the page")
    arguments = parser.parse_args()
    wanted = {n: part for n, part in parts(arguments.data).items() if n in arguments.only}
    _, rows, seconds, missing = measure(wanted, arguments.data)
    print_rows(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, arguments.out / "bench-compute.csv")
    path = arguments.out / "bench-compute.html"
    write_page(rows, (), seconds, missing, words=WORDS, path=path)
    sys.stdout.write(conclusion(rows, seconds) + "\n")


if __name__ == "__main__":
    main()
