"""The exceptions a caller may want to catch."""

from __future__ import annotations

__all__ = [
    "DataError",
    "ExtrapError",
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
