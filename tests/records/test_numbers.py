"""How numbers are written."""

import ast
import math
import re
from pathlib import Path

import pytest

from extrap.records import Interval, numbers
from extrap.records.numbers import NBSP


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.74861, 0.01323, "1.749 ± 0.013"),
        (1.74861, 0.0996, "1.75 ± 0.10"),
        (0.0026061, 0.000368, "0.00261 ± 0.00037"),
        (-4.8188, 0.0368, "−4.819 ± 0.037"),
        (123456.0, 2345.0, "123500 ± 2300"),
        (2.6061e-5, 3.68e-6, "(2.61 ± 0.37)e−5"),
        (1.2346e8, 2.3e6, "(1.235 ± 0.023)e8"),
        (1.74861, None, "1.749"),
        (1.74861, 0.0, "1.749"),
        (None, 0.1, "unknown"),
        (float("nan"), None, "unknown"),
    ],
)
def test_two_digits_of_the_error_decide_how_a_value_is_written(value, error, text):
    assert numbers.format_value(value, error) == text


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (1.65232, 1.79541, "1.652 to 1.795"),
        (0.0017811, 0.0038131, "0.00178 to 0.00381"),
        (None, 1.9, "at most 1.900"),
        (1.9, None, "at least 1.900"),
        (None, None, "unknown"),
    ],
)
def test_an_interval_says_when_a_side_is_open(lower, upper, text):
    assert numbers.format_interval(Interval(lower, upper)) == text


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (1.749, Interval(1.671, 1.83), "1.749 (1.671 to 1.830)"),
        (2.17, Interval(0.77, 5400.0), "2.2 (0 to 5400)"),
        (1.749, Interval(1.671, None), "1.749 (at least 1.671)"),
        (None, Interval(1.671, 1.83), "1.671 to 1.830"),
        (300.000009, Interval(299.999987, 300.000013), "300.000 (300.000 to 300.000)"),
    ],
)
def test_a_value_keeps_two_digits_however_wide_its_interval(value, interval, text):
    assert numbers.format_estimate(value, interval) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024"),
        (1.3e9, "1.3B"),
        (0.0026061, "0.00261"),
        (0.02, "0.02"),
        (2.6e-5, "2.6e−5"),
        (174992.4, "175000"),
        (1024.5, "1024"),
        (380.4, "380"),
        (None, "not known"),
    ],
)
def test_sizes_and_tuned_values_are_written_to_be_recognised(value, text):
    assert numbers.format_quantity(value) == text


@pytest.mark.parametrize(
    ("excess", "text"),
    [(0.0, "0"), (1e-5, "0"), (0.0012, "0.12"), (0.01, "1.0"), (0.0942, "9.9"), (0.2, "22")],
)
def test_costs_are_percents_of_two_digits(excess, text):
    assert numbers.format_cost(excess) == f"{text}{NBSP}%"
    if excess >= 0.0095:
        assert numbers.format_cost(math.log(2 - math.exp(excess))) == f"−{text}{NBSP}%"


def test_percents_carry_their_sign_and_few_digits():
    assert numbers.format_percent(0.0123) == f"+1.2{NBSP}%"
    assert numbers.format_percent(-0.234) == f"−23{NBSP}%"
    assert numbers.format_percent(0.234, signed=False) == f"23{NBSP}%"


def test_small_p_values_are_only_bounded():
    assert numbers.format_p_value(1e-9) == f"<{NBSP}0.001"
    assert numbers.format_p_value(0.0123) == "0.012"
    assert numbers.format_p_value(0.456) == "0.46"
    assert numbers.format_p_value(None) == "–"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (2.6667, 2, "2.7"),
        (123.4, 2, "120"),
        (1234.5, 4, "1234"),
        (1234.5678, 6, "1234.57"),
        (0.12345678, 6, "0.123457"),
        (1.2345e-7, 2, "1.2e−7"),
        (-0.0314, 2, "−0.031"),
        (123.456e6, 2, "120M"),
        (2e16, 3, "2e16"),
    ],
)
def test_a_quantity_is_rounded_to_the_digits_asked_for(value, digits, text):
    cell = numbers.format_quantity(value, digits=digits)
    assert (cell, cell.value) == (text, value)


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ([2.5, 3, 3.5], ["2.5", "3.0", "3.5"]),
        ([16, 32, 64, 128], ["16", "32", "64", "128"]),
        ([1e-5, 2e-5], ["1e−5", "2e−5"]),
    ],
)
def test_ticks_close_together_share_their_decimals(ticks, labels):
    assert numbers.format_ticks(ticks) == labels


def test_ticks_of_differences_carry_their_sign():
    ticks = [numbers.format_percent_tick(x) for x in (-0.025, 0.0, 0.07)]
    assert ticks == ["−2.5 %", "0", "+7 %"]


def test_the_level_stands_before_the_interval():
    cell = numbers.format_estimate(1.749, Interval(1.671, 1.83), 0.95)
    assert cell == f"1.749 (95{NBSP}%: 1.671 to 1.830)"


def test_a_percentage_has_the_digits_asked_for_below_ten():
    assert numbers.format_percent(0.00342, digits=2) == f"+0.34{NBSP}%"
    assert numbers.format_percent(-0.0346, digits=2) == f"−3.5{NBSP}%"
    assert numbers.format_percent(-0.342, digits=2) == f"−34{NBSP}%"


NUMBER_TYPES = tuple("eEfFgGn%")
PRINTF = re.compile(r"%(\(\w+\))?[-+ #0]*(\d+|\*)?(\.\d+)?[eEfFgG]")
BRACES = re.compile(r"\{[^{}]*:[^{}:]*[eEfFgGn%]\}")
FORMATS = {"format", "format_map"}


def ends_in_a_number_type(spec):
    last = spec.values[-1] if isinstance(spec, ast.JoinedStr) and spec.values else None
    return isinstance(last, ast.Constant) and last.value[-1:] in NUMBER_TYPES


def outside_errors(tree):
    """The nodes of a tree but those of a `raise`, whose message repeats what was given."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.Raise):
            yield from outside_errors(child)


def formats_of_numbers(source):
    """Lines of a module that write a number without the functions of `numbers`."""
    for node in outside_errors(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            found = ends_in_a_number_type(node.format_spec)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            text = node.left.value if isinstance(node.left, ast.Constant) else ""
            found = isinstance(text, str) and PRINTF.search(text)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Constant):
            text, is_format = node.value.value, node.attr in FORMATS
            found = is_format and isinstance(text, str) and BRACES.search(text)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found = node.func.id == "format"
        else:
            continue
        if found:
            yield node.lineno


def test_every_way_to_write_a_number_is_found():
    ways = [
        'f"{x:.3g}"',
        'f"{100 * x:.0f} %"',
        'f"{x:+.{n}e}"',
        'f"{x:.1%}"',
        '"%.3g" % x',
        '"{:.3g}".format(x)',
        'map("{:.3g}".format, x)',
        'format(x, ".3g")',
    ]
    assert sorted(formats_of_numbers("\n".join(ways))) == list(range(1, 1 + len(ways)))
    assert not list(formats_of_numbers('f"{x:>8} {y} {z!r}"; n % 2; "{}".format(x)'))
    assert not list(formats_of_numbers('raise ValueError(f"level must be below 1, got {x:g}.")'))


def test_numbers_are_written_by_one_module():
    package = Path(numbers.__file__).parents[1]
    found = [
        f"{path.name}:{line}"
        for folder in ("reporting", "study", "commands")
        for path in sorted((package / folder).glob("*.py"))
        if path.name != "numbers.py"
        for line in formats_of_numbers(path.read_text(encoding="utf-8"))
    ]
    assert found == []
