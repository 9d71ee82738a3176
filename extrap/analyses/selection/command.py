"""`extrap select`."""

from __future__ import annotations

from extrap.commands.analysis import Printed, analysis


@analysis(
    "select EMBEDDING",
    "",
    """
    --keep FLOAT | Fraction or number of examples to keep. [required]
    --which hard|easy|random | Keep the examples farthest from the prototypes, the nearest, or
        random ones. [default: hard]
    --label COLUMN | Column of the classes to balance.
    --seed INTEGER | Seed of k-means and random choices. [default: 0]
    -o --output FILE | CSV file to write: row, difficulty and kept, one line per example.
    """,
)
def select_command(
    embedding: str, *, keep: float, which: str, label: str | None, seed: int, output: str | None
) -> Printed:
    """Keep the hardest or the easiest training examples.

    EMBEDDING is an .npy array with one row per example and one column per feature, or a CSV or
    Parquet table of features. Without -o the kept rows are printed, one per line, counted from 0.
    In theory hard examples are better if data are plentiful, and easy ones if data are scarce. In
    our study on text, neither was better than random examples.

    Example: extrap select embedding.npy --keep 0.2 -o kept.csv
    """
    import pandas as pd

    from extrap.analyses.selection import select
    from extrap.files import write_csv
    from extrap.reading import read_embedding
    from extrap.records.numbers import format_quantity
    from extrap.reporting.blocks import Paragraph

    features, labels = read_embedding(embedding, label=label)
    chosen = select(features, keep=keep, which=which, labels=labels, seed=seed)
    n = len(chosen.difficulty)
    document = {
        "n_examples": n,
        "n_kept": len(chosen),
        "which": chosen.which,
        "threshold": chosen.threshold,
        "n_balanced": chosen.n_balanced,
        "rows": chosen.rows.tolist(),
    }
    text = "\n".join(map(str, chosen.rows))
    if output:
        is_kept = chosen.is_kept.astype(int)
        table = pd.DataFrame({"difficulty": chosen.difficulty, "kept": is_kept})
        write_csv(table, output, index_label="row")
        if chosen.threshold is not None:
            side = "or more" if which == "hard" else "or less"
            which += f", difficulty {format_quantity(chosen.threshold, digits=4)} {side}"
        text = f"kept {len(chosen)} of {n} ({which}) in {output}"
    return Printed(chosen, [Paragraph(text)], document=lambda: document)
