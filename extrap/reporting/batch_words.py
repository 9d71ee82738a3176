"""A batch study in sentences: the answer first, then what was seen of each part and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from extrap.batching import (
    Agreement,
    BatchFindings,
    BatchGroup,
    Collapse,
    JointForecast,
    RateLaw,
    TaskResult,
    agreement,
    collapse,
    growth,
)
from extrap.records import Measure
from extrap.reporting.batch_tables import RULE_NAMES, counted, power, size_of
from extrap.reporting.numbers import (
    NBSP,
    format_percent,
    format_quantity,
    name_size,
)

__all__ = [
    "LIMITS",
    "agreement_of",
    "agreement_sentences",
    "answer_sentences",
    "collapse_of",
    "collapse_sentences",
    "counted_sentence",
    "front_sentences",
    "growth_sentence",
    "headline",
    "held_out_sentence",
    "law_sentences",
    "lead_group",
    "notes_of",
    "rate_sentences",
    "rates_sentence",
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
GROWS = 2.0
"""Growth of the noise scale above which a batch may as well grow."""
LARGE_DRIFT = 2.0
"""Factor over all sizes that an interval may reach before the question counts as open."""
CLEARLY = 1.2
"""Ratio of scatters above which the loss explains more than the step does."""
SMALL_DRIFT = 1.1
"""Factor over all sizes below which the noise scale at equal loss counts as the same."""
MOST_NOTES = 12


def lead_group(findings: Sequence[BatchFindings]) -> BatchGroup | None:
    """What the headline is about: the first task's lowest target at its largest size."""
    groups = findings[0].result.critical.groups
    told = [g for g in groups if g.b_crit.value is not None]
    if not told:
        return None
    return max(told, key=lambda g: (tuple(size_of(g).values()), -float(g.by["target"])))


def agreement_of(findings: Sequence[BatchFindings]) -> Agreement | None:
    """Mean noise scales against critical batches over all tasks, sizes and targets."""
    tables = [f.result.noise for f in findings if not f.result.noise.empty]
    return agreement(pd.concat(tables, ignore_index=True)) if tables else None


def collapse_of(result: TaskResult) -> Collapse | None:
    """Whether the noise scales of a task's sizes are one curve over the loss."""
    sizes = list(result.task.study.sizes)
    if result.courses.empty or len(sizes) != 1:
        return None
    return collapse(result.courses, size=sizes[0], level=result.critical.level)


def headline(findings: Sequence[BatchFindings]) -> str:
    """The answer in a sentence: of several tasks how noise and batch agree, of one its batch."""
    agreed = agreement_of(findings)
    if len(findings) > 1 and agreed is not None:
        return (
            f"The mean noise scale foretells the critical batch within a factor of "
            f"{agreed.factor:g} in {round(agreed.share_within * agreed.n_pairs)} of "
            f"{agreed.n_pairs} pairs (at worst {agreed.largest_factor:.2g}), over "
            f"{agreed.decades:.1f} decades; r² of the logs is {_r_squared(agreed)}."
        )
    group = lead_group(findings)
    if group is None:
        return "No critical batch was told apart from none: see the flags for what to measure."
    rate = _exponent(findings[0].result)
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
    trivial = pd.concat([_interpolated(f.result, table) for f, table in tables])
    n_inside = int(((rows["steps"] >= rows["lower"]) & (rows["steps"] <= rows["upper"])).sum())
    level = format_percent(findings[0].result.critical.level, signed=False).replace(".0", "")
    errors = (rows["steps"] / rows["predicted"] - 1).abs()
    trivial_errors = np.abs(rows["steps"].to_numpy() / trivial.to_numpy() - 1)
    return (
        f"Steps at {len(rows)} batches kept from the fits were predicted with a median error of "
        f"{_percent(errors.median())} (largest {_percent(errors.max())}; straight lines between "
        f"the neighbours {_percent(float(np.nanmedian(trivial_errors)))}), {n_inside} of "
        f"{len(rows)} inside their {level} interval."
    )


def _interpolated(result: TaskResult, held: pd.DataFrame) -> pd.Series:
    """The trivial answer: a straight line on log axes between the neighbouring batches."""
    found = []
    for row in held.to_dict("records"):
        group = next(
            g for g in result.critical.groups if all(row[name] == v for name, v in g.by.items())
        )
        known = [(p.batch, p.steps) for p in group.points if p.steps is not None]
        x, y = np.log(np.array(known, dtype=float)).T
        at = math.log(row["batch_size"])
        inside = x.min() <= at <= x.max()
        found.append(math.exp(float(np.interp(at, x, y))) if inside else math.nan)
    return pd.Series(found)


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
    errors = (known["steps"] / known["predicted"] - 1).abs()
    closed = known.dropna(subset=["lower", "upper"])
    inside = (closed["steps"] >= closed["lower"]) & (closed["steps"] <= closed["upper"])
    level = format_percent(result.critical.level, signed=False).replace(".0", "")
    words.append(
        f"Counted at the forecast rate, steps differ from the forecast by "
        f"{_percent(errors.median())} in the median (largest {_percent(errors.max())})"
        + (
            f", and {int(inside.sum())} of {len(closed)} lie inside their {level} interval."
            if len(closed)
            else "; with as many sizes as parameters the forecast has no interval."
        )
    )
    trivial = _as_at_the_largest(result, known)
    if len(trivial):
        off = float(np.median(trivial))
        words.append(
            "The steps of the largest size of the sweep, taken as they are, would have been off "
            f"by {_percent(off)} in the median"
            + (
                "."
                if off > float(errors.median())
                else ": the law over sizes did worse than no law. Take the largest size's steps."
            )
        )
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
    before = "Counted at the forecast rate, "
    told = front_sentences(found)
    place = next(i for i, line in enumerate(told) if line.startswith(before))
    where = name_size(found.result.task.at)
    words = f"At {where}, counted after the forecast: {told[place].removeprefix(before)}"
    trivial = [line for line in told[place + 1 :] if line.startswith("The steps of the largest")]
    return " ".join([words, *trivial])


def _as_at_the_largest(result: TaskResult, counted_rows: pd.DataFrame) -> list[float]:
    """Relative errors of the largest size's steps as a forecast of the larger one."""
    tuned, names = result.tuned, list(result.task.study.sizes)
    known = tuned[tuned["status"] == "reached"]
    if known.empty:
        return []
    largest = known.sort_values(names)[names].iloc[-1]
    here = known[(known[names] == largest).all(axis=1)].set_index(["target", "batch_size"])
    return [
        abs(row["steps"] / here["steps"].loc[key] - 1)
        for row in counted_rows.to_dict("records")
        if (key := (row["target"], row["batch_size"])) in here.index
    ]


def _factor_sentence(known: pd.DataFrame) -> str:
    n_own = int((known["best_factor"] == 1.0).sum())
    gain = float((1 - known["best"] / known["steps"]).max())
    if n_own == len(known):
        return "No other rate that was tried there took fewer steps: keep to the forecast rate."
    return (
        f"The forecast rate was the best of those tried at {n_own} of {len(known)}; another saved "
        f"{_percent(gain)} of the steps at most."
    )


def rate_sentences(result: TaskResult) -> list[str]:
    """The exponent of the best rate, which rules hold, and what to do."""
    task, laws = result.task.study.name, result.rate_laws
    rate = _exponent(result)
    if rate is None or not laws:
        return [
            f"{task}: too few batches have a best rate inside their grid for a law; widen lr= or "
            "raise growth= of the study."
        ]
    moves = [
        f"{name}^{power(m)}"
        for name, m in (result.joint.exponents.items() if result.joint else ())
        if name != "batch_size"
    ]
    also = f", and as {' · '.join(moves)}" if moves else ""
    words = [f"{task}: the best rate goes as batch^{power(rate)}{also}."]
    n_held = {
        name: sum(law.rule(name).holds is True for law in laws.values()) for name in RULE_NAMES
    }
    holding = [
        name.replace("-", " ") + ("" if len(laws) == 1 else f" at {n} of {len(laws)} sizes")
        for name, n in sorted(n_held.items(), key=lambda pair: -pair[1])
        if n
    ]
    failing = [
        name.replace("-", " ")
        for name in RULE_NAMES
        if all(law.rule(name).holds is False for law in laws.values())
    ]
    if holding:
        words.append(f"Rules that hold: {_listed(holding)}.")
    if failing:
        words.append(f"Rejected: {_listed(failing)}.")
    words.append(_rate_advice(laws, rate))
    return words


def rates_sentence(findings: Sequence[BatchFindings]) -> str:
    """Exponents and rules over several tasks in a few sentences; empty without a law."""
    exponents = {
        found.result.task.study.name: rate
        for found in findings
        if (rate := _exponent(found.result)) is not None and found.result.rate_laws
    }
    laws = [law for found in findings for law in found.result.rate_laws.values()]
    if not exponents:
        return ""
    ends = [f(exponents, key=lambda name: exponents[name].value or 0.0) for f in (min, max)]
    low, high = (f"batch^{power(exponents[name])} ({name})" for name in ends)
    held = {
        name: sum(law.rule(name).holds is True for law in laws)
        for name in sorted(RULE_NAMES, key=lambda n: -sum(bool(w.rule(n).holds) for w in laws))
    }
    rules = _listed([f"{name.replace('-', ' ')} in {n}" for name, n in held.items()])
    n_bent = sum(_bends(law) for law in laws)
    return (
        f"The best rate goes from {low.replace(') (', '; ')} to {high.replace(') (', '; ')}. Of "
        f"{len(laws)} sweeps rules hold as follows: {rules}. In {n_bent} the rate bends over the "
        "batch, so that no single exponent serves: there scale it over a factor of four at most, "
        "and tune it again beyond."
    )


def _bends(law: RateLaw) -> bool:
    return law.bend_p is not None and law.bend_p < 1 - law.level


def _rate_advice(laws: Mapping[tuple[float, ...], RateLaw], rate: Measure) -> str:
    n_bent = sum(map(_bends, laws.values()))
    to_the = f"{rate.value:.2f}".replace("-", "−")
    if n_bent > len(laws) / 2:
        return (
            "The rate bends over the batch, so no single exponent serves: tune it where you will "
            "train, or scale it over a factor of four at most."
        )
    return (
        f"Within the batches measured scale the rate by the batch's ratio to the power {to_the}; "
        "beyond them tune it again."
    )


def growth_sentence(findings: Sequence[BatchFindings]) -> str:
    """By how much noise grows during training, over all courses; empty without any."""
    factors = []
    for found in findings:
        courses = found.result.courses
        if courses.empty:
            continue
        for _, course in courses.groupby(list(found.result.task.study.sizes)):
            grown = growth(course).value
            if grown is not None:
                factors.append(grown)
    if not factors:
        return ""
    low, high = min(factors), max(factors)
    ends = [format_quantity(float(f"{factor:.2g}")) for factor in (low, high)]
    span = ends[0] if high / low < 1.05 else " to ".join(ends)
    do = (
        "A batch that suits the end is wasteful at the start: let it grow, or choose it for the "
        "part of the training that costs most."
        if high > GROWS
        else "One batch serves the whole training."
    )
    return f"From the first window to the last the noise scale grows by a factor of {span}. {do}"


def collapse_sentences(found: Collapse | None, result: TaskResult) -> list[str]:
    """Whether the sizes are one curve over the loss, against one curve over the step."""
    if found is None:
        return ["Fewer than three sizes with a noise scale: whether they collapse is not told."]
    column = next(iter(result.task.study.sizes))
    sizes = result.courses[column]
    ratio = float(sizes.max() / sizes.min())
    q, (lower, upper) = found.size_exponent.value or 0.0, found.size_exponent.ci
    drift = max(ratio**q, ratio**-q)
    alike = lower is not None and upper is not None and lower <= 0 <= upper
    at_loss = f"at equal loss the noise scale goes as {column}^{power(found.size_exponent)}"
    widest = max(ratio ** max(-(lower or 0.0), upper or 0.0), 1.0)
    if alike and widest > LARGE_DRIFT:
        verdict = (
            f"Whether the curves of {found.n_sizes} sizes collapse over the loss is not decided: "
            f"{at_loss}, an interval that holds 0 and a factor of {widest:.2g} over all sizes too."
        )
        do = "More seeds, a longer training or a wider range of sizes would tell."
    elif alike:
        verdict = (
            f"The curves of {found.n_sizes} sizes collapse over the loss as far as is seen: "
            f"{at_loss}, an interval that holds 0."
        )
        do = "Measure the noise scale on a small model at the loss the large one will have."
    elif drift < SMALL_DRIFT:
        verdict = (
            f"The curves of {found.n_sizes} sizes nearly collapse over the loss: {at_loss}, "
            f"a factor of {drift:.2f} over all sizes."
        )
        do = "For a choice of batch a small model at the same loss tells enough."
    else:
        verdict = (
            f"The curves of {found.n_sizes} sizes do not collapse over the loss: {at_loss}, a "
            f"factor of {drift:.2g} over all sizes."
        )
        do = f"Correct a small model's noise scale by {column} before it is used for a larger one."
    spread = (
        f"One curve over the loss for all sizes leaves a scatter of {_percent(found.log_sd)}, "
        f"with a term of the size {_percent(found.log_sd_by_size)}; one curve over the step, the "
        f"trivial alternative, {_percent(found.log_sd_of_step)}."
    )
    if found.log_sd_of_step < CLEARLY * found.log_sd:
        spread += " The loss explains hardly more than the step does: no evidence for its role."
    return [verdict, spread, do]


def agreement_sentences(found: Agreement | None) -> list[str]:
    """How noise scales and critical batches agree, and what that is good for."""
    if found is None:
        return ["Fewer than three pairs have both a noise scale and a critical batch: no verdict."]
    level = f"{found.ratio:.2g} times" if found.ratio >= 0.1 else f"{found.ratio:.1g} times"
    left = (
        f" {found.n_left_out} more without a point estimate of one of them left out."
        if found.n_left_out
        else ""
    )
    slope = "" if found.slope is None else f", the slope {found.slope:.2f}"
    return [
        f"Over {found.n_pairs} pairs and {found.decades:.1f} decades of the noise scale "
        f"r² of the logs is {_r_squared(found)}{slope}. The critical batch is {level} the "
        f"mean noise scale in the (geometric) mean; they differ by a factor of "
        f"{found.largest_factor:.2g} at most, and by less than {found.factor:g} in "
        f"{round(found.share_within * found.n_pairs)} of {found.n_pairs}.{left}",
        "They are not the same thing. The noise scale compares gradients at one batch and assumes "
        "plain SGD and a Hessian like the identity; the critical batch is counted in tuned runs "
        "at many. Let the noise scale say where to look, and count steps at two or three batches "
        "around it before much is spent.",
    ]


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


def _exponent(result: TaskResult) -> Measure | None:
    """The exponent of the rate in the batch: over all sizes, or of the only one with a law."""
    if result.joint is not None:
        return result.joint.exponents["batch_size"]
    if not result.rate_laws:
        return None
    return result.rate_laws[max(result.rate_laws)].exponent


def _where(group: BatchGroup) -> str:
    return f"at {name_size(size_of(group))} and a loss of {group.by['target']:g}"


def _r_squared(found: Agreement) -> str:
    return "unknown" if found.r_squared is None else f"{found.r_squared:.2f}"


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
