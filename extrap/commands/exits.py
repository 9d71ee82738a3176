"""What an exit code says."""

from __future__ import annotations

__all__ = ["BAD_USAGE", "DEVIATES", "FINE", "INTERRUPTED", "UNEXPECTED"]

FINE, DEVIATES, BAD_USAGE, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130
