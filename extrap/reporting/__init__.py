"""From a result to blocks, and from blocks to an HTML page, terminal text or Markdown.

* `blocks`, `tables`, `charts` — what everything is made of; `drawing` draws the charts.
* `html`, `text`, `markdown` — the renderers; `embedded` reads a page back.
* `forecast_page` — one page for a forecast and the verdicts on its larger runs.
* `ablation_page`, `allocations_page`, `batches_page`, `cascades_page`, `comparisons_page`,
  `sensitivity_page` — one page per kind of study, each with its text for a terminal.
* `index` — the reports of a folder.
* `saved` — the pictures and tables of a report as files; `plots` — its charts on your axes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extrap.reporting.ablation_page import levers_document
    from extrap.reporting.batches_page import batches_document

__all__ = ["batches_document", "levers_document"]

_HOMES = {"batches_document": "batches_page", "levers_document": "ablation_page"}
"""Names that docs/stability.md promises here → their modules."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
