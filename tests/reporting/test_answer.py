"""The first line of a page: when a larger run is called on course."""

from types import SimpleNamespace

import pytest

from extrap.records import Interval
from extrap.reporting.answer import AnswerRow, answer_sentences, headline


def row_of(made, *, observed, half_width, last_error):
    point = made.at(width=1024)
    own = SimpleNamespace(
        loss=point.loss, tuned=point.tuned, extrapolation_ratio=4.0, flags=point.flags
    )
    own.loss_pi = Interval(point.loss * (1 - half_width), point.loss * (1 + half_width))
    group = SimpleNamespace(kind="on", verdicts=(None,), tuned={"lr": 0.01})
    return AnswerRow(
        size={"width": 1024.0},
        point=own,
        group=group,
        observed=observed * point.loss,
        observed_se=None,
        error=observed - 1,
        last_value=1.0,
        last_error=last_error,
        recommended=None,
    )


@pytest.mark.parametrize(
    ("observed", "half_width", "last_error", "begins"),
    [
        (1.01, 0.03, 0.05, "On course"),
        (1.01, 0.03, -0.05, "On course"),
        (1.01, 0.06, 0.05, "Undecided"),  # too wide to be better than the last value
        (1.65, 0.70, 0.05, "Undecided"),
        (1.04, 0.03, 0.05, "Undecided"),  # outside
    ],
)
def test_on_course_means_inside_an_interval_that_beats_the_last_value(
    made, observed, half_width, last_error, begins
):
    row = row_of(made, observed=observed, half_width=half_width, last_error=last_error)
    assert headline(made, [row]).startswith(begins)
    said = " ".join(answer_sentences(made, [row], [row.group], None))
    assert ("cannot show" in said) == (half_width > abs(last_error))
