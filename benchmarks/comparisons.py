"""Recipes compared: what the intervals hold, false differences and power, on simulated runs.

    python -m benchmarks.comparisons [REPETITIONS]

For every design: coverage and half-width of the 90 % intervals, false differences of two equal
recipes at level .95, and how often effects are found. The effects take turns for the intervals and
are all added to the same draws for the tests. Beside the tests stands the trivial answer, a
two-sample t-test at the largest size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import optimize, stats

from benchmarks.rows import Row
from extrap.analyses.comparison import Arm, Contrast, contrast_arms, tuned_arm
from extrap.analyses.comparison.arm_errors import joint_p_value
from extrap.analyses.comparison.arm_table import arm_table
from extrap.records import Measure, Runs

N_REPETITIONS = 400
LEVEL, TEST = 0.9, 0.05
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
MOVED_FLOORS = {
    "floor moved": replace(PLAIN, floor=1.3),
    "floor moved, the rest smaller": replace(PLAIN, floor=1.3, scale=1.6),
}
"""What a treatment does to the floor; these take their turn in the intervals too."""
ONE_SEED = (
    Design(name="5 × 1", n_sizes=5, n_seeds=1),
    Design(name="8 × 1", n_sizes=8, n_seeds=1),
)
FEW = (
    Design(name="4 × 2", n_sizes=4, n_seeds=2),
    Design(name="3 × 3", n_sizes=3, n_seeds=3),
    Design(name="4 × 3", n_sizes=4, n_seeds=3),
)
SHARES = (0.0, 0.35, 0.7)
"""Shares of the variance that a seed has at all sizes alike."""
NUMBERS = ("target", "mean", "smallest size", "largest size", "exponent", "worth", "crossing")
HELD = (0.85, 0.97)
"""Coverage that 90 % intervals are to have."""
Rows = Iterator[dict[str, object]]


def designs() -> dict[str, Design]:
    """Name of a part → its design."""
    found = {design.name: design for design in (*NULLS, *ONE_SEED, *FEW)}
    for share in SHARES:
        for design in (d for d in (*NULLS, *ONE_SEED) if not d.tuned):
            name = f"{design.name}, share {share:g}"
            found[name] = replace(design, name=name, share=share)
    return found


def parts() -> dict[str, Callable[[int], Rows]]:
    """Every part by its name: a function of repetitions, which gives a row for each."""
    found: dict[str, Callable[[int], Rows]] = {
        name: partial(_of_design, design) for name, design in designs().items()
    }
    return {**found, "drawn settings": _drawn, "two size columns": _two_columns}


def measure(n: int = N_REPETITIONS) -> dict[str, pd.DataFrame]:
    """Part → a row for each repetition."""
    return {name: pd.DataFrame(list(part(n))) for name, part in parts().items()}


def draw(design: Design, treated: Law, rng: np.random.Generator) -> dict[str, Runs]:
    """Runs of a plain and of a treated recipe."""
    return _runs(design, _rows(design, treated, rng))


def _runs(design: Design, arms: Mapping[str, list[dict[str, float]]]) -> dict[str, Runs]:
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


def arms_of(design: Design, drawn: Mapping[str, list[dict[str, float]]]) -> list[Arm]:
    """The tuned losses of both recipes; at once where nothing is tuned."""
    if design.tuned:
        return [tuned_arm(name, r, level=LEVEL) for name, r in _runs(design, drawn).items()]
    arms = []
    for name, of_arm in drawn.items():
        by_size: dict[tuple[float, ...], dict[object, float]] = {}
        for row in of_arm:
            by_size.setdefault((row["width"],), {})[row["seed"]] = math.log(row["loss"])
        arms.append(Arm(name=name, by_size=by_size))
    return arms


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


def _of_design(design: Design, n: int) -> Rows:
    rng = np.random.default_rng([*design.name.encode()])
    effects = {
        name: _like(design.law, law)
        for name, law in {"none": PLAIN, **EFFECTS, **MOVED_FLOORS}.items()
    }
    for i in range(n):
        drawn = _rows(design, design.law, rng)
        plain, treated = arms_of(design, drawn)
        row: dict[str, object] = {"p trivial": _naive_p_value(drawn)}
        for name, law in effects.items():
            moved = _moved(treated, {w: law.loss(w) / design.law.loss(w) for w in design.widths})
            row[f"p {name}"] = joint_p_value(arm_table(plain, moved))
            if list(effects)[i % len(effects)] == name:
                row |= _numbers(design.law, law, design.widths, plain, moved)
        yield row


def _like(plain: Law, treated: Law) -> Law:
    """The effect that a treated law has on the default plain one, on another plain law."""
    return Law(
        floor=plain.floor * treated.floor / PLAIN.floor,
        scale=plain.scale * treated.scale / PLAIN.scale,
        exponent=plain.exponent * treated.exponent / PLAIN.exponent,
    )


def _moved(arm: Arm, factors: Mapping[float, float]) -> Arm:
    moved = {
        key: {seed: value + math.log(factors[key[0]]) for seed, value in seeds.items()}
        for key, seeds in arm.by_size.items()
    }
    return replace(arm, by_size=moved)


def _numbers(plain: Law, treated: Law, widths: list[float], *arms: Arm) -> dict[str, object]:
    """Whether each number's interval holds the truth, and its half-width."""
    last, target = widths[-1], 2 * widths[-1]
    made, _ = contrast_arms(
        *arms, columns=("width",), target={"width": target}, level=LEVEL, worth_level=LEVEL
    )

    def difference(width: float) -> float:
        return treated.loss(width) / plain.loss(width) - 1

    logs = [math.log1p(difference(width)) for width in widths]
    truths = {
        "target": difference(target),
        "mean": math.expm1(float(np.mean(logs))),
        "smallest size": difference(widths[0]),
        "largest size": difference(last),
        "exponent": treated.exponent - plain.exponent,
        "worth": _worth(plain, treated.loss(last), last),
        "crossing": _crossing(plain, treated, widths),
    }
    return _held(_measures(made), truths)


def _measures(made: Contrast) -> dict[str, Measure]:
    return {
        "target": made.at_target.difference if made.at_target else Measure(),
        "mean": made.mean,
        "smallest size": made.by_size[0].difference,
        "largest size": made.by_size[-1].difference,
        "exponent": made.exponent_difference,
        "worth": made.worth[0].size_factor if made.worth else Measure(),
        "crossing": made.crossing,
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


def _worth(plain: Law, loss: float, width: float) -> float:
    """Width with which the plain law reaches a loss, over a width."""
    if loss <= plain.floor:
        return math.inf
    log_factor = optimize.brentq(
        lambda shift: plain.loss(width * math.exp(shift)) - loss, -60, 200
    )
    return math.exp(min(log_factor, 700.0))


def _crossing(plain: Law, treated: Law, widths: list[float]) -> float:
    """The width inside the sizes at which the laws are equal; NaN without one."""

    def gap(log_width: float) -> float:
        return treated.loss(math.exp(log_width)) - plain.loss(math.exp(log_width))

    ends = math.log(widths[0]), math.log(widths[-1])
    return math.exp(optimize.brentq(gap, *ends)) if gap(ends[0]) * gap(ends[1]) < 0 else math.nan


def _drawn(n: int) -> Rows:
    """Laws, designs and the share of seeds drawn; in every other one the laws cross."""
    rng = np.random.default_rng(99)
    for i in range(n):
        sizes, seeds = ((5, 2), (6, 2), (6, 3), (8, 3), (8, 4), (5, 1), (7, 1))[i % 7]
        plain = Law(
            floor=rng.uniform(0.8, 2.0), scale=rng.uniform(1, 3), exponent=rng.uniform(0.15, 0.7)
        )
        treated = Law(
            floor=plain.floor * math.exp(rng.uniform(-0.05, 0.05)),
            scale=plain.scale * math.exp(rng.uniform(-0.15, 0.15)),
            exponent=plain.exponent + rng.uniform(-0.1, 0.1),
        )
        design = Design(
            name="drawn", n_sizes=sizes, n_seeds=seeds, law=plain, share=rng.uniform(0, 0.7)
        )
        if i % 2:  # with the scale at which they meet inside the sizes
            ends = math.log(design.widths[0]), math.log(design.widths[-1])
            at = math.exp(rng.uniform(*ends))
            scale = (plain.loss(at) - treated.floor) / (at / SMALLEST) ** -treated.exponent
            treated = replace(treated, scale=scale) if scale > 0 else treated
        arms = arms_of(design, _rows(design, treated, rng))
        yield _numbers(plain, treated, design.widths, *arms)


def _two_columns(n: int) -> Rows:
    """A grid of width × examples, `L = 1.5 + 1.2 w^−.4 + 1.2 d^−.3`, target twice both."""
    rng = np.random.default_rng(98)
    grid, at = [(2.0**i, 2.0**j) for i in range(4) for j in range(4)], (16.0, 16.0)
    columns = ("width", "examples")
    for i in range(n):
        design = Design(name="", n_sizes=len(grid), n_seeds=2, share=SHARES[i % 3])
        drawn, effect, arms = _rows(design, design.law, rng), i % 4, []
        for of_arm, (name, rows_of_arm) in zip((0, effect), drawn.items(), strict=True):
            by_size: dict[tuple[float, ...], dict[object, float]] = {}
            for row in rows_of_arm:
                key = grid[design.widths.index(row["width"])]
                factor = _loss_of_two(*key, of_arm) / design.law.loss(row["width"])
                by_size.setdefault(key, {})[row["seed"]] = math.log(row["loss"] * factor)
            arms.append(Arm(name=name, by_size=by_size))
        plain, treated = arms
        made, _ = contrast_arms(
            plain,
            treated,
            columns=columns,
            target=dict(zip(columns, at, strict=True)),
            level=LEVEL,
        )
        logs = [math.log(_loss_of_two(*k, effect) / _loss_of_two(*k, 0)) for k in grid]
        truths = {
            "target": _loss_of_two(*at, effect) / _loss_of_two(*at, 0) - 1,
            "mean": math.expm1(float(np.mean(logs))),
            "exponent": -0.05 * (effect == 3),
        }
        yield {f"p {effect or 'none'}": made.p_value, **_held(_measures(made), truths)}


def _loss_of_two(width: float, examples: float, effect: int) -> float:
    scale = 0.98 if effect == 1 else 1.0
    power = 0.35 if effect == 3 else 0.4
    of_width = (1.2 * 0.95 if effect == 2 else 1.2) * width**-power
    return scale * (1.5 + of_width + 1.2 * examples**-0.3)


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


def rows(found: Mapping[str, pd.DataFrame]) -> list[Row]:
    """The figures."""
    return [
        row
        for name, frame in found.items()
        for row in (*_interval(name, frame), *_tests(name, frame))
    ]


def _interval(part: str, frame: pd.DataFrame) -> Iterator[Row]:
    """Coverage and half-width of every number that is given."""
    held = {
        number: frame[f"{number} held"].dropna().astype(float)
        for number in NUMBERS
        if f"{number} held" in frame
    }
    known = {number: each for number, each in held.items() if len(each) >= 0.1 * len(frame)}
    shares = {number: float(each.mean()) for number, each in known.items()}
    texts = [
        f"{number} {share:.1%} (± {frame[f'{number} half'].median():.2g})"
        for number, share in shares.items()
    ]
    yield Row(
        part=part,
        figure=f"90 % intervals that hold the truth, of {len(frame)}",
        target="85 to 97 %",
        reached=", ".join(texts),
        met=all(HELD[0] <= share <= HELD[1] for share in shares.values()),
        note="In brackets the median half-width, relative where the number is a difference.",
    )


def _tests(part: str, frame: pd.DataFrame) -> Iterator[Row]:
    """False differences, and power, at level .95."""
    p_values = frame.filter(regex="^p ").dropna(axis=1, how="all").astype(float)
    if "p none" not in p_values:
        return
    found = {
        name.removeprefix("p "): float((p.dropna() <= TEST).mean()) for name, p in p_values.items()
    }
    most = TEST + 2 * math.sqrt(TEST * (1 - TEST) / int(p_values["p none"].notna().sum()))
    trivial = found.pop("trivial", None)
    false = found.pop("none")
    yield Row(
        part=part,
        figure="false differences at level .95",
        beat="" if trivial is None else f"t-test at the largest size: {trivial:.1%}",
        target=f"≤ {most:.1%}",
        reached=f"{false:.1%}",
        met=false <= most,
        note="Found: " + ", ".join(f"{name} {share:.0%}" for name, share in found.items()),
    )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else N_REPETITIONS
    for name, part in parts().items():
        for line in rows({name: pd.DataFrame(list(part(count)))}):
            text = f"{line.part}: {line.figure}: {line.reached} ({line.verdict})"
            sys.stdout.write("; ".join(filter(None, [text, line.beat, line.note])) + "\n")
            sys.stdout.flush()
