"""How large a batch is useful, at which learning rate, and how does that move with size?

The byte MLP is trained at a constant rate, tuned anew at every batch size from 16 to 2,048 and at
five widths, until it reaches three losses. The steps that takes make a hyperbola over the batch,
whose corner is the critical batch size.

Expected: the critical batch grows as the loss falls and hardly with the width; the best rate of
Adam grows about as the square root of the batch and then levels off; the noise scale grows during
training, and over the loss it is one curve for all widths.

Found: the critical batch goes as loss^-6.8 (-8.2 to -5.3) and width^-.13 (-.29 to .03), at width
64 and a loss of 2.3 it is 650 (530 to 810). The rate goes as batch^.40 (.35 to .45), less
than the square root. The noise scale grows during training by a factor of about four in ten times
the steps; over the loss the widths lie on one curve.

Cost: 648 runs, seven minutes on two cores. Larger on a GPU: `--set
tasks.0.study.sizes.width=16,32,64,128,256`.

Papers: McCandlish et al. 2018, arXiv 1812.06162; Shallue et al. 2018, arXiv 1811.03600; Zhang et
al. 2024, arXiv 2410.21676.
"""

from __future__ import annotations

from extrap.analyses.batch_size import BatchStudy, BatchTask
from extrap.records import Recipe, StudySpec, TunedRange, Workload

BATCHES = BatchStudy(
    name="batch_size",
    question="How large a batch is useful, and which learning rate goes with it?",
    tasks=(
        BatchTask(
            study=StudySpec(
                name="bytes",
                question="Steps to a loss against batch size, by width",
                workload=Workload(name="bytes-mlp"),
                recipe=Recipe(schedule="constant", warmup=0.0, noise_every=10),
                sizes={"width": (16, 24, 32, 48, 64)},
                tune={"lr": TunedRange(low=2**-9, high=2**-6, n=4)},
                seeds=(0, 1, 2),
                target_seeds=(0, 1),
            ),
            steps={
                16: 5600,
                32: 3000,
                64: 1900,
                128: 1000,
                256: 600,
                512: 390,
                1024: 250,
                2048: 200,
            },
            targets=(2.6, 2.45, 2.3),
            reference_batch=128,
            noise_batch=256,
        ),
    ),
)
