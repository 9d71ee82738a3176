"""Two studies side by side: what they share, what differs, and what cannot be compared."""

import pytest

from extrap.checking import check
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.reporting.beside import beside_page, common_targets
from extrap.reporting.embedded import read_report
from extrap.reporting.forecast_page import report_document

from .conftest import as_runs, sweep_frame
from .hostile import EVIL, inspected
from .test_forecast_page import grid_frame


@pytest.fixture(scope="module")
def first(made, judge):
    return report_document(made, judge(), title="First")


@pytest.fixture(scope="module")
def second():
    frame = sweep_frame(widths=(16, 32, 64, 128))
    return report_document(
        forecast(as_runs(frame.assign(loss=1.3 * frame["loss"]))), title="Second"
    )


def test_common_sizes_are_those_either_forecast_and_both_tell(first, second, made):
    found = common_targets(first["numbers"], second["numbers"])
    sizes = [size["width"] for size, _ in found]
    assert sizes == [256, 512, 1024]
    _, (a, b) = found[1]
    assert a["loss"] == made.at(width=512).loss
    assert (a["is_read_off"], b["is_read_off"]) == (False, False)
    _, (a, b) = found[0]
    assert a["is_read_off"]
    assert a["loss"] == pytest.approx(made.at(width=256).loss, rel=2e-4)
    assert a["loss_pi"] == pytest.approx(list(made.at(width=256).loss_pi), rel=2e-3)
    assert a["tuned"]["lr"]["value"] == pytest.approx(
        made.at(width=256).tuned["lr"].value, rel=1e-3
    )


def test_page_marks_intervals_that_do_not_meet(tmp_path, first, second):
    path = beside_page(first, second, path=tmp_path / "b.html")
    html = path.read_text(encoding="utf-8")
    page = inspected(html)
    words = " ".join(page.words)
    assert "do not overlap" in words
    assert "≠" in words
    largest = [
        v for v in first["numbers"]["verdicts"]["verdicts"] if v["run"]["size"]["width"] == 1024
    ]
    n_on_law = sum(v["on_law"] for v in largest)
    assert 0 < n_on_law < len(largest)
    assert f"{n_on_law} of {len(largest)} on law" in words
    found = read_report(path)
    assert (found["kind"], found["status"]) == ("beside", "differ")
    assert [t["size"]["width"] for t in found["numbers"]["targets"]] == [256, 512, 1024]


def test_two_size_columns_meet_each_other_and_never_one(tmp_path, first):
    columns = ("n_params", "n_tokens")
    frame = grid_frame(n_params=(1e6, 2e6, 4e6), n_tokens=(1e8, 4e8, 16e8))
    found, both = forecast(as_runs(frame, columns, ())), []
    for params in ((8e6, 16e6), (16e6, 32e6)):
        larger = frame.iloc[-2:].assign(n_params=params, n_tokens=32e8)
        both.append(report_document(found, check(found, as_runs(larger, columns, ()))))
    (target,) = read_report(beside_page(*both, path=tmp_path / "a"))["numbers"]["targets"]
    assert target["size"] == {"n_params": 16e6, "n_tokens": 32e8}
    assert [p["loss"] for p in target["points"]] == [found.at(**target["size"]).loss] * 2
    path = beside_page(first, both[0], path=tmp_path / "b.html")
    assert read_report(path)["numbers"]["targets"] == []
    assert "<svg" not in path.read_text(encoding="utf-8")


def test_names_are_shown_as_they_are(tmp_path, first, second):
    evil = {**first, "title": EVIL, "question": EVIL, "answer": EVIL, "status": EVIL}
    inspected(beside_page(evil, second, path=tmp_path / "b.html").read_text(encoding="utf-8"))


def test_only_forecasts_stand_side_by_side(tmp_path, first):
    with pytest.raises(DataError, match="two reports on forecasts"):
        beside_page(first, {**first, "kind": "knobs"}, path=tmp_path / "b.html")
