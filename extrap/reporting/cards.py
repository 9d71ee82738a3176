"""Cards of comparisons."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Card"]


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
