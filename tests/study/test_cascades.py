"""A tiny cascade study end to end: trained, resumed, reported."""

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.records import CascadeStudy, Recipe, SizedModel, TextRule, Workload
from extrap.study import dry_run, report, run
from extrap.study.cascades import CascadeKind

STUDY = CascadeStudy(
    name="tiny",
    question="Cheaper?",
    workload=Workload(
        name="bytes-mlp",
        options={"corpus_bytes": 90_000, "validation_bytes": 30_000, "n_validation": 600},
    ),
    recipe=Recipe(steps=60, batch_size=32, n_evals=1),
    smalls=(SizedModel(size={"width": 8}, lr=0.02), SizedModel(size={"width": 16}, lr=0.02)),
    large=SizedModel(size={"width": 48}, lr=0.01),
    pairs=((0, 1), (2, 3)),
    rule=TextRule(name="after two spaces a space", pattern=r"  \Z", answer=" "),
)
KIND = CascadeKind(STUDY)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder in which the study has been run once."""
    home = tmp_path_factory.mktemp("cascade")
    run(KIND, storage=str(home / "answers"), reports=home / "reports")
    return home


def test_every_small_model_is_judged_each_way(home):
    outcome = report(KIND, reports=home / "reports")
    assert {(f.small, f.outcome, f.rule) for f in outcome.result.findings} == {
        (small, *way)
        for small in ("width 8", "width 16")
        for way in (("correct", False), ("correct", True), ("loss", False))
    }
    costs = {f.small: f.cost_small for f in outcome.result.findings}
    n_params = {width: 2 * width**2 + 515 * width + 256 for width in (8, 16, 48)}
    assert costs["width 8"] == pytest.approx(n_params[8] / n_params[48], rel=1e-5)
    assert costs["width 16"] == pytest.approx(n_params[16] / n_params[48], rel=1e-5)
    ruled = outcome.result.of("correct", rule=True)[0]
    assert 0.1 < ruled.share_filtered < 0.5
    html = outcome.report_path.read_text(encoding="utf-8")
    assert "after two spaces a space" in html
    assert "tiny" in outcome.index_path.read_text(encoding="utf-8")


def test_second_start_trains_nothing_and_another_recipe_trains_anew(home):
    said: list[str] = []
    table = (home / "reports" / "tiny.curves.csv").read_text()
    folder = home / "answers"
    assert len(list(folder.glob("*.parquet"))) == 6
    run(KIND, storage=str(folder), reports=home / "again", say=said.append)
    assert said == []
    assert (home / "again" / "tiny.curves.csv").read_text() == table
    (gone, *_) = sorted(folder.glob("*.parquet"))
    gone.unlink()
    run(KIND, storage=str(folder), reports=home / "again", say=said.append)
    assert len(said) == 1
    assert said[0].startswith("width ")
    assert (home / "again" / "tiny.curves.csv").read_text() == table


def test_what_is_no_table_or_folder_is_refused(tmp_path):
    pd.DataFrame({"small": ["width 8"]}).to_csv(tmp_path / "odd.csv")
    for name, lacks in (("none.csv", r"none\.csv"), ("odd.csv", "lacks pair, outcome")):
        with pytest.raises(DataError, match=lacks):
            report(KIND, table=tmp_path / name, reports=tmp_path)
    with pytest.raises(ValueError, match="got the storage sqlite"):
        dry_run(KIND, storage="sqlite:///x.db")
