"""Steps at a larger size in words: what was forecast, what was counted, what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd

from extrap.batching import BatchFindings, JointForecast, TaskResult
from extrap.records import Measure
from extrap.reporting.batch_tables import counted
from extrap.reporting.numbers import format_percent, name_size

__all__ = ["counted_sentence", "front_sentences"]


def front_sentences(found: BatchFindings) -> list[str]:
    """What was forecast at a larger size, and how the count turned out."""
    task, front, result = found.result.task, found.front, found.result
    if not task.at:
        return []
    where = name_size(task.at)
    if front is None:
        return [f"{task.study.name}: {where} could not be forecast: {_no_front(result)}."]
    largest = {name: max(values) for name, values in task.study.sizes.items()}
    ratio = max(value / largest[name] for name, value in front.size.items())
    words = [
        f"Rates and steps at {where}, {ratio:.3g} times the largest size of the sweep, were "
        "forecast from the sweep alone."
    ]
    words += [_recommendation(each, result) for each in front.recommended[-1:]]
    if found.checked is None:
        return [*words, "Nothing was counted there yet: run the study on."]
    rows = found.checked
    known = rows[np.isfinite(rows["steps"])]
    n_lost = len(rows) - len(known)
    if known.empty:
        none = "No run there reached a target at the forecast rate: the rate is off"
        if rows["best"].isna().all():
            none += ", or the runs were made at the rates of another forecast"
        return [*words, f"{none}."]
    counted = f"Counted at the forecast rate, {_counted_words(result, known)}"
    words += [counted, *_trivial_words(known)]
    words.append(_factor_sentence(known))
    if n_lost:
        words.append(
            f"At {n_lost} of {len(rows)} batches the forecast rate did not reach the loss with "
            "every seed."
        )
    return words


def _recommendation(found: JointForecast, result: TaskResult) -> str:
    """Batch and rate together, for the lowest target."""
    batch, rate, steps = (
        counted(Measure(value=each.value, ci=each.pi))
        for each in (found.batch, found.lr, found.steps)
    )
    overhead = format_percent(result.critical.overhead, signed=False)
    return (
        f"For a loss of {found.target:g} there it recommends a batch of {batch}, at which "
        f"examples are {overhead} above linear scaling, at a rate of {rate}: {steps} steps."
    )


def _no_front(result: TaskResult) -> str:
    if result.joint is None:
        return "the rate there needs a law over batches and sizes; tune at two sizes or more"
    return "too few sizes reach a target to say how its steps move with size"


def counted_sentence(found: BatchFindings) -> str:
    """How the forecast at a larger size turned out, in a sentence; empty without a count."""
    if found.checked is None or found.checked["steps"].notna().sum() == 0:
        return ""
    known = found.checked[np.isfinite(found.checked["steps"])]
    where = name_size(found.result.task.at)
    counted = f"At {where}, counted after the forecast: {_counted_words(found.result, known)}"
    return " ".join([counted, *_trivial_words(known)])


def _counted_words(result: TaskResult, known: pd.DataFrame) -> str:
    """How far off the forecast was where the target was reached, and how often inside."""
    errors = (known["steps"] / known["predicted"] - 1).abs()
    closed = known.dropna(subset=["lower", "upper"])
    inside = (closed["steps"] >= closed["lower"]) & (closed["steps"] <= closed["upper"])
    level = format_percent(result.critical.level, signed=False).replace(".0", "")
    off = (
        f"steps differ from the forecast by {_percent(errors.median())} in the median (largest "
        f"{_percent(errors.max())})"
    )
    if closed.empty:
        return f"{off}; with as many sizes as parameters the forecast has no interval."
    return f"{off}, and {int(inside.sum())} of {len(closed)} lie inside their {level} interval."


def _trivial_words(known: pd.DataFrame) -> list[str]:
    """How the steps of the largest size would have done; nothing where it has none."""
    trivial = (known["steps"] / known["as_largest"] - 1).abs().median()
    if not np.isfinite(trivial):
        return []
    words = (
        "The steps of the largest size of the sweep, taken as they are, would have been off by "
        f"{_percent(trivial)} in the median"
    )
    if trivial > (known["steps"] / known["predicted"] - 1).abs().median():
        return [f"{words}."]
    return [f"{words}: the law over sizes did worse than no law. Take the largest size's steps."]


def _factor_sentence(known: pd.DataFrame) -> str:
    n_own = int((known["best_factor"] == 1.0).sum())
    gain = float((1 - known["best"] / known["steps"]).max())
    if n_own == len(known):
        return "No other rate that was tried there took fewer steps: keep to the forecast rate."
    return (
        f"The forecast rate was the best of those tried at {n_own} of {len(known)}; another saved "
        f"{_percent(gain)} of the steps at most."
    )


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)
