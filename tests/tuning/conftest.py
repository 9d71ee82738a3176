"""What tests of tuning share."""

from __future__ import annotations

import pytest


@pytest.fixture
def url(tmp_path):
    """An empty storage."""
    return f"sqlite:///{tmp_path}/study.db"
