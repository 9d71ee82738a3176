"""What would end a refusal: the sweep is forecast again with imagined runs, and asked again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface.draws import SurfaceDraws
from extrap.fitting.surface.imagined_runs import ExpectedSize, LogLoss, expect_sizes, imagine
from extrap.laws.base import Array
from extrap.records import Remedy, Runs
from extrap.records.numbers import format_quantity, name_size, rounded

MORE_SEEDS, DOUBLINGS = (4, 16), (1, 2)
"""Seeds are multiplied by these; larger sizes are so many doublings above the largest."""
COARSE = 2.0
"""Octaves between values from which on the curve between them is not seen."""
LEAST_STEP = 1.0
"""Octaves between values beyond an end: sampled ones may be much nearer to each other."""
MOST_LISTED = 6
"""Values that a remedy lists one by one."""
N_IMAGINED, N_TYPICAL, MOST_NOT = 5, 3, 1
"""Draws of the runs of a remedy, of how many the surface is the typical one and of the others one
of its draws, and after how many no answer may be given. The first is without noise, and must give
one. With typical ones alone half of the remedies for noisy sweeps were not enough; with drawn ones
alone nothing was for coarse grids."""
SIZE_DECIMALS = 9
"""Decimals to which sizes in remedies are rounded."""
WORK = 2
"""Power of the size that the work of a run grows with, where data grow with the model."""
NOTHING = Remedy(
    cause="sizes", text="the sweep ends too far below; add larger sizes, or ask for a smaller"
)


def name_remedy(
    runs: Runs,
    draws: SurfaceDraws | None,
    noise: Noise,
    target: Mapping[str, float],
    *,
    log_loss: LogLoss,
    is_given: Callable[[Runs, Mapping[str, float]], bool],
) -> Remedy:
    """The first remedy after which an answer would be given.

    Where a value was tried at one size and kept at the others, to try it at these comes first;
    then other values, more seeds, larger sizes, and many more of these. Of a kind that of the
    least work comes first: the number of runs, each times its size squared. If no remedy would
    do, a smaller target is named at which the answer is given as it is.

    Args:
        runs: The sweep.
        draws: Of its surface; None where nothing is tuned.
        noise: Of a run.
        target: The size asked for.
        log_loss: At the best values of a size.
        is_given: Whether a forecast of some runs gives the answer at a size.

    References:
        Ours. Raiffa, Schlaifer (1961), Applied Statistical Decision Theory, ch. 4 (analysis
        before the runs). Hoffmann et al. (2022), Training compute-optimal large language models,
        for the square.
    """
    if (once := _swept_once(runs)) is not None:
        return once
    sizes = runs.to_frame()[list(runs.sizes)].astype(float)
    largest = {name: float(column.max()) for name, column in sizes.items()}
    more = [{c: v * 2**n for c, v in largest.items()} for n in DOUBLINGS]
    more = [size for size in more if all(size[c] < target[c] for c in size)]
    expected = expect_sizes(runs, draws, more, log_loss=log_loss)
    remedies = [remedy for remedy in _remedies(runs, expected) if remedy.runs]
    for remedy in sorted(remedies, key=lambda r: (_rank(r), _work(r, largest))):
        added, n_not = _added(remedy), 0
        for k in range(N_IMAGINED):
            rng = np.random.default_rng(k) if k else None
            draw = None if k < N_TYPICAL else k
            sweep = imagine(runs, added, expected, noise, rng=rng, draw=draw)
            n_not += not is_given(sweep, target)
            if n_not > (MOST_NOT if k else 0):
                break
        else:
            return remedy
    octaves = max(math.log2(target[c] / v) for c, v in largest.items())
    for n in range(1, math.floor(octaves) + 1):
        smaller = {c: rounded(max(v / 2**n, largest[c]), SIZE_DECIMALS) for c, v in target.items()}
        if is_given(runs, smaller):
            text = f"no set of added runs was enough; ask for {name_size(smaller)} at most"
            return Remedy(cause="sizes", text=text, target=smaller)
    lacking = [e for e in expected if not e.is_larger and not e.is_finished.any()]
    outside = [remedy for remedy in remedies if remedy.cause == "edge"]
    # what diverged comes first, even where it is not enough
    return min(outside, key=lambda r: _work(r, largest)) if lacking and outside else NOTHING


def _swept_once(runs: Runs) -> Remedy | None:
    """What to do where a value was tried at one size and kept at the others."""
    groups = runs.to_frame().groupby(list(runs.sizes))
    for name in runs.tuned:
        n_values = groups[name].nunique()
        swept = n_values[n_values > 1]
        if len(swept) == 1 < len(n_values):
            size = dict(zip(runs.sizes, np.atleast_1d(swept.index[0]).tolist(), strict=True))
            text = f"{name} was swept at {name_size(size)} only; try several values of it at "
            return Remedy(cause="grid", text=f"{text}the other sizes", column=name)
    return None


def _added(remedy: Remedy) -> pd.DataFrame:
    """The runs of a remedy as a table, with seeds that no run has had."""
    table = pd.DataFrame(list(remedy.runs))
    repeated = table.loc[table.index.repeat(remedy.seeds)]
    return repeated.assign(seed=[f"new {k}" for k in range(remedy.seeds)] * len(table))


def _rank(remedy: Remedy) -> int:
    """Other values, some seeds, a size, many seeds, two sizes."""
    if remedy.cause == "noise":
        return 1 if remedy.times == MORE_SEEDS[0] else 3
    return 2 * len(remedy.sizes) if remedy.cause == "sizes" else 0


def _work(remedy: Remedy, largest: Mapping[str, float]) -> float:
    """Work of all runs over that of one at the largest size."""
    logs = [np.mean([math.log2(row[c] / v) for c, v in largest.items()]) for row in remedy.runs]
    return float(remedy.seeds * (2.0 ** (WORK * np.array(logs))).sum())


def _remedies(runs: Runs, expected: Sequence[ExpectedSize]) -> Iterator[Remedy]:
    """Those that are tried; some without runs."""
    fitted = [expected_size for expected_size in expected if not expected_size.is_larger]
    larger = expected[len(fitted) :]
    seeds = int(np.median([expected_size.seeds for expected_size in fitted]))
    for times in MORE_SEEDS:
        text = f"the seed changes losses; train {times} times as many seeds near the best values"
        rows = _rows(runs, fitted, [expected_size.near() for expected_size in fitted])
        more = (times - 1) * seeds
        yield Remedy(cause="noise", text=text, times=times, runs=rows, seeds=more)
    for j, name in enumerate(runs.tuned):
        yield from _other_values(runs, fitted, j, name, seeds)
    for n in range(1, len(larger) + 1):
        rows = _rows(runs, larger[:n], [expected_size.values for expected_size in larger[:n]])
        sizes = tuple(expected_size.size for expected_size in larger[:n])
        text = f"{len(fitted)} sizes are few for one so far above; add "
        text += " and ".join(map(name_size, sizes))
        yield Remedy(cause="sizes", text=text, sizes=sizes, runs=rows, seeds=seeds)


def _other_values(
    runs: Runs, fitted: Sequence[ExpectedSize], j: int, name: str, seeds: int
) -> Iterator[Remedy]:
    """Values of a column beyond those that finished, and between them where they are coarse."""
    steps = np.concatenate(
        [np.diff(np.unique(expected_size.values[:, j])) for expected_size in fitted]
    )
    step = float(np.median(steps)) if len(steps) else 1.0
    for side, sign in (("low", -1), ("high", 1)):
        for octaves in (max(step, LEAST_STEP), max(step, LEAST_STEP) / 2):
            rows = _rows(
                runs, fitted, [expected_size.beyond(j, sign * octaves) for expected_size in fitted]
            )
            values = _listed(row[name] for row in rows)
            text = f"the {side}est {name} that finished is too near the best; try {values}"
            if not all(expected_size.is_finished.any() for expected_size in fitted):
                text = f"all runs of a size diverged; try {name} {values} there"
            yield Remedy(cause="edge", text=text, column=name, side=side, runs=rows, seeds=seeds)
    times = 2 ** math.ceil(math.log2(step / COARSE))
    if times > 1:
        rows = _rows(runs, fitted, [expected_size.between(j, times) for expected_size in fitted])
        text = f"the values of {name} are a factor of {2**step:.2g} apart; "
        text += f"try {times} times as many"
        yield Remedy(cause="grid", text=text, column=name, times=times, runs=rows, seeds=seeds)


def _listed(values: Iterable[float]) -> str:
    """Values in order; of many the first and the last."""
    texts = [format_quantity(value) for value in sorted(set(values))]
    return ", ".join(texts) if len(texts) <= MOST_LISTED else f"{texts[0]} to {texts[-1]}"


def _rows(
    runs: Runs, sizes: Sequence[ExpectedSize], values: Sequence[Array]
) -> tuple[dict[str, float], ...]:
    """Column → value of each run, from log2 values (k, D) per size."""
    pairs = zip(sizes, values, strict=True)
    logs = [(dict(expected.size), row) for expected, rows in pairs for row in rows]
    return tuple(
        values_of_size | dict(zip(runs.tuned, (2.0**row).tolist(), strict=True))
        for values_of_size, row in logs
    )
