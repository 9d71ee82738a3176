"""Runs that a restart split are one again; replicates are not.

Parts of one identity (a resumed run's id, the checkpoints of one folder) are one run. Without an
identity, of two runs of one family with equal settings, the seed among them, the second continues
the first if it begins behind the first's beginning and no later than two of its intervals behind
its end, goes on beyond that end at the same intervals, and the first is not known to have
finished. Without a seed, it begins in the second half of the first as well. Replicates begin at
the same step, or log at other intervals, and stay apart. What a later part logged replaces what an
earlier one had from that step on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from extrap.reading.trackers.tracked import LazyHistory, Points, TrackedRun

FINISHED = ("finished", "complete")
MOST_INTERVALS = 2.0
"""Between the end of a part and the beginning of the next."""
MOST_RATIO = 1.5
"""Between the intervals at which the parts of a run were logged."""
MOST_NAMED = 3


def stitched(runs: Sequence[TrackedRun]) -> tuple[list[TrackedRun], list[str]]:
    """Runs whose parts are joined, each where its first part was, and a note on them."""
    chains: dict[Hashable, list[list[int]]] = {}
    for number in sorted(range(len(runs)), key=lambda i: (runs[i].started, i)):
        run = runs[number]
        known = chains.setdefault(run.identity or _kin(run, number), [])
        fits = [0.0 if run.identity else _misfit(runs[chain[-1]], run) for chain in known]
        if fits and min(fits) < math.inf:
            known[fits.index(min(fits))].append(number)
        else:
            known.append([number])
    ordered = sorted((chain for known in chains.values() for chain in known), key=min)
    whole = [_joined([runs[number] for number in chain]) for chain in ordered]
    parted = [own for own in (_overlapping(runs, chain) for chain in ordered) if own]
    if not parted:
        return whole, []
    named = ", ".join(runs[chain[0]].name for chain in parted[:MOST_NAMED])
    more = ", …" if parted[MOST_NAMED:] else ""
    n_parts = sum(map(len, parted))
    return whole, [f"{len(parted)} run(s) were stitched from {n_parts} parts: {named}{more}"]


def _overlapping(runs: Sequence[TrackedRun], chain: Sequence[int]) -> list[int]:
    """The parts of a run that logged a metric which another part logged too."""
    metrics = [set(runs[number].history) for number in chain]
    return [
        number
        for place, number in enumerate(chain)
        if any(metrics[place] & other for i, other in enumerate(metrics) if i != place)
    ]


def _kin(run: TrackedRun, number: int) -> Hashable:
    """What parts of one run share; the number of a run that has no kin."""
    if not run.family:
        return number
    return run.family, frozenset((name, repr(value)) for name, value in run.settings.items())


def _misfit(earlier: TrackedRun, later: TrackedRun) -> float:
    """How far a run begins from where another would have gone on; infinite if it is none of it."""
    if earlier.status.lower() in FINISHED:
        return math.inf
    before, after = _steps(earlier), _steps(later)
    if not before or not after or after[0] <= before[0] or after[-1] <= before[-1]:
        return math.inf
    own = [_interval(steps) for steps in (before, after) if len(steps) > 1]
    gap = median(own) if own else 0.0
    is_behind = after[0] > before[-1] + MOST_INTERVALS * gap
    earliest = before[0] if _has_seed(earlier) else (before[0] + before[-1]) / 2
    if is_behind or after[0] < earliest or (own and max(own) > MOST_RATIO * min(own)):
        return math.inf
    return abs(after[0] - before[-1] - gap)


def _interval(steps: Sequence[float]) -> float:
    return median(b - a for a, b in pairwise(steps))


def _has_seed(run: TrackedRun) -> bool:
    return any(re.split(r"[./_]", name.lower())[-1] == "seed" for name in run.settings)


def _steps(run: TrackedRun) -> list[float]:
    """Steps at which anything was logged."""
    return sorted({step for metric in run.history for step, _ in run.history[metric]})


def _joined(parts: Sequence[TrackedRun]) -> TrackedRun:
    if len(parts) == 1:
        return parts[0]
    metrics = dict.fromkeys(metric for part in parts for metric in part.history)
    summary = {name: value for part in parts for name, value in part.summary.items()}

    def fetch(metric: str) -> Points:
        return _replaced([part.history.get(metric, ()) for part in parts])

    is_lazy = any(isinstance(part.history, LazyHistory) for part in parts)
    history = LazyHistory(metrics, fetch) if is_lazy else {m: fetch(m) for m in metrics}
    return replace(
        parts[-1], name=parts[0].name, history=history, summary=summary, started=parts[0].started
    )


def _replaced(histories: Sequence[Points]) -> Points:
    """Points one after the other; a later part replaces what was from its first step on."""
    points: list[tuple[float, float]] = []
    for later in histories:
        if later:
            first = min(step for step, _ in later)
            points = [point for point in points if point[0] < first] + list(later)
    return points
