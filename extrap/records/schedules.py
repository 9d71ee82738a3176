"""Learning-rate schedules, as multiples of the peak rate."""

from __future__ import annotations

import math

from extrap.records.recipe import Recipe


def multiplier(recipe: Recipe, step: int) -> float:
    """Warm-up, then the schedule's own course: what the peak rate is multiplied by.

    With W = warmup · T, the update after `step` earlier ones is scaled by (step + 1) / W while
    that is below 1. From then on by 1 (`constant`), by (T − step) / D over the last D steps
    (`linear`: D = T − W; `wsd`: D = decay · T), by 1 − √x, x = 1 − (T − step) / D, over these
    (`wsd-sqrt`), or by ½ (1 + cos π x), x = (step − W) / (T − W) (`cosine`). With `steps` it is a
    constant of each phase, 1 throughout where the batch grows instead. It is never 0, so no update
    is wasted.

    Args:
        recipe: Gives T, W, D and the schedule.
        step: Updates already made, 0 to T − 1, or to the last of fewer where the batch grows.

    References:
        Loshchilov and Hutter 2017, arXiv 1608.03983, Eq. 5 (cosine, without restarts); Hu et al.
        2024, "MiniCPM", arXiv 2404.06395, Sec. 4 (warm-up, stable, decay); Hägele et al. 2024,
        arXiv 2405.18392, Sec. 3 (1 − √x).
    """
    total = recipe.steps
    warmup = recipe.warmup * total
    rising = (step + 1) / warmup if warmup else 1.0
    match recipe.schedule:
        case "constant":
            falling = 1.0
        case "steps":
            falling = recipe.phase_at(step).rate
        case "cosine":
            fraction = max(0.0, (step - warmup) / (total - warmup))
            falling = 0.5 * (1.0 + math.cos(math.pi * fraction))
        case "linear":
            falling = (total - step) / (total - warmup)
        case _:
            decay = recipe.decay * total
            falling = (total - step) / decay if decay else 1.0
            if recipe.schedule == "wsd-sqrt":
                falling = 1.0 - math.sqrt(max(0.0, 1.0 - falling))
    return min(1.0, rising, falling)
