"""Fields of records that are read from files hold what their annotations say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from extrap.records import Interval
from extrap.records.fields import require_fields

OPEN = Interval(0.0, None)


@dataclass(frozen=True, kw_only=True)
class Inner:
    number: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Outer:
    whole: int = 1
    claim: bool = True
    text: str = "a"
    many: tuple[float, ...] = (1.0, 2)
    pair: tuple[int, str] = (1, "a")
    mapping: Mapping[str, float] | None = None
    inner: Inner = Inner()
    interval: Interval = OPEN
    anything: Any = object


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("whole", (0, -(10**9)), (1.0, True, "1", None)),
        ("claim", (False,), (0, 1, None)),
        ("text", ("",), (1, b"a", None)),
        ("many", ((), (1,)), ([1.0], (True,), (float("inf"),), (float("nan"),), ("1",), 1.0)),
        ("pair", ((2, "b"),), ((2,), (2, "b", 3), ("b", 2))),
        ("mapping", ({}, {"a": 1}, None), ({1: 1.0}, {"a": "1"}, (("a", 1),))),
        ("inner", (Inner(number=2),), (1.0, None)),
        ("interval", (Interval(None, 1.0),), ((0.0, 1.0), Interval(float("inf"), None))),
        ("anything", (1, None, "a"), ()),
    ],
)
def test_a_field_holds_its_own_kind_of_value_only(name, good, bad):
    for value in good:
        require_fields(replace(Outer(), **{name: value}))
    for value in bad:
        with pytest.raises(TypeError, match=f"^{name} of Outer"):
            require_fields(replace(Outer(), **{name: value}))
    with pytest.raises(TypeError, match=r"^number of Inner"):
        require_fields(Outer(inner=Inner(number=float("-inf"))))
