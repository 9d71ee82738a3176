import re
from dataclasses import replace
from html import unescape

import pytest

import extrap
from extrap.analyses.sweep.page import forecast_blocks
from extrap.records.numbers import MOST_TEXT, plain
from extrap.reporting.text import blocks_text
from tests.reporting.hostile import EVIL, PAYLOADS, poisoned


def text_of(html):
    """The text of what a notebook shows: one element without another."""
    (text,) = re.fullmatch(r"<pre>([^<>]*)</pre>", html).groups()
    return unescape(text)


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
    compared = poisoned(extrap.compare({"adam": runs, payload: runs}), {"width": payload})
    for text in (
        text_of(compared._repr_html_()),
        *map(repr, (point, judged, judged[0], compared)),
    ):
        assert not {c for c in text if ord(c) < 32 and c != "\n"}


def test_a_notebook_shows_what_the_command_prints(made):
    targets = [made.at(**size) for size in made.default_targets()]
    assert text_of(made._repr_html_()) == blocks_text(forecast_blocks(made, targets))
    for found in (extrap.backtest(made.runs), extrap.plan(made, at=1024)):
        assert text_of(found._repr_html_()).count("\n") > 2
    assert len(extrap.cost(made, at=1024)._repr_html_().splitlines()) > 2


def test_a_source_with_a_command_for_the_terminal_is_spelled_out(runs):
    text = repr(replace(runs, source="\x1b[31m<b>.csv\nsecond line"))
    assert not {"\x1b", "\n"} & set(text)


def test_a_long_text_is_cut():
    assert plain("x" * MOST_TEXT) == "x" * MOST_TEXT
    assert plain("x" * (MOST_TEXT + 1)) == "x" * (MOST_TEXT - 1) + "…"
