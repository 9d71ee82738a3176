"""Settings that stand in names: of a folder `width=64,lr=0.01`, of a study `sweep-width64`."""

from __future__ import annotations

import re

__all__ = ["as_number", "number_in", "settings_in", "without_number"]

MOST_NAME = 1000
"""Characters of a name that are looked at."""
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PAIR = re.compile(
    rf"(?P<key>[A-Za-z][\w.\-]*?)\s?[=:]\s?"
    rf"(?P<value>{NUMBER}(?=$|[,;/&\s_\])])|[^,;/&\s=:\])]+?(?=$|[,;/&\s\])]|_[A-Za-z][\w.]*=))"
)
MULTIPLES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def settings_in(name: str) -> dict[str, float | int | str]:
    """The `key=value` and `key: value` pairs of a name, in order; none in a name without any.

    Example:
        >>> settings_in("width=64,lr=1e-3_opt=adam")
        {'width': 64, 'lr': 0.001, 'opt': 'adam'}
    """
    pairs = PAIR.finditer(name[:MOST_NAME])
    return {pair["key"]: as_number(pair["value"]) for pair in pairs}


def as_number(text: str) -> float | int | str:
    """A number where the text is one."""
    if not re.fullmatch(NUMBER, text):
        return text
    return int(text) if re.fullmatch(r"[-+]?\d{1,18}", text) else float(text)


def number_in(name: str, column: str) -> float | None:
    """The number that a name gives for a column: `width=64`, `width-64`, `width_64`, `width64`.

    Letters before the column's name would make it another name; k, M, B and T multiply.

    Example:
        >>> number_in("sweep-params1.5M", "params")
        1500000.0
    """
    found = _number(column).search(name[:MOST_NAME])
    return None if found is None else float(found["value"]) * MULTIPLES[found["times"].lower()]


def without_number(name: str, column: str) -> str:
    """A name without what it says of a column, and the signs around that."""
    return _number(column).sub("", name[:MOST_NAME]).strip(" ,;/&_-.")


def _number(column: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![A-Za-z0-9]){re.escape(column)}\s?[=:_\-]?\s?"
        r"(?P<value>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?P<times>[kKmMbBtT]?)"
        r"(?![A-Za-z0-9])"
    )
