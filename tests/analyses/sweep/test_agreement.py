"""One question has one number, wherever a page, a terminal or a file states it."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from extrap.analyses.sweep.judged_groups import OF_CONTRAST, group_verdicts
from extrap.analyses.sweep.page import forecast_blocks, forecast_page
from extrap.analyses.sweep.verdicts import check, verdicts_blocks
from extrap.records.numbers import format_quantity
from extrap.records.outcomes import Outcome
from extrap.reporting.tables import Table
from extrap.reporting.text import blocks_text
from tests.analyses.conftest import as_runs, large_frame, plain, true_optimum
from tests.analyses.sweep.agreement import (
    COST,
    COST_INTERVAL,
    INTERVAL,
    LOSS,
    SEEN,
    USE,
    conflicts,
    document_of,
    questions,
    read_text,
)

SIZE = "width 1024"


@pytest.fixture(params=["made", "diverging"])
def fitted(request):
    """A forecast, and one whose recommended rate lies far below the optimum of its law."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def verdicts(fitted):
    frame = large_frame()
    best = fitted.at(width=1024).recommended["lr"]
    return check(fitted, as_runs(frame.replace({"lr": {true_optimum(1024): best}})))


def test_no_two_statements_of_a_page_differ(fitted, verdicts):
    told = forecast_page(fitted, verdicts), document_of(fitted, verdicts)
    assert conflicts(*told) == {}
    found = questions(*told)
    places = {q: len({s.place for s in found[q, SIZE]}) for q in (USE, LOSS, INTERVAL, SEEN)}
    least = {USE: 5, LOSS: 6, INTERVAL: 4, SEEN: 3}
    assert all(places[quantity] >= n for quantity, n in least.items()), places
    assert len(found[COST, SIZE]) == len(found[COST_INTERVAL, SIZE]) == 2


def test_terminal_repr_frame_and_advice_state_the_numbers_of_the_point(fitted, verdicts):
    point, found = fitted.at(width=1024), defaultdict(list)
    read_text(found, plain(blocks_text(forecast_blocks(fitted, [point]))), [SIZE], "forecast")
    checked = plain(blocks_text(verdicts_blocks(verdicts, fitted))).split("width 1024")[-1]
    read_text(found, checked, [SIZE], "check")
    for verdict in verdicts:
        if verdict.size == point.size:
            read_text(found, verdict.advice, [SIZE], "verdict")
    use = [statement.numbers[0] for statement in found[USE, SIZE]]
    assert len(use) >= 4
    assert set(use) == {plain(format_quantity(point.recommended["lr"]))}
    losses = {f"{float(s.numbers[0]):.4g}" for s in found[LOSS, SIZE]}
    assert losses == {f"{point.loss:.4g}"}  # beside a narrow interval it has a digit more
    assert f"lr {point.recommended['lr']:.3g} (optimum " in repr(point)
    row = fitted.frame([1024]).iloc[0]
    assert (row["lr_recommended"], row["loss"]) == (point.recommended["lr"], point.loss)


def test_readme_states_one_rate_and_one_loss():
    text = Path("README.md").read_text(encoding="utf-8")
    assert len(set(re.findall(r"[Uu]se lr (\S+) ", text))) == 1
    losses = {float(f"{float(n):.3g}") for n in re.findall(r"expect a loss of ([\d.]+)", text)}
    assert len(losses) == 1


def configurations(groups, outcome):
    return {g.verdicts[0].configuration for g in groups if g.outcome is outcome}


def test_runs_mistuned_on_purpose_are_contrasts_and_no_faults(made, judge):
    verdicts = judge()
    kept = configurations(group_verdicts(verdicts), Outcome.MISTUNED)
    assert kept
    groups = group_verdicts(verdicts, kept)
    assert configurations(groups, Outcome.CONTRAST) == kept
    assert configurations(groups, Outcome.MISTUNED) == set()
    page = forecast_page(made, verdicts, contrasts=kept)
    assert (page.status, page.ok) == ("on law", True)
    (shown,) = [b for b in page.blocks if isinstance(b, Table)]
    marks = [plain(row[0]) for row in shown.rows if row[0].startswith("◇")]
    assert len(marks) == len(kept)
    assert set(marks) == {"◇ mistuned on purpose\noff law, mistuned"}  # the verdict itself stays
    assert forecast_page(made, verdicts).ok is False


def test_a_contrast_that_is_off_for_another_cause_is_a_fault(judge):
    verdicts = judge(1.3)
    off = {v.configuration for v in verdicts if v.cause not in OF_CONTRAST}
    assert off
    groups = group_verdicts(verdicts, {v.configuration for v in verdicts})
    assert configurations(groups, Outcome.OFF_LAW) == off
