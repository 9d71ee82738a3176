"""What lies in a folder, looked at within bounds and never through links."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.found import Found

MOST_ENTRIES = 500_000
"""Files and folders that are looked at."""
MOST_FILES = 20_000
"""Files that are read."""
MOST_DEPTH = 12
KINDS: dict[str, Callable[[str], bool]] = {
    "mlflow": lambda name: name == "meta.yaml",
    "huggingface": lambda name: name == "trainer_state.json",
    "lightning": lambda name: name == "metrics.csv",
    "tensorboard": lambda name: "tfevents" in name,
}
"""Reader → the files that are its; a folder of several kinds is of the first."""


def find_in_folder(folder: Path, *, study: str | None) -> Found:
    """Read a folder as what it holds.

    Args:
        folder: The folder.
        study: The experiment, where it holds several.

    Raises:
        DataError: It holds nothing that is known, or too much.
    """
    files = runs_below(folder)
    for kind, is_its in KINDS.items():
        own = [path for path in files if is_its(path.name)]
        if own:
            return read_files(kind, folder, own, study=study)
    raise DataError(
        f"{shown(str(folder))} is a folder without runs; a tracker leaves meta.yaml (MLflow), "
        "trainer_state.json (HF Trainer), metrics.csv (Lightning) or event files (TensorBoard). "
        "Name the table inside it, or another folder."
    )


def kind_of_file(path: Path) -> str | None:
    """The reader of a file that is a run of its own; None for a table."""
    kinds = ("huggingface", "tensorboard")
    return next((kind for kind in kinds if KINDS[kind](path.name)), None)


def runs_below(folder: Path) -> list[Path]:
    """Files in a folder and those within it that belong to a reader, in the order of their names.

    Raises:
        DataError: There are too many.
    """
    found: list[Path] = []
    waiting, n_entries = [(folder, 0)], 0
    while waiting:
        here, depth = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    n_entries += 1
                    if n_entries > MOST_ENTRIES or len(found) > MOST_FILES:
                        raise DataError(
                            f"a folder of runs has at most {MOST_ENTRIES:,} files and "
                            f"{MOST_FILES:,} of runs, got more in {shown(str(folder))}; name one "
                            "within it."
                        )
                    if entry.is_dir(follow_symlinks=False) and depth < MOST_DEPTH:
                        waiting.append((Path(entry.path), depth + 1))
                    elif _is_of_a_run(entry):
                        found.append(Path(entry.path))
        except OSError as error:
            if here == folder:
                raise DataError(
                    f"a folder must be readable, got {shown(str(folder))} ({error.strerror})."
                ) from error
    return sorted(found)


def _is_of_a_run(entry: os.DirEntry[str]) -> bool:
    is_its = any(is_its(entry.name) for is_its in KINDS.values())
    return is_its and entry.is_file(follow_symlinks=False)


def read_files(kind: str, folder: Path, files: list[Path], *, study: str | None) -> Found:
    """Read files by the reader of their kind."""
    module = import_module(f"extrap.reading.trackers.{kind}")
    found: Found = module.read(folder, files, study=study)
    return found
