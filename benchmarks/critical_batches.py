"""Critical batch sizes: the published ones, coverage of intervals.

    python -m benchmarks.critical_batches [DATA]

1. Zhang et al. (2024, arXiv 2410.21676): five models, nine batch sizes. The batch at 20 % overhead
   from 256 and its law, against theirs.
2. Simulated hyperbolas, nine batch sizes, 3 % noise, one and three measurements each: how often
   the 95 % intervals hold the truth.
3. Golden numbers: the hyperbola at a noise scale of 1,000 (McCandlish et al. 2018).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.rows import DATA, Row, require
from extrap.analyses.batch_size import CriticalBatches, critical_batch
from extrap.laws.batch import steps_to_target

N_REPLICATES = 400
LEVEL = 0.95
NOISE = 0.03
SIMULATED = {"b_crit": 2000.0, "s_min": 1000.0, "e_min": 2e6}
PUBLISHED = {85e6: 745, 151e6: 955, 302e6: 1394, 604e6: 1889, 1.2e9: 2533}
LAW = (93.20, 0.47)
"""Batch at the overhead = 93.20 N^.47, N in millions."""
ZHANG = {"batch": "batch_size_seqs", "steps": "steps_to_target_paper_fit"}


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was measured.

    Attributes:
        zhang: All five models.
        coverage: (measurements a batch, what) → share of intervals that hold the truth.
        hyperbola: Batch → (steps over S_min, examples over E_min).
    """

    zhang: CriticalBatches
    coverage: dict[tuple[int, str], float]
    hyperbola: dict[float, tuple[float, float]]


def measure(data: Path = DATA, n_replicates: int = N_REPLICATES) -> Found:
    """Everything the rows are made of."""
    table = pd.read_csv(require(data, "zhang_cbs.csv"))
    zhang = critical_batch(table, by="params", from_batch=256, **ZHANG)
    return Found(
        zhang=zhang,
        coverage={
            (n, name): share for n in (1, 3) for name, share in _coverage(n, n_replicates).items()
        },
        hyperbola=_hyperbola(),
    )


def _coverage(n_measurements: int, n_replicates: int) -> dict[str, float]:
    rng = np.random.default_rng(n_measurements)
    batch = np.repeat(2.0 ** np.arange(6, 15), n_measurements)
    exact = steps_to_target(batch, s_min=SIMULATED["s_min"], b_crit=SIMULATED["b_crit"])
    held = dict.fromkeys([*SIMULATED, "new steps"], 0)
    for _ in range(n_replicates):
        steps = exact * np.exp(NOISE * rng.normal(size=len(batch)))
        table = pd.DataFrame({"batch_size": batch, "steps": steps})
        group = critical_batch(table, level=LEVEL).groups[0]
        for name, truth in SIMULATED.items():
            held[name] += truth in getattr(group, name).ci
        new = float(exact[len(exact) // 2] * np.exp(NOISE * rng.normal()))
        held["new steps"] += new in group.steps_at(float(batch[len(exact) // 2])).pi
    return {name: count / n_replicates for name, count in held.items()}


def _hyperbola() -> dict[float, tuple[float, float]]:
    batch = 2.0 ** np.arange(4, 16)
    steps = steps_to_target(batch, s_min=7.0, b_crit=1000.0)
    group = critical_batch(pd.DataFrame({"batch_size": batch, "steps": steps})).groups[0]
    s_min, e_min = group.s_min.value or np.nan, group.e_min.value or np.nan
    return {
        b: (group.steps_at(b).value / s_min, b * group.steps_at(b).value / e_min)
        for b in (250.0, 1000.0, 4000.0)
    }


def rows(found: Found) -> list[Row]:
    """The figures."""
    return [*_zhang_rows(found), *_coverage_rows(found), *_golden(found)]


def _zhang_rows(found: Found) -> list[Row]:
    zhang, part = found.zhang, "Zhang et al. 2024"
    off = {
        params: (zhang.group(params=params).b_overhead.value or np.nan) / published - 1
        for params, published in PUBLISHED.items()
    }
    intervals = ", ".join(
        f"{g.b_overhead.value:.0f} [{g.b_overhead.ci.lower:.0f}, {g.b_overhead.ci.upper:.0f}]"
        for g in zhang.groups
    )
    law = zhang.laws["b_overhead"]
    at_sizes = [
        law.at(params=params).value / (LAW[0] * (params / 1e6) ** LAW[1]) - 1
        for params in PUBLISHED
    ]
    exponent = law.exponents["params"]
    assert exponent.value is not None
    critical = zhang.laws["b_crit"].exponents["params"]
    return [
        Row(
            part=part,
            figure="batch at 20 % overhead from 256, largest difference from the published",
            beat="745, 955, 1394, 1889, 2533",
            target="≤ 5 %",
            reached=f"{max(map(abs, off.values())):.2%}: {intervals}",
            met=max(map(abs, off.values())) <= 0.05,
        ),
        Row(
            part=part,
            figure="law of that batch at the five sizes, largest difference from 93.20 N^.47",
            target="≤ 3 %",
            reached=f"{max(map(abs, at_sizes)):.2%}; "
            f"{law.at(params=1e6).value:.1f} N^{exponent.value:.3f} "
            f"[{exponent.ci.lower:.3f}, {exponent.ci.upper:.3f}]",
            met=max(map(abs, at_sizes)) <= 0.03,
        ),
        Row(
            part=part,
            figure="critical batch of the hyperbola",
            reached=", ".join(f"{g.b_crit.value:.0f}" for g in zhang.groups)
            + f"; exponent {critical.value:.3f} "
            f"[{critical.ci.lower:.3f}, {critical.ci.upper:.3f}]",
        ),
    ]


def _coverage_rows(found: Found) -> list[Row]:
    return [
        Row(
            part="simulated hyperbolas",
            figure=f"95 % intervals that hold the truth, {n} measurement(s) a batch size",
            target="92 to 97 %",
            reached=", ".join(
                f"{name} {share:.1%}" for (m, name), share in found.coverage.items() if m == n
            ),
            met=all(0.92 <= share <= 0.97 for (m, _), share in found.coverage.items() if m == n),
            note="Nine batch sizes, 3 % noise.",
        )
        for n in (1, 3)
    ]


def _golden(found: Found) -> list[Row]:
    wanted = {250.0: (5.0, 1.25), 1000.0: (2.0, 2.0), 4000.0: (1.25, 5.0)}
    return [
        Row(
            part="golden numbers",
            figure="steps and examples over their minima at 1/4, 1 and 4 noise scales",
            beat="5, 1.25; 2, 2; 1.25, 5",
            target="equal",
            reached="; ".join(f"{s:.3g}, {e:.3g}" for s, e in found.hyperbola.values()),
            met=all(np.allclose(found.hyperbola[b], wanted[b], rtol=1e-3) for b in wanted),
        ),
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    for line in rows(measure(folder)):
        sys.stdout.write(f"{line}\n")
