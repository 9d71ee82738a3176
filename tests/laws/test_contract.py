"""One exam for every law; a new law joins by being listed in `extrap.laws.LAWS`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields

import numpy as np
import pytest
from scipy import optimize

from extrap.fitting import fit, predict_log
from extrap.laws import FAMILY, JOINT_FAMILY, LAWS, LOSS_LAWS, Law, LossLaw
from extrap.records import Fit

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
    ("m3", 1): [2.0, 0.08, 0.35],
    ("m4", 1): [3.0, 0.2, 0.7, 0.8, 0.4],
    ("log_linear", 1): [5.0, 0.275],
    ("log_quadratic", 1): [2.5, -0.2, 0.01],
    ("bnsl", 1): [1.2, 0.9, 0.2, 0.3, 1.5, 0.3],
    ("kaplan_joint", 2): [2.5, 0.12, 0.2, 0.8],
    ("skaling", 2): [1.5, 0.9, 0.7, 0.6, 0.45, 0.8],
    ("skaling_tied", 2): [1.5, 0.9, 0.65, 0.45, 0.8],
    ("data_constrained", 3): [1.7, 0.5, 0.34, 0.28, 0.9, 15.0, 5.0],
    ("sparsity", 2): [1.7, 0.5, 0.3, 0.7, 0.4],
    ("sparsity", 3): [1.7, 0.5, 0.3, 0.4, 0.7, 0.4, 0.3],
    ("optimum_power", 1): [-4.5, -0.4],
    ("optimum_power", 2): [-4.5, -0.4, 0.2],
    ("optimum_power", 3): [-4.5, -0.4, 0.2, 0.1],
    ("optimum_power", 4): [-4.5, -0.4, 0.2, 0.1, -0.3],
}
CASES = [(law, k) for law in LAWS.values() for k in law.n_columns]
LOSS_CASES = [(law, k) for law in LOSS_LAWS.values() for k in law.n_columns]
# Without noise a nearly degenerate law returns its curve to rounding, its parameters less exactly.
NEARLY_DEGENERATE = {"bnsl", "m4", "skaling", "skaling_tied", "data_constrained"}


def ids(cases: list[tuple[Law, int]]) -> list[str]:
    return [f"{law.key}-{k}" for law, k in cases]


def example(law: Law, k: int) -> np.ndarray:
    return np.array(EXAMPLES[law.key, k])


def sizes(k: int, n: int = 12) -> np.ndarray:
    return np.exp(np.random.default_rng(7).uniform(-3, 3, size=(n, k)))


def fitted_example(law: LossLaw, k: int, *, noise: float = 0.0) -> tuple[Fit, np.ndarray]:
    """A fit to the law's own curve at sizes whose reference is 1, and those sizes."""
    x = sizes(k, n=30)
    x /= law.reference_size(x)
    noisy = noise * np.random.default_rng(3).normal(size=len(x))
    loss = np.exp(law.log_predict(example(law, k), x) + noisy)
    return fit(law.key, {f"x{i}": x[:, i] for i in range(k)}, loss), x


@pytest.mark.parametrize(("law", "k"), CASES, ids=ids(CASES))
def test_law_is_finite_and_keeps_the_shape_of_its_sizes(law: Law, k: int) -> None:
    values, z = example(law, k), sizes(k)
    assert law.log_predict(values, z).shape == (len(z),)
    assert law.log_gradient(values, z).shape == (len(z), len(values))
    assert np.isfinite(law.log_predict(values, z)).all()
    assert len(law.names(k)) == len(values)
    assert len(set(law.names(k))) == len(values)
    one_by_one = [law.log_predict(values, row[None])[0] for row in z]
    assert law.log_predict(values, z) == pytest.approx(one_by_one)


@pytest.mark.parametrize(("law", "k"), CASES, ids=ids(CASES))
def test_gradient_is_that_of_finite_differences(law: Law, k: int) -> None:
    values, z = example(law, k), sizes(k)
    numeric = optimize.approx_fprime(values, lambda v: law.log_predict(v, z), 1e-7)
    assert law.log_gradient(values, z) == pytest.approx(numeric, abs=2e-6)


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_loss_falls_with_every_size_where_the_law_says_so(law: LossLaw, k: int) -> None:
    values, z = example(law, k), sizes(k)
    if law.key == "log_quadratic":
        assert not law.always_falls
        z = z[z[:, 0] < 4]  # it turns up at ln z = −b / 2c = 10
    for column in range(k):
        larger = z.copy()
        larger[:, column] *= 2
        change = law.log_predict(values, larger) - law.log_predict(values, z)
        if law.key == "sparsity" and column == 1:
            assert not law.always_falls
            assert (change > 0).all()  # with as many weights in place a sparser model is better
        elif law.key == "data_constrained" and column == 2:
            assert (change <= 1e-12).all()  # more unique tokens than are seen change nothing
            assert (change[z[:, 2] < z[:, 1]] < 0).all()
        else:
            assert (change < 0).all()


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_basis_and_coefficients_make_up_the_law(law: LossLaw, k: int) -> None:
    values, z = example(law, k), sizes(k)
    n = len(law.coefficients(k))
    combined = law.basis(values[n:], z) @ values[:n]
    assert np.log(combined) == pytest.approx(law.log_predict(values, z))
    assert (law.basis(values[n:], z)[:, n > 1 :] > 0).any()


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_a_batch_of_shapes_is_a_loop_over_them(law: LossLaw, k: int) -> None:
    z, m = sizes(k), len(law.coefficients(k))
    rng = np.random.default_rng(1)
    batch = example(law, k) * rng.uniform(0.9, 1.1, size=(2, 3, len(example(law, k))))
    basis, slopes = law.basis_and_slopes(batch[..., m:], z)
    predicted, gradient = law.log_predict(batch, z), law.log_gradient(batch, z)
    assert basis.shape == (2, 3, len(z), m)
    assert slopes.shape == (2, 3, batch.shape[-1] - m, len(z), m)
    for i in np.ndindex(2, 3):
        assert basis[i] == pytest.approx(law.basis(batch[i][m:], z), rel=1e-12)
        assert slopes[i] == pytest.approx(law.basis_and_slopes(batch[i][m:], z)[1], rel=1e-9)
        assert predicted[i] == pytest.approx(law.log_predict(batch[i], z), rel=1e-12)
        assert gradient[i] == pytest.approx(law.log_gradient(batch[i], z), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_law_recovers_its_own_parameters_from_noiseless_data(law: LossLaw, k: int) -> None:
    fitted, x = fitted_example(law, k)
    assert fitted.names == law.names(k)
    curve = predict_log(fitted, x)[0]
    assert curve == pytest.approx(law.log_predict(example(law, k), x), abs=1e-9)
    rel = 1e-3 if law.key in NEARLY_DEGENERATE else 1e-7
    assert fitted.values == pytest.approx(example(law, k), rel=rel)


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_fit_survives_a_round_trip_through_json(law: LossLaw, k: int) -> None:
    fitted, _ = fitted_example(law, k, noise=0.01)
    document = json.loads(json.dumps(asdict(fitted), allow_nan=False))
    assert set(document) == {field.name for field in fields(Fit)}
    again = Fit(**{key: as_tuples(value) for key, value in document.items()})
    assert again == fitted


def as_tuples(value: object) -> object:
    return tuple(as_tuples(item) for item in value) if isinstance(value, list) else value


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_law_says_which_parameters_can_be_pinned_and_which_columns_must_vary(
    law: LossLaw, k: int
) -> None:
    assert set(law.unit_free(k)) <= set(law.names(k))
    assert len(law.exponents(k)) == k
    assert set(law.exponents(k)) - {None} <= set(law.names(k))
    ranges = law.ranges(sizes(k))
    assert len(ranges) == len(law.shape(k))
    for low, high, starts, is_log in ranges:
        assert all(low <= start <= high for start in starts)
        assert low > 0 or not is_log


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_unit_free_parameters_do_not_depend_on_the_reference_size(law: LossLaw, k: int) -> None:
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


@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_law_names_its_formula_and_its_source(law: Law) -> None:
    assert LAWS[law.key] is law
    assert "=" in law.formula
    assert re.search(r"(19|20)\d\d", law.reference)
    assert "References:" in (type(law).__doc__ or "")


def test_family_that_a_forecast_mixes_is_made_of_loss_laws() -> None:
    assert set(LOSS_LAWS) < set(LAWS)
    for member, n_columns in [*((m, 1) for m in FAMILY), *((m, 2) for m in JOINT_FAMILY)]:
        law = LOSS_LAWS[member.law]
        assert n_columns in law.n_columns
        assert set(member.held) <= set(law.unit_free(n_columns))
