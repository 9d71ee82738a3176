"""Malformed files against everything that reads one: an error that says what to do, or a result.

    python -m benchmarks.fuzz [--n 20000] [--seed 0] [--only READER …]

Sound tables, storages, sealed forecasts and logs are damaged by what Hypothesis draws: small
tuples whose places are fractions of the length, so that a damage fits any file. A corpus of broken
files is tried whole. A reader may refuse with an
`ExtrapError` of one line, or accept; commands end with 0, 1 or 2. Everything else is a breach: any
other exception, a warning, a number that is not finite, a character that commands the terminal,
more than `LIMIT_S` seconds, more memory than the process may have.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import optuna
import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.cli import cli, main
from extrap.errors import ExtrapError
from extrap.files import as_written
from extrap.monitoring import Monitor, watch
from extrap.reading.logs import LogReader
from extrap.records.codec import encode

LIMIT_S = 10.0
"""One input may take so long of a processor."""
WAIT_S = 60.0
"""And so long by the clock, on a machine that does other things too."""
MEMORY_BYTES = 4 * 2**30
"""So much address space beyond what the process has when it begins."""
LONGEST_LINE = 4000
"""Characters of a message."""
CHUNK = 250
"""Inputs that Hypothesis draws at once: its memory of what it drew stays small."""
MOST_KEPT = 20
"""Breaches whose place is told."""
SIZES = (16, 32, 64, 128, 256)

Damage = tuple[str, float, float, Any]
"""Kind, place, length or second place, and what is put there."""

_WORDS = """
nan NaN -nan inf -inf Infinity None null NULL NA #N/A 0 -0.0 -1 1e400 -1e400 1e-400 5e-324 2.2e-308
1.797e308 1e300 1e99999999999 0x10 1_000 1,5 1e +5 5. .5 12abc --5 1/0 True false ١٢٣ １２ 𝟙𝟚 ∞ ½
=1+1 +1+1 -1+1 @SUM(A1) '=1 '' ' " "" "x" [] {} <script>alert(1)</script> {{7*7}} $\\frac{1}{0}$
[red]x[/red] %s%n ../../etc/passwd file:///dev/zero complete diverged check
\u202e5 \ufeff16 a\u0301
"""
NASTY: tuple[str, ...] = (
    *_WORDS.split(),
    *("", " ", "1 000", "[1, 2]", "{% raw %}", "x\ny", "\tx", "\rx", "\x00", "\x07\x08\x7f"),
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "9" * 400, "9" * 5000, "0." + "1" * 3000),
)
"""Cells: empty, not finite, at the ends of the number line, other scripts, commands, markup."""
RAW: tuple[bytes, ...] = (
    *(bytes([b]) for b in b"\x00\xff\r\t,;\"'\\#{}[]:\x1a\x85"),
    *(b"", b"\r\n", b"\n\n", b",,,,", b'""', b"\x1b[", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"),
    *(b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\xe2\x80\xa8", b"PAR1", b"\x1f\x8b"),
    *(b"[" * 5000, b'{"a":' * 3000, b"," * 5000, b"9" * 6000, b'"' * 999, b"\x00" * 4096),
    b"x" * 70_000,
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
    "half a pair": b'{"width": 16, "lr": "\\ud800", "loss": 2}\n' * 3,
    "a forecast of nothing": b'{"kind": "extrap-forecast", "schema_version": 1}',
}
"""Broken files, tried whole with every reader."""

_fraction = st.floats(min_value=0, max_value=1, exclude_max=True)
_byte_damage = st.one_of(
    st.tuples(st.just("flip"), _fraction, _fraction, st.integers(1, 255)),
    st.tuples(st.just("cut"), _fraction, _fraction, st.none()),
    st.tuples(st.just("drop"), _fraction, _fraction, st.none()),
    st.tuples(st.just("repeat"), _fraction, _fraction, st.none()),
    st.tuples(st.just("insert"), _fraction, _fraction, st.sampled_from(RAW)),
    st.tuples(st.just("replace"), _fraction, _fraction, st.sampled_from(RAW)),
    st.tuples(st.just("noise"), _fraction, _fraction, st.binary(max_size=64)),
)
_text = st.one_of(
    st.sampled_from(NASTY),
    st.floats().map(repr),
    st.integers().map(str),
    st.text(max_size=12),
)
_cell_damage = st.one_of(
    st.tuples(st.just("cell"), _fraction, _fraction, _text),
    st.tuples(st.just("cell"), _fraction, _fraction, _text),
    st.tuples(st.just("column"), _fraction, _fraction, _text),
    st.tuples(st.just("heading"), _fraction, _fraction, _text),
    st.tuples(st.just("swap"), _fraction, _fraction, st.none()),
    st.tuples(st.just("drop column"), _fraction, _fraction, st.none()),
    st.tuples(st.just("repeat row"), _fraction, _fraction, st.integers(1, 5)),
    st.tuples(st.just("keep rows"), _fraction, _fraction, st.none()),
    st.tuples(
        st.just("scale"), _fraction, _fraction, st.sampled_from((1e-320, 1e-300, 1e300, -1.0, 0.0))
    ),
    st.tuples(st.just("longer row"), _fraction, _fraction, _text),
    st.tuples(st.just("shorter row"), _fraction, _fraction, st.none()),
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
    st.tuples(st.just("value"), _fraction, _fraction, _json_value),
    st.tuples(st.just("value"), _fraction, _fraction, _json_value),
    st.tuples(st.just("drop key"), _fraction, _fraction, st.none()),
    st.tuples(st.just("add key"), _fraction, _fraction, _json_value),
    st.tuples(st.just("repeat item"), _fraction, _fraction, st.integers(1, 3)),
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


class Breach(Exception):
    """A reader did what it may not."""


class Hang(BaseException):
    """An input took too long; no `except Exception` may swallow it."""


@dataclass
class Tally:
    """What became of the inputs of a reader.

    Attributes:
        name: The reader.
        n_inputs: How many there were.
        n_refused: How many were refused with a message.
        breaches: Input and what happened, the first few.
        n_breaches: How many.
        slowest_s: The longest that one took, of a processor.
        cpu_s: Seconds of a processor, all inputs together.
        grown_bytes: By how much the peak of the process's memory rose.
    """

    name: str
    n_inputs: int = 0
    n_refused: int = 0
    n_breaches: int = 0
    slowest_s: float = 0.0
    cpu_s: float = 0.0
    grown_bytes: int = 0
    breaches: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, call: Callable[[], bool]) -> None:
        """Try one input; `call` says whether it was accepted."""
        self.n_inputs += 1
        began = time.process_time()
        try:
            with _limited(), warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                self.n_refused += not call()
            for each in warned:
                if not issubclass(each.category, ResourceWarning | DeprecationWarning):
                    raise Breach(f"{each.category.__name__}: {each.message} at {each.filename}")
        except (Exception, Hang) as error:
            self.n_breaches += 1
            told = f"{type(error).__name__}: {str(error)[:300]} {_place(error)}"
            self.kinds[told[:90]] += 1
            if self.kinds[told[:90]] == 1 and len(self.breaches) < MOST_KEPT:
                self.breaches.append(f"{told} | {what}")
        took = time.process_time() - began
        self.slowest_s = max(self.slowest_s, took)
        self.cpu_s += took


@contextmanager
def _limited() -> Iterator[None]:
    """Stop what takes too long: of a processor, or, waiting for something, by the clock."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {LIMIT_S:g} s of a processor, or {WAIT_S:g} s in all")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, LIMIT_S),
        (signal.SIGALRM, signal.ITIMER_REAL, WAIT_S),
    )
    before = [signal.signal(number, stop) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)
        for (number, _, _), handler in zip(timers, before, strict=True):
            signal.signal(number, handler)


def _place(error: BaseException) -> str:
    """Where in the package an error came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/extrap/" in f.filename]
    return f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def accepted(call: Callable[[], object]) -> bool:
    """Whether a call gives a result; an `ExtrapError` of one line is a refusal."""
    try:
        call()
    except ExtrapError as error:
        message = str(error)
        if not message.strip() or len(message) > LONGEST_LINE:
            raise Breach(f"a message of {len(message)} characters: {message[:80]!r}") from error
        return False
    return True


def command(*arguments: str) -> bool:
    """Whether a command gives a result; one line about what is wrong is a refusal."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    told, complaint = out.getvalue(), err.getvalue()
    if code not in (0, 1, 2):
        raise Breach(f"exit code {code}: {complaint.strip()[-300:]}")
    if as_written(told + complaint) != told + complaint:
        raise Breach(f"a hidden character in {(told + complaint)[:200]!r}")
    if "Traceback (most" in complaint:
        raise Breach("a traceback")
    if code == 2:
        last = complaint.strip().splitlines()[-1:]
        if told or not last or not last[0].startswith("extrap: ") or len(last[0]) > LONGEST_LINE:
            raise Breach(f"refused with {told[:80]!r} and {complaint[:80]!r}")
        return False
    if "--json" in arguments:
        for line in [told] if told.startswith("{\n") else told.splitlines():
            _examine(json.loads(line, parse_constant=_no_constant))
    return True


def _no_constant(name: str) -> float:
    raise Breach(f"{name} in a result")


def _examine(document: Any) -> None:
    """A forecast loss is positive and lies in its interval."""
    for point in document.get("points", []):
        loss, (low, high) = point["loss"], point["loss_pi"]
        if loss is None:
            continue
        is_right = loss > 0 and (low is None or low <= loss) and (high is None or loss <= high)
        if not is_right:
            raise Breach(f"a forecast of {loss} in {low} to {high}")


class Material:
    """Sound files, made once, and a folder for the damaged ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    @cached_property
    def frame(self) -> pd.DataFrame:
        rng = np.random.default_rng(0)
        rows = [
            {
                "width": width,
                "lr": lr,
                "seed": seed,
                "loss": (1.5 + 2 * (width / 16) ** -0.4)
                * math.exp(
                    0.03 * math.log2(lr / (0.02 * (width / 16) ** -0.4)) ** 2
                    + 0.003 * rng.normal()
                ),
            }
            for width in SIZES
            for lr in (0.0025, 0.005, 0.01, 0.02, 0.04)
            for seed in (0, 1)
        ]
        return pd.DataFrame(rows)

    @cached_property
    def table(self) -> str:
        return self.frame.assign(status="complete", batch_size=32).to_csv(index=False)

    @cached_property
    def plain(self) -> str:
        """One run a size and seed: a law without tuned values, which is quick to fit."""
        best = self.frame.loc[self.frame.groupby(["width", "seed"])["loss"].idxmin()]
        return best[["width", "seed", "loss"]].to_csv(index=False)

    @cached_property
    def parquet(self) -> bytes:
        buffer = io.BytesIO()
        self.frame.assign(note="plain").to_parquet(buffer, index=False)
        return buffer.getvalue()

    @cached_property
    def lines(self) -> bytes:
        return self.frame.to_json(orient="records", lines=True).encode()

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return self.frame.to_dict("records")

    @cached_property
    def big(self) -> str:
        rows = [
            {"width": 512, "seed": seed, "loss": 1.5 + 2 * 32**-0.4 + 0.003 * seed}
            for seed in range(3)
        ]
        return pd.DataFrame(rows).to_csv(index=False)

    @cached_property
    def forecast(self) -> extrap.Forecast:
        return extrap.forecast(
            extrap.read_runs(pd.read_csv(io.StringIO(self.plain)), size="width")
        )

    @cached_property
    def sealed(self) -> Path:
        path = self.folder / "sealed.json"
        extrap.save_forecast(self.forecast, path)
        return path

    @cached_property
    def watched(self) -> extrap.Forecast:
        rng = np.random.default_rng(7)
        x = np.arange(1, 26) / 25
        losses = self.frame["loss"].to_numpy()
        noise = 0.004 * rng.normal(size=(len(losses), 1))
        curves = np.exp(np.log(losses)[:, None] * x**0.3 + 0.9 * (1 - x**0.3) + noise)
        long = pd.DataFrame(
            {
                "run": np.repeat(np.arange(len(losses)), len(x)),
                "step": np.tile(1000 * x, len(losses)),
                "loss": curves.ravel(),
            }
        )
        runs = extrap.Runs.from_frame(
            self.frame.assign(loss=curves[:, -1]), sizes=["width"], tuned=["lr"], curves=long
        )
        return extrap.forecast(runs)

    @cached_property
    def log(self) -> str:
        steps = np.arange(1, 41) * 25
        losses = np.exp(0.6 * (steps / 1000) ** 0.3 + 0.9 * (1 - (steps / 1000) ** 0.3))
        return pd.DataFrame({"step": steps, "loss": losses}).to_csv(index=False)

    @cached_property
    def events(self) -> bytes:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        buffer = io.BytesIO()
        buffer.close = lambda: None  # type: ignore[method-assign]
        writer = RecordWriter(buffer)
        for step in range(1, 20):
            value = Summary.Value(tag="loss", simple_value=4.0 / step)
            writer.write(Event(step=50 * step, summary=Summary(value=[value])).SerializeToString())
        return buffer.getvalue()

    @cached_property
    def study(self) -> Path:
        """A study file whose runs are exported."""
        return self.write("mine.py", STUDY_FILE.encode())

    @cached_property
    def export(self) -> bytes:
        """An export of a whole study."""
        from extrap.study import open_study, tune
        from extrap.study.transfer import export_study

        url, path = f"sqlite:///{self.folder / 'exported.db'}", self.folder / "sound.db"
        study = open_study(self.study)
        tune(study.study, url, train=lambda size, tuned, seed: 2.0 + tuned["lr"])
        export_study(study, path, storage=url)
        return path.read_bytes()

    @cached_property
    def empty(self) -> bytes:
        """A storage without studies."""
        path = self.folder / "empty.db"
        optuna.storages.RDBStorage(f"sqlite:///{path}")
        return path.read_bytes()

    @cached_property
    def storage(self) -> bytes:
        """A storage with two studies of ours and one of a stranger."""
        path = self.folder / "sound.db"
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        for name in ("mine/width=16", "mine/width=32", "mine/check/width=64", "other"):
            study = optuna.create_study(storage=f"sqlite:///{path}", study_name=name)
            study.set_user_attr("schema", 2)
            study.set_user_attr("fingerprint", {"workload.depth": 2, "recipe.momentum": 0.9})
            for i in range(2):
                study.add_trial(_trial(i))
        return path.read_bytes()


def _trial(i: int) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        params={"lr": 0.01 * (i + 1)},
        distributions={"lr": optuna.distributions.FloatDistribution(1e-4, 1.0, log=True)},
        value=2.0 + i,
        intermediate_values={1: 3.0, 2: 2.5},
        user_attrs={
            "seed": i,
            "conditions": {"optimizer": "adam"},
            "result": {"status": "complete", "wall_s": 1.5, "flops": 1e9},
            "curve": [[10, 3.5], [20, 2.5]],
            "gradients": [[10, 1.0, 2.0], [20, 1.0, 2.0]],
        },
    )


STUDY_FILE = """
from extrap.records import *
STUDY = StudySpec(name="mine", question="?", workload=Workload(name="mine"), growth=0,
    sizes={"width": (16, 32)}, tune={"lr": TunedRange(low=2**-6, high=2**-4, n=3)}, seeds=(0, 1))
"""
Try = Callable[[Material, Sequence[Damage]], bool]
COLUMNS = ("--size", "width", "--tune", "lr")


def _read(path: Path, **columns: Any) -> bool:
    given = {"size": "width", "tune": "lr", **columns}
    return accepted(lambda: extrap.read_runs(path, **given))


def _csv_bytes(m: Material, done: Sequence[Damage]) -> bool:
    return _read(m.write("a.csv", damaged_bytes(m.table.encode(), done)))


def _csv_cells(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("a.csv", as_csv(damaged_table(m.table, done)))
    return _read(path, conditions="batch_size")


def _json_bytes(m: Material, done: Sequence[Damage]) -> bool:
    return _read(m.write("a.jsonl", damaged_bytes(m.lines, done)))


def _json_values(m: Material, done: Sequence[Damage]) -> bool:
    rows = damaged_json(m.rows, done)
    text = "\n".join(map(json.dumps, rows))
    return _read(m.write("a.jsonl", text.encode("utf-8", errors="surrogatepass")))


def _parquet(m: Material, done: Sequence[Damage]) -> bool:
    return _read(m.write("a.parquet", damaged_bytes(m.parquet, done)))


def _frame(m: Material, done: Sequence[Damage]) -> bool:
    """A DataFrame, such as others make: any object in any cell."""
    rows = [row if isinstance(row, dict) else {} for row in damaged_json(m.rows, done)]
    frame = pd.DataFrame(rows)
    return accepted(lambda: extrap.read_runs(frame, size="width", tune="lr"))


def _curves(m: Material, done: Sequence[Damage]) -> bool:
    text = "run,step,loss\n" + "".join(
        f"{i},{10 * s},{4 / s:.4g}\n" for i in (0, 1) for s in (1, 2)
    )
    path = m.write("curves.csv", as_csv(damaged_table(text, done)))
    return _read(m.write("a.csv", m.table.encode()), curves=path)


def _sqlite_bytes(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("a.db", damaged_bytes(m.storage, done))
    return _read_storage(f"sqlite:///{path}", len(done))


def _sqlite_values(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("a.db", m.storage)
    damaged_database(path, done)
    return _read_storage(f"sqlite:///{path}", len(done))


def _read_storage(url: str, turn: int) -> bool:
    study, size = [("mine", "width"), ("other", "lr")][turn % 2]
    tune = "lr" if size == "width" else ()
    return accepted(lambda: extrap.read_runs(url, size=size, tune=tune, study=study))


def _import(m: Material, done: Sequence[Damage]) -> bool:
    """`extrap study import` of a file into an empty storage of ours."""
    source = m.write("import.db", damaged_bytes(m.export, done))
    target = f"sqlite:///{m.write('target.db', m.empty)}"
    return command("study", "import", str(m.study), str(source), "--storage", target)


def _forecast_cells(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("a.csv", as_csv(damaged_table(m.plain, done)))
    extra = ("--json",) if len(done) % 2 else ()
    return command("forecast", str(path), "--size", "width", *extra)


def _forecast_tuned(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("a.csv", as_csv(damaged_table(m.table, done)))
    return command("forecast", str(path), *COLUMNS, "--json")


def _sealed_bytes(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("f.json", damaged_bytes(m.sealed.read_bytes(), done))
    return command("forecast", str(path), "--json")


def _check(m: Material, done: Sequence[Damage]) -> bool:
    path = m.write("big.csv", as_csv(damaged_table(m.big, done)))
    return command("check", str(m.sealed), str(path), *(("--json",) if len(done) % 2 else ()))


def _log_bytes(m: Material, done: Sequence[Damage]) -> bool:
    return _follow(m, m.write("log.csv", damaged_bytes(m.log.encode(), done)))


def _log_cells(m: Material, done: Sequence[Damage]) -> bool:
    return _follow(m, m.write("log.csv", as_csv(damaged_table(m.log, done))))


def _log_json(m: Material, done: Sequence[Damage]) -> bool:
    rows = damaged_json([{"step": 25 * i, "loss": 4.0 / i} for i in range(1, 20)], done)
    text = "\n".join(map(json.dumps, rows)) + "\n"
    return _follow(m, m.write("log.jsonl", text.encode("utf-8", errors="surrogatepass")))


def _log_events(m: Material, done: Sequence[Damage]) -> bool:
    return _follow(m, m.write("tfevents.log", damaged_bytes(m.events, done)))


def _follow(m: Material, path: Path) -> bool:
    """The whole log at once, and again as it grows in three parts."""
    monitor = Monitor(m.watched, at={"width": 512}, total_steps=1000)

    def once() -> None:
        for reading in watch(monitor, LogReader(path), once=True):
            json.dumps(encode(reading), allow_nan=False)

    whole = accepted(once)
    if path.suffix in (".csv", ".jsonl"):
        data, growing = path.read_bytes(), path.with_name(f"growing{path.suffix}")
        growing.unlink(missing_ok=True)
        reader = LogReader(growing)
        for part in range(1, 4):
            growing.write_bytes(data[: len(data) * part // 3])
            accepted(reader.poll)
    return whole


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Something that reads files, and how often it is tried.

    Attributes:
        of: What it is part of, for the table.
        kind: Damages, as in `damages`.
        share: Of all inputs.
        attempt: Tries one.
        ending: Of its files, for the corpus; empty if that is not tried.
    """

    of: str
    kind: str
    share: float
    attempt: Try
    ending: str = ""


READERS: dict[str, Reader] = {
    "csv bytes": Reader(of="read_runs", kind="bytes", share=0.14, attempt=_csv_bytes),
    "csv cells": Reader(of="read_runs", kind="cells", share=0.18, attempt=_csv_cells),
    "jsonl bytes": Reader(of="read_runs", kind="bytes", share=0.06, attempt=_json_bytes),
    "jsonl values": Reader(of="read_runs", kind="json", share=0.06, attempt=_json_values),
    "parquet": Reader(of="read_runs", kind="bytes", share=0.06, attempt=_parquet),
    "frames": Reader(of="read_runs", kind="json", share=0.05, attempt=_frame),
    "curves": Reader(of="read_runs", kind="cells", share=0.03, attempt=_curves),
    "sqlite bytes": Reader(of="storages", kind="bytes", share=0.03, attempt=_sqlite_bytes),
    "sqlite values": Reader(of="storages", kind="json", share=0.03, attempt=_sqlite_values),
    "import": Reader(of="study import", kind="bytes", share=0.03, attempt=_import),
    "forecast": Reader(of="extrap forecast", kind="cells", share=0.07, attempt=_forecast_cells),
    "forecast tuned": Reader(
        of="extrap forecast", kind="cells", share=0.02, attempt=_forecast_tuned
    ),
    "sealed bytes": Reader(of="extrap forecast", kind="bytes", share=0.06, attempt=_sealed_bytes),
    "check": Reader(of="extrap check", kind="cells", share=0.07, attempt=_check),
    "log bytes": Reader(of="log follower", kind="bytes", share=0.04, attempt=_log_bytes),
    "log cells": Reader(of="log follower", kind="cells", share=0.04, attempt=_log_cells),
    "log json": Reader(of="log follower", kind="json", share=0.04, attempt=_log_json),
    "log events": Reader(of="log follower", kind="bytes", share=0.01, attempt=_log_events),
}
"""What is tried; the shares add up to a little more than one."""


def _corpus(m: Material, data: bytes) -> Iterator[tuple[str, Callable[[], bool]]]:
    """A broken file, whole, at every door."""
    for ending in (".csv", ".tsv", ".jsonl", ".parquet"):
        path = m.write(f"c{ending}", data)
        yield ending, lambda path=path: _read(path)
        yield f"forecast {ending}", lambda path=path: command("forecast", str(path), *COLUMNS)
        yield f"check {ending}", lambda path=path: command("check", str(m.sealed), str(path))
    sealed = str(m.write("c.json", data))
    yield ".json", lambda: command("forecast", sealed)
    for name in ("c.csv", "c.jsonl", "c.tfevents"):
        log = m.write(name, data)
        yield f"log {name}", lambda log=log: _follow(m, log)
    database = m.write("c.db", data)
    yield ".db", lambda: _read_storage(f"sqlite:///{database}", 0)


def fuzz(name: str, n: int, *, seed: int = 0) -> Tally:
    """Try a reader, or the `corpus`, with so many inputs; the same ones for the same seed."""
    tally = Tally(name)
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    material = Material(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        if name == "corpus":
            for title, data in CORPUS.items():
                for door, call in _corpus(material, data):
                    tally.add(f"{title} {door}", call)
        else:
            for chunk in range(math.ceil(n / CHUNK)):
                _draw(READERS[name], material, tally, min(CHUNK, n - chunk * CHUNK), seed, chunk)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tally.grown_bytes = 1024 * (after - before)
    return tally


def _draw(reader: Reader, material: Material, tally: Tally, n: int, seed: int, chunk: int) -> None:
    wanted = tally.n_inputs + n

    @hypothesis_seed(1000 * seed + chunk)
    @settings(
        max_examples=n + n // 4 + 5,  # some of what is drawn is drawn twice
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(done=damages(reader.kind))
    def attempt(done: list[Damage]) -> None:
        if tally.n_inputs < wanted:
            tally.add(repr(done)[:400], lambda: reader.attempt(material, done))

    attempt()


def wanted_readers(only: Sequence[str] = ()) -> list[str]:
    """The readers to try; the importer only where there is one."""
    group = cli.commands["study"]
    has_import = "import" in getattr(group, "commands", {})
    names = [name for name in (*READERS, "corpus") if name != "import" or has_import]
    return [name for name in names if not only or any(name.startswith(o) for o in only)]


def _bounded(job: tuple[str, int, int]) -> Tally:
    """A part in a process of its own, which may not have more memory than said."""
    name, n, seed = job
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return fuzz(name, n, seed=seed)


def run_all(
    n: int, *, seed: int = 0, only: Sequence[str] = (), n_processes: int = 2
) -> list[Tally]:
    """Every reader, in processes that are each used for one."""
    jobs = [
        (name, math.ceil(READERS[name].share * n) if name in READERS else 0, seed)
        for name in wanted_readers(only)
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(n_processes, maxtasksperchild=1) as pool:
        tallies = []
        for tally in pool.imap_unordered(_bounded, jobs, chunksize=1):
            sys.stderr.write(
                f"{tally.name}: {tally.n_inputs} inputs, {tally.n_refused} refused, "
                f"{tally.n_breaches} breaches, {tally.cpu_s:.0f} s, slowest "
                f"{tally.slowest_s:.1f} s, +{tally.grown_bytes / 2**20:.0f} MiB\n"
            )
            tallies.append(tally)
    order = {name: i for i, (name, _, _) in enumerate(jobs)}
    return sorted(tallies, key=lambda tally: order[tally.name])


def fuzz_rows(n: int = 20_000, *, seed: int = 0) -> list[Row]:
    """What `make soak` prints of this."""
    return _rows(run_all(n, seed=seed))


def _rows(tallies: Sequence[Tally]) -> list[Row]:
    parts: dict[str, list[Tally]] = {}
    for tally in tallies:
        of = READERS[tally.name].of if tally.name in READERS else "corpus of broken files"
        parts.setdefault(of, []).append(tally)
    n_inputs = sum(tally.n_inputs for tally in tallies)
    n_breaches = sum(tally.n_breaches for tally in tallies)
    rows = [
        Row(
            part="Hostile files",
            figure=f"{sum(t.n_inputs for t in group):,} malformed inputs: {of}",
            target="only ExtrapError with a message",
            reached=f"{sum(t.n_refused for t in group):,} refused, "
            f"{sum(t.n_breaches for t in group)} breaches; slowest "
            f"{max(t.slowest_s for t in group):.1f} s, "
            f"+{max(t.grown_bytes for t in group) / 2**20:.0f} MiB",
            met=not any(t.n_breaches for t in group),
        )
        for of, group in parts.items()
    ]
    total = Row(
        part="Hostile files",
        figure="all of them",
        target="≥ 20,000 inputs, no traceback, no hang, memory bounded",
        reached=f"{n_inputs:,} inputs, {n_breaches} breaches, "
        f"{sum(t.cpu_s for t in tallies):.0f} s of a processor",
        met=n_breaches == 0 and n_inputs >= 20_000,
        note=f"A breach: another exception, a warning, a number that is not finite, a hidden "
        f"character, more than {LIMIT_S:g} s or {MEMORY_BYTES / 2**30:.0f} GiB.",
    )
    return [*rows, total]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[], help="readers whose name begins so")
    arguments = parser.parse_args()
    tallies = run_all(arguments.n, seed=arguments.seed, only=arguments.only)
    print_rows(_rows(tallies))
    for tally in tallies:
        for breach in tally.breaches:
            sys.stdout.write(f"\n{tally.name}: {breach}\n")
    sys.exit(any(tally.n_breaches for tally in tallies))


if __name__ == "__main__":
    _main()
