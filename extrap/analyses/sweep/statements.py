"""What a forecast says of its laws, of recommended values and of divergence; laws written out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from extrap.fitting.distributions import largest_chance
from extrap.fitting.joint import JointPosterior
from extrap.fitting.loss_model import LossModel
from extrap.fitting.surface.optimum_law import CurvatureTest
from extrap.forecasting import Forecast
from extrap.forecasting.sweep_laws import pinned_slopes
from extrap.laws import LAWS
from extrap.records import Fit, Recommendation
from extrap.records.flags import Flag, pinned_name
from extrap.records.numbers import (
    NBSP,
    counted,
    format_cost,
    format_decimals,
    format_level,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
)

Piece = tuple[str, bool]
"""Text, and whether it is raised (an exponent)."""
WORTH_TELLING = 0.01
"""Relative difference from which a recommended value is explained."""
_LOCAL_LAW = "a local law, in which the largest sizes count most,"
_LOCAL_ALONE = (
    "The loss forecast is that of the local law alone, in which the largest sizes count most: the "
    "laws of all sizes fit far worse"
)


def pins_of(forecast: Forecast) -> dict[str, float]:
    """The pinned parameters of a forecast, named as `extrap.forecast` takes them."""
    # laws may hold parameters of their own, one of a grid each: only flagged ones were given
    named = {pinned_name(flag) for flag in map(Flag, forecast.flags) if flag.code == "pinned"}
    model = forecast.loss_model
    pins = {} if model is None else {n: v for n, v in model.fixed.items() if n in named}
    for column, slopes in pinned_slopes(forecast.surface, forecast.runs).items():
        pins |= {f"{column}.{name}": slope for name, slope in slopes.items()}
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
        far = " as far beyond it as the sweep is long" if model.span is not None else ""
        return (
            f"{averaged}. The band allows besides for all of them being wrong by {off} of the "
            f"change they predict beyond the largest size{far} (structural discrepancy)."
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
    if isinstance(model.posterior, JointPosterior):
        return (
            "The loss forecast averages laws of different floors, exponents and balances by how "
            "well they fit, with what they leave over taken to be smooth in the sizes"
        )
    later = format_percent(model.posterior.later, signed=False)
    return (
        "The loss forecast averages power laws of different floors, exponents and bends by how "
        f"well they fit; those that leave out the smallest sizes count {later}"
    )


def _family_words(model: LossModel) -> str:
    """Which laws are averaged, by weight."""
    laws = sorted(model.family, key=lambda pair: -pair[1])
    names = ", ".join(
        fit.law + (f" {format_quantity(weight, digits=2)}" if len(laws) > 1 else "")
        for fit, weight in laws
    )
    by_weight = ", by weight" if len(laws) > 1 else ""
    return f"The loss forecast rests on the laws that the data do not reject{by_weight}: {names}"


def _local_words(model: LossModel) -> str:
    """What share the local law has, and why none."""
    if model.local is None:
        return "there is no local law (it needs four sizes in one column, and nothing pinned)"
    if model.local_weight == 0:
        return f"{_LOCAL_LAW} is not used: the laws fit the last sizes"
    share = format_percent(model.local_weight, signed=False)
    return f"{_LOCAL_LAW} has a share of {share} in the forecast"


def runs_sentence(forecast: Forecast) -> str:
    """How many runs the sweep has, by what became of them."""
    became_words = {
        "complete": "complete",
        "diverged": "diverged",
        "pruned": "stopped early (pruned)",
        "failed": "failed for other reasons and not used",
        "replicates": "exact repeats of another run (same size, tuned values and seed)",
    }
    counts = forecast.runs.counts()
    became = [f"{counts[key]} {text}" for key, text in became_words.items() if counts[key]]
    return f"The sweep has {counted(counts['runs'], 'run')}: {', '.join(became)}."


def noise_sentence(forecast: Forecast) -> str:
    """How far runs scatter that differ only in their seed."""
    noise = forecast.noise
    if noise.log_sd is None:
        return "No run was repeated with another seed."
    scatter = "No two runs differ only in their seed; about a smooth curve they scatter by "
    if noise.is_replicated:
        scatter = "Runs that differ only in their seed scatter by "
    text = (
        f"{scatter}{format_percent(noise.log_sd, signed=False)} of their loss (standard deviation)"
    )
    if noise.shared_sd > 0:
        shared = format_percent(noise.shared_sd, signed=False)
        text += f"; {shared} of it is common to all sizes and only shifts a law"
    return f"{text}."


def curvature_sentences(forecast: Forecast) -> list[str]:
    """For each law of an optimum, whether it bends."""
    return [_curvature_sentence(name, test) for name, test in forecast.curvature().items()]


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
        f"the law, because {_reason(forecast, recommended)}. As the optimum is uncertain, "
        f"{'and runs may diverge, ' * bool(recommended.chance_of_divergence)}the expected extra "
        f"loss is {format_cost(recommended.expected_excess)} at the recommended "
        f"value and {format_cost(recommended.at_optimum)} at that optimum."
    )


def _reason(forecast: Forecast, recommended: Recommendation) -> str:
    """Divergence where it moves the recommendation, else the steeper side of the curve."""
    below = [off < 0 for off in recommended.octaves.values()]
    steep = "the loss rises faster on one side of the optimum than on the other"
    if all(below) or not any(below):
        dear, cheap = ("high", "low") if all(below) else ("low", "high")
        steep = f"a value too {dear} costs more than one too {cheap}"
    values = forecast.values_at(recommended.size)
    if values is None or values.draws.steepness is None:
        return steep
    safe = replace(values, draws=replace(values.draws, steepness=None)).recommendation
    if not differs(safe):
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
    values = forecast.values_at(size)
    if values is None or set(tuned) != set(values.names):
        return f"{seen}."
    chance = values.chance(tuned)
    chance_text = "less than 0.1 %" if chance < 5e-4 else format_percent(chance, signed=False)
    return (
        f"{seen}; from these, a run of {name_size(size)} at {name_tuned(tuned)} diverges with a "
        f"chance of {chance_text.replace(' %', NBSP + '%')}."
    )


def equation(fit: Fit, target: str) -> tuple[Piece, ...]:
    """A law as pieces of text: `target = 1.65 + 0.265 · (width / 55.4)` raised `−0.428`.

    Args:
        fit: A fitted law.
        target: What the law is of.
    """
    parameters = fit.parameters
    if fit.law in ("power_floor", "chinchilla_tied"):
        terms = _terms(fit, letter="c", sign=-1)
        pieces: list[Piece] = [(f"{target} = {format_value(parameters['E'])}", False)]
        for i, term in enumerate(terms):
            scale = _numbered(parameters, "b", i)
            pieces += [(f" + {format_value(scale)} · ", False), *term]
        return tuple(pieces)
    if fit.law == "power":
        return _product(target, parameters["b"], _terms(fit, letter="c", sign=-1))
    if fit.law == "optimum_power":
        law = _product(target, math.exp(parameters["a"]), _terms(fit, letter="b", sign=1))
        bend = parameters.get("bend", 0.0)
        if round(bend, 3) == 0:
            return law
        logs = [f"ln{base}" for base in _bases(fit)]
        mean = logs[0] if len(logs) == 1 else f"mean({', '.join(logs)})"
        return (*law, (" · e", False), (f"{format_decimals(bend, 3)} [{mean}]²", True))
    if fit.law == "log_linear":
        start, slope = format_value(parameters["a"]), format_value(parameters["b"])
        return ((f"{target} = {start} − {slope} · ln{_bases(fit)[0]}", False),)
    return ((_in_words(fit, target), False),)


def _product(target: str, scale: float, terms: list[tuple[Piece, Piece]]) -> tuple[Piece, ...]:
    pieces: list[Piece] = [(f"{target} = {format_value(scale)}", False)]
    for term in terms:
        pieces += [(" · ", False), *term]
    return tuple(pieces)


def _in_words(fit: Fit, target: str) -> str:
    """The formula of a law with its letters, then what they stand for."""
    letters = [f"{name} = {format_value(value)}" for name, value in fit.parameters.items()]
    sizes = [
        f"{format_quantity(reference, digits=3)} for {column}"
        for column, reference in zip(fit.columns, fit.reference, strict=True)
    ]
    return (
        f"{target}: {LAWS[fit.law].formula} with {', '.join(letters)}; "
        f"reference size {', '.join(sizes)}"
    )


def _terms(fit: Fit, *, letter: str, sign: int) -> list[tuple[Piece, Piece]]:
    """`(column / reference)` raised to its exponent, one pair of pieces a size column."""
    terms: list[tuple[Piece, Piece]] = []
    for i, base in enumerate(_bases(fit)):
        exponent = sign * _numbered(fit.parameters, letter, i)
        terms.append(((base, False), (format_decimals(exponent, 3), True)))
    return terms


def _bases(fit: Fit) -> list[str]:
    """`(column / reference)` a size column."""
    return [
        f"({column} / {format_quantity(reference, digits=3)})"
        for column, reference in zip(fit.columns, fit.reference, strict=True)
    ]


def _numbered(parameters: Mapping[str, float], letter: str, i: int) -> float:
    return parameters[letter] if letter in parameters else parameters[f"{letter}{i + 1}"]


def law_equations(forecast: Forecast) -> list[tuple[tuple[Piece, ...], str]]:
    """Each law of a forecast written out, and its weight."""
    equations = []
    for fit, weight in sorted(forecast.loss_laws, key=lambda pair: -pair[1]):
        text = f"weight {format_quantity(weight, digits=2)}"
        if forecast.loss_model is not None and forecast.loss_model.posterior is not None:
            text = "mean of the averaged laws"
        equations.append((equation(fit, "loss"), f"{text}; {fit.n_points} sizes"))
    for name, law in forecast.tuned_laws.items():
        off = format_percent(law.scatter, signed=False)
        text = f"{law.n_points} sizes; the optima scatter about it by {off}"
        equations.append((equation(law, f"best {name}"), text))
    return equations
