"""Three or four small, noisy sizes of one run each, and the loss of a larger one.

    python -m benchmarks.few_sizes [--sweeps N] [--draws development] [--only PART …]

`ln L` is a power law, with a floor or without one, at sizes 2 to 4 times apart, and noise of 1 to
5 %; forecast are one size 4 and one 16 times as large. The straight line is that of the log losses
over ln size, and the last value that of the largest size.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.rows import Row
from benchmarks.scores import Table, score_forecast
from benchmarks.sweeps import DrawnPart, print_parts

SIZE = "width"
FAR = (4.0, 16.0)
WORSE, LEAST_HELD = 1.1, 0.85
DRAWS = {"development": 21, "report": 22}


class Drawn(NamedTuple):
    """A sweep of one run a size: log losses, and those of larger runs, one per `FAR`."""

    sizes: np.ndarray
    log_loss: np.ndarray
    ahead: np.ndarray


def draw(random: np.random.Generator, n_sizes: int) -> Drawn:
    """A law and its runs."""
    has_floor = random.random() < 0.5
    share = random.uniform(0.1, 1.0) if has_floor else 1.0
    exponent = np.exp(random.normal(np.log(0.3), 0.5))
    noise = np.exp(random.uniform(np.log(0.01), np.log(0.05)))
    sizes = 64 * random.uniform(2.0, 4.0) ** np.arange(n_sizes)
    every = np.append(sizes, sizes[-1] * np.array(FAR)) / sizes[-1]
    log_loss = np.log(3 * (1 - share + share * every**-exponent))
    log_loss += noise * random.normal(size=len(every))
    return Drawn(sizes, log_loss[:n_sizes], log_loss[n_sizes:])


def measure(n_sizes: int, random: np.random.Generator) -> dict[str, float]:
    """Errors of the log loss and what the interval holds, at each distance."""
    drawn = draw(random, n_sizes)
    runs = pd.DataFrame({SIZE: drawn.sizes, "loss": np.exp(drawn.log_loss)})
    ahead = drawn.sizes[-1] * np.array(FAR)
    made = Table("drawn", "drawn", (SIZE,), runs, runs).forecast()
    scores = score_forecast(made, [{SIZE: size} for size in ahead], np.exp(drawn.ahead))
    line = np.polyfit(np.log(drawn.sizes), drawn.log_loss, 1)
    others = {"line": np.polyval(line, np.log(ahead)), "last": np.repeat(drawn.log_loss[-1], 2)}
    found: dict[str, float] = {}
    for i, far in enumerate(FAR):
        found |= {f"{name} {far:g}": float(scores[name].iloc[i]) for name in ("error", "held_90")}
        found[f"width {far:g}"] = float(np.log1p(scores["width"].iloc[i]))
        found |= {f"{name} {far:g}": float(v[i] - drawn.ahead[i]) for name, v in others.items()}
    return found


def rows_of(part: str, found: pd.DataFrame) -> list[Row]:
    """Ours against a straight line, at each distance."""
    rows = []
    for far in FAR:
        ours, line, last = (found[f"{n} {far:g}"].abs().mean() for n in ("error", "line", "last"))
        held, bias = found[f"held_90 {far:g}"].mean(), found[f"error {far:g}"].mean()
        rows.append(
            Row(
                part=f"{part}, {len(found)} sweeps",
                figure=f"mean absolute error of the log loss at {far:g} times the largest size",
                target=f"≤ {WORSE} × the straight line, and 90 % intervals hold ≥ 85 %",
                beat=f"straight line {line:.2%}, last value {last:.2%}",
                reached=f"{ours:.2%}, bias {bias:+.2%}, holds {held:.1%} at a median width of "
                f"{found[f'width {far:g}'].median():.0%}",
                met=bool(ours <= WORSE * line and held >= LEAST_HELD),
            )
        )
    return rows


PARTS = {
    f"{n} sizes": DrawnPart(partial(measure, n), rows_of, 1000 if n == 4 else 500) for n in (3, 4)
}


if __name__ == "__main__":
    print_parts(__doc__, PARTS, DRAWS)
