"""`make backtest`: every figure this project holds itself to, measured, as a table and a page.

    python -m benchmarks.backtest [DATA] [--only PART …] [--replicates N] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/backtest.csv and reports/backtest.html.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    chinchilla,
    curves,
    gadre,
    ladders,
    optima,
    peers,
    simulated,
    verb,
)
from benchmarks.charts import backtest_blocks
from benchmarks.page import Part, Words, parser_of, run_parts

WORDS = Words(
    title="Backtest",
    question="Would the forecasts have been right?",
    lead="Published runs and simulations: small sizes are fitted, larger ones forecast, and the "
    "forecasts held against what the larger runs reached.",
    command="make backtest",
    seeds="every draw is seeded; the same tree gives the same table",
    libraries=("numpy", "pandas", "scipy", "statsmodels"),
)


def parts(data: Path, n_replicates: int) -> dict[str, Part]:
    """All measurements, in the order of the table."""

    def on_data(module_part: Callable[[Path], Any]) -> Callable[[], Any]:
        return partial(module_part, data)

    step_law, misfitting = ("steplaw.csv",), ("misfitting_lr_sweep_v0.csv",)
    return {
        "curves": Part(
            on_data(curves.judge_curves),
            curves.rows,
            ("alabdulmohsin_bench.csv", "alabdulmohsin_bench_m1_m4.csv"),
        ),
        "short curves": Part(
            on_data(peers.judge_short), peers.short_rows, ("alabdulmohsin_bench.csv",)
        ),
        "gadre": Part(on_data(gadre.judge_runs), gadre.rows, ("gadre_mlfoundations.csv",)),
        "chinchilla": Part(on_data(chinchilla.refit), chinchilla.rows, ("chinchilla_epoch.csv",)),
        "ladders": Part(
            on_data(ladders.judge_ladders),
            ladders.rows,
            ("gadre_mlfoundations.csv", "chinchilla_epoch.csv", *step_law),
        ),
        "larger": Part(on_data(optima.judge_larger), optima.rows, step_law),
        "edges": Part(on_data(optima.judge_edges), optima.edge_rows, misfitting),
        "rolling": Part(
            on_data(optima.judge_rolling), optima.rolling_rows, (*step_law, "porian_optima.csv")
        ),
        "simulated": Part(partial(simulated.simulate_all, n_replicates), simulated.rows),
        "verb": Part(on_data(verb.judge_sweeps), verb.rows),
    }


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument(
        "--replicates", type=int, default=simulated.N_REPLICATES, help="of each simulated setting"
    )
    given = parser.parse_args()
    run_parts(
        parts(given.data, given.replicates),
        given,
        words=WORDS,
        name="backtest",
        more=lambda found: peers.rows(found.get("curves"), found.get("gadre")),
        blocks=backtest_blocks,
    )
