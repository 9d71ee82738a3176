from dataclasses import replace
from html.parser import HTMLParser

import pytest

import extrap
from extrap.records import Verdicts
from extrap.records.displays import MOST_ROWS, MOST_TEXT, duration, html_table, plain
from tests.reporting.hostile import EVIL, PAYLOADS, poisoned

TAGS = {"div", "p", "strong", "small", "table", "thead", "tbody", "tr", "th", "td"}


class Shown(HTMLParser):
    """The tags, attributes and cells of what a notebook shows."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.wrong, self.rows, self.words = [], [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag not in TAGS or not {name for name, _ in attrs} <= {"scope"}:
            self.wrong.append(f"{tag} {attrs}")
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data):
        self.words += data
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def shown(record):
    page = Shown(record._repr_html_())
    assert page.wrong == page.open == []
    return page


@pytest.fixture(scope="module")
def runs():
    return extrap.read_runs("examples/sweep.csv", size="width", tune="lr")


@pytest.fixture(scope="module")
def made(runs):
    return extrap.forecast(runs)


@pytest.fixture(scope="module")
def verdicts(made):
    return extrap.check(made, extrap.read_runs("examples/big.csv", size="width", tune="lr"))


@pytest.mark.parametrize("payload", [*PAYLOADS.values(), EVIL], ids=[*PAYLOADS, "all"])
def test_names_from_files_are_text_and_nothing_else(runs, made, verdicts, payload):
    point = poisoned(made.at(width=1024), {"width": payload, "lr": payload + " 2"})
    judged = poisoned(verdicts, {"width": payload, "mistuned": payload})
    fit = poisoned(made.loss_laws[0][0], {"width": payload})
    compared = poisoned(extrap.compare({"adam": runs, payload: runs}), {"width": payload})
    for record in (point, judged, judged[0], fit, compared):
        assert shown(record).rows
        assert not {c for c in record._repr_html_() + repr(record) if ord(c) < 32 and c != "\n"}
    rows = shown(Verdicts(judged[:1])).rows
    assert rows[0][1].startswith(" ".join(payload.split())[:20].replace("\x1b", ""))


def test_a_source_with_a_command_for_the_terminal_is_spelled_out(runs):
    text = repr(replace(runs, source="\x1b[31m<b>.csv\nsecond line"))
    assert not {"\x1b", "\n"} & set(text)


def test_a_long_table_and_a_long_text_are_cut():
    page = Shown(html_table("t", ["a"], [[str(i)] for i in range(MOST_ROWS + 1)], notes=["n < 1"]))
    assert len(page.rows) == 1 + MOST_ROWS == 31
    assert f"{MOST_ROWS} of {MOST_ROWS + 1} rows" in page.words
    assert "n < 1" in page.words
    whole = Shown(html_table("t", ["a"], [["x"]] * MOST_ROWS))
    assert "rows" not in whole.words
    assert plain("x" * MOST_TEXT) == "x" * 200
    assert plain("x" * 201) == "x" * 199 + "…"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-40, "0 s"),
        (-0.0, "0 s"),
        (40, "40 s"),
        (720, "12 min"),
        (12_600, "3.5 h"),
        (4e5, "4.6 days"),
    ],
)
def test_a_duration_is_never_negative_and_has_a_sensible_unit(seconds, text):
    assert duration(seconds) == text
