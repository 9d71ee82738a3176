"""`extrap coord-check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.analysis import EXIT_DEVIATES, EXIT_FINE, Printed, analysis


@analysis(
    "coord-check STUDY_FILE",
    "assignments",
    """
    --width widths INTEGER... | Width (repeatable); default: those of the study.
    --steps COUNT | Number of updates. [default: 5]
    --lr FLOAT | Learning rate; default: the middle of the study's range.
    """,
    trains=True,
)
def coord_check_command(
    study_file: str, *, widths: Sequence[int], assignments: Sequence[str], **options: Any
) -> Printed:
    """Check that layer outputs move equally far at every width.

    Trains the model of STUDY_FILE for a few updates at several widths. Under a width rule that
    lets the learning rate transfer, such as muP, the changes do not depend on width. The exit code
    is 1 if one does.
    """
    from extrap.records.study import OWN
    from extrap.study import open_study
    from extrap.training import coordinate_check

    spec = open_study(study_file, assignments=assignments, symbol="STUDY").declared
    if spec.workload.name == OWN:
        raise click.UsageError(
            f"coord-check looks into a model that extrap trains, {study_file} names no workload; "
            "give another file, or --set workload.name=FILE.py:CLASS."
        )
    checked = coordinate_check(spec, widths=widths or None, **options)
    code = EXIT_FINE if checked.is_flat else EXIT_DEVIATES
    return Printed(checked, code=code)
