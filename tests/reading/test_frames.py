import io
import math

import pandas as pd
import pyarrow as pa
import pytest

from extrap.reading import read_runs
from extrap.reading.tables import read_table

COLUMNS = {
    "width": [16, 32, 64, 128],
    "lr": [0.1, 0.1, 0.1, 0.1],
    "seed": [0, 1, 2, 3],
    "loss": [2.5, None, math.nan, 1.5],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
STATUSES = ["complete", "failed", "diverged", "complete"]


def statuses(source, **names):
    runs = read_runs(source, **{"size": "width", "tune": "lr", **names})
    return runs.to_frame()["status"].tolist()


@pytest.mark.parametrize("source", [pa.table(COLUMNS), ROWS], ids=["arrow", "rows"])
def test_frames_and_lists_of_dictionaries_know_what_is_missing(source):
    assert statuses(source) == STATUSES


def test_a_polars_frame_keeps_apart_what_is_missing_and_what_is_no_number():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({**COLUMNS, "name": ["a", "b", None, "d"], "raw": [b"x"] * 4})
    assert statuses(frame) == statuses(frame.lazy().collect()) == STATUSES
    runs = read_runs(frame, size="width", tune="lr")
    assert runs.source == "the polars frame"
    assert runs.to_frame()["name"].tolist()[:2] == ["a", "b"]
    with pytest.raises(TypeError, match=r"\.collect\(\)"):
        read_runs(frame.lazy(), size="width", tune="lr")
    whole = {name: [cells[0], cells[3]] for name, cells in COLUMNS.items()}
    sources = [polars.DataFrame(whole), pa.table(whole), pd.DataFrame(whole), ROWS[::3]]
    hashes = {read_runs(source, size="width", tune="lr").data_hash() for source in sources}
    assert len(hashes) == 1


def test_dictionaries_in_the_cells_of_a_csv_are_read_and_never_run():
    config = [{"width": 16, "act": None}, {"width": 32, "act": True}]
    frame = pd.DataFrame({"config": config, "summary": ['{"loss": 2.5}', '{"loss": 2.0}']})
    runs = read_runs(io.StringIO(frame.to_csv()), size="width")
    assert runs.to_frame()["loss"].tolist() == [2.5, 2.0]
    hostile = pd.DataFrame({"config": ["{'a': __import__('os').getcwd()}"], "loss": [1.0]})
    assert list(read_table(io.StringIO(hostile.to_csv(index=False)))) == ["config", "loss"]
