import pytest

from extrap.training import WorkerPool


@pytest.fixture(scope="session")
def pool():
    """One process beside this one, started anew when a test has ended it."""
    made = WorkerPool(1)
    yield made
    made.close()
