"""Progress of a study: a bar on a terminal or in a notebook, a line per minute in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from extrap.records.numbers import counted
from extrap.study.protocol import Say, size_words

STAGE_NAMES = {"tune": "sweep", "check": "larger runs"}
"""Stage → what a bar calls it."""
LOG_EVERY_S = 60
"""Seconds between two lines of progress where the output is a log."""
BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
LOG_LINE = "{desc}: {percentage:.0f} %, {elapsed} elapsed, {remaining} left{postfix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneEvent:
    """Where a stage stands.

    Attributes:
        stage: `"tune"` or `"check"`.
        size: Size of the pack in training.
        n_runs: Runs in the pack.
        fraction: Part of the pack that is done, in [0, 1].
        cost_done: FLOPs of the stage that are spent; with a training function of one's own, runs
            instead of FLOPs.
        cost_total: FLOPs of every cell the stage wants so far; it rises when the grid grows.
        is_finished: Whether the pack is done and recorded.
        wall_s: Seconds since the pack was handed out.
        layout: How it is trained, for people; empty before that is decided.
        study: Name of the sweep.
    """

    stage: str
    size: Mapping[str, float]
    n_runs: int
    fraction: float
    cost_done: float
    cost_total: float
    is_finished: bool
    wall_s: float
    layout: str = ""
    study: str = ""


Notify = Callable[[TuneEvent], None]


class StudyProgress:
    """Shows a study's `TuneEvent`s on the standard error or in a notebook; a context manager."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._is_log = not (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._bars: dict[str, Any] = {}
        self._done_before: dict[str, float] = {}
        self._stack = ExitStack()

    def __enter__(self) -> StudyProgress:
        self._stack.enter_context(logging_redirect_tqdm())
        return self

    def __exit__(self, *error: object) -> None:
        self._close(list(self._bars))
        self._stack.close()

    def notify(self, event: TuneEvent) -> None:
        """Show an event."""
        total = event.cost_total or 1.0
        done = min(event.cost_done / total, 1.0)  # a cell may be trained twice
        how = f" ({event.layout})" if event.layout else ""
        pack = f"{size_words(event.size)}, {counted(event.n_runs, 'run')}{how}"
        name = f"{event.study} {STAGE_NAMES[event.stage]}".strip()
        if name not in self._bars:
            self._close([other for other, bar in self._bars.items() if bar.n >= 1])
            self._done_before[name] = event.cost_done
            self._bars[name] = self._bar(desc=name, postfix=pack, initial=done)
        bar = self._bars[name]
        bar.initial = min(self._done_before[name] / total, 1.0)  # the grid may have grown
        bar.set_postfix_str(pack, refresh=False)
        bar.update(done - bar.n)

    def beside(self, notify: Notify | None) -> Notify:
        """A listener that passes each event to this one and to another."""

        def both(event: TuneEvent) -> None:
            self.notify(event)
            if notify is not None:
                notify(event)

        return both

    def above(self, say: Say) -> Say:
        """Whatever prints a line, so that it prints above the bars."""

        def said(text: str) -> None:
            with tqdm.external_write_mode():
                say(text)

        return said

    def _bar(self, **options: Any) -> Any:
        """A bar of the rest of a stage; its time left is that of the mean speed so far."""
        layout: dict[str, Any] = {"bar_format": BAR, "dynamic_ncols": True}
        if self._is_log:
            layout = {"bar_format": LOG_LINE, "position": 0, "mininterval": LOG_EVERY_S}
            layout["file"] = _Lines()
        return tqdm(total=1, miniters=0, smoothing=0, disable=self._quiet, **layout, **options)

    def _close(self, names: list[str]) -> None:
        for name in names:
            self._bars.pop(name).close()


class _Lines:
    """The standard error as a file in which every drawing is a line of its own."""

    def write(self, text: str) -> None:
        if line := text.strip():
            with suppress(OSError, ValueError):  # a closed output is no reason to stop training
                sys.stderr.write(f"{line}\n")

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
