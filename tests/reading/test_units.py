from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.reading import read_runs
from extrap.reading.units import check_units

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def table_of(**columns: object) -> pd.DataFrame:
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


def published(name: str) -> pd.DataFrame:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the published runs are not here ({name} in ../shared/data)")
    return pd.read_csv(path)


def only(notes: tuple[str, ...]) -> str:
    assert len(notes) == 1, notes
    return notes[0]


def compute_only(**columns: object) -> pd.DataFrame:
    return table_of(**columns).drop(columns=["steps"])


def test_columns_that_agree_are_not_mentioned() -> None:
    assert check_units(table_of()) == ()


@pytest.mark.parametrize("lost", ["params", "tokens", "flops"])
def test_nothing_is_said_of_columns_that_are_not_there(lost: str) -> None:
    assert check_units(compute_only(flops=1.0).drop(columns=lost)) == ()
    assert check_units(compute_only(flops=1.0).assign(**{lost: 0.0})) == ()
    assert check_units(compute_only(flops=1.0).assign(**{lost: "unknown"})) == ()


@pytest.mark.parametrize("factor", [0.55, 1.8])
def test_attention_and_embeddings_may_move_compute_by_a_factor_of_two(factor: float) -> None:
    assert check_units(table_of(flops=factor * table_of()["flops"])) == ()


@pytest.mark.parametrize("column", ["params", "tokens"])
@pytest.mark.parametrize(
    ("unit", "name"),
    [(1e3, "thousands"), (1e6, "millions"), (1e9, "billions"), (1e12, "trillions")],
)
def test_counts_in_other_units_are_named(column: str, unit: float, name: str) -> None:
    table = compute_only()
    note = only(check_units(table.assign(**{column: table[column] / unit})))
    shown = f"{unit:.3g} times that (median of 12 runs), likely params or tokens in {name};"
    assert note.startswith("flops should be 6 × params × tokens, it is ")
    assert shown in note
    assert note.endswith("nothing was rescaled")


@pytest.mark.parametrize(
    ("factor", "cause"),
    [
        (1 / 6, "flops counted as params × tokens"),
        (1 / 3, "flops of the forward pass alone, 2 × params × tokens"),
        (1e-9, "flops in units of 1e9"),
        (1.3e-15, "flops in units of 1e15"),
        (1 / 8.64e19, "flops in petaflop/s-days"),
        (1e15, "params or tokens in millions and billions, one each"),
        (512, "tokens in sequences"),
        (5, "embeddings, attention or epochs that count in the one only"),
        (1 / 15, "parameters that a token does not use"),
        (1 / 70, "another unit"),
    ],
)
def test_cause_of_a_wrong_compute_is_guessed_from_its_ratio(factor: float, cause: str) -> None:
    table = compute_only()
    note = only(check_units(table.assign(flops=factor * table["flops"])))
    assert f"it is {factor:.3g} times that" in note
    assert f"likely {cause}" in note


def test_tokens_in_sequences_are_guessed_without_their_length() -> None:
    table = compute_only().drop(columns="sequence_length")
    note = only(check_units(table.assign(tokens=table["tokens"] / 4096)))
    assert "likely tokens in sequences or steps of about 4.1e+03" in note


def test_one_count_of_the_parameters_that_fits_excuses_another() -> None:
    table = compute_only()
    fewer = table.assign(params_no_emb=table["params"] / 4, active_params=table["params"] / 20)
    assert check_units(fewer) == ()
    assert "params_no_emb × tokens" in only(check_units(fewer.assign(params_no_emb=20.0)))
    assert "6 × params × tokens" in only(check_units(fewer.assign(flops=table["flops"] / 1e6)))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"batch_size": 64 * 512}, "512 times that (median of 12 runs), likely batch_size in tok"),
        ({"batch_size": 8}, "0.125 times that (median of 12 runs), likely a batch of one device"),
        ({"batch_size": 192}, "3 times that (median of 12 runs), likely steps of micro-batches"),
        ({"sequence_length": 0.000512}, "1e-06 times that (median of 12 runs), likely steps or b"),
        ({"batch_size": 192, "epochs": 3}, "likely tokens counted once, not at every epoch"),
    ],
)
def test_cause_of_wrong_tokens_is_guessed_from_their_ratio(
    change: dict[str, float], cause: str
) -> None:
    note = only(check_units(table_of(**change)))
    assert note.startswith("steps × batch_size × sequence_length should be tokens, it is ")
    assert cause in note


def test_batch_in_tokens_needs_no_length() -> None:
    table = table_of(batch_size_tokens=64 * 512).drop(columns=["batch_size", "sequence_length"])
    assert check_units(table) == ()
    for length, of in (
        (None, "a batch in sequences of about 5.1e+02"),
        (512, "batch_size_tokens in"),
    ):
        wrong = table.assign(batch_size_tokens=64)
        wrong = wrong if length is None else wrong.assign(seq_len=length)
        assert f"likely {of}" in only(check_units(wrong))


@pytest.mark.parametrize(("factor", "n_notes"), [(0.92, 0), (1.08, 0), (0.88, 1), (1.12, 1)])
def test_tokens_may_differ_by_ten_percent(factor: float, n_notes: int) -> None:
    table = table_of()
    notes = check_units(table.assign(steps=table["steps"] * factor))
    assert len(notes) == n_notes


def test_single_rows_in_another_unit_are_found_though_the_median_agrees() -> None:
    table = table_of()
    table.loc[4:6, ["params", "tokens"]] /= 1e3
    compute, tokens = check_units(table)
    assert "3 of 12 runs differ (row 5: 1e+06 times that), likely mixed units" in compute
    assert "3 of 12 runs differ (row 5: 1e+03 times that), likely mixed units" in tokens


def test_overflow_of_an_integer_is_recognised() -> None:
    table = compute_only()
    huge = table.assign(params=table["params"] * 1e5, flops=table["flops"] * 1e5)
    exact = [6 * int(n) * int(d) for n, d in zip(huge["params"], huge["tokens"], strict=True)]
    wrapped = [(c + 2**63) % 2**64 - 2**63 for c in exact]
    assert min(wrapped) < 0
    assert check_units(huge) == ()
    notes = check_units(huge.assign(flops=wrapped))
    n_negative = sum(c < 0 for c in wrapped)
    assert f"flops is negative in {n_negative} of 12 runs" in notes[0]
    assert "likely an integer overflow" in notes[0]


def test_kind_and_case_of_columns_do_not_matter() -> None:
    wrong = compute_only(flops=compute_only()["flops"] / 6)
    note = check_units(wrong)
    assert note != ()
    assert check_units(wrong.astype(str)) == note
    assert check_units(wrong.convert_dtypes(dtype_backend="pyarrow")) == note
    assert check_units(wrong.rename(columns={"flops": "FLOPs", "params": " Params"})) == note
    decimals = wrong.assign(flops=[Decimal(repr(v)) for v in wrong["flops"]])
    assert check_units(decimals) == note


def test_table_is_left_as_it_is() -> None:
    table = table_of(params=table_of()["params"] / 1e6)
    before = table.copy(deep=True)
    runs = read_runs(table, size=("params", "tokens"))
    pd.testing.assert_frame_equal(table, before)
    assert runs.to_frame()["params"].tolist() == before["params"].tolist()


def test_doubts_about_units_are_notes_on_the_runs() -> None:
    columns = {"size": ("params", "tokens")}
    good, bad = table_of(seed=0), table_of(seed=0, params=table_of()["params"] / 1e6)
    assert read_runs(good, **columns).notes == ()
    assert "params or tokens in millions" in only(read_runs(bad, **columns).notes)
    assert read_runs(bad, **columns).data_hash() != read_runs(good, **columns).data_hash()


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("chinchilla_epoch.csv", ("params", "tokens", "flops")),
        ("porian_formll.csv", ("params", "tokens", "flops")),
        ("steplaw.csv", ("tokens", "batch_size_tokens", "steps")),
    ],
)
def test_published_tables_agree_with_themselves_until_a_column_is_rescaled(
    name: str, columns: tuple[str, ...]
) -> None:
    table = published(name)
    assert check_units(table) == ()
    for column in columns:
        for unit in (1e6, 1e9):
            assert "nothing was rescaled" in only(
                check_units(table.assign(**{column: table[column] / unit}))
            )


def test_misfitting_sweep_agrees_for_dense_models() -> None:
    """15 of its mixtures of experts state more steps than their tokens are, up to 17 times."""
    table = published("misfitting_lr_sweep_v0.csv")
    assert check_units(table[table["task"] == "dense_c4_v0"]) == ()
    assert "15 of 137 runs differ" in only(check_units(table))


def test_gadre_compute_that_overflowed_is_found() -> None:
    """The table as distributed has FLOPs that wrapped around 2^63; recomputed ones agree."""
    table = published("gadre_mlfoundations.csv")
    exact = 6.0 * table["params"].astype(float) * table["tokens"].astype(float)
    assert check_units(table.assign(flops=exact)) == ()
    if (table["flops"] < 0).any():
        assert "likely an integer overflow" in check_units(table)[0]


def test_compute_of_sparse_training_is_less_on_purpose() -> None:
    frame = pd.DataFrame({"flops": [1.5e6] * 2, "n_params": [1e3] * 2, "n_tokens": [1e3] * 2})
    assert check_units(frame)
    assert check_units(frame.assign(density=0.1)) == ()
    assert check_units(frame.assign(density=1.0)) == check_units(frame)
