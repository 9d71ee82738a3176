"""From a result to blocks, and from blocks to an HTML page, terminal text or Markdown.

* `blocks`, `tables`, `charts` — what everything is made of; `drawing` draws the charts.
* `html`, `text`, `markdown` — the renderers; `embedded` reads a page back.
* `forecast_page` — one page for a forecast and the verdicts on its larger runs.
* `allocations_page`, `batches_page`, `comparisons_page`, `sensitivity_page` — one page per kind
  of study, each with its text for a terminal.
* `index` — the reports of a folder.
* `plots` — the charts of a report on your axes.
"""

from __future__ import annotations

__all__: list[str] = []
