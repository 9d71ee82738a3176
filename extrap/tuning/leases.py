"""Leases: workers send heartbeats to the storage and read those of others.

A worker that does not beat for as long as it said it might be silent is taken for dead. How long
others are silent each worker counts by its own clock, and only while the storage answers it, so
clocks need not agree and a storage that was away makes nobody dead.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from optuna.storages import BaseStorage

from extrap.reading.optuna import WORKER, parse_study_name
from extrap.reading.patience import bare
from extrap.tuning.processes import is_gone, is_process, this_process

__all__ = ["GRACE_S", "Lease"]

logger = logging.getLogger(__name__)

GRACE_S = 60.0
"""Silence after which a worker is taken for dead."""
LONGEST_GRACE_S = 7 * 86400.0
"""A worker that claims more is not believed."""
BEATS = 6
"""Beats in that time."""
FRESH_S = 2.0
"""What was heard so recently need not be heard again."""
# Workers that were there this long ago by the clocks, which may be wrong, are no company.
LONG_AGO = timedelta(minutes=10)


@dataclass(slots=True)
class _Other:
    """A worker as it is heard of: its last beat, and how long nothing has been heard since."""

    beat: int
    grace_s: float
    has_left: bool
    is_old: bool
    owner: Mapping[str, Any]
    silent_s: float = 0.0

    def is_silent(self) -> bool:
        return self.has_left or self.silent_s > self.grace_s


class Lease:
    """This worker's beats in the storage of a study, and those of the others.

    Args:
        storage: The storage.
        study: Name of the study.
        grace_s: Silence after which this worker is to be taken for dead.
    """

    def __init__(self, storage: BaseStorage, study: str, *, grace_s: float = GRACE_S) -> None:
        self.worker = uuid.uuid4().hex[:12]
        self._storage = storage
        self._study = study
        self._grace_s = grace_s
        self._place: int | None = None
        self._n_beats = 0
        self._last_beat = 0.0
        self._others: dict[str, _Other] = {}
        self._last_look: float | None = None
        self._there: list[str] | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._stood_still = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, study_id: int) -> None:
        """Beat from now on; the beats are attributes of the Optuna study given."""
        if self._thread is not None:
            return
        self._place = study_id
        self._beat(self._storage)
        self._look(self._storage)
        self._thread = threading.Thread(
            target=_beat_on,
            args=(weakref.ref(self), self._stopped, self._grace_s / BEATS),
            name="extrap-beats",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Beat no more, and say so."""
        self._stopped.set()
        if self._thread is None:
            return
        self._thread.join(timeout=self._grace_s / BEATS)
        if self._thread.is_alive():  # its beat would come after the word that this one left
            return
        self._thread = None
        try:
            self._beat(bare(self._storage), has_left=True)
        except Exception as error:  # then the others will notice
            logger.debug("a worker could not report that it leaves: %s", error)

    def is_silent(self, worker: str) -> bool:
        """Whether a worker has been silent for too long."""
        if worker == self.worker:
            return False
        with self._lock:
            other = self._others.setdefault(
                worker, _Other(-1, self._grace_s, False, False, {})
            )  # it has trials but no beats: it gets as long as others
            return other.is_silent()

    def company(self) -> tuple[int, int]:
        """This worker's place among those that seem to be at work, and their number."""
        if self._last_look is None or time.monotonic() - self._last_look > FRESH_S:
            self._look(self._storage)
        with self._lock:
            if self._there is None:
                there = [
                    name
                    for name, other in self._others.items()
                    if other.owner and not other.is_silent() and not other.is_old
                    if not is_gone(other.owner)
                ]
                self._there = sorted({*there, self.worker})
            return self._there.index(self.worker), len(self._there)

    def stood_still(self) -> bool:
        """Whether this process stood still so long that others may have taken it for dead.

        Says so once each time.
        """
        is_so = self._stood_still.is_set()
        self._stood_still.clear()
        return is_so

    def _beat(self, storage: BaseStorage, *, has_left: bool = False) -> None:
        assert self._place is not None
        self._n_beats += 1
        said = {
            "beat": self._n_beats,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "grace_s": self._grace_s,
            **this_process(),
            **({"left": True} if has_left else {}),
        }
        storage.set_study_user_attr(self._place, WORKER + self.worker, said)
        now = time.monotonic()
        if self._last_beat and now - self._last_beat > self._grace_s:
            self._stood_still.set()
        self._last_beat = now

    def _look(self, storage: BaseStorage) -> None:
        """Hear everyone's last beats."""
        heard: dict[str, Mapping[str, Any]] = {}
        for study in storage.get_all_studies():
            key = parse_study_name(study.study_name)
            if key is not None and key.name == self._study:
                heard |= {k: v for k, v in study.user_attrs.items() if k.startswith(WORKER)}
        now = time.monotonic()
        with self._lock:
            passed_s = 0.0 if self._last_look is None else now - self._last_look
            passed_s = min(passed_s, 2 * self._grace_s / BEATS)
            self._last_look = now
            self._there = None
            for name, other in self._others.items():
                other.silent_s += passed_s if name != self.worker else 0.0
            for key_, said in heard.items():
                if _is_beat(said):
                    self._hear(key_.removeprefix(WORKER), said)

    def _hear(self, worker: str, said: Mapping[str, Any]) -> None:
        known = self._others.get(worker)
        if known is not None and known.beat == said["beat"]:
            return
        self._others[worker] = _Other(
            beat=said["beat"],
            grace_s=said["grace_s"],
            has_left=bool(said.get("left")),
            is_old=abs(datetime.now(UTC) - datetime.fromisoformat(said["at"])) > LONG_AGO,
            owner=said,
        )


def _is_beat(said: object) -> bool:
    """Whether an attribute is what a worker says of itself; anyone may write to a storage."""
    if not is_process(said):
        return False
    try:
        datetime.now(UTC) - datetime.fromisoformat(said["at"])
        return isinstance(said["beat"], int) and 0 < said["grace_s"] <= LONGEST_GRACE_S
    except (KeyError, TypeError, ValueError, OverflowError):
        return False


def _beat_on(of: weakref.ref[Lease], stopped: threading.Event, every_s: float) -> None:
    """Beat and listen until stopped, or until nobody holds the lease any more."""
    while not stopped.wait(every_s):
        lease = of()
        if lease is None:
            return
        storage = bare(lease._storage)
        try:
            lease._beat(storage)
            lease._look(storage)
        except Exception as error:  # whoever needs an answer will say what is wrong
            logger.debug("a heartbeat was lost: %s", error)
        del lease, storage
