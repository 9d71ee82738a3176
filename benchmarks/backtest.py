"""`make backtest`: every figure of forecasts that this project holds itself to.

    python -m benchmarks.backtest [DATA] [--only PART …] [--replicates N] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/backtest.csv and reports/backtest.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import optima, published, simulated
from benchmarks.page import Part, Words, parser_of, run_parts
from benchmarks.scores import score_all
from extrap.reporting.blocks import Block, Figure
from extrap.reporting.charts import Axis, Row, RowsChart

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
        "edges": Part(
            partial(optima.judge_edges, data), optima.edge_rows, ("misfitting_lr_sweep_v0.csv",)
        ),
        "rolling": Part(
            partial(optima.judge_rolling, data),
            optima.rolling_rows,
            (STEP_LAW, "porian_optima.csv"),
        ),
        "simulated": Part(partial(simulated.simulate_all, n_replicates), simulated.rows),
        "backtests": Part(partial(published.judge_backtests, data), published.backtest_rows),
    }


def charts(found: Mapping[str, Any]) -> list[Block]:
    """Errors on the 92 curves by method, and coverage of simulated runs by distance."""
    made: list[Block] = []
    if "curves" in found:
        errors = published.mean_errors(found["curves"])["all"].sort_values()
        rows = [
            Row(label=str(name), value=value, ink="law" if name == published.OURS else "muted")
            for name, value in errors.items()
        ]
        title = "Mean held-out RMSLE on the 92 curves"
        made.append(Figure(RowsChart(title=title, axis=Axis("RMSLE"), rows=tuple(rows))))
    if "simulated" in found:
        held = 100 * found["simulated"].groupby(["kind", "ratio"])["default_held_90"].mean()
        rows = [
            Row(label=f"{kind}, ×{ratio:g}", value=value) for (kind, ratio), value in held.items()
        ]
        chart = RowsChart(
            title="Coverage of the 90 % intervals, simulated runs",
            axis=Axis("observations inside, %", is_log=False),
            rows=tuple(rows),
            reference=90.0,
        )
        made.append(Figure(chart))
    return made


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
        blocks=charts,
    )
