"""Figures that the documentation states, and slow benchmarks on a few replicates."""

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import (
    allocations,
    batch,
    comparisons,
    horizon_draws,
    horizons,
    nights,
    optima,
    optimum_laws,
    tuned_values,
)
from benchmarks.rows import DATA, table_path
from benchmarks.scores import with_interval
from benchmarks.surface_kinds import GROUPS, RATIOS, case
from extrap.analyses.batch_size import agreement, rate_law

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_noise_scales_are_found_and_their_intervals_hold():
    """60 replicates: a share of 90 % has a standard error of 4 points."""
    found = batch.noise_scales(60).groupby("setting", sort=False)
    assert found["covered"].mean().between(0.78, 1.0).all()
    medians = found["estimate"].median() / batch.TRUTH
    assert medians[found["big"].first() >= batch.UNBIASED_FROM].between(0.94, 1.06).all()


def test_figures_of_the_batch_studies_are_those_of_their_tables():
    """What docs/measured.md says, to the digits it says it with."""

    def short(value):
        return f"{value:.2f}".replace("0.", ".", 1).replace("-", "−")

    measured = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    agreed = agreement(pd.read_csv(ROOT / "studies" / "noise_scale.noise.csv"))
    rates = pd.read_csv(ROOT / "studies" / "batch_size.rates.csv")
    law = rate_law(rates, ["batch_size", "width"])
    joint = law.exponents["batch_size"]
    exponent = f"{short(joint.value)} ({short(joint.ci.lower)} to {short(joint.ci.upper)})"
    assert f"{short(agreed.r_squared)}; a factor of {agreed.largest_factor:.1f}" in measured
    assert f"batch^{exponent}" in measured
    assert agreed.n_pairs >= 8
    assert law.flags == ()


def test_example_of_steps_is_the_table_of_the_study():
    columns = ["width", "target", "batch_size", "steps", "budget", "status"]
    of_study = pd.read_csv(ROOT / "studies" / "batch_size.tuned.csv")[columns]
    pd.testing.assert_frame_equal(pd.read_csv(ROOT / "examples" / "steps.csv"), of_study)


@pytest.mark.slow
def test_losses_beyond_the_budgets_are_those_that_the_page_states():
    if not table_path(DATA, "porian_formll.csv").is_file():
        pytest.skip("the published tables are not there")
    found = allocations.losses_beyond(DATA)
    near = found[found["ratio"] == 4]
    assert near["profiles"].abs().mean() == pytest.approx(0.0080, abs=1e-3)
    assert near["forecast"].abs().mean() == pytest.approx(0.0088, abs=1e-3)


@pytest.mark.slow
def test_intervals_of_two_simulated_recipes_hold():
    """150 repetitions: a share of 90 % has a standard error of 2.4 points."""
    frame = pd.DataFrame(comparisons._of_design(comparisons.Design(), 150))
    for number in ("target", "mean"):
        assert 0.83 < frame[f"{number} held"].mean() < 0.97
    assert (frame["p none"] <= 0.05).mean() < 0.1
    assert (frame["p shift of 2 %"] <= 0.05).mean() > 0.9
    assert frame["verdict"].isin(["undecided", "no difference"]).mean() > 0.9


def test_shared_noise_of_a_design_keeps_the_scatter_of_a_difference():
    for share in (0.0, 0.7):
        run, _, _, arm = replace(comparisons.DESIGNS[0], share=share).noise
        assert run**2 + arm**2 == pytest.approx(13e-6)
        assert arm**2 == pytest.approx(share * 13e-6)


MODULES = sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported(name):
    """Most run for minutes and in no test: what they import may have moved."""
    assert importlib.import_module(f"benchmarks.{name}").__doc__


def test_refused_answers_cost_what_the_largest_sizes_value_costs():
    drawn = case("straight", np.random.default_rng([3, 1]))
    refused = tuned_values.scored(drawn, 1, {})
    assert refused["cost"] == refused["kept"] == drawn.cost(1, drawn.kept)
    truth = drawn.best[1]
    ends = [np.array([truth[0] + 0.5, truth[0] + 1.5])]
    missed = tuned_values.scored(
        drawn, 1, {"values": truth, "ends": ends, "predicted": 0.0, "chance": 0.0}
    )
    # Gneiting and Raftery 2007, Eq. 43: the width, and 2 / .1 times what lies outside
    assert missed["score"] == pytest.approx(1.0 + 20 * 0.5)
    assert missed["cost"] == pytest.approx(0.0, abs=1e-12)
    assert missed["held"] == 0.0


def test_polynomial_of_a_cell_finds_the_minimum_of_a_quadratic():
    rates, batches = np.meshgrid(np.arange(-11.0, -6.0, 0.5), np.arange(16.0, 21.0, 0.5))
    u, v = rates.ravel() + 8.7, batches.ravel() - 18.2
    log_loss = 0.8 + 0.004 * u**2 + 0.003 * v**2 - 0.002 * u * v
    columns = {"lr": 2.0 ** rates.ravel(), "batch_size_tokens": 2.0 ** batches.ravel()}
    cell = pd.DataFrame({**columns, "loss": np.exp(log_loss)})
    surface = optima.fit_cell(cell, 2, 0.1, np.inf)
    assert surface.minimum == pytest.approx([-8.7, 18.2], abs=0.01)  # a step of its grid
    assert surface.excess(np.array([-7.7, 18.2])) == pytest.approx(0.004, abs=1e-5)
    edge = surface.start[0] + surface.highest[0]  # of its grid: beyond it nothing is known
    assert surface.excess(np.array([-3.0, 18.2])) == pytest.approx(
        0.004 * (edge + 8.7) ** 2, abs=1e-5
    )
    assert surface.excess(surface.minimum) == 0


KINDS = [kind for group in GROUPS.values() for kind in group if "tpe" not in kind]


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_is_better_than_the_best_of_a_simulated_sweep(kind):
    drawn = case(kind, np.random.default_rng([3, 1]))
    again = case(kind, np.random.default_rng([3, 1]))
    pd.testing.assert_frame_equal(drawn.table, again.table)
    assert (drawn.table["loss"] > 0).all()
    assert len(drawn.targets) == len(drawn.best) == len(drawn.loss) == len(RATIOS)
    for i, best in enumerate(drawn.best):
        others = [drawn.excess(i, best + off) for off in (-1.0, -0.3, 0.3, 1.0)]
        if drawn.chance(i, best) == 0:
            assert drawn.excess(i, best) == pytest.approx(0, abs=1e-9)
            assert min(others) > 0
        assert drawn.cost(i, best) <= 1


def test_interval_of_a_ratio_of_means_draws_groups_together():
    pairs = np.array([[1.0, 2.0], [3.0, 2.0], [1.0, 2.0], [3.0, 2.0]])

    def ratio(means):
        return means[0] / means[1]

    assert with_interval(pairs, ratio, ["a", "a", "b", "b"]) == (1.0, 1.0, 1.0)
    figure, low, high = with_interval(pairs, ratio)
    assert (figure, low, high) == (1.0, 0.5, 1.5)  # all four drawn alike: 1 of 8, above 2.5 %


def test_parabola_of_one_cell_is_that_of_three_points_and_none_at_an_edge():
    rates = 2.0 ** np.array([-6.0, -9.0, -7.0, -8.0])
    excess = 0.01 * (np.log2(rates) + 7.3) ** 2
    runs = pd.DataFrame({"lr": rates, "loss": 3 * np.exp(excess)})
    parabola = horizon_draws.parabola_of(runs)
    assert parabola.minimum == pytest.approx([-7.3])
    assert parabola.excess(np.array([-5.3])) == pytest.approx(0.04)
    edge = runs[runs["lr"] < 2.0**-7.5]
    assert horizon_draws.parabola_of(edge) is None
    assert horizon_draws.best_rate(edge) == -8


def test_oracle_of_a_drawn_sweep_holds_nine_of_ten_optima():
    """1,000 sweeps of 3 targets, alike within a sweep: a standard error of 1 point at most."""
    held = []
    for number in range(1000):
        family = horizon_draws.grid_family(np.random.default_rng([7, number]))
        means, sds = horizon_draws.oracle(family)
        truth = family.optimum[family.n_cells :]
        held.append(np.abs(means - truth) <= horizon_draws.NORMAL_QUANTILE * sds)
    assert 0.87 < np.mean(held) < 0.93


def test_optimum_of_a_drawn_cell_has_no_cost_and_others_do():
    family = horizon_draws.grid_family(np.random.default_rng([7, 0]))
    assert family.n_cells == 12
    assert len(family.table) == 60
    assert len(family.optimum) == 12 + len(horizon_draws.TARGETS)
    longest = family.sizes[:12].max(axis=0)
    assert (family.sizes[12:] - longest).tolist() == [[0, 2], [0, 4], [2, 0]]
    for i, best in enumerate(family.optimum):
        assert family.excess(i, best) == pytest.approx(0, abs=1e-12)
        assert min(family.excess(i, best - 0.5), family.excess(i, best + 0.5)) > 0


def test_horizons_that_were_never_varied_get_no_number():
    answers = horizon_draws.ask_beyond_one_horizon(np.random.default_rng([7, 0]))
    assert [(row["tied"], row["named"]) for row in answers] == [
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    ]
    assert not any(row["loss"] or row["values"] for row in answers)


def test_longer_cells_are_forecast_from_shorter_ones_of_the_same_parameters():
    cells = [(p, t) for p in (1.0, 2.0, 4.0) for t in (8.0, 16.0, 32.0)] + [(8.0, 64.0)]
    table = pd.DataFrame(cells, columns=["params", "tokens"])
    source = horizons.Source(table, ("lr",), {}, {})
    cuts = list(horizons.origins(source, "tokens"))
    assert [cut for cut, _, _ in cuts] == [16.0]  # three cells up to 8 are too few
    _, below, above = cuts[0]
    assert below.sum() == 6
    assert table[above].to_numpy().tolist() == [[1.0, 32.0], [2.0, 32.0], [4.0, 32.0]]
    for _, below, above in horizons.origins(source, "both"):
        assert (below ^ above).all()
        assert below.sum() >= 5


def test_scores_over_those_of_the_same_version_are_one():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"truth": rng.normal(size=20), "mid": rng.normal(size=20)})
    table = table.assign(part="a", tuned="lr", origin=1, cell=[*"abcdefghij"] * 2)
    table = table.assign(target=range(20), regret=0.1)
    table = table.assign(low=table["mid"] - 1, high=table["mid"] + 1)
    (row,) = horizons.paired_rows(table, table)
    assert row.reached.count("1 (1 to 1)") == 3
    wider = table.assign(low=table["mid"] - 2, high=table["mid"] + 2, regret=0.2)
    (row,) = horizons.paired_rows(table, wider)
    assert "regret 0.5 (0.5 to 0.5)" in row.reached


@pytest.mark.parametrize("name", optimum_laws.SPREADS)
def test_probabilities_of_spreads_stay_probabilities_when_shifted(name):
    shifted = optimum_laws.tilted(name, optimum_laws.TILT)
    assert sum(probability for _, probability in shifted) == pytest.approx(1.0)
    before = getattr(optimum_laws.optimum_process, name)
    assert [sd for sd, _ in shifted] == [sd for sd, _ in before]
    assert shifted[-1][1] > before[-1][1]


@pytest.mark.slow
def test_calls_of_simulated_nights_are_true_and_large_gains_are_called():
    """60 nights: about 480 calls and 200 gains from .9 % on."""
    frame = nights.nights("", nights.Setting(noise=0.002), 60)
    shares = frame["false"] / frame["called"].clip(lower=1)
    assert shares.mean() <= 0.05
    assert frame["large called"].sum() >= 0.9 * frame["large"].sum()
    assert 0.95 < frame["gain called"].sum() / frame["true gain"].sum() < 1.1
    silent = nights.nights("", nights.Setting(noise=0.002, has_repeats=False), 10)
    assert silent["candidates"].sum() == silent["called"].sum() == 0
