"""Plain English: words that no text for users may have, in one list. Add a row to ban another."""

import ast
import re
from pathlib import Path

import click
import pytest

from extrap.cli import cli

from .pages import ROOT

BANNED = (
    (r"doors?", "Which door is yours", "Where to start"),
    (r"strangers?", "files of strangers", "untrusted files"),
    (r"keepers?", "the keeper starts a worker", "the supervisor starts a worker"),
    (r"census", "a census of the cells", "counts of the cells"),
    (r"crews?", "a crew of processes", "a pool of workers"),
    (r"foreseen", "foreseen was a loss of 2", "predicted loss: 2"),
    (r"valleys?", "the valley at a size", "the excess-loss curve at a size"),
    (r"plates?", "the plates of the page", "the charts of the page"),
    (r"outlooks?", "outlooks of a plan", "expected widths of a plan"),
    (r"rooms?|wings?", "names in rooms below", "names in sub-packages"),
    (r"told", "a difference is told", "a difference is significant"),
    (r"x fitted", "the column x fitted", "the column extrapolation ratio"),
    (r"beware|anew", "written anew", "written again"),
    (r"levers|dials?", "the levers of a batch", "the treatments of a batch"),
    (r"marked for caution", "Marked for caution", "Warnings"),
    (
        r"(?:one|a|an) [\w-]+ an? (?:run|row|line|size|seed|step|file|page|input|minute|GPU|core"
        r"|card|worker|process|machine|batch|metric|layer|cell|decade|doubling)",
        "one row a run",
        "one row per run",
    ),
)
"""Pattern of whole words, a text that has it, the same in plain English."""


def found_in(text):
    """Banned words of a text, without what is in backticks: names in the code are no prose."""
    prose = re.sub(r"`[^`]*`", "", text)
    return [
        f"{match[0]!r}: write as in {instead!r}"
        for pattern, _, instead in BANNED
        for match in re.finditer(rf"\b(?:{pattern})\b", prose, flags=re.IGNORECASE)
    ]


def names_in(path):
    """Words of the names that a module defines: its own, functions, classes, arguments, fields."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {path.stem}
    names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    names |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {w for name in names for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def helps(command, name):
    """Name and help of a command and of all below it."""
    yield name, " ".join(command.get_help(click.Context(command, info_name=name)).split())
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            yield from helps(each, f"{name} {below}")


def template_text(path):
    """What a page shows of a template: no expressions, tags and comments of either language."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|<!--.*?-->|<[^<>]*>", " ", text, flags=re.S)


@pytest.mark.parametrize(("pattern", "wrong", "right"), BANNED, ids=[row[1] for row in BANNED])
def test_each_row_finds_what_it_bans_and_passes_what_it_proposes(pattern, wrong, right):
    assert any(re.search(pattern, each.partition(":")[0], re.I) for each in found_in(wrong))
    assert found_in(right) == []


def test_code_has_no_banned_name():
    """Phrases apart: names have no spaces."""
    names = {path: names_in(path) for path in sorted((ROOT / "extrap").rglob("*.py"))}
    assert len(names) > 200
    found = {path.name: found_in(" , ".join(sorted(words))) for path, words in names.items()}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_documentation_has_no_banned_word(page: Path):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert found_in(text) == []


def test_help_has_no_banned_word():
    pages = dict(helps(cli, "extrap"))
    assert len(pages) > 20
    assert {name: words for name, text in pages.items() if (words := found_in(text))} == {}


def test_page_templates_have_no_banned_word():
    templates = sorted((ROOT / "extrap" / "reporting" / "templates").glob("*.html.j2"))
    assert templates
    assert {p.name: words for p in templates if (words := found_in(template_text(p)))} == {}
