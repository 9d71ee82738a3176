"""Gains of a variant at a larger size, on simulated pairs: do intervals and verdicts hold?

    python -m benchmarks.gains [DRAWS]

Drawn are 3 to 6 sizes, each 2, 4 or 8 times the one before, 1 to 3 seeds, noise of .05 to 1 %, and
the share of it that is a seed's: 0, .35 or .7, in both recipes at one size, in both at all sizes,
or in one recipe at all sizes. The size is compute, and the target 10 or 300 times the largest.
Beside the answers stands the trivial one: a line through the gains over log size, with the
interval of least squares. The prior was chosen on draws of other seeds.
"""

from __future__ import annotations

import itertools
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from extrap.analyses.comparison import Arm, Contrast, contrast_arms
from extrap.analyses.comparison.arm_gains import gain_law
from extrap.analyses.comparison.gain import USUAL_GAIN
from extrap.analyses.comparison.gate import (
    FADES,
    HURTS,
    MIN_GAIN,
    NO_DIFFERENCE,
    SURVIVES,
    UNDECIDED,
    Gate,
    NextRuns,
)
from extrap.analyses.comparison.judged_gains import Gains

N_DRAWS = 500
RATIOS = (10, 300)
LEVEL = 0.9
MOST_BOUGHT = 3
Array = np.ndarray
Runs = dict[float, tuple[list[float], list[float]]]
"""Size → log losses of the base and of the variant."""
Truth = Callable[[Array], Array]
NAMES = (
    "null",
    "stays",
    "shrinks",
    "goes to 0",
    "grows",
    "crosses",
    "equal floors",
    "lower floor",
)
CONSTANT = ("null", "stays")
UNDECIDED_CELLS = (
    (4, 1, 10, 0.30),
    (4, 1, 300, 0.70),
    (3, 1, 10, 0.60),
    (5, 2, 10, 0.10),
)
"""Sizes, seeds, times the largest size, and the largest share of undecided pairs to reach."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a pair is run: sizes, their ratio, seeds, noise, and whose its common part is."""

    n_sizes: int
    n_seeds: int
    ratio: float
    noise: float
    share: float
    whose: str

    @property
    def sizes(self) -> Array:
        """In units of the smallest."""
        return self.ratio ** np.arange(self.n_sizes)

    def losses(self, law: Truth, gain: Truth, rng: np.random.Generator) -> tuple[Array, Array]:
        """Log losses of both recipes, shape (n_sizes, n_seeds)."""
        shape = (self.n_sizes, self.n_seeds)
        own = math.sqrt(1 - self.share) * self.noise
        common = math.sqrt(self.share) * self.noise
        rows = 1 if self.whose != "both at a size" else self.n_sizes
        effects = common * rng.normal(size=(2, rows, self.n_seeds))
        if self.whose != "one recipe":
            effects[1] = effects[0]
        base, variant = (own * rng.normal(size=shape) + effect for effect in effects)
        level = np.log(law(self.sizes))[:, None]
        return level + base, level - gain(self.sizes)[:, None] + variant


def drawn(rng: np.random.Generator) -> Setting:
    """A setting."""
    return Setting(
        n_sizes=int(rng.integers(3, 7)),
        n_seeds=int(rng.integers(1, 4)),
        ratio=float(rng.choice([2, 4, 8])),
        noise=math.exp(rng.uniform(math.log(0.0005), math.log(0.01))),
        share=float(rng.choice([0, 0.35, 0.7])),
        whose=str(rng.choice(["both at a size", "both at all sizes", "one recipe"])),
    )


def truth(
    name: str, largest: float, rng: np.random.Generator, size: float | None = None
) -> tuple[Truth, Truth]:
    """The law of the base, and the log gain of a variant over size."""
    floor, scale = rng.uniform(1, 2), rng.uniform(1, 2.5)
    exponent = math.exp(rng.normal(math.log(0.17), 0.3))
    g = rng.uniform(0, 0.03) if size is None else size

    def law(x: Array) -> Array:
        return np.asarray(floor + scale * x**-exponent)

    def octaves(x: Array) -> Array:
        return np.log2(x)

    power, step = rng.uniform(0.05, 0.25), rng.uniform(0.0005, 0.003)
    turn, less = rng.uniform(0.001, 0.004), rng.uniform(0.01, 0.06)
    ends, lower = octaves(np.array(largest)) + rng.uniform(0, 6), rng.uniform(0, 0.02) * floor
    more = rng.uniform(0, 0.03)
    gains: dict[str, Truth] = {
        "null": lambda x: 0 * x,
        "stays": lambda x: g + 0 * x,
        "shrinks": lambda x: g * x**-power,
        "goes to 0": lambda x: np.maximum(g * (1 - octaves(x) / ends), 0.0),
        "grows": lambda x: g / 3 + step * octaves(x),
        "crosses": lambda x: g / 2 - turn * octaves(x),
        "equal floors": lambda x: -np.log1p(-less * (1 - floor / law(x))),
        "lower floor": lambda x: np.log(
            law(x) / (floor - lower + scale * (1 + more) * x**-exponent)
        ),
    }
    return law, gains[name]


def compared(runs: Runs, target: float, level: float = 0.95) -> tuple[Contrast, Gains]:
    """What `extrap.compare` says of log losses by size."""
    plain, treated = (
        Arm(name=name, by_size={(x,): dict(enumerate(pair[i])) for x, pair in runs.items()})
        for i, name in enumerate(("base", "variant"))
    )
    return compared_arms(plain, treated, target, level)


def compared_arms(
    plain: Arm, treated: Arm, target: float, level: float = 0.95
) -> tuple[Contrast, Gains]:
    """What `extrap.compare` says of two recipes; laws are fitted where they may answer."""
    at = {"flops": target}
    gains = Gains(
        plain=plain,
        treated=treated,
        columns=("flops",),
        target=at,
        gate=Gate(level=level),
        fix={},
        power=1.0,
        law=gain_law(plain, treated, "flops", {}),
    )
    found = Contrast(treated=treated.name, by_size=())
    if gains.law is None or max(map(abs, gains.law.pairs.gains)) > USUAL_GAIN:
        found, _ = contrast_arms(plain, treated, columns=("flops",), target=at, level=level)
    return gains.judged(found, level=level), gains


def _line(sizes: Array, logs: tuple[Array, Array], target: float) -> tuple[float, float]:
    """Interval of a straight line through the gains over log size at the target."""
    x, y = np.log(sizes), (logs[0] - logs[1]).mean(axis=1)
    fit = stats.linregress(x, y)
    off, spread = math.log(target) - x.mean(), float(((x - x.mean()) ** 2).sum())
    rest = y - fit.intercept - fit.slope * x
    sd = math.sqrt(float(rest @ rest) / (len(x) - 2) * (1 / len(x) + off**2 / spread))
    centre = fit.intercept + fit.slope * math.log(target)
    half = float(stats.t.ppf(0.5 + LEVEL / 2, len(x) - 2)) * sd
    return centre - half, centre + half


def _is_right(verdict: str, gain: Truth, sizes: Array, target: float) -> bool:
    there = float(gain(np.array(target)))
    return {
        SURVIVES: there > 0,
        HURTS: there < 0,
        FADES: there < MIN_GAIN < float(gain(sizes).max()),
        NO_DIFFERENCE: abs(there) < MIN_GAIN,
        UNDECIDED: True,
    }[verdict]


def shapes(n: int) -> pd.DataFrame:
    """A row for each pair of every shape and target."""
    rows = []
    for times, name in itertools.product(RATIOS, NAMES):
        rng = np.random.default_rng(zlib.crc32(f"report {times} {name}".encode()))
        for _ in range(n):
            setting = drawn(rng)
            sizes, target = setting.sizes, setting.sizes[-1] * times
            law, gain = truth(name, sizes[-1], rng)
            logs = setting.losses(law, gain, rng)
            runs = _by_size(setting, logs)
            found = compared(runs, target, LEVEL)[0]
            verdict = compared(runs, target)[0].verdict
            low, high = found.at_target.difference.ci if found.at_target else (None, None)
            assert low is not None
            assert high is not None
            there = float(gain(np.array(target)))
            ends = _line(sizes, logs, target)
            rows.append(
                {
                    "cell": f"{name}, {times} times",
                    "shape": name,
                    "held": low <= math.expm1(-there) <= high,
                    "width": high - low,
                    "line held": ends[0] <= there <= ends[1],
                    "line width": ends[1] - ends[0],
                    "verdict": verdict,
                    "right": _is_right(verdict, gain, sizes, target),
                }
            )
    return pd.DataFrame(rows)


def shape_rows(frame: pd.DataFrame) -> Iterator[Row]:
    """Coverage by cell and over all, and how often a verdict is wrong."""
    for cell, of_cell in [*frame.groupby("cell", sort=False), ("all cells", frame)]:
        line = f"a line {of_cell['line held'].mean():.0%}, {of_cell['line width'].median():.2%}"
        yield share_row(
            str(cell),
            f"90 % intervals of the gain hold it (median width {of_cell['width'].median():.2%})",
            of_cell["held"],
            least=0.8 if cell != "all cells" else 0.85,
            most=None if cell != "all cells" else 0.97,
            beat=line,
            note=", ".join(f"{v} {k}" for k, v in of_cell["verdict"].value_counts().items()),
        )
    for verdict in (SURVIVES, HURTS):
        wrong = frame["verdict"].eq(verdict) & ~frame["right"]
        worst = wrong.groupby(frame["cell"]).mean()
        note = f"most in a cell: {worst.idxmax()} {worst.max():.1%}"
        yield share_row("all cells", f"wrongly {verdict}", wrong, most=0.05, note=note)
    constant = frame[frame["shape"].isin(CONSTANT)]
    fades = constant["verdict"].eq(FADES)
    yield share_row("constant gains and none", "fades", fades, most=0.05)
    decided = frame[frame["verdict"].ne(UNDECIDED)]
    yield share_row("all cells", "right among decided", decided["right"], least=0.95)


def undecided(n: int) -> Iterator[Row]:
    """Noise .1 %, a gain of 1 % that stays, or none."""
    for (n_sizes, n_seeds, times, most), size in itertools.product(UNDECIDED_CELLS, (0.01, 0.0)):
        rng = np.random.default_rng([n_sizes, n_seeds, times, round(100 * size)])
        verdicts = []
        for _ in range(n):
            made = drawn(rng)
            setting = Setting(
                n_sizes=n_sizes,
                n_seeds=n_seeds,
                ratio=made.ratio,
                noise=0.001,
                share=made.share,
                whose=made.whose,
            )
            law, gain = truth("stays", setting.sizes[-1], rng, size)
            logs = setting.losses(law, gain, rng)
            found, _ = compared(_by_size(setting, logs), setting.sizes[-1] * times)
            verdicts.append(found.verdict)
        yield share_row(
            f"{n_sizes} sizes × {n_seeds} at {times} times",
            f"undecided, {'a gain of 1 % kept' if size else 'no difference'}",
            [each == UNDECIDED for each in verdicts],
            most=most if size else None,
        )


def bought(n: int) -> Iterator[Row]:
    """The proposed runs, made one after another, of pairs with a gain of 2 δ at the target."""
    for times in RATIOS:
        rng, decided = np.random.default_rng([7, times]), []
        while len(decided) < n:
            setting = drawn(rng)
            name = str(rng.choice(NAMES))
            sizes, target = setting.sizes, setting.sizes[-1] * times
            law, gain = truth(name, sizes[-1], rng)
            if abs(float(gain(np.array(target)))) < 2 * MIN_GAIN:
                continue
            runs = _by_size(setting, setting.losses(law, gain, rng))
            found, gains = compared(runs, target)
            if found.verdict != UNDECIDED:
                continue
            for _ in range(MOST_BOUGHT):
                proposed = gains.next_runs(found)
                if proposed is None:
                    break
                _buy(runs, setting, law, gain, proposed, rng)
                found, gains = compared(runs, target)
            decided.append(found.verdict != UNDECIDED)
        yield share_row(
            f"undecided pairs at {times} times",
            f"decided after at most {MOST_BOUGHT} proposals, a gain or loss of {2 * MIN_GAIN:.1%}",
            decided,
            least=0.7,
        )


def _by_size(setting: Setting, logs: tuple[Array, Array]) -> Runs:
    pairs = zip(*(each.tolist() for each in logs), strict=True)
    return {float(x): pair for x, pair in zip(setting.sizes, pairs, strict=True)}


def _buy(
    runs: Runs,
    setting: Setting,
    law: Truth,
    gain: Truth,
    proposed: NextRuns,
    rng: np.random.Generator,
) -> None:
    """Add pairs at one size; what a seed shares is drawn for the pair alone."""
    size = proposed.size["flops"]
    have = next((x for x in runs if math.isclose(x, size, rel_tol=1e-6)), size)
    base, variant = runs.setdefault(have, ([], []))
    level, there = math.log(float(law(np.array(size)))), float(gain(np.array(size)))
    own, common = (math.sqrt(s) * setting.noise for s in (1 - setting.share, setting.share))
    for _ in range(proposed.n_seeds):
        both = common * rng.normal()
        base.append(level + both + own * rng.normal())
        variant.append(level - there + both + own * rng.normal())


def splits(path: str = "examples/sweep.csv") -> Iterator[Row]:
    """The seeds of the default study in two parts, as two recipes: any sign is false."""
    frame = pd.read_csv(path)
    seeds = sorted(frame["seed"].unique())
    halves = {
        frozenset((part, tuple(s for s in seeds if s not in part)))
        for k in range(1, len(seeds))
        for part in itertools.combinations(seeds, k)
    }
    for times in (2, *RATIOS):
        verdicts = []
        for half in halves:
            arms: Mapping[str, pd.DataFrame] = {
                str(part): frame[frame["seed"].isin(part)] for part in sorted(half)
            }
            at = float(frame["width"].max()) * times
            found = extrap.compare(arms, size="width", tune="lr", at=at)
            verdicts.append(found.verdict)
        yield share_row(
            f"seeds of the default study in two, {times} times",
            f"false verdicts of {len(halves)} distinct splits, nominal 5 %",
            [each in (SURVIVES, HURTS, FADES) for each in verdicts],
            note=", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)),
        )


if __name__ == "__main__":
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else N_DRAWS
    print_rows(list(shape_rows(shapes(n_draws))))
    print_rows([*undecided(n_draws), *bought(n_draws), *splits()])
