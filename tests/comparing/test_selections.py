from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from extrap.comparing.selections import selection_findings
from extrap.reporting.selection import selection_sections, selection_text

SIZES = (50, 100, 200, 400, 800)


def table(noise: float = 0.03, n_seeds: int = 6) -> pd.DataFrame:
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


def test_problems_are_told_by_the_names_of_sweeps() -> None:
    found = selection_findings(table(), n_resamples=100)
    assert [f.problem for f in found] == ["plane", "plane, off", "plane, labels"]
    assert [f.ways for f in found] == [
        ("random", "hard 0.2", "easy 0.2"),
        ("random", "hard 0.5", "easy 0.5"),
        ("random", "active"),
    ]
    assert selection_findings(table().drop(columns="examples")) == ()
    assert selection_findings(table()[lambda t: t["arm"] == "plane"]) == ()


def test_hard_and_easy_change_places_where_their_laws_cross() -> None:
    plane, off, labels = selection_findings(table(), n_resamples=400)
    crossing = plane.crossovers[0.2]
    assert (crossing.below, crossing.above, crossing.is_told) == ("easy 0.2", "hard 0.2", True)
    assert crossing.size.value == pytest.approx(200, rel=0.1)
    lower, upper = crossing.size.ci
    assert lower is not None
    assert upper is not None
    assert lower < 200 < upper < 1.3 * lower
    best = {b.size: (b.choice, b.is_told) for b in plane.best}
    assert best[50] == best[100] == ("easy", True)
    assert best[400] == best[800] == ("hard", True)
    assert off.crossovers[0.5].below == ""
    assert {b.choice for b in off.best} == {"easy"}
    assert labels.best == ()
    saved = labels.labels[-1]
    assert saved.saved.value == pytest.approx(0.5, abs=0.03)
    assert saved.saved.ci.lower == pytest.approx(0.5, abs=0.1)
    assert plane.exponents["hard 0.2"][0].exponent.value == pytest.approx(1, abs=0.1)


def test_the_page_has_a_section_a_problem() -> None:
    sections = selection_sections(table())
    assert [s.key for s in sections] == ["selection0", "selection1", "selection2"]
    assert [len(s.panels) for s in sections] == [1, 1, 0]
    assert sections[0].title == "Hard or easy examples: plane"
    assert sections[2].title == "Labels saved: plane, labels"
    assert all(s.plates[0].svg.startswith("<svg") for s in sections)
    assert "easy examples win below" in sections[0].words[0]
    assert "beyond seed noise on both sides" in sections[0].words[0]
    assert sections[0].words[0].endswith("; a best rate it rests on lies at the edge of its grid.")
    assert sections[0].panels[0].tables[0].rows[0][1].endswith("†")
    assert all(b.is_edge for b in selection_findings(table(), n_resamples=50)[0].best)
    bracketed = pd.concat([table(), table().assign(lr=0.05, loss=9.0)])
    plane = selection_sections(bracketed)[0]
    assert plane.words[0].endswith("beyond seed noise on both sides.")
    assert "†" not in str(plane.panels[0].tables[0].rows)
    assert sections[2].words[-1].startswith("For the loss of 800 random labels the active learner")
    assert selection_sections(table()[lambda t: t["arm"] == "plane"]) == ()
    assert selection_sections(table()[lambda t: t["seed"] < 2]) == ()


def test_text_says_who_wins() -> None:
    text = selection_text(selection_findings(table(), n_resamples=100))
    assert "hard 0.5 against random: better at 0, worse at 5 of 5 sizes" in text
    assert "easy 0.5 against random: better at 5, worse at 0 of 5 sizes" in text
    assert "it saves 50 % (" in text


def test_several_changes_of_places_are_all_named() -> None:
    frame = table(noise=0.0)
    factors = {50: 0.9, 100: 1.2, 200: 1.2, 400: 1.2, 800: 0.9}
    easy = frame[frame["arm"] == "plane-easy-0.2"].set_index(["examples", "lr", "seed"])["loss"]
    is_hard = frame["arm"] == "plane-hard-0.2"
    keys = pd.MultiIndex.from_frame(frame.loc[is_hard, ["examples", "lr", "seed"]])
    own = easy.loc[keys].to_numpy() * frame.loc[is_hard, "examples"].map(factors).to_numpy()
    frame.loc[is_hard, "loss"] = own
    plane = selection_findings(frame, n_resamples=50)[0]
    words = selection_text([plane])
    assert (
        "easy and hard examples change places 2 times, at 64 and last at 621 (621 to 621)" in words
    )
    assert len(plane.crossovers[0.2].earlier) == 1


def test_a_choice_that_lost_runs_at_every_rate_is_not_the_best() -> None:
    frame = table()
    lost = (frame["arm"] == "plane") & (frame["examples"] == 50) & (frame["seed"] == 1)
    frame.loc[lost, "loss"] = np.nan
    best = {b.size: b.choice for b in selection_findings(frame, n_resamples=50)[0].best}
    assert best[50] == "easy"
