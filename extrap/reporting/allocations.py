"""An allocation as plain text for a terminal."""

from __future__ import annotations

from extrap.planning import Allocation, Estimated, RepeatedData, Serving
from extrap.records import Interval, Measure
from extrap.reporting.glossary import flag_lines
from extrap.reporting.numbers import NBSP, format_quantity
from extrap.reporting.text import text_columns

__all__ = ["allocation_text", "repeated_line", "serving_line"]


def allocation_text(found: Allocation) -> str:
    """The split by every estimator, the other ways to spend the budget, and every doubt."""
    lines = [
        f"C = {found.flops:.3g} FLOPs, {found.extrapolation_ratio:.3g} times the largest "
        f"run; {found.level:.0%} intervals; the answer is {found.estimator}",
        "",
    ]
    lines += text_columns(
        ["", "params", "", "tokens", "", "tokens/param", "", "loss", "", "exponent", ""],
        [_row(name, estimated) for name, estimated in found.estimators.items()],
    )
    lines += ["", *(f"{name}: {e.how}" for name, e in found.estimators.items())]
    lines += [f"{name}: not possible: {reason}" for name, reason in found.refused.items()]
    if found.loss.value and found.forecast_loss.value:
        off = found.forecast_loss.value / found.loss.value - 1
        lines += [
            "",
            f"extrap forecast of all runs there: loss {_words(found.forecast_loss)}, "
            f"{off:+.1%} beside the answer's",
        ]
    if found.repeated is not None:
        lines += ["", repeated_line(found.repeated)]
    if found.serving is not None:
        lines += ["", serving_line(found.serving)]
    lines += [""] * bool(found.warnings or found.notes)
    lines += flag_lines(found.warnings, of="allocation")
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def _row(name: str, found: Estimated) -> list[str]:
    cells = [name]
    for measure in (found.params, found.tokens, found.tokens_per_param, found.loss):
        cells += [format_quantity(measure.value), _interval(measure.ci)]
    low, high = found.exponent.ci
    return [*cells, f"{found.exponent.value:.3f}", f"[{low:.3f}, {high:.3f}]"]


def repeated_line(found: RepeatedData) -> str:
    """The split on repeated data."""
    return (
        f"with {format_quantity(found.unique_tokens)} unique tokens: "
        f"{_words(found.params)} parameters, {_words(found.tokens)} tokens, "
        f"{_words(found.epochs)} epochs worth {_words(found.effective_epochs)}, "
        f"loss {_words(found.loss)}"
    )


def serving_line(found: Serving) -> str:
    """The split that counts serving."""
    saving = found.saving.value or 0.0
    return (
        f"with {format_quantity(found.inference_tokens)} tokens to serve, at the same loss: "
        f"{_words(found.params)} parameters, {_words(found.tokens)} tokens, "
        f"{found.total_flops.value:.3g} FLOPs in all, {saving:.1%} fewer"
    )


def _words(measure: Measure) -> str:
    return f"{format_quantity(measure.value)} {_interval(measure.ci)}"


def _interval(interval: Interval) -> str:
    return f"[{format_quantity(interval.lower)}, {format_quantity(interval.upper)}]"
