"""Settings that stand in names: of a folder `width=64,lr=0.01`, of a study `sweep-width64`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from extrap.reading.cells import MULTIPLES
from extrap.reading.names import KNOWN

MOST_NAME = 1000
"""Characters of a name that are looked at."""
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PAIR = re.compile(
    rf"(?P<key>[A-Za-z][\w.\-]*?)\s?[=:]\s?"
    rf"(?P<value>{NUMBER}(?=$|[,;/&\s_\])])|[^,;/&\s=:\])]+?(?=$|[,;/&\s\])]|_[A-Za-z][\w.]*=))"
)


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
PIECE = re.compile(
    r"([A-Za-z]+(?:_[A-Za-z]+)*)[=:_\-]?(\d[\d.]*(?:p\d+|[eE][-+]?\d+)?)(?![A-Za-z\d])"
)


def name_column(table: pd.DataFrame) -> str | None:
    """The column of the runs' names, which are text and nearly all different; None without."""
    by_name = {str(column).strip().lower(): str(column) for column in table}
    for name in NAMES:
        if name in by_name and len(table):
            texts = table[by_name[name]].astype(str)
            if texts.nunique() > len(table) / 2 and texts.str.contains("[A-Za-z]").all():
                return by_name[name]
    return None


def words_in_names(names: Sequence[str], *, known: bool = True) -> list[str]:
    """Words that stand before a number in all names, with several values: `mlp_width16_lr0.002`.

    Of those that are `known` only, or of all.

    Example:
        >>> words_in_names(["mlp_width16_lr0.002", "mlp_width32_lr0.004"])
        ['width', 'lr']
    """

    def pairs_in(name: str) -> dict[str, str]:
        pairs = PIECE.findall(name[:MOST_NAME])
        named = [(_last_words(text) or ("" if known else text), number) for text, number in pairs]
        return {word: number for word, number in named if word}

    values: dict[str, set[str]] = {word: set() for word in pairs_in(names[0])} if names else {}
    for name in names:
        if not values:
            break
        pairs = pairs_in(name)
        values = {word: seen for word, seen in values.items() if word in pairs}
        for word, seen in values.items():
            seen.add(pairs[word])
    return [word for word, seen in values.items() if len(seen) > 1]


def as_number(text: str) -> float | int | str:
    """A number where the text is one."""
    if not re.fullmatch(NUMBER, text):
        return text
    return int(text) if re.fullmatch(r"[-+]?\d{1,18}", text) else float(text)


def number_in(name: str, column: str) -> float | None:
    """The number that a name gives for a column: `width=64`, `width-64`, `width_64`, `width64`.

    `0p001` is 0.001. Letters before the column's name would make it another name; k, M, B and T
    multiply.

    Example:
        >>> number_in("sweep-params1.5M", "params")
        1500000.0
    """
    found = re.search(
        rf"(?<![A-Za-z0-9]){re.escape(column)}\s?[=:_\-]?\s?"
        r"(?P<value>\d+p\d+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?P<times>[kKmMbBtT]?)"
        r"(?![A-Za-z0-9])",
        name[:MOST_NAME],
    )
    if found is None:
        return None
    return float(found["value"].replace("p", ".")) * MULTIPLES[found["times"].lower()]


def _last_words(text: str) -> str:
    """The last words of a text that are a known name: `adam_width` → `width`; empty without."""
    parts = text.lower().split("_")
    ends = ("_".join(parts[i:]) for i in range(len(parts)))
    return next((end for end in ends if end in KNOWN), "")
