"""Preemption: training that is asked to stop ends at its next evaluation, and goes on elsewhere.

Nothing here imports torch, and nothing locks: a signal handler may ask at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKPOINTS = Path(".extrap/checkpoints")
"""Where checkpoints lie by default."""
CHECKPOINT_EVERY_S = 60.0
"""Seconds between two checkpoints of a run that nobody asks to stop."""
NO_CHECKPOINTS = (
    "checkpoints need a writable folder with free space, got %s (%s); training continues without "
    "checkpoints; free some space, or give another folder with --checkpoints."
)


class StopAsked(KeyboardInterrupt):
    """Training ends because it was asked to; its runs are checkpointed.

    As Ctrl-C it is no `Exception`: nothing on its way out takes it for an error to live with.
    """


class Preemption:
    """How training is asked to stop, and where runs in training leave what they need to go on.

    Args:
        folder: Where checkpoints lie, a folder in it for each study; for several machines on a
            shared disk. None to leave none.
        every_s: Seconds after which the next evaluation leaves one.

    Attributes:
        is_shared: Whether somebody named the folder, so that other machines may know it too.
        is_stop_requested: Whether training was asked to end.
        is_heard: Whether a training is in progress that will notice the request.

    Example:
        >>> preemption = Preemption(folder=None)
        >>> preemption.ask()  # nobody is in training
        False
    """

    def __init__(
        self, folder: str | Path | None = CHECKPOINTS, *, every_s: float = CHECKPOINT_EVERY_S
    ) -> None:
        if "://" in str(folder):
            raise ValueError(f"checkpoints lie in a folder, got the address {folder}; mount it.")
        self.folder = None if folder is None else Path(folder)
        self.is_shared = folder is not None and folder is not CHECKPOINTS
        self.every_s = every_s
        self.is_stop_requested = self.is_heard = False

    def ask(self) -> bool:
        """Ask training to end; returns `is_heard`."""
        self.is_stop_requested = True
        return self.is_heard

    def stop_if_asked(self) -> None:
        """Raise a `StopAsked` if training was asked to end."""
        if self.is_stop_requested:
            raise StopAsked("asked to stop")

    @contextmanager
    def heard(self) -> Iterator[None]:
        """A block that notices for itself, or ends soon; it is stopped at its end at last."""
        self.stop_if_asked()
        self.is_heard = True
        try:
            yield
        finally:
            self.is_heard = False
        self.stop_if_asked()
