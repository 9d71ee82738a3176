"""Recipes at one size: what is better there, how large the noise is, and what comes next."""

import json

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.cli import main
from extrap.errors import DataError
from extrap.fitting.gain import Pairs, fit_gain


def runs(losses, **columns):
    return pd.DataFrame({"seed": range(len(losses)), "loss": losses, **columns})


BASE, BETTER = [3.0, 3.003, 2.997], [2.97, 2.974, 2.966]
SAME = [3.001, 2.998, 3.002]


@pytest.mark.parametrize(
    ("treated", "verdict"),
    [(BETTER, "better here"), ([3.1, 3.11, 3.09], "worse here"), (SAME, "undecided")],
)
@pytest.mark.parametrize("size", [{}, {"width": 512}])
def test_one_size_says_nothing_of_others(treated, verdict, size):
    found = extrap.compare({"base": runs(BASE, **size), "variant": runs(treated, **size)})
    (contrast,) = found.contrasts
    assert (found.verdict, contrast.at_target) == (verdict, None)
    assert contrast.by_size[0].size == found.target == size
    spread = np.concatenate([np.log(x) - np.log(x).mean() for x in (BASE, treated)])
    assert contrast.noise == pytest.approx(np.sqrt((spread**2).sum() / 4), rel=0.1)
    gain = 1 - np.exp(np.log(treated).mean() - np.log(BASE).mean())
    assert found.gain == pytest.approx(gain, abs=1e-5)
    assert tuple(found.interval) == tuple(contrast.by_size[0].gain)
    assert found.candidates == (() if verdict == "worse here" else ("variant",))
    assert "nothing is known of larger sizes" in str(found)


def test_one_seed_has_the_interval_of_the_assumed_scatter():
    (contrast,) = extrap.compare(
        {"base": runs([3.0], width=512), "variant": runs([2.99], width=512)}, level=0.9
    ).contrasts
    pairs = Pairs(columns=["width"], sizes=[[512]], gains=[np.log(3 / 2.99)], n_pairs=[1])
    low, high = fit_gain(pairs).predict({"width": 512}).interval(0.9)
    assert tuple(contrast.by_size[0].gain) == pytest.approx((-np.expm1(-low), -np.expm1(-high)))
    assert contrast.by_size[0].is_by_law
    assert (contrast.next_runs.n_seeds, contrast.next_runs.size) == (3, {"width": 512.0})


def test_what_is_better_here_needs_a_second_size():
    arms = {"base": runs(BASE, width=512), "variant": runs(BETTER, width=512)}
    (here,) = extrap.compare(arms).next_runs
    assert (here.size, here.recipes) == ({"width": 1024.0}, ("base", "variant"))
    ahead = extrap.compare(arms, at=2048)
    assert ahead.verdict == "undecided"
    assert 512 < ahead.next_runs[0].size["width"] <= 2048
    assert "second size" in ahead.next_runs[0].why


def test_a_second_size_has_as_many_seeds_as_the_first_up_to_three():
    for n, expected in ((2, 2), (3, 3), (5, 3)):
        base = [3.0 + 0.003 * (i % 2) for i in range(n)]
        arms = {"base": base, "variant": [loss - 0.03 for loss in base]}
        compared = extrap.compare({k: runs(v, width=512) for k, v in arms.items()})
        assert (compared.verdict, compared.next_runs[0].n_seeds) == ("better here", expected)


def test_the_page_of_one_size_has_a_row_for_each_recipe_and_asks_of_this_size(tmp_path):
    for name, losses in (("base", BASE), ("variant", BETTER)):
        runs(losses, width=512).to_csv(tmp_path / f"{name}.csv", index=False)
    tables, page = [str(tmp_path / f"{n}.csv") for n in ("base", "variant")], tmp_path / "p.html"
    assert main(["compare", *tables, "-o", str(page)]) == 0
    text = page.read_text()
    assert "Is the change better at this size?" in text
    assert "Difference from the plain recipe" in text
    assert "against width" not in text


def test_more_seeds_are_proposed_until_they_decide():
    """Three pairs of a gain of .1 % that scatter by .06 %, and as many fresh ones as proposed."""
    rng, gains = np.random.default_rng(3), np.array([0.0004, 0.0010, 0.0016])

    def compared(gains):
        base = 3 * np.exp(0.001 * np.sin(np.arange(len(gains))))
        variant = base * np.exp(-gains)
        return extrap.compare({"base": runs(base, width=512), "variant": runs(variant, width=512)})

    (proposed,) = compared(gains).next_runs
    decided, spread = [], gains.std(ddof=1)
    for _ in range(100):
        mean = gains.mean() + spread / np.sqrt(3) * rng.standard_t(2)
        fresh = mean + spread * rng.normal(size=proposed.n_seeds)
        decided.append(compared(np.concatenate([gains, fresh])).verdict != "undecided")
    assert proposed.chance >= 0.5
    assert np.mean(decided) == pytest.approx(proposed.chance, abs=0.2)


def test_a_rate_is_tuned_without_a_size():
    rates = np.array([0.001, 0.002, 0.004, 0.008])
    loss = 3 + 0.02 * np.log2(rates / 0.002) ** 2
    rows = [
        pd.DataFrame({"recipe": name, "seed": seed, "lr": times * rates, "loss": loss * factor})
        for name, times, factor in (("base", 1, 1.0), ("variant", 2, 0.98))
        for seed in (0, 1)
    ]
    found = extrap.compare(pd.concat(rows), by="recipe")
    assert found.gain == pytest.approx(0.02, abs=1e-3)


def test_exit_codes_of_one_size(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, losses in (("base", BASE), ("better", BETTER), ("worse", [3.1, 3.11, 3.09])):
        runs(losses, width=512).to_csv(f"{name}.csv", index=False)
    words = ["compare", "base.csv", "better.csv", "--gate"]
    assert [main([*words, *more]) for more in ([], ["--at", "512"], ["--at", "1024"])] == [4, 0, 4]
    assert main(["compare", "base.csv", "worse.csv", "--gate", "--at", "512"]) == 1
    capsys.readouterr()
    main([*words, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["verdict"] == "better here"
    assert printed["candidates"] == ["better"]
    assert set(printed["next_runs"][0]) >= {"recipes", "size", "n_seeds", "cost", "why"}
    assert printed["interval"][0] < printed["gain"] < printed["interval"][1]


def test_a_target_needs_a_size_column():
    with pytest.raises(DataError, match="needs a size column"):
        extrap.compare({"base": runs(BASE), "variant": runs(BETTER)}, at=512)


def test_a_column_that_could_be_a_size_is_asked_for():
    table = pd.DataFrame({"knob": [1.0, 2.0, 4.0], "loss": [3.0, 2.9, 2.8]})
    with pytest.raises(DataError, match="could be the size"):
        extrap.compare({"base": table, "variant": table})
