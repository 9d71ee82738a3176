"""Which optimizer makes large batches useful, and does momentum extend perfect scaling?

An MLP of two hidden layers on MNIST-1D (14,000 signals to train on) to two losses, by SGD,
momentum, Nesterov momentum and Adam, at batches of 4 to 4,096. The rate is tuned anew at every
batch and momentum, and the momentum at every batch, out of three. This is a part of it, with one
width, every other batch and momentum .9; `optimizer_batch_full.py` has all.

Registered in `registered.md`; `python -m benchmarks.evidence_optimizers` computes the figures.

It needs the package `mnist1d`, see `constraints.txt`.

Papers: Shallue et al. 2019, "Measuring the effects of data parallelism on neural network
training", arXiv 1811.03600; Zhang et al. 2019, "Which algorithmic choices matter at which batch
sizes?", arXiv 1907.04164. Data: Greydanus and Kobak 2024, arXiv 2011.14439.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extrap.analyses.batch_size import BatchStudy, BatchTask
from extrap.records import Recipe, StudySpec, TunedRange, Workload

TARGETS = (1.4, 1.1)
REFERENCE = 64
MARGIN = 2.5
"""Steps of a run over those that a trial needed to the lower loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How much of it is trained."""

    widths: tuple[int, ...]
    batches: tuple[int, ...]
    momenta: tuple[float, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a trial said of an optimizer: steps to the lower loss, and the rate at batch 64."""

    least_steps: int  # at the largest batches
    examples: int  # at the smallest ones
    log2_rate: float
    exponent: float = 0.6  # of the rate in the batch


FULL = Form(
    widths=(24, 40, 64),
    batches=tuple(2**i for i in range(2, 13)),
    momenta=(0.7, 0.9, 0.97),
    seeds=(6000, 6001, 6002, 6003),
)
REDUCED = Form(widths=(40,), batches=FULL.batches[::2], momenta=(0.9,), seeds=(6000, 6001))
SGD = Trial(least_steps=200, examples=30_000, log2_rate=-0.5)
BY_MOMENTUM: Mapping[float, Trial] = {
    0.7: Trial(least_steps=80, examples=30_000, log2_rate=-2),
    0.9: Trial(least_steps=70, examples=30_000, log2_rate=-3.5),
    0.97: Trial(least_steps=100, examples=40_000, log2_rate=-5),
}
ADAM = Trial(least_steps=70, examples=32_000, log2_rate=-6.5, exponent=0.35)


def task(name: str, recipe: Recipe, trial: Trial, form: Form) -> BatchTask:
    """One optimizer at one momentum, six rates an octave apart."""
    middle = trial.log2_rate
    return BatchTask(
        study=StudySpec(
            name=name,
            question="Steps to a loss against batch size, by width",
            workload=Workload(
                name="studies/ladder_workload.py:Classes",  # from the directory you start in
                options={"data": "mnist1d", "n_training": 14_000},
            ),
            recipe=recipe,
            sizes={"width": form.widths},
            tune={"lr": TunedRange(low=2 ** (middle - 3), high=2 ** (middle + 2), n=6)},
            seeds=form.seeds,
            growth=4,
        ),
        steps={
            batch: round(MARGIN * (trial.least_steps + trial.examples / batch))
            for batch in form.batches
        },
        targets=TARGETS,
        reference_batch=REFERENCE,
        rate_exponent=trial.exponent,
    )


def tasks(form: Form) -> tuple[BatchTask, ...]:
    """All optimizers; those with momentum once for each."""
    plain = Recipe(optimizer="sgd", momentum=0.0, schedule="constant", warmup=0.0, n_evals=100)
    made = [task("sgd", plain, SGD, form)]
    for name in ("momentum", "nesterov"):
        for momentum in form.momenta:
            recipe = Recipe(
                optimizer="sgd",
                momentum=momentum,
                nesterov=name == "nesterov",
                schedule="constant",
                warmup=0.0,
                n_evals=100,
            )
            made.append(task(f"{name}-{momentum:g}", recipe, BY_MOMENTUM[momentum], form))
    adam = Recipe(optimizer="adam", schedule="constant", warmup=0.0, n_evals=100)
    return (*made, task("adam", adam, ADAM, form))


BATCHES = BatchStudy(
    name="optimizer_batch",
    question="Which optimizer makes large batches useful, and does momentum help?",
    tasks=tasks(REDUCED),
)
