"""A few hundred malformed files against every reader; `python -m benchmarks.fuzz` tries 20,000."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.fuzz import READERS, Breach, Hang, Material, Tally, command, fuzz, wanted_readers
from benchmarks.malformed import as_csv, damaged_bytes, damaged_json, damaged_table
from extrap import forecast, read_runs
from extrap.errors import DataError
from extrap.fitting.local import fit_local
from extrap.fitting.rules import RULES
from extrap.reading.curves import read_curves
from extrap.reading.tables import read_table

FEW = {"sqlite bytes": 6, "sqlite values": 6, "forecast tuned": 2, "sealed values": 4}


@pytest.mark.parametrize("name", wanted_readers())
def test_malformed_files_are_refused_or_read(name: str) -> None:
    tally = fuzz(name, FEW.get(name, 15), seed=7)
    assert tally.breaches == []
    assert tally.n_inputs >= FEW.get(name, 15)


def test_the_same_seed_tries_the_same_files() -> None:
    first, second = (fuzz("csv cells", 30, seed=3) for _ in range(2))
    assert (first.n_inputs, first.n_refused) == (second.n_inputs, second.n_refused)


def test_breaches_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzzer that finds nothing must be able to find something."""

    def crash() -> bool:
        raise IndexError("gone")

    def warn() -> bool:
        warnings.warn("loud", RuntimeWarning, stacklevel=1)
        return True

    def hang() -> bool:
        while True:
            pass

    monkeypatch.setattr("benchmarks.fuzz.LIMIT_S", 0.2)
    monkeypatch.setattr("benchmarks.fuzz.WAIT_S", 20.0)
    tally = Tally("mine")
    for call in (crash, warn, hang, lambda: True, lambda: False):
        tally.add("x", call)
    monkeypatch.setattr("benchmarks.fuzz.WAIT_S", 0.2)
    tally.add("x", lambda: bool(time.sleep(20)))
    assert (tally.n_inputs, tally.n_refused, tally.n_breaches) == (6, 1, 4)
    kinds = [breach.partition(":")[0] for breach in tally.breaches]
    assert kinds == ["IndexError", "Breach", "Hang", "Hang"]
    assert issubclass(Hang, BaseException)
    assert not issubclass(Hang, Exception)


def test_a_command_that_breaks_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("forecast", "absent.csv", "--size", "width") is False

    def burst(*_: object, **__: object) -> None:
        raise LookupError("x")

    monkeypatch.setattr("extrap.reading.tables.require_file", burst)
    with pytest.raises(Breach, match="exit code 3"):
        command("forecast", "absent.csv", "--size", "width")


def test_damages_do_what_they_say() -> None:
    assert damaged_bytes(b"abcd", [("cut", 0.5, 0.9, None)]) == b"ab"
    assert damaged_bytes(b"abcd", [("flip", 0, 0, 1)]) == b"`bcd"
    assert as_csv(damaged_table("a,b\n1,2\n", [("cell", 0.5, 0.5, "x")])) == b"a,b\r\n1,x\r\n"
    assert damaged_json({"a": [1]}, [("value", 0.9, 0, "x")]) == {"a": ["x"]}


# what fuzzing found


def plain_table(**changed: object) -> pd.DataFrame:
    width = 16 * 2.0 ** np.arange(6)
    table = pd.DataFrame({"width": width, "loss": 1.5 + 2 * (width / 16) ** -0.4})
    return table.assign(**changed)


@pytest.mark.parametrize("value", [6.4e-219, 1e300, 1e-320])
def test_one_size_out_of_all_proportion_is_refused(value: float) -> None:
    """It made powers that no float holds, and warnings."""
    table = plain_table()
    table.loc[2, "width"] = value
    with pytest.raises(DataError, match=r"must span at most a factor 1e\+30.*wrong size"):
        forecast(read_runs(table, size="width"))


def test_curves_without_a_point_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("run,step,loss\n")
    with pytest.raises(DataError, match="needs at least one row"):
        read_curves(tmp_path / "c.csv", plain_table())


def test_statuses_of_several_kinds_are_refused() -> None:
    table = plain_table(status=pd.Series([1.5, "x", None, True, "complete", 2], dtype=object))
    with pytest.raises(DataError, match="status must be one of"):
        read_runs(table, size="width")


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"width": 16, "loss": "\\ud800"}\n')
    with pytest.raises(DataError, match="line 1 is not JSON"):
        read_table(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"width": 16, "note": "\\ud83d\\ude00"}\n')
    assert read_table(tmp_path / "a.jsonl")["note"].tolist() == ["\U0001f600"]


def test_local_law_of_sizes_of_which_one_counts() -> None:
    """The columns of its least squares are then alike: 0 / 0."""
    sizes = [1.0, 2.0, 4.0, 1e16]
    found = fit_local("width", sizes, [4.0, 3.0, 2.5, 2.0])
    assert found is not None
    numbers = [*found.weights, *found.floors, *found.coefficients, found.scatter]
    assert all(map(math.isfinite, numbers))


def test_rules_of_the_thumb_know_what_no_float_holds() -> None:
    for rule in RULES:
        size = dict.fromkeys(("params", "tokens", "width", "depth", "batch_size", "steps"), 1e-300)
        if rule.exponents and all(abs(e) > 0.5 for e in rule.exponents.values()):
            assert rule.is_beyond(size)


def test_no_thread_or_library_prints(tmp_path: Path) -> None:
    """Warnings of libraries would show beside the one line of an error."""
    (tmp_path / "a.csv").write_text("width,lr,loss\n" + "16,0.1,1e300\n32,1e-320,5e-324\n" * 9)
    done = subprocess.run(
        [sys.executable, "-m", "extrap", "forecast", "a.csv", "--size", "width", "--tune", "lr"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", READERS)
def test_every_reader_takes_what_is_sound(name: str, tmp_path: Path) -> None:
    assert READERS[name].attempt(Material(tmp_path), [])
