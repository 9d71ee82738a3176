"""Verdict cards: what the checker found, in words and shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.reporting.glossary import CAUSES
from extrap.reporting.groups import RunGroup
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_p_value,
    format_percent,
    format_value,
    name_size,
    name_tuned,
)
from extrap.reporting.tables import VERDICT_WORDS

__all__ = ["Card", "verdict_card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A verdict in words, for one run or a group of replicates.

    Attributes:
        kind: Decides shape and colour.
        verdict: The verdict, shape and words.
        title: Which runs.
        facts: Pairs of name and value.
        advice: What to do.
    """

    kind: str
    verdict: str
    title: str
    facts: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]


def verdict_card(forecast: Forecast, group: RunGroup) -> Card:
    """Everything the checker said about a group of replicates."""
    first, n = group.verdicts[0], len(group.verdicts)
    where = ", ".join(filter(None, [name_size(group.size), name_tuned(group.tuned)]))
    seen = "none (" + ", ".join(sorted({v.status for v in group.verdicts})) + ")"
    if group.mean_loss is not None:
        seen = format_value(group.mean_loss, group.loss_se(forecast.noise.log_sd))
    facts = [("observed" if n == 1 else f"observed, mean of {len(group.losses)}", seen)]
    level = f"{100 * forecast.level:g}{NBSP}%"
    facts.append((f"forecast ({level})", format_estimate(first.predicted, first.predicted_pi)))
    if group.deviation is not None:
        facts.append(("deviation from it", format_percent(group.deviation)))
    if first.expected is not None and first.expected != first.predicted:
        expected = format_value(first.expected, _expected_se(forecast, first))
        facts.append(("expected at its own values", expected))
    p_values = sorted(v.p_value for v in group.verdicts if v.p_value is not None)
    if p_values:
        both = dict.fromkeys(format_p_value(p) for p in (p_values[0], p_values[-1]))
        facts.append(("p-value" if len(both) == 1 else "p-values", " to ".join(both)))
    causes = dict.fromkeys(v.cause for v in group.verdicts if v.cause)
    if causes:
        facts.append(("likely cause", "; ".join(CAUSES.get(c, c) for c in causes)))
    return Card(
        kind=group.kind,
        verdict=VERDICT_WORDS[group.kind],
        title=f"{where} · {n} run{'s' if n > 1 else ''}",
        facts=tuple(facts),
        advice=_advice(group),
    )


def _advice(group: RunGroup) -> tuple[str, ...]:
    """What to do, said once a cause; where replicates disagree only of those that are off."""
    heard = [v for v in group.verdicts if group.kind != "mixed" or v.on_law is False]
    said = tuple({v.cause: v.advice for v in reversed(heard) if v.advice}.values())
    if group.kind != "mixed":
        return said
    return (f"{len(heard)} of {len(group.verdicts)} runs off the law.", *said)


def _expected_se(forecast: Forecast, verdict: Verdict) -> float | None:
    """Standard error of the loss expected of a run at its own values: a new run's, the cost's."""
    prediction = forecast.predict_loss(verdict.size)
    if prediction is None or not (verdict.expected and verdict.predicted and forecast.valley):
        return None
    scatter = forecast.valley.relative_sd or 0.0
    cost = math.log(verdict.expected / verdict.predicted) * scatter
    return verdict.expected * math.hypot(prediction.log_sd, cost)
