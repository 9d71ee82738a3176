from unittest.mock import ANY

import numpy as np
import pandas as pd
import pytest

from extrap.comparing.selections import selection_findings
from extrap.reporting.selection_page import selection_sections

from ..reporting.conftest import figures, tables_of

SIZES = (50, 100, 200, 400, 800)


def table(noise=0.03, n_seeds=6):
    """Two problems: hard and easy cross at 200, the active learner needs half of the labels."""
    laws = {
        "plane": lambda n: 4 * n**-0.5,
        "plane-hard-0.2": lambda n: 4 * 200**0.5 * 0.8 * n**-1.0,
        "plane-easy-0.2": lambda n: 4 * 0.8 * n**-0.5,
        "plane-hard-0.5-off": lambda n: 5 * n**-0.5,
        "plane-easy-0.5-off": lambda n: 3 * n**-0.5,
        "plane-active": lambda n: 4 * (2 * n) ** -0.5,
        "something-else": lambda n: 1.0,
    }
    rng = np.random.default_rng(0)
    common = noise * rng.standard_normal(n_seeds)
    rows = [
        (arm, "tune", n, lr, s, law(n) * (1 + 5 * (lr > 0.1)) * np.exp(common[s] + own))
        for arm, law in laws.items()
        for n in SIZES
        for lr in (0.1, 0.2)
        for s, own in enumerate(0.2 * noise * rng.standard_normal(n_seeds))
    ]
    return pd.DataFrame(rows, columns=["arm", "stage", "examples", "lr", "seed", "loss"])


def test_problems_are_told_by_the_names_of_sweeps():
    found = selection_findings(table(), n_resamples=100)
    assert {f.problem: f.ways for f in found} == {
        "plane": ("random", "hard 0.2", "easy 0.2"),
        "plane, off": ("random", "hard 0.5", "easy 0.5"),
        "plane, labels": ("random", "active"),
    }
    assert selection_findings(table().drop(columns="examples")) == ()
    frame = table()
    lost = (frame["arm"] == "plane") & (frame["examples"] == 50) & (frame["seed"] == 1)
    frame.loc[lost, "loss"] = np.nan  # at every rate
    best = {b.size: b.choice for b in selection_findings(frame, n_resamples=50)[0].best}
    assert best[50] == "easy"


def test_hard_and_easy_change_places_where_their_laws_cross():
    plane, off, labels = selection_findings(table(), n_resamples=400)
    crossing = plane.crossovers[0.2]
    assert (crossing.below, crossing.above, crossing.is_significant) == (
        "easy 0.2",
        "hard 0.2",
        True,
    )
    assert crossing.size.value == pytest.approx(200, rel=0.1)
    assert crossing.size.ci.lower < 200 < crossing.size.ci.upper < 1.3 * crossing.size.ci.lower
    best = {b.size: (b.choice, b.is_significant) for b in plane.best}
    assert best[50] == best[100] == ("easy", True)
    assert best[400] == best[800] == ("hard", True)
    assert (off.crossovers[0.5].below, {b.choice for b in off.best}) == ("", {"easy"})
    saved = labels.labels[-1].saved
    assert (labels.best, saved.value) == ((), pytest.approx(0.5, abs=0.03))
    assert saved.ci.lower == pytest.approx(0.5, abs=0.1)
    assert plane.exponents["hard 0.2"][0].exponent.value == pytest.approx(1, abs=0.1)


def test_the_page_has_a_part_for_each_problem():
    (choices,) = selection_sections(table())
    parts = {part.title: list(tables_of(part.blocks)) for part in choices.blocks[:3]}
    assert list(parts) == ["plane", "plane, off", "plane, labels"]
    best, pairs, exponents = parts["plane"]
    assert [cell.rstrip("†") for cell in best.rows[0][1:]] == ["easy", "easy", ANY, "hard", "hard"]
    assert all(cell.endswith("†") for cell in best.rows[0][1:])
    below, above, place, told, sizes = pairs.rows[0][1:]
    assert (below, above, told, sizes[-4:]) == ("easy 0.2", "hard 0.2", "yes†", "of 5")
    assert float(place.split("\n")[0]) == pytest.approx(200, rel=0.1)
    assert float(exponents.rows[1][1][:4]) == pytest.approx(1, abs=0.1)
    labels = parts["plane, labels"][0]
    assert [row[0] for row in labels.rows] == [f"{size}" for size in SIZES]
    assert figures(labels.rows[-1][2])[0] == pytest.approx(50, abs=3)


def test_edges_are_marked_and_other_tables_have_no_part():
    bracketed = pd.concat([table(), table().assign(lr=0.05, loss=9.0)])
    inner = selection_findings(bracketed, n_resamples=50)[0]
    assert (inner.crossovers[0.2].is_significant, inner.crossovers[0.2].is_edge) == (True, False)
    for few in ("plane", "seed < 2"):
        frame = table().query("arm == 'plane'" if few == "plane" else few)
        assert selection_sections(frame) == ()
