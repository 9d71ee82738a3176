"""The words of a verdict: for each cause what to do, and the cheapest run that would decide."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.checking.causes import (
    CRITICAL_OVERHEAD,
    MISTUNED_OCTAVES,
    batch_size_of_sweep,
    is_elsewhere,
    is_far,
    is_surprising,
    is_without_bound,
    standing,
)
from extrap.checking.configurations import MAX_OCTAVES, Configuration, Finding
from extrap.checking.spikes import Spike
from extrap.records.fields import ROUNDING
from extrap.records.numbers import NBSP, format_percent, format_quantity, format_value, name_size

WHOLE_SHARE = 0.95
"""A larger share of the excess is called all of it."""
HIGH_OCTAVES = 0.5
"""A value farther above the optimum is mentioned where a run was unstable."""
ODD_RATIO = 1e5
"""Times the sweep's largest size, beyond which a unit was probably mistaken."""
SEALS = {
    "in-sweep": "The forecast was fitted to this run, so the run does not test it.",
    "begun-before": "The run started before the forecast was made, so it does not test it.",
}
"""How a run stands to the seal → what to know of it."""
STANDINGS = {
    "on-law": "The loss agrees with the law.",
    "within-tolerance": "The loss misses its interval by less than the tolerance: no alarm.",
    "undecided-wide": "Undecided: the interval is too wide to tell, it holds the loss of the "
    "sweep's largest size as well. Add seeds, or a size closer to this one.",
    "undecided-tuning": "Undecided: the loss is above the prediction interval, but a mistuned "
    "{tuned} explains losses up to {highest}. Tune at this size.",
    "undecided-among-many": "Undecided: so large a deviation is expected among so many "
    "configurations.",
}
"""Where a loss lies that is no alarm → what would decide if that is open."""
UNITS = {
    "in-bits": "bits and the sweep's in nats",
    "in-nats": "nats and the sweep's in bits",
    "in-perplexity": "perplexity and the sweep's in nats",
}
"""Code of a finding → the units that seem to be mixed."""
EXPERIMENTS = {
    "diverged": "Repeat the run at half the learning rate, up to the step at which it diverged.",
    "spiked": "Repeat from a checkpoint before the spike with other batches. If the loss spikes "
    "again, the learning rate is the cause; otherwise the data are.",
    "mistuned": "Continue from a checkpoint with half and with twice the {column} for a few "
    "percent of the steps. Move to the better side; if neither is better, {column} is not the "
    "cause.",
    "recipe": "Train {smallest} at its optimum with this run's recipe. If its loss is as far off "
    "the law, the recipe is the cause{several}.",
    "data": "Train {smallest} for as many epochs on an equally small part of the data. If the "
    "data are the cause, its loss is off the law as well.",
    "batch": "Train {smallest} with this batch size and with {critical}, on equal data: the "
    "difference in loss is the cost of the batch size.",
    "law": "Tune the smallest of these sizes. If its optimum lies where the forecast says, the "
    "law of the loss is wrong; otherwise the law of the optimum is.",
    **dict.fromkeys(
        ("unknown", *UNITS),
        "Repeat the run with another seed. A run at a size between the sweep's largest and this "
        "one is cheaper and nearly as informative.",
    ),
}
"""Code of a finding → the cheapest run that would decide the cause."""


def advise(judged: Configuration) -> tuple[str, str]:
    """What to do, and the cheapest run that would decide the cause; both may be empty."""
    finding = judged.finding
    assert finding is not None
    advice = [_advice(judged, finding)]
    if finding.cause != "unknown" and "off_replicates" in finding.evidence:
        advice.append(f"The run is {_from_replicates(finding)}.")
    if judged.unjudged in (None, "loss-refused"):
        advice.append(_place(judged))
    critical = (CRITICAL_OVERHEAD - 1) * finding.evidence.get("noise_scale", 0.0)
    experiment = EXPERIMENTS.get(finding.code, "").format(
        column=finding.column,
        smallest=name_size(judged.forecast.optima[0].size),
        critical=_rough(critical),
        several="; change one condition at a time to find which" * (len(judged.differing) > 1),
    )
    text = " ".join(filter(None, advice))
    return text.replace(NBSP, " "), experiment.replace(NBSP, " ")


def _advice(judged: Configuration, finding: Finding) -> str:
    """The sentences of a code, but for what may be said of any."""
    match finding.code:
        case "failed" | "pruned" as status:
            ended = "failed" if status == "failed" else "was pruned"
            return f"The run {ended} and has no final loss, so it cannot be judged."
        case "below-sweep":
            return _below_sweep(judged)
        case "loss-refused":
            return f"The forecast of the loss is refused here: {judged.point.refusals['loss']}."
        case "on-law":
            return "On the law: nothing to do."
        case "other-recipe":
            return (
                f"{_standing(judged)} The recipe differs from the sweep's "
                f"({_differences(judged)}); the forecast holds for the sweep's recipe only."
            )
        case "recovered":
            return (
                f"{_standing(judged)} It {_rise(judged.spike)}: look at the gradient norm and the "
                "data at that step."
            )
        case "elsewhere":
            return (
                f"{_standing(judged)} Its {_distances(judged)}, which was expected to cost "
                f"{_percent(math.expm1(judged.expected_cost))}. The optimum is not where the "
                "forecast says: tune at this size."
            )
        case "far":
            cost = judged.tuned_cost
            chance = "" if cost is None else f" (probability {_percent(cost.chance)})"
            return (
                f"{_standing(judged)} Its {_distances(judged)}. Its loss does not show whether "
                f"that is mistuned{chance}: tune at this size."
            )
        case "diverged":
            return (
                "The run diverged. Lower the learning rate or lengthen the warm-up, and look at "
                f"the gradient norm before it diverged.{_high_values(judged)}"
            )
        case "spiked":
            return (
                f"The loss {_rise(judged.spike)} and did not recover. Go back to a checkpoint "
                "before that step, and skip the batches after it or lower the learning rate."
                f"{_high_values(judged)}"
            )
        case "mistuned":
            return _mistuned(judged, finding)
        case "recipe":
            return (
                f"The recipe differs from the sweep's ({_differences(judged)}). Train one small "
                "size with this recipe, or repeat this run with the sweep's recipe."
            )
        case "data":
            return _data(judged, finding.evidence)
        case "batch":
            return _batch(judged, finding.evidence)
        case "law":
            return (
                "Several seeds deviate in the same way, and nothing recorded explains it: the law "
                "does not hold at this size. Add this size to the sweep, tune it, and fit again."
                f"{_refitted(finding)}"
            )
        case code if finding.cause == "unknown":
            return _unknown(judged, finding, units=UNITS.get(code))
    return _standing(judged)


def _standing(judged: Configuration) -> str:
    """Where a loss lies that is no alarm, and what would decide if that is open."""
    upper = None if judged.tuned_cost is None else judged.tuned_cost.expected_pi.upper
    return STANDINGS[standing(judged)].format(
        tuned=" or ".join(judged.tuned),
        highest="any value" if upper is None else format_value(upper),
    )


def _below_sweep(judged: Configuration) -> str:
    """The first size column that lies below the sweep."""
    for column, value in judged.point.size.items():
        smallest = min(optimum.size[column] for optimum in judged.forecast.optima)
        if value < smallest:
            break
    return (
        f"{column} {format_quantity(value)} lies below the smallest tuned one, "
        f"{format_quantity(smallest)}. Laws are not extrapolated downwards, so the run cannot be "
        "judged." + (" Are both in the same unit?" if value * ODD_RATIO < smallest else "")
    )


def _place(judged: Configuration) -> str:
    """What to know of a size among the sweep's, or so far beyond that its unit is in doubt."""
    if judged.point.extrapolation_ratio <= 1 + ROUNDING:
        return "Its size lies within the sweep's sizes: the law is not extrapolated."
    for column, value in judged.point.size.items():
        ratio = value / max(optimum.size[column] for optimum in judged.forecast.optima)
        if ratio > ODD_RATIO:
            return (
                f"Its {column} is {_rough(ratio)} times the sweep's largest. Are both in the same "
                "unit?"
            )
    return ""


def _mistuned(judged: Configuration, finding: Finding) -> str:
    """How far off the value that costs most is, and how much of the deviation it explains."""
    name, evidence, own = finding.column, finding.evidence, judged.tuned[finding.column]
    assert own is not None
    octaves = math.log2(own) - math.log2(evidence[f"{name}_recommended"])
    explains = f"costs about {_percent(evidence['excess_by_its_loss'])} in loss"
    if "explained_share" in evidence:
        share = evidence["explained_share"]
        part = "all" if share > WHOLE_SHARE else f"about {_percent(share)}"
        explains = f"explains {part} of the excess loss"
    best = " and ".join(
        f"{n} {format_quantity(value)}" for n, value in judged.point.recommended.items() if value
    )
    advice = (
        f"{name} {format_quantity(own)} is too {'high' if octaves > 0 else 'low'} by "
        f"{_factor(octaves)} and {explains}. Use {best} and expect a loss of "
        f"{format_value(math.exp(judged.log_loss))}."
    )
    if not is_surprising(judged) or is_without_bound(judged):
        return advice
    if judged.off > (judged.excess or 0.0):
        return f"{advice} The loss is worse than this explains: something else is wrong as well."
    return f"{advice} The sweep predicts a higher cost, but this far out it is uncertain."


def _data(judged: Configuration, evidence: Mapping[str, float]) -> str:
    """What the repeated data are worth."""
    loss = evidence.get("expected_loss_of_effective_data")
    expected = (
        "" if loss is None else f", for which the law expects a loss of {format_value(loss)}"
    )
    climbs = " Its held-out loss rose steadily after its minimum." if judged.overfits else ""
    return (
        f"The run made {format_quantity(evidence['epochs'])} passes over its data, the sweep at "
        f"most {format_quantity(evidence['epochs_in_sweep'])}. Its data are worth "
        f"{_percent(evidence['effective_share_of_data'])} of data repeated as in the sweep"
        f"{expected}.{climbs} Add data, or stop earlier."
    )


def _batch(judged: Configuration, evidence: Mapping[str, float]) -> str:
    """How much more data the batch needs."""
    batch, scale, usual = (
        evidence["batch_size"],
        evidence["noise_scale"],
        batch_size_of_sweep(judged),
    )
    than = (
        "small batches" if usual is None else f"the sweep's batch size of {format_quantity(usual)}"
    )
    return (
        f"The batch size of {format_quantity(batch)} is {_rough(batch / scale)} times the noise "
        f"scale of {format_quantity(scale)} and needs about {_rough(evidence['data_factor'])} "
        f"times as much data as {than}. Use a smaller batch, or plan for that much more data."
    )


def _refitted(finding: Finding) -> str:
    """What the law expects with these runs; nothing where it could not be fitted."""
    if not finding.size:
        return ""
    names = ("refitted_loss_at_double_size", "loss_at_double_size")
    after, before = (format_value(finding.evidence[name]) for name in names)
    size = name_size(finding.size)
    return f" Fitted with these runs, the law expects {after} at {size}, not {before}."


def _unknown(judged: Configuration, finding: Finding, *, units: str | None) -> str:
    """What is off, and what to do where nothing recorded explains it but perhaps two units."""
    where = f"{'better' if judged.off < 0 else 'worse'} than the law predicts"
    if "off_replicates" in finding.evidence:
        where = _from_replicates(finding)
    todo = (
        "Repeat it with another seed; if the deviation stays, the law may not hold at this size."
    )
    if units is not None:
        todo = f"Its loss seems to be in {units}. Convert both to the same unit."
    elif is_elsewhere(judged) or is_far(judged):
        todo = f"{_distances(judged)}. The optimum may lie elsewhere: tune at this size."
    return f"The run is {where}, and nothing recorded explains it. {todo}"


def _from_replicates(finding: Finding) -> str:
    off = finding.evidence["off_replicates"]
    return f"{_percent(off)} {'worse' if off > 0 else 'better'} than its replicates"


def _differences(judged: Configuration) -> str:
    pairs = judged.differing.items()
    return "; ".join(f"{name} {own} instead of {other}" for name, (own, other) in pairs)


def _rise(spike: Spike | None) -> str:
    assert spike is not None
    is_finite = math.isfinite(spike.height)
    rise = f"rose by {_percent(math.expm1(spike.height))}" if is_finite else "became infinite"
    return f"{rise} at step {format_quantity(spike.step)}"


def _distances(judged: Configuration) -> str:
    """The tuned values that are far from the optimum of the law, or the farthest."""
    far = min(MISTUNED_OCTAVES, max(map(abs, judged.octaves)))
    pairs = zip(judged.tuned, judged.octaves, strict=True)
    return " and ".join(_from_optimum(name, u) for name, u in pairs if abs(u) >= far)


def _high_values(judged: Configuration) -> str:
    """The tuned values above the optimum, which make a run unstable."""
    pairs = zip(judged.tuned, judged.octaves, strict=False)
    high = "; ".join(_from_optimum(name, u) for name, u in pairs if u > HIGH_OCTAVES)
    return f" {high}." if high else ""


def _from_optimum(name: str, octaves: float) -> str:
    return f"{name} is {'above' if octaves > 0 else 'below'} the optimum by {_factor(octaves)}"


def _factor(octaves: float) -> str:
    return f"a factor of {_rough(2 ** min(abs(octaves), MAX_OCTAVES))}"


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)


def _rough(value: float) -> str:
    return format_quantity(value, digits=2)
