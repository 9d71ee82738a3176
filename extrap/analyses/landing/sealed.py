"""A landing as a sealed file, and the end of the run judged by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from extrap.analyses.landing.landing import Landing, read_log
from extrap.analyses.landing.plans import Plan, require_planned_rates
from extrap.errors import DataError
from extrap.fitting.landing.binned_log import white_noise
from extrap.fitting.landing.ending import END_SHARE, LEAST_TAIL_NOISE
from extrap.fitting.landing.schedule import RateSchedule
from extrap.forecasting.documents import read_sealed, write_sealed
from extrap.laws.base import Array
from extrap.reading.logs import LoggedRun
from extrap.records import seals
from extrap.records.codec import decode, encode
from extrap.records.fields import ROUNDING

LANDING_KIND = "landing"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLanding:
    """The end of a run against the landing that was forecast.

    Attributes:
        landing: What was sealed.
        step: Last step of the log.
        end: The loss there; of a noisy log the mean of the last 2 % of the steps.
        error: `end / landing.loss − 1`.
        is_finished: Whether the log reaches the end.
        is_inside: Whether the end lies in the interval.
    """

    landing: Landing
    step: float
    end: float
    error: float
    is_finished: bool
    is_inside: bool

    @property
    def is_fine(self) -> bool:
        """Whether nothing speaks against the landing: it is inside, or not there yet."""
        return self.is_inside or not self.is_finished

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        document: dict[str, Any] = encode(self)
        return document


def save_landing(landing: Landing, log: Any, path: str | Path, **columns: Any) -> str:
    """Write a landing as a sealed JSON file, with the hash of its log.

    Args:
        landing: What `land` returned.
        log: The log that it was made from.
        path: File to write; an earlier, different landing there is kept as `NAME.HASH.json`.
        **columns: How the log was read, as in `land`.

    Returns:
        The content hash, 64 hexadecimal digits; the time is not part of it.

    Raises:
        DataError: The landing is a refusal.
    """
    if landing.loss is None:
        raise DataError(f"a landing without a forecast is not sealed: {landing.refusal}")
    read = read_log(log, **columns)
    document = seals.seal(
        {
            "kind": LANDING_KIND,
            "schema_version": 1,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "log_hash": _log_hash(read, landing.step),
            "columns": {name: columns[name] for name in sorted(columns)},
            "landing": encode(landing),
        }
    )
    write_sealed(document, Path(path))
    return str(document["content_hash"])


def _log_hash(log: LoggedRun, last_step: float) -> str:
    """The hash of the losses up to a step."""
    is_in = log.steps <= last_step
    points = zip(log.steps[is_in].tolist(), log.losses[is_in].tolist(), strict=True)
    return seals.content_hash({"points": list(points)})


def judge_landing(landing: str | Path, log: Any, **columns: Any) -> JudgedLanding:
    """The end of a run against a sealed landing.

    Args:
        landing: The sealed file.
        log: The log of the same run, as `land` takes it.
        **columns: How it is read, as in `land`; by default as when it was sealed.

    Raises:
        DataError: The file is no landing or was changed; the log is not a later one of the run;
            or its learning rates are not those that were planned.
    """
    document = read_sealed(Path(landing), LANDING_KIND, version=1)
    sealed = decode(Landing, document["landing"])
    read = read_log(log, **{**document["columns"], **columns})
    if _log_hash(read, sealed.step) != document["log_hash"]:
        raise DataError(
            f"up to step {sealed.step:g} the log differs from that of {landing}; give the log of "
            "the same run, with all its losses."
        )
    if read.steps[-1] > (1 + END_SHARE) * sealed.total_steps:
        raise DataError(
            f"the log goes to step {read.steps[-1]:g}, and the end that was forecast is step "
            f"{sealed.total_steps:g}; give the log up to there if the run had the learning rates "
            "of the forecast."
        )
    knots, shares = np.array(sealed.rates).T
    require_planned_rates(read, Plan(RateSchedule(steps=knots, shares=shares), sealed.peak))
    is_last = read.steps >= (1 - END_SHARE) * read.steps[-1]
    is_noisy = white_noise(read.losses) > LEAST_TAIL_NOISE
    end = float(read.losses[is_last].mean() if is_noisy else read.losses[-1])
    assert sealed.loss is not None
    return JudgedLanding(
        landing=sealed,
        step=float(read.steps[-1]),
        end=end,
        error=end / sealed.loss - 1,
        is_finished=_is_finished(read.steps, sealed.total_steps),
        is_inside=end in sealed.interval,
    )


def _is_finished(steps: Array, total_steps: float) -> bool:
    """Whether at most one row is to come, of a last share in which the loss may still fall."""
    gap = float(np.median(np.diff(steps))) if len(steps) > 1 else 0.0
    return bool(steps[-1] >= max(1 - END_SHARE, 1 - gap / total_steps - ROUNDING) * total_steps)


def judged(path: str, log: str, options: Mapping[str, Any]) -> JudgedLanding:
    """What `extrap check` asks for a sealed landing."""
    named = {"loss": options["loss"]} if options.get("loss") else {}
    return judge_landing(path, log, **named)
