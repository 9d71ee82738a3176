"""What a forecast says of its laws, of recommended values and of divergence, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extrap.fitting import CurvatureTest, LossModel, largest_chance
from extrap.forecasting import Forecast
from extrap.records import Recommendation
from extrap.records.numbers import (
    NBSP,
    format_cost,
    format_level,
    format_p_value,
    format_percent,
    format_quantity,
    name_size,
    name_tuned,
)

PINNED = "pinned: "
WORTH_TELLING = 0.01
"""Relative difference from which a recommended value is explained."""
_LOCAL_LAW = "a local law, in which the largest sizes count most,"
_LOCAL_ALONE = (
    "No law follows all sizes, so the loss forecast is that of the local law alone, in which the "
    "largest sizes count most"
)


def pins_of(forecast: Forecast) -> dict[str, float]:
    """The pinned parameters of a forecast, named as `extrap.forecast` takes them."""
    # laws may hold parameters of their own, one of a grid each: only flagged ones were given
    flagged = [flag.removeprefix(PINNED) for flag in forecast.flags if flag.startswith(PINNED)]
    given = {text.partition(" = ")[0] for text in flagged}
    pins = {
        name: value
        for fit, _ in forecast.loss_laws
        for name, value in fit.fixed.items()
        if name in given
    }
    for column, law in forecast.tuned_laws.items():
        if law is not None:
            pins |= {f"{column}.{name}": value for name, value in law.fixed.items()}
    return pins


def composition_sentence(forecast: Forecast) -> str:
    """How the forecast of the loss is composed, and what its band allows for."""
    model = forecast.loss_model
    if model is None:
        return "No law of the loss could be fitted; the loss is only bounded."
    averaged = _averaged_words(model)
    if forecast.band == "family":
        return (
            f"{averaged or _family_words(model)}. The band of the loss is that of the family: it "
            "holds if one of the laws is true, and allows for no other."
        )
    off = format_percent(model.discrepancy, signed=False)
    if averaged:
        return (
            f"{averaged}. The band allows besides for all of them being wrong by {off} of the "
            "change they predict beyond the largest size (structural discrepancy)."
        )
    start = _LOCAL_ALONE
    if model.fits:
        start = f"{_family_words(model)}; {_local_words(model)}"
    return (
        f"{start}. The band allows for laws that are wrong by {off} of the change they predict "
        "beyond the largest size (structural discrepancy), or by what they disagree, if more."
    )


def _averaged_words(model: LossModel) -> str:
    """What was averaged, where laws were; else nothing."""
    if model.posterior is None:
        return ""
    later = format_percent(model.posterior.later, signed=False)
    return (
        "The loss forecast averages power laws of different floors, exponents and bends by how "
        f"well they fit; those that leave out the smallest sizes count {later}"
    )


def _family_words(model: LossModel) -> str:
    """Which laws are averaged, by weight; settings of one law count together."""
    shares: dict[str, list[float]] = {}
    for fit, weight in sorted(model.family, key=lambda pair: -pair[1]):
        shares.setdefault(fit.law, []).append(weight)
    names = ", ".join(
        law
        + (f" ({len(weights)} settings)" if len(weights) > 1 else "")
        + (f" {format_quantity(sum(weights), digits=2)}" if len(shares) > 1 else "")
        for law, weights in shares.items()
    )
    by_weight = ", by weight" if len(shares) > 1 else ""
    return f"The loss forecast rests on the laws that the data do not reject{by_weight}: {names}"


def _local_words(model: LossModel) -> str:
    """What share the local law has, and why none."""
    if model.local is None:
        return "there is no local law (it needs four sizes in one column, and nothing pinned)"
    if model.local_weight == 0:
        return f"{_LOCAL_LAW} is not used: the laws fit the last sizes"
    share = format_percent(model.local_weight, signed=False)
    return f"{_LOCAL_LAW} has a share of {share} in the forecast"


def curvature_sentences(forecast: Forecast) -> list[str]:
    """For each law of an optimum, whether it bends."""
    found = forecast.curvature()
    return [
        _curvature_sentence(name, found[name])
        for name, fit in forecast.tuned_laws.items()
        if fit is not None
    ]


def _curvature_sentence(name: str, test: CurvatureTest | None) -> str:
    if test is None:
        return f"There are too few sizes to test whether the best {name} follows a power law."
    p = f"p{NBSP}{format_p_value(test.p_value)}"
    if test.bends:
        way = "upward" if test.curvature > 0 else "downward"
        return (
            f"The best {name} curves {way} against a power law ({p}); the forecast follows the "
            "bend in part, and its interval allows for more and for less of it."
        )
    return f"The best {name} is compatible with a power law ({p})."


def differs(recommended: Recommendation) -> bool:
    """Whether a recommendation is far enough from the optimum to be explained."""
    return any(abs(2**off - 1) > WORTH_TELLING for off in recommended.octaves.values())


def recommendation_sentence(forecast: Forecast, recommended: Recommendation | None) -> str:
    """The recommended values, how far from the optimum they are and why, and what both cost.

    Nothing where they are unknown, or closer to it than `WORTH_TELLING`.
    """
    if recommended is None or not differs(recommended):
        return ""
    moves = {
        name: f"{format_percent(abs(2**off - 1), signed=False)} {'below' if off < 0 else 'above'}"
        for name, off in recommended.octaves.items()
    }
    named = (
        [f"{name} {move}" for name, move in moves.items()] if len(moves) > 1 else moves.values()
    )
    return (
        f"The recommended {name_tuned(recommended.tuned)} is {', '.join(named)} the optimum of "
        f"the law, because {_reason(forecast, recommended)}. As the optimum is uncertain, the "
        f"expected extra loss is {format_cost(recommended.expected_excess)} at the recommended "
        f"value and {format_cost(recommended.at_optimum)} at that optimum."
    )


def _reason(forecast: Forecast, recommended: Recommendation) -> str:
    """Divergence where it moves the recommendation, else the steeper side of the curve."""
    below = [off < 0 for off in recommended.octaves.values()]
    steep = "the loss rises faster on one side of the optimum than on the other"
    if all(below) or not any(below):
        dear, cheap = ("high", "low") if all(below) else ("low", "high")
        steep = f"a value too {dear} costs more than one too {cheap}"
    if forecast.divergence is None:
        return steep
    safe = replace(forecast, divergence=None).point(recommended.size).recommendation
    if safe is None or not differs(safe):
        return "runs may diverge beyond it"
    moved = any(
        abs(2 ** (off - safe.octaves[name]) - 1) > WORTH_TELLING
        for name, off in recommended.octaves.items()
    )
    return f"{steep}, and runs may diverge" if moved else steep


def divergence_sentence(
    forecast: Forecast, size: Mapping[str, float], tuned: Mapping[str, float]
) -> str:
    """How likely a run of this size diverges, or what a sweep without any leaves open.

    Args:
        forecast: The forecast.
        size: Size column → value.
        tuned: The tuned values to speak of; columns whose best value is unknown are missing.
    """
    counts = forecast.runs.counts()
    gone, n = counts["diverged"], counts["complete"] + counts["diverged"]
    if not gone:
        most = format_percent(largest_chance(n, forecast.level), signed=False)
        return (
            f"None of the {n} runs diverged; at {format_level(forecast.level)} that leaves a "
            f"chance of at most {most} for one more like them."
        )
    seen = f"{gone} of {n} runs diverged"
    model = forecast.divergence
    if model is None or set(tuned) != set(model.tuned):
        return f"{seen}."
    chance = model.chance(size, tuned)
    words = "less than 0.1 %" if chance < 5e-4 else format_percent(chance, signed=False)
    return (
        f"{seen}; from these, a run of {name_size(size)} at {name_tuned(tuned)} diverges with a "
        f"chance of {words.replace(' %', NBSP + '%')} (logistic regression on logarithms)."
    )
