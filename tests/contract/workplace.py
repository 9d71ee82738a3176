"""Saved forecasts and storages that cases share, made once per process; and the tables."""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import extrap

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
TABLES, SAVED = FOLDER / "tables", FOLDER / "saved"


def table(name: str) -> pd.DataFrame:
    """A table of this folder."""
    return pd.read_csv(TABLES / f"{name}.csv")


def runs(name: str) -> extrap.Runs:
    """The runs of a table, read as its kind asks for."""
    kinds: dict[str, dict[str, Any]] = {
        "clean": {"size": "width", "tune": "lr"},
        "accuracy": {
            "size": "width",
            "tune": "lr",
            "loss": "acc",
            "maximise": "acc",
            "loss_kind": "error",
        },
    }
    source = TABLES / f"{name}.csv"
    curves = TABLES / "accuracy_curves.csv" if name == "accuracy" else None
    with contextlib.chdir(ROOT):  # messages and pages name the source
        return extrap.read_runs(source.relative_to(ROOT), curves=curves, **kinds[name])


@cache
def workplace() -> Path:
    """A folder with what commands read: storages, sealed forecasts, a study file."""
    folder = Path(tempfile.mkdtemp(prefix="contract-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with sqlite3.connect(folder / "tiny.db") as connection:
        connection.executescript((SAVED / "tiny.sql").read_text(encoding="utf-8"))
    shutil.copy(SAVED / "tiny.py", folder)
    for name in ("clean", "accuracy"):
        extrap.save_forecast(extrap.forecast(runs(name)), folder / f"{name}.json")
    sealed = json.loads((SAVED / "forecast.json").read_text(encoding="utf-8"))
    (folder / "broken.json").write_text(json.dumps({**sealed, "level": 0.9}))
    table("recipes").query("width < 128")[["width", "loss"]].to_csv(folder / "three.csv")
    (folder / "pages").mkdir()
    table("clean_big").query("width > 8").to_csv(folder / "big.csv", index=False)
    return folder
