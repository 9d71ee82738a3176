"""Does sparsity shift the law of the loss, or change its exponent?

The byte MLP with 100, 50, 20 and 10 % of every weight matrix, each density tuned at every width:
sparse weight activation training, see `workloads.py`. The density falls from 1 over the first
quarter of the updates, which counts in the FLOPs.

Expected, after the papers below: at equal parameters a sparse model is a little worse, at equal
non-zero parameters better: a term in the density multiplies the power law of the non-zero
parameters and leaves its exponent alone. 90 % sparse, four fifths of the training FLOPs are gone.

Found, with 95 % intervals over pairs of seeds: 50 % sparse costs nothing significant (+1.7 % of
the loss at width 48, −.0 % at 384), 80 % sparse +8.6 % at 48 and +2.0 % (−1.2 to 5.2) at 384, 90 %
sparse +19 % and +4.4 % (2.8 to 6.1). The difference shrinks with width: at 1024, trained after the
forecast, −.7 (−1.5 to .2), −.0 (−.5 to .4) and +1.3 % (.9 to 1.6), all as forecast. 90 % sparse at
width 1024 takes 82 % fewer FLOPs by count.

With thresholds from every tenth update, commit 6310f3e, it was +.9 % (.0 to 1.8) there. Density .1
at width 512 was also tried sparse from the start (loss 1.94), with shares by layer shape (no
gain), with 10 % of the activations (1.5 % worse than 30 %); the fall from dense over 30 % of the
updates reached 1.88, dense 1.83.

Cost: 184 runs of 1,000 steps and twenty larger ones, 36 minutes of processor time.

`runs.csv` has every run; docs/measured.md has its figures.

Papers: Raihan and Aamodt 2020, "Sparse weight activation training", arXiv 2001.01969; Frantar,
Riquelme, Houlsby, Alistarh, Evci 2023, "Scaling laws for sparsely-connected foundation models",
arXiv 2309.08520; Zhu and Gupta 2017, "To prune, or not to prune", arXiv 1710.01878.
"""

from __future__ import annotations

from dataclasses import replace

from extrap.analyses.comparison import ComparisonStudy, RecipeGroup
from extrap.records import Recipe, StudySpec, TunedRange, Workload

DENSE = StudySpec(
    name="dense",
    question="What do all weights reach?",
    workload=Workload(name="bytes-mlp"),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1, n_evals=10),
    sizes={"width": (48, 96, 192, 384)},
    tune={"lr": TunedRange(low=2**-9, high=2**-6, n=5)},
    seeds=(0, 1),
    target_seeds=(0, 1, 2, 3, 4),
    growth=2,
)


def sparse(density: float) -> StudySpec:
    """The sweep of a density."""
    options = {"density": density, "updates": DENSE.recipe.steps}
    return replace(
        DENSE,
        name=f"sparse-{round(100 * (1 - density))}",
        question=f"What do {100 * density:g} % of the weights reach?",
        workload=Workload(name="studies/sparsity/workloads.py:SparseBytesMLP", options=options),
    )


ARMS = {"dense": DENSE, **{f"{100 * (1 - d):g} % sparse": sparse(d) for d in (0.5, 0.2, 0.1)}}

COMPARISON = ComparisonStudy(
    name="sparsity",
    question="Does sparsity shift the law of the loss, or change its exponent?",
    groups=(
        RecipeGroup(
            name="Sparse weights and activations",
            question="At equal parameters and updates, what does a sparse model lose?",
            arms=ARMS,
            target={"width": 1024},
            expected="A shift and no other exponent: the density multiplies the power law of the "
            "parameters (Frantar et al. 2023, arXiv 2309.08520).",
            check_target=True,
        ),
    ),
)
