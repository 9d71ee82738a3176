"""Learning-rate schedules, as multiples of the peak rate."""

from __future__ import annotations

from extrap.records import Recipe

__all__ = ["multiplier"]


def multiplier(recipe: Recipe, step: int) -> float:
    """Trapezoid: linear warm-up, constant, linear decay to 0.

    With warm-up over W steps and decay over the last D of T steps, the update after `step` earlier
    ones is scaled by min(1, (step + 1) / W, (T − step) / D): never 0, so no update is wasted.

    Args:
        recipe: Gives T, W = warmup · T, D = decay · T.
        step: Updates already made, 0 to T − 1.
    """
    warmup = recipe.warmup * recipe.steps
    decay = recipe.decay * recipe.steps
    rising = (step + 1) / warmup if warmup else 1.0
    falling = (recipe.steps - step) / decay if decay else 1.0
    return min(1.0, rising, falling)
