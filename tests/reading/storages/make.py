"""Makes the storages of this folder, each with the Optuna that it is named after.

    python -m venv v && v/bin/pip install optuna==4.5.0 && v/bin/python make.py optuna-4.5.sql

and likewise with 3.0.6, whose tables are other ones. A dump of SQLite is text, and
restoring it gives the tables that this Optuna made.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import tempfile
import warnings
from pathlib import Path

import optuna
from optuna.trial import TrialState

VALUES = (2.5, 1e300, math.inf, 1e-300)


def fill(url: str) -> None:
    """Studies with a trial of every kind."""
    study = optuna.create_study(
        storage=url, study_name="theirs", sampler=optuna.samplers.RandomSampler(seed=0)
    )
    study.set_user_attr("note", {"by": ["somebody", 1, None]})
    for number, value in enumerate(VALUES):
        trial = study.ask()
        trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.suggest_int("layers", 1, 4)
        trial.suggest_categorical("kind", ["sgd", "adam", None, 3, True])
        trial.set_user_attr("width", 8 * 2**number)
        trial.set_user_attr("many", [1, {"deep": [2]}])
        for step, loss in enumerate((3.0, math.inf, math.nan, -1e308)):
            trial.report(loss, step)
        study.tell(trial, value)
    study.tell(study.ask(), math.nan)
    study.tell(study.ask(), state=TrialState.FAIL)
    pruned = study.ask()
    pruned.report(2.75, 1)
    study.tell(pruned, state=TrialState.PRUNED)
    study.ask()
    study.enqueue_trial({"lr": 0.01})
    both = optuna.create_study(storage=url, study_name="both", directions=["minimize", "maximize"])
    trial = both.ask()
    trial.suggest_float("lr", 0.0, 1.0)
    both.tell(trial, [1.5, math.inf])
    sized = optuna.create_study(storage=url, study_name="old/width=8")
    trial = sized.ask()
    trial.suggest_float("lr", 0.01, 0.02)
    trial.set_user_attr("seed", 0)
    sized.tell(trial, 1.25)


def main() -> None:
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        fill(f"sqlite:///{path}")
        with sqlite3.connect(path) as connection:
            text = "\n".join(connection.iterdump())
        connection.close()
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
