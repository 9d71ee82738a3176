"""What the page of a study says it found is what its table says, number by number."""

import re
from pathlib import Path

import pytest

from extrap.analyses.comparison.treatments import treatments
from extrap.study import open_study, report

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"[−-]?(?:\d[\d,]*)?\.?\d+")


def one_line(text):
    """Prose on one line, with one kind of minus."""
    return " ".join(text.replace("−", "-").split())


def short(value, digits=1):
    """`-.4` for −.43: as prose writes a number below one."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def share(measure, digits=1, sign=1):
    """`5.8 % (5.2 to 6.3 %)`."""
    value, low, high = (100 * sign * v for v in (measure.value, *measure.ci))
    low, high = sorted((low, high))
    numbers = [short(v, digits) for v in (value, low, high)]
    return "{} % ({} to {} %)".format(*numbers)


@pytest.fixture
def committed(tmp_path):
    """The outcome of a shipped study from its committed table, and its docstring's `Found:`."""

    def read(name):
        path = ROOT / "studies" / f"{name}.py"
        outcome = report(open_study(path), table=path.with_suffix(".csv"), reports=tmp_path)
        paragraphs = path.read_text(encoding="utf-8").split('"""')[1].split("\n\n")
        return outcome, one_line(" ".join(p for p in paragraphs if "Found" in p).split("Found", 1)[1])

    return read


def assert_all_is_measured(prose, phrases, design=()):
    """Every phrase stands in the prose, and no number stands there besides.

    Args:
        prose: What is said.
        phrases: What was measured, as it is to be said.
        design: Numbers of the design, such as widths.
    """
    for phrase in phrases:
        assert one_line(phrase) in prose
        prose = prose.replace(one_line(phrase), " ", 1)
    beside = {float(n.replace(",", "")) for n in NUMBER.findall(prose)}
    assert beside <= set(map(float, design))


def test_gate(committed):
    """Each recipe was measured at both larger widths, and the forecast of one did not hold."""
    outcome, prose = committed("gate")
    checked = treatments(outcome.result)
    phrases = [share(t.decisive.difference, sign=-1) for t in checked]
    assert_all_is_measured(prose, phrases, design=(256, 512))
    verdicts = {t.contrast.treated: t.verdict for t in checked}
    assert verdicts == {"muon": "survives", "one layer": "fades"}
    assert [t.label for t in checked if not t.holds] == ["muon (At width 512)"]
    assert "the second just outside its forecast" in prose
