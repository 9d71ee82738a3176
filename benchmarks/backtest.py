"""`make backtest`: every figure that rests on published runs, and the page of other methods.

    python -m benchmarks.backtest [DATA] [--only PART …] [--out FOLDER]

DATA is the folder of the published tables; a part whose tables are not there is left out, which
is said. Writes reports/backtest.html and reports/against.html. A row of docs/measured.md that
rests on a published table is named by the part that prints its figures (`Part.stated`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import (
    against,
    against_sets,
    allocations,
    batch,
    confidence,
    download,
    envelopes,
    horizons,
    ladders,
    landings,
    optima,
    own_sweeps,
    peers,
    published,
    published_checks,
    refused_losses,
    target_search,
)
from benchmarks.page import Part, Words, parser_of, run_parts
from benchmarks.rows import DATA, Row
from benchmarks.scores import score_all

WORDS = Words(
    title="Backtest",
    question="Would the forecasts have been right?",
    lead="Published runs: small sizes are fitted, larger ones forecast, and the forecasts held "
    "against what the larger runs reached.",
    command="make backtest",
    seeds="every draw is seeded; the same tree gives the same table",
    libraries=("numpy", "pandas", "scipy", "statsmodels", "optuna"),
)
CURVES, GADRE = "alabdulmohsin_bench.csv", "gadre_mlfoundations.csv"
CHINCHILLA, STEP_LAW = "chinchilla_epoch.csv", "steplaw.csv"
PORIAN, RATES = "porian_formll.csv", "misfitting_lr_sweep_v0.csv"
LADDERS = (
    *(GADRE, "gemstones.csv", "schedules_slimpajama.csv", PORIAN, CHINCHILLA, STEP_LAW),
    *("olmo_ladder.csv", "llama3_isoflop.csv", "xlstm_isoflop.csv"),
)
LOGS = tuple(
    str(DATA / name)
    for name in ("schedules_mpl.csv", "schedules_curves.csv", "schedules_curves_runs.csv")
)
"""`benchmarks.landing_runs` reads them where they usually are."""
HORIZONS = {
    "Step Law dense, rolling over tokens": (
        STEP_LAW,
        ("Step Law, rolling over tokens alone", "batch there"),
    ),
    "Step Law dense, rolling over both": (STEP_LAW, ("rolling over both",)),
    "rates of dense_c4_v0, rolling over tokens": (RATES, ("dense_c4_v0 of Misfitting",)),
    "rates of dense_c4_v0, rolling over both": (RATES, ("dense_c4_v0 of Misfitting",)),
    "Porian": (PORIAN, ("Porian's best model sizes",)),
}
"""Part of `benchmarks.horizons` → its table, and rows of docs/measured.md."""
LANDINGS = {
    "published protocol": ("25M, 100M: fit three",),
    "one log": ("the same 18 runs", "half width there"),
    "all logs": (
        "all logs, 20 % and more",
        "half-way down a decay",
        "runs of our own:",
        "a shift of 3 %",
    ),
    "batch losses": ("batch losses, interval score",),
    "finished run": ("100M with the finished 25M",),
    "ratio or law": ("widest perceptrons",),
    "shifts": ("a shift of 3 %",),
}
"""Part of `benchmarks.landings` → rows of docs/measured.md."""


def printed(rows: Callable[..., Iterable[Row]], *args: Any) -> Part:
    """A part that measures its rows at once."""
    return Part(lambda: list(rows(*args)), lambda rows: rows)


def parts(data: Path) -> dict[str, Part]:
    """All measurements, in the order of the table."""
    checks, metz = published_checks, own_sweeps
    return {
        "curves": Part(
            partial(published.judge_curves, data),
            published.curve_rows,
            (CURVES, "alabdulmohsin_bench_m1_m4.csv"),
            ("92 published learning curves", "92 curves (Alabdulmohsin"),
        ),
        "short curves": Part(
            lambda: score_all(published.short_tables(data)), published.short_rows, (CURVES,)
        ),
        "gadre": Part(
            partial(published.judge_gadre, data),
            published.gadre_rows,
            (GADRE,),
            ("Gadre et al. 2024, up to 45 times", "Gadre et al. 2024, 11M–154M"),
        ),
        "chinchilla": Part(
            partial(published.refit, data),
            published.refit_rows,
            (CHINCHILLA,),
            ("Chinchilla's law refitted",),
        ),
        "larger": Part(
            partial(optima.judge_larger, data),
            optima.rows,
            (STEP_LAW,),
            ("Step Law (Li et al. 2025), rate", "loss at those optima"),
        ),
        "backtests": Part(
            partial(published.judge_backtests, data),
            published.backtest_rows,
            (STEP_LAW, GADRE, CHINCHILLA),
            ("parameters and tokens, rolling origin",),
        ),
        "metz": Part(metz.backtest, metz.backtest_rows),
        "metz losses": Part(metz.judge_losses, lambda _: []),
        "metz rates": Part(metz.judge_rates, lambda _: []),
        "ladders": Part(
            partial(ladders.judge_all, data),
            ladders.rows_of_scores,
            LADDERS,
            ("nine sources of losses over", "the nine sources over parameters and tokens: false"),
        ),
        "near": Part(
            partial(ladders.judge_near, data), ladders.near_rows, LADDERS, ("287 inner runs",)
        ),
        "compute": Part(
            partial(envelopes.judge_published, data),
            envelopes.published_rows,
            LADDERS,
            ("eight sources over compute", "false alarms over the eight sources"),
        ),
        "refused": Part(
            partial(refused_losses.measure_all, data),
            refused_losses.rows,
            LADDERS,
            ("losses refused, nine sources",),
        ),
        "confidence": Part(
            partial(confidence.judge_ladders, data),
            partial(confidence.rows, "confidence on public ladders"),
            LADDERS,
            ("of forecasts with low, medium, high", "their share that is low"),
        ),
        "step law checks": Part(
            partial(checks.judge_step_law, data),
            checks.step_law_rows,
            (STEP_LAW,),
            ("Step Law, larger sizes:", "of these: cause"),
        ),
        "warm-ups": Part(
            partial(checks.judge_warmups, data),
            checks.warmup_rows,
            ("gadre_warmup_grid.csv",),
            ("warm-up grid of Gadre",),
        ),
        **{
            name: Part(
                lambda part=part, name=name: part.measure().assign(part=name),
                partial(part.rows, name),
                HORIZONS[name][:1],
                HORIZONS[name][1],
            )
            for name, part in horizons.parts(data, None, 0).items()
            if name in HORIZONS
        },
        "allocation": printed(allocations.chinchilla_rows, data)._replace(
            tables=(CHINCHILLA,), stated=("- Chinchilla's: the exponent",)
        ),
        "allocation walk": printed(allocations.walk_rows, data)._replace(
            tables=(PORIAN,), stated=("- Ten settings of Porian",)
        ),
        "allocation losses": Part(
            partial(allocations.losses_beyond, data),
            allocations.beyond_rows,
            (PORIAN,),
            ("- Ten settings of Porian",),
        ),
        "batch": Part(
            partial(batch.published, data),
            batch.published_rows,
            ("zhang_cbs.csv",),
            ("Zhang et al. 2024",),
        ),
        **{
            f"landings, {name}": printed(landings.PARTS[name])._replace(tables=LOGS, stated=rows)
            for name, rows in LANDINGS.items()
        },
        "logs": Part(landings.held_out_logs, lambda _: [], LOGS),
        "other methods": Part(partial(peers.measure_others, data), lambda _: []),
        "search": Part(partial(target_search.measure, data), lambda _: []),
    }


def main() -> None:
    """Measure, print and write both pages."""
    given = parser_of(__doc__).parse_args()
    for line in download.differing(given.data):
        sys.stdout.write(f"{line}\n")
    found: dict[str, pd.DataFrame] = run_parts(
        parts(given.data), given, words=WORDS, name="backtest"
    )
    against.write(against_sets.all_sets(found, given.data), given.out / "against.html")


if __name__ == "__main__":
    main()
