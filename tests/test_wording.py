"""Plain English: words that no text for users may have, in one list. Add a row to ban another."""

import re

import click

from extrap.cli import cli

from .pages import ROOT

BANNED = {
    r"doors?": "Where to start",
    r"strangers?": "untrusted files",
    r"keepers?": "the supervisor starts a worker",
    r"census": "counts of the cells",
    r"crews?": "a pool of workers",
    r"foreseen": "predicted loss: 2",
    r"valleys?": "the excess-loss curve at a size",
    r"plates?": "the charts of the page",
    r"outlooks?": "expected widths of a plan",
    r"rooms?|wings?": "sub-packages",
    r"told": "a difference is significant",
    r"x fitted": "the column extrapolation ratio",
    r"beware|anew": "written again",
    r"levers|dials?": "the treatments of a batch",
    r"marked for caution": "Warnings",
    r"(?:one|a|an) [\w-]+ an? (?:run|row|line|size|seed|step|file|page|input|minute|GPU|core|card"
    r"|worker|process|machine|batch|metric|layer|cell|decade|doubling)": "one row per run",
}
"""Pattern of whole words → a text in plain English that has none of them."""


def found_in(text):
    """Banned words of a text, without what is in backticks."""
    prose = re.sub(r"`[^`]*`", "", text)
    return [
        f"{match[0]!r}: write as in {instead!r}"
        for pattern, instead in BANNED.items()
        for match in re.finditer(rf"\b(?:{pattern})\b", prose, flags=re.IGNORECASE)
    ]


def helps(command, name):
    """Name and help of a command and of all below it."""
    yield f"help of {name}", command.get_help(click.Context(command, info_name=name))
    for below, each in getattr(command, "commands", {}).items():
        yield from helps(each, f"{name} {below}")


def texts():
    """What people read: where it is, and the words."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        yield path.name, re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for path in sorted((ROOT / "extrap" / "reporting" / "templates").glob("*.html.j2")):
        tags = r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|<!--.*?-->|<[^<>]*>"
        yield path.name, re.sub(tags, " ", path.read_text(encoding="utf-8"), flags=re.S)
    yield from helps(cli, "extrap")


def test_no_text_has_a_banned_word():
    assert [len(found_in(text)) for text in ("Told", "`told`", "one row a run")] == [1, 0, 1]
    assert [instead for instead in BANNED.values() if found_in(instead)] == []
    read = dict(texts())
    assert len(read) > 40
    assert {where: words for where, text in read.items() if (words := found_in(text))} == {}
