"""`make bench-batch`: every figure about noise scale, critical batch and levers.

    python -m benchmarks.batch [DATA] [--only PART …] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/bench-batch.csv and reports/bench-batch.html.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from benchmarks import batch_studies, critical_batches, levers, noise_scales
from benchmarks.backtest import REPORTS, Part, conclusion, measure
from benchmarks.page import Words, write_page
from benchmarks.rows import DATA
from benchmarks.table import print_rows, write_csv

WORDS = Words(
    title="Batch size",
    question="How large a batch is useful, and does the noise of the gradients tell?",
    lead="Simulations with known answers, published steps to a target, and our own batch studies: "
    "estimators, intervals, forecasts, levers, and what measuring costs.",
    command="make bench-batch",
    seeds="every draw is seeded; the same tree gives the same table, but for times",
    libraries=("numpy", "pandas", "scipy", "torch"),
)


def parts(data: Path) -> dict[str, Part]:
    """All measurements, in the order of the table."""
    return {
        "noise": Part(noise_scales.measure, noise_scales.rows),
        "critical": Part(
            partial(critical_batches.measure, data), critical_batches.rows, ("zhang_cbs.csv",)
        ),
        "studies": Part(batch_studies.measure, batch_studies.rows),
        "levers": Part(levers.measure, levers.rows),
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
    write_csv(rows, arguments.out / "bench-batch.csv")
    path = arguments.out / "bench-batch.html"
    write_page(rows, (), seconds, missing, words=WORDS, path=path)
    sys.stdout.write(conclusion(rows, seconds) + "\n")


if __name__ == "__main__":
    main()
