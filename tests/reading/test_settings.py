import pytest

from extrap.reading.settings import as_number, number_in, settings_in


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("width=64,lr=0.01,seed=1", {"width": 64, "lr": 0.01, "seed": 1}),
        ("opt=adam_lr=1e-3_weight_decay=.1", {"opt": "adam", "lr": 0.001, "weight_decay": 0.1}),
        ("lr: 0.01, width: 64 - val_loss", {"lr": 0.01, "width": 64}),
        *(("run-7", {}), ("=1", {}), ("a=", {})),
        ("a=" * 10**6, {}),
        ("a" * 10**6, {}),
    ],
)
def test_pairs_in_names_are_settings(name, found):
    assert settings_in(name) == found


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *(("sweep-width=64", 64.0), ("width64_lr0.1", 64.0), ("WD/width-128", 128.0)),
        *(("net width: 32", 32.0), ("width.5k", 500.0), ("width2K", 2e3), ("width3b", 3e9)),
        *(("width1.5M", 1.5e6), ("width1T", 1e12), ("width1e3m", 1e9)),
        *(("maxwidth64", None), ("width64x", None), ("wide", None), ("width" * 10**6, None)),
    ],
)
def test_numbers_are_found_behind_the_name_of_a_column(name, number):
    assert number_in(name, "width") == number


def test_numbers_are_exact():
    found = [as_number(text) for text in ("9" * 18, "-7", "1.0", "1e3", "1x")]
    assert list(map(repr, found)) == ["9" * 18, "-7", "1.0", "1000.0", "'1x'"]
