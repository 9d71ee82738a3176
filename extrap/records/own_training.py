"""The training function of a study file, with what tells it from an earlier version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extrap.records.study import TrainFunction
from extrap.study_folders import enter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyFunction:
    """A training function whose source is part of its study's fingerprint.

    Attributes:
        function: The function.
        name: Its name.
        source: Name → text or hash of the definitions that it rests on.
        folder: The folder of the study file.
        beside: Modules there that it may import: path relative to the folder → source.
    """

    function: TrainFunction
    name: str
    source: Mapping[str, str] = field(default_factory=dict)
    folder: Path
    beside: Mapping[str, bytes] = field(default_factory=dict)

    def __call__(self, size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> Any:
        """What the function returns."""
        enter(self.folder)
        return self.function(size, tuned, seed)
