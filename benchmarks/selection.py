"""Data selection: where hard examples begin to win, and what an active learner saves.

    python -m benchmarks.selection [TABLE]

1. The run table of `studies/data_selection.py`, `studies/data_selection.csv`, read anew: where
   easy and hard examples change places, by how much the error falls faster with hard ones, and
   the labels an active learner saves at the loss of random ones.
2. The perceptron again by other means: the separating plane of largest margin, or next to it, by
   scikit-learn's linear support vectors, on examples of other seeds, at both ends of the sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.svm import LinearSVC

from benchmarks.rows import Row
from extrap.comparing.paired_sizes import exponent_between
from extrap.comparing.selections import SelectionFindings, selection_findings
from extrap.records import Measure
from extrap.selection import select_by

STUDIES = Path(__file__).parents[1] / "studies"
TABLE = STUDIES / "data_selection.csv"
DIMENSION, KEEP, N_SEEDS, FIRST_SEED = 100, 0.2, 6, 1000
ENDS = (50, 800)
RANGE = (200.0, 800.0)
"""Examples between which exponents are held against each other: past the change of places, before
the last size, which is short of steps; set before the runs of 1500 steps were seen."""
SCOPE = (
    "Intervals are over seeds that draw from one data set, with one held-out part (and teacher); "
    "they say nothing of other data. Beyond seed noise: told on both sides, corrected for the "
    "number of sizes."
)
EDGE = "a best rate it rests on lies at the edge of its grid"
LABELS_SAVED = 0.2
LITTLE_PENALTY = 100.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was measured.

    Attributes:
        problems: Name of a problem → what its sweeps say.
        ratios: Kept examples → log error of hard ones − of easy ones, a seed each, by the plane
            of largest margin.
    """

    problems: Mapping[str, SelectionFindings]
    ratios: Mapping[int, np.ndarray]


def measure(table: Path = TABLE) -> Found:
    """Everything the rows are made of."""
    found = selection_findings(pd.read_csv(table))
    ratios = {}
    for n in ENDS:
        hard, easy = (perceptron_errors(n, which) for which in ("hard", "easy"))
        ratios[n] = np.log(hard / easy)
    return Found(problems={each.problem: each for each in found}, ratios=ratios)


def perceptron_errors(n_kept: int, which: str) -> np.ndarray:
    """Errors of planes of largest margin, one a seed, on the kept part of a pool."""
    errors = []
    for seed in range(FIRST_SEED, FIRST_SEED + N_SEEDS):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((round(n_kept / KEEP), DIMENSION))
        teacher = np.zeros(DIMENSION)
        teacher[0] = 1.0
        y = np.where(x @ teacher > 0, 1, -1)
        kept = select_by(-np.abs(x @ teacher), keep=KEEP, which=which).rows
        plane = LinearSVC(C=LITTLE_PENALTY, fit_intercept=False, dual=False, max_iter=10_000)
        w = plane.fit(x[kept], y[kept]).coef_[0]
        errors.append(np.arccos(w @ teacher / np.linalg.norm(w)) / np.pi)
    return np.array(errors)


def rows(found: Found) -> list[Row]:
    """The figures."""
    lines: list[Row] = []
    for problem, each in found.problems.items():
        lines += [_crossover_row(problem, each, keep) for keep in each.keeps]
        if each.labels:
            lines.append(_labels_row(problem, each))
    plane = found.problems.get("perceptron")
    if plane is not None:
        lines.append(_exponent_row(plane))
    return [*lines, _margin_row(found.ratios)]


def _crossover_row(problem: str, found: SelectionFindings, keep: float) -> Row:
    crossing = found.crossovers[keep]
    is_plane = problem == "perceptron"
    reached = "no change of places"
    if crossing.below:
        told = "beyond seed noise" if crossing.is_told else "not told from seed noise"
        if crossing.earlier:
            told += "; before at " + ", ".join(f"{size:.0f}" for size in crossing.earlier)
        if crossing.is_edge:
            told += f"; {EDGE}"
        reached = (
            f"{crossing.below.split()[0]} below {_counted(crossing.size)} kept examples, "
            f"{crossing.above.split()[0]} above; {told}"
        )
    is_bounded = None not in tuple(crossing.size.ci)
    met = crossing.is_told and crossing.below.startswith("easy") and is_bounded
    return Row(
        part="studies/data_selection",
        figure=f"{problem}: easy and hard examples change places, keeping {keep:g}",
        target="easy → hard, beyond seed noise" if is_plane else "",
        reached=reached,
        met=met if is_plane else None,
        note=SCOPE,
    )


def _labels_row(problem: str, found: SelectionFindings) -> Row:
    within = [each for each in found.labels if each.needed.value is not None]
    reached = "; ".join(
        f"{each.saved.value:.0%} [{_side(each.saved.ci.lower)}, {_side(each.saved.ci.upper)}] of "
        f"{each.size:g}" + (f" ({EDGE})" if each.is_edge else "")
        for each in within[-2:]
    )
    last = within[-1].saved.ci.lower if within else None
    return Row(
        part="studies/data_selection",
        figure=f"{problem}: labels saved at the loss of random ones",
        target=f"an interval above {LABELS_SAVED:.0%}",
        reached=reached or "never as good",
        met=last is not None and last > LABELS_SAVED,
        note=SCOPE,
    )


def _exponent_row(found: SelectionFindings) -> Row:
    random, hard = (
        exponent_between(found.losses, way, *RANGE, level=found.level)
        for way in ("random", f"hard {KEEP:g}")
    )
    met = (hard.exponent.ci.lower or 0) > (random.exponent.ci.upper or np.inf)
    edge = f"; {EDGE}" if hard.is_edge or random.is_edge else ""
    return Row(
        part="studies/data_selection",
        figure=f"perceptron: fall of the error from {RANGE[0]:g} to {RANGE[1]:g} examples, "
        "−Δ ln loss / Δ ln examples",
        beat=f"random {_two(random.exponent)}; 1 is the power law's",
        target="hard above random",
        reached=f"hard {KEEP:g}: {_two(hard.exponent)}{edge}",
        met=bool(met),
        note="One range, set before the runs of this table; other pairs of sizes are on the page. "
        + SCOPE,
    )


def _margin_row(ratios: Mapping[int, np.ndarray]) -> Row:
    told = {}
    for n, values in ratios.items():
        se = values.std(ddof=1) / np.sqrt(len(values))
        half = stats.t.ppf(0.975, len(values) - 1) * se
        told[n] = (values.mean(), values.mean() - half, values.mean() + half)
    few, many = (told[n] for n in ENDS)
    return Row(
        part="plane of largest margin",
        figure=f"error of hard over that of easy examples − 1, keeping {KEEP:g}",
        target="above 0 where examples are scarce, below where not",
        reached="; ".join(
            f"{n} kept: {np.expm1(mean):+.0%} [{np.expm1(low):+.0%}, {np.expm1(high):+.0%}]"
            for n, (mean, low, high) in told.items()
        ),
        met=bool(few[1] > 0 > many[2]),
        note="Another student, by another library, on other seeds and other data.",
    )


def _counted(measure: Measure) -> str:
    value, (low, high) = measure.value, measure.ci
    return f"{value:.0f} [{_whole(low)}, {_whole(high)}]"


def _whole(side: float | None) -> str:
    return "?" if side is None else f"{side:.0f}"


def _side(side: float | None) -> str:
    return "?" if side is None else f"{side:.0%}"


def _two(measure: Measure) -> str:
    low, high = ("?" if side is None else f"{side:.2f}" for side in measure.ci)
    return f"{measure.value:.2f} [{low}, {high}]"


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
    for line in rows(measure(path)):
        sys.stdout.write(f"{line}\n")
