"""Calls that travel to another process: copied, made there, and what came of them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from extrap import __version__
from extrap.errors import ExtrapError, StudyError
from extrap.study.pack_requests import PackFailed, PackStopped
from extrap.study_folders import by_value, import_words


def copied(function: Callable[..., Any], *args: Any) -> bytes:
    """A call as bytes; a `StudyError` if something in it cannot be copied."""
    try:
        return by_value((function, args))
    except Exception as error:  # whatever a user's object does when it is copied
        raise StudyError(
            "a training function must be one that can be copied to another process, got "
            f"{type(error).__name__}: {error}; define it in the study file, without open files, "
            "locks or connections."
        ) from error


def versions() -> dict[str, str]:
    """What must be the same wherever a study trains: results are compared to the last bit."""
    installed = {"extrap": __version__, "Python": ".".join(map(str, sys.version_info[:2]))}
    for name in ("torch", "numpy"):
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = "not installed"
    return installed


def called(
    payload: bytes, driver_versions: Mapping[str, str] = MappingProxyType({})
) -> tuple[Any, Exception | None]:
    """Make a call; what it returned and what it raised, one of them None.

    `driver_versions` are those that the driver has; others may not be able to load the call.
    """
    import cloudpickle  # noqa: TID251  # of our own driver, as a cluster does anyway

    installed = versions() if driver_versions else {}
    if differ := [
        f"{n} {installed[n]}, the driver {driver_versions[n]}"
        for n in driver_versions
        if installed[n] != driver_versions[n]
    ]:
        return None, StudyError(
            f"workers must have the driver's versions, a worker has {', '.join(differ)}; install "
            "those on every worker."
        )
    try:
        function, args = cloudpickle.loads(payload)
    except Exception as error:  # whatever the user's modules do as they are imported
        message = import_words(error, getattr(error, "folder", Path()))
        return None, StudyError(
            f"a worker must be able to load the training function, got {message}; install or copy "
            "on every worker what is missing there."
        )
    try:
        return function(*args), None
    except (PackStopped, PackFailed) as error:
        return None, error
    except ExtrapError as error:  # of this worker: another machine may not know its class
        return None, StudyError(str(error))
