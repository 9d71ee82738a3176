"""The laws of best values alone, against conditionals of normals and simulated tables."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import extrap
from extrap.analyses.best_values.value_law import VALUE_SHARED, VALUE_SLOPE_SD
from extrap.cli import main
from extrap.errors import DataError
from extrap.fitting.surface.optimum_process import OptimumProcess

TABLE = pd.DataFrame({"depth": [16, 8, 12, 20], "weight_decay": [0.05, 0.2, 0.09, 0.03]})
PLANE = pd.DataFrame(
    [(n, d) for n in (1e7, 3e7, 1e8) for d in (2e8, 8e8, 3.2e9, 1.28e10)],
    columns=["params", "tokens"],
)
STEPS = np.log2(PLANE / PLANE.iloc[0]).to_numpy()
"""Octaves from the smallest size."""


def read_off(octaves, step=1.0):
    """Values on a grid."""
    return 2.0 ** (step * np.round(octaves / step))


def plane(**more):
    """Best rates and batch sizes that are known of a grid of factors of two."""
    rate = read_off(-8 + STEPS @ [-0.4, -0.2])
    return PLANE.assign(lr=rate, batch_size=read_off(5 + STEPS @ [0.0, 0.4]), **more)


def test_the_law_is_that_of_the_process_of_optima():
    """Means and variances of normals given the values, mixed by their likelihoods."""
    sizes, values = np.log2(TABLE[["depth"]].to_numpy()), np.log2(TABLE["weight_decay"].to_numpy())
    process = OptimumProcess(sizes, slope_sd=VALUE_SLOPE_SD, shared=VALUE_SHARED)
    target, centre, parts = np.log2([[28.0]]), np.median(values), []
    for spreads, prior in zip(process.grid, process.prior_probabilities, strict=True):
        joint = process.covariance(*[np.vstack([sizes, target])] * 2, spreads)
        measured = joint[:-1, :-1] + (spreads.scatter**2 + math.log2(1.5) ** 2 / 12) * np.eye(4)
        pull = np.linalg.solve(measured, joint[:-1, -1])
        likelihood = stats.multivariate_normal(np.full(4, centre), measured).pdf(values)
        variance = joint[-1, -1] - pull @ joint[:-1, -1]
        once = variance + spreads.scatter**2 + math.log2(1.5) ** 2 / 12
        parts.append((prior * likelihood, centre + pull @ (values - centre), variance, once))
    weights, means, variances, more = np.transpose(parts)
    best = extrap.best_values(TABLE.assign(spacing=1.5), level=0.9)
    estimate = best.at(28)["weight_decay"]
    for variance, ends in ((variances, estimate.ci), (more, estimate.pi)):
        below = stats.norm.cdf(np.log2(list(ends))[:, None], means, np.sqrt(variance))
        assert below @ (weights / weights.sum()) == pytest.approx([0.05, 0.95])
    middle = stats.norm.cdf(np.log2(estimate.value), means, np.sqrt(variances))
    assert middle @ (weights / weights.sum()) == pytest.approx(0.5)
    mean = weights @ means / weights.sum()
    variance = weights @ (variances + (means - mean) ** 2) / weights.sum()
    assert estimate.se == pytest.approx(estimate.value * math.log(2) * math.sqrt(variance))
    assert [size["depth"] for size in best.sizes] == [8, 12, 16, 20]
    assert best.laws["weight_decay"].values == (0.2, 0.09, 0.05, 0.03)


def test_each_tuned_column_has_a_law_over_all_size_columns():
    best = extrap.best_values(plane())
    rate, batch = best.laws["lr"], best.laws["batch_size"]
    assert rate.exponents["params"].value == pytest.approx(-0.4, abs=0.08)
    assert rate.exponents["tokens"].value == pytest.approx(-0.2, abs=0.05)
    assert batch.exponents["params"].value == pytest.approx(0.0, abs=0.06)
    assert batch.exponents["tokens"].value == pytest.approx(0.4, abs=0.06)
    assert rate.spacing == batch.spacing == 2
    near = best.at(params=1e8, tokens=1.28e10)
    law = -8 + STEPS[-1] @ [-0.4, -0.2]
    assert np.log2(near["lr"].value) == pytest.approx(law, abs=0.4)
    assert np.log2(near["batch_size"].value) == pytest.approx(5 + 0.4 * 6, abs=0.4)
    assert np.exp(rate.log_value) == pytest.approx(
        best.at(**2.0 ** np.log2(PLANE).mean())["lr"].value, rel=0.05
    )


def test_units_and_the_order_of_rows_and_columns_make_no_difference():
    best = extrap.best_values(plane()).at(params=1e9, tokens=1e11)["lr"]
    shuffled = plane().sample(frac=1, random_state=1)[["tokens", "lr", "params"]]
    shuffled[["params", "tokens", "lr"]] *= [1e-6, 1e-9, 1e3]
    other = extrap.best_values(shuffled).at(params=1e3, tokens=1e2)["lr"]
    assert 1e-3 * other.value == pytest.approx(best.value)
    assert 1e-3 * np.array(other.pi) == pytest.approx(np.array(best.pi))


def test_a_higher_level_and_a_farther_size_have_wider_intervals():
    def widths(level, factor):
        best = extrap.best_values(plane(), level=level)
        estimate = best.at(**best.design.times(factor))["lr"]
        assert estimate.pi.lower < estimate.ci.lower < estimate.ci.upper < estimate.pi.upper
        return estimate.ci.upper / estimate.ci.lower

    assert widths(0.8, 2) < widths(0.95, 2) < widths(0.95, 4) < widths(0.95, 16)


def test_values_that_are_known_exactly_leave_a_width():
    exact = PLANE.assign(lr=2.0 ** (-8 + STEPS @ [-0.41, -0.17]))
    best = extrap.best_values(exact)
    assert best.laws["lr"].spacing is None
    assert best.laws["lr"].exponents["params"].value == pytest.approx(-0.41, abs=0.001)
    ends = best.at(params=1e9, tokens=1e11)["lr"].ci
    assert 1.1 < ends.upper / ends.lower < 16


def test_values_on_a_line_of_a_grid_are_known_no_better_than_its_steps():
    """Four halvings over four doublings: the exponent is not −1 to the last digit."""
    exact = TABLE.assign(depth=[8, 16, 32, 64], weight_decay=[0.2, 0.1, 0.05, 0.025])
    exponent = extrap.best_values(exact, level=0.9).laws["weight_decay"].exponents["depth"]
    by_rounding = stats.norm.ppf(0.95) / math.sqrt(12) / math.sqrt(5)
    assert exponent.value == pytest.approx(-1, abs=0.03)
    assert 0.8 < (exponent.ci.upper - exponent.ci.lower) / 2 / by_rounding < 1.6


@pytest.mark.parametrize(
    ("values", "spacing"),
    [
        ([0.4, 0.1, 0.05, 0.025], 2),
        ([1e-2, 3e-3, 1e-3, 3e-4], None),
        ([1e-2, 3e-3, 1e-3, 1e-3], 3),
        ([0.1, 0.1, 0.1, 0.1], 2),
        ([0.1, 0.1, 0.05, 0.05], 2),
        ([0.2, 0.2 / 2**0.5, 0.1, 0.05], 1.414),
    ],
)
def test_the_spacing_of_values_is_what_their_ratios_have_in_common(values, spacing):
    table = TABLE.assign(depth=[8, 16, 32, 64], weight_decay=values)
    assert extrap.best_values(table).laws["weight_decay"].spacing == spacing
    stated = table.assign(spacing=[2, 2, 4, 2])
    assert extrap.best_values(stated).laws["weight_decay"].spacing == 4
    with pytest.raises(DataError, match=r"spacing is the factor between .* got 1\.$"):
        extrap.best_values(stated.assign(spacing=1))


def test_a_repeat_counts_with_the_geometric_mean_of_its_size():
    repeated = pd.concat([plane(), plane().head(3).assign(lr=2.0**-7)])
    best = extrap.best_values(repeated)
    first = plane()["lr"].iloc[0]
    assert (len(best.sizes), best.n_rows) == (12, 15)
    assert best.laws["lr"].values[0] == pytest.approx(math.sqrt(first * 2.0**-7))
    seeds = pd.concat([plane(seed=0), plane(seed=1)])
    assert extrap.best_values(seeds).at(params=1e9, tokens=1e11) == extrap.best_values(plane()).at(
        params=1e9, tokens=1e11
    )


def coverage(draw, n):
    """How often 90 % intervals of the exponents and of the law hold."""
    held = [draw(np.random.default_rng([5, number])) for number in range(n)]
    return np.mean(held, axis=0)


def test_intervals_over_one_column_hold():
    def draw(rng):
        n, slope, step = int(rng.integers(3, 8)), rng.uniform(-2, 0), rng.choice([0.01, 0.5, 1.0])
        start, scatter = rng.uniform(-9, -8), rng.uniform(0.03, 0.3)
        octaves = start + slope * np.arange(n) + scatter * rng.normal(size=n)
        table = pd.DataFrame({"width": 16 * 2.0 ** np.arange(n), "lr": read_off(octaves, step)})
        best = extrap.best_values(table.assign(spacing=2**step), level=0.9)
        truth = 2.0 ** (start + slope * (n + 1))
        law = best.laws["lr"].exponents["width"]
        return slope in law.ci, truth in best.at(64 * 2.0 ** (n - 1))["lr"].ci

    shares = coverage(draw, 300)
    assert np.all(shares > 0.87)
    assert np.all(shares < 0.98)


def test_intervals_over_two_columns_hold():
    def draw(rng):
        slopes, step = rng.uniform([-0.8, -0.5], [0.0, 0.2]), rng.choice([0.5, 1.0])
        start, scatter = rng.uniform(-9, -8), rng.uniform(0.05, 0.3)
        octaves = start + STEPS @ slopes + scatter * rng.normal(size=len(STEPS))
        best = extrap.best_values(PLANE.assign(lr=read_off(octaves, step)), level=0.9)
        exponents = best.laws["lr"].exponents.values()
        target = STEPS.max(axis=0) + rng.choice([0.0, 2.0, 4.0], size=2)
        size = dict(zip(PLANE, (PLANE.iloc[0] * 2.0**target).tolist(), strict=True))
        held = [slope in e.ci for slope, e in zip(slopes.tolist(), exponents, strict=True)]
        return *held, 2.0 ** (start + target @ slopes) in best.at(**size)["lr"].ci

    shares = coverage(draw, 200)
    assert np.all(shares > 0.85)
    assert np.all(shares < 0.99)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (TABLE.head(2), {}, "needs 3 sizes, got 2; add a row"),
        (pd.concat([TABLE.head(2)] * 2), {}, "needs 3 sizes, got 2"),
        (
            TABLE.assign(weight_decay=[0.0, 0.2, 0.1, 0.1]),
            {},
            "weight_decay must be positive and finite, got 0",
        ),
        (TABLE.assign(weight_decay=[np.inf, 0.2, 0.1, 0.1]), {}, "positive and finite, got inf"),
        (TABLE.assign(depth=[8, 8.1, 8.2, 8.3]), {}, "depth spans 1.04"),
        (pd.concat([TABLE, TABLE.assign(weight_decay=0.7)]), {}, "several values of one depth"),
        (
            pd.concat([TABLE, TABLE.iloc[1:].assign(weight_decay=0.7)]),
            {},
            "several values of one depth",
        ),
        (pd.concat([TABLE, TABLE]).assign(seed=0), {}, "several values of one depth"),
        (plane(), {"size": "params"}, "differ in tokens, which .* size="),
        (TABLE.assign(loss=1.0), {}, "the table has losses"),
        (TABLE.assign(note="x"), {}, "no column 'loss'"),
    ],
)
def test_a_table_that_is_none_of_best_values_is_refused(table, options, message):
    with pytest.raises(DataError, match=message):
        extrap.best_values(table, **options)


def test_columns_may_be_chosen():
    best = extrap.best_values(plane(), tune="batch_size")
    assert list(best.laws) == ["batch_size"]
    odd = TABLE.rename(columns={"depth": "L", "weight_decay": "how_much"})
    assert extrap.best_values(odd, size="L", tune="how_much").columns == ("L",)
    one = extrap.best_values(plane().query("tokens == 8e8"), size="params", tune="lr")
    assert one.columns == ("params",)


def test_the_document_of_one_column_and_one_value_has_the_parts_of_its_law():
    best = extrap.best_values(TABLE)
    document, law = best.to_dict(), best.laws["weight_decay"]
    assert (document["size"], document["tuned"]) == ("depth", "weight_decay")
    assert document["sizes"] == [8, 12, 16, 20]
    assert document["values"] == [0.2, 0.09, 0.05, 0.03]
    assert document["exponent"]["value"] == law.exponents["depth"].value
    assert {"level", "log_value", "scatter", "spacing", "answer", "points"} <= set(document)
    assert [point["depth"] for point in document["points"]] == [40, 80, 160]


def test_the_command_answers_prints_and_refuses_a_seal(tmp_path, capsys):
    path = tmp_path / "best.csv"
    TABLE.to_csv(path, index=False)
    assert main(["forecast", str(path), "--at", "28", "--at", "3x"]) == 0
    assert "60" in capsys.readouterr().out
    assert main(["forecast", str(path), "--at", "28", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "extrap-best-values"
    (point,) = document["points"]
    value = extrap.best_values(path).at(28)["weight_decay"].value
    assert point["weight_decay"]["value"] == pytest.approx(value)
    for refused in (["forecast", "--save", "f.json"], ["forecast", "--fix", "E=1"], ["report"]):
        assert main([refused[0], str(path), *refused[1:]]) == 2


def test_the_command_takes_several_sizes_of_two_columns(tmp_path, capsys):
    path = tmp_path / "best.csv"
    plane().to_csv(path, index=False)
    sizes = ["--at", "params=7e9,tokens=3e11", "--at", "2x"]
    assert main(["forecast", str(path), "--json", *sizes]) == 0
    first, second = json.loads(capsys.readouterr().out)["points"]
    assert (first["params"], first["tokens"]) == (7e9, 3e11)
    assert (second["params"], second["tokens"]) == (2e8, 2.56e10)
    estimates = extrap.best_values(path).at(params=7e9, tokens=3e11)
    for name in ("lr", "batch_size"):
        assert first[name]["value"] == pytest.approx(estimates[name].value)
    assert main(["forecast", str(path), "--at", "params=1e9,width=7"]) == 2


@pytest.mark.parametrize(
    ("table", "size"),
    [
        (plane().query("tokens == 8e8"), "params=1e9,tokens=2e11"),
        (plane().assign(tokens=20 * PLANE["params"]).iloc[::4], "params=1e9,tokens=2e11"),
        (plane(), "params=1e9,tokens=1e15"),
    ],
)
def test_a_refused_size_proposes_a_command_that_answers(table, size, tmp_path, capsys):
    path = tmp_path / "best.csv"
    table.to_csv(path, index=False)
    assert main(["forecast", str(path), "--at", size]) == 2
    proposed = capsys.readouterr().err.splitlines()[-1].split()
    assert proposed[:2] == ["extrap", "forecast"]
    assert main(proposed[1:]) == 0


def test_a_level_and_a_size_out_of_range_are_refused():
    with pytest.raises(ValueError, match="level"):
        extrap.best_values(TABLE, level=1.5)
    steep = TABLE.assign(weight_decay=[1e-100, 1e100, 1e20, 1e-300])
    with pytest.raises(ValueError, match="leaves the range of numbers"):
        extrap.best_values(steep).at(1e6)


def test_a_size_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="depth must be positive and finite, got 0"):
        extrap.best_values(TABLE).at(0)
