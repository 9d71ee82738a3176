"""The comparison with golden files: what must fail fails, and what may differ passes."""

from __future__ import annotations

import json
import math

import pytest

from extrap import Interval

from .comparing import CLOSED, OPTIMISED, differences, plain, report, written


def differ(found: object, golden: object, rel: float = OPTIMISED) -> bool:
    return bool([*differences(found, golden, rel=rel)])


@pytest.mark.parametrize(
    ("found", "golden"),
    [
        (1.0002, 1.0),
        (-1.0, 1.0),
        (2, 1),
        (0.0, 1e-7),
        (1, True),
        (0.0, False),
        (None, 0.0),
        ("nan", 1.0),
        ("nan", "inf"),
        ("-inf", "inf"),
        ([1.0], [1.0, 2.0]),
        ([1.0, 2.0], [1.0]),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1, "b": None}, {"a": 1}),
        ({"a": 1}, [1]),
        ("loss 2.01", "loss 2.11"),
        ("loss 2.01", "less 2.01"),
        ("4096 runs", "4097 runs"),
        ("a 1.2", "a 1.3"),
        ("p 1e-5", "p 1e-6"),
        ("−3.10", "3.10"),
        ("x 1.001 of 5", "x 1.003 of 5"),
        ("1 run", "1 runs"),
    ],
)
def test_differences_are_found(found: object, golden: object) -> None:
    assert differ(found, golden)
    assert differ({"deep": [found]}, {"deep": [golden]})


@pytest.mark.parametrize(
    ("found", "golden"),
    [
        (1.00005, 1.0),
        (1, 1.0),
        (1e-17, 0.0),
        ("nan", "nan"),
        ("loss 2.001", "loss 2.002"),
        ("a  2.001 ±", "a 2.001 ±"),
        ("12345.6 FLOPs", "12345.7 FLOPs"),
        ("1.234e-05", "1.235e-05"),
    ],
)
def test_rounding_is_no_difference(found: object, golden: object) -> None:
    assert not differ(found, golden)


def test_closed_forms_are_held_tighter() -> None:
    assert not differ(1 + 5e-9, 1.0, CLOSED)
    assert differ(1 + 5e-8, 1.0, CLOSED)
    assert differ(1e-11, 0.0, CLOSED)


def test_records_are_written_with_all_they_hold() -> None:
    value = {"i": Interval(1.0, None), "s": {3, 1}, "x": math.inf, "t": "at 2026-01-02T03:04:05Z"}
    assert plain(value) == {
        "i": {"lower": 1.0, "upper": None},
        "s": [1, 3],
        "x": "inf",
        "t": "at TIME",
    }
    assert json.loads(written(value)) == plain(value)


def test_a_report_says_where() -> None:
    assert report('{"a": [1, 2]}', '{"a": [1, 3]}', kind="json", rel=CLOSED) == [
        ".a[1]: 2, golden 3"
    ]
    assert report("a\nb 1\n", "a\nb 2\n", kind="txt", rel=CLOSED) == ["[1]: 'b 1', golden 'b 2'"]
