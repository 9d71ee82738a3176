"""One surface beside today's estimators on tables whose best value is known.

Part of `benchmarks.published_surfaces`. The users' tables lie beside the project; their truth is
what the users measured. The toy of `examples/own` has known answers.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.fitted_surface import Fitted
from benchmarks.page import ROOT
from benchmarks.rows import DATA, Row
from benchmarks.scores import LEVEL
from extrap.fitting.surface.answers import answer
from extrap.records import Runs

USERS = DATA.with_name("cases2")
OWN = "best lr .0055 to .0073, loss .738"


@dataclass(frozen=True, kw_only=True)
class Known:
    """A table and what is true at a size.

    Attributes:
        path: Of the table.
        at: Width.
        truth: In words.
        measured: Runs at that width, by which the cost of a rate is known.
    """

    path: Path
    at: float
    truth: str
    measured: Path | None = None


def _own(name: str, more: str = "") -> Known:
    measured = USERS / "own_truth_width96.csv"
    return Known(path=USERS / name, at=96, truth=OWN + more, measured=measured)


BIG = ROOT / "examples" / "big.csv"
KNOWN = (
    _own("own_grid.csv"),
    _own("own_optuna_tpe.csv", "; refused, or its interval holds that"),
    _own("own_two_values_tpe.csv", "; decay at most about .1, flat"),
    Known(path=USERS / "largest_size_diverged.csv", at=192, truth="no rate, or a small chance"),
    Known(path=USERS / "largest_size_diverged.csv", at=960, truth="no rate, or a small chance"),
    Known(
        path=ROOT / "examples" / "sweep.csv",
        at=512,
        truth="best of four rates .0032, loss 1.837",
        measured=BIG,
    ),
    Known(
        path=ROOT / "examples" / "sweep.csv",
        at=1024,
        truth="loss 1.807 at .0024, the better of two",
        measured=BIG,
    ),
    Known(path=ROOT / "examples" / "wandb_export.csv", at=512, truth="as of sweep.csv"),
    Known(
        path=ROOT / "examples" / "own" / "study.py", at=1024, truth="best lr .003125, loss 1.894"
    ),
)


def read(path: Path) -> Runs:
    """The runs of a table; those of a study file by its own function, with three seeds."""
    if path.suffix != ".py":
        return extrap.read_runs(path)
    spec = importlib.util.spec_from_file_location("toy", path)
    assert spec is not None
    assert spec.loader is not None
    toy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(toy)
    rates = 2.0 ** np.linspace(-9, -2, 8)
    columns = itertools.product(toy.STUDY.sizes["width"], rates, range(3))
    rows = [(w, lr, seed, toy.train({"width": w}, {"lr": lr}, seed)) for w, lr, seed in columns]
    table = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"])
    return extrap.read_runs(table, size=["width"], tune=["lr"])


def true_cost(known: Known, octaves: float) -> str:
    """What a rate costs over the best measured one, by linear interpolation of log losses."""
    if known.measured is None:
        return ""
    table = pd.read_csv(known.measured)
    losses = table[table["width"] == known.at].groupby("lr")["loss"].mean()
    logs, rates = np.log(losses.to_numpy()), np.log2(losses.index.to_numpy())
    if not rates.min() <= octaves <= rates.max():
        return ", true cost not measured"
    return f", true cost {100 * (np.interp(octaves, rates, logs) - logs.min()):.1f} %"


def by_surface(known: Known, runs: Runs) -> str:
    """Values, intervals, cost, chance, loss and refusal in words."""
    made = Fitted(runs, [[known.at]])
    said = answer(made.draws[0], level=LEVEL)
    loss, least, most = np.exp(made.log_losses(np.array([known.at]))[0])
    columns = zip(runs.tuned, said.values, said.low, said.high, strict=True)
    values = ", ".join(
        f"{name} {2**value:.4g} ({2**low:.4g} to {2**high:.4g})"
        for name, value, low, high in columns
    )
    refused = f"; refused: {said.refusal}" * bool(said.refusal)
    return (
        f"{values}, cost {100 * said.mistuned:.1f} %{true_cost(known, said.values[0])}, chance of "
        f"divergence {said.chance:.3f}, loss {loss:.4g} ({least:.4g} to {most:.4g}){refused}"
    )


def by_today(known: Known, runs: Runs) -> str:
    """The same in today's words."""
    try:
        point = extrap.forecast(runs, level=LEVEL).at(**{runs.sizes[0]: known.at})
    except extrap.ExtrapError as error:
        return f"error: {error}"
    parts = []
    for name in runs.tuned:
        value, estimate = point.recommended.get(name), point.tuned.get(name)
        if value is None:
            parts.append(f"{name} refused")
            continue
        pi = estimate.pi if estimate else None
        ends = f" ({pi.lower:.4g} to {pi.upper:.4g})" if pi and pi.lower and pi.upper else ""
        parts.append(f"{name} {value:.4g}{ends}")
    first = point.recommended.get(runs.tuned[0])
    cost = true_cost(known, math.log2(first)) if first else ""
    pi, loss = point.loss_pi, "loss refused"
    if point.loss and pi.lower and pi.upper:
        loss = f"loss {point.loss:.4g} ({pi.lower:.4g} to {pi.upper:.4g})"
    return f"{', '.join(parts)}{cost}, {loss}"


def cases() -> list[Row]:
    """Every table that is there."""
    rows = []
    for known in KNOWN:
        head = {"part": f"{known.path.parent.name}/{known.path.name}"}
        head["figure"] = f"at width {known.at:g}"
        if not known.path.is_file():
            rows.append(Row(**head, reached="left out: the table is not there"))
            continue
        runs = read(known.path)
        now, new = by_today(known, runs), by_surface(known, runs)
        rows.append(Row(**head, beat=now, reached=new, note=f"truth: {known.truth}"))
    return rows
