"""I tuned on short runs and train a long one: which learning rate, and which rule finds it?

The byte MLP by AdamW with weight decay .1 and a cosine over the whole run, in batches of 64 bytes:
three widths, each on 8 thousand to 221 thousand bytes, times 3, the rate tuned at each on three
seeds; warm-up is 5 % of a run. Rate and loss are sealed for four times the longest run at width
64, and for four times the width on the longest run. Then eleven rates, which span the values of
known rules, and the sealed one are trained there on four seeds, so that what a rule costs is
measured, by losses interpolated between the rates. Rules start at the best rate of the smallest
size, or at that of the largest. A second sweep tunes weight decay beside the rate, in the two
longest runs at width 64.

Expected, written before any of these runs; `allocation.csv`, by Adam without weight decay, has
width^(−.39 ± .03) and tokens^(−.37 ± .02):

- The best rate falls with tokens, as D^−.2 to D^−.5 with an interval below 0, and with width, as
  n^−.3 to n^−.5.
- Four runs at each target: the mean loss is inside the sealed interval, and the sealed rate costs
  at most 1 %, less than every rule that starts at the smallest size.
- From the largest size D^−.32 and 1/√D are cheapest on the longer run; keeping the rate costs more
  than both, 1/D (a constant timescale) more than 1/√D. At the larger width 1/√n costs less than a
  constant rate, and this less than 1/n. Published constants miss by more than an octave.
- The best timescale B / (η λ D) of weight decay stays over a factor of 3 in tokens, and in these
  runs of less than an epoch tuning weight decay gains less than 1 %.

Seen before the first run, after this was written: a trial of the code on 2 to 18 thousand bytes,
two seeds, with width^(−.66 ± .09), tokens^(−.14 ± .06) and a forecast loss 6 % too high at four
times the bytes. Sealed then (content hash 0f510a35951346c6) were the forecasts below.

Found, with 95 % intervals; costs are shares of the loss at the best rate:

- The best rate goes as D^−.347 (−.390 to −.304) and n^−.439 (−.516 to −.362), as expected.
- Four times the bytes: rate .00448 (.00333 to .00623), best by the runs there .00501 (.00447 to
  .00563), so the sealed one costs −.0 % (−.1 to .0). Loss 1.776 (1.706 to 1.852); four runs
  average 1.768.
- Four times the width: .00397 (.00280 to .00560), best .00316 (.00284 to .00352), cost .0 % (−.5
  to .5). Loss 1.855 (1.767 to 1.951); four runs average 1.848. All eight losses are inside.
- On the longer run, from the largest size: D^−.32 costs −.0 % (−.1 to .0), the same rate .3 % (−.4
  to 1.0), 1/√D .5 % (−.1 to 1.2), Step Law's D^.307 1.7 % (.6 to 2.9), 1/D 2.6 % (2.0 to 3.2).
  Four times the bytes do not tell the first three apart, so nothing says that keeping the rate is
  worse than 1/√D, as was expected. From the smallest size, at 108 times the bytes: Bjorck's N and
  D .2 % (−.3 to .6), 1/√D .3 % (−.1 to .8), D^−.32 .8 % (−.4 to 1.9), a constant 17 % (16 to 19),
  as much as 1/D.
- At the larger width, from the largest size: 1/√n −.1 % (−.1 to −.0), 1/n .7 % (.3 to 1.2), the
  same rate 2.5 % (1.9 to 3.2); that 1/n costs more than a constant rate was wrong.
- Published constants are 1.2 to 3.6 octaves too high: Step Law costs 27 % (26 to 29) and 4.7 %
  (3.6 to 5.9), DeepSeek's 2.4 % (1.2 to 3.6) and 5.0 % (3.9 to 6.2).
- Of 31 costs, predicted 0 to 106 %, 27 measured ones lie in the predicted interval; the others are
  below it, by at most .2 points. Rank correlations are .97 and .94; high costs are predicted too
  high, as 28 % for 17, 32 % for 20.
- Tuned beside the rate, weight decay is best at .054 (.035 to .083) on 74 thousand bytes and .047
  (.030 to .072) on 221 thousand. The timescale is 1.98 (1.18 to 3.29) and 1.29 (.79 to 2.14) runs:
  that it stays is not refuted, but keeping it costs 1.9 % (1.2 to 2.7) by the rate, 1.8 % (1.1 to
  2.7) by weight decay, and keeping both values .9 % (.4 to 1.5). A decay of .1 with the rate tuned
  costs .3 % (.1 to .8).

Within the sweep the loss was forecast worse: of 36 predictions from its smaller sizes, which share
data, 27 lay in their 90 % intervals, 4.1 % too high on average.

These are the forecasts that were sealed. Since then the best value may also bend along one size
column alone: from the same runs the rates are .00444 (.00333 to .00632) and .00390 (.00281 to
.00568), the losses as they were, and 26 of the 31 costs lie in their interval.

While the targets trained, two rates above the first nine were added, for Step Law's rise from the
smallest size. After that, costs came to be measured over the best rate of a fit, no longer over
the least interpolated loss, which moved none below 10 % by more than .2 points.

Cost: 501 runs, 17 minutes of processor time, so about nine minutes on two cores; 24 on two that
did much else. Killed and resumed, it gave the same losses to the last digit and the same seal.

`horizon.csv` has every run.

Papers: Bjorck, Benhaim, Chaudhary, Wei, Song 2024, "Scaling optimal LR across token horizons",
arXiv 2409.19913; Wang and Aitchison 2024, "How to set AdamW's weight decay as you scale model and
dataset size", arXiv 2405.13698; Bergsma et al. 2025, "Power lines", arXiv 2505.13738; Li et al.
2025, Step Law, arXiv 2503.04715.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING

from extrap.analyses.sweep.study import sealed_forecast, target_cells
from extrap.records import (
    CONTRAST,
    RECOMMENDED,
    Cell,
    Interval,
    Measure,
    Optimum,
    Point,
    Recipe,
    Runs,
    StudySpec,
    Target,
    TunedRange,
    Verdict,
    Workload,
)
from extrap.records.numbers import rounded
from extrap.study import Kind, RunsByStage, Seal, Stage
from extrap.study.protocol import only, size_words, sweep

if TYPE_CHECKING:
    import pandas as pd

    from extrap import Forecast
    from extrap.reporting.blocks import Block, Page
    from extrap.reporting.charts import XYChart
    from extrap.reporting.study_page import About
    from extrap.reporting.tables import Table

RATE, DECAY, TIMESCALE, PARAMETERS = "lr", "weight_decay", "timescale", "n_params"


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizons:
    """Runs of several lengths and widths, and two targets beyond them.

    Attributes:
        name: Of the study.
        question: One sentence.
        rates: Width, tokens and rate, with the targets; named as the study.
        tried: Rates that are trained at the targets; wide enough for the value of every rule.
        decays: Rate and weight decay in the longest of these runs.
    """

    name: str
    question: str
    rates: StudySpec
    tried: TunedRange
    decays: StudySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCost:
    """A rule at a target; costs are log excesses over the best rate.

    Attributes:
        rule: Its name.
        start: The size whose best rate it starts at; empty where it needs none.
        value: The rate it says.
        predicted: Its cost by the sealed forecast.
        measured: Its cost by the runs of the target; nothing outside the trained rates.
    """

    rule: str
    start: Mapping[str, float]
    value: float
    predicted: Measure
    measured: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """What was forecast at a target, and what its runs say.

    Attributes:
        point: The forecast.
        losses: Of the runs at the recommended rate.
        best: The best rate by the runs of the target alone.
        costs: Of every rule, the cheapest measured one first.
    """

    point: Point
    losses: tuple[float, ...]
    best: Measure
    costs: tuple[RuleCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonResult:
    """All that the study says.

    Attributes:
        forecast: Of rate and loss.
        verdicts: On the runs of the targets.
        exponents: Size column → exponent of the best rate.
        targets: In the order of the study.
        decayed: For each length of the second sweep, best rate, weight decay and timescale.
        decay_costs: Other choices of both → their cost in the longest of them.
    """

    forecast: Forecast
    verdicts: tuple[Verdict, ...]
    exponents: Mapping[str, Measure]
    targets: tuple[TargetResult, ...]
    decayed: tuple[tuple[float, Mapping[str, Measure]], ...]
    decay_costs: Mapping[str, Measure]


class HorizonKind(Kind):
    """`HORIZON`: both sweeps, the sealed forecast, then every rule's rate at its targets."""

    symbol = "HORIZON"
    record = Horizons

    def specs(self) -> tuple[StudySpec, ...]:
        """The sweep over widths and tokens, and that of weight decay."""
        return self.study.rates, self.study.decays

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """Both sweeps; behind the seal the recommended rate and a grid at each target."""
        yield [sweep(spec) for spec in self.specs()]
        spec, sweep_forecast = self.study.rates, self._forecast(runs)
        grid = {
            Cell.of(target.size, {RATE: rate}, seed): CONTRAST
            for target, rate, seed in product(
                spec.targets, self.study.tried.values(), spec.target_seeds
            )
        }
        roles = grid | target_cells(spec, sweep_forecast)
        yield [
            Stage(spec=spec, wants=only(roles), name="check", roles=roles, seal=self._seal(runs))
        ]

    def follows(self) -> Sequence[str]:
        """The runs of the targets, for the dry run."""
        spec, n_rates = self.study.rates, self.study.tried.n + 1
        return [
            f"{size_words(target.size)}: {n_rates * len(spec.target_seeds)} runs at the "
            f"recommended rate and {self.study.tried.n} others"
            for target in spec.targets
        ]

    def analyse(self, runs: RunsByStage) -> HorizonResult:
        """The forecast, and the measured cost of every rule."""
        from extrap import check
        from extrap.fitting.surface.fitted_sizes import fit_sweep
        from extrap.forecasting.documents import with_seal_of

        spec, sweep_forecast = self.study.rates, self._forecast(runs)
        if (sealed := runs.sealed(self._seal(runs))) is not None:
            sweep_forecast = with_seal_of(sweep_forecast, sealed)
        frame, decays = runs.of(spec, "check").to_frame(), runs.of(self.study.decays).to_frame()
        optima = fit_sweep(as_sweep(frame, tuned=[RATE]), level=spec.level).optima
        params = dict(zip(frame["width"], frame["n_params"], strict=True))
        swept = runs.of(spec).to_frame()
        params |= dict(zip(swept["width"], swept["n_params"], strict=True))
        return HorizonResult(
            forecast=sweep_forecast,
            verdicts=tuple(check(sweep_forecast, self._recommended(runs))),
            exponents=exponents(sweep_forecast),
            targets=tuple(
                target_result(sweep_forecast, optimum, frame[_is_at(frame, optimum.size)], params)
                for optimum in optima
            ),
            decayed=timescales(decays, spec.recipe.batch_size, level=spec.level),
            decay_costs=decay_costs(decays, usual=spec.recipe.weight_decay, level=spec.level),
        )

    def page(self, result: HorizonResult, runs: RunsByStage, about: About) -> Page:
        """The page of the forecast, with the rules above its details."""
        from extrap.analyses.sweep.page import forecast_page

        page = forecast_page(
            result.forecast,
            result.verdicts,
            title=about.title,
            question=about.question,
            origin=about.provenance,
            runs=self._recommended(runs),
        )
        answer, *others = page.blocks
        return replace(page, blocks=(answer, *horizon_blocks(result), *others))

    def seals(self, result: HorizonResult, runs: RunsByStage) -> Sequence[Seal]:
        """The forecast, which `extrap check` reads."""
        return [self._seal(runs)]

    def _forecast(self, runs: RunsByStage) -> Forecast:
        from extrap import forecast

        spec = self.study.rates
        return runs.cached("forecast", lambda: forecast(runs.of(spec), level=spec.level))

    def _seal(self, runs: RunsByStage) -> Seal:
        return sealed_forecast(self.study.rates, self._forecast(runs))

    def _recommended(self, runs: RunsByStage) -> Runs:
        """The larger runs without those at other rates."""
        larger = runs.of(self.study.rates, "check")
        roles = larger.to_frame()["role"]
        others = [row for row, role in enumerate(roles) if role != RECOMMENDED]
        return larger.without_rows(others)


def target_result(
    sweep_forecast: Forecast, optimum: Optimum, frame: pd.DataFrame, params: Mapping[float, float]
) -> TargetResult:
    """What a forecast and the runs of a target say of it.

    Args:
        sweep_forecast: The forecast.
        optimum: The best rate by these runs alone.
        frame: The runs.
        params: Width → parameters, for rules that count them.
    """
    best, level = optimum.tuned[RATE], sweep_forecast.level
    assert best.value is not None
    costs = [
        replace(rule, measured=measured_cost(frame, rule.value, best=best.value, level=level))
        for rule in rules_at(sweep_forecast, optimum.size, params)
    ]
    return TargetResult(
        point=sweep_forecast.at(**optimum.size),
        losses=tuple(frame.loc[frame["role"] == RECOMMENDED, "loss"].dropna()),
        best=Measure(value=best.value, ci=best.ci),
        costs=tuple(sorted(costs, key=lambda cost: _or_last(cost.measured.value))),
    )


def rules_at(
    sweep_forecast: Forecast, size: Mapping[str, float], params: Mapping[float, float]
) -> list[RuleCost]:
    """The rate of every rule at a size, with its predicted cost; rules of one rate are one row.

    Rules that only say how a rate moves start at the best rate of the smallest size or at that of
    the largest.
    """
    from extrap.analyses.sweep.horizon_page import RULE_NAMES
    from extrap.fitting.transfer_rules import FITTED, RULES

    def counted(of: Mapping[str, float]) -> dict[str, float]:
        return {**of, PARAMETERS: params[of["width"]]}

    values, here = sweep_forecast.values_at(size), counted(size)
    assert values is not None
    rates: dict[float, list[tuple[str, Mapping[str, float]]]] = {}
    for optimum, rule in product((sweep_forecast.optima[0], sweep_forecast.optima[-1]), RULES):
        best = optimum.tuned[RATE].value
        if best is None or not rule.applies(tuple(here), RATE):
            continue
        rate = rounded(rule.value(here, (counted(optimum.size), best)), 6)
        start = optimum.size if rule.constant is None else {}
        rates.setdefault(rate, []).append((RULE_NAMES[rule.key], start))
    recommended = sweep_forecast.at(**size).recommended[RATE]
    if recommended is not None:
        rates.setdefault(rounded(recommended, 6), []).append((RULE_NAMES[FITTED], {}))
    costs = []
    for rate, rules in rates.items():
        names, start = dict.fromkeys(name for name, _ in rules), rules[0][1]
        costs.append(
            RuleCost(
                rule=", ".join(names),
                start=start,
                value=rate,
                predicted=_measure(*values.penalty({RATE: rate})),
                measured=Measure(),
            )
        )
    return costs


def measured_cost(frame: pd.DataFrame, rate: float, *, best: float, level: float) -> Measure:
    """Log excess of a rate over the best one of a size, by its runs; nothing beyond their rates.

    Log losses are interpolated between the rates, seed by seed, by monotone cubics; the interval
    is Student's t over seeds.

    Args:
        frame: Runs of one size, each seed at every rate; rates at which one failed are left out.
        rate: The rate.
        best: The best one, as a fit to these runs has it: not that of the least loss, which would
            favor rates that were trained by their luck.
        level: Of the interval, in (0, 1).
    """
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    from extrap.fitting.means import paired_mean

    losses = frame.pivot_table(index=RATE, columns="seed", values="loss", dropna=False)
    losses = losses.dropna().sort_index()
    rates = losses.index.to_numpy(dtype=float)
    if not rates[0] <= min(rate, best) <= max(rate, best) <= rates[-1]:
        return Measure()
    log_loss = PchipInterpolator(np.log2(rates), np.log(losses.to_numpy(dtype=float)))
    return paired_mean(log_loss(math.log2(rate)) - log_loss(math.log2(best)), level=level)


def as_sweep(frame: pd.DataFrame, *, tuned: Sequence[str]) -> Runs:
    """Runs of any stage, with other tuned columns, as a sweep of their own."""
    sizes = ["width", "tokens"]
    columns = [*sizes, *tuned, "seed", "status", "loss"]
    return Runs.from_frame(frame[columns], sizes=sizes, tuned=tuned, source="horizon")


def exponents(sweep_forecast: Forecast) -> dict[str, Measure]:
    """Size column → exponent of the best rate, with its interval."""
    law, half = (
        sweep_forecast.tuned_laws[RATE],
        NormalDist().inv_cdf(0.5 + sweep_forecast.level / 2),
    )
    of = {}
    for i, column in enumerate(law.columns, 1):
        j = law.names.index(f"b{i}")
        value, error = law.values[j], math.sqrt(law.covariance[j][j])
        ci = Interval(value - half * error, value + half * error)
        of[column] = Measure(value=value, ci=ci)
    return of


def timescales(
    frame: pd.DataFrame, batch_size: int, *, level: float
) -> tuple[tuple[float, Mapping[str, Measure]], ...]:
    """Tokens → best rate, weight decay and timescale, `B / (η λ D)`, a share of the run."""
    from extrap.fitting.surface.fitted_sizes import fit_sweep

    frame = frame.assign(
        **{TIMESCALE: batch_size / (frame[RATE] * frame[DECAY] * frame["tokens"])}
    )
    rows: dict[float, dict[str, Measure]] = {}
    for other in (DECAY, TIMESCALE):
        for optimum in fit_sweep(as_sweep(frame, tuned=[RATE, other]), level=level).optima:
            of = {n: Measure(value=e.value, ci=e.ci) for n, e in optimum.tuned.items()}
            rows.setdefault(optimum.size["tokens"], {}).update(of)
    return tuple(sorted(rows.items()))


def decay_costs(frame: pd.DataFrame, *, usual: float, level: float) -> dict[str, Measure]:
    """Rate and weight decay chosen otherwise → log excess in the longest run.

    Args:
        frame: Runs of two lengths, with rate and weight decay tuned.
        usual: Weight decay of the other sweep.
        level: Of the intervals, in (0, 1).
    """
    import numpy as np

    from extrap.fitting.surface.fitted_sizes import fit_sweep
    from extrap.fitting.surface.tuned_values import TunedValues

    fitted = fit_sweep(as_sweep(frame, tuned=[RATE, DECAY]), level=level)
    before, longest = fitted.optima[-2:]
    rate, decay = (before.tuned[name].value for name in (RATE, DECAY))
    assert fitted.draws is not None
    assert rate is not None
    assert decay is not None
    draws = fitted.draws.at(np.log2([*longest.size.values()]))
    values = TunedValues(size=longest.size, names=(RATE, DECAY), level=level, draws=draws)
    longer = longest.size["tokens"] / before.size["tokens"]
    settings = {
        "rate and weight decay of the shorter run": {RATE: rate, DECAY: decay},
        "its timescale, by the rate": {RATE: rate / longer, DECAY: decay},
        "its timescale, by weight decay": {RATE: rate, DECAY: decay / longer},
        f"weight decay {usual:g}, the rate tuned": {DECAY: usual},
    }
    return {name: _measure(*values.penalty(tuned)) for name, tuned in settings.items()}


def _measure(value: float, ci: Interval) -> Measure:
    return Measure(value=value, ci=ci)


def horizon_blocks(result: HorizonResult) -> list[Block]:
    """Forecast beside measurement, the rules of each target, and weight decay."""
    from extrap.records.numbers import format_level, format_quantity
    from extrap.reporting.blocks import Columns, Figure, Paragraph
    from extrap.reporting.study_page import estimate, measured
    from extrap.reporting.tables import Table, tabulated

    laws = " and ".join(f"{column} to the {estimate(e)}" for column, e in result.exponents.items())
    interval = f"{format_level(result.forecast.level)} intervals"
    blocks: list[Block] = [
        Paragraph(f"The best rate goes as {laws}."),
        _targets_table(result, interval),
    ]
    blocks += [_rules_table(target, interval) for target in result.targets]
    blocks.append(Columns([Figure(_costs_chart(target)) for target in result.targets]))
    names = (RATE, DECAY, TIMESCALE)
    blocks += [
        tabulated(
            f"Best rate and weight decay together, with {interval}",
            result.decayed,
            {
                "tokens": lambda row: format_quantity(row[0]),
                **{name: lambda row, name=name: measured(row[1][name]) for name in names},
            },
            note="Timescale: B / (η λ D), as a share of the run.",
        ),
        Table(
            f"Excess of the loss in the longer of these runs, with {interval}",
            ("values", "excess"),
            [(name, _cost(cost)) for name, cost in result.decay_costs.items()],
        ),
    ]
    return blocks


def _targets_table(result: HorizonResult, interval: str) -> Table:
    """Rate and loss as forecast and as measured."""
    from extrap.analyses.sweep.horizon_page import RULE_NAMES
    from extrap.fitting.transfer_rules import FITTED
    from extrap.records.numbers import format_value, name_size, over
    from extrap.reporting.study_page import measured
    from extrap.reporting.tables import tabulated

    def trained(target: TargetResult) -> str:
        inside = sum(loss in target.point.loss_pi for loss in target.losses)
        mean = sum(target.losses) / len(target.losses) if target.losses else None
        return over(format_value(mean), f"{inside} of {len(target.losses)} runs inside")

    def fitted(target: TargetResult) -> str:
        law = RULE_NAMES[FITTED]
        return next((_cost(c.measured) for c in target.costs if law in c.rule), "–")

    return tabulated(
        f"Forecast and measured, with {interval}",
        result.targets,
        {
            "target": lambda t: name_size(t.point.size),
            "forecast rate": lambda t: measured(
                Measure(value=t.point.recommended[RATE], ci=t.point.tuned[RATE].pi)
            ),
            "measured best rate": lambda t: measured(t.best),
            "measured cost of the forecast rate": fitted,
            "forecast loss": lambda t: measured(Measure(value=t.point.loss, ci=t.point.loss_pi)),
            "measured loss": trained,
        },
    )


def _rules_table(target: TargetResult, interval: str) -> Table:
    """What each rule says at a target and what that costs."""
    from extrap.records.numbers import format_quantity, name_size
    from extrap.reporting.tables import tabulated

    return tabulated(
        f"Rules at {name_size(target.point.size)}: excess of the loss over the best rate's, with "
        f"{interval}",
        target.costs,
        {
            "rule": lambda c: c.rule,
            "from": lambda c: name_size(c.start) or "–",
            "rate": lambda c: format_quantity(c.value),
            "predicted": lambda c: _cost(c.predicted),
            "measured": lambda c: _cost(c.measured),
        },
        note="Measured: interpolated between the rates trained there; a dash beyond them.",
    )


def _costs_chart(target: TargetResult) -> XYChart:
    """What rates cost, as predicted and as measured."""
    from extrap.records.numbers import name_size
    from extrap.reporting.charts import BAND, Axis, XYChart, points

    def rows(of: Callable[[RuleCost], Measure]) -> list[tuple[float | None, ...]]:
        costs = [(cost.value, of(cost).map(math.expm1)) for cost in target.costs]
        return sorted((rate, cost.value, *cost.ci) for rate, cost in costs if cost != Measure())

    return XYChart(
        title=f"Cost of the rules' rates at {name_size(target.point.size)}",
        x=Axis("learning rate"),
        y=Axis("excess of the loss", is_log=False, is_percent=True),
        series=(
            points(rows(lambda cost: cost.predicted), label="predicted", **BAND),
            points(rows(lambda cost: cost.measured), ink="warn", marker="o", label="measured"),
        ),
    )


def _cost(cost: Measure) -> str:
    """A log excess in percent of the loss, above its interval."""
    from extrap.records.numbers import format_percent, stacked

    if cost == Measure():
        return "–"
    relative = cost.map(math.expm1)
    return stacked(relative.value, relative.ci, format_percent)


def _is_at(frame: pd.DataFrame, size: Mapping[str, float]) -> pd.Series:
    """Which runs have a size."""
    return (frame[list(size)] == list(size.values())).all(axis="columns")


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value


BYTES = tuple(64 * 128 * 3**i for i in range(4))
"""Lengths of the runs: 128 to 3,456 steps."""
RECIPE = Recipe(
    batch_size=64,
    optimizer="adamw",
    weight_decay=0.1,
    beta2=0.95,
    schedule="cosine",
    n_evals=10,
)

HORIZON = Horizons(
    name="horizon",
    question="Which learning rate does a longer run take, and which rule finds it?",
    rates=StudySpec(
        name="horizon",
        question="Where does the best rate go with width and tokens?",
        workload=Workload(name="bytes-mlp"),
        recipe=RECIPE,
        sizes={"width": (16, 32, 64), "tokens": BYTES},
        tune={RATE: TunedRange(low=2**-10, high=2**-4, n=7)},
        seeds=(0, 1, 2),
        targets=(
            Target(size={"width": 64, "tokens": 4 * BYTES[-1]}, fixed=False),
            Target(size={"width": 256, "tokens": BYTES[-1]}, fixed=False),
        ),
        target_seeds=(100, 101, 102, 103),
    ),
    tried=TunedRange(low=2**-12, high=2**-2, n=11),
    decays=StudySpec(
        name="horizon-decay",
        question="Where does the best weight decay go with tokens?",
        workload=Workload(name="bytes-mlp"),
        recipe=RECIPE,
        sizes={"width": (64,), "tokens": BYTES[-2:]},
        tune={
            RATE: TunedRange(low=2**-10, high=2**-5, n=6),
            DECAY: TunedRange(low=2**-6, high=4, n=5),
        },
        seeds=(0, 1),
        growth=2,
    ),
)
