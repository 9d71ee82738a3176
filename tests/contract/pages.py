"""What a person reads on an HTML page, as lines of text: headings, paragraphs, cards and tables.

Figures, foldable parts, navigation and the provenance, which names versions, are left out.
"""

import re
from html.parser import HTMLParser

UNREAD = ("head", "script", "style", "nav", "figure", "svg", "details")
LINES = ("h1", "h2", "h3", "p", "caption", "tr", "li", "dt")
CELLS = ("td", "th", "dd")
END = "\0"


def page_text(page: str) -> str:
    """A line for each heading, paragraph, row of a table and value of a card."""
    reader = _Reader()
    reader.feed(page.partition('<section id="provenance"')[0])
    lines = [" ".join(line.split()) for line in "".join(reader.pieces).split(END)]
    text = "".join(f"{line}\n" for line in lines if line)
    return re.sub(r"\d[\d.]*e-\d+", "TINY", text)  # costs at an optimum: what rounding left


class _Reader(HTMLParser):
    """Collects the text that is read, and `END` where a line ends."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.n_unread = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.n_unread += tag in UNREAD
        self.handle_data(END if tag in LINES else " | " if tag in CELLS else " ")

    def handle_endtag(self, tag: str) -> None:
        self.n_unread -= tag in UNREAD
        self.handle_data(END if tag in LINES[:-1] else " ")

    def handle_data(self, data: str) -> None:
        if not self.n_unread:
            self.pieces.append(data)
