"""Recipes compared: false differences, power, and what the intervals hold, on simulated runs.

    python -m benchmarks.comparisons [REPETITIONS]

1. Two equal recipes with different luck: how often a difference is told at level .95.
2. A shift of 1, 2 and 5 %, an exponent smaller by .05: how often that is told, and as what.
3. How often the 90 % intervals of the difference at twice the largest size, of the difference of
   exponents and of the effective compute hold the truth.
4. The first of these where the treatment moves the floor too, which no runs tell well.

Beside each stands the trivial answer: a two-sample t-test at the largest size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import optimize, stats

from benchmarks.rows import Row
from extrap.comparing import Comparison, compare
from extrap.comparing.one_law import compare_laws
from extrap.comparing.pairs import two_arms
from extrap.comparing.tuned import ArmLosses, SizeLosses, tuned_losses
from extrap.records import Runs

N_REPETITIONS = 400
N_COVERED = 100
LEVEL = 0.95
SMALLEST = 16.0
RUN_SD = 0.003
"""Of the log loss of one run, its own."""
PAIR_SD = 0.003
"""What a seed does to one size in both recipes."""
SEED_SD = 0.003
"""What a seed does to all sizes in both recipes."""
ARM_SD = 0.002
"""What a seed does to all sizes of one recipe."""


@dataclass(frozen=True, kw_only=True)
class Law:
    """`L = floor + scale (width / 16)^−exponent`."""

    floor: float = 1.5
    scale: float = 2.0
    exponent: float = 0.4

    def loss(self, width: float) -> float:
        """The loss at a width."""
        return float(self.floor + self.scale * (width / SMALLEST) ** -self.exponent)


@dataclass(frozen=True, kw_only=True)
class Design:
    """How two recipes are run.

    Attributes:
        name: In words.
        n_sizes, n_seeds: Widths from 16 in octaves, and seeds of each recipe.
        tuned: Whether seven rates are run at each; rates beyond the best two diverge.
        shares_seeds: Whether both recipes have the same seeds.
        recurs: Whether a recipe has the same seeds at all sizes.
        law: The plain recipe's.
        falling: Exponent with which the noise falls with width.
        share: Share of the variance that a seed has at all sizes alike, of pairs and of arms; by
            default that of the constants, a third or so.
    """

    name: str
    n_sizes: int = 6
    n_seeds: int = 3
    tuned: bool = False
    shares_seeds: bool = True
    recurs: bool = True
    law: Law = Law()
    falling: float = 0.0
    share: float | None = None

    @property
    def noise(self) -> dict[str, float]:
        """Standard deviations of a log loss: `run`, `pair`, `seed` and `arm`, as the constants."""
        if self.share is None:
            return {"run": RUN_SD, "pair": PAIR_SD, "seed": SEED_SD, "arm": ARM_SD}
        own, common = math.sqrt(1 - self.share), math.sqrt(self.share)
        of_arm, of_pair = math.hypot(RUN_SD, ARM_SD), math.hypot(PAIR_SD, SEED_SD)
        return {
            "run": own * of_arm,
            "pair": own * of_pair,
            "seed": common * of_pair,
            "arm": common * of_arm,
        }

    @property
    def widths(self) -> list[float]:
        """The sizes."""
        return [SMALLEST * 2.0**i for i in range(self.n_sizes)]


PLAIN = Law()
NULLS = (
    Design(name="6 sizes × 3 seeds"),
    Design(name="5 × 2", n_sizes=5, n_seeds=2),
    Design(name="8 × 4", n_sizes=8, n_seeds=4),
    Design(name="6 × 1", n_seeds=1),
    Design(name="6 × 3, no floor", law=Law(floor=0.0, exponent=0.1)),
    Design(name="6 × 3, noise falls as width^−.3", falling=0.3),
    Design(name="6 × 3, other seeds at each size", recurs=False),
    Design(name="6 × 3, seeds not shared", shares_seeds=False),
    Design(name="5 × 2, seeds not shared", n_sizes=5, n_seeds=2, shares_seeds=False),
    Design(name="6 × 3, seven rates", tuned=True),
    Design(name="5 × 2, seven rates, seeds not shared", n_sizes=5, n_seeds=2, tuned=True,
           shares_seeds=False),
)  # fmt: skip
EFFECTS = {
    "shift of 1 %": replace(PLAIN, floor=1.5 * 0.99, scale=2 * 0.99),
    "shift of 2 %": replace(PLAIN, floor=1.5 * 0.98, scale=2 * 0.98),
    "shift of 5 %": replace(PLAIN, floor=1.5 * 0.95, scale=2 * 0.95),
    "reducible loss 5 % lower": replace(PLAIN, scale=2 * 0.95),
    "exponent .05 smaller": replace(PLAIN, exponent=0.35),
}
FLOORS = {
    "shared": replace(PLAIN, scale=1.6),
    "proportional": replace(PLAIN, floor=1.5 * 0.8, scale=2 * 0.8),
    "own, the rest alike": replace(PLAIN, floor=1.3),
    "own, the rest smaller": replace(PLAIN, floor=1.3, scale=1.6),
}
"""What a treatment does to the floor → its law."""
TOLD_FLOORS = ("6 × 3", "5 × 2")
COVERED = {"6 × 3": NULLS[0], "5 × 2": NULLS[1], "6 × 3, seven rates": NULLS[9]}


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was measured.

    Attributes:
        false: Design → share of repetitions with a false difference: ours, the t-test's.
        power: Effect → share told, share told as `exponent`, share told by the t-test.
        held: (setting, what) → share of 90 % intervals that hold the truth.
        floors: (what the floors are, setting) → share of 90 % intervals of the difference at twice
            the largest size that hold it.
        n_repetitions, n_covered: Repetitions of the first two and of the third.
    """

    false: dict[str, tuple[float, float]]
    power: dict[str, tuple[float, float, float]]
    held: dict[tuple[str, str], float]
    floors: dict[tuple[str, str], float]
    n_repetitions: int
    n_covered: int


def measure(n_repetitions: int = N_REPETITIONS, n_covered: int = N_COVERED) -> Found:
    """Everything the rows are made of."""
    held: dict[tuple[str, str], float] = {}
    for name, design in COVERED.items():
        held |= {(name, what): share for what, share in _held(design, n_covered)}
    return Found(
        false={design.name: _false(design, n_repetitions) for design in NULLS},
        power={name: _power(law, n_covered) for name, law in EFFECTS.items()},
        held=held,
        floors={
            (what, name): _target_held(law, COVERED[name], max(n_covered // 2, 1), seed=i)
            for i, (what, law) in enumerate(FLOORS.items())
            for name in TOLD_FLOORS
        },
        n_repetitions=n_repetitions,
        n_covered=n_covered,
    )


def draw(design: Design, treated: Law, rng: np.random.Generator) -> dict[str, Runs]:
    """Runs of a plain and of a treated recipe."""
    return _runs(design, _rows(design, treated, rng))


def _runs(design: Design, arms: dict[str, list[dict[str, float]]]) -> dict[str, Runs]:
    tuned = ["lr"] if design.tuned else []
    return {
        name: Runs.from_frame(pd.DataFrame(rows), sizes=["width"], tuned=tuned)
        for name, rows in arms.items()
    }


def _rows(
    design: Design, treated: Law, rng: np.random.Generator
) -> dict[str, list[dict[str, float]]]:
    """The same, one mapping a run."""
    n_common, noise = 1 if design.recurs else design.n_sizes, design.noise
    shared = rng.normal(size=(2, n_common, design.n_seeds)) * noise["seed"]
    paired = rng.normal(size=(2, design.n_sizes, design.n_seeds)) * noise["pair"]
    arms = {}
    for arm, (name, law) in enumerate((("plain", design.law), ("treated", treated))):
        of_pair = 0 if design.shares_seeds else arm
        own = rng.normal(size=(n_common, design.n_seeds)) * noise["arm"]
        effect = shared[of_pair] + own + paired[of_pair]
        first = 0 if design.shares_seeds else arm * design.n_seeds
        rows = []
        for i, width in enumerate(design.widths):
            seeds = first + np.arange(design.n_seeds) + (0 if design.recurs else 100 * i)
            for seed, shift in zip(seeds, effect[i], strict=True):
                log_loss = math.log(law.loss(width)) + float(shift)
                sd = noise["run"] * 2.0 ** (-design.falling * i)
                rows += [
                    {"width": width, "seed": int(seed), "flops": width**2, **row}
                    for row in _runs_of_seed(design, log_loss, i, sd, rng)
                ]
        arms[name] = rows
    return arms


def losses(design: Design, rows: list[dict[str, float]], name: str) -> ArmLosses:
    """What `tuned_losses` makes of the runs of a recipe; at once where nothing is tuned."""
    if design.tuned:
        runs = Runs.from_frame(pd.DataFrame(rows), sizes=["width"], tuned=["lr"])
        return tuned_losses(name, runs)
    by_width: dict[float, dict[object, float]] = {}
    for row in rows:
        by_width.setdefault(row["width"], {})[row["seed"]] = math.log(row["loss"])
    sizes = {(width,): SizeLosses(by_seed=seeds) for width, seeds in by_width.items()}
    return ArmLosses(name=name, by_size=sizes, flags=())


def _runs_of_seed(
    design: Design, log_loss: float, i: int, sd: float, rng: np.random.Generator
) -> Iterator[dict[str, float]]:
    if not design.tuned:
        yield {"loss": math.exp(log_loss + sd * rng.normal())}
        return
    middle = -8.0 - round(0.4 * i)
    best = -8.0 - 0.4 * i + 0.2 * math.sin(3 * i)
    for rate in middle + np.arange(-3, 4):
        off = rate - best
        excess = 0.012 * off**2 + 0.003 * max(off, 0.0) ** 3
        loss = math.exp(log_loss + excess + sd * rng.normal()) if off < 2.6 else math.nan
        yield {"lr": 2.0**rate, "loss": loss}


def _false(design: Design, n: int) -> tuple[float, float]:
    rng = np.random.default_rng(len(design.name))
    ours, naive = 0, 0
    for _ in range(n):
        arms = _rows(design, design.law, rng)
        plain, treated = (losses(design, rows, name) for name, rows in arms.items())
        test = compare_laws(two_arms(plain, treated))
        ours += test.p_value is not None and test.p_value <= 1 - LEVEL
        naive += _naive_p_value(arms) <= 1 - LEVEL
    return ours / n, naive / n


def _naive_p_value(arms: dict[str, list[dict[str, float]]]) -> float:
    """A two-sample t-test at the largest size, each recipe at the rate of its best mean."""
    samples = []
    for rows in arms.values():
        largest = max(row["width"] for row in rows)
        by_rate: dict[float, list[float]] = {}
        for row in rows:
            if row["width"] == largest and not math.isnan(row["loss"]):
                by_rate.setdefault(row.get("lr", 0.0), []).append(row["loss"])
        samples.append(np.log(min(by_rate.values(), key=lambda found: float(np.mean(found)))))
    if min(map(len, samples)) < 2:
        return 1.0
    return float(stats.ttest_ind(*samples).pvalue)


def _power(law: Law, n: int) -> tuple[float, float, float]:
    rng = np.random.default_rng(7)
    told, exponents, naive = 0, 0, 0
    for _ in range(n):
        arms = _rows(NULLS[0], law, rng)
        (contrast,) = compare(_runs(NULLS[0], arms), level=LEVEL).contrasts
        told += contrast.differs
        exponents += contrast.verdict == "exponent"
        naive += _naive_p_value(arms) <= 1 - LEVEL
    return told / n, exponents / n, naive / n


def _held(design: Design, n: int) -> list[tuple[str, float]]:
    """Shares of 90 % intervals that hold the truth; effects in turns."""
    rng = np.random.default_rng(11)
    effects = [PLAIN, *EFFECTS.values()]
    held = {"difference at target": 0, "exponent difference": 0, "effective compute": 0}
    for i in range(n):
        law = effects[i % len(effects)]
        found = compare(draw(design, law, rng), level=0.9)
        for what, is_held in _holds(found, design.law, law).items():
            held[what] += is_held
    return [(what, count / n) for what, count in held.items()]


def _target_held(law: Law, design: Design, n: int, *, seed: int) -> float:
    """Share of 90 % intervals of the difference at the target that hold it."""
    rng = np.random.default_rng([13, seed])
    held = 0
    for _ in range(n):
        found = compare(draw(design, law, rng), level=0.9)
        held += _holds(found, design.law, law)["difference at target"]
    return held / n


def _holds(found: Comparison, plain: Law, treated: Law) -> dict[str, bool]:
    (contrast,) = found.contrasts
    width = found.target["width"]
    assert contrast.at_target is not None
    worth = contrast.effective_compute[0]
    at = worth.size["width"]
    return {
        "difference at target": treated.loss(width) / plain.loss(width) - 1
        in contrast.at_target.difference.ci,
        "exponent difference": treated.exponent - plain.exponent
        in contrast.exponent_difference.ci,
        "effective compute": _worth(plain, treated.loss(at), at) in worth.factor.ci,
    }


def _worth(plain: Law, loss: float, width: float) -> float:
    """Compute, as width², with which the plain law reaches a loss, over that at a width."""
    if loss <= plain.floor:
        return math.inf
    root = optimize.brentq(
        lambda log_factor: plain.loss(width * math.exp(log_factor)) - loss, -20, 200
    )
    return math.exp(2 * root)


def rows(found: Found) -> list[Row]:
    """The figures."""
    return [*_false_rows(found), *_power_rows(found), *_held_rows(found), *_floor_rows(found)]


def _false_rows(found: Found) -> list[Row]:
    return [
        Row(
            part="equal recipes, different luck",
            figure=f"false difference at level .95 in {found.n_repetitions} repetitions, {name}",
            beat="t-test at the largest size: "
            + (f"{naive:.1%}" if "× 1" not in name else "not possible"),
            target="≤ 6.5 %",
            reached=f"{ours:.1%}",
            met=ours <= 0.065,
        )
        for name, (ours, naive) in found.false.items()
    ]


def _power_rows(found: Found) -> list[Row]:
    return [
        Row(
            part="a treatment that does something, 6 sizes × 3 seeds",
            figure=f"{name}: told at level .95 in {found.n_covered} repetitions",
            beat=f"t-test at the largest size: {naive:.0%}",
            reached=f"{told:.0%}; {exponents:.0%} as another exponent",
        )
        for name, (told, exponents, naive) in found.power.items()
    ]


def _held_rows(found: Found) -> list[Row]:
    lines = []
    for setting in COVERED:
        shares = {what: share for (name, what), share in found.held.items() if name == setting}
        lines.append(
            Row(
                part="90 % intervals",
                figure=f"hold the truth in {found.n_covered} repetitions, {setting}",
                target="85–97 %",
                reached=", ".join(f"{what} {share:.0%}" for what, share in shares.items()),
                met=all(0.85 <= share <= 0.97 for share in shares.values()),
                note="Equal recipes, shifts of 1, 2 and 5 %, a smaller reducible loss and a "
                "smaller exponent in turns; effective compute at the largest size, the "
                "difference at twice that.",
            )
        )
    return lines


def _floor_rows(found: Found) -> list[Row]:
    return [
        Row(
            part="90 % intervals",
            figure=f"hold the difference at twice the largest size, floors {what}, "
            f"{max(found.n_covered // 2, 1)} repetitions",
            target="≥ 85 %",
            reached=", ".join(f"{name} {found.floors[what, name]:.0%}" for name in TOLD_FLOORS),
            met=all(found.floors[what, name] >= 0.85 for name in TOLD_FLOORS),
            note="Data that cannot tell two floors are fitted with one; the interval counts a "
            "share of the change it predicts.",
        )
        for what in FLOORS
    ]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else N_REPETITIONS
    for line in rows(measure(count, max(count // 4, 1))):
        sys.stdout.write(f"{line}\n")
