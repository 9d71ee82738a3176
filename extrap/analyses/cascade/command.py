"""`extrap cascade`."""

from __future__ import annotations

from typing import Any

from extrap.commands.analysis import Printed, analysis
from extrap.commands.inputs import path_or_stdin


@analysis(
    "cascade SOURCE",
    "level",
    """
    --cost-small FLOAT | Cost of one input by the small model. [default: 1]
    --cost-large FLOAT | Cost of one input by the large one. [required]
    --cost-filter FLOAT | Cost of one input by the rule. [default: 0]
    --quality FLOAT | Share of correct answers, or mean loss, to reach; default: that of the large
        model.
    --group COLUMN | Column that groups dependent inputs; default group, if present.
    --validation FLOAT | Share of the inputs that choose the threshold; the others test it.
        [default: 0.5]
    --seed INTEGER | Seed of that split. [default: 0]
    """,
)
def cascade_command(source: str, **options: Any) -> Printed:
    """Choose when a small model may answer for a large one.

    SOURCE is a CSV, Parquet or JSONL file, or - for CSV on the standard input, with one row per
    input. Columns: confidence_small, and correct_small and correct_large (0 or 1) or loss_small
    and loss_large. A column filtered marks inputs that a rule answers, with correct_filter or
    loss_filter. Inputs count as independent, except those of one group.

    Example: extrap cascade inputs.csv --cost-small 1 --cost-large 20
    """
    from extrap.analyses.cascade import cascade

    return Printed(cascade(path_or_stdin(source), **options))
