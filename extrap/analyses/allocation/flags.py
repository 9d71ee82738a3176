"""What the flags of a split of compute mean."""

from __future__ import annotations

from extrap.reporting.flags import Meaning

MEANINGS: dict[str, Meaning] = {
    "estimators-disagree": (
        "IsoFLOP profiles and the fitted law disagree on the best parameters or their growth.",
        "They cannot both be right; the answer is that of the profiles, which know no form.",
        "Inspect the runs before spending the budget; add some with more compute.",
    ),
    "budget-far-from-runs": (
        "The budget is far from the compute of all runs.",
        "The intervals are valid only if the law holds that far.",
        "Add runs with compute in between before spending the budget.",
    ),
    "law-in-doubt": (
        "The fitted law has warnings of its own.",
        "Its loss and its split beyond the runs are less certain than their intervals say.",
        "Add runs, or pin its floor where it is known (--fix E=…).",
    ),
}
