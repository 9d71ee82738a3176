"""What a page says about itself: the envelope around its numbers. Light: imports no figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from extrap import __version__
from extrap.reporting.numbers import NBSP

__all__ = ["PAGE_VERSION", "PageHead", "page_document"]

PAGE_VERSION = 1
"""Of the envelope around the numbers of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHead:
    """What a page says about itself, to readers and to the index.

    Attributes:
        kind: What it is about, such as `report`, `knobs` or `beside`.
        title: Heading.
        question: The question it answers, one sentence.
        answer: The answer, a sentence or two.
        created: When, ISO 8601.
        status: What became of it in a few words, such as `on law`; may be empty.
        ok: Whether every judged run is on law, as `extrap check` exits; None where none is judged.
    """

    kind: str
    title: str
    question: str
    answer: str
    created: str
    status: str = ""
    ok: bool | None = None

    def texts(self) -> dict[str, str]:
        """Name → text, without `ok`."""
        return {name: told for name, told in asdict(self).items() if name != "ok"}


def page_document(head: PageHead, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON that a page carries: what it says about itself, and its numbers."""
    return {
        "schema_version": PAGE_VERSION,
        "extrap_version": __version__,
        **{name: text.replace(NBSP, " ") for name, text in head.texts().items()},
        "ok": head.ok,
        "numbers": dict(numbers),
    }
