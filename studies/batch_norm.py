"""Does batch normalisation shift the law of the loss over width, or change its exponent?

Three recipes on the digits that come with scikit-learn, at equal updates, examples and seeds: an
MLP without normalisation, with batch normalisation, and with the same over ghosts of 32 examples.
Each has a rate of its own at every width. Expected: a lower loss at every width and no other
exponent, since normalisation eases the training more than it changes what a width can express;
ghosts a little better than whole batches (Hoffer, Hubara and Soudry 2017, arXiv:1705.08741).

Found: with batch normalisation the loss is 34 to 52 % lower at the seven widths, in no order; at
width 64 six runs each differ by 49.7 % (37.6 to 59.5 %); 62.5 % (44.0 to 75.3 %) was forecast.
Ghosts are better at every width, by 1 to 22 %, significantly at 3 of 7; at width 64 they cannot be
told from whole batches, 3.1 % (-30.2 to 27.9 %), where 15.5 % (10.2 to 24.9 %) was forecast. The
losses are those of 1,797 digits and scatter widely, so no law over width is known well.

Cost: about 750 small runs, three minutes on two processor cores.
"""

from dataclasses import replace

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup

DIGITS = "studies/digits_workload.py:Digits"  # from the directory you start in
PLAIN = StudySpec(
    name="norm-none",
    question="How does the loss fall with width without normalisation?",
    workload=Workload(name=DIGITS),
    recipe=Recipe(steps=400, batch_size=128, n_evals=2),
    sizes={"width": (4, 6, 8, 12, 16, 24, 32)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
    seeds=(0, 1, 2, 3, 4),
    target_seeds=(10, 11, 12, 13, 14, 15),
)
NORMED = replace(PLAIN, name="norm-batch", workload=Workload(name=DIGITS, options={"ghost": 0}))
GHOSTS = replace(PLAIN, name="norm-ghosts", workload=Workload(name=DIGITS, options={"ghost": 32}))
COMPARISON = ComparisonStudy(
    name="batch_norm",
    question="Does batch normalisation move the law of the loss over width?",
    groups=(
        RecipeGroup(
            name="Batch normalisation",
            question="Is a normalised MLP better at every width, and does it fall faster?",
            arms={"no norm": PLAIN, "batch norm": NORMED},
            target={"width": 64},
            expected="A lower loss at every width, the same exponent.",
            check_target=True,
        ),
        RecipeGroup(
            name="Ghosts",
            question="Are statistics over 32 examples better than over all 128?",
            arms={"batch norm": NORMED, "ghosts of 32": GHOSTS},
            target={"width": 64},
            expected="A little better (Hoffer et al. 2017): their noise regularises.",
            check_target=True,
        ),
    ),
)
