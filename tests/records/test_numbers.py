"""Numbers are written by one module, and ends of intervals are numbers or open."""

import ast
import math
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


def test_an_error_of_arithmetic_alone_is_none():
    assert numbers.format_value(1.0, 3e-16) == "1.000"
    assert numbers.format_value(1.0, 3e-9) == "1.0000000000 ± 0.0000000030"


def outside_errors(tree):
    """The nodes of a tree but those of a `raise`, whose message repeats what was given."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.Raise):
            yield from outside_errors(child)


def formats_of_numbers(source):
    """Lines that write a number in an f-string; ruff (UP) leaves no other way but `format`."""
    for node in outside_errors(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            last = node.format_spec.values[-1]
            if isinstance(last, ast.Constant) and last.value[-1:] in tuple("eEfFgGn%"):
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "format":
            yield node.lineno


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
