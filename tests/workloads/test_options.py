from __future__ import annotations

from dataclasses import dataclass

import pytest

from extrap.workloads.options import read_options


@dataclass(frozen=True, kw_only=True)
class Options:
    text: str = "here"
    count: int = 3
    seed: int = 0
    share: float = 0.5


def test_what_is_given_replaces_the_default() -> None:
    assert read_options("w", Options, {}) == Options()
    given = {"text": "there", "count": 1, "seed": 0, "share": 1}
    assert read_options("w", Options, given) == Options(**given)
    assert isinstance(read_options("w", Options, given).share, float)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"txt": "there"}, "unknown option of w 'txt'; did you mean 'text'"),
        ({"text": ""}, "text of w must be text, got ''"),
        ({"text": 3}, "text of w must be text, got 3"),
        ({"count": 0}, "count of w must be a whole number above 0, got 0"),
        ({"count": "three"}, "count of w must be a whole number above 0, got 'three'"),
        ({"count": True}, "count of w must be a whole number above 0, got True"),
        ({"count": 2.0}, "count of w must be a whole number above 0, got 2.0"),
        ({"seed": -1}, "seed of w must be a whole number not below 0, got -1"),
        ({"share": -0.1}, "share of w must be a number not below 0, got -0.1"),
        ({"share": float("nan")}, "share of w must be a number not below 0, got nan"),
        ({"share": float("inf")}, "share of w must be a number not below 0, got inf"),
        ({"share": False}, "share of w must be a number not below 0, got False"),
    ],
)
def test_an_impossible_option_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_options("w", Options, given)
