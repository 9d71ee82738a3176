"""The page people show to their team: numbers, then pictures of them, then one HTML file.

* `report` — one page for a forecast and the verdicts on its larger runs.
* `baseline_text` — what it says of a baseline, for a terminal.
* `knob_page` — sensitivity of fixed values; `knobs_text`, `knobs_document` for terminal, JSON.
* `lever_page` — ablations compared; `levers_text` and `levers_document` likewise.
* `batch_page` — batch sizes, noise and rates; `batches_document` for JSON.
* `comparison_page` — recipes over size; `comparison_study_text` likewise.
* `allocation_page` — a budget split and checked; `allocations_text` likewise.
* `cascade_page` — a small model before a large one; `cascades_text` likewise.
* `About` — title, question, time and provenance of a study's page.
* `write_index` — an index over the reports of a folder; `beside_page` — two side by side.
* `read_report` — the numbers of a page; `report_markdown` — its summary for a pull request.
* `save_figures` — the pictures and tables of a report as files.

Each is fetched on first use: text for a terminal needs no drawing library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extrap.reporting.ablation_page import lever_page, levers_document, levers_text
    from extrap.reporting.allocations_page import allocation_page, allocations_text
    from extrap.reporting.baselines import baseline_text
    from extrap.reporting.batches_page import batch_page, batches_document
    from extrap.reporting.beside import beside_page
    from extrap.reporting.cascades_page import cascade_page, cascades_text
    from extrap.reporting.comparisons_page import comparison_page, comparison_study_text
    from extrap.reporting.embedded import read_blocks, read_report
    from extrap.reporting.forecast_page import report, report_document
    from extrap.reporting.index import write_index
    from extrap.reporting.markdown import report_markdown
    from extrap.reporting.saved import save_figures
    from extrap.reporting.sensitivity_page import knob_page, knobs_document, knobs_text
    from extrap.reporting.study_page import About

__all__ = [
    "About",
    "allocation_page",
    "allocations_text",
    "baseline_text",
    "batch_page",
    "batches_document",
    "beside_page",
    "cascade_page",
    "cascades_text",
    "comparison_page",
    "comparison_study_text",
    "knob_page",
    "knobs_document",
    "knobs_text",
    "lever_page",
    "levers_document",
    "levers_text",
    "read_blocks",
    "read_report",
    "report",
    "report_document",
    "report_markdown",
    "save_figures",
    "write_index",
]

_NAMES = {
    "ablation_page": ("lever_page", "levers_document", "levers_text"),
    "allocations_page": ("allocation_page", "allocations_text"),
    "baselines": ("baseline_text",),
    "batches_page": ("batch_page", "batches_document"),
    "beside": ("beside_page",),
    "cascades_page": ("cascade_page", "cascades_text"),
    "comparisons_page": ("comparison_page", "comparison_study_text"),
    "embedded": ("read_blocks", "read_report"),
    "index": ("write_index",),
    "markdown": ("report_markdown",),
    "forecast_page": ("report", "report_document"),
    "saved": ("save_figures",),
    "sensitivity_page": ("knob_page", "knobs_document", "knobs_text"),
    "study_page": ("About",),
}
"""Module → the public names it defines."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
