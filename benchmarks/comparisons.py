"""Recipes compared: what the intervals hold, false differences and power, on simulated runs.

    python -m benchmarks.comparisons [REPETITIONS]

For every design: coverage and half-width of the 90 % intervals; of two equal recipes, false
verdicts at twice the largest size and false differences of the mean at level .95; and how often
effects are found. The effects take turns for the intervals and are all added to the same draws for
the tests. Beside the tests stands the trivial answer, a two-sample t-test at the largest size.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.gains import compared_arms
from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from extrap.analyses.comparison import Arm, Contrast
from extrap.analyses.comparison.arm_table import arm_table, mean_error
from extrap.analyses.comparison.gate import NO_DIFFERENCE, UNDECIDED
from extrap.records import Measure

N_REPETITIONS = 200
LEVEL, TEST = 0.9, 0.05
SMALLEST = 16.0
RUN_SD, PAIR_SD, SEED_SD, ARM_SD = 0.003, 0.003, 0.003, 0.002
"""Of a log loss: a run's own; of a seed at one size in both recipes, at all sizes in both, and at
all sizes of one recipe."""
Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Law:
    """`L = floor + scale (width / 16)^−exponent`."""

    floor: float = 1.5
    scale: float = 2.0
    exponent: float = 0.4

    def loss(self, width: Array | float) -> Array:
        """The loss at a width."""
        return self.floor + self.scale * (np.asarray(width) / SMALLEST) ** -self.exponent


@dataclass(frozen=True, kw_only=True)
class Design:
    """How two recipes are run.

    Attributes:
        n_sizes, n_seeds: Widths from 16 in octaves, and seeds of each recipe.
        words: What else is special.
        shares_seeds: Whether both recipes have the same seeds.
        recurs: Whether a recipe has the same seeds at all sizes.
        law: The plain recipe's.
        falling: Exponent with which the noise falls with width.
        share: Share of the variance that a seed has at all sizes alike, of pairs and of arms; by
            default that of the constants, a third or so.
    """

    n_sizes: int = 6
    n_seeds: int = 3
    words: str = ""
    shares_seeds: bool = True
    recurs: bool = True
    law: Law = Law()
    falling: float = 0.0
    share: float | None = None

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.n_sizes} × {self.n_seeds}{self.words}"

    @property
    def noise(self) -> tuple[float, float, float, float]:
        """Standard deviations of a log loss, as the constants."""
        if self.share is None:
            return RUN_SD, PAIR_SD, SEED_SD, ARM_SD
        own, common = math.sqrt(1 - self.share), math.sqrt(self.share)
        of_arm, of_pair = math.hypot(RUN_SD, ARM_SD), math.hypot(PAIR_SD, SEED_SD)
        return own * of_arm, own * of_pair, common * of_pair, common * of_arm

    @property
    def widths(self) -> Array:
        """The sizes."""
        return SMALLEST * 2.0 ** np.arange(self.n_sizes)


PLAIN = Law()
EFFECTS = {
    "none": PLAIN,
    "shift of 1 %": replace(PLAIN, floor=1.5 * 0.99, scale=2 * 0.99),
    "shift of 2 %": replace(PLAIN, floor=1.5 * 0.98, scale=2 * 0.98),
    "shift of 5 %": replace(PLAIN, floor=1.5 * 0.95, scale=2 * 0.95),
    "reducible loss 5 % lower": replace(PLAIN, scale=2 * 0.95),
    "exponent .05 smaller": replace(PLAIN, exponent=0.35),
    "floor moved": replace(PLAIN, floor=1.3),
    "floor moved, the rest smaller": replace(PLAIN, floor=1.3, scale=1.6),
}
SHARED = (
    Design(),
    Design(n_sizes=5, n_seeds=2),
    Design(n_sizes=8, n_seeds=4),
    Design(n_seeds=1),
    Design(words=", no floor", law=Law(floor=0.0, exponent=0.1)),
    Design(words=", noise falls as width^−.3", falling=0.3),
    Design(words=", other seeds at each size", recurs=False),
    Design(words=", seeds not shared", shares_seeds=False),
    Design(n_sizes=5, n_seeds=2, words=", seeds not shared", shares_seeds=False),
    Design(n_sizes=5, n_seeds=1),
    Design(n_sizes=8, n_seeds=1),
)
"""Designs that are also run with other shares of the seeds."""
FEW = tuple(Design(n_sizes=n, n_seeds=k) for n, k in ((4, 2), (3, 3), (4, 3)))
SHARES = (0.0, 0.35, 0.7)
DESIGNS = (
    *SHARED,
    *FEW,
    *(
        replace(design, share=share, words=f"{design.words}, share {share:g}")
        for share, design in itertools.product(SHARES, SHARED)
    ),
)
Rows = Iterator[dict[str, object]]


def draw(design: Design, treated: Law, rng: np.random.Generator) -> tuple[Arm, Arm]:
    """The tuned losses of a plain and of a treated recipe."""
    run, pair, seed, of_arm = design.noise
    n_common = 1 if design.recurs else design.n_sizes
    shared = rng.normal(size=(2, n_common, design.n_seeds)) * seed
    paired = rng.normal(size=(2, design.n_sizes, design.n_seeds)) * pair
    fall = run * 2.0 ** (-design.falling * np.arange(design.n_sizes))[:, None]
    arms = []
    for arm, law in enumerate((design.law, treated)):
        of_pair = 0 if design.shares_seeds else arm
        own = rng.normal(size=(n_common, design.n_seeds)) * of_arm
        effect = shared[of_pair] + own + paired[of_pair]
        logs = np.log(law.loss(design.widths))[:, None] + effect
        logs = logs + fall * rng.normal(size=logs.shape)
        first = np.arange(design.n_seeds) + (0 if design.shares_seeds else arm * design.n_seeds)
        by_size: dict[tuple[float, ...], dict[object, float]] = {}
        for i, width in enumerate(design.widths):
            seeds = first + (0 if design.recurs else 100 * i)
            by_size[(float(width),)] = dict(zip(seeds.tolist(), logs[i].tolist(), strict=True))
        arms.append(Arm(name=("plain", "treated")[arm], by_size=by_size))
    return arms[0], arms[1]


def _of_design(design: Design, n: int) -> Rows:
    rng = np.random.default_rng([*design.name.encode()])
    effects = {name: _like(design.law, law) for name, law in EFFECTS.items()}
    for i in range(n):
        plain, treated = draw(design, design.law, rng)
        row: dict[str, object] = {"p trivial": _naive_p_value(plain, treated)}
        target = {"width": 2 * float(design.widths[-1])}
        row["verdict"] = compared_arms(plain, treated, target)[0].verdict
        for name, law in effects.items():
            moved = _moved(treated, law.loss(design.widths) / design.law.loss(design.widths))
            row[f"p {name}"] = _p_value(plain, moved)
            if list(effects)[i % len(effects)] == name:
                row |= _numbers(design.law, law, design.widths, plain, moved)
        yield row


def _p_value(plain: Arm, treated: Arm) -> float | None:
    """Of a mean difference of 0."""
    table = arm_table(plain, treated)
    error = mean_error(table)
    return None if error is None else error.p_value(float(table.differences.mean()))


def _like(plain: Law, treated: Law) -> Law:
    """The effect that a treated law has on the default plain one, on another plain law."""
    return Law(
        floor=plain.floor * treated.floor / PLAIN.floor,
        scale=plain.scale * treated.scale / PLAIN.scale,
        exponent=plain.exponent * treated.exponent / PLAIN.exponent,
    )


def _moved(arm: Arm, factors: Array) -> Arm:
    """The recipe with its losses at each size multiplied by a factor."""
    moved = {
        key: {seed: value + math.log(factor) for seed, value in seeds.items()}
        for (key, seeds), factor in zip(arm.by_size.items(), factors, strict=True)
    }
    return replace(arm, by_size=moved)


def _numbers(plain: Law, treated: Law, widths: Array, *arms: Arm) -> dict[str, object]:
    """Whether each number's interval holds the truth, and its half-width."""
    last, target = float(widths[-1]), 2 * float(widths[-1])
    made, _ = compared_arms(*arms, {"width": target}, LEVEL)

    def difference(width: float) -> float:
        return float(treated.loss(width) / plain.loss(width) - 1)

    truths = {
        "target": difference(target),
        "mean": math.expm1(float(np.mean(np.log(treated.loss(widths) / plain.loss(widths))))),
        "smallest size": difference(widths[0]),
        "largest size": difference(last),
    }
    return _held(_measures(made), truths)


def _measures(made: Contrast) -> dict[str, Measure]:
    return {
        "target": made.at_target.difference if made.at_target else Measure(),
        "mean": made.mean,
        "smallest size": made.by_size[0].difference,
        "largest size": made.by_size[-1].difference,
    }


def _held(found: Mapping[str, Measure], truths: Mapping[str, float]) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, truth in truths.items():
        low, high = found[name].ci
        if math.isnan(truth) or (found[name].value is None and (low, high) == (None, None)):
            continue
        row[f"{name} held"] = (low is None or truth >= low) and (high is None or truth <= high)
        row[f"{name} half"] = math.inf if None in (low, high) else (high - low) / 2  # type: ignore[operator]
    return row


def _naive_p_value(*arms: Arm) -> float:
    """A two-sample t-test at the largest size."""
    samples = [list(arm.by_size[max(arm.by_size)].values()) for arm in arms]
    return float(stats.ttest_ind(*samples).pvalue) if len(samples[0]) > 1 else 1.0


def rows(part: str, frame: pd.DataFrame) -> Iterator[Row]:
    """Coverage of every number that is given, false differences and power at level .95."""
    for column in frame.filter(regex=" held$"):
        held = frame[column].dropna().astype(float)
        if len(held) >= 0.1 * len(frame):
            number = column.removesuffix(" held")
            half = frame[f"{number} half"].median()
            figure = f"90 % intervals of the {number} that hold it (median half-width {half:.2g})"
            yield share_row(part, figure, held, least=0.85, most=0.97)
    if "verdict" in frame:
        alarms = ~frame["verdict"].isin([UNDECIDED, NO_DIFFERENCE])
        yield share_row(part, "false verdicts of equal recipes at level .95", alarms, most=TEST)
    p_values = frame.filter(regex="^p ").dropna(axis=1, how="all").astype(float)
    if "p none" not in p_values:
        return
    found = {name.removeprefix("p "): p.dropna() <= TEST for name, p in p_values.items()}
    false = found.pop("none")
    trivial = found.pop("trivial", None)
    most = TEST + 2 * math.sqrt(TEST * (1 - TEST) / len(false))
    yield share_row(
        part,
        "false differences at level .95",
        false,
        most=round(most, 3),
        beat="" if trivial is None else f"t-test at the largest size: {trivial.mean():.1%}",
        note="Found: " + ", ".join(f"{name} {hit.mean():.0%}" for name, hit in found.items()),
    )


def measure(n: int = N_REPETITIONS) -> Iterator[tuple[str, pd.DataFrame]]:
    """Part → a row for each repetition."""
    for design in DESIGNS:
        yield design.name, pd.DataFrame(_of_design(design, n))


if __name__ == "__main__":
    for part, frame in measure(int(sys.argv[1]) if len(sys.argv) > 1 else N_REPETITIONS):
        print_rows(list(rows(part, frame)))
