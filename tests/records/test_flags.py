"""Flags and notes: data that reads as text, and the same data when it is read back."""

import ast
import copy
import json
from importlib import import_module
from pathlib import Path

import pytest

import extrap
from extrap.records.flags import Flag, pinned, pinned_name
from extrap.records.notes import MAXIMISED, TEXTS, Note, note, of_codes, values_of
from extrap.registry import meanings
from extrap.reporting.tables import Colored

PACKAGE = Path(extrap.__file__).parent
FLAGS = [
    (Flag("too-few-sizes"), "too-few-sizes"),
    (Flag("far-extrapolation", "32 times"), "far-extrapolation: 32 times"),
    (Flag("refused", "too wide: ± 9 %", column="muon-lr"), "refused-muon-lr: too wide: ± 9 %"),
    (Flag("flat", column="lr"), "flat-lr"),
    (pinned("lr.b", -0.5), "pinned: lr.b = -0.5"),
]


@pytest.mark.parametrize(("flag", "text"), FLAGS)
def test_a_flag_is_its_text_and_keeps_its_parts_in_files(flag, text):
    assert flag == text
    for again in (Flag(text), Flag(json.loads(json.dumps(flag))), copy.deepcopy(flag)):
        parts = (again.code, again.column, again.detail)
        assert parts == (flag.code, flag.column, flag.detail)


def test_a_pinned_parameter_is_named_by_its_flag():
    assert pinned_name(pinned("E", 1.7)) == "E"


@pytest.mark.parametrize("code", TEXTS)
def test_a_note_keeps_its_values_in_files(code):
    values = [f"v{i}" for i in range(TEXTS[code].count("{}"))]
    for made in (note(code, *values), Note(str(note(code, *values)))):
        assert (made.code, list(made.values)) == (code, values)


def test_notes_are_selected_by_code():
    notes = [note("using", "lr"), "text alone", note("pooled", "seed"), note("using", "lr")]
    assert of_codes(notes, "using", "loss-column") == ["Using lr"]
    assert values_of(notes, "pooled") == [("seed",)]


def codes_made():
    """Code of each flag that is made of a literal or of a constant, with the module."""
    for path in PACKAGE.rglob("*.py"):
        calls = [
            node.args[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Flag" and node.args
        ]
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        constants = vars(import_module(".".join(parts))) if calls else {}
        for code in calls:
            if isinstance(code, ast.Constant):
                yield path.name, code.value
            elif isinstance(code, ast.Name) and isinstance(constants.get(code.id), str):
                yield path.name, constants[code.id]


def test_every_flag_that_the_package_makes_is_explained():
    explained = {code for table in meanings().values() for code in table}
    by_column = {Flag(code).code for code in explained}
    made = list(codes_made())
    assert len(made) > 28
    assert {"refused", "imprecise", "flat", "no-finished-runs"} <= {code for _, code in made}
    assert [place for place in made if place[1] not in explained | by_column] == []


@pytest.mark.parametrize("name", ["Using acc", "a: b", "x was read from the y", "{}", "pooled"])
def test_no_name_of_a_column_changes_what_is_said_of_it(name):
    assert values_of([note(MAXIMISED, name, name)], MAXIMISED) == [(name, name)]
    flag = Flag("refused", "why", column=name)
    assert (flag.code, flag.column, flag.detail) == ("refused", name, "why")
    assert Flag(flag) is flag


def test_a_code_that_begins_like_that_of_a_column_is_one():
    codes = {code for table in meanings().values() for code in table}
    assert {code for code in codes if Flag(code).column} <= {"imprecise-loss", "refused-loss"}


def test_cells_and_flags_survive_a_copy():
    for text in (Colored("on law", "good"), FLAGS[1][0], note("pooled", "lr")):
        assert vars_of(copy.deepcopy(text)) == vars_of(text)


def vars_of(text):
    return {name: getattr(text, name) for name in type(text).__slots__}
