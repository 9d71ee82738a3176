"""Options that say how runs are read, as a user gives them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A small sweep in a table, `sweep.csv`, with columns as a tracker names them."""
    monkeypatch.chdir(tmp_path)
    rates = (0.002, 0.004, 0.008, 0.016, 0.032)
    cells = [(w, lr, s) for w in (16, 32, 64, 128) for lr in rates for s in (0, 1)]
    table = pd.DataFrame(cells, columns=["config/width", "config/lr", "config/seed"])
    octaves = np.log2(table["config/lr"] / (0.1 / table["config/width"] ** 0.5))
    loss = 1.5 + 4 / table["config/width"] ** 0.5 + 0.02 * octaves**2
    table["summary/val_loss"] = (loss + table["config/seed"] / 500).round(6)
    table["summary/val_acc"] = (1 - table["summary/val_loss"] / 8).round(9)
    table.to_csv("sweep.csv", index=False)
    return table


NAMES = ("--size", "width", "--tune", "lr")


def losses(*arguments: str, capsys: pytest.CaptureFixture[str]) -> list[float]:
    assert main(["forecast", "sweep.csv", *arguments, "--at", "256", "--json"]) == 0
    return [point["loss"] for point in json.loads(capsys.readouterr().out)["points"]]


@pytest.mark.usefixtures("sweep")
def test_names_behind_prefixes_and_a_metric_that_is_maximised_are_forecast(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (plain,) = losses(*NAMES, "--loss", "val_loss", capsys=capsys)
    (turned,) = losses(*NAMES, "--maximise", "val_acc", capsys=capsys)
    (derived,) = losses(*NAMES, "--let", "e = val_loss / 8", "--loss", "e", capsys=capsys)
    assert turned == pytest.approx(plain / 8, rel=1e-4)
    assert derived == pytest.approx(plain / 8, rel=1e-4)


@pytest.mark.usefixtures("sweep")
def test_what_is_not_named_is_suggested_and_the_suggestion_works(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["forecast", "sweep.csv"]) == 2
    error = capsys.readouterr().err
    told = error.partition("write ")[2].split()
    assert told == ["--size", "config/width", "--loss", "summary/val_loss", "--tune", "config/lr"]
    assert len(losses(*told, capsys=capsys)) == 1


@pytest.mark.usefixtures("sweep")
def test_tune_none_is_the_loss_law_alone(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["forecast", "sweep.csv", "--size", "width", "--loss", "val_loss", "--json"]
    assert main([*arguments, "--tune", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["points"][0]["tuned"] == {}
    assert main([*arguments, "--tune", "none", "--tune", "lr"]) == 2
    assert "--tune none is the loss law alone" in capsys.readouterr().err


@pytest.mark.usefixtures("sweep")
def test_formulas_serve_the_sweep_and_its_larger_runs(capsys: pytest.CaptureFixture[str]) -> None:
    let = ("--let", "params = 12 * width ** 2", "--loss", "val_loss")
    names = ("--size", "params", "--tune", "lr")
    assert main(["forecast", "sweep.csv", *names, *let, "--save", "f.json"]) == 0
    capsys.readouterr()
    assert main(["check", "f.json", "sweep.csv", *let, "--json"]) in (0, 1)
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert verdicts[0]["run"]["size"] == {"params": 12 * 16**2}
    assert main(["check", "f.json", "sweep.csv", "--loss", "val_loss"]) == 2
    assert "no column 'params'" in capsys.readouterr().err


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--final", "first"), "the final loss is last, best, tail"),
        (("--final", "best", "--loss", "val_loss"), "hand in --curves, or leave --final out"),
        (("--let", "width"), "a definition reads name = formula"),
        (("--maximise", "acc"), "no column 'acc'; did you mean 'summary/val_acc'?"),
        (("--maximise", "val_loss"), "say what its loss is"),
    ],
)
def test_impossible_options_are_one_line(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", "sweep.csv", *NAMES, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_other_commands_take_formulas_and_metrics_too(
    sweep: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ("--let", "e = 1 - val_acc", "--loss", "e")
    turned = ("--maximise", "val_acc")
    found = []
    for options in (error, turned):
        assert main(["check", "sweep.csv", "sweep.csv", *NAMES, *options, "--json"]) in (0, 1)
        found.append(json.loads(capsys.readouterr().out)["verdicts"])
    first, second = ([v["deviation"] for v in verdicts] for verdicts in found)
    assert first == pytest.approx(second, abs=1e-6)
    sweep.assign(tokens=sweep["config/lr"] * 1e12).to_csv("split.csv", index=False)
    sized = ("--let", "params = width * 1e6", "--flops", "1e19")
    for options in (error, turned):
        assert main(["allocate", "split.csv", *sized, *options, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[2]["params"]["value"] == pytest.approx(found[3]["params"]["value"], rel=1e-3)


def test_an_export_of_the_runs_table_is_forecast_in_one_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    export = ["forecast", str(EXAMPLES / "wandb_export.csv"), "--size", "model.width"]
    assert main([*export, "--tune", "lr", "--loss", "val/loss", "--at", "512", "--json"]) == 0
    exported = json.loads(capsys.readouterr().out)["points"][0]
    plain = ["forecast", str(EXAMPLES / "sweep.csv"), "--size", "width", "--tune", "lr"]
    assert main([*plain, "--at", "512", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["points"][0]
    assert exported["loss"] == expected["loss"]
    assert exported["loss_pi"] == expected["loss_pi"]
    assert exported["tuned"] == expected["tuned"]


USELESS = [
    ("--let", "e = loss / 8"),
    ("--final", "best"),
    ("--maximise", "acc"),
    ("--loss", "val_loss"),
    ("--seed", "config/seed"),
    ("--study", "other"),
    ("--curves", "curves.csv"),
]
"""Options that would read runs."""


@pytest.mark.parametrize("option", USELESS, ids=[name for name, _ in USELESS])
@pytest.mark.parametrize(
    "command",
    [
        ("forecast", "f.json"),
        ("plan", "f.json", "--at", "256", "--budget", "1e9"),
        ("cost", "f.json", "--at", "256"),
        ("backtest", "f.json"),
        ("report", "f.json"),
        ("beside", "f.json", "page.html"),
    ],
    ids=lambda command: command[0],
)
def test_options_that_would_read_no_runs_are_refused(
    command: tuple[str, ...], option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *option]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    if command[0] == "beside" and option[0] != "--loss":
        assert "No such option" in error
        return
    assert f"extrap: {option[0]} says how " in error
    assert "f.json" in error
    assert "leave the option out" in error


@pytest.mark.usefixtures("sweep")
def test_larger_runs_are_read_by_these_options_beside_a_sealed_forecast(
    sweep: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    derived = ("--let", "e = val_loss / 8", "--loss", "e")
    assert main(["forecast", "sweep.csv", *NAMES, *derived, "--save", "f.json"]) == 0
    big = sweep.tail(4).assign(**{"config/width": 256})
    big["summary/val_loss"] = 1.75 + (sweep["summary/val_loss"].tail(4) - 1.75) / 2
    big.to_csv("big.csv", index=False)
    capsys.readouterr()
    assert main(["check", "f.json", "big.csv", "--json"]) == 2  # no column named loss
    capsys.readouterr()
    assert main(["check", "f.json", "big.csv", *derived, "--json"]) in (0, 1)
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    told = [verdict["run"]["loss"] for verdict in verdicts]
    assert told == pytest.approx((big["summary/val_loss"] / 8).tolist())
    for command in ("check", "report"):
        assert main([command, "f.json", "big.csv", *derived, "--curves", "c.csv"]) == 2
        assert "or give BIG's as --big-curves" in capsys.readouterr().err
    assert main(["report", "f.json", "--big-curves", "c.csv"]) == 2
    assert "--big-curves are those of BIG" in capsys.readouterr().err
