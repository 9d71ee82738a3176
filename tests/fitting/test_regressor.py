from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from extrap.errors import DataError
from extrap.fitting import fit, predict_log
from extrap.fitting.regressor import LawRegressor

WIDTHS = np.array([16.0, 24, 32, 48, 64, 96, 128, 192, 256])

ZEROS = "its data hold zeros, and a size of zero has no logarithm"
COLUMNS = "its data have 30 columns; a law has at most 4"
HAVE_ZEROS = """
fit_score_takes_y estimators_overwrite_params dont_overwrite_parameters
estimators_fit_returns_self readonly_memmap_input n_features_in_after_fitting estimators_dtypes
sample_weights_pandas_series sample_weights_not_an_array sample_weights_list
all_zero_sample_weights_error dtype_object pipeline_consistency estimators_nan_inf
estimators_pickle f_contiguous_array_estimator regressors_train regressor_data_not_an_array
supervised_y_2d regressors_int methods_sample_order_invariance methods_subset_invariance
fit2d_1feature dict_unchanged fit_idempotent fit_check_is_fitted n_features_in fit2d_predict1d
"""
EXPECTED = {
    **{
        name: ZEROS
        for name in (f"check_{each}" for each in HAVE_ZEROS.split())
        if hasattr(estimator_checks, name)  # older versions have fewer
    },
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


def test_deviations_and_intervals_are_those_of_students_t():
    x, y = table(noise=0.005)
    model = LawRegressor("power_floor").fit(x, y)
    far = pd.DataFrame({"width": [64.0, 65536.0]})
    log_loss, se = predict_log(model.fit_, far.to_numpy() / model.fit_.reference)
    loss, sd = model.predict(far, return_std=True)
    assert loss == pytest.approx(np.exp(log_loss))
    assert sd == pytest.approx(loss * np.hypot(se, model.fit_.scatter))
    t = stats.t.isf(0.1, 6)  # nine sizes, three parameters
    for new_run, half in ((True, t * np.hypot(se, model.fit_.scatter)), (False, t * se)):
        found = model.predict_interval(far, level=0.8, new_run=new_run)
        assert found == pytest.approx(np.exp(np.column_stack([log_loss - half, log_loss + half])))
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match=f"got {level:g}"):
            model.predict_interval(far, level=level)


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
        (LawRegressor("sine"), [[1.0], [2.0]], [1.0, 2.0], "got 'sine'"),
        (LawRegressor(robust=0.1), [[1.0], [2.0]], [1.0, 2.0], "robust=0.1"),
        (LawRegressor(), [[1.0], [-2.0]], [1.0, 2.0], "X .* got -2"),
        (LawRegressor(), [[1.0], [0.0]], [1.0, 2.0], "X .* got 0"),
        (LawRegressor(), [[1.0], [2.0]], [1.0, 0.0], "y .* got 0"),
        (LawRegressor("chinchilla_tied"), [[1.0], [2.0]], [1.0, 2.0], "takes 2 .* got 1"),
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
