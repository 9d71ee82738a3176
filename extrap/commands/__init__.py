"""Commands with a file of their own, and what they share with `cli`."""

from __future__ import annotations

__all__: list[str] = []
