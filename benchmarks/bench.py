"""`make bench`: the speeds, ours and SciPy's in the same run."""

from __future__ import annotations

import sys

from benchmarks import fits, speed
from benchmarks.table import print_rows


def main() -> None:
    """Print one table."""
    found = [*fits.rows(), *speed.rows(speed.time_sweep())]
    print_rows(found)
    if len(found) < 4:
        sys.stdout.write("The Chinchilla refits need ../shared/data/chinchilla_epoch.csv.\n")


if __name__ == "__main__":
    main()
