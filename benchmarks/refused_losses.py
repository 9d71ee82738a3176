"""How often a loss is refused on published ladders, and whether a farther one is then answered.

    python -m benchmarks.refused_losses [--workers N]

The splits are those of `benchmarks.ladders`.
Every run of a split that was not fitted is forecast, of 40 at most. Besides sizes are
forecast along rays from the largest fitted values and from the middle of the fitted ones, twice to
8,000 times as large: where one is refused, all farther ones on its ray must be.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import extrap
from benchmarks import ladders
from benchmarks.page import print_rows
from benchmarks.rows import DATA, Row, share_row
from benchmarks.scores import Table
from extrap.errors import DataError

MOST_FORECASTS = 40
OCTAVES = (0.5, 1.0, 1.37, 2.0, 3.0, 4.0, 5.2, 7.0, 10.0, 13.0)
"""Distances along a ray."""
MOST_REFUSED = 0.03


def measure(table: Table) -> tuple[str, list[bool], int]:
    """Of a split its source, which forecasts are refused, and farther ones answered on a ray."""
    warnings.filterwarnings("ignore")
    try:
        made = table.forecast()
    except DataError:  # the sizes of a split move together, or none has a loss
        return table.group, [], 0
    ahead = table.truth[list(table.sizes)].astype(float).drop_duplicates()
    if len(ahead) > MOST_FORECASTS:
        ahead = ahead.sample(MOST_FORECASTS, random_state=0)
    refused = [_is_refused(made, size) for size in ahead.to_dict("records")]
    n_answered = 0
    for start, columns in _rays(made):
        answers = [
            _is_refused(made, start | {c: start[c] * 2**octaves for c in columns})
            for octaves in OCTAVES
        ]
        n_answered += answers != sorted(answers)
    return table.group, refused, n_answered


def _is_refused(made: extrap.Forecast, size: Mapping[str, float]) -> bool:
    return made.predict_loss(size) is None


def _rays(made: extrap.Forecast) -> Iterator[tuple[dict[str, float], list[str]]]:
    """Where each ray starts, and the columns that rise along it."""
    largest = made.largest()
    smallest = {c: min(o.size[c] for o in made.optima) for c in largest}
    for columns in (list(largest), *([c] for c in largest)):
        yield dict(largest), columns
    for column in largest:
        middle = {c: math.sqrt(smallest[c] * largest[c]) for c in largest}
        yield middle | {column: largest[column]}, [column]


def measure_all(data: Path = DATA, workers: int = 2) -> list[tuple[str, list[bool], int]]:
    """The same of every split."""
    tables = [table for _, table in ladders.all_splits(data)]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(measure, tables, chunksize=4))


def rows(found: Sequence[tuple[str, list[bool], int]]) -> list[Row]:
    """The share refused of each source and of all, and the number of rays."""
    by_source: dict[str, list[bool]] = {}
    for source, refused, _ in found:
        by_source.setdefault(source, []).extend(refused)
    n_fitted = sum(bool(refused) for _, refused, _ in found)
    part = f"{len(by_source)} sources, {n_fitted} of {len(found)} splits fitted"
    shares = [share_row(part, source, refused) for source, refused in by_source.items()]
    every = [each for refused in by_source.values() for each in refused]
    n_answered = sum(n for *_, n in found)
    return [
        *shares,
        share_row(part, "losses refused, all", every, most=MOST_REFUSED),
        Row(
            part=part,
            figure="rays with a farther loss answered",
            target="0",
            reached=str(n_answered),
            met=n_answered == 0,
        ),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    print_rows(rows(measure_all(workers=parser.parse_args().workers)))


if __name__ == "__main__":
    main()
