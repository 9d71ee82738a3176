"""`extrap allocate` as scripts see it."""

from __future__ import annotations

import io
import json

import pytest

from extrap.cli import main


def csv() -> str:
    lines = ["n,d,loss"]
    for n in (1e7, 4e7, 2e8, 1e9):
        for d in (1e9, 5e9, 3e10):
            lines.append(f"{n:g},{d:g},{1.7 + 400 / n**0.34 + 400 / d**0.34:.9g}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def run(capsys, monkeypatch):
    def run(*options):
        monkeypatch.setattr("sys.stdin", io.StringIO(csv()))
        code = main(["allocate", "-", "--params", "n", "--tokens", "d", *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_json_has_the_promised_keys(run) -> None:
    code, out, err = run("--flops", "1e21", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    for name in ("params", "tokens", "loss", "exponent"):
        assert set(document[name]) == {"value", "ci"}
        assert len(document[name]["ci"]) == 2
    assert document["kind"] == "extrap-allocation"
    assert document["exponent"]["value"] == pytest.approx(0.5, abs=1e-3)
    assert document["tokens"]["value"] == pytest.approx((1e21 / 6) ** 0.5, rel=1e-2)
    assert "refused" in document["estimators"]["isoflop"]


def test_text_names_estimators_and_options(run) -> None:
    options = ("--fix", "E=1.7", "--unique-tokens", "1e9", "--inference-tokens", "1e12")
    code, out, err = run("--flops", "1e21", *options)
    assert (code, err) == (0, "")
    assert "parametric" in out
    assert "isoflop: not possible" in out
    assert "with 1B unique tokens" in out
    assert "with 1T tokens to serve" in out


def test_wrong_options_are_one_line(run) -> None:
    code, out, err = run("--flops", "0")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "flops must be positive" in err
