"""Judged runs by configuration: runs that differ in their seed alone belong together."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from extrap.records import Point, Verdict
from extrap.records.numbers import rounded
from extrap.records.outcomes import Outcome

NEAR_RUN_OCTAVES = 0.5
"""Octaves within which a run counts as one at a given tuned value."""
OF_CONTRAST = (None, "mistuned", "instability")
"""Causes that a run which was mistuned on purpose may have and still be no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """Judged runs that differ in nothing but their seed.

    Attributes:
        size: Size column → value.
        tuned: Tuned column → value, None where it is not known.
        verdicts: One a run.
        is_contrast: Whether they were mistuned on purpose.
    """

    size: Mapping[str, float]
    tuned: Mapping[str, float | None]
    verdicts: tuple[Verdict, ...]
    is_contrast: bool = False

    @property
    def losses(self) -> tuple[float, ...]:
        """The losses there are."""
        return tuple(v.loss for v in self.verdicts if v.loss is not None)

    @property
    def mean_loss(self) -> float | None:
        """The loss that was judged: the geometric mean, or None if no run has one."""
        return self.verdicts[0].mean_loss

    @property
    def deviation(self) -> float | None:
        """Mean loss / predicted − 1."""
        predicted = self.verdicts[0].predicted
        return None if self.mean_loss is None or not predicted else self.mean_loss / predicted - 1

    @property
    def outcome(self) -> Outcome:
        """What became of them; they share their verdict."""
        return self.outcome_of(self.verdicts[0])

    def outcome_of(self, verdict: Verdict) -> Outcome:
        """What became of one of the runs."""
        return outcome_of(verdict, is_contrast=self.is_contrast)

    def loss_se(self, noise_log_sd: float | None) -> float | None:
        """Standard error of the mean loss: from the sweep's seed noise or from the replicates.

        The sweep's noise is that of tuned runs; mistuned ones scatter more, so the larger counts.
        """
        n, mean = len(self.losses), self.mean_loss
        if mean is None:
            return None
        sweep_se = mean * (noise_log_sd or 0.0) / math.sqrt(n)
        seen = math.sqrt(sum((x - mean) ** 2 for x in self.losses) / (n - 1) / n) if n > 1 else 0.0
        return max(sweep_se, seen) or None

    def octaves_from(self, tuned: Mapping[str, float | None]) -> float:
        """Largest distance of a tuned value from another choice; infinite where one is unknown."""
        distances = [0.0]
        for name, value in self.tuned.items():
            other = tuned.get(name)
            distances.append(math.inf if not value or not other else abs(math.log2(value / other)))
        return max(distances)


def outcome_of(verdict: Verdict, *, is_contrast: bool = False) -> Outcome:
    """What became of a run; one that was mistuned on purpose may be off for no other cause."""
    is_expected = is_contrast and verdict.cause in OF_CONTRAST
    return Outcome.CONTRAST if is_expected else verdict.outcome


def group_verdicts(
    verdicts: Sequence[Verdict], contrasts: Collection[int] = ()
) -> tuple[RunGroup, ...]:
    """Collect configurations, smallest size and tuned values first.

    Args:
        verdicts: One per run.
        contrasts: `Verdict.configuration` of those that were mistuned on purpose.

    Raises:
        TypeError: They are no verdicts.
    """
    unchecked: object = verdicts
    if not isinstance(unchecked, Sequence) or not all(isinstance(v, Verdict) for v in unchecked):
        raise TypeError(
            f"verdicts are what extrap.check returns, got {type(verdicts).__name__}; write "
            "extrap.check(forecast, runs)."
        )
    configurations: dict[tuple[tuple[float, ...], tuple[float, ...], int], list[Verdict]] = {}
    for verdict in verdicts:
        size = tuple(rounded(v, 10) for v in verdict.size.values())
        tuned = tuple(rounded(v or 0.0, 10) for v in verdict.tuned.values())
        configurations.setdefault((size, tuned, verdict.configuration), []).append(verdict)
    return tuple(
        RunGroup(
            size=configurations[key][0].size,
            tuned=configurations[key][0].tuned,
            verdicts=tuple(configurations[key]),
            is_contrast=key[-1] in contrasts,
        )
        for key in sorted(configurations)
    )


def judged_sizes(groups: Sequence[RunGroup]) -> tuple[dict[str, float], ...]:
    """The distinct sizes of the judged runs, in the order of the groups."""
    seen: list[dict[str, float]] = []
    for group in groups:
        if dict(group.size) not in seen:
            seen.append(dict(group.size))
    return tuple(seen)


def group_near(
    groups: Sequence[RunGroup], size: Mapping[str, float], tuned: Mapping[str, float | None]
) -> RunGroup | None:
    """The group of a size whose tuned values are closest to these, within `NEAR_RUN_OCTAVES`."""
    here = [g for g in groups if dict(g.size) == dict(size)]
    here.sort(key=lambda g: (g.octaves_from(tuned), -len(g.verdicts)))
    return here[0] if here and here[0].octaves_from(tuned) <= NEAR_RUN_OCTAVES else None


def group_at_forecast(groups: Sequence[RunGroup], point: Point) -> RunGroup | None:
    """The runs that tell whether a size is on course: those at the recommended tuned values.

    Runs that were mistuned on purpose do not tell. Where the forecast has no tuned values, or the
    runs do not know theirs, the best runs stand in.
    """
    size, tuned = point.size, point.recommended
    here = [g for g in groups if dict(g.size) == dict(size) and not g.is_contrast]
    unknown = [g for g in here if any(v is None for v in g.tuned.values())]
    if any(v is None for v in tuned.values()):
        unknown = here
    best = min(unknown, key=lambda g: g.mean_loss or math.inf, default=None)
    return group_near(here, size, tuned) or best
