import itertools
import math

import numpy as np
import pandas as pd
import pytest

from extrap.comparing import SparseArm, sparse_sweep
from extrap.reading import read_runs
from extrap.records import Recipe, Workload
from extrap.reporting.blocks import Figure
from extrap.reporting.charts import marks
from extrap.reporting.comparisons_page import comparison_page
from extrap.reporting.study_page import About
from extrap.sparsity_sections import sparse_accounts, sparsity_sections
from extrap.training import sparse_costs
from extrap.workloads import load_workload

from .reporting.conftest import figures, tables_of
from .reporting.hostile import EVIL, PAYLOADS, inspected, poisoned
from .reporting.recipes import BROKEN, STUDY

WIDTHS, DENSITIES = (16, 32, 64, 128), {"dense": 1.0, "half": 0.5, "fifth": 0.2, "tenth": 0.1}
A_S, B_S, B_N = 0.4, 0.6, 0.3
SPARSE = {"activation_density": 0.2, "sparsify": 0.25, "mask_every": 10}


@pytest.fixture(scope="module")
def table():
    """Sweeps of the byte MLP at four densities, their losses by a known law."""
    rng, rows = np.random.default_rng(0), []
    workload = load_workload(Workload(name="bytes-mlp"))
    for (arm, density), width in itertools.product(DENSITIES.items(), WIDTHS):
        recipe = Recipe(density=density, **(SPARSE if density < 1 else {}))
        costs = sparse_costs(workload, {"width": width}, recipe)
        best = 1.4 + 0.5 * (1 + A_S * density**B_S) * (costs.n_kept / 1e4) ** -B_N
        for seed, step in itertools.product((0, 1), range(-3, 4)):
            loss = best * math.exp(0.01 * step**2 + 0.001 * rng.normal())
            own = {"density": density, **SPARSE} if density < 1 else {}
            row = {"arm": arm, "width": width, "lr": 2.0 ** (-8 + step / 2), "seed": seed}
            rows.append({**row, "loss": loss, "n_params": costs.n_params, **own})
    made = {"stage": "tune", "status": "complete", "workload": "bytes-mlp"}
    return pd.DataFrame(rows).assign(**made, batch_size=128, steps=1000)


def test_a_run_table_tells_the_law_and_the_accounts(table):
    found = sparse_accounts(table)
    assert len(found.sweep.points) == len(WIDTHS) * len(DENSITIES)
    law = found.sweep.law
    truth = ((A_S * 0.1**B_S + 1) / (A_S + 1)) ** (-1 / B_N)
    low, high = law.worth[0.1].ci
    assert low < truth < high
    assert law.worth[0.1].value == pytest.approx(truth, rel=0.1)
    assert found.costs["tenth", 128.0].flops_saved > 0.7
    assert found.costs["dense", 128.0].flops_saved == 0


def test_the_part_has_what_a_sparse_model_is_worth(table):
    (part,) = sparsity_sections(table)
    law, points, counts = tables_of(part.blocks)
    assert figures(law.rows[2][1])[0] == pytest.approx(B_N, rel=0.1)
    assert len(points.rows) == len(WIDTHS) * len(DENSITIES)
    assert len(counts.rows) == 2 * 3  # smallest and largest width, sparse recipes
    costs = sparse_accounts(table).costs["tenth", 128.0]
    row = {row[0]: figures(*row[1:]) for row in counts.rows}["tenth, 128"]
    assert row[0] == pytest.approx(-100 * costs.flops_saved, abs=0.5)
    assert row[4] == pytest.approx(100 * costs.selected / costs.flops, abs=0.5)
    (chart,) = (block.chart for block in part.blocks if isinstance(block, Figure))
    drawn = {x: y for each in chart.series if each.marker for x, y, _ in marks(each)}
    assert drawn == {p.kept: p.loss for p in sparse_accounts(table).sweep.points}


def test_other_tables_have_no_section_and_hostile_names_act_on_nothing(table, tmp_path):
    assert sparsity_sections(table.drop(columns="density")) == []
    assert sparsity_sections(table[table["arm"].isin(["dense", "half"])]) == []
    sections = sparsity_sections(poisoned(table, {"tenth": EVIL, "half": EVIL + " "}))
    about = About(STUDY.name, STUDY.question, {})
    page = comparison_page(STUDY, (BROKEN,), about, tmp_path / "a.html", sections=sections)
    words = " ".join(inspected(page.read_text(encoding="utf-8")).words)
    assert all(payload in words for payload in PAYLOADS.values())


def test_without_a_law_the_points_and_the_reason_are_left(table):
    params = {key: {(float(w),): 1000.0 * w for w in WIDTHS} for key in ("params", "kept")}
    arms = []
    for name in ("dense", "half"):
        own = table[table["arm"] == name].dropna(axis="columns", how="all").drop(columns="arm")
        runs = read_runs(own, size="width", tune="lr")
        arms.append(SparseArm(name=name, density=DENSITIES[name], runs=runs, **params))
    found = sparse_sweep(arms)
    assert (found.law, "3 densities or more" in found.problem) == (None, True)
    assert [p.density for p in found.points] == [1.0] * 4 + [0.5] * 4
