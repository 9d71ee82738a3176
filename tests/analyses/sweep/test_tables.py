"""Tables say how much of them is shown; a page of them states the numbers of the forecast."""

from functools import partial

import pytest

from extrap.analyses.sweep.page import forecast_page
from extrap.reporting.tables import MAX_ROWS, Table
from tests.analyses.conftest import figures, tables_of


def test_a_long_table_says_how_much_of_it_is_shown():
    table = Table("t", ("n",), [(str(i),) for i in range(MAX_ROWS + 1)], "A note.")
    assert (len(table.rows), table.note) == (MAX_ROWS, "The first 400 of 401 rows. A note.")


def test_tables_of_a_page_hold_the_numbers_of_the_forecast(made, judge):
    verdicts = judge()
    tables = tables_of(forecast_page(made, verdicts).blocks)

    def column(caption, name):
        table = tables[caption]
        return [row[table.columns.index(name)] for row in table.rows]

    def numbers(caption, name, place=0):
        return [figures(cell)[place] for cell in column(caption, name)]

    near = partial(pytest.approx, rel=2e-3)
    judged = "Judged runs"
    assert numbers(judged, "loss") == near([v.loss for v in verdicts])
    off = [100 * v.deviation for v in verdicts]
    assert numbers(judged, "against forecast") == pytest.approx(off, abs=0.6)  # whole percents
    assert [cell == "on law" for cell in column(judged, "verdict")] == [v.on_law for v in verdicts]
    optima = "The optimum of each size of the sweep"
    assert numbers(optima, "loss ± se") == near([o.loss for o in made.optima])
    ends = [o.tuned["lr"].pi[1] for o in made.optima]
    assert numbers(optima, "lr interval", 1) == near(ends)
    points = next(caption for caption in tables if caption.startswith("Forecasts with both"))
    predicted = [made.at(width=w) for w in numbers(points, "width")]
    assert numbers(points, "forecast loss") == near([p.loss for p in predicted])
    assert numbers(points, "forecast loss", 1) == near([p.loss_pi[0] for p in predicted])
    assert numbers(points, "loss of the law, interval") == near([p.loss_ci[0] for p in predicted])
    best = [p.tuned["lr"] for p in predicted]
    assert numbers(points, "optimum of the law, lr") == near([b.value for b in best])
    assert numbers(points, "optimum of the law, lr", 2) == near([b.ci[1] for b in best])
