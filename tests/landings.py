"""Runs whose loss follows the law of landings, summed step by step; their logs as tables."""

from typing import NamedTuple

import numpy as np
import pandas as pd

TOTAL = 10_000
WARMUP = 200


class Shape(NamedTuple):
    """Loss at the end of a constant rate, what is left to learn there and what the rate adds."""

    loss: float = 3.0
    left: float = 0.25
    exponent: float = 0.5
    added: float = 0.16
    lag: float = 0.004
    power: float = 0.78
    fading: float = 0.0


USUAL = Shape()


def drawn_shape(rng):
    """A shape such as language models have."""
    left = 0.25 * np.exp(0.35 * rng.normal())
    return Shape(
        left=left,
        exponent=0.5 * np.exp(0.12 * rng.normal()),
        added=left * 0.65 * np.exp(0.4 * rng.normal()),
        lag=0.004 * np.exp(0.6 * rng.normal()),
        power=0.78 + 0.08 * rng.normal(),
        fading=0.1 * rng.normal(),
    )


def rates(kind, total=TOTAL, *, warmup=WARMUP, decay=0.2, final=0.0):
    """The rate over its peak at steps 0 to the last, by the formulas in words."""
    step = np.arange(total + 1.0)
    x = np.clip((step - warmup) / (total - warmup), 0, 1)
    left = {
        "constant": np.ones_like(x),
        "linear": 1 - x,
        "cosine": (1 + np.cos(np.pi * x)) / 2,
        "wsd": np.clip((total - step) / (decay * total), 0, 1),
    }[kind]
    return np.where(step < warmup, step / warmup, final + (1 - final) * left)


def law(rate, shape=USUAL):
    """The loss after each step: L + A·(S/S_T)^-a + B·(S/S_T)^-d·N, N with a lag in the sum."""
    progress = np.cumsum(rate**0.65)
    lag = shape.lag * rate.sum()
    felt = np.zeros_like(rate)  # N
    for k in range(1, len(rate)):
        gap = felt[k - 1] - rate[k - 1] ** shape.power
        felt[k] = rate[k] ** shape.power + (
            gap - (rate[k] ** shape.power - rate[k - 1] ** shape.power)
        ) * np.exp(-rate[k] / lag)
    share = np.maximum(progress, 1e-9) / progress[-1]
    floor = shape.loss - shape.left
    return floor + shape.left * share**-shape.exponent + shape.added * share**-shape.fading * felt


def drift(rate, rng, *, sd=0.0015):
    """The law's own relative error: a Brownian motion in ln(step) + 4 · path of √rate."""
    clock = np.r_[0.0, np.log(np.arange(1.0, len(rate)))]
    clock += 4 * np.cumsum(np.abs(np.diff(np.sqrt(rate), prepend=0.0)))
    return sd * np.cumsum(np.sqrt(np.diff(clock, prepend=0.0)) * rng.normal(size=len(rate)))


def run_log(
    kind="cosine",
    *,
    shape=USUAL,
    noise=0.001,
    seed=0,
    every=50,
    until=1.0,
    peak=5e-4,
    **schedule,
):
    """A table of step, loss and lr up to a share of the run."""
    rate = rates(kind, **schedule)
    losses = law(rate, shape)
    steps = np.arange(every, round(until * (len(rate) - 1)) + 1, every)
    rng = np.random.default_rng(seed)
    noisy = losses[steps] * (1 + noise * rng.normal(size=len(steps)))
    return pd.DataFrame({"step": steps, "loss": noisy, "lr": peak * rate[steps]})


def true_end(kind="cosine", *, shape=USUAL, **schedule):
    """The loss at the last step, without noise."""
    return float(law(rates(kind, **schedule), shape)[-1])
