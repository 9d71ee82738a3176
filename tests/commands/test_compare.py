"""`extrap compare` as scripts see it."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from extrap.cli import main


def table(scale: float, luck: int) -> pd.DataFrame:
    rng = np.random.default_rng(luck)
    rows = [
        (width, seed, (1.5 + scale * width**-0.4) * np.exp(0.002 * rng.normal()), width**2)
        for width in (16, 32, 64, 128, 256, 512)
        for seed in range(3)
    ]
    return pd.DataFrame(rows, columns=["width", "seed", "loss", "flops"])


@pytest.fixture
def files(tmp_path):
    paths = []
    for name, scale, luck in (("dense", 6.0, 0), ("sparse", 5.0, 1), ("again", 6.0, 2)):
        paths.append(str(tmp_path / f"{name}.csv"))
        table(scale, luck).to_csv(paths[-1], index=False)
    return paths


@pytest.fixture
def run(capsys):
    def run(*options):
        code = main(["compare", *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_json_has_the_promised_keys(run, files) -> None:
    code, out, err = run(*files[:2], "--size", "width", "--at", "1024", "--price", "2.5", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["kind"] == "extrap-comparison"
    assert document["plain"] == "dense"
    assert document["target"] == {"width": 1024.0}
    assert document["level"] == 0.95
    (contrast,) = document["contrasts"]
    assert contrast["treated"] == "sparse"
    assert contrast["verdict"] == "shift"
    assert set(contrast) == {
        "treated",
        "verdict",
        "p_value",
        "p_adjusted",
        "by_size",
        "mean_difference",
        "at_target",
        "exponents",
        "exponent_difference",
        "effective_compute",
        "crossover",
        "flags",
    }
    assert set(contrast["exponents"]) == {"dense", "sparse"}
    assert len(contrast["exponent_difference"]["ci"]) == 2
    assert [cost["arm"] for cost in document["costs"]] == ["dense", "sparse"]


def test_text_says_verdict_worth_and_costs(run, files) -> None:
    options = ("--size", "width", "--names", "plain,b,c", "--flops-per-second", "1e3")
    code, out, err = run(*files, *options, "--price", "2")
    assert (code, err) == (0, "")
    assert "b against plain: SHIFT" in out
    assert "c against plain: NO DIFFERENCE TOLD, that is no proof of none" in out
    assert "left open: a mean difference over the sizes from −" in out
    assert "effective compute at width 512: ×" in out
    assert "GPU-hours" in out
    assert "at the given price" in out


def test_a_column_may_name_the_recipe(run, monkeypatch) -> None:
    both = pd.concat([table(5.0, 1).assign(recipe="moe"), table(6.0, 0).assign(recipe="dense")])
    monkeypatch.setattr("sys.stdin", io.StringIO(both.to_csv(index=False)))
    code, out, err = run("-", "--size", "width", "--by", "recipe", "--plain", "dense", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["plain"] == "dense"
    assert document["contrasts"][0]["verdict"] == "shift"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--size", "width", "--names", "a"), "one name a table"),
        (("--size", "width", "--names", "a,a"), "'a' is there twice"),
        (("--size", "width", "--plain", "moe"), "names one of the recipes"),
        (("--size", "width", "--by", "recipe"), "splits a single table"),
        (("--size", "depth"), "depth"),
        (("--size", "width", "--at", "many"), "needs numbers"),
    ],
)
def test_wrong_options_are_one_line(run, files, options, words) -> None:
    code, out, err = run(*files[:2], *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_one_table_needs_a_column_of_recipes(run, files) -> None:
    code, _, err = run(files[0], "--size", "width")
    assert code == 2
    assert "--by recipe" in err


def test_an_empty_cell_names_no_recipe(run, tmp_path) -> None:
    both = pd.concat([table(5.0, 1).assign(arm="moe"), table(6.0, 0).assign(arm="dense")])
    both.iloc[3, both.columns.get_loc("arm")] = None
    path = str(tmp_path / "both.csv")
    both.to_csv(path, index=False)
    code, out, err = run(path, "--size", "width", "--by", "arm")
    assert (code, out) == (2, "")
    assert "row(s) 4 of" in err


def test_runs_that_differ_in_what_is_not_named_are_refused(run, tmp_path) -> None:
    paths = []
    for name, luck in (("dense", 0), ("moe", 1)):
        frame = table(6.0, luck)
        tried = [
            frame.assign(lr=rate, loss=frame["loss"] * by) for rate, by in ((0.1, 1), (0.2, 1.1))
        ]
        paths.append(str(tmp_path / f"{name}.csv"))
        pd.concat(tried).to_csv(paths[-1], index=False)
    code, out, err = run(*paths, "--size", "width")
    assert (code, out) == (2, "")
    assert "differ in lr; name it with --tune" in err
    assert run(*paths, "--size", "width", "--tune", "lr")[0] == 0


def test_single_seeds_hours_by_the_clock_and_crossings_are_said(run, tmp_path) -> None:
    paths = []
    for name, luck in (("dense", 0), ("moe", 1)):
        frame = table(6.0 - luck, luck).assign(wall_s=60.0)
        paths.append(str(tmp_path / f"{name}.csv"))
        frame[frame["seed"] == 0].to_csv(paths[-1], index=False)
    code, out, _ = run(*paths, "--size", "width")
    assert code == 0
    assert out.count("one seed: no interval") == 6
    assert "hours (wall-clock of the runs)" in out
    assert "GPU-hours" not in out
    assert "no crossing is told" in out
