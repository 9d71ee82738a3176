from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.reading import read_runs
from extrap.reading.units import check_units

DATA = Path(__file__).parents[2].parent / "shared" / "data"


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


def published(name):
    if not (DATA / name).exists():
        pytest.skip(f"the published runs are not here ({name} in ../shared/data)")
    return pd.read_csv(DATA / name)


def only(notes):
    assert len(notes) == 1, notes
    return notes[0]


def compute_only(**columns):
    return table_of(**columns).drop(columns=["steps"])


def test_columns_that_agree_are_not_mentioned():
    more = {"compute": 2.0, "n_steps": 2.0, "batch_size_seqs": 2.0, "seq_len": 2.0}
    assert check_units(table_of()) == check_units(table_of(**more)) == ()  # the first counts


@pytest.mark.parametrize("lost", ["params", "tokens", "flops"])
def test_nothing_is_said_of_columns_that_are_not_there(lost):
    wrong = compute_only(flops=1.0)
    assert len(check_units(wrong)) == 1
    for cells in (0.0, "x"):
        assert check_units(wrong.assign(**{lost: cells})) == ()
    assert check_units(wrong.drop(columns=lost)) == ()
    named = wrong.rename(columns={lost: f" {lost.upper()}"}).astype(str)
    assert len(check_units(named)) == 1


@pytest.mark.parametrize("factor", [0.501, 1.99])
def test_compute_may_differ_by_two_and_tokens_by_a_tenth(factor):
    table = compute_only()
    assert check_units(table.assign(flops=factor * table["flops"])) == ()
    beyond = table.assign(flops=factor**1.01 * table["flops"])
    assert f"it is {factor**1.01:.3g} times" in only(check_units(beyond))
    table, part = table_of(), 1.099 if factor > 1 else 1 / 1.099
    assert check_units(table.assign(steps=table["steps"] * part)) == ()
    beyond = table.assign(steps=table["steps"] * part**1.02)
    assert f"it is {part**1.02:.3g} times" in only(check_units(beyond))


@pytest.mark.parametrize("column", ["params", "tokens"])
@pytest.mark.parametrize(
    ("unit", "name"),
    [(1e3, "thousands"), (1e6, "millions"), (1e9, "billions"), (1e12, "trillions")],
)
def test_counts_in_other_units_are_named(column, unit, name):
    table = compute_only()
    note = only(check_units(table.assign(**{column: table[column] / unit})))
    assert note.startswith("flops should be 6 ×")
    assert f"it is {unit:.3g} times" in note
    assert "median of 12" in note
    assert f"tokens in {name};" in note


@pytest.mark.parametrize(
    ("factor", "cause"),
    [
        (1 / 6, "counted as params"),
        (1 / 3, "2 × params × tokens"),
        (1e-9, "flops in units of 1e9"),
        (1.3e-15, "flops in units of 1e15"),
        (1 / 8.64e19, "petaflop/s-days"),
        (1e15, "one each"),
        (512, "tokens in sequences;"),
        (5, "embeddings,"),
        (1 / 15, "a mixture of experts"),
        (1 / 70, "another unit"),
    ],
)
def test_cause_of_a_wrong_compute_is_guessed_from_its_ratio(factor, cause):
    table = compute_only()
    note = only(check_units(table.assign(flops=factor * table["flops"])))
    assert f"it is {factor:.3g} times that" in note
    assert cause in note.partition("likely ")[2]


def test_one_count_of_the_parameters_that_fits_excuses_another():
    table = compute_only()
    short = table.drop(columns="sequence_length").assign(tokens=table["tokens"] / 4096)
    assert "of about 4.1e+03" in only(check_units(short))
    fewer = table.assign(params_no_emb=table["params"] / 4, active_params=table["params"] / 20)
    assert check_units(fewer) == ()
    assert "6 × params_no_emb" in only(check_units(fewer.assign(params_no_emb=20.0)))
    assert "6 × params " in only(check_units(fewer.assign(flops=table["flops"] / 1e6)))


@pytest.mark.parametrize(
    ("change", "ratio", "cause"),
    [
        ({"batch_size": 64 * 512}, "512", "batch_size in tokens"),
        ({"batch_size": 8}, "0.125", "one device"),
        ({"batch_size": 192}, "3", "micro-batches"),
        ({"sequence_length": 0.000512}, "1e-06", "steps or batch_size in"),
        ({"batch_size": 192, "epochs": 3}, "3", "at every epoch"),
    ],
)
def test_cause_of_wrong_tokens_is_guessed_from_their_ratio(change, ratio, cause):
    note = only(check_units(table_of(**change)))
    assert f"tokens, it is {ratio} times" in note
    assert cause in note.partition("likely ")[2]


def test_batch_in_tokens_needs_no_length():
    table = table_of(batch_size_tokens=64 * 512).drop(columns=["batch_size", "sequence_length"])
    assert check_units(table) == ()
    assert "of about 41" in only(check_units(table.assign(batch_size_tokens=800)))
    wrong = table.assign(batch_size_tokens=64)
    assert "of about 5.1e+02" in only(check_units(wrong))
    assert "batch_size_tokens in seq" in only(check_units(wrong.assign(seq_len=512)))


def test_single_rows_in_another_unit_are_found_though_the_median_agrees():
    table = table_of()
    table.loc[4:6, ["params", "tokens"]] /= 1e3
    compute, tokens = check_units(table)
    for note, ratio in ((compute, "1e+06"), (tokens, "1e+03")):
        assert "3 of 12 runs differ" in note
        assert f"(row 5: {ratio} times" in note
    table = table_of()
    table.loc[4, "flops"] *= 29
    assert check_units(table) == ()
    table.loc[4, "flops"] *= 31 / 29
    assert "1 of 12 runs" in only(check_units(table))


def test_overflow_of_an_integer_is_recognised():
    table = compute_only()
    huge = table.assign(params=table["params"] * 1e5, flops=table["flops"] * 1e5)
    exact = [6 * int(n) * int(d) for n, d in zip(huge["params"], huge["tokens"], strict=True)]
    wrapped = [(c + 2**63) % 2**64 - 2**63 for c in exact]
    rows = [i + 1 for i, c in enumerate(wrapped) if c < 0]
    assert rows
    assert check_units(huge) == ()
    notes = check_units(huge.assign(flops=wrapped))
    assert f"{len(rows)} of 12 runs (row {rows[0]})" in notes[0]
    assert "overflow" in notes[0]


def test_doubts_about_units_are_notes_on_the_runs_and_the_table_is_left_as_it_is():
    columns = {"size": ("params", "tokens")}
    good, bad = table_of(seed=0), table_of(seed=0, params=table_of()["params"] / 1e6)
    before = bad.copy(deep=True)
    assert read_runs(good, **columns).notes == ()
    runs = read_runs(bad, **columns)
    assert "in millions" in only(runs.notes)
    pd.testing.assert_frame_equal(bad, before)
    assert runs.to_frame()["params"].tolist() == before["params"].tolist()


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("chinchilla_epoch.csv", ("params", "tokens", "flops")),
        ("porian_formll.csv", ("params", "tokens", "flops")),
        ("steplaw.csv", ("tokens", "batch_size_tokens", "steps")),
    ],
)
def test_published_tables_agree_with_themselves_until_a_column_is_rescaled(name, columns):
    table = published(name)
    assert check_units(table) == ()
    for column in columns:
        for unit in (1e6, 1e9):
            assert only(check_units(table.assign(**{column: table[column] / unit})))


def test_misfitting_sweep_agrees_for_dense_models():
    """15 of its mixtures of experts state more steps than their tokens are, up to 17 times."""
    table = published("misfitting_lr_sweep_v0.csv")
    assert check_units(table[table["task"] == "dense_c4_v0"]) == ()
    assert "15 of 137 runs differ" in only(check_units(table))


def test_gadre_compute_that_overflowed_is_found():
    """The table as distributed has FLOPs that wrapped around 2^63; recomputed ones agree."""
    table = published("gadre_mlfoundations.csv")
    exact = 6.0 * table["params"].astype(float) * table["tokens"].astype(float)
    assert check_units(table.assign(flops=exact)) == ()
    if (table["flops"] < 0).any():
        assert "overflow" in check_units(table)[0]
