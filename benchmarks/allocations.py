"""Compute-optimal splits: Chinchilla's runs, Porian's walk.

    python -m benchmarks.allocations [DATA]

1. Chinchilla's runs, digitised, without the five that the replication leaves out.
2. Porian et al. (2024, arXiv 2406.19146): five settings, two data sets, from Kaplan's exponent to
   Chinchilla's; and the losses of the largest budgets' optima from the smaller ones.

Closed forms of published laws are in `tests/published`; our own study is `studies/allocation.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.page import print_rows
from benchmarks.rows import DATA, Row, chinchilla, require
from extrap.analyses.allocation import allocate, read_points
from extrap.analyses.allocation.profiles import profile_optima
from extrap.forecasting import forecast
from extrap.reading import read_runs

SETTING = ["dataset", "hparams", "warmup", "decay", "param_count"]
LEFT_OUT = (2, 4)
"""Budgets above those that the loss of the optimum is forecast from."""
SETTINGS = (
    ("base", "long", "kaplan", "kaplan"),
    ("base", "long", "kaplan", "standard"),
    ("base", "short", "kaplan", "standard"),
    ("base", "short", "chinchilla", "standard"),
    ("tuned", "short", "const", "standard"),
)
"""Hyperparameters, warm-up, decay, count of parameters."""
WALK = {
    "owt2": (0.864, 0.699, 0.603, 0.574, 0.518),
    "rw": (0.835, 0.706, 0.602, 0.571, 0.497),
}
"""Data set → published exponents in these settings."""


def chinchilla_rows(data: Path) -> list[Row]:
    """The split of 1e26 FLOPs from 240 of Chinchilla's runs."""
    split = allocate(chinchilla(data), flops=1e26, level=0.8)
    law, part = split.estimators["parametric"], "Chinchilla, 240 runs, law"
    a, ratio = law.exponent, law.tokens_per_param
    low, high = (side or np.nan for side in ratio.ci)
    others = [f"{n} {e.exponent.value:.3f}" for n, e in split.estimators.items() if e is not law]
    return [
        Row(
            part=part,
            figure="exponent a of N_opt",
            beat="published .513 (SE .02)",
            target=".513 ± .02",
            reached=f"{a.value:.3f}, 80 % [{a.ci.lower:.3f}, {a.ci.upper:.3f}]; "
            + ", ".join(others),
            met=abs((a.value or np.nan) - 0.513) <= 0.02,
        ),
        Row(
            part=part,
            figure="tokens per parameter at 1e26 FLOPs, 80 % interval",
            beat="published 4 to 40",
            target="overlaps it",
            reached=f"{ratio.value:.1f} [{low:.1f}, {high:.1f}]",
            met=bool(low <= 40 and high >= 4),
        ),
    ]


def walk_rows(data: Path) -> list[Row]:
    """The exponent of the answer and its 95 % interval, setting by setting."""
    table, rows = pd.read_csv(require(data, "porian_formll.csv")), []
    by_setting = dict(iter(table.groupby(SETTING)))
    for dataset, published in WALK.items():
        found = [allocate(by_setting[(dataset, *s)], flops=1e19).exponent for s in SETTINGS]
        pairs = list(zip(found, published, strict=True))
        near = sum(abs((e.value or np.nan) - p) <= 0.02 for e, p in pairs)
        held = sum(p in e.ci for e, p in pairs)
        said = [f"{e.value:.3f} [{e.ci.lower:.3f}, {e.ci.upper:.3f}]" for e in found]
        rows.append(
            Row(
                part=f"Porian et al. 2024, {dataset}",
                figure="exponent a in five settings, of the answer",
                beat=", ".join(f"{p:.3f}" for p in published),
                target="all within .02 and in our 95 % intervals",
                reached=f"{', '.join(said)}; {near} within .02, {held} in the interval",
                met=near == held == len(pairs),
            )
        )
    return rows


def losses_beyond(data: Path) -> pd.DataFrame:
    """One row per optimum beyond the budgets it is forecast from: errors of the log loss."""
    table = pd.read_csv(require(data, "porian_formll.csv"))
    found = []
    for _, own in table.groupby(SETTING):
        runs = own[["params", "tokens", "flops", "loss"]]
        truth, budgets = profile_optima(read_points(runs)), np.unique(runs["flops"])
        for last in (budgets[-n_out - 1] for n_out in LEFT_OUT):
            small = runs[runs["flops"] <= last]
            optima = profile_optima(read_points(small))
            made = forecast(read_runs(small, size=("params", "tokens"), tune=()))
            for log_flops, log_params, loss in zip(
                truth.log_flops, truth.log_params, truth.loss, strict=True
            ):
                flops, params = np.exp([log_flops, log_params])
                if flops < 1.5 * last:
                    continue
                line = optima.expected_loss(flops, level=0.95)
                row = {"ratio": round(flops / last), "profiles_held": loss in line.ci}
                row["profiles"] = np.log((line.value or np.nan) / loss)
                law = made.predict_loss({"params": params, "tokens": flops / 6 / params})
                row["forecast"] = law.log_loss - np.log(loss) if law else np.nan
                held = law is not None and loss in law.interval(0.95, new_run=False)
                found.append(row | {"forecast_held": held})
    return pd.DataFrame(found)


def beyond_rows(found: pd.DataFrame) -> list[Row]:
    """Errors and coverage by the ratio of compute."""
    rows = []
    for name, words in {"profiles": "profiles, the answer", "forecast": "all runs"}.items():
        said = [
            f"× {ratio}: {own[name].abs().mean():.1%} ({own[f'{name}_held'].mean():.0%} in the "
            "95 % interval)"
            for ratio, own in found.groupby("ratio")
        ]
        figure = f"mean error of the loss of an optimum beyond the runs, by compute: {words}"
        part = "Porian et al. 2024, 15 settings"
        rows.append(Row(part=part, figure=figure, reached=", ".join(said)))
    return rows


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    porian = [*walk_rows(folder), *beyond_rows(losses_beyond(folder))]
    print_rows([*chinchilla_rows(folder), *porian])
