"""A tiny cascade study end to end: trained, resumed, reported, from Python and the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from extrap.cascade_sweeps import plan_cascade, read_cascade_table, report_cascade, run_cascade
from extrap.cli import main
from extrap.errors import DataError
from extrap.records import CascadeStudy, Recipe, SizedModel, TextRule, Workload

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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the study has been run once."""
    home = tmp_path_factory.mktemp("cascade")
    run_cascade(STUDY, storage=str(home / "answers"), reports=home / "reports")
    return home


def test_every_small_model_is_judged_each_way(home: Path) -> None:
    outcome = report_cascade(STUDY, reports=home / "reports")
    assert {(f.small, f.outcome, f.rule) for f in outcome.report.findings} == {
        (small, *way)
        for small in ("width 8", "width 16")
        for way in (("correct", False), ("correct", True), ("loss", False))
    }
    costs = {f.small: f.cost_small for f in outcome.report.findings}
    n_params = {width: 2 * width**2 + 515 * width + 256 for width in (8, 16, 48)}
    assert costs["width 8"] == pytest.approx(n_params[8] / n_params[48], rel=1e-5)
    assert costs["width 16"] == pytest.approx(n_params[16] / n_params[48], rel=1e-5)
    ruled = outcome.report.of("correct", rule=True)[0]
    assert 0.1 < ruled.share_filtered < 0.5
    html = outcome.report_path.read_text(encoding="utf-8")
    assert "after two spaces a space" in html
    assert "tiny" in outcome.index_path.read_text(encoding="utf-8")


def test_second_start_trains_nothing_and_another_recipe_trains_anew(home: Path) -> None:
    said: list[str] = []
    table = (home / "reports" / "tiny.curves.csv").read_text()
    folder = home / "answers"
    assert len(list(folder.glob("*.parquet"))) == 6
    run_cascade(STUDY, storage=str(folder), reports=home / "again", say=said.append)
    assert said == []
    assert (home / "again" / "tiny.curves.csv").read_text() == table
    (gone, *_) = sorted(folder.glob("*.parquet"))
    gone.unlink()
    run_cascade(STUDY, storage=str(folder), reports=home / "again", say=said.append)
    assert len(said) == 1
    assert re.match(r"width \d+, seed \d: [\d.]+ % correct, loss [\d.]+", said[0])
    assert (home / "again" / "tiny.curves.csv").read_text() == table


def test_plan_trains_nothing(tmp_path: Path) -> None:
    text = plan_cascade(STUDY, storage=str(tmp_path / "never"))
    assert "width 48: 2 runs of 60 steps at lr 0.01" in text
    assert "2 small models before width 48, 2 pairs of trainings each" in text
    assert not (tmp_path / "never").exists()


def test_what_is_no_table_or_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a CSV file, got .*none\.csv"):
        read_cascade_table(tmp_path / "none.csv")
    pd.DataFrame({"small": ["width 8"]}).to_csv(tmp_path / "odd.csv")
    with pytest.raises(DataError, match="lacks pair, outcome"):
        report_cascade(STUDY, table=tmp_path / "odd.csv", reports=tmp_path)
    with pytest.raises(ValueError, match="in a folder, got the storage sqlite"):
        plan_cascade(STUDY, storage="sqlite:///x.db")


TINY_FILE = """
from extrap.records import CascadeStudy, Recipe, SizedModel, Workload
CASCADE = CascadeStudy(name="few", question="What?", workload=Workload(name="digits"),
    recipe=Recipe(steps=30, batch_size=32, n_evals=1), pairs=((0, 1), (2, 3)),
    smalls=(SizedModel(size={"width": 4}, lr=0.01),),
    large=SizedModel(size={"width": 32}, lr=0.01))
"""


def test_tiny_study_runs_and_reports_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.py").write_text(TINY_FILE)
    assert main(["study", "run", "few.py", "--dry-run"]) == 0
    assert "width 32: 2 runs of 30 steps" in capsys.readouterr().out
    assert main(["study", "run", "few.py", "--quiet"]) == 0
    out = capsys.readouterr()
    assert out.out.startswith("Width 4 before width 32 costs ")
    assert out.err == ""
    assert len(list(Path(".extrap/few").glob("*.parquet"))) == 4
    assert main(["report", "few.py", "-o", "again.html"]) == 0
    assert main(["report", "few.py", "reports/few.curves.csv", "-o", "read.html"]) == 0
    pages = [Path(name).read_text() for name in ("reports/few.html", "again.html", "read.html")]
    answers = {page.partition('"extrap:answer" content="')[2].partition('"')[0] for page in pages}
    assert len(answers) == 1
    assert main(["study", "run", "few.py", "--dry-run", "--set", "recipe.steps=7"]) == 0
    assert "width 4: 2 runs of 7 steps" in capsys.readouterr().out
