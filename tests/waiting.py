"""Waiting for what another process does."""

import time


def wait_until(is_so):
    """Wait for an event; the bound is a protection only."""
    deadline = time.monotonic() + 600
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
