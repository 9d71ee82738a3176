import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

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
