"""A law as a scikit-learn regressor, for people with pipelines.

`fit` is the function to call otherwise; this class adds what pipelines, grid searches and cross-
validation ask for. Imported on its own: scikit-learn takes a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from extrap.fitting.loss_law import fit
from extrap.fitting.mixture import fit_surviving_laws, mix
from extrap.fitting.prediction import LossPrediction
from extrap.laws import LOSS_LAWS
from extrap.laws.base import Array
from extrap.records import Fit
from extrap.records.fields import require_level

AUTO = "auto"
"""All laws that the data cannot distinguish, as in a forecast with the band `family`."""
FEWEST = 2
"""Samples below which scikit-learn's own message is the clearer one; laws ask for more."""


class LawRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A scaling law `y = f(X)` over positive sizes, fitted on the log scale.

    Each column of X is a size (width, parameters, tokens, …), y a positive loss; both in their own
    units; the law takes the logarithm. It is a model of few parameters for extrapolation, and
    raises an error for data that do not determine it.

    Args:
        law: Key of a law in `extrap.laws.LOSS_LAWS`, or `"auto"`.
        fix: Parameters to pin, by name: `{"E": 1.6}`.
        robust: δ of Huber's loss, in log units; None for least squares. Only with one law.

    Attributes:
        fit_: The fit; with `"auto"` that of the largest weight.
        laws_: The laws with a positive weight, and their weights.
        law_: Key of the law of `fit_`.
        n_features_in_: Number of size columns.
        feature_names_in_: Their names, where X had any.

    Example:
        >>> import numpy as np
        >>> from extrap import LawRegressor
        >>> width = np.array([[16], [32], [64], [128], [256.0]])
        >>> model = LawRegressor("power_floor").fit(width, 1.5 + 2 * width[:, 0] ** -0.5)
        >>> model.predict([[1024]]).round(4)
        array([1.5625])
    """

    def __init__(
        self,
        law: str = AUTO,
        *,
        fix: Mapping[str, float] | None = None,
        robust: float | None = None,
    ) -> None:
        self.law = law
        self.fix = fix
        self.robust = robust

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LawRegressor:
        """Fit the law.

        Args:
            X: Sizes, positive, shape (n_samples, n_columns).
            y: Losses, positive, shape (n_samples,).
            sample_weight: Weights of the squared relative residuals, at least 0; a sample of
                weight 0 counts as absent. Only their ratios matter.

        Raises:
            ValueError: The law is unknown or takes another number of columns, a pin is wrong, or
                a number is not positive.
            DataError: Too few distinct sizes, or sizes that hardly vary or vary together.
            FitError: No start converged.
        """
        x, loss = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=FEWEST
        )
        x, loss = self._sizes(x), np.asarray(loss, dtype=float)
        _require_positive(loss, "y")
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
            if not weights.any():  # as scikit-learn 1.8 says by itself
                raise ValueError("Sample weights must contain at least one non-zero number.")
            x, loss, weights = x[weights > 0], loss[weights > 0], weights[weights > 0]
        self.laws_ = self._fitted(self._columns(x), loss, weights)
        self.fit_: Fit = max(self.laws_, key=lambda pair: pair[1])[0]
        self.law_: str = self.fit_.law
        return self

    def predict(self, X: ArrayLike, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Losses at sizes.

        Args:
            X: Sizes, positive, shape (n_samples, n_columns).
            return_std: Whether to return standard deviations of one new observation too. They
                include the uncertainty of each law, the differences between laws, and the scatter
                of runs.

        Returns:
            Losses, shape (n_samples,), and the standard deviations in the same unit if asked for.
        """
        mean, within, between = self._mixed(X)
        loss = np.exp(mean)
        if not return_std:
            return loss
        return loss, loss * np.sqrt(within + between + self._scatter() ** 2)

    def predict_interval(
        self, X: ArrayLike, *, level: float = 0.95, new_run: bool = True
    ) -> Array:
        """Intervals of losses, shape (n_samples, 2).

        They hold if the true law is one of those fitted; `extrap.forecast` allows for laws that
        are only approximately right, and for several runs of one size that share their seeds.

        Args:
            X: Sizes, positive, shape (n_samples, n_columns).
            level: In (0, 1).
            new_run: Whether the intervals are for one new observation; else for the law.
        """
        require_level(level)
        sides, mixed = [], self._mixed(X)
        dof = float(min(found.scale_dof for found, _ in self.laws_))
        for mean, within, between in zip(*mixed, strict=True):
            prediction = LossPrediction(
                log_loss=float(mean),
                curve=((float(within), dof), (float(between), math.inf)),
                run=((self._scatter() ** 2, dof),),
            )
            lower, upper = prediction.interval(level, new_run=new_run)
            sides.append((0.0 if lower is None else lower, math.inf if upper is None else upper))
        return np.array(sides, dtype=float)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # a law of sizes explains no features at random
        return tags

    def _sizes(self, x: Array) -> Array:
        """What the law is a function of: X as it is."""
        _require_positive(x, "X")
        return x

    def _columns(self, x: Array) -> dict[str, Array]:
        plain = [f"x{i + 1}" for i in range(x.shape[1])]
        names = getattr(self, "feature_names_in_", plain)
        return dict(zip(map(str, names), x.T, strict=True))

    def _fitted(
        self, columns: dict[str, Array], loss: Array, weights: Array | None
    ) -> tuple[tuple[Fit, float], ...]:
        sizes = {name: values.tolist() for name, values in columns.items()}
        share = None if weights is None else weights.tolist()
        if self.law != AUTO:
            if self.law not in LOSS_LAWS:
                raise ValueError(
                    f"law must be {AUTO} or one of {', '.join(LOSS_LAWS)}; got {self.law!r}."
                )
            found = fit(
                self.law, sizes, loss.tolist(), weights=share, fix=self.fix, robust=self.robust
            )
            return ((found, 1.0),)
        if self.robust is not None:
            raise ValueError(
                f"robust needs a named law, got law={AUTO!r} and robust={self.robust}; name "
                "the law, or leave robust out."
            )
        laws = fit_surviving_laws(sizes, loss.tolist(), loss_se=None, weights=share, fix=self.fix)
        return tuple((found, weight) for found, weight in laws if weight > 0)

    def _mixed(self, X: ArrayLike) -> tuple[Array, Array, Array]:
        """Log loss, its variance within the laws and between them, each (n_samples,)."""
        check_is_fitted(self, "laws_")
        x = self._sizes(validate_data(self, X, dtype=np.float64, reset=False))
        mean, within, between = mix(self.laws_, x)
        return mean, within, between

    def _scatter(self) -> float:
        """Standard deviation of one point about the laws, log units."""
        return max(found.scatter for found, _ in self.laws_)


def _require_positive(values: Array, name: str) -> None:
    bad = values[~(values > 0)]
    if bad.size:
        raise ValueError(
            f"Negative values in data passed to LawRegressor: {name} must be positive, laws are "
            f"fitted in its logarithm; got {bad.flat[0]:g}."
            if bad.flat[0] < 0
            else f"{name} must be positive, laws use its logarithm; got 0."
        )
