from __future__ import annotations

import pytest
import torch

from extrap.records import Workload
from extrap.workloads import load_workload

TINY = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}


def test_parameters_are_counted_without_and_with_the_embedding() -> None:
    workload = load_workload(Workload(name="bytes-mlp", options={**TINY, "depth": 2}))
    hidden = (256 * 8 + 8) + (8 * 8 + 8) + (8 * 256 + 256)
    assert workload.n_params({"width": 8}) == hidden
    assert workload.n_params_total({"width": 8}) == hidden + 256 * 16


def test_an_untrained_model_knows_about_as_little_as_a_uniform_guess() -> None:
    workload = load_workload(Workload(name="bytes-mlp", options=TINY))
    torch.manual_seed(0)
    loss = workload.loss(workload.build({"width": 16}), workload.validation)
    assert loss.item() == pytest.approx(5.545, abs=0.3)  # log 256


def test_the_target_of_an_example_is_the_byte_after_its_context() -> None:
    workload = load_workload(Workload(name="bytes-mlp", options={**TINY, "context": 4}))
    x, y = workload.draw(1000, torch.Generator().manual_seed(0))
    text = bytes(workload._training[:, 0].tolist())
    assert x.shape == (1000, 4)
    assert all(bytes([*row, int(b)]) in text for row, b in zip(x.tolist()[:20], y, strict=False))


def test_the_fingerprint_follows_the_data() -> None:
    more = {**TINY, "corpus_bytes": 60_001}
    prints = [
        load_workload(Workload(name="bytes-mlp", options=o)).fingerprint for o in (TINY, more)
    ]
    assert prints[0]["corpus_sha256"] != prints[1]["corpus_sha256"]
    assert prints[0]["corpus_bytes"] == 60_000


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (Workload(name="byte-mlp"), "unknown workload 'byte-mlp'; did you mean 'bytes-mlp'"),
        (Workload(name="bytes-mlp", options={"contxt": 8}), "did you mean 'context'"),
        (Workload(name="bytes-mlp", options={"depth": 0}), "depth of bytes-mlp must be"),
        (Workload(name="bytes-mlp", options={"depth": "three"}), "depth of bytes-mlp must be"),
        (Workload(name="bytes-mlp", options={"depth": True}), "depth of bytes-mlp must be"),
        (Workload(name="bytes-mlp", options={"corpus": ""}), "corpus of bytes-mlp must be"),
        (Workload(name="bytes-mlp", options={"validation_bytes": 16}), "must exceed its context"),
    ],
)
def test_a_wrong_choice_is_answered_by_the_right_ones(workload: Workload, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_workload(workload)


@pytest.mark.parametrize("size", [{"depth": 8}, {"width": 8.5}, {"width": 8, "depth": 2}])
def test_a_size_it_cannot_build_is_refused(size: dict[str, float]) -> None:
    workload = load_workload(Workload(name="bytes-mlp", options=TINY))
    with pytest.raises(ValueError, match="whole-numbered width"):
        workload.build(size)
