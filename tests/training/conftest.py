import pytest

from extrap.training import Crew


@pytest.fixture(scope="session")
def crew():
    """One process beside this one, started anew when a test has ended it."""
    made = Crew(1)
    yield made
    made.close()
