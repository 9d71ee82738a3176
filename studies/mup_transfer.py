"""Under muP, is the rate tuned at the smallest width good enough for a width 32 times as large?

The recipe and the sweep of `mup.py`, with its rates tuned at widths 16 to 256. At width 512 two
runs take the recommended rate and two the rate tuned at width 16, as one does who relies on muP
and tunes only once. Under the standard rule the default study, `metz.py`, has the same runs.

Expected, written before these runs: keeping the rate costs at most 3 % of the loss under muP,
where it costs 8 % or more under the standard rule; the recommended rate is better than the kept
one in both.

Found: under muP two runs at the recommended rate, .0114, end at 1.797, the forecast being 1.804
(1.772 to 1.839). Two at the rate tuned at width 16, .0059, end 1.8 % higher; 1.9 % (.8 to 3.8 %)
was predicted. In the default study the rate of width 16 costs 10.8 % at width 512.

Cost: 120 runs of 1,000 steps and four larger ones, two minutes on two processor cores.

Paper: Yang, Hu et al. 2022, "Tensor Programs V: Tuning Large Neural Networks via Zero-Shot
Hyperparameter Transfer", arXiv 2203.03466.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.records import Target
from extrap.study import open_study

STUDY = replace(
    open_study(Path(__file__).with_name("mup.py"), symbol="STUDY").study,
    name="mup_transfer",
    question="Is the rate tuned at the smallest width good enough at width 512 under muP?",
    targets=(Target(size={"width": 512}),),
)
