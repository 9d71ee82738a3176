"""Families with one input: `at(depth=34)` of a forecast over parameters and tokens."""

import json
import math

import pandas as pd
import pytest

from extrap.cli import main
from extrap.documents import content_hash, load_forecast, save_forecast
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.reading import read_runs
from extrap.records.seals import seal

PATH = {"n_params": "12 * depth * (64 * depth)**2", "n_tokens": "20 * n_params"}


def table():
    """A law in parameters and tokens on an even grid, without noise to speak of."""
    rows = []
    for n in (1e6, 4e6, 16e6, 64e6):
        for d in (2e7, 8e7, 32e7):
            best = 5 * n**-0.3
            for i in range(-3, 4):
                octaves = i - math.log2(best) % 1
                loss = 1.7 + 400 / n**0.34 + 400 / d**0.28
                for seed in (0, 1):
                    wobble = 1e-4 * math.sin(n + 7 * d + 3 * i + seed)
                    lr = best * 2**octaves
                    rows.append((n, d, lr, seed, loss * math.exp(0.01 * octaves**2 + wobble)))
    return pd.DataFrame(rows, columns=["n_params", "n_tokens", "lr", "seed", "loss"])


@pytest.fixture(scope="module")
def along_path():
    runs = read_runs(table(), size=("n_params", "n_tokens"), tune="lr")
    return forecast(runs, path=PATH)


@pytest.fixture(scope="module")
def plain(along_path):
    return forecast(along_path.runs)


def test_a_dial_gives_the_point_of_the_sizes_it_sets(along_path):
    point = along_path.at(depth=16)
    n = 12 * 16 * 1024**2
    assert point.size == {"n_params": n, "n_tokens": 20 * n}
    assert point.path_inputs == {"depth": 16}
    same = along_path.at(n_params=n, n_tokens=20 * n)
    assert (same.loss, same.loss_pi, same.tuned) == (point.loss, point.loss_pi, point.tuned)
    assert same.path_inputs == {}
    assert same.recommendation == point.recommendation


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"height": 16}, "depth of the path, got height"),
        ({"depth": 16, "n_tokens": 1e9}, "got depth, n_tokens"),
        ({"depth": 1}, "below the smallest"),
    ],
)
def test_what_is_neither_size_nor_dial_is_refused(along_path, size, message):
    with pytest.raises(ValueError, match=message):
        along_path.at(**size)


def test_one_size_may_be_the_dial_of_the_other(along_path):
    made = forecast(along_path.runs, path={"n_tokens": "20 * n_params"})
    assert made.at(n_params=1e8).size == {"n_params": 1e8, "n_tokens": 2e9}


def test_a_saved_forecast_keeps_its_path_and_has_none_without(along_path, plain, tmp_path):
    file = tmp_path / "f.json"
    save_forecast(along_path, file)
    loaded = load_forecast(file)
    assert loaded.path == along_path.path
    assert loaded.at(depth=16).path_inputs == {"depth": 16}
    assert content_hash(loaded) == content_hash(along_path) != content_hash(plain)
    save_forecast(plain, file)
    assert load_forecast(file).path is None


@pytest.mark.parametrize("bad", [{"formulas": {"n_params": f}} for f in ("depth +", 3)] + [["n"]])
def test_a_saved_path_that_is_none_is_refused(along_path, tmp_path, bad):
    file = tmp_path / "f.json"
    save_forecast(along_path, file)
    file.write_text(json.dumps(seal({**json.loads(file.read_text()), "path": bad})))
    with pytest.raises(DataError, match="complete forecast: path"):
        load_forecast(file)


@pytest.mark.parametrize(
    "path", [{"n_params": "depth**3"}, {"width": "64 * depth"}, {"x": "n_params / n_tokens"}]
)
def test_a_path_that_does_not_lead_to_the_sizes_is_refused(along_path, path):
    with pytest.raises(ValueError, match=r"add n_(tokens|params) = "):
        forecast(along_path.runs, path=path)


def test_the_command_line_checks_with_a_path_and_refuses_one_without_effect(
    tmp_path, monkeypatch, along_path, capsys
):
    monkeypatch.chdir(tmp_path)
    table().to_csv("runs.csv", index=False)
    save_forecast(along_path, "f.json")
    big = pd.DataFrame({"n_params": [2e8], "n_tokens": [4e9], "lr": [0.016], "seed": 0, "loss": 3})
    big.to_csv("big.csv", index=False)
    paths = [word for n, f in PATH.items() for word in ("--path", f"{n} = {f}")]
    asked = ["--size", "n_params", "--size", "n_tokens", "--tune", "lr", *paths]
    given = main(["check", "runs.csv", "big.csv", *asked])
    assert main(["check", "f.json", "big.csv"]) == given
    assert given in (0, 1)
    capsys.readouterr()
    assert main(["backtest", "runs.csv", *asked]) == 2
    assert "--path" in capsys.readouterr().err
    assert main(["forecast", "f.json", "--path", "n_params = d"]) == 2
    assert "--path has no effect" in capsys.readouterr().err
