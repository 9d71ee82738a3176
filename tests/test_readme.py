"""The README is short and true: its answer, its numbers and its targets are the real ones.

That its code runs, and that of `docs/`, is tested in `test_docs.py`.
"""

import math
import re
from pathlib import Path

import pytest

import extrap

from .pages import blocks_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
LARGEST = 120
"""Lines of the README, see STYLE.md A10."""


def blocks(language):
    return [block for block in blocks_of(README) if block.language == language]


def test_readme_is_short():
    assert len(README.splitlines()) <= LARGEST
    (python,) = blocks("python")
    code = [line for line in python.text.splitlines() if line.strip() and line[0] != "#"]
    assert len(code) <= 10


def test_numbers_of_the_last_comment_are_those_of_the_forecast(monkeypatch):
    monkeypatch.chdir(ROOT)
    (block,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(block.text, "README.md", "exec"), names)
    comment = " ".join(re.findall(r"^# (.*)$", block.text, flags=re.MULTILINE))
    point, big = names["point"], names["big"]
    assert isinstance(point, extrap.Point)
    wanted = [point.recommended["lr"], point.loss, *point.loss_pi]
    said = re.search(r"lr ([\d.]+) .* loss of ([\d.]+) \(95 %: ([\d.]+) to ([\d.]+)\)", comment)
    assert said is not None
    assert [float(each) for each in said.groups()] == [
        pytest.approx(value, rel=0.006) for value in wanted
    ]
    kept = float(re.findall(r"0\.\d+", comment)[-1])
    causes = [v.cause for v in extrap.check(names["forecast"], big) if v.tuned["lr"] == kept]
    assert causes == ["mistuned"] * 4


def test_measured_figures_are_those_of_the_shipped_runs():
    sweep = extrap.read_runs(ROOT / "examples/sweep.csv", size="width", tune="lr")
    big = extrap.read_runs(ROOT / "examples/big.csv", size="width", tune="lr", stage="check")
    made = extrap.forecast(sweep)
    verdicts = extrap.check(made, big)
    law = made.tuned_laws["lr"]
    assert law is not None
    claims = [f"{law.values[1]:.3f} ± {law.covariance[1][1] ** 0.5:.3f}"]
    for width in (512, 1024):
        lower, upper = made.at(width=width).loss_pi
        assert lower is not None
        assert upper is not None
        claims.append(f"± {100 * ((upper / lower) ** 0.5 - 1):.1f} % at {width}")
        rate = made.at(width=width).tuned["lr"].value or math.nan
        here = [v for v in verdicts if v.size["width"] == width]
        least = min(abs(math.log(v.tuned["lr"] / rate)) for v in here)
        tuned = [v for v in here if abs(math.log(v.tuned["lr"] / rate)) <= least + 1e-9]
        assert least < 0.1
        assert [v.on_law for v in tuned] == [True, True]
        assert all(v.loss in v.predicted_pi for v in tuned)
        off = [100 * (v.deviation or 0.0) for v in tuned]
        claims.append(f"{off[0]:.2f}, {off[1]:.2f} % at {width}")
        seen = sum(v.loss or 0.0 for v in tuned) / 2
        claims.append(f"{100 * (1 - seen / (made.last_value() or 0.0)):.1f} % ")
    fixed = [v for v in verdicts if v.tuned["lr"] == 0.01151]
    assert [v.cause for v in fixed] == ["mistuned"] * 4
    claims += [f"+{100 * (v.deviation or 0.0):.1f}" for v in (fixed[0], fixed[-1])]
    for claim in claims:
        assert re.sub(r"(?<!\d)0\.", ".", claim).replace("-", "−") in MEASURED, claim


def test_targets_and_pictures_that_it_mentions_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.MULTILINE)
    assert {"report", "docs"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / picture).is_file(), picture
