"""`extrap coord-check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.analysis import (
    EXIT_DEVIATES,
    EXIT_FINE,
    EXIT_UNDECIDED,
    Printed,
    analysis,
)

MAKE_OPTIMIZER = "make_optimizer"


@analysis(
    "coord-check SOURCE",
    "assignments",
    """
    --width widths NUMBERS... | Widths, as 64,128,256,512 (repeatable); default: the study's.
    --optimizer NAME | What makes the optimizer of a model. [default: make_optimizer]
    --steps COUNT | Number of updates. [default: 3]
    --lr FLOAT | Learning rate; default: .001, or the middle of the study's range.
    --tune COUNT | Also tune the learning rate with runs of so many updates.
    --device DEVICE | Where to train, such as cuda:0. [default: cpu]
    """,
    trains=True,
)
def coord_check_command(
    source: str,
    *,
    widths: Sequence[str],
    assignments: Sequence[str],
    optimizer: str,
    **options: Any,
) -> Printed:
    """Check that the outputs of layers move alike at every width.

    SOURCE is FILE.py:MODEL, a function of the width that returns a torch module, or a study file.
    Beside MODEL the file has batch, and may have make_optimizer(model, lr) and loss(model, batch).
    The models are trained for a few updates. The exit code is 1 if a layer breaks, 4 if there are
    fewer than four widths, too few for a verdict.
    """
    from extrap.analyses.coordinates import coordinate_check
    from extrap.records.study import OWN
    from extrap.study import open_study
    from extrap.study.loading import file_module

    try:
        options["widths"] = [int(number) for text in widths for number in text.split(",")] or None
    except ValueError:
        raise click.UsageError(
            f"--width takes whole numbers, got {', '.join(widths)}; write --width 64,128,256,512."
        ) from None
    file, _, name = source.rpartition(":")
    if file.endswith(".py"):
        if assignments:
            raise click.UsageError(
                f"--set changes fields of a study, {source} is a model; change its file."
            )
        parts = vars(file_module(file))
        needs_optimizer = [optimizer] if optimizer != MAKE_OPTIMIZER else []
        for needed in (name, "batch", *needs_optimizer):
            if needed not in parts:
                raise click.UsageError(
                    f"a model to check needs {needed!r} in its file, {file} lacks it; define it."
                )
        options |= {"batch": parts["batch"], "loss": parts.get("loss")}
        model, options["make_optimizer"] = parts[name], parts.get(optimizer)
    else:
        model = open_study(source, assignments=assignments, symbol="STUDY").declared
        if model.workload.name == OWN:
            raise click.UsageError(
                f"coord-check looks into a model that extrap trains, {source} names no workload; "
                "give FILE.py:MODEL, another study, or --set workload.name=FILE.py:CLASS."
            )
    checked = coordinate_check(model, **options)
    codes = {True: EXIT_FINE, False: EXIT_DEVIATES, None: EXIT_UNDECIDED}
    return Printed(checked, code=codes[checked.is_flat])
