"""A study whose drivers are disturbed, for `benchmarks.soak`, and what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import numpy as np
import optuna
import pandas as pd
import psutil
from optuna import get_all_study_names

from benchmarks.driving import LOG, PAUSE, packs_log, spec_of, steps_log
from benchmarks.page import ROOT
from benchmarks.rows import Row
from extrap.records import StudySpec
from extrap.study.database import open_storage
from extrap.study.driver import read_study

LEFT_S = 10.0
"""Processes that remain after this time are left over."""
LIFETIME_S = 1200.0
"""A study that takes longer is given up."""
MARKER = "EXTRAP_SOAK_MARKER"
"""Environment variable of a driver and all that it starts."""
COMPARED = ["width", "lr", "seed", "loss", "status"]
ROUNDED = 1e-5
"""Relative difference of losses that were trained in other packs: some processors round a product
by where a run lies in its pack."""
WANTED = "each cell complete once, table equal to an undisturbed run, no process left after 10 s"
TOLD = 2000
"""Characters of what drivers wrote that an error quotes."""


class Disturbed:
    """A study in a storage whose drivers are disturbed. A context manager that ends them.

    Args:
        url: The storage.
        study: Name of the study, see `spec_of`.
        n_cells: Its cells.
        folder: For its files.
        on: Its cluster; this machine by default.
        pause_s: Seconds that a run of one's own function takes.
    """

    def __init__(
        self,
        url: str,
        study: str,
        n_cells: int,
        folder: Path,
        *,
        on: str = "",
        pause_s: float = 0.1,
    ) -> None:
        self.url, self.study, self.n_cells = url, study, n_cells
        self.spec = spec_of(study, n_cells)
        self._on, self._marker = on, uuid4().hex
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self.log = self._folder / "begun.log"
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            LOG: str(self.log),
            PAUSE: str(pause_s),
        }
        self._began, self.n_blows = time.monotonic(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def start(self, on: str = "") -> subprocess.Popen[bytes]:
        """Start a driver, perhaps on a cluster of this address."""
        command = [sys.executable, "-m", "benchmarks.driving", self.url, "--study", self.study]
        command += ["--cells", str(self.n_cells)]
        command += ["--checkpoints", str(self._folder / "checkpoints"), "--on", on or self._on]
        with (self._folder / "output").open("ab") as output:
            return subprocess.Popen(
                command,
                env={**self.environment, MARKER: self._marker},
                cwd=self._folder,
                stdout=output,
                stderr=output,
            )

    def finish(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a driver.

        Raises:
            RuntimeError: It failed.
        """
        if code := driver.wait(LIFETIME_S):
            raise RuntimeError(f"a driver ended with {code}: {self.told()[-TOLD:]}")

    def until(self, is_there: Callable[[], bool], *drivers: subprocess.Popen[bytes]) -> bool:
        """Wait for an event; whether it came before the drivers ended well.

        Raises:
            RuntimeError: One failed, or it takes too long.
        """
        while not is_there():
            codes = [driver.poll() for driver in drivers]
            if any(codes) or time.monotonic() - self._began > LIFETIME_S:
                raise RuntimeError(f"drivers ended with {codes}: {self.told()[-TOLD:]}")
            if codes and None not in codes:
                return is_there()
            time.sleep(0.05)
        return True

    def told(self) -> str:
        """What the drivers wrote."""
        return (self._folder / "output").read_text(encoding="utf-8", errors="replace")

    def begun(self) -> list[str]:
        """Runs of one's own function that were begun."""
        return _lines(self.log)

    def n_packs(self) -> int:
        """Packs that are finished."""
        return len(_lines(packs_log(self.log)))

    def n_steps(self) -> int:
        """Evaluations of runs that this machine trained."""
        return sum(int(line.split()[1]) for line in _lines(steps_log(self.log)))

    def processes(self) -> list[psutil.Process]:
        """Drivers, and processes that they started."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARKER) == self._marker:
                    found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
        return found

    def n_left(self) -> int:
        """Processes that remain; all are given some seconds."""
        deadline = time.monotonic() + LEFT_S
        while (n := len(self.processes())) and time.monotonic() < deadline:
            time.sleep(0.2)
        return n

    def named(self, words: str) -> list[psutil.Process]:
        """Processes by what stands in their command line."""
        found = []
        for process in self.processes():
            with suppress(psutil.Error):
                found += [process] if words in " ".join(process.cmdline()) else []
        return found

    def n_again(self) -> int:
        """Runs of one's own function that were begun a second time."""
        begun = self.begun()
        return len(begun) - len(set(begun))

    def row(
        self,
        part: str,
        figure: str,
        whole: pd.DataFrame,
        *,
        told: str = "",
        target: str = "",
        is_met: bool = True,
    ) -> Row:
        """What the storage holds, compared with an undisturbed run.

        Args:
            part: Of the row.
            figure: Of the row.
            whole: The table of an undisturbed run.
            told: What else was reached.
            target: What else was to be reached.
            is_met: Whether that was reached.
        """
        wall_s, n_left = time.monotonic() - self._began, self.n_left()
        finished = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        complete = Counter(
            (name, *trial.params.values(), trial.user_attrs.get("seed"))
            for name, trial in self._trials()
            if trial.state in finished
        )
        n_twice, n_complete = sum(n > 1 for n in complete.values()), len(complete)
        if self.study == "tpe":
            is_same, table = True, ""
        else:
            is_same = _is_same(table_of(self.spec, self.url), whole)
            table = f"table {'equal' if is_same else 'DIFFERENT'}"
        words = [
            f"{n_complete} of {self.n_cells} complete, {n_twice} double",
            table,
            f"{self.n_blows} blows",
            f"{self.n_again()} runs trained again" if self.begun() else "",
            f"{n_left} processes left",
            told,
            f"{wall_s:.0f} s",
        ]
        is_right = n_complete == self.n_cells and not n_twice and is_same and not n_left
        return Row(
            part=part,
            figure=figure,
            target="; ".join(filter(None, [WANTED, target])),
            reached="; ".join(filter(None, words)),
            met=is_right and is_met,
        )

    def _trials(self) -> list[tuple[str, optuna.trial.FrozenTrial]]:
        storage = open_storage(self.url)
        ids = {name: storage.get_study_id_from_name(name) for name in get_all_study_names(storage)}
        return [(n, t) for n, i in ids.items() for t in storage.get_all_trials(i, deepcopy=False)]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def table_of(spec: StudySpec, url: str) -> pd.DataFrame:
    """The runs of a study in the order of their cells."""
    frame = read_study(spec.without_recipe(), url).to_frame()[COMPARED]
    return frame.sort_values(COMPARED[:3]).reset_index(drop=True)


def _is_same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two tables are equal; packs are cut otherwise after a kill, which may round."""
    if len(one) != len(other):
        return False
    is_close = np.allclose(one["loss"], other["loss"], rtol=ROUNDED, atol=0, equal_nan=True)
    return is_close and one.drop(columns="loss").equals(other.drop(columns="loss"))
