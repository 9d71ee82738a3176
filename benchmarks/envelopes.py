"""One loss per compute: envelopes of published ladders, small sizes fitted, larger ones forecast.

    python -m benchmarks.envelopes [--only PART …] [--sweeps N] [--draws development]

Envelopes are made by a rule that knows no result: of each table the run with the lowest loss in
each doubling of compute (6 N D). Five to eight of these in a row are fitted, and those 2 to 5 and
14 to 70 times above the last fitted one are forecast. A ladder gives at most three windows: the
first, the middle and the last one that has something to forecast, as long as it can be. Coverage
and widths are of the 90 % interval of a new run; each source counts alike. The prior of forecasts
over compute is chosen here: the share of the change with the best interval score, each source left
out in turn. Simulated: clean curves, exponents that stop falling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import extrap
from benchmarks.ladders import ladders
from benchmarks.rows import DATA, Row
from benchmarks.scores import LEVEL, Table, interval_score, rms
from benchmarks.sweeps import DrawnPart, print_parts
from extrap.fitting.ladder_prior import COMPUTE_LADDERS

FEWEST, MOST = 5, 8
NEAR, FAR = (2.0, 5.0), (14.0, 70.0)
MOST_WINDOWS = 3
SHARES = (0.05, 0.065, 0.08, 0.1, 0.13, 0.17)
"""Shares of the change among which the prior is chosen."""
ALPHA, QUIET = 0.05, 0.0005


def envelope(runs: pd.DataFrame) -> pd.DataFrame:
    """The best run in each doubling of compute: `compute`, `loss`."""
    compute = 6.0 * runs["params"] * runs["tokens"]
    doubling = np.floor(np.log2(compute / compute.min()) + 0.5)
    best = runs.groupby(doubling)["loss"].idxmin()
    found = pd.DataFrame({"compute": compute[best], "loss": runs["loss"][best]})
    return found.sort_values("compute").reset_index(drop=True)


def windows(source: str, name: str, runs: pd.DataFrame) -> Iterator[Table]:
    """The splits of an envelope."""
    points = envelope(runs.astype({"params": float, "tokens": float}).reset_index(drop=True))
    compute = points["compute"].to_numpy()
    lasts = []
    for last in range(FEWEST - 1, len(points)):
        times = compute / compute[last]
        if any(((times >= low) & (times <= high)).any() for low, high in (NEAR, FAR)):
            lasts.append(last)
    picked = np.unique(np.linspace(0, len(lasts) - 1, MOST_WINDOWS).round().astype(int))
    for last in (lasts[i] for i in picked if lasts):
        times = compute / compute[last]
        ahead = [(times >= low) & (times <= high) for low, high in (NEAR, FAR)]
        yield Table(
            f"{name}, {last + 1}",
            source,
            ("compute",),
            points[max(last + 1 - MOST, 0) : last + 1],
            points[np.any(ahead, axis=0)].assign(times=times[np.any(ahead, axis=0)]),
        )


def all_windows(data: Path = DATA) -> list[Table]:
    """Every window of every published ladder."""
    found = []
    for source, name, runs in ladders(data):
        if source == "Porian":
            source = f"Porian {'tuned' if 'tuned' in name else 'untuned'}"
        found += windows(source, name, runs)
    return found


def judged(
    forecasts: list[tuple[Table, extrap.Forecast]], share: float | None = None
) -> pd.DataFrame:
    """One row per forecast run: whether its 90 % interval holds, half its width, its p-values.

    With another share of the change for the prior, where one is given.
    """
    rows = []
    for table, made in forecasts:
        model = made.loss_model
        assert model is not None
        if share is not None:
            model = replace(model, prior=replace(COMPUTE_LADDERS, share=share))
        for row in table.truth.itertuples():
            found = model.predict({"compute": row.compute}, noise=made.noise, band="default")
            off = float(np.log(row.loss)) - found.log_loss
            half = found.half_width(LEVEL, new_run=True)
            at = np.array([np.log(row.loss)])
            rows.append(
                {
                    "source": table.group,
                    "window": f"{table.group}, {table.name}",
                    "where": "near" if row.times <= NEAR[1] else "far",
                    "off": off,
                    "half": half,
                    "held": abs(off) <= half,
                    "score": interval_score(row.loss, *found.interval(LEVEL, new_run=True)),
                    "two-sided": float(found.p_values(at)[0]) <= ALPHA,
                    "one-sided": float(found.p_worse(at)[0]) <= ALPHA,
                }
            )
    return pd.DataFrame(rows)


class Judged(NamedTuple):
    """Forecasts of published envelopes: with the prior as it stands, and with other shares."""

    chosen: pd.DataFrame
    by_share: dict[float, pd.DataFrame]


def judge_published(data: Path = DATA) -> Judged:
    """Forecast every window of every published ladder."""
    forecasts, seconds = [], {}
    for table in all_windows(data):
        began = time.process_time()
        forecasts.append((table, extrap.forecast(table.fitted, size="compute", tune=[])))
        seconds[f"{table.group}, {table.name}"] = time.process_time() - began
    chosen = judged(forecasts)
    return Judged(
        chosen.assign(seconds=chosen["window"].map(seconds)),
        {share: judged(forecasts, share) for share in SHARES},
    )


def published_rows(found: Judged) -> list[Row]:
    """The prior with its source left out, widths, coverage and false alarms."""
    chosen, by_share = found
    scores = pd.DataFrame(
        {share: table.groupby("source")["score"].mean() for share, table in by_share.items()}
    )
    papers = scores.index.str.split().str[0]  # two settings of Porian et al. are left out at once
    left_out = {
        source: scores[papers != paper].mean().idxmin()
        for source, paper in zip(scores.index, papers, strict=True)
    }
    held = {
        source: by_share[share].query("source == @source")["held"].mean()
        for source, share in left_out.items()
    }
    widths = chosen.groupby(["where", "window"])["half"].mean().groupby("where").median()
    by_source = chosen.groupby("source")
    part = f"{chosen['window'].nunique()} windows of {scores.shape[0]} sources"
    rows = [
        Row(
            part=part,
            figure=f"half width of 90 % intervals, median, {low:g} to {high:g} times the compute",
            target=f"≤ {most:.1%}",
            reached=f"{widths[where]:.1%}",
            met=bool(widths[where] <= most),
        )
        for where, (low, high), most in (("near", NEAR, 0.018), ("far", FAR, 0.038))
    ]
    coverage = by_source["held"].mean()
    rows.append(
        Row(
            part=part,
            figure="90 % intervals hold, each source alike, with the prior as it stands",
            target="≥ 85 %, none below 70 %",
            reached=f"{coverage.mean():.1%}; {_listed(coverage)}; "
            + _listed(chosen.groupby("where")["held"].mean()),
            met=bool(coverage.mean() >= 0.85 and coverage.min() >= 0.7),
        )
    )
    rows.append(
        Row(
            part=part,
            figure="the same, the share chosen by the interval score of the other sources",
            target="≥ 85 %, none below 70 %",
            reached=f"{np.mean([*held.values()]):.1%}; {_listed(pd.Series(held))}; shares "
            f"{_numbers(pd.Series(left_out))}",
            met=bool(np.mean([*held.values()]) >= 0.85 and min(held.values()) >= 0.7),
        )
    )
    for name in ("two-sided", "one-sided"):
        alarms = by_source[name].mean()
        rows.append(
            Row(
                part=part,
                figure=f"false alarms of a check at 5 %, {name}",
                target="≤ 5 %, ≤ 10 % in any source",
                reached=f"{alarms.mean():.1%}; {_listed(alarms)}",
                met=bool(alarms.mean() <= 0.05 and alarms.max() <= 0.1),
            )
        )
    rows.append(
        Row(
            part=part,
            figure="root mean square error; mean interval score of the log loss",
            reached=f"{_listed(by_source['off'].apply(rms))}; "
            f"{by_source['score'].mean().mean():.3f}",
        )
    )
    return rows


def _listed(shares: pd.Series) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in shares.items())


def _numbers(values: pd.Series) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def draw_curve(
    random: np.random.Generator, noise: float
) -> tuple[np.ndarray, Callable[[Any], Any], float]:
    """Six to eight computes, a sum of two powers over a floor, and a noise up to the given one."""
    compute = 1e18 * random.choice([2.0, 4.0]) ** np.arange(int(random.integers(6, 9)))
    floor, scale = random.uniform(0.8, 2.0), random.uniform(0.8, 2.5)
    fast = float(np.exp(random.normal(np.log(0.2), 0.4)))
    slow, share = fast * random.uniform(0.3, 1.0), random.uniform(0, 1)

    def truth(at: Any) -> Any:
        x = np.asarray(at) / 1e18
        return floor + scale * (share * x**-fast + (1 - share) * x**-slow)

    return compute, truth, noise * float(np.exp(random.uniform(np.log(0.2), 0)))


def measure_clean(noise: float, random: np.random.Generator) -> dict[str, float]:
    """Intervals at 1.4 and 3 times a clean curve, and which worse runs a check there finds."""
    compute, truth, sd = draw_curve(random, noise)
    loss = truth(compute) * np.exp(sd * random.normal(size=len(compute)))
    runs = pd.DataFrame({"compute": compute, "loss": loss})
    made = extrap.forecast(runs, size="compute", tune=[])
    found = {}
    for times in (1.4, 3.0):
        size = times * float(compute[-1])
        prediction = made.predict_loss({"compute": size})
        assert prediction is not None
        reached = float(np.log(truth(size))) + sd * random.normal()
        half = prediction.half_width(LEVEL, new_run=True)
        found |= {
            f"held {times:g}": abs(reached - prediction.log_loss) <= half,
            f"half {times:g}": half,
        }
        for worse in (0.0, 0.01, 0.02, 0.05):
            at = np.array([reached + np.log1p(worse)])
            for name, p in (("two", prediction.p_values(at)), ("one", prediction.p_worse(at))):
                found[f"{name} {times:g} {worse:g}"] = float(p[0]) <= ALPHA
    return found


def clean_rows(noise: float, part: str, found: pd.DataFrame) -> list[Row]:
    """Width and coverage where little scatters; power of checks."""
    n = f"{len(found)} curves"
    rows = []
    if noise <= QUIET:
        half, held = found["half 1.4"].median(), found["held 1.4"].mean()
        rows.append(
            Row(
                part=part,
                figure=f"half width of 90 % intervals at 1.4 times, median; they hold, {n}",
                target="≤ .5 %, ≥ 85 %",
                reached=f"{half:.2%}; {held:.1%}",
                met=bool(half <= 0.005 and held >= 0.85),
            )
        )
    for times, worse, least in (
        (1.4, 0.01, 0.6),
        (1.4, 0.02, 0.95),
        (3, 0.01, None),
        (3, 0.02, 0.6),
        (3, 0.05, 1.0),
    ):
        two, one = (float(found[f"{name} {times:g} {worse:g}"].mean()) for name in ("two", "one"))
        rows.append(
            Row(
                part=part,
                figure=f"a run {worse:.0%} worse is found at {times:g} times; with --worse",
                target="" if least is None else f"≥ {least:.0%}",
                reached=f"{two:.1%}; {one:.1%}",
                met=None if least is None else two >= least,
            )
        )
    alarms = [
        float(found[f"{name} {t} 0"].mean()) for name in ("two", "one") for t in ("1.4", "3")
    ]
    rows.append(
        Row(
            part=part,
            figure="false alarms at 1.4 and 3 times; with --worse",
            target="≤ 5 %",
            reached="; ".join(f"{a:.1%} and {b:.1%}" for a, b in (alarms[:2], alarms[2:])),
            met=max(alarms) <= 0.05,
        )
    )
    return rows


def measure_stopped(random: np.random.Generator) -> dict[str, float]:
    """Four or five sizes of a family whose exponent fell and then stopped to fall."""
    n = int(random.integers(4, 6))
    x = 4.0 ** np.arange(n + 2)
    slope = random.uniform(0.03, 0.06)
    first = slope * random.uniform(1.3, 2.0)
    steps = np.where(np.arange(n + 1) < n - 3, first, slope)  # the last three sizes fall evenly
    log_loss = 1.2 - np.concatenate([[0.0], np.cumsum(steps * np.log(4.0))])
    sd = 0.001
    seen = log_loss[:n] + sd * random.normal(size=n)
    made = extrap.forecast(
        pd.DataFrame({"compute": 1e18 * x[:n], "loss": np.exp(seen)}), size="compute", tune=[]
    )
    found = {}
    for k, times in ((n, 4), (n + 1, 16)):
        prediction = made.predict_loss({"compute": 1e18 * x[k]})
        assert prediction is not None
        line = seen[-1] + (seen[-1] - seen[-2]) * (k - n + 1)
        found |= {
            f"ours {times}": abs(prediction.log_loss - log_loss[k]),
            f"line {times}": abs(line - log_loss[k]),
            f"held {times}": abs(prediction.log_loss - log_loss[k])
            <= prediction.half_width(LEVEL, new_run=True),
        }
    return found


def stopped_rows(part: str, found: pd.DataFrame) -> list[Row]:
    """Error beside that of the line through the last two sizes."""
    return [
        Row(
            part=part,
            figure=f"mean error at {times} times, {len(found)} families",
            beat=f"line through the last two sizes {found[f'line {times}'].mean():.2%}",
            target="≤ 1.1 times the line's",
            reached=f"{found[f'ours {times}'].mean():.2%}; 90 % intervals hold "
            f"{found[f'held {times}'].mean():.1%}",
            met=bool(found[f"ours {times}"].mean() <= 1.1 * found[f"line {times}"].mean()),
        )
        for times in (4, 16)
    ]


DRAWS = {"development": 1, "report": 2}
PARTS = {
    **{
        f"clean curves, scatter up to {noise:g} %": DrawnPart(
            partial(measure_clean, noise / 100), partial(clean_rows, noise / 100), 400
        )
        for noise in (0.05, 0.2)
    },
    "exponents that stop falling": DrawnPart(measure_stopped, stopped_rows, 300),
}


if __name__ == "__main__":
    print_parts(
        __doc__, PARTS, DRAWS, once={"published": lambda: published_rows(judge_published())}
    )
