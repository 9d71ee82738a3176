"""From a table to a forecast without naming a column, as a user at a terminal goes."""

import json
import shlex
from pathlib import Path
from threading import Event

import pandas as pd
import pytest

from extrap.commands import printing

from ..reading.messy import isoflop, sweep, two, wandb_export


def commands(err):
    """What an error offers to paste."""
    return [shlex.split(line, comments=True) for line in err.splitlines()[1:]]


def points(out):
    return json.loads(out)["points"]


def test_a_messy_export_with_two_warm_ups_takes_two_commands(called):
    halves = [wandb_export(sweep()), wandb_export(sweep(excess=0.05), warmup=500)]
    pd.concat(halves).to_csv("export.csv", index=False)
    halves[0].to_csv("first.csv", index=False)
    code, out, err = called("forecast", "export.csv", "--at", "1024", "--json")
    assert (code, out) == (2, "")
    offered = commands(err)
    assert offered[0] == [
        *("extrap", "forecast", "export.csv", "--at", "1024", "--json"),
        *("--where", "warmup_steps=100"),
    ]
    code, out, err = called(*offered[0][1:])
    assert code == 0
    assert err.startswith("Using size = d_model (config.model.d_model), tune = lr (config.opt")
    named = ("--size", "d_model", "--tune", "lr", "--loss", "val_loss")
    code, expected, err = called("forecast", "first.csv", "--at", "1024", "--json", *named)
    assert (code, err) == (0, "")
    assert points(out) == points(expected)
    assert list(points(out)[0]["size"]) == ["d_model"]
    assert called(*offered[1][1:])[0] == 0
    pooled = called("forecast", "export.csv", "--ignore", "warmup_steps", "--json")
    assert json.loads(pooled[1])["runs"]["runs"] == 2 * len(halves[0])
    assert "recipes-pooled: warmup_steps" in pooled[1]
    single = called("forecast", "first.csv", "--ignore", "warmup_steps", "--json")
    assert "recipes-pooled" not in single[1]


COMMANDS = [
    ("backtest", "s.csv"),
    ("check", "s.csv", "big.csv"),
    ("cost", "s.csv", "--at", "2x", "--gpu-hours", "1"),
    ("plan", "s.csv", "--at", "2x", "--cost", "width**2"),
    ("report", "s.csv", "big.csv", "-o", "r.html"),
    ("compare", "s.csv", "other.csv", "--at", "2x"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=[words[0] for words in COMMANDS])
def test_every_command_on_a_sweep_infers_its_columns(called, words):
    sweep().to_csv("s.csv", index=False)
    sweep(excess=0.05).to_csv("other.csv", index=False)
    sweep().query("width == 512 and lr < 0.01").assign(width=1024).to_csv("big.csv", index=False)
    code, _, err = called(*words)
    assert code in (0, 1)
    assert err.startswith("Using size = width, tune = lr, loss = loss, seed = seed\n")


def test_larger_runs_are_read_by_the_loss_that_was_found_in_the_sweep(called):
    table = sweep().rename(columns={"loss": "val_loss"})
    table.to_csv("s.csv", index=False)
    big = table.tail(3).assign(width=1024, loss=99.0)
    big.to_csv("big.csv", index=False)
    assert called("forecast", "s.csv", "--save", "f.json")[0] == 0
    for source in ("s.csv", "f.json"):
        verdicts = json.loads(called("check", source, "big.csv", "--json")[1])["verdicts"]
        assert [v["run"]["loss"] for v in verdicts] == pytest.approx(big["val_loss"].tolist())
    big.drop(columns="val_loss").to_csv("big.csv", index=False)
    assert called("check", "f.json", "big.csv")[0] == 2


@pytest.mark.parametrize("name", [None, "val_loss", "summary.val_loss"])
def test_a_sealed_forecast_finds_its_columns_behind_the_prefixes_of_larger_runs(called, name):
    table = wandb_export(sweep())
    table.to_csv("s.csv", index=False)
    big = table.tail(2).assign(**{"config.model.d_model": 1024})
    named = ("--loss", name, "--size", "config.model.d_model", "--tune", "lr") if name else ()
    assert called("forecast", "s.csv", *named, "--save", "f.json")[0] == 0
    for mended in (big, big.rename(columns=lambda c: c.removeprefix("summary."))):
        mended.to_csv("big.csv", index=False)
        verdicts = json.loads(called("check", "f.json", "big.csv", "--json")[1])["verdicts"]
        losses = [verdict["run"]["loss"] for verdict in verdicts]
        assert losses == pytest.approx(big["summary.val_loss"].tolist())


def test_recipes_are_compared_by_the_loss_that_was_found_in_the_first(called):
    sweep().rename(columns={"loss": "eval_loss"}).to_csv("a.csv", index=False)
    other = sweep(excess=0.05).rename(columns={"loss": "eval_loss"})
    other.assign(val_loss=sweep()["loss"]).to_csv("b.csv", index=False)
    words = ("compare", "a.csv", "b.csv", "--at", "2x")
    assert called(*words)[1] == called(*words, "--loss", "eval_loss")[1]


def test_larger_runs_with_another_value_of_a_setting_that_was_chosen_have_another_recipe(called):
    two("config.dataset", ("c4", "pile")).assign(group="small").to_csv("s.csv", index=False)
    chosen = ("--where", "dataset=c4", "--where", "group=small")
    assert called("forecast", "s.csv", *chosen, "--save", "f.json")[0] == 0
    big = sweep().query("width == 512 and lr < 0.003").assign(width=1024, group="large")
    for values, cause in ((["c4", "pile", "c4"], [False, True, False]), (None, [False] * 3)):
        table = big if values is None else big.assign(**{"config.dataset": values})
        table.to_csv("big.csv", index=False)
        code, out, _ = called("check", "f.json", "big.csv", "--json")
        verdicts = json.loads(out)["verdicts"]
        assert [verdict["cause"] == "recipe" for verdict in verdicts] == cause, code


def test_rows_and_names_are_chosen_and_a_sealed_forecast_refuses_to(called):
    table = two("config.arm", ("a", "b")).rename(columns={"lr": "my rate"})
    table.to_csv("s.csv", index=False)
    words = ("--where", "arm=b", "--where", "width=64", "--where", "width=128")
    words += ("--where", "width=256", "--rename", "my rate=lr")
    code, out, _ = called("forecast", "s.csv", *words, "--json", "--save", "f.json")
    assert code == 0
    assert json.loads(out)["runs"]["runs"] == len(table) * 3 / 8
    assert list(points(out)[0]["tuned"]) == ["lr"]
    for option in ("--where", "--rename"):
        assert option in called("forecast", "f.json", option, "a=b")[2]
        assert called("forecast", "s.csv", option, "a")[0] == 2
    code, _, err = called("forecast", "s.csv", "--where", "arm=c")
    assert (code, "'a' (72 rows)" in err) == (2, True)


def test_sizes_are_multiples_of_the_largest_one(called):
    sweep().to_csv("s.csv", index=False)
    isoflop().to_csv("nd.csv", index=False)
    code, out, _ = called("forecast", "s.csv", "--at", "8x", "--at", "width=1.5x", "--json")
    assert (code, [p["size"]["width"] for p in points(out)]) == (0, [4096.0, 768.0])
    for text in ("4x", "n_params=4x,n_tokens=4e11"):
        size = points(called("forecast", "nd.csv", "--at", text, "--json")[1])[0]["size"]
        assert size == pytest.approx({"n_params": 4e9, "n_tokens": 4e11})
    path = ("--path", "width = 64 * depth", "--json", "--at")
    sizes = [points(called("forecast", "s.csv", *path, at)[1])[0]["size"] for at in ("16", "2x")]
    assert sizes == [{"width": 1024.0}] * 2
    assert called("forecast", "s.csv", *path, "depth=2x")[0] == 2
    assert called("forecast", "s.csv", "--at", "x")[0] == 2


def test_errors_name_options_and_hide_passwords(called):
    sweep().rename(columns={"lr": "learning_rate"}).to_csv("s.csv", index=False)
    err = called("forecast", "s.csv", "--size", "width", "--tune", "lr")[2]
    assert "--tune learning_rate" in err
    two("warmup", (1, 2)).to_csv("s.csv", index=False)
    words = ("forecast", "-", "--study", "mysql://me:secret@host/db")
    code, _, err = called(*words, stdin=Path("s.csv").read_text())
    assert (code, len(commands(err))) == (2, 3)
    assert "secret" not in err


@pytest.mark.parametrize("retries_s", [0.0, 600.0])
def test_long_work_is_announced_and_short_work_is_not(monkeypatch, retries_s):
    said = Event()
    monkeypatch.setattr(printing, "REPORT_AFTER_S", retries_s)
    monkeypatch.setattr(printing, "say", lambda text, err: said.set())
    with printing.reports_progress("reading runs.csv"):
        assert retries_s or said.wait(60)
    assert said.is_set() == (retries_s == 0)
