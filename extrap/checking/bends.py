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

LARGEST_LOG_LOSS = 230.0
"""No law is fitted to a loss beyond e to this power, or below its inverse: 1e100, as of sweeps."""

NEAR = 0.5
"""Octaves within which a configuration tells of the law at its optimum."""


def blame_law(suspects: Sequence[Suspect], findings: Sequence[Finding]) -> list[Finding]:
    """Findings with `law` in place of `unknown` where deviations are replicated and grow.

    A deviation is replicated where all configurations of a size that nothing explains, with at
    least two seeds among them, deviate alike, none of that size is on the law, and the best of
    them lies near the forecast's values: where another value does better, the optimum has moved.
    Where that holds at several sizes, the deviations must have one sign and must not shrink as
    sizes grow. The law is then fitted again with these sizes, and the advice says what that
    expects next.
    """
    groups: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for i, suspect in enumerate(suspects):
        if suspect.case.log_deviation is not None:
            groups[suspect.case.key].append(i)
    shared = []
    for members in groups.values():
        open_ones = [i for i in members if suspects[i].deviates and _is_open(findings[i])]
        if _is_replicated([suspects[i] for i in members], [suspects[i] for i in open_ones]):
            shared.append(open_ones)
    if not shared or not _grows([[suspects[i] for i in g] for g in shared]):
        return list(findings)
    bent = {i for group in shared for i in group}
    finding = _refit(suspects[min(bent)].forecast, [suspects[i] for i in sorted(bent)])
    return [finding if i in bent else f for i, f in enumerate(findings)]


def _is_replicated(of_size: Sequence[Suspect], open_ones: Sequence[Suspect]) -> bool:
    if not open_ones or any(not s.deviates and not s.case.differing for s in of_size):
        return False
    seeds = {seed for suspect in open_ones for seed in suspect.case.seeds}
    signs = {np.sign(suspect.off) for suspect in open_ones}
    best = min(open_ones, key=lambda suspect: suspect.off)
    is_near = all(abs(u) <= NEAR for u in best.case.octaves) or len(open_ones) == 1
    return len(seeds) > 1 and len(signs) == 1 and is_near


def _is_open(finding: Finding) -> bool:
    """Whether nothing explains a deviation, not even another unit."""
    return finding.cause == "unknown" and not finding.is_unit


def _grows(groups: Sequence[Sequence[Suspect]]) -> bool:
    """Whether deviations have one sign, and larger sizes deviate no less than smaller ones."""
    means: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for group in groups:
        means[group[0].case.key].append(float(np.mean([s.off for s in group])))
    ordered = [float(np.mean(means[size])) for size in sorted(means)]
    if len({np.sign(value) for value in ordered}) > 1:
        return False
    noise = groups[0][0].forecast.noise.log_sd or 0.0
    return abs(ordered[-1]) >= abs(ordered[0]) - 2 * noise


def _refit(forecast: Forecast, suspects: Sequence[Suspect]) -> Finding:
    """What the laws say with the deviating sizes among the data."""
    advice = (
        "Several seeds deviate in the same way, and nothing recorded explains it: the law does "
        "not hold at this size. Add this size to the sweep, tune it, and fit again."
    )
    experiment = (
        "Tune the smallest of these sizes. If its optimum lies where the forecast says, the law "
        "of the loss is wrong; otherwise the law of the optimum is."
    )
    n_runs = sum(len(s.case.members) for s in suspects)
    mean = sum(s.off * len(s.case.members) for s in suspects) / n_runs
    evidence = {"mean_deviation": math.expm1(mean), "n_runs": float(n_runs)}
    found = _refitted(forecast, suspects)
    if found is None:
        return Finding(cause="law", advice=advice, evidence=evidence, experiment=experiment)
    size, before, after = found
    where = ", ".join(f"{column} {value:g}" for column, value in size.items())
    words = f" Fitted with these runs, the law expects {after:.4g} at {where}, not {before:.4g}."
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
        mended = suspect.case.log_loss + suspect.off - (suspect.case.excess or 0.0)
        by_size[suspect.case.key] += [mended] * len(suspect.case.seeds)
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
            loss_se_dof=forecast.noise.size_dof if len(errors) == len(tuned) else None,
        )
    except (DataError, FitError):
        return None
    double = {c: 2 * max(size[c] for size, _, _ in tuned) for c in columns}
    before = forecast.predict_loss(double)
    if before is None:
        return None
    after = model.predict(double, noise=forecast.noise, band=forecast.band)
    return double, math.exp(before.log_loss), math.exp(after.log_loss)
