"""Tables of words."""

from extrap.reporting.blocks import Table, capped_table
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.text import text_columns

__all__ = ["Table", "capped_table", "stacked", "text_columns"]
