"""The backtest as an answer and tables."""

from __future__ import annotations

import math
from functools import partial

from extrap.analyses.sweep.horizon_page import RULE_NAMES
from extrap.forecasting.backtesting import Backtest, Holdout
from extrap.records.numbers import (
    NBSP,
    counted,
    format_cost,
    format_decimals,
    format_estimate,
    format_factor,
    format_level,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
)
from extrap.reporting.blocks import Answer, Block, Paragraph
from extrap.reporting.tables import Table, dashed, tabulated

SHOWN_REASONS = 2
"""Reasons of missing predictions that are given."""


def backtest_answer(backtest: Backtest) -> Answer:
    """How far off forecasts from a part of the sweep were, and what their intervals held."""
    total = backtest.summary().iloc[-1]
    counts = sorted({h.n_fitted for h in backtest.holdouts})
    fitted = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    held = sum(h.observed in h.predicted_pi for h in backtest.holdouts)
    farthest = max(h.extrapolation_ratio for h in backtest.holdouts)
    ratio = format_quantity(farthest, digits=2)
    text = (
        f"Fitted to the smallest {fitted} of {backtest.n_sizes} sizes, the forecast misses the "
        f"larger ones, up to {ratio} times as large, by {_off(total['rms_error'])} "
        "(root mean square)"
    )
    if total["last_value_rms_error"] > 0:  # False for a missing value too
        text += f", assuming no improvement by {_off(total['last_value_rms_error'])}"
    level, n = format_level(backtest.level), len(backtest.holdouts)
    return Answer(text=f"{text}. Its {level} intervals held {held} of {n}.")


def backtest_blocks(backtest: Backtest) -> list[Block]:
    """The answer and the scores by extrapolation ratio."""
    failures = map(Paragraph, failure_sentences(backtest))
    tables = [summary_table(backtest), *backtested_rules_tables(backtest)]
    return [backtest_answer(backtest), *tables, *failures]


def failure_sentences(backtest: Backtest) -> list[str]:
    """How many predictions are missing, and why."""
    if not backtest.failures:
        return []
    missing = counted(backtest.n_failed, "more prediction")
    sentences = [f"{missing} could not be made or judged."]
    for reason, count in backtest.failures[:SHOWN_REASONS]:
        sentences.append(
            f"{count}: {reason}" if len(backtest.failures) > 1 else f"Reason: {reason}"
        )
    return sentences


def tuned_sentences(backtest: Backtest) -> list[str]:
    """How far the optimum of each tuned value lay from its forecast."""
    sentences = []
    for name in backtest.runs.tuned:
        octaves = [h.tuned_octaves[name] for h in backtest.holdouts]
        known_octaves = [value for value in octaves if value is not None]
        if known_octaves:
            rms = math.sqrt(sum(value**2 for value in known_octaves) / len(known_octaves))
            octaves_off, factor = format_decimals(rms, 2), format_decimals(2**rms, 2)
            sentences.append(
                f"The best {name} lay {octaves_off} octaves from its forecast, a factor of "
                f"{factor} (root mean square of {len(known_octaves)})."
            )
    return sentences


def summary_table(backtest: Backtest) -> Table:
    """Scores by extrapolation ratio, one row a bin and one for all."""
    summary = backtest.summary()
    levels = [str(name) for name in summary if str(name).startswith("coverage_")]
    held = {
        f"held at {name.removeprefix('coverage_')}{NBSP}%": lambda row, name=name: format_level(
            round(row[name], 2)
        )
        for name in levels
    }
    return tabulated(
        "Scores of the held-out sizes, by how far they lie beyond the fitted ones",
        summary.to_dict("records"),
        {
            "extrapolation ratio": lambda row: str(row["extrapolation_ratio"]),
            "predictions": lambda row: str(row["n"]),
            **held,
            "error": lambda row: _off(row["rms_error"]),
            "last value's error": lambda row: _off(row["last_value_rms_error"]),
            "skill": lambda row: (
                "–" if math.isnan(row["skill"]) else format_decimals(row["skill"], 2)
            ),
            "bias": lambda row: format_percent(row["bias"]),
        },
        note="The predictions share data and are not independent. Error and bias are root mean "
        "square and mean of ln observed − ln forecast, skill is 1 − error / last value's "
        "error.",
    )


def backtested_rules_tables(backtest: Backtest) -> list[Table]:
    """What known rules would have cost at the held-out sizes, beside the law; or nothing."""
    costs = backtest.rule_costs()
    if costs.empty:
        return []
    table = tabulated(
        "Known rules at the held-out sizes, from the fitted ones",
        costs.to_dict("records"),
        {
            "tuned": lambda row: row["tuned"],
            "rule": lambda row: RULE_NAMES[row["rule"]],
            "predictions": lambda row: str(row["n"]),
            "mean extra loss": lambda row: format_cost(row["mean_cost"]),
            "largest": lambda row: format_cost(row["largest_cost"]),
            "rms octaves off": lambda row: format_decimals(row["rms_octaves"], 2),
        },
        note="Extra loss over the best value of each held-out size, as the fit of all runs has "
        "it; sizes at which the fitted ones give no value are left out.",
    )
    return [table]


def holdouts_table(backtest: Backtest) -> Table:
    """Every prediction of a held-out size."""
    tuned = backtest.runs.tuned
    write_octaves = partial(format_decimals, decimals=2, signed=True)
    rows = [
        (
            *map(format_quantity, h.size.values()),
            str(h.n_fitted),
            format_factor(h.extrapolation_ratio),
            format_value(h.observed, _se(h)),
            format_estimate(h.predicted, h.predicted_pi),
            format_percent(h.deviation),
            dashed(h.last_deviation, format_percent),
            format_p_value(h.p_value),
            *(dashed(h.tuned_octaves[name], write_octaves) for name in tuned),
        )
        for h in backtest.holdouts
    ]
    columns = [*backtest.runs.sizes, "sizes fitted", "extrapolation ratio", "observed ± se"]
    columns += [f"forecast ({format_level(backtest.level)})", "against forecast"]
    columns += ["against last value", "p-value", *(f"best {n}, octaves off" for n in tuned)]
    return Table("Held-out sizes", columns, rows)


def _se(holdout: Holdout) -> float | None:
    se = holdout.observed_log_se
    return None if se is None else se * holdout.observed


def _off(log_error: float) -> str:
    """A root mean square of log losses in percent; a dash for a missing one."""
    return "–" if math.isnan(log_error) else format_percent(log_error, signed=False)
