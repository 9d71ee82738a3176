"""`extrap select`: the examples worth keeping, by an embedding of them."""

from __future__ import annotations

import click

from extrap.commands.printing import print_json, say

__all__ = ["select_command"]


@click.command(name="select")
@click.argument("embedding")
@click.option(
    "--keep", type=float, required=True, help="Fraction of the examples to keep, or their number."
)
@click.option(
    "--which",
    type=click.Choice(["hard", "easy", "random"]),
    default="hard",
    show_default=True,
    help="The farthest from the prototypes, the nearest, or any; compare with random ones.",
)
@click.option("--label", help="Column of the classes, whose balance is kept in part.")
@click.option(
    "--balance",
    default=0.5,
    show_default=True,
    help="Part of its fair share that every class keeps at least.",
)
@click.option("--clusters", type=int, help="Prototypes; default as many as classes, else √n.")
@click.option(
    "--metric",
    type=click.Choice(["cosine", "euclidean"]),
    default="cosine",
    show_default=True,
    help="Distance to the prototypes.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of k-means and random choices.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="CSV file to write: row, difficulty and whether it is kept, a line an example.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def select_command(
    embedding: str,
    *,
    keep: float,
    which: str,
    label: str | None,
    balance: float,
    clusters: int | None,
    metric: str,
    seed: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Keep the hardest or the easiest part of the examples in EMBEDDING.

    EMBEDDING is an .npy array, a row an example and a column a feature, or a CSV or Parquet table
    of features. Without -o the kept rows are printed, one a line, counted from 0. Theory has hard
    ones win where data are plentiful and easy ones where they are scarce; on text neither
    beat random ones in our study.
    """
    import pandas as pd

    from extrap.files import write_csv
    from extrap.reading import read_embedding
    from extrap.selection import select

    features, labels = read_embedding(embedding, label=label)
    found = select(
        features,
        keep=keep,
        which=which,
        labels=labels,
        balance=balance,
        n_clusters=clusters,
        metric=metric,
        seed=seed,
    )
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
