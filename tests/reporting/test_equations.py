import numpy as np
import pytest

from extrap.fitting import fit
from extrap.laws import LOSS_LAWS
from extrap.reporting.statements import equation

CURVE = {
    "width": 16 * 2.0 ** np.arange(8),
    "tokens": 1e6 * 3.0 ** np.array([2, 0, 5, 1, 3, 6, 4, 7]),
    "unique": 1e6 * 2.0 ** np.array([1, 0, 4, 2, 3, 5, 0, 6]),
}
LOSS = 1.5 + 2 * (CURVE["width"] / 16) ** -0.4 + (CURVE["tokens"] / 1e6) ** -0.3


def written(law):
    names = list(CURVE)[: LOSS_LAWS[law].n_columns[-1] if law != "power_floor" else 2]
    found = fit(law, {name: CURVE[name] for name in names[:3]}, LOSS)
    return "".join(f"^{text}" if raised else text for text, raised in equation(found, "loss"))


def test_sums_and_products_of_powers_are_written_with_their_numbers():
    assert "loss = 1.500 + " in written("power_floor")
    assert "(width / 181)^−0.400" in written("power_floor")
    assert written("chinchilla_tied").count("^−0.3") == 2
    assert written("log_linear").endswith("· ln(width / 181)")


@pytest.mark.parametrize("law", [key for key in LOSS_LAWS if key not in ("power", "power_floor")])
def test_every_law_can_be_written_down(law):
    text = written(law)
    assert text.startswith("loss")
    assert "width" in text
    if "with" in text:
        assert LOSS_LAWS[law].formula in text
        assert "181 for width" in text
