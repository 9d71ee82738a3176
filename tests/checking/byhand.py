"""A forecast whose laws, errors and noise are round numbers, so that all it says is known.

At width 1024 the log loss has the standard error .017 (8-15-17), the law of the log of the best
rate .1, and with its scatter of .24 one optimum lies within .26 (10-24-26, by 10) of its centre.
A value costs .02 per squared octave, at every size alike.
"""

import math
from dataclasses import replace

import numpy as np
from scipy import special

from benchmarks.sweeps import simulate
from extrap.checking import Configuration
from extrap.checking.causes import find_cause
from extrap.checking.configurations import TunedCost
from extrap.fitting.loss_model import LossModel
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface.draws import SizeDraws, SurfaceDraws
from extrap.fitting.surface.parameters import Places
from extrap.forecasting import Forecast
from extrap.records import Estimate, Fit, Interval, Optimum, Point, Runs

WIDTHS = (16.0, 32.0, 64.0, 128.0, 256.0)
LARGE = {"width": 1024.0}
STEP = 16.0
"""1024 over the reference width of all laws, 64."""


def loss_at(width):
    return 3.0 * (width / 64) ** -0.1


def lr_at(width):
    return 0.01 * (width / 64) ** -0.5


def law(key, values, sds, **more):
    covariance = tuple(
        tuple(sd**2 if i == j else 0.0 for j in range(len(sds))) for i, sd in enumerate(sds)
    )
    return Fit(
        law=key,
        names=tuple(values),
        values=tuple(values.values()),
        covariance=covariance,
        columns=("width",),
        reference=(64.0,),
        fitted_range=((16.0, 256.0),),
        n_points=5,
        chi2=1.0,
        **more,
    )


def of_loss(**more):
    """ln 3 ± .008 at the reference, so that the error at 1024 is .017."""
    sds = (3 * 0.008, 0.015 / math.log(STEP))
    given = {"scatter": 0.02, "dof": 3, "scale_dof": 6, **more}
    return law("power", {"b": 3.0, "c": 0.1}, sds, **given)


N_DRAWS = 2048
EVEN = special.ndtri((np.random.default_rng(0).permutation(N_DRAWS) + 0.5) / N_DRAWS)
"""Standard normal numbers."""


def size_draws(
    optimum, law=None, *, curvature, asymmetry=0.0, turn=0.0, steepness=10.0, cliff=math.inf
):
    """Draws of optima, (n, columns), about which costs are k u² / 2; odds beyond a cliff."""
    n, n_columns = optimum.shape
    is_finite = math.isfinite(cliff)
    return SizeDraws(
        optimum=optimum,
        law=optimum if law is None else law,
        asymmetry=np.full((2, n, n_columns), asymmetry),
        log_curvature=np.log(np.broadcast_to(curvature, (n, n_columns))),
        turns=np.tile([turn, 0.0][: n_columns * (n_columns - 1)], (n, 1)),
        steepness=np.tile([steepness, 0.0][:n_columns], (n, 1)) if is_finite else None,
        threshold=steepness * (cliff - optimum[:, 0]) if is_finite else None,
    )


class KnownDraws(SurfaceDraws):
    """The optimum at any width is normal about `lr_at`, with a scatter in log rate."""

    scatter, cliff = 0.24, math.inf

    def at(self, log_size):
        width = float(2.0 ** log_size[0])
        centre, of_law = (
            math.log2(lr_at(width)),
            math.hypot(0.06, 0.08 * math.log(width / 64) / math.log(STEP)),
        )
        law = centre + of_law / math.log(2) * EVEN[:, None]
        optimum = centre + math.hypot(of_law, self.scatter) / math.log(2) * EVEN[:, None]
        return size_draws(optimum, law, curvature=0.04, cliff=self.cliff + centre)


def of_rate(*, scatter=0.24, cliff=math.inf):
    """Draws of the best rate; runs more than `cliff` octaves above its centre diverge."""
    places, logs = Places((5, 1, 1), 0, diverging=False), np.log2(WIDTHS)
    theta = np.zeros((N_DRAWS, places.n))
    theta[:, places.optimum[:, 0]] = np.log2(lr_at(np.array(WIDTHS)))
    theta[:, places.loss] = np.log(loss_at(np.array(WIDTHS)))
    draws = KnownDraws(
        log_sizes=logs[:, None],
        pinned=np.full((1, 1), np.nan),
        centre=np.array([math.log2(lr_at(64))]),
        main=None,
        parts=(),
        theta=theta,
    )
    object.__setattr__(draws, "scatter", scatter)
    object.__setattr__(draws, "cliff", cliff)
    return draws


def optimum(width):
    open_ended = Interval(None, None)
    lr = Estimate(value=lr_at(width), se=0.1 * lr_at(width), ci=open_ended, pi=open_ended)
    return Optimum(
        size={"width": width},
        tuned={"lr": lr},
        loss=loss_at(width),
        loss_se=0.01,
        paired_loss_se=0.01,
        best_loss=loss_at(width),
        n_runs=6,
        n_diverged=0,
        bracketed=True,
        edge=None,
    )


def sweep(**columns):
    """Five rates an octave apart and two seeds, on the law and its parabola of .02 octave²."""
    table = simulate(
        lambda width, u, seed: loss_at(width) * np.exp(0.02 * u**2),
        width=WIDTHS,
        u=range(-2, 3),
        seed=range(2),
    )
    lr = lr_at(table["width"]) * 2.0 ** table.pop("u")
    table = table.assign(lr=lr, **columns)
    return Runs.from_frame(table, sizes=["width"], tuned=["lr"])


def by_hand(**changes):
    model = LossModel(family=((of_loss(), 1.0),), discrepancy=0.15)
    given = {
        "runs": sweep(),
        "level": 0.95,
        "band": "default",
        "optima": tuple(map(optimum, WIDTHS)),
        "noise": Noise(own_sd=0.006, own_dof=6),
        "loss_model": model,
        "surface": of_rate(),
        "flags": (),
        "created": "2026-01-02T00:00:00+00:00",
    }
    return Forecast(**{**given, **changes})


def configuration_of(*, made=None, size=LARGE, **given):
    """One run, with nothing particular about it; fields of the point of its size too."""
    law = LossPrediction(log_loss=0.5, curve=((1e-4, math.inf),), run=((4e-6, math.inf),))
    point = {name: given.pop(name, {}) for name in ("best", "recommended")}
    plain = {
        "rows": {0: {"status": "complete", "seed": 0, "loss": 1.0, **given.pop("row", {})}},
        "seeds": (0,),
        "tuned": {},
        "differing": {},
        "log_deviation": 0.0,
        "distance_from_replicates": None,
        "spike": None,
        "deviation_before_spike": None,
        "overfits": False,
        "forecast": by_hand() if made is None else made,
        "point": Point(
            size=size,
            loss=None,
            loss_ci=Interval(),
            loss_pi=Interval(),
            tuned=point["best"],
            recommended=point["recommended"],
            extrapolation_ratio=4.0,
        ),
        "predicted_log_loss": 0.5,
        "prediction": law,
        "predicted_pi": Interval(),
        "octaves": (),
        "excess": 0.0,
        "expected_cost": 0.0,
    }
    return Configuration(**{**plain, **given})


def judged(
    *, off=0.1, u=0.0, excess=None, chance=0.99, p=0.5, beside=0.5, has_loss_alarm=True, **more
):
    """A run at width 1024, off the law of `by_hand` and its best rate, with its finding."""
    inside = more.pop("pi", Interval(0.0024, 0.0026))
    lr = Estimate(value=0.0025, se=0.0, ci=inside, pi=inside)
    cost = 0.02 * u**2 if excess is None else excess
    given = {
        "made": by_hand(runs=sweep(**more.pop("sweep", {}))),
        "tuned": {"lr": 0.0025 * 2**u},
        "best": {"lr": lr},
        "recommended": {"lr": 0.0025},
        "predicted_log_loss": math.log(loss_at(1024)),
        "octaves": (u,),
        "excess": cost,
        "expected_cost": cost,
        "log_deviation": off,
        "tuned_cost": TunedCost(
            chance=chance, mean=cost, p_value=beside, p_above=p, expected_pi=Interval()
        ),
        "p_value": p,
        "p_adjusted": p,
        "has_loss_alarm": has_loss_alarm,
        "is_inside": not has_loss_alarm,
    }
    configuration = configuration_of(**{**given, **more})
    return replace(configuration, finding=find_cause(configuration))
