"""`extrap select` as scripts see it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from extrap.cli import main
from extrap.selection import select


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((40, 5))


@pytest.fixture
def run(capsys, tmp_path, points):
    np.save(tmp_path / "points.npy", points)
    frame = pd.DataFrame(points, columns=list("abcde")).assign(digit=np.arange(40) % 4)
    frame.to_csv(tmp_path / "points.csv", index=False)

    def run(name, *options):
        code = main(["select", str(tmp_path / name), *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_prints_the_kept_rows(run, points):
    code, out, err = run("points.npy", "--keep", "0.2", "--clusters", "3")
    assert (code, err) == (0, "")
    assert [int(line) for line in out.split()] == select(
        points, keep=8, n_clusters=3
    ).rows.tolist()


def test_writes_difficulties_beside_what_is_kept(run, points, tmp_path):
    path = tmp_path / "rows.csv"
    code, out, _ = run(
        "points.csv", "--keep", "8", "--label", "digit", "--which", "easy", "-o", str(path)
    )
    assert code == 0
    assert out.startswith("kept 8 of 40 (easy, to a difficulty of ")
    table = pd.read_csv(path)
    expected = select(points, keep=8, which="easy", labels=np.arange(40) % 4)
    assert table["row"].tolist() == list(range(40))
    assert np.flatnonzero(table["kept"]).tolist() == expected.rows.tolist()
    np.testing.assert_allclose(table["difficulty"], expected.difficulty)


def test_json_has_the_rows(run):
    code, out, _ = run("points.npy", "--keep", "3", "--which", "random", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["n_kept"], document["n_examples"], document["threshold"]) == (3, 40, None)
    assert len(document["rows"]) == 3


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("points.npy", ["--keep", "2.5"], "keep is a fraction in (0, 1]"),
        ("points.npy", ["--keep", "1", "--label", "digit"], "an array has no column 'digit'"),
        ("points.csv", ["--keep", "1", "--label", "class"], "there is no column 'class'"),
        ("same.npy", ["--keep", "0.2"], "do not vary, got the same direction in all 300 rows"),
        ("huge.npy", ["--keep", "0.2"], "squares overflow, got 1e+300"),
        ("points.npy", ["--keep", "0.2", "--seed", "-1"], "seed is a whole number from 0"),
        ("blank.csv", ["--keep", "2", "--label", "b"], "every example has a class, got none in 1"),
        ("absent.npy", ["--keep", "1"], "there is no file"),
        ("absent.csv", ["--keep", "1"], "there is no file"),
        ("words.csv", ["--keep", "1"], "features are numbers, got 'x' in column 'b', row 1"),
        ("pickle.npy", ["--keep", "1"], "is no readable .npy array"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, name, options, message):
    (tmp_path / "words.csv").write_text("a,b\n1,2\n3,x\n")
    (tmp_path / "blank.csv").write_text("a,b,c\n1,x,2\n3,,2\n2,y,1\n")
    np.save(tmp_path / "same.npy", np.ones((300, 5)))
    np.save(tmp_path / "huge.npy", np.array([[1e300, 2.0], [3.0, 1e300], [1.0, 1.0]]))
    np.save(tmp_path / "pickle.npy", np.array([{}]), allow_pickle=True)
    code, out, err = run(name, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
