"""Why a configuration is off: causes in a fixed order, the first that applies is named.

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
ones. A cause is a function of a configuration that returns what it found in numbers, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from extrap.checking.configurations import Configuration, Finding, known_number
from extrap.checking.tuned_costs import MISTUNED_COST
from extrap.fitting.surface.draws import DIVERGED_EXCESS
from extrap.laws.repeated import effective_epochs
from extrap.reading.names import kinds_of
from extrap.records.confidence import LOW_HALF_WIDTH

MISTUNED_OCTAVES = 0.5
"""A value closer than this to the forecast, or inside its interval, is tuned, unless it is costly.
"""
MISTUNED_PROBABILITY, SURPRISING_P = 0.95, 0.01
"""Mistuned is what is costly with this probability, unless its loss is so surprising …"""
MISTUNED_SHARE = 0.5
"""… but for one above the law's interval, of which mistuning explains at least this share."""
FAR_OCTAVES = 2.0
"""A value so far from the forecast is mentioned even where the loss shows nothing."""
EARLIER_SHARE = 0.5
"""If a run had more than this share of its deviation before the spike, that is not the cause."""
REPEATED_EPOCHS = 4.0
"""Repeating data more often than this costs loss (Muennighoff et al. 2023, arXiv 2305.16264);
small data are used up sooner, so fewer epochs are suspected last."""
SATURATION = 15.3878
"""R_D*, repetitions after which little is left to gain (the same, Sec. 6)."""
CRITICAL_OVERHEAD = 1.2
"""Data that a critical batch takes, as a multiple (Zhang et al. 2024, arXiv 2410.21676)."""
N_SEARCHED = 81
"""Values of a column among which the best beside the others is looked for."""
UNIT_RATIO_TOLERANCE = 0.03
"""Log loss by which the ratio of two units may be missed."""
DATA_SHARE = 0.2
"""Worn-out data are the cause if they explain at least this share, where the law knows data."""


def find_cause(configuration: Configuration) -> Finding:
    """The first cause that fits; without a deviation, what sets the configuration apart."""
    if configuration.unjudged is not None:
        return Finding(code=configuration.unjudged)
    if not deviates(configuration):
        return _not_off(configuration)
    finding = next(filter(None, (look(configuration) for look in RULES_IN_ORDER)))
    if configuration.distance_from_replicates is None:
        return finding
    apart = {"off_replicates": math.expm1(configuration.distance_from_replicates)}
    return replace(finding, evidence={**finding.evidence, **apart})


def deviates(configuration: Configuration) -> bool:
    """Whether its loss, that it has none, or its tuned values are an alarm."""
    is_diverged = configuration.row["status"] == "diverged"
    return is_diverged or configuration.has_loss_alarm or is_mistuned(configuration)


def on_law(configuration: Configuration) -> bool | None:
    """Whether it is on the law of tuned runs; None where that is undecided.

    It is off if it deviates, and on if its loss lies in its prediction interval and that interval
    could have said otherwise.
    """
    if configuration.unjudged is not None:
        return None
    if deviates(configuration):
        return False
    return True if configuration.is_inside and not _is_uninformative(configuration) else None


def standing(configuration: Configuration) -> str:
    """The code of where the loss of a configuration lies that is no alarm."""
    loss = math.exp(configuration.predicted_log_loss + configuration.judged_deviation)
    if loss in configuration.predicted_pi:
        return "on-law" if on_law(configuration) else "undecided-wide"
    if on_law(configuration):
        return "within-tolerance"
    cost = configuration.tuned_cost
    is_explained = cost is not None and loss in cost.expected_pi
    return "undecided-tuning" if is_explained else "undecided-among-many"


def is_mistuned(configuration: Configuration) -> bool:
    """Whether its tuned values cost half a percent, and more than the recommended ones."""
    excess, cost = configuration.excess, configuration.tuned_cost
    deviation = configuration.judged_deviation
    if cost is None or cost.p_value is None or excess is None:
        return False
    if configuration.has_loss_alarm and deviation < 0:  # better than the law: no cost shows
        return False
    above = configuration.above_tuned
    if above is not None and above <= MISTUNED_COST:  # nor does any beside a tuned run
        return False
    is_away = excess > MISTUNED_COST or _is_outside(configuration)
    is_likely = cost.p_value > SURPRISING_P
    if is_above(configuration):  # far out the cost is known badly
        is_likely |= is_without_bound(configuration) or excess >= MISTUNED_SHARE * deviation
    return is_away and cost.chance >= MISTUNED_PROBABILITY and is_likely


def is_above(configuration: Configuration) -> bool:
    """Whether its loss is above its prediction interval."""
    return configuration.judged_deviation > 0 and not configuration.is_inside


def is_without_bound(configuration: Configuration) -> bool:
    """Whether its tuned values are so far out that they may cost any loss."""
    return configuration.excess is not None and configuration.excess >= DIVERGED_EXCESS


def is_surprising(configuration: Configuration) -> bool:
    """Whether its loss is not what is expected at its own tuned values."""
    cost, level = configuration.tuned_cost, configuration.forecast.level
    return cost is not None and (cost.p_value or 0.0) <= 1 - level


def is_elsewhere(configuration: Configuration) -> bool:
    """Whether its loss says that the optimum is not where the forecast has it."""
    excess, cost = configuration.excess, configuration.tuned_cost
    if cost is None or cost.p_value is None or excess is None:
        return False
    is_better = cost.p_value <= SURPRISING_P and configuration.judged_deviation < excess
    return not is_mistuned(configuration) and is_better and excess > MISTUNED_COST


def is_far(configuration: Configuration) -> bool:
    """Whether its tuned values lie so far from the forecast's that it should be mentioned."""
    return max(map(abs, configuration.octaves), default=0.0) >= FAR_OCTAVES


def _is_outside(configuration: Configuration) -> bool:
    """Whether a tuned value is half an octave off, and outside the interval of its optimum."""
    optima, tuned = configuration.point.tuned, configuration.tuned
    return any(
        abs(octaves) >= MISTUNED_OCTAVES and tuned[name] not in optima[name].pi
        for name, octaves in zip(tuned, configuration.octaves, strict=True)
    )


def _is_uninformative(configuration: Configuration) -> bool:
    """Whether the interval is wide and holds the loss of the sweep's largest size as well."""
    low, high = configuration.predicted_pi
    if low is None and high is not None:  # as far below as above
        low = math.exp(2 * configuration.predicted_log_loss - math.log(high))
    is_wide = not low or not high or math.log(high / low) > 2 * LOW_HALF_WIDTH
    return is_wide and configuration.forecast.last_value() in configuration.predicted_pi


def _not_off(configuration: Configuration) -> Finding:
    """What sets apart a configuration that is no alarm."""
    if configuration.differing:
        return Finding(code="other-recipe", cause="recipe")
    if configuration.spike is not None:
        evidence = _spike_evidence(configuration)
        return Finding(code="recovered", cause="instability", evidence=evidence)
    if is_elsewhere(configuration):
        return Finding(code="elsewhere", evidence=_distances(configuration))
    if is_far(configuration):
        return Finding(code="far", evidence=_distances(configuration))
    return Finding(code=standing(configuration))


def _instability(configuration: Configuration) -> Finding | None:
    """A run that diverged, or whose loss spiked and did not recover."""
    overfits, deviation = configuration.overfits, configuration.judged_deviation
    if configuration.row["status"] == "diverged":
        if overfits and _epochs(configuration, above=REPEATED_EPOCHS) is not None:
            return None
        evidence = _distances(configuration)
        return Finding(code="diverged", cause="instability", evidence=evidence)
    if configuration.spike is None or deviation < 0 or is_mistuned(configuration):
        return None
    if overfits and _epochs(configuration, above=1.0) is not None:
        return None
    if (configuration.deviation_before_spike or 0.0) > EARLIER_SHARE * deviation:
        return None  # it deviated before the spike
    return Finding(code="spiked", cause="instability", evidence=_spike_evidence(configuration))


def _mistuned(configuration: Configuration) -> Finding | None:
    """Tuned values off their optimum."""
    cost = configuration.tuned_cost
    if cost is None or not is_mistuned(configuration):
        return None
    name, distance = _costliest(configuration)
    recommended = configuration.point.recommended[name]
    assert recommended is not None
    evidence = {
        **_distances(configuration),
        f"{name}_octaves_from_best": distance,
        f"{name}_recommended": recommended,
        "chance_mistuned": cost.chance,
        "expected_excess": math.expm1(configuration.expected_cost),
        "excess_by_its_loss": math.expm1(cost.mean),
    }
    if is_above(configuration):
        deviation = configuration.judged_deviation
        share = 1.0 if is_without_bound(configuration) else cost.mean / deviation
        evidence["explained_share"] = share
    return Finding(code="mistuned", cause="mistuned", evidence=evidence, column=name)


def _recipe(configuration: Configuration) -> Finding | None:
    """A condition that differs from the sweep's and has no cause of its own."""
    differing = configuration.differing
    if not differing:
        return None
    for conditions, look in OWN_CAUSES:
        if set(differing) <= conditions and look(configuration) is not None:
            return None
    evidence = {"n_differing": float(len(differing))}
    return Finding(code="recipe", cause="recipe", evidence=evidence)


def _data(configuration: Configuration, *, above: float = REPEATED_EPOCHS) -> Finding | None:
    """More passes over the data than the sweep made, and more than are nearly free."""
    passes = _epochs(configuration, above=above)
    if configuration.judged_deviation < 0 or passes is None:
        return None
    epochs, in_sweep = passes
    worth = _worth(epochs) / _worth(max(in_sweep, 1.0))
    evidence = {"epochs": epochs, "epochs_in_sweep": in_sweep, "effective_share_of_data": worth}
    expected = _loss_at_effective_data(configuration, worth)
    if expected is not None:
        evidence["expected_loss_of_effective_data"] = math.exp(expected)
    if expected is not None and configuration.judged_deviation > 0:
        share = (expected - configuration.predicted_log_loss) / configuration.judged_deviation
        evidence["explained_share"] = share
        if share < DATA_SHARE:
            return None
    return Finding(code="data", cause="data", evidence=evidence)


def _batch(configuration: Configuration) -> Finding | None:
    """A batch that needs a fifth more data than the sweep's, by `1 + B / B_noise`."""
    row = configuration.row
    batch, scale = known_number(row.get("batch_size")), known_number(row.get("noise_scale"))
    if configuration.judged_deviation < 0 or batch is None or scale is None or not scale > 0:
        return None
    if "batch_size" in configuration.forecast.runs.tuned:  # then it is tuned or mistuned
        return None
    overhead = (1 + batch / scale) / (1 + (batch_size_of_sweep(configuration) or 0.0) / scale)
    if overhead <= CRITICAL_OVERHEAD:
        return None
    evidence = {"batch_size": batch, "noise_scale": scale, "data_factor": overhead}
    return Finding(code="batch", cause="batch", evidence=evidence)


def _unknown(configuration: Configuration) -> Finding:
    """Nothing that is recorded explains it, but perhaps another unit of the loss."""
    code, unexplained = "unknown", configuration.judged_deviation - (configuration.excess or 0.0)
    if not math.isnan(unexplained):
        predicted = math.exp(configuration.predicted_log_loss)
        ratios = {
            "in-bits": -math.log(math.log(2)),
            "in-nats": math.log(math.log(2)),
            "in-perplexity": predicted - math.log(predicted),
        }
        units = (
            unit
            for unit, ratio in ratios.items()
            if abs(unexplained - ratio) < UNIT_RATIO_TOLERANCE
        )
        code = next(units, code)
    return Finding(code=code, cause="unknown", evidence=_distances(configuration))


OWN_CAUSES: tuple[tuple[frozenset[str], Callable[[Configuration], Finding | None]], ...] = (
    (frozenset({"epochs"}), _data),
    (frozenset({"batch_size", "steps"}), _batch),
)
"""Conditions with a cause of their own: where only these differ, and it fits, it is named."""
RULES_IN_ORDER: tuple[Callable[[Configuration], Finding | None], ...] = (
    _instability,
    _mistuned,
    _recipe,
    _data,
    _batch,
    partial(_data, above=1.0),  # any more passes over the data than the sweep made
    _unknown,
)


def batch_size_of_sweep(configuration: Configuration) -> float | None:
    """The median batch size of the sweep's runs, if it is recorded."""
    frame = configuration.forecast.runs.to_frame()
    return known_number(frame["batch_size"].median()) if "batch_size" in frame else None


def _epochs(configuration: Configuration, *, above: float) -> tuple[float, float] | None:
    """Passes over the data, and the sweep's most; None unless they are more, and above a bound."""
    epochs = known_number(configuration.row.get("epochs"))
    if epochs is None or epochs <= above:
        return None
    frame = configuration.forecast.runs.to_frame()
    in_sweep = known_number(frame["epochs"].max()) if "epochs" in frame else None
    in_sweep = 1.0 if in_sweep is None else in_sweep
    return (epochs, in_sweep) if epochs > in_sweep else None


def _worth(epochs: float) -> float:
    """Data that so many passes are worth, as a share of as much fresh data."""
    return float(effective_epochs(epochs, SATURATION)) / epochs


def _loss_at_effective_data(configuration: Configuration, worth: float) -> float | None:
    """Log loss the law expects of the data that the repetitions are worth; None without data."""
    size = dict(configuration.point.size)
    column = next(
        (c for c, kind in kinds_of(size).items() if kind in ("tokens", "examples")), None
    )
    if column is None:
        return None
    prediction = configuration.forecast.predict_loss({**size, column: size[column] * worth})
    return None if prediction is None else prediction.log_loss


def _costliest(configuration: Configuration) -> tuple[str, float]:
    """The tuned value that costs most, and its octaves from its best, the others as they are."""
    values = configuration.forecast.values_at(configuration.point.size)
    assert values is not None
    octaves, remaining = np.array(configuration.octaves), {}
    for i, name in enumerate(values.names):
        tries = np.repeat(values.optimum[None] + octaves, N_SEARCHED, axis=0)
        tries[:, i] += np.linspace(min(-2 * octaves[i], 0), max(-2 * octaves[i], 0), N_SEARCHED)
        excesses = values.typical.excesses(tries)[0]
        best = int(np.argmin(excesses))
        remaining[name] = excesses[best], float(values.optimum[i] + octaves[i] - tries[best, i])
    name = min(remaining, key=lambda name: remaining[name][0])
    return name, remaining[name][1]


def _distances(configuration: Configuration) -> dict[str, float]:
    """Octaves of each tuned value from its optimum."""
    pairs = zip(configuration.tuned, configuration.octaves, strict=False)
    return {f"{name}_octaves": octaves for name, octaves in pairs}


def _spike_evidence(configuration: Configuration) -> dict[str, float]:
    """Where its curve spiked, and how high if that is a number."""
    spike = configuration.spike
    assert spike is not None
    height = {"spike_height": math.expm1(spike.height)} if math.isfinite(spike.height) else {}
    return {"spike_step": spike.step, **height}
