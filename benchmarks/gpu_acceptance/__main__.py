"""The command: `python -m benchmarks.gpu_acceptance`; see the docstring of the package."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks import gpu_acceptance
from benchmarks.gpu_acceptance.results import Book, Result, UsageError
from benchmarks.gpu_acceptance.settings import CUDA, DEVICES, PRETENDED, Setting

N_FRAMES = 4
"""Last frames of the traceback of a failure that its row shows."""


class Part(NamedTuple):
    """A part: the module and function that measure it, and its usual minutes on a card."""

    module: str
    function: str
    minutes: float

    def load(self) -> Callable[[Setting], Iterable[Result]]:
        """The function; its module may need packages that others do not."""
        module = importlib.import_module(f"benchmarks.gpu_acceptance.{self.module}")
        return getattr(module, self.function)


PARTS = {
    "card": Part("card", "measure_card", 0.5),
    "correctness": Part("correctness", "measure_correctness", 4),
    "divergence": Part("packs", "measure_divergence", 0.5),
    "memory": Part("memory", "measure_memory", 1),
    "oom": Part("memory", "measure_out_of_memory", 1),
    "resume": Part("resume", "measure_resume", 1.5),
    "killed": Part("studies", "measure_killed", 1.5),
    "optuna": Part("studies", "measure_optuna", 1),
    "speed": Part("speed", "measure_speed", 5),
    "real": Part("studies", "measure_real", 2),
}


def main(arguments: list[str] | None = None) -> int:
    """Measure, write down, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.device == PRETENDED:
            _pretend()
        return _measure(given)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _measure(given: argparse.Namespace) -> int:
    import torch

    given.out.mkdir(parents=True, exist_ok=True)
    setting = Setting(device=given.device, out=given.out.resolve())
    is_there = given.device != CUDA or torch.cuda.is_available()
    name = setting.name() if is_there else ""
    book = Book(given.out / "gpu.json", device=given.device, name=name, order=list(PARTS))
    began, not_run = time.monotonic(), []
    wanted = [part for part in PARTS if part in given.parts]
    for i, part in enumerate(wanted):
        left = given.minutes - (time.monotonic() - began) / 60
        if not is_there:
            book.leave_out(part, "there is no CUDA device")
        elif left < setting.pick(PARTS[part].minutes, 0):
            book.leave_out(part, "the time was over")
            not_run.append(part)
        elif not _run(part, setting, book) and setting.is_card and wanted[i + 1 :]:
            left = given.minutes - (time.monotonic() - began) / 60
            _start_anew(setting, wanted[i + 1 :], left)
    if not_run:
        sys.stdout.write(f"not run, the time was over: {', '.join(not_run)}\n")
    _write_page(book, given.out / "gpu.html")
    if not is_there:
        sys.stderr.write("there is no CUDA device; --device pretended or cpu runs tiny parts.\n")
        return 3
    n_failed = sum(row.passed is False for row in book.rows)
    sys.stdout.write(f"{n_failed} of {len(book.rows)} rows failed: {given.out / 'gpu.json'}\n")
    return 1 if n_failed else 0


def _start_anew(setting: Setting, parts: list[str], minutes: float) -> None:
    """Go on in a fresh process: after some errors CUDA refuses all work in the old one."""
    words = ["--device", setting.device, "--out", str(setting.out), "--minutes", f"{minutes:.2f}"]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", __package__, *words, "--parts", *parts])


def _run(part: str, setting: Setting, book: Book) -> bool:
    """One part; what it raises is its last row. Whether it came to its end."""
    began, is_whole = time.monotonic(), True
    book.begin(part)
    try:
        for row in PARTS[part].load()(setting):
            _keep(row, book)
    except Exception as error:  # whatever it is, the other parts are run
        is_whole = False
        frames = traceback.extract_tb(error.__traceback__)[-N_FRAMES:]
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
        words = " ".join(str(error).split())[:1000]
        _keep(
            Result(
                part=part,
                what="runs to its end",
                measured=f"{type(error).__name__}: {words}",
                pass_at="no error",
                passed=False,
                note=where,
            ),
            book,
        )
    book.end(part, time.monotonic() - began)
    if is_whole and setting.is_gpu:
        from extrap.training.memory import free_cached

        free_cached(setting.place)  # for processes that the next part starts
    return is_whole


def _keep(row: Result, book: Book) -> None:
    book.add(row)
    goal = f" (pass at {row.pass_at})" if row.pass_at else ""
    sys.stdout.write(f"{row.verdict:8} {row.part}: {row.what}: {row.measured}{goal}\n")
    sys.stdout.flush()


def _write_page(book: Book, path: Path) -> None:
    try:
        from benchmarks.gpu_acceptance.page import write_gpu_page
    except ImportError as error:
        sys.stderr.write(f"{path} is not written: {error}\n")
        return
    write_gpu_page(book, path)


def _pretend() -> None:
    from benchmarks.pretended_cuda import GuardError, install

    try:
        install()
    except GuardError as error:
        raise UsageError(f"no pretended device: {error}") from error


def _parser() -> argparse.ArgumentParser:
    summary = (gpu_acceptance.__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("python -m benchmarks.gpu_acceptance", description=summary)
    parser.add_argument(
        "--minutes",
        type=float,
        default=20,
        help="no part is started that is longer than what is left",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of gpu.json and gpu.html")
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--device", choices=DEVICES, default=CUDA)
    return parser


if __name__ == "__main__":
    sys.exit(main())
