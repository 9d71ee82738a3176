import math

import pytest

from extrap.analyses.coordinates.transfer import rate_transfer
from extrap.records import StudySpec, TunedRange


class Sweep:
    """Losses whose best rate goes as a power of the width."""

    def __init__(self, power):
        self._power = power

    def sweep(self, widths, steps, seeds):
        def train(size, tuned, seed):
            octaves = math.log2(tuned["lr"]) + 8 - self._power * math.log2(size["width"] / 64)
            return 2 + 0.02 * octaves**2 + 1e-4 * (-1) ** seed

        any_rates = {"lr": TunedRange(low=1e-3, high=1e-2, n=2)}
        spec = StudySpec(name="s", question="", sizes={"width": widths}, tune=any_rates)
        return spec, train


@pytest.mark.parametrize(
    ("power", "widths", "verdict"),
    [
        (-0.05, (64, 128, 256, 512), "transfers"),
        (-1.0, (64, 128, 256), "moves"),
        (-1.0, (64, 256), "moves"),
    ],
)
def test_the_best_rate_moves_as_it_was_drawn(power, widths, verdict):
    answer = rate_transfer(Sweep(power), widths, 2**-8, 10, (0, 1))
    assert answer.slope.value == pytest.approx(power, abs=0.05)
    assert answer.slope.ci.lower < answer.slope.value < answer.slope.ci.upper
    assert answer.rates[0] == pytest.approx(2**-8, rel=0.05)
    assert (answer.verdict, answer.widths, answer.steps) == (verdict, widths, 10)


def test_no_more_than_four_widths_are_tuned():
    answer = rate_transfer(Sweep(0.0), (16, 32, 64, 128, 256), 2**-8, 10, (0, 1))
    assert answer.widths == (16, 32, 64, 128)
