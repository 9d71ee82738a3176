"""Analyses of runs beyond one forecast; pure functions of `Runs`."""

from __future__ import annotations

from extrap.analyses.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
