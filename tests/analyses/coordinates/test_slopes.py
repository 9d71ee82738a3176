import numpy as np
import pytest
from scipy import stats

from extrap.analyses.coordinates.slopes import coordinate_of, width_slope
from extrap.training.layer_traces import Trace

WIDTHS = (64, 128, 256, 512)
BEND = (0.01, -0.01, -0.01, 0.01)
"""Logs about a line, on which they have no slope."""


def layer(outputs=0.0, changes=0.0, updates=None, aligned=None, widths=WIDTHS, head_size=0.0):
    """A layer whose numbers go as powers of the width."""

    def trace(i, width):
        def power(exponent):
            return float(np.exp(BEND[i]) * width**exponent)

        return Trace(
            outputs=[power(outputs)] * 2,
            changes=[0.0, power(changes)],
            updates=[] if updates is None else [0.0, power(updates)],
            aligned=[]
            if updates is None
            else [0.0, power(updates if aligned is None else aligned)],
            head_size=round(width**head_size) if head_size else 0,
        )

    return coordinate_of("layer", [[trace(i, w)] * 2 for i, w in enumerate(widths)], widths)


def test_a_slope_has_the_interval_of_a_line_through_the_means():
    rng = np.random.default_rng(0)
    logs = 0.3 * np.log(WIDTHS)[:, None] + rng.normal(size=(4, 1)) + 1e-3 * rng.normal(size=(4, 3))
    slope = width_slope(np.exp(logs).tolist(), WIDTHS)
    line = stats.linregress(np.log(WIDTHS), logs.mean(axis=1))
    half = stats.t.ppf(0.975, 2) * line.stderr
    assert slope.value == pytest.approx(line.slope)
    assert tuple(slope.ci) == pytest.approx((line.slope - half, line.slope + half))


def test_seeds_scatter_at_least_as_much_as_the_residuals():
    logs = 0.3 * np.log(WIDTHS)[:, None] + np.array([[-0.1, 0.0, 0.1]])
    slope = width_slope(np.exp(logs).tolist(), WIDTHS)
    spread = np.var(np.log(WIDTHS)) * 4
    half = stats.t.ppf(0.975, 2) * np.sqrt(0.01 / 3 / spread)
    assert slope.ci.upper - slope.value == pytest.approx(half)


def test_two_widths_have_a_slope_without_interval_and_what_is_0_has_none():
    assert tuple(width_slope([[1.0], [2.0]], (8, 16)).ci) == (None, None)
    assert width_slope([[1.0], [2.0]], (8, 16)).value == pytest.approx(1)
    assert width_slope([[0.0]] * 4, WIDTHS).value is None


@pytest.mark.parametrize(
    ("powers", "verdict", "exponent"),
    [
        ({}, "stable", None),
        ({"updates": 0.0}, "stable", None),
        ({"updates": 0.9}, "grows", 0.9),
        ({"updates": -0.9}, "vanishes", -0.9),
        ({"updates": 0.16}, "stable", None),  # beyond, but not its whole interval
        ({"updates": -0.5, "aligned": 0.0}, "stable", None),  # what meets by chance falls
        ({"updates": 0.0, "aligned": -0.5}, "stable", None),
        ({"changes": 0.5}, "grows", 0.5),
        ({"changes": -0.5, "outputs": -0.5}, "stable", None),  # a readout
        ({"outputs": 0.5}, "grows", 0.5),
        ({"outputs": -0.5, "head_size": 1.0}, "stable", None),  # scores divided by d
        ({"outputs": 0.0, "head_size": 1.0}, "grows", 0.5),  # by its root
    ],
)
def test_a_layer_breaks_if_the_whole_interval_lies_beyond(powers, verdict, exponent):
    judged = layer(**powers)
    assert judged.verdict == verdict
    assert judged.exponent == (None if exponent is None else pytest.approx(exponent, abs=0.02))


def test_three_widths_have_numbers_and_no_verdict():
    judged = layer(updates=1.0, widths=WIDTHS[:3])
    assert (judged.verdict, judged.exponent) == (None, None)
    assert judged.update_slope.value == pytest.approx(1, abs=0.05)


def test_what_does_not_move_is_still_and_what_is_not_finite_diverged():
    rows = [[Trace(outputs=[1.0, 1.0], changes=[0.0, 0.0])] for _ in WIDTHS]
    assert coordinate_of("frozen", rows, WIDTHS).verdict == "still"
    rows[1] = [Trace(outputs=[1.0, 1.0], changes=[0.0, float("inf")])]
    assert coordinate_of("layer", rows, WIDTHS).verdict == "diverged"


@pytest.mark.parametrize(
    ("slopes", "verdict"),
    [
        ({"updates": 0.4}, "unclear"),
        ({"updates": -0.4}, "unclear"),
        ({"outputs": 0.4}, "unclear"),
        ({"outputs": -0.4}, "stable"),  # a start may fall
        ({"updates": 0.1}, "stable"),
    ],
)
def test_a_layer_whose_interval_leaves_a_fault_possible_is_unclear(slopes, verdict, monkeypatch):
    bend = tuple(8 * log for log in BEND)  # intervals of ± .31
    monkeypatch.setitem(globals(), "BEND", bend)
    assert layer(**slopes).verdict == verdict
