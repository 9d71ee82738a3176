"""The page of a batch study: words, tables, document, and what is left out of it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.batching import BatchFindings, Collapse, agreement
from extrap.records import BatchStudy, Interval, Measure
from extrap.reporting import batch_page, batches_document, batches_text
from extrap.reporting.batch_front_words import counted_sentence, front_sentences
from extrap.reporting.batch_noise_words import (
    agreement_sentences,
    collapse_of,
    collapse_sentences,
    growth_sentence,
)
from extrap.reporting.batch_rate_words import rate_sentences, rates_sentence
from extrap.reporting.batch_tables import (
    counted,
    critical_table,
    flags_seen,
    front_check_table,
    held_out_table,
    laws_table,
    power,
    rates_table,
)
from extrap.reporting.batch_words import headline, held_out_sentence, law_sentences, notes_of
from extrap.reporting.numbers import NBSP

Study = tuple[BatchStudy, tuple[BatchFindings, ...]]


def plain(text: str) -> str:
    return text.replace(NBSP, " ")


def page_of(study: Study, tmp_path: Path, **changed: object) -> str:
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
def test_counts_are_rounded_to_what_is_known(measure: tuple, text: str) -> None:
    value, lower, upper = measure
    assert counted(Measure(value=value, ci=Interval(lower, upper))) == text


def test_exponents_have_two_decimals_or_what_their_interval_needs() -> None:
    assert power(Measure(value=-0.4512, ci=Interval(-0.52, -0.384))) == "−0.45 (−0.52 to −0.38)"
    assert power(Measure(value=0.5012, ci=Interval(0.498, 0.5044))) == "0.501 (0.498 to 0.504)"
    assert power(Measure(value=0.5, ci=Interval(None, None))) == "0.500 (unknown)"


def test_headline_answers_for_the_largest_size_and_lowest_loss(one_task: Study) -> None:
    words = plain(headline(one_task[1]))
    found = re.fullmatch(
        r"Batches up to (\d+) \((\d+) to (\d+)\) are useful at width 128 and a loss of 2\.2; the "
        r"best rate goes as batch\^(0\.\d+) \((0\.\d+) to (0\.\d+)\)\.",
        words,
    )
    assert found is not None, words
    useful, low, high, exponent, _, _ = map(float, found.groups())
    truth = 4 * 100 * 4**0.1 * (2.2 / 2.5) ** -6  # of the fixture, steps 10 % at four times B_crit
    assert low < high
    assert useful == pytest.approx(truth, rel=0.05)
    assert exponent == pytest.approx(0.5, abs=0.03)


def test_headline_of_several_tasks_is_how_noise_and_batch_agree(two_tasks: Study) -> None:
    words = plain(headline(two_tasks[1]))
    assert words.startswith("The mean noise scale foretells the critical batch within a factor of")
    assert "10 in 4 of 4 pairs" in words
    assert "r² of the logs is 0.9" in words


def test_headline_without_a_critical_batch_says_so(one_task: Study) -> None:
    (found,) = one_task[1]
    critical = found.result.critical
    nothing = Measure(value=None, ci=Interval(None, None))
    groups = tuple(replace(g, b_crit=nothing, flags=("flat-only",)) for g in critical.groups)
    blank = replace(found.result, critical=replace(critical, groups=groups))
    findings = (replace(found, result=blank),)
    assert headline(findings).startswith("No critical batch was told")
    letter, flag = flags_seen(findings)[0]
    assert (letter, flag.name) == ("a", "flat-only")
    assert flag.action == "Measure smaller batches."
    assert {row[-1] for row in critical_table(findings).rows} == {"a"}


def test_law_words_name_loss_and_size_and_what_follows(one_task: Study) -> None:
    (words,) = law_sentences(one_task[1][0].result)
    words = plain(words)
    assert "loss^−" in words
    assert "It grows as the loss falls" in words
    assert "It grows with width at equal loss" in words
    exponent = float(re.search(r"width\^(0\.\d+)", words)[1])
    assert exponent == pytest.approx(0.1, abs=0.03)


def test_two_fits_make_no_law_worth_a_word(two_tasks: Study) -> None:
    assert law_sentences(two_tasks[1][0].result) == []
    assert laws_table(two_tasks[1]) is None


def test_held_out_batches_stand_beside_the_trivial_answer(one_task: Study) -> None:
    words = plain(held_out_sentence(one_task[1]))
    own, _, trivial = map(float, re.findall(r"([\d.]+) %", words)[:3])
    held = one_task[1][0].result.held_out
    assert own == pytest.approx(
        100 * float((held["steps"] / held["predicted"] - 1).abs().median()), abs=0.051
    )
    assert trivial > 2 * own  # a chord lies above a curve that is convex
    assert words.endswith("8 of 8 inside their 95 % interval.")
    table = held_out_table(one_task[1])
    assert table is not None
    assert [row[-1] for row in table.rows] == ["yes"] * 8


def test_no_held_out_batches_no_words(one_task: Study) -> None:
    (found,) = one_task[1]
    none = (replace(found, result=replace(found.result, held_out=found.result.held_out[:0])),)
    assert held_out_sentence(none) == ""
    assert held_out_table(none) is None


def test_front_words_compare_counts_with_forecast_and_with_no_forecast(one_task: Study) -> None:
    (found,) = one_task[1]
    words = plain(" ".join(front_sentences(found)))
    assert "Rates and steps at width 256, 2 times the largest size" in words
    assert int(re.search(r"and (\d+) of 12 lie inside", words)[1]) >= 10
    own = float(re.search(r"differ from the forecast by ([\d.]+) %", words)[1])
    trivial = float(re.search(r"off by ([\d.]+) %", words)[1])
    assert own < 2 < trivial
    assert "No other rate that was tried there took fewer steps" in words
    assert plain(counted_sentence(found)).startswith(
        "At width 256, counted after the forecast: steps"
    )


def test_law_that_does_worse_than_no_law_says_so(one_task: Study) -> None:
    (found,) = one_task[1]
    assert "no law" not in " ".join(front_sentences(found))
    off = found.checked.assign(predicted=1.4 * found.checked["predicted"])
    worse = replace(found, checked=off)
    assert "the law over sizes did worse than no law" in " ".join(front_sentences(worse))
    assert "did worse than no law" in counted_sentence(worse)


def test_batch_and_rate_are_recommended_together(one_task: Study) -> None:
    (found,) = one_task[1]
    words = plain(" ".join(front_sentences(found)))
    told = re.search(
        r"For a loss of 2\.2 there it recommends a batch of (\d+) \([^)]*\), at which examples "
        r"are 20 % above linear scaling, at a rate of (0\.\d+)",
        words,
    )
    assert told is not None, words
    batch, rate = told.groups()
    recommended = found.front.recommended[-1]
    assert float(batch) == pytest.approx(recommended.batch.value, rel=0.05)
    assert float(rate) == pytest.approx(recommended.lr.value, rel=0.05)


def test_front_that_was_not_counted_or_not_reached_says_what_to_do(one_task: Study) -> None:
    (found,) = one_task[1]
    waiting = replace(found, checked=None)
    assert "Nothing was counted there yet: run the study on." in front_sentences(waiting)
    assert counted_sentence(waiting) == ""
    table = front_check_table(waiting)
    assert table is not None
    assert "steps counted" not in table.columns
    missed = found.checked.assign(steps=math.nan, best=math.nan, best_factor=math.nan)
    lost = replace(found, checked=missed)
    assert "the rate is off" in " ".join(front_sentences(lost))
    assert "not reached" in front_check_table(lost).rows[0]
    some = found.checked.copy()
    some.loc[0, ["steps", "best", "best_factor"]] = math.nan
    some.loc[1, ["best", "best_factor"]] = [0.8 * some.loc[1, "steps"], 2.0]
    words = plain(" ".join(front_sentences(replace(found, checked=some))))
    assert "At 1 of 12 batches the forecast rate did not reach" in words
    assert "best of those tried at 10 of 11; another saved 20 % of the steps at most" in words


def test_rate_words_say_which_rules_hold_and_how_to_scale(one_task: Study) -> None:
    result = one_task[1][0].result
    words = plain(" ".join(rate_sentences(result)))
    assert words.startswith("bytes: the best rate goes as batch^0.5")
    assert "width^−0.3" in words
    assert re.search(r"Rules that hold: [a-z ,]*square root at \d of 4 sizes", words)
    assert "Rejected: linear" in words
    assert "beyond them tune it again" in words
    none = replace(result, rate_laws={}, joint=None)
    assert "widen lr= or raise growth=" in rate_sentences(none)[0]
    table = rates_table(one_task[1])
    assert table is not None
    assert [row[3].split("\n")[0] for row in table.rows] == ["rejected"] * 4


def test_rates_of_several_tasks_are_counted_together(one_task: Study, two_tasks: Study) -> None:
    words = plain(rates_sentence(two_tasks[1]))
    assert re.match(
        r"The best rate goes from batch\^0\.5\d* \(0\.\d+ to 0\.\d+; (easy|hard)\)", words
    )
    assert "Of 2 sweeps rules hold as follows: square root in 2" in words
    assert "linear in 0" in words
    (found,) = one_task[1]
    bare = replace(found, result=replace(found.result, rate_laws={}))
    assert rates_sentence((bare,)) == ""


def test_bent_rates_are_not_given_one_exponent(one_task: Study) -> None:
    result = one_task[1][0].result
    bent = {key: replace(law, bend_p=0.001) for key, law in result.rate_laws.items()}
    words = rate_sentences(replace(result, rate_laws=bent))
    assert "no single exponent serves" in words[-1]


def collapsed(value: float, half: float, **changed: float) -> Collapse:
    exponent = Measure(value=value, ci=Interval(value - half, value + half))
    found = Collapse(
        size_exponent=exponent,
        loss_exponent=exponent,
        log_sd=0.1,
        log_sd_by_size=0.09,
        log_sd_of_step=0.3,
        n_points=30,
        n_sizes=4,
    )
    return replace(found, **changed)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (collapsed(0.02, 0.1), "collapse over the loss as far as is seen"),
        (collapsed(0.02, 0.9), "is not decided"),
        (collapsed(0.03, 0.01), "nearly collapse"),
        (collapsed(0.5, 0.1), "do not collapse"),
        (collapsed(-0.5, 0.1), "do not collapse"),
        (collapsed(0.02, 0.1, log_sd_of_step=0.11), "hardly more than the step does"),
        (None, "Fewer than three sizes"),
    ],
)
def test_collapse_is_told_with_its_alternative(
    one_task: Study, found: Collapse | None, words: str
) -> None:
    assert words in plain(" ".join(collapse_sentences(found, one_task[1][0].result)))


def test_noise_that_follows_the_loss_collapses(one_task: Study) -> None:
    result = one_task[1][0].result
    found = collapse_of(result)
    assert found is not None
    assert found.size_exponent.value == pytest.approx(0.02, abs=0.02)
    assert found.log_sd < 0.7 * found.log_sd_of_step
    grown = float(re.search(r"by a factor of ([\d.]+)", growth_sentence(one_task[1]))[1])
    assert grown > 10


def test_agreement_words_have_its_numbers_and_the_warning() -> None:
    pairs = pd.DataFrame({"noise_scale": [10, 100, 1e3, 1e4], "b_crit": [20, 150, 40, np.nan]})
    words = plain(" ".join(agreement_sentences(agreement(pairs))))
    assert "Over 3 pairs and 2.0 decades" in words
    assert "a factor of 25 at most" in words
    assert "by less than 10 in 2 of 3. 1 more without" in words
    assert "They are not the same thing." in words
    assert "no verdict" in agreement_sentences(None)[0]


def test_notes_say_why_an_edge_matters_and_are_cut(one_task: Study) -> None:
    (found,) = one_task[1]
    assert notes_of(one_task[1]) == []
    edges = tuple(f"batch {i}: the best lr is at the edge of its grid." for i in range(20))
    notes = notes_of((replace(found, result=replace(found.result, notes=edges)),))
    assert notes[12] == "8 more of the kind."
    assert notes[-1].startswith("Why an edge matters")
    assert "growth=" in notes[-1]


def test_tables_have_a_row_a_group(one_task: Study, two_tasks: Study) -> None:
    rows = critical_table(one_task[1]).rows
    assert [row[:2] for row in rows[:2]] == [("width\u00a016", "2.2"), ("width\u00a016", "2.5")]
    assert len(rows) == 8
    assert critical_table(two_tasks[1]).rows[0][0] == "easy, width\u00a032"


def test_document_is_strict_json_and_keeps_its_keys(one_task: Study, two_tasks: Study) -> None:
    for study, findings in (one_task, two_tasks):
        document = json.loads(json.dumps(batches_document(study, findings), allow_nan=False))
        assert (document["kind"], document["schema_version"]) == ("extrap-batches", 1)
        assert list(document) == [
            "kind",
            "schema_version",
            "name",
            "question",
            "level",
            "overhead",
            "headline",
            "agreement",
            "tasks",
        ]
    (task,) = batches_document(*one_task)["tasks"]
    assert task["collapse"]["n_sizes"] == 4
    assert task["front"]["is_counted"] is True
    assert len(task["front"]["points"]) == 12
    assert [each["target"] for each in task["front"]["recommended"]] == [2.5, 2.2]
    exponent = task["joint_rate_law"]["exponents"]["batch_size"]
    assert exponent["value"] == pytest.approx(0.5, abs=0.03)
    assert len(task["critical"]["groups"]) == 8
    assert task["rates"][0]["size"] == {"width": 16.0}


def test_missing_numbers_are_null(one_task: Study) -> None:
    study, (found,) = one_task
    missed = found.checked.assign(steps=math.nan)
    document = batches_document(study, (replace(found, checked=missed),))
    assert document["tasks"][0]["front"]["points"][0]["steps"] is None
    json.dumps(document, allow_nan=False)


def test_text_for_a_terminal_has_every_answer(one_task: Study) -> None:
    text = batches_text(*one_task)
    assert NBSP not in text
    for words in ("Batches up to", "kept from the fits", "Counted at", "Rules", "collapse"):
        assert words in text


def test_page_loads_nothing_escapes_names_and_tells_the_index(
    one_task: Study, tmp_path: Path
) -> None:
    html = page_of(one_task, tmp_path, question="Which ba<t>ch?")
    assert "ba&lt;t&gt;ch" in html
    assert "ba<t>ch" not in html
    assert html.count("<script") == 2  # the numbers, and what sorts tables
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert 'name="extrap:answer"' in html
    assert "empty" not in html.split("Provenance</h2>")[1]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([a-z]\w*)"', html)) <= set(ids)
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL).split()


@pytest.mark.usefixtures("without_ink")
def test_sections_appear_only_where_there_is_something_to_show(
    one_task: Study, two_tasks: Study, tmp_path: Path
) -> None:
    full = page_of(one_task, tmp_path)
    keys = ("steps", "front", "rate", "agreement", "noise", "collapse0", "numbers", "limits")
    for key in keys:
        assert f'<section id="{key}">' in full, key
    assert full.count("<figure") == 4 + 2 + 2 + 3
    several = page_of(two_tasks, tmp_path)
    assert 'id="collapse0"' not in several
    assert full.index('id="steps"') < full.index('id="agreement"')
    assert several.index('id="agreement"') < several.index('id="steps"')
    (found,) = one_task[1]
    silent = replace(
        found.result, noise=pd.DataFrame(), courses=pd.DataFrame(), rate_laws={}, joint=None
    )
    bare = (one_task[0], (BatchFindings(result=silent),))
    html = page_of(bare, tmp_path)
    for key in ("agreement", "noise", "collapse0", "rate"):
        assert f'id="{key}"' not in html, key
    assert "best rate goes as" not in html


@pytest.mark.usefixtures("without_ink")
def test_answer_reads_as_it_did(one_task: Study, tmp_path: Path) -> None:
    """Words compared whole, numbers left to other tests.

    After a deliberate change copy the fragment that a failure leaves to `golden/`.
    """
    answer = re.search(r'<div class="answer.*?</section>', page_of(one_task, tmp_path), re.DOTALL)
    assert answer is not None
    text = re.sub(r"\d+(\.\d+)?", "#", plain(answer[0]))
    found = re.sub(r">\s*<", ">\n<", text) + "\n"
    (tmp_path / "batches.html").write_text(found, encoding="utf-8")
    golden = Path(__file__).parent / "golden" / "batches.html"
    assert found == golden.read_text(encoding="utf-8")
