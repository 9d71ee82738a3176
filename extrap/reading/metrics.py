"""Metrics that are better when larger, turned into losses by a rule that is stated.

| the metric is | the loss is | as for |
|---|---|---|
| within [0, 1] | 1 − x, the share that is missing | accuracy, AUC, F1, pass rate |
| below 0 throughout | −x | log-likelihood, negated loss |

Anything else (percent, rewards, decibels) has no loss that we could know: it is an error that says
how to write one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument


class LossOfMetric(NamedTuple):
    """How a metric becomes a loss.

    Attributes:
        turn: Metric → loss.
        note: The rule in words.
    """

    turn: Callable[[pd.Series], pd.Series]
    note: str


def loss_of_metric(values: pd.Series, name: str) -> LossOfMetric:
    """The rule for a metric that is better when larger.

    Args:
        values: Of every run; those that are not finite do not count.
        name: The metric, for messages.

    Raises:
        DataError: A value is exactly the best there can be, or the metric is neither a share nor
            negative throughout.
    """
    finite = values[np.isfinite(values)]
    if finite.empty or finite.between(0, 1).all():
        if (finite == 1).any():
            row = int(finite.index[finite == 1][0])
            raise DataError(
                f"{name} becomes the loss 1 − {name}, which must be positive, got {name} 1 in row "
                f"{row + 1}; leave saturated runs out, or take a metric that is never perfect."
            )
        return LossOfMetric(lambda x: 1 - x, f"{name} is maximised: the loss is 1 − {name}")
    if (finite < 0).all():
        return LossOfMetric(lambda x: -x, f"{name} is maximised: the loss is −{name}")
    odd = finite[~finite.between(0, 1)].iloc[0]
    let = argument("let", f"error = 1 - `{name}` / 100")
    raise DataError(
        f"a metric that is maximised lies in [0, 1], or below 0 throughout, got {name} {odd:g}; "
        f"say what its loss is, e.g. {let} {argument('loss', 'error')}."
    )
