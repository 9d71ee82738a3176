"""What published ladders say before the first run: how far forecasts of their kind were off.

Five sizes leave the floor and the exponent of a loss open, and a forecast far above them would be
wide for that alone. Ladders of language models over compute are more alike than that: on seven
published sources 90 % intervals hold 92 % if the doubt gained beyond the largest size is at most
.08 of the predicted change. `python -m benchmarks.envelopes` compares shares by their interval
scores, each source left out in turn. Over parameters or tokens alone one or two sources have long
ladders: there nothing is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPrior:
    """How far off forecasts by averaged laws are at most taken to be.

    Attributes:
        share: Scale of the error, as a share of the change that they predict from the largest
            fitted size on.
        dof: Degrees of freedom of its Student's t distribution.
        noise: Standard deviation of a log loss from which on sweeps are noisier than ladders of
            which that is known.
        sources: Published sources that it was learned from.
    """

    share: float
    dof: float
    noise: float
    sources: int

    def share_at(self, noise: float) -> float:
        """The share for a sweep of so much noise, which soon bounds nothing any more.

        Args:
            noise: Standard deviation of a log loss about a smooth curve.
        """
        return self.share * (1 + (noise / self.noise) ** 4)


COMPUTE_LADDERS = LadderPrior(share=0.08, dof=3.0, noise=0.008, sources=7)


def ladder_prior(size_kind: str, loss_kind: str) -> LadderPrior | None:
    """The prior of a kind of size (`"compute"` or other) and of loss; None where nothing is known.

    Args:
        size_kind: What the size column counts.
        loss_kind: One of `extrap.records.runs.LOSS_KINDS`.
    """
    return COMPUTE_LADDERS if size_kind == "compute" and loss_kind in ("nats", "bits") else None
