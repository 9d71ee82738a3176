"""What the columns of a table are taken for where nobody says, and that each offer settles it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.rows import DATA, table_path
from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.reader import read_sweep
from extrap.reading.request import Request
from extrap.reading.units import check_units

from .messy import (
    huggingface,
    isoflop,
    mlflow_runs,
    optuna_frame,
    random_search,
    ray_results,
    sweep,
    two,
    wandb_export,
)

ROOT = Path(__file__).parents[2]
GRID = sweep()
WARMUPS = two("warmup", (100, 500))


def choices_of(table, **options):
    """The choices that reading a table offers."""
    with pytest.raises(DataError) as caught:
        read_runs(table, **options)
    return [choice.arguments for choice in caught.value.choices]


def pooled(column, values, **more):
    """One seed of the sweep for each value of a further column."""
    tables = [
        sweep(seeds=(0,), **{column: v}, **{k: f(v) for k, f in more.items()}) for v in values
    ]
    return pd.concat(tables, ignore_index=True)


def cut(column):
    """Every ninth run stops half way by a count."""
    return GRID.assign(**{column: np.where(GRID.index % 9, 1e6, 5e5) * GRID["width"]})


TAKEN = [
    (GRID, "width", "lr", 72),
    (GRID.drop(columns="seed"), "width", "lr", 72),
    (wandb_export(GRID), "d_model", "lr", 72),
    (mlflow_runs(GRID), "hidden_size", "lr", 72),
    (optuna_frame(GRID), "width", "lr", 72),
    (huggingface(GRID), "hidden_size", "learning_rate", 72),
    (ray_results(GRID), "width", "lr", 72),
    (random_search(), "width", "lr", 160),
    (GRID[GRID["lr"].isin([2.0**-6, 2.0**-7])], "width", "lr", 24),
    (isoflop(), "n_params n_tokens", "", 20),
    (pd.DataFrame({"flops": [1e16, 1e17, 1e18], "val_nll": [4.0, 3.5, 3.1]}), "flops", "", 3),
    (
        GRID.assign(model=GRID["width"].map({64: "a", 128: "b", 256: "c", 512: "d"})),
        "width",
        "lr",
        72,
    ),
    (
        random_search(weight_decay=lambda rng: 10 ** rng.uniform(-3, -1)),
        "width",
        "lr weight_decay",
        160,
    ),
    (pooled("wd", (0.01, 0.1, 1.0)), "width", "lr wd", 72),
    (
        pooled("batch_size", (16, 32, 64), n_tokens=lambda b: 1000 * b),
        "width",
        "lr batch_size",
        72,
    ),
    (
        pd.concat(
            [sweep(git_sha="a", host="x"), sweep(git_sha="b", host="y").head(9)], ignore_index=True
        ),
        "width",
        "lr",
        81,
    ),
    (GRID.assign(warmup=2 * GRID["width"], batch_size=GRID["width"] // 2), "width", "lr", 72),
    (
        GRID.assign(min_lr=GRID["lr"] / 10, lr_mult=GRID["lr"] * GRID["width"] / 64),
        "width",
        "lr",
        72,
    ),
    (
        GRID.assign(n_params=12 * GRID["width"] ** 2, n_tokens=240 * GRID["width"] ** 2),
        "width",
        "lr",
        72,
    ),
    (cut("tokens_seen"), "width", "lr", 64),
    (cut("n_tokens"), "width", "lr", 64),
]
"""Table, its sizes, its tuned columns, its complete runs."""


@pytest.mark.parametrize(("table", "sizes", "tuned", "n_complete"), TAKEN)
def test_a_table_is_taken_for_what_its_columns_say(table, sizes, tuned, n_complete):
    runs = read_runs(table)
    assert (runs.sizes, runs.tuned) == (tuple(sizes.split()), tuple(tuned.split()))
    assert len(runs.complete()) == n_complete


PUBLISHED = {
    "chinchilla_epoch.csv": ({}, "params tokens", ""),
    "steplaw.csv": ({"task": "dense"}, "params tokens", "lr batch_size_tokens"),
    "misfitting_lr_sweep_v0.csv": ({"task": "dense_c4_v0"}, "params tokens", "lr"),
    "tinyml_bandpass.csv": ({"task": "bp_beta1p20"}, "width", ""),
    "gadre_warmup_grid.csv": ({"n_heads": "8"}, "params", "warmup_steps"),
}
"""Table → what its own error offers, and what is found then."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tables_need_one_choice_at_most(name):
    path = table_path(DATA, name)
    if not path.is_file():
        pytest.skip(f"the published table {name} is not here (make data)")
    where, sizes, tuned = PUBLISHED[name]
    if where:
        assert {"where": where} in choices_of(path)
    runs, _ = read_sweep(path, Request(where=where))
    assert (runs.sizes, runs.tuned) == (tuple(sizes.split()), tuple(tuned.split()))


@pytest.mark.parametrize(
    ("table", "choices"),
    [
        (
            pd.concat([sweep(depth=d, excess=-0.02 * d) for d in (2, 4, 8)], ignore_index=True),
            [{"size": "width"}, {"size": "depth"}, {"size": ["width", "depth"]}],
        ),
        (
            GRID.rename(columns={"loss": "c4_val_loss"}).assign(wiki_val_loss=GRID["loss"] + 1),
            [{"loss": "c4_val_loss"}, {"loss": "wiki_val_loss"}],
        ),
        (GRID.drop(columns="loss").assign(acc=1 - GRID["loss"] / 8), [{"maximise": "acc"}]),
        (GRID.rename(columns={"width": "w", "lr": "a"}), [{"size": "w"}, {"size": "a"}]),
        (
            pd.concat([sweep(task="a"), sweep(task="b").assign(width=None)]),
            [{"where": {"task": "a"}}],
        ),
    ],
    ids=["sizes", "losses", "scores", "names that say nothing", "without a size"],
)
def test_several_candidates_are_listed_and_each_of_them_settles_it(table, choices):
    assert choices_of(table) == choices
    candidates = ("width", "depth", "w", "a")
    for choice in choices:
        named = np.ravel(choice.get("size", candidates))
        others = [name for name in candidates if name in table and name not in named]
        read_runs(table, **choice, ignore=others)


@pytest.mark.parametrize(
    ("table", "first"),
    [
        (WARMUPS, {"warmup": "100"}),
        (two("wd", (0, 0.1)), {"wd": "0"}),
        (
            random_search(warmup=lambda rng: rng.choice([100, 500], p=[0.6, 0.4])),
            {"warmup": "100"},
        ),
        (
            pd.concat([wandb_export(sweep()), wandb_export(sweep(excess=0.05), warmup=500)]),
            {"warmup_steps": "100"},
        ),
        (isoflop().assign(dataset=["c4", "rpj"] * 10), {"dataset": "c4"}),
        (two("wd", (0.1, 0.15)), {"wd": "0.1"}),
    ],
    ids=["warm-ups", "decay that may be none", "random search", "W&B", "trained once", "near"],
)
def test_recipes_that_are_mixed_are_chosen_or_pooled_as_the_error_offers(table, first):
    table = table.reset_index(drop=True)
    *wheres, ignore = choices_of(table)
    ((name, value),) = first.items()
    assert (wheres[0], ignore) == ({"where": first}, {"ignore": [name]})
    assert sum(len(read_runs(table, **choice)) for choice in wheres) == len(table)
    assert f"only rows with {name} = {value}" in read_runs(table, where=first).notes
    pooled, said = read_sweep(table, Request(ignore=name))
    assert len(pooled) == len(table)
    assert said.endswith(f"pooled over {name}")


def test_words_that_alternate_along_the_sizes_are_chosen_with_what_varies_within_them():
    optimizers = {64: "adam", 128: "sgd", 256: "lion", 512: "adam"}
    first, *_ = choices_of(WARMUPS.assign(optimizer=WARMUPS["width"].map(optimizers)))
    assert first == {"where": {"optimizer": "adam", "warmup": "100"}}


def test_a_setting_with_many_values_may_be_tuned_too_or_be_a_condition():
    assert read_runs(WARMUPS, conditions="warmup").conditions == ("warmup",)
    parts = [sweep(seeds=(0,), wd=x, excess=x / 9) for x in (0.01, 0.1, 1.0)]
    table = pd.concat(parts, ignore_index=True)
    first, *_ = choices_of(table, size="width", tune="lr")
    assert first == {"tune": ["lr", "wd"]}
    assert read_runs(table, size="width", **first).tuned == ("lr", "wd")
    big = GRID[(GRID["width"] == 512) & (GRID["lr"] == GRID["lr"].max())]
    assert read_runs(big, size="width", stage="check").tuned == ()


@pytest.mark.parametrize("name", ["log2lr", "log10_lr", "ln_lr", "lr_log2"])
def test_a_logarithm_is_offered_as_a_formula_that_gives_the_values_back(name):
    base = {"2": 2.0, "10": 10.0}.get("".join(c for c in name if c.isdigit()), np.e)
    table = GRID.drop(columns="lr").assign(**{name: np.log(GRID["lr"]) / np.log(base)})
    runs = read_runs(table, **choices_of(table)[0])
    assert runs.to_frame()["lr"].to_numpy() == pytest.approx(GRID["lr"].to_numpy())


def test_a_count_in_another_unit_is_mended_by_the_formula_that_is_offered():
    table, right = isoflop(), read_runs(isoflop()).to_frame()
    table["n_params"] *= 1e-6
    first = choices_of(table)[0]
    assert first == {"let": "n_params = n_params * 1e6"}
    mended = read_runs(table, **first).to_frame()
    assert mended["n_params"].to_numpy() == pytest.approx(right["n_params"].to_numpy())


@pytest.mark.parametrize("path", ["sweep", "wandb_export"])
def test_examples_need_no_names(path):
    runs = read_runs(ROOT / "examples" / f"{path}.csv")
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    assert len(runs.complete()) == 288


def test_an_allocation_finds_its_columns():
    table = isoflop(n=6, m=6)
    named = extrap.allocate(table, flops=1e21, params="n_params", tokens="n_tokens")
    assert extrap.allocate(table, flops=1e21).params == named.params


@pytest.mark.parametrize("name", ["porian_formll.csv", "chinchilla_epoch.csv"])
def test_published_tables_agree_with_themselves(name):
    path = table_path(DATA, name)
    if not path.is_file():
        pytest.skip(f"the published runs are not here ({name}: make data)")
    runs = pd.read_csv(path)
    assert not [n for n in check_units(runs, ("params", "tokens")) if "should be" in n]


DECIDERS = [
    ("optimizer", {"adam": "adam_lr", "sgd": "sgd_lr"}),
    ("optimizer", {"adam": "adam_lr", "lion": "lion_lr", "sgd": "sgd_lr"}),
    ("use_adam", {"False": "sgd_lr", "True": "adam_lr"}),
    ("variant", {"1": "adam_lr", "2": "sgd_lr"}),
]
"""A column, and which rate each of its values has."""


@pytest.mark.parametrize(("decider", "rates"), DECIDERS)
@pytest.mark.parametrize("prefix", ["", "params_", "config."])
def test_a_setting_of_some_runs_is_explained_by_the_column_that_decides_it(decider, rates, prefix):
    parts = []
    for number, (value, rate) in enumerate(rates.items()):
        typed = {"False": False, "True": True}.get(value, value)
        part = GRID.rename(columns={"lr": f"{prefix}{rate}"}).assign(loss=GRID["loss"] + number)
        parts.append(part.assign(**{f"{prefix}{decider}": typed}))
    table = pd.concat(parts, ignore_index=True)
    offered = [{"where": {decider: value}, "tune": [rate]} for value, rate in rates.items()]
    assert choices_of(table) == offered
    for choice in offered:
        runs = read_runs(table, **choice)
        assert (runs.sizes, runs.tuned) == (("width",), tuple(choice["tune"]))
        assert len(runs) == len(GRID)
    assert (
        choices_of(table, size="width", tune=f"{prefix}sgd_lr")[0]["where"] == offered[0]["where"]
    )


def test_a_gap_that_no_column_explains_names_its_row():
    table = GRID.assign(lr=[None, *GRID["lr"][1:]])
    with pytest.raises(DataError, match="row 1 has none"):
        read_runs(table)


def test_a_seed_is_announced_only_where_there_is_one():
    table = GRID.drop(columns="seed").rename(columns={"loss": "val_loss"})
    _, said = read_sweep(table, Request(size="width", tune="lr"))
    assert "seed = none" in said


def test_runs_without_a_loss_are_counted_where_nothing_else_is_said():
    table = GRID.assign(loss=[None, None, *GRID["loss"][2:]])
    names = {"size": "width", "tune": "lr", "loss": "loss"}
    assert f"2 of {len(GRID)} runs" in read_sweep(table, Request(**names))[1]
    assert read_sweep(GRID, Request(**names))[1] == ""


def test_rates_and_seeds_in_the_names_of_runs_are_read_where_no_column_tells_them():
    cells = zip(GRID["width"], GRID["lr"], GRID["seed"], strict=True)
    names = [f"mlp{width}-lr{lr}-seed{seed}" for width, lr, seed in cells]
    runs, said = read_sweep(GRID.drop(columns=["lr", "seed"]).assign(name=names), Request())
    columns = ["width", "lr", "seed", "loss"]
    assert runs.to_frame()[columns].to_numpy().tolist() == GRID[columns].to_numpy().tolist()
    assert "lr was read from the names of the runs" in said
    wrong = [name.replace("lr", "lr1") for name in names]
    assert read_runs(GRID.assign(name=wrong)).to_frame()["lr"].tolist() == GRID["lr"].tolist()


def test_the_role_of_a_run_in_a_study_is_no_setting():
    """A table of all runs of a study; a column `role` of anything else is asked for."""
    roles = np.where(GRID.index % 2, "contrast", "recommended")
    sweep_and_larger = GRID.assign(role=np.where(GRID["width"] == GRID["width"].max(), roles, ""))
    runs = read_runs(sweep_and_larger)
    assert read_sweep(sweep_and_larger, Request())[1] == read_sweep(GRID, Request())[1]
    assert runs.data_hash() == read_runs(GRID).data_hash()
    offered = choices_of(GRID.assign(role=np.where(GRID.index % 2, "teacher", "student")))
    assert {"where": {"role": "teacher"}} in offered
