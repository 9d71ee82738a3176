"""The exam of every kind of study, on made-up losses: it seals, resumes, counts and reports.

Which cells it asks for is in tests/contract/golden/cells-*.json.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from extrap.analyses.allocation.study import AllocationKind
from extrap.analyses.batch_size.study import BatchKind
from extrap.analyses.comparison.study import ComparisonKind
from extrap.analyses.sweep.study import ForecastKind
from extrap.errors import DataError
from extrap.study import Kind, Outcome, open_study, report, run, runs_of_table
from extrap.study.loading import kind_of
from extrap.study.status import read_status
from tests.analyses.allocation import test_study as allocations
from tests.analyses.batch_size import test_study as batches
from tests.analyses.comparison import test_study as comparisons
from tests.study import test_driver as forecasts

DOUBLING = Path(__file__).parents[2] / "examples" / "own" / "kind.py"
SMALL = replace(
    allocations.STUDY,
    study=replace(allocations.STUDY.study, seeds=(0,)),
    budgets=allocations.BUDGETS[::2],
    check_seeds=(100, 101),
)


class Case(NamedTuple):
    """A kind with its runs made up, and what its exam expects.

    Attributes:
        make: From what wraps a training function to the kind.
        follows: Whether a run follows from others.
        seals: Files that are written before such a run.
        n_runs: All of its runs.
        lacks: What a table of two columns lacks.
    """

    make: Callable[[Callable], Kind]
    follows: Callable[[dict, dict], bool]
    seals: tuple[str, ...]
    n_runs: int
    lacks: str = "lr"


CASES = {
    "forecast": Case(
        lambda watched: ForecastKind(forecasts.SPEC, watched(forecasts.toy)),
        lambda size, tuned: size["width"] == 512,
        ("toy.forecast.json",),
        72 + 6,
    ),
    "comparison": Case(
        lambda watched: ComparisonKind(
            comparisons.STUDY,
            {spec.name: watched(comparisons.toy(spec)) for spec in comparisons.STUDY.arms()},
        ),
        lambda size, tuned: size["width"] == 256,
        ("toy-recipes.comparison.json",),
        126,
        "stage, lr",
    ),
    "allocation": Case(
        lambda watched: AllocationKind(SMALL, watched(allocations.train)),
        lambda size, tuned: allocations.flops(size) > 1e11,
        ("toy.allocation.json",),
        3 * 6 * 5 + 3 * 2,
    ),
    "batches": Case(
        lambda watched: BatchKind(
            replace(batches.STUDY, tasks=(batches.TASK,)), watched(batches.curve)
        ),
        lambda size, tuned: size["width"] == 16,
        (),
        3 * 4 * 3 + 24,  # grids grow, by two rates at a time, also where the driver died between
    ),
    "own": Case(
        lambda watched: type(open_study(DOUBLING))(open_study(DOUBLING).study, watched(own)),
        lambda size, tuned: tuned["lr"] not in (0.01, 0.02, 0.04),
        ("doubling.json",),
        3 + 2,
    ),
}


def own(size, tuned, seed):
    return 1 + (tuned["lr"] - 0.005) ** 2


class Done(NamedTuple):
    """A study whose driver died at its first run that follows, and that was started again."""

    case: Case
    kind: Kind
    home: Path
    outcome: Outcome
    there: list[str]
    before: list[dict]
    calls: list

    @property
    def storage(self):
        return f"sqlite:///{self.home}/study.db"

    def sealed(self, reports=None):
        """What is written down."""
        paths = [(reports or self.home / "reports") / name for name in self.case.seals]
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="module", params=CASES)
def done(request, tmp_path_factory):
    case, home = CASES[request.param], tmp_path_factory.mktemp(request.param)
    there, calls = [], []

    def watched(function):
        @wraps(function)
        def train(size, tuned, seed):
            if case.follows(size, tuned) and not there:
                there.extend(path.name for path in (home / "reports").glob("*.json"))
                there.append("a run that follows")
                raise KeyboardInterrupt
            calls.append(seed)
            return function(size, tuned, seed)

        return train

    kind, places = case.make(watched), {"reports": home / "reports"}
    places["storage"] = f"sqlite:///{home}/study.db"
    with pytest.raises(KeyboardInterrupt):
        run(kind, **places)
    made = Done(case, kind, home, None, there, [], calls)
    return made._replace(before=made.sealed(), outcome=run(kind, **places))


def test_seals_are_durable_before_the_first_run_that_follows_and_stand(done):
    assert done.there == [*done.case.seals, "a run that follows"]
    for seal, before in zip(done.sealed(), done.before, strict=True):
        for name in ("content_hash", "created"):
            assert seal[name] == before[name]
        runs = done.outcome.tables["runs"].query("stage == 'check'")
        assert seal["created"] <= min(runs["started_at"])


def test_a_study_that_is_resumed_trains_every_run_once(done):
    assert len(done.calls) == done.case.n_runs
    status = read_status(done.storage, done.kind.name)
    assert status.done
    assert status.count("cells") == status.count("complete") == done.case.n_runs
    assert status.count("duplicates") == 0


def test_a_second_start_the_storage_and_the_table_say_the_same(done, tmp_path):
    trained = []
    found = {
        "again": run(
            done.kind, storage=done.storage, reports=tmp_path / "again", notify=trained.append
        ),
        "storage": report(done.kind, storage=done.storage, reports=tmp_path / "storage"),
    }
    if table := done.outcome.table_paths.get("runs"):  # curves are in the storage alone
        kept = tmp_path / "kept.csv"
        kept.write_bytes(table.read_bytes())
        found["table"] = report(done.kind, table=kept, reports=tmp_path / "table")
        assert "kept.csv" in found["table"].report_path.read_text(encoding="utf-8")
    assert trained == []
    for name, outcome in found.items():
        said, first = outcome.text(), done.outcome.text()
        assert (said.splitlines()[0] if name == "table" else said) in first
        assert outcome.index_path.is_file()
        if done.case is CASES["own"] and name != "again":
            continue  # it seals as it trains, and not as it reports
        for seal, first in zip(done.sealed(tmp_path / name), done.sealed(), strict=True):
            assert seal["content_hash"] == first["content_hash"]
            assert name == "table" or seal["created"] == first["created"]


def test_what_is_no_table_of_its_runs_is_refused(done, tmp_path):
    with pytest.raises(DataError, match=r"none\.csv"):
        runs_of_table(done.kind, tmp_path / "none.csv")
    columns = {"arm": ["a"], "width": [1], "loss": [1.0]}
    pd.DataFrame(columns).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(DataError, match=f"lacks .*{done.case.lacks}"):
        runs_of_table(done.kind, tmp_path / "odd.csv")
    if done.case.seals and done.case is not CASES["own"]:
        runs = pd.read_csv(done.outcome.table_paths["runs"])
        runs[runs["arm"] != runs["arm"].iloc[-1]].to_csv(tmp_path / "short.csv", index=False)
        with pytest.raises(DataError, match="of stage 'tune'"):
            report(done.kind, table=tmp_path / "short.csv", reports=tmp_path)


def test_a_kind_may_not_take_a_built_in_name_nor_change_one_by_inheritance():
    kind = kind_of("STUDY")
    type("Mine", (kind,), {})
    assert kind_of("STUDY") is kind
    with pytest.raises(ValueError, match="BATCHES is a kind"):
        type("Mine", (kind,), {"symbol": "BATCHES"})
