"""Where a page comes from: data, versions, times."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata

from extrap import __version__
from extrap.forecasting import Forecast
from extrap.reporting.groups import RunGroup
from extrap.reporting.numbers import format_quantity

__all__ = ["provenance_rows"]

LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "seaborn", "jinja2")


def provenance_rows(
    forecast: Forecast, groups: Sequence[RunGroup], extra: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Rows of name and value; `extra` rows come last."""
    frame = forecast.runs.to_frame()
    seeds = sorted({str(s) for s in frame["seed"]}, key=lambda s: (len(s), s))
    shown = ", ".join(seeds[:12]) + (f", … ({len(seeds)} in all)" if len(seeds) > 12 else "")
    rows = [
        ("forecast made", forecast.created),
        ("source of the runs", forecast.runs.source or "not recorded"),
        ("data hash (SHA-256)", forecast.runs.data_hash()),
        ("seeds", shown),
    ]
    for column in (*forecast.runs.sizes, *forecast.runs.tuned):
        values = sorted(frame[column].dropna().astype(float).unique())
        rows.append(
            (
                column,
                f"{len(values)} values, {format_quantity(values[0])} to "
                f"{format_quantity(values[-1])}",
            )
        )
    rows.append(("judged runs", str(sum(len(g.verdicts) for g in groups))))
    rows.append(("extrap", __version__))
    rows.append(("Python", platform.python_version()))
    rows.append(("libraries", ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)))
    return [*rows, *((str(k), str(v)) for k, v in extra.items())]
