"""Families with one dial: `at(depth=34)` of a forecast over parameters and tokens."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from extrap.cli import main
from extrap.documents import content_hash, load_forecast, save_forecast
from extrap.errors import DataError
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs

PATH = {"n_params": "12 * depth * (64 * depth)**2", "n_tokens": "20 * n_params"}


def table() -> pd.DataFrame:
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
def dialled() -> Forecast:
    runs = read_runs(table(), size=("n_params", "n_tokens"), tune="lr")
    return forecast(runs, path=PATH)


def test_a_dial_gives_the_point_of_the_sizes_it_sets(dialled: Forecast) -> None:
    point = dialled.at(depth=16)
    n = 12 * 16 * 1024**2
    assert point.size == {"n_params": n, "n_tokens": 20 * n}
    assert point.dial == {"depth": 16}
    same = dialled.at(n_params=n, n_tokens=20 * n)
    assert (same.loss, same.loss_pi, same.tuned) == (point.loss, point.loss_pi, point.tuned)
    assert same.dial == {}
    assert dialled.recommend(depth=16) == dialled.recommend(**point.size)


def test_what_is_neither_size_nor_dial_is_refused_with_both(dialled: Forecast) -> None:
    with pytest.raises(ValueError, match=r"n_params, n_tokens or the dial\(s\) depth, got height"):
        dialled.at(height=16)
    with pytest.raises(ValueError, match="got depth, n_tokens"):
        dialled.at(depth=16, n_tokens=1e9)
    with pytest.raises(ValueError, match="lies below the smallest tuned one"):
        dialled.at(depth=1)


def test_one_size_may_be_the_dial_of_the_other(dialled: Forecast) -> None:
    made = forecast(dialled.runs, path={"n_tokens": "20 * n_params"})
    assert made.at(n_params=1e8).size == {"n_params": 1e8, "n_tokens": 2e9}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ({"n_params": "depth**3"}, "add n_tokens = "),
        ({"width": "64 * depth"}, "add n_params = "),
        ({"n_params": "n_tokens", "n_tokens": "n_params"}, "circle"),
        ({"n_params": "depth +"}, "a formula is arithmetic"),
    ],
)
def test_a_path_that_does_not_lead_to_the_sizes_is_refused(
    dialled: Forecast, path: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        forecast(dialled.runs, path=path)


def test_a_sealed_forecast_keeps_its_path(dialled: Forecast, tmp_path: Path) -> None:
    save_forecast(dialled, tmp_path / "f.json")
    loaded = load_forecast(tmp_path / "f.json")
    assert loaded.path == dialled.path
    assert loaded.at(depth=16).dial == {"depth": 16}
    assert content_hash(loaded) == content_hash(dialled)


def test_without_a_path_nothing_is_written_of_one(dialled: Forecast, tmp_path: Path) -> None:
    plain = forecast(dialled.runs)
    save_forecast(plain, tmp_path / "f.json")
    assert "path" not in json.loads((tmp_path / "f.json").read_text())
    assert load_forecast(tmp_path / "f.json").path is None
    assert content_hash(plain) != content_hash(dialled)


def test_a_sealed_path_that_is_none_is_refused(dialled: Forecast, tmp_path: Path) -> None:
    from extrap import documents

    for bad in ({"n_params": "depth +"}, {"n_params": 3}, ["n"]):
        save_forecast(dialled, tmp_path / "f.json")
        document: dict[str, Any] = json.loads((tmp_path / "f.json").read_text())
        document["path"] = bad
        content = {
            k: v
            for k, v in document.items()
            if k not in ("created", "content_hash", "seal", "notes", "curves")
        }
        document["content_hash"] = documents._hash(content)
        document["seal"] = documents._seal(
            document["content_hash"], document["created"], document.get("curves")
        )
        (tmp_path / "f.json").write_text(json.dumps(document))
        with pytest.raises(DataError, match="no complete forecast"):
            load_forecast(tmp_path / "f.json")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    table().to_csv("runs.csv", index=False)
    paths = [word for n, f in PATH.items() for word in ("--path", f"{n} = {f}")]
    return ["runs.csv", "--size", "n_params", "--size", "n_tokens", "--tune", "lr", *paths]


def test_the_command_line_takes_a_path(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", *asked, "--at", "depth=16", "--save", "f.json"]) == 0
    said = capsys.readouterr().out
    assert "depth" in said
    assert "n_tokens = 20 * n_params" in said
    assert main(["forecast", "f.json", "--at", "16", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["path"] == PATH
    assert document["points"][0]["dial"] == {"depth": 16}
    assert document["points"][0]["size"]["n_params"] == 12 * 16 * 1024**2
    big = pd.DataFrame({"n_params": [2e8], "n_tokens": [4e9], "lr": [0.016], "seed": 0, "loss": 3})
    big.to_csv("big.csv", index=False)
    codes = {
        main(["check", "f.json", "big.csv"]),
        main(["check", asked[0], "big.csv", *asked[1:]]),
    }
    assert len(codes) == 1
    assert codes <= {0, 1}


def test_a_path_that_would_have_no_effect_is_refused(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backtest", *asked]) == 2
    assert "leave --path out" in capsys.readouterr().err
    assert main(["forecast", *asked, "--save", "f.json"]) == 0
    assert main(["forecast", "f.json", "--path", "n_params = d"]) == 2
    assert "has --path n_params = 12" in capsys.readouterr().err
