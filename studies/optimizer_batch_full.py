"""The whole of `optimizer_batch.py`: three widths, four seeds, three momenta.

Registered in `registered.md`; `python -m benchmarks.evidence_optimizers` computes the figures from
`optimizer_batch_full.seeds.csv` and `.tuned.csv`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.files import import_source

reduced = import_source(Path(__file__).parent / "optimizer_batch.py", "extrap_optimizer_batch")
BATCHES = replace(reduced.BATCHES, name="optimizer_batch_full", tasks=reduced.tasks(reduced.FULL))
