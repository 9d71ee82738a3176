"""One good and one bad answer, compared whole; numbers are rounded to two digits.

After a deliberate change, look at the new fragment that a failure leaves in the temporary folder
and copy it to `golden/`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extrap.reporting import report

GOLDEN = Path(__file__).parent / "golden"


def fragment(html: str) -> str:
    """The answer and the last verdict card, numbers rounded, one tag a line."""
    answer = re.search(r'<div class="answer.*?</section>', html, re.DOTALL)[0]
    card = re.findall(r'<article class="card.*?</article>', html, re.DOTALL)[-1]
    kept = re.sub(r'href="data:[^"]*"', 'href="data:"', answer + card)
    text = re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.2g}", kept)
    text = text.replace("\u00a0", " ")
    return re.sub(r">\s*<", ">\n<", text) + "\n"


@pytest.mark.usefixtures("without_ink")
@pytest.mark.parametrize(("name", "factor"), [("good", 1.0), ("bad", 1.15)])
def test_answer_reads_as_it_did(tmp_path, made, judge, name, factor):
    page = report(made, judge(factor), path=tmp_path / "page.html")
    found = fragment(page.read_text(encoding="utf-8"))
    (tmp_path / f"{name}.html").write_text(found, encoding="utf-8")
    assert found == (GOLDEN / f"{name}.html").read_text(encoding="utf-8")
