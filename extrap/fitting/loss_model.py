"""The loss over size: averaged laws, laws the data cannot distinguish, how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.holdout import (
    anchored,
    hold_out_last_doublings,
    learned_share,
    local_share,
    worst_share,
)
from extrap.fitting.local import LocalLaw, fit_local
from extrap.fitting.mixture import count_sizes, fit_surviving_laws, mix, none_fits
from extrap.fitting.noise import NEW_SEED, SMALLEST_VARIANCE, Noise
from extrap.fitting.posterior import LossPosterior, fit_posterior
from extrap.fitting.prediction import Component, LossPrediction
from extrap.laws.base import Array
from extrap.records import Fit

BANDS = ("default", "family")
LOCAL_DOF = 2.0
"""Degrees of freedom that the local law has at least: its spread is that of a posterior, in which
the prior of the exponent counts as points do."""
MANY_SIZES = 8
"""From so many sizes on, where the noise is not known, errors of a law are taken to grow with the
distance from the largest size, as on published learning curves: the local law knows of that."""
AVERAGED_DISCREPANCY = 0.01
"""Structural error of the averaged laws: what their bends and starts do not cover."""
AVERAGED_DOF, STATED_DOF = 4.0, 1e9
"""Degrees of freedom behind it, and behind one that is stated and not estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossModel:
    """Everything the sweep says about the loss at its optimum over size.

    Attributes:
        laws: Every law of the family that could be fitted, with its weight; rejected ones have 0.
        local: The law as the largest sizes see it; None with a posterior or several size columns.
        local_weight: Its share in the forecast, from the runs' own last doublings; below the
            largest fitted size it falls in proportion. 1 where no law of the family fits.
        discrepancy: Structural error as a share of the predicted change.
        posterior: Power laws with a floor, averaged; where there is one, the forecast is its, and
            the laws tell only whether one of them fits.
        discrepancy_dof: Degrees of freedom behind the discrepancy.
        reach: Largest geometric mean of the size columns of a fitted point; None with one column.
    """

    laws: tuple[tuple[Fit, float], ...]
    local: LocalLaw | None
    local_weight: float
    discrepancy: float
    posterior: LossPosterior | None = None
    discrepancy_dof: float = STATED_DOF
    reach: float | None = None

    @property
    def fits(self) -> bool:
        """Whether any law of the family follows all sizes."""
        return self.local_weight < 1

    @property
    def kept(self) -> tuple[tuple[Fit, float], ...]:
        """The laws that survived."""
        return tuple((fit, weight) for fit, weight in self.laws if weight > 0)

    @property
    def fitted_range(self) -> dict[str, tuple[float, float]]:
        """Size column → smallest and largest fitted size."""
        fit = self.laws[0][0]
        return dict(zip(fit.columns, fit.fitted_range, strict=True))

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
        since the last fitted size.

        Args:
            size: Size column → size.
            noise: Run-to-run noise.
            band: `"default"` or `"family"`.
            seeds: One per run, for the mean log loss of tuned runs of these seeds, some of which
                may be the sweep's; None for one new run.
        """
        here = self._blend(size)
        curve = [*here.within, (here.between, math.inf)]
        if band == "default":
            move = self.discrepancy * (here.log_loss - self._blend(self._inside(size)).log_loss)
            curve.append((max(move**2 - here.between, 0.0), self.discrepancy_dof))
        noise = noise.at_size(size)
        mean = noise.of_mean([NEW_SEED] if seeds is None else seeds)
        # without replicates the scatter about the laws is all there is, and runs may share it
        run = list(here.scatter)
        if noise.own_sd is not None:
            own = mean.own * noise.own_sd**2
            leads = self.posterior is None and not self.fits
            if not leads or own > sum(variance for variance, _ in run):
                run = [(own, float(noise.own_dof))]
        if noise.shared_sd > 0:
            shared = noise.shared_sd**2
            curve.append((mean.law * shared / noise.n_seeds, noise.shared_dof))
            run.append((mean.shared * shared, noise.shared_dof))
        return LossPrediction(
            log_loss=here.log_loss + mean.shift, curve=tuple(curve), run=tuple(run)
        )

    def _inside(self, size: Mapping[str, float]) -> dict[str, float]:
        """The fitted size from which the change to a size is counted."""
        bounds = self.fitted_range
        largest = np.array([high for _, high in bounds.values()])
        x = np.array([[float(size[column]) for column in bounds]])
        reach = float(largest[0]) if len(bounds) == 1 else self.reach or math.inf
        (found,) = anchored(x, largest=largest, reach=reach)
        return dict(zip(bounds, found.tolist(), strict=True))

    def _blend(self, size: Mapping[str, float]) -> _Blend:
        if self.posterior is not None:
            return _averaged(self.posterior, size)
        share = self.local_weight
        kept = self.kept
        x = np.array([[float(size[column]) for column in kept[0][0].columns]])
        mean, within, between = (float(a[0]) for a in mix(kept, x))
        dof = min(fit.scale_dof for fit, _ in kept)
        scatter = max(fit.scatter for fit, _ in kept) ** 2
        if share == 0 or self.local is None:
            return _Blend(
                log_loss=mean, within=((within, dof),), between=between, scatter=((scatter, dof),)
            )
        if share < 1:  # among the fitted sizes it knows the largest ones; of the others little
            share *= min(1.0, float(x[0, 0]) / self.local.largest)
        near, spread = (float(a[0]) for a in self.local.predict_log(x[:, 0]))
        rest = 1 - share
        # a law that holds a small share of the forecast must not lend it all its doubt
        local_dof = max(self.local.dof, LOCAL_DOF) / share
        return _Blend(
            log_loss=share * near + rest * mean,
            within=((rest * within, dof), (share * spread, local_dof)),
            between=rest * between + share * rest * (near - mean) ** 2,
            scatter=((rest * scatter, dof), (share * self.local.scatter**2, local_dof)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blend:
    """Centre of the forecast, variance within and between its parts, scatter of points."""

    log_loss: float
    within: tuple[Component, ...]
    between: float
    scatter: tuple[Component, ...]


def _averaged(posterior: LossPosterior, size: Mapping[str, float]) -> _Blend:
    mean, spread = posterior.predict_log(np.array([size[posterior.column]], dtype=float))
    return _Blend(
        log_loss=float(mean[0]),
        within=((float(spread[0]), posterior.dof),),
        between=0.0,
        scatter=((posterior.scatter**2, posterior.dof),),
    )


def fit_loss_model(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
    evaluation_se: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> LossModel:
    """Fit what forecasts the loss, and say how far to trust it.

    Over one size column, where the noise is known or the sizes are few: laws averaged by their
    posterior probability. Of many sizes without known noise: the family of laws and the local law,
    weighed on the runs' own last doublings. Over several columns: the family of laws, with a
    discrepancy learned from published ladders and those doublings.

    Args:
        sizes: Size column → sizes, shape (n_points,) each.
        loss: Losses at the optimum, shape (n_points,).
        loss_se: Their standard errors, same unit, or None.
        loss_se_dof: Degrees of freedom behind them.
        evaluation_se: Standard errors of evaluation alone, same unit, where the noise of the
            seeds is not known: it is read from the residuals, and points are weighed by both.
        fix: Pinned parameters of the laws; with any, the local law is left out.

    Raises:
        DataError: Not even the smallest law has enough distinct sizes.

    References:
        DerSimonian, Laird (1986), Meta-analysis in clinical trials, for weights by a known and an
        estimated variance.
    """
    laws = fit_surviving_laws(sizes, loss, loss_se=loss_se, loss_se_dof=loss_se_dof, fix=fix)
    weights = None
    if loss_se is None and evaluation_se is not None:
        known = (np.asarray(evaluation_se) / np.asarray(loss)) ** 2
        shared = max(min(fit.scatter for fit, _ in laws) ** 2 - float(known.mean()), 0.0)
        weights = 1.0 / np.maximum(known + shared, SMALLEST_VARIANCE)
        laws = fit_surviving_laws(sizes, loss, loss_se=None, weights=weights, fix=fix)
    is_single = len(sizes) == 1
    fits = not (is_single and none_fits(laws, sizes, loss))
    if is_single and (loss_se is not None or count_sizes(_columns(sizes)) < MANY_SIZES):
        ((column, values),) = sizes.items()
        return LossModel(
            laws=laws,
            local=None,
            local_weight=0.0 if fits else 1.0,
            discrepancy=AVERAGED_DISCREPANCY,
            posterior=fit_posterior(
                column,
                values,
                loss,
                loss_se=loss_se,
                loss_se_dof=loss_se_dof,
                weights=weights,
                fix=fix,
            ),
            discrepancy_dof=AVERAGED_DOF,
        )
    cuts = hold_out_last_doublings(
        sizes, loss, loss_se=loss_se, loss_se_dof=loss_se_dof, weights=weights, fix=fix
    )
    if len(sizes) > 1:
        share, dof = learned_share(cuts)
        return LossModel(
            laws=laws,
            local=None,
            local_weight=0.0,
            discrepancy=share,
            discrepancy_dof=dof,
            reach=float(np.exp(np.log(_columns(sizes)).mean(axis=1)).max()),
        )
    local = None
    if not fix:
        ((column, values),) = sizes.items()
        errors = None if weights is None else np.asarray(loss) / np.sqrt(weights)
        local = fit_local(column, values, loss, loss_se=errors)
    weight = 0.0
    if local is not None:
        weight = local_share(cuts) if fits else 1.0
    return LossModel(
        laws=laws,
        local=local,
        local_weight=weight,
        discrepancy=worst_share(cuts, local_weight=weight),
    )


def _columns(sizes: Mapping[str, Sequence[float]]) -> Array:
    return np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()])
