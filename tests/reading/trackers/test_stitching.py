from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import TrackedRun


def part(*steps, value=1.0, name="a", identity="x", **more):
    history = {"loss": [(float(step), value) for step in range(*steps)]}
    return TrackedRun(name=name, settings={}, history=history, identity=identity, **more)


def test_a_part_that_goes_on_replaces_what_the_first_had_from_there():
    first, second = part(0, 50, 10), part(30, 80, 10, value=2.0, name="b", started=1)
    (run,), (note,) = stitched([second, first])
    assert run.history["loss"] == [
        *((0.0, 1.0), (10.0, 1.0), (20.0, 1.0)),
        *((step, 2.0) for step in (30.0, 40.0, 50.0, 60.0, 70.0)),
    ]
    assert "from 2 parts: a" in note


def test_runs_of_other_identities_or_of_none_stay_apart():
    runs = [part(0, 50, 10), part(50, 90, 10, identity="y")]
    runs += [part(0, 9, identity=""), part(0, 9, identity="")]
    found, notes = stitched(runs)
    assert len(found) == len(runs)
    assert all(one is other for one, other in zip(found, runs, strict=True))
    assert notes == []


def test_parts_that_logged_other_metrics_are_joined_without_a_note():
    other = TrackedRun(name="a", settings={}, history={"acc": [(0.0, 0.5)]}, identity="x")
    (run,), notes = stitched([part(0, 9), other])
    assert (sorted(run.history), notes) == (["acc", "loss"], [])
