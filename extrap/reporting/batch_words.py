"""A batch study in sentences: the answer first, then what was seen of each part and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from extrap.batching import BatchFindings, BatchGroup, TaskResult
from extrap.reporting.batch_noise_words import agreement_of, r_squared_words
from extrap.reporting.batch_rate_words import rate_exponent
from extrap.reporting.batch_tables import counted, power, size_of
from extrap.reporting.numbers import NBSP, format_percent, name_size

__all__ = [
    "LIMITS",
    "answer_sentences",
    "headline",
    "held_out_sentence",
    "law_sentences",
    "lead_group",
    "notes_of",
]

LIMITS = (
    "The steps are those of a constant learning rate tuned at every batch size. A schedule, or "
    "momentum and weight decay tuned along, can move the critical batch.",
    "A hyperbola is taken from first to last batch, whose corner is the critical batch. Where "
    "flags say that it does not fit, trust the counted steps.",
    "The noise scale that is measured assumes plain SGD and a Hessian like the identity. It is "
    "not the critical batch, and a factor of ten between them is common.",
    "All costs are in steps and examples. What a step of a larger batch costs on your machine is "
    "not known here; where memory or bandwidth binds, fewer steps may not be less time.",
    "Targets are losses along a training, none of them its end: the useful batch grows as the "
    "loss falls, and one number for a whole training is a mean.",
    "Seeds are the replicates, and few: intervals rest on them and on the scatter about the "
    "curves. They do not cover another data set, model or optimiser.",
)
MOST_NOTES = 12


def lead_group(findings: Sequence[BatchFindings]) -> BatchGroup | None:
    """What the headline is about: the first task's lowest target at its largest size."""
    groups = findings[0].result.critical.groups
    told = [g for g in groups if g.b_crit.value is not None]
    if not told:
        return None
    return max(told, key=lambda g: (tuple(size_of(g).values()), -float(g.by["target"])))


def headline(findings: Sequence[BatchFindings]) -> str:
    """The answer in a sentence: of several tasks how noise and batch agree, of one its batch."""
    agreed = agreement_of(findings)
    if len(findings) > 1 and agreed is not None:
        return (
            f"The mean noise scale foretells the critical batch within a factor of "
            f"{agreed.factor:g} in {round(agreed.share_within * agreed.n_pairs)} of "
            f"{agreed.n_pairs} pairs (at worst {agreed.largest_factor:.2g}), over "
            f"{agreed.decades:.1f} decades; r² of the logs is {r_squared_words(agreed)}."
        )
    group = lead_group(findings)
    if group is None:
        return "No critical batch was told apart from none: see the flags for what to measure."
    rate = rate_exponent(findings[0].result)
    ending = "" if rate is None else f"; the best rate goes as batch^{power(rate)}"
    useful = counted(group.regimes.maximal_start)
    if "maximal-not-seen" in group.flags:
        useful = f"{useful.removesuffix(')')}, beyond those measured)"
    return f"Batches up to {useful} are useful {_where(group)}{ending}."


def answer_sentences(findings: Sequence[BatchFindings]) -> list[str]:
    """What follows the headline: the meaning of its numbers, and the other answers in short."""
    group = lead_group(findings)
    words = []
    if len(findings) > 1:
        words += _span_sentence(findings)
    elif group is not None:
        words += [
            f"Up to a batch of {counted(group.regimes.perfect_end)} examples cost at most "
            f"20{NBSP}% more than the fewest. At the critical batch, {counted(group.b_crit)}, "
            "steps and examples are both twice their fewest; from "
            f"{counted(group.regimes.maximal_start)} a doubling saves less than 10{NBSP}% of the "
            "steps. Train below the first to save compute, near the second to save both, never "
            "above the last."
        ]
    for found in findings:
        words += law_sentences(found.result) if len(findings) == 1 else []
    return words


def _span_sentence(findings: Sequence[BatchFindings]) -> list[str]:
    groups = [
        (found.result.task.study.name, g)
        for found in findings
        for g in found.result.critical.groups
        if g.b_crit.value is not None
    ]
    if not groups:
        return []
    ends = [f(groups, key=lambda each: each[1].b_crit.value or 0.0) for f in (min, max)]
    low, high = (
        f"{counted(g.b_crit)} ({name}, loss {g.by['target']:g})".replace(") (", "; ")
        for name, g in ends
    )
    return [f"Critical batches of {len(findings)} tasks go from {low} to {high}."]


def law_sentences(result: TaskResult) -> list[str]:
    """How the critical batch moves with size and with the loss; nothing if two fits set a line."""
    law = result.critical.laws.get("b_crit")
    if law is not None and law.dof < 1:
        return []
    if law is None:
        reason = result.critical.reason
        return [f"{result.task.study.name}: no law of the critical batch: {reason}."]
    parts, sentences = [], []
    for column, exponent in law.exponents.items():
        name = "loss" if column == "target" else column
        parts.append(f"{name}^{power(exponent)}")
        lower, upper = exponent.ci
        if lower is None or upper is None:
            continue
        if lower <= 0 <= upper:
            sentences.append(
                f"It is not seen to move with {name}"
                + (" at equal loss" if column != "target" and "target" in law.exponents else "")
                + "."
            )
        elif column == "target":
            sentences.append(
                "It grows as the loss falls: a batch may grow during training, and what is right "
                "at the start is too small at the end."
                if upper < 0
                else "It shrinks as the loss falls."
            )
        else:
            way = "grows" if lower > 0 else "shrinks"
            sentences.append(f"It {way} with {name} at equal loss: measure it at two sizes.")
    scatter = format_percent(law.log_sd, signed=False)
    return [
        f"The critical batch of {result.task.study.name} goes as {' · '.join(parts)} over "
        f"{law.n_groups} fits, which scatter by {scatter}. {' '.join(sentences)}".strip()
    ]


def held_out_sentence(findings: Sequence[BatchFindings]) -> str:
    """How well batches that no fit saw were predicted; empty without any."""
    tables = [
        (f, f.result.held_out[f.result.held_out["steps"].notna()])
        for f in findings
        if not f.result.held_out.empty
    ]
    if not tables:
        return ""
    rows = pd.concat([table for _, table in tables], ignore_index=True)
    n_inside = int(((rows["steps"] >= rows["lower"]) & (rows["steps"] <= rows["upper"])).sum())
    level = format_percent(findings[0].result.critical.level, signed=False).replace(".0", "")
    errors = (rows["steps"] / rows["predicted"] - 1).abs()
    trivial_errors = (rows["steps"] / rows["interpolated"] - 1).abs()
    return (
        f"Steps at {len(rows)} batches kept from the fits were predicted with a median error of "
        f"{_percent(errors.median())} (largest {_percent(errors.max())}; straight lines between "
        f"the neighbours {_percent(trivial_errors.median())}), {n_inside} of "
        f"{len(rows)} inside their {level} interval."
    )


def notes_of(findings: Sequence[BatchFindings]) -> list[str]:
    """What could not be done, task by task; then why an edge of a grid matters."""
    notes = [
        f"{found.result.task.study.name}: {note}" if len(findings) > 1 else note
        for found in findings
        for note in found.result.notes
    ]
    shown = notes[:MOST_NOTES]
    if len(notes) > MOST_NOTES:
        shown.append(f"{len(notes) - MOST_NOTES} more of the kind.")
    if any("at the edge" in note for note in notes):
        shown.append(
            "Why an edge matters: a better rate may lie beyond it, so the steps there are too "
            "many, which bends the hyperbola; the law of the rate leaves these batches out. Raise "
            "growth= of the task's study or widen its range of lr, and resume."
        )
    return shown


def _where(group: BatchGroup) -> str:
    return f"at {name_size(size_of(group))} and a loss of {group.by['target']:g}"


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)
