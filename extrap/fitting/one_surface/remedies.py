"""What would end a refusal: the sweep is fitted again with imagined runs, and asked again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from extrap.fitting.one_surface.answers import Answer, answer
from extrap.fitting.one_surface.draws import draw
from extrap.fitting.one_surface.imagined_runs import N_DRAWS, ExpectedSize, expect_sizes, imagine
from extrap.fitting.one_surface.surface import Surface, fit_surfaces
from extrap.fitting.one_surface.sweep_arrays import arrays_of
from extrap.laws.base import Array
from extrap.records import Remedy, Runs
from extrap.records.numbers import format_quantity, name_size, rounded

MORE_SEEDS, DOUBLINGS = (4, 16), (1.0, 2.0)
"""Seeds are multiplied by these; larger sizes are so many doublings above the largest."""
COARSE = 2.0
"""Octaves between values from which on the curve between them is not seen."""
N_IMAGINED = 4
"""Draws of the runs of a remedy: the answer must be enough after each."""
DIGITS = 9
"""Of a size."""
WORK = 2
"""Power of the size that the work of a run grows with, where data grow with the model."""


def name_remedy(
    runs: Runs,
    surfaces: Sequence[Surface],
    weights: Array,
    target: Array,
    *,
    rng: np.random.Generator,
    is_enough: Callable[[Answer], bool] = lambda answer: not answer.refusal,
) -> Remedy | None:
    """The remedy of the least work after which an answer would be enough.

    Work is the number of runs, each times its size squared. If no remedy would do, a smaller
    target is named at which the answer is enough as it is; without one, nothing.

    Args:
        runs: The sweep.
        surfaces: Fitted to it.
        weights: Their probabilities.
        target: log2 of the size asked for, (C,).
        rng: Draws; the same for every remedy.
        is_enough: Of an answer; by default that it is given. Nothing is named where it holds.

    References:
        Ours. Raiffa, Schlaifer (1961), Applied Statistical Decision Theory, ch. 4 (analysis
        before the runs; here at the medians of the parameters). Hoffmann et al. (2022), Training
        compute-optimal large language models, for the square.
    """
    seed = int(rng.integers(2**32))
    if is_enough(_ask(surfaces, weights, target, seed)):
        return None
    largest = surfaces[0].sweep.log_sizes.max(axis=0)
    more = largest + np.array(DOUBLINGS)[:, None]
    more = more[(more < target).all(axis=1)]
    expected = expect_sizes(surfaces, weights, more, rng=np.random.default_rng(seed))
    noise = surfaces[int(np.argmax(weights))].noise
    remedies = [remedy for remedy in _remedies(runs, expected) if remedy.runs]
    for remedy in sorted(remedies, key=lambda remedy: _work(remedy, largest)):
        rngs = (np.random.default_rng([seed, k]) for k in range(N_IMAGINED))
        sweeps = (imagine(runs, remedy, expected, noise, rng=rng) for rng in rngs)
        answers = (_ask(*fit_surfaces(arrays_of(sweep)), target, seed) for sweep in sweeps)
        enough = list(itertools.takewhile(is_enough, answers))
        if len(enough) == N_IMAGINED:
            return _followed_by(remedy, enough)
    for size in target - np.arange(1, math.floor((target - largest).max()) + 1)[:, None]:
        now = _ask(surfaces, weights, size, seed)
        if is_enough(now):
            smaller = _named_size(runs, size)
            text = f"no set of added runs was enough; ask for {name_size(smaller)} at most"
            return _followed_by(Remedy(cause="sizes", text=text, target=smaller), [now])
    return None


def _ask(surfaces: Sequence[Surface], weights: Array, size: Array, seed: int) -> Answer:
    rng = np.random.default_rng(seed)
    return answer(draw(surfaces, weights, size[None], rng=rng, n=N_DRAWS)[0][0])


def _followed_by(remedy: Remedy, answers: Sequence[Answer]) -> Remedy:
    """A remedy with the mean cost and chance of divergence afterwards."""
    cost, chance = np.mean([[a.mistuned, a.chance] for a in answers], axis=0).tolist()
    return replace(remedy, cost=cost, chance=chance)


def _work(remedy: Remedy, largest: Array) -> float:
    """Work of all runs over that of one at the largest size."""
    sizes = np.log2([list(row.values())[: len(largest)] for row in remedy.runs])
    return float(remedy.seeds * (2 ** (WORK * (sizes - largest).mean(axis=1))).sum())


def _remedies(runs: Runs, expected: Sequence[ExpectedSize]) -> Iterator[Remedy]:
    """Those that are tried; some without runs."""
    fitted = [place for place in expected if place.from_largest <= 0]
    larger = expected[len(fitted) :]
    seeds = int(np.median([place.seeds for place in fitted]))
    for times in MORE_SEEDS:
        text = f"the seed changes losses; train {times} times as many seeds near the best values"
        rows = _rows(runs, fitted, [place.near() for place in fitted])
        more = (times - 1) * seeds
        yield Remedy(cause="noise", text=text, times=times, runs=rows, seeds=more)
    for j, name in enumerate(runs.tuned):
        yield from _other_values(runs, fitted, j, name, seeds)
    sizes = [_named_size(runs, place.size) for place in larger]
    for n in range(1, len(larger) + 1):
        rows = _rows(runs, larger[:n], [place.values for place in larger[:n]])
        text = f"{len(fitted)} sizes are few for one so far above; add "
        text += " and ".join(map(name_size, sizes[:n]))
        yield Remedy(cause="sizes", text=text, sizes=tuple(sizes[:n]), runs=rows, seeds=seeds)


def _other_values(
    runs: Runs, fitted: Sequence[ExpectedSize], j: int, name: str, seeds: int
) -> Iterator[Remedy]:
    """Values of a column beyond those that finished, and between them where they are coarse."""
    steps = np.concatenate([np.diff(np.unique(place.values[:, j])) for place in fitted])
    step = float(np.median(steps)) if len(steps) else 1.0
    for side, sign in (("low", -1), ("high", 1)):
        for octaves in (step, step / 2):
            rows = _rows(runs, fitted, [place.beyond(j, sign * octaves) for place in fitted])
            values = ", ".join(format_quantity(v) for v in sorted({row[name] for row in rows}))
            text = f"the {side}est {name} that finished is too near the best; try {values}"
            yield Remedy(cause="edge", text=text, column=name, side=side, runs=rows, seeds=seeds)
    times = 2 ** math.ceil(math.log2(step / COARSE))
    if times > 1:
        rows = _rows(runs, fitted, [place.between(j, times) for place in fitted])
        text = f"the values of {name} are a factor of {2**step:.2g} apart; "
        text += f"try {times} times as many"
        yield Remedy(cause="grid", text=text, column=name, times=times, runs=rows, seeds=seeds)


def _rows(
    runs: Runs, places: Sequence[ExpectedSize], values: Sequence[Array]
) -> tuple[dict[str, float], ...]:
    """Column → value of each run, from log2 values (k, D) per size."""
    pairs = zip(places, values, strict=True)
    logs = [(_named_size(runs, place.size), row) for place, rows in pairs for row in rows]
    return tuple(
        size | dict(zip(runs.tuned, (2.0**row).tolist(), strict=True)) for size, row in logs
    )


def _named_size(runs: Runs, log_size: Array) -> dict[str, float]:
    """Size column → size; the digits beyond those that log2 is kept with are not shown."""
    return {c: rounded(2.0**x, DIGITS) for c, x in zip(runs.sizes, log_size, strict=True)}
