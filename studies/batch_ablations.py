"""Which treatments raise the useful batch, and what does each cost in the final loss?

Each treatment is compared with a plain run at one size, at equal examples and seven common seeds,
every arm at its own best rate. Differences of the tuned held-out loss, with 95 % intervals.
Expected, after the papers below, and found:

- Growing the batch where the rate would fall loses nothing. It loses little: four times the batch
  instead of a quarter of the rate, three times over, from 32 to 2048, is 2.15 times fewer updates,
  and SGD with momentum ends at +.32 % (.11 to .53 %). Grown to 512 only, 2.11 times fewer, no
  difference is significant: +.12 % (−.23 to .47 %), nor for Adam: +.01 % (−.18 to .20 %).
- Ghosts of 32 close a part of the gap from batch 1024 to 32: 85 % of it (45 to 151 %). The small
  batch ends at −15.1 % (−23.6 to −5.7 %), the ghosts at −13.0 % (−20.7 to −4.5 %). At batch 1024
  the loss is no smooth curve of the rate, so its loss is that of the best rate tried.
- Larger batches cost more and more. Adam on bytes: +2.1 % (1.3 to 2.8 %) at batch 256, +12.3 %
  (10.8 to 13.9 %) at 1024. SGD on digits: +17.8 % (6.0 to 30.9 %) at 1024.
- Momentum helps a large batch alone: +.2 % (−.2 to .6 %) at 32, −10.9 % (−13.0 to −8.7 %) at 1024.

Cost: 602 runs, 41 minutes on two busy cores; `--set sizes.width=512` asks it of larger models.

Papers: Smith, Kindermans, Ying, Le 2018, arXiv 1711.00489; Hoffer, Hubara, Soudry 2017, arXiv
1705.08741; Shallue et al. 2018, arXiv 1811.03600.
"""

from __future__ import annotations

from dataclasses import replace

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup, ablations

DIGITS = "studies/digits_workload.py:Digits"  # from the directory you start in


def octaves(low: float, high: float, n: int = 5) -> dict[str, TunedRange]:
    """A grid of rates between two powers of two."""
    return {"lr": TunedRange(low=2.0**low, high=2.0**high, n=n)}


def larger(spec: StudySpec, times: int, rates: dict[str, TunedRange]) -> StudySpec:
    """A sweep at so many times the batch, with as many examples, over a grid of its own."""
    recipe, small = spec.recipe, spec.recipe.batch_size
    recipe = replace(recipe, batch_size=times * small, steps=recipe.steps // times)
    name = spec.name.replace(f"-{small}", f"-{times * small}")
    return replace(spec, name=name, recipe=recipe, tune=rates)


PLAIN = Recipe(steps=4160, batch_size=32, optimizer="sgd", n_evals=10)
DROPS = replace(PLAIN, schedule="steps", drops=(0.4, 0.6, 0.8), drop_factor=4)
DECAYED = StudySpec(
    name="sgd-decayed",
    question="What does the usual schedule reach?",
    workload=Workload(name="bytes-mlp"),
    recipe=DROPS,  # its phases are whole numbers of updates at every batch
    sizes={"width": (64,)},
    tune=octaves(-5.5, -3.5),
    seeds=(0, 1, 2, 3, 4, 5, 6),
    growth=2,
)
TWICE = replace(DECAYED, name="sgd-decayed-twice", recipe=replace(DROPS, drops=(0.4, 0.6)))
ADAM_DECAYED = replace(DECAYED, name="adam-decayed", recipe=replace(DROPS, optimizer="adam"))
ADAM_DECAYED = replace(ADAM_DECAYED, tune=octaves(-9, -7))
ADAM = replace(ADAM_DECAYED, name="adam-32", recipe=replace(PLAIN, optimizer="adam"))
ADAM = replace(ADAM, tune=octaves(-10, -6))
SGD = replace(DECAYED, name="sgd-32", recipe=replace(PLAIN, momentum=0.0), tune=octaves(-3, 1))
MOMENTUM = replace(DECAYED, name="momentum-32", recipe=PLAIN, tune=octaves(-7, -3))
IMAGES = replace(
    DECAYED,
    name="digits-32",
    workload=Workload(name=DIGITS, options={"ghost": 0, "label_noise": 0.1}),
    recipe=replace(PLAIN, steps=1504),  # 40 epochs of 1,198 images, and 47 updates of 1,024
    sizes={"width": (128,)},
    tune=octaves(-8, -3, 6),
)
IMAGES_LARGE = larger(IMAGES, 32, octaves(-3, 2, 6))
GHOSTS = replace(
    IMAGES_LARGE,
    name="digits-1024-ghost-32",
    workload=Workload(name=DIGITS, options={"ghost": 32, "label_noise": 0.1}),
)


def growth(decayed: StudySpec, last: int, what: str) -> RecipeGroup:
    """The batch grown to `last` where the rate would fall."""
    grown = {f"batch to {last}": replace(decayed.recipe, decay_by="batch")}
    return replace(
        ablations(decayed, grown, plain_name="rate falls"),
        name=f"Batch grown, {what} to {last}",
        question="Does a batch that grows end as a rate that falls, with fewer updates?",
        expected="The same loss (Smith, Kindermans, Ying, Le 2018), far below the whole data.",
    )


def batches(plain: StudySpec, treated: dict[str, StudySpec], what: str) -> RecipeGroup:
    """Larger batches at equal examples, each with its own best rate."""
    return replace(
        ablations(plain, treated, plain_name="batch 32"),
        name=f"Larger batches, {what}",
        question="What do fewer, larger updates cost at equal examples, the rate tuned anew?",
        expected="Nothing up to the critical batch, more beyond it (Shallue et al. 2018).",
    )


def momentum(plain: StudySpec, treated: StudySpec) -> RecipeGroup:
    """Momentum .9 at one batch."""
    return replace(
        ablations(plain, {"momentum .9": treated}, plain_name="no momentum"),
        name=f"Momentum at batch {plain.recipe.batch_size}",
        question="Does momentum help at a large batch, and not at a small one?",
        expected="A gain at a large batch only (Shallue et al. 2018).",
    )


LARGER_ADAM = {f"batch {32 * k}": larger(ADAM, k, octaves(-8, -4)) for k in (8, 32)}
COMPARISON = ComparisonStudy(
    name="batch_ablations",
    question="Which treatments raise the useful batch, and what does each cost in the final loss?",
    groups=(
        growth(DECAYED, 2048, "SGD"),
        growth(TWICE, 512, "SGD"),
        growth(ADAM_DECAYED, 2048, "Adam"),
        replace(
            ablations(
                IMAGES_LARGE,
                {"ghosts of 32": GHOSTS, "batch 32": IMAGES},
                plain_name="batch 1024",
            ),
            name="Ghosts at batch 1024",
            question="What share of the gap between batch 1024 and 32 do ghosts close?",
            reference="batch 32",
            expected="A part of it (Hoffer, Hubara, Soudry 2017).",
        ),
        batches(ADAM, LARGER_ADAM, "Adam on bytes"),
        batches(IMAGES, {"batch 1024": IMAGES_LARGE}, "SGD on digits"),
        momentum(SGD, MOMENTUM),
        momentum(larger(SGD, 32, octaves(-3, 1)), larger(MOMENTUM, 32, octaves(-4, 0))),
    ),
)
