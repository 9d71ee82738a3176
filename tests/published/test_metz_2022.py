"""Metz 2022, On the difficulty of extrapolation with NN scaling: loss(h) = 7.0 − 0.275 log h.

The line that eight widths at one learning rate lie on. Its values follow from the formula; what
counts is that fitting it gives the two numbers back, and that the fit warns: a straight line in
log h falls below zero.
"""

import numpy as np
import pytest

from extrap.fitting.loss_law import fit, predict_log, relative_sizes
from extrap.laws import LOSS_LAWS

WIDTHS = [16.0, 64.0, 256.0, 1024.0, 4096.0]
LOSSES = [6.2375, 5.8563, 5.4751, 5.0938, 4.7126]


def test_law_gives_the_published_line():
    values = LOSS_LAWS["log_linear"].predict(np.array([7.0, 0.275]), np.array(WIDTHS)[:, None])
    assert values == pytest.approx(LOSSES, abs=5e-5)


def test_fit_gives_the_line_back_and_warns_that_it_turns_negative():
    fitted = fit("log_linear", {"width": WIDTHS}, LOSSES)
    assert fitted.parameters["b"] == pytest.approx(0.275, abs=1e-4)
    at_one = predict_log(fitted, relative_sizes(fitted, {"width": 1.0}))[0]
    assert np.exp(at_one) == pytest.approx(7.0, abs=1e-3)
    assert fitted.flags == ("loss-turns-negative",)
    beyond = predict_log(fitted, relative_sizes(fitted, {"width": 1e12}))[0]
    assert beyond[0] < -600  # no loss, and no error either
