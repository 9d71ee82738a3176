"""Cells become plain numbers, one column for each part of them."""

import pytest

from extrap.files import read_csv, write_text
from extrap.records import Interval
from extrap.reporting import numbers
from extrap.reporting.numbers import NBSP
from extrap.reporting.table_files import cell_number, file_name, table_csv
from extrap.reporting.tables import Table

RECOMMENDED = "recommended 0.0015"


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        (numbers.format_value(1.749, 0.013), 1.749),
        (numbers.format_value(1.3e9, 2e7), 1.3e9),
        (numbers.format_value(-0.4), -0.4),
        (numbers.format_quantity(1.3e9), 1.3e9),
        (numbers.format_quantity(2.6e-5), 2.6e-5),
        (numbers.format_percent(-0.012), -0.012),
        (numbers.format_p_value(0.0001), 0.001),
        (numbers.format_estimate(1.75, Interval(1.7, 1.8)), 1.75),
        (numbers.format_interval(Interval(None, 2.1)), 2.1),
        (numbers.format_interval(Interval(1.9, None)), 1.9),
        ("1.749\n1.671 to 1.830", 1.749),
        ("2.67×", 2.67),
        ("1024", 1024.0),
        (f"… to 32{NBSP}%", 0.32),
        (f"12{NBSP}% to …", 0.12),
        ("1.5 (1.2 to …)", 1.5),
        *((cell, None) for cell in ("–", "unknown", "on law", "width 64", "3 seeds", "… to …")),
        *((cell, None) for cell in ("nan", "inf", "-Infinity", "1_000", "٣", "1e400", "")),
        ("at most 1e400", None),
    ],
)
def test_a_cell_is_sorted_by_the_number_it_says(cell, number):
    assert cell_number(cell) == pytest.approx(number)


def test_each_part_of_a_cell_has_its_own_column(tmp_path):
    table = Table(
        caption="t",
        columns=("width", "loss ± se", "lr", "against forecast", "verdict"),
        rows=(
            (
                "64",
                "1.749 ± 0.013",
                "0.002\n0.001 to 0.003\nrecommended 0.0015",
                f"+1.2{NBSP}%",
                "on",
            ),
            ("1.3B", "(1.2 ± 0.1)e7", "at most 0.1", f"−12{NBSP}%", "=1+1"),
            ("128", "unknown", "0.001 (0.0005 to 0.002)", "–", "3 lost"),
        ),
    )
    write_text(tmp_path / "t.csv", table_csv(table))
    found = read_csv(tmp_path / "t.csv")
    assert found["width"].tolist() == [64, 1.3e9, 128]
    assert found["loss"].tolist()[:2] == [1.749, 1.2e7]
    assert found["loss se"].tolist()[:2] == [0.013, 1e6]
    assert found["lr from"].tolist()[::2] == [0.001, 0.0005]
    assert found["lr to"].tolist() == [0.003, 0.1, 0.002]
    assert found["lr, note"].tolist()[0] == RECOMMENDED
    assert found["against forecast"].tolist()[:2] == [0.012, -0.12]
    assert found["verdict"].tolist() == ["on", "=1+1", "3 lost"]


def test_text_that_a_spreadsheet_would_run_is_guarded():
    table = Table(caption="t", columns=("=cmd",), rows=(("@SUM(A1)",), ("−0.4",)))
    assert table_csv(table) == "'=cmd\n'@SUM(A1)\n-0.4\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The law of the best lr", "the-law-of-the-best-lr.csv"),
        ("../../etc/passwd", "etc-passwd.csv"),
        ("é中 <script>", "e-script.csv"),
        ("中", "table.csv"),
        ("x" * 200, f"{'x' * 60}.csv"),
        ("word " * 20, f"{'-'.join(['word'] * 12)}.csv"),
        ("w" * 58 + " of the rest", f"{'w' * 58}.csv"),
    ],
)
def test_files_have_harmless_names(text, name):
    assert file_name(text, "csv") == name
