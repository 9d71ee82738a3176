"""One exam for every law; a new law joins by being listed in `extrap.laws.LAWS`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from extrap.fitting.loss_law import fit, predict_log
from extrap.laws import FAMILY, LAWS, LOSS_LAWS, Range
from extrap.laws.base import COMPLEX_STEP, exp, log_add_exp
from extrap.laws.testing import check_law

# Parameters of each law by number of size columns, coefficients before the shape.
EXAMPLES = {
    ("power", 1): [2.5, 0.3],
    ("power", 2): [2.5, 0.3, 0.15],
    ("power", 3): [2.5, 0.3, 0.15, 0.1],
    ("power", 4): [2.5, 0.3, 0.15, 0.1, 0.2],
    ("power_floor", 1): [1.7, 0.9, 0.45],
    ("power_floor", 2): [1.7, 0.5, 0.6, 0.34, 0.28],
    ("power_floor", 3): [1.7, 0.5, 0.6, 0.4, 0.34, 0.28, 0.5],
    ("power_floor", 4): [1.7, 0.5, 0.6, 0.4, 0.5, 0.34, 0.28, 0.5, 0.4],
    ("chinchilla_tied", 2): [1.7, 0.5, 0.6, 0.34],
    ("log_linear", 1): [5.0, 0.275],
    ("skaling", 2): [1.5, 0.9, 0.3, 0.4, 0.45, 0.8],
    ("optimum_power", 1): [-4.5, -0.4],
    ("optimum_power", 2): [-4.5, -0.4, 0.2],
    ("optimum_power", 3): [-4.5, -0.4, 0.2, 0.1],
    ("optimum_power", 4): [-4.5, -0.4, 0.2, 0.1, -0.3],
}
LOSS_CASES = [(law, k) for law in LOSS_LAWS.values() for k in law.n_columns]
# Without noise a nearly degenerate law returns its curve to rounding, its parameters less exactly.
NEARLY_DEGENERATE = {"skaling"}


def ids(cases):
    return [f"{law.key}-{k}" for law, k in cases]


def example(law, k):
    return np.array(EXAMPLES[law.key, k])


def sizes(k, n=12):
    return np.exp(np.random.default_rng(7).uniform(-3, 3, size=(n, k)))


def fitted_example(law, k, *, noise=0.0):
    """A fit to the law's own curve at sizes whose reference is 1, and those sizes."""
    x = sizes(k, n=30)
    x /= law.reference_size(x)
    noisy = noise * np.random.default_rng(3).normal(size=len(x))
    loss = np.exp(law.log_predict(example(law, k), x) + noisy)
    return fit(law.key, {f"x{i}": x[:, i] for i in range(k)}, loss), x


@pytest.mark.parametrize("law", LOSS_LAWS.values(), ids=list(LOSS_LAWS))
def test_law_passes_the_exam(law):
    check_law(law, {k: example(law, k).tolist() for k in law.n_columns})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"basis": lambda shape, z: LOSS_LAWS["power"].basis(abs(shape), z)}, "Not equal"),
        ({"basis": lambda shape, z: np.ones((len(z), 1))}, "basis must broadcast"),
        ({"basis": lambda shape, z: -LOSS_LAWS["power"].basis(shape, z)}, "must be positive"),
        ({"coefficient_names": ("b", "E")}, "the parameters with 1 columns"),
        ({"unit_free_names": ("k",)}, "a unit-free parameter"),
        ({"exponent_names": ("k",)}, "an exponent does not"),
        ({"shape_ranges": (("c*", Range(0.1, 1.0, (2.0,))),)}, "a start lies out"),
        ({"n_columns": (1, 2)}, "examples must cover"),
    ],
)
def test_exam_finds_what_is_wrong_with_a_law(changes, message):
    wrong = replace(LOSS_LAWS["power"], **{"n_columns": (1,), **changes})
    with pytest.raises(AssertionError, match=message):
        check_law(wrong, {1: EXAMPLES["power", 1]})


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_optimum_is_a_line_in_log_sizes(k):
    law, z = LAWS["optimum_power"], sizes(k)
    values = example(law, k)
    assert law.log_gradient(values, z)[:, 1:] == pytest.approx(np.log(z))
    assert law.log_predict(values, z) == pytest.approx(values[0] + np.log(z) @ values[1:])


FORMULAS = {
    "power-1": lambda b, c, x: b * x**-c,
    "power-2": lambda b, c, d, x, y: b * x**-c * y**-d,
    "power_floor-1": lambda e, b, c, x: e + b * x**-c,
    "power_floor-2": lambda e, a, b, c, d, x, y: e + a * x**-c + b * y**-d,
    "chinchilla_tied-2": lambda e, a, b, c, x, y: e + a * x**-c + b * y**-c,
    "log_linear-1": lambda a, b, x: a - b * math.log(x),
    "skaling-2": lambda e, s, a, b, k, r, x, y: e + s * (x ** (-a / k) + r * y ** (-b / k)) ** k,
    "optimum_power-2": lambda a, b, c, x, y: math.exp(a) * x**b * y**c,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_law_is_its_formula(name):
    key, k = name.split("-")
    values, z = example(LAWS[key], int(k)), sizes(int(k))
    expected = [math.log(FORMULAS[name](*values, *row)) for row in z]
    assert LAWS[key].log_predict(values, z) == pytest.approx(expected)


LOW, START = (0.005, 3.0), (0.05, 0.15, 0.4, 1.0)
RATIO, OF_TWO, OUTER = (
    (1e-6, 1e6, (0.3, 3.0), True),
    (0.005, 3.0, (0.15, 0.5), True),
    (0.05, 5.0, (0.35, 1.0), True),
)
EXPONENT = (*LOW, START, True)
RANGES = {
    "power": [EXPONENT, EXPONENT],
    "power_floor": [EXPONENT, EXPONENT],
    "chinchilla_tied": [EXPONENT],
    "log_linear": [],
    "skaling": [OF_TWO, OF_TWO, OUTER, RATIO],
}


@pytest.mark.parametrize("law", LOSS_LAWS.values(), ids=list(LOSS_LAWS))
def test_shape_is_searched_within_its_bounds_from_its_starts(law):
    """Sizes from half of the reference to four times it."""
    k = 1 if 1 in law.n_columns else law.n_columns[0]
    z = np.repeat([[0.5], [1.0], [4.0]], k, axis=1)
    found = law.ranges(z)
    for (low, high, starts, is_log), expected in zip(found, RANGES[law.key], strict=k > 1):
        told = [low, high, *starts]
        assert told == pytest.approx([*expected[:2], *expected[2]], rel=1e-9)
        assert is_log is expected[3]
    assert len(law.starts(z)) == math.prod(len(each.starts) for each in found)


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_law_recovers_its_own_parameters_from_noiseless_data(law, k):
    fitted, x = fitted_example(law, k)
    assert fitted.names == law.names(k)
    curve = predict_log(fitted, x)[0]
    assert curve == pytest.approx(law.log_predict(example(law, k), x), abs=1e-9)
    rel = 1e-3 if law.key in NEARLY_DEGENERATE else 1e-7
    assert fitted.values == pytest.approx(example(law, k), rel=rel)


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_unit_free_parameters_do_not_depend_on_the_reference_size(law, k):
    """At sizes in another unit the same curve has the same unit-free parameters."""
    x = sizes(k, n=30)
    x /= law.reference_size(x)
    loss = np.exp(law.log_predict(example(law, k), x))
    kept = slice(0, 25)  # another geometric mean
    here = fit(law.key, {f"x{i}": x[:, i] for i in range(k)}, loss).parameters
    there = fit(law.key, {f"x{i}": 1e6 * x[kept, i] for i in range(k)}, loss[kept]).parameters
    rel = 1e-3 if law.key in NEARLY_DEGENERATE else 1e-6
    for name in law.unit_free(k):
        assert there[name] == pytest.approx(here[name], rel=rel)


def test_family_that_a_forecast_mixes_is_made_of_loss_laws():
    assert set(LOSS_LAWS) < set(LAWS)
    assert all(1 in LOSS_LAWS[key].n_columns for key in FAMILY)


def test_exponential_of_a_complex_step_carries_its_derivative():
    t = np.array([-700.0, -1.0, 0.0, 2.0, 700.0])
    moved = exp(t + 1j * COMPLEX_STEP)
    assert moved.real == pytest.approx(np.exp(t))
    assert moved.imag / COMPLEX_STEP == pytest.approx(np.exp(t))
    assert exp(t).dtype == float


def test_logarithm_of_a_sum_does_not_overflow_and_carries_its_derivative():
    a, b = np.array([800.0, -800.0, 1.0, 1.0]), np.array([799.0, -801.0, 1.0, -900.0])
    assert log_add_exp(a, b) == pytest.approx(np.logaddexp(a, b))
    moved = log_add_exp(a + 1j * COMPLEX_STEP, b.astype(complex))
    assert moved.real == pytest.approx(np.logaddexp(a, b))
    assert moved.imag / COMPLEX_STEP == pytest.approx(1 / (1 + np.exp(b - a)))


def test_gradient_of_a_law_that_has_no_loss_is_zero():
    law, values = LOSS_LAWS["power"], np.array([[0.0, 0.3], [2.0, 0.3]])
    gradient = law.log_gradient(values, np.array([[1.0], [4.0]]))
    assert np.all(gradient[0] == 0)
    assert gradient[1, :, 0] == pytest.approx(0.5)
