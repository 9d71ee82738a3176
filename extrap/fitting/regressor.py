"""A law as a scikit-learn regressor, for people with pipelines; otherwise call `fit`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from extrap.fitting.curve_laws import Laws, family_at, fit_surviving_laws
from extrap.fitting.loss_law import fit
from extrap.laws import LOSS_LAWS
from extrap.laws.base import Array

AUTO = "auto"
"""All laws that the data cannot distinguish."""


class LawRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A scaling law `y = f(X)`: X columns of positive sizes, y positive losses.

    Args:
        law: Key of a law in `extrap.laws.LOSS_LAWS`, or `"auto"`.
        fix: Parameters to pin, by name: `{"E": 1.6}`.

    Attributes:
        laws_: The laws with a positive weight, and their weights.
        law_: Key of the law of the largest weight.

    Example:
        >>> import numpy as np
        >>> from extrap import LawRegressor
        >>> width = np.array([[16], [32], [64], [128], [256.0]])
        >>> model = LawRegressor("power_floor").fit(width, 1.5 + 2 * width[:, 0] ** -0.5)
        >>> model.predict([[1024]]).round(4)
        array([1.5625])
    """

    def __init__(self, law: str = AUTO, *, fix: Mapping[str, float] | None = None) -> None:
        self.law, self.fix = law, fix

    def __sklearn_tags__(self) -> Tags:
        """Sizes and losses are positive."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = tags.target_tags.positive_only = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> LawRegressor:
        """Fit the law.

        Args:
            X: Sizes, shape (n_samples, n_columns).
            y: Losses, shape (n_samples,).

        Raises:
            ValueError: A size or loss is not positive, or no law takes so many columns.
            DataError: As `extrap.fit`: the sizes do not determine the law.
        """
        x, loss = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        names = getattr(self, "feature_names_in_", [f"x{i + 1}" for i in range(x.shape[1])])
        sizes = {str(name): column.tolist() for name, column in zip(names, x.T, strict=True)}
        self._check_sizes(x)
        if self.law == AUTO:
            laws = fit_surviving_laws(sizes, loss.tolist(), fix=self.fix)
        elif self.law in LOSS_LAWS:
            laws = ((fit(self.law, sizes, loss.tolist(), fix=self.fix), 1.0),)
        else:
            choices = ", ".join((AUTO, *LOSS_LAWS))
            raise ValueError(f"law must be one of {choices}; got {self.law!r}.")
        self.laws_: Laws = tuple(pair for pair in laws if pair[1] > 0)
        self.law_: str = max(self.laws_, key=lambda pair: pair[1])[0].law
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Losses at sizes, shape (n_samples,); `extrap.forecast` has their intervals."""
        check_is_fitted(self, "laws_")
        sizes = validate_data(self, X, dtype=np.float64, reset=False)
        self._check_sizes(sizes)
        return np.exp(family_at(self.laws_, sizes).mean)

    def _check_sizes(self, x: Array) -> None:
        check_non_negative(x, type(self).__name__)
        if not x.all():
            raise ValueError("a size must be positive, got 0; leave the row out.")
