"""From a result to blocks, and from blocks to an HTML page, terminal text or Markdown.

* `blocks`, `tables`, `charts` — what every result is made of; `drawing` draws the charts.
* `html`, `text`, `markdown` — the renderers.
* `flags` — flags in words, from the table of an analysis.
* `study_page` — what all pages share.
* `index` — the reports of a folder.

What is shown of a result is in `page.py` of its analysis (`extrap.registry`).
"""

from __future__ import annotations

__all__: list[str] = []
