"""What a loss and a size are, by their names and values: what is known of such forecasts.

| name of the loss | values | kind |
|---|---|---|
| bpb, bpc, bits … | any | bits |
| loss, nll, cross entropy …, no mse, image … | all between .5 and 12 | nats |
| error, err_rate, wer | any | error |
| a metric in [0, 1] that is maximised | any | accuracy |
| any other | any | other |
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from extrap.reading.names import COMPUTE, ERROR, LOSS, known_name
from extrap.records import Runs
from extrap.records.runs import KIND_NOTE, LOSS_NOTE, OF_SHARE

NATS = (0.5, 12.0)
"""Losses of language models per token. Those of image classifiers may look alike."""
BITS = re.compile(r"bpb|bpc|(^|_)bits?($|_)")
PERPLEXITY = re.compile(r"perplexity|ppl")
NO_NATS = re.compile(rf"{PERPLEXITY.pattern}|mse|mae|rmse|image|cls|reward")
"""In names of losses that are no cross entropy of text."""


def loss_kind(runs: Runs) -> str:
    """What the loss of the runs is: `nats`, `bits`, `error`, `accuracy` or `other`.

    What was said when they were read counts before what the name and the values suggest.
    """
    given = _noted(runs, KIND_NOTE)
    if given and not (is_accuracy(runs) and given in ("nats", "bits")):
        return given
    name = _noted(runs, LOSS_NOTE).lower()
    if is_accuracy(runs):
        return "accuracy"
    if BITS.search(name):
        return "bits"
    if ERROR.search(name):
        return "error"
    losses = runs.complete().to_frame()["loss"]
    is_named = not name or (LOSS.search(name) and not NO_NATS.search(name))
    return "nats" if is_named and losses.between(*NATS).all() else "other"


def loss_unit(name: str) -> str:
    """The unit of a loss by its name: `perplexity`, `bits`, `error`, else `nats`."""
    patterns = {"perplexity": PERPLEXITY, "bits": BITS, "error": ERROR}
    return next((unit for unit, p in patterns.items() if p.search(name.lower())), "nats")


def is_accuracy(runs: Runs) -> bool:
    """Whether the loss is what a maximised metric in [0, 1] leaves."""
    return any(OF_SHARE in note for note in runs.notes)


def is_perplexity(runs: Runs) -> bool:
    """Whether the loss is a perplexity, whose logarithm is the loss in nats."""
    is_named = PERPLEXITY.search(_noted(runs, LOSS_NOTE).lower()) is not None
    return is_named and not _noted(runs, KIND_NOTE)


def size_kind(columns: Sequence[str]) -> str:
    """`compute` for one size column that counts FLOPs, else `other`."""
    is_compute = len(columns) == 1 and known_name(columns[0]) in COMPUTE
    return "compute" if is_compute else "other"


def _noted(runs: Runs, start: str) -> str:
    """What a note says after its beginning; empty without one."""
    return next((n.removeprefix(start) for n in runs.notes if n.startswith(start)), "")
