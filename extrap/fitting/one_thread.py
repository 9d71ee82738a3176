"""BLAS on one thread: fits multiply small matrices, and further threads only wait for each other.

A forecast of 400 runs over two size columns takes 3 seconds of processor time; with two threads,
beside two busy processes, it took 10.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS of NumPy and that of SciPy, which is another one: both are loaded first."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class OneThread(ContextDecorator):
    """A block or a function in which BLAS runs on one thread; then as it was.

    Blocks may stand in each other and run in several threads: the limit belongs to the process,
    and the last one out lifts it.
    """

    def __init__(self) -> None:
        self._lock, self._n_open = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._n_open == 0:
                self._limit = _libraries().limit(limits=1)
            self._n_open += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_open -= 1
            if self._n_open == 0:
                self._limit.restore_original_limits()


one_thread = OneThread()
"""That of this process."""
