"""Arithmetic over named numbers, as in `lr_mult = lr * width / 256`; nothing in it is ever run.

An expression holds numbers, names, `+ - * / // % **`, brackets and the functions of `FUNCTIONS`.
A name that Python could not read stands in backquotes: `` `train/loss` * 2 ``; `config.lr` is a
name as it stands. All numbers are floats, so that no power takes hours.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from extrap.files import as_written

MOST_CHARACTERS = 500
"""Longer expressions are refused: they are no formulas."""
MOST_NESTED = 60
"""Brackets within brackets, and signs before signs."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "max": np.maximum,
    "min": np.minimum,
    "round": np.round,
    "sqrt": np.sqrt,
}
"""What an expression may call; `max` and `min` take two arguments, the others one."""
_TWO_ARGUMENTS = ("max", "min")
"""Functions of two arguments."""
_BINARY_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_UNARY_OPERATORS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: np.positive,
    ast.USub: np.negative,
}
_QUOTED = re.compile(r"`([^`]+)`")
"""A name in backquotes."""
_PLACEHOLDER = "quoted_name_{}"
"""What stands for such a name while Python parses the formula."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula that was checked when it was made.

    Attributes:
        text: The formula as it was given.
        names: The names in it, each once, in the order they come.

    Raises:
        ValueError: It holds anything else than arithmetic, or is longer than 500 characters.

    Example:
        >>> Expression("lr * sqrt(width / 256)")({"lr": 0.01, "width": 1024})
        0.02
    """

    text: str
    names: tuple[str, ...] = field(init=False)
    _tree: ast.expr = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tree = _parsed(self.text)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "names", tuple(dict.fromkeys(_names(tree, self.text, depth=0))))

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The value for numbers, a float; for arrays (n,), an array (n,).

        Where it cannot be told (a division by zero, the root of a negative number) it is infinite
        or NaN, as in NumPy.

        Args:
            values: Name → number or array; names that the formula lacks are ignored.

        Raises:
            ValueError: A name of the formula is missing.
        """
        for name in self.names:
            if name not in values:
                available = ", ".join(as_written(str(n)) for n in list(values)[:12])
                raise ValueError(
                    f"{self.text!r} uses {name!r}, which is not one of {available}; "
                    "use one of them."
                )
        numbers = {name: np.asarray(values[name], dtype=float) for name in self.names}
        with np.errstate(all="ignore"):
            value = _value(self._tree, numbers)
        return float(value) if np.ndim(value) == 0 else value


def parse_definition(text: str) -> tuple[str, Expression]:
    """`name = formula` as the name and its formula; the name may stand in backquotes.

    Raises:
        ValueError: There is no name, no formula, or the formula is none.
    """
    name, equals, formula = (part.strip() for part in text.partition("="))
    name = name.strip("`")
    if not (name and equals and formula):
        raise ValueError(
            "a definition has the form name = formula, as in lr_mult = lr * width / 256; got "
            f"{text!r}."
        )
    return name, Expression(formula)


def _parsed(text: str) -> ast.expr:
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"a formula may have at most {MOST_CHARACTERS} characters, got {len(text)}; "
            "define a part of it first."
        )
    quoted = _QUOTED.findall(text)
    places = iter(range(len(quoted)))
    plain = _QUOTED.sub(lambda _: _PLACEHOLDER.format(next(places)), text)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(
            "a formula must be arithmetic over columns, as in lr * width / 256; got "
            f"{text!r}. Write a name with characters other than letters, digits and _ in "
            "backquotes."
        ) from None
    names = {_PLACEHOLDER.format(index): name for index, name in enumerate(quoted)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _names(node: ast.expr, text: str, *, depth: int) -> list[str]:
    """The names of a formula; whatever is no arithmetic is refused."""
    if depth > MOST_NESTED:
        raise ValueError(
            f"a formula may be nested at most {MOST_NESTED} times; simplify {text!r}."
        )
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            _number(value, text)
            return []
        case ast.Name(id=name):
            return [name]
        case ast.Attribute():
            return [_dotted(node, text)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY_OPERATORS:
            return _names(left, text, depth=depth + 1) + _names(right, text, depth=depth + 1)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY_OPERATORS:
            return _names(operand, text, depth=depth + 1)
        case ast.Call(func=ast.Name(id=called), args=arguments, keywords=[]) if (
            called in FUNCTIONS
        ):
            if len(arguments) != (n_wanted := 2 if called in _TWO_ARGUMENTS else 1):
                raise ValueError(
                    f"{called} takes {n_wanted} argument(s), got another number in {text!r}."
                )
            return [name for part in arguments for name in _names(part, text, depth=depth + 1)]
    raise ValueError(
        "a formula may contain numbers, names, + - * / // % ** and the functions "
        f"{', '.join(FUNCTIONS)}; got {text!r}."
    )


def _number(value: float, text: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"a number in {text!r} is larger than any float; write a smaller one.")
    return number


def _dotted(node: ast.expr, text: str) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{_dotted(value, text)}.{attr}"
    raise ValueError(f"a name with dots must begin with a name; got {text!r}.")


def _value(node: ast.expr, numbers: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return numbers[name]
        case ast.Attribute():
            return numbers[_dotted(node, "")]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY_OPERATORS[type(op)](_value(left, numbers), _value(right, numbers))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY_OPERATORS[type(op)](_value(operand, numbers))
        case ast.Call(func=ast.Name(id=called), args=arguments):
            return FUNCTIONS[called](*(_value(part, numbers) for part in arguments))
    raise AssertionError(f"{type(node).__name__} was not refused when the formula was read")
