"""What published ladders say before the first run: how far forecasts of their kind were off.

Five sizes leave the floor and the exponent of a loss open, and a forecast far above them would be
wide for that alone. Ladders of language models over compute are more alike than that: on seven
published sources the averaged laws erred by a tenth of the change that they predicted, whatever
they said of the floor. `python -m benchmarks.envelopes` makes the numbers, each source left out in
turn. Over parameters or tokens alone too few sources are published: there nothing is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPrior:
    """How far off the averaged laws were.

    Attributes:
        share: Standard deviation of the error, as a share of the change that they predicted from
            the largest fitted size on.
        dof: Student's t degrees of freedom behind it.
        sources: Published sources that it was learned from.
    """

    share: float
    dof: float
    sources: int


OF_COMPUTE = LadderPrior(share=0.09, dof=3.0, sources=7)


def ladder_prior(size_kind: str, loss_kind: str) -> LadderPrior | None:
    """The prior of a kind of size (`"compute"` or other) and of loss; None where nothing is known.

    Args:
        size_kind: What the size column counts.
        loss_kind: One of `extrap.records.runs.LOSS_KINDS`.
    """
    return OF_COMPUTE if size_kind == "compute" and loss_kind in ("nats", "bits") else None
