"""The 92-curve extrapolation benchmark of Alabdulmohsin et al. (2022), arXiv 2209.06640.

Each curve is loss against examples seen; its held-out part reaches about twice the largest fitted
x. A curve is read and forecast as a user would, with one setting for all domains. The error of a
curve is the root mean square of ln(forecast / loss) over its held-out points.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.broken_power import predict_broken
from benchmarks.rows import DATA, Row, learning_curves, require

LEVEL, LEVELS = 0.9, (0.5, 0.8, 0.9)
TARGETS = {"all": 0.0235, "IC": 0.0275, "LM": 0.0008, "BB": 0.010, "NMT": 0.019}
OURS, LAST, BNSL = "extrap, default", "last value", "BNSL"
OTHERS = ("M4", "M3", "M2", BNSL, LAST)
BNSL_FROM = 8
"""A broken power law has six parameters."""
PART = "92 curves"


def judge_curve(item: tuple[str, pd.DataFrame]) -> list[dict[str, object]]:
    """One row a method: error, share of held-out points inside the interval, its width."""
    name, curve = item
    train, test = (curve[curve["split"] == part] for part in ("train", "test"))
    table = train[["seen_examples", "loss"]].reset_index(drop=True)
    made = extrap.forecast(extrap.read_runs(table, size="seen_examples"), level=LEVEL)
    observed = np.log(test["loss"].to_numpy())
    common = {"curve": name, "domain": curve["domain"].iloc[0]}
    rows = []
    for band in ("default", "family"):
        judged = judge_band(replace(made, band=band), test["seen_examples"], observed)
        rows.append({**common, "method": f"extrap, {band}", **judged})
    last = np.log(train["loss"].iloc[-1]) - observed
    rows.append({**common, "method": LAST, "rmsle": _rms(last)})
    by_size = train.groupby("seen_examples")["loss"].mean()
    if len(by_size) >= BNSL_FROM:
        sizes, targets = by_size.index.to_numpy(float), test["seen_examples"].to_numpy(float)
        predicted = predict_broken(sizes, by_size.to_numpy(), targets)
        rows.append({**common, "method": BNSL, "rmsle": _rms(predicted - observed)})
    return rows


def judge_band(made: extrap.Forecast, sizes: pd.Series, observed: np.ndarray) -> dict[str, object]:
    """Error, coverage at each level, and width and interval score of the 90 % interval."""
    found = [made.predict_loss({"seen_examples": float(x)}, refuse=False) for x in sizes]
    centre = np.array([p.log_loss for p in found if p is not None])
    judged: dict[str, object] = {"rmsle": _rms(centre - observed)}
    for level in LEVELS:
        ends = [p.interval(level, new_run=True) for p in found if p is not None]
        low = np.log([end.lower or 1e-300 for end in ends])
        high = np.log([end.upper or np.inf for end in ends])
        outside = np.maximum(low - observed, 0) + np.maximum(observed - high, 0)
        judged[f"held_{100 * level:g}"] = float(np.mean(outside == 0))
        if level == LEVEL:
            judged["width"] = float(np.median(np.expm1(high - low)))
            penalty = 2 / (1 - level) * outside
            judged["interval_score"] = float(np.mean(high - low + penalty))
    return judged


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def judge_curves(data: Path = DATA) -> pd.DataFrame:
    """All curves and methods, with the authors' own M1 to M4 rerun."""
    curves = learning_curves(data)
    with ProcessPoolExecutor(2) as pool:
        rows = [r for rs in pool.map(judge_curve, curves.items(), chunksize=4) for r in rs]
    own = pd.read_csv(require(data, "alabdulmohsin_bench_m1_m4.csv"))
    own = own.rename(columns={"curve_id": "curve"})[["curve", "domain", "method", "rmsle"]]
    return pd.concat([pd.DataFrame(rows), own], ignore_index=True)


def mean_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Mean RMSLE: rows method, columns domain and `all`."""
    errors = table.pivot_table(index="method", columns="domain", values="rmsle")
    errors["all"] = table.groupby("method")["rmsle"].mean()
    return errors


def rows(table: pd.DataFrame) -> list[Row]:
    """The figures of the benchmark."""
    errors = mean_errors(table)
    return [*(_error_row(table, errors, domain) for domain in TARGETS), *_interval_rows(table)]


def _error_row(table: pd.DataFrame, errors: pd.DataFrame, domain: str) -> Row:
    here = table if domain == "all" else table[table["domain"] == domain]
    reached = errors.loc[OURS, domain]
    n, n_broken = ((here["method"] == method).sum() for method in (OURS, BNSL))
    better = [m for m in OTHERS if errors.loc[m, domain] < reached]
    notes = []
    if domain == "all":
        notes.append(
            "Not a blind test: the forecaster's discounts and priors come from work on these 92 "
            "curves, and how it is blended with the laws was chosen with them and the simulations "
            "below in sight. One setting serves all domains."
        )
        ours = here[here["method"] == OURS].set_index("curve")["rmsle"]
        worst = ours.idxmax()
        notes.append(
            f"The worst curve, {worst}, is off by {ours[worst]:.3f}; without it the mean is "
            f"{ours.drop(worst).mean():.4f}."
        )
    if n_broken < n:
        notes.append(f"BNSL (one break) on the {n_broken} of {n} curves with 8 sizes or more.")
    if better:
        notes.append(f"Better than ours in this domain: {', '.join(better)}.")
    return Row(
        part=PART,
        figure=f"mean held-out RMSLE, {domain} ({n})",
        beat=", ".join(f"{m} {errors.loc[m, domain]:.4f}" for m in OTHERS),
        target=f"≤ {TARGETS[domain]:g}",
        reached=f"{reached:.4f}",
        met=bool(round(reached, 4) <= TARGETS[domain]),
        note=" ".join(notes),
    )


def _interval_rows(table: pd.DataFrame) -> list[Row]:
    ours = table[table["method"] == OURS]
    family = table[table["method"] == "extrap, family"]
    pooled, width = ours["held_90"].mean(), ours["width"].median()
    domains = ours.groupby("domain")["held_90"].mean()
    return [
        Row(
            part=PART,
            figure="90 % prediction intervals hold, pooled (mean over curves)",
            beat="one-power bootstrap 58 % (IC), 27 % (NMT); band family "
            f"{family['held_90'].mean():.0%}",
            target="85–95 %",
            reached=f"{pooled:.1%}",
            met=bool(0.85 <= pooled <= 0.95),
        ),
        Row(
            part=PART,
            figure="90 % prediction intervals hold, each domain",
            target="≥ 80 %",
            reached=", ".join(f"{d} {share:.0%}" for d, share in domains.items()),
            met=bool(domains.min() >= 0.8),
        ),
        Row(
            part=PART,
            figure="median full width of the 90 % interval",
            target="≤ 8 %",
            reached=f"{width:.1%}",
            met=bool(width <= 0.08),
        ),
    ]


if __name__ == "__main__":
    for line in rows(judge_curves(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)):
        sys.stdout.write(f"{line}\n")
