"""Files that commands write: never one that is read, nor one that extrap did not write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import click

WRITTEN = {
    "page": rb'<script type="application/json" id="extrap-data">',
    "summary": rb"(?m)^### [^\0]*^(Forecast m|M)ade \d{4}-\d\d-\d\d\.",
    "forecast": rb'"kind": "extrap-forecast"',
    "plan": rb"\A[^\n]*,seed,cost,step,reason\r?\n",
    "selection": rb"\Arow,difficulty,kept\r?\n",
    "export": rb'\{"format": \d+, "studies": ',
}
"""What a command writes → what every such file holds."""


class Output(click.Path):
    """The type of an option that names a file to write.

    Args:
        what: Key of `WRITTEN`: a file that is there already must be one of these.
        allow_dash: Whether `-` is the standard output.
    """

    def __init__(self, what: str, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash)
        self.what = what


def refuse_overwriting(ctx: click.Context) -> None:
    """Refuse an empty path, an output that is an input too, and a file that is not ours.

    Raises:
        click.UsageError: With what to do instead.
    """
    for param in ctx.command.params:
        path = ctx.params.get(param.name or "")
        if path is None or not isinstance(param.type, click.Path):
            continue
        option = param.opts[-1]
        if not path:
            raise click.UsageError(f"{option} takes a path, got {path!r}; give one.")
        if not isinstance(param.type, Output) or path == "-":
            continue
        others = given_texts(value for name, value in ctx.params.items() if name != param.name)
        if any(os.path.realpath(path) == os.path.realpath(other) for other in others):
            raise click.UsageError(
                f"{option} must not overwrite an input, got {path} for both; name another file."
            )
        if Path(path).is_file() and not _is_ours(path, WRITTEN[param.type.what]):
            raise click.UsageError(
                f"{option} replaces only a {param.type.what} that extrap wrote, got {path}, which "
                "is something else; write to another file, or move that one away."
            )


def given_texts(values: Iterable[Any]) -> list[str]:
    """Every text among the parameters, those that were given several times too."""
    flat = [each for v in values for each in (v if isinstance(v, tuple | list) else (v,))]
    return [text for text in flat if isinstance(text, str) and text]


def _is_ours(path: str, mark: bytes) -> bool:
    """Whether a file holds a mark, or nothing at all."""
    if not Path(path).stat().st_size:
        return True
    with Path(path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return re.search(mark, content) is not None
