"""What a loss and a size are, by name, values, or what was said."""

import pandas as pd
import pytest

from extrap.reading import read_runs
from extrap.reading.losses import loss_kind, size_kind

X = [1e18, 4e18, 1.6e19]


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("loss", (3.0, 2.8, 2.7), "nats"),
        ("val/nll", (3.0, 2.8, 2.7), "nats"),
        ("loss", (0.03, 0.028, 0.027), "other"),  # a mean squared error
        ("loss", (30.0, 28.0, 27.0), "other"),
        ("val_ppl", (9.0, 8.0, 7.5), "other"),
        ("val_bpb", (0.3, 0.28, 0.27), "bits"),
        ("top1_error", (0.6, 0.55, 0.53), "error"),
    ],
)
def test_the_kind_follows_from_name_and_values_unless_it_is_said(name, values, kind):
    table = pd.DataFrame({"flops": X, name: values})
    assert loss_kind(read_runs(table, size="flops", loss=name)) == kind
    said = read_runs(table, size="flops", loss=name, loss_kind="bits")
    assert loss_kind(said) == "bits"


def test_what_a_maximised_share_leaves_is_an_accuracy():
    table = pd.DataFrame({"flops": X, "acc": [0.3, 0.4, 0.5], "ll": [-3.0, -2.0, -1.0]})
    assert loss_kind(read_runs(table, size="flops", loss="acc", maximise="acc")) == "accuracy"
    assert loss_kind(read_runs(table, size="flops", loss="ll", maximise="ll")) == "nats"
    said = read_runs(table, size="flops", loss="acc", maximise="acc", loss_kind="error")
    assert loss_kind(said) == "error"


def test_an_unknown_kind_is_refused():
    table = pd.DataFrame({"flops": X, "loss": [3.0, 2.8, 2.7]})
    with pytest.raises(ValueError, match="loss_kind must be one of nats, bits"):
        read_runs(table, size="flops", loss_kind="nat")


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (("flops",), "compute"),
        (("train/Total FLOPs",), "compute"),
        (("compute",), "compute"),
        (("width",), "other"),
        (("flops", "tokens"), "other"),
    ],
)
def test_compute_is_one_size_column_that_counts_flops(columns, kind):
    assert size_kind(columns) == kind
