"""Kinds of tables that were once read wrong: each in several forms, read right or asked about."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.errors import DataError
from extrap.reading import read_runs

from .messy import isoflop, random_search, sweep, two

GRID = sweep()


def parts(table, **options):
    runs = read_runs(table, **options)
    return runs.sizes, runs.tuned


def asked(table, **options):
    """The choices that reading a table offers."""
    with pytest.raises(DataError) as caught:
        read_runs(table, **options)
    return [choice.arguments for choice in caught.value.choices]


@pytest.mark.parametrize(
    "name",
    [
        *("muon_lr", "initial_lr", "optimizer_lr", "adam_lr", "matrix_lr", "lr0", "peak_lr"),
        *("lr (peak)", "lr.value", "optimizer.lr.value", "Param lr", "config.lr_hidden", "eta0"),
    ],
)
@pytest.mark.parametrize("table", [GRID, random_search()], ids=["grid", "random"])
def test_a_rate_of_any_usual_name_is_tuned(table, name):
    (_, tuned) = parts(table.rename(columns={"lr": name}))
    assert len(tuned) == 1


@pytest.mark.parametrize("name", ["knob", "x1", "Schrittweite", "θ"])
@pytest.mark.parametrize("table", [GRID, random_search()], ids=["grid", "random"])
def test_a_setting_of_another_name_is_asked_for_and_never_pooled(table, name):
    choices = asked(table.rename(columns={"lr": name}))
    assert choices[:2] == [{"tune": [name]}, {"size": ["width", name]}]
    assert choices[-1] == {"ignore": [name]}
    assert parts(table.rename(columns={"lr": name}), tune=name) == (("width",), (name,))


@pytest.mark.parametrize(
    "more",
    [
        {"dropout_p": [0.1, 0.2, 0.3]},
        {"n_augment": [1, 2, 4]},
        {"my_switch": ["a", "b", "c"]},
        {"my_factor": [0.5, 1.0, 2.0]},
    ],
    ids=str,
)
def test_a_second_setting_beside_the_rate_is_asked_for(more):
    (name, values) = next(iter(more.items()))
    table = pd.concat([sweep(seeds=(i,), **{name: v}) for i, v in enumerate(values)])
    choices = asked(table.reset_index(drop=True))
    assert {"ignore": [name]} in choices
    assert any(choice.get("where", {}).keys() == {name} for choice in choices)


def test_a_setting_drawn_at_random_beside_the_rate_is_asked_for():
    table = random_search(q=lambda rng: rng.uniform(0.1, 9))
    assert asked(table)[0] == {"tune": ["lr", "q"]}


@pytest.mark.parametrize(
    "more",
    [
        {"hostname": ["a", "b"], "gpu_name": ["H100", "A100"], "wall_time": [3.0, 4.0]},
        {"num_workers": [2, 4], "compile": [True, False], "log_every": [10, 20]},
        {"train/loss": [3.0, 3.1], "val_acc": [0.1, 0.2], "grad_norm": [1.0, 2.0]},
        {"git_sha": ["a1", "b2"], "created_at": ["x", "y"], "checkpoint": ["p", "q"]},
        {"tokens_per_second": [1e5, 2e5], "peak_memory_gb": [10.0, 20.0], "mfu": [0.3, 0.4]},
        {"_timestamp": [1.0, 2.0], "n_gpus": [1, 2], "resumed": [True, False]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_times_places_or_measures_a_run_is_no_setting(more):
    cells = {name: np.resize(values, len(GRID)) for name, values in more.items()}
    order = np.random.default_rng(0).permutation(len(GRID))
    assert parts(GRID.assign(**{k: v[order] for k, v in cells.items()})) == (("width",), ("lr",))


@pytest.mark.parametrize("column", ["dataset", "data_mix", "config.corpus"])
def test_an_allocation_does_not_pool_mixtures(column):
    table = pd.concat([isoflop().assign(**{column: x}) for x in ("web", "code")])
    for params, tokens in (("n_params", "n_tokens"), (None, None)):
        with pytest.raises(DataError) as caught:
            extrap.allocate(table.reset_index(drop=True), flops=1e21, params=params, tokens=tokens)
        assert {next(iter(c.arguments)) for c in caught.value.choices} == {"where", "ignore"}


def test_an_allocation_finds_its_columns():
    table = isoflop(n=6, m=6)
    named = extrap.allocate(table, flops=1e21, params="n_params", tokens="n_tokens")
    assert extrap.allocate(table, flops=1e21).params == named.params
    with pytest.raises(DataError, match="no column 'params'"):
        extrap.allocate(GRID, flops=1e21)


@pytest.mark.parametrize(
    ("change", "formulas"),
    [
        ({"n_params": 1e-6}, ["n_params = n_params * 1e6", "n_params = n_params * 1e9"]),
        ({"n_tokens": 1e-9}, ["n_tokens = n_tokens * 1e6", "n_tokens = n_tokens * 1e9"]),
        ({"flops": 1e-15}, ["flops = flops * 1e15"]),
        ({"n_tokens": 1e-3}, ["n_tokens = n_tokens * 1e3"]),
    ],
    ids=str,
)
def test_counts_in_other_units_are_refused_with_what_mends_them(change, formulas):
    table = isoflop()
    right = read_runs(table).to_frame()
    for column, factor in change.items():
        table[column] *= factor
    offered = [choice["let"] for choice in asked(table)]
    assert set(formulas) <= set(offered)
    mended = read_runs(table, let=_true_formula(change)).to_frame()
    assert mended["n_tokens"].to_numpy() == pytest.approx(right["n_tokens"].to_numpy())


def _true_formula(change):
    ((column, factor),) = change.items()
    return f"{column} = {column} * {1 / factor:.0e}"


def test_compute_that_is_off_by_another_factor_is_a_note():
    table = isoflop()
    table["flops"] *= 2.5
    assert any("it is 2.5 times that" in note for note in read_runs(table).notes)


@pytest.mark.parametrize(
    ("asked_for", "columns", "named"),
    [
        ("lrr", ["lr_a", "lr_b"], ["lr_a", "lr_b"]),
        ("val_los", ["val_loss", "val_loss2"], ["val_loss"]),
        ("learning_rate", ["adam_lr", "muon_lr"], ["adam_lr", "muon_lr"]),
    ],
)
def test_all_names_that_are_equally_near_are_listed(asked_for, columns, named):
    table = GRID.assign(**{name: GRID["lr"] for name in columns})
    with pytest.raises(DataError) as caught:
        read_runs(table.drop(columns="lr"), size="width", tune=asked_for)
    for name in named:
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["15M", "125M", "0.35B", "1.3B"], [15e6, 125e6, 0.35e9, 1.3e9]),
        (["64,000", "128,000", "256,000", "1,512,000"], [64e3, 128e3, 256e3, 1512e3]),
        (["2^6", "2**7", "2^8", "2 ** 9"], [64, 128, 256, 512]),
        (["64k", "128K", "256k", "512k"], [64e3, 128e3, 256e3, 512e3]),
    ],
    ids=["letters", "thousands", "powers", "k"],
)
def test_sizes_are_numbers_as_people_write_them(written, expected):
    table = GRID.assign(
        width=GRID["width"].map(dict(zip((64, 128, 256, 512), written, strict=True)))
    )
    found = read_runs(table).to_frame()["width"].unique()
    assert sorted(found) == pytest.approx(sorted(expected))


@pytest.mark.parametrize("prefix", ["d", "w-", "size "])
def test_sizes_with_letters_before_them_are_asked_about_by_name(prefix):
    table = GRID.assign(width=[f"{prefix}{w}" for w in GRID["width"]])
    with pytest.raises(DataError, match=rf"width '{prefix}\d+'"):
        read_runs(table)


def test_text_in_a_known_column_names_its_row():
    table = GRID.astype({"lr": object})
    table.loc[7, "lr"] = "auto"
    with pytest.raises(DataError, match=r"lr .*'auto' in row 8"):
        read_runs(table)


@pytest.mark.parametrize("name", ["log2lr", "log10_lr", "ln_lr", "lr_log2"])
def test_a_logarithm_is_offered_as_a_formula(name):
    base = {"2": 2.0, "10": 10.0}.get("".join(c for c in name if c.isdigit()), np.e)
    logs = np.log(GRID["lr"]) / np.log(base)
    choices = asked(GRID.drop(columns="lr").assign(**{name: logs}))
    assert choices[0]["tune"] == ["lr"]
    runs = read_runs(GRID.drop(columns="lr").assign(**{name: logs}), **choices[0])
    assert runs.to_frame()["lr"].to_numpy() == pytest.approx(GRID["lr"].to_numpy())


def text_of(table):
    return table.to_csv(index=False)


@pytest.mark.parametrize("places", [(5,), (10, 30), (0,)])
def test_a_header_that_is_repeated_is_left_out_with_a_note(places):
    header, *lines = text_of(GRID).splitlines()
    for place in reversed(places):
        lines.insert(place, header)
    runs = read_runs(io.StringIO("\n".join([header, *lines])))
    assert len(runs) == len(GRID)
    assert any("repeats the header" in note for note in runs.notes)


@pytest.mark.parametrize("orient", ["records", "list", "wrapped"])
def test_json_is_a_table_if_it_is_one(tmp_path, orient):
    rows = GRID.to_dict("records" if orient != "list" else "list")
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"runs": rows} if orient == "wrapped" else rows))
    assert parts(path) == (("width",), ("lr",))
    path.write_text("[1, 2]")
    with pytest.raises(DataError, match="a table in JSON"):
        read_runs(path)


@pytest.mark.parametrize(
    ("form", "size", "tuned"),
    [
        ("mlp_width{w}_lr{lr}", "width", ["lr"]),
        ("run-d_model={w}-lr={lr}", "d_model", ["lr"]),
        ("d_model={w},lr={lr}", None, None),
        ("exp lr{lr} depth{w}", "depth", ["lr"]),
    ],
)
def test_settings_in_names_are_read_or_offered(form, size, tuned):
    names = [
        form.format(w=w, lr=f"{lr:.6f}") for w, lr in zip(GRID["width"], GRID["lr"], strict=True)
    ]
    table = pd.DataFrame(
        {"Name": [f"{n}_s{i}" for i, n in enumerate(names)], "loss": GRID["loss"]}
    )
    if size is None:
        assert parts(table) == (("d_model",), ("lr",))
        return
    assert asked(table) == [{"size": size, "tune": tuned}]
    assert parts(table, size=size, tune=tuned) == ((size,), tuple(tuned))


@pytest.mark.parametrize("line", ["width: 64 - val/loss", "small - loss", "lr=0.1 - eval/nll"])
def test_means_over_groups_are_no_runs(line):
    steps = [1, 2, 3]
    other = line.replace("64", "128").replace("small", "large").replace("0.1", "0.2")
    table = pd.DataFrame({"Step": steps})
    for name in (line, other):
        table[name] = [3.0, 2.5, 2.2]
        table[f"{name}__MIN"], table[f"{name}__MAX"] = [2.9, 2.4, 2.1], [3.1, 2.6, 2.3]
    with pytest.raises(DataError, match="means over groups"):
        read_runs(table)


@pytest.mark.parametrize(
    ("column", "done", "failed"),
    [
        ("State", "TERMINATED", "ERROR"),
        ("run status", "COMPLETED", "TIMEOUT"),
        ("exit_state", "success", "OOM"),
        ("outcome", "done", "killed"),
        ("how it went", "finished", "aborted"),
        ("status", "Succeeded", "out of memory"),
    ],
)
def test_runs_that_failed_are_seen_under_any_header(column, done, failed):
    is_failed = np.arange(len(GRID)) % 9 == 4
    table = GRID.assign(**{column: np.where(is_failed, failed, done)})
    table["loss"] = np.where(is_failed, 9.0, table["loss"])
    runs = read_runs(table)
    assert len(runs.complete()) == len(GRID) - is_failed.sum()
    assert runs.complete().to_frame()["loss"].max() < 9
    unknown = table.assign(**{column: np.where(is_failed, "exploded", done)})
    with pytest.raises(DataError, match="exploded"):
        read_runs(unknown)


@pytest.mark.parametrize("column", ["steps", "_step", "global_step", "n_tokens", "epoch"])
def test_runs_that_stop_early_are_left_out_or_counted(column):
    is_short = np.arange(len(GRID)) % 11 == 3
    table = GRID.assign(**{column: np.where(is_short, 600, 1000)})
    table["loss"] = np.where(is_short, table["loss"] * 1.5, table["loss"])
    runs = read_runs(table)
    assert len(runs.complete()) == len(GRID) - is_short.sum()
    assert any("partial=True" in note for note in runs.notes)
    assert len(read_runs(table, partial=True).complete()) == len(GRID)


@pytest.mark.parametrize("column", ["steps", "n_steps", "iterations"])
def test_steps_that_many_runs_differ_in_were_set(column):
    table = GRID.assign(**{column: np.where(GRID.index % 2, 500, 1000)})
    assert {"ignore": [column]} in asked(table)


@pytest.mark.parametrize("column", ["tokens_per_param", "tpp", "tokens per parameter"])
def test_tokens_per_parameter_are_a_size(column):
    rows = [
        {"n_params": n, column: r, "loss": 1.7 + 40 / n**0.3 + 9 / (r * n) ** 0.28}
        for n in (1e6, 4e6, 16e6, 64e6)
        for r in (5, 10, 20, 40)
    ]
    sizes, tuned = parts(pd.DataFrame(rows))
    assert (len(sizes), tuned) == (2, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("width,0.001,0.002,0.004\n64,3,2,3\n128,2,1,2\n", "one column per value"),
        ("model_size,seed,1e-4,3e-4,1e-3\n1,0,3,2,3\n2,0,3,2,3\n", "one column per value"),
        ("d_model,16,32,64,128\n1,3,2,3,4\n2,3,2,3,4\n", "melt it to one row per run"),
        ("| width | lr | loss |\n|---|---|---|\n| 64 | 0.1 | 3 |\n", "Markdown"),
        ("|width|loss|\n|:-:|--:|\n|64|3|\n", "Markdown"),
        ("params,params,metrics\nlr,width,loss\n0.1,64,3\n0.2,64,2\n", "two"),
        ("user_attrs,params,params,value\nseed,lr,width,\n0,0.1,64,3\n", "two"),
        ("depth,weight_decay\n8,0.2\n12,0.09\n16,0.05\n", "best weight_decay of each depth"),
        ("width,lr\n64,0.2\n128,0.1\n256,0.05\n", "best lr of each width"),
        ("n_params,batch_size\n1e6,64\n1e7,128\n1e8,256\n", "best batch_size of each n_params"),
    ],
)
def test_other_layouts_are_named(text, words):
    with pytest.raises(DataError, match=words):
        read_runs(io.StringIO(text))


def test_a_frame_with_levels_and_a_series_are_named():
    frame = GRID.copy()
    frame.columns = pd.MultiIndex.from_tuples([("a", c) for c in GRID])
    with pytest.raises(DataError, match="several levels"):
        read_runs(frame)
    with pytest.raises(TypeError, match="Series"):
        read_runs(GRID["loss"])


def test_recipes_are_never_pooled_in_silence():
    table = two("my_option", (1, 2))
    assert asked(table)[-1] == {"ignore": ["my_option"]}
    runs = read_runs(table, ignore="my_option")
    assert "recipes-pooled: my_option" in extrap.forecast(runs).flags


@pytest.mark.parametrize(
    ("by_size", "is_asked"),
    [("abab", True), ("abba", True), ("aabb", False), ("abcd", False)],
)
def test_a_recipe_that_alternates_along_the_sizes_is_asked_for(by_size, is_asked):
    words = dict(zip((64, 128, 256, 512), by_size, strict=True))
    table = GRID.assign(optimizer=GRID["width"].map(words))
    if is_asked:
        assert asked(table)[0] == {"where": {"optimizer": "a"}}
    else:
        assert parts(table) == (("width",), ("lr",))
