"""A landing that was sealed, and the end of its run judged by it."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from extrap.analyses.landing import judge_landing, land
from extrap.analyses.landing.sealed import save_landing
from extrap.errors import DataError
from tests.landings import TOTAL, run_log

WHOLE = run_log()
HALF = WHOLE.iloc[:100]
LANDING = land(HALF, "cosine", TOTAL)


@pytest.fixture
def sealed(tmp_path):
    """The file of a landing at step 5,000."""
    save_landing(LANDING, HALF, tmp_path / "landing.json")
    return tmp_path / "landing.json"


def ended_at(loss):
    """The whole log with another last loss."""
    log = WHOLE.copy()
    log.loc[log.index[-1], "loss"] = loss
    return log


@pytest.mark.parametrize(("times", "is_inside"), [(1.0, True), (1.05, False), (0.95, False)])
def test_an_end_is_inside_or_outside(sealed, times, is_inside):
    judged = judge_landing(sealed, ended_at(times * LANDING.loss))
    assert judged.error == pytest.approx(times - 1)
    assert (judged.is_inside, judged.is_finished, judged.is_fine) == (is_inside, True, is_inside)
    assert judged.landing.interval == LANDING.interval


@pytest.mark.parametrize(("rows", "is_finished"), [(150, False), (197, False), (199, True)])
def test_a_run_that_goes_on_is_not_judged(sealed, rows, is_finished):
    """Every 50 of 10,000 steps: the last row may be missing, three may not."""
    judged = judge_landing(sealed, WHOLE.iloc[:rows])
    assert (judged.step, judged.is_finished, judged.is_fine) == (50 * rows, is_finished, True)


def test_a_run_that_went_on_beyond_the_end_is_not_judged(sealed):
    last = WHOLE.iloc[[-1]]
    with pytest.raises(DataError, match="goes to step 12000"):
        judge_landing(sealed, pd.concat([WHOLE, last.assign(step=12_000)]))
    assert judge_landing(sealed, pd.concat([WHOLE, last.assign(step=10_050)])).is_finished


def test_another_log_and_a_changed_file_are_refused(sealed):
    for log in (run_log(seed=1), WHOLE.drop(index=3), WHOLE.iloc[:90]):
        with pytest.raises(DataError, match="differs from that"):
            judge_landing(sealed, log)
    document = json.loads(sealed.read_text(encoding="utf-8"))
    document["landing"]["interval"] = [2.0, 4.0]
    sealed.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(DataError, match="seal"):
        judge_landing(sealed, WHOLE)


def test_a_run_with_other_rates_than_planned_is_not_judged(sealed):
    """The rate stays where it was at the seal."""
    other = WHOLE.assign(lr=WHOLE["lr"].where(WHOLE.index < HALF.index[-1], HALF["lr"].iloc[-1]))
    with pytest.raises(DataError, match="not those of the schedule"):
        judge_landing(sealed, other)


def test_a_refusal_is_not_sealed(tmp_path):
    refused = replace(LANDING, loss=None, refusal="Too early.")
    with pytest.raises(DataError, match="Too early"):
        save_landing(refused, HALF, tmp_path / "landing.json")
    assert not (tmp_path / "landing.json").exists()
