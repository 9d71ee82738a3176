"""What a training function or command may answer, as the result of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from extrap.records import Cell, RunResult

COST_NAMES = ("n_params", "n_params_total", "n_tokens", "epochs", "flops", "updates", "cost")
"""Numbers that an answer may have beside its loss, or the path of the study may tell; `cost` is in
a unit of the user's own."""
WHOLE_COST_NAMES = ("n_params", "n_params_total", "n_tokens", "updates")
"""Of them, those that are whole numbers."""
KEYS = ("loss", "curve", "initial_loss", "diverged_step", *COST_NAMES)
"""Keys that an answer may have."""
MOST_POINTS = 1000
"""Of a longer curve every other point is left out, as often as it takes."""


def read_answer(
    answer: object, cell: Cell, *, wall_s: float, size_values: Mapping[str, float]
) -> RunResult:
    """The result of a run from what trained it.

    Args:
        answer: The final loss, nan or inf for a diverged run; a mapping with `loss` and any of
            `KEYS`; or a `RunResult`.
        cell: What was trained.
        wall_s: Seconds it took.
        size_values: Numbers that the size tells; those of `COST_NAMES` are taken where the
            answer has none.
    """
    if isinstance(answer, RunResult):
        if answer.cell != cell:
            raise ValueError(
                f"train= must return the result of the cell it was given, {cell}; got "
                f"{answer.cell}."
            )
        return answer
    parts: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {"loss": answer}
    _require_keys(parts)
    loss = _number(parts["loss"], answer)
    initial, step = parts.get("initial_loss"), parts.get("diverged_step")
    is_finite = math.isfinite(loss)
    return RunResult(
        cell=cell,
        status="complete" if is_finite else "diverged",
        loss=loss if is_finite else None,
        initial_loss=None if initial is None else _number(initial, answer),
        curve=read_curve(parts.get("curve", ()), last=loss),
        diverged_step=None if step is None else int(_optional("diverged_step", step)),
        wall_s=wall_s,
        **{**_costs(size_values), **_costs(parts)},
    )


def read_curve(points: Any, *, last: float) -> tuple[tuple[int, float], ...]:
    """A loss curve of rising steps and finite losses from pairs of a step and a loss.

    Where steps go back, as after a restart, what came before of them is left out. Of a run that
    did not diverge the final loss takes the place of the last one.
    """
    curve: list[tuple[int, float]] = []
    try:
        for step, loss in points:
            number = int(step)
            while curve and curve[-1][0] >= number:
                curve.pop()
            if math.isfinite(float(loss)):
                curve.append((number, float(loss)))
    except (TypeError, ValueError):
        raise TypeError(
            f"a curve must be a list of (step, loss) pairs, got {str(points)[:80]}; write "
            "'curve': [(100, 2.5), (200, 2.1)]."
        ) from None
    while len(curve) > MOST_POINTS:
        curve = [*curve[:-1:2], curve[-1]]
    if curve and math.isfinite(last):
        curve[-1] = (curve[-1][0], last)
    return tuple(curve)


def _require_keys(parts: Mapping[str, Any]) -> None:
    for key in parts:
        if key not in KEYS:
            raise TypeError(
                f"train= may return the keys {', '.join(KEYS)}; got {key!r}; leave it out."
            )
    if "loss" not in parts:
        raise TypeError(
            "train= must return a loss, got only "
            f"{', '.join(map(repr, parts)) or 'nothing'}; add 'loss'."
        )


def _number(value: Any, answer: object) -> float:
    try:
        if _is_truth(value):
            raise TypeError
        return float(value)
    except OverflowError:  # a whole number beyond the floats
        return math.inf
    except (TypeError, ValueError):
        raise TypeError(
            "train= must return the final loss as a number (nan for a diverged run), a "
            f"mapping with 'loss', or a RunResult; got {str(answer)[:80]}."
        ) from None


def _costs(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The costs among the parts of an answer; of those that are None nothing is known."""
    numbers = {
        name: _optional(name, parts[name]) for name in COST_NAMES if parts.get(name) is not None
    }
    return {name: round(v) if name in WHOLE_COST_NAMES else v for name, v in numbers.items()}


def _optional(name: str, value: Any) -> float:
    """A cost, or the step of divergence; NaN stands for what is no number."""
    number, is_step = math.nan, name == "diverged_step"
    with suppress(TypeError, ValueError, OverflowError):
        number = math.nan if _is_truth(value) else float(value)
    if not ((number >= 0 and number.is_integer()) if is_step else 0 < number < math.inf):
        rule = "a whole number of at least 0" if is_step else "a finite number above 0"
        raise ValueError(
            f"{name} must be {rule}, train= returned {str(value)[:40]!r}; leave it out if unknown."
        )
    return number


def _is_truth(value: object) -> bool:
    """Whether a value is True or False, of NumPy too, which Python would count as 1 and 0."""
    return type(value).__name__ in ("bool", "bool_")
