"""A sweep of a small transformer over model size and data: where do rate and batch size go?

Question: how do the best learning rate and batch size move with width and tokens, and what loss
does a larger transformer reach on more data?

Expected: the best rate falls with width, the best batch size grows with the tokens, as Step Law
has it for large models; the loss falls as a power of both. Found: rate as width^-.88 and
tokens^.18, batch size as tokens^(.66 ± .06) and hardly with width.

Cost: 450 runs of 65 thousand to 262 thousand tokens and two larger ones, eight minutes on two
processor cores. Smaller: `--set seeds=0`; larger: `--set sizes.width=16,32,64,96,128`.

Papers: Li et al. 2025, "Predictable scale: Part I, Step Law", arXiv 2503.04715; Hoffmann et al.
2022, "Training compute-optimal large language models", arXiv 2203.15556.
"""

from __future__ import annotations

from extrap.records import Recipe, StudySpec, Target, TunedRange, Workload

STUDY = StudySpec(
    name="transformer",
    question="Where do the best rate and batch size of a transformer go with size and data?",
    workload=Workload(name="bytes-transformer", options={"context": 16}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1, beta2=0.95, clip=1.0, schedule="cosine"),
    sizes={"width": (16, 32, 64), "tokens": (2**16, 2**17, 2**18)},
    tune={
        "lr": TunedRange(low=2**-9, high=2**-5, n=5),
        "batch_size": TunedRange(low=2, high=32, n=5),
    },
    seeds=(0, 1),
    targets=(Target(size={"width": 96, "tokens": 2**19}),),
    growth=0,
)
