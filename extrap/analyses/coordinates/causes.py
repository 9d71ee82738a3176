"""Why a layer breaks: read from the rates and shapes of its parameter at each width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extrap.analyses.coordinates.slopes import (
    GROWS,
    STABLE_SLOPE,
    UNBOUNDED,
    VANISHES,
    Coordinate,
)
from extrap.records.numbers import format_decimals

if TYPE_CHECKING:
    from extrap.training.coordinates import Group

Groups = Sequence[Mapping[str, "Group"]]
"""Width → parameter → how it is updated."""


class Findings(NamedTuple):
    """The first layer that breaks, why, and parameters whose decay depends on the width."""

    first: str | None = None
    cause: str = ""
    coupled_decay: tuple[str, ...] = ()


def find_cause(layers: Sequence[Coordinate], groups: Groups, widths: Sequence[int]) -> Findings:
    """What breaks first: a layer by itself, before one that passes on what others do."""
    coupled = tuple(
        name
        for name in groups[0]
        if all(by_name[name].decay > 0 for by_name in groups)
        and abs(_power([by_name[name].decay for by_name in groups], widths)) > STABLE_SLOPE
    )
    broken = [layer for layer in layers if layer.verdict in (GROWS, VANISHES, UNBOUNDED)]
    by_itself = [layer for layer in broken if layer.own_exponent is not None]
    for layer in by_itself or broken:
        return Findings(layer.name, _cause(layer, groups, widths), coupled)
    if coupled:
        power = _power([by_name[coupled[0]].decay for by_name in groups], widths)
        return Findings(
            coupled[0],
            "its weight decay is multiplied by a learning rate that depends on the width, as "
            f"{_to(power)}: divide the decay by that",
            coupled,
        )
    return Findings()


def _cause(layer: Coordinate, groups: Groups, widths: Sequence[int]) -> str:
    if layer.verdict == UNBOUNDED or layer.exponent is None:
        return "the training diverges: give a smaller learning rate"
    if layer.name.partition(" (")[0].endswith(".scores"):
        if layer.exponent == layer.output_slope.value:
            return (
                "attention divides its scores by the square root of the size of a head, which "
                "grows with the width: divide by the size, 1 / d"
            )
        return "the scores of attention grow: queries and keys move too far, or divide by 1 / d"
    name = layer.name.partition(" (")[0]
    parameter = next((n for n in groups[0] if name in _layers(n, groups[0][n])), None)
    if parameter is None:
        return "what it is given grows: look at the initial values and multipliers before it"
    group = groups[0][parameter]
    shapes = np.array([by_name[parameter].shape for by_name in groups], dtype=float)
    grows = [_power(axis, widths) > STABLE_SLOPE for axis in shapes.T]
    is_tied = len(group.uses) > 1 or " (" in layer.name
    is_readout = len(grows) > 1 and not grows[0] and (is_tied or not group.is_table)
    if layer.own_exponent is None:
        what = "the readout lacks a multiplier 1 / width" if is_readout else "its input grows"
        return f"{what}: outputs change as {_to(layer.exponent)}"
    if layer.update_slope.value != layer.exponent:
        what = "tied embeddings" if is_tied else "initial values"
        return f"{what} are not rescaled: outputs start as {_to(layer.exponent)}"
    rate = _power([by_name[parameter].rate for by_name in groups], widths)
    needed = f"its rate goes as {_to(rate)}, {_to(rate - layer.exponent)} would keep it even"
    if is_tied and is_readout:
        return f"tied embeddings are read out without a multiplier 1 / width; {needed}"
    if is_readout and layer.exponent > 0:
        return f"the readout has neither a multiplier 1 / width nor a smaller rate; {needed}"
    if group.is_table:
        return f"the learning rate of the embedding is scaled with the width; {needed}"
    if len(grows) == 1:
        return f"the learning rate of a gain or bias is scaled with the width; {needed}"
    if group.is_orthogonal:
        return f"the rate of {group.optimizer} has the factor of another optimizer; {needed}"
    if layer.exponent > 0:
        return f"the learning rate is not scaled with the width as it must be; {needed}"
    return f"the learning rate is scaled twice, or too much; {needed}"


def _layers(parameter: str, group: Group) -> tuple[str, ...]:
    """Names that a layer of a parameter may have."""
    return (parameter.removesuffix(".weight"), *group.uses)


def _power(values: Sequence[float] | np.ndarray, widths: Sequence[int]) -> float:
    """Exponent of a power law of the width; 0 where a value is 0."""
    if min(values) <= 0:
        return 0.0
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def _to(power: float) -> str:
    return f"width^{format_decimals(round(power, 2) + 0.0, 2)}"
