"""The page of a batch study: words, tables, document, and what is left out of it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.batching import BatchFindings, agreement
from extrap.records import Interval, Measure
from extrap.reporting import batch_page, batches_text
from extrap.reporting.batch_front_words import counted_sentence, front_sentences
from extrap.reporting.batch_noise_words import agreement_sentences, collapse_of, growth_sentence
from extrap.reporting.batch_tables import counted, held_out_table, laws_table
from extrap.reporting.batch_words import headline, held_out_sentence, law_sentences
from extrap.reporting.numbers import NBSP

from .conftest import figures, plain
from .hostile import inspected


def page_of(study, tmp_path, **changed):
    path = batch_page(
        replace(study[0], **changed),
        study[1],
        path=tmp_path / "deep" / "page.html",
        created="2026-01-01T00:00:00+00:00",
        provenance={"commit": "abc", "empty": ""},
    )
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        ((410.2, 351.0, 478.0), "410 (350 to 480)"),
        ((2003.4, 12.2, 28437.0), "2000 (12 to 28000)"),
        ((119.9, 112.4, 127.7), "120 (112 to 128)"),
        ((None, None, 350.0), "at most 350"),
        ((410.0, 351.0, None), "410 (at least 350)"),
        ((7.0, None, None), "7 (interval open)"),
        ((None, None, None), "unknown"),
    ],
)
def test_counts_are_rounded_to_what_is_known(measure, text):
    value, lower, upper = measure
    assert counted(Measure(value=value, ci=Interval(lower, upper))) == text


def test_headline_states_batch_and_exponent_of_the_largest_size(one_task):
    useful, low, high, size, loss, exponent, *interval = figures(headline(one_task[1]))
    truth = 4 * 100 * 4**0.1 * (2.2 / 2.5) ** -6  # of the fixture, steps 10 % at four times B_crit
    assert low < high
    assert (size, loss) == (128, 2.2)
    assert useful == pytest.approx(truth, rel=0.05)
    assert exponent == pytest.approx(0.5, abs=0.03)
    assert interval[0] < exponent < interval[1]


def test_law_and_held_out_words_state_their_numbers(one_task, two_tasks):
    (found,) = one_task[1]
    (words,) = map(plain, law_sentences(found.result))
    assert float(re.search(r"width\^(0\.\d+)", words)[1]) == pytest.approx(0.1, abs=0.03)
    assert float(re.search(r"loss\^(-\d\.\d+)", words)[1]) == pytest.approx(-6, abs=0.5)
    assert law_sentences(two_tasks[1][0].result) == []  # two fits make no law
    assert laws_table(two_tasks[1]) is None
    own, _, trivial = map(
        float, re.findall(r"([\d.]+) %", plain(held_out_sentence(one_task[1])))[:3]
    )
    held = found.result.held_out
    assert own == pytest.approx(
        100 * float((held["steps"] / held["predicted"] - 1).abs().median()), abs=0.051
    )
    assert trivial > 2 * own  # a chord lies above a curve that is convex
    assert figures(held_out_sentence(one_task[1]))[-3:] == [8, 8, 95]
    assert [row[-1] for row in held_out_table(one_task[1]).rows] == ["yes"] * 8
    none = (replace(found, result=replace(found.result, held_out=held[:0])),)
    assert (held_out_sentence(none), held_out_table(none)) == ("", None)


def test_front_words_compare_counts_with_forecast_and_with_no_forecast(one_task):
    (found,) = one_task[1]
    words = plain(" ".join(front_sentences(found)))
    assert int(re.search(r"(\d+) of 12 lie inside", words)[1]) >= 10
    own = float(re.search(r"by ([\d.]+) %", words)[1])
    trivial = float(re.search(r"off by ([\d.]+) %", words)[1])
    assert own < 2 < trivial
    assert figures(counted_sentence(found))[0] == 256
    off = found.checked.assign(predicted=1.4 * found.checked["predicted"])
    worse = replace(found, checked=off)
    for told in (lambda x: " ".join(front_sentences(x)), counted_sentence):
        assert "worse than no law" not in told(found)
        assert "worse than no law" in told(worse)
    told = re.search(
        r"2\.2 there it recommends a batch of (\d+) \([^)]*\)\D*20 %\D*rate of (0\.\d+)", words
    )
    batch, rate = told.groups()
    recommended = found.front.recommended[-1]
    assert float(batch) == pytest.approx(recommended.batch.value, rel=0.05)
    assert float(rate) == pytest.approx(recommended.lr.value, rel=0.05)


def test_noise_collapses_and_agrees_with_the_critical_batch(one_task):
    result = one_task[1][0].result
    found = collapse_of(result)
    assert found.size_exponent.value == pytest.approx(0.02, abs=0.02)
    assert found.log_sd < 0.7 * found.log_sd_of_step
    assert float(re.search(r"by a factor of ([\d.]+)", growth_sentence(one_task[1]))[1]) > 10
    pairs = pd.DataFrame({"noise_scale": [10, 100, 1e3, 1e4], "b_crit": [20, 150, 40, np.nan]})
    words = plain(" ".join(agreement_sentences(agreement(pairs))))
    assert figures(words)[:2] == [3, 2.0]  # pairs, and decades from 10 to 1,000
    assert "factor of 25 at most" in words  # 1,000 / 40
    assert "than 10 in 2 of 3" in words
    assert "no verdict" in agreement_sentences(None)[0]


def test_page_and_text_escape_names_and_leave_out_what_is_not_there(one_task, two_tasks, tmp_path):
    assert NBSP not in batches_text(*one_task)
    full = page_of(one_task, tmp_path, question="Which ba<t>ch?")
    assert "ba&lt;t&gt;ch" in full
    page = inspected(full)
    assert "nan" not in " ".join(page.words).split()
    keys = ("steps", "front", "rate", "agreement", "noise", "collapse0", "numbers", "limits")
    for key in keys:
        assert f'<section id="{key}">' in full, key
    assert 'id="collapse0"' not in page_of(two_tasks, tmp_path)
    (found,) = one_task[1]
    silent = replace(
        found.result, noise=pd.DataFrame(), courses=pd.DataFrame(), rate_laws={}, joint=None
    )
    html = page_of((one_task[0], (BatchFindings(result=silent),)), tmp_path)
    for key in ("agreement", "noise", "collapse0", "rate"):
        assert f'id="{key}"' not in html, key
