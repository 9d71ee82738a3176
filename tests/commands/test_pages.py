"""`extrap index` and what `extrap report` writes besides."""

import re

import pytest

from extrap.cli import main

SWEEP, BIG = "examples/sweep.csv", "examples/big.csv"
COLUMNS = ("--size", "width", "--tune", "lr")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    path = folder / "page.html"
    given = ("report", SWEEP, BIG, *COLUMNS, "-o", str(path), "--markdown", str(folder / "p.md"))
    assert main(given) == 0
    return path


def test_report_writes_its_summary(page):
    text = (page.parent / "p.md").read_text(encoding="utf-8")
    assert text.startswith("### 🟡 ")
    assert "(page.html)" in text


def test_index_lists_the_reports_of_a_folder(page):
    """Four of six configurations of two runs are at half to five times the best rate."""
    assert main(["index", str(page.parent)]) == 0
    html = (page.parent / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="(\./[^"]*)"', html) == ["./page.html"]
    assert re.findall(r'data-label="(?:status|kind)"[^>]*>([^<]*)<', html) == [
        "on law; 8 runs off",
        "forecast",
    ]
