"""Settings that stand in names, `width=64,lr=0.01`, `sweep-width64`, or in YAML beside a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.reading.frames import single_values
from extrap.reading.names import KNOWN, MULTIPLES, RUN_NAMES

MOST_CHARACTERS_READ = 1000
"""Characters of a name that are looked at."""
SIGNED_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
"""A number as text, with a sign or without one."""
PAIR = re.compile(
    rf"(?P<key>[A-Za-z][\w.\-]*?)\s?[=:]\s?"
    rf"(?P<value>{SIGNED_NUMBER}(?=$|[,;/&\s_\])])|[^,;/&\s=:\])]+?(?=$|[,;/&\s\])]|_[A-Za-z][\w.]*=))"
)
"""A pair `key=value` or `key: value`."""


def settings_in(name: str) -> dict[str, float | int | str]:
    """The `key=value` and `key: value` pairs of a name, in order; none in a name without any.

    Example:
        >>> settings_in("width=64,lr=1e-3_opt=adam")
        {'width': 64, 'lr': 0.001, 'opt': 'adam'}
    """
    pairs = PAIR.finditer(name[:MOST_CHARACTERS_READ])
    return {pair["key"]: as_number(pair["value"]) for pair in pairs}


PIECE = re.compile(
    r"([A-Za-z]+(?:_[A-Za-z]+)*)[=:_\-]?(\d[\d.]*(?:p\d+|[eE][-+]?\d+)?)(?![A-Za-z\d])"
)
"""Words and the number behind them, `width16`."""


def name_column(table: pd.DataFrame) -> str | None:
    """The column of the runs' names, which are text and nearly all different; None without."""
    by_name = {str(column).strip().lower(): str(column) for column in table}
    for name in RUN_NAMES:
        if name in by_name and len(table):
            texts = table[by_name[name]].astype(str)
            if texts.nunique() > len(table) / 2 and texts.str.contains("[A-Za-z]").all():
                return by_name[name]
    return None


def words_in_names(names: Sequence[str], *, only_known: bool = True) -> list[str]:
    """Words that stand before a number in all names, with several values: `mlp_width16_lr0.002`.

    Of known names alone if `only_known`, else of all.

    Example:
        >>> words_in_names(["mlp_width16_lr0.002", "mlp_width32_lr0.004"])
        ['width', 'lr']
    """

    def pairs_in(name: str) -> dict[str, str]:
        pairs = PIECE.findall(name[:MOST_CHARACTERS_READ])
        named = [
            (_last_words(text) or ("" if only_known else text), number) for text, number in pairs
        ]
        return {word: number for word, number in named if word}

    first = pairs_in(names[0]) if names else {}
    others = [pairs_in(name) for name in names[1:]] if first else []
    in_all = [word for word in first if all(word in pairs for pairs in others)]
    return [word for word in in_all if any(pairs[word] != first[word] for pairs in others)]


def as_number(text: str) -> float | int | str:
    """A number where the text is one."""
    if not re.fullmatch(SIGNED_NUMBER, text):
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
    match = re.search(
        rf"(?<![A-Za-z0-9]){re.escape(column)}\s?[=:_\-]?\s?"
        r"(?P<value>\d+p\d+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?P<times>[kKmMbBtT]?)"
        r"(?![A-Za-z0-9])",
        name[:MOST_CHARACTERS_READ],
    )
    if match is None:
        return None
    return float(match["value"].replace("p", ".")) * MULTIPLES.get(match["times"].lower(), 1.0)


def _last_words(text: str) -> str:
    """The last words of a text that are a known name: `adam_width` → `width`; empty without."""
    parts = text.lower().split("_")
    ends = ("_".join(parts[i:]) for i in range(len(parts)))
    return next((end for end in ends if end in KNOWN), "")


def hydra_settings(root: Path, home: Path) -> dict[str, Any]:
    """What Hydra set, by its folder beside a run, or above that in the folder that is read."""
    for folder in (home, *home.parents):
        if (folder / ".hydra").is_dir():
            config = read_yaml(folder / ".hydra/config.yaml")
            overrides = read_yaml(folder / ".hydra/overrides.yaml", list)
            pairs = [str(text).lstrip("+").partition("=") for text in overrides]
            settings = {key: as_number(value.strip("'\"")) for key, _, value in pairs}
            settings = {k: v for k, v in settings.items() if v != "" and not k.startswith("~")}
            return {**single_values(config), **settings}
        if folder == root:
            break
    return {}


def read_yaml(path: Path, kind: type = dict) -> Any:
    """What a file holds, empty where it is missing or would make objects of Python's."""
    if not path.is_file():
        return kind()
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, ValueError):
        return kind()
    return content if isinstance(content, kind) else kind()
