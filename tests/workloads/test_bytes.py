import math

import pytest
import torch
from torch.nn import functional

from extrap.workloads import bytes_transformer


def test_a_target_is_the_next_byte_of_the_text(tiny):
    """The one after the context of the perceptron, one later at every position of the other."""
    for name, n in (("bytes-mlp", 1), ("bytes-transformer", 8)):
        workload = tiny(name, context=8)
        rows = workload.draw_batches(1, 100, torch.Generator().manual_seed(0))[0]
        x, y = workload.examples(workload.training, rows)
        text = workload.training[0].long()
        assert x.shape == (100, 8)
        for row, context, target in zip(rows.tolist(), x, y, strict=True):
            assert torch.equal(context, text[row : row + 8])
            assert torch.equal(target.reshape(-1), text[row + 9 - n : row + 9])


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


def test_every_batch_sees_the_whole_corpus(tiny):
    workload = tiny("bytes-mlp")
    rows = workload.draw_batches(1, 40, torch.Generator().manual_seed(0))[0]
    stretch = (len(workload.training[0]) - 8) / 40
    assert (rows // stretch).tolist() == list(range(40))


def test_a_later_byte_changes_no_earlier_prediction(tiny):
    workload = tiny("bytes-transformer")
    torch.manual_seed(0)
    module = workload.build({"width": 8})
    x_BC = workload.validation[0][:2].clone()
    before = module(x_BC)
    for position in range(8):
        changed = x_BC.clone()
        changed[:, position] = (changed[:, position] + 100) % 256
        differs_BC = (module(changed) != before).any(-1)
        assert not differs_BC[:, :position].any()
        assert differs_BC[:, position:].all()


@pytest.mark.parametrize("limits", [{"MOST_SEQUENCES": 3}, {"MOST_ELEMENTS": 200}])
def test_attention_in_parts_is_attention(tiny, monkeypatch, limits):
    net = tiny("bytes-transformer", depth=1).build({"width": 32})
    x_BC = torch.randint(256, (7, 8))
    whole = net(x_BC)
    for name, most in limits.items():
        monkeypatch.setattr(bytes_transformer, name, most)
    sizes, kernel = [], functional.scaled_dot_product_attention

    def attend(*qkv, **options):
        sizes.append(len(qkv[0]))
        return kernel(*qkv, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", attend)
    torch.testing.assert_close(net(x_BC), whole, rtol=1e-6, atol=1e-6)
    assert sizes == ([3, 3, 1] if "MOST_SEQUENCES" in limits else [1] * 7)


def test_attention_is_written_out(tiny):
    """The network against the textbook: softmax(q kᵀ / √s) v, head by head."""
    torch.manual_seed(0)
    net = tiny("bytes-transformer", depth=1).build({"width": 8}).double()
    x_BC = torch.randint(256, (3, 8))
    h = net.bytes(x_BC) + net.positions(torch.arange(8))
    block = net.blocks[0]
    q, k, v = block.queries_keys_values(block.attention_norm(h)).split(8, -1)
    later = torch.ones(8, 8).triu(1).bool()
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        scores = q[..., head] @ k[..., head].mT / math.sqrt(4)
        heads.append(scores.masked_fill(later, -math.inf).softmax(-1) @ v[..., head])
    h = h + block.attention_output(torch.cat(heads, -1))
    h = h + block.mlp_output(functional.gelu(block.mlp_input(block.mlp_norm(h))))
    torch.testing.assert_close(net(x_BC), net.logits(net.norm(h)))


def test_each_tensor_starts_at_its_scale(tiny):
    torch.manual_seed(0)
    net = tiny("bytes-transformer", depth=8, head_size=64).build({"width": 64})
    sds = {name: float(p.detach().std()) for name, p in net.named_parameters() if p.dim() == 2}
    fan_in = 1 / math.sqrt(3 * 64)
    assert sds["bytes.weight"] == pytest.approx(0.3, rel=0.05)
    assert sds["logits.weight"] == pytest.approx(fan_in, rel=0.05)
    assert sds["blocks.3.mlp_input.weight"] == pytest.approx(fan_in, rel=0.05)
    assert sds["blocks.3.attention_output.weight"] == pytest.approx(fan_in / 4, rel=0.05)
    assert sds["blocks.3.mlp_output.weight"] == pytest.approx(fan_in / 8, rel=0.05)


def test_a_width_that_heads_do_not_fill_is_refused(tiny):
    with pytest.raises(ValueError, match="got 9; take 8"):
        tiny("bytes-transformer").build({"width": 9})
