"""From a result to blocks, and from blocks to an HTML page, terminal text or Markdown.

* `blocks`, `tables`, `charts` — what everything is made of; `drawing` draws the charts.
* `html`, `text`, `markdown` — the renderers.
* `forecast_page` — what a page and a terminal show of a forecast and of the verdicts on its larger
  runs; its parts are in `forecast_answer`, `forecast_charts`, `forecast_tables`, `statements`.
* `allocations_page`, `batches_page`, `comparisons_page`, `sensitivity_page` — one page per kind
  of study, each with its text for a terminal; charts of two kinds are in `…_charts`.
* `backtests`, `cascades`, `costs`, `plans`, `value_laws` — what commands print that have no
  page.
* `study_page` — what all pages share.
* `index` — the reports of a folder.
* `plots` — the charts of a report on your axes.
"""

from __future__ import annotations

__all__: list[str] = []
