"""`extrap critical-batch` as scripts see it."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from extrap.cli import main

BATCHES = 2.0 ** np.arange(4, 13)


def csv(*, sizes=(1e6, 4e6, 16e6), noise: float = 0.02) -> str:
    """B_crit = 200 √(params / 1e6), S_min = 500."""
    rng = np.random.default_rng(0)
    lines = ["params,batch_size,steps"]
    for size in sizes:
        for batch in BATCHES:
            steps = 500 * (1 + 200 * (size / 1e6) ** 0.5 / batch) * np.exp(noise * rng.normal())
            lines.append(f"{size:g},{batch:g},{steps:.6g}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def run(capsys, tmp_path):
    def run(*options, text=None):
        path = tmp_path / "steps.csv"
        path.write_text(csv() if text is None else text)
        code = main(["critical-batch", str(path), *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_prints_groups_regimes_laws_and_forecasts(run):
    code, out, err = run("--by", "params", "--from", "16", "--at", "6.4e7")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert (
        lines[0]
        == "steps to the target = S_min (1 + B_crit / batch_size); 95% intervals; sd of ln S"
    )
    assert "+20% at" in lines[2]
    assert [line.split()[0] for line in lines[3:6]] == ["1M", "4M", "16M"]
    assert "perfect scaling up to; maximal data parallelism from" in out
    assert "batch at the overhead: " in out
    assert "of params" in out
    assert [line for line in lines if line.startswith("   64M")]
    assert "laws over groups" in out


def test_json_is_the_document(run):
    code, out, _ = run("--by", "params", "--json", "--at", "params=6.4e7")
    document = json.loads(out)
    assert code == 0
    assert document["kind"] == "extrap-critical-batches"
    first = document["groups"][0]
    assert first["by"] == {"params": 1e6}
    assert first["ci"][0] < 200 < first["ci"][1]
    assert first["b_crit"] == pytest.approx(200, rel=0.1)
    assert document["law"]["of"] == "b_overhead"
    exponent = document["laws"]["b_crit"]["exponent"]
    assert exponent["ci"][0] < 0.5 < exponent["ci"][1]
    assert document["forecasts"][0]["by"] == {"params": 6.4e7}


def test_reads_the_standard_input_and_other_columns(monkeypatch, capsys):
    text = csv(sizes=(1e6,)).replace("batch_size,steps", "bs,n")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["critical-batch", "-", "--batch", "bs", "--steps", "n", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["law"] is None
    assert document["groups"][0]["by"] == {}


def test_two_groups_have_a_law_without_intervals(run):
    code, out, _ = run("--by", "params", "--at", "1e8", text=csv(sizes=(1e6, 4e6)))
    assert code == 0
    assert "as many groups as parameters: no intervals; add a group." in out
    assert "[…, …]" in out


def test_level_and_overhead_are_used(run):
    documents = [
        json.loads(run("--json", *options, text=csv(sizes=(1e6,)))[1])
        for options in ((), ("--level", "0.5"), ("--overhead", "0.4"))
    ]
    usual, narrow, more = (document["groups"][0] for document in documents)
    assert narrow["ci"][1] - narrow["ci"][0] < usual["ci"][1] - usual["ci"][0]
    assert more["b_overhead"] == pytest.approx(1.4 * 16 + 0.4 * more["b_crit"])


def test_doubts_come_with_what_to_do(run):
    text = "batch_size,steps,budget\n8,1000,2000\n16,500,2000\n32,251,2000\n64,,100\n"
    code, out, _ = run(text=text)
    assert code == 0
    assert "…]" in out
    assert "has no upper bound: measure larger batches" in out
    assert "lower bounds" in out


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        (("--batch", "bs"), None, "the table has no column 'bs'"),
        (("--level", "95"), None, "write 0.95 for a 95 % interval"),
        (("--at", "3"), None, "name one: --by params"),
        (("--from", "-1"), None, "from_batch must be positive"),
        ((), "batch_size,steps\n64,100\n64,101\n64,99\n", "at two batch sizes or more"),
        ((), "batch_size,steps,budget\n8,,10\n16,,10\n32,,10\n", "got 0 at 0"),
        ((), "batch_size,steps\n8,many\n", "steps must hold numbers"),
        (("--at", "9", "--by", "params"), csv(sizes=(1e6,)), "no law over groups"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, options, text, message):
    code, out, err = run(*options, text=text)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
