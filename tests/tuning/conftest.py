"""What tests of tuning share."""

import pytest


@pytest.fixture
def url(tmp_path):
    """An empty storage."""
    return f"sqlite:///{tmp_path}/study.db"
