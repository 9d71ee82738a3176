"""A forecast as the tables that statisticians know: coefficients, standard errors, intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scipy import stats

from extrap.records import Fit

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary as Summary


def summarise(
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    laws: Sequence[tuple[str, Fit, float]],
    points: Sequence[Mapping[str, float | None]],
    level: float,
    notes: Sequence[str],
) -> Summary:
    """Tables in the manner of statsmodels: facts, a table of coefficients a law, predictions.

    Args:
        title: Heading.
        facts: Name and value, in pairs.
        laws: What a law is of, the fit, its weight.
        points: Rows of predictions, all with the same columns.
        level: Content of the intervals.
        notes: Sentences below.

    Returns:
        A `statsmodels.iolib.summary.Summary`: print it, or call `as_html()` or `as_csv()`.
    """
    from statsmodels.iolib.summary import Summary
    from statsmodels.iolib.table import SimpleTable

    found = Summary()
    pairs = [*facts, *([("", "")] if len(facts) % 2 else [])]
    half = len(pairs) // 2
    left, right = pairs[:half], pairs[half:]
    rows = [[*a, *b] for a, b in zip(left, right, strict=True)]
    found.tables.append(SimpleTable(rows, title=title))
    for target, fit, weight in laws:
        heading = f"{target}: {fit.law}, weight {weight:.3g}, {fit.n_points} sizes"
        found.tables.append(SimpleTable(_coefficients(fit, level), title=heading))
    if points:
        header = list(points[0])
        body = [[_number(row[name]) for name in header] for row in points]
        found.tables.append(SimpleTable([header, *body], title="forecast"))
    found.add_extra_txt(list(notes))
    return found


def _coefficients(fit: Fit, level: float) -> list[list[str]]:
    tail = (1 - level) / 2
    rows = [["", "coef", "std err", f"[{tail:.3f}", f"{1 - tail:.3f}]"]]
    t = float(stats.t.ppf(1 - tail, fit.scale_dof))
    for i, (name, value) in enumerate(fit.parameters.items()):
        if name in fit.fixed:
            rows.append([name, _number(value), "pinned", "", ""])
            continue
        se = math.sqrt(fit.covariance[i][i])
        rows.append([name, *map(_number, (value, se, value - t * se, value + t * se))])
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
