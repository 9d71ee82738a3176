import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import WLS

from benchmarks.sweeps import simulate
from extrap.fitting.optimum import estimate_optima
from extrap.fitting.seed_noise import Noise, estimate_noise
from extrap.reading import read_runs
from extrap.records import Interval


def optima_of(table, tune="lr"):
    runs = read_runs(table, size="width", tune=tune)
    return estimate_optima(runs, noise=estimate_noise(runs), level=0.95)


def test_optimum_is_the_minimum_of_the_weighted_cubic():
    """One size: the cubic is its own, fitted with the weights 1 / (1 + (excess / .02)²).

    Its standard error is that of the delta method and, beside it, a tenth of the spacing.
    """
    rng, seeds = np.random.default_rng(0), 3
    u = np.repeat(np.arange(-3.0, 4.0), seeds)
    log_loss = 0.7 + 0.01 * (u - 0.3) ** 2 + 0.001 * (u - 0.3) ** 3 + 0.004 * rng.normal(size=21)
    table = pd.DataFrame({"width": 8, "lr": 2**u, "seed": np.tile(range(seeds), 7)})
    runs = read_runs(table.assign(loss=np.exp(log_loss)), size="width", tune="lr")
    noise = Noise(own_sd=0.02, own_dof=30, size_sd=0.01)
    (found,) = estimate_optima(runs, noise=noise, level=0.9)
    means = log_loss.reshape(7, seeds).mean(axis=1)
    best = u[seeds * np.argmin(means)]
    excess = np.repeat(means - means.min(), seeds)
    kept = excess <= 0.2
    weights = 1 / (1 + (excess[kept] / 0.02) ** 2)
    contrasts = np.eye(seeds)[np.tile(range(seeds), 7)] @ [[1, 0], [0, 1], [-1, -1]]
    v = (u - best)[kept]
    design = np.column_stack([v[:, None] ** np.arange(4), contrasts[kept]])
    theirs = WLS(log_loss[kept], design, weights=weights).fit()
    a, b, c, d = theirs.params[:4]
    vertex = (-c + np.sqrt(c**2 - 3 * b * d)) / (3 * d)
    covariance = 0.02**2 * theirs.normalized_cov_params
    slope = np.array([0, 1, 2 * vertex, 3 * vertex**2, 0, 0]) / (2 * c + 6 * d * vertex)
    octaves = np.hypot(np.sqrt(slope @ covariance @ slope), 0.1)
    estimate = found.tuned["lr"]
    assert np.log2(estimate.value) == pytest.approx(best + vertex, abs=1e-8)
    assert estimate.se == pytest.approx(estimate.value * np.log(2) * octaves, rel=1e-6)
    t = stats.t.ppf(0.95, kept.sum() - 6 + 30)
    ends = estimate.value * 2 ** (octaves * np.array([-t, t]))
    assert estimate.ci == estimate.pi == pytest.approx(tuple(ends), rel=1e-6)
    log_height = a + b * vertex + c * vertex**2 + d * vertex**3
    assert found.loss == pytest.approx(np.exp(log_height), rel=1e-8)
    height = np.array([1, vertex, vertex**2, vertex**3, 0, 0])
    variance = max(height @ covariance @ height, 0.01**2 / seeds)
    assert found.paired_loss_se == found.loss_se
    assert found.loss_se == pytest.approx(found.loss * np.sqrt(variance), rel=1e-6)
    assert found.best_loss == pytest.approx(np.exp(means.min()))


def test_standard_error_of_a_mean_has_parts_of_seeds_and_evaluation():
    """Of 4 runs: (.03² + .04²) / 4 and, shared by all sizes, what is not in the paired part."""
    table = pd.DataFrame({"width": 8, "seed": range(4), "loss": [2.0, 2.2, 1.9, 1.9]})
    noise = Noise(own_sd=0.05, own_dof=9, size_sd=0.03, shared_sd=0.04, shared_dof=3, n_seeds=4)
    for evaluation, paired in ((None, 0.015), (0.08, np.hypot(0.015, 0.04))):
        loss_se = {} if evaluation is None else {"loss_se": evaluation * table["loss"]}
        runs = read_runs(table.assign(**loss_se), size="width", tune=())
        (found,) = estimate_optima(runs, noise=noise, level=0.9)
        assert found.loss == pytest.approx(2.0)
        assert found.paired_loss_se == pytest.approx(2 * paired)
        assert found.loss_se == pytest.approx(2 * np.hypot(paired, 0.02))
        assert (found.best_loss, found.bracketed, found.n_runs) == (found.loss, True, 4)
    unknown = Noise(own_sd=None, own_dof=0, size_sd=None)
    (found,) = estimate_optima(read_runs(table, size="width", tune=()), noise=unknown, level=0.9)
    assert (found.loss_se, found.paired_loss_se) == (None, None)


@pytest.mark.parametrize(
    ("rates", "side", "expected"),
    [
        (2.0 ** np.arange(-5, 0), "low", Interval(None, 2.0**-4)),
        (2.0 ** np.arange(-16, -10), "high", Interval(2.0**-12, None)),
    ],
)
def test_optimum_at_the_edge_of_the_grid_is_one_sided(sweep_table, rates, side, expected):
    for optimum in optima_of(sweep_table(rates=tuple(map(float, rates)))):
        assert optimum.edge == {"lr": side}
        assert optimum.tuned["lr"].value is None
        assert optimum.tuned["lr"].pi == expected
        assert optimum.loss is None
        assert not optimum.bracketed
        assert optimum.best_loss is not None


@pytest.mark.parametrize(
    ("best", "edge", "expected"),
    [
        ((0, 1, 2, 3, 4), None, Interval(None, None)),
        ((0, 4), None, Interval(None, None)),
        ((0, 1, 2), {"lr": "low"}, Interval(None, 2.0**-5)),
        ((3, 4), {"lr": "high"}, Interval(2.0**-6, None)),
    ],
)
def test_equal_losses_bound_the_optimum_only_where_others_are_worse(best, edge, expected):
    """Five rates from 2^-8 to 2^-4, the named ones equally good."""
    loss = [2.0 if i in best else 2.1 for i in range(5)]
    table = pd.DataFrame({"width": 8, "lr": 2.0 ** np.arange(-8, -3), "loss": loss})
    (found,) = optima_of(table)
    assert (found.edge, found.bracketed, found.loss) == (edge, False, None)
    assert found.tuned["lr"].value is None
    assert found.tuned["lr"].ci == expected


def test_rate_at_which_a_seed_diverged_is_never_the_best(sweep_table):
    table = sweep_table()
    here = table["width"] == 16
    best = table[here].groupby("lr")["loss"].mean().idxmin()
    table.loc[here & (table["lr"] == best) & (table["seed"] == 0), "loss"] = np.inf
    others = table[here & (table["lr"] != best)]
    log_means = np.log(others["loss"]).groupby(others["lr"]).mean()
    assert optima_of(table)[0].best_loss == pytest.approx(np.exp(log_means.min()))


def test_one_seed_that_diverged_by_chance_hides_no_better_values(sweep_table):
    """The optimum at width 16 lies above a rate at which one of three seeds diverged."""
    table = sweep_table()
    (whole, *_) = optima_of(table)
    below = table["lr"] < 0.7 * whole.tuned["lr"].value
    hit = (table["width"] == 16) & (table["lr"] == table["lr"][below].max()) & (table["seed"] == 0)
    table.loc[hit, "loss"] = np.inf
    (found, *_) = optima_of(table)
    assert found.bracketed
    assert found.tuned["lr"].value == pytest.approx(whole.tuned["lr"].value, rel=0.15)


CLIFF = np.log([0.40, 0.21, 0.138, 0.104, 0.087, 2.08, 2.31])
"""Mean log losses of rates an octave apart, from 2^-4: a slow fall, and a cliff."""


def test_beside_a_cliff_the_optimum_lies_between_the_values_seen_to_be_worse():
    def loss(width, lr, seed):
        return np.exp(CLIFF[(np.log2(lr) + 4).astype(int)] + 0.02 * (seed - 1))

    (found,) = optima_of(simulate(loss, width=[8], lr=2.0 ** np.arange(-4, 3), seed=range(3)))
    assert found.bracketed
    assert found.loss == pytest.approx(0.087, rel=0.01)
    rate = found.tuned["lr"]
    assert rate.value == pytest.approx(1.0)  # between 1/2 and 2
    assert rate.se == pytest.approx(np.log(2) * np.hypot(2 / np.sqrt(12), 0.1))
    beside = (CLIFF[3] - CLIFF[4]) / 4  # the curve may go below the best cell
    variance = (found.paired_loss_se / found.loss) ** 2
    assert variance == pytest.approx(0.02**2 / 3 + beside**2, rel=0.1)


@pytest.mark.parametrize("seed", range(2))
def test_interval_ends_where_values_diverge_on_either_side(sweep_table, seed):
    """A column of reciprocal rates has reciprocal optima, intervals and limits."""
    table = sweep_table(noise=0.04, seeds=1, seed=seed)
    table.loc[table["lr"] >= 2.0**-6, "loss"] = np.inf
    found = [optimum.tuned["lr"] for optimum in optima_of(table)]
    assert all(e.ci.upper is not None and e.ci.upper <= 2.0**-6 for e in found)
    assert any(e.value is not None and e.pi.upper == 2.0**-6 for e in found)
    mirrored = optima_of(table.assign(lr=1 / table["lr"]))
    for one, other in zip(found, (optimum.tuned["lr"] for optimum in mirrored), strict=True):
        assert [None if x is None else 1 / x for x in (one.value, *one.ci)] == [
            None if x is None else pytest.approx(x) for x in (other.value, *other.ci[::-1])
        ]


def test_minimum_next_to_diverged_values_is_not_accepted():
    """A quadratic through the runs around a hole has its minimum in the hole."""
    rows = [
        {"width": 8, "lr": lr, "batch": batch, "loss": 2 * np.exp(0.02 * (a * a + b * b))}
        for a, lr in enumerate(2.0 ** np.arange(-10, -3), start=-3)
        for b, batch in enumerate(2.0 ** np.arange(3, 10), start=-3)
    ]
    table = pd.DataFrame(rows)
    (whole,) = optima_of(table, tune=("lr", "batch"))
    assert whole.tuned["lr"].value == pytest.approx(2.0**-7)
    table.loc[(table["lr"] == 2.0**-7) & (table["batch"] == 2.0**6), "loss"] = np.inf
    (holed,) = optima_of(table, tune=("lr", "batch"))
    assert holed.tuned["lr"].value is None
    assert holed.tuned["lr"].ci.lower is not None


def test_where_every_rate_diverged_the_optimum_is_lower(sweep_table):
    table = sweep_table()
    table.loc[table["width"] == 64, "loss"] = np.inf
    optimum = optima_of(table)[2]
    assert optimum.tuned["lr"].ci == Interval(None, table["lr"].min())
    assert optimum.edge == {"lr": "low"}
    assert optimum.n_diverged == 24
    assert optimum.loss is None
    assert optimum.best_loss is None


def test_size_of_failed_runs_only_is_no_size(sweep_table):
    table = sweep_table().astype(object)
    table.loc[table["width"] == 64, "loss"] = None
    assert [o.size["width"] for o in optima_of(table)] == [16, 32, 128, 192]


def test_two_tuned_values_are_found_together():
    def loss(width, lr, batch):
        u, v = np.log2(lr / 0.01), np.log2(batch / 40)
        return 2 * np.exp(0.02 * u * u + 0.015 * v * v - 0.01 * u * v)

    axes = {"width": [8], "lr": 2.0 ** np.arange(-10, -3), "batch": 2.0 ** np.arange(3, 9)}
    (optimum,) = optima_of(simulate(loss, noise=0.001, **axes), tune=("lr", "batch"))
    assert np.log2(optimum.tuned["lr"].value / 0.01) == pytest.approx(0, abs=0.1)
    assert np.log2(optimum.tuned["batch"].value / 40) == pytest.approx(0, abs=0.15)
    assert optimum.loss == pytest.approx(2, rel=0.003)


def test_without_tuned_columns_the_optimum_is_the_mean():
    table = pd.DataFrame({"width": [8, 8, 16], "seed": [0, 1, 0], "loss": [2.0, 4.0, 1.0]})
    small, large = optima_of(table, tune=())
    assert small.loss == 3.0
    assert small.n_runs == 2
    assert small.tuned == {}
    assert large.loss == 1.0


def test_interval_wider_than_the_values_tried_is_that_of_the_values_tried():
    """Of noise of 10 % about a shallow curve; the estimates themselves stay as they are."""
    rates, n_wide = 2.0 ** np.arange(-9, -2), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        off = np.log2(np.tile(rates, 3)) + 6
        loss = np.exp(0.01 * off**2 + 0.1 * rng.normal(size=21))
        seeds = np.repeat(range(3), 7)
        table = pd.DataFrame({"width": 8, "lr": np.tile(rates, 3), "seed": seeds, "loss": loss})
        (found,) = optima_of(table)
        if found.bracketed:
            estimate = found.tuned["lr"]
            low, high = estimate.ci
            assert high / low <= rates[-1] / rates[0]
            n_wide += estimate.ci == (rates[0], rates[-1])
            octaves = estimate.se / estimate.value / np.log(2)
            assert (4 * octaves > 6.5) <= (estimate.ci == (rates[0], rates[-1]))
    assert 2 <= n_wide <= 8
