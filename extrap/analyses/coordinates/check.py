"""`coordinate_check`: does each layer compute, and move, alike at every width?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extrap.analyses.coordinates.causes import Findings, find_cause
from extrap.analyses.coordinates.slopes import LEAST_WIDTHS, STILL, Coordinate, coordinate_of
from extrap.analyses.coordinates.transfer import RateTransfer, rate_transfer
from extrap.errors import DataError, argument
from extrap.records import StudySpec
from extrap.records.codec import shape
from extrap.records.fields import require
from extrap.records.results import Shown

if TYPE_CHECKING:
    from extrap.training.coordinates import Factory, Group, Loss, MakeOptimizer, Measured


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CoordinateCheck(Shown):
    """What every layer computes before and after a few updates, at several widths.

    Attributes:
        widths: Smallest first.
        coordinates: The layers, in the order of the computation.
        first: The first layer that breaks, or whose weight decay does; None if none does.
        cause: Why it probably does.
        coupled_decay: Parameters that lose a share per update that depends on the width.
        transfer: How the best learning rate moves; None unless it was tuned.
        parametrization: The width rule of a study; empty of a model of your own.
        optimizer: The optimizers.
        lr: The learning rate.
        steps: Updates made.
        seeds: Seeds averaged over.
    """

    widths: tuple[int, ...]
    coordinates: tuple[Coordinate, ...]
    first: str | None
    cause: str
    coupled_decay: tuple[str, ...]
    transfer: RateTransfer | None
    parametrization: str
    optimizer: str
    lr: float
    steps: int
    seeds: tuple[int, ...]

    @property
    def is_flat(self) -> bool | None:
        """Whether nothing breaks; None of fewer than four widths, or if no output moves."""
        if self.first is not None:
            return False
        return None if len(self.widths) < LEAST_WIDTHS or self.is_still else True

    @property
    def is_still(self) -> bool:
        """Whether the updates change no output at all, as at a learning rate of 0."""
        return all(layer.verdict == STILL for layer in self.coordinates)


shape(
    CoordinateCheck,
    kind="extrap-coordinate-check",
    version=2,
    add={"is_flat": lambda checked: checked.is_flat},
)


def coordinate_check(
    model: StudySpec | Factory,
    widths: Sequence[int] | None = None,
    batch: Any = None,
    *,
    make_optimizer: MakeOptimizer | None = None,
    loss: Loss | None = None,
    steps: int = 3,
    lr: float | None = None,
    seeds: Sequence[int] | None = None,
    tune: int | None = None,
    device: str = "cpu",
) -> CoordinateCheck:
    """Measure how what each layer computes depends on width, before and after a few updates.

    Args:
        model: A function from a width to a module, or a study.
        widths: Four at least for a verdict; a study's own by default.
        batch: What the loss is computed of, or a function of the number of the update, so that
            the runs of `tune` see several batches. A study has its own.
        make_optimizer: From the module and the learning rate to an optimizer or a list of them;
            by default Adam, one rate for all.
        loss: From the module and the batch to a scalar. By default the cross-entropy, or the mean
            square of real targets, of a batch `(inputs, targets)`; the `loss` in the output for a
            batch that is a mapping.
        steps: Number of updates, on one batch.
        lr: Learning rate; .001 by default, the middle of the range of a study.
        seeds: (0, 1, 2) by default, or the study's.
        tune: Updates of the runs that tune the learning rate at up to four widths; by default
            none are made.
        device: Where to train.

    Returns:
        A slope over width and a verdict for each layer, and why the first one breaks.

    Raises:
        ValueError: Fewer than two widths, a factory that takes none, a number out of range.
        DataError: The model cannot be made or returns no tensor; a loss is not finite.

    References:
        Yang, Hu et al. 2022, arXiv 2203.03466, App. D.1; Yang, Simon, Bernstein 2023, arXiv
        2310.17813, Condition 1; Everett et al. 2024, arXiv 2407.05872, Sec. 3.
    """
    from extrap.training.coordinates import FactoryModels, StudyModels

    source = (
        StudyModels(model, device)
        if isinstance(model, StudySpec)
        else FactoryModels(model, batch, make_optimizer, loss, device)
    )
    chosen = _checked_widths(source.widths if widths is None else widths)
    require(steps >= 1, f"{argument('steps')} must be at least 1", steps)
    if lr is not None:
        require(0 <= lr < math.inf, f"{argument('lr')} must be at least 0 and finite", float(lr))
    require(tune is None or tune >= 1, f"{argument('tune')} must be at least 1", tune)
    rate = float(source.lr if lr is None else lr)
    tried = tuple(source.seeds if seeds is None else seeds)
    require(len(tried) > 0, f"{argument('seeds')} must have at least one", list(tried))
    measured = [[source.measure(width, rate, steps, s) for s in tried] for width in chosen]
    layers = tuple(
        coordinate_of(name, [[m.traces[name] for m in row] for row in measured], chosen)
        for name in _computed_in_every_pass([m for row in measured for m in row], steps + 1)
    )
    groups = _groups_of_every_width([row[0].groups for row in measured])
    findings = find_cause(layers, groups, chosen) if len(chosen) >= LEAST_WIDTHS else Findings()
    return CoordinateCheck(
        widths=chosen,
        coordinates=layers,
        **findings._asdict(),
        transfer=None if tune is None else rate_transfer(source, chosen, rate, tune, tried),
        parametrization=source.parametrization,
        optimizer=", ".join(sorted({group.optimizer for group in groups[0].values()} - {""})),
        lr=rate,
        steps=steps,
        seeds=tried,
    )


def _computed_in_every_pass(measured: Sequence[Measured], n_passes: int) -> list[str]:
    """Layers that every model has, and computes in every pass; the depth may go with the width."""
    return [
        name
        for name in measured[0].traces
        if all(name in m.traces and len(m.traces[name].outputs) == n_passes for m in measured)
    ]


def _groups_of_every_width(groups: Sequence[Mapping[str, Group]]) -> list[dict[str, Group]]:
    names = [name for name in groups[0] if all(name in by_name for by_name in groups)]
    shapes = [{name: group.shape for name, group in by_name.items()} for by_name in groups]
    if all(of_width == shapes[0] for of_width in shapes):
        raise DataError(
            "the parameters of the model must grow with its width, got the same shapes at every "
            "width; use the width in the factory."
        )
    return [{name: by_name[name] for name in names} for by_name in groups]


def _checked_widths(widths: Sequence[float]) -> tuple[int, ...]:
    chosen = tuple(sorted({int(width) for width in widths}))
    require(len(chosen) > 0 and chosen[0] >= 1, "a width must be at least 1", list(chosen))
    if len(chosen) < 2:
        several = argument("widths", [chosen[0] * 2**i for i in range(LEAST_WIDTHS)])
        raise ValueError(
            f"a coordinate check needs at least two widths, got {chosen[0]}; write {several}."
        )
    return chosen
