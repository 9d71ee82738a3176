"""Does the law itself bend? What several runs share, and no cause explains, is the law's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extrap.checking.causes import deviates
from extrap.checking.configurations import Configuration, Finding
from extrap.errors import DataError, FitError
from extrap.fitting.loss_model import fit_loss_model

MAX_LOG_LOSS = 230.0
"""No law is fitted to a loss beyond e to this power, or below its inverse: 1e100, as of sweeps."""
AT_OPTIMUM_OCTAVES = 0.5
"""Within which a configuration shows the law at its optimum."""


def blame_law(configurations: Sequence[Configuration]) -> list[Configuration]:
    """Findings with `law` in place of `unknown` where deviations are replicated and grow.

    A deviation is replicated where all configurations of a size that nothing explains, with at
    least two seeds among them, deviate alike, none of that size is on the law, and the best of
    them lies near the forecast's values: where another value does better, the optimum has moved.
    Where that holds at several sizes, the deviations must have one sign and must not shrink as
    sizes grow. The law is then fitted again with these sizes, for what it expects next.
    """
    by_size: dict[tuple[float, ...], list[Configuration]] = defaultdict(list)
    for configuration in configurations:
        if not math.isnan(configuration.judged_deviation):
            by_size[configuration.size_key].append(configuration)
    shared = {size: replicated for size in by_size if (replicated := _replicated(by_size[size]))}
    if not shared or not _grows(shared):
        return list(configurations)
    bent = {id(configuration) for replicated in shared.values() for configuration in replicated}
    finding = _refit([c for c in configurations if id(c) in bent])
    return [replace(c, finding=finding) if id(c) in bent else c for c in configurations]


def _replicated(of_size: Sequence[Configuration]) -> list[Configuration]:
    """The configurations of a size that share a deviation which nothing explains; else none."""
    unexplained = [
        c for c in of_size if deviates(c) and c.finding is not None and c.finding.code == "unknown"
    ]
    if not unexplained or any(not deviates(c) and not c.differing for c in of_size):
        return []
    seeds = {seed for c in unexplained for seed in c.seeds}
    signs = {np.sign(c.judged_deviation) for c in unexplained}
    best = min(unexplained, key=lambda c: c.judged_deviation)
    is_near = all(abs(u) <= AT_OPTIMUM_OCTAVES for u in best.octaves) or len(unexplained) == 1
    return unexplained if len(seeds) > 1 and len(signs) == 1 and is_near else []


def _grows(shared: dict[tuple[float, ...], list[Configuration]]) -> bool:
    """Whether deviations have one sign, and larger sizes deviate no less than smaller ones."""
    means = [float(np.mean([c.judged_deviation for c in shared[size]])) for size in sorted(shared)]
    if len({np.sign(mean) for mean in means}) > 1:
        return False
    first = next(iter(shared.values()))[0]
    return abs(means[-1]) >= abs(means[0]) - 2 * (first.forecast.noise.log_sd or 0.0)


def _refit(bent: Sequence[Configuration]) -> Finding:
    """The finding that the law is the cause, with predictions of laws fitted to these sizes."""
    n_runs = sum(len(c.rows) for c in bent)
    mean = sum(c.judged_deviation * len(c.rows) for c in bent) / n_runs
    evidence = {"mean_deviation": math.expm1(mean), "n_runs": float(n_runs)}
    losses = _losses_at_double_size(bent)
    if losses is None:
        return Finding(code="law", cause="law", evidence=evidence)
    double, before, after = losses
    evidence |= {"refitted_loss_at_double_size": after, "loss_at_double_size": before}
    return Finding(code="law", cause="law", evidence=evidence, size=double)


def _losses_at_double_size(
    bent: Sequence[Configuration],
) -> tuple[dict[str, float], float, float] | None:
    """Twice the largest size, and its loss before and after; None where no law can be fitted."""
    forecast = bent[0].forecast
    columns, noise = forecast.runs.sizes, forecast.noise.log_sd
    tuned = [(o.size, o.loss, o.paired_loss_se) for o in forecast.optima if o.loss is not None]
    by_size: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for configuration in bent:
        mended = (
            configuration.predicted_log_loss
            + configuration.judged_deviation
            - (configuration.excess or 0.0)
        )
        by_size[configuration.size_key] += [mended] * len(configuration.seeds)
    for key, log_losses in by_size.items():
        log_loss = float(np.mean(log_losses))
        if abs(log_loss) > MAX_LOG_LOSS:
            return None
        loss = math.exp(log_loss)
        error = None if noise is None else loss * noise / math.sqrt(len(log_losses))
        tuned.append((dict(zip(columns, key, strict=True)), loss, error))
    errors = [error for _, _, error in tuned if error is not None]
    try:
        model = fit_loss_model(
            {c: [size[c] for size, _, _ in tuned] for c in columns},
            [loss for _, loss, _ in tuned],
            loss_se=errors if len(errors) == len(tuned) else None,
            loss_se_dof=forecast.noise.own_dof if len(errors) == len(tuned) else None,
            prior=None if forecast.loss_model is None else forecast.loss_model.prior,
        )
    except (DataError, FitError):
        return None
    double = {c: 2 * max(size[c] for size, _, _ in tuned) for c in columns}
    before = forecast.predict_loss(double)
    if before is None:
        return None
    after = model.predict(double, noise=forecast.noise, band=forecast.band)
    return double, math.exp(before.log_loss), math.exp(after.log_loss)
