"""Every flag, rule and parameter has its words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import extrap
from extrap.batching import FLAGS as BATCH_FLAGS
from extrap.fitting import RULES
from extrap.reporting.flag_words import FAMILIES, UNKNOWN
from extrap.reporting.glossary import (
    RULE_NAMES,
    explain_flag,
    explain_flags,
    explain_parameter,
)
from extrap.reporting.knobs import FLAGS as KNOB_FLAGS

ROOT = Path(extrap.__file__).parent
FLAG = re.compile(r"[a-z]+(-[a-z]+)+|bends|far|pinned|censored|infeasible|diverged|edge")
"""What a flag's name looks like; those of one word are listed."""


def flags_of(path: Path) -> set[str]:
    """Names of flags that a module makes: in what is called flags, and in functions that are."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    named = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AugAssign(target=target, value=value)
            ):
                places = [value] if "flags" in ast.unparse(target).lower() else []
            case ast.keyword(arg="flags", value=value):
                places = [value]
            case ast.Call(func=ast.Attribute(value=owner, attr="append" | "extend"), args=args):
                places = args if "flags" in ast.unparse(owner).lower() else []
            case ast.FunctionDef(name=name, body=body):
                places = body if "flags" in name or name == "check_health" else []
            case _:
                places = []
        for place in places:
            texts = [each.value for each in ast.walk(place) if isinstance(each, ast.Constant)]
            texts += [named.get(each.id) for each in ast.walk(place) if isinstance(each, ast.Name)]
            found |= {text.partition(":")[0] for text in texts if isinstance(text, str)}
    return {name for name in found if FLAG.fullmatch(name)}


FAMILY_OF = {
    "planning/allocation.py": "allocation",
    "planning/doubts.py": "allocation",
    "batching": "batches",
    "knobs": "knobs",
    "comparing": "comparison",
}
"""Module or room → the family of its flags; of all others it is `forecast`."""
MODULES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in ("reporting", "cli.py", "commands")
]


def test_flags_are_found_where_they_are_made() -> None:
    """The test below is worth nothing if the search is blind."""
    found = set().union(*map(flags_of, MODULES))
    assert {"optimum-law-bends", "lack-of-fit", "bound-hit", "far-extrapolation"} <= found
    assert {"one-seed", "no-noise", "edge", "diverged"} <= found
    assert {"curvature-drifts", "far", "bends", "lost-runs"} <= found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_flag_that_a_module_makes_has_its_three_parts(path: Path) -> None:
    module = path.relative_to(ROOT)
    family = FAMILY_OF.get(module.parts[0].removesuffix(".py"), "forecast")
    for flag in flags_of(path):
        found = explain_flag(flag, of=FAMILY_OF.get(module.as_posix(), family))
        assert found.name == flag, flag
        assert found.action != UNKNOWN[2], flag


def test_every_flag_of_an_allocation_is_found_where_it_is_made() -> None:
    made = [path for path in MODULES if FAMILY_OF.get(path.relative_to(ROOT).as_posix())]
    assert set().union(*map(flags_of, made)) == set(FAMILIES["allocation"])


def test_flags_that_other_rooms_list_are_all_explained() -> None:
    assert set(BATCH_FLAGS) == set(FAMILIES["batches"])
    assert set(KNOB_FLAGS) == set(FAMILIES["knobs"])


@pytest.mark.parametrize("family", FAMILIES)
def test_each_part_is_a_sentence_of_its_own(family: str) -> None:
    for name, parts in FAMILIES[family].items():
        assert len(set(parts)) == 3, name
        for part in parts:
            assert part[0].isupper(), name
            assert part.endswith("."), name
            assert len(part) > 10, name


def test_detail_of_a_flag_is_kept_apart() -> None:
    found = explain_flag("pinned: E = 1.6")
    assert (found.name, found.detail) == ("pinned", "E = 1.6")
    assert explain_flag("no-lr-law: too few sizes").name == "no-lr-law"
    assert explain_flag("lack-of-fit: no law follows all sizes").why == (
        explain_flag("lack-of-fit").why
    )
    assert explain_flag("new-flag: x").name == "new-flag: x"


def test_one_flag_with_several_details_is_explained_once() -> None:
    flags = ["optimum-law-bends: lr", "bound-hit", "optimum-law-bends: batch", "bound-hit"]
    found = explain_flags(flags)
    assert [(f.name, f.detail) for f in found] == [
        ("optimum-law-bends", "lr, batch"),
        ("bound-hit", ""),
    ]


def test_every_rule_has_a_short_name() -> None:
    assert {rule.key for rule in RULES} == set(RULE_NAMES)


@pytest.mark.parametrize(
    ("law", "name", "words"),
    [
        ("log_linear", "a", "loss at the reference size"),
        ("optimum_power", "a", "logarithm of the optimum"),
        ("optimum_power", "b2", "column 2"),
        ("skaling_tied", "k", "how fully the two terms add"),
        ("power_floor", "E", "floor"),
    ],
)
def test_parameters_mean_what_their_law_says(law: str, name: str, words: str) -> None:
    assert words in explain_parameter(law, name)
