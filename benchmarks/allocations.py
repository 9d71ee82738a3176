"""Compute-optimal splits: closed forms, Chinchilla's runs, the bias of parabolas, Porian's walk.

    python -m benchmarks.allocations [DATA]

1. Closed forms at 5.76e23 FLOPs for three published coefficient sets (Hoffmann et al. 2022,
   rounded and as in its source; Besiroglu et al. 2024).
2. Chinchilla's runs, digitised, without the five that the replication leaves out.
3. IsoFLOP profiles without noise: a parabola in ln N against our cubic around the best run.
4. Porian et al. (2024, arXiv 2406.19146): five settings, two data sets, from Kaplan's exponent to
   Chinchilla's.
5. Simulated isoFLOP profiles: how often the 95 % intervals hold the truth, where the law is true
   and where its terms add up otherwise.
6. Golden numbers: what 1 to 40 passes over the data are worth (Muennighoff et al. 2023).
7. Our own study, `studies/allocation.py`, from its committed runs: a split sealed, then trained.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.rows import DATA, Row, require
from extrap.analyses.budget import Allocation, allocate, fit_split, read_points
from extrap.analyses.budget.profiles import Profile, around_best, minimum, profile_optima
from extrap.analyses.budget.splits import ChinchillaLaw, optimal_split
from extrap.forecasting import forecast
from extrap.laws import effective_epochs
from extrap.laws.base import Array
from extrap.reading import read_runs
from extrap.records import Measure
from extrap.study import open_study, runs_of_table

STUDY = Path(__file__).parents[1] / "studies" / "allocation.py"
FLOPS = 5.76e23
PUBLISHED = {
    "Hoffmann, rounded": (ChinchillaLaw(1.69, 406.4, 410.7, 0.34, 0.28), 3.219e10, 92.65),
    "Hoffmann, source": (ChinchillaLaw(1.6934, 406.4, 410.7, 0.3392, 0.2849), 4.031e10, 59.08),
    "Besiroglu": (ChinchillaLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658), 7.225e10, 18.39),
}
"""Name → (law, parameters, tokens per parameter) at `FLOPS`."""
EXPONENTS = {
    "equal exponents": (0.31, 0.31),
    "α = .34, β = .28": (0.34, 0.28),
    "α = .46, β = .15": (0.46, 0.15),
}
REACHES = (2.0, 4.0, 8.0, 16.0)
N_SIZES = 15
SETTING = ["dataset", "hparams", "warmup", "decay", "param_count"]
LEFT_OUT = (2, 4)
"""Budgets above those that the loss of the optimum is forecast from."""
SETTINGS = (
    ("base", "long", "kaplan", "kaplan"),
    ("base", "long", "kaplan", "standard"),
    ("base", "short", "kaplan", "standard"),
    ("base", "short", "chinchilla", "standard"),
    ("tuned", "short", "const", "standard"),
)
"""Hyperparameters, warm-up, decay, count of parameters."""
WALK = {
    "owt2": (0.864, 0.699, 0.603, 0.574, 0.518),
    "rw": (0.835, 0.706, 0.602, 0.571, 0.497),
}
EPOCHS = {1.0: 1.0, 2.0: 1.968, 4.0: 3.726, 8.0: 6.624, 16.0: 10.583, 40.0: 15.168}
TRUTH = ChinchillaLaw(E=1.8, A=480.0, B=2000.0, alpha=0.34, beta=0.37)
BENDS = (1.0, 0.8)
"""k of `L = E + (A / N^α + B / D^β)^k`; 1 is the law that is fitted."""
BEYOND = (4.0, 100.0)
"""Budgets, times the largest compute."""
N_REPLICATES = 100
SD = 0.003


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was measured.

    Attributes:
        closed: Coefficient set → (parameters, tokens per parameter) over the published ones.
        chinchilla: The split of 1e26 FLOPs with 80 % intervals.
        bias: (exponents, reach) → share by which tokens are off: parabola, ours.
        walk: Data set → exponent of N_opt and its interval in every setting.
        beyond: One row an optimum beyond the budgets it is forecast from: `ratio` of compute,
            `profiles` and `forecast`, the error of either log loss, and `profiles_held`,
            `forecast_held`, whether the 95 % interval holds it.
        coverage: (estimator, what) → share of 95 % intervals that hold the truth.
        loss_coverage: (k, times the largest compute) → share of intervals of the loss that hold
            it, mean half-width in logs.
    """

    closed: dict[str, tuple[float, float]]
    chinchilla: Allocation
    bias: dict[tuple[str, float], tuple[float, float]]
    walk: dict[str, tuple[tuple[float, float, float], ...]]
    beyond: pd.DataFrame
    coverage: dict[tuple[str, str], float]
    loss_coverage: dict[tuple[float, float], tuple[float, float]]


def measure(data: Path = DATA, n_replicates: int = N_REPLICATES) -> Found:
    """Everything the rows are made of."""
    return Found(
        closed=_closed(),
        chinchilla=chinchilla(data),
        bias={
            (name, reach): profile_bias(*EXPONENTS[name], reach)
            for name in EXPONENTS
            for reach in REACHES
        },
        walk={dataset: walk(data, dataset) for dataset in WALK},
        beyond=losses_beyond(data),
        coverage=coverage(n_replicates),
        loss_coverage={key: share for k in BENDS for key, share in _losses(k, n_replicates)},
    )


def chinchilla(data: Path, *, level: float = 0.8) -> Allocation:
    """The split of 1e26 FLOPs from 240 of Chinchilla's runs."""
    table = pd.read_csv(require(data, "chinchilla_epoch.csv"))
    return allocate(table[table["epoch_outlier"] == 0], flops=1e26, level=level)


def profile_bias(alpha: float, beta: float, reach: float) -> tuple[float, float]:
    """Share by which D_opt is off, by a parabola of L in ln N and by ours; no noise."""
    law = ChinchillaLaw(1.69, 406.4, 410.7, alpha, beta)
    flops = 1e21
    best = np.log(float(optimal_split(law, flops).params))
    log_params = best + np.linspace(-1, 1, N_SIZES) * np.log(reach)
    loss = law.loss(np.exp(log_params), flops / 6 / np.exp(log_params))
    parabola = np.polynomial.Polynomial.fit(log_params, loss, 2).deriv().roots()[0]
    profile = Profile(log_flops=np.log(flops), log_params=log_params, log_loss=np.log(loss))
    vertex = minimum(around_best(profile))
    assert vertex is not None
    return float(np.exp(best - parabola) - 1), float(np.exp(best - vertex[0]) - 1)


def walk(data: Path, dataset: str) -> tuple[tuple[float, float, float], ...]:
    """The exponent of the answer and its 95 % interval, setting by setting."""
    table = pd.read_csv(require(data, "porian_formll.csv"))
    found = []
    for setting in SETTINGS:
        keep = table["dataset"] == dataset
        for column, value in zip(SETTING[1:], setting, strict=True):
            keep &= table[column] == value
        exponent = allocate(table[keep], flops=1e19).exponent
        found.append((exponent.value or np.nan, *(side or np.nan for side in exponent.ci)))
    return tuple(found)


def losses_beyond(data: Path) -> pd.DataFrame:
    """Losses of the largest budgets' optima from the smaller budgets, in every setting."""
    table = pd.read_csv(require(data, "porian_formll.csv"))
    found = []
    for _, own in table.groupby(SETTING):
        runs = own[["params", "tokens", "flops", "loss"]]
        truth, budgets = profile_optima(read_points(runs)), np.unique(runs["flops"])
        for n_out in LEFT_OUT:
            last = budgets[-n_out - 1]
            small = runs[runs["flops"] <= last]
            optima = profile_optima(read_points(small))
            made = forecast(read_runs(small, size=("params", "tokens"), tune=()))
            for log_flops, log_params, loss in zip(
                truth.log_flops, truth.log_params, truth.loss, strict=True
            ):
                flops, params = np.exp([log_flops, log_params])
                if flops < 1.5 * last:
                    continue
                line = optima.expected_loss(flops, level=0.95)
                law = made.predict_loss({"params": params, "tokens": flops / 6 / params})
                found.append(
                    {
                        "ratio": round(flops / last),
                        "profiles": np.log((line.value or np.nan) / loss),
                        "profiles_held": loss in line.ci,
                        "forecast": law.log_loss - np.log(loss) if law else np.nan,
                        "forecast_held": law is not None
                        and loss in law.interval(0.95, new_run=False),
                    }
                )
    return pd.DataFrame(found)


def coverage(n_replicates: int) -> dict[tuple[str, str], float]:
    """Five budgets, nine sizes each, .3 % noise; N_opt a hundredfold beyond, and its exponent."""
    rng = np.random.default_rng(0)
    params, tokens = _design()
    flops = float(100 * (6 * params * tokens).max())
    truth = {"N_opt": float(optimal_split(TRUTH, flops).params), "a": float(TRUTH.exponent)}
    held = dict.fromkeys([(e, what) for e in ("parametric", "isoflop") for what in truth], 0)
    for _ in range(n_replicates):
        loss = TRUTH.loss(params, tokens) * np.exp(SD * rng.normal(size=len(params)))
        table = pd.DataFrame({"params": params, "tokens": tokens, "loss": loss})
        found = allocate(table, flops=flops).estimators
        for estimator in ("parametric", "isoflop"):
            held[estimator, "N_opt"] += truth["N_opt"] in found[estimator].params.ci
            held[estimator, "a"] += truth["a"] in found[estimator].exponent.ci
    return {key: count / n_replicates for key, count in held.items()}


def _design() -> tuple[Array, Array]:
    """Parameters and tokens of five budgets of nine sizes each."""
    budgets = np.repeat(6e18 * 4.0 ** np.arange(5), 9)
    best = np.array([float(optimal_split(TRUTH, c).params) for c in budgets])
    params = best * np.tile(6.0 ** np.linspace(-1, 1, 9), 5)
    return params, budgets / 6 / params


def _losses(k: float, n_replicates: int) -> list[tuple[tuple[float, float], tuple[float, ...]]]:
    """How often the interval of the loss of the recommended split holds it."""

    def truth(params: Array, tokens: Array) -> Array:
        return np.asarray(TRUTH.E + (TRUTH.loss(params, tokens) - TRUTH.E) ** k)

    rng = np.random.default_rng(1)
    params, tokens = _design()
    last = float((6 * params * tokens).max())
    found = np.zeros((len(BEYOND), 2))
    for i in range(n_replicates):
        loss = truth(params, tokens) * np.exp(SD * rng.normal(size=len(params)))
        table = pd.DataFrame({"params": params, "tokens": tokens, "loss": loss})
        fitted = fit_split(read_points(table), seed=i)
        for j, beyond in enumerate(BEYOND):
            split = fitted.at(beyond * last)
            true = float(truth(np.array(split.params.value), np.array(split.tokens.value)))
            found[j] += true in split.loss.ci, np.ptp(np.log(split.loss.ci)) / 2
    return [((k, b), tuple(each / n_replicates)) for b, each in zip(BEYOND, found, strict=True)]


def rows(found: Found) -> list[Row]:
    """The figures."""
    return [
        *_closed_rows(found),
        *_chinchilla_rows(found),
        *_bias_rows(found),
        *_walk_rows(found),
        *_beyond_rows(found),
        *_coverage_rows(found),
        *_loss_rows(found),
        _epochs_row(),
    ]


def _closed() -> dict[str, tuple[float, float]]:
    found = {}
    for name, (law, params, ratio) in PUBLISHED.items():
        split = optimal_split(law, FLOPS)
        found[name] = (
            float(split.params) / params,
            float(split.tokens / split.params) / ratio,
        )
    return found


def _closed_rows(found: Found) -> list[Row]:
    off = {name: max(abs(x - 1) for x in pair) for name, pair in found.closed.items()}
    return [
        Row(
            part="closed form at 5.76e23 FLOPs",
            figure="parameters and tokens a parameter, largest difference from the published",
            target="≤ 1 %",
            reached=", ".join(f"{name} {value:.2%}" for name, value in off.items()),
            met=max(off.values()) <= 0.01,
        )
    ]


def _chinchilla_rows(found: Found) -> list[Row]:
    split, part = found.chinchilla, "Chinchilla, 240 runs, law"
    law = split.estimators["parametric"]
    a, ratio = law.exponent, law.tokens_per_param
    low, high = (side or np.nan for side in ratio.ci)
    return [
        Row(
            part=part,
            figure="exponent a of N_opt",
            beat="published .513 (SE .02)",
            target=".513 ± .02",
            reached=f"{a.value:.3f}, 80 % [{a.ci.lower:.3f}, {a.ci.upper:.3f}]; "
            + ", ".join(
                f"{name} {e.exponent.value:.3f}"
                for name, e in split.estimators.items()
                if e is not law
            ),
            met=abs((a.value or np.nan) - 0.513) <= 0.02,
        ),
        Row(
            part=part,
            figure="tokens a parameter at 1e26 FLOPs, 80 % interval",
            beat="published 4 to 40",
            target="overlaps it",
            reached=f"{ratio.value:.1f} [{low:.1f}, {high:.1f}]",
            met=bool(low <= 40 and high >= 4),
        ),
    ]


def _bias_rows(found: Found) -> list[Row]:
    wanted = {"equal exponents": (0.0, 0.001), "α = .46, β = .15": (0.23, 0.01)}
    lines = []
    for name in EXPONENTS:
        pairs = [found.bias[name, reach] for reach in REACHES]
        target, tolerance = wanted.get(name, (None, 0.0))
        parabola, ours = (max(abs(pair[i]) for pair in pairs) for i in (0, 1))
        lines.append(
            Row(
                part="isoFLOP profiles without noise",
                figure=f"tokens off at ±2, 4, 8, 16 times the best size, {name}",
                beat="parabola " + ", ".join(f"{abs(pair[0]):.1%}" for pair in pairs),
                target="parabola "
                + ("biased" if target is None else f"{target:.0%} at worst")
                + ", ours ≤ 1 %",
                reached="ours " + ", ".join(f"{abs(pair[1]):.2%}" for pair in pairs),
                met=ours <= 0.01 and (target is None or abs(parabola - target) <= tolerance),
            )
        )
    return lines


def _walk_rows(found: Found) -> list[Row]:
    lines = []
    for dataset, exponents in found.walk.items():
        pairs = list(zip(exponents, WALK[dataset], strict=True))
        near = sum(abs(value - published) <= 0.02 for (value, _, _), published in pairs)
        held = sum(low <= published <= high for (_, low, high), published in pairs)
        lines.append(
            Row(
                part=f"Porian et al. 2024, {dataset}",
                figure="exponent a in five settings, of the answer",
                beat=", ".join(f"{published:.3f}" for published in WALK[dataset]),
                target="all within .02 and in our 95 % intervals",
                reached=", ".join(f"{v:.3f} [{lo:.3f}, {hi:.3f}]" for v, lo, hi in exponents)
                + f"; {near} within .02, {held} in the interval",
                met=near == held == len(pairs),
            )
        )
    return lines


def _beyond_rows(found: Found) -> list[Row]:
    lines = []
    for name, words in (
        ("profiles", "profiles, the answer"),
        ("forecast", "forecast of all runs"),
    ):
        by_ratio = found.beyond.groupby("ratio")
        errors, held = (
            by_ratio[name].apply(lambda e: e.abs().mean()),
            by_ratio[f"{name}_held"].mean(),
        )
        lines.append(
            Row(
                part="Porian et al. 2024, 15 settings",
                figure="mean error of the loss of an optimum beyond the runs, by compute: "
                + words,
                reached=", ".join(
                    f"× {ratio}: {error:.1%} ({held[ratio]:.0%} in the 95 % interval)"
                    for ratio, error in errors.items()
                ),
            )
        )
    return lines


def _coverage_rows(found: Found) -> list[Row]:
    return [
        Row(
            part="simulated isoFLOP profiles",
            figure=f"95 % intervals that hold the truth, {estimator}",
            target="≥ 90 %",
            reached=", ".join(
                f"{what} {share:.1%}"
                for (e, what), share in found.coverage.items()
                if e == estimator
            ),
            met=all(share >= 0.9 for (e, _), share in found.coverage.items() if e == estimator),
            note="Five budgets of nine sizes, .3 % noise; N_opt at a hundred times their compute.",
        )
        for estimator in ("parametric", "isoflop")
    ]


def _loss_rows(found: Found) -> list[Row]:
    return [
        Row(
            part="simulated isoFLOP profiles",
            figure=f"95 % intervals that hold the loss {beyond:g} times the largest compute, "
            + ("law true" if k == 1 else f"k = {k:g} in place of 1"),
            target="≥ 93 %",
            reached=f"{share:.1%}; half-width {half:.1%}",
            met=share >= 0.93,
            note="The loss of the recommended split. As in a forecast the interval counts a share "
            "of the predicted change, so it is too wide where the law is true.",
        )
        for (k, beyond), (share, half) in found.loss_coverage.items()
    ]


def study_rows() -> list[Row]:
    """The split of our own study, held against runs at its budget."""
    study = open_study(STUDY)
    report = study.analyse(runs_of_table(study, STUDY.with_suffix(".csv")))
    check, part = report.check, f"our study, {report.found.flops:.3g} FLOPs"
    exponents = ", ".join(
        f"{name} {e.exponent.value:.3f} [{e.exponent.ci.lower:.3f}, {e.exponent.ci.upper:.3f}]"
        for name, e in report.found.estimators.items()
    )
    excess = "; ".join(
        f"× {s.factor:g}: {_words(s.excess)}" for s in check.splits if s is not check.recommended
    )
    return [
        Row(part=part, figure="exponent a of N_opt", reached=exponents),
        Row(
            part=part,
            figure="loss of other splits against the recommended one, nats",
            target="none significantly better",
            reached=excess,
            met=check.is_best,
            note=f"Means over {len(check.recommended.losses)} seeds, paired; four times the "
            "largest compute of a profile.",
        ),
        Row(
            part=part,
            figure="loss of the recommended split",
            target="all runs in the forecast's interval for one new run",
            reached=f"{_words(check.recommended.loss)}; forecast {_words(check.prediction)} holds "
            f"{check.n_predicted} of {len(check.recommended.losses)}; the expected loss "
            f"{_words(check.forecast)} {'holds' if check.holds else 'misses'} the mean",
            met=check.n_predicted == len(check.recommended.losses),
        ),
    ]


def _words(measure: Measure) -> str:
    lower, upper = measure.ci
    return f"{measure.value:.4f} ({lower:.4f} to {upper:.4f})".replace("-", "−")


def _epochs_row() -> Row:
    reached = {n: float(effective_epochs(n, 15.3878)) for n in EPOCHS}
    return Row(
        part="golden numbers",
        figure="D'/U at 1, 2, 4, 8, 16, 40 epochs",
        beat=", ".join(f"{value:g}" for value in EPOCHS.values()),
        target="equal",
        reached=", ".join(f"{value:.3f}" for value in reached.values()),
        met=all(abs(reached[n] - value) < 6e-4 for n, value in EPOCHS.items()),
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    for line in (*rows(measure(folder)), *study_rows()):
        sys.stdout.write(f"{line}\n")
