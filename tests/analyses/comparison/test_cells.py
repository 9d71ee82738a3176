"""The next runs of recipes as a table."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from extrap.analyses.comparison.cells import comparison_cells
from extrap.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"


def sweep(scale, seeds=(0,)):
    """Losses over width and lr, the best rate falling with width."""
    rates = 0.01 * 2.0 ** np.arange(-4, 3)
    grid = [(w, lr, s) for w in (16, 32, 64) for lr in rates for s in seeds]
    table = pd.DataFrame(grid, columns=["width", "lr", "seed"])
    off = np.log2(table.lr / (0.02 * (table.width / 16) ** -1.0))
    return table.assign(loss=(2 + scale * table.width**-0.4) * (1 + 0.01 * off**2))


def test_the_command_writes_rows_of_both_recipes(tmp_path, capsys):
    cells = tmp_path / "next.csv"
    tables = [str(EXAMPLES / f"gate_{name}.csv") for name in ("base", "variant")]
    options = ["--names", "base,variant", "--at", "1e23", "--next", str(cells)]
    assert main(["compare", *tables, *options]) == 0
    with cells.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["recipe", "flops", "seed"]
    n = len(rows) // 2
    assert [row["recipe"] for row in rows].count("variant") == n > 0
    assert {float(row["flops"]) > 3e19 for row in rows} == {True}
    assert f"wrote {cells}: {2 * n} runs" in capsys.readouterr().out


def test_each_recipe_is_run_at_values_forecast_for_it_and_new_seeds():
    arms = {"base": extrap.read_runs(sweep(1.0)), "variant": extrap.read_runs(sweep(0.999))}
    comparison = extrap.compare(arms, at=1024)
    proposal = comparison.contrasts[0].next_runs
    cells = comparison_cells(comparison, arms)
    assert list(cells) == ["recipe", "width", "lr", "seed"]
    assert len(cells) == 2 * proposal.n_seeds
    for name, runs in arms.items():
        size = {"width": proposal.size["width"]}
        expected = extrap.forecast(runs).at(**size).recommended["lr"]
        assert set(cells.lr[cells.recipe == name]) == {expected}
    taken = {0} if proposal.size["width"] in (16, 32, 64) else set()
    assert not taken & set(cells.seed)
    assert cells.seed.nunique() == proposal.n_seeds


def test_seeds_that_a_recipe_has_are_not_proposed_again():
    table = pd.DataFrame({"width": 64, "seed": [0, 2], "loss": [3.0, 3.004]})
    arms = {"base": table, "variant": table.assign(loss=table.loss - [0.001, 0.004])}
    runs = {n: extrap.read_runs(t, size=["width"], tune=[], seed="seed") for n, t in arms.items()}
    cells = comparison_cells(extrap.compare(runs), runs)
    assert set(cells.width) == {64}
    assert cells.seed.min() == 1
    assert 2 not in set(cells.seed)


def test_a_decided_comparison_has_no_next_runs():
    arms = {"base": sweep(1.0, (0, 1)), "variant": sweep(0.7, (0, 1))}
    runs = {name: extrap.read_runs(table) for name, table in arms.items()}
    cells = comparison_cells(extrap.compare(runs, at=128), runs)
    assert cells.empty
    assert list(cells) == ["recipe", "width", "seed"]


def of_sizes(gain, sizes, seeds=(0,)):
    rows = [
        (*size, seed, 3 * (size[0] / 64) ** -0.1 * (1 - gain)) for size in sizes for seed in seeds
    ]
    noise = 1 + 0.0005 * np.random.default_rng(1 + int(1e4 * gain)).normal(size=len(rows))
    table = pd.DataFrame(rows, columns=["params", "tokens", "seed", "loss"])
    return table.assign(loss=table.loss * noise)


def test_sizes_of_next_runs_are_those_of_the_tables():
    sizes = [(1e7, 2e8), (2e7, 4e8)]
    arms = {
        name: extrap.read_runs(of_sizes(gain, sizes), size=["params", "tokens"], tune=())
        for name, gain in (("base", 0.0), ("variant", 0.01))
    }
    comparison = extrap.compare(arms, at={"params": 1e9, "tokens": 2e10})
    cells = comparison_cells(comparison, arms)
    assert len(cells)
    assert (cells.params % 1e7 == 0).all()
    assert (cells.tokens == 20 * cells.params).all()


def test_no_rows_are_written_for_a_size_that_no_column_names(tmp_path, capsys):
    paths = [tmp_path / "base.csv", tmp_path / "variant.csv"]
    for path, gain in zip(paths, (0.0, 0.01), strict=True):
        of_sizes(gain, [(1e7, 2e8)], (0, 1, 2))[["seed", "loss"]].to_csv(path, index=False)
    options = ["--gate", "--next", str(tmp_path / "next.csv")]
    assert main(["compare", *map(str, paths), *options]) == 4
    assert "in a column of the tables" in capsys.readouterr().out
    assert (tmp_path / "next.csv").read_text().split() == ["recipe,seed"]


def test_a_target_over_further_columns_says_how_to_name_them(tmp_path, capsys):
    paths = [tmp_path / "base.csv", tmp_path / "variant.csv"]
    for path, gain in zip(paths, (0.0, 0.01), strict=True):
        of_sizes(gain, [(1e7, 2e8), (2e7, 4e8)]).to_csv(path, index=False)
    options = ["--at", "params=1e9,tokens=2e10"]
    assert main(["compare", *map(str, paths), *options]) == 2
    assert "--size params --size tokens" in capsys.readouterr().err
