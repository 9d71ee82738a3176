"""Calls that travel to another process: copied, made there, and what came of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from extrap.errors import ExtrapError, StudyError
from extrap.study.packs import PackFailed, PackStopped
from extrap.study_folders import by_value, import_words


def copied(function: Callable[..., Any], *args: Any) -> bytes:
    """A call as bytes.

    Raises:
        StudyError: Something in it cannot be copied to another process.
    """
    try:
        return by_value((function, args))
    except Exception as error:  # whatever a user's object does when it is copied
        raise StudyError(
            "a training function must be one that can be copied to another process, got "
            f"{type(error).__name__}: {error}; define it in the study file, without open files, "
            "locks or connections."
        ) from error


def called(payload: bytes) -> tuple[Any, Exception | None]:
    """Make a call; what it returned and what it raised, one of them None."""
    import cloudpickle  # noqa: TID251  # of our own driver, as a cluster does anyway

    try:
        function, args = cloudpickle.loads(payload)
    except Exception as error:  # whatever the user's modules do as they are imported
        words = import_words(error, getattr(error, "folder", Path()))
        return None, StudyError(
            f"a worker must be able to load the training function, got {words}; install or copy "
            "on every worker what is missing there."
        )
    try:
        return function(*args), None
    except (PackStopped, PackFailed) as error:
        return None, error
    except ExtrapError as error:  # of this worker: another machine may not know its class
        return None, StudyError(str(error))
