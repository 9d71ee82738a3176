"""`extrap page`, `extrap index` and what `extrap report` writes besides."""

import pytest

from extrap.cli import main
from extrap.reporting.embedded import read_report

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
    assert main(["index", str(page.parent)]) == 0
    (row,) = read_report(page.parent / "index.html")["numbers"]["reports"]
    assert (row["link"], row["kind"], row["status"]) == (
        "./page.html",
        "forecast",
        "on law; 6 runs off",
    )
