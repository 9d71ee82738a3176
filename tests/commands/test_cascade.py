"""`extrap cascade` as scripts see it."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from extrap.cli import main


def csv(n: int = 400) -> str:
    rng = np.random.default_rng(0)
    lines = ["confidence_small,correct_small,correct_large"]
    for chance in rng.uniform(0.5, 1, n):
        lines.append(f"{chance:.6f},{int(rng.random() < chance)},{int(rng.random() < 0.9)}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def run(capsys, tmp_path):
    def run(*options, text=None):
        path = tmp_path / "saved.csv"
        path.write_text(csv() if text is None else text)
        code = main(["cascade", str(path), "--cost-large", "20", *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_prints_the_threshold_what_it_saves_and_the_curve(run):
    code, out, err = run("--quality", "0.88")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("cascade: the small model answers where its confidence is 0.")
    assert lines[1].startswith("chosen on 200 inputs for a share correct of 0.88, judged on 200")
    assert "the small model answers " in out
    assert [line for line in lines if line.startswith("chosen ")]
    assert len([line for line in lines if line.count(" to ") == 3]) >= 10


def test_json_is_the_document(run):
    code, out, _ = run("--json", "--level", "0.9", "--seed", "3")
    document = json.loads(out)
    assert code == 0
    assert document["kind"] == "extrap-cascade"
    assert (document["level"], document["seed"]) == (0.9, 3)
    low, high = document["cost"]["ci"]
    assert low < document["cost"]["value"] < high
    assert document["costs"] == {"small": 1.0, "large": 20.0, "filter": 0.0}


def test_reads_the_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(csv()))
    assert main(["cascade", "-", "--cost-large", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_judged"] == 200


def test_says_when_no_threshold_reaches_the_quality(run):
    code, out, _ = run("--quality", "0.999")
    assert code == 0
    assert out.startswith("cascade: no confidence is high enough for the small model to answer")
    assert "beware: no threshold reached 0.999" in out


def test_says_what_a_rule_answers_and_speaks_of_losses(run):
    header, *rows = csv().splitlines()
    marked = [f"{row},{int(i % 4 == 0)},0" for i, row in enumerate(rows)]
    text = "\n".join([f"{header},filtered,correct_filter", *marked]) + "\n"
    code, out, _ = run(text=text.replace("correct_", "loss_"))
    assert code == 0
    assert "the rule answers " in out
    assert "for a mean loss of " in out


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        (("--cost-small", "0"), None, "cost_small must be positive"),
        (("--quality", "90"), None, "write 0.9 for 90 % correct"),
        ((), csv(10), "the table has 10 that no rule answers"),
        ((), "width,loss\n8,2.5\n", "no column 'confidence_small'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, options, text, message):
    code, out, err = run(*options, text=text)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
