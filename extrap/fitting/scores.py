"""How good a predictive distribution was, once the loss is known.

Everything is on the scale of the log loss, where a difference of 0.01 is one percent of the loss:
scores of sweeps with other losses, or in other units, can be compared and averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from extrap.fitting.prediction import LossPrediction

LEVELS = (0.5, 0.8, 0.9)
"""Levels at which coverage is counted."""
LEAST_DOF = 1.01
"""The closed form of the CRPS is 0 / 0 at one degree of freedom, and continuous there."""
MOST_DOF = 1e6
"""Beyond it Student's t is normal, and the closed form loses its digits."""
SMALLEST = 1e-300
"""Stands for a lower end of an interval that underflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """One prediction scored; in log loss unless said otherwise.

    Attributes:
        z: (ln observed − ln predicted) / standard deviation; without unit.
        pit: Predicted probability of a smaller loss, in [0, 1]; uniform if calibrated.
        p_value: Two-sided probability of a loss at least so far off.
        crps: Continuous ranked probability score, ≥ 0, lower is better; of a prediction without
            spread it is the absolute error.
        interval_scores: Level → width of the interval, plus 2 / (1 − level) times what the
            observed log loss lies outside of it; lower is better.
        covered: Level → whether the interval holds the observed loss.
    """

    z: float
    pit: float
    p_value: float
    crps: float
    interval_scores: Mapping[float, float]
    covered: Mapping[float, bool]


def score(prediction: LossPrediction, loss: float, *, levels: Sequence[float] = LEVELS) -> Scores:
    """Score the predictive distribution of one loss.

    CRPS = ∫ (F(x) − 1[x ≥ y])² dx and, at level 1 − a with ends l and u,
    IS = (u − l) + 2/a (l − y)₊ + 2/a (y − u)₊; y, l, u are logarithms of losses.

    Args:
        prediction: The distribution of this very observation; see `judge_observed_mean`.
        loss: What was observed, positive, in the unit of the runs.
        levels: Levels of the intervals, each in (0, 1).

    References:
        Gneiting, Raftery (2007), Strictly proper scoring rules, prediction, and estimation,
        doi:10.1198/016214506000001437, Eq. 20 (CRPS) and Eq. 43 (interval score).
        Jordan, Krüger, Lerch (2019), doi:10.18637/jss.v090.i12, for the CRPS of Student's t.

    Example:
        >>> known = LossPrediction(log_loss=0.0, curve=((1e-4, 20),), run=((0.0, 20),))
        >>> scores = score(known, 1.02)
        >>> round(scores.z, 2), round(scores.crps, 4), scores.covered[0.9]
        (1.98, 0.0142, False)
    """
    log_loss = math.log(loss)
    below = log_loss < prediction.log_loss
    p_value = prediction.p_value(loss)
    intervals = {level: prediction.interval(level, new_run=True) for level in levels}
    return Scores(
        z=(log_loss - prediction.log_loss) / prediction.log_sd if prediction.log_sd else 0.0,
        pit=p_value / 2 if below else 1 - p_value / 2,
        p_value=p_value,
        crps=_crps(prediction, log_loss),
        interval_scores={
            level: _interval_score(prediction, lower, log_loss, level)
            for level, (lower, _) in intervals.items()
        },
        covered={level: loss in interval for level, interval in intervals.items()},
    )


def judge_observed_mean(
    prediction: LossPrediction, *, log_se: float | None, dof: float
) -> LossPrediction:
    """The distribution of a mean, or an optimum, of several runs with its own standard error.

    The curve's variance stays; the standard error takes the place of a single run's noise. What
    common seeds do to all sizes alike stays in the curve although it cancels between the sizes of
    one sweep: the result is slightly wide.

    Args:
        prediction: The predictive distribution of a single run.
        log_se: Standard error of the observed log loss; None where it is not known, and the
            observation counts as one run.
        dof: Degrees of freedom behind it.
    """
    if log_se is None:
        return prediction
    return replace(prediction, run=((log_se**2, max(dof, 1)),))


def _interval_score(
    prediction: LossPrediction, lower: float | None, log_loss: float, level: float
) -> float:
    """Interval score; the interval is symmetric in log loss, so one end tells both."""
    import scoringrules

    centre = prediction.log_loss
    half = centre - math.log(max(lower or 0.0, SMALLEST))
    return float(scoringrules.interval_score(log_loss, centre - half, centre + half, 1 - level))


def _crps(prediction: LossPrediction, log_loss: float) -> float:
    """CRPS of the Student t of all components together (Satterthwaite 1946)."""
    import scoringrules  # not at import: it takes a third of a second

    estimates: dict[float, float] = {}
    for variance, dof in (*prediction.curve, *prediction.run):  # of equal dof: one estimate
        estimates[dof] = estimates.get(dof, 0.0) + variance
    total = sum(estimates.values())
    centre, sd = prediction.log_loss, math.sqrt(total)
    if total == 0:
        return abs(log_loss - centre)
    per_dof = sum(variance**2 / dof for dof, variance in estimates.items()) / total**2
    if per_dof * MOST_DOF < 1:
        return float(scoringrules.crps_normal(log_loss, centre, sd))
    return float(scoringrules.crps_t(log_loss, max(1 / per_dof, LEAST_DOF), centre, sd))
