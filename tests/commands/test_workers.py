import json
import shutil
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.study.working import Shard

from ..study.test_kinds import CASCADE, LEVERS

STUDY = """
from extrap.records import *
STUDY = StudySpec(
    name="tiny", question="?",
    workload=Workload(name="teacher", options={"n_features": 16, "n_examples": 500}),
    sizes={"width": (2, 4, 6, 8)}, tune={"lr": TunedRange(low=2**-4, high=2, n=6)},
    recipe=Recipe(steps=40, batch_size=8, n_evals=4), targets=(Target(size={"width": 16}),),
)
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.py"
    path.write_text(STUDY)
    return str(path)


@pytest.mark.slow
def test_a_worker_trains_everything_and_a_run_only_reports(study, capsys):
    assert main(["study", "work", study, "--quiet", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "4 larger runs" in said
    sealed = next(line for line in said.splitlines() if line.startswith("sealed forecast"))
    assert [path.name for path in Path("reports").iterdir()] == ["tiny.forecast.json"]
    shutil.rmtree("reports")  # as on another machine
    assert main(["study", "run", study, "--quiet"]) == 0
    again = capsys.readouterr().out
    assert sealed in again.splitlines()  # the worker's time stands
    assert "BEFORE" not in Path("reports/tiny.html").read_text()


def test_other_kinds_of_study_files_are_refused(tmp_path, capsys):
    path = tmp_path / "levers.py"
    path.write_text(LEVERS)
    for verb in (["work", str(path), "--shard", "1/2"], ["merge", str(path), "x.db"]):
        assert main(["study", *verb]) == 2
        assert "a file with a STUDY" in capsys.readouterr().err
    path.write_text(CASCADE)
    assert main(["study", "work", str(path)]) == 2
    assert "one machine" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["4", "0/4", "5/4", "a/b", "1/2/3", "-1/4"])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="i/n"):
        Shard.parse(text)


KNOBS = """
from extrap.records import *
STUDY = StudySpec(
    name="kind", question="?", growth=6, seeds=(0, 1),
    workload=Workload(name="teacher", options={"n_features": 16, "n_examples": 500}),
    sizes={"width": (2, 4, 8)}, tune={"lr": TunedRange(low=0.125, high=0.5, n=3)},
    recipe=Recipe(steps=100, batch_size=8, n_evals=4))
KNOBS = KnobStudy(name="kind", study=STUDY, knobs=("warmup",))
"""


@pytest.mark.slow
def test_workers_train_a_study_of_knobs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("kind.py").write_text(KNOBS)
    assert main(["study", "work", "kind.py", "--quiet", "--device", "cpu"]) == 0
    assert not list(Path().glob("reports/*.html"))
    said = []
    asked = ["knobs", "kind.py", "--at", "width=64", "--quiet", "--json"]
    run, told = ["study", "run", "kind.py", "--quiet"], ["study", "status", "kind.py", "--json"]
    for words in (run, told, asked, ["report", "kind.py", "-o", "again.html"]):
        capsys.readouterr()
        before = Path(".extrap/kind.db").read_bytes()
        assert main(words) == 0
        said.append(capsys.readouterr().out)
    assert Path("reports/kind.html").is_file()
    assert Path("again.html").is_file()
    assert Path(".extrap/kind.db").read_bytes() == before
    assert json.loads(said[1])["done"]
    assert json.loads(said[2])["target"] == {"width": 64.0}
