"""Where the time of a training goes."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from extrap.training import parts
from extrap.training.stacks import Stack


class Clock:
    """How long steps and evaluations take in this process, and how many stacks are made.

    Attributes:
        steps_s, evaluations_s: Seconds of the stacks that were trained, not of those that were
            measured to choose a layout.
        n_stacks: All of them.
        n_trained: Those that were trained.
    """

    def __init__(self) -> None:
        self.steps_s = self.evaluations_s = 0.0
        self.n_stacks = self.n_trained = 0

    def running(self) -> ExitStack:
        """A block in which it counts."""
        clock, build = self, Stack.__init__

        class Timed(Stack):
            """A stack in training."""

            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                clock.n_trained += 1

            def advance(self, start: int, stop: int) -> list[int | None]:
                began = time.perf_counter()
                found = super().advance(start, stop)
                clock.steps_s += time.perf_counter() - began
                return found

            def _evaluate(self, *arguments: Any) -> list[float]:
                began = time.perf_counter()
                found = super()._evaluate(*arguments)
                clock.evaluations_s += time.perf_counter() - began
                return found

        def count(stack: Stack, *arguments: Any, **options: Any) -> None:
            clock.n_stacks += 1
            build(stack, *arguments, **options)

        patches = ExitStack()
        patches.enter_context(patch.object(Stack, "__init__", count))
        patches.enter_context(patch.object(parts, "Stack", Timed))
        return patches
