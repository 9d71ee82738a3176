"""The refit of Chinchilla's runs by Besiroglu et al. (2024), arXiv 2404.10102.

240 of the 245 runs digitised from a figure of Hoffmann et al.; the five with the fewest tokens a
parameter are left out, as there. Huber's loss of log residuals, δ = 1e-3, summed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import DATA, Row, require
from extrap.fitting.bootstrap import bootstrap

N_REPLICATES = 4000
# parameter → (value, absolute tolerance, as published with its standard error)
EXPECTED = {
    "E": (1.8172, 0.002, "1.8172 (SE .03)"),
    "α": (0.3473, 0.002, "0.3478 (SE .02)"),
    "β": (0.3672, 0.003, "0.3658 (SE .02)"),
    "A": (477.8, 0.03 * 477.8, "482.01 (SE 124.58)"),
    "B": (2143.0, 0.06 * 2143.0, "2085.43 (SE 1293.23)"),
}
SPREAD = (0.012, 0.021)


def refit(data: Path = DATA) -> dict[str, float]:
    """The parameters in the units of the paper, and sd(α) over the bootstrap replicates."""
    table = pd.read_csv(require(data, "chinchilla_epoch.csv"))
    table = table[table["epoch_outlier"] == 0]
    sizes = {"params": table["params"], "tokens": table["tokens"]}
    law = extrap.fit("power_floor", sizes, table["loss"], robust=1e-3)
    found = dict(zip(law.names, law.values, strict=True))
    n0, d0 = law.reference
    replicates = bootstrap(
        law, sizes, table["loss"], kind="pairs", n_replicates=N_REPLICATES, seed=0
    )
    alphas = replicates.values[:, law.names.index("c1")]
    return {
        "E": found["E"],
        "α": found["c1"],
        "β": found["c2"],
        "A": found["b1"] * n0 ** found["c1"],
        "B": found["b2"] * d0 ** found["c2"],
        "sd(α)": float(np.std(alphas, ddof=1)),
        "n_failed": replicates.n_failed,
    }


def rows(found: dict[str, float]) -> list[Row]:
    """The figures."""
    part = "Chinchilla, 240 runs refitted"
    table = [
        Row(
            part=part,
            figure=name,
            beat=f"published {published}",
            target=f"{value:g} ± {tolerance:.3g}",
            reached=f"{found[name]:.5g}",
            met=bool(abs(found[name] - value) <= tolerance),
        )
        for name, (value, tolerance, published) in EXPECTED.items()
    ]
    low, high = SPREAD
    spread = Row(
        part=part,
        figure=f"sd(α) of {N_REPLICATES:,} case bootstraps",
        beat="published standard error .02; Hoffmann et al. about a fiftieth",
        target=f"{low:g}–{high:g}",
        reached=f"{found['sd(α)']:.4f} ({found['n_failed']:g} failed)",
        met=bool(low <= found["sd(α)"] <= high),
    )
    return [*table, spread]


if __name__ == "__main__":
    result = refit(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    for line in rows(result):
        sys.stdout.write(f"{line}\n")
