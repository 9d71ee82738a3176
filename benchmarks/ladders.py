"""Parameters and tokens: published and simulated ladders, small runs fitted, larger ones forecast.

    python -m benchmarks.ladders [--only PART …] [--sweeps N] [--draws development]

Splits are made by a rule that knows no result: of each table the runs up to a quarter, a 16th, a
64th and a 256th of the largest compute (6 N D) are fitted, or those up to a third and a tenth of
the most parameters, or up to a quarter of the most tokens, and all others are forecast. Short
ladders begin at a quarter or a 16th of where they end, and are judged up to 30 times that. A split
needs three different values of each column and eight runs below, and three runs above; of more
than 24 above 24 are judged. Equal splits of a ladder are one.

Figures are means over a split's runs, then over a ladder's splits, then over a source's ladders;
each source counts alike. The interval is of 90 %, of a new run; alarms are those of a level of
.95, of good runs as they are and made worse by 1 to 5 %.

Near the data: of each published ladder twelve runs, the extremes of either column aside, are left
out one by one and forecast from the others.

Simulated ladders: see `simulate`; "starved" ones have runs with too few tokens for their size. A
fitted run repeated differs from it by the noise alone.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.optima import SIZES, step_law
from benchmarks.rows import DATA, Row, chinchilla, gadre_sets, require, share_row
from benchmarks.scores import Table, rms, score_forecast
from benchmarks.sweeps import DrawnPart, print_parts
from extrap.errors import DataError
from extrap.fitting.curve_laws import count_sizes
from extrap.fitting.designs import check_identifiable

BY_COMPUTE, BY_PARAMS, BY_TOKENS = (4, 16, 64, 256), (3, 10), (4,)
SPANS, FARTHEST = (4, 16), 30
LEAST_FITTED, LEAST_SIZES, LEAST_AHEAD, MOST_JUDGED = 8, 3, 3, 24
MANY_SPLITS = 10
MOST_LEFT_OUT, MOST_REPEATED = 12, 8
NORMAL_90 = 1.645
"""Standard deviations of a normal distribution in half of its 90 % interval."""
WORSE, ALARM = (0, 1, 2, 3, 5), 0.05
"""Percent by which good runs are made worse, and p-value from which on a run is an alarm."""
PORIAN = tuple(
    f"{data}|{rest}"
    for data in ("rw", "owt2")
    for rest in (
        "base|short|kaplan|standard|val",
        "base|short|chinchilla|standard|val",
        "tuned|short|const|standard|val",
    )
)
"""Settings with a short warm-up and all parameters counted."""
ROUNDED = 1.001
WHOLE, SOUND = 0.99, 1.3
"""xLSTM: share of the planned steps that a run has made, and its loss over the median at most."""


def ladders(data: Path = DATA) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Source, name and runs (`params`, `tokens`, `loss`) of each published ladder."""
    for name, runs in gadre_sets(data).items():
        yield "Gadre", name, runs[~runs["long_warmup"]]
    gemstones = pd.read_csv(require(data, "gemstones.csv"))
    for cooldown, runs in gemstones.groupby("cooldown"):
        yield "Gemstones", f"cooldown, {cooldown}", runs
    schedules = pd.read_csv(require(data, "schedules_slimpajama.csv")).rename(
        columns={"val_loss": "loss"}
    )
    schedules = schedules[schedules["dataset"] == "slimpajama"]
    for name, schedule, cooldown in (("cosine", "cos", 0.0), ("WSD", "wsd", 0.2)):
        runs = schedules[
            (schedules["schedule"] == schedule) & np.isclose(schedules["cooldown"], cooldown)
        ]
        yield "SlimPajama", name, runs.groupby([*SIZES], as_index=False)["loss"].min()
    porian = pd.read_csv(require(data, "porian_formll.csv"))
    for task in PORIAN:
        yield "Porian", task, porian[porian["task"] == task]
    yield "Chinchilla", "digitised", chinchilla(data)
    sweep = step_law(data)
    trained = sweep[sweep["loss"] < np.inf]
    yield "Step Law", "best", trained.groupby([*SIZES], as_index=False)["loss"].min()
    yield "OLMo", "C4", pd.read_csv(require(data, "olmo_ladder.csv"))
    for condition, runs in pd.read_csv(require(data, "llama3_isoflop.csv")).groupby("condition"):
        yield "Llama 3", str(condition), runs
    for name, runs in pd.read_csv(require(data, "xlstm_isoflop.csv")).groupby("set"):
        is_whole = runs["steps_done"] >= WHOLE * runs["steps_planned"]
        is_sound = runs["loss"] < SOUND * runs["loss"].median()
        best = runs[is_whole & is_sound].groupby([*SIZES], as_index=False)["loss"].min()
        yield "xLSTM", str(name), best


def splits(source: str, name: str, runs: pd.DataFrame) -> Iterator[Table]:
    """The splits of a ladder, by compute, parameters and tokens."""
    runs = runs[[*SIZES, "loss"]].astype(float).reset_index(drop=True)
    compute = runs["params"] * runs["tokens"]
    most = compute.max()
    cuts = {f"compute / {share}": (compute, share, compute >= 0) for share in BY_COMPUTE}
    for column, shares in {"params": BY_PARAMS, "tokens": BY_TOKENS}.items():
        cuts |= {f"{column} / {share}": (runs[column], share, compute >= 0) for share in shares}
    for share, span in itertools.product(BY_COMPUTE, SPANS):
        end = most / share * ROUNDED
        near = (compute > end / span) & (compute <= FARTHEST * end)
        cuts[f"compute / {share}, of / {share * span}"] = (compute, share, near)
    for cut, (values, share, kept) in cuts.items():
        below = values <= values.max() / share * ROUNDED
        fitted, ahead = runs[below & kept], runs[~below & kept]
        if (
            len(fitted) >= LEAST_FITTED
            and len(ahead) >= LEAST_AHEAD
            and min(count_sizes(fitted[c].to_numpy()) for c in SIZES) >= LEAST_SIZES
        ):
            yield Table(f"{name}, {cut}", source, SIZES, fitted, ahead)


def all_splits(data: Path = DATA) -> list[tuple[str, Table]]:
    """Ladder and split, of every ladder; those whose columns move together are left out."""
    found: dict[tuple[object, ...], tuple[str, Table]] = {}
    for source, name, runs in ladders(data):
        for table in splits(source, name, runs):
            sizes = table.fitted[[*SIZES]].drop_duplicates().to_numpy()
            try:
                check_identifiable(sizes, SIZES, exponents=("c1", "c2"), fixed={})
            except DataError:
                continue
            key = source, name, tuple(table.fitted.index), tuple(table.truth.index)
            found.setdefault(key, (name, table))
    return list(found.values())


def judged_part(table: Table) -> Table:
    """The split with the larger runs that are judged."""
    truth = table.truth.sort_values([*SIZES])
    if len(truth) > MOST_JUDGED:
        truth = truth.iloc[np.linspace(0, len(truth) - 1, MOST_JUDGED).round().astype(int)]
    return table._replace(truth=truth)


def judge(ladder: str, table: Table) -> pd.DataFrame:
    """One row per larger run: its scores, and whether it is an alarm, as it is and made worse."""
    truth = judged_part(table).truth
    points = truth[[*SIZES]].astype(float).to_dict("records")
    began = time.process_time()
    made = table.forecast()
    scores = score_forecast(made, points, truth["loss"])
    scores["seconds"] = time.process_time() - began
    predictions = [made.predict_loss(point) for point in points]
    for percent in WORSE:
        losses = truth["loss"] * (1 + percent / 100)
        scores[f"alarm {percent}"] = [
            found is not None and found.p_value(loss) < ALARM
            for found, loss in zip(predictions, losses, strict=True)
        ]
    return scores.assign(source=table.group, ladder=ladder, split=table.name)


LAYOUTS = ("grid", "2 budgets", "3 budgets", "4 budgets")
DISTANCES = ((2, 4), (4, 10), (10, 30))
"""Compute of a forecast run over the largest fitted one."""
SIZES_A_BUDGET, BUDGET_STEP = 7, 4.0
BALANCE = 20.0
"""Tokens per parameter at which the two terms are equal, before it is drawn."""
N_WAVES = 3


def simulate(random: np.random.Generator, layout: str, *, starved: bool = False) -> Table:
    """A drawn ladder: `ln L` is a law of two powers, waves that no law follows, and noise.

    The waves over ln N and ln D are 6 to 20 long. They are scaled such that after a law's best
    change by least squares on the fitted runs their root mean square over the forecast runs is
    .05 to .35 of the change that the law predicts. Noise is .05 to .5 %. The forecast runs are at
    every distance at the best split of their budget and a factor of 1.5 from it. `starved` adds
    what too few steps cost: 2 % times the square of ln of what is missing to 4 tokens per
    parameter.

    Runs have besides `again`, the loss of a repeat, and `noise`, the standard deviation of a log
    loss; those of `truth` also `distance`, compute over the largest fitted one, and `ratio`,
    parameters over those of the best split.
    """
    alpha, beta = np.exp(random.normal(np.log(0.33), 0.25, 2))
    outer, share = random.uniform(0.4, 1.0), random.uniform(0.15, 0.6)
    balance = BALANCE * np.exp(random.normal(0, 0.5))
    low = 1e17 * 10 ** random.uniform(0, 2)
    if layout == "grid":
        n = np.geomspace(1, 10 ** random.uniform(1, 2), int(random.integers(4, 8)))
        n *= np.sqrt(low / (6 * balance))
        ratios = balance * np.geomspace(0.25, 8, int(random.integers(3, 6)))
        params, tokens = (a.ravel() for a in np.meshgrid(n, ratios, indexing="ij"))
        tokens = tokens * params
    else:
        budgets = low * BUDGET_STEP ** np.arange(int(layout[0]))
        spread = np.geomspace(0.2, 5, SIZES_A_BUDGET)
        params = (np.sqrt(budgets / (6 * balance))[:, None] * spread).ravel()
        tokens = np.repeat(budgets, SIZES_A_BUDGET) / (6 * params)
    most = 6 * (params * tokens).max()
    distance = np.concatenate([np.exp(random.uniform(*np.log(d), 2)) for d in DISTANCES])
    distance = np.repeat(distance, 3)
    off = np.tile([1 / 1.5, 1.0, 1.5], len(distance) // 3)
    best = np.sqrt(most * distance / (6 * balance))
    all_params = np.concatenate([params, best * off])
    all_tokens = np.concatenate([tokens, most * distance / (6 * best * off)])
    u, v = np.log(all_params / best[0]), np.log(all_tokens / (balance * best[0]))

    def law(a: float, b: float, ratio: float, floor: float, level: float) -> np.ndarray:
        powers = (np.exp(-a * u / outer) + np.exp(ratio - b * v / outer)) ** outer
        return np.log(np.exp(floor) + np.exp(level) * powers)

    fitted = np.arange(len(u)) < len(params)
    tied = np.log(alpha / beta)  # equal terms where the split is best
    level = np.log(share) - outer * np.log(2.0)
    at = np.array([alpha, beta, tied, np.log(1 - share), level])
    true = law(*at)
    slopes = np.column_stack([(law(*(at + h)) - law(*(at - h))) / 2e-4 for h in 1e-4 * np.eye(5)])
    angles, lengths, phases = random.uniform([0, 6, 0], [np.pi, 20, 2 * np.pi], (N_WAVES, 3)).T
    wave = sum(
        np.sin(2 * np.pi * (np.cos(a) * u + np.sin(a) * v) / length + phase)
        for a, length, phase in zip(angles, lengths, phases, strict=True)
    )
    wave -= slopes @ np.linalg.lstsq(slopes[fitted], wave[fitted], rcond=None)[0]
    change = true[fitted].min() - true[~fitted]
    size = random.uniform(0.05, 0.35) * rms(change) / rms(wave[~fitted])
    true = true + size * wave
    if starved:
        missing = np.maximum(np.log(4 * all_params / all_tokens), 0.0)
        true = true + 0.02 * missing**2
    noise = np.exp(random.uniform(np.log(0.0005), np.log(0.005)))
    loss, again = 3 * np.exp(true + noise * random.normal(size=(2, len(true))))
    runs = pd.DataFrame({"params": all_params, "tokens": all_tokens, "loss": loss})
    runs = runs.assign(again=again, noise=noise)
    truth = runs[~fitted].assign(distance=distance, ratio=off)
    return Table(layout, layout, SIZES, runs[fitted], truth)


def leave_out(table: Table) -> pd.DataFrame:
    """Twelve inner runs of a ladder forecast from all others, one by one."""
    runs, found = table.fitted, []
    sizes = runs[[*SIZES]]
    inner = runs[((sizes > sizes.min()) & (sizes < sizes.max())).all(axis=1)]
    inner = inner.drop_duplicates([*SIZES])
    places = np.linspace(0, len(inner) - 1, min(MOST_LEFT_OUT, len(inner))).round().astype(int)
    for _, run in inner.sort_values([*SIZES]).iloc[places].iterrows():
        others = runs[(sizes != run[[*SIZES]]).any(axis=1)]
        made = table._replace(fitted=others).forecast()
        found.append(score_forecast(made, [run[[*SIZES]].to_dict()], [run["loss"]]))
    return pd.concat(found).assign(source=table.group, ladder=table.name)


def judge_near(data: Path = DATA) -> pd.DataFrame:
    """One row per run that is left out of a published ladder."""
    tables = [
        Table(
            name, source, SIZES, runs[[*SIZES, "loss"]].astype(float).reset_index(drop=True), runs
        )
        for source, name, runs in ladders(data)
    ]
    with ProcessPoolExecutor(2) as pool:
        return pd.concat(pool.map(leave_out, tables))


def near_rows(scores: pd.DataFrame) -> list[Row]:
    """Coverage and width where runs are left out one by one, each source alike."""
    scores = scores.assign(half=np.log1p(scores["width"]) / 2)
    by_source = scores.groupby("source")
    held = by_source["held_90"].mean()
    widths = by_source["half"].median() / by_source["error"].apply(lambda v: v.abs().quantile(0.9))
    listed = ", ".join(f"{name} {held[name]:.0%}, {widths[name]:.1f}" for name in held.index)
    n_ladders = len(scores[["source", "ladder"]].drop_duplicates())
    return [
        Row(
            part=f"{len(scores)} runs left out of {n_ladders} ladders",
            figure="90 % intervals hold; their median half width over the 90 % quantile of errors",
            target="≥ 85 %",
            reached=f"{held.mean():.1%}; {widths.mean():.2f}: {listed}",
            met=bool(held.mean() >= 0.85),
        )
    ]


def judge_all(data: Path = DATA) -> pd.DataFrame:
    """One row per larger run of every split of the published ladders."""
    with ProcessPoolExecutor(2) as pool:
        return pd.concat(pool.map(judge, *zip(*all_splits(data), strict=True), chunksize=4))


def rows_of_scores(scores: pd.DataFrame) -> list[Row]:
    """Coverage, score, error, width and alarms, each source alike.

    Args:
        scores: As `judge` makes them, of all splits.
    """
    half = np.log1p(scores["width"]) / 2
    scores = scores.assign(abs_error=scores["error"].abs(), half=half)
    columns = ["held_90", "interval_score", "abs_error", "error"]
    columns += [f"alarm {percent}" for percent in WORSE]
    by_split = scores.groupby(["source", "ladder", "split"])[columns].mean()
    by_split["half"] = scores.groupby(["source", "ladder", "split"])["half"].median()
    means = by_split.groupby(["source", "ladder"]).mean().groupby("source").mean()
    n_splits = by_split.groupby("source").size()
    worst = float(means.loc[n_splits >= MANY_SPLITS, "held_90"].min())
    held, score, error = (float(means[c].mean()) for c in columns[:3])
    part = f"{len(by_split)} splits of {len(means)} sources"
    alarms = [float(means[f"alarm {percent}"].mean()) for percent in WORSE]
    bias = means["error"].abs().mean()

    def row(figure: str, target: str, reached: str, *, met: bool) -> Row:
        return Row(part=part, figure=figure, target=target, reached=reached, met=met)

    listed = ", ".join(f"{name} {share:.0%}" for name, share in means["held_90"].items())
    shares = ", ".join(
        f"{share:.0%} at + {k} %" for k, share in zip(WORSE[1:], alarms[1:], strict=True)
    )
    return [
        row(
            "90 % intervals hold",
            f"86–95 %, no source of {MANY_SPLITS} splits below 78 %",
            f"{held:.1%}: {listed}",
            met=0.86 <= held <= 0.95 and worst >= 0.78,
        ),
        row("interval score", "≤ .0593", f"{score:.4f}", met=score <= 0.0593),
        row(
            "mean of the sources' median half widths",
            "≤ 1.9 %",
            f"{means['half'].mean():.2%}",
            met=bool(means["half"].mean() <= 0.019),
        ),
        row(
            "mean absolute error; mean of the sources' biases",
            "≤ 1.0 %; ≤ .5 %",
            f"{error:.2%}; {bias:.2%}",
            met=bool(error <= 0.01 and bias <= 0.005),
        ),
        row(
            "false alarms; worst source",
            "≤ 6; ≤ 12 %",
            f"{alarms[0]:.1%}; {means[f'alarm {WORSE[0]}'].max():.0%}",
            met=bool(alarms[0] <= 0.06 and means[f"alarm {WORSE[0]}"].max() <= 0.12),
        ),
        row(
            "alarms of runs made worse",
            "≥ 50 % at + 2 %, ≥ 85 % at + 5 %",
            shares,
            met=alarms[2] >= 0.5 and alarms[4] >= 0.85,
        ),
    ]


def measure_losses(layout: str, starved: bool, random: np.random.Generator) -> dict[str, float]:
    """Of each distance: the share of intervals that hold, the mean error and its size."""
    table = simulate(random, layout, starved=starved)
    made, points = table.forecast(), table.truth[[*SIZES]].to_dict("records")
    scores = score_forecast(made, points, table.truth["loss"])
    scores = scores.assign(distance=table.truth["distance"].to_numpy())
    repeats = table.fitted.iloc[:: max(len(table.fitted) // MOST_REPEATED, 1)]
    near = score_forecast(made, repeats[[*SIZES]].to_dict("records"), repeats["again"])
    half = np.log1p(near["width"].to_numpy()) / 2
    found = {
        "repeats held": float(near["held_90"].mean()),
        "repeats width": float(np.median(half / (NORMAL_90 * repeats["noise"]))),
    }
    for low, high in DISTANCES:
        here = scores[(scores["distance"] >= low) & (scores["distance"] < high)]
        means = {"held": here["held_90"], "error": here["error"], "width": here["width"]}
        found |= {f"{name} {low}": float(values.mean()) for name, values in means.items()}
    return found


def loss_rows(part: str, found: pd.DataFrame) -> list[Row]:
    """Coverage in each cell, and the mean error."""
    rows = [
        Row(
            part=part,
            figure=f"90 % intervals hold, {low} to {high} times the compute, {len(found)} ladders",
            target="≥ 80 %",
            reached=f"{found[f'held {low}'].mean():.1%}, median width "
            f"{found[f'width {low}'].median():.1%}",
            met=bool(found[f"held {low}"].mean() >= 0.8),
        )
        for low, high in DISTANCES
    ]
    rows.append(
        Row(
            part=part,
            figure="90 % intervals hold, repeats of fitted runs",
            target="≥ 80 %",
            reached=f"{found['repeats held'].mean():.1%}, median width "
            f"{found['repeats width'].median():.2f} times that of the noise",
            met=bool(found["repeats held"].mean() >= 0.8),
        )
    )
    errors = found[[f"error {low}" for low, _ in DISTANCES]].to_numpy()
    bias = float(errors.mean())
    is_starved = "starved" in part
    rows.append(
        Row(
            part=part,
            figure="mean error of runs near the best split of their budget",
            target="within ± .5 %" if is_starved else "",
            reached=f"{bias:+.2%}, root mean square {rms(errors.ravel()):.2%}",
            met=abs(bias) <= 0.005 if is_starved else None,
        )
    )
    return rows


def overall(found: Mapping[str, pd.DataFrame]) -> list[Row]:
    """Coverage over all layouts."""
    rows = []
    for kind, low, high in (("losses", 0.85, 0.95), ("starved losses", 0.85, None)):
        tables = [table for part, table in found.items() if part.startswith(f"{kind},")]
        if tables:
            held = pd.concat(tables)[[f"held {d}" for d, _ in DISTANCES]].to_numpy().ravel()
            figure = "90 % intervals hold, all layouts and distances"
            rows.append(share_row(kind, figure, held, least=low, most=high))
    return rows


DRAWS = {"development": 1, "report": 2}
PARTS = {
    f"{kind}, {layout}": DrawnPart(partial(measure_losses, layout, is_starved), loss_rows, 500)
    for kind, is_starved in (("losses", False), ("starved losses", True))
    for layout in LAYOUTS
    if not (is_starved and layout == "grid")
}


if __name__ == "__main__":
    once = {
        "published": lambda: rows_of_scores(judge_all()),
        "near": lambda: near_rows(judge_near()),
    }
    print_parts(__doc__, PARTS, DRAWS, once=once, more=overall)
