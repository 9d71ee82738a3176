import math
from contextlib import nullcontext
from dataclasses import replace

import pytest

from extrap.records import Command, StudySpec, Target, TunedRange


def test_words_are_filled_in_with_numbers_as_people_write_them():
    command = Command(["p", "--n={n}", "{lr}", "{lr:.2g}", "{{x}}", "{run_dir}"])
    words = command.words({"n": 64.0, "lr": 0.0078125, "run_dir": "/a b"})
    assert words == ("p", "--n=64", "0.0078125", "0.0078", "{x}", "/a b")
    exact, beyond = float(2**53 - 1), float(2**53)
    assert Command(["{n}"]).words({"n": exact}) == ("9007199254740991",)
    assert Command(["{n}"]).words({"n": beyond}) == ("9007199254740992.0",)
    assert Command(["{n}"]).words({"n": 1e-5}) == ("1e-05",)
    assert Command(["a", "{lr}"]) == Command(("a", "{lr}"))
    assert Command(["a", "{lr}", "{n}-{lr}"]).placeholders() == ("lr", "n")


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        (["a", ""], {}, r"args\.1 .* got ''"),
        (["a", "b\0"], {}, "got .*x00"),
        *(([f"{{{word}}}"], {}, "got '{") for word in ("lr.real", "lr!r", "", "lr:{n}")),
        (["{run_dir}"], {"loss": "(a)(b)"}, r"got '\(a\)\(b\)'"),
        (["{run_dir}"], {"loss": "(a)", "result": "m.json"}, "a name, got"),
        (["{run_dir}"], {"loss": "(a"}, r"got '\(a'"),
        (["a", "{"], {}, "got '{'"),
        (["{run_dir}"], {"result": "m.txt"}, r"got 'm\.txt'"),
        (["{run_dir}"], {"result": "/elsewhere/m.json"}, "got '/elsewhere/m"),
        (["{run_dir}"], {"result": "../m.json"}, r"got '\.\./m"),
        (["{run_dir}"], {"grace_s": math.nan}, "grace_s .* got nan"),
    ],
)
def test_words_and_options_that_mean_nothing_are_refused(args, options, words):
    with pytest.raises(ValueError, match=words):
        Command(args, **options)


def test_a_result_has_a_place_and_a_value_can_be_written():
    with pytest.raises(ValueError, match="add '--out'"):
        Command(["a"], result="m.json")
    with pytest.raises(ValueError, match=r"{lr} has no value"):
        Command(["{lr}"]).words({})
    with pytest.raises(ValueError, match="format code 'd'"):
        Command(["{lr:d}"]).words({"lr": 0.5})


STUDY = StudySpec(
    name="s",
    question="?",
    sizes={"width": (4,)},
    tune={"lr": TunedRange(low=0.1, high=1, n=2)},
)


@pytest.mark.parametrize(
    ("words", "path", "wrong"),
    [
        (["{width}", "{lr}", "{seed}"], {}, None),
        (["{n}", "{lr}", "{seed}"], {"n": "width"}, None),
        (["{lr}", "{seed}"], {}, "add {width}"),
        (["{lr}", "{seed}"], {"n": "width"}, "add {width}"),
        (["{width}", "{seed}"], {}, "add {lr}"),
        (["{width}", "{lr}", "{depth}"], {}, "got depth"),
    ],
)
def test_a_command_is_told_what_moves_in_its_study_and_nothing_else(words, path, wrong):
    with pytest.raises(ValueError, match=wrong) if wrong else nullcontext():
        replace(STUDY, path=path).require_command(Command(["p", *words]))


@pytest.mark.parametrize(
    ("word", "seeds", "n_targets", "is_refused"),
    [
        ("{seed}", ((0, 1), (0, 1)), 1, False),
        ("x", ((0,), (5,)), 1, False),
        ("x", ((0, 1), (0,)), 1, True),
        ("x", ((0,), (0, 1)), 1, True),
        ("x", ((0,), (0, 1)), 0, False),
    ],
)
def test_a_command_that_is_not_told_its_seed_has_one(word, seeds, n_targets, is_refused):
    targets = (Target(size={"width": 8}),) * n_targets
    spec = replace(STUDY, seeds=seeds[0], target_seeds=seeds[1], targets=targets)
    with pytest.raises(ValueError, match="--seed=") if is_refused else nullcontext():
        spec.require_command(Command(["{width}", "{lr}", word]))
