"""The words of a verdict: for each cause what to do, and the cheapest run that would decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

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
from extrap.checking.configurations import (
    MAX_OCTAVES,
    Configuration,
    Finding,
    other_horizon,
)
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
MIXED_UNITS = {
    "in-bits": "bits and the sweep's in nats",
    "in-nats": "nats and the sweep's in bits",
    "in-perplexity": "perplexity and the sweep's in nats",
}
"""Code of a finding → the units that seem to be mixed."""
OTHER_UNITS = (
    "The run is {deviation}, and nothing recorded explains it. Its loss seems to be in {units}. "
    "Convert both to the same unit."
)
ADVICE = {
    "failed": "The run failed and has no final loss, so it cannot be judged.",
    "pruned": "The run was pruned and has no final loss, so it cannot be judged.",
    "below-sweep": "{below_sweep} Laws are not extrapolated downwards, so the run cannot be "
    "judged.{other_unit_below}",
    "other-horizon": "The run has {horizon}, the sweep {horizon_of_sweep}, at this size. The "
    "sweep does not show what that changes, so the run cannot be judged. Tune the small sizes at "
    "that horizon too.",
    "loss-refused": "The forecast of the loss is refused here: {refusal}.",
    "on-law": "On the law: nothing to do.",
    **dict.fromkeys(
        ("within-tolerance", "undecided-wide", "undecided-tuning", "undecided-among-many"),
        "{standing}",
    ),
    "other-recipe": "{standing} The recipe differs from the sweep's ({differences}); the forecast "
    "holds for the sweep's recipe only.",
    "recovered": "{standing} It {rise}: look at the gradient norm and the data at that step.",
    "elsewhere": "{standing} Its {distances}, which was expected to cost {expected_cost}. The "
    "optimum is not where the forecast says: tune at this size.",
    "far": "{standing} Its {distances}. Its loss does not show whether that is mistuned{chance}: "
    "tune at this size.",
    "diverged": "The run diverged. Lower the learning rate or lengthen the warm-up, and look at "
    "the gradient norm before it diverged.{high_values}",
    "spiked": "The loss {rise} and did not recover. Go back to a checkpoint before that step, and "
    "skip the batches after it or lower the learning rate.{high_values}",
    "mistuned": "{own_value} is too {direction} by {off_by} and {explains}. Use {recommended} and "
    "expect a loss of {law}.{beyond_mistuning}",
    "recipe": "The recipe differs from the sweep's ({differences}). Train one small size with "
    "this recipe, or repeat this run with the sweep's recipe.",
    "data": "The run made {epochs} passes over its data, the sweep at most {epochs_in_sweep}. Its "
    "data are worth {effective_share} of data repeated as in the sweep{expected_loss}.{climbs} "
    "Add data, or stop earlier.",
    "batch": "The batch size of {batch_size} is {batch_over_noise} times the noise scale of "
    "{noise_scale} and needs about {data_factor} times as much data as {usual_batch}. Use a "
    "smaller batch, or plan for that much more data.",
    "law": "Several seeds deviate in the same way, and nothing recorded explains it: the law does "
    "not hold at this size. Add this size to the sweep, tune it, and fit again.{refitted}",
    "unknown": "The run is {deviation}, and nothing recorded explains it. {next_step}",
    **dict.fromkeys(MIXED_UNITS, OTHER_UNITS),
}
"""Code of a finding → what it means and what to do; `FIELDS` fill it."""
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
    "batch": "Train {smallest} with this batch size and with {critical_batch}, on equal data: the "
    "difference in loss is the cost of the batch size.",
    "law": "Tune the smallest of these sizes. If its optimum lies where the forecast says, the "
    "law of the loss is wrong; otherwise the law of the optimum is.",
    **dict.fromkeys(
        ("unknown", *MIXED_UNITS),
        "Repeat the run with another seed. A run at a size between the sweep's largest and this "
        "one is cheaper and nearly as informative.",
    ),
}
"""Code of a finding → the cheapest run that would decide the cause; `FIELDS` fill it."""


def advise(judged: Configuration) -> tuple[str, str]:
    """What to do, and the cheapest run that would decide the cause; both may be empty."""
    finding, fields = _finding(judged), _Fields(judged)
    advice = [ADVICE[finding.code].format_map(fields)]
    if finding.cause != "unknown" and "off_replicates" in finding.evidence:
        advice.append(f"The run is {_from_replicates(judged)}.")
    if judged.unjudged in (None, "loss-refused"):
        advice.append(_size_note(judged))
    text = " ".join(filter(None, advice))
    experiment = EXPERIMENTS.get(finding.code, "").format_map(fields)
    return text.replace(NBSP, " "), experiment.replace(NBSP, " ")


class _Fields(dict[str, str]):
    """What a template names, made when it is asked for."""

    def __init__(self, judged: Configuration) -> None:
        self._judged = judged

    def __missing__(self, name: str) -> str:
        return FIELDS[name](self._judged)


def _finding(judged: Configuration) -> Finding:
    assert judged.finding is not None
    return judged.finding


def _standing(judged: Configuration) -> str:
    """Where a loss lies that is no alarm, and what would decide if that is open."""
    upper = None if judged.tuned_cost is None else judged.tuned_cost.expected_pi.upper
    return STANDINGS[standing(judged)].format(
        tuned=" or ".join(judged.tuned),
        highest="any value" if upper is None else format_value(upper),
    )


def _column_below(judged: Configuration) -> tuple[str, float, float]:
    """The first size column that lies below the sweep, its value, the smallest one there."""
    smallest = {c: min(o.size[c] for o in judged.forecast.optima) for c in judged.point.size}
    size = judged.point.size
    column = next(c for c, value in size.items() if value < smallest[c])
    return column, size[column], smallest[column]


def _below_sweep(judged: Configuration) -> str:
    column, value, smallest = _column_below(judged)
    return (
        f"{column} {format_quantity(value)} lies below the smallest tuned one, "
        f"{format_quantity(smallest)}."
    )


def _other_unit_below(judged: Configuration) -> str:
    _, value, smallest = _column_below(judged)
    return " Are both in the same unit?" if value * ODD_RATIO < smallest else ""


def _horizon(judged: Configuration) -> str:
    horizon = judged.forecast.horizon
    assert horizon is not None
    amount = other_horizon(judged.forecast, judged.row, judged.point.size)
    return f"{horizon.column} {format_quantity(amount)}"


def _horizon_of_sweep(judged: Configuration) -> str:
    horizon = judged.forecast.horizon
    assert horizon is not None
    return format_quantity(horizon.value(judged.point.size))


def _size_note(judged: Configuration) -> str:
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


def _octaves_off(judged: Configuration) -> float:
    """How far the value that costs most lies from the recommended one."""
    name = _finding(judged).column
    own_value = judged.tuned[name]
    assert own_value is not None
    return math.log2(own_value) - math.log2(_evidence(judged)[f"{name}_recommended"])


def _own_value(judged: Configuration) -> str:
    name = _finding(judged).column
    return f"{name} {format_quantity(judged.tuned[name])}"


def _explains(judged: Configuration) -> str:
    """How much of the deviation a mistuned value explains."""
    evidence = _evidence(judged)
    if "explained_share" not in evidence:
        return f"costs about {_percent(evidence['excess_by_its_loss'])} in loss"
    share = evidence["explained_share"]
    part = "all" if share > WHOLE_SHARE else f"about {_percent(share)}"
    return f"explains {part} of the excess loss"


def _recommended(judged: Configuration) -> str:
    values = judged.point.recommended.items()
    return " and ".join(f"{name} {format_quantity(value)}" for name, value in values if value)


def _beyond_mistuning(judged: Configuration) -> str:
    """What a mistuned value leaves open."""
    if not is_surprising(judged) or is_without_bound(judged):
        return ""
    if judged.judged_deviation > (judged.excess or 0.0):
        return " The loss is worse than this explains: something else is wrong as well."
    return " The sweep predicts a higher cost, but this far out it is uncertain."


def _expected_loss(judged: Configuration) -> str:
    loss = _evidence(judged).get("expected_loss_of_effective_data")
    return "" if loss is None else f", for which the law expects a loss of {format_value(loss)}"


def _climbs(judged: Configuration) -> str:
    return " Its held-out loss rose steadily after its minimum." if judged.overfits else ""


def _usual_batch(judged: Configuration) -> str:
    usual = batch_size_of_sweep(judged)
    return (
        "small batches" if usual is None else f"the sweep's batch size of {format_quantity(usual)}"
    )


def _refitted(judged: Configuration) -> str:
    """What the law expects with these runs; nothing where it could not be fitted."""
    finding = _finding(judged)
    if not finding.size:
        return ""
    names = ("refitted_loss_at_double_size", "loss_at_double_size")
    after, before = (format_value(finding.evidence[name]) for name in names)
    size = name_size(finding.size)
    return f" Fitted with these runs, the law expects {after} at {size}, not {before}."


def _deviation(judged: Configuration) -> str:
    """What a run is that nothing recorded explains."""
    if "off_replicates" in _evidence(judged):
        return _from_replicates(judged)
    return f"{'better' if judged.judged_deviation < 0 else 'worse'} than the law predicts"


def _next_step(judged: Configuration) -> str:
    if is_elsewhere(judged) or is_far(judged):
        return f"{_distances(judged)}. The optimum may lie elsewhere: tune at this size."
    return (
        "Repeat it with another seed; if the deviation stays, the law may not hold at this size."
    )


def _chance(judged: Configuration) -> str:
    cost = judged.tuned_cost
    return "" if cost is None else f" (probability {_percent(cost.chance)})"


def _evidence(judged: Configuration) -> Mapping[str, float]:
    return _finding(judged).evidence


def _from_replicates(judged: Configuration) -> str:
    off = _evidence(judged)["off_replicates"]
    return f"{_percent(off)} {'worse' if off > 0 else 'better'} than its replicates"


def _differences(judged: Configuration) -> str:
    pairs = judged.differing.items()
    return "; ".join(
        f"{name} {value} instead of {sweep_value}" for name, (value, sweep_value) in pairs
    )


def _rise(judged: Configuration) -> str:
    spike = judged.spike
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


def _written(name: str, write: Callable[[float], str]) -> Callable[[Configuration], str]:
    """A number of the evidence."""
    return lambda judged: write(_evidence(judged)[name])


FIELDS: dict[str, Callable[[Configuration], str]] = {
    "standing": _standing,
    "below_sweep": _below_sweep,
    "other_unit_below": _other_unit_below,
    "horizon": _horizon,
    "horizon_of_sweep": _horizon_of_sweep,
    "refusal": lambda judged: judged.point.refusals["loss"],
    "differences": _differences,
    "several": lambda judged: (
        "; change one condition at a time to find which" * (len(judged.differing) > 1)
    ),
    "rise": _rise,
    "distances": _distances,
    "expected_cost": lambda judged: _percent(math.expm1(judged.expected_cost)),
    "chance": _chance,
    "high_values": _high_values,
    "column": lambda judged: _finding(judged).column,
    "own_value": _own_value,
    "direction": lambda judged: "high" if _octaves_off(judged) > 0 else "low",
    "off_by": lambda judged: _factor(_octaves_off(judged)),
    "explains": _explains,
    "recommended": _recommended,
    "law": lambda judged: format_value(math.exp(judged.predicted_log_loss)),
    "beyond_mistuning": _beyond_mistuning,
    "epochs": _written("epochs", format_quantity),
    "epochs_in_sweep": _written("epochs_in_sweep", format_quantity),
    "effective_share": _written("effective_share_of_data", _percent),
    "expected_loss": _expected_loss,
    "climbs": _climbs,
    "batch_size": _written("batch_size", format_quantity),
    "noise_scale": _written("noise_scale", format_quantity),
    "data_factor": _written("data_factor", _rough),
    "batch_over_noise": lambda judged: _rough(
        _evidence(judged)["batch_size"] / _evidence(judged)["noise_scale"]
    ),
    "usual_batch": _usual_batch,
    "critical_batch": lambda judged: _rough(
        (CRITICAL_OVERHEAD - 1) * _evidence(judged)["noise_scale"]
    ),
    "smallest": lambda judged: name_size(judged.forecast.optima[0].size),
    "refitted": _refitted,
    "deviation": _deviation,
    "next_step": _next_step,
    "units": lambda judged: MIXED_UNITS[_finding(judged).code],
}
"""Field of a template → what it says of a configuration."""
