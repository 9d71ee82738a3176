"""Keep the hard examples or the easy ones? And: which to label next?

A teacher perceptron, handwritten digits and Python's own source are learned from so many different
examples, chosen at random or as the hardest or easiest part of a pool that is larger by 1 / keep.
Every seed draws a pool, a start and batches, from one data set with one held-out part (and one
teacher): pools of digits overlap by half and more, the active learner's is all 1198 for every
seed, so intervals over seeds hold for these data alone. The steps of a run are the same whatever
it keeps, and the learning rate is tuned by size for each choice, on grids that grow.

Expected (Sorscher, Geirhos, Shekhar, Ganguli, Morcos 2022, "Beyond neural scaling laws: beating
power law scaling via data pruning", arXiv 2206.14486, Figures 1 and 2): where examples are
scarce the easy ones win, where they are plentiful the hard ones, and hard pruning then beats the
power law of random examples; a metric of difficulty that is wrong by some degrees gives that away.
Nobody tells what a choice by contexts does to the next byte.

Found, with 95 % intervals over seeds. Told, or beyond noise: the interval of the difference at a
size, each seed judged at the rates the others choose and widened for the number of sizes, leaves
out 0 (`extrap.comparing.paired_sizes`).

- The perceptron of 100 features: easy and hard examples change places at 240 (190 to 277) kept
  ones where half of the pool is kept, at 214 (163 to 255) where a fifth is; told on both sides.
  From 200 to 800 kept, a range set before these runs, the error falls with an exponent of 1.54
  (1.18 to 1.88) with the hardest fifth, of .84 (.77 to .92) with random examples.
- A probe 20° off: places change at 217 (195 to 232) and only at 430 (374 to 469). The hardest
  fifth beats random examples beyond 571 (494 to 646), with a known plane beyond 148 (127 to 212):
  told on both sides. At 1600 its error is 31 % (10 to 48) less than theirs, not 64 % (56 to 70).
- Digits: by margins of a model that has seen all labels at 97 (68 to 119) kept ones of seven
  tenths and 92 (79 to 106) of four tenths, told, but below it by 32 digits alone, where the best
  rate of hard ones lies at the edge of its grid. By prototypes of pixels easy ones are nowhere
  told to win; the harder seven tenths have a loss 22 % (4 to 36) lower at 64 kept ones and 14 %
  (2 to 25) at 128; at 256 and 448 it is not told.
- Bytes: random contexts have the lowest loss everywhere. Told against the easier half, which costs
  6 to 10 %, at all three sizes; the harder half, 20 to 26 %, at two; the easier eight tenths, 2 %,
  and the harder, 8 to 15 %, at one each. Three seeds tell little.
- An active learner needs 503 (465 to 534) labels for the loss of 1600 random ones on the
  perceptron, 69 % (67 to 71) fewer, and saves 62 % (56 to 65) of 448 on digits. With the first
  hundred labels of the perceptron, or 32 of digits, it saves nothing that is told.

Random examples of the perceptron have steps enough: with twice as many their error at 1600 is 1 %
lower, in three seeds. The hardest fifth has not (.0111 and .0090), and the error of the active
learner stops falling at 800; both are upper bounds. No best rate of the perceptron or of bytes
lies at the edge of its grid. From 16 000 to 64 000 random contexts the loss of bytes falls by 1 %
only: something else than contexts is short there. Laws of compute say nothing here, for all runs
of a problem take the same.

Cost: 5225 runs, 1559 seconds of training on cores shared with much other work.

`data_selection.csv` has every run; docs/measured.md has its figures.
"""

from __future__ import annotations

from dataclasses import replace

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup

SEEDS = tuple(range(8))
PLANE = StudySpec(
    name="perceptron",
    question="How fast does the error of a perceptron fall with random examples?",
    workload=Workload(name="perceptron", options={"dimension": 100}),
    recipe=Recipe(
        steps=1500, batch_size=128, optimizer="adam", schedule="constant", warmup=0.0, n_evals=5
    ),
    sizes={"examples": (50, 100, 200, 400, 800, 1600)},
    tune={"lr": TunedRange(low=0.001, high=0.1, n=5)},
    seeds=SEEDS,
    growth=2,
)
DIGITS = StudySpec(
    name="digits",
    question="How fast does the loss on digits fall with random examples?",
    workload=Workload(name="digits", options={"width": 64}),
    recipe=Recipe(steps=250, batch_size=64, optimizer="adamw", weight_decay=0.1, n_evals=5),
    sizes={"examples": (32, 64, 128, 256, 448)},
    tune={"lr": TunedRange(low=0.0003, high=0.0081, n=4)},
    seeds=SEEDS,
    growth=2,
)
TEXT = StudySpec(
    name="bytes",
    question="How fast does the loss on bytes fall with random examples?",
    workload=Workload(name="bytes-mlp", options={"width": 32}),
    recipe=Recipe(steps=300, batch_size=128, optimizer="adamw", weight_decay=0.1, n_evals=5),
    sizes={"examples": (4000, 16_000, 64_000)},
    tune={"lr": TunedRange(low=0.0006, high=0.0096, n=3)},
    seeds=SEEDS[:3],
    growth=2,
)


def chosen(
    plain: StudySpec, select: str, keep: float = 1.0, variant: str = "", **options: float | str
) -> StudySpec:
    """The plain study with its examples chosen.

    Args:
        plain: The study with random examples.
        select: How.
        keep: Fraction of the pool that is kept.
        variant: What the name ends in.
        options: Further options of the workload.
    """
    words = [plain.name, select, *([f"{keep:g}"] if keep < 1 else []), variant]
    given = {"select": select, **({"keep": keep} if keep < 1 else {}), **options}
    return replace(
        plain,
        name="-".join(filter(None, words)),
        question=f"{plain.question[:-1]}, {select} ones?",
        workload=Workload(name=plain.workload.name, options={**plain.workload.options, **given}),
    )


def group(
    name: str,
    question: str,
    plain: StudySpec,
    keeps: tuple[float, ...],
    expected: str = "",
    variant: str = "",
    **options: float | str,
) -> RecipeGroup:
    """Hard and easy examples at several kept fractions against random ones."""
    arms = {"random": plain}
    for keep in keeps:
        for select in ("hard", "easy"):
            arms[f"{select} {keep:g}"] = chosen(plain, select, keep, variant, **options)
    return RecipeGroup(
        name=name,
        question=question,
        arms=arms,
        target={"examples": float(max(plain.sizes["examples"]))},
        expected=expected,
    )


def labelled(name: str, plain: StudySpec, pool: int) -> RecipeGroup:
    """An active learner against random labels."""
    return RecipeGroup(
        name=name,
        question="How many labels does an active learner save?",
        arms={"random": plain, "active": chosen(plain, "active", pool=pool)},
        target={"examples": float(max(plain.sizes["examples"]))},
        expected="Active learning and hard pruning choose by the same doubt; with few labels the "
        "doubts of a model are those of its ignorance.",
    )


COMPARISON = ComparisonStudy(
    name="data_selection",
    question="Which examples are worth keeping, and which to label next?",
    groups=(
        group(
            "Perceptron",
            "Which examples teach a plane best, where their margins are known?",
            PLANE,
            (0.5, 0.2),
            "Easy ones win below, hard ones above some two to four examples a feature; the fewer "
            "are kept the more (Sorscher et al., Figure 1).",
        ),
        group(
            "Perceptron, probe 20° off",
            "And where the margins are those of a plane that is 20° off?",
            PLANE,
            (0.5, 0.2),
            "The gain of hard examples breaks down as more are pruned (their Figure 2).",
            variant="probe-20-off",
            probe_angle=20.0,
        ),
        group(
            "Digits, prototypes",
            "Which digits are worth keeping by their distance to prototypes of pixels?",
            DIGITS,
            (0.7, 0.4),
            "Easy ones where digits are scarce, hard ones where there are many.",
            variant="prototypes",
            balance=1.0,
        ),
        group(
            "Digits, margins",
            "And by the margin of a linear model that has seen all labels?",
            DIGITS,
            (0.7, 0.4),
            "As above, and clearer: supervised metrics do as well as memorisation.",
            variant="margins",
            difficulty="margin",
        ),
        group(
            "Bytes",
            "Which contexts are worth keeping by their distance to prototypes?",
            TEXT,
            (0.8, 0.5),
        ),
        labelled("Perceptron, labels", PLANE, 4000),
        labelled("Digits, labels", DIGITS, 1198),
    ),
)
