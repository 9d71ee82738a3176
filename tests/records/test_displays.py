from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

import extrap
from extrap.comparing.results import Comparison, Contrast, Crossover, SizeDifference
from extrap.monitoring import Reading
from extrap.noise import noise_scale
from extrap.planning.results import Allocation, Estimated
from extrap.records import Estimate, Interval, Measure, Runs, Verdicts
from extrap.records.displays import MOST_ROWS, between, html_table, quantity, spanned
from tests.reporting.hostile import EVIL, PAYLOADS, poisoned

TAGS = {"div", "p", "strong", "small", "table", "thead", "tbody", "tr", "th", "td"}


class Shown(HTMLParser):
    """The tags, attributes and cells of what a notebook shows."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.rows: list[list[str]] = []
        self.words = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag not in TAGS or not {name for name, _ in attrs} <= {"scope"}:
            self.wrong.append(f"{tag} {attrs}")
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def shown(record: object) -> Shown:
    page = Shown(record._repr_html_())
    assert page.wrong == []
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def runs() -> Runs:
    return extrap.read_runs("examples/sweep.csv", size="width", tune="lr")


@pytest.fixture(scope="module")
def made(runs: Runs) -> extrap.Forecast:
    return extrap.forecast(runs)


@pytest.fixture(scope="module")
def verdicts(made: extrap.Forecast) -> Verdicts:
    return extrap.check(made, extrap.read_runs("examples/big.csv", size="width", tune="lr"))


def test_runs_say_how_many_there_are_and_what_they_range_over(runs):
    assert repr(runs) == (
        "Runs(288 complete; width 16–192 (8 values); lr 0.000977–0.0625 (9 values); 4 seeds; "
        "source 'examples/sweep.csv')"
    )
    table = shown(runs).rows
    assert table[0] == ["width", "runs", "without a loss", "lr", "smallest loss"]
    assert len(table) == 1 + 8
    assert sum(int(row[1]) for row in table[1:]) == 288
    frame = runs.to_frame()
    assert table[1][4] == f"{frame.loc[frame['width'] == 16, 'loss'].min():.4g}"


def test_runs_without_a_loss_and_larger_runs_are_counted():
    frame = pd.DataFrame(
        {"n": [1, 1, 2], "loss": [2.0, None, 1.5], "stage": ["tune"] * 2 + ["check"]}
    )
    odd = Runs.from_frame(frame, sizes=["n"])
    assert repr(odd) == (
        "Runs(2 complete, 1 diverged; n 1–2 (2 values); 3 seeds; "
        "2 of stage tune, 1 of stage check)"
    )
    assert [row[2] for row in shown(odd).rows[1:]] == ["1", "0"]
    none = odd.of_stage("check").of_stage("tune")
    assert repr(none) == "Runs(empty; n empty; 0 seeds)"
    assert shown(none).rows == []


def test_a_forecast_says_its_laws_and_the_points_people_ask_for(made):
    text = repr(made)
    point = made.at(width=384)
    assert f"at width 384: loss {point.loss:.4g} ({between(point.loss_pi)})" in text
    slope = made.tuned_laws["lr"].values[1]
    assert f"best lr: ∝ width^{slope:.3g}" in text
    assert all(f"flag: {flag}" in text for flag in made.flags)
    page = shown(made)
    assert page.rows[1][:3] == ["384", "2×", f"{point.loss:.4g}"]
    assert page.rows[1][3] == between(point.loss_pi)
    assert len(page.rows) == 4


def test_a_point_shows_both_of_its_intervals(made):
    point = made.at(width=1024)
    rows = {row[0]: row[1:] for row in shown(point).rows[1:]}
    lr = point.tuned["lr"]
    assert rows["loss"] == [f"{point.loss:.4g}", between(point.loss_ci), between(point.loss_pi)]
    assert rows["lr"] == [f"{lr.value:.4g}", between(lr.ci), between(lr.pi)]
    assert repr(point).startswith("Point(width 1024, 5.33× fitted: loss ")


def test_a_fit_shows_its_parameters_with_their_errors(made):
    fit = made.loss_laws[0][0]
    rows = dict(shown(fit).rows[1:])
    error = fit.covariance[0][0] ** 0.5
    assert rows[fit.names[0]] == f"{fit.values[0]:.4g} ± {error:.2g}"
    assert repr(replace(fit, fixed={fit.names[0]: 1.0})).count("pinned") == 1


def test_verdicts_are_a_tuple_and_a_table(verdicts):
    assert isinstance(verdicts, tuple)
    assert verdicts == tuple(verdicts)
    n_off = sum(v.on_law is False for v in verdicts)
    assert repr(verdicts).startswith(
        f"Verdicts(12 runs, {n_off} off the law)\n  Verdict(on the law"
    )
    rows = shown(verdicts).rows
    assert rows[0][:4] == ["verdict", "width", "lr", "seed"]
    assert [row[0] == "OFF the law" for row in rows[1:]] == [v.on_law is False for v in verdicts]
    assert len(shown(verdicts[0]).rows) == 2
    assert shown(Verdicts()).rows == []
    unjudged = replace(verdicts[0], on_law=None, loss=None, deviation=None, status="diverged")
    assert "not judged" in repr(unjudged)
    assert "diverged; the forecast" in repr(unjudged)


def test_small_records_are_short():
    assert repr(Interval(1.25, None)) == "Interval(1.25, None)"
    assert repr(Measure(value=None, ci=Interval(None, 2.0))) == "Measure(unknown, ci at most 2)"
    estimate = Estimate(value=2.0, se=0.1, ci=Interval(1.8, 2.2), pi=Interval(1.5, None))
    assert repr(estimate) == "Estimate(2, ci 1.8 to 2.2, pi at least 1.5)"
    assert repr(noise_scale([4.0, 4.1], [2.0, 2.2], batch_small=1, batch_big=4)).startswith(
        "NoiseScale(noise scale"
    )


def test_a_backtest_shows_every_prediction(runs):
    found = extrap.backtest(runs)
    rows = shown(found).rows
    assert len(rows) == 1 + len(found.holdouts)
    assert rows[1][4] == f"{found.holdouts[0].predicted:.4g}"
    assert "10 predictions of 8 sizes: rms error" in repr(found)
    assert repr(replace(found, holdouts=())) == "Backtest(rolling, 0 predictions of 8 sizes)"


UNKNOWN = Measure(value=None, ci=Interval(None, None))
EVIL_NAME = PAYLOADS["script"]


def measure(value: float, half: float = 0.1) -> Measure:
    return Measure(value=value, ci=Interval(value - half, value + half))


def test_an_allocation_shows_every_estimator_and_why_others_were_refused():
    split = Estimated(
        params=measure(2e9, 1e8),
        tokens=measure(4e10, 1e9),
        tokens_per_param=measure(20.0),
        loss=measure(2.0),
        loss_if_right=measure(2.0),
        exponent=UNKNOWN,
        n_points=9,
        how="",
    )
    found = Allocation(
        flops=4.8e20,
        level=0.9,
        estimator="isoflop",
        estimators={"isoflop": split, "parametric": replace(split, params=measure(3e9, 1e8))},
        refused={"envelope": f"too few curves of {EVIL_NAME}"},
        law=None,
        extrapolation_ratio=10.0,
        discrepancy=0.1,
        frontier_offset=None,
        warnings=("far",),
    )
    assert repr(found) == (
        "Allocation(4.8e+20 FLOPs by isoflop: parameters 2e+09 (1.9e+09 to 2.1e+09), "
        "tokens 4e+10 (3.9e+10 to 4.1e+10), loss 2 (1.9 to 2.1); 1 warning)"
    )
    page = shown(found)
    assert [row[0] for row in page.rows] == ["estimator", "isoflop", "parametric"]
    assert page.rows[1][-1] == "unknown"
    assert "envelope: too few curves of <script>" in page.words


def test_a_comparison_shows_each_recipe_against_the_plain_one():
    at = SizeDifference(
        size={"width": 512.0},
        n_pairs=0,
        plain=measure(2.0),
        treated=measure(1.9),
        difference=measure(-0.05, 0.01),
        is_forecast=True,
    )
    contrast = Contrast(
        treated=EVIL_NAME,
        verdict="shift",
        p_value=0.001,
        p_adjusted=0.002,
        by_size=(),
        at_target=at,
        exponents={},
        exponent_difference=measure(0.01, 0.02),
        effective_compute=(),
        crossover=Crossover(size=UNKNOWN, better_below="", is_inside=False),
    )
    found = Comparison(
        plain="adam",
        contrasts=(contrast, replace(contrast, treated="sgd", verdict="unknown", at_target=None)),
        columns=("width",),
        target={"width": 512.0},
        level=0.95,
        laws={},
        costs=(),
    )
    assert "sgd: unknown, difference unknown" in repr(found)
    rows = shown(found).rows
    assert rows[1][:4] == [EVIL_NAME, "shift", "0.002", "-5 (-6 to -4) %"]


def test_a_reading_says_where_a_run_stands():
    reading = Reading(
        step=500.0,
        fraction=0.25,
        loss=2.5,
        expected=2.4,
        band=Interval(2.3, 2.5),
        e_value=30.0,
        alarm=True,
        cause="mistuned",
        advice="",
    )
    assert repr(reading) == (
        "Reading(step 500, 25 %: loss 2.5, expected 2.4 (2.3 to 2.5), e-value 30; ALARM, mistuned)"
    )


@pytest.mark.parametrize("payload", [*PAYLOADS.values(), EVIL], ids=[*PAYLOADS, "all"])
def test_names_from_files_are_text_and_nothing_else(made, verdicts, payload):
    point = poisoned(made.at(width=1024), {"width": payload, "lr": payload + " 2"})
    judged = poisoned(verdicts, {"width": payload, "mistuned": payload})
    fit = poisoned(made.loss_laws[0][0], {"width": payload})
    for record in (point, judged, judged[0], fit):
        assert shown(record).rows
        assert not {c for c in record._repr_html_() + repr(record) if ord(c) < 32 and c != "\n"}
    rows = shown(Verdicts(judged[:1])).rows
    assert rows[0][1].startswith(" ".join(payload.split())[:20].replace("\x1b", ""))


def test_a_source_with_a_command_for_the_terminal_is_spelled_out(runs):
    text = repr(replace(runs, source="\x1b[31m<b>.csv\nsecond line"))
    assert "\x1b" not in text
    assert "\n" not in text


def test_a_long_table_is_cut_and_says_so():
    page = Shown(html_table("t", ["a"], [[str(i)] for i in range(MOST_ROWS + 5)], notes=["n < 1"]))
    assert len(page.rows) == 1 + MOST_ROWS
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 5} rows." in page.words
    assert "n < 1" in page.words


def test_numbers_are_written_as_people_type_them():
    assert quantity(1048576) == "1.04858e+06"
    assert quantity(0.0009765625) == "0.000977"
    assert quantity(None) == "unknown"
    assert spanned("width", [64]) == "width 64"
    assert between((None, None)) == "unknown"
