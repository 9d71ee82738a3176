"""`make backtest`: every figure this project holds itself to, measured, as a table and a page.

    python -m benchmarks.backtest [DATA] [--replicates N] [--out FOLDER]

DATA is the folder of the published tables, `../shared/data` unless given; what is not there is
said and left out. Writes reports/backtest.csv and reports/backtest.html.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import chinchilla, curves, five_rates, gadre, optima, peers, simulated, verb
from benchmarks.page import Words, write_page
from benchmarks.pictures import plates
from benchmarks.rows import DATA, Row
from benchmarks.table import print_rows, write_csv

REPORTS = Path(__file__).parents[1] / "reports"
WORDS = Words(
    title="Backtest",
    question="Would the forecasts have been right?",
    lead="Published runs and simulations: small sizes are fitted, larger ones forecast, and the "
    "forecasts held against what the larger runs reached.",
    command="make backtest",
    seeds="every draw is seeded; the same tree gives the same table",
    libraries=("numpy", "pandas", "scipy", "statsmodels"),
)


class Part(NamedTuple):
    """One measurement: what it needs, how it is made, which rows it gives."""

    measure: Callable[[], Any]
    rows: Callable[[Any], list[Row]]
    tables: tuple[str, ...] = ()


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
        "gadre": Part(on_data(gadre.judge_runs), gadre.rows, ("gadre_mlfoundations.csv",)),
        "chinchilla": Part(on_data(chinchilla.refit), chinchilla.rows, ("chinchilla_epoch.csv",)),
        "larger": Part(on_data(optima.judge_larger), optima.rows, step_law),
        "five rates": Part(on_data(five_rates.judge_sweeps), five_rates.rows, step_law),
        "edges": Part(on_data(optima.judge_edges), optima.edge_rows, misfitting),
        "simulated": Part(partial(simulated.simulate_all, n_replicates), simulated.rows),
        "verb": Part(on_data(verb.judge_sweeps), verb.rows),
    }


class Measured(NamedTuple):
    """What all parts gave: results by name, figures, seconds, tables that are not there."""

    found: dict[str, Any]
    rows: list[Row]
    seconds: dict[str, float]
    missing: list[str]


def measure(wanted: Mapping[str, Part], data: Path) -> Measured:
    """Measure every part whose tables are there, and say how long it took and what is missing."""
    done = Measured({}, [], {}, [])
    for name, part in wanted.items():
        absent = [table for table in part.tables if not (data / table).is_file()]
        if absent:
            done.missing.extend(table for table in absent if table not in done.missing)
            continue
        start = time.perf_counter()
        done.found[name] = part.measure()
        done.rows.extend(part.rows(done.found[name]))
        done.seconds[name] = time.perf_counter() - start
        sys.stderr.write(f"{name}: {done.seconds[name]:.0f} s\n")
    if done.missing:
        said = f"Not there, and left out: {', '.join(done.missing)} (looked in {data}).\n"
        sys.stdout.write(said)
    return done


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="published tables")
    parser.add_argument(
        "--replicates", type=int, default=simulated.N_REPLICATES, help="of each simulated setting"
    )
    parser.add_argument("--out", type=Path, default=REPORTS, help="folder of the page")
    arguments = parser.parse_args()
    measured = measure(parts(arguments.data, arguments.replicates), arguments.data)
    found, rows, seconds, missing = measured
    rows += peers.rows(found.get("curves"), found.get("gadre"))
    print_rows(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, arguments.out / "backtest.csv")
    path = arguments.out / "backtest.html"
    write_page(rows, plates(found), seconds, missing, words=WORDS, path=path)
    sys.stdout.write(conclusion(rows, seconds) + "\n")


def conclusion(rows: list[Row], seconds: dict[str, float]) -> str:
    """How many targets were met, which were missed, how long it took."""
    missed = [f"{row.part}: {row.figure}" for row in rows if row.met is False]
    n = sum(row.met is not None for row in rows)
    took = ", ".join(f"{name} {s:.0f}" for name, s in seconds.items())
    lines = [f"\n{n - len(missed)} of {n} targets met."]
    lines += [f"Missed: {name}" for name in missed]
    lines.append(f"{sum(seconds.values()):.0f} s ({took}); page and CSV written.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
