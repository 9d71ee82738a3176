"""Two packages that fit scaling laws, on the same data: run by hand, writes benchmarks/peers.csv.

simple-scaling-laws needs Python 3.12, so neither is a dependency of this project. To measure
again:

    python3.12 -m venv build/peers
    build/peers/bin/pip install simple-scaling-laws==0.2.0 chinchilla==0.2.0 pandas
    build/peers/bin/python -m benchmarks.peers [DATA]

simple-scaling-laws: 400 bootstrap draws, 90 % band of a new run, `separable-power` (its default)
on the 92 curves, there with at most 120 training points a curve (evenly thinned: it takes seconds
a curve otherwise); on Gadre's runs all its laws of two sizes, with parameters counted with and
without embeddings. chinchilla: its default loss and the log-Huber loss of Hoffmann et al., 243
starts; it has no intervals and no laws of one size. All settings are its own otherwise.

4 and 5 sizes: of every third of the 92 curves the last fitted x and those a half, a quarter … of
it, and what follows up to 16 times it.

`make backtest` reads the table and holds our figures against it. A lower end of an interval below
1e-6 counts as 1e-6 in the interval score, in the peer's favour.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.rows import DATA, Row, gadre_sets, learning_curves

OUT = Path(__file__).with_name("peers.csv")
LEVEL, SMALL = 0.9, 154e6
N_DRAWS, MAX_POINTS, SEED = 400, 120, 0
LEAST = 1e-6
FEW, FARTHEST, SHORT = (4, 5), 16.0, "4 and 5 sizes"
GADRE_LAWS = (
    "separable-power",
    "multiplicative-power",
    "skaling-joint-power",
    "kaplan-joint-power",
)
STARTS = {
    "E": np.linspace(0.5, 2, 3),
    "a": np.linspace(1, 10, 3),
    "b": np.linspace(1, 10, 3),
    "alpha": np.linspace(0.1, 0.7, 3),
    "beta": np.linspace(0.1, 0.7, 3),
}


class Predicted(NamedTuple):
    """Losses and the ends of their intervals, where there are any; shape (n,) each."""

    loss: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None


def main() -> None:
    """Measure all and write the table."""
    warnings.filterwarnings("ignore")
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    start = time.perf_counter()
    rows = [*on_gadre(data), *on_curves(data), *on_short_curves(data)]
    table = pd.DataFrame(rows).round(6)
    table.to_csv(OUT, index=False)
    sys.stdout.write(f"{len(table)} rows in {time.perf_counter() - start:.0f} s: {OUT}\n")


def on_curves(data: Path) -> list[dict[str, Any]]:
    """simple-scaling-laws on the 92 curves; a row a curve."""
    peer = f"simple-scaling-laws {version('simple-scaling-laws')}"
    rows = []
    for name, curve in learning_curves(data).items():
        train, test = (curve[curve["split"] == part] for part in ("train", "test"))
        keep = np.unique(np.linspace(0, len(train) - 1, MAX_POINTS).astype(int))
        train = train.iloc[keep] if len(train) > MAX_POINTS else train
        columns = {"dataset_size__x": "seen_examples"}
        found = simple_scaling_laws(train, test, law="separable-power", columns=columns)
        head = {"part": "92 curves", "set": name, "domain": curve["domain"].iloc[0]}
        rows.append(
            {**head, "peer": peer, "setting": "separable-power", **judge(found, test["loss"])}
        )
    return rows


def short_curves(data: Path) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Name, rows to fit and to forecast: few sizes of a curve, each twice the one before."""
    for name, curve in list(learning_curves(data).items())[::3]:
        x, rest = curve["seen_examples"].to_numpy(float), curve["split"] == "test"
        last = x[~rest.to_numpy()].max()
        for n in FEW:
            wanted = last / 2.0 ** np.arange(n)
            near = {int(np.abs(np.log(x / w)).argmin()) for w in wanted}
            if len(near) == n and np.abs(np.log(x[sorted(near)] / wanted[::-1])).max() < 0.2:
                test = curve[rest & (curve["seen_examples"] <= FARTHEST * last)]
                yield f"{name}, {n} sizes", curve.iloc[sorted(near)], test


def on_short_curves(data: Path) -> list[dict[str, Any]]:
    """simple-scaling-laws on few sizes; a row a curve and number of sizes."""
    rows = []
    head = {"part": SHORT, "peer": f"simple-scaling-laws {version('simple-scaling-laws')}"}
    for name, train, test in short_curves(data):
        columns = {"dataset_size__x": "seen_examples"}
        try:
            found = simple_scaling_laws(train, test, law="separable-power", columns=columns)
        except Exception as error:  # a peer's failure is a result
            sys.stderr.write(f"{name}: {error}\n")
            continue
        rows.append(
            {**head, "set": name, "domain": "", "setting": "", **judge(found, test["loss"])}
        )
    return rows


def judge_short(data: Path = DATA) -> pd.DataFrame:
    """Ours on the same; a row a curve and number of sizes."""
    import extrap  # not beside the peers

    rows = []
    for name, train, test in short_curves(data):
        table = train[["seen_examples", "loss"]].reset_index(drop=True)
        made = extrap.forecast(extrap.read_runs(table, size="seen_examples"), level=LEVEL)
        found = [
            made.predict_loss({"seen_examples": x}, refuse=False) for x in test["seen_examples"]
        ]
        ends = np.array(
            [p.interval(LEVEL, new_run=True) for p in found if p is not None], dtype=float
        )
        loss = np.exp([p.log_loss for p in found if p is not None])
        rows.append({"set": name, **judge(Predicted(loss, *ends.T), test["loss"])})
    return pd.DataFrame(rows)


def short_rows(ours: pd.DataFrame) -> list[Row]:
    """Errors and widths of the same data."""
    peers = read_peers()
    both = ours.merge(peers[peers["part"] == SHORT], on="set", suffixes=("", "_theirs"))
    found = []
    for column, what in (
        ("rmsle", "mean RMSLE"),
        ("width", "median width of the 90 % interval"),
        ("interval_score", "mean interval score"),
    ):
        mine, other = (
            both[c].median() if column == "width" else both[c].mean()
            for c in (column, f"{column}_theirs")
        )
        held = f"; holds {both['covered'].mean():.0%} (theirs {both['covered_theirs'].mean():.0%})"
        found.append(
            Row(
                part="other packages, same data",
                figure=f"{SHORT} of the curves, {len(both)} fits: {what}",
                beat=f"simple-scaling-laws {other:.3f}",
                target="smaller",
                reached=f"{mine:.3f}{held if column == 'width' else ''}",
                met=bool(mine < other),
            )
        )
    return found


def on_gadre(data: Path) -> list[dict[str, Any]]:
    """Both on Gadre's runs; a row a training set, rule and setting."""
    rows = []
    for peer, setting, predict in gadre_peers():
        for name, runs in gadre_sets(data).items():
            for rule in ("all runs", "short warm-up"):
                kept = runs if rule == "all runs" else runs[~runs["long_warmup"]]
                train, test = kept[kept["params"] <= SMALL], kept[kept["params"] > SMALL]
                head = {"part": f"Gadre, {rule}", "set": name, "domain": ""}
                try:
                    judged = judge(predict(train, test), test["loss"])
                except Exception as error:  # a peer's failure is a result
                    sys.stderr.write(f"{peer} {setting} {name}: {error}\n")
                    continue
                rows.append({**head, "peer": peer, "setting": setting, **judged})
    return rows


def gadre_peers() -> list[tuple[str, str, Callable[..., Predicted]]]:
    """Peer, setting, prediction."""
    from chinchilla._metrics import asymmetric_mae, log_huber

    peer = f"simple-scaling-laws {version('simple-scaling-laws')}"
    found: list[tuple[str, str, Callable[..., Predicted]]] = []
    for law in GADRE_LAWS:
        for counted in ("params", "params_no_embed"):
            columns = {"model_size__n": counted, "dataset_size__d": "tokens"}

            def predict(
                train: pd.DataFrame,
                test: pd.DataFrame,
                law: str = law,
                columns: dict[str, str] = columns,
            ) -> Predicted:
                return simple_scaling_laws(train, test, law=law, columns=columns)

            found.append((peer, f"{law}, {counted}", predict))

    def as_published(train: pd.DataFrame, test: pd.DataFrame) -> Predicted:
        return chinchilla_law(train, test, loss=lambda y, p: log_huber(y, p, 1e-3))

    def by_default(train: pd.DataFrame, test: pd.DataFrame) -> Predicted:
        return chinchilla_law(train, test, loss=asymmetric_mae)

    peer = f"chinchilla {version('chinchilla')}"
    return [*found, (peer, "its loss", by_default), (peer, "log-Huber 1e-3", as_published)]


def simple_scaling_laws(
    train: pd.DataFrame, test: pd.DataFrame, *, law: str, columns: dict[str, str]
) -> Predicted:
    """Median and 90 % band of a new run."""
    import polars as pl
    from simple_scaling_laws import fit

    sizes = {role: train[column].to_numpy(float) for role, column in columns.items()}
    ids = [str(i) for i in range(len(train))]
    losses = {"test_loss__ce": train["loss"].to_numpy(float)}
    model = fit(
        pl.DataFrame({"training_run_id": ids, **sizes, **losses}),
        law=law,
        n_draws=N_DRAWS,
        seed=SEED,
    )
    targets = {role: test[column].to_numpy(float) for role, column in columns.items()}
    tails = [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]
    found = model.predict(pl.DataFrame(targets), kind="new-run", quantiles=tails)
    low, high = (
        next(c for c in found.columns if c.startswith(f"test_loss__ce__{tail}"))
        for tail in ("q05", "q95")
    )
    return Predicted(*(found[c].to_numpy() for c in ("test_loss__ce__median", low, high)))


def chinchilla_law(
    train: pd.DataFrame, test: pd.DataFrame, *, loss: Callable[..., np.ndarray]
) -> Predicted:
    """The fitted law; it keeps its runs in a folder."""
    from chinchilla import Chinchilla

    n, d = (train[column].to_numpy(float) for column in ("params", "tokens"))
    with tempfile.TemporaryDirectory() as folder:
        runs = pd.DataFrame({"C": 6 * n * d, "N": n, "D": d, "loss": train["loss"].to_numpy()})
        runs.to_csv(Path(folder) / "df.csv", index=False)
        fitted = Chinchilla(f"{folder}/", param_grid=STARTS, loss_fn=loss, log_level=50)
        fitted.visualizer.optim = lambda *_, **__: None  # it draws after each fit
        fitted.fit(parallel=False)
        sizes = (test[column].to_numpy(float) for column in ("params", "tokens"))
        return Predicted(np.asarray(fitted.predict_loss(*sizes), dtype=float))


def judge(found: Predicted, observed: pd.Series) -> dict[str, float]:
    """Errors and, with intervals, how often they hold, width and interval score in log loss."""
    y = observed.to_numpy(float)
    off = np.log(np.maximum(found.loss, LEAST) / y)
    scores: dict[str, float] = {
        "n": len(y),
        "rmsle": float(np.sqrt(np.mean(off**2))),
        "abs_error": float(np.mean(np.abs(found.loss / y - 1))),
    }
    if found.lower is None or found.upper is None:
        return scores
    low, high = (np.log(np.maximum(end, LEAST)) for end in (found.lower, found.upper))
    outside = np.maximum(low - np.log(y), 0) + np.maximum(np.log(y) - high, 0)
    return scores | {
        "covered": float(np.mean(outside == 0)),
        "width": float(np.median(np.expm1(high - low))),
        "interval_score": float(np.mean(high - low + 2 / (1 - LEVEL) * outside)),
    }


def read_peers() -> pd.DataFrame:
    """What `main` wrote."""
    return pd.read_csv(OUT, keep_default_na=False, na_values=[""])


def rows(curves: pd.DataFrame | None, gadre: pd.DataFrame | None) -> list[Row]:
    """Ours against theirs: errors and interval scores of the same data.

    Args:
        curves: As `benchmarks.curves.judge_curves`, or None.
        gadre: As `benchmarks.gadre.judge_runs`, or None.
    """
    peers = read_peers()
    found: list[Row] = []
    if curves is not None:
        found += _curve_rows(peers[peers["part"] == "92 curves"], curves)
    if gadre is not None:
        for rule in gadre["rule"].unique():
            theirs = peers[peers["part"] == f"Gadre, {rule}"]
            found += _gadre_rows(rule, theirs, gadre[gadre["rule"] == rule])
    return found


def _curve_rows(theirs: pd.DataFrame, curves: pd.DataFrame) -> Iterator[Row]:
    ours = curves[curves["method"] == "extrap, default"]
    name = theirs["peer"].iloc[0]
    for column, what, digits in (
        ("rmsle", "RMSLE", 4),
        ("interval_score", "interval score of the 90 % band, log loss", 3),
    ):
        mine, other = ours[column], theirs[column]
        held = ""
        if column == "interval_score":
            held = f"; holds {ours['held_90'].mean():.0%} (theirs {theirs['covered'].mean():.0%})"
        yield Row(
            part="other packages, same data",
            figure=f"92 curves: mean {what} (median)",
            beat=f"{name} {other.mean():.{digits}f} ({other.median():.{digits}f})",
            target="smaller",
            reached=f"{mine.mean():.{digits}f} ({mine.median():.{digits}f}){held}",
            met=bool(mine.mean() < other.mean() and mine.median() < other.median()),
            note=f"Measured with {', '.join(sorted(read_peers()['peer'].unique()))} by "
            "`python -m benchmarks.peers`, which says how; kept in benchmarks/peers.csv. On the "
            f"curves at most {MAX_POINTS} training points each."
            if column == "rmsle"
            else "",
        )


def _gadre_rows(rule: str, theirs: pd.DataFrame, ours: pd.DataFrame) -> Iterator[Row]:
    ours = ours[ours["method"] == "extrap"]
    by_set = ours.groupby("set")[["error", "interval_score_default", "interval_score_family"]]
    mine = by_set.mean().mean()
    scores = theirs.groupby(["peer", "setting"])[["abs_error", "interval_score"]].mean()
    best = scores["abs_error"].groupby("peer").idxmin()
    yield Row(
        part="other packages, same data",
        figure=f"Gadre, {rule}: mean abs. error",
        beat="; ".join(
            f"{peer} {100 * scores.loc[key, 'abs_error']:.2f} % ({key[1]})"
            for peer, key in best.items()
        ),
        target="smaller",
        reached=f"{100 * mine['error']:.2f} %",
        met=bool(mine["error"] < scores["abs_error"].min()),
        note="Of all settings of a package the one that is best on these very runs is shown: a "
        "choice in its favour that no user could make. By default they reach "
        + ", ".join(
            f"{100 * scores.loc[key, 'abs_error']:.1f} % ({key[0]})" for key in _defaults(scores)
        )
        + ".",
    )
    sharp = scores["interval_score"].dropna()
    yield Row(
        part="other packages, same data",
        figure=f"Gadre, {rule}: interval score of the 90 % band, log loss",
        beat=f"{sharp.idxmin()[0]} {sharp.min():.3f} ({sharp.idxmin()[1]}); chinchilla has none",
        target="smaller",
        reached=f"default {mine['interval_score_default']:.3f}, family "
        f"{mine['interval_score_family']:.3f}",
        met=bool(mine["interval_score_default"] < sharp.min()),
    )


def _defaults(scores: pd.DataFrame) -> list[tuple[str, str]]:
    usual = ("separable-power, params", "its loss")
    return [key for key in scores.index if key[1] in usual]


if __name__ == "__main__":
    main()
