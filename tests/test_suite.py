"""Rules of the tests themselves: few pin a sentence, none a time, and no gap passes in CI."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import conftest

TESTS = Path(__file__).parent
PHRASE = 25
"""Characters from which a text with a space is a phrase."""
MOST = 0.03


def functions():
    """Test functions outside the contract, whose files pin texts on purpose."""
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS).as_posix()
        if not name.startswith("contract/"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    yield name, node


def pinned(function):
    """Phrases in assertions and in `match=` of a test."""
    asserted = [node.test for node in ast.walk(function) if isinstance(node, ast.Assert)]
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    matched = [k.value for call in calls for k in call.keywords if k.arg == "match"]
    return [
        node.value
        for part in (*asserted, *matched)
        for node in ast.walk(part)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and len(node.value) >= PHRASE
        and " " in node.value.strip()
    ]


def test_few_tests_pin_a_phrase():
    found = [(name, function.name, pinned(function)) for name, function in functions()]
    pinning = [each for each in found if each[2]]
    assert len(pinning) <= MOST * len(found), pinning


def test_no_test_has_less_than_ten_minutes():
    short = [
        (name, function.name, keyword.value.value)
        for name, function in functions()
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "timeout"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, int | float)
        and 0 < keyword.value.value < 600
    ]
    assert short == []


@pytest.mark.parametrize(
    ("ci", "reason", "outcome"),
    [
        ("true", "no card here", "failed"),
        ("true", "this processor cannot take denormals for 0", "skipped"),
        ("", "no card here", "skipped"),
    ],
)
def test_in_ci_a_skip_that_is_not_listed_is_a_failure(monkeypatch, ci, reason, outcome):
    monkeypatch.setenv("CI", ci)
    said = (__file__, 1, f"Skipped: {reason}")
    report = SimpleNamespace(skipped=True, outcome="skipped", longrepr=said)
    hook = conftest.pytest_runtest_makereport()
    next(hook)
    with pytest.raises(StopIteration) as end:
        hook.send(report)
    assert end.value.value.outcome == outcome
