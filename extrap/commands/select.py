"""`extrap select`: the hardest or easiest examples by their embedding."""

from __future__ import annotations

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say


@click.command(name="select", cls=Command)
@click.argument("embedding")
@click.option("--keep", type=float, required=True, help="Fraction or number of examples to keep.")
@click.option(
    "--which",
    type=click.Choice(["hard", "easy", "random"]),
    default="hard",
    show_default=True,
    help="Keep the examples farthest from the prototypes, the nearest, or random ones.",
)
@click.option("--label", help="Column of the classes to balance.")
@click.option("--seed", default=0, show_default=True, help="Seed of k-means and random choices.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="CSV file to write: row, difficulty and kept, one line per example.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def select_command(
    embedding: str,
    *,
    keep: float,
    which: str,
    label: str | None,
    seed: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Keep the hardest or the easiest training examples.

    EMBEDDING is an .npy array with one row per example and one column per feature, or a CSV or
    Parquet table of features. Without -o the kept rows are printed, one per line, counted from 0.
    In theory hard examples are better if data are plentiful, and easy ones if data are scarce. In
    our study on text, neither was better than random examples.
    """
    import pandas as pd

    from extrap.files import write_csv
    from extrap.reading import read_embedding
    from extrap.selection import select

    features, labels = read_embedding(embedding, label=label)
    found = select(features, keep=keep, which=which, labels=labels, seed=seed)
    if output:
        kept = found.is_kept.astype(int)
        table = pd.DataFrame({"difficulty": found.difficulty, "kept": kept})
        write_csv(table, output, index_label="row")
    if as_json:
        print_json(
            {
                "n_examples": len(found.difficulty),
                "n_kept": len(found),
                "which": found.which,
                "threshold": found.threshold,
                "n_balanced": found.n_balanced,
                "rows": found.rows.tolist(),
            }
        )
    elif output:
        end = "" if found.threshold is None else f", to a difficulty of {found.threshold:.4g}"
        say(f"kept {len(found)} of {len(found.difficulty)} ({which}{end}) in {output}")
    else:
        say("\n".join(map(str, found.rows)))
