"""Files as nobody should write them: sound ones, damaged byte by byte, cell by cell, key by key.

A damage is a small tuple that Hypothesis draws, shrinks and prints; the functions here carry it
out. Places are fractions of the length, so that a damage fits any file.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Damage = tuple[str, float, float, Any]
"""Kind, place, length or second place, and what is put there."""

NASTY: tuple[str, ...] = (
    *(
        "",
        " ",
        "nan",
        "NaN",
        "-nan",
        "inf",
        "-inf",
        "Infinity",
        "None",
        "null",
        "NULL",
        "NA",
        "#N/A",
    ),
    *("0", "-0.0", "-1", "1e400", "-1e400", "1e-400", "5e-324", "2.2e-308", "1.797e308", "1e300"),
    *(
        "9" * 400,
        "9" * 5000,
        "0." + "1" * 3000,
        "1e99999999999",
        "0x10",
        "1_000",
        "1,5",
        "1e",
        "+5",
    ),
    *("True", "false", "١٢٣", "１２", "𝟙𝟚", "∞", "½", "5.", ".5", "1 000", "12abc", "--5", "1/0"),
    *(
        "\x00",
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "\x07\x08\x7f",
        "\u202e5",
        "\ufeff16",
        "a\u0301",
    ),
    *("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\tx", "\rx", "'=1", "''", "'", '"', '""', '"x', "x\ny"),
    *(
        "<script>alert(1)</script>",
        "{{7*7}}",
        "{% raw %}",
        "$\\frac{1}{0}$",
        "[red]x[/red]",
        "%s%n",
    ),
    *(
        "../../etc/passwd",
        "file:///dev/zero",
        "complete",
        "diverged",
        "check",
        "[]",
        "{}",
        "[1, 2]",
    ),
)
"""Cells: empty, not finite, at the ends of the number line, other scripts, commands, markup."""
RAW: tuple[bytes, ...] = (
    *(
        b"",
        b"\x00",
        b"\xff",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xef\xbb\xbf",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\t",
    ),
    *(
        b",",
        b",,,,",
        b";",
        b'"',
        b'""',
        b"'",
        b"\\",
        b"#",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"\x1a",
        b"\x1b[",
    ),
    *(
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf5\x80\x80\x80",
        b"\xe2\x80\xa8",
        b"\x85",
        b"PAR1",
        b"\x1f\x8b",
    ),
    *(
        b"[" * 5000,
        b'{"a":' * 3000,
        b"," * 5000,
        b"9" * 6000,
        b'"' * 999,
        b"\x00" * 4096,
        b"x" * 70_000,
    ),
)
"""Bytes: marks, separators, broken UTF-8, beginnings of other formats, depth, length."""
CORPUS: dict[str, bytes] = {
    "nothing": b"",
    "newlines": b"\n" * 1000,
    "zeros": b"\x00" * 10_000,
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    "a page": b"<!doctype html><title>404</title><p>not found, sorry, no, thanks",
    "a program": b"\x7fELF\x02\x01\x01" + b"\x00" * 500,
    "an archive": b"PK\x03\x04" + b"\x00" * 300,
    "squeezed": b"\x1f\x8b\x08" + b"\xff" * 300,
    "a stored table": b"PAR1" + b"\x15\x04" * 200 + b"PAR1",
    "a footer that lies": b"PAR1" + b"\x00" * 64 + b"\xff\xff\xff\x7fPAR1",
    "an empty database": b"SQLite format 3\x00" + b"\x00" * 1000,
    "wide UTF-16": "width,lr,seed,loss\n16,0.1,0,2.5\n".encode("utf-16"),
    "wide UTF-32": "width,lr,seed,loss\n16,0.1,0,2.5\n".encode("utf-32"),
    "other code page": "width,lr,loss\n16,0.1,2.5é\n".encode("latin-1"),
    "a heading": b"width,lr,seed,loss\n",
    "a heading twice": b"width,lr,seed,loss\nwidth,lr,seed,loss\n",
    "one column": b"width\n16\n32\n64\n",
    "no heading": b"16,0.1,0,2.5\n32,0.1,0,2.25\n",
    "one long line": b"width,lr,seed,loss " * 20_000,
    "many columns": b",".join(b"c%d" % i for i in range(30_000)) + b"\n1\n",
    "all alike": b"width,lr,seed,loss\n" + b"16,0.1,0,2.5\n" * 300,
    "never closed": b'width,lr,seed,loss\n16,0.1,0,"2.5\n' + b"32,0.1,0,2.25\n" * 200,
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a long number": b'{"width": ' + b"9" * 1_000_000 + b', "loss": 2}\n',
    "a long cell": b"width,lr,seed,loss\n" + b"9" * 1_000_000 + b",0.1,0,2\n",
    "other objects": b'[]\n1\n"x"\nnull\ntrue\n',
    "keys without end": b"".join(b'{"k%d": 1}\n' % i for i in range(20_000)),
    "half a pair": b'{"width": 16, "lr": "\\ud800", "loss": 2}\n' * 3,
    "a forecast of nothing": b'{"kind": "extrap-forecast", "schema_version": 1}',
}
"""Broken files, tried whole with every reader."""

_place = st.floats(min_value=0, max_value=1, exclude_max=True)
_byte_damage = st.one_of(
    st.tuples(st.just("flip"), _place, _place, st.integers(1, 255)),
    st.tuples(st.just("cut"), _place, _place, st.none()),
    st.tuples(st.just("drop"), _place, _place, st.none()),
    st.tuples(st.just("repeat"), _place, _place, st.none()),
    st.tuples(st.just("insert"), _place, _place, st.sampled_from(RAW)),
    st.tuples(st.just("replace"), _place, _place, st.sampled_from(RAW)),
    st.tuples(st.just("noise"), _place, _place, st.binary(max_size=64)),
)
_text = st.one_of(
    st.sampled_from(NASTY),
    st.floats().map(repr),
    st.integers().map(str),
    st.text(max_size=12),
)
_cell_damage = st.one_of(
    st.tuples(st.just("cell"), _place, _place, _text),
    st.tuples(st.just("cell"), _place, _place, _text),
    st.tuples(st.just("column"), _place, _place, _text),
    st.tuples(st.just("heading"), _place, _place, _text),
    st.tuples(st.just("swap"), _place, _place, st.none()),
    st.tuples(st.just("drop column"), _place, _place, st.none()),
    st.tuples(st.just("repeat row"), _place, _place, st.integers(1, 5)),
    st.tuples(st.just("keep rows"), _place, _place, st.none()),
    st.tuples(
        st.just("scale"), _place, _place, st.sampled_from((1e-320, 1e-300, 1e300, -1.0, 0.0))
    ),
    st.tuples(st.just("longer row"), _place, _place, _text),
    st.tuples(st.just("shorter row"), _place, _place, st.none()),
)
_json_leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(NASTY),
)
_json_value = st.one_of(
    _json_leaf,
    _json_leaf,
    st.lists(_json_leaf, max_size=4),
    st.lists(st.lists(_json_leaf, max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(("status", "loss", "E", "x", "")), _json_leaf, max_size=3),
)
_json_damage = st.one_of(
    st.tuples(st.just("value"), _place, _place, _json_value),
    st.tuples(st.just("value"), _place, _place, _json_value),
    st.tuples(st.just("drop key"), _place, _place, st.none()),
    st.tuples(st.just("add key"), _place, _place, _json_value),
    st.tuples(st.just("repeat item"), _place, _place, st.integers(1, 3)),
)
_KINDS = {"bytes": _byte_damage, "cells": _cell_damage, "json": _json_damage}


def damages(kind: str, *, most: int = 4) -> st.SearchStrategy[list[Damage]]:
    """One to four damages of `bytes`, `cells` or `json`."""
    return st.lists(_KINDS[kind], min_size=1, max_size=most)


def damaged_bytes(sound: bytes, done: Sequence[Damage]) -> bytes:
    """A file with these damages, one after the other."""
    data = sound
    for kind, place, other, what in done:
        start, end = sorted((int(place * (len(data) + 1)), int(other * (len(data) + 1))))
        if kind == "flip" and data:
            at = min(start, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ what]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:start]
        elif kind == "drop":
            data = data[:start] + data[end:]
        elif kind == "repeat":
            data = data[:end] + data[start:end] + data[end:]
        elif kind in ("insert", "noise"):
            data = data[:start] + what + data[start:]
        elif kind == "replace":
            data = data[:start] + what + data[start + len(what) :]
    return data


def damaged_table(sound: str, done: Sequence[Damage]) -> list[list[str]]:
    """The rows of a CSV text, heading first, with these damages of cells."""
    rows = list(csv.reader(io.StringIO(sound)))
    for damage in done:
        _damage_rows(rows, *damage)
    return rows


def _damage_rows(rows: list[list[str]], kind: str, place: float, other: float, what: Any) -> None:
    i = int(place * len(rows))
    if not rows or not rows[i]:
        return
    j = int(other * len(rows[i]))
    if kind == "cell":
        rows[i][j] = what
    elif kind == "heading" and rows[0]:
        rows[0][min(j, len(rows[0]) - 1)] = what
    elif kind == "column":
        for row in rows[1:]:
            row[j : j + 1] = [what]
    elif kind == "swap":
        for row in rows:
            k = int(place * len(row))
            if j < len(row):
                row[j], row[k] = row[k], row[j]
    elif kind == "drop column":
        for row in rows:
            del row[j : j + 1]
    elif kind == "repeat row":
        rows[i:i] = [list(rows[i]) for _ in range(what)]
    elif kind == "keep rows":
        del rows[1 + i :]
    elif kind == "scale":
        for row in rows[1:]:
            row[j : j + 1] = [_scaled(cell, what) for cell in row[j : j + 1]]
    elif kind == "longer row":
        rows[i].append(what)
    elif kind == "shorter row":
        del rows[i][j:]


def _scaled(cell: str, factor: float) -> str:
    try:
        return repr(float(cell) * factor)
    except ValueError:
        return cell


def as_csv(rows: Sequence[Sequence[str]]) -> bytes:
    """Rows as CSV; half of a surrogate pair becomes bytes that are no UTF-8."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", errors="surrogatepass")


def damaged_json(sound: Any, done: Sequence[Damage]) -> Any:
    """A document with these damages; places count all values in it, however deep."""
    document = json.loads(json.dumps(sound))
    for kind, place, other, what in done:
        spots = _spots(document)
        if not spots:
            break
        holder, key = spots[int(place * len(spots))]
        if kind == "value":
            holder[key] = what
        elif kind == "drop key":
            del holder[key]
        elif kind == "add key" and isinstance(holder, dict):
            holder[f"k{other:.2f}"] = what
        elif kind == "repeat item" and isinstance(holder, list):
            holder[key:key] = [holder[key]] * what
    return document


def _spots(document: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key or index) in a document, from the outside in."""
    spots: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict):
            keys: Any = list(holder)
        elif isinstance(holder, list):
            keys = range(len(holder))
        else:
            continue
        spots += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys]
    return spots


def damaged_database(path: Path, done: Sequence[Damage]) -> None:
    """Put values where they do not belong into the tables of an SQLite file."""
    connection = sqlite3.connect(path)
    try:
        columns = [
            (table, column)
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            ).fetchall()
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()
        ]
        for kind, place, other, what in done:
            table, column = columns[int(place * len(columns))]
            value = what if isinstance(what, str | None) else json.dumps(what)
            with_quotes = value if kind == "value" else json.dumps(value)
            (n_rows,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            query = f"UPDATE {table} SET {column} = ? WHERE rowid % ? = ?"
            if kind == "drop key":
                query = f"DELETE FROM {table} WHERE ? IS NOT NULL AND rowid % ? = ?"
            few = max(1, n_rows // 2)
            try:
                connection.execute(query, (with_quotes, few, int(other * few)))
            except sqlite3.Error:  # a key that must differ, a cell that must be filled
                continue
        connection.commit()
    finally:
        connection.close()
