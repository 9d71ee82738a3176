"""`make bench`: speeds, ours and those of others in the same run, as a table and a page.

    python -m benchmarks.bench [--only PART …] [--out FOLDER]

Parts: fits, training. Writes reports/bench.html. Nothing else should run meanwhile.
"""

from __future__ import annotations

from benchmarks import speed, training
from benchmarks.page import Part, Words, parser_of, run_parts

WORDS = Words(
    title="Speeds",
    question="How fast is it?",
    lead="Training and fitting, against the ordinary way in the same run on the same "
    "machine. A speed is a ratio; seconds are this machine's.",
    command="make bench",
    seeds="training is seeded; times are not",
    libraries=("numpy", "scipy", "torch"),
)

PARTS = {
    "fits": Part(speed.fit_rows, list),
    "training": Part(training.rows, list),
}

if __name__ == "__main__":
    given = parser_of(__doc__).parse_args()
    run_parts(PARTS, given, words=WORDS, name="bench")
