"""`make soak`: kill, stop and cut off drivers, workers and storages, and count what is left.

    python -m benchmarks.soak [NAME …] [--small] [--out FOLDER]

| names | what happens |
|---|---|
| `killed-…` | the driver of a study is killed ten times and started again |
| `workers-…` | a worker is killed about once per pack: local, Dask, Ray |
| `restarted`, `cut` | PostgreSQL is restarted twice; a proxy cuts connections after COMMIT |
| `same` | one study on 1, 2, 4 local workers, Dask and Ray |

A name stands for all that begin with it. Drivers are processes of `benchmarks.driving`. Writes
reports/soak.html.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pandas as pd
import psutil

from benchmarks.disturbed import COMPARED, Disturbed, table_of
from benchmarks.driving import RAY, STEPS
from benchmarks.page import ROOT, Words, write
from benchmarks.rows import Row
from benchmarks.servers import CuttingProxy, DaskCluster, Server, ServerError, postgres_server
from extrap.records import StudySpec
from extrap.study import open_study, tune
from extrap.study.clusters import executor_on
from extrap.study.executors import LocalExecutor

WORDS = Words(
    title="Soak",
    question="Are runs lost or trained twice when processes or storages fail?",
    lead="Drivers, workers and databases are killed and cut off while a study runs.",
    command="make soak",
    seeds="which process is killed is seeded, the moment is not",
    libraries=("optuna", "sqlalchemy", "psycopg", "distributed", "ray"),
)
OWN_MODULE = f"{ROOT}/studies/own_model_workload.py:Digits"
N_CELLS, N_CELLS_SMALL = 432, 48
N_KILLS, N_KILLS_SMALL = 10, 3
N_PACKS = 24
"""A worker is killed each time that this part of the runs is finished."""
AWAY_S = 6.0
"""How long a database is away the second time."""
STUDIES = {
    "grid": "grid of one's own function",
    "tpe": "TPE of one's own function",
    "teacher": "grid of the teacher",
    "alone": "grid of the teacher on one core",
}
MOST_TOLD = 1000
"""Characters of an error."""
AGAIN = 0.05
"""Most of the work that may be trained again, where there are checkpoints."""


class Soak:
    """All scenarios.

    Args:
        folder: For storages and files.
        server: PostgreSQL, if there is one.
        is_small: Whether studies are small.
    """

    def __init__(self, folder: Path, server: Server | None, *, is_small: bool) -> None:
        self._folder, self._server, self._is_small = folder, server, is_small
        self.n_cells = N_CELLS_SMALL if is_small else N_CELLS
        self.n_kills = N_KILLS_SMALL if is_small else N_KILLS
        self.undisturbed = cache(self._undisturbed)

    def plan(self) -> dict[str, Callable[[], Row]]:
        """Name → scenario."""
        found: dict[str, Callable[[], Row]] = {}
        kinds = ["SQLite", *(["PostgreSQL"] if self._server else [])]
        for kind in kinds:
            for study in ("grid", "tpe", "teacher"):
                found[f"killed-{study}-{kind}"] = partial(self._killed, kind, study)
            found[f"workers-local-{kind}"] = partial(self._workers_here, kind)
            found[f"workers-dask-{kind}"] = partial(self._workers_dask, kind, "grid")
            found[f"workers-ray-{kind}"] = partial(self._workers_ray, kind)
        found["same"] = self._same
        found["killed-alone"] = partial(self._killed, "SQLite", "alone")
        found["workers-packs-dask"] = partial(self._workers_dask, "SQLite", "teacher")
        if self._server is not None:
            found["restarted"] = partial(self._restarted, self._server)
            found["cut"] = partial(self._cut, self._server)
        return found

    def _disturbed(self, kind: str, study: str, url: str = "", **options: Any) -> Disturbed:
        n_cells = N_CELLS_SMALL if study == "alone" else self.n_cells
        return Disturbed(url or self._fresh(kind), study, n_cells, self._folder, **options)

    def _fresh(self, kind: str) -> str:
        name = f"soak{uuid4().hex[:12]}"
        if kind == "PostgreSQL":
            assert self._server is not None, "planned with a server"
            return self._server.make_database(name)
        return f"sqlite:///{self._folder / name}.db"

    def _undisturbed(self, study: str) -> tuple[pd.DataFrame, int]:
        """The table of a run that nothing happens to, and its evaluations."""
        if study == "tpe":
            return pd.DataFrame(), 0
        with self._disturbed("SQLite", study, pause_s=0.0) as run:
            run.finish(run.start())
            return table_of(run.spec, run.url), run.n_steps()

    def _killed(self, kind: str, study: str) -> Row:
        """Kill the driver at random moments, and start it again."""
        rng, part = random.Random(9), 1 / (self.n_kills + 1)
        whole, n_steps = self.undisturbed(study)
        with self._disturbed(kind, study, pause_s=0.3) as run:
            trains = bool(n_steps)

            def done() -> float:
                return run.n_steps() / n_steps if trains else len(set(run.begun())) / self.n_cells

            for _ in range(self.n_kills):
                driver, wanted = run.start(), done() + rng.uniform(0.1, 1) * part
                if run.until(partial(lambda most: done() > most, wanted), driver):
                    time.sleep(rng.uniform(0, 0.3))
                    driver.kill()
                    driver.wait()
                    run.n_blows += 1
            n_left = run.n_left()
            run.finish(run.start())
            told, share = [f"{n_left} processes left after the last kill"], 0.0
            target = "at most 2 runs trained again per kill: one in training, one being written"
            if trains:
                target = ""
            if study == "alone":
                share, target = done() - 1, f"at most {AGAIN:.0%} of the work trained again"
                target += ", not judged where it is small" if self._is_small else ""
                told.append(f"{share:.1%} of the work trained again")
            return run.row(
                kind,
                f"{STUDIES[study]}, driver killed {run.n_blows} times",
                whole,
                told="; ".join(told),
                target=target,
                is_met=not n_left
                and (share <= AGAIN or self._is_small)
                and run.n_again() <= 2 * run.n_blows,
            )

    def _strike(
        self,
        run: Disturbed,
        driver: subprocess.Popen[bytes],
        victims: Callable[[], Sequence[psutil.Process]],
    ) -> None:
        """Kill a random worker about once per pack until the study is done."""
        rng, next_at = random.Random(9), 0
        part = 1 if run.study == "teacher" else max(1, self.n_cells // N_PACKS)

        def is_due() -> bool:
            return run.n_packs() >= next_at and bool(victims())

        while run.until(is_due, driver):
            next_at = run.n_packs() + part
            time.sleep(rng.uniform(0, 0.5))
            if found := victims():
                with suppress(psutil.NoSuchProcess):
                    rng.choice(found).kill()
                    run.n_blows += 1
        run.finish(driver)

    def _workers_here(self, kind: str) -> Row:
        whole, _ = self.undisturbed("teacher")
        with self._disturbed(kind, "teacher") as run:
            self._strike(run, run.start(), lambda: run.named("extrap.study.workers"))
            return run.row(
                kind,
                "local workers, one or their parent killed about once per pack",
                whole,
            )

    def _workers_dask(self, kind: str, study: str) -> Row:
        whole, _ = self.undisturbed(study)
        with (
            self._disturbed(kind, study, pause_s=0.5) as run,
            DaskCluster(run.environment, self._folder, 4) as cluster,
        ):
            self._strike(run, run.start(on=f"dask://{cluster.address}"), cluster.workers)
            figure = f"{STUDIES[study]} on Dask, 4 workers, one killed about once per pack"
            return run.row(kind, figure, whole)

    def _workers_ray(self, kind: str) -> Row:
        whole, _ = self.undisturbed("grid")
        with self._disturbed(kind, "grid", on=RAY, pause_s=0.5) as run:
            self._strike(run, run.start(), lambda: run.named("ray::called"))
            return run.row(
                kind,
                f"{STUDIES['grid']} on Ray, 4 CPUs, a worker killed about once per pack",
                whole,
            )

    def _same(self) -> Row:
        """A study of a module of one's own, whose packs are cut in other ways."""
        spec = cast("StudySpec", open_study(ROOT / "studies" / "own_model.py").study)
        spec = replace(spec, workload=replace(spec.workload, name=OWN_MODULE))
        if self._is_small:
            spec = replace(spec, sizes={"width": (8, 24)}, seeds=(0,))
        with DaskCluster(dict(os.environ), self._folder, 2) as cluster, ExitStack() as stack:
            places: dict[str, Executor] = {f"{n} local": LocalExecutor(n) for n in (1, 2, 4)}
            places["Dask"] = executor_on(f"dask://{cluster.address}")
            places["Ray"] = executor_on("ray")
            tables = []
            for executor in places.values():
                stack.enter_context(executor)
                tables.append(tune(spec, self._fresh("SQLite"), executor=executor).to_frame())
        first, *others = (table.sort_values(COMPARED[:3])["loss"].to_numpy() for table in tables)
        apart = max(float(np.nanmax(np.abs(other / first - 1))) for other in others)
        return Row(
            part="Packs",
            figure=f"{spec.name}, {len(first)} runs on {', '.join(places)}: losses apart",
            target="1e-6 at most",
            reached=f"{apart:.1g}",
            met=apart <= 1e-6,
        )

    def _restarted(self, server: Server) -> Row:
        """Stop PostgreSQL twice: for a moment, and for some seconds."""
        whole, _ = self.undisturbed("grid")
        with self._disturbed("PostgreSQL", "grid") as run:
            driver, part = run.start(), self.n_cells // 4
            for i, away_s in enumerate((0.0, AWAY_S), start=1):
                run.until(partial(lambda most: len(run.begun()) >= most, i * part), driver)
                server.stop()
                time.sleep(away_s)
                server.start()
                run.n_blows += 1
            run.finish(driver)
            return run.row("PostgreSQL", "server stopped and started twice", whole)

    def _cut(self, server: Server) -> Row:
        whole, _ = self.undisturbed("grid")
        url = self._fresh("PostgreSQL")
        proxy = CuttingProxy(server.port, every=4)
        url = url.replace(f":{server.port}/", f":{proxy.port}/")
        with self._disturbed("PostgreSQL", "grid", url) as run:
            run.finish(run.start())
            run.n_blows = proxy.n_cut
            row = run.row("PostgreSQL", "connection cut after COMMIT", whole)
        proxy.close()
        return replace(row, met=row.met and proxy.n_cut > 0)


def measure(wanted: Sequence[str], *, is_small: bool) -> tuple[list[Row], Any]:
    """The rows wanted, and how many seconds each scenario took."""
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        try:
            server = stack.enter_context(postgres_server())
        except ServerError as error:
            sys.stderr.write(f"NO POSTGRESQL, only SQLite is tried: {error}\n")
            server = None
        for name, scenario in Soak(folder, server, is_small=is_small).plan().items():
            is_wanted = any(name.startswith(each) for each in wanted) if wanted else True
            if not is_wanted:
                continue
            began = time.monotonic()
            try:
                row = scenario()
            except Exception as error:  # whatever it is, the other scenarios run
                why = f"{type(error).__name__}: {error}"[:MOST_TOLD]
                row = Row(part="Errors", figure=name, target="none", reached=why, met=False)
            seconds[name] = time.monotonic() - began
            rows.append(row)
            told = f"{row.part}, {row.figure}: {row.reached} (target: {row.target})"
            sys.stderr.write(f"{row.verdict:<9} {name} {told}\n")
    return rows, seconds


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios that begin so; all")
    parser.add_argument("--small", action="store_true", help="48 cells, 3 kills")
    parser.add_argument("--out", type=Path, default=ROOT / "reports", help="folder of the page")
    given = parser.parse_args()
    if given.small:
        os.environ[STEPS] = "8000"
    rows, seconds = measure(given.names, is_small=given.small)
    write(rows, seconds, words=WORDS, folder=given.out, name="soak")


if __name__ == "__main__":
    main()
