"""What the columns of a table are taken for where nobody says."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.runs import Request, read_sweep

from .messy import (
    SEEDS,
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
DATA = ROOT.parent / "shared" / "data"
GRID = sweep()
DEEP = pd.concat([sweep(depth=d, excess=-0.02 * d) for d in (2, 4, 8)], ignore_index=True)
NO_SEED = "row-0"


def of_width(**columns):
    """The sweep with columns that follow from it."""
    return GRID.assign(**{name: rule(GRID) for name, rule in columns.items()})


FOUND = {
    "plain": (GRID, "width", "lr", "loss", "seed"),
    "W&B": (wandb_export(GRID), "d_model", "lr", "summary.val_loss", "config.seed"),
    "MLflow": (mlflow_runs(GRID), "hidden_size", "lr", "metrics.val_loss", "params.seed"),
    "Optuna's table": (optuna_frame(GRID), "width", "lr", "value", "user_attrs_seed"),
    "HF": (huggingface(GRID), "hidden_size", "learning_rate", "eval_loss", "seed"),
    "Ray": (ray_results(GRID), "width", "lr", "loss", "config/seed"),
    "no seed": (GRID.drop(columns="seed"), "width", "lr", "loss", None),
    "random search": (random_search(), "width", "lr", "loss", None),
    "two rates": (GRID[GRID["lr"].isin([2.0**-6, 2.0**-7])], "width", "lr", "loss", "seed"),
    "two tuned at random": (
        random_search(weight_decay=lambda rng: 10 ** rng.uniform(-3, -1)),
        "width",
        "lr weight_decay",
        "loss",
        None,
    ),
    "two tuned on a grid": (
        pd.concat([sweep(seeds=(0,), wd=x) for x in (0.01, 0.1, 1.0)]),
        "width",
        "lr wd",
        "loss",
        "seed",
    ),
    "settings that follow the size": (
        of_width(warmup=lambda t: 2 * t["width"], batch_size=lambda t: t["width"] // 2),
        "width",
        "lr",
        "loss",
        "seed",
    ),
    "settings that follow the rate": (
        of_width(min_lr=lambda t: t["lr"] / 10, lr_mult=lambda t: t["lr"] * t["width"] / 64),
        "width",
        "lr",
        "loss",
        "seed",
    ),
    "20 tokens per parameter": (
        of_width(
            n_params=lambda t: 12 * t["width"] ** 2, n_tokens=lambda t: 240 * t["width"] ** 2
        ),
        "width",
        "lr",
        "loss",
        "seed",
    ),
    "tokens of a tuned batch": (
        pd.concat([sweep(seeds=(0,), batch_size=b, n_tokens=1000 * b) for b in (16, 32, 64)]),
        "width",
        "lr batch_size",
        "loss",
        "seed",
    ),
    "runs cut short": (
        of_width(tokens_seen=lambda t: np.where(t.index % 9, 1e6, 5e5) * t["width"]),
        "width",
        "lr",
        "loss",
        "seed",
    ),
    "tokens of runs cut short": (
        of_width(n_tokens=lambda t: np.where(t.index % 9, 1e6, 5e5) * t["width"]),
        "width",
        "lr",
        "loss",
        "seed",
    ),
    "model and data": (isoflop(), "n_params n_tokens", "", "loss", None),
    "compute alone": (
        pd.DataFrame({"flops": [1e16, 1e17, 1e18], "val_nll": [4.0, 3.5, 3.1]}),
        "flops",
        "",
        "val_nll",
        None,
    ),
    "reruns of some": (
        pd.concat([sweep(git_sha="a", host="x"), sweep(git_sha="b", host="y").head(9)]),
        "width",
        "lr",
        "loss",
        "seed",
    ),
    "model names": (
        of_width(model=lambda t: t["width"].map({64: "xs", 128: "s", 256: "m", 512: "l"})),
        "width",
        "lr",
        "loss",
        "seed",
    ),
}
"""Table → its size columns, tuned columns, loss and seed."""


@pytest.mark.parametrize("case", FOUND)
def test_columns_are_found_by_their_names(case):
    table, sizes, tuned, loss, seed = FOUND[case]
    runs, announced = read_sweep(table.reset_index(drop=True), Request())
    frame = runs.to_frame()
    assert (runs.sizes, runs.tuned) == (tuple(sizes.split()), tuple(tuned.split()))
    is_whole = (frame["status"] == "complete").tolist()
    assert frame["loss"][is_whole].tolist() == pytest.approx(table[loss][is_whole].tolist())
    if seed is None:
        assert frame["seed"].astype(str).str.startswith("row-").all()
    else:
        assert frame["seed"].tolist() == table[seed].astype(int).tolist()
    assert announced.startswith(f"Using size = {sizes.split()[0]}")


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
    if not (DATA / name).is_file():
        pytest.skip(f"the published table {name} is not here")
    where, sizes, tuned = PUBLISHED[name]
    if where:
        with pytest.raises(DataError) as caught:
            read_sweep(DATA / name, Request())
        assert {"where": where} in [choice.arguments for choice in caught.value.choices]
    runs, _ = read_sweep(DATA / name, Request(where=where))
    assert (runs.sizes, runs.tuned) == (tuple(sizes.split()), tuple(tuned.split()))


CANDIDATES = ("width", "depth", "w", "a")


@pytest.mark.parametrize(
    ("table", "choices"),
    [
        (DEEP, [{"size": "width"}, {"size": "depth"}, {"size": ["width", "depth"]}]),
        (
            GRID.rename(columns={"loss": "c4_val_loss"}).assign(wiki_val_loss=GRID["loss"] + 1),
            [{"loss": "c4_val_loss"}, {"loss": "wiki_val_loss"}],
        ),
        (
            GRID.drop(columns="loss").assign(acc=1 - GRID["loss"] / 8),
            [{"maximise": "acc"}],
        ),
        (GRID.rename(columns={"width": "w", "lr": "a"}), [{"size": "w"}, {"size": "a"}]),
        (
            pd.concat([sweep(task="a"), sweep(task="b").assign(width=None)]),
            [{"where": {"task": "a"}}],
        ),
    ],
    ids=["sizes", "losses", "scores", "names that say nothing", "without a size"],
)
def test_several_candidates_are_an_error_that_lists_them(table, choices):
    with pytest.raises(DataError) as caught:
        read_runs(table)
    assert [choice.arguments for choice in caught.value.choices] == choices
    for choice in caught.value.choices:  # each of them settles it, the other candidates set aside
        named = np.ravel(choice.arguments.get("size", CANDIDATES))
        others = [name for name in CANDIDATES if name in table and name not in named]
        read_runs(table, **choice.arguments, ignore=others)


def test_a_table_without_sizes_says_what_it_lacks():
    with pytest.raises(DataError, match=r"one width \(64\)"):
        read_runs(GRID[GRID["width"] == 64])
    with pytest.raises(DataError, match="looks like a size"):
        read_runs(GRID.drop(columns="width"))


def test_what_is_given_is_kept_and_the_rest_is_found():
    assert read_runs(GRID, size="width").tuned == ("lr",)
    assert read_runs(GRID, size="width", tune=()).tuned == ()
    assert read_runs(GRID, tune="lr").sizes == ("width",)
    assert read_runs(GRID, size="lr", tune="width").sizes == ("lr",)
    assert read_runs(GRID.assign(val=GRID["loss"] * 2), loss="val").to_frame()["loss"].min() > 3
    wandb = wandb_export(GRID)
    assert read_runs(wandb, size="n_layers").tuned == ("lr",)
    assert read_runs(wandb, size="config.model.d_model").sizes == ("config.model.d_model",)
    big = GRID[(GRID["width"] == 512) & (GRID["lr"] == GRID["lr"].max())]
    assert read_runs(big, size="width", stage="check").tuned == ()


def test_the_announcement_names_the_columns_behind_short_names():
    _, said = read_sweep(wandb_export(GRID), Request())
    assert said == (
        "Using size = d_model (config.model.d_model), tune = lr (config.optimizer.lr), "
        "loss = val_loss (summary.val_loss), seed = seed (config.seed); "
        "not used: n_layers, n_params"
    )
    table = GRID.rename(columns={"loss": "val/loss"})
    _, said = read_sweep(table.assign(**{"eval/loss": 2 * table["val/loss"]}), Request())
    assert said.endswith("loss = val/loss, seed = seed; not used: eval/loss")
    _, said = read_sweep(isoflop(), Request())
    assert said == "Using size = n_params and n_tokens, tune = none, loss = loss, seed = none"
    runs, said = read_sweep(GRID, Request(size="width", tune="lr"))
    assert (said, runs.notes) == ("", ())


def test_examples_need_no_names():
    for name, loss in (("sweep", "loss"), ("wandb_export", "val/loss")):
        path = ROOT / "examples" / f"{name}.csv"
        runs = read_runs(path)
        assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
        total = pd.read_csv(path)[loss][lambda losses: losses.notna()]
        assert len(runs.complete()) in (len(total), len(total) - 1)  # one is still running


WARMUPS = two("warmup", (100, 500))
MIXED = {
    "two warm-ups": (WARMUPS, {"warmup": "100"}),
    "of other seeds": (two("warmup", (100, 500), seeds=(SEEDS, (3, 4, 5))), {"warmup": "100"}),
    "two optimisers without seeds": (
        two("optimizer", ("adam", "sgd")).drop(columns="seed"),
        {"optimizer": "adam"},
    ),
    "a name that says nothing": (
        two("flavour", ("A", "B"), seeds=(SEEDS, (3, 4, 5))),
        {"flavour": "A"},
    ),
    "groups": (two("group", ("old", "new")), {"group": "old"}),
    "decay that may be none": (two("wd", (0, 0.1)), {"wd": "0"}),
    "random search": (
        random_search(warmup=lambda rng: rng.choice([100, 500], p=[0.6, 0.4])),
        {"warmup": "100"},
    ),
    "W&B": (
        pd.concat([wandb_export(sweep()), wandb_export(sweep(excess=0.05), warmup=500)]),
        {"warmup_steps": "100"},
    ),
    "sizes that were trained once": (
        isoflop().assign(dataset=["c4", "rpj"] * 10),
        {"dataset": "c4"},
    ),
}
"""Table → the first choice that its error offers."""


@pytest.mark.parametrize("case", MIXED)
def test_a_condition_that_varies_is_an_error_with_the_ways_to_settle_it(case):
    table, first = MIXED[case]
    table = table.reset_index(drop=True)
    with pytest.raises(DataError) as caught:
        read_sweep(table, Request())
    choices = [choice.arguments for choice in caught.value.choices]
    assert choices[0] == {"where": first}
    (name, value), n_rows = next(iter(first.items())), []
    for choice in choices[:-1]:
        runs, _ = read_sweep(table, Request(**choice))
        n_rows.append(len(runs))
    assert sum(n_rows) == len(table)
    assert any(
        note == f"only rows with {name} = {value}" for note in read_runs(table, where=first).notes
    )
    assert choices[-1] == {"ignore": [name]}
    pooled, said = read_sweep(table, Request(ignore=name))
    assert len(pooled) == len(table)
    assert said.endswith(f"pooled over {name}")


def test_conditions_that_are_named_are_no_error():
    declared = Request(conditions="warmup")
    assert read_sweep(WARMUPS, declared)[0].conditions == ("warmup",)
    assert read_sweep(GRID, Request(size="width", tune=()))[0].tuned == ()


def test_several_conditions_are_settled_by_few_columns():
    table = pd.concat(
        [
            sweep(warmup=w, optimizer=o, recipe=f"{o}{w}", excess=w / 9999 + (o == "sgd"))
            for w in (100, 500)
            for o in ("adam", "sgd")
        ],
        ignore_index=True,
    )
    with pytest.raises(DataError) as caught:
        read_sweep(table, Request())
    *wheres, ignore = [choice.arguments for choice in caught.value.choices]
    assert {tuple(choice["where"]) for choice in wheres} == {("recipe",)}
    assert ignore == {"ignore": ["recipe"]}
    with pytest.raises(DataError) as caught:
        read_sweep(table.drop(columns="recipe"), Request())
    wheres = [choice.arguments["where"] for choice in caught.value.choices[:-1]]
    assert len(wheres) == 4
    assert all(sorted(where) == ["optimizer", "warmup"] for where in wheres)


def test_a_setting_with_many_values_may_be_tuned_too():
    table = pd.concat([sweep(seeds=(0,), wd=x, excess=x / 9) for x in (0.01, 0.1, 1.0)])
    with pytest.raises(DataError) as caught:
        read_sweep(table.reset_index(drop=True), Request(size="width", tune="lr"))
    first = caught.value.choices[0].arguments
    assert first == {"tune": ["lr", "wd"]}
    both = Request(size="width", **first)
    assert read_sweep(table.reset_index(drop=True), both)[0].tuned == ("lr", "wd")
