"""Saved forecasts and storages that cases share, made once per process; and the tables."""

import atexit
import contextlib
import json
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import pandas as pd

import extrap

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
TABLES, SAVED = FOLDER / "tables", FOLDER / "saved"


def table(name: str) -> pd.DataFrame:
    """A table of this folder."""
    return pd.read_csv(TABLES / f"{name}.csv")


def forecast(name: str) -> extrap.Forecast:
    """The forecast of a table."""
    accuracy = {"loss": "acc", "maximise": "acc", "loss_kind": "error"}
    accuracy["curves"] = str(TABLES / "accuracy_curves.csv")
    with contextlib.chdir(ROOT):  # messages and pages name the source
        source = (TABLES / f"{name}.csv").relative_to(ROOT)
        more = accuracy if name == "accuracy" else {}
        return extrap.forecast(extrap.read_runs(source, size="width", tune="lr", **more))


@cache
def workplace() -> Path:
    """A folder with what commands read: storages, sealed forecasts, a study file."""
    folder = Path(tempfile.mkdtemp(prefix="contract-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with sqlite3.connect(folder / "tiny.db") as connection:
        connection.executescript((SAVED / "tiny.sql").read_text(encoding="utf-8"))
    shutil.copy(SAVED / "tiny.py", folder)
    for name in ("clean", "accuracy"):
        extrap.save_forecast(forecast(name), folder / f"{name}.json")
    sealed = json.loads((SAVED / "forecast.json").read_text(encoding="utf-8"))
    (folder / "broken.json").write_text(json.dumps({**sealed, "level": 0.9}))
    table("recipes").query("width < 128")[["width", "loss"]].to_csv(folder / "three.csv")
    (folder / "pages").mkdir()
    table("clean_big").query("width > 8").to_csv(folder / "big.csv", index=False)
    return folder
