"""Every flag, rule and parameter has its words."""

from __future__ import annotations

import ast
import inspect

import pytest

from extrap import forecasting
from extrap.fitting import RULES, health, loss_law, optimum_law
from extrap.reporting.glossary import (
    RULE_NAMES,
    explain_flag,
    explain_flags,
    explain_parameter,
)

PLACES = (forecasting, health, loss_law, optimum_law)


def flags_in_source() -> set[str]:
    """Strings that look like a flag where flags are made."""
    texts = {
        node.value.partition(":")[0]
        for module in PLACES
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {t for t in texts if "-" in t.strip("-") and t.replace("-", "").isalpha()}


def test_every_flag_of_the_library_is_explained() -> None:
    flags = {flag for flag in flags_in_source() if flag == flag.lower() and flag.isascii()}
    assert {"optimum-law-bends", "lack-of-fit", "columns-collinear", "bound-hit"} <= flags
    unknown = [f for f in [*flags, "pinned"] if "See the manual" in explain_flag(f).action]
    assert unknown == []


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
