"""The page of a batch study: numbers, and what is left out of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.batch_size.charts import (
    noise_figures,
    pairs_figure,
    rate_figures,
    steps_figures,
)
from extrap.analyses.batch_size.page import batch_estimate, batches_answer, batches_page
from extrap.records import Interval, Measure
from extrap.records.numbers import NBSP
from extrap.reporting.blocks import Details
from extrap.reporting.study_page import About
from tests.analyses.conftest import figures, plain, tables_of, text_of


def page_of(study, findings):
    return batches_page(findings, About(study.name, study.question, {}))


def table_of(page, start):
    """The rows of the table whose caption starts so, by the heading of each column."""
    (table,) = (t for caption, t in tables_of(page.blocks).items() if caption.startswith(start))
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def marked(chart, marker):
    """The points of a chart with a marker, those of the lowest target last."""
    return [each for each in chart.series if each.marker == marker]


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        ((410.2, 351.0, 478.0), "410 (350 to 480)"),
        ((2003.4, 12.2, 28437.0), "2000 (12 to 28000)"),
        ((834.0, 674.0, 1049.0), "830 (670 to 1050)"),
        ((119.9, 112.4, 127.7), "120 (112 to 128)"),
        ((None, None, 350.0), "at most 350"),
        ((410.0, 351.0, None), "410 (at least 350)"),
        ((7.0, None, None), "7 (interval open)"),
        ((None, None, None), "unknown"),
    ],
)
def test_counts_are_rounded_to_what_is_known(measure, text):
    value, lower, upper = measure
    assert batch_estimate(Measure(value=value, ci=Interval(lower, upper))) == text


def test_answer_states_batch_and_exponent_of_the_largest_size(one_task):
    size, target, batch, level, low, high, useful, *_ = figures(batches_answer(one_task[1]).text)
    truth = 100 * 4**0.1 * (2.2 / 2.5) ** -6  # of the fixture
    assert (size, target, level) == (128, 2.2, 95)
    assert batch == pytest.approx(truth, rel=0.05)
    assert low < batch < high
    assert useful == pytest.approx(4 * truth, rel=0.05)  # 10 % of the steps at four times B_crit
    *_, exponent, lower, upper = figures(batches_answer(one_task[1]).text)
    assert exponent == pytest.approx(0.5, abs=0.03)
    assert lower <= exponent <= upper


def test_without_noise_the_answer_is_of_the_tasks_with_the_extreme_batches(one_task):
    """Three tasks whose batches are 1, 3 and 2 times those of one: not the first is named."""
    found = replace(one_task[1][0], noise=pd.DataFrame())

    def times(factor, name):
        groups = tuple(
            replace(g, b_crit=g.b_crit.map(lambda b: factor * b)) for g in found.critical.groups
        )
        task = replace(found.task, study=replace(found.task.study, name=name))
        return replace(found, task=task, critical=replace(found.critical, groups=groups))

    answer = batches_answer([times(1, "sgd"), times(3, "momentum"), times(2, "adam")])
    size, target, *_ = figures(answer.text)
    (group,) = [g for g in found.critical.groups if [*g.by.values()] == [size, target]]
    assert (size, target) == (128, 2.2)
    smallest, largest = answer.text.split("largest")
    assert batch_estimate(group.b_crit, 0.95) in smallest
    assert batch_estimate(group.b_crit.map(lambda b: 3 * b), 0.95) in largest
    assert ("for sgd" in smallest, "for momentum" in largest) == (True, True)
    assert "adam" not in answer.text


def test_noise_predicts_the_critical_batch_of_two_tasks(two_tasks):
    answer = batches_answer(two_tasks[1])
    n_inside, n_pairs, factor, worst, ratio, *_ = figures(answer.text)
    pairs = pd.concat([found.noise for found in two_tasks[1]])
    ratios = pairs["b_crit"] / pairs["noise_scale"]
    assert (n_inside, n_pairs, factor, answer.color) == (4, 4, 10, "good")
    assert "4 pairs of 2 tasks" in answer.confidence
    without = replace(two_tasks[1][0], noise=pd.DataFrame())
    assert "of 2 tasks" in batches_answer([*two_tasks[1], without]).confidence
    assert worst == pytest.approx(ratios.max(), rel=0.03)
    assert ratio == pytest.approx(float(ratios.prod() ** 0.25), rel=0.05)
    apart = [
        replace(f, noise=f.noise.assign(b_crit=b))
        for f, b in zip(two_tasks[1], (1e4, 1e5), strict=True)
    ]
    assert batches_answer(apart).color == "warn"


def test_charts_of_steps_have_points_and_curves(one_task):
    tasks = [("", one_task[1][0])]
    group = one_task[1][0].critical.groups[0]
    charts = [figure.chart for figure in steps_figures(tasks)]
    assert [chart.title for chart in charts] == [
        f"Steps at width{NBSP}{w}" for w in (16, 32, 64, 128)
    ]
    (counts,) = marked(charts[0], "s")  # of target 2.2, the second one
    assert counts.x == (8, 32, 64, 128, 512, 2048)
    assert all(
        low <= y <= high for low, y, high in zip(counts.lower, counts.y, counts.upper, strict=True)
    )
    perfect, maximal = charts[0].shaded
    assert maximal == pytest.approx(20 * perfect)  # B_crit / 5 and 4 B_crit
    first = replace(group.points[0], values=(), bounds=(20000.0,))
    result = one_task[1][0]
    groups = (replace(group, points=(first, *group.points[1:])), *result.critical.groups[1:])
    censored = replace(result, critical=replace(result.critical, groups=groups))
    chart = steps_figures([("", censored)])[0].chart
    (lost,) = marked(chart, "^")
    assert (lost.x, lost.y) == ((8,), (20000,))


def test_trade_off_bends_at_twice_the_fewest_steps_and_examples(one_task):
    (found,) = one_task[1]
    chart = steps_figures([("", found)], is_trade_off=True)[-1].chart
    group = next(g for g in found.critical.groups if g.by == {"width": 128, "target": 2.2})
    *_, bend = marked(chart, "X")
    assert bend.x == pytest.approx((2 * group.e_min.value,), rel=1e-6)
    assert bend.y == pytest.approx((2 * group.s_min.value,), rel=1e-6)
    counts = [p.steps for p in group.points if p.values]
    (counted,) = marked(chart, "s")
    assert sorted(counted.y) == pytest.approx(sorted(counts))


def test_table_of_laws_has_their_exponents(one_task):
    page = page_of(*one_task)
    laws = {row["law of"]: plain(row["goes as"]) for row in table_of(page, "Power laws")}
    width, low, high, loss, *_ = figures(laws["critical batch"].replace("^", " "))
    assert width == pytest.approx(0.1, abs=0.03)
    assert low < width < high
    assert loss == pytest.approx(-6, abs=0.5)


def test_parts_without_data_are_left_out(one_task, two_tasks):
    def titles(page):
        return {block.title for block in page.blocks if isinstance(block, Details)}

    page = page_of(*one_task)
    assert "nan" not in text_of(page).split()
    found = {"Best learning rate", "Gradient noise scale"}
    assert {*found, "Steps against examples"} <= titles(page)
    empty = {"noise": pd.DataFrame(), "courses": pd.DataFrame(), "rate_law": None}
    silent = replace(one_task[1][0], **empty)
    assert not found & titles(page_of(one_task[0], (silent,)))
    tasks = [("", silent)]
    assert (rate_figures(tasks), noise_figures(tasks), pairs_figure(tasks)) == ([], [], [])
    assert "; 4 pairs of 2 tasks" in page_of(*two_tasks).answer.confidence


def test_page_of_a_critical_batch_without_an_estimate_has_dashes(one_task):
    """A measurement that shows one regime has no ratio to the noise scale."""
    (found,) = one_task[1]
    unknown = found.noise.assign(b_crit=np.nan, b_upper=np.nan)
    page = page_of(one_task[0], (replace(found, noise=unknown),))
    assert {row["ratio"] for row in table_of(page, "Noise scales and critical")} == {"–"}
