"""Numbers are written by one module, and ends of intervals are numbers or open."""

import ast
import math
import re
from pathlib import Path

from extrap.records import Cell, Interval, RunResult, numbers


def test_ends_are_inside_open_sides_hold_everything_and_beyond_floats_a_side_is_open():
    assert 1e300 in Interval(0.0, None)
    assert -1e300 in Interval(None, 0.0)
    assert [x in Interval(0.0, 1.0) for x in (-0.1, 0, 1, 1.1)] == [False, True, True, False]
    assert "1" not in Interval(None, None)
    assert Interval.around_log(0.0, 1e6) == Interval(0.0, None)
    assert Interval.around_log(700.0, 9.5).upper is None
    assert Interval.around_log(700.0, 9.0) == (math.exp(691.0), math.exp(709.0))
    assert Interval.around_log(800.0, 1.0) == (math.exp(709.0), None)


def test_what_is_not_known_of_a_run_is_zero():
    run = RunResult(cell=Cell({"width": 8}, {"lr": 0.1}, 0), status="complete", loss=1.0)
    assert (run.n_params, run.n_params_total, run.n_tokens, run.epochs) == (0, 0, 0, 0)
    assert (run.flops, run.wall_s, run.updates) == (0, 0, 0)


def test_sides_that_are_equal_but_for_rounding_have_four_digits():
    sides = Interval(1.0500000000000003, 1.0500000000000005)
    assert numbers.format_estimate(1.05, sides) == "1.050 (1.050 to 1.050)"


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
