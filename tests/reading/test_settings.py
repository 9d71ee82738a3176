from __future__ import annotations

import pytest

from extrap.reading.settings import number_in, settings_in, without_number


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("width=64,lr=0.01,seed=1", {"width": 64, "lr": 0.01, "seed": 1}),
        ("opt=adam_lr=1e-3_weight_decay=.1", {"opt": "adam", "lr": 0.001, "weight_decay": 0.1}),
        ("lr: 0.01, width: 64 - val_loss", {"lr": 0.01, "width": 64}),
        ("run-7", {}),
        ("=1", {}),
        ("a=", {}),
    ],
)
def test_pairs_in_names_are_settings(name: str, found: dict[str, object]) -> None:
    assert settings_in(name) == found


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("sweep-width=64", 64.0),
        ("width64_lr0.1", 64.0),
        ("WD/width-128", 128.0),
        ("net width: 32", 32.0),
        ("maxwidth64", None),
        ("width64x", None),
        ("wide", None),
    ],
)
def test_numbers_are_found_behind_the_name_of_a_column(name: str, number: float | None) -> None:
    assert number_in(name, "width") == number


def test_multiples_are_understood_and_the_rest_of_a_name_is_what_studies_share() -> None:
    assert number_in("params1.5M", "params") == 1.5e6
    assert without_number("sweep-width=64-adam", "width") == "sweep--adam"
    assert without_number("sweep_width64", "width") == without_number("sweep_width128", "width")


def test_endless_names_take_no_time() -> None:
    assert settings_in("a" * 10**6) == {}
    assert settings_in("a=" * 10**6) == {}
    assert number_in("width" * 10**6, "width") is None
