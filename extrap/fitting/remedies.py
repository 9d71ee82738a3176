"""What would end a refusal: less noise, a finer grid, a wider one, or more sizes.

Each remedy is tried on paper. The optima of the sweep are replaced by those it would probably
give, the laws are fitted again, and the first remedy that ends the refusal is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from extrap.fitting.noise import Noise
from extrap.fitting.optimum import GRID_FLOOR
from extrap.fitting.size_groups import spacing
from extrap.records import Estimate, Interval, Optimum, Runs

FINER = (2, 4)
"""Steps of a grid are divided by these."""
MORE_SEEDS = (2, 4)
"""Seeds are multiplied by these."""
LARGER = ((2,), (2, 4))
"""Sizes are added at these multiples of the largest."""
COARSE = 2.0
"""Octaves between the values of a grid from which on it is coarse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the laws of a forecast say at one size: log loss, tuned column → log value."""

    log_loss: float
    tuned: Mapping[str, float]


class Remedy(NamedTuple):
    """What would end a refusal.

    Attributes:
        cause: `"edge"`, `"grid"`, `"noise"` or `"sizes"`.
        text: What was found, and what to do.
        column: The tuned column whose grid it is about; empty for noise and sizes.
        side: The end of its grid that is the best value, `"low"` or `"high"`.
        times: How many times as many seeds, or values of a grid.
        sizes: The sizes to add.
    """

    cause: str
    text: str
    column: str = ""
    side: str = ""
    times: int = 1
    sizes: tuple[Mapping[str, float], ...] = ()

    def __str__(self) -> str:
        return f"{self.cause}: {self.text}"


def name_remedy(
    runs: Runs,
    optima: Sequence[Optimum],
    noise: Noise,
    *,
    expect: Callable[[Mapping[str, float]], Expected],
    is_refused: Callable[[Sequence[Optimum], Noise], bool],
) -> Remedy:
    """The first remedy that would end a refusal.

    Args:
        runs: The sweep.
        optima: Its optima.
        noise: Its noise.
        expect: The forecast at a size.
        is_refused: Whether the refusal stands with other optima and noise.

    References:
        Ours; `benchmarks/refusal_causes.py` measures how often the planted cause is named, and how
        often the remedy ends the refusal.
    """
    if not any(o.bracketed for o in optima):
        return name_unbracketed(runs, optima)
    for remedy, changed, changed_noise in _remedies(runs, optima, noise, expect):
        if not is_refused(changed, changed_noise):
            return remedy
    return Remedy("sizes", "the sweep ends too far below; add larger sizes, or ask for a smaller")


def name_unbracketed(runs: Runs, optima: Sequence[Optimum]) -> Remedy:
    """Why so few sizes have a bracketed optimum that there is no law, and what to do."""
    if any(o.edge for o in optima):
        return _wider(runs, [o for o in optima if o.edge])
    name, octaves = _coarsest(runs)
    if octaves >= COARSE:
        return _finer(name, octaves, FINER[0])
    names, times = " and ".join(runs.tuned), MORE_SEEDS[-1]
    text = f"the losses show no minimum over {names}; train {times} times as many seeds"
    return Remedy("noise", text, times=times)


def less_noise(noise: Noise, *, times: int = MORE_SEEDS[-1]) -> Remedy:
    """More seeds."""
    percent = 100 * math.expm1(noise.log_sd or 0.0)
    text = f"the seed changes a loss by {percent:.2g} %; train {times} times as many seeds"
    return Remedy("noise", text, times=times)


def _remedies(
    runs: Runs,
    optima: Sequence[Optimum],
    noise: Noise,
    expect: Callable[[Mapping[str, float]], Expected],
) -> Iterator[tuple[Remedy, Sequence[Optimum], Noise]]:
    """Each remedy with the optima and the noise that it would probably give."""
    ideal = [expect(o.size) for o in optima]
    steps = [_steps(runs, o) for o in optima]
    like = [o for o in optima if o.bracketed][-1]
    if open_sizes := [o for o in optima if o.edge]:
        changed = [
            o if o.bracketed else _at(o.size, laws, like=like)
            for o, laws in zip(optima, ideal, strict=True)
        ]
        yield _wider(runs, open_sizes), changed, noise
    if 2 * sum(map(_is_coarse, optima, steps)) > len(optima):
        name, octaves = _coarsest(runs)
        for parts in FINER:
            changed = [
                _shrunk(o, laws, own, noise_share=1.0, step_share=1 / parts)
                for o, laws, own in zip(optima, ideal, steps, strict=True)
            ]
            yield _finer(name, octaves, parts), changed, noise
    if noise.log_sd:
        for times in MORE_SEEDS:
            changed = [
                _shrunk(o, laws, own, noise_share=1 / times, step_share=1.0)
                for o, laws, own in zip(optima, ideal, steps, strict=True)
            ]
            known = replace(noise, own_dof=times * noise.own_dof, size_dof=times * noise.size_dof)
            yield less_noise(noise, times=times), changed, known
    largest = max(optima, key=lambda o: math.prod(o.size.values()))
    for multiples in LARGER:
        sizes = [{c: v * m for c, v in largest.size.items()} for m in multiples]
        added = [_at(size, expect(size), like=like) for size in sizes]
        names = " and ".join(", ".join(f"{c} {v:g}" for c, v in size.items()) for size in sizes)
        yield (
            f"sizes: {len(optima)} sizes are few for so far; add {names}",
            [*optima, *added],
            noise,
        )


def _steps(runs: Runs, optimum: Optimum) -> dict[str, float]:
    """Octaves between the values that were tried around the optimum, tuned column → octaves."""
    frame = runs.to_frame()
    rows = frame[np.logical_and.reduce([frame[c] == v for c, v in optimum.size.items()])]
    return {
        name: spacing(rows[name], e.value) if e.value else 0.0 for name, e in optimum.tuned.items()
    }


def _is_coarse(optimum: Optimum, steps: Mapping[str, float]) -> bool:
    """Whether the steps of the grid are most of what is not known of an optimum."""
    floors = {name: GRID_FLOOR * math.log(2) * octaves for name, octaves in steps.items()}
    return any(
        e.value is not None and e.se is not None and 2 * floors[name] ** 2 > (e.se / e.value) ** 2
        for name, e in optimum.tuned.items()
    )


def _coarsest(runs: Runs) -> tuple[str, float]:
    """The tuned column with the widest steps, in octaves."""
    frame = runs.to_frame()
    steps = {}
    for name in runs.tuned:
        tried = np.unique(np.log2(frame[name].astype(float)))
        n_values = frame.groupby(list(runs.sizes))[name].nunique().median()
        steps[name] = float(np.ptp(tried)) / max(n_values - 1, 1)
    name = max(steps, key=lambda key: steps[key])
    return name, steps[name]


def _shrunk(
    optimum: Optimum,
    laws: Expected,
    steps: Mapping[str, float],
    *,
    noise_share: float,
    step_share: float,
) -> Optimum:
    """An optimum with a share of its variance by noise, and of the error by the grid's steps."""
    tuned = {}
    for name, e in optimum.tuned.items():
        if e.value is None or not math.isfinite(e.se or math.inf) or name not in laws.tuned:
            tuned[name] = e
            continue
        floor = GRID_FLOOR * math.log(2) * steps[name]
        variance = ((e.se or 0.0) / e.value) ** 2
        left = noise_share * max(variance - floor**2, 0.0) + (step_share * floor) ** 2
        off = math.log(e.value) - laws.tuned[name]
        value = math.exp(laws.tuned[name] + off * math.sqrt(min(left / variance, 1.0)))
        tuned[name] = replace(e, value=value, se=value * math.sqrt(left))
    if optimum.loss is None:
        return replace(optimum, tuned=tuned)
    root = math.sqrt(noise_share)
    loss = math.exp(laws.log_loss + root * (math.log(optimum.loss) - laws.log_loss))
    errors = (optimum.loss_se, optimum.paired_loss_se)
    se, paired = (None if error is None else root * error for error in errors)
    return replace(optimum, tuned=tuned, loss=loss, loss_se=se, paired_loss_se=paired)


def _at(size: Mapping[str, float], laws: Expected, *, like: Optimum) -> Optimum:
    """An optimum where the laws have it, as well known as another one."""
    tuned = {}
    for name, e in like.tuned.items():
        value = math.exp(laws.tuned[name]) if name in laws.tuned else e.value or 1.0
        se = value * (e.se / e.value if e.se and e.value else 0.0)
        tuned[name] = Estimate(value=value, se=se, ci=Interval(), pi=Interval())
    loss = math.exp(laws.log_loss)
    share = loss / (like.loss or loss)
    errors = (like.loss_se, like.paired_loss_se)
    se, paired = (None if error is None else share * error for error in errors)
    return replace(
        like, size=dict(size), tuned=tuned, loss=loss, loss_se=se, paired_loss_se=paired
    )


def _wider(runs: Runs, sizes: Sequence[Optimum]) -> Remedy:
    """A wider grid, where the best value of some sizes is the last one that was tried."""
    name, side = next(iter((sizes[-1].edge or {}).items()))
    tried = runs.to_frame()[name].astype(float)
    where = ", ".join(f"{v:g}" for o in sizes for v in o.size.values())
    end, value = ("above", tried.max()) if side == "high" else ("below", tried.min())
    text = (
        f"the best {name} at {'/'.join(runs.sizes)} {where} is the {side}est that was tried; "
        f"try values {end} {value:.3g}"
    )
    return Remedy("edge", text, column=name, side=side)


def _finer(name: str, octaves: float, times: int) -> Remedy:
    """A finer grid."""
    text = (
        f"the values of {name} are a factor of {2**octaves:.2g} apart; try {times} times as many "
        "over the same range"
    )
    return Remedy("grid", text, column=name, times=times)
