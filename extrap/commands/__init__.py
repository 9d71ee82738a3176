"""The commands: `analysis` makes one of a function and options, `option_table` has the options."""

from __future__ import annotations

__all__: list[str] = []
