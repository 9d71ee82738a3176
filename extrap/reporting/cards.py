"""Verdict cards: what the checker found, in words and shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        experiment: What would decide the cause; may be empty.
    """

    kind: str
    verdict: str
    title: str
    facts: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    experiment: tuple[str, ...]


def verdict_card(forecast: Forecast, group: RunGroup, *, price: float | None = None) -> Card:
    """Everything the checker said about a group of replicates.

    Args:
        forecast: The forecast.
        group: The replicates.
        price: Of an hour of training, in whatever currency; None leaves money out.
    """
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
    facts += _worth(group, price)
    seals = {v.seal for v in group.verdicts}
    if seals == {"sealed-first"}:
        facts.append(("seal", "older than the run"))
    causes = dict.fromkeys(v.cause for v in group.verdicts if v.cause)
    if causes:
        facts.append(("likely cause", "; ".join(CAUSES.get(c, c) for c in causes)))
    return Card(
        kind=group.kind,
        verdict=VERDICT_WORDS[group.kind],
        title=f"{where} · {n} run{'s' if n > 1 else ''}",
        facts=tuple(facts),
        advice=_advice(group),
        experiment=tuple(dict.fromkeys(v.experiment for v in group.verdicts if v.experiment)),
    )


def _worth(group: RunGroup, price: float | None) -> list[tuple[str, str]]:
    """What the loss is worth: the tuned run that reaches it, and at a price, in money."""
    worth = [v.evidence for v in group.verdicts if "equivalent_size" in v.evidence]
    if not worth:
        return []
    size, compute, hours = (
        _mean([evidence.get(name) for evidence in worth])
        for name in ("equivalent_size", "equivalent_compute", "wall_s")
    )
    words = f"a tuned run of {_times(size)} the size"
    if compute is not None:
        words += f", {_times(compute)} the compute"
    facts = [("worth", words)]
    if price is not None and compute is not None and hours is not None:
        spent = price * hours / 3600
        saved = spent * (1 - compute)
        verb = "wasted" if saved > 0 else "gained"
        facts.append(("in money", f"{abs(saved):.3g} of {spent:.3g} {verb}, at {price:g} an hour"))
    return facts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _times(factor: float | None) -> str:
    return f"{factor or 1.0:.2g}{NBSP}times"


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
