"""Analyses of runs beyond one forecast; pure functions of `Runs`."""

from __future__ import annotations

from extrap.analyses.comparison import Differences, arm_table, compare_arms, tuned_arm

__all__ = ["Differences", "arm_table", "compare_arms", "tuned_arm"]
