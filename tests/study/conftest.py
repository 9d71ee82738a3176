"""Where the studies of one test file are kept."""

import pytest


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A storage and a folder of reports for all tests of a file."""
    home = tmp_path_factory.mktemp("study")
    return {"storage": f"sqlite:///{home / 'toy.db'}", "reports": home / "reports"}


@pytest.fixture
def url(tmp_path):
    """An empty storage."""
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Checkpoints lie where the test does."""
    monkeypatch.chdir(tmp_path)
