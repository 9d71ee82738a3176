"""Nights of experiments that keep what wins: are candidates found, and confirmed ones true?

    python -m benchmarks.nights [NIGHTS]

A night tries 100 variants once: 90 do nothing, 10 are better by .3 to 1.2 %, and 2 to 5 runs
repeat the base of their time. A program keeps what is below the run that made its base, so that
bases drift with the noise. Then three fresh pairs of each candidate and its base are appended.
Beside the answers stand trivial ones: all that was kept, and all that is two standard deviations
below the run of its base. Constants were chosen on nights of other seeds.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from extrap.fitting.changes import change_effects, repeats_needed
from extrap.fitting.discoveries import LEAST_FRESH, confirmations
from extrap.records import Interval

N_NIGHTS = 1000
N_VARIANTS = 100
NOISES = (0.001, 0.002, 0.003)
FOUND = {0.001: 0.95, 0.002: 0.9, 0.003: 0.7}
"""Least share of the large gains that is to be called, by noise."""
LARGE_GAIN = 0.009
"""From which a gain must not be missed."""
MOST_FALSE = 0.1
"""Mean share of calls that do nothing."""
MANY_FALSE, MOST_NIGHTS = 0.3, 0.1
"""A share of false calls that at most such a share of nights has."""
MOST_INFLATION = 1.1
"""Sum of the gains of calls over that of the true ones."""
TRIVIAL = ("kept", "striking")
"""Columns of what the program kept, and of what is two standard deviations below its base."""
Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a night is drawn from.

    Attributes:
        noise: Standard deviation of the log loss of one run.
        n_better: Variants that are better by .3 to 1.2 %.
        n_worse: Variants that are worse by 0 to 3 %.
        dof: Of Student's t, of which the noise is; infinite for a normal one.
        has_repeats: Whether runs of the base are repeated.
    """

    noise: float
    n_better: int = 10
    n_worse: int = 0
    dof: float = np.inf
    has_repeats: bool = True

    def scatter(self, rng: np.random.Generator) -> float:
        """Of one run."""
        if np.isinf(self.dof):
            return self.noise * rng.normal()
        return self.noise * rng.standard_t(self.dof) / np.sqrt(self.dof / (self.dof - 2))


@dataclass(frozen=True, kw_only=True)
class Night:
    """A log and its truth.

    Attributes:
        log_losses: Of the runs in order.
        recipes: Of the runs.
        bases: Of the recipes.
        gains: True ones of the recipes.
        kept: Recipes that became a base, without the first.
    """

    log_losses: list[float]
    recipes: list[int]
    bases: list[int]
    gains: Array
    kept: list[int]

    def run(self, recipe: int, setting: Setting, rng: np.random.Generator) -> float:
        """Append a run of a recipe."""
        true = 0.0
        ancestor = recipe
        while ancestor >= 0:
            true -= self.gains[ancestor]
            ancestor = self.bases[ancestor]
        self.log_losses.append(true + setting.scatter(rng))
        self.recipes.append(recipe)
        return self.log_losses[-1]


def drawn(setting: Setting, rng: np.random.Generator) -> Night:
    """A night that is over."""
    gains = np.zeros(N_VARIANTS + 1)
    order = 1 + rng.permutation(N_VARIANTS)
    better, others = np.split(order, [setting.n_better])
    gains[better] = rng.uniform(0.003, 0.012, len(better))
    gains[others[: setting.n_worse]] = -rng.uniform(0, 0.03, setting.n_worse)
    n_repeats = int(rng.integers(2, 6)) if setting.has_repeats else 0
    repeats = set((1 + rng.choice(N_VARIANTS, n_repeats, replace=False)).tolist())
    night = Night(log_losses=[], recipes=[], bases=[-1], gains=gains, kept=[])
    base, best = 0, night.run(0, setting, rng)
    for variant in range(1, N_VARIANTS + 1):
        night.bases.append(base)
        loss = night.run(variant, setting, rng)
        if loss < best:
            base, best = variant, loss
            night.kept.append(variant)
        if variant in repeats:
            night.run(base, setting, rng)
    return night


def measured(setting: Setting, rng: np.random.Generator) -> dict[str, float]:
    """Numbers of one night and of its confirmations."""
    night = drawn(setting, rng)
    first = np.array([night.log_losses[night.recipes.index(r)] for r in range(N_VARIANTS + 1)])
    bases, gains = np.array(night.bases), night.gains
    shown = first[bases[1:]] - first[1:]
    striking = 1 + np.flatnonzero(shown > 2 * setting.noise)
    effects = change_effects(np.array(night.log_losses), np.array(night.recipes), bases)
    candidates = np.flatnonzero(effects.is_candidate)
    n_runs = len(night.recipes)
    for recipe in candidates.tolist():
        for _ in range(LEAST_FRESH):
            night.run(night.bases[recipe], setting, rng)
            night.run(recipe, setting, rng)
    tests = confirmations(np.array(night.log_losses), np.array(night.recipes), bases)
    calls = [test for test in tests if test.is_called]
    called = [test.recipe for test in calls]
    large = gains >= LARGE_GAIN
    return {
        "noise ratio": effects.noise / setting.noise,
        "noise held": effects.noise_interval.lower
        <= setting.noise
        <= effects.noise_interval.upper,
        "repeats needed": repeats_needed(effects.noise, LARGE_GAIN) or np.nan,
        "worse": int(effects.is_worse.sum()),
        "worse true": int((gains[effects.is_worse] < 0).sum()),
        "candidates": len(candidates),
        "true candidates": int((gains[candidates] > 0).sum()),
        "large candidates": int(large[candidates].sum()),
        "fresh runs": len(night.recipes) - n_runs,
        "called": len(called),
        "false": int((gains[called] <= 0).sum()),
        "large": int(large.sum()),
        "large called": int(large[called].sum()),
        "better": int((gains > 0).sum()),
        "true called": int((gains[called] > 0).sum()),
        "gain called": sum(test.fresh.gain for test in calls),
        "true gain": float(gains[called].sum()),
        "held": sum(_holds(test.fresh.interval(0.95), gains[test.recipe]) for test in calls),
        "kept": len(night.kept),
        "kept false": int((gains[night.kept] <= 0).sum()),
        "kept large": int(large[night.kept].sum()),
        "kept shown": float(shown[np.array(night.kept, int) - 1].sum()),
        "kept gain": float(gains[night.kept].sum()),
        "striking": len(striking),
        "striking false": int((gains[striking] <= 0).sum()),
        "striking large": int(large[striking].sum()),
        "striking shown": float(shown[striking - 1].sum()),
        "striking gain": float(gains[striking].sum()),
    }


def nights(name: str, setting: Setting, n: int) -> pd.DataFrame:
    """A row for each night of a setting."""
    rng = np.random.default_rng(zlib.crc32(f"report {name} {setting.noise}".encode()))
    return pd.DataFrame([measured(setting, rng) for _ in range(n)])


def share(sums: pd.Series, part: str, whole: str) -> float:
    """Of a sum in another one."""
    return float(sums[part] / max(sums[whole], 1e-9))


def night_rows(part: str, frame: pd.DataFrame, found: float | None) -> Iterator[Row]:
    """Figures of the nights of one setting; beside them those of the trivial answers."""
    sums, means = frame.sum(), frame.mean()
    false = frame["false"] / frame["called"].clip(lower=1)
    by_program, by_rule = (
        (frame[f"{name} false"] / frame[name].clip(lower=1)).mean() for name in TRIVIAL
    )
    yield Row(
        part=part,
        figure="mean share of false calls",
        beat=f"kept {by_program:.0%}, 2 sd {by_rule:.0%}",
        target=f"≤ {MOST_FALSE:.0%}",
        reached=f"{false.mean():.1%} ± {false.sem():.1%}",
        met=bool(false.mean() <= MOST_FALSE),
        note=f"{means['called']:.1f} called a night; {means['kept']:.1f} kept, "
        f"of which {means['kept false']:.1f} did nothing",
    )
    yield share_row(part, f"nights above {MANY_FALSE:.0%}", false > MANY_FALSE, most=MOST_NIGHTS)
    called = share(sums, "large called", "large")
    by_program, by_rule = (share(sums, f"{name} large", "large") for name in TRIVIAL)
    yield Row(
        part=part,
        figure=f"gains from {LARGE_GAIN:.1%} on that are called",
        beat=f"kept {by_program:.0%}, 2 sd {by_rule:.0%}",
        target=f"≥ {found:.0%}" if found else "",
        reached=f"{called:.1%} of {sums['large']:.0f}",
        met=called >= found if found else None,
        note=f"of all gains {share(sums, 'true called', 'better'):.0%}",
    )
    inflation = share(sums, "gain called", "true gain")
    by_program, by_rule = (share(sums, f"{name} shown", f"{name} gain") for name in TRIVIAL)
    yield Row(
        part=part,
        figure="gains of calls over their true ones",
        beat=f"kept {by_program:.2f}, 2 sd {by_rule:.2f}",
        target=f"≤ {MOST_INFLATION}",
        reached=f"{inflation:.3f}",
        met=inflation <= MOST_INFLATION,
        note=f"95 % intervals hold {share(sums, 'held', 'called'):.1%}",
    )
    yield Row(
        part=part,
        figure="candidates, fresh runs a night",
        reached=f"{means['candidates']:.1f}, {means['fresh runs']:.0f}",
        note=f"{share(sums, 'true candidates', 'candidates'):.0%} of them are better; "
        f"{means['worse']:.1f} named worse, of which {means['worse true']:.1f} are",
    )
    low, median, high = frame["noise ratio"].quantile([0.05, 0.5, 0.95])
    yield Row(
        part=part,
        figure="noise from the log over the true one",
        reached=f"{median:.2f} ({low:.2f} to {high:.2f})",
        note=f"95 % intervals hold {means['noise held']:.0%}",
    )


def empty_rows(noise: float, n: int) -> Iterator[Row]:
    """Nights without a repeat of the base, and nights in which nothing helps."""
    part = f"noise {noise:.1%}"
    frame = nights("no repeat", Setting(noise=noise, has_repeats=False), n)
    yield share_row(
        part,
        "no repeat: nights with a candidate",
        frame["candidates"] > 0,
        most=0.0,
        note=f"{frame['repeats needed'].median():.0f} runs of the base tell {LARGE_GAIN:.1%}",
    )
    frame = nights("nothing helps", Setting(noise=noise, n_better=0), n)
    yield share_row(
        part,
        "nothing helps: nights with a call",
        frame["called"] > 0,
        most=MOST_FALSE,
        beat=f"kept {(frame['kept'] > 0).mean():.0%}, 2 sd {(frame['striking'] > 0).mean():.0%}",
        note=f"{frame['candidates'].mean():.2f} candidates a night",
    )


def main(n: int) -> None:
    """Measure and print: n nights of each noise, and half as many of other kinds."""
    for noise in NOISES:
        frame = nights("", Setting(noise=noise), n)
        print_rows(list(night_rows(f"noise {noise:.1%}", frame, FOUND[noise])))
    for noise in NOISES:
        print_rows(list(empty_rows(noise, n // 2)))
    for noise in NOISES:
        frame = nights("45 worse", Setting(noise=noise, n_worse=45), n // 2)
        print_rows(list(night_rows(f"noise {noise:.1%}, 45 worse by 0 to 3 %", frame, None)))
    for noise in NOISES:
        frame = nights("t(4)", Setting(noise=noise, dof=4.0), n // 2)
        print_rows(list(night_rows(f"noise {noise:.1%} of Student's t(4)", frame, None)))


def _holds(interval: Interval, value: float) -> bool:
    return interval.lower <= value <= interval.upper


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else N_NIGHTS)
