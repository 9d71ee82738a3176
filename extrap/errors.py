"""The exceptions and warnings a caller may want to catch."""

from __future__ import annotations

__all__ = [
    "DataError",
    "ExtrapError",
    "ExtrapWarning",
    "ExtrapolationWarning",
    "FitError",
    "StudyError",
]


class ExtrapError(Exception):
    """Base of every error this package raises on purpose."""


class DataError(ExtrapError, ValueError):
    """The runs cannot support what was asked of them."""


class FitError(ExtrapError, RuntimeError):
    """No starting point of a fit converged."""


class StudyError(ExtrapError, RuntimeError):
    """A study, or the storage it lives in, is unusable."""


class ExtrapWarning(UserWarning):
    """Base of every warning this package gives."""


class ExtrapolationWarning(ExtrapWarning):
    """A prediction lies so far beyond the fitted sizes that its interval is conditional."""
