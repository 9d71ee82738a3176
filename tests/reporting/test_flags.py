"""Every flag, rule and parameter has its words."""

import ast
import json
import re
from pathlib import Path

import pytest

import extrap
from extrap.analyses.batch_size import FLAGS as BATCH_FLAGS
from extrap.analyses.sweep.flags import MEANINGS, explain_parameter
from extrap.laws import LAWS
from extrap.records.flags import Flag
from extrap.registry import meanings
from extrap.reporting.flags import (
    UNKNOWN_MEANING,
    explain_flag,
    explain_flags,
    flags_in,
    with_flag_meanings,
)

GOLDEN = Path(__file__).parents[1] / "contract" / "golden"


def test_every_flag_of_every_analysis_is_explained():
    assert set(BATCH_FLAGS) == set(meanings()["batch_size"])
    for flags in meanings().values():
        for flag, parts in flags.items():
            found = explain_flag(f"{flag}: 1 of 2", flags)
            assert (found.name, found.detail) == (flag, "1 of 2")
            assert (found.meaning, found.why, found.action) == parts
            assert len({*parts, UNKNOWN_MEANING[2]}) == 4, flag


def test_an_imprecise_loss_has_one_reason_and_other_flags_all_they_concern():
    given = [
        "imprecise-loss: a; more seeds",
        "outlier: x",
        "imprecise-loss: b; more seeds",
        "outlier: y",
    ]
    assert [(found.name, found.detail) for found in explain_flags(given, MEANINGS)] == [
        ("imprecise-loss", "b; more seeds"),
        ("outlier", "x, y"),
    ]


def made_in(path):
    """Flags of several words that a module makes: in what is called flags, or returns them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Assign(targets=[name]) | ast.AugAssign(target=name):
                is_flags = "flags" in ast.unparse(name).lower()
            case ast.Call(func=ast.Attribute(value=name, attr="append" | "extend")):
                is_flags = "flags" in ast.unparse(name)
            case ast.keyword(arg=name) | ast.FunctionDef(name=name):
                is_flags = "flags" in (name or "")
            case _:
                continue
        for each in ast.walk(node) if is_flags else ():
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                found.add(each.value.partition(":")[0])
    return {name for name in found if re.fullmatch(r"[a-z]+(-[a-z]+)+", name)}


def test_every_flag_that_is_made_is_explained():
    root = Path(extrap.__file__).parent
    parts = [path for path in root.iterdir() if path.name not in ("reporting", "commands")]
    modules = [
        path for part in parts for path in (part.rglob("*.py") if part.is_dir() else [part])
    ]
    made = set().union(*(made_in(path) for path in modules if path.suffix == ".py"))
    for path in (root / "analyses").glob("*/*.py"):
        assert made_in(path) <= set(meanings().get(path.parent.name, {})), path
    assert {"far-extrapolation", "lack-of-fit", "bound-hit", "lost-runs"} <= made
    assert made <= {flag for flags in meanings().values() for flag in flags}


def test_every_flag_that_is_explained_is_made():
    root = Path(extrap.__file__).parent
    tables = set((root / "analyses").glob("*/flags.py"))
    texts = {
        node.value
        for path in set(root.rglob("*.py")) - tables
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    }
    codes = {Flag(code).code for table in meanings().values() for code in table}
    assert codes - texts == set()


def test_every_flag_in_the_json_of_a_command_is_explained_there():
    n_flags = 0
    for path in GOLDEN.glob("json-*.json"):
        printed = json.loads(path.read_text(encoding="utf-8"))["out"]
        names = {Flag(flag).name for flag in flags_in(printed)}
        explained = printed.get("flag_meanings", {}) if isinstance(printed, dict) else {}
        assert set(explained) == names, path.name
        assert UNKNOWN_MEANING[0] not in {words["meaning"] for words in explained.values()}
        n_flags += len(names)
    assert n_flags > 3


def result_of(name):
    """A result of a class of this name."""
    return type(name, (), {})()


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("Forecast", "sweep"),
        ("Allocation", "sweep"),
        ("CriticalBatches", "batch_size"),
        ("OfNoAnalysis", "sweep"),
    ],
)
def test_a_flag_of_several_tables_means_what_that_of_the_result_says(name, folder):
    document = {"law": {"flags": ["lack-of-fit: no law"]}, "warnings": []}
    explained = with_flag_meanings(document, result_of(name))["flag_meanings"]
    assert tuple(explained["lack-of-fit"].values()) == meanings()[folder]["lack-of-fit"]


def test_json_explains_flags_by_their_names_and_stays_as_it_is_without():
    flags = ["refused-lr: too wide", "refused-loss: no", "flat-lr: 1 to 2", "pinned: E = 1"]
    explained = with_flag_meanings({"points": [{"flags": flags}]}, result_of("Forecast"))
    assert list(explained["flag_meanings"]) == ["refused-lr", "refused-loss", "flat-lr", "pinned"]
    assert explained["flag_meanings"]["refused-lr"]["meaning"] == MEANINGS["refused"][0]
    without = {"flags": [], "runs": {"flags": 3}}
    assert with_flag_meanings(without, result_of("Forecast")) == without


@pytest.mark.parametrize("key", LAWS)
def test_every_parameter_of_a_law_is_explained(key):
    law = LAWS[key]
    for name in law.names(law.n_columns[-1]):
        words = explain_parameter(key, name)
        assert words.strip(", ")
        assert not words.startswith(","), name
