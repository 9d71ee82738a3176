"""`make soak`: kill, stop and cut off workers on SQLite and PostgreSQL, and count what is left.

    python -m benchmarks.soak [--only PART …] [--small] [--out FOLDER]

1. 432 cells, 4 workers, `kill -9` of a random one about once a pack until all is done; the same
   with SIGTERM. Killed alike on a journal and behind a proxy.
2. A worker is frozen beyond its grace period, its cells are taken over, it wakes and goes on.
3. PostgreSQL is stopped at once and started again in the middle.
4. 16 idle workers and 2,000 waiting cells: who gets what, and how long a claim takes.
5. What a storage costs: in the default study, and with 10,000 trials.
6. Checkpoints (`benchmarks.checkpoints`), full and read-only disks, two studies at once
   (`benchmarks.disks`), malformed inputs (`benchmarks.fuzz`).

Workers are processes of `tune`. Their training is a loss that is computed and a sleep a pack, so
that what is measured is the sharing. Writes reports/soak.csv and reports/soak.html.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import sqlalchemy
from optuna.trial import TrialState

import extrap.tuning.loop
from benchmarks.checkpoints import checkpoint_rows
from benchmarks.disks import disk_rows
from benchmarks.fuzz import fuzz_rows
from benchmarks.page import ROOT, Words, write
from benchmarks.rows import Row
from benchmarks.servers import Server, ServerError, free_port, postgres_server
from extrap.commands.workers import stops_gracefully
from extrap.errors import StudyError
from extrap.reading.optuna import RESULT, study_names
from extrap.reading.patience import PatientStorage
from extrap.reading.storages import open_storage
from extrap.records import Cell, OnEval, RunResult, Runs, StudySpec, TunedRange, Workload
from extrap.tuning import TuneEvent, tune
from extrap.tuning.trainers import OwnTrainer

WORDS = Words(
    title="Soak",
    question="Is anything lost or made twice, whatever happens to the workers?",
    lead="Workers killed, terminated, frozen and cut off from their database while they share a "
    "study; how long a claim takes; what a storage costs.",
    command="make soak",
    seeds="who is killed is seeded, when is up to the machine",
    libraries=("optuna", "sqlalchemy", "psycopg"),
)
SPEC = StudySpec(
    name="soak",
    question="Is anything lost or made twice?",
    workload=Workload(name="mine"),
    sizes={"width": (2, 4, 8, 16, 32, 64)},
    tune={"lr": TunedRange(low=2**-6, high=1.0, n=24)},
    seeds=(0, 1, 2),
    growth=0,
)
"""432 cells."""
WAITING = replace(SPEC, name="waiting", sizes={"width": (2, 4, 8, 16, 32)}, seeds=tuple(range(20)))
WAITING = replace(WAITING, tune={"lr": TunedRange(low=2**-6, high=1.0, n=20)})
"""2,000 cells."""
SMALL = replace(SPEC, sizes={"width": (2, 4)}, tune={"lr": TunedRange(low=2**-6, high=1.0, n=8)})
GRACE_S = 6.0
N_EVALS = 10
N_PACKS = 24
N_FUZZED, N_FUZZED_SMALL = 20_000, 500
"""Malformed inputs."""
QUICK_S = 0.5
"""Training of a quick run."""
LIFETIME_S = 600.0
"""After this long a run is given up."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a study looks like after all that.

    Attributes:
        n_cells: Cells it was to have.
        n_complete: Cells that are complete.
        n_running: Trials still running.
        n_twice: Cells with two complete trials.
        n_late: Failed trials that hold a result.
        n_failed: Failed trials.
        is_same: Whether the table equals that of an undisturbed run.
        n_blows: Signals sent, or restarts.
        wall_s: Seconds it took.
    """

    n_cells: int
    n_complete: int
    n_running: int
    n_twice: int
    n_late: int
    n_failed: int
    is_same: bool
    n_blows: int
    wall_s: float

    @property
    def is_right(self) -> bool:
        """Every cell complete once, nothing running, nothing double, the same table."""
        whole = self.n_complete == self.n_cells and self.is_same
        return whole and not self.n_running and not self.n_twice

    def __str__(self) -> str:
        return (
            f"{self.n_complete} complete, {self.n_running} running, {self.n_twice} double, table "
            f"{'equal' if self.is_same else 'DIFFERENT'}; {self.n_blows} blows, "
            f"{self.n_failed} attempts failed ({self.n_late} of them told a part), "
            f"{self.wall_s:.0f} s"
        )


def inspect(spec: StudySpec, url: str, *, n_blows: int, wall_s: float, whole: Runs) -> Outcome:
    """Count what is in a storage, and compare its table."""
    storage = open_storage(url)
    states: Counter[TrialState] = Counter()
    complete: Counter[tuple[object, ...]] = Counter()
    n_late = 0
    for name in study_names(storage):
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name)):
            states[trial.state] += 1
            cell = (name, *trial.params.values(), trial.user_attrs.get("seed"))
            complete[cell] += trial.state == TrialState.COMPLETE
            n_late += trial.state == TrialState.FAIL and RESULT in trial.user_attrs
    runs = _tune(spec, url)
    return Outcome(
        n_cells=len(spec.grid_cells()),
        n_complete=sum(n > 0 for n in complete.values()),
        n_running=states[TrialState.RUNNING],
        n_twice=sum(n > 1 for n in complete.values()),
        n_late=n_late,
        n_failed=states[TrialState.FAIL],
        is_same=runs.data_hash() == whole.data_hash(),
        n_blows=n_blows,
        wall_s=wall_s,
    )


class Workers:
    """Processes that work on one study."""

    def __init__(self, spec: StudySpec, url: str, n: int, *, pause_s: float) -> None:
        self._command = [sys.executable, "-m", "benchmarks.soak", "--worker", url]
        self._command += ["--pause", str(pause_s)]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
            "EXTRAP_SOAK": "small" if spec is SMALL else "whole",
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the workers
        self.processes = [self._start() for _ in range(n)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command, env=self._environment, cwd=ROOT, stdout=self._log, stderr=self._log
        )

    def strike(self, which: int, number: signal.Signals) -> None:
        """Send a signal to one worker, and start another in its place."""
        process = self.processes[which]
        process.send_signal(number)
        if number != signal.SIGSTOP:
            self.processes[which] = self._start()
            process.wait(timeout=60)

    def wait(self) -> None:
        """Until all have ended by themselves.

        Raises:
            RuntimeError: One failed.
        """
        codes = [process.wait(timeout=LIFETIME_S) for process in self.processes]
        if any(codes):
            raise RuntimeError(f"workers ended with {codes}: {self.said()[-2000:]}")

    def wait_for_claims(self, url: str, *, owner: int | None = None) -> None:
        """Until one of them, or the one named, has taken cells.

        Raises:
            RuntimeError: One failed, or none takes any.
        """
        started = time.monotonic()
        while not _running(url, owner):
            late = time.monotonic() - started > LIFETIME_S
            if late or any(process.poll() for process in self.processes):
                raise RuntimeError(f"no worker takes a cell: {self.said()[-2000:]}")
            time.sleep(0.2)

    def said(self) -> str:
        """Everything they wrote."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def end(self) -> None:
        """Leave none behind."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._log.close()


class Sleeper(OwnTrainer):
    """Trains packs of up to 18 cells by sleeping, and evaluates them on the way."""

    def __init__(self, spec: StudySpec, pause_s: float) -> None:
        super().__init__(_loss, spec)
        self._pause_s = pause_s

    def pack_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """As many as a quarter of a size."""
        return list(cells[:18])

    def train(
        self,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        *,
        prunes: bool,
    ) -> Sequence[RunResult]:
        """Sleep, evaluate, and answer what the function gives."""
        results = super().train(cells, on_eval, say, prunes=prunes)
        for step in range(N_EVALS):
            time.sleep(self._pause_s)
            on_eval(step, tuple(result.loss or 0.0 for result in results))
        return [replace(result, wall_s=1.0) for result in results]


def _loss(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    return _valley(size["width"], tuned["lr"], seed)


def _tune(spec: StudySpec, url: str, *, pause_s: float = 0.0) -> Runs:
    """`tune` with a `Sleeper`, which has no door of its own."""
    extrap.tuning.loop.own_trainer = lambda *_: Sleeper(spec, pause_s)  # type: ignore[assignment]
    return tune(spec, url, train=_loss, shares=True, grace_s=GRACE_S)


def work(url: str, *, pause_s: float) -> None:
    """A worker: trains what is missing, with a pause at every evaluation."""
    spec = SMALL if os.environ.get("EXTRAP_SOAK") == "small" else SPEC
    try:
        with stops_gracefully():
            _tune(spec, url, pause_s=pause_s)
    except KeyboardInterrupt:
        sys.exit(130)


def blows(
    url: str, number: signal.Signals, spec: StudySpec, whole: Runs, *, n: int = 4
) -> Outcome:
    """Workers of whom a random one gets a signal about once a pack, until all is done."""
    rng = random.Random(int(number))
    started = time.monotonic()
    workers, n_blows = Workers(spec, url, n, pause_s=0.2), 0
    try:
        workers.wait_for_claims(url)
        watched, n_before = _Progress(url), 0
        n_cells = len(spec.grid_cells())
        while (n_done := watched.n_complete()) < n_cells:
            if time.monotonic() - started > LIFETIME_S:
                break
            time.sleep(rng.uniform(0.1, 0.5))
            if n_done - n_before >= n_cells // N_PACKS:
                workers.strike(rng.randrange(n), number)
                n_blows, n_before = n_blows + 1, n_done
        workers.wait()
    finally:
        workers.end()
    wall_s = time.monotonic() - started
    return inspect(spec, url, n_blows=n_blows, wall_s=wall_s, whole=whole)


def freeze(url: str, spec: StudySpec, whole: Runs) -> Outcome:
    """Two workers; one is stopped with cells in its hands until they are others', then goes on."""
    started = time.monotonic()
    workers = Workers(spec, url, 2, pause_s=0.2)
    try:
        frozen = workers.processes[0]
        workers.wait_for_claims(url, owner=frozen.pid)
        if url.startswith("sqlite"):  # frozen in the middle of a write it would block the file
            time.sleep(1.0)
        workers.strike(0, signal.SIGSTOP)
        held = _running(url, frozen.pid)
        while _running(url, frozen.pid):
            time.sleep(0.5)
            if time.monotonic() - started > LIFETIME_S:
                raise RuntimeError(f"nobody took the cells over: {workers.said()[-2000:]}")
        frozen.send_signal(signal.SIGCONT)
        workers.wait()
    finally:
        workers.end()
    wall_s = time.monotonic() - started
    return inspect(spec, url, n_blows=len(held), wall_s=wall_s, whole=whole)


def restart(server: Server, url: str, spec: StudySpec, whole: Runs) -> Outcome:
    """Four workers whose database is cut off for a while, longer than their grace."""
    started = time.monotonic()
    workers = Workers(spec, url, 4, pause_s=0.2)
    try:
        workers.wait_for_claims(url)
        for away_s in (0.0, 2 * GRACE_S):
            time.sleep(3.0)
            server.stop()
            time.sleep(away_s)
            server.start()
        workers.wait()
    finally:
        workers.end()
    wall_s = time.monotonic() - started
    return inspect(spec, url, n_blows=2, wall_s=wall_s, whole=whole)


class _Progress:
    """How many cells are complete."""

    def __init__(self, url: str) -> None:
        self._storage = open_storage(url)

    def n_complete(self) -> int:
        n = 0
        for name in study_names(self._storage):
            study_id = self._storage.get_study_id_from_name(name)
            trials = self._storage.get_all_trials(study_id, deepcopy=False)
            n += sum(trial.state == TrialState.COMPLETE for trial in trials)
        return n


def _running(url: str, pid: int | None) -> list[int]:
    """Trials that run in a process, or in any."""
    storage = open_storage(url)
    return [
        trial._trial_id
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name), deepcopy=False)
        if trial.state == TrialState.RUNNING
        and (pid is None or trial.user_attrs.get("owner", {}).get("pid") == pid)
    ]


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What many idle workers got.

    Attributes:
        n_cells: Cells there were.
        n_complete: Cells that are complete.
        n_twice: Cells trained twice.
        n_lost: Claims given up because another worker was quicker.
        latencies: Seconds from one cell told to the next claimed, all workers.
        first_s: Seconds from the opening of the storage to the first claim, the longest.
        processor_s: Seconds of a processor that all workers took, without their start.
        wall_s: Seconds from the start of all to the end of the last.
    """

    n_cells: int
    n_complete: int
    n_twice: int
    n_lost: int
    latencies: tuple[float, ...]
    first_s: float
    processor_s: float
    wall_s: float


def claim_all(url: str, folder: Path, *, pause_s: float = 0.0, n_workers: int = 16) -> Claims:
    """Idle workers let loose at once on waiting cells that take no time, or little."""
    folder.mkdir()
    gate = folder / "gate"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, "-m", "benchmarks.soak", "--claims", url, "--gate", str(gate)]
    command += ["--pause", str(pause_s)]
    outputs = [folder / f"{i}.json" for i in range(n_workers)]
    processes = [
        subprocess.Popen(
            [*command, "--to", str(output)],
            env=environment,
            cwd=ROOT,
        )
        for output in outputs
    ]
    try:
        while not all(output.with_suffix(".ready").exists() for output in outputs):
            time.sleep(0.2)
            if any(process.poll() for process in processes):
                raise RuntimeError("a worker failed")
        started = time.monotonic()
        gate.touch()
        if any(process.wait(timeout=LIFETIME_S) for process in processes):
            raise RuntimeError("a worker failed")
        wall_s = time.monotonic() - started
    finally:
        for process in processes:
            process.kill()
    trained: Counter[str] = Counter()
    latencies: list[float] = []
    processor_s, first_s = 0.0, 0.0
    for output in outputs:
        said = json.loads(output.read_text())
        trained.update(said["trained"])
        latencies += said["latencies"][1:]
        first_s = max([first_s, *said["latencies"][:1]])
        processor_s += said["processor_s"]
    storage = open_storage(url)
    trials = [
        trial
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name), deepcopy=False)
    ]
    return Claims(
        n_cells=len(WAITING.grid_cells()),
        n_complete=sum(trial.state == TrialState.COMPLETE for trial in trials),
        n_twice=sum(n > 1 for n in trained.values()),
        n_lost=sum(trial.state == TrialState.FAIL for trial in trials),
        latencies=tuple(latencies),
        first_s=first_s,
        processor_s=processor_s,
        wall_s=wall_s,
    )


def claim(url: str, gate: Path, output: Path, *, pause_s: float) -> None:
    """A worker of `claim_all`: trains nothing, and notes what it got and how long that took."""
    trained: list[str] = []
    latencies: list[float] = []
    last = 0.0

    def nothing(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        trained.append(str(Cell.of(size, tuned, seed)))
        time.sleep(pause_s)
        return 1.0

    def clock(event: TuneEvent) -> None:
        nonlocal last
        now = time.monotonic()
        if event.fraction == 0.0 and not event.is_finished:
            latencies.append(now - last)
        last = now

    open_storage(url)
    output.with_suffix(".ready").touch()
    while not gate.exists():
        time.sleep(0.05)
    last, processor_s = time.monotonic(), time.process_time()
    tune(WAITING, url, train=nothing, notify=clock, shares=True)
    processor_s = time.process_time() - processor_s
    said = {"trained": trained, "latencies": latencies, "processor_s": processor_s}
    output.write_text(json.dumps(said))


@dataclass(frozen=True, kw_only=True)
class Share:
    """What the storage took of a sweep.

    Attributes:
        n_runs: Runs of the sweep.
        storage_s: Seconds in which training waited for the storage.
        wall_s: Seconds of all.
        n_calls: Questions to the storage.
    """

    n_runs: int
    storage_s: float
    wall_s: float
    n_calls: int


def storage_share(url: str, spec: StudySpec) -> Share:
    """Train a sweep in this process, and count the seconds in its storage.

    Beats are left out: a thread of their own sends them while training goes on.
    """
    spent, n_calls = 0.0, 0
    ask, opening = PatientStorage._patiently, extrap.tuning.loop.open_storage

    def timed(function: Callable[..., object]) -> Callable[..., object]:
        def call(*asked: object) -> object:
            nonlocal spent, n_calls
            started = time.perf_counter()
            try:
                return function(*asked)
            finally:
                if threading.current_thread() is threading.main_thread():
                    spent += time.perf_counter() - started
                    n_calls += 1

        return call

    PatientStorage._patiently = timed(ask)  # type: ignore[method-assign]
    extrap.tuning.loop.open_storage = timed(opening)  # type: ignore[assignment]
    started = time.perf_counter()
    try:
        runs = tune(spec, url)
    finally:
        PatientStorage._patiently = ask  # type: ignore[method-assign]
        extrap.tuning.loop.open_storage = opening
    wall_s = time.perf_counter() - started
    return Share(n_runs=len(runs.to_frame()), storage_s=spent, wall_s=wall_s, n_calls=n_calls)


def many_trials(folder: Path, n: int = 10_000) -> tuple[float, float, float]:
    """Seconds to open a study of so many trials and see what is missing, and to report on it.

    The latter by the wall and of processors.
    """
    n_rates = 100
    spec = replace(
        SPEC,
        name="many",
        workload=Workload(name="mine"),
        sizes={"width": (8, 16, 32, 64, 128)},
        tune={"lr": TunedRange(low=2**-10, high=2**-2, n=n_rates)},
        seeds=tuple(range(n // (5 * n_rates))),
    )
    url = f"sqlite:///{folder}/many.db"
    cells = spec.grid_cells()
    first = [cells[i] for i in range(0, len(cells), len(cells) // 5)]

    def valley(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        return _valley(size["width"], tuned["lr"], seed)

    tune(spec, url, train=valley, extend=lambda _: first)
    _multiply(url, spec)
    started = time.perf_counter()
    tune(spec, url, train=valley, extend=lambda _: cells)
    opened_s = time.perf_counter() - started
    path = folder / "many.py"
    text = f"from extrap.records import *\nSTUDY = {spec!r}\n"
    path.write_text(text)
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "extrap", "report", str(path), "--storage", url],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    reported_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return opened_s, reported_s, processor_s


def _valley(width: float, lr: float, seed: int) -> float:
    rng = np.random.default_rng([int(width), int(1e9 * lr), seed])
    octaves = np.log2(lr / (0.02 * (width / 8) ** -0.4))
    clean = (1.5 + 2.0 * (width / 8) ** -0.4) * (1 + 0.01 * octaves**2)
    return float(clean * np.exp(0.002 * rng.normal()))


def _multiply(url: str, spec: StudySpec) -> None:
    """Write the other cells of a study beside the first of each size, all at once."""
    engine = sqlalchemy.create_engine(url)
    tables = sqlalchemy.MetaData()
    tables.reflect(engine)
    names = ("trials", "trial_params", "trial_values", "trial_user_attributes")
    new: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    with engine.begin() as connection:

        def rows(name: str) -> list[dict[str, object]]:
            found = connection.execute(sqlalchemy.select(tables.tables[name])).mappings()
            return [dict(row) for row in found]

        old = {name: rows(name) for name in names}
        studies = {row["study_name"]: row["study_id"] for row in rows("studies")}
        following = 1 + max(int(str(row["trial_id"])) for row in old["trials"])
        for size in spec.size_points():
            study_id = studies[f"many/width={size['width']:g}"]
            (like,) = [row for row in old["trials"] if row["study_id"] == study_id]
            cells = [cell for cell in spec.grid_cells() if dict(cell.size) == size]
            for number, cell in enumerate(cells[1:], start=1):
                trial_id, following = following, following + 1
                new["trials"].append({**like, "trial_id": trial_id, "number": number})
                lr = dict(cell.tuned)["lr"]
                changed = {
                    "trial_params": {"param_value": lr},
                    "trial_values": {"value": _valley(size["width"], lr, cell.seed)},
                    "trial_user_attributes": {},
                }
                for name, values in changed.items():
                    for row in old[name]:
                        if row["trial_id"] == like["trial_id"]:
                            copy = {**row, **values, "trial_id": trial_id}
                            if copy.get("key") == "seed":
                                copy["value_json"] = str(cell.seed)
                            del copy[next(iter(copy))]
                            new[name].append(copy)
        for name in names:
            connection.execute(sqlalchemy.insert(tables.tables[name]), new[name])
    engine.dispose()


def undisturbed(spec: StudySpec, folder: Path) -> Runs:
    """The table of a run that nothing happens to."""
    return _tune(spec, f"sqlite:///{folder}/whole-{len(spec.grid_cells())}.db")


@contextmanager
def storages(folder: Path) -> Iterator[tuple[Callable[[str, str], str], Server | None]]:
    """A maker of fresh storages by kind and name, and the server if there is one."""
    files = {"SQLite": f"sqlite:///{folder}/{{}}.db", "journal": f"journal:///{folder}/{{}}.log"}
    try:
        with postgres_server() as server, ExitStack() as stack:

            def fresh(kind: str, name: str) -> str:
                if kind in files:
                    return files[kind].format(name)
                url = server.make_database(name)
                return url if kind == "PostgreSQL" else stack.enter_context(proxy(url))

            yield fresh, server
    except ServerError as error:
        sys.stderr.write(f"NO POSTGRESQL, only files are tried: {error}\n")
        yield lambda kind, name: files[kind].format(name), None


@contextmanager
def proxy(url: str) -> Iterator[str]:
    """The address of a proxy in front of a database, `extrap study serve`."""
    port = free_port()
    command = [sys.executable, "-m", "extrap", "study", "serve", "--storage", url]
    process = subprocess.Popen(
        [*command, "--port", str(port)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    address = f"grpc://localhost:{port}"
    try:
        for is_last in [False] * 10 + [True]:
            try:
                open_storage(address)
                break
            except StudyError:
                if is_last or process.poll() is not None:
                    raise
        yield address
    finally:
        process.terminate()
        process.wait(60)


def measure(wanted: Sequence[str], *, is_small: bool) -> tuple[list[Row], dict[str, float]]:
    """All rows wanted, and how long each part took."""
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    spec = SMALL if is_small else SPEC
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with storages(folder) as (fresh, server):
            whole = undisturbed(spec, folder)
            plan: dict[str, Callable[[], Row | list[Row]]] = {}
            kinds = ("SQLite", *(("PostgreSQL",) if server else ()))
            for kind in kinds:
                for number in (signal.SIGKILL, signal.SIGTERM):
                    name = f"{number.name}-{kind}"
                    plan[name] = partial(_blown, kind, number, fresh, spec, whole)
                plan[f"frozen-{kind}"] = partial(_frozen, kind, fresh, whole, spec)
            others = ("journal", *(("proxy",) if server and find_spec("grpc") else ()))
            for kind in others:
                plan[f"SIGKILL-{kind}"] = partial(_blown, kind, signal.SIGKILL, fresh, spec, whole)
            if server is not None:
                plan["restart"] = partial(_restarted, server, fresh, spec, whole)
                plan["claims-idle"] = partial(_claimed, fresh, folder, 0.0)
                plan["claims"] = partial(_claimed, fresh, folder, QUICK_S)
            plan["overhead"] = partial(_overhead, fresh, is_small=is_small)
            plan["many"] = partial(_many, folder)
            plan["checkpoints"] = checkpoint_rows
            plan["disks"] = disk_rows
            plan["fuzz"] = partial(fuzz_rows, N_FUZZED_SMALL if is_small else N_FUZZED)
            for name, part in plan.items():
                if not wanted or any(name.startswith(each) for each in wanted):
                    started = time.monotonic()
                    found = part()
                    rows += found if isinstance(found, list) else [found]
                    seconds[name] = time.monotonic() - started
                    sys.stderr.write(f"{name}: {seconds[name]:.0f} s: {rows[-1].reached}\n")
    return rows, seconds


WANTED = "every cell complete once, 0 running, 0 double, table equal to an undisturbed run"
Fresh = Callable[[str, str], str]


def _blown(kind: str, number: signal.Signals, fresh: Fresh, spec: StudySpec, whole: Runs) -> Row:
    url = fresh(kind, f"blows{int(number)}{kind.lower()}")
    found = blows(url, number, spec, whole)
    return Row(
        part=kind,
        figure=f"{found.n_cells} cells, 4 workers, {number.name} of a random one "
        "about once a pack until done",
        target=WANTED,
        reached=str(found),
        met=found.is_right,
    )


def _frozen(kind: str, fresh: Fresh, whole: Runs, spec: StudySpec) -> Row:
    found = freeze(fresh(kind, f"frozen{kind.lower()}"), spec, whole)
    return Row(
        part=kind,
        figure=f"2 workers, one frozen beyond its grace of {GRACE_S:g} s and woken again",
        target="its late result changes nothing; " + WANTED,
        reached=str(found),
        met=found.is_right and found.n_late == 0,
        note="Blows are the runs that it had in its hands.",
    )


def _restarted(server: Server, fresh: Fresh, spec: StudySpec, whole: Runs) -> Row:
    found = restart(server, fresh("PostgreSQL", "restarted"), spec, whole)
    return Row(
        part="PostgreSQL",
        figure=f"4 workers, the server stopped at once and restarted, then away for "
        f"{2 * GRACE_S:g} s",
        target=WANTED,
        reached=str(found),
        met=found.is_right,
    )


def _claimed(fresh: Fresh, folder: Path, pause_s: float) -> Row:
    name = "claims" if pause_s else "idle"
    found = claim_all(fresh("PostgreSQL", name), folder / name, pause_s=pause_s)
    p50, p99 = np.quantile(found.latencies, [0.5, 0.99])
    return Row(
        part="PostgreSQL",
        figure="16 idle workers, 2,000 waiting cells of "
        f"{pause_s:g} s: one cell told to the next claimed",
        target="no cell trained twice; p99 ≤ 1 s",
        reached=f"{found.n_complete} complete, {found.n_twice} double, {found.n_lost} claims lost "
        f"to a quicker one; median {p50:.3f} s, p99 {p99:.3f} s; {found.wall_s:.0f} s; "
        f"first claims after {found.first_s:.1f} s at most; "
        f"{1000 * found.processor_s / found.n_cells:.0f} ms of a processor a cell in the workers",
        met=found.n_twice == 0 and found.n_complete == found.n_cells and bool(p99 <= 1),
        note=""
        if pause_s
        else "Training takes no time here, so all 16 claim all the time, on one machine.",
    )


def _overhead(fresh: Fresh, *, is_small: bool) -> Row:
    from studies.metz import STUDY

    sweep = replace(STUDY, growth=0, **({"sizes": {"width": (48,)}} if is_small else {}))
    found = storage_share(fresh("SQLite", "overhead"), sweep)
    share = found.storage_s / found.wall_s
    return Row(
        part="SQLite",
        figure="storage, share of the wall time of the default study",
        target="≤ 2 %",
        reached=f"{share:.2%}: {found.storage_s:.2f} s in {found.n_calls} calls of "
        f"{found.wall_s:.1f} s for {found.n_runs} runs",
        met=share <= 0.02,
        note="The sweep of studies/metz.py, trained in one process; what its training waits for.",
    )


def _many(folder: Path) -> Row:
    opened_s, reported_s, processor_s = many_trials(folder)
    return Row(
        part="SQLite",
        figure="a study of 10,000 trials: opened, reported on",
        target="≤ 5 s, ≤ 20 s",
        reached=f"{opened_s:.1f} s, {reported_s:.1f} s ({processor_s:.1f} s of a processor)",
        met=opened_s <= 5 and reported_s <= 20,
        note="Reporting includes the start of Python.",
    )


def main() -> None:
    """Measure, print, write; or be one of the workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="parts whose name begins so")
    parser.add_argument("--small", action="store_true", help="48 cells instead of 432")
    parser.add_argument("--out", type=Path, default=ROOT / "reports", help="folder of the page")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--pause", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--claims", help=argparse.SUPPRESS)
    parser.add_argument("--gate", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, pause_s=arguments.pause)
        return
    if arguments.claims:
        claim(arguments.claims, arguments.gate, arguments.to, pause_s=arguments.pause)
        return
    rows, seconds = measure(arguments.only, is_small=arguments.small)
    write(rows, (), seconds, words=WORDS, folder=arguments.out, name="soak")


if __name__ == "__main__":
    main()
