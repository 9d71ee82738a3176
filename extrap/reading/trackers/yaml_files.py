"""YAML files of settings, read as data; the only module that imports `yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from extrap.reading.bounds import require_file

MOST_BYTES = 2**20


def read_settings(path: Path) -> dict[str, Any] | None:
    """The settings in a file; None where there is none, or it holds what is no plain data.

    A file that would make objects of Python's is not followed: it is as if it were not there.
    """
    if not path.is_file():
        return None
    import yaml

    require_file(path, "file of settings", most=MOST_BYTES)
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None
