"""`make bench-batch`: critical batch sizes, published and simulated, and the noise scale.

    python -m benchmarks.batch [DATA] [--only PART …] [--out FOLDER]

1. `critical`: Zhang et al. (2024, arXiv 2410.21676), five models, nine batch sizes: the batch at
   20 % overhead from 256 and its law, against theirs. Simulated hyperbolas, nine batch sizes, 3 %
   noise, one and three measurements each: how often the 95 % intervals hold the truth.
2. `noise`: gradients of 200 normal coordinates with a noise scale of 471 (|G| = 1, Σ isotropic),
   50 steps; and the same with heavy tails.

DATA is the folder of the published tables that `make data` fetches. Writes
reports/bench-batch.html.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.page import Part, Words, parser_of, run_parts
from benchmarks.rows import DATA, Row, require, share_row
from extrap.analyses.batch_size import CriticalBatches, critical_batch
from extrap.laws.batch import steps_to_target
from extrap.noise import gradient_moments, noise_scale_from_moments

Array = np.ndarray
WORDS = Words(
    title="Batch size",
    question="How large a batch is useful, and does the noise of the gradients tell?",
    lead="Simulations with known answers and published steps to a target: estimators, intervals.",
    command="make bench-batch",
    seeds="every draw is seeded; the same tree gives the same table",
    libraries=("numpy", "pandas", "scipy"),
)
PUBLISHED = {85e6: 745, 151e6: 955, 302e6: 1394, 604e6: 1889, 1.2e9: 2533}
LAW = (93.20, 0.47)
"""Batch at the overhead = 93.20 N^.47, N in millions."""
ZHANG = {"batch": "batch_size_seqs", "steps": "steps_to_target_paper_fit"}
SIMULATED = {"b_crit": 2000.0, "s_min": 1000.0, "e_min": 2e6}
N_HYPERBOLAS, NOISE = 400, 0.03
TRUTH, N_DIMENSIONS, N_STEPS = 471.0, 200, 50
PAIRS = tuple(product((1, 32), (64, 256, 512, 1024)))
"""Batches of an example's or a micro-batch's gradient, and of a step."""
UNBIASED_FROM = 256
"""Examples per step from which the median is to be right."""
N_REPLICATES, LEVEL = 1000, 0.9
TAIL = 3.0
HEAVY = f"examples' noise of t with {TAIL:g} degrees of freedom, {N_STEPS} steps"


def published(data: Path = DATA) -> CriticalBatches:
    """The published models."""
    table = pd.read_csv(require(data, "zhang_cbs.csv"))
    return critical_batch(table, by="params", from_batch=256, **ZHANG)


def critical(data: Path = DATA) -> tuple[CriticalBatches, dict[int, pd.DataFrame]]:
    """The published models; of one and three measurements whether each interval holds."""
    return published(data), {n: hyperbolas(n) for n in (1, 3)}


def hyperbolas(n_measurements: int) -> pd.DataFrame:
    """Whether the intervals of each simulated hyperbola hold, one row per replicate."""
    rng = np.random.default_rng(n_measurements)
    batch = np.repeat(2.0 ** np.arange(6, 15), n_measurements)
    exact = steps_to_target(batch, s_min=SIMULATED["s_min"], b_crit=SIMULATED["b_crit"])
    rows = []
    for _ in range(N_HYPERBOLAS):
        steps = exact * np.exp(NOISE * rng.normal(size=len(batch)))
        table = pd.DataFrame({"batch_size": batch, "steps": steps})
        group = critical_batch(table, level=0.95).groups[0]
        held = {name: truth in getattr(group, name).ci for name, truth in SIMULATED.items()}
        new = float(exact[len(exact) // 2] * np.exp(NOISE * rng.normal()))
        held["new steps"] = new in group.steps_at(float(batch[len(exact) // 2])).pi
        rows.append(held)
    return pd.DataFrame(rows)


def published_rows(zhang: CriticalBatches) -> list[Row]:
    """The published figures."""
    law, part = zhang.laws["b_overhead"], "Zhang et al. 2024"
    off = [
        (zhang.group(params=params).b_overhead.value or np.nan) / published - 1
        for params, published in PUBLISHED.items()
    ]
    off_law = [
        law.at(params=params).value / (LAW[0] * (params / 1e6) ** LAW[1]) - 1
        for params in PUBLISHED
    ]
    exponent = law.exponents["params"]
    return [
        Row(
            part=part,
            figure="batch at 20 % overhead from 256, largest difference from the published",
            beat=", ".join(map(str, PUBLISHED.values())),
            target="≤ 5 %",
            reached=f"{max(map(abs, off)):.2%}",
            met=max(map(abs, off)) <= 0.05,
        ),
        Row(
            part=part,
            figure="law of that batch at the five sizes, largest difference from 93.20 N^.47",
            target="≤ 3 %",
            reached=f"{max(map(abs, off_law)):.2%}; {law.at(params=1e6).value:.1f} "
            f"N^{exponent.value:.3f} [{exponent.ci.lower:.3f}, {exponent.ci.upper:.3f}]",
            met=max(map(abs, off_law)) <= 0.03,
        ),
    ]


def critical_rows(found: tuple[CriticalBatches, dict[int, pd.DataFrame]]) -> list[Row]:
    """The published figures, and coverage."""
    zhang, held = found
    return published_rows(zhang) + [
        share_row(
            "simulated hyperbolas",
            f"95 % intervals that hold {name}, {n} measurement(s) per batch size",
            each[name],
            least=0.92,
            most=0.97,
        )
        for n, each in held.items()
        for name in each
    ]


def draw(
    rng: np.random.Generator, small: int, big: int, *, trace: Array | float = TRUTH
) -> tuple[Array, Array]:
    """Moments of steps with a true gradient of norm 1 and noise of some trace."""
    spread = np.sqrt(np.broadcast_to(trace, N_STEPS) / N_DIMENSIONS)
    noise = rng.normal(size=(N_STEPS, N_DIMENSIONS)) * (spread / np.sqrt(big))[:, None]
    big_sq = (1 / np.sqrt(N_DIMENSIONS) + noise) ** 2
    n = big // small
    about = rng.chisquare((n - 1) * N_DIMENSIONS, size=N_STEPS) / n * spread**2 / small
    total = big_sq.sum(axis=1)
    return gradient_moments(total + about, total, batch_small=small, batch_big=big)


def draw_heavy(rng: np.random.Generator) -> tuple[Array, Array]:
    """The same of batches 32 and 256, with examples whose noise has heavy tails."""
    own = (TAIL - 2) / rng.chisquare(TAIL, size=(N_STEPS, 256))  # of mean 1, variance infinite
    return draw(rng, 32, 256, trace=TRUTH * own.mean(axis=1))


def noise_scales(n_replicates: int = N_REPLICATES) -> pd.DataFrame:
    """One row per replicate and setting: a pair of batches, or heavy tails."""
    rng = np.random.default_rng(0)
    steady = [
        {"setting": f"batches {small} and {big}", "big": big, **judge(*draw(rng, small, big))}
        for small, big in PAIRS
        for _ in range(n_replicates)
    ]
    heavy = [{"setting": HEAVY, **judge(*draw_heavy(rng))} for _ in range(n_replicates)]
    return pd.DataFrame([*steady, *heavy])


def judge(squared: Array, trace: Array) -> dict[str, object]:
    """The estimate, and whether its interval holds."""
    found = noise_scale_from_moments(squared, trace, level=LEVEL)
    estimate = np.inf if found.noise_scale is None else found.noise_scale
    return {"estimate": estimate, "covered": TRUTH in found.ci}


def noise_rows(found: pd.DataFrame) -> list[Row]:
    """Medians and coverage."""
    part, rows = f"noise scale of known gradients, {LEVEL:.0%}", []
    for setting, group in found.groupby("setting", sort=False):
        median, is_judged = group["estimate"].median(), group["big"].iloc[0] >= UNBIASED_FROM
        near = abs(median / TRUTH - 1) <= 0.03
        rows.append(
            Row(
                part=part,
                figure=f"{setting}: median estimate",
                target="within 3 %" if is_judged else "",
                reached=f"{median:.0f} of {TRUTH:.0f}",
                met=bool(near) if is_judged else None,
            )
        )
        figure = f"{setting}: {LEVEL:.0%} intervals that hold"
        rows.append(share_row(part, figure, group["covered"], least=0.85, most=0.95))
    return rows


def parts(data: Path) -> dict[str, Part]:
    """All measurements, in the order of the table."""
    return {
        "critical": Part(partial(critical, data), critical_rows, ("zhang_cbs.csv",)),
        "noise": Part(noise_scales, noise_rows),
    }


if __name__ == "__main__":
    given = parser_of(__doc__).parse_args()
    run_parts(parts(given.data), given, words=WORDS, name="bench-batch")
