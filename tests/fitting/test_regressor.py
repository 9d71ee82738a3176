from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import extrap
from extrap.errors import DataError
from extrap.fitting import fit
from extrap.fitting.regressor import LawRegressor

WIDTHS = np.array([16.0, 24, 32, 48, 64, 96, 128, 192, 256])

ZEROS = "its data hold zeros, and a size of zero has no logarithm"
COLUMNS = "its data have 30 columns; a law has at most 4"
EXPECTED = {
    **dict.fromkeys(
        (
            "check_fit_score_takes_y",
            "check_estimators_overwrite_params",
            "check_dont_overwrite_parameters",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_n_features_in_after_fitting",
            "check_estimators_dtypes",
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
            "check_sample_weights_list",
            "check_all_zero_sample_weights_error",
            "check_dtype_object",
            "check_pipeline_consistency",
            "check_estimators_nan_inf",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_regressors_train",
            "check_regressor_data_not_an_array",
            "check_supervised_y_2d",
            "check_regressors_int",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_fit2d_1feature",
            "check_dict_unchanged",
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
            "check_fit2d_predict1d",
        ),
        ZEROS,
    ),
    "check_sample_weight_equivalence_on_dense_data": COLUMNS,
}
"""Checks of scikit-learn whose data no law of sizes can take, and why."""


class OfAnyNumbers(LawRegressor):
    """The same regressor over the sizes `exp(3 tanh(x / 10))` of one column of any numbers."""

    def _sizes(self, x: np.ndarray) -> np.ndarray:
        return np.exp(3 * np.tanh(x[:, :1] / 10))


def losses(width: np.ndarray, noise: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (1.5 + 2 * (width / 16) ** -0.4) * np.exp(noise * rng.normal(size=len(width)))


def table(noise: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    return pd.DataFrame({"width": WIDTHS}), losses(WIDTHS, noise)


def outcome(estimator: LawRegressor, expected: dict[str, str]) -> dict[str, set[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checks that were skipped
        found = check_estimator(
            estimator, expected_failed_checks=expected, on_fail=None, on_skip=None
        )
    names: dict[str, set[str]] = {}
    for each in found:
        names.setdefault(each["status"], set()).add(each["check_name"])
    return names


def test_it_passes_the_checks_of_scikit_learn_that_a_law_can_pass():
    found = outcome(LawRegressor(), EXPECTED)
    assert "failed" not in found
    assert found["xfail"] == set(EXPECTED)


def test_it_passes_the_other_checks_once_their_numbers_are_sizes():
    moot = {"check_positive_only_tag_during_fit": "these sizes are positive whatever the numbers"}
    found = outcome(OfAnyNumbers(), moot)
    assert "failed" not in found
    assert found["xfail"] == set(moot)
    assert set(EXPECTED) <= found["passed"]


def test_it_predicts_what_fit_fits():
    x, y = table(noise=0.002)
    model = LawRegressor("power_floor").fit(x, y)
    assert model.fit_ == fit("power_floor", {"width": list(WIDTHS)}, list(y))
    assert (model.law_, model.n_features_in_) == ("power_floor", 1)
    assert list(model.feature_names_in_) == ["width"]
    far = pd.DataFrame({"width": [4096.0]})
    assert model.predict(far) == pytest.approx(losses(np.array([4096.0])), rel=0.05)
    assert model.score(x, y) > 0.99


def test_all_laws_that_survive_are_mixed_by_default():
    x, y = table(noise=0.002)
    model = LawRegressor().fit(x, y)
    assert sum(weight for _, weight in model.laws_) == pytest.approx(1.0)
    assert model.law_ == "power_floor"
    assert model.predict(x) == pytest.approx(y, rel=0.01)


def test_weights_count_and_zero_leaves_a_sample_out():
    x, y = table(noise=0.01)
    weights = np.ones(len(y))
    weights[0] = 0
    model = LawRegressor("power").fit(x, y, sample_weight=weights)
    without = LawRegressor("power").fit(x[1:], y[1:])
    assert model.predict(x) == pytest.approx(without.predict(x))
    assert model.predict(x) != pytest.approx(LawRegressor("power").fit(x, y).predict(x), rel=1e-6)
    with pytest.raises(ValueError, match="at least one non-zero"):
        LawRegressor("power").fit(x, y, sample_weight=np.zeros(len(y)))


def test_deviations_grow_with_the_distance_and_intervals_hold_them():
    x, y = table(noise=0.005)
    model = LawRegressor("power_floor").fit(x, y)
    near, far = np.array([[64.0]]), np.array([[65536.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # arrays have no names of columns
        (loss,), (sd,) = model.predict(near, return_std=True)
        far_sd = model.predict(far, return_std=True)[1][0]
        (narrow,) = model.predict_interval(near, level=0.5)
        (wide,) = model.predict_interval(near, level=0.95)
        (of_law,) = model.predict_interval(near, level=0.95, new_run=False)
    assert far_sd > 3 * sd > 0
    assert wide[0] < narrow[0] < loss < narrow[1] < wide[1]
    assert wide[0] < of_law[0] < loss < of_law[1] < wide[1]
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
        model.predict_interval(near, level=95)


def test_intervals_hold_as_many_new_runs_as_they_say():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(100):
        y = losses(WIDTHS) * np.exp(0.01 * rng.normal(size=len(WIDTHS)))
        model = LawRegressor("power_floor").fit(WIDTHS[:, None], y)
        low, high = model.predict_interval([[512.0]], level=0.8)[0]
        new = losses(np.array([512.0]))[0] * np.exp(0.01 * rng.normal())
        inside.append(low <= new <= high)
    assert 0.68 <= np.mean(inside) <= 0.92  # 3 binomial standard deviations about 0.8


def test_it_works_in_a_pipeline_a_search_and_a_cross_validation():
    x, y = table(noise=0.002)
    pipe = make_pipeline(FunctionTransformer(np.square), LawRegressor("power_floor"))
    assert pipe.fit(x, y).predict(x) == pytest.approx(y, rel=0.01)
    search = GridSearchCV(
        LawRegressor(),
        {"law": ["power", "log_linear", "power_floor"]},
        scoring="neg_mean_absolute_percentage_error",
        cv=LeaveOneOut(),
    )
    assert search.fit(x, y).best_params_ == {"law": "power_floor"}
    scores = cross_val_score(
        LawRegressor("power_floor"), x, y, cv=3, scoring="neg_mean_squared_error"
    )
    assert np.isfinite(scores).all()
    assert clone(LawRegressor("power", robust=1e-3)).get_params() == {
        "law": "power",
        "fix": None,
        "robust": 1e-3,
    }


def test_pins_and_the_robust_loss_are_passed_on():
    x, y = table()
    pinned = LawRegressor("power_floor", fix={"E": 1.4}).fit(x, y)
    assert pinned.fit_.parameters["E"] == 1.4
    y[3] *= 1.5
    robust = LawRegressor("power_floor", robust=1e-3).fit(x, y).predict(x)
    assert robust == pytest.approx(losses(WIDTHS), rel=0.01)


@pytest.mark.parametrize(
    ("model", "x", "y", "words"),
    [
        (LawRegressor("sine"), [[1.0], [2.0]], [1.0, 2.0], "law must be auto or one of power"),
        (LawRegressor(robust=0.1), [[1.0], [2.0]], [1.0, 2.0], "robust goes with one law"),
        (LawRegressor(), [[1.0], [-2.0]], [1.0, 2.0], "Negative values in data.*X must be"),
        (LawRegressor(), [[1.0], [0.0]], [1.0, 2.0], "X must be positive"),
        (LawRegressor(), [[1.0], [2.0]], [1.0, 0.0], "y must be positive"),
        (LawRegressor("chinchilla_tied"), [[1.0], [2.0]], [1.0, 2.0], "takes 2 size column"),
    ],
)
def test_what_cannot_be_fitted_is_refused(model, x, y, words):
    with pytest.raises(ValueError, match=words):
        model.fit(x, y)


def test_too_few_sizes_and_an_unfitted_model_are_refused():
    with pytest.raises(DataError, match="needs at least"):
        LawRegressor("power_floor").fit([[1.0], [2.0], [4.0]], [3.0, 2.0, 1.5])
    for ask in (LawRegressor().predict, LawRegressor().predict_interval):
        with pytest.raises(NotFittedError):
            ask([[1.0]])


def test_it_is_fetched_on_first_use():
    assert extrap.LawRegressor is LawRegressor
