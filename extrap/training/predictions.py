"""Train, and say of every held-out input how sure the model is, whether right, at what loss.

Shapes: n predicted tokens, V classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from extrap.errors import DataError
from extrap.records import Cell, TextRule
from extrap.training.denormals import without_denormals
from extrap.training.engine import find_device
from extrap.training.layouts import choose_layout, threads
from extrap.training.packs import Pack
from extrap.training.stacks import Stack
from extrap.workloads import Answers, LoadedWorkload

AT_ONCE = 1024
"""Held-out examples of one pass."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """What a model, or a rule, says of every held-out input, in the workload's order.

    Attributes:
        confidence: Its highest probability, shape (n,).
        correct: 1.0 where the class of that probability is right, else 0.0, shape (n,).
        loss: Nats, shape (n,).
    """

    confidence: Floats
    correct: Floats
    loss: Floats


def require_answers(workload: LoadedWorkload) -> Answers:
    """The workload as one that answers classes.

    Raises:
        DataError: It has no `answers`.
    """
    if not callable(getattr(workload, "answers", None)):
        raise DataError(
            "predictions of single inputs need a workload of classes, with a method "
            "answers(module, batch) → (logits, classes); this one has none; add it, or "
            "use bytes-mlp, bytes-transformer, digits or images."
        )
    return cast(Answers, workload)


def train_and_predict(pack: Pack, *, device: str | None = None) -> Iterator[tuple[Cell, Answered]]:
    """Train the runs of a pack one after the other, and predict every held-out input with each.

    Args:
        pack: The runs.
        device: As in `extrap.training.train`.

    Raises:
        DataError: The workload does not answer classes, or a run diverged.
    """
    require_answers(pack.workload)
    place = find_device(device)
    with without_denormals():
        layout = choose_layout(replace(pack, cells=pack.cells[:1]), place, n_processes=1)
        with threads(layout.n_threads):
            for cell in pack.cells:
                own = replace(pack, cells=(cell,))
                stack = Stack(own, place)
                broke_at = stack.advance(0, own.recipes()[0].n_updates)[0]
                found = predict(own, stack.state(0))
                if broke_at is not None or not np.isfinite(found.loss).all():
                    raise DataError(
                        "a cascade needs two trained models; the run with lr "
                        f"{dict(cell.tuned)['lr']:g} and seed {cell.seed} diverged; lower "
                        "its lr."
                    )
                yield cell, found


def predict(pack: Pack, state: dict[str, torch.Tensor]) -> Answered:
    """What a model with these parameters and buffers answers to every held-out input.

    Args:
        pack: Workload and size.
        state: Name → tensor of one run, as from `Stack.state`.
    """
    workload = require_answers(pack.workload)
    device = next(iter(state.values())).device
    module = _with_state(pack.workload.build(pack.model_size()), state).to(device).eval()
    parts: list[Sequence[torch.Tensor]] = []
    with torch.no_grad():
        for batch in zip(*(t.split(AT_ONCE) for t in pack.workload.validation), strict=True):
            on_device = tuple(t.to(device) for t in batch)
            logits, classes = workload.answers(module, on_device)
            log_p_nV = logits.reshape(-1, logits.shape[-1]).log_softmax(-1)
            best, chosen = log_p_nV.max(-1)
            loss = functional.nll_loss(log_p_nV, classes.reshape(-1), reduction="none")
            parts.append((best.exp(), chosen == classes.reshape(-1), loss))
    columns = (torch.cat([part[i] for part in parts]).double().cpu().numpy() for i in range(3))
    return Answered(*columns)


def answers_of_rule(workload: LoadedWorkload, rule: TextRule) -> tuple[Floats, Floats]:
    """Which held-out inputs a rule answers, and where it is right: two arrays of 0 and 1, (n,).

    Raises:
        DataError: The workload's inputs are not bytes with one to predict.
    """
    held_out = workload.validation
    is_text = len(held_out) == 2 and all(t.dtype == torch.int64 for t in held_out)
    if not is_text or workload.tokens_per_example != 1 or held_out[0].dim() != 2:
        raise DataError(
            "a rule over text needs inputs that are bytes, with one byte to predict from "
            "each; use the workload bytes-mlp, or leave the rule out."
        )
    contexts, targets = (t.numpy().astype(np.uint8) for t in held_out)
    answered = np.array([rule.matches(row.tobytes()) for row in contexts])
    return answered.astype(float), (targets == rule.answer.encode()[0]).astype(float)


def _with_state(module: nn.Module, state: dict[str, torch.Tensor]) -> nn.Module:
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            tensor.copy_(state[name])
    return module
