"""How far apart are the losses of runs that differ only in their seed?

python examples/own/analysis.py examples/sweep.csv
"""

from dataclasses import dataclass
from datetime import datetime

from extrap import Runs, read_runs
from extrap.commands.analysis import Printed, analysis
from extrap.records.codec import shape
from extrap.records.numbers import format_percent, format_quantity
from extrap.records.results import Encoded
from extrap.reporting.blocks import Answer, Block, Page
from extrap.reporting.html import write_page
from extrap.reporting.tables import tabulated


@dataclass(frozen=True)
class SeedSpread(Encoded):
    """Size → standard deviation of the loss over its mean, the median of the cells."""

    by_size: dict[float, float]


shape(SeedSpread, kind="seed-spread")


def seed_spread(runs: Runs) -> SeedSpread:
    """The spread at each size of runs with one size column."""
    (size,) = runs.sizes
    losses = runs.to_frame().groupby([size, *runs.tuned])["loss"]
    medians = (losses.std() / losses.mean()).groupby(level=size).median()
    return SeedSpread(medians.to_dict())


def blocks(found: SeedSpread) -> list[Block]:
    """The answer, and a row for each size."""
    size, widest = max(found.by_size.items(), key=lambda pair: pair[1])
    spread = format_percent(widest, signed=False)
    columns = {
        "size": lambda pair: format_quantity(pair[0]),
        "spread": lambda pair: format_percent(pair[1], signed=False),
    }
    return [
        Answer(text=f"Seeds differ most at size {format_quantity(size)}, by {spread}."),
        tabulated("Relative standard deviation", found.by_size.items(), columns),
    ]


@analysis("seed-spread SOURCE", "", "--page FILE | Write a page to this file.")
def command(source: str, page: str | None) -> Printed:
    """Say how far apart seeds are."""
    found = seed_spread(read_runs(source))
    shown, asked = blocks(found), "How far apart are seeds?"
    if page:
        now = datetime.now().astimezone().isoformat()
        kind = "seed-spread"
        write_page(Page(kind=kind, title=source, question=asked, created=now, blocks=shown), page)
    return Printed(found, shown)


if __name__ == "__main__":
    command()
