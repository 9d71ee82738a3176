"""How a result is written into a golden file, and how it is compared with one.

Keys, flags, codes and words are exact. Numbers, also those inside texts, may differ by the
relative tolerance of their case: `CLOSED` for closed forms, `OPTIMISED` for what a search or a
quadrature found. Times, hashes over rounded numbers, versions and temporary folders are replaced
by their names.
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

from extrap import __version__

CLOSED, OPTIMISED = 1e-8, 1e-4
NEAR_ZERO = 1e-10
"""Numbers may differ by this much, whatever they are: what is left of zero after rounding."""
COUNT = 1e12
"""Whole numbers below this are counts, and exact; larger ones are FLOPs, which were computed."""
LAST_PLACE = 3
"""A number printed with so many digits or more may differ by one in the last of them."""
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
REPLACED = [
    (re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z| UTC)?)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{64}\b|(?<=content hash )[0-9a-f]{12}\b"), "HASH"),
    (re.compile(re.escape(__version__)), "VERSION"),
    (re.compile(r"(?<= on )\S+, process \d+"), "HOST"),
]
KEPT = ("data_hash",)
"""Hashes over what was read, which are the same everywhere."""
MISSING = object()


def normal(text: str) -> str:
    """A text without what changes from day to day and from version to version."""
    for pattern, name in REPLACED:
        text = pattern.sub(name, text)
    return text


def plain(value: Any, *, key: str = "") -> Any:
    """A document with 12 digits, without what changes from day to day."""
    if isinstance(value, dict):
        return {normal(k): plain(v, key=k) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(item, key=key) for item in value]
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return normal(value) if isinstance(value, str) and key not in KEPT else value


def written(value: Any) -> str:
    """JSON with a key a line and a list of numbers on one line, so that a diff can be read."""
    text = json.dumps(plain(value), indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda m: re.sub(r"\s*\n\s*", " ", m[0]), text) + "\n"


def differences(found: Any, golden: Any, *, rel: float, place: str = "") -> Iterator[str]:
    """What differs, a line a place."""
    if isinstance(found, dict) and isinstance(golden, dict):
        for key in {**golden, **found}:
            pair = found.get(key, MISSING), golden.get(key, MISSING)
            yield from differences(*pair, rel=rel, place=f"{place}.{key}")
    elif isinstance(found, list) and isinstance(golden, list):
        for i, pair in enumerate(zip_longest(found, golden, fillvalue=MISSING)):
            yield from differences(*pair, rel=rel, place=f"{place}[{i}]")
    elif not _same(found, golden, rel):
        here, there = ("missing" if v is MISSING else repr(v) for v in (found, golden))
        yield f"{place}: {here}, golden {there}"


def _same(found: Any, golden: Any, rel: float) -> bool:
    if isinstance(found, str) and isinstance(golden, str):
        return _same_text(found, golden, rel)
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in (found, golden)):
        return found is golden or (type(found) is type(golden) and found == golden)
    if isinstance(found, int) and isinstance(golden, int) and abs(golden) < COUNT:
        return found == golden
    return math.isclose(found, golden, rel_tol=rel, abs_tol=min(NEAR_ZERO, rel * 1e-4))


def _same_text(found: str, golden: str, rel: float) -> bool:
    """Whether the words are the same, and the numbers between them as near as asked."""
    if [*_words(found)] != [*_words(golden)]:
        return False
    return all(
        _same_number(a, b, rel)
        for a, b in zip(NUMBER.findall(found), NUMBER.findall(golden), strict=True)
    )


def _words(text: str) -> list[str]:
    """What stands between the numbers; runs of blanks count once, for columns are aligned."""
    return [re.sub(r"[ ─━═]+", " ", part) for part in NUMBER.split(text)]


def _same_number(found: str, golden: str, rel: float) -> bool:
    a, b = (text.replace("−", "-") for text in (found, golden))
    if a == b or math.isclose(float(a), float(b), rel_tol=rel):
        return True
    digits, places = (_digits(a), _digits(b)), (_places(a), _places(b))
    is_rounded = places[0] == places[1] and min(digits) >= LAST_PLACE and _is_decimal(a, b)
    return is_rounded and abs(float(a) - float(b)) <= 1.01 * 10.0 ** places[0]


def _is_decimal(*texts: str) -> bool:
    return all("." in text or "e" in text.lower() for text in texts)


def _digits(text: str) -> int:
    mantissa = re.split("[eE]", text)[0]
    return len(mantissa.replace(".", "").lstrip("+-0"))


def _places(text: str) -> int:
    """The power of ten of the last printed digit."""
    mantissa, _, exponent = text.lower().partition("e")
    return int(exponent or 0) - len(mantissa.partition(".")[2])


def report(found: str, golden: str, *, kind: str, rel: float) -> list[str]:
    """The first differences between what was found and a golden file."""
    if kind == "json":
        pair = json.loads(found), json.loads(golden)
    else:
        pair = found.splitlines(), golden.splitlines()
    return [*islice(differences(*pair, rel=rel), 20)]
