"""Other ways to forecast a loss, on the splits of `make backtest`.

    python -m benchmarks.peers splits SPLITS.json
    python -m benchmarks.peers table FORECASTS.jsonl    # writes benchmarks/peers.csv

`make peers` runs both and, between them, `benchmarks/peer_packages.py` in an environment of its
own, so that packages are installed nowhere else. `peers.csv` has one row per split and package,
with a hash of the split's runs: a row of other runs is not used.

What is written here: the last value, a straight line in logarithms by least squares, Chinchilla's
law by least squares with tied and free exponents, and the law of vpnls, `E + Σ A_i x_i^-a_i` by
variable projection: non-negative least squares for E and A over a grid of the exponents, then
L-BFGS-B (Czech 2026, arXiv 2603.22339). Losses of vpnls are fitted as they are, not their
logarithms.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize, nnls
from statsmodels.regression.linear_model import OLS

import extrap
from benchmarks import envelopes, ladders, own_sweeps, published
from benchmarks.rows import DATA
from benchmarks.scores import LEVEL, Table, points_of, rms
from extrap.fitting.loss_law import predict_log, relative_sizes

SHIPPED = Path(__file__).with_name("peers.csv")
CURVES, SHORT, GADRE, LADDERS, COMPUTE, METZ = (
    "curves",
    "short curves",
    "gadre",
    "ladders",
    "compute",
    "metz",
)
"""Sets of splits: the parts of `make backtest` that forecast them."""
BY_RMS = (CURVES, SHORT)
"""Sets whose error of a split is a root mean square, as in their benchmark; else absolute."""
LEAST_LOSS = 1e-9
MAX_FAILED = 0.05
"""Share of a package's forecasts."""
N_EXPONENTS, EXPONENTS = 24, (0.02, 2.0)
"""Grid of vpnls, in logarithms, and its bounds."""
VERSIONS = {"simple-scaling-laws": "0.2.0", "chinchilla": "0.2.0"}
SETTINGS = {
    "simple-scaling-laws": "default law separable-power, 100 draws, 90 % band of a new run",
    "chinchilla": "default loss, both ends of each range of starts in its manual",
}


class Split(NamedTuple):
    """Holds a table that is forecast by several methods.

    Attributes:
        set: Which set it belongs to, one of those above.
        table: Its fitted and larger runs; its group is what counts alike with the others.
    """

    set: str
    table: Table

    @property
    def name(self) -> str:
        """Names it uniquely in its set."""
        return f"{self.table.group}: {self.table.name}"

    @property
    def hash(self) -> str:
        """Names its runs, by numbers of nine digits."""
        columns = (
            self.table.sizes,
            *(
                [f"{value:.9g}" for value in runs[name].astype(float)]
                for runs in (self.table.fitted, self.table.truth)
                for name in (*self.table.sizes, "loss")
            ),
        )
        return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:12]


class Forecasts(NamedTuple):
    """Holds logarithms of losses, and of the ends of 90 % intervals.

    An open end is infinite; NaN stands for a missing interval.
    """

    log: Any
    low: Any = np.nan
    high: Any = np.nan


def loss_splits(data: Path = DATA) -> Iterator[Split]:
    """Make every split whose tables are there."""
    makers: dict[str, Callable[[], Iterable[Table]]] = {
        GADRE: lambda: published.gadre_tables(data),
        LADDERS: lambda: (ladders.judged_part(table) for _, table in ladders.all_splits(data)),
        COMPUTE: lambda: envelopes.all_windows(data),
        CURVES: lambda: published.curve_tables(data),
        SHORT: lambda: published.short_tables(data),
        METZ: own_sweeps.loss_tables,
    }
    for name, make in makers.items():
        try:
            yield from (Split(name, table) for table in make())
        except FileNotFoundError:
            continue


def last_value(table: Table) -> Forecasts:
    """Repeat the loss of the largest run by the first size; of several, of the nearest."""
    first, *others = table.sizes
    largest = table.fitted[table.fitted[first] == table.fitted[first].max()]
    logs = []
    for run in table.truth.to_dict("records"):
        off = sum((np.log(largest[c] / run[c]).abs() for c in others), start=0 * largest[first])
        logs.append(np.log(largest["loss"].to_numpy()[int(np.asarray(off).argmin())]))
    return Forecasts(np.array(logs))


def straight_line(table: Table) -> Forecasts:
    """Fit ln loss over ln sizes by least squares, with the interval of a new run.

    Raises:
        DataError: The runs do not determine a line and its scatter.
    """
    columns = [name for name in table.sizes if table.fitted[name].nunique() > 1]
    fitted, ahead = (
        np.column_stack([np.ones(len(runs)), np.log(runs[columns].astype(float))])
        for runs in (table.fitted, table.truth)
    )
    if len(fitted) <= fitted.shape[1] or np.linalg.matrix_rank(fitted) < fitted.shape[1]:
        raise extrap.DataError(
            f"a straight line over {', '.join(columns) or 'no size'} needs more runs than "
            f"{len(fitted)}, or sizes that vary apart; take another split."
        )
    line = OLS(np.log(table.fitted["loss"].to_numpy(float)), fitted).fit()
    band = line.get_prediction(ahead).summary_frame(alpha=1 - LEVEL)
    return Forecasts(*band[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy(float).T)


def law_by_least_squares(key: str, table: Table) -> Forecasts:
    """Fit a law of the package by least squares of the logarithms, without its prior."""
    sizes = {column: table.fitted[column].to_numpy(float) for column in table.sizes}
    law = extrap.fit(key, sizes, table.fitted["loss"])
    points = table.truth[list(table.sizes)].astype(float).to_dict("records")
    return Forecasts(np.array([predict_log(law, relative_sizes(law, p))[0][0] for p in points]))


class Projected(NamedTuple):
    """Holds `E + Σ A_i (x_i / s_i)^-a_i`: coefficients (1 + C,), exponents and scales (C,)."""

    coefficients: np.ndarray
    exponents: np.ndarray
    scales: np.ndarray

    def losses(self, sizes: np.ndarray) -> np.ndarray:
        """Compute losses at sizes (n, C)."""
        return np.asarray(_design(sizes / self.scales, self.exponents) @ self.coefficients)


def _design(sizes: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(sizes)), sizes**-exponents])


def vpnls(sizes: np.ndarray, losses: np.ndarray) -> Projected:
    """Fit the law by variable projection.

    Args:
        sizes: (n, C).
        losses: (n,).
    """
    scales = np.exp(np.log(sizes).mean(axis=0))
    relative, bounds = sizes / scales, np.log(EXPONENTS)

    def misfit(log_exponents: np.ndarray) -> float:
        return float(nnls(_design(relative, np.exp(log_exponents)), losses)[1])

    axis = np.linspace(*bounds, N_EXPONENTS)
    start = min(itertools.product(axis, repeat=sizes.shape[1]), key=lambda e: misfit(np.array(e)))
    best = minimize(misfit, start, method="L-BFGS-B", bounds=[tuple(bounds)] * sizes.shape[1]).x
    exponents = np.exp(best if misfit(best) <= misfit(np.array(start)) else np.array(start))
    return Projected(nnls(_design(relative, exponents), losses)[0], exponents, scales)


def forecast_by_vpnls(table: Table) -> Forecasts:
    """Forecast the larger runs' losses by `vpnls`."""
    columns = list(table.sizes)
    law = vpnls(table.fitted[columns].to_numpy(float), table.fitted["loss"].to_numpy(float))
    losses = law.losses(table.truth[columns].to_numpy(float))
    return Forecasts(np.log(np.maximum(losses, LEAST_LOSS)))


METHODS: Mapping[str, Callable[[Table], Forecasts]] = {
    "last value": last_value,
    "straight line": straight_line,
    "tied Chinchilla, least squares": lambda t: law_by_least_squares("chinchilla_tied", t),
    "power law with floor, least squares": lambda t: law_by_least_squares("power_floor", t),
    "vpnls' law": forecast_by_vpnls,
}
TWO_COLUMNS = "tied Chinchilla, least squares"
"""Needs parameters and tokens."""


def summary(split: Split, method: str, forecasts: Forecasts, seconds: float) -> dict[str, Any]:
    """Score a method on a split; without an interval at each larger run none is scored."""
    truth = np.log(split.table.truth["loss"].to_numpy(float))
    errors = np.asarray(forecasts.log) - truth
    low, high = np.asarray(forecasts.low, float), np.asarray(forecasts.high, float)
    is_missing = (np.isnan(low) | np.isnan(high)).any()
    scores = {
        "held": ((low <= truth) & (truth <= high)).mean(),
        "width": np.median(np.expm1(high - low)),
        "score": points_of(truth, low, high).mean(),
    }
    return {
        "set": split.set,
        "split": split.name,
        "method": method,
        "error": rms(errors) if split.set in BY_RMS else np.abs(errors).mean(),
        "bias": errors.mean(),
        **(dict.fromkeys(scores, np.nan) if is_missing else scores),
        "seconds": seconds,
    }


def judge_others(split: Split) -> list[dict[str, Any]]:
    """Score each method that is written here."""
    rows = []
    for name, method in METHODS.items():
        if name == TWO_COLUMNS and len(split.table.sizes) != 2:
            continue
        began = time.process_time()
        try:
            forecasts = method(split.table)
        except extrap.ExtrapError:  # too few runs for it
            continue
        rows.append(summary(split, name, forecasts, time.process_time() - began))
    return rows


def measure_others(data: Path = DATA) -> pd.DataFrame:
    """Make one row per split and method."""
    with ProcessPoolExecutor(2) as pool:
        found = pool.map(judge_others, loss_splits(data), chunksize=4)
        return pd.DataFrame([row for rows in found for row in rows])


def write_splits(data: Path, path: Path) -> None:
    """Write the splits without their answers."""
    records = [
        {
            "set": split.set,
            "split": split.name,
            "hash": split.hash,
            "sizes": list(split.table.sizes),
            "fitted": _columns(split.table.fitted, (*split.table.sizes, "loss")),
            "ahead": _columns(split.table.truth, split.table.sizes),
        }
        for split in loss_splits(data)
    ]
    path.write_text(json.dumps(records), encoding="utf-8")


def _columns(table: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, list[float]]:
    return {column: table[column].astype(float).tolist() for column in columns}


def peer_table(data: Path, records: list[dict[str, Any]]) -> pd.DataFrame:
    """Make one row per split and package; a failure has no error.

    Raises:
        ValueError: Records are of other splits, or a package failed too often.
    """
    splits = {(split.set, split.name, split.hash): split for split in loss_splits(data)}
    keys = [(record["set"], record["split"], record.get("hash", "")) for record in records]
    if strange := [
        f"{name} of {set_}" for set_, name, hash_ in keys if (set_, name, hash_) not in splits
    ]:
        raise ValueError(
            f"{len(strange)} records are of splits that are not made now, such as {strange[0]}; "
            "run `make peers` again."
        )
    rows = []
    for key, record in zip(keys, records, strict=True):
        row = dict(zip(("set", "split", "hash"), key, strict=True)) | {"method": record["method"]}
        if "error" not in record:
            ends = (np.array(record[end]) if end in record else np.nan for end in ("low", "high"))
            forecasts = Forecasts(np.array(record["log"]), *ends)
            row |= summary(splits[key], record["method"], forecasts, record["seconds"])
        rows.append(row)
    for method in sorted({record["method"] for record in records}):
        own = [record for record in records if record["method"] == method]
        errors = [record["error"] for record in own if "error" in record]
        sys.stdout.write(f"{method}: {len(errors)} of {len(own)} forecasts failed\n")
        if len(errors) > MAX_FAILED * len(own):
            raise ValueError(f"{method} failed too often, such as by: {errors[0]}")
    return pd.DataFrame(rows)


def current_peers(data: Path = DATA, path: Path = SHIPPED) -> pd.DataFrame:
    """Read the rows of `peers.csv` of the splits made now, and say how many are of others."""
    table = pd.read_csv(path, comment="#").dropna(subset="error")
    splits = list(loss_splits(data))
    table = table[table["set"].isin({split.set for split in splits})]
    hashes = {(split.set, split.name): split.hash for split in splits}
    now = [hashes.get(key) for key in zip(table["set"], table["split"], strict=True)]
    is_stale = table["hash"].ne(pd.Series(now, index=table.index, dtype=object))
    if is_stale.any():
        sys.stdout.write(
            f"{path.name}: {is_stale.sum()} of {len(table)} rows are of other splits and left "
            "out; `make peers` measures them again\n"
        )
    return table[~is_stale].drop(columns="hash")


def main() -> None:
    """Write the splits, or the table of what packages forecast of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("splits", "table"))
    parser.add_argument("path", type=Path, help="to write, or of what packages forecast")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    if given.what == "splits":
        write_splits(given.data, given.path)
        return
    with given.path.open(encoding="utf-8") as lines:
        table = peer_table(given.data, [json.loads(line) for line in lines])
    head = [
        f"# Made by `make peers` on {datetime.now(UTC):%Y-%m-%d}; one row per split and package.",
        *(f"# {name} {VERSIONS[name]}: {setting}." for name, setting in SETTINGS.items()),
    ]
    body = table.to_csv(index=False, float_format="%.5g")
    SHIPPED.write_text("\n".join([*head, body]), encoding="utf-8")


if __name__ == "__main__":
    main()
