"""The monitor on runs in progress: how soon mistuned ones are called, how rarely tuned ones are.

    python -m benchmarks.watched            # from the committed curves
    python -m benchmarks.watched --train    # the curves anew: five minutes on two cores

A sweep as in `studies/metz.py` at widths 16 to 128, then runs at three small widths and two larger
ones that it has not seen, with seeds of their own: half of them within a quarter octave of the
forecast rate, half of them 2 and 3 octaves off on either side. `watched.csv` has one row a run
and one column a step of its held-out curve.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import Row
from extrap.records import Cell, Recipe, Runs, StudySpec, TunedRange, Workload

TABLE = Path(__file__).with_name("watched.csv")
WATCHED = {32: 16, 64: 16, 96: 16, 192: 40, 256: 24}
"""Width → tuned runs there, and as many mistuned ones."""
OFF = (-3, -2, 2, 3)
DENSE, SPARSE = 100, 2
"""Steps up to which every point of a curve is kept, and of how many one beyond."""
KNOWN = ["width", "lr", "seed", "status", "stage", "loss"]
STUDY = StudySpec(
    name="watched",
    question="How soon is a mistuned run called?",
    workload=Workload(name="bytes-mlp"),
    recipe=Recipe(n_evals=200),
    sizes={"width": (16, 24, 32, 48, 64, 96, 128)},
    tune={"lr": TunedRange(low=2**-10, high=2**-4, n=9)},
)


def train_all(path: Path = TABLE) -> None:
    """Train every run and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/watched.db"
        sweep = extrap.tune(STUDY, storage)
        cells = _cells(extrap.forecast(sweep))
        watched = extrap.tune(STUDY, storage, stage="check", extend=lambda _: cells)
    write_table([sweep, watched], path)


def _cells(made: extrap.Forecast) -> tuple[Cell, ...]:
    found = []
    for width, n in WATCHED.items():
        best = made.predict_tuned({"width": float(width)})["lr"].value
        assert best is not None
        octaves = [*(((i % 5 - 2) / 8, 100 + i) for i in range(n))]
        octaves += [(float(u), 200 + i) for u in OFF for i in range(n // len(OFF))]
        found += [
            Cell.of({"width": width}, {"lr": float(f"{best * 2**u:.4g}")}, seed)
            for u, seed in octaves
        ]
    return tuple(found)


def write_table(stages: list[Runs], path: Path) -> None:
    """One row a run: what is known of it, then its curve."""
    parts = []
    for runs in stages:
        curves = runs.curves()
        assert curves is not None
        kept = curves[(curves["step"] <= DENSE) | (curves["step"] % (5 * SPARSE) == 0)]
        wide = kept.pivot(index="run", columns="step", values="loss")
        parts.append(runs.to_frame()[KNOWN].join(wide))
    table = pd.concat(parts, ignore_index=True)
    steps = [c for c in table if c not in KNOWN]
    text = table[steps].map(lambda loss: "" if np.isnan(loss) else f"{loss:.4g}")
    table[KNOWN].join(text).to_csv(path, index=False, float_format="%.7g")


def load(path: Path = TABLE) -> tuple[Runs, Runs]:
    """The sweep and the watched runs, with curves."""
    table = pd.read_csv(path)
    stages = (table[table["stage"] == stage].reset_index(drop=True) for stage in ("tune", "check"))
    sweep, watched = map(_runs, stages)
    return sweep, watched


def _runs(table: pd.DataFrame) -> Runs:
    curves = table.drop(columns=KNOWN).rename(columns=float)
    long = curves.stack().dropna().rename_axis(["run", "step"]).rename("loss").reset_index()
    return Runs.from_frame(table[KNOWN], sizes=["width"], tuned=["lr"], curves=long)


def watch_all(path: Path = TABLE) -> pd.DataFrame:
    """One row a watched run: how far off its rate is, when it was called and why."""
    sweep, watched = load(path)
    made = extrap.forecast(sweep)
    frame, curves = watched.to_frame(), watched.curves()
    assert curves is not None
    by_run = dict(iter(curves.groupby("run")))
    rows = []
    for i, row in enumerate(frame.to_dict("records")):
        size = {"width": float(row["width"])}
        best = made.predict_tuned(size)["lr"].value
        monitor = extrap.Monitor(made, at=size)
        steps, losses = (by_run[i][name].to_numpy(float) for name in ("step", "loss"))
        start = time.perf_counter()
        for step, loss in zip(steps, losses, strict=True):
            monitor.update(step, loss)
        seconds = time.perf_counter() - start
        called = next((reading for reading in monitor.history if reading.alarm), None)
        outside = [r for r in monitor.history if r.loss is not None and r.loss not in r.band]
        off = np.log2(row["lr"] / (best or np.nan))
        rows.append(
            {
                "width": row["width"],
                "octaves": round(off),
                "fraction": np.inf if called is None else called.fraction,
                "cause": None if called is None else called.cause,
                "first_outside": outside[0].fraction if outside else np.inf,
                "said_high": called is not None and "too high" in called.advice,
                "ms_per_step": 1e3 * seconds / len(steps),
                "final_deviation": row["loss"] / (made.at(**size).loss or np.nan) - 1,
            }
        )
    return pd.DataFrame(rows)


def rows(found: pd.DataFrame) -> list[Row]:
    """The figures."""
    off, tuned = found[found["octaves"].abs() >= 2], found[found["octaves"] == 0]
    called = np.isfinite(tuned["fraction"])
    right = (off["cause"] == "mistuned") & (off["said_high"] == (off["octaves"] > 0))
    part = "monitor, our own runs"
    naive, naive_found = np.isfinite(tuned["first_outside"]), off["first_outside"] <= 0.1001
    by_off = ", ".join(
        f"{u:+d}: {(group['fraction'] <= 0.1001).mean():.0%}"
        for u, group in off.groupby("octaves")
    )
    return [
        *(
            Row(
                part=part,
                figure=f"mistuned by ≥ 2 octaves called within {part_of:.0%} of training",
                target=f"≥ {least:.0%}",
                reached=f"{(off['fraction'] <= part_of + 1e-4).mean():.1%} of {len(off)}"
                + (f" ({by_off})" if part_of == 0.1 else ""),
                met=bool((off["fraction"] <= part_of + 1e-4).mean() >= least),
            )
            for part_of, least in ((0.1, 0.8), (0.25, 0.95))
        ),
        Row(
            part=part,
            figure="false alarms over whole tuned runs",
            beat=f"once outside the pointwise band: {naive.mean():.0%}, and finds "
            f"{naive_found.mean():.0%} within 10 %",
            target="≤ 5 %",
            reached=f"{called.mean():.1%} of {len(tuned)}",
            met=bool(called.mean() <= 0.05),
        ),
        Row(
            part=part,
            figure="cause of those called: mistuned, on the right side",
            reached=f"{right.mean():.1%}",
        ),
        Row(
            part="cost",
            figure="monitor, a step",
            target="≤ 1 ms",
            reached=f"{found['ms_per_step'].mean():.2f} ms",
            met=bool(found["ms_per_step"].mean() <= 1),
        ),
    ]


def main() -> None:
    """Train if asked to; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="make the table anew")
    if parser.parse_args().train:
        train_all()
    for line in rows(watch_all()):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
