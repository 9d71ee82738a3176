"""A log of experiments: the text of `extrap compare LOG`, and its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extrap.analyses.comparison.experiments import (
    CANDIDATE,
    CONFIRMED,
    CRASHED,
    NOT_CONFIRMED,
    NOT_JUDGED,
    WITHIN_NOISE,
    WORSE_CHANGE,
    Change,
    Experiments,
)
from extrap.analyses.comparison.gate import BETTER_HERE, HURTS, SURVIVES
from extrap.analyses.comparison.page import MOST_CHART_ROWS, VERDICT_STYLES, comparison_blocks
from extrap.fitting.discoveries import LEAST_FRESH
from extrap.records import Interval, Measure
from extrap.records.numbers import (
    NBSP,
    counted,
    format_level,
    format_p_value,
    format_percent,
    name_size,
    over,
    stacked,
)
from extrap.reporting.blocks import Answer, Block, Details, Figure, Page, Paragraph
from extrap.reporting.charts import Axis, Row, RowsChart
from extrap.reporting.study_page import About, study_page
from extrap.reporting.tables import Colored, Table, dashed, tabulated

LIMITS = (
    "Nothing that is run at one size says what a change does at a larger one.",
    "Of all changes that are called confirmed an expected tenth at most does nothing.",
    "Each change is compared with the recipe that it was built on: gains of several need not add "
    "up.",
)
MOST_CHANGES_NAMED = 3
"""Changes that the answer names."""
NOTE = (
    "Gain: of confirmed changes by fresh runs alone, else expected, as most changes do nothing. "
    "P(better): the probability that it is better."
)
"""Below a table of changes."""
COLORS = {CONFIRMED: "good", CANDIDATE: "warn", NOT_CONFIRMED: "muted", WORSE_CHANGE: "bad"}
"""Outcome → its color; others have none."""


def experiments_page(log: Experiments, about: About) -> Page:
    """The page of a log."""
    return study_page("comparison", about, experiments_blocks(log), caveats=LIMITS)


def experiments_blocks(log: Experiments) -> list[Block]:
    """What is confirmed, what may be better, and how the rest did."""
    order = [CONFIRMED, CANDIDATE, NOT_CONFIRMED, WORSE_CHANGE]
    shown = sorted(
        log.of(*order), key=lambda change: (order.index(change.outcome), -_gain(change))
    )
    others = log.of(WITHIN_NOISE, NOT_JUDGED, CRASHED)
    return [
        _answer(log),
        *([Figure(_chart(shown))] if shown else []),
        _changes_table("Changes beyond noise", shown, log.level),
        *(
            block
            for comparison in log.comparisons.values()
            for block in comparison_blocks(comparison)
        ),
        _next_table(log),
        Details(
            "Other changes and notes",
            [
                _changes_table("Other changes", others, log.level),
                *_bases(log),
                *map(Paragraph, log.notes),
            ],
        ),
    ]


def _answer(log: Experiments) -> Answer:
    """What stands out, what to run next, and how the noise is known."""
    confirmed, candidates = log.of(CONFIRMED), log.of(CANDIDATE)
    texts = []
    if confirmed:
        named = _named(confirmed, lambda change: _percent(change.gain, "; "))
        texts.append(f"Better here, by fresh runs: {named}.")
    if candidates:
        named = _named(candidates, lambda change: f"better here, {_runs(change.n_runs)}")
        head, pronoun = ("Candidate", "it") if len(candidates) == 1 else ("Candidates", "each")
        texts.append(
            f"{head}: {named}; confirm with {LEAST_FRESH} fresh runs of {pronoun} and of its base."
        )
    if not confirmed and not candidates:
        texts.append(
            "No change stands out from the noise."
            if log.n_repeats
            else f"No change is judged: {_why_no_noise(log)}, so the noise is unknown."
        )
    if not log.n_repeats and log.next_runs:
        (proposal,) = log.next_runs
        texts.append(f"Run {proposal.recipes[0]} {proposal.n_seeds} more times: {proposal.why}.")
    for name, comparison in log.comparisons.items():
        sentence = VERDICT_STYLES[comparison.verdict][1].format(name)
        texts.append(f"{sentence} at {name_size(comparison.target)}.")
    texts.append(_counts(log))
    if not log.comparisons:
        texts.append("Nothing is known of larger sizes.")
    return Answer(
        text=" ".join(filter(None, texts)),
        confidence=f"{_noise(log)}.",
        color={SURVIVES: "good", BETTER_HERE: "good", HURTS: "bad"}.get(log.verdict, "warn"),
    )


def _gain(change: Change) -> float:
    return change.gain.value or 0.0


def _chart(changes: Sequence[Change]) -> RowsChart:
    """The gains of changes, one row each."""
    gains = [*map(_gain, changes), 0.0]
    limits = min(gains), max(gains)
    return RowsChart(
        title="Gain of a change over its base",
        axis=Axis("gain", is_log=False, is_percent=True, limits=limits),
        rows=tuple(
            Row(
                label=change.name,
                value=change.gain.value,
                interval=change.gain.ci,
                ink=COLORS.get(change.outcome, "muted"),
            )
            for change in changes[:MOST_CHART_ROWS]
        ),
        reference=0.0,
    )


def _why_no_noise(log: Experiments) -> str:
    if not log.n_alike:
        return "no recipe was run twice"
    repeats = "the only repeat has" if log.n_alike == 1 else f"all {log.n_alike} repeats have"
    return f"{repeats} the very loss of what was repeated (vary the seed)"


def _named(changes: Sequence[Change], said: Callable[[Change], str]) -> str:
    """The first few changes, largest gain first, each with what is said of it."""
    changes = sorted(changes, key=_gain, reverse=True)
    names = [f"{change.name} ({said(change)})" for change in changes[:MOST_CHANGES_NAMED]]
    more = len(changes) - MOST_CHANGES_NAMED
    return ", ".join(names) + f" and {more} more" * (more > 0)


def _runs(n: int) -> str:
    return "one run" if n == 1 else f"{n} runs"


def _counts(log: Experiments) -> str:
    """How many of the other changes have which outcome."""
    parts = [
        (NOT_CONFIRMED, "{} not confirmed"),
        (WORSE_CHANGE, "{} worse"),
        (WITHIN_NOISE, "{} within noise"),
        (CRASHED, "{} crashed"),
    ]
    texts = [text.format(len(changes)) for outcome, text in parts if (changes := log.of(outcome))]
    if not texts:
        return ""
    return f"Other changes: {', '.join(texts)}."


def _noise(log: Experiments) -> str:
    """The noise of a run and what it is estimated from."""
    noise = _percent(log.noise)
    if not log.n_repeats:
        return f"Noise of a run, if most changes do nothing: {noise}"
    repeats = counted(log.n_repeats, "repeat")
    return f"Noise of a run: {noise}, by {repeats} and by the changes that did nothing"


def _percent(share: Measure, opening: str = " (") -> str:
    """A share and its interval in percent, both to the same digit."""
    if share.value is None:
        return "–"
    if share.ci == Interval():
        return format_percent(share.value, digits=2, signed=False)
    shown = share.map(lambda value: 100 * value)
    value, _, interval = stacked(shown.value, shown.ci).partition("\n")
    closing = ")" * opening.endswith("(")
    return f"{value}{NBSP}%{opening}{interval}{NBSP}%{closing}"


def _bases(log: Experiments) -> list[Paragraph]:
    """Where the log went on from a recipe that nothing confirmed."""
    if log.base == log.log_base:
        return []
    return [
        Paragraph(
            f"The log goes on from {log.log_base}; a base changes only by confirmation, and the "
            f"last recipe confirmed all the way is {log.base}."
        )
    ]


def _changes_table(caption: str, changes: Sequence[Change], level: float) -> Table:
    return tabulated(
        f"{caption} ({format_level(level)} intervals)",
        changes,
        {
            "outcome": lambda change: Colored(change.outcome, COLORS.get(change.outcome, "")),
            "change": lambda change: over(change.name, change.commit),
            "log": lambda change: change.decision or "–",
            "against": lambda change: change.base,
            "runs": lambda change: str(change.n_runs),
            "gain": lambda change: _percent(change.gain),
            "P(better)": lambda change: dashed(change.probability, _probability),
            "p-value": lambda change: format_p_value(change.p_value),
        },
        note=NOTE if any(change.n_runs for change in changes) else "",
    )


def _probability(share: float) -> str:
    """A probability in whole percents."""
    return f"< 1{NBSP}%" if share < 0.01 else f"{100 * share:.0f}{NBSP}%"


def _next_table(log: Experiments) -> Table:
    return tabulated(
        "Next runs",
        log.next_runs,
        {
            "recipes": lambda runs: ", ".join(runs.recipes),
            "size": lambda runs: name_size(runs.size) or "the same",
            "runs of each": lambda runs: str(runs.n_seeds),
            "why": lambda runs: runs.why,
        },
    )
