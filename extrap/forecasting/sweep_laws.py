"""Noise, optima and laws of a sweep, and the flags that they carry: what a forecast is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.fitting.designs import check_identifiable, check_sweep
from extrap.fitting.ladder_prior import LadderPrior, ladder_prior
from extrap.fitting.loss_model import LossModel, fit_loss_model
from extrap.fitting.reference_curves import ReferenceCurves, fit_reference_curves
from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface.draws import SurfaceDraws
from extrap.fitting.surface.fitted_sizes import fit_sweep, has_replicates
from extrap.fitting.surface.surface import Surface
from extrap.fitting.surface.tuned_values import TunedValues
from extrap.laws import OPTIMUM_POWER
from extrap.laws.base import Array
from extrap.reading.losses import is_accuracy, loss_kind, size_kind
from extrap.reading.names import NAMES_OF_PART, known_name
from extrap.records import Optimum, Runs
from extrap.records.confidence import NOT_FINISHED
from extrap.records.flags import Flag, pinned
from extrap.records.notes import POOLED, values_of
from extrap.records.numbers import format_quantity, name_size, plain

NOT_BRACKETED = "optimum-not-bracketed-everywhere"
END_WORDS = {"diverged": "diverged", "failed": "failed", "pruned": "were pruned"}
MOST_LACKING = 0.05
"""Share of a sweep's runs that may be missing without a doubt; where a sampler used their results,
its choices cannot be ignored (Rubin 1976, Inference and missing data)."""


class SweepLaws(NamedTuple):
    """What the runs of a sweep determine; attributes as in `Forecast`."""

    runs: Runs
    optima: tuple[Optimum, ...]
    noise: Noise
    loss_model: LossModel | None
    surface: SurfaceDraws | None
    flags: tuple[str, ...]


def fit_laws(
    runs: Runs,
    *,
    level: float,
    fix: Mapping[str, float],
    prior: str,
    held: Surface | None = None,
) -> SweepLaws:
    """Fit noise, optima, surface and loss of a sweep, without a look at single runs.

    Args:
        runs: Of which those of stage `tune` are used.
        level: Of the intervals, in (0, 1).
        fix: Parameters that are given, as in `extrap.forecast`.
        prior: As in `extrap.forecast`.
        held: A surface whose noise is taken as it is; by default it is estimated.

    Raises:
        ValueError: As `extrap.forecast`.
        DataError: As `extrap.forecast`.
    """
    sweep = runs.of_stage("tune").in_order()
    check_sweep(sweep)
    of_loss, of_tuned = _pins(fix, sweep.tuned)
    flags = _check_columns(sweep, of_tuned)
    if not has_replicates(sweep):  # what looks like replicates are copies
        sweep = sweep.without_copies()
    slopes = {name: slopes_by_column(pins, sweep.sizes) for name, pins in of_tuned.items()}
    surface, noise, optima, _, n_lacking = fit_sweep(sweep, level=level, pinned=slopes, held=held)
    if n_lacking > MOST_LACKING * len(sweep):
        lacking = f"{n_lacking} of {len(sweep)} runs were pruned or failed and have no loss here"
        flags.append(Flag("runs-missing", f"{lacking}; the sampler used their results"))
    flags += [Flag("recipes-pooled", name) for (name,) in values_of(sweep.notes, POOLED)]
    flags += [*_without_a_loss(sweep), *_not_bracketed(optima), *_follow_size(sweep)]
    kind, loss_model = loss_kind(sweep), None
    if kind == "accuracy":
        flags.append(Flag("accuracy-refused"))
        if not sweep.tuned:
            raise DataError(
                "an accuracy follows no law of size: it is flat at chance and near its best; "
                f"forecast the loss of the same runs, or say {argument('loss_kind', 'error')} if "
                "1 − accuracy falls as a loss does."
            )
    else:
        _check_floor(of_loss, optima)
        published = ladder_prior(size_kind(sweep.sizes), kind) if prior == "published" else None
        loss_model = fit_loss_of_sizes(sweep, optima, noise, fix=of_loss, prior=published)
        if kind == "error" and is_accuracy(sweep):
            flags.append(Flag("accuracy-as-error"))
        flags += _loss_flags(loss_model, fix=of_loss)
    if not noise.is_replicated:
        flags.append(Flag("no-replicates", "noise read from the residuals"))
    return SweepLaws(sweep, optima, noise, loss_model, surface, tuple(flags))


def _check_columns(sweep: Runs, pins: Mapping[str, Mapping[str, float]]) -> list[Flag]:
    """Refuse size columns that cannot be told apart; a flag where only pins do that.

    Raises:
        ValueError: A pin is no slope of the law, or is not finite.
        DataError: As `check_identifiable`.
    """
    flags, names = list[Flag](), OPTIMUM_POWER.names(len(sweep.sizes))[1:]
    sizes = sweep.complete().to_frame()[list(sweep.sizes)].drop_duplicates().to_numpy(dtype=float)
    for name in sweep.tuned:
        for pin, value in pins[name].items():
            if pin not in names:
                raise ValueError(
                    f"a pinned parameter must be one of the slopes {', '.join(names)}; got "
                    f"{pin!r}."
                )
            if not math.isfinite(value):
                raise ValueError(f"the pinned slope {pin} must be finite, got {value:g}.")
        if len(sizes) > 2 and check_identifiable(
            sizes, sweep.sizes, exponents=names, fixed=pins[name], example=(f"{name}.", -0.3)
        ):
            flags.append(Flag("columns-collinear", name))
    return flags


def slopes_by_column(pins: Mapping[str, float], columns: tuple[str, ...]) -> dict[str, float]:
    """Pinned slopes by size column instead of by parameter.

    Args:
        pins: Parameter of the law of an optimum → its value.
        columns: The size columns.
    """
    names = OPTIMUM_POWER.names(len(columns))[1:]
    return {c: pins[name] for name, c in zip(names, columns, strict=True) if name in pins}


def pinned_slopes(surface: SurfaceDraws | None, runs: Runs) -> dict[str, dict[str, float]]:
    """Tuned column → parameter of its law → pinned slope.

    Args:
        surface: Of the sweep; without one nothing is pinned.
        runs: The sweep.
    """
    if surface is None:
        return {}
    names = OPTIMUM_POWER.names(len(runs.sizes))[1:]
    return {
        name: {n: float(v) for n, v in zip(names, column, strict=True) if not math.isnan(v)}
        for name, column in zip(runs.tuned, surface.pinned.T, strict=True)
    }


def flat_flags(values: TunedValues, runs: Runs) -> list[Flag]:
    """A flag for every tuned column whose value hardly matters.

    Args:
        values: What is known of them at the largest size.
        runs: The sweep.
    """
    frame, flags = runs.to_frame(), list[Flag]()
    for name in runs.tuned:
        flat = values.flat_range(name, frame[name].min(), frame[name].max())
        if flat is not None:
            (low, high), most = flat
            low_text, high_text = format_quantity(low), format_quantity(high)
            within = f"any from {low_text} to {high_text} does as well, within {100 * most:.2g} %"
            flags.append(Flag("flat", within, column=name))
    return flags


def _without_a_loss(sweep: Runs) -> list[Flag]:
    """A flag for every size of which no run was finished."""
    frame, flags = sweep.to_frame(), list[Flag]()
    for key, rows in frame.groupby(list(sweep.sizes)):
        states = rows["status"].value_counts()
        if "complete" in states:
            continue
        where = plain(name_size(dict(zip(sweep.sizes, map(float, key), strict=True))))
        ends = " or ".join(END_WORDS[state] for state in states.index)
        remedy = "finish some of them"
        if states.index[0] == "diverged" and sweep.tuned:
            remedy = f"try smaller values of {' and '.join(sweep.tuned)} there"
        flags.append(Flag(NOT_FINISHED, f"all {len(rows)} runs of {where} {ends}; {remedy}"))
    return flags


def _follow_size(sweep: Runs) -> list[Flag]:
    """A flag for every setting that is one at each size and another at others."""
    frame, flags = sweep.to_frame(), list[Flag]()
    by_size = frame.groupby(list(sweep.sizes))
    played = {*sweep.sizes, *sweep.tuned, *sweep.conditions}
    for name in frame.columns.difference(played):
        if known_name(str(name)) not in NAMES_OF_PART["tune"]:
            continue
        values = pd.to_numeric(frame[name], errors="coerce")
        is_one = values.groupby([frame[c] for c in sweep.sizes]).nunique(dropna=False) == 1
        if values.notna().all() and values.nunique() > 1 and is_one.all():
            of_size = by_size[name].first()
            ends = [format_quantity(float(of_size.iloc[i])) for i in (0, -1)]
            course = f"{name} goes from {ends[0]} to {ends[1]} over the sizes"
            flags.append(Flag("follows-size", course))
    return flags


def _not_bracketed(optima: Sequence[Optimum]) -> list[Flag]:
    n_open = sum(not o.bracketed for o in optima)
    name = "optimum-not-bracketed-anywhere" if n_open == len(optima) else NOT_BRACKETED
    return [Flag(name, f"at {n_open} of {len(optima)} sizes")] if n_open else []


def _check_floor(fix: Mapping[str, float], optima: Sequence[Optimum]) -> None:
    """Raise ValueError where a pinned floor is none."""
    losses = [o.loss for o in optima if o.loss is not None]
    if losses and "E" in fix and fix["E"] >= min(losses):
        raise ValueError(
            f"E is the loss that no size goes below, got {fix['E']:g}, and the sweep reaches "
            f"{min(losses):.4g}; pin a smaller one."
        )


def fit_curves(
    runs: Runs,
    *,
    log_loss_at: Callable[[Mapping[str, float]], float | None],
    optimum_at: Callable[[Mapping[str, float]], Array | None],
) -> ReferenceCurves | None:
    """The curves of a sweep's complete runs, each beside the law at its size; None without curves.

    Args:
        runs: The sweep.
        log_loss_at: Size → log loss by the law.
        optimum_at: Size → log2 of the optimum, (D,); None where nothing is tuned.
    """
    curves, frame = runs.curves(), runs.to_frame()
    if curves is None:
        return None
    complete = frame.index[frame["status"] == "complete"]
    curves = curves[curves["run"].isin(complete)]
    log_loss, octaves = np.full(len(frame), math.nan), np.empty((len(frame), len(runs.tuned)))
    by_size = frame.groupby(list(runs.sizes))
    for key, group in by_size:
        size = dict(zip(runs.sizes, map(float, key), strict=True))
        by_law, optimum = log_loss_at(size), optimum_at(size)
        if by_law is not None:
            log_loss[group.index] = by_law
        if optimum is not None:
            tuned = group[list(runs.tuned)].to_numpy(dtype=float)
            octaves[group.index] = np.log2(tuned) - optimum
    batch = [name for name in runs.tuned if "batch" in name]  # at equal data sets the steps
    return fit_reference_curves(
        curves,
        log_loss=np.where(frame["status"] == "complete", log_loss, math.nan),
        octaves=octaves,
        tuned=runs.tuned,
        sizes=by_size.ngroup().to_numpy(),
        seeds=frame["seed"].astype(str).factorize()[0],
        lengths=frame.groupby([*runs.sizes, *batch]).ngroup().to_numpy(),
    )


def _pins(
    fix: Mapping[str, float], tuned: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Pinned parameters of the loss, and of each tuned value's law (`lr.b`)."""
    of_loss: dict[str, float] = {}
    of_tuned: dict[str, dict[str, float]] = {name: {} for name in tuned}
    for key, value in fix.items():
        name, dot, parameter = key.rpartition(".")
        if not dot:
            of_loss[key] = float(value)
        elif name in of_tuned:
            of_tuned[name][parameter] = float(value)
        else:
            raise ValueError(
                f"a pinned parameter {key!r} needs a tuned column before the dot, got {name!r}; "
                f"the tuned columns are {', '.join(tuned) or 'none'}."
            )
    return of_loss, of_tuned


def fit_loss_of_sizes(
    sweep: Runs,
    optima: Sequence[Optimum],
    noise: Noise,
    *,
    fix: Mapping[str, float],
    prior: LadderPrior | None,
) -> LossModel | None:
    """The laws of the loss through the optima; None where runs of too few sizes were finished.

    Args:
        sweep: Runs.
        optima: One per size.
        noise: Of a run.
        fix: Parameters that are given.
        prior: Of published ladders, or None.

    Raises:
        DataError: Too few sizes.
    """
    points = [o for o in optima if o.loss is not None]
    sizes = {c: [o.size[c] for o in points] for c in sweep.sizes}
    errors = [o.paired_loss_se for o in points if o.paired_loss_se is not None]
    is_known = len(errors) == len(points)
    try:
        return fit_loss_model(
            sizes,
            [o.loss for o in points if o.loss is not None],
            loss_se=errors if is_known else None,
            loss_se_dof=noise.own_dof if is_known else None,
            evaluation_se=None if is_known else _evaluation_se(sweep, points),
            fix=fix,
            prior=prior,
        )
    except DataError:
        if len(points) < len(optima) and sweep.tuned:
            return None  # the sizes are there, their losses are not
        raise


def _evaluation_se(sweep: Runs, points: Sequence[Optimum]) -> list[float] | None:
    """Standard error of each size's mean loss by evaluation alone; None if it is not given."""
    frame = sweep.complete().to_frame()
    if "loss_se" not in frame or frame["loss_se"].isna().any():
        return None
    by_size = frame.groupby(list(sweep.sizes))["loss_se"]
    errors = by_size.mean() / np.sqrt(by_size.count())
    return [float(errors.loc[tuple(o.size[c] for c in sweep.sizes)]) for o in points]


def _loss_flags(model: LossModel | None, *, fix: Mapping[str, float]) -> list[Flag]:
    if model is None:
        return [Flag("no-loss-law", "too few sizes with a finished run; let more of them finish")]
    flags = [pinned(name, value) for name, value in fix.items()]
    if model.prior is not None:
        flags.append(Flag("published-prior", f"{model.prior.sources} sources"))
    if not any("E" in fit.names for fit, _ in model.laws):
        flags.append(Flag("too-few-sizes-for-a-floor"))
    if not model.fits:
        flags.append(Flag("lack-of-fit", "no law follows all sizes, the largest ones lead"))
    of_laws = {f for fit, _ in model.laws for f in fit.flags}
    return flags + sorted(map(Flag, of_laws if model.fits else of_laws - {"lack-of-fit"}))
