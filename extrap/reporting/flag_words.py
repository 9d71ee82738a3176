"""Every flag in three parts: what it means, why that matters, and what to do about it.

Families keep apart what different results call alike: `forecast` (forecasts, fits and points),
`allocation`, `batches`, `knobs`, `comparison` and `cascade`.
"""

from __future__ import annotations

__all__ = ["FAMILIES", "NO_TUNED_LAW", "UNKNOWN"]

Words = tuple[str, str, str]
"""What it means; why it matters; what to do."""

_FORECAST: dict[str, Words] = {
    "brackets-first": (
        "At some size the best value lies at the end of those tried, so these runs come first.",
        "Before they are there, nothing can be told of what further runs would narrow.",
        "Train the runs marked bracket, then plan again.",
    ),
    "cost-extrapolated": (
        "The curve through what runs cost misses the cost of a swept size by more than 5 %.",
        "Costs beyond the sweep, and shares of compute, are off by as much or more.",
        "Give the cost as a formula (--cost), or the FLOPs of the run (--flops).",
    ),
    "cost-does-not-grow": (
        "Larger sizes cost no more, as hours of tiny models do that never fill the machine.",
        "What compute a smaller tuned run would save cannot be told from such costs.",
        "Give a column flops, or a formula (--cost).",
    ),
    "far-off": (
        "The value lies farther from the best one than any that was tried.",
        "What it costs there is the valley continued, and capped.",
        "Take it as far too high or too low; try a value nearer the forecast.",
    ),
    "valley-scatter-unknown": (
        "No run lies deep enough in the valley's sides to tell how costs scatter about it.",
        "The interval of the cost holds the place of the optimum only.",
        "Extend the grid to values that are clearly worse.",
    ),
    "cost-of-a-run-unknown": (
        "Neither the table nor an option says what a run at that size costs.",
        "Without it no FLOPs, hours or money can be told.",
        "Give --flops or --gpu-hours, or a column flops.",
    ),
    "hours-unknown": (
        "A price was given, but not how long a run takes.",
        "Without hours no money can be told.",
        "Give --gpu-hours, or --flops-per-s.",
    ),
    "optimum-not-bracketed-everywhere": (
        "At some size the best value tried lies at the end of the grid.",
        "The true best may lie outside it, so that size tells the laws nothing.",
        "Extend the grid there until worse values stand on both sides.",
    ),
    "no-loss-law": (
        "Too few sizes have a usable optimum for a law of the loss.",
        "The loss of a larger run is then only bounded from one side.",
        "Extend the grids, or add sizes; three bracketed sizes are the least.",
    ),
    "too-few-sizes-for-a-floor": (
        "A law with a floor needs one more size than the sweep has.",
        "Without a floor the loss falls for ever, so a distant forecast is optimistic.",
        "Add a size; small ones are cheap.",
    ),
    "optimum-law-bends": (
        "The best values do not lie on a straight line on log-log axes.",
        "The power law through them is known to be wrong beyond the sweep.",
        "Trust the value near the sweep only; add a larger size before going far.",
    ),
    "pinned": (
        "A parameter was given, not fitted.",
        "Intervals take it as exact, so they are too narrow if it is not.",
        "Compare with the forecast that fits it.",
    ),
    "bound-hit": (
        "A parameter of a law ran into the end of its allowed range.",
        "The losses hardly pin it, and the forecast rests on where the range ends.",
        "Add sizes that are further apart, or more seeds.",
    ),
    "exponent-weakly-identified": (
        "The exponent of a law is known to no better than a factor of about two either way.",
        "How fast the loss falls decides a distant forecast more than anything else.",
        "Add sizes that are further apart, or pin the floor if it is known.",
    ),
    "ill-conditioned": (
        "Parameters of a law trade against each other.",
        "Its curve is known, its numbers are not: another fit may have quite others.",
        "Read the forecast, not the parameters; add sizes at the ends of the range.",
    ),
    "lack-of-fit": (
        "The losses lie further from a law than the noise between seeds explains.",
        "A law that misses what was measured is in doubt beyond it; where none follows all "
        "sizes, the largest ones alone make the forecast.",
        "Look for a size that is off, a break, or a setting that changed; add sizes.",
    ),
    "too-few-sizes": (
        "A law has nearly as many parameters as there are sizes.",
        "It can hardly fail to fit, so that a good fit says nothing.",
        "Add a size; small ones are cheap.",
    ),
    "starts-disagree": (
        "Two settings of a law's parameters fit the losses equally well.",
        "They part beyond the losses, and only one of them is drawn.",
        "Add sizes that are further apart, or pin a parameter that is known.",
    ),
    "columns-collinear": (
        "The size columns grow together.",
        "Nothing but pinned parameters keeps their effects apart, so a size that is made larger "
        "alone cannot be forecast.",
        "Add runs that vary the sizes separately.",
    ),
    "loss-turns-negative": (
        "A log-linear law falls below zero at some size.",
        "No loss does, so the law cannot hold for ever.",
        "Use it near the data only.",
    ),
    "size-without-effect": (
        "A size column does not lower the loss in the fitted range.",
        "Nothing can then be said of what a larger one brings.",
        "Check the runs; a larger size that is no better is often badly tuned.",
    ),
    "floor-at-zero": (
        "The fitted floor is zero.",
        "The data do not yet show where the loss levels off, so distant forecasts are optimistic.",
        "Add larger sizes before relying on a distant forecast.",
    ),
    "no-replicates": (
        "No run was repeated with another seed.",
        "The noise is read from the scatter of the runs about smooth curves, which also holds "
        "whatever those curves miss.",
        "Repeat the best cells with two more seeds.",
    ),
    "outlier": (
        "The loss of a run is far from those of the same size and values with other seeds.",
        "One wrong loss can move a law and widen its interval many times.",
        "Look at the run; if it is wrong, mark it failed or repeat it.",
    ),
    "far-extrapolation": (
        "The target is more than 8 times the largest fitted size, or its compute.",
        "The interval holds only if no new regime sets in on the way.",
        "Add a size in between before committing.",
    ),
}
NO_TUNED_LAW: Words = (
    "Too few sizes have a bracketed optimum to say how this value moves with size.",
    "A larger run then has no value to start from but the last one tuned.",
    "Extend the grid of this value, or add sizes.",
)
UNKNOWN: Words = (
    "The library marked this result for caution.",
    "What is marked rests on more than the numbers show.",
    "See the manual for this flag.",
)
_BATCHES: dict[str, Words] = {
    "perfect-only": (
        "Steps fall in proportion to the batch throughout.",
        "The critical batch lies beyond what was measured and has no upper bound.",
        "Measure larger batches.",
    ),
    "flat-only": (
        "Steps do not fall with the batch.",
        "The critical batch lies below what was measured and has no lower bound.",
        "Measure smaller batches.",
    ),
    "perfect-not-seen": (
        "Perfect scaling ends below the smallest batch measured.",
        "How far it reaches is then read off a curve, not off runs.",
        "Measure smaller batches.",
    ),
    "maximal-not-seen": (
        "The largest useful batch lies beyond the largest measured.",
        "The steps that no batch saves are extrapolated.",
        "Measure larger batches.",
    ),
    "lack-of-fit": (
        "Replicates scatter less than the batch sizes do about the hyperbola.",
        "The hyperbola misses the measured steps, so that its critical batch is in doubt; "
        "intervals rest on the means of batch sizes.",
        "Read the segments, and tune every batch size again.",
    ),
    "segments-disagree": (
        "Three straight lines fit better than the hyperbola.",
        "The critical batch is a parameter of a curve that these steps do not follow.",
        "Trust the measured steps, not B_crit.",
    ),
    "steps-rise": (
        "The largest batch takes more steps than a smaller one.",
        "A batch that costs steps is badly tuned, and bends the curve.",
        "Tune its learning rate again.",
    ),
    "censored": (
        "Some measurements did not reach the target within their budget.",
        "They count as lower bounds, which tell less than steps do.",
        "Train them longer if the critical batch hangs on them.",
    ),
    "infeasible": (
        "Some measurements diverged or failed.",
        "They are left out, so that what is left may be the luckier ones.",
        "Lower the learning rate there, or leave that batch size out.",
    ),
}
_KNOBS: dict[str, Words] = {
    "bends": (
        "Its gradient bends over the sizes.",
        "A straight line to the target is then in doubt.",
        "Add a size nearer to the target.",
    ),
    "curvature-drifts": (
        "Its valley is not equally narrow at all sizes.",
        "The ranking assumes that it is, so what is at stake is in doubt.",
        "Move it at another size before relying on its rank.",
    ),
    "far": (
        "The optimum at the target lies far off the fixed value.",
        "The parabola only hints at what that costs.",
        "Tune it at small sizes, then rank again.",
    ),
    "lost-runs": (
        "Runs diverged or failed where it was moved.",
        "Seeds that are lost leave the rest to be the luckier ones.",
        "Move it by less, or look at why they were lost.",
    ),
}
_COMPARISON: dict[str, Words] = {
    "lack-of-fit": (
        "A recipe's law misses its losses by more than their noise.",
        "What is read off beyond the measured sizes holds only if the laws are roughly right.",
        "Look for a size that is off, or add sizes; the measured differences stand.",
    ),
    "one-seed": (
        "All sizes were trained with a single seed.",
        "Its luck is shared by all of them, and is taken to vary as much as the differences do.",
        "Add a seed.",
    ),
    "no-noise": (
        "Nothing says how much runs of one recipe differ.",
        "Without it no difference can be told from chance.",
        "Add seeds or sizes.",
    ),
    "diverged": (
        "Runs of a recipe diverged at some size.",
        "Differences are those of the runs that did not, which may be the luckier ones.",
        "Lower the rate there, or count the lost runs against the recipe.",
    ),
    "edge": (
        "The best of a recipe lies at the end of its grid.",
        "Its loss is an upper bound, so the recipe looks worse than it is.",
        "Extend the grid.",
    ),
}
_ALLOCATION: dict[str, Words] = {
    "exponents-disagree": (
        "Two estimators disagree on how the best parameters grow, beyond their intervals.",
        "They cannot both be right, and the split of a larger budget hangs on which is.",
        "Look at the runs before spending the budget; add some around the optimum.",
    ),
    "splits-disagree": (
        "Two estimators put the best parameters of this budget far apart.",
        "The interval of either holds only if that estimator is the right one.",
        "Add runs at a larger compute, around the optimum.",
    ),
    "budget-far-from-runs": (
        "The budget lies far from the compute of all runs.",
        "The intervals hold only if the law does all the way.",
        "Add runs at a compute in between before spending the budget.",
    ),
    "law-in-doubt": (
        "The fitted law is marked for caution itself.",
        "Its loss and its split beyond the runs are less certain than their intervals say.",
        "Add runs, or pin its floor where it is known (--fix E=…).",
    ),
    "law-bends": (
        "The best runs of the largest budgets lie off the fitted law, by more than luck.",
        "It bends there: its loss beyond is rather too low where they end above it, and too "
        "high where they end below.",
        "Add runs at a larger compute, or fit the larger budgets alone.",
    ),
    "law-misses-largest-budgets": (
        "The law of the smaller budgets misses the losses of the largest ones.",
        "Beyond them it may miss by as much again, which the interval of the loss counts.",
        "Add runs at a larger compute before relying on the loss.",
    ),
}
_CASCADE: dict[str, Words] = {
    "judged-quality-missed": (
        "On the inputs that judge, the quality comes out worse than was asked for.",
        "The threshold was the lowest that sufficed on other inputs, some of them by luck; on new "
        "inputs expect what was judged.",
        "Ask for more by as much as is missed (--quality), or choose on more inputs.",
    ),
}
FAMILIES: dict[str, dict[str, Words]] = {
    "allocation": _ALLOCATION,
    "forecast": _FORECAST,
    "batches": _BATCHES,
    "knobs": _KNOBS,
    "comparison": _COMPARISON,
    "cascade": _CASCADE,
}
