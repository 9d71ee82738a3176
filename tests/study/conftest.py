"""Every test of a study runs in a folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def at_home(home):
    """Checkpoints lie where the test does."""
