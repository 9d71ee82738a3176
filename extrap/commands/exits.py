"""What a command's exit code says."""

from __future__ import annotations

__all__ = ["DEVIATES", "FINE"]

FINE, DEVIATES = 0, 1
