"""`make backtest`: every figure of forecasts that this project holds itself to.

    python -m benchmarks.backtest [DATA] [--only PART …] [--replicates N] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/backtest.html.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import optima, published, simulated
from benchmarks.page import Part, Words, parser_of, run_parts
from benchmarks.scores import score_all

WORDS = Words(
    title="Backtest",
    question="Would the forecasts have been right?",
    lead="Published runs and simulations: small sizes are fitted, larger ones forecast, and the "
    "forecasts held against what the larger runs reached.",
    command="make backtest",
    seeds="every draw is seeded; the same tree gives the same table",
    libraries=("numpy", "pandas", "scipy", "statsmodels"),
)
CURVES, GADRE = "alabdulmohsin_bench.csv", "gadre_mlfoundations.csv"
CHINCHILLA, STEP_LAW = "chinchilla_epoch.csv", "steplaw.csv"


def parts(data: Path, n_replicates: int) -> dict[str, Part]:
    """All measurements, in the order of the table."""
    return {
        "curves": Part(
            partial(published.judge_curves, data),
            published.curve_rows,
            (CURVES, "alabdulmohsin_bench_m1_m4.csv"),
        ),
        "short curves": Part(
            lambda: score_all(published.short_tables(data)), lambda _: [], (CURVES,)
        ),
        "gadre": Part(partial(published.judge_gadre, data), published.gadre_rows, (GADRE,)),
        "chinchilla": Part(partial(published.refit, data), published.refit_rows, (CHINCHILLA,)),
        "larger": Part(partial(optima.judge_larger, data), optima.rows, (STEP_LAW,)),
        "rolling": Part(partial(optima.judge_rolling, data), optima.rolling_rows, (STEP_LAW,)),
        "simulated": Part(partial(simulated.simulate_all, n_replicates), simulated.rows),
        "backtests": Part(
            partial(published.judge_backtests, data),
            published.backtest_rows,
            (STEP_LAW, GADRE, CHINCHILLA),
        ),
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
        more=published.peer_rows,
    )
