import json
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize, stats

from extrap import critical_batch
from extrap.analyses.batch_size.batch_laws import _jackknifed
from extrap.errors import DataError
from extrap.fitting.regression import fit_line
from extrap.laws.batch import steps_to_target
from extrap.records.codec import document

BATCHES = 2.0 ** np.arange(6, 15)
NOISE = 0.03


def table(b_crit=2000.0, *, s_min=1000.0, noise=NOISE, replicates=1, batches=BATCHES, seed=0):
    rng = np.random.default_rng(seed)
    batch = np.repeat(batches, replicates)
    steps = steps_to_target(batch, s_min=s_min, b_crit=b_crit)
    steps = steps * np.exp(noise * rng.normal(size=len(batch)))
    seeds = np.tile(np.arange(replicates), len(batches))
    return pd.DataFrame({"batch_size": batch, "steps": steps, "seed": seeds})


def sizes(noise=NOISE, n=5):
    """Sizes 1, 2, 4, … with B_crit = 300 √size and S_min = 100 size^.3."""
    parts = []
    for i in range(n):
        one = table(300 * 2 ** (i / 2), s_min=100 * 2 ** (0.3 * i), noise=noise, seed=i)
        parts.append(one.assign(params=2.0**i))
    return pd.concat(parts)


def group(data, **options):
    return critical_batch(data, **options).groups[0]


def width(interval):
    return math.log(interval.upper / interval.lower)


class Squares:
    """Residual sums of squares of ln S about the hyperbola, written out; u = ln B_crit."""

    def __init__(self, data):
        self.y = np.log(data["steps"].to_numpy())
        self.batch = data["batch_size"].to_numpy()

    def at(self, u, log_s_min=None):
        rest = self.y - np.log1p(np.exp(u) / self.batch)
        return float(((rest - (rest.mean() if log_s_min is None else log_s_min)) ** 2).sum())

    def least(self):
        u = optimize.minimize_scalar(self.at, bounds=(5, 10), method="bounded").x
        return float(u), self.at(u)

    def of_steps(self, log_steps, batch):
        """The least with this value of ln S at a batch; at 0 of ln E, at ∞ of ln S_min."""

        def at(u):
            shape = u if batch == 0 else np.log1p(np.exp(u) / batch)
            return self.at(u, log_steps - shape)

        return float(optimize.minimize_scalar(at, bounds=(5, 10), method="bounded").fun)


def test_hyperbola_gives_the_golden_steps_and_examples():
    exact = group(table(1000.0, noise=0.0))
    numbers = (exact.b_crit.value, exact.s_min.value, exact.e_min.value)
    assert numbers == pytest.approx((1000, 1000, 1e6), rel=1e-6)
    for batch, times_steps, times_examples in ((250, 5, 1.25), (1000, 2, 2), (4000, 1.25, 5)):
        assert exact.steps_at(batch).value / 1000 == pytest.approx(times_steps)
        assert batch * exact.steps_at(batch).value / 1e6 == pytest.approx(times_examples)
    assert (exact.from_batch, exact.dof, exact.batches) == (64, 7, tuple(BATCHES))


def test_regimes_and_overhead_follow_from_the_hyperbola():
    exact = group(table(1000.0, noise=0.0), overhead=0.2, from_batch=256)
    assert exact.perfect_end.value == pytest.approx(200)
    assert exact.maximal_start.value == pytest.approx(4000)
    ends = [pytest.approx(end) for end in (200, 4000)]
    regimes = {"perfect": (None, ends[0]), "diminishing": (*ends,), "maximal": (ends[1], None)}
    assert exact.regimes == regimes
    assert exact.steps_at(8000).value / exact.steps_at(4000).value == pytest.approx(0.9)
    assert exact.b_overhead.value == pytest.approx(1.2 * 256 + 0.2 * 1000)
    at = exact.b_overhead.value
    assert exact.steps_at(at).value == pytest.approx(1.2 * exact.steps_at(256).value * 256 / at)
    noisy = group(table(), from_batch=256, overhead=0.3)
    for side, moved in zip(noisy.b_crit.ci, noisy.b_overhead.ci, strict=True):
        assert moved == pytest.approx(1.3 * 256 + 0.3 * side)
    assert tuple(noisy.maximal_start.ci) == pytest.approx([4 * v for v in noisy.b_crit.ci])


@pytest.mark.parametrize("replicates", [1, 2])
def test_intervals_are_where_the_squares_rise_by_the_quantile(replicates):
    """The least squares subject to each end: SSR (1 + t² / dof); `pi` adds one new error."""
    data = table(replicates=replicates, seed=5)
    found, squares = group(data, level=0.9), Squares(data)
    u, least = squares.least()
    dof = len(data) - 2
    t = stats.t.ppf(0.95, dof)
    assert (found.dof, found.fit.quantile) == (dof, pytest.approx(t))
    assert found.log_sd == pytest.approx(math.sqrt(least / dof), rel=1e-6)
    assert math.log(found.b_crit.value) == pytest.approx(u, rel=1e-5)
    limit = pytest.approx(least * (1 + t**2 / dof), rel=1e-3)
    for side in found.b_crit.ci:
        assert squares.at(math.log(side)) == limit
    for measure, batch in ((found.s_min, math.inf), (found.e_min, 0.0)):
        for side in measure.ci:
            assert squares.of_steps(math.log(side), batch) == limit
    there = found.steps_at(700.0)
    for side in there.ci:
        assert squares.of_steps(math.log(side), 700.0) == limit
    low, high = (abs(math.log(side / there.value)) for side in there.ci)
    new = t * math.sqrt(least / dof)
    assert math.log(there.value / there.pi.lower) == pytest.approx(math.hypot(low, new), rel=1e-5)
    assert math.log(there.pi.upper / there.value) == pytest.approx(math.hypot(high, new), rel=1e-5)
    log_e_min = math.log(found.s_min.value * found.b_crit.value)
    assert math.log(found.e_min.value) == pytest.approx(log_e_min)


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_one_regime_bounds_b_crit_on_one_side_only(noise):
    straight = group(table(1e13, s_min=1e-4, noise=noise))
    assert straight.b_crit.ci.lower > 2**14
    assert straight.e_min.value == pytest.approx(1e9, rel=0.05)
    opened = (straight.b_crit.ci.upper, straight.s_min.ci.lower, straight.b_overhead.ci.upper)
    assert opened == (None, None, None)
    assert (straight.b_crit.value, straight.s_min.value) == (None, None)
    assert "perfect-only" in straight.flags
    flat = group(table(1e-6, noise=noise))
    assert flat.b_crit.ci.upper < 64
    assert flat.s_min.value == pytest.approx(1000, rel=0.05)
    assert (flat.b_crit.ci.lower, flat.e_min.ci.lower) == (None, None)
    assert "flat-only" in flat.flags


def test_doubts_about_a_group_are_flags():
    rises = table()
    rises.loc[8, "steps"] *= 1.5
    flat = table(1e-6).sort_values("steps").assign(batch_size=BATCHES)  # rises within the noise
    for data, flags in (
        (table(), ()),
        (table().assign(budget=lambda rows: rows["steps"] * (1 - 1e-10)), ()),
    ):
        assert group(data).flags == flags
    assert ("steps-rise" in group(rises).flags, "steps-rise" in group(flat).flags) == (True, False)


def censored(budget):
    data = table(noise=0.05, replicates=3).assign(budget=budget)
    late = (data["steps"] > budget).to_numpy()
    return data.assign(steps=data["steps"].mask(late)), late


def test_censored_fit_is_that_of_the_likelihood():
    """Tobit: best values, the unbiased standard deviation, and ends where the deviance is t²."""
    data, late = censored(16_600.0)
    y = np.log(data["steps"].fillna(16_600.0).to_numpy())
    batch, n = data["batch_size"].to_numpy(), int((~late).sum())
    found = group(data)

    def negative(parameters):
        centre = parameters[1] + np.log1p(np.exp(parameters[0]) / batch)
        off = (y - centre) / np.exp(parameters[2])
        reached = stats.norm.logpdf(off) - parameters[2]
        return -float(np.where(late, stats.norm.logsf(off), reached).sum())

    free = optimize.minimize(negative, [7.6, 6.9, -3.0], method="Nelder-Mead", tol=1e-10).x
    sd = math.exp(free[2]) * math.sqrt(n / (n - 2))
    assert late.sum() > 3
    assert (found.log_sd, found.dof) == (pytest.approx(sd, rel=1e-4), n - 2)
    first = found.points[0]
    assert ("censored" in found.flags, first.values, len(first.bounds)) == (True, (), 3)

    def at(u):
        return optimize.minimize_scalar(lambda s: negative([u, s, math.log(sd)]), (6, 8)).fun

    best = optimize.minimize_scalar(at, bounds=(6, 9), method="bounded")
    assert found.b_crit.value == pytest.approx(math.exp(best.x), rel=1e-3)
    for side in found.b_crit.ci:
        rise = 2 * (at(math.log(side)) - best.fun)
        assert rise == pytest.approx(stats.t.ppf(0.975, n - 2) ** 2, rel=1e-3)


def test_status_and_claims_decide_over_steps():
    data = table().assign(status="reached", budget=np.nan)
    data.loc[[0, 1, 2], "status"] = ["censored", "diverged", " Pruned"]
    found = group(data)
    assert [p.bounds for p in found.points[:3]] == [(data["steps"][0],), (), (data["steps"][2],)]
    assert found.points[1].n_infeasible == 1
    assert {"censored", "infeasible"} <= set(found.flags)
    for empty in (None, np.nan, "", pd.NA):
        blank = table().assign(status=pd.Series([empty] * 9, dtype=object))
        assert group(blank).flags == group(table()).flags
    claimed = table().assign(is_censored=lambda rows: rows["batch_size"] == 64)
    assert group(claimed).points[0].bounds == (claimed["steps"][0],)


def bent(data, by=0.1):
    bump = {b: by * (-1) ** i for i, b in enumerate(BATCHES)}
    return data.assign(steps=data["steps"] * np.exp(data["batch_size"].map(bump)))


def test_lack_of_fit_is_an_f_test_and_then_means_are_fitted():
    """Pure error of 27 in 9 batches, 7 degrees of freedom of misfit; by hand."""
    good, bad = table(replicates=4, noise=0.005, seed=3), None
    bad = bent(good)
    for data, is_doubtful in ((good, False), (bad, True)):
        logs = np.log(data["steps"]).groupby(data["batch_size"])
        pure = float(((logs.size() - 1) * logs.var()).sum())
        misfit = Squares(data).least()[1] - pure
        p_value = stats.f.sf(misfit / 7 / (pure / 27), 7, 27)
        found = group(data)
        assert found.lack_of_fit_p == pytest.approx(p_value, rel=1e-4)
        assert ("lack-of-fit" in found.flags) == is_doubtful
    means = np.exp(np.log(bad["steps"]).groupby(bad["batch_size"]).mean()).reset_index()
    of_means = group(means)
    assert found.dof == 7
    assert tuple(found.b_crit.ci) == pytest.approx(tuple(of_means.b_crit.ci))
    assert found.log_sd == pytest.approx(math.sqrt(of_means.log_sd**2 + 0.75 * pure / 27))


def test_laws_over_groups_are_those_of_the_truth():
    found = critical_batch(sizes(noise=0.0), by="params", from_batch=64)
    assert found.laws["b_crit"].exponents["params"].value == pytest.approx(0.5, abs=1e-4)
    assert found.laws["b_crit"].at(params=1).value == pytest.approx(300, rel=1e-3)
    assert found.laws["s_min"].exponents["params"].value == pytest.approx(0.3, abs=1e-4)
    assert found.at(params=64).b_crit == found.laws["b_crit"].at(params=64)
    assert found.at(params=64).extrapolation_ratio == 4
    small = table().iloc[:2].assign(params=99.0)
    two = critical_batch(pd.concat([sizes(n=2), small]), by="params")
    assert (len(two.groups), "of params 99 " in two.notes[1]) == (2, True)
    assert two.laws["b_overhead"].exponents["params"].ci == (None, None)
    assert two.at(params=4).s_min.pi == two.at(params=4).b_crit.ci == (None, None)


def scattered(scatter=0.2, n=8):
    rng = np.random.default_rng(3)
    parts = []
    for i in range(n):
        b_crit, s_min = np.exp(scatter * rng.normal(size=2)) * (300 * 2 ** (i / 2), 100.0)
        parts.append(table(b_crit, s_min=s_min, noise=0.01, seed=i).assign(params=2.0**i))
    return pd.concat(parts)


@pytest.mark.parametrize("scatter", [0.0, 0.2])
def test_law_over_groups_is_weighted_by_errors_and_scatter(scatter):
    """Paule and Mandel: with the scatter weighted squares are n − k; then statsmodels' WLS."""
    found = critical_batch(scattered(scatter), by="params")
    law, t = found.laws["b_crit"], stats.t.ppf(0.975, 6)
    params = np.array([g.by["params"] for g in found.groups])
    design = np.column_stack([np.ones(8), np.log(params) - np.log(params).mean()])
    se = np.array([width(g.b_crit.ci) / 2 / g.fit.quantile for g in found.groups])
    weights = 1 / (se**2 + law.scatter**2)
    fit = sm.WLS(np.log([g.b_crit.value for g in found.groups]), design, weights=weights).fit()
    if scatter:
        assert law.scatter == pytest.approx(0.2, abs=0.1)
        assert fit.ssr == pytest.approx(6)
    else:
        assert (law.scatter, fit.ssr < 6) == (0, True)
    slope, error = fit.params[1], math.sqrt(fit.normalized_cov_params[1, 1])
    assert law.exponents["params"].value == pytest.approx(slope)
    ends = (slope - t * error, slope + t * error)
    assert tuple(law.exponents["params"].ci) == pytest.approx(ends)
    assert law.log_sd == pytest.approx(math.sqrt(1 / weights.mean()))
    there, row = law.at(params=300.0), np.array([1, math.log(300) - np.log(params).mean()])
    assert there.value == pytest.approx(math.exp(row @ fit.params))
    spread = math.sqrt(row @ fit.normalized_cov_params @ row)
    assert width(there.ci) == pytest.approx(2 * t * spread)
    assert width(there.pi) == pytest.approx(2 * t * math.hypot(spread, law.log_sd))


def test_targets_of_one_size_do_not_count_as_further_sizes():
    """Fifteen groups, five sizes: variances are those of leaving one size out at a time."""
    rng = np.random.default_rng(3)
    parts = []
    for i, off in enumerate(0.4 * rng.normal(size=5)):
        for j, target in enumerate((2.0, 2.5, 3.0)):
            b_crit = 2000 * np.exp(off) * target**-4
            one = table(b_crit, noise=0.02, seed=10 * i + j)
            parts.append(one.assign(params=2.0**i, target=target))
    data = pd.concat(parts)
    found = critical_batch(data, by=["params", "target"])
    apart = critical_batch(data.rename(columns={"target": "loss"}), by=["params", "loss"])
    law, alone = found.laws["b_crit"], apart.laws["b_crit"]
    assert (law.dof, alone.dof) == (4, 12)
    logs = np.log([[g.by["params"], g.by["target"]] for g in found.groups])
    design = np.column_stack([np.ones(15), logs - logs.mean(axis=0)])
    y = np.log([g.b_crit.value for g in found.groups])
    se = np.array([width(g.b_crit.ci) / 2 / g.fit.quantile for g in found.groups])
    w = 1 / (se**2 + law.scatter**2)
    left = [
        sm.WLS(y[kept], design[kept], weights=w[kept]).fit().params
        for kept in (logs[:, 0] != each for each in np.unique(logs[:, 0]))
    ]
    jackknife = 4 / 5 * ((np.array(left) - np.mean(left, axis=0)) ** 2).sum(axis=0)
    plain = np.diag(sm.WLS(y, design, weights=w).fit().normalized_cov_params)
    errors = np.sqrt(np.maximum(jackknife, plain))
    assert (jackknife > plain).any()
    for name, error in zip(law.columns, errors[1:], strict=True):
        lower, upper = law.exponents[name].ci
        assert upper - lower == pytest.approx(2 * stats.t.ppf(0.975, 4) * error)


def test_coefficients_that_no_size_moves_keep_the_error_of_the_line():
    design = np.column_stack([np.ones(6), np.repeat([-1.0, 0.0, 1.0], 2)])
    line = fit_line(design, np.zeros(6), np.full(6, 1e-4))
    expected = np.diag([1e-8 / 6, 1e-8 / 4])
    found = _jackknifed(line.results, [*"aabbcc"])
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-20)


def test_optimizers_are_groups_of_their_own_with_critical_batches_that_differ():
    """Critical batches of 500 and 4,000 at two sizes; text is no column of a law."""
    truth = {("adamw", 1): 500, ("adamw", 2): 600, ("muon", 1): 4000, ("muon", 2): 4800}
    parts = [
        table(b_crit, seed=i).assign(optimizer=name, params=size)
        for i, ((name, size), b_crit) in enumerate(truth.items())
    ]
    found = critical_batch(pd.concat(parts), by=["optimizer", "params"])
    assert len(found.groups) == 4
    for (name, size), b_crit in truth.items():
        assert b_crit in found.group(optimizer=name, params=size).b_crit.ci
    adam, muon = (found.group(optimizer=name, params=1) for name in ("adamw", "muon"))
    assert adam.b_crit.ci.upper < muon.b_crit.ci.lower
    assert muon.b_crit.value / adam.b_crit.value == pytest.approx(8, rel=0.25)
    assert (found.laws, "text" in found.reason) == ({}, True)


def test_what_follows_from_the_batch_size_and_its_own_rate_are_no_mixture():
    plain = table()
    batch = plain["batch_size"]
    data = plain.assign(
        lr=[3e-4, 1e-3, 1e-3, 3e-3, 1e-3, 3e-3, 1e-2, 3e-3, 1e-2],
        tokens=batch * plain["steps"] * 1024,
        tokens_per_step=batch * 1024,
        host=[f"node{i % 3}" for i in range(9)],
        val_loss=[3.0 + 0.1 * (i % 2) for i in range(9)],
    )
    scaled = data.assign(warmup_steps=1e6 / batch)
    found, noted = critical_batch(data), critical_batch(scaled)
    assert found.notes == ("Using batch = batch_size, steps = steps",)
    assert str(found).startswith(found.notes[0])
    assert [note.split()[0] for note in noted.notes] == ["Using", "warmup_steps"]
    assert found.groups == noted.groups == critical_batch(plain).groups


def test_rows_and_columns_are_read_as_those_of_a_sweep():
    """Sizes as text, a tracker's names, words of status, other names, and rows that are chosen."""
    plain = sizes(n=3)
    named = {1: "125M", 2: "350m", 4: "1.3B"}
    data = plain.assign(params=plain["params"].map(named), state="finished")
    data = data.rename(columns={c: f"config/{c}" for c in ("batch_size", "params", "seed")})
    data = data.rename(columns={"steps": "summary/steps"}).reset_index(drop=True)
    data.loc[3, "state"] = "CRASHED"
    found = critical_batch(data, by="params")
    assert [g.by["params"] for g in found.groups] == [125e6, 350e6, 1.3e9]
    assert [p.n_infeasible for p in found.groups[0].points[2:5]] == [0, 1, 0]
    chosen = critical_batch(
        data, where={"params": "350m"}, rename={"config/batch_size": "bs"}, batch="bs"
    )
    assert chosen.groups[0].points == critical_batch(plain[plain["params"] == 2]).groups[0].points
    assert "350m" in chosen.notes[1]


def test_groups_bounded_on_one_side_are_left_out_of_the_laws():
    flat = table(1e-6).assign(params=64.0)
    found = critical_batch(pd.concat([sizes(), flat]), by="params")
    assert (found.laws["b_crit"].n_groups, found.notes[1][:10]) == (5, "1 group(s)")
    straight = table(1e9, s_min=1e-3, batches=2.0 ** np.arange(0, 7)).assign(params=64.0)
    found = critical_batch(pd.concat([sizes(), straight]), by="params")
    alone = found.group(params=64.0).b_crit
    assert (alone.value is None, alone.ci.upper, found.laws["b_crit"].n_groups) == (False, None, 5)
    with pytest.raises(DataError, match="6 groups have"):
        found.group()


def test_document_of_open_intervals_has_no_nan():
    found = critical_batch(table(1e9, s_min=1.0).assign(params=1), by="params")
    written = json.loads(json.dumps(document(found), allow_nan=False))
    regimes = written["groups"][0]["regimes"]
    assert (regimes["perfect"][0], regimes["maximal"][1], written["laws"] or None) == (None,) * 3


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [1, 3])
def test_intervals_cover_at_their_level(replicates):
    truth = {"b_crit": 2000.0, "s_min": 1000.0, "e_min": 2e6, "b_overhead": 1.2 * 64 + 400}
    n, held, new = 400, dict.fromkeys(truth, 0), 0
    rng = np.random.default_rng(1)
    for i in range(n):
        found = group(table(replicates=replicates, seed=100 + i))
        for name, value in truth.items():
            held[name] += value in getattr(found, name).ci
        observed = float(steps_to_target(700, s_min=1000, b_crit=2000))
        new += observed * np.exp(NOISE * rng.normal()) in found.steps_at(700).pi
    for count in (*held.values(), new):
        assert count / n == pytest.approx(0.95, abs=0.033)


def test_a_group_that_mixes_a_setting_is_settled_by_every_way_that_the_error_offers():
    data = table().assign(optimizer=[("adamw", "muon")[i % 2] for i in range(9)])
    with pytest.raises(DataError) as refused:
        critical_batch(data)
    choices = [choice.arguments for choice in refused.value.choices]
    assert [next(iter(choice)) for choice in choices] == ["by", "where", "where", "ignore"]
    assert all(critical_batch(data, **choice).groups for choice in choices)


def test_a_setting_after_a_column_that_sets_nothing_is_asked_about():
    rows = pd.concat([table().assign(wall_s=1.0, depth=depth) for depth in (2, 4)])
    with pytest.raises(DataError, match="depth 2, 4"):
        critical_batch(rows)


@pytest.mark.parametrize("column", ["batch_size", "steps"])
def test_zero_is_neither_a_batch_nor_a_number_of_steps(column):
    data = table()
    data.loc[3, column] = 0
    with pytest.raises(DataError, match=column):
        critical_batch(data)
