"""Why a run is off: causes in a fixed order, the first that applies is named.

1. `instability`: the run diverged, or its curve spiked; not where it repeated its data and its
   held-out loss climbed steadily, which is overfitting.
2. `mistuned`: the tuned values cost more than half a percent and more than the recommended ones,
   by the loss and the values together.
3. `recipe`: a condition differs from the sweep's.
4. `data`: it repeated its data more often than the sweep.
5. `batch`: its batch is above the critical one, by its noise scale.
6. `data` again: it repeated its data at all, and more often than the sweep.
7. `law`: all configurations of a size deviate alike, see `bends`.
8. `unknown`.

Earlier causes are cheaper to see and to correct, and each would also produce the signs of later
ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from extrap.checking.cases import FARTHEST, Case, known_number
from extrap.checking.joint import Judgement
from extrap.checking.settings import COSTLY, Settings
from extrap.fitting.excess_curve import CEILING
from extrap.fitting.refusals import MOST_HALF_WIDTH
from extrap.forecasting import Forecast
from extrap.laws.repeated import effective_epochs
from extrap.records import Interval

MISTUNED_OCTAVES = 0.5
"""A value closer than this to the forecast, or inside its interval, is tuned, unless it is costly.
"""
SURE, SURPRISING = 0.95, 0.01
"""Mistuned is what costs that much so surely, unless its loss is so surprising …"""
MISTUNED_SHARE = 0.5
"""… but for one above the law's interval, of which mistuning explains at least this share."""
ELSEWHERE_OCTAVES = 2.0
"""A value so far from the forecast is mentioned even where the loss shows nothing."""
EARLIER_SHARE = 0.5
"""A run that was off by this share of its deviation before it spiked is not off for the spike."""
REPEATED_EPOCHS = 4.0
"""Repeating data more often than this costs loss (Muennighoff et al. 2023, arXiv 2305.16264);
small data are used up sooner, so fewer epochs are suspected last."""
SATURATION = 15.3878
"""R_D*, repetitions after which little is left to gain (the same, Sec. 6)."""
CRITICAL_OVERHEAD = 1.2
"""Data that a critical batch takes, as a multiple (Zhang et al. 2024, arXiv 2410.21676)."""
UNIT_TOLERANCE = 0.03
"""Log loss by which the ratio of two units may be missed."""
AGREES = "The loss agrees with the law."
ALL = 0.95
"""A larger share of the excess is called all of it."""
DATA_SHARE = 0.2
"""Worn-out data are the cause if they explain at least this share, where the law knows data."""
DATA_COLUMNS = ("tokens", "n_tokens", "examples", "n_examples")
"""Names of a size column that counts data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A configuration that is looked into."""

    forecast: Forecast
    case: Case
    judgement: Judgement
    settings: Settings | None

    @property
    def off(self) -> float:
        """Its log deviation; NaN without a loss."""
        return math.nan if self.case.log_deviation is None else self.case.log_deviation

    @property
    def is_above(self) -> bool:
        """Whether its loss is above its prediction interval."""
        return self.off > 0 and not self.judgement.is_inside

    @property
    def is_mistuned(self) -> bool:
        """Whether its tuned values cost half a percent, and more than the recommended ones."""
        case, settings = self.case, self.settings
        if settings is None or settings.p_value is None or case.excess is None:
            return False
        if self.judgement.is_off and self.off < 0:  # better than the law: no cost shows
            return False
        is_away = case.excess > COSTLY or bool(_far_off(case))
        is_likely = settings.p_value > SURPRISING
        if self.is_above:  # far out the cost is known badly
            is_likely |= self.is_without_bound or case.excess >= MISTUNED_SHARE * self.off
        return is_away and settings.chance >= SURE and is_likely

    @property
    def is_without_bound(self) -> bool:
        """Whether its tuned values are so far out that they may cost any loss."""
        return self.case.excess is not None and self.case.excess >= CEILING

    @property
    def is_elsewhere(self) -> bool:
        """Whether its loss says that the optimum is not where the forecast has it."""
        case, settings = self.case, self.settings
        if settings is None or settings.p_value is None or case.excess is None:
            return False
        better = settings.p_value <= SURPRISING and self.off < case.excess
        return not self.is_mistuned and better and case.excess > COSTLY

    @property
    def is_far(self) -> bool:
        """Whether its tuned values lie so far from the forecast's that it should be mentioned."""
        return max(map(abs, self.case.octaves), default=0.0) >= ELSEWHERE_OCTAVES

    @property
    def on_law(self) -> bool | None:
        """Whether it is on the law of tuned runs; None where that is undecided.

        It is off if it deviates, and on if its loss lies in its prediction interval and that
        interval could have said otherwise.
        """
        if self.deviates:
            return False
        return True if self.judgement.is_inside and not self.is_uninformative else None

    @property
    def is_uninformative(self) -> bool:
        """Whether the interval is wide and holds the loss of the sweep's largest size as well."""
        low, high = self.case.predicted_pi
        is_wide = not low or not high or math.log(high / low) > 2 * MOST_HALF_WIDTH
        return is_wide and self.forecast.last_value() in self.case.predicted_pi

    @property
    def deviates(self) -> bool:
        """Whether its loss, that it has none, or its tuned values are an alarm."""
        is_diverged = self.case.row["status"] == "diverged"
        return is_diverged or self.judgement.is_off or self.is_mistuned


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause with what to do about it.

    Attributes:
        cause: Its name; None where nothing is wrong.
        advice: One sentence a person can act on.
        evidence: The numbers behind it, by name.
        experiment: The cheapest run that would decide whether it is the cause; may be empty.
        is_unit: Whether a mistaken unit of the loss is suspected.
    """

    cause: str | None
    advice: str
    evidence: dict[str, float] = field(default_factory=dict)
    experiment: str = ""
    is_unit: bool = False


def find_cause(suspect: Suspect) -> Finding:
    """The first cause that fits; for a run on the law, what sets it apart nevertheless."""
    if not suspect.deviates:
        return _not_off(suspect)
    for look in ORDER:
        finding = look(suspect)
        if finding is not None:
            return _beside_replicates(finding, suspect.case.off_replicates)
    return _unknown(suspect)


def _beside_replicates(finding: Finding, apart: float | None) -> Finding:
    """A cause that replicates may share, and how far from them the run is."""
    if apart is None:
        return finding
    return replace(
        finding,
        advice=f"{finding.advice} The run is {_apart_words(apart)}.",
        evidence={**finding.evidence, "off_replicates": math.expm1(apart)},
    )


def _apart_words(apart: float) -> str:
    direction = "worse" if apart > 0 else "better"
    return f"{100 * abs(math.expm1(apart)):.1f} % {direction} than its replicates"


def _not_off(suspect: Suspect) -> Finding:
    """What sets a run apart that is no alarm."""
    case, standing = suspect.case, _standing(suspect)
    if case.differing:
        return Finding(
            cause="recipe",
            advice=f"{standing} The recipe differs from the sweep's ({_differences(case)}); the "
            "forecast holds for the sweep's recipe only.",
        )
    if case.spike is not None:
        return Finding(
            cause="instability",
            advice=f"{standing} It {_rise(case.spike.height)} at step {case.spike.step:g}: look "
            "at the gradient norm and the data at that step.",
            evidence=_spike_evidence(case),
        )
    if suspect.is_elsewhere or suspect.is_far:
        return Finding(
            cause=None,
            advice=f"{standing} Its {_distance_words(case)}{_elsewhere_words(suspect)}",
            evidence=_distances(suspect),
        )
    return Finding(cause=None, advice=standing.replace(AGREES, "On the law: nothing to do."))


def _standing(suspect: Suspect) -> str:
    """Where the loss of a run lies that is no alarm, and what would decide if that is open."""
    case, settings = suspect.case, suspect.settings
    loss = math.exp(case.log_loss + suspect.off)
    if loss in case.predicted_pi:
        return (
            AGREES
            if suspect.on_law
            else "Undecided: the interval is too wide to tell, it holds the loss of the sweep's "
            "largest size as well. Add seeds, or a size closer to this one."
        )
    if suspect.on_law:
        return "The loss misses its interval by less than the tolerance: no alarm."
    if settings is None or loss not in settings.expected_pi:
        return "Undecided: so large a deviation is expected among so many configurations."
    upper = settings.expected_pi.upper
    highest = "any value" if upper is None else f"{upper:.4g}"
    return (
        "Undecided: the loss is above the prediction interval, but a mistuned "
        f"{' or '.join(case.tuned)} explains losses up to {highest}. Tune at this size."
    )


def _instability(suspect: Suspect) -> Finding | None:
    case = suspect.case
    if case.row["status"] == "diverged":
        if case.overfits and _epochs(suspect, most=REPEATED_EPOCHS) is not None:
            return None
        return Finding(
            cause="instability",
            advice="The run diverged. Lower the learning rate or lengthen the warm-up, and look "
            f"at the gradient norm before it diverged.{_high_values(suspect)}",
            evidence=_distances(suspect),
            experiment="Repeat the run at half the learning rate, up to the step at which it "
            "diverged.",
        )
    if case.spike is None or suspect.off < 0 or suspect.is_mistuned:
        return None
    if case.overfits and _epochs(suspect, most=1.0) is not None:
        return None
    if (case.off_before_spike or 0.0) > EARLIER_SHARE * suspect.off:
        return None  # it was off before
    return Finding(
        cause="instability",
        advice=f"The loss {_rise(case.spike.height)} at step {case.spike.step:g} and did not "
        "recover. Go back to a checkpoint before that step, and skip the batches after it or "
        f"lower the learning rate.{_high_values(suspect)}",
        evidence=_spike_evidence(case),
        experiment="Repeat from a checkpoint before the spike with other batches. If the loss "
        "spikes again, the learning rate is the cause; otherwise the data are.",
    )


def _mistuned(suspect: Suspect) -> Finding | None:
    """Tuned values off their optimum."""
    if not suspect.is_mistuned:
        return None
    case = suspect.case
    name, distance = _culprit(suspect)
    own, use = case.tuned[name], case.recommended[name]
    assert own is not None
    assert use is not None
    assert case.excess is not None
    assert suspect.settings is not None
    cost, octaves = suspect.settings.cost, math.log2(own) - math.log2(use)
    evidence = {
        **_distances(suspect),
        f"{name}_octaves_from_best": distance,
        f"{name}_recommended": use,
        "chance_mistuned": suspect.settings.chance,
        "expected_excess": math.expm1(case.cost),
        "excess_by_its_loss": math.expm1(cost),
    }
    explains = f"costs about {100 * math.expm1(cost):.1f} % in loss"
    if suspect.is_above:
        share = 1.0 if suspect.is_without_bound else cost / suspect.off
        evidence["explained_share"] = share
        explains = f"explains {_share(min(share, 1.0))} of the excess loss"
    side = "high" if octaves > 0 else "low"
    best = " and ".join(f"{n} {value:.3g}" for n, value in case.recommended.items() if value)
    advice = (
        f"{name} {own:.3g} is too {side} by {_factor(octaves)} and {explains}. Use {best} and "
        f"expect a loss of {math.exp(case.log_loss):.4g}."
    )
    if _is_surprising(suspect) and not suspect.is_without_bound:
        advice += (
            " The loss is worse than this explains: something else is wrong as well."
            if suspect.off > case.excess
            else " The sweep predicts a higher cost, but this far out it is uncertain."
        )
    return Finding(
        cause="mistuned",
        advice=advice,
        evidence=evidence,
        experiment=f"Continue from a checkpoint with half and with twice the {name} for a few "
        f"percent of the steps. Move to the better side; if neither is better, {name} is not the "
        "cause.",
    )


def _share(share: float) -> str:
    return "all" if share > ALL else f"about {100 * share:.0f} %"


def _is_surprising(suspect: Suspect) -> bool:
    """Whether the loss is not what is expected at its own tuned values."""
    settings, level = suspect.settings, suspect.forecast.level
    return settings is not None and (settings.p_value or 0.0) <= 1 - level


def _elsewhere_words(suspect: Suspect) -> str:
    """Whether its loss shows that the optimum is elsewhere."""
    settings = suspect.settings
    if suspect.is_elsewhere:
        return (
            f", which was expected to cost {100 * math.expm1(suspect.case.cost):.1f} %. The "
            "optimum is not where the forecast says: tune at this size."
        )
    chance = "" if settings is None else f" (probability {100 * settings.chance:.0f} %)"
    return f". Its loss does not show whether that is mistuned{chance}: tune at this size."


def _recipe(suspect: Suspect) -> Finding | None:
    case = suspect.case
    if not case.differing:
        return None
    for explained, look in OWN_CAUSES:
        if set(case.differing) <= explained and look(suspect) is not None:
            return None
    return Finding(
        cause="recipe",
        advice=f"The recipe differs from the sweep's ({_differences(case)}). Train one small "
        "size with this recipe, or repeat this run with the sweep's recipe.",
        evidence={"n_differing": float(len(case.differing))},
        experiment=f"Train {_smallest(suspect.forecast)} at its optimum with this run's recipe. "
        "If its loss is as far off the law, the recipe is the cause"
        + ("." if len(case.differing) == 1 else "; change one condition at a time to find which."),
    )


def _data(suspect: Suspect, *, most: float = REPEATED_EPOCHS) -> Finding | None:
    """More passes over the data than the sweep made, and more than are nearly free."""
    known = _epochs(suspect, most=most)
    if suspect.off < 0 or known is None:
        return None
    epochs, seen = known
    worth = _worth(epochs) / _worth(max(seen, 1.0))
    evidence = {"epochs": epochs, "epochs_in_sweep": seen, "effective_share_of_data": worth}
    words = ""
    expected = _loss_at_effective_data(suspect, worth)
    if expected is not None:
        evidence["expected_loss_of_effective_data"] = math.exp(expected)
        words = f", for which the law expects a loss of {math.exp(expected):.4g}"
    if expected is not None and suspect.off > 0:
        share = (expected - suspect.case.log_loss) / suspect.off
        evidence["explained_share"] = share
        if share < DATA_SHARE:
            return None
    climbs = " Its held-out loss rose steadily after its minimum." if suspect.case.overfits else ""
    return Finding(
        cause="data",
        advice=f"The run made {epochs:.3g} passes over its data, the sweep at most {seen:.3g}. "
        f"Its data are worth {100 * worth:.0f} % of data repeated as in the sweep{words}.{climbs} "
        "Add data, or stop earlier.",
        evidence=evidence,
        experiment=f"Train {_smallest(suspect.forecast)} for as many epochs on an equally small "
        "part of the data. If the data are the cause, its loss is off the law as well.",
    )


def _worth(epochs: float) -> float:
    """Data that so many passes are worth, as a share of as much fresh data."""
    return float(effective_epochs(epochs, SATURATION)) / epochs


def _few_epochs(suspect: Suspect) -> Finding | None:
    return _data(suspect, most=1.0)


def _epochs(suspect: Suspect, *, most: float) -> tuple[float, float] | None:
    """Passes over the data, and the sweep's most; None unless they are more, and above `most`."""
    epochs = known_number(suspect.case.row.get("epochs"))
    if epochs is None or epochs <= most:
        return None
    frame = suspect.forecast.runs.to_frame()
    seen = known_number(frame["epochs"].max()) if "epochs" in frame else None
    seen = 1.0 if seen is None else seen
    return (epochs, seen) if epochs > seen else None


def _loss_at_effective_data(suspect: Suspect, worth: float) -> float | None:
    """Log loss the law expects of the data that the repetitions are worth; None without data."""
    size = dict(suspect.case.size)
    column = next((name for name in size if name in DATA_COLUMNS), None)
    if column is None:
        return None
    prediction = suspect.forecast.predict_loss({**size, column: size[column] * worth})
    return None if prediction is None else prediction.log_loss


def _batch(suspect: Suspect) -> Finding | None:
    """A batch that needs a fifth more data than the sweep's, by `1 + B / B_noise`."""
    row = suspect.case.row
    batch, scale = known_number(row.get("batch_size")), known_number(row.get("noise_scale"))
    if suspect.off < 0 or batch is None or scale is None or not scale > 0:
        return None
    if "batch_size" in suspect.forecast.runs.tuned:  # then it is tuned or mistuned
        return None
    frame = suspect.forecast.runs.to_frame()
    usual = known_number(frame["batch_size"].median()) if "batch_size" in frame else None
    overhead = (1 + batch / scale) / (1 + (usual or 0.0) / scale)
    if overhead <= CRITICAL_OVERHEAD:
        return None
    than = "small batches" if usual is None else f"the sweep's batch size of {usual:g}"
    return Finding(
        cause="batch",
        advice=f"The batch size of {batch:g} is {batch / scale:.2g} times the noise scale of "
        f"{scale:.3g} and needs about {overhead:.2g} times as much data as {than}. Use a smaller "
        "batch, or plan for that much more data.",
        evidence={"batch_size": batch, "noise_scale": scale, "data_factor": overhead},
        experiment=f"Train {_smallest(suspect.forecast)} with this batch size and with "
        f"{(CRITICAL_OVERHEAD - 1) * scale:.2g}, on equal data: the difference in loss is the "
        "cost of the batch size.",
    )


def _unknown(suspect: Suspect) -> Finding:
    apart, evidence = suspect.case.off_replicates, _distances(suspect)
    where = f"{'better' if suspect.off < 0 else 'worse'} than the law predicts"
    if apart is not None:
        evidence["off_replicates"] = math.expm1(apart)
        where = _apart_words(apart)
    unit = _unit_hint(suspect)
    todo = unit or (
        "Repeat it with another seed; if the deviation stays, the law may not hold at this size."
    )
    if not unit and (suspect.is_elsewhere or suspect.is_far):
        words = _distance_words(suspect.case)
        todo = f"{words}. The optimum may lie elsewhere: tune at this size."
    return Finding(
        cause="unknown",
        is_unit=bool(unit),
        advice=f"The run is {where}, and nothing recorded explains it. {todo}",
        evidence=evidence,
        experiment="Repeat the run with another seed. A run at a size between the sweep's largest "
        "and this one is cheaper and nearly as informative.",
    )


def _unit_hint(suspect: Suspect) -> str:
    """What to do where loss and forecast differ as two units do; else nothing."""
    off, predicted = suspect.case.log_deviation, math.exp(suspect.case.log_loss)
    if off is None:
        return ""
    off -= suspect.case.excess or 0.0
    units = {
        "bits and the sweep's in nats": -math.log(math.log(2)),
        "nats and the sweep's in bits": math.log(math.log(2)),
        "perplexity and the sweep's in nats": predicted - math.log(predicted),
    }
    for words, ratio in units.items():
        if abs(off - ratio) < UNIT_TOLERANCE:
            return f"Its loss seems to be in {words}. Convert both to the same unit."
    return ""


OWN_CAUSES: tuple[tuple[frozenset[str], Callable[[Suspect], Finding | None]], ...] = (
    (frozenset({"epochs"}), _data),
    (frozenset({"batch_size", "steps"}), _batch),
)
"""Conditions with a cause of their own: where only these differ, and it fits, it is named."""
ORDER: tuple[Callable[[Suspect], Finding | None], ...] = (
    _instability,
    _mistuned,
    _recipe,
    _data,
    _batch,
    _few_epochs,
)


def _far_off(case: Case) -> list[str]:
    """Tuned columns half an octave or more off, and outside the interval of their optimum."""
    return [
        name
        for name, u in zip(case.tuned, case.octaves, strict=True)
        if abs(u) >= MISTUNED_OCTAVES and case.tuned[name] not in case.expected[name].pi
    ]


def _culprit(suspect: Suspect) -> tuple[str, float]:
    """The tuned value that costs most, and its octaves from its best, the others as they are."""
    case, excess_curve = suspect.case, suspect.forecast.excess_curve
    assert excess_curve is not None
    left = {}
    for i, name in enumerate(excess_curve.tuned):
        moved = list(case.octaves)
        moved[i] = excess_curve.best_given(case.octaves, name)
        left[name] = (excess_curve.excess(moved, case.size), case.octaves[i] - moved[i])
    name = min(left, key=lambda n: left[n][0])
    return name, left[name][1]


def _distances(suspect: Suspect) -> dict[str, float]:
    pairs = zip(suspect.case.tuned, suspect.case.octaves, strict=False)
    return {f"{name}_octaves": u for name, u in pairs}


def _distance_words(case: Case) -> str:
    """How far each tuned value is from the optimum of the law."""
    sides = {True: "above", False: "below"}
    words = [
        f"{name} is {sides[u > 0]} the optimum by {_factor(u)}"
        for name, u in zip(case.tuned, case.octaves, strict=True)
        if abs(u) >= min(MISTUNED_OCTAVES, max(map(abs, case.octaves)))
    ]
    return " and ".join(words)


def _high_values(suspect: Suspect) -> str:
    pairs = zip(suspect.case.tuned, suspect.case.octaves, strict=False)
    high = [f"{name} is above the optimum by {_factor(u)}" for name, u in pairs if u > 0.5]
    return f" {'; '.join(high)}." if high else ""


def _factor(octaves: float) -> str:
    return f"a factor of {2 ** min(abs(octaves), FARTHEST):.2g}"


def _rise(height: float) -> str:
    return "became infinite" if math.isinf(height) else f"rose by {100 * math.expm1(height):.0f} %"


def _spike_evidence(case: Case) -> dict[str, float]:
    assert case.spike is not None
    found = {"spike_step": case.spike.step}
    if math.isfinite(case.spike.height):
        found["spike_height"] = math.expm1(case.spike.height)
    return found


def _differences(case: Case) -> str:
    parts = (f"{name} {own} instead of {its}" for name, (own, its) in case.differing.items())
    return "; ".join(parts)


def _smallest(forecast: Forecast) -> str:
    size = forecast.optima[0].size
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def _range(interval: Interval) -> str:
    lower = "…" if interval.lower is None else f"{interval.lower:.3g}"
    upper = "…" if interval.upper is None else f"{interval.upper:.3g}"
    return f"{lower} to {upper}"
