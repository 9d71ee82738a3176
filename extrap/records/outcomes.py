"""What became of a judged run: one word, mark and color wherever it is shown."""

from __future__ import annotations

from enum import Enum

from extrap.records.numbers import NBSP


class Outcome(Enum):
    """How a run stands to its forecast, the mildest first.

    Attributes:
        word: In tables, legends and sentences.
        mark: Before the word in tables.
        color: `"good"`, `"warn"`, `"bad"` or `"muted"`.
        marker: Matplotlib's letter of its marker.
    """

    CONTRAST = "mistuned on purpose", "◇", "muted", "d"
    ON_LAW = "on law", "●", "good", "o"
    UNDECIDED = "undecided", "○", "warn", "o"
    MISTUNED = "off law, mistuned", "◆", "warn", "D"
    OFF_LAW = "off law", "✕", "bad", "X"
    DIVERGED = "off law, diverged", "▲", "bad", "^"

    def __init__(self, word: str, mark: str, color: str, marker: str) -> None:
        self.word, self.mark, self.color, self.marker = word, mark, color, marker

    @classmethod
    def of(cls, *, on_law: bool | None, cause: str | None, has_loss: bool) -> Outcome:
        """The outcome of a verdict: whether it is on the law, its cause, whether it has a loss."""
        if on_law is None:
            return cls.UNDECIDED
        if on_law:
            return cls.ON_LAW
        if not has_loss:
            return cls.DIVERGED
        return cls.MISTUNED if cause == "mistuned" else cls.OFF_LAW

    @property
    def is_off(self) -> bool:
        """Whether it is off the law."""
        return self in (Outcome.MISTUNED, Outcome.OFF_LAW, Outcome.DIVERGED)

    @property
    def marked(self) -> str:
        """Mark and word."""
        return f"{self.mark}{NBSP}{self.word.replace(' law', f'{NBSP}law')}"
