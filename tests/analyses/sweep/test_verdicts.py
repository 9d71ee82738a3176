"""What a check says agrees with the interval that it prints; `benchmarks.verdicts` draws more."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.verdicts import drawn
from extrap.analyses.sweep.verdicts import check, check_answer
from extrap.records import Runs
from tests.checking.byhand import LARGE, by_hand, loss_at, of_rate

REFUSED = of_rate(scatter=2.0)
"""Where the best rate lies is known to a factor of e² at every size."""


def test_verdict_interval_headline_page_and_exit_code_agree():
    tables = [table for number in range(6) for table in drawn(0, number, n_tables=5)]
    assert [wrong for _, wrong, _ in tables if wrong] == []
    outcomes = {outcome for _, _, found in tables for outcome in found}
    assert (len(tables), outcomes) == (36, {True, False, None})


@pytest.mark.parametrize(
    ("offs", "answer"),
    [
        ([(0.0, 0.0), (2.0, 0.04)], "1 of 2 configurations off the law (1 mistuned); 0 of 2"),
        (
            [(0.0, 0.4), (2.0, 0.04)],
            "2 of 2 configurations off the law (1 by the loss, 1 mistuned)",
        ),
        ([(0.0, 0.0), (0.1, 0.0)], "0 of 2 configurations off the law; 0 of 2"),
    ],
)
def test_the_answer_says_why_configurations_are_off_and_counts_losses(offs, answer):
    """Octaves from the best rate, and log deviations from the law, of one run each."""
    table = pd.DataFrame(
        {**LARGE, "lr": 0.0025 * 2**u, "seed": i, "loss": loss_at(1024) * math.exp(d)}
        for i, (u, d) in enumerate(offs)
    )
    made = by_hand(surface=of_rate(scatter=0.05), level=0.99)
    verdicts = check(made, Runs.from_frame(table, sizes=["width"], tuned=["lr"]))
    text = check_answer(verdicts, made).text
    assert text.startswith(answer)
    n_outside = sum(v.p_value <= 0.01 for v in verdicts)
    assert f"; {n_outside} of 2 losses outside their intervals, 0.02 expected by chance" in text
    assert ("smallest p-value" in text) == (n_outside > 0)


def checked(loss, *, made=None, lr=0.0025, **options):
    table = pd.DataFrame([{**LARGE, "lr": lr, "seed": 9, "loss": loss}])
    runs = Runs.from_frame(table, sizes=["width"], tuned=["lr"])
    (found,) = check(made or by_hand(surface=REFUSED), runs, **options)
    return found


def test_run_above_the_interval_of_tuned_runs_is_undecided_where_the_rate_is_refused():
    """Ticket 53: 7, 9 and 10 % too high, and called on the law of an interval down to a tenth."""
    made = by_hand(surface=REFUSED)
    assert "lr" in made.at(**LARGE).refusals
    sealed = made.at(**LARGE).loss_pi
    for off in (0.07, 0.09, 0.10):
        found = checked(loss_at(1024) * math.exp(off))
        assert found.predicted_pi == pytest.approx(sealed)
        assert found.loss > sealed.upper
        assert (found.on_law, found.cause) == (None, None)
        assert found.advice.startswith("Undecided: ")
        assert found.expected_pi.lower == pytest.approx(sealed.lower)
        assert found.expected_pi.upper > found.loss


def test_what_the_rate_may_cost_never_makes_a_loss_below_the_law_expected():
    """Neither refused nor known rates excuse a loss that is lower than that of tuned runs."""
    for made in (by_hand(), by_hand(surface=REFUSED)):
        lower = made.at(**LARGE).loss_pi.lower
        assert checked(0.999 * lower, made=made).on_law is False
        assert checked(1.001 * lower, made=made).on_law is True


def test_where_only_worse_counts_a_lower_loss_is_on_the_law_and_a_small_excess_is_off():
    made = by_hand(surface=of_rate(scatter=0.01))
    both = made.at(**LARGE).loss_pi
    for loss, on_law in ((0.9 * both.lower, True), (1.001 * loss_at(1024), True)):
        found = checked(loss, made=made, worse=True)
        assert (found.on_law, found.predicted_pi.lower) == (on_law, None)
    one_sided = checked(loss_at(1024), made=made, worse=True).predicted_pi.upper
    between = (one_sided + both.upper) / 2
    assert loss_at(1024) < one_sided < both.upper
    assert checked(between, made=made).on_law is True
    assert checked(between, made=made, worse=True).on_law is False


def test_interval_that_would_pass_a_run_as_good_as_the_sweeps_largest_decides_nothing():
    """The law falls by 13 % from width 256 to 1024."""
    for sd, on_law in ((0.04, True), (0.08, None)):
        made = by_hand()
        noise = replace(made.noise, own_sd=sd)
        found = checked(loss_at(1024), made=replace(made, noise=noise))
        assert (found.loss in found.predicted_pi, found.on_law) == (True, on_law)


def test_verdicts_say_which_columns_stand_for_those_of_the_sweep():
    table = pd.DataFrame([{"Width": LARGE["width"], "lr": 0.0025, "loss": loss_at(1024)}])
    found = check(by_hand(), table)
    (note,) = found.notes
    assert "width stands in the column Width" in note
    assert repr(found).startswith(f"{note}\nVerdicts(")
    assert check(by_hand(), table.rename(columns={"Width": "width"})).notes == ()
