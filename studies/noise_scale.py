"""Does the gradient noise scale predict how large a batch is useful?

Seven tasks whose noise scales were expected to span more than three decades: linear teachers with
more and more label noise, scikit-learn's digits, the byte MLP, a small transformer. Each has two
targets: fourteen pairs of a mean noise scale up to the target, measured along the best runs at one
batch, and a critical batch size, counted in a hundred runs at many. Tasks and targets were fixed
after trial runs of what they cost.

Expected: on log axes the two agree within a factor of ten everywhere, and a line explains 80 % of
the variance (McCandlish et al.: r² of 80 % over six decades). They are not the same thing: the
noise scale assumes plain SGD and a Hessian like the identity.

Found: over 14 pairs and 3.4 decades r² of the logs is .93, the worst pair 5.7 apart; the critical
batch is .58 times the noise scale in the mean and less for the teachers with more noise, whose
Hessian is far from the identity.

Cost: 732 runs, five minutes on two cores. Larger on a GPU: `--set
tasks.6.study.sizes.width=128`.

Paper: McCandlish et al. 2018, "An empirical model of large-batch training", arXiv 1812.06162.
"""

from __future__ import annotations

from extrap.analyses.batch_size import BatchStudy, BatchTask
from extrap.records import Recipe, StudySpec, TunedRange, Workload


def teacher(
    name: str,
    *,
    noise: float,
    width: int,
    steps: dict[int, int],
    targets: tuple[float, float],
    reference: int,
    noise_batch: int,
    middle: float,
    n_examples: int = 65_536,
) -> BatchTask:
    """A linear teacher with so much label noise; `middle` is log2 of the middle rate."""
    return BatchTask(
        study=StudySpec(
            name=name,
            question="Steps to a loss against batch size",
            workload=Workload(
                name="studies/teacher_workload.py:Teacher",  # from the directory you start in
                options={
                    "noise": noise,
                    "alpha": 0.5,
                    "spectrum": 1.5,
                    "n_features": width,
                    "n_examples": n_examples,
                },
            ),
            recipe=Recipe(
                optimizer="sgd",
                momentum=0.0,
                schedule="constant",
                warmup=0.0,
                noise_every=1,
                n_evals=100,
            ),
            sizes={"width": (width,)},
            tune={"lr": TunedRange(low=2 ** (middle - 2), high=2 ** (middle + 2), n=5)},
            seeds=(0, 1, 2, 3),
            growth=6,
        ),
        steps=steps,
        targets=targets,
        reference_batch=reference,
        rate_exponent=0.5,
        noise_batch=noise_batch,
    )


TEACHERS = (
    teacher(
        "teacher-0",
        noise=0.0,
        width=8,
        steps={1: 1600, 2: 900, 4: 600, 8: 400, 16: 250, 32: 150, 64: 100, 128: 80},
        targets=(0.24284, 0.20169),
        reference=16,
        noise_batch=128,
        middle=-1.0,
    ),
    teacher(
        "teacher-1",
        noise=1.0,
        width=64,
        steps={16: 1500, 64: 600, 256: 250, 1024: 150, 4096: 100},
        targets=(0.65625, 0.60938),
        reference=256,
        noise_batch=1024,
        middle=-0.5,
    ),
    teacher(
        "teacher-3",
        noise=3.0,
        width=64,
        steps={64: 3000, 256: 1000, 1024: 400, 4096: 200, 16384: 100},
        targets=(4.65625, 4.60938),
        reference=1024,
        noise_batch=4096,
        middle=-1.0,
    ),
    teacher(
        "teacher-10",
        noise=10.0,
        width=64,
        steps={256: 6000, 1024: 1800, 4096: 600, 16384: 250, 32768: 150},
        targets=(50.15625, 50.10938),
        reference=4096,
        noise_batch=32768,
        middle=-1.5,
        n_examples=524_288,  # with fewer, least squares on them does not reach the targets
    ),
)
DIGITS = BatchTask(
    study=StudySpec(
        name="digits",
        question="Steps to a loss against batch size",
        workload=Workload(name="studies/digits_workload.py:Digits"),  # from where you start
        recipe=Recipe(optimizer="sgd", schedule="constant", warmup=0.0, noise_every=2),
        sizes={"width": (32,)},
        tune={"lr": TunedRange(low=2**-7, high=2**-3, n=5)},
        seeds=(0, 1, 2),
    ),
    steps={4: 1500, 8: 800, 16: 450, 32: 280, 64: 180, 128: 120, 256: 90, 512: 80},
    targets=(0.5, 0.3),
    reference_batch=32,
    rate_exponent=0.75,
    noise_batch=256,
)
BYTES = BatchTask(
    study=StudySpec(
        name="bytes-mlp",
        question="Steps to a loss against batch size",
        workload=Workload(name="bytes-mlp"),
        recipe=Recipe(schedule="constant", warmup=0.0, noise_every=4),
        sizes={"width": (32,)},
        tune={"lr": TunedRange(low=2**-9, high=2**-6, n=4)},
        seeds=(0, 1, 2),
    ),
    steps={16: 5500, 64: 1700, 256: 600, 1024: 280, 4096: 180},
    targets=(2.6, 2.3),
    reference_batch=256,
    noise_batch=1024,
)
TRANSFORMER = BatchTask(
    study=StudySpec(
        name="transformer",
        question="Steps to a loss against batch size",
        workload=Workload(name="bytes-transformer", options={"context": 32, "depth": 1}),
        recipe=Recipe(schedule="constant", warmup=0.0, noise_every=4),
        sizes={"width": (32,)},
        tune={"lr": TunedRange(low=2**-8, high=2**-5, n=4)},
        seeds=(0, 1),
    ),
    steps={4: 2000, 8: 1100, 16: 650, 32: 420, 64: 280, 128: 200},
    targets=(2.5, 2.3),
    reference_batch=32,
    noise_batch=128,
)

BATCHES = BatchStudy(
    name="noise_scale",
    question="Does the gradient noise scale predict how large a batch is useful?",
    tasks=(*TEACHERS, DIGITS, BYTES, TRANSFORMER),
)
