from __future__ import annotations

import math
from typing import Any

import pytest

from extrap.records import Command


def test_words_are_filled_in_with_numbers_as_people_write_them() -> None:
    command = Command(["p", "--n={n}", "{lr}", "{lr:.2g}", "{{x}}", "{run_dir}"])
    words = command.words({"n": 64.0, "lr": 0.0078125, "run_dir": "/a b"})
    assert words == ("p", "--n=64", "0.0078125", "0.0078", "{x}", "/a b")
    assert Command(["{n}"]).words({"n": 2e10}) == ("20000000000",)
    assert Command(["{n}"]).words({"n": 1e-5}) == ("1e-05",)


def test_a_command_is_a_record_of_plain_values() -> None:
    assert Command(["a", "{lr}"]) == Command(("a", "{lr}"))
    assert Command(["a", "{lr}", "{n}-{lr}"]).placeholders() == ("lr", "n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("python train.py", "a list of words"),
        ([], "a list of words"),
        (["a", 3], "a list of words"),
        (["a", ""], "a list of words"),
        (["a", "{lr"], "names in braces"),
        (["a", "{lr.real}"], "a name in braces, such as"),
        (["a", "{lr!r}"], "a name in braces"),
        (["a", "{}"], "a name in braces"),
        (["a", "{lr:{n}}"], "a name in braces"),
    ],
)
def test_words_that_are_none_are_refused(args: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Command(args)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "(a)(b)"}, "one group"),
        ({"loss": "(a"}, "is none"),
        ({"loss": "(a)", "result": "m.json"}, "for a file"),
        ({"result": "m.txt"}, "ends in .json, .jsonl, .csv"),
        ({"result": "/elsewhere/m.json"}, "a file in {run_dir}"),
        ({"result": "../m.json"}, "a file in {run_dir}"),
        ({"timeout_s": 0}, "timeout_s is above 0 seconds"),
        ({"grace_s": math.nan}, "grace_s is above 0 seconds"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Command(["a", "{run_dir}"], **options)


def test_a_result_needs_a_place_to_write_it() -> None:
    with pytest.raises(ValueError, match="is told where to write it"):
        Command(["a"], result="m.json")


def test_a_value_that_is_missing_or_cannot_be_written_so_is_named() -> None:
    with pytest.raises(ValueError, match="has no value"):
        Command(["{lr}"]).words({})
    with pytest.raises(ValueError, match="cannot be filled in"):
        Command(["{lr:d}"]).words({"lr": 0.5})
