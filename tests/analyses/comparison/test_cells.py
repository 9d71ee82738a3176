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


def test_a_second_size_that_no_column_names_has_no_rows(tmp_path, capsys):
    for name, loss in (("base", 3.0), ("variant", 2.98)):
        table = pd.DataFrame({"val_loss": [loss, loss + 0.001, loss - 0.001]})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = [str(tmp_path / f"{name}.csv") for name in ("base", "variant")]
    assert main(["compare", *tables, "--next", str(tmp_path / "next.csv")]) == 0
    assert "better here" in capsys.readouterr().out
    assert (tmp_path / "next.csv").read_text() == "recipe,seed\n"
