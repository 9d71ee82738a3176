"""The command line as scripts see it: exit codes, one line on stderr, JSON."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from extrap.cli import main

Table = Callable[..., pd.DataFrame]
Run = Callable[..., tuple[int, str, str]]

COLUMNS = ("--size", "width", "--tune", "lr")


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run the command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def sweep_csv(tmp_path: Path, sweep_table: Table) -> str:
    sweep_table().to_csv(tmp_path / "sweep.csv", index=False)
    return "sweep.csv"


@pytest.fixture
def big_csv(tmp_path: Path) -> str:
    loss = 1.5 + 2 * 32**-0.4
    pd.DataFrame({"width": 512, "lr": 0.0025, "seed": [0, 1], "loss": [loss, 1.3 * loss]}).to_csv(
        tmp_path / "big.csv", index=False
    )
    return "big.csv"


def refused(result: tuple[int, str, str]) -> str:
    """The one line of a refusal: exit 2, nothing on stdout."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("extrap: ")
    return err


def parse(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_forecast_prints_points_in_the_order_of_at(run: Run, sweep_csv: str) -> None:
    at = ("--at", "4096", "--at", "width=512", "--at", "1e3")
    code, out, err = run("forecast", sweep_csv, *COLUMNS, *at, "--json")
    assert (code, err) == (0, "")
    assert [p["size"]["width"] for p in parse(out)["points"]] == [4096, 512, 1000]


def test_forecast_text_names_sizes_and_doubts(run: Run, sweep_csv: str) -> None:
    code, out, err = run("forecast", sweep_csv, *COLUMNS, "--at", "4096", "--level", "0.9")
    assert (code, err) == (0, "")
    assert "120 runs, 120 complete" in out
    assert "90% prediction intervals" in out
    assert "4096" in out
    assert "far-extrapolation" in out


def test_forecast_text_says_how_far_to_trust_it(run: Run, sweep_csv: str) -> None:
    code, out, _ = run("forecast", sweep_csv, *COLUMNS, "--at", "512")
    assert code == 0
    head, row = out.splitlines()[3:5]
    assert head.split() == ["width", "loss", "lr", "recommended", "x", "fitted"]
    assert re.search(r"\[\S+, \S+\] +0\.00\d+ +2\.67$", row)
    assert "laws fitted to the loss" in out
    assert re.search(r"^lr: (no sign of a bend|the optimum's law bends)", out, re.MULTILINE)
    assert "\u00a0" not in out


def test_pins_and_band_reach_the_forecast(run: Run, sweep_csv: str) -> None:
    pins = ("--fix", "E=1.5", "--fix", "lr.b=-0.4")
    code, out, _ = run("forecast", sweep_csv, *COLUMNS, *pins)
    assert code == 0
    assert "E 1.500 pinned" in out
    assert "b −0.4000 pinned" in out
    assert "flag: pinned: E = 1.5" in out
    code, out, _ = run("forecast", sweep_csv, *COLUMNS, "--band", "family", "--json")
    assert (code, parse(out)["band"]) == (0, "family")
    assert "that of the family" in run("forecast", sweep_csv, *COLUMNS, "--band", "family")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fix", "E"), "as in E=1.6 or lr.b=-0.5; got 'E'"),
        (("--fix", "E=low"), "got 'E=low'"),
        (("--fix", "E=nan"), "got 'E=nan'"),
        (("--fix", "=1"), "got '=1'"),
        (("--fix", "E=1", "--fix", "E=2"), "--fix E was given twice"),
        (("--fix", "Q=1"), "Q"),
        (("--fix", "wd.b=1"), "needs a tuned column before the dot, got 'wd'"),
        (("--band", "wide"), "wide"),
        (("--json", "--summary"), "give one of them"),
    ],
)
def test_impossible_pins_bands_and_prints_are_one_line(
    run: Run, sweep_csv: str, options: tuple[str, ...], message: str
) -> None:
    assert message in refused(run("forecast", sweep_csv, *COLUMNS, *options))


def test_summary_prints_tables_of_coefficients(run: Run, sweep_csv: str) -> None:
    code, out, err = run("forecast", sweep_csv, *COLUMNS, "--summary", "--fix", "E=1.5")
    assert (code, err) == (0, "")
    assert "lr: optimum_power" in out
    assert re.search(r"^E +1\.5 +pinned", out, re.MULTILINE)
    assert "optima of the sweep" not in out


def test_band_and_pins_of_a_sealed_forecast_are_its_own(
    run: Run, sweep_csv: str, big_csv: str
) -> None:
    made_so = ("--band", "family", "--fix", "E=1.5", "--fix", "lr.b=-0.4")
    assert run("forecast", sweep_csv, *COLUMNS, *made_so, "--save", "f.json")[0] == 0
    assert run("check", "f.json", big_csv, *made_so)[0] == 1
    wrong = (("--band", "default"), ("--fix", "E=1.4"), ("--fix", "E=1.5"))
    for options in wrong:
        assert f"f.json has {options[0]} " in refused(run("check", "f.json", big_csv, *options))
    backtests = (("f.json",), (sweep_csv, *COLUMNS, *made_so), (sweep_csv, *COLUMNS))
    found = [parse(run("backtest", *arguments, "--json")[1]) for arguments in backtests]
    sealed, same, other = (document["summary"][-1]["interval_score"] for document in found)
    assert sealed == pytest.approx(same)
    assert other != pytest.approx(same)


def test_check_judges_by_the_band_and_the_pins_it_is_given(
    run: Run, sweep_csv: str, big_csv: str
) -> None:
    def width_of(*options: str) -> float:
        out = run("check", sweep_csv, big_csv, *COLUMNS, *options, "--json")[1]
        low, high = parse(out)["verdicts"][0]["predicted_pi"]
        return high - low

    assert width_of("--band", "family") < width_of()
    assert width_of("--fix", "E=1.5") < width_of()


def test_report_takes_several_losses(
    run: Run, sweep_table: Table, big_csv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extrap.reporting.plates.draw_svg", lambda draw, **_: "<svg></svg>")
    table = sweep_table()
    table.assign(error=table["loss"] ** 2).to_csv("two.csv", index=False)
    big = pd.read_csv(big_csv)
    big.assign(error=big["loss"] ** 2).to_csv("big2.csv", index=False)
    losses = ("--loss", "loss", "--loss", "error")
    code, out, err = run("report", "two.csv", "big2.csv", *COLUMNS, *losses, "-o", "r.html")
    assert (code, out, err) == (0, "wrote r.html\n", "")
    metrics = Path("r.html").read_text(encoding="utf-8").split('id="metrics"')[1]
    assert "<h3>error</h3>" in metrics
    assert "error at width" in metrics


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f.json", "--loss", "loss", "--loss", "error"), "several --loss need tables"),
        (("sweep.csv", "-", "--loss", "loss", "--loss", "error"), "again, got -; give one --loss"),
        (("study.py", "--band", "family"), "study.py was given --band too"),
        (("study.py", "--loss", "error"), "study.py was given --loss too"),
        (("sweep.csv", *COLUMNS, "--loss", "loss", "--loss", "error"), "error"),
    ],
)
def test_report_refuses_options_without_effect(
    run: Run, sweep_csv: str, arguments: tuple[str, ...], message: str
) -> None:
    del sweep_csv
    assert message in refused(run("report", *arguments))


def test_sweep_is_read_from_standard_input(
    run: Run, sweep_table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(sweep_table().to_csv(index=False)))
    code, out, _ = run("forecast", "-", *COLUMNS, "--json")
    assert code == 0
    assert parse(out)["runs"]["complete"] == 120


def test_check_exits_one_where_a_run_deviates(run: Run, sweep_csv: str, big_csv: str) -> None:
    code, out, _ = run("check", sweep_csv, big_csv, *COLUMNS, "--json")
    assert code == 1
    assert [v["on_law"] for v in parse(out)["verdicts"]] == [True, False]
    Path(big_csv).write_text("\n".join(Path(big_csv).read_text().splitlines()[:2]) + "\n")
    code, out, _ = run("check", sweep_csv, big_csv, *COLUMNS)
    assert code == 0
    assert "1 run(s) judged, 0 off the law" in out


def test_it_is_said_where_nothing_was_judged(
    run: Run, sweep_csv: str, big_csv: str, tmp_path: Path
) -> None:
    small = tmp_path / "small.csv"
    pd.read_csv(big_csv).assign(width=2).to_csv(small, index=False)
    code, out, err = run("check", sweep_csv, str(small), *COLUMNS)
    assert (code, err) == (0, "")  # no run deviates
    assert "NOTHING WAS JUDGED: no run deviates because none could be held" in out
    code, out, err = run("check", sweep_csv, str(small), *COLUMNS, "--json")
    assert (code, parse(out)["n_judged"]) == (0, 0)
    assert err.startswith("NOTHING WAS JUDGED")
    code, out, err = run("check", sweep_csv, big_csv, *COLUMNS, "--json")
    assert (code, err) == (1, "")
    assert "NOTHING" not in run("check", sweep_csv, big_csv, *COLUMNS)[1]


def test_sealed_forecast_replaces_the_sweep(run: Run, sweep_csv: str, big_csv: str) -> None:
    code, out, err = run("forecast", sweep_csv, *COLUMNS, "--json", "--save", "f.json")
    assert code == 0
    assert parse(out)["content_hash"] in err
    assert run("check", "f.json", big_csv)[0] == 1
    assert run("check", "f.json", big_csv, *COLUMNS, "--level", "0.95")[0] == 1
    assert run("forecast", "f.json", "--at", "512")[0] == 0


def test_backtest_says_in_one_sentence_how_far_it_was_off(run: Run, sweep_csv: str) -> None:
    code, out, err = run("backtest", sweep_csv, *COLUMNS)
    assert (code, err) == (0, "")
    assert out.split()[:2] == ["times", "fitted"]
    assert re.search(
        r"Fitted on the smallest 3 to 4 of these 5 sizes and asked for the larger ones, up to 3 "
        r"times as large, the forecast was off by [\d.]+ % \(root mean square\), the last value "
        r"by [\d.]+ %; its 90 % intervals held \d of 3\.",
        out,
    )


def test_backtest_json_keeps_its_keys(run: Run, sweep_csv: str) -> None:
    scheme = ("--scheme", "leave-one-out", "--level", "0.8")
    code, out, _ = run("backtest", sweep_csv, *COLUMNS, *scheme, "--json")
    assert code == 0
    document = parse(out)
    assert list(document) == [
        "kind",
        "schema_version",
        "level",
        "scheme",
        "data_hash",
        "n_sizes",
        "holdouts",
        "summary",
        "n_failed",
        "failures",
    ]
    assert (document["level"], document["scheme"]) == (0.8, "leave-one-out")
    assert len(document["holdouts"]) == 4


def test_backtest_of_a_sealed_forecast_is_that_of_its_sweep(run: Run, sweep_csv: str) -> None:
    run("forecast", sweep_csv, *COLUMNS, "--save", "f.json")
    sealed = parse(run("backtest", "f.json", "--level", "0.9", "--json")[1])
    plain = parse(run("backtest", sweep_csv, *COLUMNS, "--json")[1])
    assert sealed["data_hash"] == plain["data_hash"]
    assert len(sealed["holdouts"]) == len(plain["holdouts"])
    assert "has --size width, got depth" in refused(run("backtest", "f.json", "--size", "depth"))


def test_backtest_of_too_few_sizes_is_one_line_that_says_what_to_add(
    run: Run, sweep_table: Table
) -> None:
    sweep_table(widths=(16, 32, 64)).to_csv("short.csv", index=False)
    message = refused(run("backtest", "short.csv", *COLUMNS))
    assert "needs at least 4 sizes, 3 to fit and a larger one to predict, got 3" in message


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--level", "0.5", "has --level 0.95, got 0.5"),
        ("--size", "depth", "has --size width, got depth"),
        ("--tune", "batch", "has --tune lr, got batch"),
    ],
)
def test_options_that_contradict_a_seal_are_refused(
    run: Run, sweep_csv: str, option: str, value: str, message: str
) -> None:
    run("forecast", sweep_csv, *COLUMNS, "--save", "f.json")
    assert message in refused(run("forecast", "f.json", option, value))


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("8", "width=8 lies below the smallest tuned one, 16"),
        ("widht=64", "needs exactly the size column(s) width, got widht"),
        ("wide", "--at needs numbers, got 'wide'"),
        ("nan", "width must be positive and finite"),
        ("64,128", "--at names each size: width=…; got '64,128'"),
        ("width=64,width=128", "one --at is one size, width was given twice"),
        ("", "needs exactly the size column(s) width, got none"),
    ],
)
def test_impossible_targets_are_one_line(run: Run, sweep_csv: str, at: str, message: str) -> None:
    assert message in refused(run("forecast", sweep_csv, *COLUMNS, "--at", at))


@pytest.mark.parametrize("level", ["95", "0", "1", "abc", "nan", "-0.1"])
def test_impossible_levels_are_one_line(run: Run, sweep_csv: str, level: str) -> None:
    assert "level" in refused(run("forecast", sweep_csv, *COLUMNS, f"--level={level}"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="lr"), "has no column 'lr'"),
        (lambda t: t.rename(columns={"width": "wdith"}), "did you mean 'wdith'?"),
        (lambda t: t.head(0), "needs at least one row"),
        (lambda t: t.assign(lr="fast"), "lr must hold numbers, got 'fast' in row 1"),
        (lambda t: t.assign(width=0), "width must be positive and finite, got 0"),
        (lambda t: t.assign(lr=-1), "lr must be positive and finite, got -1"),
        (lambda t: t.assign(loss=-1), "losses must be positive"),
        (lambda t: t[t["width"] == 16], "at least 3 distinct sizes, got 1"),
        (lambda t: t[t["lr"] == t["lr"].min()], "at least 3 different values"),
        (lambda t: t.assign(loss="nan"), "needs runs with a loss, got none of 120"),
        (lambda t: t.assign(loss=""), "120 failed"),
    ],
)
def test_bad_sweeps_are_one_line(
    run: Run, sweep_table: Table, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    change(sweep_table()).to_csv("bad.csv", index=False)
    assert message in refused(run("forecast", "bad.csv", *COLUMNS, "--json"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"\xff\xfe\x00\x01" * 99),
        ("a.csv", b"<!DOCTYPE html>\n<html><body>\n<p>404, not found</p>\n</body></html>\n"),
        ("a.parquet", b"no parquet"),
        ("a.jsonl", b"[1, 2]\n"),
        ("a.json", b"{}"),
    ],
)
def test_files_that_are_no_tables_are_one_line(run: Run, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    assert name in refused(run("forecast", name, *COLUMNS))


@pytest.mark.parametrize(
    "arguments",
    [
        ("forecast",),
        ("forecast", "sweep.csv"),
        ("forecast", ".", *COLUMNS),
        ("forecast", "absent.csv", *COLUMNS),
        ("forecast", "sweep.csv", *COLUMNS, "--tune", "width"),
        ("forecast", "sweep.csv", *COLUMNS, "--condition", "loss"),
        ("forecast", "sweep.csv", *COLUMNS, "--condition", "optimiser"),
        ("forecast", "sweep.csv", *COLUMNS, "--sizes", "width"),
        ("forecast", "sweep.csv", *COLUMNS, "--save", "sweep.csv/f.json"),
        ("forcast", "sweep.csv"),
        ("check", "sweep.csv", "absent.csv", *COLUMNS),
        ("check", "absent.json", "sweep.csv"),
        ("backtest", "absent.csv", *COLUMNS),
        ("backtest", "sweep.csv"),
        ("backtest", "sweep.csv", *COLUMNS, "--scheme", "random"),
        ("backtest", "sweep.csv", *COLUMNS, "--level", "90"),
        ("report", "absent.py"),
        ("study", "run", "absent.py"),
    ],
)
def test_bad_usage_is_exit_two_and_one_line(
    run: Run, sweep_csv: str, arguments: tuple[str, ...]
) -> None:
    del sweep_csv
    code, _, err = run(*arguments)
    assert code == 2
    assert len(err.splitlines()) == 1


def test_unexpected_error_is_one_line_and_a_traceback_only_with_debug(
    run: Run, sweep_csv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("extrap.forecasting.estimate_noise", broken)
    code, _, err = run("forecast", sweep_csv, *COLUMNS)
    assert (code, err) == (3, "extrap: unexpected ZeroDivisionError: boom\n")
    code, _, err = run("--debug", "forecast", sweep_csv, *COLUMNS)
    assert code == 3
    assert "Traceback" in err


def test_interrupt_is_exit_130(run: Run, sweep_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("extrap.forecasting.estimate_noise", interrupted)
    assert run("forecast", sweep_csv, *COLUMNS)[0] == 130


def test_help_and_version_are_fine(run: Run) -> None:
    assert run("--version")[0] == 0
    code, out, _ = run("forecast", "--help")
    assert code == 0
    for option in ("--size", "--tune", "--loss", "--seed", "--condition", "--study", "--level"):
        assert option in out


def test_installed_command_prints_no_warning(sweep_csv: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "always",
        "-m",
        "extrap",
        "forecast",
        sweep_csv,
        *COLUMNS,
        "--json",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert parse(done.stdout)["points"]


def test_module_run_as_a_script_has_the_exit_code_of_the_command() -> None:
    command = [sys.executable, "-m", "extrap", "forecast", "absent.csv", *COLUMNS]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 2


def test_reader_of_the_output_may_leave_early(sweep_csv: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "extrap", "forecast", sweep_csv, *COLUMNS, "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_missing_training_library_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [n for n in sys.modules if n.startswith(("extrap.tuning", "extrap.pipeline"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "extrap.reading.optuna", raising=False)
    assert main(["study", "run", "studies/metz.py", "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert "this needs optuna" in err
    assert "; run pip install 'optuna" in err


KNOB_STUDY = """
from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import KnobStudy
STUDY = StudySpec(
    name="tiny", question="Which?",
    workload=Workload(name="bytes-mlp", options={"corpus": "CORPUS", "corpus_bytes": 60000,
        "validation_bytes": 4000, "n_validation": 512, "context": 4, "embedding": 4}),
    sizes={"width": (4, 8, 16)}, tune={"lr": TunedRange(low=2**-8, high=2**-2, n=4)},
    recipe=Recipe(steps=100, batch_size=16, n_evals=2), seeds=(0, 1))
KNOBS = KnobStudy(name="tiny", study=STUDY, knobs=("warmup", "precision"))
"""


def knob_table() -> pd.DataFrame:
    """A warm-up whose best value grows as width^.5, and a knob that does nothing."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(4):
        for width in (16, 64, 256):
            for name, u in (("", 0), ("warmup", -1), ("warmup", 1), ("clip", -1), ("clip", 1)):
                off = (u if name == "warmup" else 0) - 0.5 * math.log2(width / 64)
                row = {"width": width, "seed": seed, "warmup": 0.1, "clip": 1.0}
                loss = math.exp(1 + 0.03 * off**2 + 0.001 * rng.normal())
                rows.append({**row, **({name: row[name] * 2.0**u} if name else {}), "loss": loss})
    return pd.DataFrame(rows)


def test_knobs_of_a_table_are_ranked(run: Run) -> None:
    knob_table().to_csv("moved.csv", index=False)
    options = ("--size", "width", "--knob", "warmup", "--knob", "clip=1", "--at", "1024")
    code, out, err = run("knobs", "moved.csv", *options, "-o", "k.html", "--json")
    document = parse(out)
    assert (code, err) == (0, "report    k.html\n")
    assert document["target"] == {"width": 1024.0}
    assert [knob["name"] for knob in document["knobs"]] == ["warmup", "clip"]
    low, high = document["knobs"][0]["drift"]["ci"]
    assert low < 0.5 < high
    assert "warmup breaks next" in Path("k.html").read_text(encoding="utf-8")
    code, out, err = run("knobs", "moved.csv", *options)
    assert (code, err) == (0, "")
    assert "scale it as width^0." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("moved.csv", "--size", "width"), "a table needs its size column and the knobs"),
        (("moved.csv", "--knob", "warmup"), "a table needs its size column and the knobs"),
        (("moved.csv", "--size", "width", "--knob", "=3"), "--knob is NAME or NAME=VALUE"),
        (("moved.csv", "--size", "width", "--knob", "warmup="), "--knob is NAME or NAME=VALUE"),
        (("moved.csv", "--size", "width", "--knob", "beta"), "need the column(s) ['beta']"),
        (("moved.csv", "--storage", "sqlite:///x.db"), "--storage is that of a study file"),
        (("study.py", "--size", "width"), "study.py was given --size too"),
        (("study.py", "--seed", "s"), "study.py was given --seed too"),
    ],
)
def test_knobs_refuses_what_does_not_go_together(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    knob_table().to_csv("moved.csv", index=False)
    assert message in refused(run("knobs", *arguments))


def test_study_with_knobs_runs_plans_and_reports_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extrap.reporting.knobs.draw_svg", lambda draw, **_: "<svg></svg>")
    Path("corpus").mkdir()
    letters = np.random.default_rng(0).choice(list(b"abcdef \n"), size=80_000)
    Path("corpus", "a.txt").write_bytes(bytes(letters.tolist()))
    Path("tiny.py").write_text(KNOB_STUDY.replace("CORPUS", str(Path("corpus").absolute())))
    code, out, _ = run("study", "run", "tiny.py", "--dry-run", "--set", "recipe.warmup=0.2")
    assert code == 0
    assert "warmup: 0.2 moved to 0.1 and 0.4" in out
    code, out, _ = run("study", "run", "tiny.py", "--quiet")
    assert code == 0
    assert "report    reports/tiny.html" in out
    code, again, _ = run("knobs", "tiny.py", "--at", "width=64", "--quiet", "--json")
    assert code == 0
    assert parse(again)["target"] == {"width": 64.0}
    code, told, _ = run("report", "tiny.py", "-o", "again.html")
    assert (code, told) == (0, "wrote again.html\n")
    assert "Which fixed value" in Path("again.html").read_text(encoding="utf-8")
