"""Does what `extrap check` says of a run agree with the interval that it prints?

    python -m benchmarks.verdicts [--n 2000] [--seed 0]

Sweeps are drawn, each is forecast and sealed, and tables of larger runs are checked against it
with the command, as text and as JSON. Counted are tables where verdict, printed interval,
p-values, headline, page and exit code contradict each other, and forecasts whose confidence,
chance of divergence and numbers do.

| setting | drawn from |
|---|---|
| sizes | 3 to 8, each 1.5 to 3 times the one before |
| seeds | 1 to 4 |
| noise of the log loss | sd .1 to 20 %, log-uniform |
| tuned values | 3 to 9, half an octave to 3 octaves apart, displaced; in one of ten none |
| excess log loss k/2 u^2, u octaves off | k .0003 (flat) to .2, log-uniform |
| divergence | in one of four sweeps beyond 1 to 5 octaves |
| law of the loss | a floor of 0 to 2 and a power of -.05 to -.6 |
| larger runs | at 1 to 16 times the largest size; the kinds in `KINDS`; 1 to 4 seeds, old or new |
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.analyses.sweep.answer import transfer_answer
from extrap.analyses.sweep.judged_groups import RunGroup, group_near, group_verdicts
from extrap.analyses.sweep.page import forecast_page
from extrap.cli import main as extrap_command

SWEEP, SEALED, LARGER = "sweep.csv", "forecast.json", "larger.csv"
RATIOS = (1, 2, 4, 16)
"""Forecast sizes over the largest of the sweep."""
N_TABLES, N_PAGES = 8, 40
"""Tables of larger runs for every sweep; a page, which takes long, is made of one in so many."""
TOLERANCE, WIDE, ROUNDING = 0.005, 0.05, 1e-9
"""Of `extrap check`; half width of an interval that must not hold the last value; of numbers."""
KINDS = {
    "tuned": 0.25,
    "mistuned": 0.25,
    "low": 0.12,
    "high": 0.12,
    "unknown": 0.06,
    "diverged": 0.05,
    "pruned": 0.05,
    "apart": 0.1,
}
"""Larger runs by their share: tuned, at 1/8 to 8 times the forecast's value, 1 to 60 % too low or
too high, at a value that is not known, without a loss, and one replicate far from the others."""
WORDS = {True: ("●",), False: ("◆", "✕", "▲"), None: ("○",)}
"""Verdict → how a row of the table begins."""
HEADLINE = re.compile(
    r"(\d+) of (\d+) configurations? off the law(?: \(([^)]*)\))?(?:, (\d+) undecided)?"
    r"(?:; (\d+) of (\d+) losses outside [^(;]*(\(smallest p-value)?)?"
)
"""Configurations off the law, why, undecided; losses outside their intervals; a p-value."""
HEADLINES = {True: ("on law",), False: ("off law", "better than forecast")}
"""Verdict → the last words of the headline; other verdicts are undecided."""


class DrawnSweep:
    """A sweep of drawn settings in a folder, its sealed forecast, and larger runs of its law."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.floor, self.power = rng.uniform(0, 2), rng.uniform(0.05, 0.6)
        self.noise = math.exp(rng.uniform(math.log(0.001), math.log(0.2)))
        self.curvature = math.exp(rng.uniform(math.log(0.0003), math.log(0.2)))
        self.limit = rng.uniform(1, 5) if rng.random() < 0.25 else math.inf
        self.drift, self.is_tuned = rng.uniform(-0.8, 0), rng.random() < 0.9
        self.n_seeds = int(rng.integers(1, 5))
        self.sizes = np.round(16 * rng.uniform(1.5, 3) ** np.arange(rng.integers(3, 9)))
        step, n_values = rng.choice([0.5, 1, 1, 2, 3]), int(rng.integers(3, 10))
        grid = step * (np.arange(n_values) - n_values // 2) + rng.uniform(-1, 1) * rng.choice(
            [1, 4]
        )
        rows = [
            self.run(size, u + self.best(size) if self.drift > -0.4 else u, seed)
            for size in self.sizes
            for u in (grid if self.is_tuned else [0.0])
            for seed in range(self.n_seeds)
        ]
        self.table = pd.DataFrame(rows)

    def best(self, size: float) -> float:
        """Octaves of the best value."""
        return float(self.drift * math.log2(size / 16))

    def run(self, size: float, octaves: float, seed: int, shift: float = 0.0) -> dict[str, Any]:
        """One run, its loss moved by a log."""
        u = octaves - self.best(size)
        loss = (self.floor + 2 * (size / 16) ** -self.power) * math.exp(
            min(self.curvature / 2 * u**2, 3) + self.noise * self.rng.normal() + shift
        )
        row = {"width": size, "seed": seed, "loss": loss, "status": "complete"}
        row |= {"lr": 0.01 * 2**octaves} if self.is_tuned else {}
        return row if u <= self.limit else row | {"loss": None, "status": "diverged"}

    def larger(self, made: extrap.Forecast, kind: str) -> pd.DataFrame:
        """Runs of a larger size that differ in their seeds."""
        rng = self.rng
        size = float(self.sizes[-1] * rng.choice([1, 2, 4, 8, 16]))
        octaves = self.best(size)
        recommended = made.at(width=size).recommended.get("lr")
        if self.is_tuned and recommended and rng.random() < 0.7:
            octaves = math.log2(recommended / 0.01)
        octaves += rng.choice([-3, -2, -1, 1, 2, 3]) if kind == "mistuned" else 0
        share = math.exp(rng.uniform(math.log(0.01), math.log(0.6)))
        shift = {"low": math.log1p(-share), "high": math.log1p(share)}.get(kind, 0.0)
        first = int(rng.choice([0, 100]))
        rows = [self.run(size, octaves, first + i, shift) for i in range(int(rng.integers(1, 5)))]
        table = pd.DataFrame(rows)
        if kind == "unknown" and self.is_tuned:
            table["lr"] = None
        if kind in ("diverged", "pruned"):
            table["loss"], table["status"] = None, kind
        if kind == "apart":
            table.loc[0, "loss"] = 1.3 * table["loss"].max()
        return table


def called(*arguments: str) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = extrap_command(list(arguments))
    return code, out.getvalue()


def checked(made: extrap.Forecast) -> tuple[list[str], list[bool | None]]:
    """What contradicts what, of the larger runs and the forecast in this folder; and verdicts."""
    # read once a sweep
    with mock.patch("extrap.forecasting.documents.load_forecast", return_value=made):
        code, text = called("check", SEALED, LARGER)
        json_code, printed = called("check", SEALED, LARGER, "--json")
    if code == 2 and json_code == 2 and not text:
        return [], []  # nothing can be checked: the error says why
    found = json.loads(printed)
    outcomes = [told["on_law"] for told in found["configurations"]]
    off = False in outcomes
    wrong = []
    if not code == json_code == off or found["ok"] == off:
        wrong.append("the exit code is not that of the verdicts")
    for told in found["configurations"]:
        run = next(v for v in found["verdicts"] if v["configuration"] == told["configuration"])
        wrong += of_configuration(told, run, made)
    lines = text.splitlines()
    for outcome, marks in WORDS.items():
        n_rows = sum(line.startswith(marks) for line in lines)
        if n_rows != outcomes.count(outcome):
            wrong.append(f"{n_rows} rows of the table, {outcomes.count(outcome)} of the JSON")
    return [*wrong, *of_headline(found, text, made.level)], outcomes


def of_configuration(
    told: Mapping[str, Any], run: Mapping[str, Any], made: extrap.Forecast
) -> Iterator[str]:
    """Verdict against interval."""
    on_law, loss, advice = told["on_law"], told["loss"], run["advice"]
    level, (lower, upper) = made.level, told["predicted_pi"]
    if ("nothing to do" in advice) > (on_law is True):
        yield "nothing to do, and not on the law"
    if loss is None or told["predicted"] is None:
        is_right = on_law is None or (run["status"] == "diverged" and on_law is False)
        if not is_right or (on_law is None and not advice):
            yield "on the law without a loss or a forecast"
        return
    if run["status"] == "complete" and told["size"]["width"] < made.optima[0].size["width"]:
        return
    is_inside, is_near = lower <= loss <= upper, abs(told["deviation"]) <= TOLERANCE
    is_known = run["cause"] == "mistuned" or "off_replicates" in run["evidence"]
    if on_law is True and not is_inside and not (is_near and "tolerance" in advice):
        yield "on the law outside the interval"
    if on_law is False and is_inside and not is_known:
        yield "off the law inside the interval"
    if on_law is None and not advice.startswith("Undecided: "):
        yield "undecided without a word"
    is_wide = math.log(upper / lower) > 2 * WIDE + ROUNDING
    if on_law is True and is_wide and lower <= (made.last_value() or 0.0) <= upper:
        yield "on the law of an interval that could not have said otherwise"
    expected = told["expected_pi"] or [lower, upper]
    highest = math.inf if expected[1] is None else expected[1]
    if expected[0] < lower * (1 - ROUNDING) or highest < upper * (1 - ROUNDING):
        yield "expected below the tuned law"
    is_beyond = loss < lower or loss > highest
    if (told["p_value"] < 1 - level) == is_inside:
        yield "p-value against interval"
    if on_law is None and is_beyond:
        yield "undecided outside of all that is expected"
    if on_law is False and not is_beyond and not is_known:
        yield "off the law within what is expected"
    sealed = made.at(**told["size"]).loss_pi
    is_new = told["n_runs"] == 1 and str(told["seeds"][0]) not in made.noise.seed_effects
    if is_new and not np.allclose(sealed, (lower, upper), rtol=ROUNDING):
        yield "not judged by the sealed interval"


def of_headline(found: Mapping[str, Any], text: str, level: float) -> Iterator[str]:
    """Headline against verdicts."""
    outcomes = [told["on_law"] for told in found["configurations"]]
    answer = found["answer"]
    if " ".join(answer.split()) not in " ".join(text.replace("\u00a0", " ").split()):
        yield "text and JSON have two headlines"
    if answer.startswith("UNDECIDED") != (outcomes.count(None) == len(outcomes)):
        yield "headline undecided, verdicts not"
    counts = HEADLINE.match(answer)
    numbers = [outcomes.count(False), len(outcomes), outcomes.count(None)]
    if counts is not None:
        if [int(n or 0) for n in counts.group(1, 2, 4)] != numbers:
            yield "headline miscounts"
        if sum(map(int, re.findall(r"\d+", counts[3] or ""))) != numbers[0]:
            yield "reasons do not add up to the configurations off the law"
        if counts[5] is not None:
            p_values = [t["p_value"] for t in found["configurations"] if t["p_value"] is not None]
            n_small = sum(p <= 1 - level for p in p_values)
            if [int(counts[5]), int(counts[6])] != [n_small, len(p_values)]:
                yield "losses outside their intervals and p-values"
            if (counts[7] is not None) != (n_small > 0):
                yield "a p-value beside no loss outside its interval"
    if len(outcomes) == 1 and " there reached " in answer:
        words = HEADLINES.get(outcomes[0], ("undecided",))
        last = answer.rstrip(".").rpartition(": ")[2].removesuffix(", mistuned")
        if last not in words:
            yield f"headline {last!r}, verdict {outcomes[0]}"


def of_page(made: extrap.Forecast, outcomes: list[bool | None]) -> Iterator[str]:
    """Page against verdicts."""
    runs = extrap.read_runs(LARGER, size="width", tune=made.runs.tuned, stage="check")
    verdicts = extrap.check(made, runs)
    page = forecast_page(made, verdicts)
    yield from of_transfer(made, group_verdicts(verdicts))
    if (page.ok is False) != (False in outcomes):
        yield "page fine, verdicts not"
    if (page.status == "on law") != (set(outcomes) == {True}):
        yield f"page {page.status!r}, verdicts {outcomes}"


def of_transfer(made: extrap.Forecast, groups: Sequence[RunGroup]) -> Iterator[str]:
    """Whether a value transfers against the verdict on runs at this value."""
    for size in {tuple(group.size.items()): group.size for group in groups}.values():
        point = made.at(**size)
        for kept in point.kept_smallest:
            group = group_near(groups, size, {"lr": kept.kept})
            on_law = group and group.verdicts[0].on_law
            answer = transfer_answer(made, point, groups)
            if on_law is not None and "cannot be told" in answer:
                yield "undecided whether a value transfers, and measured"
            if on_law and "does not transfer" in answer:
                yield "a value on the law does not transfer"


def of_forecast(made: extrap.Forecast, ratio: float) -> Iterator[str]:
    """Confidence against the numbers, and the recommended value against its own divergence."""
    point = made.at(width=made.runs.to_frame()["width"].max() * ratio)
    with mock.patch("extrap.forecasting.documents.load_forecast", return_value=made):
        _, printed = called("forecast", SEALED, "--at", f"{point.size['width']:g}", "--json")
    answer = json.loads(printed)["answer"]
    (level,) = re.findall(r"Confidence: (\w+)", answer)
    advised, half = point.recommendation, point.loss_half_width
    cost = advised.expected_cost if advised else 0.0
    chance = (advised and advised.chance_of_divergence) or 0.0
    is_low = half is None or half > 0.05 or cost > 0.01 or chance > 0.05
    if (is_low or point.refusals) and level != "low":
        yield f"confidence {level} against the numbers of a low one"
    if level == "high" and (half is None or half > 0.02 or cost > 0.003 or chance > 0.02):
        yield "high confidence against the numbers"
    if any(point.recommended.values()) and chance > 0.1:
        yield "a value is recommended that is expected to diverge"
    if level == "low" and not re.search(r"Confidence: low; .*(\d|bound)", answer):
        yield "low confidence without a number"
    lost = made.runs.to_frame().groupby("width")["loss"].count()
    if any(lost == 0) and "has no finished run" not in answer:
        yield "a size without a finished run is not named"


def drawn(
    seed: int, number: int, *, n_tables: int = N_TABLES
) -> Iterator[tuple[str, list[str], list[bool | None]]]:
    """Kind of larger runs, what contradicts what, verdicts: of the tables of one sweep."""
    rng = np.random.default_rng([seed, number])
    sweep = DrawnSweep(rng)
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tune = ["lr"] if sweep.is_tuned else []
        runs = extrap.read_runs(sweep.table, size="width", tune=tune)
        try:
            made = extrap.forecast(runs)
        except extrap.ExtrapError:
            return
        extrap.save_forecast(made, SEALED)
        made = extrap.load_forecast(SEALED)
        point = extrap.Forecast.point
        points = cache(lambda size: point(made, dict(size)))  # the same sizes again and again
        own = mock.patch.object(extrap.Forecast, "point", lambda _, s: points(tuple(s.items())))
        with own:
            yield "forecast", [w for r in RATIOS for w in of_forecast(made, r)], []
            for i, kind in enumerate(rng.choice(list(KINDS), n_tables, p=list(KINDS.values()))):
                sweep.larger(made, kind).to_csv(LARGER, index=False)
                wrong, outcomes = checked(made)
                wrong += of_page(made, outcomes) if outcomes and i == number % N_PAGES else []
                yield str(kind), wrong, outcomes


def main() -> None:
    """Draw, check and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    n, n_wrong, number, reasons = 0, 0, 0, Counter()
    while n < given.n:
        for kind, wrong, _ in drawn(given.seed, number):
            n, n_wrong = n + 1, n_wrong + bool(wrong)
            reasons.update(set(wrong))
            if wrong:
                sys.stderr.write(f"sweep {number}, {kind}: {'; '.join(wrong)}\n")
        number += 1
    row = Row(
        part="drawn sweeps and larger runs",
        figure="verdict, interval, headline, page or exit code contradict each other",
        target=f"0 of {n:,}",
        reached=f"{n_wrong} of {n:,} ({number} sweeps)",
        met=n_wrong == 0,
        note="; ".join(f"{reason}: {times}" for reason, times in reasons.items()),
    )
    print_rows([row])


if __name__ == "__main__":
    main()
