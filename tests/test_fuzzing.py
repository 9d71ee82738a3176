"""A few hundred malformed files against every reader; `python -m benchmarks.fuzz` tries 20,000."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.fuzz import READERS, Breach, Material, Tally, command, fuzz, wanted_readers
from extrap import forecast, read_runs
from extrap.errors import DataError
from extrap.fitting.local import fit_local
from extrap.fitting.rules import RULES
from extrap.reading.sources import read_curves
from extrap.reading.tables import read_table


@pytest.mark.parametrize("name", wanted_readers())
def test_malformed_files_are_refused_or_read(name):
    tally = fuzz(name, n := 2 if name in ("forecast tuned", "corpus") else 6, seed=7)
    assert tally.breaches == []
    assert tally.n_inputs >= n


def test_a_fault_is_told(monkeypatch):
    """A fuzzer that finds nothing must be able to find something."""
    tally = Tally("mine")
    for call in (lambda: 1 / 0, lambda: bool(np.log(0)), lambda: True, lambda: False):
        tally.add("x", call)
    assert (tally.n_inputs, tally.n_refused, tally.n_breaches) == (4, 1, 2)
    monkeypatch.setattr("extrap.reading.tables.require_file", lambda *_, **__: 1 / 0)
    with pytest.raises(Breach, match="exit code 3"):
        command("forecast", "absent.csv", "--size", "width")


# what fuzzing found


def plain_table(**changed):
    width = 16 * 2.0 ** np.arange(6)
    table = pd.DataFrame({"width": width, "loss": 1.5 + 2 * (width / 16) ** -0.4})
    return table.assign(**changed)


@pytest.mark.parametrize("value", [6.4e-219, 1e300, 1e-320])
def test_one_size_out_of_all_proportion_is_refused(value):
    """It made powers that no float holds, and warnings."""
    table = plain_table()
    table.loc[2, "width"] = value
    with pytest.raises(DataError, match=r"factor of 1e\+30"):
        forecast(read_runs(table, size="width"))


def test_odd_tables_are_refused(tmp_path):
    (tmp_path / "c.csv").write_text("run,step,loss\n")
    with pytest.raises(DataError, match="none of the runs"):
        read_curves(tmp_path / "c.csv", plain_table())
    table = plain_table(status=pd.Series([1.5, "x", None, True, "complete", 2], dtype=object))
    with pytest.raises(DataError, match="status must be one of"):
        read_runs(table, size="width")
    (tmp_path / "a.jsonl").write_text('{"width": 16, "loss": "\\ud800"}\n')
    with pytest.raises(DataError, match="line 1 is not JSON"):
        read_table(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"width": 16, "note": "\\ud83d\\ude00"}\n')
    assert read_table(tmp_path / "a.jsonl")["note"].tolist() == ["\U0001f600"]


def test_local_law_of_sizes_of_which_one_counts():
    """The columns of its least squares are then alike: 0 / 0."""
    sizes = [1.0, 2.0, 4.0, 1e16]
    found = fit_local("width", sizes, [4.0, 3.0, 2.5, 2.0])
    assert found is not None
    numbers = [*found.weights, *found.floors, *found.coefficients, found.scatter]
    assert all(map(math.isfinite, numbers))


def test_rules_of_the_thumb_know_what_no_float_holds():
    for rule in RULES:
        size = dict.fromkeys(("params", "tokens", "width", "depth", "batch_size", "steps"), 1e-300)
        if rule.exponents and all(abs(e) > 0.5 for e in rule.exponents.values()):
            assert rule.is_beyond(size)


def test_no_thread_or_library_prints(tmp_path):
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
def test_every_reader_takes_what_is_sound(name, tmp_path):
    assert READERS[name].attempt(Material(tmp_path), [])
