"""What an exit code says."""

from __future__ import annotations

FINE, DEVIATES, BAD_USAGE, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130
