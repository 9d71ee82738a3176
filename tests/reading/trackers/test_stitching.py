from __future__ import annotations

import pytest

from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import LazyHistory, Points, TrackedRun, table_of


def part(
    steps: range,
    *,
    value: float = 1.0,
    name: str = "a",
    status: str = "",
    identity: str = "",
    family: str = "f",
    started: float = 0.0,
    seed: int | None = 0,
) -> TrackedRun:
    return TrackedRun(
        name=name,
        settings={"lr": 0.1} | ({} if seed is None else {"seed": seed}),
        history={"loss": [(float(step), value) for step in steps]},
        status=status,
        identity=identity,
        family=family,
        started=started,
    )


def test_a_part_that_goes_on_replaces_what_the_first_had_from_there() -> None:
    first, second = part(range(0, 50, 10)), part(range(30, 80, 10), value=2.0, started=1)
    runs, notes = stitched([second, first])
    assert len(runs) == 1
    assert runs[0].history["loss"] == [
        *((0.0, 1.0), (10.0, 1.0), (20.0, 1.0)),
        *((step, 2.0) for step in (30.0, 40.0, 50.0, 60.0, 70.0)),
    ]
    assert notes == ["1 run(s) were stitched from 2 parts: a"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (part(range(0, 50, 10)), part(range(0, 50, 10), started=1)),  # replicates
        (part(range(0, 50, 10)), part(range(50, 90, 10), started=1, seed=1)),
        (part(range(0, 50, 10)), part(range(50, 90, 10), started=1, family="g")),
        (part(range(0, 50, 10), family=""), part(range(50, 90, 10), started=1, family="")),
        (part(range(0, 50, 10), status="finished"), part(range(50, 90, 10), started=1)),
        (part(range(0, 50, 10)), part(range(500, 900, 100), started=1)),  # a gap
        (part(range(100, 101)), part(range(100, 101), started=1)),
        (part(range(0, 50, 10)), part(range(20, 50, 10), started=1)),  # goes on nowhere
        (part(range(0, 50, 10)), part(range(30, 90, 20), started=1)),  # other intervals
        (part(range(0, 50, 10), seed=None), part(range(10, 90, 10), started=1, seed=None)),
    ],
)
def test_runs_that_are_two_stay_two(first: TrackedRun, second: TrackedRun) -> None:
    runs, notes = stitched([first, second])
    assert runs == [first, second]
    assert notes == []


def test_a_part_without_a_seed_goes_on_from_near_the_end_of_the_first() -> None:
    parts = [part(range(0, 50, 10), seed=None), part(range(40, 90, 10), seed=None, started=1)]
    assert len(stitched(parts)[0]) == 1


def test_replicates_that_were_both_split_find_their_own_parts() -> None:
    parts = [
        part(range(0, 50, 10), name="a", seed=0),
        part(range(0, 50, 10), name="b", seed=1),
        part(range(50, 90, 10), started=1, seed=1),
        part(range(50, 90, 10), started=2, seed=0),
    ]
    runs, notes = stitched(parts)
    assert [run.name for run in runs] == ["a", "b"]
    assert [run.settings["seed"] for run in runs] == [0, 1]
    assert notes == ["2 run(s) were stitched from 4 parts: a, b"]


def test_parts_of_one_identity_are_one_run_wherever_they_begin() -> None:
    parts = [part(range(0, 9), identity="x"), part(range(90, 99), identity="x", started=1)]
    runs, _ = stitched(parts)
    assert len(runs) == 1
    assert len(runs[0].history["loss"]) == 18


def test_a_server_is_asked_for_the_history_of_possible_parts_alone() -> None:
    asked: list[str] = []

    def lazy(name: str, steps: range, **more: str) -> TrackedRun:
        def fetch(metric: str) -> Points:
            asked.append(name)
            return [(float(step), 1.0) for step in steps]

        history = LazyHistory(["loss"], fetch)
        settings = {"lr": more.get("lr", "1")}
        return TrackedRun(
            name=name,
            settings=settings,
            history=history,
            summary={"loss": 1.0},
            status=more.get("status", "crashed"),
            family=more.get("family", "f"),
        )

    runs, _ = stitched([lazy("a", range(5)), lazy("b", range(5, 9)), lazy("c", range(9), lr="2")])
    assert set(asked) == {"a", "b"}
    found = table_of(runs, where="here")
    assert found.table["run"].tolist() == ["a", "c"]
    curves = found.curves("loss")
    assert curves is not None
    assert curves["run"].tolist() == [0] * 9 + [1] * 9
