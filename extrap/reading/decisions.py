"""What a log says was decided of an experiment: keep, discard, crash or repeat, in any words."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from extrap.errors import Choice, DataError, shown
from extrap.reading.cells import is_empty, numbers_of
from extrap.reading.endings import ABSENT, COMPLETE, DIVERGED, UNFINISHED
from extrap.reading.names import loss_rank, plain_words, short_name, split_words
from extrap.records.numbers import counted

DECISIONS = ("keep", "discard", "crash", "repeat")
"""What may be decided of an experiment."""
DECISION_COLUMNS = split_words(
    "status decision outcome verdict result kept keep accepted accept merged improved resolution "
    "disposition action state tags tag labels label"
)
"""Columns of decisions, the likeliest first."""
YES_OR_NO_COLUMNS = split_words("kept keep accepted accept merged improved")
"""Those whose 1 is a yes and whose 0 a no."""
STATE_COLUMNS = split_words("status state outcome result")
"""Those that may say how a run ended, beside another that says what was decided."""
LABEL_COLUMNS = split_words("tags tag labels label")
"""Those that may hold several words, of which most are no decisions."""
DESCRIPTION_NAMES = split_words(
    "description change title notes note idea experiment hypothesis summary message name run_name "
    "run display_name"
)
"""Columns of what was changed, the likeliest first."""
WAITING = split_words("running pending queued scheduled waiting paused")
"""Words for a run that has not ended yet."""
NEITHER = "unfinished"
"""What is said of an experiment that has not ended yet."""

_SYNONYMS = {
    "keep": "keep kept keeps keeping accept accepted merge merged improved improvement improves "
    "better win winner won best new_best new_record record promoted adopted landed ✓ ✔ ✅ yes y "
    "true 👍",
    "discard": "discard discarded discards reject rejected drop dropped revert reverted worse "
    "loss_worse no_gain no_improvement not_improved no_change no_effect neutral same tie "
    "within_noise noise not_kept not_merged not_better lost lose loser abandoned skip regressed "
    "regression ✗ ✘ ✕ × ❌ no n false 👎",
    "repeat": "repeat repeated rerun re_run replicate replication confirm confirmed confirmation "
    "confirming reproduction baseline base control reference",
}
MEANING_OF_WORD = {
    word: meaning for meaning, synonyms in _SYNONYMS.items() for word in split_words(synonyms)
}
MEANING_OF_WORD |= dict.fromkeys((*UNFINISHED, *ABSENT, *DIVERGED, "broken", "💥"), "crash")
MEANING_OF_WORD |= dict.fromkeys(WAITING, NEITHER) | dict.fromkeys((*COMPLETE, "complete"), "")
"""Word → what it says of an experiment; empty: only that it ended."""


def plain_status(text: object) -> str:
    """A status in lower case with underscores, without what is said behind it.

    Example:
        >>> plain_status("No gain (+0.001)"), plain_status("✅ KEEP")
        ('no_gain', 'keep')
    """
    head = re.split(
        r"[(:;,/]|\s[-–—]+\s", str(text).strip().lower().removesuffix(".0"), maxsplit=1
    )[0]
    word = re.sub(r"[\s\-_]+", "_", head).strip("_.!*'\"`")
    without_signs = re.sub(r"[^\w]+", "", word).strip("_")
    return without_signs or word


def column_name(column: str) -> str:
    """A column's name in lower case with underscores, without what trackers write before it."""
    return plain_words(short_name(column))


def decision_column(table: pd.DataFrame, *, is_log: bool = False) -> str | None:
    """The column of decisions: of such a name, with the most words for keep or discard.

    These must be more than the words that nobody knows. Without them it is one whose words nobody
    knows, or say that every run crashed, beside descriptions and a metric; other words for how
    runs ended, such as `complete` or `pruned`, are no decisions. Where the table is known to be a
    log, any word of an experiment will do.
    """
    names = {str(c): column_name(str(c)) for c in table}
    named = sorted(
        (c for c in names if names[c] in DECISION_COLUMNS),
        key=lambda c: DECISION_COLUMNS.index(names[c]),
    )
    meanings = {c: decisions_of(table[c], c) for c in named}
    n_decided = {c: int(meanings[c].isin(["keep", "discard"]).sum()) for c in named}
    decided = [c for c in named if n_decided[c] > (0 if is_log else meanings[c].isna().sum())]
    if decided:
        return max(decided, key=lambda c: n_decided[c])
    if is_log and named:
        return max(named, key=lambda c: int(meanings[c].fillna("?").ne("").sum()))
    is_described = any(name in DESCRIPTION_NAMES[:-4] for name in names.values())
    if not (is_described and any(map(loss_rank, names))):
        return None
    unknown = [
        c
        for c in named
        if names[c] not in LABEL_COLUMNS
        and meanings[c].isna().any()
        and not meanings[c].notna().any()
        and pd.isna(numbers_of(table[c].dropna())).all()
    ]
    only_crashes = [c for c in named if meanings[c].eq("crash").all()]
    return next(iter([*unknown, *only_crashes]), None)


def decisions_of(
    cells: pd.Series, column: str, statuses: Mapping[str, str] | None = None
) -> pd.Series:
    """What each cell says: a decision, empty for none, `unfinished`, or None of an unknown word.

    Args:
        cells: The cells.
        column: Name of their column.
        statuses: Word → decision, beside those that are known.
    """
    name = column_name(column)
    meanings = MEANING_OF_WORD | {plain_status(w): d for w, d in (statuses or {}).items()}
    if name in YES_OR_NO_COLUMNS:
        meanings |= {"1": "keep", "0": "discard"}

    def decided(text: str) -> str | None:
        if name not in LABEL_COLUMNS:
            return meanings.get(plain_status(text))
        parts = map(plain_status, re.split(r"[\[\],;|\"']+", text))
        return next((meanings[part] for part in parts if meanings.get(part)), "")

    is_there = ~is_empty(cells) & cells.notna()
    texts = cells.astype(object).where(is_there, "").astype(str)
    meaning_of_text = {text: decided(text) if text else "" for text in texts.unique()}
    return texts.map(meaning_of_text)


def read_decisions(
    table: pd.DataFrame, column: str, statuses: Mapping[str, str], where: str
) -> pd.Series:
    """What was decided of each experiment; a column of states may say that it crashed.

    Raises:
        ValueError: A word is to mean what is no decision.
        DataError: Nobody knows a word; all such words are named.
    """
    for word, decision in statuses.items():
        if decision not in DECISIONS:
            raise ValueError(
                f"a status means {', '.join(DECISIONS)}, got {word} = {shown(decision)}; choose "
                "one of them."
            )
    decisions = decisions_of(table[column], column, statuses)
    unknown = table.loc[decisions.isna(), column].astype(str).str.strip().value_counts()
    if len(unknown):
        listed = ", ".join(f"{shown(w)} ({counted(int(n), 'row')})" for w, n in unknown.items())
        raise DataError(
            f"a status says {', '.join(DECISIONS[:-1])} or {DECISIONS[-1]} in some word, "
            f"{column} of {where} has {listed}; say what that means:",
            [Choice({"statuses": dict.fromkeys(map(str, unknown.index), "discard")})],
        )
    for state in [str(c) for c in table if column_name(str(c)) in STATE_COLUMNS and c != column]:
        ends = decisions_of(table[state], state)
        decisions = decisions.where(~ends.isin(["crash", NEITHER]), ends)
    return decisions
