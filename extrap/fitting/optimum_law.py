"""How an optimum moves with size: weighted least squares on log-log axes, and whether it bends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from extrap.errors import DataError
from extrap.fitting.designs import check_identifiable
from extrap.fitting.distributions import t_tail
from extrap.fitting.lines import weighted_line
from extrap.fitting.mixture import SAME_SIZE
from extrap.laws import OPTIMUM_POWER
from extrap.laws.base import Array
from extrap.records import Fit, Optimum

BENDS = "optimum-law-bends"
"""Flag of a law whose optima curve on log-log axes."""
TIED = "columns-collinear"
"""Flag of a law whose size columns only the pins keep apart."""
BENDS_P = 0.05
FLAT = 1e-9
"""Share of a parabola's square that a straight law may leave before it counts as two sizes."""
BEND_PRIOR = {0.003: 0.5, 0.03: 0.15, 0.06: 0.2, 0.12: 0.1, 0.25: 0.05}
"""Standard deviation of a bend, octaves per squared doubling → how likely that is beforehand."""
SCALE, SCALE_DOF = 0.4, 3
"""How large the real errors of optima usually are, as a share of the stated ones; degrees of
freedom behind it. Chosen, like the bends, on simulated sweeps and on Step Law's optima."""
BENT_P = 0.01
"""The law bends by a share of `1 / (1 + (p / BENT_P)²)`, p of a straight one: what follows less
sure bends forecasts the published optima of Step Law and of Porian et al. worse."""
OFF_STRAIGHT, LEAST_OFF = 1.8, 0.2
"""The squared distance between a straight law and a bent one counts so many times where the law is
straight, and where it bends."""
OFF_LAW = 0.1 * math.log(2)
"""An optimum lies off every smooth law by about a tenth of an octave, however well it is known."""
OF_LEVELS = 0.02 * math.log(2)
"""Scale of the effects that optima of one size share, with prior `(1 + τ / OF_LEVELS)^(−½)`."""
BEND_SIZES = 6
"""Sizes that a column needs to be tested for a bend of its own."""
LARGEST_EFFECT, LARGEST_SCALE = 2.0, 4.0
MOST_OPTIMA = 80
"""So many optima, evenly taken, tell the effects; time grows with their number's third power."""
EXACT = 0.005 * math.log(2)
"""Standard deviation of a log optimum that none undercuts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvatureTest:
    """Whether log optima curve against log size: t test of a quadratic term.

    Of several size columns that of the column with the smallest p-value, which is multiplied by
    their number (Bonferroni).

    Attributes:
        curvature: Second derivative of `ln v*` in `ln x`; positive where the optimum falls less,
            or rises more, at scale.
        se: Its standard error.
        p_value: Two-sided, of no curvature.
        dof: Degrees of freedom of the t test.
    """

    curvature: float
    se: float
    p_value: float
    dof: int

    @property
    def bends(self) -> bool:
        """Whether a straight line is rejected at 5 %."""
        return self.p_value < BENDS_P


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Line:
    """A linear model on log-log axes; weights have mean 1."""

    design: Array
    y: Array
    weights: Array
    log_se: Array
    x: Array
    reference: Array

    @property
    def square(self) -> Array:
        """The squared mean log size, shape (n,)."""
        return np.asarray(self.design[:, 1:].mean(axis=1) ** 2)


def fit_optimum_law(
    optima: Sequence[Optimum],
    *,
    tuned: str,
    columns: Sequence[str],
    fix: Mapping[str, float] | None = None,
) -> Fit:
    """Fit `ln v* = a + Σ b_i ln(x_i / x0_i)` to the optima that have a point estimate.

    Weights are `1 / se²` of the log optima. The law is straight unless the optima clearly
    reject that; then it bends with the square of the mean log size.
    That it may bend is always part of the covariance: `σ² x'(X'X)⁻¹x + κ² q(x)²`, with q the
    distance of the squared log size from its straight-line fit, and κ learned from the optima and
    a prior. A bend that `check_curvature` shows is a flag. Over one size column an optimum lies
    off the law by `scatter`, at least a tenth of an octave.

    Over several columns optima of one size share an effect, so 30 optima of four sizes are little
    more than four: the standard deviation of the effects of each column follows by restricted
    maximum likelihood, a new size has effects of its own (`scatter`), and Student's t has one
    degree of freedom less than the number of sizes in the column with fewest.

    Args:
        optima: Optima at several sizes; those without a point estimate are left out.
        tuned: The tuned column.
        columns: Size columns.
        fix: Slopes to pin, by name: `{"b": -0.5}` with one size column, `{"b2": 0.3}` with more.

    Returns:
        The fit; `scatter` is the standard deviation of one log optimum about the law.

    Raises:
        ValueError: A pin is no slope of the law, or is not finite.
        DataError: Fewer optima than free parameters plus one, a size column that hardly varies, or
            size columns that move together and no pin to keep them apart.

    References:
        Everett et al. (2024), arXiv 2407.05872, for slopes worth pinning: -1 for the learning
        rate of Adam with full alignment, -1/2 without, 0 in a parametrisation that transfers.
    """
    law, fixed = OPTIMUM_POWER, {k: float(v) for k, v in (fix or {}).items()}
    names = law.names(len(columns))
    _check_pins(fixed, names[1:])
    free = [i for i, name in enumerate(names) if name not in fixed]
    line = _line(optima, tuned=tuned, columns=columns, n_free=len(free))
    tied = check_identifiable(
        line.x, columns, exponents=names[1:], fixed=fixed, example=(f"{tuned}.", -0.3)
    )
    pinned = np.array([fixed.get(name, 0.0) for name in names])
    y = line.y - line.design @ pinned
    curvature = _curvature(line, y, free)
    p_value = 1.0 if curvature is None else curvature.p_value
    bent = _bent_law(line, y, free, p_value=p_value)
    if len(columns) > 1:
        bent = _with_effects(bent, line, y, free)
    kept = [*free, len(names)]  # the bend is never pinned
    values, covariance = np.append(pinned, 0.0), np.zeros((1 + len(names),) * 2)
    values[kept], covariance[np.ix_(kept, kept)] = bent.values, bent.covariance
    residuals = line.y - law.log_predict(values, line.x / line.reference)
    if len(columns) > 1:
        curvature = _clearest_bend(line, y, free)
    flags = {TIED: tied, BENDS: curvature is not None and curvature.bends}
    return Fit(
        law=law.key,
        names=(*names, "bend"),
        values=tuple(map(float, values)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        scatter=bent.scatter,
        dof=bent.dof,
        scale_dof=bent.dof,
        chi2=float(np.sum((residuals / line.log_se) ** 2)),
        columns=tuple(columns),
        reference=tuple(map(float, line.reference)),
        fitted_range=tuple((float(c.min()), float(c.max())) for c in line.x.T),
        n_points=len(y),
        fixed=fixed,
        flags=tuple(flag for flag, applies in flags.items() if applies),
    )


def check_curvature(
    optima: Sequence[Optimum],
    *,
    tuned: str,
    columns: Sequence[str],
    fix: Mapping[str, float] | None = None,
) -> CurvatureTest | None:
    """Test the law of an optimum for a bend.

    Args:
        optima: Optima at several sizes, as for `fit_optimum_law`.
        tuned: The tuned column.
        columns: Size columns.
        fix: Pinned slopes, as for `fit_optimum_law`.

    Returns:
        The test, or None with fewer than two optima more than the straight law has parameters,
        where all lie at two sizes, or where none of several columns has six sizes.

    References:
        arXiv 2606.29158, where the optimal rate bends upward at scale.
    """
    names, fixed = OPTIMUM_POWER.names(len(columns)), dict(fix or {})
    free = [i for i, name in enumerate(names) if name not in fixed]
    n = sum(o.tuned[tuned].value is not None for o in optima)
    if n < len(free) + 2:
        return None
    line = _line(optima, tuned=tuned, columns=columns, n_free=len(free))
    pinned = np.array([fixed.get(name, 0.0) for name in names])
    test = _curvature if len(columns) == 1 else _clearest_bend
    return test(line, line.y - line.design @ pinned, free)


def _curvature(line: _Line, y: Array, free: Sequence[int]) -> CurvatureTest | None:
    """The test along the mean log size, of log optima less what is pinned."""
    dof = len(y) - len(free) - 1
    if dof < 1:
        return None
    root = np.sqrt(line.weights)
    straight, square = line.design[:, free], 0.5 * line.square
    trend, _, rank, _ = np.linalg.lstsq(straight * root[:, None], square * root, rcond=None)
    if rank < len(free):
        return None
    rest = (square - straight @ trend) * root
    if rest @ rest <= FLAT * float((square * root) @ (square * root)):
        return None
    bent = weighted_line(np.column_stack([straight, square]), y, line.weights)
    curvature, se = float(bent.values[-1]), math.sqrt(bent.covariance[-1, -1])
    return CurvatureTest(
        curvature=curvature,
        se=se,
        p_value=float(2 * t_tail(abs(curvature) / se, dof)) if se > 0 else 1.0,
        dof=dof,
    )


def _line(optima: Sequence[Optimum], *, tuned: str, columns: Sequence[str], n_free: int) -> _Line:
    points = [o for o in optima if o.tuned[tuned].value is not None]
    if len(points) < n_free + 1:
        raise DataError(
            f"the law of the optimal {tuned} needs at least {n_free + 1} sizes whose optimum "
            f"is bracketed, got {len(points)}; extend the grid of {tuned} or add sizes."
        )
    x = np.array([[o.size[c] for c in columns] for o in points], dtype=float)
    value = np.array([o.tuned[tuned].value for o in points], dtype=float)
    log_se = np.array([o.tuned[tuned].se for o in points], dtype=float) / value
    reference = np.exp(np.log(x).mean(axis=0))
    weights = log_se**-2.0
    law = OPTIMUM_POWER
    return _Line(
        design=law.log_gradient(np.zeros(1 + len(columns)), x / reference),
        y=np.log(value),
        weights=weights / weights.mean(),
        log_se=log_se,
        x=x,
        reference=reference,
    )


def _check_pins(fixed: Mapping[str, float], slopes: Sequence[str]) -> None:
    for name, value in fixed.items():
        if name not in slopes:
            raise ValueError(
                f"a pinned parameter must be one of the slopes {', '.join(slopes)}; got {name!r}."
            )
        if not math.isfinite(value):
            raise ValueError(f"the pinned slope {name} must be finite, got {value:g}.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Bent:
    """Free parameters and bend, their covariance, scatter of an optimum, degrees of freedom."""

    values: Array
    covariance: Array
    scatter: float
    dof: int


def _bent_law(line: _Line, y: Array, free: Sequence[int], *, p_value: float) -> _Bent:
    """The law over bends that the optima allow, straight unless they clearly reject that.

    The bend has a normal prior of each standard deviation of `BEND_PRIOR`, and the scale of the
    stated errors an inverse-gamma prior of `SCALE_DOF` degrees of freedom around `SCALE`; the
    priors are mixed by their evidence. The distance to the mixture's mean counts as variance.
    """
    design = np.column_stack([line.design[:, free], line.square])
    design = np.vstack([design, np.eye(1, design.shape[1], design.shape[1] - 1)])
    precision = line.log_se**-2.0
    straight = np.append(weighted_line(line.design[:, free], y, precision).values, 0.0)
    dof = SCALE_DOF + len(y) - len(free)
    means, covariances, evidence, scales = [], [], [], []
    for octaves, weight in BEND_PRIOR.items():
        sd = octaves / math.log(2) / SCALE
        bent = weighted_line(design, np.append(y, 0.0), np.append(precision, sd**-2))
        square_sum = float((bent.weights * bent.residual**2).sum())
        scale = (SCALE_DOF * SCALE**2 + square_sum) / dof
        means.append(bent.values)
        scales.append(scale)
        covariances.append(bent.inverse * scale)
        volume = np.linalg.slogdet(bent.inverse)[1]
        evidence.append(math.log(weight / sd) + (volume - dof * math.log(scale)) / 2)
    shares = special.softmax(evidence)
    mean, share = shares @ np.array(means), 1 / (1 + (p_value / BENT_P) ** 2)
    off = np.array([*(each - mean for each in means), mean - straight])
    counts = np.append(shares, max(OFF_STRAIGHT * (1 - share) ** 2, LEAST_OFF))
    covariance = np.einsum("k,kij->ij", shares, np.array(covariances))
    covariance += np.einsum("k,ki,kj->ij", counts, off, off)
    scatter = math.sqrt(float(shares @ scales) / float(precision.mean()))
    return _Bent(
        values=share * mean + (1 - share) * straight,
        covariance=covariance,
        scatter=max(scatter, OFF_LAW),
        dof=dof,
    )


class _Levels:
    """Optima over several columns, those of one size of a column with an effect in common.

    The covariance of the optima is `s² diag(se²) + Σ_i τ_i² [same size of column i]`; s and τ
    maximise the restricted likelihood of a linear model, and their priors.
    """

    def __init__(self, line: _Line, y: Array, design: Array) -> None:
        self.y, self.design = y, design
        self.weights, self.log_se = line.weights, line.log_se
        levels = [_levels(column) for column in line.x.T]
        by_size = np.argsort(np.log(line.x).sum(axis=1), kind="stable")
        self.used = np.sort(by_size[:: math.ceil(len(y) / MOST_OPTIMA)])
        self.same = [of[:, None] == of for of in levels]
        self.n_sizes = [int(of.max()) + 1 for of in levels]
        bounds = [(1e-2, LARGEST_SCALE), *[(0.0, LARGEST_EFFECT)] * len(levels)]
        found = min(
            (
                optimize.minimize(
                    self._objective,
                    [SCALE, *[effect] * len(levels)],
                    method="L-BFGS-B",
                    bounds=bounds,
                )
                for effect in (OF_LEVELS, 10 * OF_LEVELS)
            ),
            key=lambda result: float(result.fun),
        )
        self.variance = float(found.x[1:] @ found.x[1:])
        self.covariance = self._covariance(found.x)
        self.shared = sum(t**2 * same for t, same in zip(found.x[1:], self.same, strict=True))

    def _covariance(self, parameters: Array) -> Array:
        scale, *effects = parameters
        total = np.diag((scale * self.log_se) ** 2 + EXACT**2)
        for effect, same in zip(effects, self.same, strict=True):
            total = total + effect**2 * same
        return np.asarray(total)

    def _objective(self, parameters: Array) -> float:
        """Minus the log of the restricted likelihood and the priors."""
        used = self.used
        root = np.linalg.cholesky(self._covariance(parameters)[np.ix_(used, used)])
        design, y = np.linalg.solve(root, self.design[used]), np.linalg.solve(root, self.y[used])
        values, *_ = np.linalg.lstsq(design, y, rcond=None)
        rest = y - design @ values
        log_determinant = float(np.log(np.diag(root)).sum())
        log_determinant += float(np.linalg.slogdet(design.T @ design)[1]) / 2
        ratio = (SCALE / parameters[0]) ** 2
        prior = SCALE_DOF * (ratio - math.log(ratio)) / 2
        prior += float(np.log1p(parameters[1:] / OF_LEVELS).sum()) / 2
        return float(rest @ rest) / 2 + log_determinant + prior

    def fitted(self, design: Array, covariance: Array | None = None) -> tuple[Array, Array]:
        """Values by weights `1 / se²`, and their covariance under that of the optima or a part."""
        covariance = self.covariance if covariance is None else covariance
        inverse = np.linalg.inv(design.T @ (design * self.weights[:, None]))
        to_values = inverse @ (design.T * self.weights)
        return to_values @ self.y, to_values @ covariance @ to_values.T


def _clearest_bend(line: _Line, y: Array, free: Sequence[int]) -> CurvatureTest | None:
    """The test of the clearest bend, corrected for the number of columns with enough sizes."""
    straight, squares = line.design[:, free], line.design[:, 1:] ** 2 / 2
    able = [i for i, x in enumerate(line.x.T) if len(set(_levels(x))) >= BEND_SIZES]
    wide = np.column_stack([straight, squares[:, able]])
    if not able or np.linalg.matrix_rank(wide) < wide.shape[1] or len(y) <= wide.shape[1]:
        return None
    levels, tests = _Levels(line, y, wide), []
    for i in able:
        values, spread = levels.fitted(np.column_stack([straight, squares[:, i]]))
        curvature, se, dof = float(values[-1]), math.sqrt(spread[-1, -1]), levels.n_sizes[i] - 3
        p_value = min(len(able) * float(2 * t_tail(abs(curvature) / se, dof)), 1.0)
        tests.append(CurvatureTest(curvature=curvature, se=se, p_value=p_value, dof=dof))
    return min(tests, key=lambda test: test.p_value)


def _levels(x: Array) -> Array:
    """Which size each value of a column is, counted from 0; sizes within 5 % are one."""
    order = np.argsort(x, kind="stable")
    steps = np.diff(np.log(x[order]), prepend=np.log(x[order[0]])) > math.log1p(SAME_SIZE)
    found = np.empty(len(x), dtype=int)
    found[order] = np.cumsum(steps)
    return found


def _with_effects(bent: _Bent, line: _Line, y: Array, free: Sequence[int]) -> _Bent:
    """A law over several columns, with what optima of one size share."""
    design = line.design[:, free]
    wide = np.column_stack([design, line.square])
    levels = _Levels(line, y, wide if np.linalg.matrix_rank(wide) == wide.shape[1] else design)
    covariance, n_free = bent.covariance.copy(), len(free)
    covariance[:n_free, :n_free] += levels.fitted(design, levels.shared)[1]
    return replace(
        bent,
        covariance=covariance,
        scatter=math.sqrt(levels.variance + EXACT**2),
        dof=min(bent.dof, max(min(levels.n_sizes) - 1, 1)),
    )
