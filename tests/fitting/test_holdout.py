from __future__ import annotations

import numpy as np
import pytest

from extrap.fitting.holdout import (
    DISCREPANCY,
    LADDER_DOF,
    LADDER_SHARE,
    Doubling,
    anchored,
    hold_out_last_doublings,
    learned_share,
    local_share,
    worst_share,
)

X = 2.0 ** np.arange(10)


def cut(family: list[float], local: list[float], **options: list[float]) -> Doubling:
    """A cut whose forecasters predict a change of a tenth."""
    n = len(family)
    return Doubling(
        family_error=np.array(family),
        local_error=np.array(local),
        family_change=np.array(options.get("change", [-0.1] * n)),
        local_change=np.array(options.get("change", [-0.1] * n)),
        noise=np.array(options.get("noise", [0.0] * n)),
        family_variance=np.array(options.get("variance", [0.0] * n)),
    )


def test_cuts_hold_out_what_lies_above_a_half_and_a_quarter() -> None:
    cuts = hold_out_last_doublings({"x": X}, 1.5 + X**-0.5, loss_se=None)
    assert [len(c.family_error) for c in cuts] == [1, 2]


def test_true_law_predicts_the_held_out_sizes() -> None:
    cuts = hold_out_last_doublings({"x": X}, 1.5 + X**-0.5, loss_se=None)
    for c in cuts:
        assert c.family_error == pytest.approx(0, abs=1e-6)
        expected = np.log(
            (1.5 + X[-len(c.family_error) :] ** -0.5) / (1.5 + X[-len(c.family_error) - 1] ** -0.5)
        )
        assert c.family_change == pytest.approx(expected, abs=1e-6)


def test_cut_that_leaves_too_few_sizes_is_left_out() -> None:
    assert len(hold_out_last_doublings({"x": X[:5]}, 1.5 + X[:5] ** -0.5, loss_se=None)) == 1
    assert hold_out_last_doublings({"x": X[:4]}, 1.5 + X[:4] ** -0.5, loss_se=None) == ()


def test_two_columns_need_four_values_each_below_a_cut() -> None:
    n, d = (a.ravel() for a in np.meshgrid(2.0 ** np.arange(3), 2.0 ** np.arange(8)))
    loss = 1.5 + n**-0.3 + d**-0.3
    assert hold_out_last_doublings({"n": n, "d": d}, loss, loss_se=None) == ()
    n, d = (a.ravel() for a in np.meshgrid(2.0 ** np.arange(7), 2.0 ** np.arange(7)))
    loss = 1.5 + n**-0.3 + d**-0.3
    cuts = hold_out_last_doublings({"n": n, "d": d}, loss, loss_se=None)
    assert len(cuts) == 2
    assert all(np.all(c.local_error == c.family_error) for c in cuts)


def test_better_forecaster_of_the_last_doublings_gets_the_weight() -> None:
    assert local_share([cut([0.04], [0.01])]) == pytest.approx(16**2 / (16**2 + 1))
    assert local_share([cut([0.01], [0.04])]) == pytest.approx(1 / (16**2 + 1))
    assert local_share([]) == 0


def test_error_that_noise_explains_is_no_evidence_against_the_laws() -> None:
    assert local_share([cut([0.013], [0.001], noise=[1e-4])]) == 0
    assert local_share([cut([0.013], [0.001], noise=[1e-6])]) > 0.9
    # where the noise is not known it cannot be told from misfit
    assert local_share([cut([0.013], [0.001], variance=[1e-4])]) > 0.9


def test_discrepancy_is_the_worst_share_of_the_predicted_change() -> None:
    assert worst_share([cut([0.02], [0.0])], local_weight=0.0) == pytest.approx(0.2)
    assert worst_share([cut([0.02], [0.0])], local_weight=0.5) == DISCREPANCY
    assert worst_share([cut([0.02], [0.04])], local_weight=0.5) == pytest.approx(0.3)
    assert worst_share([], local_weight=0.0) == DISCREPANCY


def test_change_too_small_to_tell_does_not_count() -> None:
    found = worst_share([cut([0.02, 0.02], [0, 0], change=[-0.001, -0.1])], local_weight=0.0)
    assert found == pytest.approx(0.2)
    assert worst_share([cut([0.02], [0], change=[0.0])], local_weight=0.0) == DISCREPANCY


def test_known_noise_is_taken_off_the_discrepancy() -> None:
    error = [np.sqrt(0.02**2 + 2 * 1e-4)]
    assert worst_share([cut(error, [0], noise=[1e-4])], local_weight=0.0) == pytest.approx(0.2)


def test_learned_discrepancy_weighs_cuts_against_published_ladders() -> None:
    assert learned_share([]) == (LADDER_SHARE, LADDER_DOF)
    cuts = [cut([0.02], [0.0]), cut([0.0], [0.0])]  # off by a fifth of the change, and exact
    share, dof = learned_share(cuts)
    assert dof == LADDER_DOF + 2
    assert share**2 == pytest.approx((LADDER_DOF * LADDER_SHARE**2 + 0.2**2) / dof)
    nearly = learned_share([cut([0.02 + 1e-9], [0.0]), cuts[1]])
    assert nearly[0] == pytest.approx(share)


def test_changes_are_counted_from_within_the_sweep() -> None:
    """The corner of the largest parameters and tokens is itself far beyond the runs."""
    largest, reach = np.array([8.0, 8.0]), 4.0
    found = anchored(np.array([[8.0, 8.0], [2.0, 8.0], [16.0, 1.0]]), largest=largest, reach=reach)
    assert found == pytest.approx(np.array([[4.0, 4.0], [2.0, 8.0], [8.0, 1.0]]))
    (one,) = anchored(np.array([[32.0]]), largest=np.array([8.0]), reach=8.0)
    assert one == pytest.approx([8.0])
