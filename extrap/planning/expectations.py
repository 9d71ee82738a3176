"""How wide a forecast will be once runs are bought that nobody has trained yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from extrap.errors import DataError, FitError
from extrap.fitting import (
    LossPrediction,
    Noise,
    fit_loss_model,
    relative_sizes,
)
from extrap.fitting.loss_law import MIN_LOG_SE
from extrap.fitting.vertices import Design, VertexModel, Vertices
from extrap.forecasting import Forecast
from extrap.laws import LAWS
from extrap.laws.base import Array
from extrap.planning.candidates import seed_numbers
from extrap.records import Fit

MOST_NOISE = 0.5
"""Share of the variance of optima about their law that counts as noise at most."""
TINY = 1e-12
SOLVED = 1e-6
"""Largest error of equations, relative to their right side, of what solves them."""
MANY_RUNS = 10_000
"""Runs and seeds that stand for any number of them."""
MANY = 1e9
"""Degrees of freedom of a normal distribution, near enough."""
PINNED = "pinned: "
"""Before a parameter that was given, in a forecast's flags."""


Parts = list[tuple[float, float]]
"""Variances, each with its degrees of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """ln(upper / lower) of the loss's interval, octaves of each tuned one's; None if unknown."""

    loss: float | None
    tuned: Mapping[str, float | None]

    def log_sum(self, aims: Sequence[str]) -> float:
        """Sum of the logarithms of those aimed at: what a plan makes small."""
        each = {"loss": self.loss, **self.tuned}
        return sum(math.log(max(each[name] or TINY, TINY)) for name in aims)

    def knows(self, aims: Sequence[str]) -> bool:
        """Whether all of those aimed at are known."""
        each = {"loss": self.loss, **self.tuned}
        return all(each[name] is not None for name in aims)

    def widens(self, now: Widths, aims: Sequence[str], *, by: float = 1.0) -> bool:
        """Whether one of those aimed at is more than `by` times as wide as now."""
        each, before = {"loss": self.loss, **self.tuned}, {"loss": now.loss, **now.tuned}
        pairs = ((each[name], before[name]) for name in aims)
        return any(b is not None and (w is None or w > by * b) for w, b in pairs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Foresight:
    """A forecast, and what its optima would be known to with other runs.

    Attributes:
        forecast: The forecast.
        at: The target.
        model: Predicts variances of an optimum.
        designs: The runs of every size whose optimum is bracketed.
        loss_ratio: Observed variance of each of these log losses / predicted, (n_sizes,).
        place_ratio: The same of the optima, (n_sizes, n_tuned).
        extra: Variance of the optima about their law beyond what their errors explain, (n_tuned,).
    """

    forecast: Forecast
    at: Mapping[str, float]
    model: VertexModel
    designs: tuple[Design, ...]
    loss_ratio: Array
    place_ratio: Array
    extra: Array
    _seen: dict[object, Any] = field(default_factory=dict)

    def now(self) -> Widths:
        """The widths as the forecast itself has them."""
        prediction = self.forecast.predict_loss(self.at, refuse=False)
        tuned = {}
        for name, estimate in self.forecast.predict_tuned(self.at, refuse=False).items():
            low, high = estimate.pi
            tuned[name] = math.log2(high / low) if low and high else None
        loss = None if prediction is None else _width(prediction, self.forecast.level)
        return Widths(loss=loss, tuned=tuned)

    def quick(self, designs: Sequence[Design]) -> Widths:
        """Widths by the laws' linearisation at their fitted parameters."""
        key = ("quick", *(design.key for design in designs))
        if key not in self._seen:
            found = [self._vertices(design) for design in designs]
            sizes = [design.size for design in designs]
            loss = self._loss_by_line(sizes, found, n_common=_n_common(designs))
            self._seen[key] = Widths(loss=loss, tuned=self._tuned(sizes, found))
        widths: Widths = self._seen[key]
        return widths

    def refitted(self, designs: Sequence[Design], *, n_new: int) -> Widths:
        """Widths of the laws fitted again to losses as the forecast expects them.

        Residuals of swept sizes shrink with their errors, so misfit stays as large against the
        noise as it is now.

        Args:
            designs: Runs of every size.
            n_new: How many of them are bought.
        """
        key = ("refitted", n_new, *sorted(design.key for design in designs))
        if key in self._seen:
            known: Widths = self._seen[key]
            return known
        found = [self._vertices(design) for design in designs]
        sizes = [design.size for design in designs]
        noise = self._noise(n_new=n_new, n_common=_n_common(designs), n_sizes=len(designs))
        loss = self._loss_refitted(sizes, found, noise)
        self._seen[key] = Widths(loss=loss, tuned=self._tuned(sizes, found))
        return self.refitted(designs, n_new=n_new)

    def floor(self) -> Widths:
        """The widths with any number of runs at the swept sizes."""
        none = (0.0,) * len(self.forecast.runs.tuned)
        nothing = Vertices(position=none, floor=none, loss=0.0)
        sizes = [design.size for design in self.designs]
        found = [nothing] * len(sizes)
        known = replace(
            self.forecast.noise, n_seeds=MANY_RUNS, own_dof=MANY_RUNS, size_dof=MANY_RUNS
        )
        if known.shared_sd > 0:
            known = replace(known, shared_dof=MANY_RUNS)
        loss, now = self._loss_refitted(sizes, found, known), self.now().loss
        least = loss if loss is None or now is None else min(loss, now)
        return Widths(loss=least, tuned=self._tuned(sizes, found))

    def limits(self) -> dict[str, dict[str, float]]:
        """What makes each interval wide now, as shares of its variance."""
        found: dict[str, dict[str, float]] = {}
        prediction = self.forecast.predict_loss(self.at, refuse=False)
        if prediction is not None:
            shared = self.forecast.noise.shared_sd**2
            within, form, common = _split(prediction, self.forecast)
            found["loss"] = _shares(
                {
                    "parameters of the law": sum(v for v, _ in within),
                    "form of the law": sum(v for v, _ in form),
                    "seeds shared by all sizes": sum(v for v, _ in common),
                    "seed of the new run": sum(v for v, _ in prediction.run) - shared,
                    "shared seed of the new run": shared,
                }
            )
        sizes = [design.size for design in self.designs]
        vertices = [self._vertices(design) for design in self.designs]
        for j, name in enumerate(self.forecast.runs.tuned):
            fit = self.forecast.tuned_laws[name]
            if fit is not None:
                curve, scatter = self._tuned_parts(fit, j, sizes, vertices)
                own = 1 - min(float(self.extra[j]) / scatter, 1.0)
                found[name] = _shares(
                    {
                        "noise of the optima": own * (curve + scatter),
                        "scatter of the optima about the law": (1 - own) * scatter,
                        "slope of the law": (1 - own) * curve,
                    }
                )
        return found

    def _vertices(self, design: Design) -> Vertices:
        """Predicted variances, corrected by what was observed at that size or at most sizes."""
        key = design.key
        if key not in self._seen:
            raw = self.model.of_design(design)
            loss, place = self._ratios(design.size)
            self._seen[key] = Vertices(
                position=tuple(float(r * v) for r, v in zip(place, raw.position, strict=True)),
                floor=raw.floor,
                loss=float(loss * raw.loss),
            )
        found: Vertices = self._seen[key]
        return found

    def _ratios(self, size: Mapping[str, float]) -> tuple[float, Array]:
        for i, design in enumerate(self.designs):
            if design.size == size:
                return float(self.loss_ratio[i]), self.place_ratio[i]
        return float(np.median(self.loss_ratio)), np.median(self.place_ratio, axis=0)

    def _loss_by_line(
        self,
        sizes: Sequence[Mapping[str, float]],
        found: Sequence[Vertices],
        *,
        n_common: int,
    ) -> float | None:
        if "now" not in self._seen:
            before = [self._vertices(design) for design in self.designs]
            swept = [design.size for design in self.designs]
            prediction = self.forecast.predict_loss(self.at, refuse=False)
            parts = None if prediction is None else _split(prediction, self.forecast)
            self._seen["now"] = prediction, parts, self._line_variance(swept, before)
        prediction, parts, now = self._seen["now"]
        if prediction is None:
            return None
        ratio = self._line_variance(sizes, found) / max(now, TINY**2)
        within, form, common = parts
        reach = self._reach(sizes) ** 2
        form = [(reach * v, dof) for v, dof in form]
        run, old = list(prediction.run), self.forecast.noise
        noise = self._noise(n_new=0, n_common=n_common, n_sizes=len(sizes))
        within = [(v, float(noise.size_dof) if dof == old.size_dof else dof) for v, dof in within]
        run[0] = (run[0][0], float(noise.own_dof) if old.own_sd is not None else run[0][1])
        if common:
            shared, dof = noise.shared_sd**2, float(noise.shared_dof)
            common, run[-1] = [(shared / noise.n_seeds, dof)], (shared, dof)
        curve = [*((v * ratio, dof) for v, dof in within), *form, *common]
        seen = replace(prediction, curve=tuple(curve), run=tuple(run))
        return _width(seen, self.forecast.level)

    def _reach(self, sizes: Sequence[Mapping[str, float]]) -> float:
        """The change predicted beyond the largest size, as a share of that beyond the sweep."""
        swept = [design.size for design in self.designs]
        beyond = self._change(sizes)
        return beyond / max(self._change(swept), TINY)

    def _change(self, among: Sequence[Mapping[str, float]]) -> float:
        """How far the loss is predicted to fall between the largest of these and the target."""
        top = {c: min(max(s[c] for s in among), self.at[c]) for c in self.at}
        key = ("change", *top.values())
        if key not in self._seen:
            pair = (self.forecast.predict_loss(x, refuse=False) for x in (top, self.at))
            here, there = pair
            assert here is not None
            assert there is not None
            self._seen[key] = abs(there.log_loss - here.log_loss)
        return float(self._seen[key])

    def _line_variance(
        self, sizes: Sequence[Mapping[str, float]], found: Sequence[Vertices]
    ) -> float:
        """Variance of the log loss at the target, of the laws' parameters alone."""
        weights = 1.0 / (np.array([v.loss for v in found]) + MIN_LOG_SE**2)
        total, model = 0.0, self.forecast.loss_model
        assert model is not None
        for i, (fit, share) in enumerate(model.kept):
            design = np.array([self._slopes(i, fit, size) for size in sizes])
            target = self._slopes(i, fit, self.at)
            norm = np.maximum(np.sqrt((design**2).sum(axis=0)), TINY)
            total += share * _at(target / norm, design / norm, weights)
        return total

    def _slopes(self, i: int | str, fit: Fit, size: Mapping[str, float]) -> Array:
        """Derivatives of a law's logarithm in its free parameters, at one size."""
        key = ("slopes", i, *size.values())
        if key not in self._seen:
            free = [j for j, name in enumerate(fit.names) if name not in fit.fixed]
            z = relative_sizes(fit, size)
            gradient = LAWS[fit.law].log_gradient(np.asarray(fit.values), z)
            self._seen[key] = gradient[0, free]
        return np.asarray(self._seen[key])

    def _noise(self, *, n_new: int, n_common: int, n_sizes: int) -> Noise:
        """The noise as it will be known, by as many degrees of freedom as there will be."""
        noise = self.forecast.noise
        more = n_new / max(len(self.forecast.runs), 1)
        run_dof = noise.own_dof + round(more * noise.own_dof)
        size_dof = noise.size_dof + round(more * noise.size_dof)
        if noise.shared_dof == 0 or n_common < 2:
            return replace(noise, own_dof=run_dof, size_dof=size_dof)
        crossed = (n_sizes - 1) * (n_common - 1)  # two-way, as in `estimate_noise`
        run_dof = max(run_dof, crossed)
        size_dof = max(noise.size_dof, crossed)
        return replace(
            noise, own_dof=run_dof, size_dof=size_dof, n_seeds=n_common, shared_dof=run_dof
        )

    def _loss_refitted(
        self, sizes: Sequence[Mapping[str, float]], found: Sequence[Vertices], noise: Noise
    ) -> float | None:
        forecast, model = self.forecast, self.forecast.loss_model
        if model is None:
            return None
        losses, errors = [], []
        observed = {tuple(o.size.items()): o for o in forecast.optima}
        for size, vertex in zip(sizes, found, strict=True):
            prediction = forecast.predict_loss(size, refuse=False)
            assert prediction is not None
            optimum = observed.get(tuple(size.items()))
            rest = 0.0
            if optimum is not None and optimum.loss is not None:
                before = optimum.paired_loss_se or 0.0
                shrunk = math.sqrt(vertex.loss) / max(before / optimum.loss, TINY)
                rest = (math.log(optimum.loss) - prediction.log_loss) * min(shrunk, 1.0)
            losses.append(math.exp(prediction.log_loss + rest))
            errors.append(losses[-1] * math.sqrt(vertex.loss))
        planned = {tuple(size.items()) for size in sizes}
        for key, optimum in observed.items():  # those at an edge stay as they are
            if optimum.loss is not None and not optimum.bracketed and key not in planned:
                sizes = [*sizes, optimum.size]
                losses.append(optimum.loss)
                errors.append(optimum.paired_loss_se or 0.0)
        known = forecast.noise.own_sd is not None
        columns = {c: [size[c] for size in sizes] for c in forecast.runs.sizes}
        try:
            refitted = fit_loss_model(
                columns,
                losses,
                loss_se=errors if known else None,
                loss_se_dof=noise.size_dof if known else None,
                fix=_pins(forecast),
            )
        except (DataError, FitError):
            return None
        prediction = refitted.predict(self.at, noise=noise, band=forecast.band)
        return _width(prediction, forecast.level)

    def _tuned(
        self, sizes: Sequence[Mapping[str, float]], found: Sequence[Vertices]
    ) -> dict[str, float | None]:
        """Widths of the optimum at the target, as its law has them with these optima."""
        widths: dict[str, float | None] = {}
        for j, name in enumerate(self.forecast.runs.tuned):
            fit = self.forecast.tuned_laws[name]
            assert fit is not None
            curve, scatter = self._tuned_parts(fit, j, sizes, found)
            dof = fit.dof + max(len(sizes) - fit.n_points, 0)  # those at an edge are points too
            width = 2 * _student(float(dof), self.forecast.level) * math.sqrt(curve + scatter)
            widths[name] = width
        return widths

    def _tuned_parts(
        self, fit: Fit, j: int, sizes: Sequence[Mapping[str, float]], found: Sequence[Vertices]
    ) -> tuple[float, float]:
        """Variance of the law at the target and of an optimum about it, octave².

        The law's covariance is that of the forecast, updated by what the optima are known better
        (Kalman 1960, equation 21); the scatter goes with their harmonic mean variance.
        """
        before = {
            tuple(design.size.values()): self._precision(j, self._vertices(design))
            for design in self.designs
        }
        after = [self._precision(j, vertices) for vertices in found]
        scatter = (fit.scatter / math.log(2)) ** 2
        scatter *= min(float(np.mean(list(before.values())) / np.mean(after)), 1.0)
        gain = np.array(
            [p - before.get(tuple(s.values()), 0.0) for s, p in zip(sizes, after, strict=True)]
        )
        free = [i for i, name in enumerate(fit.names) if name not in fit.fixed]
        covariance = np.array(fit.covariance)[np.ix_(free, free)] / math.log(2) ** 2
        at = self._slopes(f"tuned {j}", fit, self.at)
        curve = float(at @ covariance @ at)
        new = [i for i in range(len(sizes)) if gain[i] > SOLVED * after[i]]
        if new:
            seen = np.array([self._slopes(f"tuned {j}", fit, sizes[i]) for i in new])
            learned = np.diag(1 / gain[new]) + seen @ covariance @ seen.T
            known = seen @ covariance @ at
            curve -= float(known @ np.linalg.solve(learned, known))
        return max(curve, 0.0), scatter

    def _precision(self, j: int, vertices: Vertices) -> float:
        """Of an optimum about its law, 1 / octave²."""
        return 1 / max(vertices.position[j] + float(self.extra[j]), TINY)


def foresee(forecast: Forecast, at: Mapping[str, float]) -> Foresight:
    """What a forecast's optima rest on, and by how much its own errors differ from predicted.

    Raises:
        DataError: The sweep gives no law of the loss, of an optimum, or no excess-loss curve.
    """
    runs = forecast.runs
    fits = [forecast.tuned_laws[name] for name in runs.tuned]
    n_known = sum(optimum.bracketed for optimum in forecast.optima)
    if (
        forecast.loss_model is None
        or None in fits
        or (runs.tuned and (forecast.excess_curve is None or n_known < len(runs.sizes) + 2))
    ):
        raise DataError(
            "the effect of further runs can be computed only with laws of the loss and of "
            f"each optimum, and an excess-loss curve ({'; '.join(forecast.flags)}); "
            "extend the sweep first: a grid with the best value inside, at four sizes or "
            "more."
        )
    scatter = max(fit.scatter for fit, _ in forecast.loss_model.kept)
    model = VertexModel.of(forecast.excess_curve, forecast.noise, scatter=scatter)
    designs, loss_ratio, place_ratio, own = [], [], [], []
    for optimum in forecast.optima:
        if not optimum.bracketed or optimum.loss is None:
            continue
        design = _design(forecast, optimum.size)
        raw = model.of_design(design)
        log_se = (optimum.paired_loss_se or 0.0) / optimum.loss
        loss_ratio.append(_ratio(log_se**2, raw.loss))
        seen = [_octave_variance(optimum.tuned[n].value, optimum.tuned[n].se) for n in runs.tuned]
        place = [max(s - f, 0.05 * s) for s, f in zip(seen, raw.floor, strict=True)]
        place_ratio.append([_ratio(p, r) for p, r in zip(place, raw.position, strict=True)])
        own.append(place)
        designs.append(design)
    found = np.array(own).reshape(len(designs), len(runs.tuned))
    ratios = np.array(place_ratio).reshape(len(designs), len(runs.tuned))
    extra = np.zeros(len(fits))
    for j, fit in enumerate(fits):
        assert fit is not None
        mean, scatter = float(found[:, j].mean()), (fit.scatter / math.log(2)) ** 2
        # errors of optima are on the safe side: not all of the scatter is what more runs correct
        noise = min(mean, MOST_NOISE * scatter)
        ratios[:, j] *= noise / max(mean, TINY)
        extra[j] = scatter - noise
    return Foresight(
        forecast=forecast,
        at=dict(at),
        model=model,
        designs=tuple(designs),
        loss_ratio=np.array(loss_ratio),
        place_ratio=ratios,
        extra=extra,
    )


def _design(forecast: Forecast, size: Mapping[str, float]) -> Design:
    """The complete runs of a size."""
    frame = forecast.runs.complete().to_frame()
    here = frame[np.logical_and.reduce([frame[c] == v for c, v in size.items()])]
    centre = forecast.predict_tuned(size, refuse=False)
    columns = [
        np.log2(here[name].to_numpy(dtype=float) / (centre[name].value or math.nan))
        for name in forecast.runs.tuned
    ]
    octaves = np.column_stack(columns) if columns else np.empty((len(here), 0))
    seeds = tuple(seed_numbers(frame["seed"])[here.index])
    return Design(size=dict(size), octaves=octaves, seeds=seeds)


def _n_common(designs: Sequence[Design]) -> int:
    """Seeds that every size has."""
    return len(frozenset.intersection(*(design.distinct for design in designs)))


def _ratio(observed: float, predicted: float) -> float:
    """Observed / predicted, no further apart than a factor of ten."""
    if observed <= 0 or predicted <= 0:
        return 1.0
    return min(max(observed / predicted, 0.1), 10.0)


def _octave_variance(value: float | None, se: float | None) -> float:
    return 0.0 if not value or not se else (se / value / math.log(2)) ** 2


def _at(target: Array, design: Array, weights: Array) -> float:
    """`g* (Gᵀ W G)⁺ g*`: variance at a target of a law through weighted points."""
    normal = (design.T * weights) @ design
    try:
        solved = np.linalg.solve(normal, target)
    except np.linalg.LinAlgError:
        solved = np.full_like(target, math.nan)
    if np.abs(normal @ solved - target).max() <= SOLVED * np.abs(target).max():
        return float(target @ solved)
    return float(target @ np.linalg.pinv(normal) @ target)


def _split(prediction: LossPrediction, forecast: Forecast) -> tuple[Parts, Parts, Parts]:
    """The curve's variances: of parameters, of the law's form, of seeds that all sizes share."""
    curve = list(prediction.curve)
    common = [curve.pop()] if forecast.noise.shared_sd > 0 else []
    n_within = len(curve) - (2 if forecast.band == "default" else 1)
    return curve[:n_within], curve[n_within:], common


def _width(prediction: LossPrediction, level: float) -> float:
    """ln(upper / lower) of the interval of a new run, as `LossPrediction.interval` has it."""
    return 2 * max(_student(min(dof, MANY), level) * sd for sd, dof in prediction.spreads())


@lru_cache(maxsize=10_000)
def _student(dof: float, level: float) -> float:
    """Half the width of a central interval of Student's t."""
    return float(special.stdtrit(dof, 0.5 + level / 2))


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: v / total for name, v in parts.items() if v > 0} if total > 0 else {}


def _pins(forecast: Forecast) -> dict[str, float]:
    """Pinned parameters of the loss, as a forecast's flags name them."""
    flagged = [f.removeprefix(PINNED) for f in forecast.flags if f.startswith(PINNED)]
    given = {text.partition(" = ")[0] for text in flagged}
    pairs = [pair for fit, _ in forecast.loss_laws for pair in fit.fixed.items()]
    return {name: value for name, value in pairs if name in given}
