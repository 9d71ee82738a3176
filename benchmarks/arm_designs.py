"""Two ways to compare arms, on the same simulated tables: variance components, and pairs left out.

    python -m benchmarks.arm_designs FOLDER [REPETITIONS] [SEED] [PART …]
    python -m benchmarks.arm_designs --table FOLDER

The first writes one CSV file per design, one row per repetition; a design whose file is there is
not run again. The second prints coverage of 90 % intervals, their half-widths, false differences
and power at level .95, old and new side by side. Effects are added to the same draws.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from scipy import optimize

from benchmarks.comparisons import EFFECTS, NULLS, PLAIN, Design, Law, _rows, _runs, losses
from extrap.analyses.comparison import Arm, arm_table, compare_arms, tuned_arm
from extrap.analyses.comparison.arm_errors import joint_p_value
from extrap.comparing.contrast import Judged, crossover_of, judge
from extrap.comparing.one_law import compare_laws
from extrap.comparing.pairs import two_arms
from extrap.comparing.recipes import _mean_difference
from extrap.comparing.tuned import ArmLosses, SizeLosses
from extrap.records import Measure

LEVEL, TEST = 0.9, 0.05
SLOW = "extrap.comparing.contrast.effective_compute"
"""Old worth and crossing take most of the time and are measured on drawn settings only."""
OBVIOUS = "shift of 5 %"
"""Found by both wherever there are three seeds."""
SHARES = (0.0, 0.35, 0.7)
ONE_SEED = (
    Design(name="5 × 1", n_sizes=5, n_seeds=1),
    Design(name="8 × 1", n_sizes=8, n_seeds=1),
)
FEW = (
    Design(name="4 × 2", n_sizes=4, n_seeds=2),
    Design(name="3 × 3", n_sizes=3, n_seeds=3),
    Design(name="4 × 3", n_sizes=4, n_seeds=3),
)
Number = tuple[str, Measure, float]
"""What it is, what was found, the truth."""


def designs() -> dict[str, Design]:
    """Name of a part → its design."""
    found = {design.name: design for design in (*NULLS, *ONE_SEED, *FEW)}
    for share in SHARES:
        for design in (d for d in (*NULLS, *ONE_SEED) if not d.tuned):
            name = f"{design.name}, share {share:g}"
            found[name] = replace(design, name=name, share=share)
    return found


def parts() -> dict[str, Callable[[int, int], Iterator[dict[str, object]]]]:
    """Every part by its name: a function of repetitions and seed."""
    found: dict[str, Callable[[int, int], Iterator[dict[str, object]]]] = {
        name: partial(_of_design, design) for name, design in designs().items()
    }
    return {**found, "drawn settings": _drawn, "two size columns": _two_columns}


def _of_design(design: Design, n: int, seed: int) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng([seed, *design.name.encode()])
    effects = {"none": design.law} | {
        name: _like(design.law, law) for name, law in EFFECTS.items() if name != OBVIOUS
    }
    for i in range(n):
        drawn = _rows(design, design.law, rng)
        old = [losses(design, rows, name) for name, rows in drawn.items()]
        new = _arms(design, drawn, old)
        row: dict[str, object] = {"repetition": i}
        of_old, of_new = two_arms(*old), arm_table(*new)
        for name, law in effects.items():
            shift = {w: math.log(law.loss(w) / design.law.loss(w)) for w in design.widths}
            column = np.array([*shift.values()])[:, None]
            row[f"old p {name}"] = compare_laws(
                replace(of_old, treated=of_old.treated + column)
            ).p_value
            row[f"new p {name}"] = joint_p_value(replace(of_new, treated=of_new.treated + column))
            if list(effects)[i % len(effects)] == name:
                pair_old = old[0], _moved_losses(old[1], shift)
                pair_new = new[0], _moved_arm(new[1], shift)
                with mock.patch(SLOW, return_value=None):
                    row |= _numbers(design.law, law, design.widths, pair_old, pair_new)
        yield row


def _like(plain: Law, treated: Law) -> Law:
    """The effect that a treated law has on the default plain one, on another plain law."""
    return Law(
        floor=plain.floor * treated.floor / PLAIN.floor,
        scale=plain.scale * treated.scale / PLAIN.scale,
        exponent=plain.exponent * treated.exponent / PLAIN.exponent,
    )


def _arms(
    design: Design, drawn: dict[str, list[dict[str, float]]], old: list[ArmLosses]
) -> list[Arm]:
    if design.tuned:
        return [tuned_arm(name, runs) for name, runs in _runs(design, drawn).items()]
    return [
        Arm(name=a.name, by_size={key: each.by_seed for key, each in a.by_size.items()})
        for a in old
    ]


def _moved_losses(arm: ArmLosses, shift: Mapping[float, float]) -> ArmLosses:
    moved = {
        key: replace(each, by_seed={s: v + shift[key[0]] for s, v in each.by_seed.items()})
        for key, each in arm.by_size.items()
    }
    return replace(arm, by_size=moved)


def _moved_arm(arm: Arm, shift: Mapping[float, float]) -> Arm:
    moved = {
        key: {seed: value + shift[key[0]] for seed, value in seeds.items()}
        for key, seeds in arm.by_size.items()
    }
    return replace(arm, by_size=moved)


def _numbers(
    plain: Law,
    treated: Law,
    widths: list[float],
    old: tuple[ArmLosses, ArmLosses],
    new: tuple[Arm, Arm],
) -> dict[str, object]:
    row: dict[str, object] = {}
    of_new = _new_numbers(plain, treated, widths, *new)
    for what, which in (("old", _old_numbers(plain, treated, widths, *old)), ("new", of_new)):
        for number, found, truth in which:
            row[f"{what} {number} is"] = truth
            row[f"{what} {number} value"] = found.value
            low, high = found.ci
            is_refused = found.value is None and found.ci == (None, None)
            row[f"{what} {number} held"] = None if is_refused else _holds(found, truth)
            row[f"{what} {number} lower"], row[f"{what} {number} upper"] = low, high
    return row


def _holds(found: Measure, truth: float) -> bool:
    low, high = found.ci
    return (low is None or truth >= low) and (high is None or truth <= high)


def _truths(plain: Law, treated: Law, widths: list[float]) -> dict[str, float]:
    target, last = 2 * widths[-1], widths[-1]
    mean = np.mean([math.log(treated.loss(w) / plain.loss(w)) for w in widths])
    return {
        "target": treated.loss(target) / plain.loss(target) - 1,
        "mean": math.expm1(float(mean)),
        "exponent": treated.exponent - plain.exponent,
        "plain exponent": plain.exponent,
        "worth": _worth(plain, treated.loss(last), last),
        "worth at target": _worth(plain, treated.loss(target), target),
        "crossing": _crossing(plain, treated, widths),
    }


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
    ends = [treated.loss(w) - plain.loss(w) for w in (widths[0], widths[-1])]
    if ends[0] * ends[1] >= 0:
        return math.nan
    at = optimize.brentq(
        lambda t: treated.loss(math.exp(t)) - plain.loss(math.exp(t)),
        math.log(widths[0]), math.log(widths[-1]),
    )  # fmt: skip
    return math.exp(at)


def _old_numbers(
    plain: Law, treated: Law, widths: list[float], *arms: ArmLosses
) -> Iterator[Number]:
    truths, target = _truths(plain, treated, widths), {"width": 2 * widths[-1]}
    judged: Judged = judge(
        *arms, columns=("width",), has_law=True, target=target, level=LEVEL, flops=(None, None)
    )
    made, test = judged.contrast, judged.test
    found = {
        "target": made.at_target.difference if made.at_target else Measure(),
        "mean": _mean_difference(test, level=LEVEL),
        "exponent": made.exponent_difference,
        "plain exponent": made.exponents[arms[0].name],
    }
    if None not in made.effective_compute and made.effective_compute:
        last, goal = made.effective_compute
        found |= {"worth": last.size_factor, "worth at target": goal.size_factor}
        found["crossing"] = crossover_of(judged, target=target["width"], level=LEVEL).size
    for name, measure in found.items():
        yield name, _known(measure, name), truths[name]
    yield from _sizes(plain, treated, widths, [each.difference for each in made.by_size])


def _known(measure: Measure, name: str) -> Measure:
    """A number without an interval counts as refused."""
    if measure.ci == (None, None) and not name.startswith("worth"):
        return Measure()
    return measure


def _new_numbers(plain: Law, treated: Law, widths: list[float], *arms: Arm) -> Iterator[Number]:
    truths = _truths(plain, treated, widths)
    target = (2 * widths[-1],)
    made = compare_arms(arm_table(*arms), target=target, level=LEVEL, worth_level=LEVEL)
    found = {
        "target": made.at_target,
        "mean": made.mean,
        "exponent": made.exponent_difference,
        "plain exponent": made.exponents[0],
        "crossing": made.crossing,
        "worth": made.worth[0],
        "worth at target": made.worth[1],
    }
    for name, measure in found.items():
        yield name, _known(measure, name), truths[name]
    yield from _sizes(plain, treated, widths, list(made.by_size))


def _sizes(
    plain: Law, treated: Law, widths: list[float], found: list[Measure]
) -> Iterator[Number]:
    for i in (0, len(widths) - 1):
        truth = treated.loss(widths[i]) / plain.loss(widths[i]) - 1
        name = "smallest size" if i == 0 else "largest size"
        yield name, _known(found[i], name), truth


def _drawn(n: int, seed: int) -> Iterator[dict[str, object]]:
    """Laws, designs, noise and the share of seeds drawn; in every other one the laws cross."""
    rng = np.random.default_rng([seed, 99])
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
        if i % 2:
            treated = _crossed(plain, treated, design.widths, rng)
        drawn = _rows(design, treated, rng)
        old = [losses(design, rows, name) for name, rows in drawn.items()]
        pair_new = _arms(design, drawn, old)
        row: dict[str, object] = {"repetition": i, "sizes": sizes, "seeds": seeds}
        yield row | _numbers(
            plain, treated, design.widths, (old[0], old[1]), (pair_new[0], pair_new[1])
        )


def _crossed(plain: Law, treated: Law, widths: list[float], rng: np.random.Generator) -> Law:
    """The treated law with the scale at which it meets the plain one inside the sizes."""
    at = math.exp(rng.uniform(math.log(widths[0]), math.log(widths[-1])))
    scale = (plain.loss(at) - treated.floor) / (at / 16.0) ** -treated.exponent
    return replace(treated, scale=scale) if scale > 0 else treated


def _two_columns(n: int, seed: int) -> Iterator[dict[str, object]]:
    """A grid of width × examples, `L = 1.5 + 1.2 w^−.4 + 1.2 d^−.3`, target twice both."""
    rng = np.random.default_rng([seed, 98])
    grid = [(2.0**i, 2.0**j) for i in range(4) for j in range(4)]
    for i in range(n):
        effect = i % 4
        design = Design(name="", n_sizes=len(grid), n_seeds=2, share=(0.0, 0.35, 0.7)[i % 3])
        drawn = _rows(design, design.law, rng)
        truth = [lambda w, d, e=e: _loss_of_two(w, d, e) for e in (0, effect)]
        arms, olds = [], []
        for arm, rows in enumerate(drawn.values()):
            by_size: dict[tuple[float, ...], dict[object, float]] = {}
            for row in rows:
                key = grid[design.widths.index(row["width"])]
                off = math.log(row["loss"]) - math.log(design.law.loss(row["width"]))
                by_size.setdefault(key, {})[int(row["seed"])] = math.log(truth[arm](*key)) + off
            arms.append(Arm(name=str(arm), by_size=by_size))
            of_sizes = {key: SizeLosses(by_seed=seeds) for key, seeds in by_size.items()}
            olds.append(ArmLosses(name=str(arm), by_size=of_sizes, flags=()))
        made = compare_arms(arm_table(*arms), target=(16.0, 16.0), level=LEVEL)
        test = compare_laws(two_arms(*olds))
        at = (16.0, 16.0)
        mean = np.mean([math.log(truth[1](*key) / truth[0](*key)) for key in grid])
        row_out: dict[str, object] = {"repetition": i}
        name = "none" if effect == 0 else f"effect {effect}"
        row_out[f"old p {name}"], row_out[f"new p {name}"] = test.p_value, made.p_value
        found = (
            ("new", "target", made.at_target, truth[1](*at) / truth[0](*at) - 1),
            ("new", "mean", made.mean, math.expm1(float(mean))),
            ("old", "mean", _mean_difference(test, level=LEVEL), math.expm1(float(mean))),
            ("new", "exponent", made.exponent_difference, -0.05 * (effect == 3)),
            ("new", "worth", made.worth[0], math.nan),
        )
        for what, number, measure, is_true in found:
            row_out[f"{what} {number} held"] = _holds(measure, is_true)
            row_out[f"{what} {number} lower"], row_out[f"{what} {number} upper"] = measure.ci
        yield row_out


def _loss_of_two(width: float, examples: float, effect: int) -> float:
    scale = 0.98 if effect == 1 else 1.0
    power = 0.35 if effect == 3 else 0.4
    of_width = (1.2 * 0.95 if effect == 2 else 1.2) * width**-power
    return scale * (1.5 + of_width + 1.2 * examples**-0.3)


NUMBERS = ("target", "mean", "smallest size", "largest size", "exponent", "plain exponent",
           "worth", "worth at target", "crossing")  # fmt: skip


def summary(folder: Path) -> pd.DataFrame:
    """One row per part and number: coverage, median half-width, share given, old and new."""
    lines: list[dict[str, object]] = []
    for path in sorted(folder.glob("*.csv")):
        frame = pd.read_csv(path)
        for number in NUMBERS:
            line: dict[str, object] = {"part": path.stem, "number": number, "n": len(frame)}
            for what in ("old", "new"):
                if f"{what} {number} held" not in frame:
                    continue
                rows = frame[frame[f"{what} {number} held"].notna()]
                if number == "crossing":
                    rows = rows[rows[f"{what} {number} is"].notna()]
                held = rows[f"{what} {number} held"].astype(float)
                low, high = (
                    rows[f"{what} {number} {side}"].astype(float) for side in ("lower", "upper")
                )
                if number.startswith(("worth", "crossing")):
                    low, high = np.log(low), np.log(high)
                width = ((high - low) / 2).fillna(np.inf)
                line |= {
                    f"{what} held": round(100 * held.mean(), 1),
                    f"{what} half": round(100 * width.median(), 3) if len(width) else np.nan,
                    f"{what} given": len(rows),
                }
            if "new half" in line and "old half" in line:
                line["ratio"] = round(line["new half"] / line["old half"], 2)  # type: ignore[operator]
            lines.append(line)
        effects = [c.removeprefix("new p ") for c in frame if c.startswith("new p ")]
        for effect in effects:
            line = {"part": path.stem, "number": f"p {effect}", "n": len(frame)}
            for what in ("old", "new"):
                p = frame[f"{what} p {effect}"].dropna()
                line[f"{what} held"] = round(100 * float((p <= TEST).mean()), 1)
                line[f"{what} given"] = len(p)
            lines.append(line)
    return pd.DataFrame(lines)


def run(folder: Path, n: int, seed: int, wanted: list[str]) -> None:
    """Run the parts whose file is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts().items():
        path = folder / f"{name}.csv"
        if path.exists() or (wanted and name not in wanted):
            continue
        pd.DataFrame(list(part(n, seed))).to_csv(path, index=False, float_format="%.6g")


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        with pd.option_context("display.max_rows", None, "display.width", 200):
            sys.stdout.write(summary(Path(sys.argv[2])).to_string(index=False) + "\n")
    else:
        folder, *rest = sys.argv[1:]
        n_repetitions = int(rest[0]) if rest else 400
        run(Path(folder), n_repetitions, int(rest[1]) if len(rest) > 1 else 1, rest[2:])
