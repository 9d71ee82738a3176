"""`make bench-batch`: every figure about noise scale and critical batch.

    python -m benchmarks.batch [DATA] [--only PART …] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/bench-batch.csv and reports/bench-batch.html.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import batch_studies, critical_batches, noise_scales
from benchmarks.page import Part, Words, parser_of, run_parts

WORDS = Words(
    title="Batch size",
    question="How large a batch is useful, and does the noise of the gradients tell?",
    lead="Simulations with known answers, published steps to a target, and our own batch studies: "
    "estimators, intervals, forecasts, and what measuring costs.",
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
    }


if __name__ == "__main__":
    given = parser_of(__doc__).parse_args()
    run_parts(parts(given.data), given, words=WORDS, name="bench-batch")
