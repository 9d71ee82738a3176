from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.commands.workers import stops_gracefully
from extrap.reading.optuna import study_names
from extrap.reading.storages import open_storage
from extrap.working import Shard

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
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.py"
    path.write_text(STUDY)
    return str(path)


@pytest.mark.slow
def test_a_worker_trains_everything_and_a_run_only_reports(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "work", study, "--quiet", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "4 larger runs are there" in said
    sealed = next(line for line in said.splitlines() if line.startswith("forecast sealed"))
    assert not Path("reports").exists()
    assert main(["study", "run", study, "--quiet"]) == 0
    again = capsys.readouterr().out
    assert sealed.split()[2] in again  # the worker's time stands
    assert sealed.split()[-1] in again
    assert "BEFORE" not in Path("reports/tiny.html").read_text()


@pytest.mark.slow
def test_shards_are_put_together(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    for i in (1, 2):
        assert main(["study", "work", study, "--shard", f"{i}/2", "--quiet"]) == 0
    shards = sorted(map(str, Path(".extrap").glob("*.db")))
    assert len(shards) == 2
    for words in ("72 runs copied, 0 were", "0 runs copied, 72 were"):
        assert main(["study", "merge", study, *shards]) == 0
        assert words in capsys.readouterr().out


def test_other_kinds_of_study_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "levers.py"
    path.write_text("LEVERS = 1\n")
    for verb in (["work", str(path), "--shard", "1/2"], ["merge", str(path), "x.db"]):
        assert main(["study", *verb]) == 2
        assert "takes a file with a STUDY" in capsys.readouterr().err
    path.write_text("CASCADE = 1\n")
    assert main(["study", "work", str(path)]) == 2
    assert "run extrap study run on one machine" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["4", "0/4", "5/4", "a/b", "1/2/3", "-1/4"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a shard is i/n"):
        Shard.parse(text)


def test_sigterm_is_as_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stops_gracefully():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


KIND = """
from dataclasses import replace
from extrap.records import *
ARM = StudySpec(
    name="plain", question="?",
    workload=Workload(name="teacher", options={"n_features": 16, "n_examples": 500}),
    sizes={"width": (2, 4, 8)}, tune={"lr": TunedRange(low=0.125, high=0.5, n=3)}, growth=0,
    recipe=Recipe(steps=40, batch_size=8, n_evals=4), seeds=(0, 1))
MORE = replace(ARM, name="more", recipe=Recipe(steps=20, batch_size=16, n_evals=4))
"""
KINDS = {
    "LEVERS": """
LEVERS = LeverStudy(name="kind", question="?", judge_seeds=(5, 6), levers=(Lever(name="double",
    group="g", question="?", plain=replace(ARM, sizes={"width": (4,)}),
    treated=replace(MORE, sizes={"width": (4,)})),))
""",
    "COMPARISON": """
COMPARISON = ComparisonStudy(name="kind", question="?", groups=(RecipeGroup(name="g",
    question="?", arms={"plain": ARM, "more": MORE}, target={"width": 16}, check_target=True),))
""",
    "KNOBS": """
STUDY = replace(ARM, name="kind", growth=6, recipe=Recipe(steps=100, batch_size=8, n_evals=4))
KNOBS = KnobStudy(name="kind", study=STUDY, knobs=("warmup",))
""",
    "BATCHES": """
BATCHES = BatchStudy(name="kind", question="?", tasks=(BatchTask(
    study=replace(ARM, recipe=Recipe(schedule="constant", warmup=0.0), sizes={"width": (4,)}),
    steps={4: 100, 16: 50, 64: 25}, targets=(0.95,)),))
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_workers_train_studies_of_other_kinds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kind.py"
    path.write_text(KIND + KINDS[kind])
    assert main(["study", "work", str(path), "--quiet", "--device", "cpu"]) == 0
    assert not list(Path().glob("reports/*.html"))
    before = numbers_of_trials()
    assert sum(before.values()) > 10
    assert main(["study", "run", str(path), "--quiet"]) == 0
    assert Path("reports/kind.html").is_file()
    assert numbers_of_trials() == before


def numbers_of_trials() -> dict[str, int]:
    """Study → trials, of the storage of the study named `kind`."""
    storage = open_storage("sqlite:///.extrap/kind.db")
    return {
        name: storage.get_n_trials(storage.get_study_id_from_name(name))
        for name in study_names(storage)
    }
