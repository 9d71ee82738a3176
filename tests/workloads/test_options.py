import math
from dataclasses import dataclass

import pytest

from extrap.workloads.options import read_options


@dataclass(frozen=True, kw_only=True)
class Options:
    text: str = "here"
    count: int = 3
    seed: int = 0
    share: float = 0.5


def test_what_is_given_replaces_the_default():
    assert read_options("w", Options, {}) == Options()
    given = {"text": "there", "count": 1, "seed": 0, "share": 1}
    assert read_options("w", Options, given) == Options(**given)
    assert isinstance(read_options("w", Options, given).share, float)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"txt": "there"}, "did you mean 'text'"),
        ({"text": ""}, "text of w .*got ''"),
        ({"text": 3}, "text of w .*got 3"),
        *(({"count": n}, f"count of w .*got {n!r}") for n in (0, "three", True, 2.0)),
        ({"seed": -1}, "seed of w .*got -1"),
        *(({"share": x}, f"share of w .*got {x}") for x in (-0.1, math.nan, math.inf, False)),
    ],
)
def test_an_impossible_option_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        read_options("w", Options, given)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digits", {"label_noise": 1.5}, "label_noise must be a fraction"),
        ("images", {"resolution": 5}, "got 5 for 8 × 8"),
        ("images", {"resolution": 16}, "got 16 for 8 × 8"),
        ("images", {"held_out": 0.001}, "one part empty"),
        ("images", {"held_out": 1.0}, r"in \(0, 1\), got 1"),
        ("images", {"held_out": 0}, r"in \(0, 1\), got 0"),
        ("images", {"path": ""}, "got ''"),
        ("images", {"path": "nowhere"}, "got 'nowhere'"),
        ("bytes-mlp", {"corpus": "nowhere"}, "nowhere"),
        ("bytes-mlp", {"corpus": ""}, "corpus of bytes-mlp"),
        ("bytes-mlp", {"contxt": 8}, "did you mean 'context'"),
        ("bytes-mlp", {"depth": 0}, "depth of bytes-mlp"),
        ("bytes-mlp", {"validation_bytes": 8}, "got 8 of"),
        ("bytes-mlp", {"corpus_bytes": 10_000}, "got 20000 of 10000"),
        ("bytes-mlp", {"corpus_bytes": 20_008}, "got 20000 of 20008"),
        ("teacher", {"alpha": 0}, "alpha of teacher"),
        ("byte-mlp", {}, "did you mean 'bytes-mlp'"),
    ],
)
def test_an_option_of_a_workload_that_it_cannot_have_is_refused(tiny, name, options, message):
    with pytest.raises(ValueError, match=message):
        tiny(name, **options)


def test_a_student_has_no_more_features_than_the_examples(tiny):
    workload = tiny("teacher")
    with pytest.raises(ValueError, match="16, got 17"):
        workload.loss(workload.build({"width": 17}), workload.validation)
