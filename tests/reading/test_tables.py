import io
import re

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading.tables import read_table

CSV = "width,lr,seed,loss\n16,0.1,0,2.5\n32,0.1,0,2.25\n"


def written(folder, name, content):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


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
def test_dialects_of_csv_read_alike(tmp_path, content):
    table = read_table(written(tmp_path, "a.csv", content))
    assert list(table) == ["width", "lr", "seed", "loss"]
    assert table["width"].tolist() == ["16", "32"]
    assert table["loss"].astype(float).tolist() == [2.5, 2.25]


def test_parquet_jsonl_tsv_and_open_text_hold_the_same_numbers(tmp_path):
    frame = pd.read_csv(io.StringIO(CSV))
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    sources = [tmp_path / "a.parquet", tmp_path / "a.jsonl", tmp_path / "a.tsv", io.StringIO(CSV)]
    for source in (*sources, frame):
        table = read_table(source)
        assert table.astype(float).to_dict("list") == frame.astype(float).to_dict("list")
    table.loc[0, "width"] = 2
    assert frame.loc[0, "width"] == 16  # what is handed in is copied


def test_missing_cells_at_the_end_of_a_row_and_columns_without_a_name(tmp_path):
    table = read_table(written(tmp_path, "a.csv", "width,loss\n16\n32,2\n"))
    assert table["loss"].tolist() == ["", "2"]
    table = read_table(written(tmp_path, "a.csv", ",width,loss,,\n0,16,3,,\n1,32,2,,\n"))
    assert table.to_dict("list") == {"width": ["16", "32"], "loss": ["3", "2"]}


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.csv", "width,lr,seed,loss\n16,0.1,0,2.5,\n", "4 .* line 2 has 5"),
        ("a.csv", "width,lr,seed,loss\n1,16,0.1,0,2.5\n", "4 .* line 2 has 5"),
        ("a.csv", 'width,loss\n16,"2.5\n', "opened and never closed"),
        ("a.csv", "width,loss\n16,2.5\n".encode("utf-16"), "not text in UTF-8"),
        ("a.csv", "", "is empty"),
        ("a.csv", "\n\n", "not a readable table"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\xff\xfe", "not a readable table"),
        ("a.csv", "<!DOCTYPE html>\n<p>404, not found</p>\n", "not a readable table"),
        ("a.parquet", b"PAR0", "not a readable table"),
        ("a.jsonl", "{\n", "line 1 is not JSON"),
        ("a.jsonl", "{}\n[1]\n", "line 2 .* got list"),
        ("a.xlsx", "x", r"got a\.xlsx"),
        ("a.csv", "width,width\n1,2\n", "'width' appears twice"),
    ],
)
def test_what_is_no_table_is_one_line(tmp_path, name, content, part):
    with pytest.raises(DataError, match=part) as caught:
        read_table(written(tmp_path, name, content))
    said = str(caught.value)
    assert "\n" not in said
    assert not re.search("codec|C error|parse from", said)


GERMAN = "width;lr;name;loss\n16;0,001;a,b;2,5\n32;1E-02;c;2\n64;,1;d;1,25\n"


@pytest.mark.parametrize("sign", [";", "\t"])
def test_other_separators_and_decimal_commas_are_read(tmp_path, sign):
    content = GERMAN.replace(";", sign)
    for name in ("a.csv", "a.tsv", "a.txt"):
        table = read_table(written(tmp_path, name, content))
        assert table["lr"].astype(float).tolist() == [0.001, 0.01, 0.1]
        assert table["loss"].astype(float).tolist() == [2.5, 2, 1.25]
        assert table["name"].tolist() == ["a,b", "c", "d"]
    assert read_table(io.StringIO(content)).equals(table)


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ("a;b\n1,024;2\n2,048;3\n", ["1,024", "2,048"]),  # perhaps thousands
        ("a;b\n0,5;0.5\n1;2\n", ["0,5", "1"]),  # both signs: nobody knows
        ("a,b\n'=1,2\n'x,3\n", ["=1", "'x"]),
        ('a,b\n"x;y",1\n"z;u;v",2\n', ["x;y", "z;u;v"]),
    ],
)
def test_cells_that_could_mean_something_else_are_left_alone(tmp_path, content, cells):
    assert read_table(written(tmp_path, "a.csv", content))["a"].tolist() == cells
