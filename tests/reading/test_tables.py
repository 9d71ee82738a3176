from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading.tables import read_table

CSV = "width,lr,seed,loss\n16,0.1,0,2.5\n32,0.1,0,2.25\n"


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        CSV,
        "\ufeff" + CSV,
        CSV.replace("\n", "\r\n"),
        CSV.replace("width", " width ").replace(",", ", "),
        CSV.replace("16", '"16"').replace("2.5", '"2.5"'),
    ],
    ids=["plain", "byte-order-mark", "windows", "spaces", "quotes"],
)
def test_dialects_of_csv_read_alike(tmp_path: Path, content: str) -> None:
    table = read_table(written(tmp_path, "a.csv", content))
    assert list(table) == ["width", "lr", "seed", "loss"]
    assert table["width"].tolist() == ["16", "32"]
    assert table["loss"].astype(float).tolist() == [2.5, 2.25]


def test_parquet_jsonl_tsv_and_open_text_hold_the_same_numbers(tmp_path: Path) -> None:
    frame = pd.read_csv(io.StringIO(CSV))
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    sources = [tmp_path / "a.parquet", tmp_path / "a.jsonl", tmp_path / "a.tsv", io.StringIO(CSV)]
    for source in sources:
        table = read_table(source)
        assert table["loss"].astype(float).tolist() == [2.5, 2.25], source
        assert list(table) == list(frame)


def test_missing_cells_at_the_end_of_a_row_are_empty(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a.csv", "width,loss\n16\n32,2\n"))
    assert table["loss"].tolist() == ["", "2"]


@pytest.mark.parametrize("row", ["16,0.1,0,2.5,\n", "1,16,0.1,0,2.5\n"])
def test_longer_row_is_refused_and_never_shifts_the_columns(tmp_path: Path, row: str) -> None:
    with pytest.raises(DataError, match="Expected 4 fields in line 2, saw 5"):
        read_table(written(tmp_path, "a.csv", "width,lr,seed,loss\n" + row))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty; a table needs a header"),
        ("a.csv", "\n\n", "not a readable table"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\xff\xfe", "not a readable table"),
        ("a.csv", "<!DOCTYPE html>\n<p>404, not found</p>\n", "not a readable table"),
        ("a.parquet", b"PAR0", "not a readable table"),
        ("a.jsonl", "{\n", "line 1 is not JSON"),
        ("a.jsonl", "[1]\n", "line 1 must be a JSON object, got list"),
        ("a.xlsx", "x", "a table ends in .*, got a.xlsx"),
        (
            "a.csv",
            "width,width\n1,2\n",
            "column names must differ, 'width' appears twice; rename one",
        ),
    ],
)
def test_what_is_no_table_is_one_line(
    tmp_path: Path, name: str, content: bytes | str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_table(written(tmp_path, name, content))
    assert "\n" not in str(caught.value)


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a.csv", ",width,loss,,\n0,16,3,,\n1,32,2,,\n"))
    assert table.to_dict("list") == {"width": ["16", "32"], "loss": ["3", "2"]}


def test_folder_and_absent_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder; name the table inside it"):
        read_table(tmp_path)
    with pytest.raises(DataError, match=r"there is no file .*absent\.csv; check the path"):
        read_table(tmp_path / "absent.csv")


def test_dataframe_is_copied() -> None:
    frame = pd.DataFrame({"width": [1.0]})
    table = read_table(frame)
    table.loc[0, "width"] = 2.0
    assert frame.loc[0, "width"] == 1.0
    with pytest.raises(DataError, match="got dict; convert it to a pandas DataFrame"):
        read_table({"width": [1.0]})  # type: ignore[arg-type]
