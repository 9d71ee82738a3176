"""Sweeps over model sizes and tokens whose best rate is known."""

import itertools

import numpy as np
import pandas as pd

PARAMS = (1e7, 3e7, 1e8)
TOKENS = (2e8, 8e8, 3.2e9, 1.28e10)
BATCH = 2.0**18


def best_lr(params, tokens):
    return 0.004 * (params / 1e7) ** -0.4 * (tokens / 1e9) ** -0.2


def best_decay(params, tokens):
    """With the best rate a timescale of .05 of the run."""
    return BATCH / (best_lr(params, tokens) * 0.05 * tokens)


def loss_of(params, tokens):
    return 1.7 + 400 * params**-0.34 + 410 * tokens**-0.28


def sweep(sizes, *, decays=(0.0,), seed=0, noise=0.001):
    """Five rates a factor of 2 apart at each (params, tokens), and decays so many octaves off.

    The loss rises by .015 per squared octave of the rate along one timescale and across it.
    """
    rng, rows = np.random.default_rng(seed), []
    for (params, tokens), step, decay in itertools.product(sizes, range(-2, 3), decays):
        u = step + float(rng.uniform(-0.4, 0.4))
        loss = loss_of(params, tokens) * (1 + 0.01 * u**2 + 0.01 * (u + decay) ** 2)
        row = {"params": params, "tokens": tokens, "lr": best_lr(params, tokens) * 2.0**u}
        if len(decays) > 1:
            row["batch_size_tokens"] = BATCH
            row["weight_decay"] = best_decay(params, tokens) * 2.0**decay
        rows.append({**row, "loss": loss * np.exp(noise * rng.normal())})
    return pd.DataFrame(rows)


def grid(params=PARAMS, tokens=TOKENS):
    return list(itertools.product(params, tokens))
