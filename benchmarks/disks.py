"""Full disks, folders that may not be written to, and two runs of one study at once.

    python -m benchmarks.disks

Each is the command a user gives, `extrap study run`, in a process of its own: on a small file
system in memory where one may be mounted, elsewhere with a limit on the size of its files.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.reading.optuna import find_study

ROOT = Path(__file__).parents[1]
STUDY = """
from extrap.records import *

STUDY = StudySpec(
    name="tiny",
    question="Does it survive a full disk?",
    workload=Workload(name="teacher", options={"n_features": 16, "n_examples": 500}),
    sizes={"width": (2, 4, 6, 8)},
    tune={"lr": TunedRange(low=2**-4, high=2, n=6)},
    recipe=Recipe(steps=40, batch_size=8, n_evals=4),
    targets=(Target(size={"width": 16}),),
)
"""
LITTLE = 200 * 1024
"""Bytes of a disk that the storage of this study outgrows in the middle."""
PLENTY = 16 * 2**20
LIMIT_S = 600
COMPARED = ["width", "lr", "seed", "loss", "status", "stage"]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code.
        told: What it wrote to standard error.
    """

    code: int
    told: str

    @property
    def is_clear(self) -> bool:
        """Whether it was refused with words, and no traceback."""
        return self.code == 2 and "extrap: " in self.told and "Traceback" not in self.told


def made_folder(folder: Path) -> Path:
    """A folder with the study file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.py").write_text(STUDY, encoding="utf-8")
    return folder


def study_command(
    folder: Path, storage: Path, *, most_bytes: int | None = None
) -> subprocess.Popen[str]:
    """Start `extrap study run` in a folder; perhaps no file of it may grow beyond some bytes."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    command = ["study", "run", "tiny.py", "--storage", f"sqlite:///{storage}", "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-m", "extrap", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def end_of(process: subprocess.Popen[str]) -> Ended:
    """Wait for a command."""
    _, told = process.communicate(timeout=LIMIT_S)
    return Ended(code=process.returncode, told=told)


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Callable[[str], bool] | None]:
    """A file system in memory at `place`; None where none may be mounted.

    Yields:
        Mounts it again with other options, such as `size=16m` or `ro`.
    """

    def mount(*words: str) -> bool:
        done = subprocess.run(["mount", *words, str(place)], capture_output=True, check=False)
        return done.returncode == 0

    place.mkdir(parents=True, exist_ok=True)
    try:
        is_there = mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs")
    except FileNotFoundError:  # no such command
        is_there = False
    try:
        yield (lambda options: mount("-o", f"remount,{options}")) if is_there else None
    finally:
        if is_there:
            subprocess.run(["umount", "-l", str(place)], check=False)


ROUNDED = 1e-5
"""Relative difference of losses that were trained in other packs: some processors round a product
by where a run lies in its pack."""


def same_runs(one: Path, other: Path, *, rtol: float = 0.0) -> bool:
    """Whether two storages hold the same runs, each once, with rates and losses this near."""

    def runs(path: Path) -> pd.DataFrame:
        frame = find_study(f"sqlite:///{path}", study="tiny").table
        return frame[COMPARED].sort_values(COMPARED).reset_index(drop=True)

    first, second = runs(one), runs(other)
    if len(first) != len(second) or first.duplicated().any():
        return False
    rounded = ["lr", "loss"]
    is_close = np.allclose(first[rounded], second[rounded], rtol=rtol, atol=0.0, equal_nan=True)
    return is_close and first.drop(columns=rounded).equals(second.drop(columns=rounded))


def _page_is_whole(folder: Path) -> bool:
    page = folder / "reports" / "tiny.html"
    is_whole = page.is_file() and page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    return is_whole and not _left_over(folder)


def _left_over(folder: Path) -> list[str]:
    return [path.name for path in (folder / "reports").iterdir() if path.suffix == ".part"]


def _row(figure: str, target: str, reached: Sequence[str], *, met: bool, note: str = "") -> Row:
    return Row(
        part="Disks",
        figure=figure,
        target=target,
        reached="; ".join(reached),
        met=met,
        note=note,
    )


def _said(ended: Ended) -> str:
    line = next((x for x in ended.told.splitlines() if x.startswith("extrap: ")), ended.told)
    return f"exit {ended.code}: {line.removeprefix('extrap: ')[:160]}"


def _full_storage(root: Path, whole: Path) -> Row:
    folder, disk = made_folder(root / "full"), root / "full" / "disk"
    storage = disk / "tiny.db"
    with small_disk(disk, LITTLE) as remount:
        most = LITTLE if remount is None else None
        first = end_of(study_command(folder, storage, most_bytes=most))
        if remount is not None:
            remount(f"size={PLENTY}")
        second = end_of(study_command(folder, storage))
        is_same = second.code == 0 and same_runs(storage, whole)
    return _row(
        "the storage's disk fills up in the middle; then space is made and it is run again",
        "a clear message, nothing lost, the table of an undisturbed run",
        (_said(first), f"then exit {second.code}, table {'equal' if is_same else 'DIFFERENT'}"),
        met=first.is_clear and is_same,
        note=""
        if remount
        else "Nothing may be mounted here: a limit on files stood for the disk.",
    )


def _full_reports(root: Path, whole: Path) -> Row:
    folder = made_folder(root / "pages")
    place = folder / "reports"
    with small_disk(place, LITTLE // 2) as remount:
        old = "<!doctype html><p>the page of yesterday</p></html>\n"
        (place / "tiny.html").write_text(old, encoding="utf-8")
        most = LITTLE // 2 if remount is None else None
        storage = whole if remount is not None else _copy(whole, folder)
        ended = end_of(study_command(folder, storage, most_bytes=most))
        is_kept = (place / "tiny.html").read_text(encoding="utf-8") == old
        is_kept = is_kept and not _left_over(folder)
    return _row(
        "the reports' disk is full",
        "a clear message, yesterday's page whole, no half of a file",
        (_said(ended), "old page whole" if is_kept else "old page LOST"),
        met=ended.is_clear and is_kept,
    )


def _copy(storage: Path, folder: Path) -> Path:
    copy = folder / storage.name
    copy.write_bytes(storage.read_bytes())
    return copy


def _read_only(root: Path, whole: Path) -> list[Row]:
    """Both folders read-only; skipped where nothing may be mounted and root ignores rights."""
    folder = made_folder(root / "locked")
    rows = []
    for name, what, is_done in (
        ("reports", "the reports' folder", True),
        (".extrap", "the folder of a new storage", False),
        (".extrap", "the folder of a storage that has every run", True),
    ):
        place = folder / name
        with small_disk(place, PLENTY) as remount:
            storage = whole
            if name == ".extrap":
                storage = place / whole.name
                if is_done:
                    storage.write_bytes(whole.read_bytes())
            if remount is None:
                if os.geteuid() == 0:
                    continue
                place.chmod(0o555)
            else:
                remount("ro")
            ended = end_of(study_command(folder, storage))
            if remount is None:
                place.chmod(0o755)
        reports = is_done and name == ".extrap"  # there is nothing to write
        rows.append(
            _row(
                f"{what} may not be written to",
                "it is reported on" if reports else "a clear message",
                (_said(ended),),
                met=ended.code == 0 if reports else ended.is_clear,
            )
        )
    return rows


def _at_once(root: Path, whole: Path) -> Row:
    folder = made_folder(root / "twice")
    storage = folder / "tiny.db"
    processes = [study_command(folder, storage) for _ in range(2)]
    ends = [end_of(process) for process in processes]
    is_same = same_runs(storage, whole, rtol=ROUNDED)
    is_whole = _page_is_whole(folder)
    codes = sorted(end.code for end in ends)
    refused = [end for end in ends if end.code]
    return _row(
        "two runs of one study at once, one storage, one folder of reports",
        "one ends well, the other is refused; the table of an undisturbed run, a whole page",
        (
            f"exit {codes[0]} and {codes[1]}",
            f"table {'equal' if is_same else 'DIFFERENT'}",
            f"page {'whole' if is_whole else 'TORN'}",
        ),
        met=codes[0] == 0 and all(end.is_clear for end in refused) and is_same and is_whole,
    )


def disk_rows() -> list[Row]:
    """What `make soak` prints of this."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        first = made_folder(root / "whole")
        whole = first / "tiny.db"
        ended = end_of(study_command(first, whole))
        if ended.code:
            raise RuntimeError(f"the undisturbed run failed: {ended.told}")
        return [
            _full_storage(root, whole),
            _full_reports(root, whole),
            *_read_only(root, whole),
            _at_once(root, whole),
        ]


if __name__ == "__main__":
    rows = disk_rows()
    print_rows(rows)
    sys.exit(any(row.met is False for row in rows))
