import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from extrap.fitting.loss_law import fit, predict_log
from extrap.fitting.regressor import LawRegressor

WIDTHS = np.array([16.0, 24, 32, 48, 64, 96, 128, 192, 256])


def table(noise=0.0):
    rng = np.random.default_rng(0)
    loss = (1.5 + 2 * (WIDTHS / 16) ** -0.4) * np.exp(noise * rng.normal(size=len(WIDTHS)))
    return pd.DataFrame({"width": WIDTHS}), loss


def test_it_predicts_what_fit_fits():
    x, y = table(noise=0.002)
    model = LawRegressor("power_floor").fit(x, y)
    fitted = fit("power_floor", {"width": list(WIDTHS)}, list(y))
    assert (model.laws_, model.law_) == (((fitted, 1.0),), "power_floor")
    assert list(model.feature_names_in_) == ["width"]
    far = pd.DataFrame({"width": [4096.0]})
    log_loss, _ = predict_log(fitted, far.to_numpy() / fitted.reference)
    assert model.predict(far) == pytest.approx(np.exp(log_loss))
    assert model.score(x, y) > 0.99


def test_all_laws_that_survive_are_mixed_by_default():
    x, y = table(noise=0.002)
    model = LawRegressor().fit(x, y)
    assert sum(weight for _, weight in model.laws_) == pytest.approx(1.0)
    assert model.law_ == "power_floor"
    assert model.predict(x) == pytest.approx(y, rel=0.01)


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
    pinned = clone(LawRegressor("power_floor", fix={"E": 1.4})).fit(x, y)
    assert pinned.laws_[0][0].parameters["E"] == 1.4


def failures(model):
    """Check of scikit-learn → why it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # of array libraries that are not here
        results = check_estimator(model, on_fail=None)
    assert sum(r["status"] == "passed" for r in results) > 20
    return {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}


def test_checks_of_scikit_learn_fail_only_where_a_size_is_zero():
    """Its positive data begin at 0, which is no size."""
    reasons = failures(LawRegressor()).values()
    assert {"a size must be positive, got 0; leave the row out." in r for r in reasons} == {True}


def as_sizes(estimator, X, X_test=None, kernel=None):
    """A check's numbers as sizes: positive, in two columns at most, over a factor of 64."""
    centre, spread = np.mean(X, axis=0), np.std(X, axis=0) + 1e-9

    def sizes(values):
        return 2 ** (6 / (1 + np.exp(-(values - centre) / spread)))[:, :2]

    return sizes(X) if X_test is None else (sizes(X), sizes(X_test))


class OfNoise(LawRegressor):
    """The first two columns of the checks' data say little of their target."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def test_all_checks_of_scikit_learn_hold_on_sizes(monkeypatch):
    """The same checks, their data made sizes where scikit-learn makes them what tags ask for."""
    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", as_sizes)
    assert failures(OfNoise()) == {}


def test_sizes_are_positive_and_no_more_columns_than_a_law_takes():
    x, y = table()
    model = LawRegressor("power_floor").fit(x, y)
    with pytest.raises(ValueError, match="Negative values in data passed to LawRegressor"):
        model.predict(-x)
    with pytest.raises(ValueError, match="a size must be positive, got 0"):
        model.fit(x - 16, y)
    with pytest.raises(ValueError, match="no law takes 9 size columns"):
        LawRegressor().fit(np.tile(x, 9), y)


def test_cross_validation_leaves_out_whole_sizes():
    x, y = (np.repeat(each, 3, axis=0) for each in table(noise=0.01))
    sizes = x["width"] if isinstance(x, pd.DataFrame) else x[:, 0]
    scores = cross_val_score(
        LawRegressor(), x, y, groups=sizes, cv=LeaveOneGroupOut(), scoring="neg_max_error"
    )
    assert len(scores) == len(WIDTHS)
    assert (scores > -0.1).all()
    search = GridSearchCV(
        LawRegressor(), {"law": ["power", "power_floor"]}, cv=GroupKFold(3), scoring="r2"
    )
    assert search.fit(x, y, groups=sizes).best_params_ == {"law": "power_floor"}
