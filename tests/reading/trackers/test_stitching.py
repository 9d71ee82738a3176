import pytest

from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import TrackedRun


def part(*steps, value=1.0, name="a", seed=0, family="f", **more):
    return TrackedRun(
        name=name,
        settings={"lr": 0.1} | ({} if seed is None else {"seed": seed}),
        history={"loss": [(float(step), value) for step in range(*steps)]},
        family=family,
        **more,
    )


def test_a_part_that_goes_on_replaces_what_the_first_had_from_there():
    first, second = part(0, 50, 10), part(30, 80, 10, value=2.0, started=1)
    runs, notes = stitched([second, first])
    assert len(runs) == len(notes) == 1
    assert runs[0].history["loss"] == [
        *((0.0, 1.0), (10.0, 1.0), (20.0, 1.0)),
        *((step, 2.0) for step in (30.0, 40.0, 50.0, 60.0, 70.0)),
    ]
    assert "from 2 parts: a" in notes[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (part(0, 50, 10), part(0, 50, 10, started=1)),  # replicates
        (part(0, 50, 10), part(50, 90, 10, started=1, seed=1)),
        (part(0, 50, 10), part(50, 90, 10, started=1, family="g")),
        (part(0, 50, 10, family=""), part(50, 90, 10, started=1, family="")),
        (part(0, 50, 10, status="finished"), part(50, 90, 10, started=1)),
        (part(0, 50, 10), part(500, 900, 100, started=1)),  # a gap
        (part(100, 101), part(100, 101, started=1)),
        (part(0, 50, 10), part(20, 50, 10, started=1)),  # goes on nowhere
        (part(0, 50, 10), part(30, 90, 20, started=1)),  # other intervals
        (part(0, 50, 10, seed=None), part(10, 90, 10, started=1, seed=None)),
    ],
)
def test_runs_that_are_two_stay_two(first, second):
    assert stitched([first, second]) == ([first, second], [])


def test_a_part_without_a_seed_goes_on_from_near_the_end_of_the_first():
    parts = [part(0, 50, 10, seed=None), part(40, 90, 10, seed=None, started=1)]
    assert len(stitched(parts)[0]) == 1


def test_replicates_that_were_both_split_find_their_own_parts():
    parts = [
        part(0, 50, 10, name="a"),
        part(0, 50, 10, name="b", seed=1),
        part(50, 90, 10, started=1, seed=1),
        part(50, 90, 10, started=2),
    ]
    runs, notes = stitched(parts)
    assert [(run.name, run.settings["seed"]) for run in runs] == [("a", 0), ("b", 1)]
    assert [len(run.history["loss"]) for run in runs] == [9, 9]
    assert "from 4 parts: a, b" in notes[0]


def test_parts_of_one_identity_are_one_run_wherever_they_begin():
    (run,), _ = stitched([part(0, 9, identity="x"), part(90, 99, identity="x", started=1)])
    assert len(run.history["loss"]) == 18
