"""Is a configuration off by its loss: by itself, and among all that are checked?

Each is compared with its own interval, whatever else is in the table: with the sealed one, and
above it with what is expected at its own values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.checking.cases import Case
from extrap.checking.settings import Settings, law_deviation
from extrap.fitting import holm


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the loss of one configuration says.

    Attributes:
        p_value: Two-sided, of its mean deviation from the law; None without a loss.
        p_adjusted: The same adjusted for the number of configurations (Holm 1979).
        is_off: Whether its loss is an alarm.
        is_inside: Whether it lies in its prediction interval, or within the tolerance.
    """

    p_value: float | None
    p_adjusted: float | None
    is_off: bool
    is_inside: bool = False


def judge_losses(
    cases: Sequence[Case],
    settings: Sequence[Settings | None],
    *,
    alpha: float,
    tolerance: float,
    familywise: bool = False,
) -> list[Judgement]:
    """Compare every configuration with its interval.

    Args:
        cases: The configurations.
        settings: What is expected at their own values.
        alpha: Probability of a false alarm of each of them.
        tolerance: Relative deviation that is no alarm, however significant.
        familywise: Let alpha be the probability of any false alarm among all of them.

    Returns:
        One judgement a case, in order.
    """
    judgements = []
    unexplained = [0.0 if own is None else own.p_above for own in settings]
    tested = [i for i, case in enumerate(cases) if case.log_deviation is not None]
    p_values = _p_values(cases, tested)
    adjusted = dict(zip(tested, holm(list(p_values.values())), strict=True))
    decides = {
        i: max(p, unexplained[i]) if law_deviation(cases[i]) > 0 else p
        for i, p in p_values.items()
    }
    if familywise:
        decides = dict(zip(tested, holm(list(decides.values())), strict=True))
    for i, case in enumerate(cases):
        off, p = case.log_deviation, p_values.get(i)
        is_large = off is not None and abs(np.expm1(off)) > tolerance
        is_apart = abs(case.off_replicates or 0.0) > tolerance
        judgements.append(
            Judgement(
                p_value=p,
                p_adjusted=adjusted.get(i),
                is_off=(is_large and decides[i] <= alpha) or is_apart,
                is_inside=p is not None and (p > alpha or not is_large),
            )
        )
    return judgements


def _p_values(cases: Sequence[Case], tested: Sequence[int]) -> dict[int, float]:
    """Two-sided p-values of mean log losses, one call for all that share a prediction."""
    alike: dict[int, list[int]] = defaultdict(list)
    for i in tested:
        alike[id(cases[i].prediction)].append(i)
    found: dict[int, float] = {}
    for members in alike.values():
        log_loss = np.array([cases[i].log_loss + (cases[i].log_deviation or 0) for i in members])
        p_values = cases[members[0]].prediction.p_values(log_loss).tolist()
        found |= zip(members, p_values, strict=True)
    return {i: found[i] for i in tested}
