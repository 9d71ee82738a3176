import math

from extrap.records import Cell, Interval, RunResult


def test_side_beyond_the_largest_float_is_open():
    assert Interval.around_log(0.0, 1e6) == Interval(0.0, None)
    assert Interval.around_log(700.0, 9.5).upper is None
    assert Interval.around_log(700.0, 9.0) == (math.exp(691.0), math.exp(709.0))
    assert Interval.around_log(800.0, 1.0) == (math.exp(709.0), None)


def test_what_is_not_known_of_a_run_is_zero():
    run = RunResult(cell=Cell({"width": 8}, {"lr": 0.1}, 0), status="complete", loss=1.0)
    assert (run.n_params, run.n_params_total, run.n_tokens, run.epochs) == (0, 0, 0, 0)
    assert (run.flops, run.wall_s, run.updates) == (0, 0, 0)


def test_ends_are_inside_open_sides_hold_everything_and_text_is_never_inside():
    assert 1e300 in Interval(0.0, None)
    assert -1e300 in Interval(None, 0.0)
    closed = Interval(0.0, 1.0)
    assert [x in closed for x in (-0.1, 0, 1, 1.1)] == [False, True, True, False]
    assert "1" not in Interval(None, None)
