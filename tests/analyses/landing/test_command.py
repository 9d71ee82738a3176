"""`extrap land`: exit codes, JSON, the seal that `extrap check` judges."""

import json

import pandas as pd
import pytest

from tests.landings import TOTAL, run_log

PLAN = ("--total-steps", str(TOTAL), "--schedule", "cosine")


@pytest.fixture
def logs(tmp_path):
    """`half.csv`, `whole.csv` and some that tell nothing, where commands run."""
    whole = run_log()
    half = whole.iloc[:100]
    written = {
        "whole": whole,
        "half": half,
        "worse": pd.concat([half, whole.iloc[100:].assign(loss=4.0)]),
        "early": run_log(until=0.03, every=10),
        "without": half.drop(columns="lr"),
        "words": half.assign(loss="text"),
    }
    for name, table in written.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")


def test_json_has_the_landing(called, logs):
    code, out, _ = called("land", "half.csv", *PLAN, "--json")
    document = json.loads(out)
    assert code == 0
    lower, upper = document["interval"]
    assert lower < document["loss"] < upper < document["present"]
    assert (document["step"], document["total_steps"], document["refusal"]) == (5000, TOTAL, "")


def test_a_refusal_has_an_exit_code_of_its_own(called, logs):
    code, out, _ = called("land", "early.csv", *PLAN, "--json")
    document = json.loads(out)
    assert (code, document["loss"]) == (4, None)
    assert document["refusal"]


@pytest.mark.parametrize(("log", "expected"), [("whole", 0), ("worse", 1), ("half", 0)])
def test_check_judges_a_sealed_landing(called, logs, log, expected):
    assert called("land", "half.csv", *PLAN, "--save", "landing.json")[0] == 0
    code, out, _ = called("check", "landing.json", f"{log}.csv", "--json")
    document = json.loads(out)
    assert code == expected
    assert document["is_finished"] == (log != "half")
    assert document["is_inside"] == (log == "whole")


def test_check_refuses_another_log(called, logs):
    called("land", "half.csv", *PLAN, "--save", "landing.json")
    run_log(seed=9).to_csv("other.csv", index=False)
    assert called("check", "landing.json", "other.csv")[0] == 2


def test_an_option_for_sweeps_is_refused_for_a_landing(called, logs):
    called("land", "half.csv", *PLAN, "--save", "landing.json")
    code, _, error = called("check", "landing.json", "whole.csv", "--tolerance", "0.1")
    assert code == 2
    assert "--tolerance has no effect on landing.json, a sealed landing" in error


@pytest.mark.parametrize("place", range(4))
def test_each_plan_that_is_offered_works_as_pasted(called, logs, place):
    code, _, error = called("land", "without.csv", "--total-steps", str(TOTAL))
    assert code == 2
    offered = [line.split() for line in error.splitlines() if "extrap land" in line]
    assert len(offered) == 4
    assert called(*offered[place][1:])[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("empty.csv", *PLAN),
        ("missing.csv", *PLAN),
        (".", *PLAN),
        ("words.csv", *PLAN),
        ("half.csv",),
        ("half.csv", *PLAN, "--loss", "nope"),
        ("half.csv", *PLAN, "--maximise", "loss"),
        ("half.csv", *PLAN, "--like", "half.csv"),
        ("half.csv", *PLAN, "--like", "empty.csv"),
        ("half.csv", *PLAN, "--level", "1.5"),
        ("half.csv", *PLAN, "--final", "2"),
        ("half.csv", *PLAN, "--cooldown-now", "1"),
        ("half.csv", *PLAN, "--study", "study.py"),
        ("half.csv", *PLAN, "--rates", "whole.csv"),
        ("half.csv", "--total-steps", "1e300", "--schedule", "cosine"),
        ("without.csv", "--total-steps", "1e4", "--schedule", "wsd", "--decay", "-1"),
    ],
)
def test_bad_input_is_one_line(called, logs, words):
    code, out, error = called("land", *words)
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert not any(word in error for word in ("Traceback", "unexpected"))
