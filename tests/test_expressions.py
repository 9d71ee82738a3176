"""Formulas over columns: their values, their names, and what is refused because it is none."""

import math

import numpy as np
import pytest

from extrap.expressions import Expression, parse_definition

COLUMNS = {"lr": 0.02, "width": 1024, "train/loss": 3.5, "config.lr": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("lr * width / 256", 0.08),
        ("-lr + 2 ** 3", 7.98),
        ("sqrt(width) - max(lr, 30)", 2.0),
        ("`train/loss` // 2 + width % 1000", 25.0),
        ("config.lr * 10", 5.0),
        ("min(round(config.lr), log2(width))", 0.0),
        ("exp(log(width)) + log10(100) + abs(-lr) + floor(2.5) + ceil(2.5)", 1031.02),
        ("9 ** 9 ** 9 ** 9", math.inf),
        ("1 / (lr - lr)", math.inf),
        ("log(0 - lr)", math.nan),
    ],
)
def test_a_formula_has_the_value_of_its_arithmetic(text, value):
    assert Expression(text)(COLUMNS) == pytest.approx(value, nan_ok=True)


def test_a_formula_over_arrays_is_taken_element_by_element():
    product = Expression("lr * width")({"lr": np.array([1.0, 2.0]), "width": np.array([3, 4])})
    assert product.tolist() == [3.0, 8.0]
    assert Expression("b * a + b.c + `d e`").names == ("b", "a", "b.c", "d e")
    name, formula = parse_definition(" `lr/mult` = lr * width / 256")
    assert (name, formula.text) == ("lr/mult", "lr * width / 256")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "lr.__class__()",
        "().__class__",
        "[x for x in lr]",
        "lambda: 1",
        "lr if lr else 1",
        "lr < 1",
        "'a' * 3",
        "True + 1",
        "sqrt(lr, 2)",
        "max(lr)",
        "sqrt(x=1)",
        "lr ==",
        "",
        "1" * 400,
        "(" * 300,
        "-" * 200 + "1",
        "lr + " * 200 + "1",
        "a\0b",
    ],
)
def test_what_is_no_arithmetic_is_refused(text):
    with pytest.raises(ValueError, match=r"formula|argument|name|number"):
        Expression(text)


@pytest.mark.parametrize("text", ["lr", "= lr", "lr ="])
def test_a_definition_needs_a_name_and_a_formula(text):
    with pytest.raises(ValueError, match="name = formula"):
        parse_definition(text)


def test_a_name_that_is_no_column_is_named():
    with pytest.raises(ValueError, match="rate"):
        Expression("rate * 2")({"lr": 1.0, "width": 2.0})
