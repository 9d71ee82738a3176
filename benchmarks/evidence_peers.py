"""What simple-scaling-laws 0.2.0 says of the larger losses, as a table for `evidence_workloads`.

It needs Python 3.12 and nothing of this project:

    python3.12 -m pip install --target build/peers simple-scaling-laws==0.2.0
    PYTHONPATH=build/peers python3.12 benchmarks/evidence_peers.py

A size enters with the runs at its rate of the least mean log loss; its bands are of a new run, of
95 %, from 400 draws.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
LONGER = [{"width": 96, "tokens": 2**19}, {"width": 128, "tokens": 2**19}]
TARGETS = {
    "mnist-channels": [{"width": 96}, {"width": 192}],
    "transformer-standard": LONGER,
    "transformer-mup": LONGER,
}
LAWS = ("separable-power", "multiplicative-power")
QUANTILES = {"low": 0.025, "loss": 0.5, "high": 0.975}


def tuned_runs(path: Path) -> dict[str, list[tuple[dict[str, float], float]]]:
    """Arm → size and loss of each run at the rate that is best at its size."""
    by_rate: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["stage"] == "tune" and row["arm"] in TARGETS:
                loss = float(row["loss"]) if row["loss"] else math.inf
                key = row["arm"], row["width"], row.get("tokens") or ""
                by_rate[key][row["lr"]].append(loss)
    runs = defaultdict(list)
    for (arm, width, tokens), losses in by_rate.items():
        best = min(losses.values(), key=lambda of_rate: fmean(map(math.log, of_rate)))
        size = {"width": float(width)} | ({"tokens": float(tokens)} if tokens else {})
        runs[arm] += [(size, loss) for loss in best]
    return runs


def main() -> None:
    """Fit, and write `evidence_peers.csv`."""
    import polars
    from simple_scaling_laws import fit

    rows = []
    for name in ("mnist_1d", "width_rules_full"):
        path = ROOT / "studies" / f"{name}.csv"
        for arm, runs in tuned_runs(path).items() if path.is_file() else ():
            names = {"width": "model_size__width", "tokens": "dataset_size__tokens"}
            columns = {names[c]: [size[c] for size, _ in runs] for c in runs[0][0]}
            table = polars.DataFrame(
                {
                    "training_run_id": [str(i) for i in range(len(runs))],
                    "test_set_id": ["all"] * len(runs),
                    **columns,
                    "test_loss__all": [loss for _, loss in runs],
                }
            )
            points = polars.DataFrame(
                {names[c]: [float(t[c]) for t in TARGETS[arm]] for c in runs[0][0]}
            )
            for law in LAWS:
                model = fit(table, law=law, n_draws=400, seed=0)
                quantiles = [*QUANTILES.values()]
                predicted = model.predict(points, kind="new-run", quantiles=quantiles)
                for target, row in zip(TARGETS[arm], predicted.iter_rows(named=True), strict=True):
                    ends = {"low": "q025", "loss": "median", "high": "q975"}
                    said = {key: row[f"test_loss__all__{end}"] for key, end in ends.items()}
                    rows.append({"arm": arm, "law": law, **target, **said})
    path = Path(__file__).with_name("evidence_peers.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["arm", "law", "width", "tokens", "loss", "low", "high"])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
