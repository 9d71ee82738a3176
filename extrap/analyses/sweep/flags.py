"""What flags and parameters of a forecast mean."""

from __future__ import annotations

from extrap.records.flags import NEVER_VARIED, REFUSED
from extrap.reporting.flags import Meaning

FLOOR_MEANING = "floor: the loss no size removes"
PARAMETERS = {
    "power": {"b": "loss at the reference size", "c": "exponent: how fast the loss falls"},
    "power_floor": {
        "b": "loss above the floor, at the reference size",
        "c": "exponent: how fast it falls",
    },
    "chinchilla": {
        "b": "loss above the floor at the reference size, its share",
        "c": "exponent: how fast it falls",
    },
    "skaling": {
        "s": "loss above the floor at the reference sizes, its scale",
        "c": "exponent: how fast it falls",
        "k": "how fully the two terms add; 1 is the Chinchilla law",
        "r": "weight of the second size beside the first",
    },
    "log_linear": {
        "a": "loss at the reference size",
        "b": "fall of the loss when a size grows e-fold",
    },
    "optimum_power": {
        "a": "logarithm of the optimum at the reference size",
        "b": "exponent: how the optimum moves with size",
        "bend": "change of the exponent with the logarithm of size",
    },
}
"""Law → parameter → its meaning; of numbered parameters, one a column, without the number."""


def explain_parameter(law: str, name: str) -> str:
    """What one parameter of a law stands for."""
    glosses = PARAMETERS.get(law.removesuffix("_tied"), {})
    letters = name.rstrip("0123456789")
    gloss = FLOOR_MEANING if name == "E" else glosses.get(name, glosses.get(letters, ""))
    return gloss if name == letters else f"{gloss}, column {name[len(letters) :]}"


MEANINGS: dict[str, Meaning] = {
    "no-finished-runs": (
        "A size has no finished run.",
        "The forecast rests on the other sizes, and says nothing of what happened there.",
        "Do what the reason names before a larger run.",
    ),
    "optimum-not-bracketed-everywhere": (
        "At some size the best value probably lies beyond the values tried.",
        "How far beyond, and the loss there, follow from the other sizes and from the slope at "
        "the last values. Their intervals are wider.",
        "Extend the grid of such a size.",
    ),
    "optimum-not-bracketed-anywhere": (
        "At every size the best value probably lies beyond the values tried.",
        "How far beyond follows from the slope at the last values alone.",
        "Extend the grids.",
    ),
    "runs-missing": (
        "A sampler chose values by results that the table does not have.",
        "The best value may look better known, and elsewhere, than it is.",
        "Keep the loss curves of pruned runs (--curves), or let more runs finish.",
    ),
    "outlier": (
        "The loss of a run is far from those of the same size and values with other seeds.",
        "One wrong loss can shift a law and widen its interval many times. A run far below seeds "
        "that agree is left out; any other run is kept.",
        "Inspect the run; if it is wrong, mark it as failed or repeat it.",
    ),
    "far-extrapolation": (
        "The target is more than 8 times the largest fitted size, or its compute.",
        "The interval is valid only if no new regime begins on the way.",
        "Add a size in between before a large run.",
    ),
    "refused-loss": (
        "The sweep says too little of the loss there.",
        "Half its 90 % interval is more than 20 % there or nearer to the sweep (or more than a "
        "quarter of the fall over the sweep), or the loss rises towards the largest size.",
        "Do what the reason names: more seeds, a finer or wider grid, or more sizes.",
    ),
    REFUSED: (
        "The best value is not known well enough there to be given.",
        "A run at the predicted one is expected to lose more than 3 % to the best, or diverges "
        "with a chance above 10 %.",
        "Do what the reason names: more seeds, a finer or wider grid, or more sizes.",
    ),
    NEVER_VARIED: (
        "The target trains for another number of tokens, examples or steps than every run of the "
        "sweep.",
        "What a longer or shorter run changes was not measured. In some published sweeps the best "
        "learning rate falls with tokens, in others it rises.",
        "Tune the small sizes at two other horizons; or ask for the sweep's own horizon.",
    ),
    "imprecise-loss": (
        "The loss is known only roughly.",
        "Half its 90 % interval is more than 5 %, or it holds the best loss of the largest size.",
        "Read the interval, not the number.",
    ),
    "flat": (
        "The value of this column hardly matters at the largest size.",
        "A range of values does as well as the best, and the best of them is not known.",
        "Leave the column out of the tuned values; keep one value.",
    ),
    "optimum-law-bends": (
        "The best values do not follow a power law in size.",
        "The sizes of the sweep hardly say how the bend goes on beyond them.",
        "Use the value near the sweep only; add a larger size before a distant run.",
    ),
    "recipes-pooled": (
        "Runs that differ in a setting are fitted as one recipe.",
        "The forecast is for their mixture, and what the setting changes counts as noise.",
        "Choose one value of the setting (--where), and compare the forecasts.",
    ),
    "no-replicates": (
        "No run was repeated with another seed.",
        "The noise is estimated from the scatter of runs about a smooth surface, which includes "
        "the misfit of that surface.",
        "Repeat the best cells with two more seeds.",
    ),
    "published-prior": (
        "Intervals of the loss also follow the errors of such forecasts on published ladders.",
        "They are those of language models over compute; another kind of loss may err more.",
        "If the loss is of another kind, leave the prior out (--prior none).",
    ),
    "accuracy-refused": (
        "The loss is 1 − accuracy, which follows no law of size.",
        "An accuracy is flat at chance and near its best. The best values are still forecast.",
        "Forecast the loss of the same runs; or say that 1 − accuracy falls as a loss does "
        "(--loss-kind error).",
    ),
    "accuracy-as-error": (
        "The loss is 1 − accuracy.",
        "Near chance and near its best an accuracy follows no law of size: on benchmarks of a "
        "language model three of nine intervals held.",
        "Forecast the loss of the same runs.",
    ),
    "floor-matters": (
        "The forecast moves with the irreducible loss, which the sweep hardly shows.",
        "Laws with other floors fit the sweep as well; the interval covers them.",
        "Pin the floor if it is known, say from larger models on the same data (--fix E=…).",
    ),
    "follows-size": (
        "A setting of the runs changes with their size.",
        "The forecast holds for a larger run whose setting goes on so; with the value of the "
        "largest runs it may be another.",
        "Let it go on so in the large run, or make runs of all sizes with the value it will have.",
    ),
    "too-few-sizes": (
        "A law has nearly as many parameters as there are sizes.",
        "It fits almost anything, so a good fit is no evidence.",
        "Add a size; small ones are cheap.",
    ),
    "undertrained-runs": (
        "Runs with few tokens per parameter (a small second size for their first) lie above what "
        "the other runs say.",
        "No law of two sizes describes runs of too few steps; the forecast treats their excess as "
        "a misfit of their own.",
        "Leave out runs far from the best split of their compute, or train them longer.",
    ),
    "columns-collinear": (
        "The size columns grow together.",
        "Their effects cannot be separated, so a forecast for one size that grows alone is "
        "not possible.",
        "Add runs that vary the sizes separately, or pin one exponent (--fix).",
    ),
    "floor-at-zero": (
        "The fitted floor is zero.",
        "The data do not show where the loss levels off, so distant forecasts are optimistic.",
        "Add larger sizes before relying on a distant forecast.",
    ),
    "size-without-effect": (
        "A size column does not lower the loss in the fitted range.",
        "The benefit of a larger one is then unknown.",
        "Check the runs; a larger size that is no better is often badly tuned.",
    ),
    "bound-hit": (
        "A parameter of a law is at the end of its allowed range.",
        "The losses do not determine it, so the forecast depends on the range.",
        "Add sizes that are further apart, or more seeds.",
    ),
    "exponent-weakly-identified": (
        "The exponent of a law is known only to within a factor of about two.",
        "The exponent matters most for a distant forecast.",
        "Add sizes that are further apart, or pin the floor if it is known.",
    ),
    "ill-conditioned": (
        "Parameters of a law are strongly correlated.",
        "The curve is well determined, its parameters are not.",
        "Read the forecast, not the parameters; add sizes at the ends of the range.",
    ),
    "starts-disagree": (
        "Two settings of a law's parameters fit the losses equally well.",
        "They differ beyond the sweep, and only one of them is shown.",
        "Add sizes that are further apart, or pin a parameter that is known.",
    ),
    "lack-of-fit": (
        "The losses deviate from a law by more than the noise between seeds.",
        "A law that misses the measured losses may miss larger ones too; if no law fits all "
        "sizes, the forecast uses the largest ones alone.",
        "Look for a size that is off, a break, or a setting that changed; add sizes.",
    ),
    "loss-turns-negative": (
        "A log-linear law falls below zero at some size.",
        "A loss cannot, so the law does not hold far out.",
        "Use it near the data only.",
    ),
    "no-loss-law": (
        "Too few sizes have a finished run for a law of the loss.",
        "The loss of a larger run is then bounded on one side only.",
        "Finish runs, or add sizes; at least three sizes need a run with a loss.",
    ),
    "too-few-sizes-for-a-floor": (
        "A law with a floor needs one more size than the sweep has.",
        "Without a floor the loss falls without limit, so a distant forecast is optimistic.",
        "Add a size; small ones are cheap.",
    ),
    "pinned": (
        "A parameter was given, not fitted.",
        "Intervals treat it as exact and are too narrow if it is not.",
        "Compare with a forecast that fits it.",
    ),
    "even-grid": (
        "The sizes have several columns, where an even grid narrowed the loss more than the plan.",
        "On Step Law's runs the plan left an interval of the loss 1.4 times as wide.",
        "Prefer an even grid over all sizes if the loss matters most.",
    ),
    "cost-extrapolated": (
        "The exponent with which the cost of a run grows changes between the largest sizes.",
        "Costs beyond the sweep and shares of compute follow the last one.",
        "Give the cost as a formula (--cost), or the FLOPs of the run (--flops).",
    ),
    "cost-does-not-grow": (
        "Larger sizes do not cost more, as happens with hours of models too small to fill a GPU.",
        "Savings in compute cannot be computed from such costs.",
        "Give a column flops, or a formula (--cost).",
    ),
    "cost-of-a-run-unknown": (
        "Neither the table nor an option gives the cost of a run at that size.",
        "Without it there are no FLOPs, hours or prices.",
        "Give --flops or --gpu-hours, or a column flops.",
    ),
    "hours-unknown": (
        "A price was given, but not how long a run takes.",
        "Without hours a price cannot be computed.",
        "Give --gpu-hours, or --flops-per-second.",
    ),
    "far-off": (
        "The value is farther from the optimum than any value tried.",
        "Its cost is extrapolated from that of nearer values, and is capped.",
        "Treat it as far too high or too low, and try a value closer to the forecast.",
    ),
}
"""Flag, or its code → what it means."""
