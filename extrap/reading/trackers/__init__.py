"""What trackers and trainers leave behind, read as runs and points."""

from __future__ import annotations

__all__: list[str] = []
