"""The command line as scripts see it: exit codes, one line on stderr, JSON."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from extrap.cli import main

COLUMNS = ("--size", "width", "--tune", "lr")
SWEEP = str(Path(__file__).parents[1] / "examples" / "sweep.csv")
SAVED = ("forecast", "sweep.csv", *COLUMNS)
MADE_SO = ("--band", "family", "--fix", "E=1.5", "--fix", "lr.b=-0.4")


@pytest.fixture(scope="module")
def place(tmp_path_factory, sweep_table):
    """A folder with a sweep, two larger runs, and two sealed forecasts of the sweep."""
    folder = tmp_path_factory.mktemp("cli")
    sweep_table().to_csv(folder / "sweep.csv", index=False)
    loss = 1.5 + 2 * 32**-0.4
    big = pd.DataFrame({"width": 512, "lr": 0.0025, "seed": [0, 1], "loss": [loss, 1.3 * loss]})
    big.to_csv(folder / "big.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*SAVED, "--save", "f.json"]) == 0
        assert main([*SAVED, *MADE_SO, "--save", "family.json"]) == 0
    return folder


@pytest.fixture
def run(place, tmp_path, capsys, monkeypatch):
    """Run the command line in a copy of the folder."""
    folder = shutil.copytree(place, tmp_path / "cli")
    monkeypatch.chdir(folder)

    def run(*arguments):
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def refused(result):
    """The one line of a refusal: exit 2, nothing on stdout."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("extrap: ")
    return err


def numbers(found):
    """All numbers of a document."""
    if isinstance(found, dict | list):
        parts = found.values() if isinstance(found, dict) else found
        return [number for part in parts for number in numbers(part)]
    return [found] if isinstance(found, int | float) and not isinstance(found, bool) else []


def test_refused_forecast_prints_no_number(run, sweep_table):
    sweep_table(widths=(16.0, 32.0, 64.0), seeds=1, noise=0.1, seed=5).to_csv(
        "noisy.csv", index=False
    )
    asked = ("noisy.csv", *COLUMNS, "--at", "1024")
    code, out, _ = run("forecast", *asked, "--json")
    (point,) = parse(out)["points"]
    assert code == 0
    assert numbers(point) == [1024, 16]  # the size, and how far it is
    flags = [flag.partition(":")[0] for flag in point["flags"]]
    assert {"refused-loss", "refused-lr"} <= {*flags}
    code, out, _ = run("forecast", *asked)
    (row,) = [line for line in out.splitlines() if line.split()[:1] == ["1024"]]
    assert code == 0
    assert row.split()[1:4] == ["16×", "unknown", "unknown"]
    assert "refused" in refused(run("cost", *asked))
    assert run("plan", *asked, "--cost", "width**2")[0] == 0
    pd.DataFrame({"width": [1024], "lr": 0.001, "loss": 1.0}).to_csv("large.csv", index=False)
    code, out, _ = run("check", "noisy.csv", "large.csv", *COLUMNS, "--json")
    assert (code, parse(out)["n_judged"]) == (0, 0)
    assert run("report", "noisy.csv", "large.csv", *COLUMNS, "--output", "page.html")[0] == 0


def parse(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_pins_and_band_reach_a_check(run):
    def width_of(*options):
        out = run("check", "sweep.csv", "big.csv", *COLUMNS, *options, "--json")[1]
        low, high = parse(out)["verdicts"][0]["predicted_pi"]
        return high - low

    assert max(width_of("--band", "family"), width_of("--fix", "E=1.5")) < width_of()


def test_a_sealed_forecast_stands_for_its_sweep_band_and_pins(run):
    code, out, err = run("forecast", "sweep.csv", *COLUMNS, "--json", "--save", "again.json")
    assert code == 0
    assert parse(out)["content_hash"][:12] in err
    shown = err.split()[-1]
    assert f"content hash {shown}" in run("check", "again.json", "big.csv")[1]
    assert run("check", "f.json", "big.csv")[0] == 1
    assert run("forecast", "f.json", "--at", "512")[0] == 0
    for options in (("--band", "family"), ("--fix", "E=1.5"), COLUMNS[:2]):
        assert options[0] in refused(run("check", "family.json", "big.csv", *options))
    given = (("family.json",), ("sweep.csv", *COLUMNS, *MADE_SO), ("sweep.csv", *COLUMNS))
    found = [parse(run("backtest", *arguments, "--json")[1]) for arguments in given]
    sealed, same, other = (document["summary"][-1]["rms_error"] for document in found)
    assert sealed == pytest.approx(same)
    assert other != pytest.approx(same)
    document = parse(run("backtest", "f.json", "--level", "0.8", "--json")[1])
    assert document["level"] == 0.8
    assert document["data_hash"] == found[2]["data_hash"]


def test_check_refuses_swapped_arguments_and_says_that_runs_are_no_test(run):
    told = refused(run("check", "big.csv", "f.json"))
    assert "write f.json big.csv" in told
    own = run("check", "f.json", "sweep.csv")[1]
    assert own.startswith("The forecast was fitted")
    assert "fitted to all" not in run("check", "f.json", "big.csv")[1]


def test_report_takes_several_losses_and_a_sweep_from_standard_input(run, monkeypatch):
    for name in ("sweep", "big"):
        table = pd.read_csv(f"{name}.csv")
        table.assign(error=table["loss"] ** 2).to_csv(f"{name}2.csv", index=False)
    losses = ("--loss", "loss", "--loss", "error")
    code, out, err = run("report", "sweep2.csv", "big2.csv", *COLUMNS, *losses, "-o", "r.html")
    assert (code, out.splitlines()[-1], err) == (0, "wrote r.html", "")
    assert ">Metric error<" in Path("r.html").read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(Path("sweep.csv").read_text()))
    code, out, _ = run("forecast", "-", *COLUMNS, "--json")
    assert (code, parse(out)["runs"]["complete"]) == (0, 120)


def test_check_exits_one_where_a_run_deviates_and_says_where_none_is_decided(run):
    code, out, err = run("check", "f.json", "big.csv", "--json")
    assert (code, err) == (1, "")
    assert [v["on_law"] for v in parse(out)["verdicts"]] == [True, False]
    big = pd.read_csv("big.csv")
    big.head(1).to_csv("one.csv", index=False)
    assert run("check", "f.json", "one.csv")[0] == 0
    big.assign(width=2).to_csv("small.csv", index=False)
    code, out, err = run("check", "f.json", "small.csv", "--json")
    assert (code, parse(out)["n_judged"], err[:11]) == (0, 0, "UNDECIDED: ")


def forecast(*options):
    return ("forecast", "sweep.csv", *COLUMNS, *options)


def test_debug_shows_the_traceback_of_an_error_of_ours(run, monkeypatch):
    monkeypatch.setattr("extrap.forecasting.sweep_laws.fit_sweep", lambda *_, **__: 1 / 0)
    code, _, err = run("--debug", *forecast())
    assert (code, "Traceback" in err) == (3, True)


def test_the_module_runs_as_a_script_without_warnings_and_bears_a_closed_pipe(place):
    def but_progress(err):
        """What takes long, as on a busy machine, is said with an ellipsis at its end."""
        return [line for line in err.decode().splitlines() if not line.endswith("…")]

    def started(*arguments):
        command = [sys.executable, "-W", "always", "-m", "extrap", *arguments]
        return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    with started("forecast", "absent.csv", *COLUMNS) as process:
        process.communicate()
        assert process.returncode == 2
    with started(*forecast("--json")) as process:
        out, err = process.communicate()
        assert (process.returncode, but_progress(err)) == (0, [])
        assert parse(out.decode())["points"]
    with started(*forecast("--json")) as process:  # its reader leaves early
        process.stdout.close()
        assert but_progress(process.stderr.read()) == []
        assert process.wait() == 0


def test_a_table_is_forecast_and_what_is_neither_file_nor_command_is_named(capsys):
    assert main([SWEEP, "--at", "1024"]) == 0
    alone = capsys.readouterr().out
    assert main(["forecast", SWEEP, "--at", "1024"]) == 0
    assert capsys.readouterr().out == alone
    assert main(["nowhere.csv"]) == 2
    assert "'nowhere.csv'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "given", "near", "help_of"),
    [
        (["forcast", SWEEP], "'forcast'", "'forecast'", "extrap"),
        (["status", "mine.py"], "'status'", "'study status'", "extrap"),
        (["study", "staus", "mine.py"], "'staus'", "'status'", "extrap study"),
        (["study", "run", "--dryrun", "mine.py"], "--dryrun", "'--dry-run'", "extrap study run"),
        (["forecast", SWEEP, "--thinned"], "--thinned", "'--tune'", "extrap forecast"),
        (["--versoin"], "--versoin", "'--version'", "extrap"),
    ],
)
def test_a_mistyped_command_or_option_gets_the_nearest_one(words, given, near, help_of, capsys):
    assert main(words) == 2
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert f"called {given}; did you mean {near}? {help_of} --help lists" in said
