"""Gains of a variant at a larger size, on simulated pairs: do intervals and verdicts hold?

    python -m benchmarks.gains [DRAWS]

Drawn are 3 to 6 sizes, each 2, 4 or 8 times the one before, 1 to 3 seeds, noise of .05 to 1 %, and
the share of it that is a seed's: 0, .35 or .7, in both recipes at one size, in both at all sizes,
or in one recipe at all sizes. The size is compute, and the target 10 or 300 times the largest.
Then: two sizes of one seed; gains of 3 to 20 %; two size columns, on ladders and grids, with the
target 10 or 100 times the compute; and the seeds of one recipe in two halves. Beside the answers
stands the trivial one: a line or plane through the gains over log size, with the interval of least
squares. The prior was chosen on draws of other seeds.
"""

from __future__ import annotations

import itertools
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from extrap.analyses.comparison import Arm, Contrast, contrast_arms
from extrap.analyses.comparison.gate import (
    BETTER_HERE,
    FADES,
    HURTS,
    MIN_GAIN,
    NO_DIFFERENCE,
    SURVIVES,
    UNDECIDED,
    WORSE_HERE,
    Gate,
)
from extrap.analyses.comparison.judged_gains import Gains
from extrap.analyses.comparison.next_runs import NextRuns, Question

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
LARGE_NAMES = (*NAMES[1:], "exponent")
TWO_COLUMN_NAMES = (*NAMES[:3], "shrinks with data", *NAMES[4:], "exponent")
CONSTANT = ("null", "stays")
FALSE = (SURVIVES, HURTS, FADES, BETTER_HERE, WORSE_HERE)
"""Verdicts that say that two halves of one recipe differ."""
COLUMNS = ("n_params", "n_tokens")
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
        base, variant = self.scatter(rng)
        level = np.log(law(self.sizes))[:, None]
        return level + base, level - gain(self.sizes)[:, None] + variant

    def scatter(self, rng: np.random.Generator) -> Array:
        """Of the log losses of both recipes, shape (2, n_sizes, n_seeds)."""
        shape = (self.n_sizes, self.n_seeds)
        own = math.sqrt(1 - self.share) * self.noise
        common = math.sqrt(self.share) * self.noise
        rows = 1 if self.whose != "both at a size" else self.n_sizes
        effects = common * rng.normal(size=(2, rows, self.n_seeds))
        if self.whose != "one recipe":
            effects[1] = effects[0]
        return np.stack([own * rng.normal(size=shape) + effect for effect in effects])


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


def large_truth(name: str, largest: float, rng: np.random.Generator) -> tuple[Truth, Truth]:
    """The law of the base, and the log gain of a variant that is 3 to 20 % somewhere."""
    floor, scale = rng.uniform(1, 2), rng.uniform(1, 2.5)
    exponent = math.exp(rng.normal(math.log(0.17), 0.3))
    size, sign = rng.uniform(0.03, 0.2), rng.choice([-1, 1], p=[0.2, 0.8])

    def law(x: Array) -> Array:
        return np.asarray(floor + scale * x**-exponent)

    power, step, turn = (
        rng.uniform(0.05, 0.25),
        rng.uniform(0.002, 0.012),
        rng.uniform(0.004, 0.016),
    )
    less, lower, more = (
        rng.uniform(0.06, 0.35),
        rng.uniform(0.02, 0.15) * floor,
        rng.uniform(0, 0.1),
    )
    steeper, factor = exponent * rng.uniform(1.05, 1.4), rng.uniform(0.95, 1.05)
    ends = math.log2(largest) + rng.uniform(0, 6)
    gains: dict[str, Truth] = {
        "stays": lambda x: sign * size + 0 * x,
        "shrinks": lambda x: sign * size * x**-power,
        "goes to 0": lambda x: np.maximum(size * (1 - np.log2(x) / ends), 0.0),
        "grows": lambda x: size / 3 + step * np.log2(x),
        "crosses": lambda x: size / 2 - turn * np.log2(x),
        "equal floors": lambda x: -np.log1p(-less * (1 - floor / law(x))),
        "lower floor": lambda x: np.log(
            law(x) / (floor - lower + scale * (1 + more) * x**-exponent)
        ),
        "exponent": lambda x: np.log(law(x) / (floor + scale * factor * x**-steeper)),
    }
    return law, gains[name]


def two_column_truth(name: str, rng: np.random.Generator) -> Truth:
    """The log gain of a variant over (N, D) in units of the smallest, of shape (…, 2)."""
    floor, scales = rng.uniform(1, 2), rng.uniform(0.5, 1.3, size=2)
    exponents = np.exp(rng.normal(math.log(0.34), 0.25, size=2))
    size, powers = rng.uniform(0, 0.03), rng.uniform(0.07, 0.35, size=2)
    steps, turns = rng.uniform(0.0005, 0.003, size=2), rng.uniform(0.001, 0.004, size=2)
    less, lower, more = (
        rng.uniform(0, 0.06, 2),
        rng.uniform(0, 0.02) * floor,
        rng.uniform(0, 0.03, 2),
    )
    turned = exponents * (1 + rng.normal(0, 0.03, size=2))

    def law(x: Array, floor: float = floor, by: Array = scales, to: Array = exponents) -> Array:
        return np.asarray(floor + (by * x**-to).sum(axis=-1))

    gains: dict[str, Truth] = {
        "null": lambda x: 0 * x[..., 0],
        "stays": lambda x: size + 0 * x[..., 0],
        "shrinks": lambda x: size * (x**-powers).prod(axis=-1),
        "shrinks with data": lambda x: size * x[..., 1] ** (-2 * powers[1]),
        "grows": lambda x: size / 3 + np.log2(x) @ steps,
        "crosses": lambda x: size / 2 - np.log2(x) @ turns,
        "equal floors": lambda x: np.log(law(x) / law(x, by=scales * (1 - less))),
        "lower floor": lambda x: np.log(law(x) / law(x, floor - lower, scales * (1 + more))),
        "exponent": lambda x: np.log(law(x) / law(x, to=turned)),
    }
    return gains[name]


def compared(runs: Runs, target: float, level: float = 0.95) -> tuple[Contrast, Gains]:
    """What `extrap.compare` says of log losses by size."""
    plain, treated = (
        Arm(name=name, by_size={(x,): dict(enumerate(pair[i])) for x, pair in runs.items()})
        for i, name in enumerate(("base", "variant"))
    )
    return compared_arms(plain, treated, {"flops": target}, level)


def compared_arms(
    plain: Arm, treated: Arm, target: Mapping[str, float], level: float = 0.95
) -> tuple[Contrast, Gains]:
    """What `extrap.compare` says of two recipes."""
    columns = tuple(target)
    question = Question(
        recipes=(plain.name, treated.name),
        columns=columns,
        sizes=sorted(set(plain.by_size) & set(treated.by_size)),
        target=target,
        gate=Gate(level=level),
        powers=[1.0] * len(columns),
    )
    gains = Gains.of(plain, treated, question, {})
    found = contrast_arms(plain, treated, columns=columns, target=target, level=level)
    return gains.judged(found, level=level), gains


def _plane(sizes: Array, gains: Array, target: Array) -> tuple[float, float]:
    """Interval of a plane through the gains over log size at the target; empty without a rest."""
    design = np.column_stack([np.ones(len(sizes)), np.log(sizes)])
    dof = len(sizes) - design.shape[1]
    if dof < 1:
        return math.nan, math.nan
    goal = np.concatenate([[1.0], np.log(target)])
    values = np.linalg.lstsq(design, gains, rcond=None)[0]
    off = gains - design @ values
    sd = math.sqrt(float(off @ off) / dof * float(goal @ np.linalg.pinv(design.T @ design) @ goal))
    half = float(stats.t.ppf(0.5 + LEVEL / 2, dof)) * sd
    return float(goal @ values) - half, float(goal @ values) + half


def _is_right(verdict: str, gain: Truth, sizes: Array, target: Array) -> bool:
    there = float(gain(target))
    return {
        SURVIVES: there > 0,
        HURTS: there < 0,
        FADES: there < MIN_GAIN < float(gain(sizes).max()),
        NO_DIFFERENCE: abs(there) < MIN_GAIN,
        UNDECIDED: True,
    }[verdict]


def shapes(
    n: int,
    *,
    part: str = "",
    names: Sequence[str] = NAMES,
    truths: Callable[..., tuple[Truth, Truth]] = truth,
    ratios: Sequence[int] = RATIOS,
    **of_setting: int,
) -> pd.DataFrame:
    """A row for each pair of every shape and target."""
    rows = []
    for times, name in itertools.product(ratios, names):
        rng = np.random.default_rng(zlib.crc32(f"report {part}{times} {name}".encode()))
        for _ in range(n):
            setting = replace(drawn(rng), **of_setting)
            sizes = setting.sizes[:, None]
            target = sizes[-1] * times
            law, gain = truths(name, float(sizes[-1, 0]), rng)
            logs = setting.losses(law, gain, rng)
            row = _row(sizes, logs, lambda x, gain=gain: gain(x[..., 0]), target, ("flops",))
            rows.append({"cell": f"{name}, {times} times", "shape": name, **row})
    return pd.DataFrame(rows)


def two_columns(n: int) -> pd.DataFrame:
    """The same over parameters and tokens: ladders, and grids of 2 × 3 and 3 × 3."""
    rows = []
    for times, name in itertools.product((10, 100), TWO_COLUMN_NAMES):
        rng = np.random.default_rng(zlib.crc32(f"report columns {times} {name}".encode()))
        for _ in range(n):
            setting, design = drawn(rng), str(rng.choice(["ladder", "2 × 3", "3 × 3"]))
            octaves = math.log2(setting.ratio) / 2 * rng.uniform(0.6, 1.4, size=2)
            if design == "ladder":
                steps = np.repeat(np.arange(setting.n_sizes)[:, None], 2, axis=1)
                logs_of_size = steps * octaves + [0, 0.2] * rng.normal(size=steps.shape)
            else:
                first, second = (int(word) for word in design.split(" × "))
                logs_of_size = octaves * [*itertools.product(range(first), range(second))]
            sizes = 2.0 ** (logs_of_size - logs_of_size.min(axis=0))
            share = float(rng.choice([0, 0.5, 1]))
            target = sizes.max(axis=0) * float(times) ** np.array([share, 1 - share])
            gain = two_column_truth(name, rng)
            base, variant = replace(setting, n_sizes=len(sizes)).scatter(rng)
            row = _row(sizes, (base, variant - gain(sizes)[:, None]), gain, target, COLUMNS)
            cell = f"{design}, {times} times"
            rows.append({"cell": cell, "shape": name, "share": share, **row})
    return pd.DataFrame(rows)


def _row(
    sizes: Array,
    logs: tuple[Array, Array],
    gain: Truth,
    target: Array,
    columns: tuple[str, ...],
) -> dict[str, object]:
    """What is said of one pair, and whether it holds."""
    keys = [tuple(size) for size in sizes.tolist()]
    arms = [
        Arm(name=name, by_size={k: dict(enumerate(r)) for k, r in zip(keys, rows, strict=True)})
        for name, rows in zip(("base", "variant"), (each.tolist() for each in logs), strict=True)
    ]
    goal = dict(zip(columns, target.tolist(), strict=True))
    found = compared_arms(*arms, goal, LEVEL)[0]
    verdict = compared_arms(*arms, goal)[0].verdict
    assert found.at_target is not None
    low, high = found.at_target.difference.ci
    assert low is not None
    assert high is not None
    there = float(gain(target))
    ends = _plane(sizes, (logs[0] - logs[1]).mean(axis=1), target)
    return {
        "held": low <= math.expm1(-there) <= high,
        "width": high - low,
        "line held": ends[0] <= there <= ends[1] if ends[0] == ends[0] else None,
        "line width": ends[1] - ends[0],
        "verdict": verdict,
        "right": _is_right(verdict, gain, sizes, target),
    }


def shape_rows(frame: pd.DataFrame, part: str = "") -> Iterator[Row]:
    """Coverage by cell and over all, and how often a verdict is wrong."""
    for cell, of_cell in [*frame.groupby("cell", sort=False), ("all cells", frame)]:
        held = of_cell["line held"].dropna().astype(float)
        line = f"a line {held.mean():.0%}, {of_cell['line width'].median():.2%}"
        yield share_row(
            f"{part}{cell}",
            f"90 % intervals of the gain hold it (median width {of_cell['width'].median():.2%})",
            of_cell["held"],
            least=0.8 if cell != "all cells" else 0.85,
            most=None if cell != "all cells" else 0.97,
            beat=line if len(held) else "",
            note=", ".join(f"{v} {k}" for k, v in of_cell["verdict"].value_counts().items()),
        )
    for verdict in (SURVIVES, HURTS):
        wrong = frame["verdict"].eq(verdict) & ~frame["right"]
        worst = wrong.groupby(frame["cell"]).mean()
        note = f"most in a cell: {worst.idxmax()} {worst.max():.1%}"
        yield share_row(f"{part}all cells", f"wrongly {verdict}", wrong, most=0.05, note=note)
    constant = frame[frame["shape"].isin(CONSTANT)]
    fades = constant["verdict"].eq(FADES)
    yield share_row(f"{part}constant gains and none", "fades", fades, most=0.05)
    yield share_row(f"{part}all cells", "wrong verdicts", ~frame["right"], most=0.05)
    decided = frame[frame["verdict"].ne(UNDECIDED)]
    yield share_row(f"{part}all cells", "right among decided", decided["right"], least=0.95)


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
            found, _ = compared(_by_size(setting, logs), float(setting.sizes[-1] * times))
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
            [each in FALSE for each in verdicts],
            note=", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)),
        )


def halves(n: int) -> Iterator[Row]:
    """Fresh seeds of one recipe in two halves, simulated: any sign is false."""
    every = []
    for n_sizes, n_seeds in itertools.product((1, 2, 3, 5), (1, 2, 3)):
        rng, verdicts = np.random.default_rng([11, n_sizes, n_seeds]), []
        for _ in range(n):
            setting = replace(drawn(rng), n_sizes=n_sizes, n_seeds=2 * n_seeds, whose="one recipe")
            law, gain = truth("null", float(setting.sizes[-1]), rng)
            logs = setting.losses(law, gain, rng)[0]
            seeds = [range(n_seeds), range(n_seeds, 2 * n_seeds)]
            arms = [
                Arm(
                    name=str(half),
                    by_size={
                        (float(x),): {s: float(row[s]) for s in half}
                        for x, row in zip(setting.sizes, logs, strict=True)
                    },
                )
                for half in seeds
            ]
            times = 10 if n_sizes > 1 else 1
            target = {"flops": float(setting.sizes[-1]) * times}
            verdicts.append(compared_arms(arms[0], arms[1], target)[0].verdict)
        every += verdicts
        yield share_row(
            f"halves of one recipe, {n_sizes} sizes × {n_seeds}",
            "false verdicts",
            [verdict in FALSE for verdict in verdicts],
            note=", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)),
        )
    false = [verdict in FALSE for verdict in every]
    yield share_row("halves of one recipe", "false verdicts", false, most=0.05)


if __name__ == "__main__":
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else N_DRAWS
    n_few = math.ceil(n_draws / 4)
    print_rows(list(shape_rows(shapes(n_draws))))
    two = shapes(n_few, part="two sizes ", ratios=(10,), n_sizes=2, n_seeds=1)
    print_rows(list(shape_rows(two, "two sizes, one seed: ")))
    large = shapes(n_few, part="large ", names=LARGE_NAMES, truths=large_truth)
    print_rows(list(shape_rows(large, "gains of 3 to 20 %: ")))
    print_rows(list(shape_rows(two_columns(math.ceil(n_few / 2)), "two columns: ")))
    print_rows([*undecided(n_draws), *bought(n_draws), *halves(n_few), *splits()])
