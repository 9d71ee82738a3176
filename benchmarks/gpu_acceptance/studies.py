"""Whole studies on a card: one that is killed, one of a sampler of Optuna, and a real one."""

from __future__ import annotations

import json
import math
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from optuna import load_study
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from benchmarks.clock import Clock
from benchmarks.gpu_acceptance.packs import BYTES, SAME
from benchmarks.gpu_acceptance.results import Result
from benchmarks.gpu_acceptance.settings import ROOT, Setting
from extrap.records import Recipe, StudySpec, TunedRange, Workload
from extrap.study import tune

EXTRAP = "extrap.__main__"
WITHIN = 1e-6
"""Of losses on a CPU."""
LIMIT_S = 420
"""Seconds after which a command is ended."""
STEPS_SHARE, MOST_STACKS = 0.7, 24
STUDY_FILE = '''"""Some sizes, for a study that is killed."""

from extrap.records import Recipe, StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="killed",
    question="Is each cell trained once?",
    workload=Workload(name="bytes-mlp", options={options}),
    recipe=Recipe(steps={steps}, batch_size={batch_size}, n_evals={n_evals}),
    sizes={{"width": {widths}}},
    tune={{"lr": TunedRange(low=2**-10, high=2**-6, n={n_rates})}},
    seeds=(0, 1, 2),
    growth=0,
)
'''


def measure_killed(setting: Setting) -> Iterator[Result]:
    """One study undisturbed; then killed when its first runs are recorded, and started again."""
    options: dict[str, object] = setting.pick({}, dict(BYTES))
    content = STUDY_FILE.format(
        options=options,
        steps=setting.pick(3000, 20),
        batch_size=setting.pick(128, 8),
        n_evals=setting.pick(50, 4),
        widths=setting.pick((16, 32, 64, 128, 256, 512), (8, 12, 16, 24)),
        n_rates=setting.pick(6, 5),
    )
    n_wanted = 3 * setting.pick(36, 20)
    expected: dict[tuple[object, ...], float] = {}
    for is_killed in (False, True):
        with tempfile.TemporaryDirectory(dir=setting.out) as name:
            folder = Path(name)
            (folder / "killed.py").write_text(content, encoding="utf-8")
            database = folder / "killed.db"
            took_s, codes = _run_study(setting, folder, database, is_killed=is_killed)
            losses, trained = _losses(f"sqlite:///{database}"), _n_trained(f"sqlite:///{database}")
        expected = expected if is_killed else losses
        found = [abs(losses.get(cell, math.inf) / loss - 1) for cell, loss in expected.items()]
        apart = max(found, default=math.inf)
        once, wanted = sum(n == 1 for n in trained.values()), [0]
        if is_killed:
            wanted = [-signal.SIGKILL, 0]
        limit = SAME if setting.is_gpu else WITHIN
        yield Result(
            part="killed",
            what="extrap study run, killed and started again" if is_killed else "extrap study run",
            measured=f"{once} of {n_wanted} cells trained once; exit codes {codes}; losses within "
            f"{apart:.1e} of an undisturbed run; {took_s:.1f} s with start-up",
            pass_at=f"{n_wanted}, exit codes {wanted}, ≤ {limit:g}",
            passed=once == len(trained) == n_wanted and codes == wanted and apart <= limit,
        )


def measure_optuna(setting: Setting) -> Iterator[Result]:
    """Where the time of a TPE study of 72 small runs goes, and how many stacks it makes."""
    spec = StudySpec(
        name="acceptance_tpe",
        question="Where does the time go?",
        workload=Workload(name="bytes-mlp", options=setting.pick({}, dict(BYTES))),
        recipe=Recipe(steps=setting.pick(1000, 8), n_evals=setting.pick(50, 2)),
        sizes={"width": setting.pick((16, 32, 64), (8, 12, 16))},
        tune={"lr": TunedRange(low=2**-12, high=2**-5, n=8)},
        seeds=(0, 1, 2),
        growth=0,
        sampler="tpe",
    )
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=setting.out) as folder, clock.running():
        began = time.perf_counter()
        url = f"sqlite:///{Path(folder) / 'tpe.db'}"
        runs = tune(spec, url, device=setting.place.type)
        wall_s = time.perf_counter() - began
    n_runs = len(runs.to_frame())
    share = clock.steps_s / wall_s
    yield Result(
        part="optuna",
        what=f"TPE study of {n_runs} runs × {spec.recipe.steps} steps, share of the time in steps",
        measured=f"{100 * share:.0f} % of {wall_s:.1f} s; evaluations "
        f"{100 * clock.evaluations_s / wall_s:.0f} %",
        pass_at=f"≥ {100 * STEPS_SHARE:g} %",
        passed=setting.judged(share >= STEPS_SHARE),
        note="" if setting.is_card else "Times are not those of a card.",
    )
    yield Result(
        part="optuna",
        what="stacks made for it",
        measured=f"{clock.n_stacks}, of which {clock.n_trained} were trained",
        pass_at=f"≤ {MOST_STACKS}",
        passed=clock.n_stacks <= MOST_STACKS,
    )


def measure_real(setting: Setting) -> Iterator[Result]:
    """`studies/metz_full.py` at its small widths, by the command that a user types."""
    widths = setting.pick((16, 24, 32, 64, 96, 128, 256), (8, 12, 16, 24))
    changes = [f"sizes.width={','.join(map(str, widths))}"]
    changes += setting.pick(["recipe.steps=3000"], TINY_STUDY)
    n_wanted = len(widths) * setting.pick(36, 10)
    words = [word for change in changes for word in ("--set", change)]
    study = str(ROOT / "studies" / "metz_full.py")
    with tempfile.TemporaryDirectory(dir=setting.out) as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'metz_full.db'}"
        began = time.perf_counter()
        done = _extrap(setting, folder, "study", "run", study, "--storage", url, "--quiet", *words)
        wall_s = time.perf_counter() - began
        trained = _n_trained(url)
        shown = _extrap(
            setting, folder, "study", "status", study, "--storage", url, "--json", *words
        )
        page = folder / "reports" / "metz_full.html"
        size = page.stat().st_size if page.exists() else 0
    tail = " ".join(done.stderr.split())[-400:]
    is_right = done.returncode == 0 and len(trained) == n_wanted
    yield Result(
        part="real",
        what=f"extrap study run studies/metz_full.py, widths {widths[0]} to {widths[-1]}",
        measured=f"exit code {done.returncode}; {len(trained)} of {n_wanted} runs in "
        f"{wall_s:.0f} s" + ("" if is_right else f"; {tail}"),
        pass_at=f"exit code 0, {n_wanted} runs",
        passed=is_right,
    )
    yield Result(
        part="real",
        what="its status and its page",
        measured=f"{_status(shown)}; page of {size / 1e6:.1f} MB",
        pass_at="a page",
        passed=size > 0 and shown.returncode == 0,
    )


TINY_STUDY = [
    "recipe.steps=30",
    "recipe.n_evals=5",
    "recipe.precision=fp32",
    "seeds=0,1",
    "tune.lr.n=5",
    "tune.lr.low=0.0005",
    "workload.corpus_bytes=60000",
    "workload.validation_bytes=20000",
    "workload.n_validation=256",
]


def _run_study(
    setting: Setting, folder: Path, database: Path, *, is_killed: bool
) -> tuple[float, list[int]]:
    """`extrap study run`, perhaps killed when it has recorded runs: seconds, and exit codes."""
    words = ["study", "run", "killed.py", "--storage", f"sqlite:///{database}", "--quiet"]
    command = setting.command(EXTRAP, *words, "--device", setting.place.type)
    began, codes = time.perf_counter(), list[int]()
    for number in (signal.SIGKILL, None) if is_killed else (None,):
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=setting.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if number is not None:
                while process.poll() is None and not _n_recorded(database):
                    time.sleep(0.05)
                process.send_signal(number)
            codes.append(process.wait(LIMIT_S))
        finally:
            process.kill()
            process.wait()
    return time.perf_counter() - began, codes


def _n_recorded(database: Path) -> int:
    """Finished trials of a database that another process may be making."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            asked = connection.execute("SELECT count(*) FROM trials WHERE state = 'COMPLETE'")
            return int(asked.fetchone()[0])
    except sqlite3.Error:  # not there yet
        return 0


def _extrap(setting: Setting, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command `extrap` in a folder."""
    return subprocess.run(
        setting.command(EXTRAP, *words),
        cwd=folder,
        env=setting.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def _trained(url: str) -> list[tuple[tuple[object, ...], float]]:
    """Study, tuned values and seed of each finished trial, and its loss."""
    storage = RDBStorage(url)
    return [
        (
            (study.study_name, *sorted(trial.params.items()), trial.user_attrs.get("seed")),
            trial.values[0] if trial.values else float("nan"),
        )
        for study in storage.get_all_studies()
        for trial in load_study(study_name=study.study_name, storage=storage).trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
    ]


def _n_trained(url: str) -> Counter[tuple[object, ...]]:
    """Cell → trials that finished."""
    return Counter(cell for cell, _ in _trained(url))


def _losses(url: str) -> dict[tuple[object, ...], float]:
    """Cell → loss."""
    return dict(_trained(url))


def _status(shown: subprocess.CompletedProcess[str]) -> str:
    try:
        status = json.loads(shown.stdout)
    except ValueError:
        return f"no status: {' '.join(shown.stderr.split())[-300:]}"
    return ", ".join(
        f"{key} {value}" for key, value in status.items() if isinstance(value, int | float)
    )
