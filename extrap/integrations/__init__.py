"""Trainers of other libraries: one file a library, imported by name."""

from __future__ import annotations

__all__: list[str] = []
