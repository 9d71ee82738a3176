"""Settings that stand in names: of a folder `width=64,lr=0.01`, of a study `sweep-width64`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

import pandas as pd

from extrap.reading.cells import MULTIPLES
from extrap.reading.names import KNOWN, WORDS

MOST_NAME = 1000
"""Characters of a name that are looked at."""
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PAIR = re.compile(
    rf"(?P<key>[A-Za-z][\w.\-]*?)\s?[=:]\s?"
    rf"(?P<value>{NUMBER}(?=$|[,;/&\s_\])])|[^,;/&\s=:\])]+?(?=$|[,;/&\s\])]|_[A-Za-z][\w.]*=))"
)
ANY_NUMBER = re.compile(
    r"(?P<word>[A-Za-z]+(?:_[A-Za-z]+)*)?[=:_\-]?"
    r"(?P<value>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?P<times>[kKmMbBtT](?![A-Za-z]))?"
)
IN_NAMES = frozenset((*WORDS["size"], *WORDS["data"], *WORDS["seed"]))
"""Names of columns that stand in names of studies."""
SMALLEST_UNNAMED = 8
"""Smaller numbers without a name count something, such as experiments."""


def settings_in(name: str) -> dict[str, float | int | str]:
    """The `key=value` and `key: value` pairs of a name, in order; none in a name without any.

    Example:
        >>> settings_in("width=64,lr=1e-3_opt=adam")
        {'width': 64, 'lr': 0.001, 'opt': 'adam'}
    """
    pairs = PAIR.finditer(name[:MOST_NAME])
    return {pair["key"]: as_number(pair["value"]) for pair in pairs}


NAMES = ("name", "run_name", "run name", "run", "experiment_name", "exp_name", "id")
"""Columns, in lower case, that hold the names of runs, the likeliest first."""
PIECE = re.compile(r"([A-Za-z]+(?:_[A-Za-z]+)*)[=:_\-]?(\d[\d.]*(?:[eE][-+]?\d+)?)(?![A-Za-z\d])")


def name_column(table: pd.DataFrame) -> str | None:
    """The column of the runs' names, which are text and nearly all different; None without."""
    by_name = {str(column).strip().lower(): str(column) for column in table}
    for name in NAMES:
        if name in by_name and len(table):
            texts = table[by_name[name]].astype(str)
            if texts.nunique() > len(table) / 2 and texts.str.contains("[A-Za-z]").all():
                return by_name[name]
    return None


def words_in_names(names: Sequence[str]) -> list[str]:
    """Words that stand before a number in all names, with several values: `mlp_width16_lr0.002`.

    Example:
        >>> words_in_names(["mlp_width16_lr0.002", "mlp_width32_lr0.004"])
        ['width', 'lr']
    """
    values: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for name in names:
        pairs = {
            known: number
            for text, number in PIECE.findall(name[:MOST_NAME])
            if (known := _last_words(text, KNOWN))
        }
        for word, number in pairs.items():
            values.setdefault(word, set()).add(number)
            counts[word] = counts.get(word, 0) + 1
    return [word for word in values if counts[word] == len(names) and len(values[word]) > 1]


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


def sizes_in_names(names: Sequence[str], called: str = "size") -> dict[str, list[float]]:
    """The sizes in names that differ in their numbers, one list per column.

    A number behind the name of a size is that size. Else the first that differs everywhere and
    counts nothing (8 or more, not 8, 9, 10) is.

    Args:
        names: The names.
        called: What to call a number whose name is not that of a size.

    Returns:
        Column → its value in each name; empty where the names differ in more, or give no size.

    Example:
        >>> sizes_in_names(["mlp-64", "mlp-128"]), sizes_in_names(["a_width8_v1", "a_width9_v1"])
        ({'size': [64.0, 128.0]}, {'width': [8.0, 9.0]})
    """
    found = [list(ANY_NUMBER.finditer(name[:MOST_NAME])) for name in names]
    frames = {ANY_NUMBER.sub(lambda match: match["word"] or "", name) for name in names}
    if len(frames) > 1 or len(set(map(len, found))) > 1:
        return {}
    columns: dict[str, list[float]] = {}
    unnamed: list[list[float]] = []
    for matches in zip(*found, strict=True):
        values = [float(m["value"]) * MULTIPLES[(m["times"] or "").lower()] for m in matches]
        word = _last_words(matches[0]["word"] or "", IN_NAMES)
        if len(set(values)) > 1 and word:
            columns.setdefault(word, values)
        else:
            unnamed.append(values)
    if set(columns) - set(WORDS["seed"]):
        return columns
    usable = (values for values in unnamed if _may_be_sizes(values))
    first = next(usable, None)
    return {**columns, called: first} if first else {}


def _last_words(text: str, known: Collection[str]) -> str:
    """The last words of a text that are a known name: `adam_width` → `width`; empty without."""
    parts = text.lower().split("_")
    ends = ("_".join(parts[i:]) for i in range(len(parts)))
    return next((end for end in ends if end in known), "")


def _may_be_sizes(values: Sequence[float]) -> bool:
    """Whether numbers without a name are sizes: all different, and no running numbers."""
    in_order = sorted(values)
    steps = {b - a for a, b in pairwise(in_order)}
    return 0 not in steps and steps != {1.0} and in_order[0] >= SMALLEST_UNNAMED


def _number(column: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![A-Za-z0-9]){re.escape(column)}\s?[=:_\-]?\s?"
        r"(?P<value>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?P<times>[kKmMbBtT]?)"
        r"(?![A-Za-z0-9])"
    )
