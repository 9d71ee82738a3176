"""The loss over size: averaged laws, laws the data cannot distinguish, how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extrap.fitting.curve_laws import (
    Laws,
    LocalLaw,
    count_sizes,
    family_at,
    fit_local,
    fit_surviving_laws,
    hold_out_last_doublings,
    largest_discrepancy,
    local_share,
    none_fits,
)
from extrap.fitting.joint import JOINT_DOF, JointPosterior
from extrap.fitting.joint_fit import fit_joint
from extrap.fitting.ladder_prior import LadderPrior
from extrap.fitting.loss_law import check_losses
from extrap.fitting.posterior import LossPosterior, fit_posterior
from extrap.fitting.prediction import Component, LossPrediction
from extrap.fitting.seed_noise import NEW_SEED, SMALLEST_VARIANCE, Noise, neighbor_scatter
from extrap.laws.base import Array
from extrap.laws.power import POWER_FLOOR

BANDS = ("default", "family")
LEAST_LOCAL_DOF = 2.0
"""Degrees of freedom that the local law has at least: its spread is that of a posterior, in which
the prior of the exponent counts as points do."""
MANY_SIZES = 8
"""From so many sizes on, where the noise is not known, errors of a law are taken to grow with the
distance from the largest size, as on published learning curves: the local law knows of that."""
MOST_LATER = 0.999
"""Share of the averaged laws that leave out the smallest sizes, from which on none follows all.
Chosen on simulated sweeps of 5 and 8 sizes with .3 and 1 % noise: it is reached in none of 480
that follow one power law or the sum of two, and in 237 of 240 that break."""
AVERAGED_DISCREPANCY = 0.01
"""Structural error of the averaged laws: what their bends and starts do not cover."""
AVERAGED_DOF = 4.0
"""Degrees of freedom behind it."""
JOINT_DISCREPANCY = 0.05
"""Structural error of laws over several size columns: share of the change of the log loss at a
distance beyond the sweep as long as the sweep, and in proportion elsewhere. Chosen with the
misfit."""
LEAST_LOG_SPAN = 0.1
"""Least ln length that a sweep of several size columns counts as."""
STATED_DOF = 1e9
"""Degrees of freedom behind a discrepancy that is stated and not estimated: as good as infinite,
which JSON cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossModel:
    """Everything the sweep says about the loss at its optimum over size.

    Attributes:
        family: Laws that the data cannot distinguish, with weights that sum to 1; empty with a
            posterior.
        local: The law as the largest sizes see it; None with a posterior.
        local_weight: Its share in the forecast, from the runs' own last doublings; below the
            largest fitted size it falls in proportion. 1 says that the family fits far worse.
        discrepancy: Structural error as a share of the predicted change; with a span, of one as
            far beyond the sweep as that.
        posterior: Averaged laws; where there are any, the forecast is theirs.
        discrepancy_dof: Degrees of freedom behind the discrepancy.
        reach: Largest geometric mean of the size columns of a fitted point; None with one column.
        prior: What published ladders say of the errors of the posterior; None where they do not.
    """

    family: Laws
    discrepancy: float
    local: LocalLaw | None = None
    local_weight: float = 0.0
    posterior: LossPosterior | JointPosterior | None = None
    discrepancy_dof: float = STATED_DOF
    reach: float | None = None
    prior: LadderPrior | None = None

    @property
    def fits(self) -> bool:
        """Whether any law follows all sizes."""
        if self.posterior is not None:
            return self.posterior.later < MOST_LATER
        return not self.is_local_only

    @property
    def is_local_only(self) -> bool:
        """Whether the local law is all of the forecast, as the family fits far worse."""
        return self.local_weight == 1

    @property
    def laws(self) -> Laws:
        """The laws that forecast, with their weights; averaged ones are one."""
        if self.posterior is not None:
            return ((self.posterior.law, 1.0),)
        if self.local is None or self.local_weight == 0:
            return self.family
        local = (self.local.law, self.local_weight)
        if self.is_local_only:
            return (local,)
        return (*((law, (1 - self.local_weight) * weight) for law, weight in self.family), local)

    @property
    def fixed(self) -> Mapping[str, float]:
        """Pinned parameters."""
        return (self.posterior or self.family[0][0]).fixed

    @property
    def fitted_range(self) -> dict[str, tuple[float, float]]:
        """Size column → smallest and largest fitted size."""
        if self.posterior is not None:
            return self.posterior.fitted_range
        law = self.family[0][0]
        return dict(zip(law.columns, law.fitted_range, strict=True))

    @property
    def span(self) -> float | None:
        """Length of the sweep in ln of the geometric mean of its size columns.

        In units of it the discrepancy grows with the distance; None with one column, where it
        does not.
        """
        if not isinstance(self.posterior, JointPosterior):
            return None
        return max(float(np.ptp(self.posterior.runs.points.mean(axis=1))), LEAST_LOG_SPAN)

    def predict(
        self,
        size: Mapping[str, float],
        *,
        noise: Noise,
        band: str,
        seeds: Sequence[object] | None = None,
    ) -> LossPrediction:
        """Predictive distribution of the log loss of a tuned run, or of a mean of some.

        Where there is a posterior, it is the forecast. Elsewhere the mixture of laws is averaged
        with the local law. `band="family"` holds if the true law is among these; the default takes
        their disagreement to be at least a structural discrepancy: a share of the predicted change
        since the last fitted size. With a prior that share is a bound instead, whatever the band.

        Args:
            size: Size column → size.
            noise: Run-to-run noise.
            band: `"default"` or `"family"`.
            seeds: One per run, for the mean log loss of tuned runs of these seeds, some of which
                may be the sweep's; None for one new run.
        """
        return self.predict_many([size], noise=noise, band=band, seeds=seeds)[0]

    def predict_many(
        self,
        sizes: Sequence[Mapping[str, float]],
        *,
        noise: Noise,
        band: str,
        seeds: Sequence[object] | None = None,
    ) -> list[LossPrediction]:
        """As `predict`, of many sizes at once, which is faster than one after the other."""
        blends = self._blends([*sizes, *map(self._inside, sizes)])
        pairs = zip(sizes, blends[: len(sizes)], blends[len(sizes) :], strict=True)
        return [
            self._prediction(here, last, self._share(size), noise.at_size(size), band, seeds)
            for size, here, last in pairs
        ]

    def _share(self, size: Mapping[str, float]) -> float:
        """Structural error at a size as a share of the predicted change."""
        if self.span is None:
            return self.discrepancy
        return self.discrepancy * math.log(self._distance(size)) / self.span

    def _prediction(
        self,
        here: _Blend,
        last: _Blend,
        discrepancy: float,
        noise: Noise,
        band: str,
        seeds: Sequence[object] | None,
    ) -> LossPrediction:
        """From the laws at a size, and at the fitted size from which the change is counted."""
        curve = [*here.within, (here.between, math.inf)]
        move = here.log_loss - last.log_loss
        if self.prior is not None and isinstance(self.posterior, LossPosterior):
            share = self.prior.share_at(self.posterior.roughness)
            bound = ((share * move) ** 2, self.prior.dof)
            curve = _bounded(here.within, last.within, bound)
        elif band == "default":
            expected = (discrepancy * move) ** 2
            curve.append((max(expected - here.between, 0.0), self.discrepancy_dof))
        mean = noise.of_mean([NEW_SEED] if seeds is None else seeds)
        # without replicates the scatter about the laws is all there is, and runs may share it
        run = list(here.scatter)
        if noise.own_sd is not None:
            of_seeds = mean.own_share * noise.own_sd**2
            if not self.is_local_only or of_seeds > sum(variance for variance, _ in run):
                run = [(of_seeds, float(noise.own_dof))]
        if noise.level_sd > 0:
            curve.append((noise.level_sd**2, noise.own_dof))
        if noise.shared_sd > 0:
            shared = noise.shared_sd**2
            curve.append((mean.law * shared / noise.n_seeds, noise.shared_dof))
            run.append((mean.shared * shared, noise.shared_dof))
        return LossPrediction(
            log_loss=here.log_loss + mean.shift, curve=tuple(curve), run=tuple(run)
        )

    def _inside(self, size: Mapping[str, float]) -> dict[str, float]:
        """The fitted size from which the change to a size is counted.

        Over several columns that is the size shrunk until its geometric mean is that of a fitted
        run, and within the fitted ones.
        """
        bounds = self.fitted_range
        largest = np.array([high for _, high in bounds.values()])
        x = np.array([float(size[column]) for column in bounds])
        inside = np.minimum(x / self._distance(size), largest)
        return dict(zip(bounds, inside.tolist(), strict=True))

    def _distance(self, size: Mapping[str, float]) -> float:
        """Geometric mean of a size over that of the largest fitted point; 1 at least."""
        bounds = self.fitted_range
        mean = math.exp(sum(math.log(size[column]) for column in bounds) / len(bounds))
        reach = next(iter(bounds.values()))[1] if self.reach is None else self.reach
        return max(mean / reach, 1.0)

    def _blends(self, sizes: Sequence[Mapping[str, float]]) -> list[_Blend]:
        columns = [*self.fitted_range]
        x = np.array([[float(size[column]) for column in columns] for size in sizes])
        if self.posterior is not None:
            dof, scatter = self.posterior.dof, self.posterior.scatter
            return _blends_of(*self.posterior.predict_log(x), dof=dof, scatter=scatter)
        mixture = family_at(self.family, x)
        dof = min(law.scale_dof for law, _ in self.family)
        scatter = max(law.scatter for law, _ in self.family)
        family = _blends_of(
            mixture.mean, mixture.within, mixture.between, dof=dof, scatter=scatter
        )
        if self.local is None or self.local_weight == 0:
            return family
        dof, scatter = max(self.local.dof, LEAST_LOCAL_DOF), self.local.scatter
        local = _blends_of(*self.local.predict_log(x), dof=dof, scatter=scatter)
        shares = np.full(len(x), self.local_weight)
        if not self.is_local_only:  # among the fitted sizes it knows the largest ones only
            shares *= np.minimum(x[:, 0] / self.local.largest, 1.0)
        return [
            of_family.mixed(of_local, share)
            for of_family, of_local, share in zip(family, local, shares.tolist(), strict=True)
        ]


class _Blend(NamedTuple):
    """Center of the forecast, variance within and between its parts, scatter of points."""

    log_loss: float
    within: tuple[Component, ...]
    between: float
    scatter: tuple[Component, ...]

    def mixed(self, other: _Blend, share: float) -> _Blend:
        """With another that has a share; one that holds little must not lend all its doubt."""

        def both(ours: Sequence[Component], theirs: Sequence[Component]) -> tuple[Component, ...]:
            scaled = [((1 - share) * variance, dof) for variance, dof in ours]
            return (*scaled, *((share * variance, dof / share) for variance, dof in theirs))

        apart = (other.log_loss - self.log_loss) ** 2
        return _Blend(
            log_loss=share * other.log_loss + (1 - share) * self.log_loss,
            within=both(self.within, other.within),
            between=(1 - share) * self.between + share * (other.between + (1 - share) * apart),
            scatter=both(self.scatter, other.scatter),
        )


def _blends_of(
    mean: Array, within: Array, between: Array | None = None, *, dof: float, scatter: float
) -> list[_Blend]:
    """Blends of one part of the forecast at n sizes, from arrays of shape (n,)."""
    moments = (mean, within, np.zeros(len(mean)) if between is None else between)
    return [
        _Blend(center, ((variance, dof),), apart, ((scatter**2, dof),))
        for center, variance, apart in zip(*(values.tolist() for values in moments), strict=True)
    ]


def _bounded(
    here: Sequence[Component], last: Sequence[Component], bound: Component
) -> list[Component]:
    """Variance of the curve, of which the part gained beyond the last fitted size has a bound.

    Args:
        here: The variance at a size by the laws.
        last: That at the last fitted size.
        bound: That part is at most so large.
    """
    ((variance, dof),), ((start, _),) = here, last
    start = min(start, variance)
    gained = variance - start
    return [(start, dof), (gained, dof) if gained < bound[0] else bound]


def fit_loss_model(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
    evaluation_se: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
    prior: LadderPrior | None = None,
) -> LossModel:
    """Fit what forecasts the loss, and say how far to trust it.

    Over one size column, where the noise is known, the sizes are few or a prior says how far off
    such forecasts are: laws averaged by their posterior probability. Of many sizes otherwise: the
    family of laws and the local law, weighed on the runs' own last doublings. Over several
    columns: averaged laws with a smooth misfit.

    Args:
        sizes: Size column → sizes, shape (n_points,) each.
        loss: Losses at the optimum, shape (n_points,).
        loss_se: Their standard errors, same unit, or None.
        loss_se_dof: Degrees of freedom behind them.
        evaluation_se: Standard errors of evaluation alone, same unit, where the noise of the
            seeds is not known: it is read from the residuals, and points are weighed by both.
        fix: Pinned parameters of the laws; with any, the local law is left out.
        prior: What published ladders say of the errors; then the laws of one size column are
            averaged, however many sizes there are.

    Raises:
        DataError: Not even the smallest law has enough distinct sizes.

    References:
        DerSimonian, Laird (1986), Meta-analysis in clinical trials, for weights by a known and an
        estimated variance.
    """
    fix = fix or {}
    if len(sizes) > 1:
        errors = evaluation_se if loss_se is None else loss_se
        logs = np.log(np.array([*sizes.values()])).mean(axis=0)
        return LossModel(
            family=(),
            posterior=fit_joint(sizes, loss, loss_se=errors, fix=fix),
            discrepancy=JOINT_DISCREPANCY,
            discrepancy_dof=JOINT_DOF,
            reach=math.exp(logs.max()),
        )
    ((column, values),) = sizes.items()
    is_short = count_sizes(np.asarray(values, dtype=float)) < MANY_SIZES
    if loss_se is None and not is_short and prior is None:
        return _fit_curve(column, values, loss, evaluation_se=evaluation_se, fix=fix)
    n_free = 2 - ("c" in fix)  # level and exponent: the floor has a prior
    check_losses(POWER_FLOOR, sizes, loss, loss_se, fixed=fix, n_free=n_free)
    weights = None
    if loss_se is None and evaluation_se is not None:
        scatter = neighbor_scatter(np.asarray(values, dtype=float), np.asarray(loss, dtype=float))
        weights = _evaluation_weights(loss, evaluation_se, variance=scatter[0])
    posterior = fit_posterior(
        column, values, loss, loss_se=loss_se, loss_se_dof=loss_se_dof, weights=weights, fix=fix
    )
    return LossModel(
        family=(),
        discrepancy=AVERAGED_DISCREPANCY,
        posterior=posterior,
        discrepancy_dof=AVERAGED_DOF,
        prior=prior,
    )


def _fit_curve(
    column: str,
    values: Sequence[float],
    loss: Sequence[float],
    *,
    evaluation_se: Sequence[float] | None,
    fix: Mapping[str, float],
) -> LossModel:
    """The family and the local law of many sizes, weighed on the last doublings."""
    laws, weights = fit_surviving_laws({column: values}, loss, fix=fix), None
    if evaluation_se is not None:
        scatter = min(law.scatter for law, _ in laws)
        weights = _evaluation_weights(loss, evaluation_se, variance=scatter**2)
        laws = fit_surviving_laws({column: values}, loss, weights=weights, fix=fix)
    cuts = hold_out_last_doublings(column, values, loss, weights=weights, fix=fix)
    local, local_weight = None, 0.0
    if not fix:
        local = fit_local(column, values, loss, weights=weights)
        local_weight = 1.0 if none_fits(laws, values, loss) else local_share(cuts)
    return LossModel(
        family=tuple((law, weight) for law, weight in laws if weight > 0),
        local=local,
        local_weight=local_weight,
        discrepancy=largest_discrepancy(cuts, local_weight=local_weight),
    )


def _evaluation_weights(
    loss: Sequence[float], evaluation_se: Sequence[float], *, variance: float
) -> list[float]:
    """Weights of points that have an error of evaluation and, besides, one in common."""
    evaluation = (np.asarray(evaluation_se) / np.asarray(loss)) ** 2
    shared = max(variance - float(evaluation.mean()), 0.0)
    return list((1.0 / np.maximum(evaluation + shared, SMALLEST_VARIANCE)).tolist())
