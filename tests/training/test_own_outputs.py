"""What counts as a loss in a line that a script prints."""

import math

import pytest

from extrap.training.own.outputs import printed_loss


def heard(*lines, loss=""):
    return printed_loss(lines, loss)


LOSSES = (
    ("loss=1.25", 1.25), ("final Loss : 1.25e-1,", 0.125), ("loss 3", 3.0), ("val/loss=.5", 0.5),
    ('{"epoch": 2, "loss": 0.5}', 0.5), ("{'eval_loss': 2.5, 'eval_runtime': 1.0}", 2.5),
    ("step 250: train loss 1.5, val loss 1.75", 1.75), ("loss=1.5.", 1.5),
    ("loss: -inf", -math.inf), ("loss=1.5 (best loss=1.0)", 1.5),
    ("(best loss=1.0) loss=1.5", 1.5), ("train loss: 1.2, test loss: 1.5", 1.5),
    ("train loss: 1.2, loss: 1.5", 1.5), ("2026-01-01 INFO loss=1.5", 1.5),
    ("lr=nan loss=1.5", 1.5), ("loss: 1.5, 0.5 s", 1.5),
    ("\x1b[1mloss\x1b[0m: \x1b[32m1.5\x1b[0m", 1.5),
)  # fmt: skip
NO_LOSS = (
    "train_loss=1", "loss=1.5.2", "loss=abc", "loss=1x", "lossy=1", "gloss=2", "my.loss=1",
    "loss=", "loss: 2,345", "loss: 1,234.5", "loss: 1.234,5", "final loss: 1 234,5", "loss = 95%",
    "loss: 5 %", "loss 3 of 10 batches lost", "val_loss: 1.92 -> 1.85", "aux loss: 0.01",
    "weight decay loss: .5", "train loss 2", "NaN loss 1 times", "best val_loss=1.2",
    "resume from val_loss=9.9",
)  # fmt: skip


@pytest.mark.parametrize(("line", "loss"), [*LOSSES, *((line, None) for line in NO_LOSS)])
def test_a_loss_is_found_as_people_print_it_and_nothing_else(line, loss):
    answer = heard("nothing", line, "done")
    assert (answer and answer["loss"]) == loss


@pytest.mark.parametrize(
    ("lines", "name", "loss", "curve"),
    [
        (("val_loss=1.5", "\x1b[32mval_loss=1.2\x1b[0m"), "", 1.2, []),
        (("step 5 of 90 loss=3",), "", 3.0, [(5, 3.0)]),
        (("step 1,000 loss=2", "step 20, loss=1"), "", 1.0, [(20, 1.0)]),
        (("loss=2 aux loss: 0.5",), "aux_loss", 0.5, []),
        (("loss=1 bits_per_byte=2",), "bits_per_byte", 2.0, []),
        (("bits per byte: 2",), "bits_per_byte", 2.0, []),
        (("ppl -> 3 at", "step 7 ppl -> 4"), r"ppl -> (\S+)", 4.0, [(7, 4.0)]),
        (("loss=9", "step 1 loss=8 val_loss=7", "step 3 loss=5"), "", 7.0, [(1, 7.0)]),
        (("step 1 loss=2", "step 2 loss=nan"), "", pytest.approx(math.nan, nan_ok=True), None),
    ],
)
def test_of_several_lines_the_last_loss_of_validation_or_of_a_name_counts(
    lines, name, loss, curve
):
    answer = heard(*lines, loss=name)
    assert answer["loss"] == loss
    assert curve is None or answer["curve"] == curve
