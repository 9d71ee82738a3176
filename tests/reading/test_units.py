"""Columns that determine each other, in other units than each other."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.units import check_units

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SIZES = ("params", "tokens")


def table_of(**columns):
    """Twelve runs whose columns agree: 6 N D FLOPs, and steps of 64 sequences of 512 tokens."""
    params = np.repeat([1e7, 4e7, 1.6e8], 4)
    steps = np.tile([1000.0, 2000.0, 4000.0, 8000.0], 3)
    tokens = steps * 64 * 512
    plain = {
        "params": params,
        "tokens": tokens,
        "flops": 6 * params * tokens,
        "steps": steps,
        "batch_size": 64,
        "sequence_length": 512,
        "loss": 2 + (params / 1e7) ** -0.3 + (tokens / 1e8) ** -0.3,
    }
    return pd.DataFrame({**plain, **columns})


def compute_only(**columns):
    return table_of(**columns).drop(columns=["steps"])


def offered(frame, sizes=SIZES):
    """The formulas that an error offers."""
    with pytest.raises(DataError) as caught:
        check_units(frame, sizes)
    return [choice.arguments["let"] for choice in caught.value.choices]


def test_columns_that_agree_are_not_mentioned():
    more = {"compute": 2.0, "n_steps": 2.0, "batch_size_seqs": 2.0, "seq_len": 2.0}
    assert check_units(table_of(), SIZES) == check_units(table_of(**more), SIZES) == ()


@pytest.mark.parametrize("lost", ["params", "tokens", "flops"])
def test_nothing_is_said_of_columns_that_are_not_there(lost):
    wrong = compute_only(flops=1.0)
    assert len(check_units(wrong)) == 1
    for cells in (0.0, "x", -1.0):
        assert check_units(wrong.assign(**{lost: cells})) == ()
    assert check_units(wrong.drop(columns=lost)) == ()
    named = wrong.rename(columns={lost: f" {lost.upper()}"}).astype(str)
    assert len(check_units(named)) == 1


@pytest.mark.parametrize("factor", [0.501, 1.99])
def test_compute_may_differ_by_two_and_tokens_by_a_tenth(factor):
    table = compute_only()
    assert check_units(table.assign(flops=factor * table["flops"]), SIZES) == ()
    (note,) = check_units(table.assign(flops=factor**1.01 * table["flops"]), SIZES)
    assert f"it is {factor**1.01:.3g} times" in note
    table, part = table_of(), 1.099 if factor > 1 else 1 / 1.099
    assert check_units(table.assign(steps=table["steps"] * part), SIZES) == ()
    (note,) = check_units(table.assign(steps=table["steps"] * part**1.02), SIZES)
    assert note.startswith("steps × batch_size × ")


@pytest.mark.parametrize("column", ["params", "tokens"])
@pytest.mark.parametrize("power", [3, 6, 9])
def test_counts_in_other_units_are_refused_with_the_formula_of_each_column(column, power):
    table = compute_only()
    formulas = offered(table.assign(**{column: table[column] / 10**power}))
    assert f"{column} = {column} * 1e{power}" in formulas
    if power == 3:  # the numbers could be counts: one of three columns has another unit
        assert len(formulas) == 3
        assert "flops = flops * 1e-3" in formulas


@pytest.mark.parametrize("factor", [1 / 6, 5.0, 1e15 * 86400, 1 / 70])
def test_other_factors_are_notes(factor):
    table = compute_only()
    notes = check_units(table.assign(flops=factor * table["flops"]), ("params",))
    assert [f"it is {factor:.3g} times that" in note for note in notes] == [True]


def test_units_of_columns_that_are_no_sizes_are_notes():
    table = compute_only()
    (note,) = check_units(table.assign(flops=table["flops"] / 1e9), ("width",))
    assert note.endswith("nothing was rescaled")
    assert check_units(pd.DataFrame({"params": [1.0, 2.0], "tokens": [3.0, 4.0]}), ()) == ()


def test_one_count_of_the_parameters_that_fits_excuses_another():
    table = compute_only()
    fewer = table.assign(params_no_emb=table["params"] / 4, active_params=table["params"] / 20)
    assert check_units(fewer, SIZES) == ()
    assert "6 × params × tokens" in check_units(fewer.assign(flops=5 * table["flops"]))[0]


def test_batch_in_tokens_needs_no_length():
    table = table_of(batch_size_tokens=64 * 512).drop(columns=["batch_size", "sequence_length"])
    assert check_units(table, SIZES) == ()
    assert "steps = steps * 1e-3" in offered(table.assign(steps=table["steps"] * 1000))


@pytest.mark.parametrize(("least", "is_refused"), [(999.0, True), (1001.0, False)])
def test_a_count_below_any_count_is_refused(least, is_refused):
    frame = pd.DataFrame({"params": [10.0, 100.0, least]})
    if not is_refused:
        assert check_units(frame, ("params",)) == ()
        return
    assert offered(frame, ("params",)) == ["params = params * 1e6", "params = params * 1e9"]


def test_a_formula_mends_the_table():
    table = compute_only()
    wrong = table.assign(params=table["params"] / 1e6)
    with pytest.raises(DataError, match="params 10 to 160 are"):
        read_runs(wrong)
    runs = read_runs(wrong, let="params = params * 1e6")
    assert sorted(set(runs.to_frame()["params"])) == pytest.approx([1e7, 4e7, 1.6e8])


@pytest.mark.parametrize("name", ["porian_formll.csv", "chinchilla_epoch.csv"])
def test_published_tables_agree_with_themselves(name):
    if not (DATA / name).exists():
        pytest.skip(f"the published runs are not here ({name} in ../shared/data)")
    assert not [n for n in check_units(pd.read_csv(DATA / name), SIZES) if "should be" in n]
