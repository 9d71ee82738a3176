"""Does the noise scale predict the useful batch of real networks, from easy tasks to hard ones?

Twenty tasks: MLPs, convolutional networks and transformers on scikit-learn's digits (two classes
to ten, labels with noise, images moved about), on MNIST-1D and on the bytes of Python's source at
several contexts. Each has two targets. Steps to them are counted at five to nine batches, the rate
tuned at each; the noise scale is the mean up to the target along the best runs at one batch. This
is a part of it, six tasks with half the seeds; `noise_ladder_full.py` has all. The linear
teachers, whose noise is dialled, are in `noise_scale.py`.

Registered in `registered.md`; `python -m benchmarks.evidence_noise` computes the figures.

It needs the package `mnist1d`, see `constraints.txt`.

Paper: McCandlish et al. 2018, "An empirical model of large-batch training", arXiv 1812.06162.
Data: Alpaydin and Kaynak 1998; Greydanus and Kobak 2024, arXiv 2011.14439.
"""

from __future__ import annotations

from dataclasses import replace

from extrap.analyses.batch_size import BatchStudy, BatchTask
from extrap.records import Recipe, StudySpec, TunedRange, Workload

SEEDS = (5000, 5001, 5002, 5003)
N_RATES, GROWTH = 5, 4
MARGIN = 2.5
"""Steps of a run over those that the trial behind `least_steps` and `critical` tells of."""
SGD = Recipe(
    optimizer="sgd", momentum=0.9, schedule="constant", warmup=0.0, noise_every=2, n_evals=100
)
ADAM = Recipe(optimizer="adam", schedule="constant", warmup=0.0, noise_every=2, n_evals=100)


def task(
    name: str,
    workload: Workload,
    recipe: Recipe,
    *,
    width: int,
    batches: tuple[int, int, int],
    apart: int = 1,
    least_steps: int,
    critical: float,
    targets: tuple[float, float],
    log2_rate: float,
) -> BatchTask:
    """A task; five rates an octave apart about a middle one.

    Args:
        name: Of it.
        workload: Its network and data.
        recipe: SGD with momentum, or Adam.
        width: Of the network.
        batches: Log2 of the smallest, of that where the noise is measured, of the largest.
        apart: Octaves between two of them.
        least_steps: To the lower target at the largest batches, by a trial.
        critical: Likewise, the batch that twice as many take.
        targets: Losses.
        log2_rate: The middle rate where the noise is measured.
    """
    first, middle, last = batches
    return BatchTask(
        study=StudySpec(
            name=name,
            question="Steps to a loss against batch size",
            workload=workload,
            recipe=recipe,
            sizes={"width": (width,)},
            tune={
                "lr": TunedRange(low=2 ** (log2_rate - 2), high=2 ** (log2_rate + 2), n=N_RATES)
            },
            seeds=SEEDS,
            growth=GROWTH,
        ),
        steps={
            2**i: round(MARGIN * least_steps * (1 + critical / 2**i))
            for i in range(first, last + 1, apart)
        },
        targets=targets,
        reference_batch=2**middle,
        noise_batch=2**middle,
        rate_exponent=0.75 if recipe.optimizer == "sgd" else 0.5,
    )


def classes(**options: str | float) -> Workload:
    """Digits or signals, from the directory you start in."""
    return Workload(name="studies/ladder_workload.py:Classes", options=options)


def source(model: str, **options: int) -> Workload:
    """The bytes of Python's source."""
    few = {"n_validation": 256} if model == "transformer" else {}
    return Workload(name=f"bytes-{model}", options={**few, **options})


EASY_DIGITS = task(
    "digits-two-classes",
    classes(n_classes=2, label_noise=0.1),
    SGD,
    width=16,
    batches=(0, 3, 6),
    least_steps=14,
    critical=16,
    targets=(0.3, 0.12),
    log2_rate=-5.5,
)
DIGITS = task(
    "digits-mlp",
    classes(),
    SGD,
    width=64,
    batches=(2, 5, 9),
    least_steps=30,
    critical=110,
    targets=(0.4, 0.2),
    log2_rate=-4.5,
)
NOISY_DIGITS = task(
    "digits-labels-.7-wrong",
    classes(label_noise=0.7),
    SGD,
    width=64,
    batches=(3, 6, 10),
    least_steps=25,
    critical=350,
    targets=(1.7, 1.35),
    log2_rate=-3.5,
)
EASY_SIGNALS = task(
    "signals-two-classes",
    classes(data="mnist1d", n_classes=2),
    SGD,
    width=16,
    batches=(0, 3, 7),
    least_steps=35,
    critical=16,
    targets=(0.4, 0.1),
    log2_rate=-5.5,
)
BIGRAMS = task(
    "bytes-of-1",
    source("mlp", context=1, depth=1),
    ADAM,
    width=32,
    batches=(4, 8, 14),
    apart=2,
    least_steps=38,
    critical=3000,
    targets=(2.8, 2.5),
    log2_rate=-5,
)
LONG_CONTEXT = task(
    "transformer-of-128",
    source("transformer", context=128, depth=1),
    ADAM,
    width=32,
    batches=(0, 3, 5),
    least_steps=32,
    critical=6,
    targets=(3.3, 2.8),
    log2_rate=-7.5,
)
TASKS = (
    EASY_DIGITS,
    DIGITS,
    task(
        "digits-deep",
        classes(depth=4),
        SGD,
        width=32,
        batches=(2, 5, 9),
        least_steps=60,
        critical=110,
        targets=(0.5, 0.25),
        log2_rate=-5,
    ),
    task(
        "digits-convolutions",
        classes(model="convolutions"),
        SGD,
        width=12,
        batches=(2, 5, 9),
        least_steps=65,
        critical=100,
        targets=(0.4, 0.15),
        log2_rate=-4.5,
    ),
    task(
        "digits-moved",
        classes(model="convolutions", shift=2),
        SGD,
        width=12,
        batches=(3, 5, 10),
        least_steps=110,
        critical=160,
        targets=(1.3, 0.9),
        log2_rate=-5,
    ),
    task(
        "digits-labels-.3-wrong",
        classes(label_noise=0.3),
        SGD,
        width=64,
        batches=(2, 5, 9),
        least_steps=22,
        critical=130,
        targets=(1.1, 0.7),
        log2_rate=-4.5,
    ),
    NOISY_DIGITS,
    EASY_SIGNALS,
    task(
        "signals-four-classes",
        classes(data="mnist1d", model="convolutions", n_classes=4),
        SGD,
        width=8,
        batches=(1, 4, 9),
        least_steps=70,
        critical=75,
        targets=(0.9, 0.5),
        log2_rate=-5,
    ),
    task(
        "signals-mlp",
        classes(data="mnist1d", n_training=14_000),
        SGD,
        width=64,
        batches=(3, 7, 11),
        least_steps=48,
        critical=500,
        targets=(1.5, 1.1),
        log2_rate=-2.5,
    ),
    task(
        "signals-convolutions",
        classes(data="mnist1d", model="convolutions"),
        SGD,
        width=16,
        batches=(3, 6, 11),
        least_steps=100,
        critical=250,
        targets=(1.1, 0.7),
        log2_rate=-4,
    ),
    task(
        "signals-labels-.5-wrong",
        classes(data="mnist1d", model="convolutions", n_training=14_000, label_noise=0.5),
        SGD,
        width=8,
        batches=(4, 8, 12),
        apart=2,
        least_steps=80,
        critical=400,
        targets=(1.85, 1.65),
        log2_rate=-3,
    ),
    task(
        "signals-labels-.8-wrong",
        classes(data="mnist1d", n_training=14_000, label_noise=0.8),
        SGD,
        width=64,
        batches=(6, 10, 14),
        apart=2,
        least_steps=40,
        critical=3500,
        targets=(2.1, 2.0),
        log2_rate=-1,
    ),
    BIGRAMS,
    task(
        "bytes-of-4",
        source("mlp", context=4, depth=2),
        ADAM,
        width=32,
        batches=(4, 8, 14),
        apart=2,
        least_steps=55,
        critical=1000,
        targets=(2.5, 2.25),
        log2_rate=-5.5,
    ),
    task(
        "bytes-of-16",
        source("mlp", context=16, depth=3),
        ADAM,
        width=64,
        batches=(5, 9, 13),
        apart=2,
        least_steps=110,
        critical=1000,
        targets=(2.35, 2.15),
        log2_rate=-6.5,
    ),
    task(
        "transformer-of-8",
        source("transformer", context=8, depth=1),
        ADAM,
        width=32,
        batches=(2, 6, 10),
        apart=2,
        least_steps=55,
        critical=150,
        targets=(2.5, 2.3),
        log2_rate=-6.5,
    ),
    task(
        "transformer-of-32",
        source("transformer", context=32, depth=1),
        ADAM,
        width=48,
        batches=(2, 5, 8),
        least_steps=80,
        critical=75,
        targets=(2.4, 2.2),
        log2_rate=-6.5,
    ),
    task(
        "transformer-of-64",
        source("transformer", context=64, depth=1),
        ADAM,
        width=32,
        batches=(0, 3, 6),
        least_steps=55,
        critical=20,
        targets=(2.6, 2.4),
        log2_rate=-7,
    ),
    LONG_CONTEXT,
)
BATCHES = BatchStudy(
    name="noise_ladder",
    question="Does the noise scale predict the useful batch of real networks, easy and hard?",
    tasks=tuple(
        replace(part, study=replace(part.study, seeds=SEEDS[:2]))
        for part in (EASY_DIGITS, DIGITS, NOISY_DIGITS, EASY_SIGNALS, BIGRAMS, LONG_CONTEXT)
    ),
)
