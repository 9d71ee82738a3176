import pytest
import torch


def test_the_target_of_an_example_is_the_byte_after_its_context(tiny):
    workload = tiny("bytes-mlp", context=4)
    rows = workload.draw_batches(1, 1000, torch.Generator().manual_seed(0))[0]
    x, y = workload.examples(workload.training, rows)
    text = bytes(workload.training[0].tolist())
    assert x.shape == (1000, 4)
    for row, context, target in zip(rows.tolist(), x.tolist(), y.tolist(), strict=True):
        assert bytes([*context, target]) == text[row : row + 5]


def test_fewer_bytes_leave_the_held_out_ones_as_they_are(tiny):
    whole, part = tiny("bytes-mlp"), tiny("bytes-mlp", corpus_bytes=21_000)
    assert torch.equal(whole.training[0][:1000], part.training[0])
    assert all(torch.equal(a, b) for a, b in zip(whole.validation, part.validation, strict=True))


def test_the_first_held_out_examples_speak_for_all(tiny, tmp_path):
    (tmp_path / "ascending").write_bytes(bytes(i // 10 for i in range(2560)) * 2)
    workload = tiny("bytes-mlp", corpus=str(tmp_path), validation_bytes=2560)
    x, _ = workload.validation
    assert x[:, 0].min() == 0
    assert x[:, 0].max() >= 254
    assert x[:16, 0].double().mean() == pytest.approx(128, abs=50)


def test_the_fingerprint_follows_the_data(tiny):
    prints = [tiny("bytes-mlp", corpus_bytes=n).fingerprint for n in (60_000, 60_001)]
    assert prints[0]["corpus_sha256"] != prints[1]["corpus_sha256"]
    assert prints[0]["corpus_bytes"] == 60_000


def test_every_batch_sees_the_whole_corpus(tiny):
    workload = tiny("bytes-mlp")
    rows = workload.draw_batches(1, 40, torch.Generator().manual_seed(0))[0]
    stretch = (len(workload.training[0]) - 8) / 40
    assert (rows // stretch).tolist() == list(range(40))
