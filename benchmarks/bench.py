"""`make bench`: speeds, ours and those of others in the same run, as a table and a page.

    python -m benchmarks.bench [--only PART …] [--out FOLDER]

Parts: fits, sweep, training, gpu, and only if asked for, as it takes 20 minutes, samplers. Writes
reports/bench.csv and reports/bench.html. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import fits, samplers, speed, training
from benchmarks.backtest import REPORTS, conclusion
from benchmarks.gpu_acceptance import speed as gpu
from benchmarks.gpu_acceptance.page import speed_rows
from benchmarks.page import Words, write_page
from benchmarks.rows import Row
from benchmarks.speed_pictures import plates
from benchmarks.table import print_rows, write_csv

WORDS = Words(
    title="Speeds",
    question="How fast is it?",
    lead="Training, fitting and sampling, against the ordinary way in the same run on the same "
    "machine. A speed is a ratio; seconds are this machine's.",
    command="make bench",
    seeds="training and samplers are seeded; times are not",
    libraries=("numpy", "scipy", "torch", "optuna"),
)

PARTS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], Sequence[Row]]]] = {
    "fits": (fits.rows, lambda found: found),
    "sweep": (speed.time_sweep, speed.rows),
    "training": (training.race_all, training.rows),
    "gpu": (gpu.measure_if_any, speed_rows),
    "samplers": (samplers.judge_all, samplers.rows),
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    usual = [name for name in PARTS if name != "samplers"]
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=usual)
    parser.add_argument("--out", type=Path, default=REPORTS, help="folder of the page")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    for name, (measure, judge) in PARTS.items():
        if name not in arguments.only:
            continue
        began = time.perf_counter()
        found[name] = measure()
        rows += judge(found[name])
        seconds[name] = time.perf_counter() - began
        sys.stderr.write(f"{name}: {seconds[name]:.0f} s\n")
    print_rows(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, arguments.out / "bench.csv")
    write_page(rows, plates(found), seconds, (), words=WORDS, path=arguments.out / "bench.html")
    sys.stdout.write(conclusion(rows, seconds) + "\n")


if __name__ == "__main__":
    main()
