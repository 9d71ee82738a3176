"""Options that say how runs are read, as a user gives them."""

import json

import pytest

from benchmarks.sweeps import make_table
from extrap.cli import cli, main


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A small sweep in a table, `sweep.csv`, with columns as a tracker names them."""
    monkeypatch.chdir(tmp_path)
    rates = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064)
    table = make_table(widths=(16, 32, 64, 128), rates=rates, seeds=2).add_prefix("config/")
    table = table.rename(columns={"config/loss": "summary/val_loss"}).round(6)
    table["summary/val_acc"] = (1 - table["summary/val_loss"] / 8).round(9)
    table.to_csv("sweep.csv", index=False)
    return table


NAMES = ("--size", "width", "--tune", "lr")


def losses(*arguments, capsys):
    assert main(["forecast", "sweep.csv", *arguments, "--at", "256", "--json"]) == 0
    return [point["loss"] for point in json.loads(capsys.readouterr().out)["points"]]


@pytest.mark.usefixtures("sweep")
def test_names_behind_prefixes_are_forecast_and_an_accuracy_only_on_demand(capsys):
    (plain,) = losses(*NAMES, "--loss", "val_loss", capsys=capsys)
    accuracy = (*NAMES, "--maximise", "val_acc")
    assert losses(*accuracy, capsys=capsys) == [None]
    (turned,) = losses(*accuracy, "--loss-kind", "error", capsys=capsys)
    (derived,) = losses(*NAMES, "--let", "e = val_loss / 8", "--loss", "e", capsys=capsys)
    assert turned == pytest.approx(plain / 8, rel=1e-4)
    assert derived == pytest.approx(plain / 8, rel=1e-4)


@pytest.mark.usefixtures("sweep")
def test_tune_none_is_the_loss_law_alone(capsys):
    arguments = ["forecast", "sweep.csv", "--size", "width", "--loss", "val_loss", "--json"]
    assert main([*arguments, "--tune", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["points"][0]["tuned"] == {}
    assert main([*arguments, "--tune", "none", "--tune", "lr"]) == 2
    assert "--tune none" in capsys.readouterr().err


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--final", "first"), "last, best, tail"),
        (("--final", "best", "--loss", "val_loss"), "give --curves"),
        (("--let", "width"), "name = formula"),
        (("--maximise", "acc"), "'val_acc'?"),
        (("--maximise", "val_loss"), "say what its loss is"),
    ],
)
def test_impossible_options_are_one_message(options, message, capsys):
    assert main(["forecast", "sweep.csv", *NAMES, *options]) == 2
    first, *proposed = capsys.readouterr().err.splitlines()
    assert message in first
    assert all(line.startswith("  extrap ") for line in proposed)


KINDS = {"json": "sealed", "csv": "table", "py": "study"}
VALUES = {"COLUMN=VALUE": "a=1", "OLD=NEW": "a=b", "NAME=NUMBER": "a=1", "NAME=FORMULA": "a = b"}


@pytest.mark.parametrize(
    ("line", "n_options"),
    [
        ("forecast f.json", 20),
        ("plan f.json --at 256 --budget 1e9", 20),
        ("cost f.json --at 256", 20),
        ("backtest f.json", 18),
        ("report f.json", 22),
        ("report s.py", 24),
        ("report s.csv", 2),
    ],
)
def test_options_without_effect_on_the_source_are_refused(line, n_options, capsys):
    name, source, *_ = line.split()
    kind = KINDS[source.partition(".")[2]]
    options = [option for option in cli.commands[name].params if getattr(option, "sources", None)]
    useless = [option for option in options if kind not in option.sources]
    assert len(useless) == n_options
    for option in useless:
        value = getattr(option.type, "choices", [VALUES.get(option.metavar, "1")])[0]
        given = [option.flag] if option.is_flag else [option.flag, value]
        assert main([*line.split(), *given]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"extrap: {option.flag} has no effect")
        assert source in error
        assert error.count("\n") == 1


@pytest.mark.usefixtures("sweep")
def test_larger_runs_are_read_by_these_options_beside_a_sealed_forecast(sweep, capsys):
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
    assert main(["check", "f.json", "big.csv", *derived, "--curves", "c.csv"]) == 2
    assert "--curves has no effect" in capsys.readouterr().err
