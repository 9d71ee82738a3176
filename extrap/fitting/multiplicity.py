"""Several tests of one family: p-values adjusted for their number."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of Holm's step-down procedure; rejected are those at most alpha.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    from statsmodels.stats.multitest import multipletests  # takes a while to import

    return multipletests(p_values, method="holm")[1].tolist() if len(p_values) > 1 else [*p_values]
