"""How long a run trains, on pages: the horizon of a size, what rules say, AdamW's timescale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extrap.forecasting import Forecast
from extrap.forecasting.timescale import LARGEST_CONSTANT_EXPONENT, Timescale
from extrap.reading.names import kind_of
from extrap.records import Measure, Point, RuleRegret
from extrap.records.numbers import (
    format_cost,
    format_decimals,
    format_estimate,
    format_factor,
    format_quantity,
    name_size,
)
from extrap.reporting.blocks import Block, Paragraph
from extrap.reporting.tables import Table, dashed, tabulated

RULE_NAMES = {
    "fitted": "the law of this sweep",
    "constant": "constant",
    "inverse_width": "1 / width (μTransfer)",
    "inverse_root_width": "1 / √width",
    "inverse_root_tokens": "1 / √tokens",
    "bjorck_tokens": "tokens^−0.32 (Bjorck et al.)",
    "bjorck": "params^−0.23 tokens^−0.32 (Bjorck et al.)",
    "step_law_lr": "1.79 params^−0.713 tokens^0.307 (Step Law)",
    "step_law_tokens": "tokens^0.307 (Step Law, whose batch grows)",
    "step_law_batch": "0.58 tokens^0.571 (Step Law)",
    "deepseek_lr": "0.3118 FLOPs^−0.125 (DeepSeek)",
    "deepseek_batch": "0.292 FLOPs^0.3271 (DeepSeek)",
    "constant_timescale": "constant timescale of AdamW, other values kept",
    "power_lines_decay": "timescale as (tokens / params)^−0.527 (Power Lines)",
    "power_lines_batch": "tokens^0.383 (Power Lines)",
}
"""Key of a rule → what a page calls it."""


def whole_size(forecast: Forecast, size: Mapping[str, float]) -> dict[str, float]:
    """A size with its horizon, where that is known and no size of its own.

    Of tokens alone, with the one model that was trained for them.
    """
    sizes, horizon = forecast.runs.sizes, forecast.horizon
    beside = [] if horizon is None else [horizon]
    if len(sizes) == 1 and kind_of(sizes[0]) == "tokens":
        models = [s for s in forecast.settings if s.role in ("params", "width") and not s.powers]
        beside += models[-1:]
    values = {setting.column: setting.value(size) for setting in beside}
    return {**size, **{c: v for c, v in values.items() if v is not None and c not in size}}


def rules_sentence(forecast: Forecast, point: Point) -> str:
    """Between which values known rules put each tuned one at a horizon that was never varied."""
    if not point.rules:
        return ""
    size = {c: point.size[c] for c in forecast.runs.sizes}
    here = forecast.point(size)
    sentences = []
    for name, value in here.recommended.items():
        rules = sorted((r for r in point.rules if r.tuned == name), key=lambda rule: rule.value)
        if value is None or not rules:
            continue
        lowest, highest = rules[0], rules[-1]
        ends = " to ".join(
            f"{format_quantity(rule.value)} ({RULE_NAMES[rule.rule]})"
            for rule in (lowest, highest)
        )
        spread = format_factor(highest.value / lowest.value)
        sentences.append(
            f"From {name} {format_quantity(value)} at {name_size(whole_size(forecast, size))}, "
            f"known rules give {ends}, a factor of {spread.removesuffix('×')} apart."
        )
    return " ".join(sentences)


def rules_tables(points: Sequence[Point]) -> list[Table]:
    """What each rule says at each of some sizes; nothing where there is none."""
    return [rules_table(point) for point in points if point.rules]


def rules_table(point: Point) -> Table:
    """What each rule says at a size and, where it can be told, what it would cost."""
    columns = {
        "rule": lambda rule: RULE_NAMES[rule.rule],
        "value": lambda rule: f"{rule.tuned} {format_quantity(rule.value)}",
    }
    if not point.is_never_varied:
        columns |= {
            "octaves from the optimum": lambda rule: dashed(rule.octaves, _signed),
            "predicted extra loss": lambda rule: dashed(rule.expected_regret, format_cost),
        }
    title, is_several = f"Known rules at {name_size(point.size)}", len(point.tuned) > 1
    note = "Each rule moves one value alone, the others stay." if is_several else ""
    return tabulated(title, _in_order(point), columns, note=note)


def _in_order(point: Point) -> list[RuleRegret]:
    """By tuned column, cheapest or smallest first."""
    names = list(point.tuned)
    return sorted(
        point.rules,
        key=lambda rule: (
            names.index(rule.tuned),
            rule.value if rule.expected_regret is None else rule.expected_regret,
        ),
    )


def timescale_sentences(timescale: Timescale | None) -> list[str]:
    """What the timescale of the best values is, whether it stays, and what moves along it cost."""
    if timescale is None:
        return []
    level = timescale.level
    value = format_estimate(timescale.value.value, timescale.value.ci, level)
    text = (
        f"The timescale of AdamW at the best values, {timescale.formula}, is {value} of the run "
        f"at {name_size(timescale.size)}."
    )
    sentences = [text]
    for column, exponent in timescale.exponents.items():
        power = format_estimate(exponent.value, exponent.ci, level)
        sentences.append(f"It goes as {column} to the power of {power}: {_course(exponent)}.")
    if timescale.octave_costs:
        rate, decay, _ = timescale.octave_costs
        rate_cost, decay_cost, both_cost = map(format_cost, timescale.octave_costs.values())
        sentences.append(
            f"Doubling or halving {rate} alone costs {rate_cost}, {decay} alone {decay_cost}, "
            f"both against each other, so that the timescale stays, {both_cost}."
        )
        kept_costs = [format_cost(cost) for cost in timescale.kept_costs.values()]
        sentences.append(
            f"Keeping the timescale of the smallest size and tuning {rate} along it costs "
            f"{kept_costs[0]}, keeping its {rate} and tuning {decay} {kept_costs[1]}, keeping its "
            f"{decay} and tuning {rate} {kept_costs[2]}."
        )
    return [" ".join(sentences)]


def timescale_blocks(timescale: Timescale) -> list[Block]:
    """What the timescale of the best values is, in Python and in a notebook."""
    return [Paragraph(sentence) for sentence in timescale_sentences(timescale)]


def _course(exponent: Measure) -> str:
    """Whether a power of a size is none, by its interval."""
    low, high = exponent.ci
    if low is None or high is None:
        return "whether it stays cannot be told"
    if low >= -LARGEST_CONSTANT_EXPONENT and high <= LARGEST_CONSTANT_EXPONENT:
        return "it stays"
    if low > 0 or high < 0:
        return "it rises" if low > 0 else "it falls"
    return "whether it stays cannot be told"


def _signed(octaves: float) -> str:
    return format_decimals(octaves, 2, signed=True)
