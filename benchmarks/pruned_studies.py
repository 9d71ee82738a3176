"""What pruned runs are worth to a forecast: simulated Optuna studies with a median pruner.

    python -m benchmarks.pruned_studies [--n 200] [--draws 1] [--only LAYOUT …] [--workers 2]

| layout | 60 trials of five sizes |
|---|---|
| one study | the size is a parameter of it |
| a study a size | twelve trials each |

| way | runs |
|---|---|
| unpruned | every trial ends |
| completed | pruned trials at the loss that they would have reached, as `arrays_of` reads them |
| dropped | finished trials of the same studies alone |

Laws, costs and noise are those of "mix random" of `benchmarks.surface_kinds`. A run still gains
c ((T/t)^p − 1) 2^(−q u) from step t of T on; c is .05 to .2, p .3 to .8, q .05 to .25, u octaves
above the optimum: low rates are slower, so that how a run stands says something, not all. Scored
are the 90 % interval of the optimum and the true cost of the recommended value, as in
`benchmarks.tuned_values`, at 4 times the largest size; ratios are to "unpruned".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.surface_kinds import RATIOS, Array, Truth, draw_mixed
from benchmarks.sweeps import log_uniform
from benchmarks.tuned_values import answers, parser_of, ratio_words, scored, tables_of, words

LAYOUTS = ("one study", "a study a size")
WAYS = ("unpruned", "completed", "dropped")
AT = RATIOS.index(4.0)
N_TRIALS, STEPS, WARM_UP, STARTUP = 60, 20, 5, 5
"""Trials of a sweep; steps of a run; of them before the first is pruned; trials before that."""
WOBBLE = 0.3
"""Noise of a point of a learning curve, over that of a run."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Learning curves of runs of a known truth.

    Attributes:
        truth: Where they end.
        gain, fade, slow: c, p and q of the module.
        low: Least octave of the rates, which span nine.
        seed: Of the sampler and of the runs.
    """

    truth: Truth
    gain: float
    fade: float
    slow: float
    low: float
    seed: int

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Training:
        truth = draw_mixed("mix random", rng)
        return cls(
            truth=truth,
            gain=log_uniform(rng, 0.05, 0.2),
            fade=rng.uniform(0.3, 0.8),
            slow=rng.uniform(0.05, 0.25),
            low=truth.optimum[: truth.n].mean() - 4.5 + rng.uniform(-1.0, 1.0),
            seed=int(rng.integers(1 << 30)),
        )

    def curve(self, i: int, octaves: float, number: int) -> Array:
        """Losses of a run at the size of number i, at every step."""
        rng, truth = np.random.default_rng([self.seed, number]), self.truth
        run = truth.runs(np.array(i), np.array(octaves), np.array(number % len(truth.seeds)), rng)
        fall = (STEPS / np.arange(1.0, STEPS + 1)) ** self.fade - 1
        left = self.gain * fall * 2.0 ** (-self.slow * (octaves - truth.optimum[i]))
        left[:-1] += WOBBLE * truth.noise * rng.normal(size=STEPS - 1)
        return np.asarray(run["loss"] * np.exp(left))

    def studies(self, layout: str, pruner: optuna.pruners.BasePruner) -> list[optuna.Study]:
        """All trials of a sweep."""
        sizes, made = [2**s for s in range(self.truth.n)], []
        drawn = [sizes] if layout == "one study" else [[size] for size in sizes]
        for k, choices in enumerate(drawn):
            sampler = optuna.samplers.TPESampler(seed=self.seed + k)
            name = "sweep" if len(choices) > 1 else f"sweep/width={choices[0]}"
            made.append(optuna.create_study(sampler=sampler, pruner=pruner, study_name=name))
            for number in range(N_TRIALS // len(drawn)):
                trial = made[-1].ask()
                width = choices[0]
                if len(choices) > 1:
                    width = trial.suggest_categorical("width", choices)
                self._train(made[-1], trial, sizes.index(width), number + 1000 * k)
        return made

    def _train(self, study: optuna.Study, trial: optuna.Trial, i: int, number: int) -> None:
        """One run, until it is pruned."""
        rate = trial.suggest_float("lr", 2.0**self.low, 2.0 ** (self.low + 9), log=True)
        losses = self.curve(i, float(np.log2(rate)), number)
        for step, loss in enumerate(losses, 1):
            trial.report(float(loss), step)
            if step < STEPS and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                return
        study.tell(trial, float(losses[-1]))


def measure(task: tuple[str, int], *, draws: int) -> list[dict[str, Any]]:
    """Scores of the three ways of one sweep."""
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    layout, number = task
    training = Training.drawn(np.random.default_rng([draws, number]))
    median = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARM_UP)
    unpruned, pruned = (
        extrap.read_runs(training.studies(layout, pruner), size="width", tune="lr")
        for pruner in (optuna.pruners.NopPruner(), median)
    )
    share = float((pruned.to_frame()["status"] == "pruned").mean())
    drawn, rows = training.truth.case(unpruned.to_frame()), []
    for who, runs in zip(WAYS, (unpruned, pruned, pruned.complete()), strict=True):
        said = answers(runs, drawn.targets[AT : AT + 1])[0]
        rows.append({"number": number, "who": who, "pruned": share} | scored(drawn, AT, said))
    return rows


def rows_of(layout: str, table: pd.DataFrame) -> Sequence[Row]:
    """What was measured of a layout, way by way."""
    by, rows = dict(iter(table.groupby("who"))), []
    for who in WAYS:
        parts = [words(by[who]), f"error {by[who]['error'].astype(float).mean():+.2f}"]
        for column in ("score", "cost") if who != "unpruned" else ():
            parts.append(f"{column} {ratio_words(by[who], by['unpruned'], column)}")
        rows.append(Row(part=layout, figure=who, reached="; ".join(parts)))
    share = f"{100 * table['pruned'].mean():.0f} %"
    return [*rows, Row(part=layout, figure="trials pruned", reached=share)]


def main() -> None:
    """Draw, fit and print."""
    for layout, table in tables_of(parser_of(__doc__, LAYOUTS).parse_args(), measure):
        print_rows(rows_of(layout, table))


if __name__ == "__main__":
    main()
