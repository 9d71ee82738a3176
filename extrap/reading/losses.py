"""The loss of a run: which part of its curve counts, metrics to maximise, and what kind it is.

| rule | the loss of a run is |
|---|---|
| `last` | that of its last step |
| `best` | the smallest of its curve: optimistic by the noise of one evaluation |
| `tail` | the mean over the last 5 % of its points; `tail:0.1` over the last 10 % |

A run whose last point is not finite has diverged, whatever the rule. The points of one tail are
correlated and share a seed, so their scatter is no standard error of the loss and is not used as
one; that comes from replicates.

| a metric that is better when larger | its loss | as for |
|---|---|---|
| within [0, 1] | 1 − x, the share that is missing | accuracy, AUC, F1, pass rate |
| below 0 throughout | −x | log-likelihood, negated loss |

Anything else (percent, rewards, decibels) has no loss that we could know: it is an error that says
how to write one.

| name of the loss | values | kind |
|---|---|---|
| bpb, bpc, bits … | any | bits |
| loss, nll, cross entropy …, no mse, image … | all between .5 and 12 | nats |
| error, err_rate, wer | any | error |
| a metric in [0, 1] that is maximised | any | accuracy |
| any other | any | other |
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.reading.names import COMPUTE_NAMES, ERROR_PATTERN, LOSS_PATTERN, known_name
from extrap.records import Runs
from extrap.records.fields import ROUNDING
from extrap.records.notes import LOSS_COLUMN, LOSS_KIND, MAXIMISED, note, values_of

EXTREMES = {"min": "minimum", "max": "maximum", "best": "best value"}
"""Endings of a summary's metrics → what they are of a curve."""
TAIL = 0.05
"""Share of a curve's points that `tail` averages."""
NATS = (0.5, 12.0)
"""Losses of language models per token. Those of image classifiers may look alike."""
BITS = re.compile(r"bpb|bpc|(^|_)bits?($|_)")
"""In names of losses in bits."""
PERPLEXITY = re.compile(r"perplexity|ppl")
"""In names of perplexities."""
NO_NATS = re.compile(rf"{PERPLEXITY.pattern}|mse|mae|rmse|image|cls|reward")
"""In names of losses that are no cross entropy of text."""


class FinalRule(NamedTuple):
    """`last`, `best` or `tail`, and the share of the points, in (0, 1], that a tail averages."""

    name: str
    share: float = TAIL


def parse_final(text: str) -> FinalRule:
    """`last`, `best`, `tail` or `tail:SHARE`.

    Raises:
        ValueError: It is none of them, or the share is not in (0, 1].
    """
    name, has_share, share = text.strip().partition(":")
    try:
        rule = FinalRule(name, float(share) if has_share else TAIL)
    except ValueError:
        rule = FinalRule("")
    allowed = ("tail",) if has_share else ("last", "best", "tail")
    if rule.name not in allowed or not 0 < rule.share <= 1:
        raise ValueError(
            f"the final loss is last, best, tail or tail:SHARE with a share in (0, 1], got "
            f"{text!r}; write tail:0.1 for the mean of the last 10 %."
        )
    return rule


def _final(losses: np.ndarray, rule: FinalRule) -> float:
    """The final loss of a curve; NaN if its last point is not finite."""
    name, share = rule
    if not math.isfinite(losses[-1]):
        return math.nan
    if name == "best":
        return float(losses[np.isfinite(losses)].min())
    n_points = math.ceil(share * len(losses) - ROUNDING) if name == "tail" else 1
    return float(losses[-n_points:].mean())  # NaN where one of them is not finite


def with_final_losses(
    losses: pd.Series, curves: pd.DataFrame | None, rule: FinalRule, where: str
) -> tuple[pd.Series, list[str]]:
    """The losses of a table by a rule, and a note of what was done; `last` leaves all as it is.

    Raises:
        DataError: The rule needs curves and there are none.
    """
    name, share = rule
    if name == "last":
        return losses, []
    if curves is None or curves.empty:
        raise DataError(
            f"the final loss is {name!r} of a curve, {where} has the last loss of a run "
            f"only; give {argument('curves', ...)}, or leave {argument('final')} out."
        )
    ordered = curves.drop_duplicates(["run", "step"], keep="last")  # the later row of a step
    by_run = ordered.sort_values(["run", "step"], kind="stable").groupby("run")["loss"]
    finals = by_run.agg(lambda loss: _final(loss.to_numpy(float), rule))
    has_curve = losses.index.isin(finals.index)
    chosen = finals.reindex(losses.index).astype(object).where(has_curve, None)
    said = f"the mean of the last {share:.3g} of" if name == "tail" else "the best of"
    notes = [f"the loss of a run is {said} its curve"]
    if not has_curve.all():
        notes.append(f"{int((~has_curve).sum())} run(s) without a curve: left out")
    return chosen, notes


def summary_notes(metric: str) -> list[str]:
    """What to say of a metric that is an extreme of a curve, such as `val_loss.min`."""
    whole, _, end = metric.rpartition(".")
    if not whole or end not in EXTREMES:
        return []
    return [
        f"{metric} is the {EXTREMES[end]} of {whole} over a run, not its last: optimistic by the "
        "noise of one evaluation"
    ]


def loss_of_metric(values: pd.Series, name: str) -> tuple[float, str]:
    """The number from which a metric is subtracted that is better when larger, and that in words.

    Values that are not finite do not count.

    Raises:
        DataError: A value is exactly the best there can be, or the metric is neither a share nor
            negative throughout.
    """
    finite = values[np.isfinite(values)]
    if (finite < 0).all() and len(finite):
        return 0.0, f"{name} is maximised: the loss is −{name}"
    if odd := finite[~finite.between(0, 1)].tolist():
        let = argument("let", f"error = 1 - `{name}` / 100")
        raise DataError(
            f"a metric that is maximised lies in [0, 1], or below 0 throughout, got {name} "
            f"{odd[0]:g}; say what its loss is, e.g. {let} {argument('loss', 'error')}."
        )
    if (finite == 1).any():
        raise DataError(
            f"{name} becomes the loss 1 − {name}, which must be positive, got {name} 1 in row "
            f"{finite.index[finite == 1][0] + 1}; leave saturated runs out, or take a metric that "
            "is never perfect."
        )
    return 1.0, note(MAXIMISED, name, name)


def loss_kind(runs: Runs) -> str:
    """What the loss of the runs is: `nats`, `bits`, `error`, `accuracy` or `other`.

    What was said when they were read counts before what the name and the values suggest.
    """
    stated_kind = _noted(runs, LOSS_KIND)
    if stated_kind and not (is_accuracy(runs) and stated_kind in ("nats", "bits")):
        return stated_kind
    name = _noted(runs, LOSS_COLUMN).lower()
    if is_accuracy(runs):
        return "accuracy"
    if BITS.search(name):
        return "bits"
    if ERROR_PATTERN.search(name):
        return "error"
    losses = runs.complete().to_frame()["loss"]
    is_named = not name or (LOSS_PATTERN.search(name) and not NO_NATS.search(name))
    return "nats" if is_named and losses.between(*NATS).all() else "other"


def loss_unit(name: str) -> str:
    """The unit of a loss by its name: `perplexity`, `bits`, `error`, else `nats`."""
    patterns = {"perplexity": PERPLEXITY, "bits": BITS, "error": ERROR_PATTERN}
    return next((unit for unit, p in patterns.items() if p.search(name.lower())), "nats")


def is_accuracy(runs: Runs) -> bool:
    """Whether the loss is what a maximised metric in [0, 1] leaves."""
    return bool(values_of(runs.notes, MAXIMISED))


def is_perplexity(runs: Runs) -> bool:
    """Whether the loss is a perplexity, whose logarithm is the loss in nats."""
    is_named = PERPLEXITY.search(_noted(runs, LOSS_COLUMN).lower()) is not None
    return is_named and not _noted(runs, LOSS_KIND)


def size_kind(columns: Sequence[str]) -> str:
    """`compute` for one size column that counts FLOPs, else `other`."""
    is_compute = len(columns) == 1 and known_name(columns[0]) in COMPUTE_NAMES
    return "compute" if is_compute else "other"


def _noted(runs: Runs, code: str) -> str:
    """The value of a note; empty without one."""
    return next((values[0] for values in values_of(runs.notes, code)), "")
