"""Losses over parameters and tokens: published ladders, small runs fitted, larger ones forecast.

Splits are made by a rule that knows no result: of each table the runs up to a quarter, a 16th, a
64th and a 256th of the largest compute (6 N D) are fitted, or those up to a third and a tenth of
the most parameters, or up to a quarter of the most tokens, and all others are forecast. Short
ladders begin at a quarter or a 16th of where they end, and are judged up to 30 times that. A split
needs three different values of each column and eight runs below, and three runs above.

Coverage and scores are means over a split's runs, then over a source's splits; each source counts
alike. "Starved" is a run more than 3 % above the best of its budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.optima import SIZES, step_law
from benchmarks.rows import DATA, gadre_sets, require
from benchmarks.scores import Table, rms
from extrap.fitting.mixture import count_sizes
from extrap.records import Estimate, Interval, Optimum

BY_COMPUTE, BY_PARAMS, BY_TOKENS = (4, 16, 64, 256), (3, 10), (4,)
SPANS, FARTHEST = (4, 16), 30
LEAST_FITTED, LEAST_SIZES, LEAST_AHEAD = 8, 3, 3
PORIAN = tuple(
    f"{data}|{rest}"
    for data in ("rw", "owt2")
    for rest in (
        "base|short|kaplan|standard|val",
        "base|short|chinchilla|standard|val",
        "tuned|short|const|standard|val",
    )
)
"""Settings with a short warm-up and all parameters counted."""
STARVED = 0.03
ROUNDED = 1.001


def ladders(data: Path = DATA) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Source, name and runs (`params`, `tokens`, `loss`) of each published ladder."""
    for name, runs in gadre_sets(data).items():
        yield "Gadre", name, runs[~runs["long_warmup"]]
    gemstones = pd.read_csv(require(data, "gemstones.csv"))
    for cooldown, runs in gemstones.groupby("cooldown"):
        yield "Gemstones", f"cooldown, {cooldown}", runs
    schedules = pd.read_csv(require(data, "schedules_slimpajama.csv")).rename(
        columns={"val_loss": "loss"}
    )
    schedules = schedules[schedules["dataset"] == "slimpajama"]
    for name, schedule, cooldown in (("cosine", "cos", 0.0), ("WSD", "wsd", 0.2)):
        runs = schedules[
            (schedules["schedule"] == schedule) & np.isclose(schedules["cooldown"], cooldown)
        ]
        yield "SlimPajama", name, runs.groupby([*SIZES], as_index=False)["loss"].min()
    porian = pd.read_csv(require(data, "porian_formll.csv"))
    for task in PORIAN:
        yield "Porian", task, porian[porian["task"] == task]
    chinchilla = pd.read_csv(require(data, "chinchilla_epoch.csv"))
    yield "Chinchilla", "digitised", chinchilla[chinchilla["epoch_outlier"] == 0]
    sweep = step_law(data)
    trained = sweep[sweep["loss"] < np.inf]
    yield "Step Law", "best", trained.groupby([*SIZES], as_index=False)["loss"].min()


def splits(source: str, name: str, runs: pd.DataFrame) -> Iterator[Table]:
    """The splits of a ladder, by compute, parameters and tokens."""
    runs = runs[[*SIZES, "loss"]].astype(float).reset_index(drop=True)
    compute = runs["params"] * runs["tokens"]
    most = compute.max()
    cuts = {f"compute / {share}": (compute, share, compute >= 0) for share in BY_COMPUTE}
    for column, shares in {"params": BY_PARAMS, "tokens": BY_TOKENS}.items():
        cuts |= {f"{column} / {share}": (runs[column], share, compute >= 0) for share in shares}
    for share, span in itertools.product(BY_COMPUTE, SPANS):
        end = most / share * ROUNDED
        near = (compute > end / span) & (compute <= FARTHEST * end)
        cuts[f"compute / {share}, of / {share * span}"] = (compute, share, near)
    for cut, (values, share, kept) in cuts.items():
        below = values <= values.max() / share * ROUNDED
        fitted, ahead = runs[below & kept], runs[~below & kept]
        if (
            len(fitted) >= LEAST_FITTED
            and len(ahead) >= LEAST_AHEAD
            and min(count_sizes(fitted[c].to_numpy()) for c in SIZES) >= LEAST_SIZES
        ):
            yield Table(f"{name}, {cut}", source, SIZES, fitted, ahead)


def all_splits(data: Path = DATA) -> list[Table]:
    """Every split of every ladder."""
    return [table for ladder in ladders(data) for table in splits(*ladder)]


LAYOUTS = ("grid", "2 budgets", "3 budgets", "4 budgets")
DISTANCES = ((2, 4), (4, 10), (10, 30))
"""Compute of a forecast run over the largest fitted one."""
SIZES_A_BUDGET, BUDGET_STEP = 7, 4.0
BALANCE = 20.0
"""Tokens per parameter at which the two terms are equal, before it is drawn."""
N_WAVES = 3


def simulate(seed: int, layout: str, *, starved: bool = False) -> Table:
    """A drawn ladder: `ln L` is a law of two powers, waves that no law follows, and noise.

    The waves over ln N and ln D are 6 to 20 long. They are scaled such that after a law's best
    change by least squares on the fitted runs their root mean square over the forecast runs is
    .05 to .35 of the change that the law predicts. Noise is .05 to .5 %. The forecast runs are at
    every distance at the best split of their budget and a factor of 1.5 from it. `starved` adds
    what too few steps cost: 2 % times the square of ln of what is missing to 4 tokens per
    parameter.

    The table's `truth` has `distance`, compute over the largest fitted one, and `ratio`,
    parameters over those of the best split.
    """
    random = np.random.default_rng((seed, LAYOUTS.index(layout), starved))
    alpha, beta = np.exp(random.normal(np.log(0.33), 0.25, 2))
    outer, share = random.uniform(0.4, 1.0), random.uniform(0.15, 0.6)
    balance = BALANCE * np.exp(random.normal(0, 0.5))
    low = 1e17 * 10 ** random.uniform(0, 2)
    if layout == "grid":
        n = np.geomspace(1, 10 ** random.uniform(1, 2), int(random.integers(4, 8)))
        n *= np.sqrt(low / (6 * balance))
        ratios = balance * np.geomspace(0.25, 8, int(random.integers(3, 6)))
        params, tokens = (a.ravel() for a in np.meshgrid(n, ratios, indexing="ij"))
        tokens = tokens * params
    else:
        budgets = low * BUDGET_STEP ** np.arange(int(layout[0]))
        spread = np.geomspace(0.2, 5, SIZES_A_BUDGET)
        params = (np.sqrt(budgets / (6 * balance))[:, None] * spread).ravel()
        tokens = np.repeat(budgets, SIZES_A_BUDGET) / (6 * params)
    most = 6 * (params * tokens).max()
    distance = np.concatenate([np.exp(random.uniform(*np.log(d), 2)) for d in DISTANCES])
    distance = np.repeat(distance, 3)
    off = np.tile([1 / 1.5, 1.0, 1.5], len(distance) // 3)
    best = np.sqrt(most * distance / (6 * balance))
    all_params = np.concatenate([params, best * off])
    all_tokens = np.concatenate([tokens, most * distance / (6 * best * off)])
    u, v = np.log(all_params / best[0]), np.log(all_tokens / (balance * best[0]))

    def law(a: float, b: float, ratio: float, floor: float, level: float) -> np.ndarray:
        powers = (np.exp(-a * u / outer) + np.exp(ratio - b * v / outer)) ** outer
        return np.log(np.exp(floor) + np.exp(level) * powers)

    fitted = np.arange(len(u)) < len(params)
    tied = np.log(alpha / beta)  # equal terms where the split is best
    level = np.log(share) - outer * np.log(2.0)
    at = np.array([alpha, beta, tied, np.log(1 - share), level])
    true = law(*at)
    slopes = np.column_stack([(law(*(at + h)) - law(*(at - h))) / 2e-4 for h in 1e-4 * np.eye(5)])
    angles, lengths, phases = random.uniform([0, 6, 0], [np.pi, 20, 2 * np.pi], (N_WAVES, 3)).T
    wave = sum(
        np.sin(2 * np.pi * (np.cos(a) * u + np.sin(a) * v) / length + phase)
        for a, length, phase in zip(angles, lengths, phases, strict=True)
    )
    wave -= slopes @ np.linalg.lstsq(slopes[fitted], wave[fitted], rcond=None)[0]
    change = true[fitted].min() - true[~fitted]
    size = random.uniform(0.05, 0.35) * rms(change) / rms(wave[~fitted])
    true = true + size * wave
    if starved:
        missing = np.maximum(np.log(4 * all_params / all_tokens), 0.0)
        true = true + 0.02 * missing**2
    noise = np.exp(random.uniform(np.log(0.0005), np.log(0.005)))
    loss = 3 * np.exp(true + noise * random.normal(size=len(true)))
    runs = pd.DataFrame({"params": all_params, "tokens": all_tokens, "loss": loss})
    truth = runs[~fitted].assign(distance=distance, ratio=off)
    return Table(f"{layout} {seed}", layout, SIZES, runs[fitted], truth)


EFFECTS, LEVELS = (0.0, 0.05, 0.1, 0.2), ((4, 4), (6, 8))
"""Octaves that optima of one size share; least and most different sizes of a column."""


class Optima(NamedTuple):
    """Drawn optima over parameters and tokens.

    Attributes:
        fitted: With what a law is fitted to.
        sizes: Of three larger ones, shape (3, 2).
        truth: Their log values.
        known: Standard error of these by least squares with all variances known, the effect of a
            new level of each column included.
    """

    fitted: list[Optimum]
    sizes: np.ndarray
    truth: np.ndarray
    known: np.ndarray


def simulate_optima(seed: int, effect: float, levels: tuple[int, int]) -> Optima:
    """Optima that follow a power law, but for an effect that those of one size share.

    Every number of parameters has the same token counts, or the same tokens per parameter, then
    without an effect of tokens. Stated errors are .05 to .25 octave, the real ones .3 to 1 times
    these. The three larger ones have 2 to 8 times the most of both.
    """
    random = np.random.default_rng((seed, round(100 * effect), *levels))
    n_levels, n_tokens = (int(random.integers(levels[0], levels[1] + 1)) for _ in range(2))
    n = 1e7 * random.uniform(1.7, 4) ** np.arange(n_levels)
    d = 1e9 * random.uniform(1.7, 4) ** np.arange(n_tokens)
    of_n, of_d = np.divmod(np.arange(n_levels * n_tokens), n_tokens)
    is_grid = random.random() < 0.5
    sizes = np.column_stack([n[of_n], d[of_d] * (1.0 if is_grid else n[of_n] / n[0])])
    targets = sizes.max(axis=0) * random.uniform(2, 8, (3, 2))
    x = np.log2(np.vstack([sizes, targets]) / sizes[0])
    slopes = random.uniform([-0.8, -0.3], [0.3, 0.5])
    shared = effect * np.array([1.0, 1.0 if is_grid else 0.0])
    groups = [np.concatenate([g, g.max() + 1 + np.arange(3)]) for g in (of_n, of_d)]
    effects = [s * random.normal(size=g.max() + 1)[g] for s, g in zip(shared, groups, strict=True)]
    true = -8 + x @ slopes + sum(effects)
    stated = random.uniform(0.05, 0.25) * np.exp(0.3 * random.normal(size=len(sizes)))
    own = stated * random.uniform(0.3, 1.0)
    seen = true[: len(sizes)] + own * random.normal(size=len(sizes))
    fitted = [
        _optimum(dict(zip(SIZES, size, strict=True)), value * np.log(2), se * np.log(2))
        for size, value, se in zip(sizes, seen, stated, strict=True)
    ]
    variance = sum(s**2 * (g[:, None] == g) for s, g in zip(shared, groups, strict=True))
    design = np.column_stack([np.ones(len(x)), x])
    k = len(sizes)
    inverse = np.linalg.inv(variance[:k, :k] + np.diag(own**2))
    gls = np.linalg.inv(design[:k].T @ inverse @ design[:k])
    known = np.sqrt(np.einsum("ij,jk,ik->i", design[k:], gls, design[k:]) + (shared**2).sum())
    return Optima(fitted, targets, true[k:] * np.log(2), known * np.log(2))


def _optimum(size: dict[str, float], log_value: float, log_se: float) -> Optimum:
    value, unknown = float(np.exp(log_value)), Interval(None, None)
    return Optimum(
        size=size,
        tuned={"lr": Estimate(value=value, se=value * log_se, ci=unknown, pi=unknown)},
        loss=None,
        loss_se=None,
        paired_loss_se=None,
        best_loss=None,
        n_runs=0,
        n_diverged=0,
        bracketed=True,
        edge=None,
    )
