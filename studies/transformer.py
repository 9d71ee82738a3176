"""A sweep of a small transformer over model size and data: where do rate and batch size go?

Question: how do the best learning rate and batch size move with width and tokens, and what loss
does a larger transformer reach on more data?

Expected: the best rate falls with width, the best batch size grows with the tokens, as Step Law
has it for large models; the loss falls as a power of both.

Found: the best rate goes as width^(-.86 ± .05) and tokens^(.21 ± .05), the best batch size as
width^(-.06 ± .06) and tokens^(.71 ± .06). Two runs of width 96 on 524,288 tokens at the
recommended values, .0044 and batches of 15, end at 1.704; the forecast was 1.757 (1.680 to
1.838). Two at the values of the smallest size end 9.3 % higher.

Cost: 450 runs of 65 thousand to 262 thousand tokens and four larger ones, eight minutes on two
fast processor cores, half an hour on two slow ones. Smaller: `--set seeds=0`; larger: `--set
sizes.width=16,32,64,96,128`.

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
