"""Which ablations raise the useful batch, and what does each cost in the final loss?

Each treatment stands beside the plain run at equal examples, seed by seed. An arm's learning rate
is chosen on seeds of its own; twelve others judge, eleven where momentum meets batch 1024, for one
run diverged. Differences of the final held-out loss in nats, with 95 % intervals; seed noise is
the standard deviation of one plain run.

Expected, after the papers below, and found:

- Growing the batch where the rate would fall loses nothing. It loses little: four times the batch
  instead of a quarter of the rate, three times over, from 32 to 2048, is 2.15 times fewer updates.
  SGD with momentum ends +.0073 (+.0041 to +.0105) higher, within its seed noise of .012 and yet
  told from 0. Grown to 512 only, 2.11 times fewer, +.0057 (+.0028 to +.0087). Adam: +.0020
  (−.0018 to +.0058).
- Ghosts of 32 close a part of the gap between batch 1024 and 32. Here about all of it: the gap is
  .0255 (.0057 to .0453), the share 1.58 (.99 to 5.24), every arm at its own best rate.
- No rule for the rate holds everywhere. Here × √k ends where re-tuning does, or a little lower, as
  a grid is coarse: Adam at 8 times the batch −.0118 (−.0208 to −.0028), at 32 times −.014 (−.060
  to .032), SGD on digits at 32 times −.0039 (−.0191 to .0113). Kept, the rate does worse in all
  three; times k it does for Adam. None gets back what fewer updates cost: Adam 3.0 % at 8 times,
  14 % at 32.
- Momentum helps at a large batch alone: +.0021 (−.0069 to +.0111) at batch 32, −.284 (−.318 to
  −.249) at 1024.

Grids, drops and seeds to tune by were settled on other judging seeds, 100 to 111. There SGD grown
to 2048 ended .0091 (.0051 to .0131) higher on a grid of whole octaves, a little beyond its noise
of .012; .0058 (.0012 to .0105) on half octaves. Shares of the gap were 1.26 and 1.25.

Cost: 597 runs, 550 seconds of processor time on cores shared with other work, so less than five
minutes on two that do nothing else. On a GPU `--set sizes.width=512` asks it of larger models.

`batch_ablations.csv` has every run; docs/measured.md has its figures.

Papers: Smith, Kindermans, Ying, Le 2018, arXiv 1711.00489; Hoffer, Hubara, Soudry 2017, arXiv
1705.08741; Shallue et al. 2018, arXiv 1811.03600.
"""

from __future__ import annotations

from dataclasses import replace

from extrap.records import Ablation, AblationStudy, Recipe, StudySpec, TunedRange, Workload

SMALL, TIMES, MUCH = 32, (8, 32), 32
"""The small batch, multiples of it, and the one at which normalisation and momentum are met."""

DROPS = Recipe(
    steps=4160,  # so that every phase is a whole number of updates
    batch_size=SMALL,
    optimizer="sgd",
    schedule="steps",
    drops=(0.4, 0.6, 0.8),
    drop_factor=4,
    n_evals=10,
)
DECAYED = StudySpec(
    name="sgd-decayed",
    question="What does the usual schedule reach?",
    workload=Workload(name="bytes-mlp"),
    recipe=DROPS,
    sizes={"width": (64,)},
    tune={"lr": TunedRange(low=2**-5.5, high=2**-3.5, n=5)},
    seeds=(0, 1, 2),
    growth=2,
)
GROWN = replace(DECAYED, name="sgd-grown", recipe=replace(DROPS, decay_by="batch"))
TWICE_DECAYED = replace(DECAYED, name="sgd-decayed-twice", recipe=replace(DROPS, drops=(0.4, 0.6)))
TWICE_GROWN = replace(
    TWICE_DECAYED,
    name="sgd-grown-twice",
    recipe=replace(TWICE_DECAYED.recipe, decay_by="batch"),
)
ADAM_DECAYED = replace(
    DECAYED,
    name="adam-decayed",
    recipe=replace(DROPS, optimizer="adam"),
    tune={"lr": TunedRange(low=2**-9, high=2**-7, n=5)},
)
ADAM_GROWN = replace(
    ADAM_DECAYED, name="adam-grown", recipe=replace(ADAM_DECAYED.recipe, decay_by="batch")
)

PLAIN = Recipe(steps=4160, batch_size=SMALL, optimizer="sgd", n_evals=10)
ADAM_SMALL = replace(
    DECAYED,
    name="adam-32",
    recipe=replace(PLAIN, optimizer="adam"),
    tune={"lr": TunedRange(low=2**-10, high=2**-6, n=5)},
)
SGD_SMALL = replace(
    DECAYED,
    name="sgd-32",
    recipe=replace(PLAIN, momentum=0.0),
    tune={"lr": TunedRange(low=2**-3, high=2**1, n=5)},
)
MOMENTUM_SMALL = replace(
    DECAYED, name="momentum-32", recipe=PLAIN, tune={"lr": TunedRange(low=2**-7, high=2**-3, n=5)}
)


def larger(spec: StudySpec, times: int, low: float, high: float, n: int) -> StudySpec:
    """A study at so many times the batch, with as many examples, over a grid of its own."""
    batch = times * spec.recipe.batch_size
    name = spec.name.replace(f"-{spec.recipe.batch_size}", f"-{batch}")
    recipe = replace(spec.recipe, batch_size=batch, steps=spec.recipe.steps // times)
    return replace(
        spec, name=name, recipe=recipe, tune={"lr": TunedRange(low=low, high=high, n=n)}
    )


ADAM_LARGER = {
    8: larger(ADAM_SMALL, 8, 2**-8, 2**-4, 5),
    32: larger(ADAM_SMALL, 32, 2**-8, 2**-4, 5),
}
SGD_LARGE = larger(SGD_SMALL, MUCH, 2**-3, 2**1, 5)
MOMENTUM_LARGE = larger(MOMENTUM_SMALL, MUCH, 2**-4, 2**0, 5)

DIGITS = "studies/digits_workload.py:Digits"  # from the directory you start in
NOISE = 0.1
"""Part of the labels that are wrong."""
EPOCHS_OF_32 = 1504  # 40 epochs of 1,198 images, and 47 updates of 1,024
NORM_SMALL = StudySpec(
    name="digits-32",
    question="What does the small batch reach?",
    workload=Workload(name=DIGITS, options={"ghost": 0, "label_noise": NOISE}),
    recipe=replace(PLAIN, steps=EPOCHS_OF_32),
    sizes={"width": (128,)},
    tune={"lr": TunedRange(low=2**-8, high=2**-3, n=6)},
    seeds=(0, 1, 2, 3, 4, 5),  # the optimum is flat, and some seeds more tell it from luck
    growth=2,
)
NORM_LARGE = larger(NORM_SMALL, MUCH, 2**-5, 2**2, 8)
NORM_GHOST = replace(
    NORM_LARGE,
    name="digits-1024-ghost-32",
    workload=Workload(name=DIGITS, options={"ghost": 32, "label_noise": NOISE}),
)


def rate_rules(plain: StudySpec, treated: StudySpec, what: str, data: str) -> tuple[Ablation, ...]:
    """Three rules for the rate at so many times the batch, and a rate tuned anew."""
    times = treated.recipe.batch_size // plain.recipe.batch_size
    rules = {"rate kept": 1.0, "rate × √k": times**0.5, "rate × k": float(times), "re-tuned": None}
    return tuple(
        Ablation(
            name=f"{what} × {times}, {words}",
            group=f"A large batch, and the rate scaled along: {what} on {data}",
            question="What does a larger batch cost at equal examples, by how its rate is set?",
            plain=plain,
            treated=treated,
            rate=rate,
            beside="" if rate is None else f"{what} × {times}, re-tuned",
            expected="SGD's best rate grows with k while noise rules, Adam's with √k or faster; "
            "no rule holds on every workload (Shallue et al. 2018, arXiv 1811.03600).",
        )
        for words, rate in rules.items()
    )


def growth(plain: StudySpec, treated: StudySpec, what: str) -> Ablation:
    """Growing the batch at the rate of the arm whose rate falls."""
    return Ablation(
        name=f"batch grown to {what}",
        group="A batch that grows instead of a rate that falls",
        question="Is the final loss that of the falling rate, with fewer updates?",
        plain=plain,
        treated=treated,
        rate=1.0,
        expected="The same loss with fewer updates, as long as the batch is far below the number "
        "of training examples (Smith, Kindermans, Ying, Le 2018, arXiv 1711.00489).",
    )


MOMENTUM = {
    "group": "Momentum",
    "question": "Does momentum help at a large batch, and not at a small one?",
    "expected": "No gain at a small batch, one at a large batch: momentum extends perfect scaling "
    "(Shallue et al. 2018, arXiv 1811.03600).",
}
ABLATIONS = AblationStudy(
    name="batch_ablations",
    question="Which treatments raise the useful batch, and what does each cost in the final loss?",
    ablations=(
        growth(DECAYED, GROWN, "2048 (SGD)"),
        growth(TWICE_DECAYED, TWICE_GROWN, "512 (SGD)"),
        growth(ADAM_DECAYED, ADAM_GROWN, "2048 (Adam)"),
        Ablation(
            name="ghosts of 32 at batch 1024",
            group="Batch normalisation over ghosts",
            question="What share of the gap between a large and a small batch do ghosts close?",
            plain=NORM_LARGE,
            treated=NORM_GHOST,
            reference=NORM_SMALL,
            expected="A part of the gap (Hoffer, Hubara, Soudry 2017, arXiv 1705.08741).",
        ),
        *rate_rules(ADAM_SMALL, ADAM_LARGER[8], "Adam", "bytes-mlp"),
        *rate_rules(ADAM_SMALL, ADAM_LARGER[32], "Adam", "bytes-mlp"),
        *rate_rules(NORM_SMALL, NORM_LARGE, "SGD", "digits"),
        Ablation(
            name="momentum .9 at batch 32", plain=SGD_SMALL, treated=MOMENTUM_SMALL, **MOMENTUM
        ),
        Ablation(
            name="momentum .9 at batch 1024",
            plain=SGD_LARGE,
            treated=MOMENTUM_LARGE,
            beside="momentum .9 at batch 32",
            **MOMENTUM,
        ),
    ),
    judge_seeds=tuple(range(200, 212)),
)
