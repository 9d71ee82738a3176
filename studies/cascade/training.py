"""Trains one byte MLP in plain PyTorch, and saves what it says of every held-out byte.

Shapes: n held-out bytes, C bytes of context, V classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd
import torch
from torch.nn import functional

from extrap.files import whole_file
from extrap.records import Workload
from extrap.workloads import LoadedWorkload, load_workload

STEPS, BATCH = 1000, 128
WARMUP, DECAY = 0.05, 0.5
"""Parts of the steps in which the rate rises, and in which it falls to 0."""
DATA_STREAM = 2**31
"""Added to a seed where batches are drawn: weights and data are apart."""
AT_ONCE = 1024
ANSWERS = Path(".extrap/cascade")


@cache
def workload() -> LoadedWorkload:
    """The bytes of Python's own source, and the model of them."""
    return load_workload(Workload(name="bytes-mlp"))


def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> dict[str, float]:
    """Train a width at a rate; the mean held-out loss in nats.

    What the model says of every held-out byte is saved in the folder `ANSWERS`.
    """
    data, generator = workload(), torch.Generator().manual_seed(seed + DATA_STREAM)
    torch.manual_seed(seed)
    model = data.build(size)
    optimizer = torch.optim.Adam(model.parameters(), lr=tuned["lr"], fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _share_of_rate)
    for _ in range(STEPS):
        batch = data.examples(data.training, data.draw_batches(1, BATCH, generator)[0])
        loss = data.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    found = _answers(model.eval())
    with whole_file(place(size["width"], seed)) as draft:
        found.to_parquet(draft, index=False)
    return {"loss": float(found["loss"].mean()), "n_params": data.n_params(size)}


def place(width: float, seed: int) -> Path:
    """The file of a model's answers."""
    return ANSWERS / f"width-{width:g}-seed-{seed}.parquet"


def _share_of_rate(step: int) -> float:
    return min((step + 1) / (WARMUP * STEPS), 1.0, (STEPS - step) / (DECAY * STEPS))


@torch.no_grad()
def _answers(model: torch.nn.Module) -> pd.DataFrame:
    """The highest probability, whether its byte is right, and the loss: columns of n rows."""
    parts = []
    for x_nC, y_n in zip(*(t.split(AT_ONCE) for t in workload().validation), strict=True):
        log_p_nV = model(x_nC).log_softmax(-1)
        best, chosen = log_p_nV.max(-1)
        loss = functional.nll_loss(log_p_nV, y_n, reduction="none")
        parts.append(torch.stack([best.exp(), (chosen == y_n).float(), loss]))
    columns = torch.cat(parts, 1).double().numpy()
    return pd.DataFrame(dict(zip(("confidence", "correct", "loss"), columns, strict=True)))
