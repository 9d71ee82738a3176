"""Blocks in Markdown, for pull requests and the summaries of CI jobs.

Names come from users' files: what Markdown or HTML would act on is escaped, `@` and `#` mention
nobody and no issue, and addresses are no links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from extrap.files import as_written
from extrap.records.numbers import NBSP, beside
from extrap.reporting.blocks import Answer, Block, Columns, Details, Page, Paragraph, Warnings
from extrap.reporting.tables import Table, color_of

MOST_TABLE_ROWS = 20
"""Rows of a table that are shown; the page has them all."""
LONGEST_TEXT = 600
"""Characters of a text from a file."""
STATUS_SIGNS = {"good": "🟢", "warn": "🟡", "bad": "🔴", "muted": "🔵"}
"""Color of a status → its sign."""
_ACTS = re.compile(r"[\\`*_\[\]<>|~$&]")
_ADDRESS = re.compile(r"[\w./%~?=&#:+,;-]+")
"""Characters of a link; none that ends it."""
_LINK_SCHEMES = ("https", "http")
_LINKS = re.compile(
    r"@|#|://|\bGH-|\bwww\.|:(?=[\w+-]+:)|\b(?=[0-9]*[a-f])[0-9a-f]{7,40}\b|\b[0-9]{40}\b",
    re.IGNORECASE,
)
"""What becomes a mention, an issue, a link, a picture or a commit even as plain text."""
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0]"
)
"""Characters without width or of no visible effect: names that differ by them look alike."""
_WORD_JOINER = "\u2060"


def escaped(text: object) -> str:
    """Text that Markdown shows as it is, on one line."""
    plain = " ".join(as_written(str(text)).replace(NBSP, " ").split())
    plain = _UNSEEN.sub(lambda m: ascii(m[0])[1:-1], plain)
    if len(plain) > LONGEST_TEXT:
        end = plain.rfind(" ", LONGEST_TEXT // 2, LONGEST_TEXT)  # one long word is cut within
        plain = f"{plain[: end if end > 0 else LONGEST_TEXT - 1]}…"
    plain = _LINKS.sub(lambda m: m[0][0] + _WORD_JOINER + m[0][1:], plain)
    # entities: a backslash before < or & does not hold in every renderer
    return _ACTS.sub(lambda m: f"&#{ord(m[0])};", plain)


def report_markdown(page: Page, *, link: str | None = None) -> str:
    """The title, what a page shows outside its closed parts, and a link to it.

    Args:
        page: The page.
        link: Its address, for the last line; only `https:`, `http:` and relative ones.
    """
    parts = [f"### {_sign(page)} {escaped(page.title)}".replace("###  ", "### ")]
    parts += [escaped(page.question), *blocks_markdown(page.blocks), _footer(page, link)]
    return "\n\n".join(part for part in parts if part) + "\n"


def blocks_markdown(blocks: Sequence[Block]) -> Iterator[str]:
    """Blocks as paragraphs; figures, equations and closed parts are left out."""
    for block in blocks:
        match block:
            case Answer():
                yield f"**{escaped(block.text)}**"
                yield escaped(block.confidence)
            case Paragraph():
                yield escaped(block.text)
            case Table():
                yield f"<details><summary>{escaped(block.caption)}</summary>"
                yield _table(block.columns, block.rows)
                yield escaped(block.note)
                yield "</details>"
            case Warnings():
                yield "\n".join(
                    f"- ⚠️ {escaped(item.meaning)} {escaped(item.why)} **{escaped(item.action)}** "
                    f"`{_code(item.name)}`" + (f" ({escaped(item.detail)})" if item.detail else "")
                    for item in block.items
                )
            case Columns():
                yield from blocks_markdown(block.blocks)
            case Details() | _:
                continue


def _sign(page: Page) -> str:
    """The sign of the status of a page."""
    return STATUS_SIGNS.get(color_of(page.status), "")


def _code(text: str) -> str:
    """Text within backticks, where entities are not read."""
    return re.sub(r"[^A-Za-z0-9 .=_-]", "·", as_written(text))[:LONGEST_TEXT]


def _footer(page: Page, link: str | None) -> str:
    sentence = f"Forecast made {escaped(page.created[:10])}"
    if page.kind != "report":
        sentence = f"Made {escaped(page.created[:10])}"
    if link and _is_address(link):
        return f"{sentence}. [The whole page]({link})."
    return f"{sentence}." + (f" The whole page: {escaped(link)}" if link else "")


def _is_address(link: str) -> bool:
    """Whether a link leads to a page: https, http, or relative to the summary's own place."""
    if not _ADDRESS.fullmatch(link):
        return False
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    if parts.scheme:
        return parts.scheme in _LINK_SCHEMES and bool(parts.hostname)
    return not link.startswith("//")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(map(escaped, header)) + " |", "|" + " --- |" * len(header)]
    cells = [[escaped(beside(cell)) for cell in row] for row in rows[:MOST_TABLE_ROWS]]
    lines += [f"| {' | '.join(row)} |" for row in cells]
    more = len(rows) - MOST_TABLE_ROWS
    return "\n".join(lines) + (f"\n\n{more} more in the page." if more > 0 else "")
