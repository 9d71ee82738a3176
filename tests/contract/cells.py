"""Which cells a study asks for, stage by stage, when its runs have made-up losses.

The loss is a power law of the size with a floor, a parabola over log2 of each tuned value about
an optimum that moves with the size, and noise by cell; the curve of a run falls as a power of its
step, and through the targets of a batch study.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from extrap.records import Cell, Runs, StudySpec
from extrap.study import RunsByStage, open_study

FLOOR, NOISE, CURVATURE = 1.5, 0.002, 0.03
STEPS = np.geomspace(0.01, 1.0, 30)
MOST_ROUNDS = 40


def loss_of(spec: StudySpec, cell: Cell, *, recipe: str) -> float:
    """The final loss of a cell; recipes differ by a percent or so."""
    tuned, x = dict(cell.tuned), relative_size(spec, cell)
    rng = np.random.default_rng([cell.seed, *repr((cell, recipe)).encode()])
    loss = FLOOR + 0.5 * x**-0.15 * (1 + sum(recipe.encode()) % 7 / 100)
    if tokens := dict(cell.size).get(
        "tokens"
    ):  # narrow models gain as much from width as from data
        loss = 1.3 + 20 * n_params_of(cell) ** -0.4 + 60 * tokens**-0.45
    for name, values in spec.tune.items():
        if isinstance(tuned[name], float | int) and name not in ("batch_size", "steps"):
            best = math.sqrt(values.low * values.high) * x ** (-0.2 if name == "lr" else 0.0)
            loss *= 1 + CURVATURE * (math.log2(tuned[name] / best) - 0.3) ** 2
    return loss * math.exp(rng.normal(0, NOISE))


def relative_size(spec: StudySpec, cell: Cell) -> float:
    """The size, but for its tokens, over the largest one of the sweep."""
    largest = {name: max(values) for name, values in spec.sizes.items()}
    parts = [value / largest[name] for name, value in cell.size if name != "tokens"]
    return math.prod(parts)


def n_params_of(cell: Cell) -> int:
    """About those of a three-layer network on bytes."""
    size = math.prod(value for name, value in cell.size if name != "tokens")
    return round(2 * size**2 + 515 * size + 256)


def curve_of(
    spec: StudySpec, cell: Cell, targets: tuple[float, ...], n_steps: int
) -> pd.DataFrame:
    """The curve of a cell of a batch study, which reaches the lowest target half way."""
    tuned = dict(cell.tuned)
    rate = spec.tune["lr"]
    away = math.log2(tuned["lr"] / math.sqrt(rate.low * rate.high)) / 2
    reach = 0.5 * (1 + 0.2 * away**2) * relative_size(spec, cell) ** -0.1
    losses = min(targets) * (0.8 + 0.2 * (STEPS / reach) ** -0.7)
    noise = {"grad_sq_norm": STEPS**-0.5, "grad_cov_trace": np.full(len(STEPS), 100.0)}
    return pd.DataFrame({"step": n_steps * STEPS, "loss": losses, **noise})


class Simulated:
    """Runs of every study of a file, made up as they are asked for."""

    def __init__(self, targets: Mapping[str, tuple[float, ...]]) -> None:
        self.targets = targets
        self.cells: dict[tuple[str, str], dict[Cell, None]] = {}

    def read(self, spec: StudySpec, stage: str) -> Runs:
        """The runs there are of a stage."""
        sizes, tuned = tuple(spec.sizes), tuple(spec.tune)
        conditions, curves = spec.conditions(), []
        rows: list[dict[str, Any]] = []
        for cell in self.cells.get((spec.name, stage), {}):
            size = dict(cell.size)
            row = {**conditions, **spec.size_values(size), **dict(cell.tuned), "seed": cell.seed}
            row |= {"loss": loss_of(spec, cell, recipe=spec.name), "n_params": n_params_of(cell)}
            if spec.name in self.targets:
                targets, n_steps = self.targets[spec.name], int(row["steps"])
                curve = curve_of(spec, cell, targets, n_steps).assign(run=len(rows))
                curves.append(curve)
                row["loss"] = curve["loss"].iloc[-1]
            rows.append({**row, "status": "complete", "stage": stage, "epochs": 0.5})
        columns = [*sizes, *tuned, *conditions, "loss", "seed", "status", "stage"]
        frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
        return Runs.from_frame(
            frame.astype({"loss": float}),
            sizes=sizes,
            tuned=tuned,
            conditions=tuple(conditions),
            curves=pd.concat(curves, ignore_index=True) if curves else None,
            source=spec.name,
        )

    def add(self, spec: StudySpec, stage: str, cells: tuple[Cell, ...]) -> int:
        """Let cells be run; how many are new."""
        known = self.cells.setdefault((spec.name, stage), {})
        new = [cell for cell in dict.fromkeys(cells) if cell not in known]
        known |= dict.fromkeys(new)
        return len(new)


def cells_of(path: Path) -> dict[str, Any]:
    """Stage → the numbers of new cells by round, and the cells by size and tuned values."""
    study = open_study(path)
    targets: dict[str, tuple[float, ...]] = {}
    if study.symbol == "BATCHES":
        targets = {task.spec().name: task.targets for task in study.study.tasks}
    there, rounds = Simulated(targets), {}
    runs = RunsByStage(there.read)
    for stages in study.stages(runs):
        for stage in stages:
            counts = rounds.setdefault(f"{stage.spec.name}, {stage.name}", [])
            for _ in range(MOST_ROUNDS):
                have = there.read(stage.spec, stage.name)
                wanted = stage.spec.grid_cells() if stage.wants is None else stage.wants(have)
                if not (n_new := there.add(stage.spec, stage.name, tuple(wanted))):
                    break
                counts.append(n_new)
            runs.put(stage, there.read(stage.spec, stage.name))
    return {
        stage: {"rounds": counts, "cells": listed(there.cells.get(tuple(stage.split(", ")), {}))}
        for stage, counts in rounds.items()
    }


def listed(cells: Mapping[Cell, None]) -> dict[str, list[str]]:
    """Size → tuned values, each with its seeds."""
    found: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        of_size = found.setdefault(worded(cell.size), {})
        of_size.setdefault(worded(cell.tuned), []).append(str(cell.seed))
    return {
        size: [f"{tuned}, seeds {' '.join(seeds)}" for tuned, seeds in of_size.items()]
        for size, of_size in found.items()
    }


def worded(values: Iterable[tuple[str, object]]) -> str:
    return " ".join(f"{name}={value}" for name, value in values)
