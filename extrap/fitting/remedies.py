"""What would end a refusal: less noise, a finer grid, a wider one, or more sizes.

Each remedy is tried on paper. The optima of the sweep are replaced by those it would probably
give, the laws are fitted again, and the first remedy that ends the refusal is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from extrap.fitting.divergence import DivergenceModel
from extrap.fitting.optimum import Grid
from extrap.fitting.seed_noise import Noise
from extrap.laws.base import Array
from extrap.records import Estimate, Interval, Optimum, Remedy, Runs

FINER = (2, 4)
"""Steps of a grid are divided by these."""
MORE_SEEDS = (4, 8, 16, 32, 64)
"""Seeds are multiplied by these."""
SPARE = 2.0
"""Seeds are taken to lower a variance less by this factor, as it is itself known roughly, and an
added size to err more by it, as it may lie elsewhere than the laws have it."""
LARGER = ((2,), (2, 4))
"""Sizes are added at these multiples of the largest."""
SEVERAL = 2
"""Sizes whose best value is at an end of the grid: noise alone brings one there."""
NOISE_SDS = 3.0
"""Standard errors up to which the deviation of an optimum from a power law is noise."""
LARGEST_LOG = 700.0
"""Guard of an exponential."""
CLEAR = 1.0
"""Log odds of divergence by which a standard deviation of a value must lower it, to be trusted."""
COARSE = 2.0
"""Octaves between the values of a grid from which on it is coarse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What laws say at one size: log loss, tuned column → log value, as far as there are laws."""

    log_loss: float | None
    tuned: Mapping[str, float]


AGAINST_RISE = Remedy(
    cause="sizes",
    text=(
        "find out why the largest runs are worse (a mistuned value, too few steps, another "
        "recipe), and repeat them or leave them out"
    ),
)
"""Where the loss rises towards the largest size."""


def against_divergence(model: DivergenceModel) -> Remedy:
    """Where the value to use is expected to diverge: other values of what diverges most."""
    weights = dict(zip(model.tuned, model.weights[len(model.columns) :], strict=True))
    name = max(weights, key=lambda column: abs(weights[column]))
    runs = f"{model.n_diverged} of {model.n_runs} runs of the sweep diverged"
    change, side = ("larger", "high") if weights[name] < -CLEAR else ("smaller", "low")
    text = f"{runs}; try {change} values of {name}"
    return Remedy(cause="grid", text=text, column=name, side=side)


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
        Ours; docs/measured.md has how often a planted cause is named, and how often its remedy
        ended the refusal. `tests/fitting/planted.py` plants them.
    """
    if not any(o.bracketed for o in optima):
        return name_unbracketed(runs, optima, noise)
    for remedy, changed, changed_noise in _remedies(runs, optima, noise, expect):
        if not is_refused(changed, changed_noise):
            return remedy
    return Remedy(
        cause="sizes",
        text="the sweep ends too far below; add larger sizes, or ask for a smaller",
    )


def name_unbracketed(runs: Runs, optima: Sequence[Optimum], noise: Noise) -> Remedy:
    """Why so few sizes have a bracketed optimum that there is no law, and what to do."""
    if once := _swept_once(runs):
        return once
    if any(o.edge for o in optima):
        return _wider(runs, [o for o in optima if o.edge])
    name, octaves = _coarsest(runs)
    if octaves >= COARSE:
        return _finer(name, octaves, FINER[0])
    names, times = " and ".join(runs.tuned), MORE_SEEDS[0]
    return _more(noise, times, f"the losses show no minimum over {names}")


def _swept_once(runs: Runs) -> Remedy | None:
    """What to do where a value was tried at one size and kept at the others."""
    frame = runs.to_frame()
    for name in runs.tuned:
        n_values = frame.groupby(list(runs.sizes))[name].nunique()
        swept = n_values[n_values > 1]
        if len(swept) == 1 < len(n_values):
            where = f"{'/'.join(runs.sizes)} {_numbers(swept.index[0])}"
            text = (
                f"{name} was swept at one size only, {where}, so that the losses of the others "
                f"are upper bounds; try values around {_numbers(frame[name].iloc[-1])} there too"
            )
            return Remedy(cause="grid", text=text, column=name)
    return None


def _numbers(values: Any) -> str:
    return " ".join(f"{value:g}" for value in np.atleast_1d(values))


def less_noise(noise: Noise, *, times: int = MORE_SEEDS[0]) -> Remedy:
    """More seeds."""
    percent = 100 * math.expm1(min(noise.log_sd or 0.0, LARGEST_LOG))
    return _more(noise, times, f"the seed changes a loss by {percent:.2g} %")


def _more(noise: Noise, times: int, found: str) -> Remedy:
    """More seeds; where no run was repeated, more runs."""
    of_what = "seeds" if noise.is_replicated else "runs, no two with the same seed"
    return Remedy(
        cause="noise", text=f"{found}; train {times} times as many {of_what}", times=times
    )


def _remedies(
    runs: Runs,
    optima: Sequence[Optimum],
    noise: Noise,
    expect: Callable[[Mapping[str, float]], Expected],
) -> Iterator[tuple[Remedy, Sequence[Optimum], Noise]]:
    """Each remedy with the optima and the noise that it would probably give."""
    straight = power_laws(runs, optima)
    grids = [value_grids(runs, o) for o in optima]
    like = [o for o in optima if o.bracketed][-1]
    open_sizes = [o for o in optima if o.edge]
    if len(open_sizes) >= SEVERAL:
        changed = [
            o if o.bracketed else expected_optimum(o.size, expect(o.size), like=like)
            for o in optima
        ]
        yield _wider(runs, open_sizes), changed, noise
    if 2 * sum(map(_is_coarse, optima, grids)) > len(optima):
        name, octaves = _coarsest(runs)
        for parts in FINER:
            changed = [
                shrunk_optimum(o, line, own, noise_share=1.0, parts=parts)
                for o, line, own in zip(optima, straight, grids, strict=True)
            ]
            yield _finer(name, octaves, parts), changed, noise
    if noise.log_sd:
        for times in MORE_SEEDS:
            changed = [
                shrunk_optimum(o, line, own, noise_share=SPARE / times, parts=1)
                for o, line, own in zip(optima, straight, grids, strict=True)
            ]
            known = replace(noise, own_dof=times * noise.own_dof, size_dof=times * noise.size_dof)
            yield less_noise(noise, times=times), changed, known
    largest = max(optima, key=lambda o: math.prod(o.size.values()))
    for multiples in LARGER:
        sizes = [{c: v * m for c, v in largest.size.items()} for m in multiples]
        added = [expected_optimum(size, expect(size), like=like, spare=SPARE) for size in sizes]
        names = " and ".join(", ".join(f"{c} {v:g}" for c, v in size.items()) for size in sizes)
        text = f"{len(optima)} sizes are few for one so far above; add {names}"
        yield Remedy(cause="sizes", text=text, sizes=tuple(sizes)), [*optima, *added], noise


def value_grids(runs: Runs, optimum: Optimum) -> dict[str, Grid]:
    """Tuned column → the values that were tried around the optimum."""
    frame = runs.to_frame()
    rows = frame[np.logical_and.reduce([frame[c] == v for c, v in optimum.size.items()])]
    return {n: Grid.of(rows[n], e.value) for n, e in optimum.tuned.items() if e.value}


def _is_coarse(optimum: Optimum, grids: Mapping[str, Grid]) -> bool:
    """Whether the steps of the grid are most of what is not known of an optimum."""
    pairs = ((e, grids[name]) for name, e in optimum.tuned.items() if name in grids)
    return any(
        e.se is not None and 2 * (math.log(2) * grid.error()) ** 2 > (e.se / e.value) ** 2
        for e, grid in pairs
        if e.value
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


def power_laws(runs: Runs, optima: Sequence[Optimum]) -> list[Expected]:
    """Power laws of losses and optima, fitted as if all deviations from them were noise."""
    x = np.log([[o.size[c] for c in runs.sizes] for o in optima])
    design = np.column_stack([np.ones(len(x)), x - x.mean(axis=0)])

    def line(values: Sequence[float | None], errors: Sequence[float | None]) -> Array | None:
        value, error = np.array(values, dtype=float), np.array(errors, dtype=float)
        known = np.isfinite(value) & np.isfinite(error) & (error > 0)
        if known.sum() < design.shape[1]:
            return None
        y, se = np.log(value[known]), error[known] / value[known]
        weighted = design[known] / se[:, None]
        return np.asarray(design @ np.linalg.lstsq(weighted, y / se, rcond=None)[0])

    loss = line([o.loss for o in optima], [o.paired_loss_se for o in optima])
    of_tuned = {
        name: line([o.tuned[name].value for o in optima], [o.tuned[name].se for o in optima])
        for name in runs.tuned
    }
    return [
        Expected(
            log_loss=None if loss is None else float(loss[i]),
            tuned={n: float(values[i]) for n, values in of_tuned.items() if values is not None},
        )
        for i in range(len(optima))
    ]


def shrunk_optimum(
    optimum: Optimum,
    line: Expected,
    grids: Mapping[str, Grid],
    *,
    noise_share: float,
    parts: int,
) -> Optimum:
    """A bracketed optimum with a share of the variance of its noise, and a finer grid.

    Args:
        optimum: The optimum; one that is not bracketed is left as it is.
        line: What power laws of all optima say there, from `power_laws`.
        grids: Tuned column → the values tried around it, from `value_grids`.
        noise_share: Share of the variance that is left.
        parts: Parts into which steps of the grid are divided.

    Of the deviation from a power law up to `NOISE_SDS` standard errors are taken for noise.
    """
    if not optimum.bracketed:
        return optimum
    tuned = {}
    for name, e in optimum.tuned.items():
        if e.value is None or e.se is None or name not in line.tuned:
            tuned[name] = e
            continue
        variance = (e.se / e.value) ** 2
        floor, finer = (
            (math.log(2) * grid.error()) ** 2 for grid in (grids[name], grids[name].finer(parts))
        )
        left = noise_share * max(variance - floor, 0.0) + finer
        value = math.exp(_towards(math.log(e.value), line.tuned[name], variance, left))
        tuned[name] = replace(e, value=value, se=value * math.sqrt(left))
    if optimum.loss is None or not optimum.paired_loss_se or line.log_loss is None:
        return replace(optimum, tuned=tuned)
    variance = (optimum.paired_loss_se / optimum.loss) ** 2
    log_loss = _towards(math.log(optimum.loss), line.log_loss, variance, noise_share * variance)
    root = math.sqrt(noise_share)
    return replace(
        optimum,
        tuned=tuned,
        loss=math.exp(log_loss),
        loss_se=None if optimum.loss_se is None else root * optimum.loss_se,
        paired_loss_se=root * optimum.paired_loss_se,
    )


def _towards(log_value: float, centre: float, variance: float, left: float) -> float:
    """A value nearer to a line, after its variance became less."""
    off = log_value - centre
    most = NOISE_SDS * math.sqrt(variance)
    noise = min(max(off, -most), most)
    return centre + off - noise * (1 - math.sqrt(min(left / variance, 1.0)))


def expected_optimum(
    size: Mapping[str, float], laws: Expected, *, like: Optimum, spare: float = 1.0
) -> Optimum:
    """An optimum where the laws have it, whose errors are those of another one times `spare`."""
    tuned = {}
    for name, e in like.tuned.items():
        value = math.exp(laws.tuned[name]) if name in laws.tuned else e.value or 1.0
        se = spare * value * (e.se / e.value if e.se and e.value else 0.0)
        tuned[name] = Estimate(value=value, se=se, ci=Interval(), pi=Interval())
    loss = like.loss if laws.log_loss is None else math.exp(laws.log_loss)
    share = spare if loss is None else spare * loss / (like.loss or loss)
    errors = (like.loss_se, like.paired_loss_se)
    loss_se, paired = (None if error is None else share * error for error in errors)
    return replace(
        like,
        size=dict(size),
        tuned=tuned,
        loss=loss,
        loss_se=loss_se,
        paired_loss_se=paired,
        best_loss=loss,
    )


def _wider(runs: Runs, sizes: Sequence[Optimum]) -> Remedy:
    """A wider grid, where the best value of some sizes is the last one that was tried."""
    name, side = next(iter((sizes[-1].edge or {}).items()))
    tried = runs.to_frame()[name].astype(float)
    there = [o for o in sizes if (o.edge or {}).get(name) == side]
    where = ", ".join(f"{v:g}" for o in there for v in o.size.values())
    end, value = ("above", tried.max()) if side == "high" else ("below", tried.min())
    text = (
        f"the best {name} at {'/'.join(runs.sizes)} {where} is the {side}est that was tried; "
        f"try values {end} {value:.3g}"
    )
    return Remedy(cause="edge", text=text, column=name, side=side)


def _finer(name: str, octaves: float, times: int) -> Remedy:
    """A finer grid."""
    text = (
        f"the values of {name} are a factor of {2**octaves:.2g} apart; try {times} times as many "
        "over the same range"
    )
    return Remedy(cause="grid", text=text, column=name, times=times)
