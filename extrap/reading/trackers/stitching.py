"""Parts of one run, as its tracker names it, are one run again.

Checkpoints of one folder and event files of one folder are parts of a run. A restart that got a
name of its own is a run of its own: the first part of it counts as its status says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extrap.reading.trackers.tracked import Points, TrackedRun

MOST_NAMED = 3


def stitched(runs: Sequence[TrackedRun]) -> tuple[list[TrackedRun], list[str]]:
    """Runs whose parts are joined, each where its first part was, and a note on them.

    What a later part logged replaces what an earlier one had from that step on.
    """
    parts: dict[str, list[TrackedRun]] = {}
    for number, run in enumerate(runs):
        parts.setdefault(run.identity or f"run {number}", []).append(run)
    groups = [sorted(group, key=lambda run: run.started) for group in parts.values()]
    split = [group for group in groups if _overlap(group)]
    named = ", ".join(group[0].name for group in split[:MOST_NAMED])
    more = ", …" if split[MOST_NAMED:] else ""
    note = f"{len(split)} run(s) were joined from {sum(map(len, split))} parts: {named}{more}"
    return [_joined(group) for group in groups], [note] if split else []


def _overlap(group: Sequence[TrackedRun]) -> bool:
    """Whether any metric was logged by two parts."""
    metrics = [name for run in group for name in run.history]
    return len(metrics) > len(set(metrics))


def _joined(parts: Sequence[TrackedRun]) -> TrackedRun:
    if len(parts) == 1:
        return parts[0]
    metrics = dict.fromkeys(metric for part in parts for metric in part.history)
    history = {m: _replaced([part.history.get(m, ()) for part in parts]) for m in metrics}
    return replace(parts[-1], name=parts[0].name, history=history, started=parts[0].started)


def _replaced(histories: Sequence[Points]) -> Points:
    """Points one after the other; a later part replaces what was from its first step on."""
    points: list[tuple[float, float]] = []
    for later in histories:
        if later:
            first = min(step for step, _ in later)
            points = [point for point in points if point[0] < first] + list(later)
    return points
