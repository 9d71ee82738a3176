"""A certified non-linear fit: the fitter itself against NIST's statistical reference datasets.

NIST StRD, DanWood (Daniel and Wood 1980, p. 428): `y = b1 x^b2`, six observations, certified to
eleven digits. In our terms the size is `x^-2`, which keeps the exponent within bounds, and weights
y² turn relative residuals into absolute ones.
"""

import numpy as np
import pytest

from extrap.fitting.loss_law import fit

X = np.array([1.309, 1.471, 1.490, 1.565, 1.611, 1.680])
Y = np.array([2.138, 3.421, 3.597, 4.340, 4.882, 5.660])
B1, B2 = 0.76886226176, 3.8604055871
SD_B2 = 0.051726610913
SUM_OF_SQUARES, RESIDUAL_SD = 4.3173084083e-3, 3.2853114039e-2


def test_certified_values_are_met():
    fitted = fit("power", {"size": X**-2}, Y, weights=Y**2)
    b, c = fitted.values
    assert 2 * c == pytest.approx(B2, rel=1e-8)
    assert b * fitted.reference[0] ** c == pytest.approx(B1, rel=1e-8)
    # the weights are normalised to mean 1
    assert fitted.chi2 * np.mean(Y**2) == pytest.approx(SUM_OF_SQUARES, rel=1e-8)
    assert np.sqrt(fitted.chi2 * np.mean(Y**2) / fitted.dof) == pytest.approx(RESIDUAL_SD)
    # our standard errors are those of log residuals, the same to first order in them (.8 % here)
    assert 2 * np.sqrt(fitted.covariance[1][1]) == pytest.approx(SD_B2, rel=0.02)
