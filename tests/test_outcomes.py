"""What is said of the registered studies is what the modules of their figures print."""

import re
import sys
from pathlib import Path

import pytest

from benchmarks import (
    evidence_noise,
    evidence_optimizers,
    evidence_replications,
    evidence_schedules,
    evidence_workloads,
)

ROOT = Path(__file__).parents[1]
NUMBER = r"-?(?:\d[\d,]*)?\.?\d+(?:e[+-]\d+)?"
INTERVAL = re.compile(rf"({NUMBER})[ %]*\(({NUMBER})[ %]*to ({NUMBER})[ %]*[);]")
"""`1.03 % (.30 to 1.77)`; of `20 of 20 (84 to 100 %)` the ends alone are compared."""
MODULES = {
    "### Replications": evidence_replications,
    "### Workloads": evidence_workloads,
    "### Schedules": evidence_schedules,
    "### Fine-tuning": evidence_schedules,
    "### Optimizer and the useful batch": evidence_optimizers,
    "### Noise scale over a ladder of difficulty": evidence_noise,
}
"""Heading of an outcome in `studies/registered.md` → what prints its figures."""
SECTIONS = {
    "## Replications": evidence_replications,
    "## Other workloads": evidence_workloads,
    "## Fine-tuning": evidence_schedules,
    "`make study-noise_ladder`": evidence_noise,
    "`make study-optimizer_batch`": evidence_optimizers,
}
"""Begin of a section in `docs/measured.md` → the same."""
POOLED = [("76", "100"), ("0", "18")]
"""Shares of flags over several studies, by Wilson's formula from the counts beside them."""


def intervals(text):
    """Value, lower and upper end of every interval, as they are written."""
    return INTERVAL.findall(text.replace("−", "-").replace("%)", ")"))


def rounding(written):
    """Half of the last digit of a number."""
    return 0.5 * 10.0 ** -len(written.partition(".")[2]) if "e" not in written else 50.0


def is_same(said, printed):
    """Whether two numbers differ by rounding alone."""
    values = [float(written.replace(",", "")) for written in (said, printed)]
    return abs(values[0] - values[1]) <= 1.001 * (rounding(said) + rounding(printed))


def unprinted(text, output):
    """Intervals of a text that the output has not."""
    printed = intervals(output)
    missing = []
    for said in intervals(text):
        ends_alone = f"of {said[0]} ({said[1]}" in text.replace("−", "-")
        compared = slice(1, 3) if ends_alone else slice(3)
        if said[1:] not in POOLED and not any(
            all(map(is_same, said[compared], other[compared])) for other in printed
        ):
            missing.append(said)
    return missing


def section(path, heading):
    """The part of a page below a heading, to the next one or the next study."""
    text = (ROOT / path).read_text(encoding="utf-8")
    assert text.count(f"\n{heading}") >= 1, heading
    body = text[text.rindex(f"\n{heading}") + 1 + len(heading) :]
    return re.split(r"\n#+ |\n`make study-", body)[0]


@pytest.fixture(scope="module")
def outputs():
    """Module → what it has printed; each is run once."""
    return {}


def printed_by(module, outputs, capsys, monkeypatch):
    if module not in outputs:
        monkeypatch.setattr(sys, "argv", [module.__name__])
        module.main()
        outputs[module] = capsys.readouterr().out
    return outputs[module]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "heading", "module"),
    [
        *(("studies/registered.md", heading, module) for heading, module in MODULES.items()),
        *(("docs/measured.md", heading, module) for heading, module in SECTIONS.items()),
    ],
)
def test_every_interval_that_is_said_is_printed(
    path, heading, module, outputs, capsys, monkeypatch
):
    text = section(path, heading)
    assert len(intervals(text)) >= 4
    assert unprinted(text, printed_by(module, outputs, capsys, monkeypatch)) == []


def test_another_number_is_noticed():
    output = "mean size of the error: ours   1.03 % (0.30 to 1.77)\nshare 100.0% (83.9% to 100.0%)"
    assert unprinted("an error of 1.03 % (.30 to 1.77), 20 of 20 (84 to 100 %)", output) == []
    for other in ("1.13 % (.30 to 1.77)", "1.0 % (.4 to 1.8)", "20 of 20 (83 to 100 %)"):
        assert unprinted(f"an error of {other}", output) != []
