"""Cells become plain numbers, one column for each part of them."""

import math
import re
from base64 import b64decode
from functools import partial

import pytest

from extrap.files import read_csv, write_text
from extrap.records import Interval
from extrap.records.numbers import (
    NBSP,
    format_cost,
    format_estimate,
    format_interval,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
    over,
    stacked,
)
from extrap.reporting.forecast_page import forecast_page
from extrap.reporting.html import page_html
from extrap.reporting.tables import MAX_ROWS, Table, cell_number, file_name, table_csv

from .conftest import tables_of


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        (format_value(1.749, 0.013), 1.749),
        (format_value(-0.4), -0.4),
        (format_quantity(1.3e9), 1.3e9),
        (format_percent(-0.0124), -0.0124),
        (format_p_value(0.0001), 0.0001),
        (format_cost(math.log(1.5)), 0.5),
        (format_estimate(1.75, Interval(1.7, 1.8)), 1.75),
        (stacked(1.75, Interval(1.7, 1.8)), 1.75),
        (format_interval(Interval(None, 2.1)), 2.1),
        (format_interval(Interval(1.9, None), format_percent), 1.9),
        (over(format_value(2.5), "3 runs"), 2.5),
        *((cell, None) for cell in ("–", format_value(None), "on law", over("none", "3 runs"))),
    ],
)
def test_a_cell_is_sorted_by_the_number_it_holds(cell, number):
    assert cell_number(cell) == (number if number is None else pytest.approx(number))


def test_each_part_of_a_cell_has_its_own_column(tmp_path):
    recommended = over(stacked(0.002, Interval(0.001, 0.003)), "recommended 0.0015")
    upper, between = Interval(None, 0.1), Interval(5e-4, 2e-3)
    columns = {
        "width": (format_quantity(64), format_quantity(1.3e9), "128"),
        "loss ± se": (format_value(1.749, 0.013), format_value(1.2e7, 1e6), format_value(None)),
        "lr": (recommended, format_interval(upper), format_estimate(0.001, between)),
        "against forecast": (format_percent(0.0123), format_percent(-0.12), "–"),
        "verdict": ("on", "=1+1", "3"),
    }
    table = Table("t", tuple(columns), list(zip(*columns.values(), strict=True)))
    write_text(tmp_path / "t.csv", table_csv(table))
    found = read_csv(tmp_path / "t.csv")
    assert found["width"].tolist() == [64, 1.3e9, 128]
    assert found["loss"].tolist()[:2] == [1.749, 1.2e7]
    assert found["loss se"].tolist()[:2] == [0.013, 1e6]
    assert found["lr"].tolist()[::2] == [0.002, 0.001]
    assert found["lr from"].tolist()[::2] == [0.001, 0.0005]
    assert found["lr to"].tolist() == [0.003, 0.1, 0.002]
    assert found["lr, note"].tolist()[0] == "recommended 0.0015"
    assert found["against forecast"].tolist()[:2] == [0.0123, -0.12]
    assert found["verdict"].tolist() == ["on", "=1+1", "3"]


def test_text_that_a_spreadsheet_would_run_is_guarded():
    table = Table("t", ("=cmd",), (("@SUM(A1)",), (format_value(-0.4),)))
    assert table_csv(table) == "'=cmd\n'@SUM(A1)\n-0.4\n"


def test_a_long_table_says_how_much_of_it_is_shown():
    table = Table("t", ("n",), [(str(i),) for i in range(MAX_ROWS + 1)], "A note.")
    assert (len(table.rows), table.note) == (MAX_ROWS, "The first 400 of 401 rows. A note.")


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


def test_tables_to_download_hold_the_numbers_of_the_forecast(tmp_path, made, judge):
    verdicts = judge()
    page = forecast_page(made, verdicts)
    links = re.findall(r'href="data:text/csv[^,]*,([^"]+)"', page_html(page))
    files = {b64decode(link) for link in links}

    def saved(caption):
        content = table_csv(tables_of(page.blocks)[caption])
        assert content.encode() in files
        write_text(tmp_path / "table.csv", content)
        return read_csv(tmp_path / "table.csv")

    near = partial(pytest.approx, rel=2e-3)
    judged = saved("Judged runs")
    assert judged["loss"].tolist() == near([v.loss for v in verdicts])
    off = [v.deviation for v in verdicts]
    assert judged["against forecast"].tolist() == pytest.approx(off, abs=0.006)  # whole percents
    assert (judged["verdict"] == "on law").tolist() == [v.on_law for v in verdicts]
    optima = saved("The optimum of each size of the sweep")
    assert optima["loss"].tolist() == near([o.loss for o in made.optima])
    assert optima["lr interval to"].tolist() == near([o.tuned["lr"].pi[1] for o in made.optima])
    points = saved(f"Forecasts with both 95{NBSP}% intervals")
    predicted = [made.at(width=w) for w in points["width"]]
    assert points["loss"].tolist() == near([p.loss for p in predicted])
    assert points["loss, one new run from"].tolist() == near([p.loss_pi[0] for p in predicted])
