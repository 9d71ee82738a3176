"""Plain English: words that no text for users may have, in one list."""

import re

import click

from extrap.cli import cli

from .pages import ROOT

BANNED = r"""
    doors?|strangers?|keepers?|census|crews?|foreseen|valleys?|plates?|outlooks?|rooms?|wings?|told
    |x\ fitted|beware|anew|levers|dials?|marked\ for\ caution
    |(?:one|a|an)\ [\w-]+\ an?\ (?:run|row|line|size|seed|step|file|page|input|minute|GPU|core|card
    |worker|process|machine|batch|metric|layer|cell|decade|doubling)
"""


def found_in(text):
    """Banned words of a text, without what is in backticks."""
    prose = re.sub(r"`[^`]*`", "", text)
    return re.findall(rf"\b(?:{BANNED})\b", prose, flags=re.IGNORECASE | re.VERBOSE)


def helps(command, name):
    """Name and help of a command and of all below it."""
    yield (
        f"help of {name}",
        command.get_help(click.Context(command, info_name=name, **command.context_settings)),
    )
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
    read = dict(texts())
    assert len(read) > 40
    assert {where: words for where, text in read.items() if (words := found_in(text))} == {}
