"""Analyses of runs beyond one forecast; pure functions of `Runs` and arrays.

* `comparison` — recipes compared, at one size or over several.
* `batch_size` — critical batch sizes and gradient noise scales.
* `budget` — a compute budget: its split, the next runs, the cost of a choice.
* `sensitivity`, `cascade`, `selection` — fixed values ranked, a small model before a large one,
  training examples chosen.
"""

from __future__ import annotations

__all__: list[str] = []
