"""Malformed files against every reader: an error that says what to do, or a result."""

import io
import json
import math
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extrap
from benchmarks.sweeps import make_table
from extrap.checking.monitoring import Monitor, watch
from extrap.cli import main
from extrap.errors import DataError, ExtrapError
from extrap.files import as_written
from extrap.fitting.curve_laws import fit_local
from extrap.reading.logs import LogReader
from extrap.reading.sources import read_curves
from extrap.reading.table_files import read_table
from extrap.records.codec import encode

NASTY = (
    *("nan", "-inf", "1e400", "5e-324", "1e300", "1e-300", "0x10", "1_000", "--5", "½", "12abc"),
    *("=1+1", "@SUM(A1)", "null", "[]", "{}", "-1"),
    *("", " ", "x\ny", "\x00", "\x1b[31mred\x1b[0m", "‮5", "9" * 5000, "\ud800", "[1, 2]"),
    *("<script>alert(1)</script>", "../../etc/passwd", "diverged", "check", '"', "[red]x[/red]"),
)
"""Cells: not finite, at the ends of the number line, hidden characters, markup, half a pair."""
RAW = (
    *(b"", b"\x00", b"\xff", b"\r", b"\n\n", b'"', b",,,,", b"\xff\xfe", b"\xef\xbb\xbf", b"PAR1"),
    *(b"\xed\xa0\x80", b"\x1f\x8b", b"\xe2\x80\xa8", b"[" * 5000, b'{"a":' * 3000, b"9" * 6000),
)
"""Bytes: marks, separators, broken UTF-8, beginnings of other formats, depth, length."""
CORPUS = {
    "nothing": b"",
    "zeros": b"\x00" * 10_000,
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    "a page": b"<!doctype html><title>404</title><p>not found, sorry, no, thanks",
    "a footer that lies": b"PAR1" + b"\x00" * 64 + b"\xff\xff\xff\x7fPAR1",
    "an empty database": b"SQLite format 3\x00" + b"\x00" * 1000,
    "wide UTF-16": "width,lr,seed,loss\n16,0.1,0,2.5\n".encode("utf-16"),
    "a heading": b"width,lr,seed,loss\n",
    "many columns": b",".join(b"c%d" % i for i in range(3_000)) + b"\n1\n",
    "never closed": b'width,lr,seed,loss\n16,0.1,0,"2.5\n' + b"32,0.1,0,2.25\n" * 200,
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a long number": b'{"width": ' + b"9" * 1_000_000 + b', "loss": 2}\n',
    "other objects": b'[]\n1\n"x"\nnull\ntrue\n',
}
"""Broken files, tried whole."""
FRACTION = st.floats(min_value=0, max_value=1, exclude_max=True)
DAMAGES = st.lists(
    st.one_of(
        st.tuples(FRACTION, FRACTION, st.one_of(st.sampled_from(RAW), st.binary(max_size=64))),
        st.tuples(FRACTION, st.none(), st.sampled_from(NASTY)),
    ),
    min_size=1,
    max_size=4,
)
"""What is put between two places, as fractions of the length; without a second, into one cell."""


def damaged(data, damages):
    for start, end, what in damages:
        if end is None:
            words = re.split(rb"([,:\s{}\[\]]+)", data)
            words[int(start * len(words))] = what.encode(errors="surrogatepass")
            data = b"".join(words)
        else:
            first, last = sorted((int(start * len(data)), int(end * len(data))))
            data = data[:first] + what + data[last:]
    return data


def command(*arguments):
    """The exit code of a command that prints what it should, and nothing else."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    printed = out.getvalue() + err.getvalue()
    assert code in (0, 1, 2), err.getvalue()
    assert "Traceback" not in printed
    assert as_written(printed) == printed  # no hidden character
    if code == 2:
        assert err.getvalue().splitlines()[-1].startswith("extrap: ")
    elif "--json" in arguments:
        json.loads(out.getvalue(), parse_constant=lambda name: pytest.fail(f"{name} in a result"))
    return code


def read(path):
    extrap.read_runs(path, size="width", tune="lr")


def read_storage(path):
    extrap.read_runs(f"sqlite:///{path}", size="width", tune="lr", study="mine")


def read_sealed(path):
    command("forecast", str(path), "--json")


@pytest.fixture(scope="module")
def sound(tmp_path_factory, watched):
    """Name of a reader → a sound file, and the reader."""
    folder = tmp_path_factory.mktemp("sound")
    table = make_table(rates=(0.0025, 0.01, 0.04), seeds=2).assign(status="complete")
    table.to_parquet(folder / "parquet")
    extrap.save_forecast(extrap.forecast(plain_table(), size="width"), folder / "sealed.json")
    url = f"sqlite:///{folder}/storage"
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in ("mine/width=16", "mine/check/width=64"):
        study = optuna.create_study(storage=url, study_name=name)
        study.set_user_attr("schema", 2)
        for seed in range(2):
            trial = study.ask()
            trial.suggest_float("lr", 1e-4, 1.0, log=True)
            trial.set_user_attr("seed", seed)
            trial.set_user_attr("result", {"status": "complete", "wall_s": 1.5, "flops": 1e9})
            study.tell(trial, 2.0 + seed)

    def follow(path):
        monitor = Monitor(watched, at={"width": 512}, total_steps=1000)
        for reading in watch(monitor, LogReader(path), once=True):
            json.dumps(encode(reading), allow_nan=False)

    log = "step,loss\n" + "".join(f"{25 * i},{4.0 / i}\n" for i in range(1, 20))
    return {
        "csv": (table.to_csv(index=False).encode(), read, "a.csv"),
        "jsonl": (table.to_json(orient="records", lines=True).encode(), read, "a.jsonl"),
        "parquet": ((folder / "parquet").read_bytes(), read, "a.parquet"),
        "storage": ((folder / "storage").read_bytes(), read_storage, "a.db"),
        "sealed": ((folder / "sealed.json").read_bytes(), read_sealed, "a.json"),
        "log": (log.encode(), follow, "log.csv"),
    }


def attempt(reader, path, data):
    path.write_bytes(data)
    try:
        reader(path)
    except ExtrapError as error:
        message = str(error)
    else:
        return
    assert 0 < len(message) < 4000


READERS = ("csv", "jsonl", "parquet", "storage", "sealed", "log")


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_or_read(name, sound, tmp_path):
    data, reader, file = sound[name]
    reader_path = tmp_path / file
    reader_path.write_bytes(data)
    reader(reader_path)  # sound, it is read

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(damages=DAMAGES)
    def attempts(damages):
        attempt(reader, reader_path, damaged(data, damages))

    attempts()


@pytest.mark.parametrize("title", CORPUS)
def test_a_file_of_something_else_is_refused_by_every_reader(title, sound, tmp_path):
    for _, reader, file in sound.values():
        attempt(reader, tmp_path / file, CORPUS[title])


# what longer runs found


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
        extrap.forecast(extrap.read_runs(table, size="width"))


def test_odd_tables_are_refused(tmp_path):
    (tmp_path / "c.csv").write_text("run,step,loss\n")
    with pytest.raises(DataError, match="none of the runs"):
        read_curves(tmp_path / "c.csv", plain_table())
    table = plain_table(status=pd.Series([1.5, "x", None, True, "complete", 2], dtype=object))
    with pytest.raises(DataError, match="status must be one of"):
        extrap.read_runs(table, size="width")
    (tmp_path / "a.jsonl").write_text('{"width": 16, "loss": "\\ud800"}\n')
    with pytest.raises(DataError, match="line 1 is not JSON"):
        read_table(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"width": 16, "note": "\\ud83d\\ude00"}\n')
    assert read_table(tmp_path / "a.jsonl")["note"].tolist() == ["\U0001f600"]


def test_local_law_of_sizes_of_which_one_counts():
    """The columns of its least squares are then alike: 0 / 0."""
    law = fit_local("width", [1.0, 2.0, 4.0, 1e16], [4.0, 3.0, 2.5, 2.0])
    numbers = [*law.weights, *law.floors, *law.coefficients, law.scatter]
    assert all(map(math.isfinite, numbers))


def test_no_thread_or_library_prints(tmp_path):
    """Warnings of libraries would show beside the one line of an error."""
    (tmp_path / "a.csv").write_text("width,lr,loss\n" + "16,0.1,1e300\n32,1e-320,5e-324\n" * 9)
    done = subprocess.run(
        [sys.executable, "-m", "extrap", "forecast", "a.csv", "--size", "width", "--tune", "lr"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
