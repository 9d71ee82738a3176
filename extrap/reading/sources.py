"""What a source is: told by its scheme, its ending or what lies in the folder.

| source | is read as |
|---|---|
| `….csv`, `….parquet`, `….jsonl`, open text | a table |
| a frame, a list of dictionaries | a table |
| `sqlite:///…`, `….db`, `journal://…`, `postgresql://…` | an Optuna storage, or an MLflow store |
| `http://…`, `https://…`, `mlflow+…` | an MLflow tracking server or store |
| `wandb://ENTITY/PROJECT`, a list of run objects | runs of W&B |
| a folder | what it holds: MLflow, W&B, HF Trainer, Lightning or TensorBoard |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.reading.curves import read_curves
from extrap.reading.found import Found
from extrap.reading.frames import is_table
from extrap.reading.tables import read_table

__all__ = ["find_runs", "without_password"]


def find_runs(
    source: Any,
    *,
    study: str | None = None,
    stage: str = "tune",
    sizes: Sequence[str] = (),
    curves: str | Path | pd.DataFrame | None = None,
) -> Found:
    """Read a source as whatever it is.

    Args:
        source: What `read_runs` takes.
        study: The study or experiment, where a storage holds several.
        stage: `tune` or `check`, by which studies of ours are told apart.
        sizes: Size columns that were asked for, which the names of studies may hold.
        curves: Loss curves beside a table.

    Raises:
        DataError: There is nothing that can be read.
        ValueError: Curves were handed in beside a source that has its own.
    """
    if isinstance(source, str) and "://" in source:
        if curves is not None:
            raise ValueError("a storage holds the curves of its runs; leave curves= out.")
        from extrap.reading.optuna import find_study

        return find_study(source, study=study, stage=stage, sizes=sizes)
    table = read_table(source)
    where = _place(source)
    points = None if curves is None else read_curves(curves, table)
    return Found(table=table, where=where, curves=lambda loss: points)


def _place(source: Any) -> str:
    """What to call a source in a message."""
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, pd.DataFrame):
        return "the DataFrame"
    if isinstance(source, list | tuple):
        return "the list of runs"
    return (
        f"the {type(source).__module__.partition('.')[0]} frame"
        if is_table(source)
        else ("the standard input")
    )


def without_password(url: str) -> str:
    """A storage URL with `user:password@` cut to `user@`, and without `password=…` behind it."""
    scheme, found, rest = url.partition("://")
    if found:
        # to the end: an & in a password, which should be %26, would look like the end of it
        rest = re.sub(r"(?is)[?&;](ssl)?passw(or)?d=.*", "", rest)
        url = f"{scheme}://{rest}"
    if not found or "@" not in rest:
        return url
    account, _, host = rest.rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}@{host}"
