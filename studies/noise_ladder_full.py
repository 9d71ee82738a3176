"""All twenty tasks of `noise_ladder.py`: networks whose critical batches span three decades.

Registered in `registered.md`; `python -m benchmarks.evidence_noise` computes the figures from
`noise_ladder_full.noise.csv`, `.tuned.csv` and `.courses.csv`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.files import import_source

ladder = import_source(Path(__file__).parent / "noise_ladder.py", "extrap_noise_ladder")
BATCHES = replace(ladder.BATCHES, name="noise_ladder_full", tasks=ladder.TASKS)
