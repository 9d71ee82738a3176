"""Forecasts of other packages on splits written by `benchmarks.peers`; imports nothing of ours.

    python benchmarks/peer_packages.py SPLITS.json FORECASTS.jsonl

Runs in an environment of its own (`make peers`), Python 3.12 or newer:

- simple-scaling-laws 0.2.0: its default law, `separable-power`, and the 90 % band of a new run;
  100 bootstrap draws, as 1,000 take most of a minute per split.
- chinchilla 0.2.0, parameters and tokens alone: its default loss, and the two ends of each range
  of starts in its manual, as the five points of the manual take 5 minutes per split.

FORECASTS.jsonl grows by each split, so a stopped command goes on where it was. Records of splits
that SPLITS.json no longer has are dropped.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import os
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

LEVEL, N_DRAWS = 0.9, 100
STARTS = {
    "E": (1.0, 2.0),
    "a": (1.0, 10.0),
    "b": (1.0, 10.0),
    "alpha": (0.1, 0.7),
    "beta": (0.1, 0.7),
}
"""Of chinchilla's manual, the ends alone."""
KINDS = {"tokens": "dataset_size", "seen_examples": "dataset_size"}
"""Column → what simple-scaling-laws calls it; any other is a model's size."""


def simple_scaling_laws(split: dict) -> dict[str, list[float]]:
    """Forecast medians and 90 % ends of a new run, as logarithms."""
    import polars
    from simple_scaling_laws import fit

    names = {column: f"{KINDS.get(column, 'model_size')}__{column}" for column in split["sizes"]}
    losses = split["fitted"]["loss"]
    runs = {names[column]: split["fitted"][column] for column in split["sizes"]}
    runs |= {"training_run_id": [str(i) for i in range(len(losses))]}
    runs |= {"test_set_id": ["held out"] * len(losses), "test_loss__all": losses}
    points = {names[column]: split["ahead"][column] for column in split["sizes"]}
    model = fit(polars.DataFrame(runs), n_draws=N_DRAWS, seed=0)
    ends = [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]
    bands = model.predict(polars.DataFrame(points), kind="new-run", quantiles=ends)
    columns = [column for column in bands.columns if column.startswith("test_loss__all")]
    low, log, high = ([_log(loss) for loss in bands[column]] for column in columns)
    return {"low": low, "log": log, "high": high}


def chinchilla(split: dict) -> dict[str, list[float]]:
    """Forecast losses of its law, as logarithms."""
    from chinchilla import Chinchilla

    os.cpu_count = lambda: 1  # `fit` opens a pool of so many, even if not parallel
    with tempfile.TemporaryDirectory() as folder:
        law = Chinchilla(folder, param_grid=STARTS, log_level=50)
        fitted = split["fitted"]
        for n, d, loss in zip(fitted["params"], fitted["tokens"], fitted["loss"], strict=True):
            law.append(C=6 * n * d, N=n, D=d, loss=loss)
        law.fit(parallel=False)
        sizes = zip(split["ahead"]["params"], split["ahead"]["tokens"], strict=True)
        return {"log": [_log(float(law.predict_loss(n, d))) for n, d in sizes]}


def _log(loss: float) -> float:
    """Take the logarithm; of a negative loss that of one that is as good as 0."""
    return math.log(max(loss, 1e-9))


PACKAGES = {"simple-scaling-laws": simple_scaling_laws, "chinchilla": chinchilla}
MODULES = ("polars", "simple_scaling_laws", "chinchilla")
N_WORKERS = 2
KEYS = ("set", "split", "hash")
"""What names a split in both files."""


def require_packages() -> None:
    """Exit with a line where a package is missing: otherwise each of its forecasts would fail."""
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise SystemExit(f"{name} is missing ({error}); run `make peers`") from error


def forecast(task: tuple[str, dict]) -> dict:
    """Record what a package forecasts of a split and its processor time, or its error."""
    method, split = task
    warnings.simplefilter("ignore")
    began = time.process_time()
    try:
        answer = PACKAGES[method](split)
    except Exception as error:  # whatever a package raises is its answer
        answer = {"error": f"{type(error).__name__}: {error}"[:200]}
    used = time.process_time() - began
    return {"method": method, **{key: split[key] for key in KEYS}, "seconds": used, **answer}


def keep_records(path: Path, splits: list[dict]) -> set[tuple[str, ...]]:
    """Rewrite the file with the whole records of these splits, and return what they are of."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a killed command leaves a part of a line
    now = {tuple(split[key] for key in KEYS) for split in splits}
    records = [
        record
        for record in map(json.loads, whole.splitlines())
        if tuple(record.get(key) for key in KEYS) in now
    ]
    part = path.with_suffix(".part")
    part.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    part.replace(path)
    return {tuple(record[key] for key in ("method", *KEYS)) for record in records}


def main() -> None:
    """Forecast what is not yet forecast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("splits", type=Path)
    parser.add_argument("forecasts", type=Path, help="one JSON record per line")
    given = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    require_packages()
    splits = json.loads(given.splits.read_text(encoding="utf-8"))
    done = keep_records(given.forecasts, splits)
    tasks = [
        (method, split)
        for method, split in itertools.product(PACKAGES, splits)
        if (method != "chinchilla" or split["sizes"] == ["params", "tokens"])
        and (method, *(split[key] for key in KEYS)) not in done
    ]
    with ProcessPoolExecutor(N_WORKERS) as pool, given.forecasts.open("a") as file:
        for record in pool.map(forecast, tasks):
            file.write(json.dumps(record) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
