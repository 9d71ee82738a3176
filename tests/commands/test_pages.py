"""`extrap page`, `extrap index`, `extrap beside` and what `extrap report` writes besides."""

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
    assert main([*given, "--figures", str(folder / "figures")]) == 0
    return path


def test_report_writes_its_summary_and_its_figures(page):
    text = (page.parent / "p.md").read_text(encoding="utf-8")
    assert text.startswith("### 🟡 ")
    assert "(page.html)" in text
    names = {path.name for path in (page.parent / "figures").iterdir()}
    assert {"loss-against-width.svg", "fitted-parameters.csv"} <= names


def test_two_studies_stand_beside_each_other_and_in_the_index(page, tmp_path, capsys):
    sealed = tmp_path / "kept.json"
    assert (
        main(["forecast", "examples/kept_rate.csv", "--size", "width", "--save", str(sealed)]) == 0
    )
    output = page.parent / "both.html"
    assert main(["beside", str(page), str(sealed), "-o", str(output)]) == 0
    found = read_report(output)
    assert found["numbers"]["names"] == ["examples/sweep.csv", "kept"]
    assert main(["index", str(page.parent)]) == 0
    rows = read_report(page.parent / "index.html")["numbers"]["reports"]
    assert {(row["kind"], row["status"]) for row in rows} >= {("forecast", "on law; 6 runs off")}
    assert {row["link"] for row in rows} == {"./page.html", "./both.html"}
    capsys.readouterr()
    assert main(["beside", str(page), SWEEP, "-o", str(output)]) == 0
    assert capsys.readouterr().err.startswith("Using size = width, tune = lr")
