"""Does the law itself bend? What several runs share, and no cause explains, is the law's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from extrap.checking.causes import Finding, Suspect
from extrap.errors import DataError, FitError
from extrap.fitting import fit_loss_model
from extrap.forecasting import Forecast

__all__ = ["blame_law"]

LARGEST_LOG_LOSS = 230.0
"""No law is fitted to a loss beyond e to this power, or below its inverse: 1e100, as of sweeps."""

Setting = tuple[tuple[str, float | None], ...]


def blame_law(suspects: Sequence[Suspect], findings: Sequence[Finding]) -> list[Finding]:
    """Findings with `law` in place of `unknown` where deviations are replicated and grow.

    A deviation is replicated where all runs of one size and one choice of tuned values, at least
    two seeds, deviate alike and nothing explains them; or where what a size shares deviates, in
    those of its runs that nothing explains. Where that holds at several sizes, the
    deviations must have one sign and must not shrink as sizes grow. The law is then fitted again
    with these sizes, and the advice says what that expects next.
    """
    groups: dict[Setting, list[int]] = defaultdict(list)
    for i, suspect in enumerate(suspects):
        if suspect.case.log_deviation is None:
            continue
        if not suspect.judgement.law_deviates:
            groups[(*suspect.case.size.items(), *suspect.case.tuned.items())].append(i)
        elif _is_open(findings[i]):
            groups[tuple(suspect.case.size.items())].append(i)
    shared = [
        g for g in groups.values() if _is_replicated([(suspects[i], findings[i]) for i in g])
    ]
    if not shared or not _grows([[suspects[i] for i in g] for g in shared]):
        return list(findings)
    bent = {i for group in shared for i in group}
    finding = _refit(suspects[min(bent)].forecast, [suspects[i] for i in sorted(bent)])
    return [finding if i in bent else f for i, f in enumerate(findings)]


def _is_replicated(group: Sequence[tuple[Suspect, Finding]]) -> bool:
    seeds = {suspect.case.row["seed"] for suspect, _ in group}
    if len({suspect.case.log_deviation for suspect, _ in group}) == 1:
        seeds = {seed for seed in seeds if not str(seed).startswith("row-")}  # perhaps copies
    signs = {np.sign(suspect.case.log_deviation or 0.0) for suspect, _ in group}
    return len(seeds) > 1 and len(signs) == 1 and all(_is_open(f) for _, f in group)


def _is_open(finding: Finding) -> bool:
    """Whether nothing explains a deviation, not even another unit."""
    return finding.cause == "unknown" and not finding.is_unit


def _grows(groups: Sequence[Sequence[Suspect]]) -> bool:
    """Whether deviations have one sign, and larger sizes deviate no less than smaller ones."""
    means: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for group in groups:
        values = [s.case.log_deviation or 0.0 for s in group]
        means[tuple(group[0].case.size.values())].append(float(np.mean(values)))
    ordered = [float(np.mean(means[size])) for size in sorted(means)]
    if len({np.sign(value) for value in ordered}) > 1:
        return False
    noise = groups[0][0].forecast.noise.log_sd or 0.0
    return abs(ordered[-1]) >= abs(ordered[0]) - 2 * noise


def _refit(forecast: Forecast, suspects: Sequence[Suspect]) -> Finding:
    """What the laws say with the deviating sizes among the data."""
    advice = (
        "Several seeds deviate alike and nothing recorded explains it: the law bends here. Add "
        "this size to the sweep, tune it, and fit again."
    )
    experiment = (
        "Tune the smallest of these sizes: if its optimum lies where the forecast has it, the law "
        "of the loss bends; if not, the law of the optimum does."
    )
    mean = float(np.mean([s.case.log_deviation or 0.0 for s in suspects]))
    evidence = {"mean_deviation": math.expm1(mean), "n_runs": float(len(suspects))}
    found = _refitted(forecast, suspects)
    if found is None:
        return Finding(cause="law", advice=advice, evidence=evidence, experiment=experiment)
    size, before, after = found
    where = ", ".join(f"{column} {value:g}" for column, value in size.items())
    words = f" With these runs the law expects {after:.4g} at {where} instead of {before:.4g}."
    return Finding(
        cause="law",
        advice=advice + words,
        evidence={
            **evidence,
            "refitted_loss_at_double_size": after,
            "loss_at_double_size": before,
        },
        experiment=experiment,
    )


def _refitted(
    forecast: Forecast, suspects: Sequence[Suspect]
) -> tuple[dict[str, float], float, float] | None:
    """Twice the largest size, and its loss before and after; None where no law can be fitted."""
    columns = forecast.runs.sizes
    tuned = [(o.size, o.loss, o.paired_loss_se) for o in forecast.optima if o.loss is not None]
    noise = forecast.noise.log_sd
    by_size: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for suspect in suspects:
        mended = math.log(suspect.case.row["loss"]) - (suspect.case.excess or 0.0)
        by_size[tuple(suspect.case.size.values())].append(mended)
    for size, values in by_size.items():
        log_loss = float(np.mean(values))
        if abs(log_loss) > LARGEST_LOG_LOSS:
            return None
        loss = math.exp(log_loss)
        error = None if noise is None else loss * noise / math.sqrt(len(values))
        tuned.append((dict(zip(columns, size, strict=True)), loss, error))
    errors = [error for _, _, error in tuned if error is not None]
    try:
        model = fit_loss_model(
            {c: [size[c] for size, _, _ in tuned] for c in columns},
            [loss for _, loss, _ in tuned],
            loss_se=errors if len(errors) == len(tuned) else None,
            loss_se_dof=forecast.noise.own_dof if len(errors) == len(tuned) else None,
        )
    except (DataError, FitError):
        return None
    double = {c: 2 * max(size[c] for size, _, _ in tuned) for c in columns}
    before = forecast.predict_loss(double)
    if before is None:
        return None
    after = model.predict(double, noise=forecast.noise, band=forecast.band)
    return double, math.exp(before.log_loss), math.exp(after.log_loss)
