"""The page is whole, escaped, self-contained and reproducible."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from extrap.checking import check
from extrap.forecasting import forecast
from extrap.records import Interval, Verdict
from extrap.reporting import report, write_index

from .conftest import RATES, as_runs, large_frame, sweep_frame, true_optimum

VOID = {"meta", "link", "br"}


class Tags(HTMLParser):
    """Every tag of a page, and those left open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags_of(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags


def write(tmp_path, made, verdicts=(), **options) -> str:
    path = report(made, verdicts, path=tmp_path / "deep" / "page.html", **options)
    html = path.read_text(encoding="utf-8")
    tags = tags_of(html)
    assert tags.seen.count("script") == 2  # the numbers, and what sorts tables
    assert len(set(tags.ids)) == len(tags.ids)
    return html


def test_page_of_a_full_study_is_self_contained_and_small(tmp_path, made, judge):
    html = write(tmp_path, made, judge(), provenance={"commit": "abc123"})
    loads = r"https?:|\bsrc=|@import|url\((?!#)|<iframe|<object|javascript:"
    assert not re.search(loads, _without_numbers(html))
    assert "default-src 'none'" in html
    assert "abc123" in html
    assert made.runs.data_hash() in html
    assert len(html) < 3_000_000
    for words in ("(a) Loss", "(b) Loss", "(c) Loss", "(d) Best", "octaves", "What this cannot"):
        assert words in html


def _without_numbers(html: str) -> str:
    """The page without its JSON, which is text to a browser, and without files to save."""
    html = re.sub(r'(?s)<script type="application/json".*?</script>', "", html)
    return re.sub(r'href="data:[^"]*"', "", html)


def test_same_input_gives_the_same_bytes(tmp_path, made, judge):
    pages = []
    for name, created in (("a", "2026-01-01T00:00:00+00:00"), ("b", "2027-02-02T00:00:00+00:00")):
        path = report(replace(made, created=created), judge(), path=tmp_path / f"{name}.html")
        html = path.read_text(encoding="utf-8")
        pages.append(html.replace(created, "CREATED").replace(created[:10], "CREATED"))
    assert pages[0] == pages[1]


def test_names_and_values_are_escaped_in_the_page_and_in_its_pictures(tmp_path, judge):
    evil, tuned = "<script>alert(1)</script>$x_1$", "</svg><b>$\\frac$"
    names = {"width": evil, "lr": tuned}
    made = forecast(as_runs(sweep_frame().rename(columns=names), (evil,), (tuned,)))
    verdicts = [
        replace(v, size={evil: v.size["width"]}, tuned={tuned: v.tuned["lr"]}, advice=evil)
        for v in judge()
    ]
    html = write(
        tmp_path, made, verdicts, title=evil, question=evil, provenance={evil: f'"{evil}'}
    )
    assert html.count("<script") == 2
    assert "</svg><b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;$x_1$" in html


@pytest.mark.usefixtures("without_ink")
def test_forecast_without_judged_runs_looks_twice_as_far(tmp_path, made):
    html = write(tmp_path, made)
    assert "Forecast for width\u00a0512 with lr" in html
    assert 'id="verdicts"' not in html


def test_diverged_run_is_no_number(tmp_path, made, judge):
    gone = [
        replace(v, loss=None, status="diverged", deviation=None, p_value=None, on_law=False)
        for v in judge()
    ]
    html = write(tmp_path, made, gone)
    assert "Off course: no run at width\u00a01024 reached a loss" in html
    assert "▲ no loss" in html
    assert not re.search(r"\bnan\b", html)


@pytest.mark.usefixtures("without_ink")
def test_worst_size_leads_the_answer(tmp_path, made, judge):
    verdicts = [
        replace(v, on_law=False, cause="law", loss=v.loss * 1.2) if v.size["width"] == 512 else v
        for v in judge()
    ]
    assert "Off course: loss at width\u00a0512" in write(tmp_path, made, verdicts)


def test_sweep_without_tuned_columns_renders(tmp_path):
    best = sweep_frame().groupby(["width", "seed"], as_index=False)["loss"].min()
    made = forecast(as_runs(best, tuned=()))
    html = write(tmp_path, made)
    assert "(b)" not in html
    assert "Thick line: the mean." in html


def test_optima_at_the_edge_of_the_grid_render_without_a_law(tmp_path):
    made = forecast(as_runs(sweep_frame(rates=RATES[:3])))
    html = write(tmp_path, made)
    assert "No law could be fitted." in html
    assert "Extend the grid there" in html
    assert "a loss of at most" in html


def grid_frame(**columns: tuple[float, ...]) -> pd.DataFrame:
    """A full factorial of columns; loss falls with sizes and has a valley in each tuned column."""
    index = pd.MultiIndex.from_product(columns.values(), names=list(columns))
    frame = index.to_frame(index=False)
    wiggle = 0.002 * np.sin(np.arange(len(frame)) ** 2)
    log_loss = wiggle
    for name in frame:
        u = np.log2(frame[name] / frame[name].median())
        falls = name in ("n_params", "n_tokens", "width")
        log_loss = log_loss + (-0.05 * u if falls else 0.02 * u**2)
    return frame.assign(loss=2 * np.exp(log_loss), seed=0)


def test_several_sizes_and_several_tuned_columns_render(tmp_path):
    frame = grid_frame(n_params=(1e6, 2e6, 4e6), n_tokens=(1e8, 4e8, 16e8), lr=RATES)
    made = forecast(as_runs(frame, ("n_params", "n_tokens")))
    judged = frame.iloc[-7:].assign(n_params=1.6e7, stage="check", loss=1.5)
    verdicts = check(made, as_runs(judged, ("n_params", "n_tokens")))
    html = write(tmp_path, made, verdicts)
    assert "with n_tokens = 1.6B" in html

    frame = grid_frame(width=(16, 32, 64, 128), lr=RATES, batch=(16, 32, 64, 128, 256))
    html = write(tmp_path, forecast(as_runs(frame, tuned=("lr", "batch"))))
    assert "(d1) Best lr" in html
    assert "(d2) Best batch" in html


@pytest.mark.usefixtures("without_ink")
def test_runs_that_do_not_know_their_rate_are_still_judged(tmp_path, made, judge):
    unknown = [replace(v, tuned={"lr": None}, expected=None) for v in judge()]
    assert "not known" in write(tmp_path, made, unknown)


@pytest.mark.usefixtures("without_ink")
def test_index_lists_reports_newest_first_and_nothing_else(tmp_path, made):
    for day, title in ((1, "Older & <b>"), (2, "Newer")):
        dated = replace(made, created=f"2026-01-0{day}T00:00:00+00:00")
        report(dated, path=tmp_path / f"{title[0]} {day}.html", title=title, question="Why?")
    (tmp_path / "other.html").write_text("<html><head><title>no</title></head></html>")
    path = write_index(tmp_path)
    html = path.read_text(encoding="utf-8")
    assert path.name == "index.html"
    assert html.index("Newer") < html.index("Older &amp; &lt;b&gt;")
    assert 'href="./N%202.html"' in html
    assert "other.html" not in html
    assert "Forecast for width" in html
    assert write_index(tmp_path).read_text(encoding="utf-8") == html


@pytest.mark.usefixtures("without_ink")
def test_verdict_outside_its_interval_but_within_chance_says_so(tmp_path, made):
    point = made.at(width=1024)
    loss = point.loss_pi.upper * 1.001
    verdict = Verdict(
        size={"width": 1024.0},
        tuned={"lr": true_optimum(1024)},
        seed=0,
        loss=loss,
        status="complete",
        predicted=point.loss,
        predicted_pi=Interval(*point.loss_pi),
        expected=point.loss,
        on_law=True,
        deviation=loss / point.loss - 1,
        p_value=0.04,
        cause=None,
        advice="On the law: nothing to do.",
    )
    assert "within what chance allows" in write(tmp_path, made, [verdict])


def test_large_frame_is_judged_as_it_was_made(judge):
    assert len(judge()) == len(large_frame())


@pytest.mark.usefixtures("without_ink")
def test_laws_come_with_their_bend_their_composition_and_what_to_use_instead(tmp_path, made):
    laws = write(tmp_path, made).split('id="laws"')[1].split("</section>")[0]
    assert "laws fitted to the loss" in laws
    assert "lr: no sign of a bend" in laws
    assert "What known rules would have said" in laws
    assert "What if it is not tuned again?" in laws
    assert "Values of the largest swept size, kept at width\u00a0512" in laws


@pytest.mark.usefixtures("without_ink")
def test_story_foresees_a_kept_value_with_its_interval(tmp_path, made):
    html = write(tmp_path, made)
    story = html.split('id="story-section"')[1].split("</section>")[0]
    found = made.frame_at_values([{"width": 2048.0}], tuned={"lr": 2**-6}).iloc[0]
    assert f"it puts the loss there at {found['loss']:.2f}" in story
    assert "lightly shaded, its 95\u00a0% interval" in story
    assert "A run at fixed tuned values, as expected" in story
    assert "is expected to give a loss of" in html


@pytest.mark.usefixtures("without_ink")
def test_pinned_parameters_are_marked_and_explained(tmp_path):
    made = forecast(as_runs(sweep_frame()), fix={"E": 1.6, "lr.b": -0.4})
    html = write(tmp_path, made)
    assert "1.600 pinned" in html
    assert "−0.4000 pinned" in html
    assert "<code>pinned</code> (E = 1.6)" in html


def test_sweep_without_tuned_columns_speaks_of_no_tuned_value(tmp_path):
    best = sweep_frame().groupby(["width", "seed"], as_index=False)["loss"].min()
    html = write(tmp_path, forecast(as_runs(best, tuned=())))
    for words in ("What known rules", "not tuned again", "bend", "Recommended"):
        assert words not in html
    assert "None of the 10 runs diverged" in html


@pytest.mark.usefixtures("without_ink")
def test_targets_off_the_drawn_path_are_not_said_to_lack_a_law(tmp_path):
    frame = grid_frame(n_params=(1e6, 2e6, 3e6, 4e6, 8e6), lr=RATES)
    tokens = {1e6: 4e8, 2e6: 1e8, 3e6: 8e8, 4e6: 2e8, 8e6: 16e8}
    frame["n_tokens"] = frame["n_params"].map(tokens)
    frame["loss"] *= frame["n_tokens"] ** -0.05
    html = write(tmp_path, forecast(as_runs(frame, ("n_params", "n_tokens"))))
    assert "lie off the path that is drawn" in html
    assert "too few sizes at one fixed value" not in html
