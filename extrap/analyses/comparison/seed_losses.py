"""The tuned log loss of each seed at each size of an arm, at the optimum that a forecast states.

The mean over the seeds of a size is the loss of its `Optimum`, so that a comparison and a forecast
state the same loss. The seeds scatter about it by the error of their mean (`losses_by_seed` of
`extrap.fitting.surface`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scipy import special

from extrap.errors import DataError
from extrap.fitting.surface.fitted_sizes import (
    FittedSweep,
    fit_sweep,
    has_replicates,
    seed_losses,
)
from extrap.fitting.surface.optimum_law import slope_draws
from extrap.records import WITHOUT_SEED, Interval, Measure, Optimum, Runs
from extrap.records.flags import Flag
from extrap.records.runs import ONLY_SIZE

Key = tuple[float, ...]
"""A size, one number per size column."""


def size_key(values: Iterable[float]) -> Key:
    """A size to 12 digits, so that sizes that differ by rounding are one."""
    return tuple(float(f"{value:.12g}") for value in values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """Tuned log losses of one arm.

    Attributes:
        name: The arm.
        by_size: Size → seed → log loss; sizes without a loss are left out.
        tuned_exponents: Tuned column → exponent of its best value in the first size column; none
            where the optima do not support a law.
        flags: Reasons to doubt them, one sentence each.
    """

    name: str
    by_size: Mapping[Key, Mapping[object, float]]
    tuned_exponents: Mapping[str, Measure] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


def tuned_arm(name: str, runs: Runs, *, level: float) -> Arm:
    """The tuned log losses of an arm, by size and seed.

    Args:
        name: The arm.
        runs: Its sweep; only rows of stage `tune` count.
        level: Of the intervals of the exponents.

    Raises:
        DataError: No size has a loss.
    """
    sweep = _tuned_only(runs.of_stage("tune").in_order())
    if not len(sweep.complete()):
        raise DataError(
            f"an arm needs runs with a loss, {name!r} has none of {len(sweep)}; lower the "
            "learning rates or check the loss column."
        )
    if not has_replicates(sweep):  # what looks like replicates are copies
        sweep = sweep.without_copies()
    fitted = fit_sweep(sweep, level=level)
    optima, losses = fitted.optima, seed_losses(sweep, fitted)
    flags = _edge_flags(name, optima) if sweep.tuned else []
    by_size = {
        size_key(optimum.size.values()): {
            _label(seed, name): value for seed, value in of_size.items()
        }
        for optimum, of_size in zip(optima, losses, strict=True)
        if of_size
    }
    exponents = {
        column: _exponent(fitted, j, level=level)
        for j, column in enumerate(sweep.tuned)
        if len(optima) > len(sweep.sizes) + 1
    }
    return Arm(name=name, by_size=by_size, tuned_exponents=exponents, flags=tuple(flags))


def _exponent(fitted: FittedSweep, j: int, *, level: float) -> Measure:
    """The exponent of the law of a best value in the first size column."""
    assert fitted.draws is not None
    slopes = slope_draws(fitted.draws, j)[:, 0]
    value = float(slopes.mean())
    half = float(special.ndtri(0.5 + level / 2) * slopes.std(ddof=1))
    return Measure(value=value, ci=Interval(value - half, value + half))


def _tuned_only(sweep: Runs) -> Runs:
    """The runs with the tuned columns that have several values."""
    frame = sweep.to_frame()
    tuned = tuple(name for name in sweep.tuned if frame[name].nunique() > 1)
    if tuned == sweep.tuned:
        return sweep
    return Runs.from_frame(frame, sizes=sweep.sizes, tuned=tuned, source=sweep.source)


def _edge_flags(name: str, optima: Sequence[Optimum]) -> list[Flag]:
    """One flag for the sizes whose loss is inferred, one for those where it is the best run's."""
    flags = []
    for is_inferred, origin in (
        (True, "inferred from the other sizes"),
        (False, "that of the best run"),
    ):
        sizes = [
            ", ".join(f"{c} {value:g}" for c, value in optimum.size.items() if c != ONLY_SIZE)
            for optimum in optima
            if not optimum.bracketed and (optimum.loss is not None) == is_inferred
        ]
        if sizes:
            where = f"no optimum of {name} is bracketed" + f" at {'; '.join(sizes)}" * any(sizes)
            flags.append(Flag("edge", f"{where}, so its loss is {origin}; extend the grid."))
    return flags


def _label(seed: object, name: str) -> object:
    """Rows without a seed were numbered by the reader: no row of another arm is its pair."""
    return f"{name}: {seed}" if isinstance(seed, str) and seed.startswith(WITHOUT_SEED) else seed
