"""What all tests share: the `--device` option and Hypothesis' profile."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("extrap", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("extrap")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="torch device of the training tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `gpu` unless a device other than the CPU was asked for."""
    if config.getoption("--device") != "cpu":
        return
    needs_gpu = [item for item in items if item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=needs_gpu)
    items[:] = [item for item in items if item not in needs_gpu]


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The torch device the training tests run on."""
    return request.config.getoption("--device")
