import math

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.sweep.verdicts import check
from extrap.fitting.seed_noise import Noise
from extrap.forecasting.documents import verdicts_document
from extrap.records import Runs
from tests.checking.byhand import LARGE, by_hand, loss_at, of_rate

KNOWN_BEST = of_rate(scatter=1e-3)


def checked(*rows, made=None):
    """Runs at width 1024, at the best rate and on the law unless a row says."""
    plain = {**LARGE, "lr": 0.0025, "loss": loss_at(1024)}
    table = pd.DataFrame([{**plain, "seed": 10 + i, **row} for i, row in enumerate(rows)])
    runs = Runs.from_frame(table, sizes=["width"], tuned=["lr"])
    return check(made or by_hand(surface=KNOWN_BEST), runs)


def groups(*rows, **more):
    return [verdict.configuration for verdict in checked(*rows, **more)]


def off(*deviations):
    return [{"loss": loss_at(1024) * math.exp(d)} for d in deviations]


def half(verdicts):
    lower, upper = verdicts[0].predicted_pi
    return math.log((upper or 1.0) / (lower or 1.0)) / 2


def test_runs_that_differ_in_their_seed_alone_are_judged_by_their_mean():
    found = checked(*off(0.005, 0.011, -0.002))
    assert [v.configuration for v in found] == [0, 0, 0]
    mean = loss_at(1024) * math.exp(0.014 / 3)
    assert [v.mean_loss for v in found] == pytest.approx([mean] * 3)
    assert [v.deviation for v in found] == pytest.approx(np.expm1([0.005, 0.011, -0.002]))
    assert len({(v.p_value, v.predicted_pi, v.on_law) for v in found}) == 1
    law_and_optimum = half(found) ** 2 < half(checked(*off(0.005))) ** 2
    assert law_and_optimum
    (told,) = verdicts_document(found, level=0.95)["configurations"]
    assert (told["n_runs"], told["seeds"], told["on_law"]) == (3, [10, 11, 12], True)
    assert told["loss"] == pytest.approx(mean)


@pytest.mark.parametrize(
    "rows",
    [
        [{}, {"lr": 0.005}],
        [{}, {"width": 512.0}],
        [{"epochs": 1.0}, {"epochs": 2.0}],
        [{"batch_size": 32}, {"batch_size": 64}],
        [{}, {"loss": None, "status": "diverged"}],
        [{"seed": "row-0"}, {"seed": "row-1"}],
    ],
)
def test_runs_that_differ_in_more_are_configurations_of_their_own(rows):
    given = [{"status": "complete", **row} for row in rows]
    assert groups(*given) == [0, 1]


def test_equal_losses_are_one_run_however_often_they_are_listed():
    once, thrice = checked(*off(0.03)), checked(*off(0.03, 0.03, 0.03))
    assert thrice[0].predicted_pi == once[0].predicted_pi
    assert thrice[0].p_value == once[0].p_value
    assert [v.configuration for v in thrice] == [0, 0, 0]
    other = checked(*off(0.03, 0.0301))
    assert half(other) < half(once)


def test_run_that_reuses_a_seed_of_the_sweep_is_expected_to_share_its_effect():
    noise = Noise(
        own_sd=0.001,
        own_dof=20,
        shared_sd=0.02,
        shared_dof=20,
        n_seeds=2,
        seed_effects={"0": 0.02, "1": -0.02},
    )
    made = by_hand(surface=None, noise=noise)
    known, new = (checked({**off(0.0)[0], "seed": seed}, made=made) for seed in (0, 9))
    lower, upper = known[0].predicted_pi
    assert math.sqrt((lower or 0) * (upper or 0)) == pytest.approx(loss_at(1024) * math.exp(0.02))
    assert half(known) < half(new)
    both = checked(*[{**row, "seed": i} for i, row in enumerate(off(0.021, -0.019))], made=made)
    lower, upper = both[0].predicted_pi
    assert math.sqrt((lower or 0) * (upper or 0)) == pytest.approx(loss_at(1024))


def test_replicate_that_disagrees_is_judged_by_itself_and_off():
    """The noise of .006 with 6 degrees of freedom: 10 % is far, 1 % is not."""
    together, apart = checked(*off(0.0, 0.01)), checked(*off(0.0, 0.1))
    assert [v.configuration for v in together] == [0, 0]
    assert [v.configuration for v in apart] == [0, 1]
    assert [v.on_law for v in apart] == [True, False]
    assert apart[1].evidence["off_replicates"] == pytest.approx(math.expm1(0.1))
    costly = [{"lr": 0.02, **row} for row in off(0.18, 0.24)]  # noise grows away from the optimum
    assert groups(*costly) == [0, 0]
    assert groups(*off(0.18, 0.24)) == [0, 1]


def test_replicates_that_agree_are_the_replicates_though_one_is_nearer_to_the_law():
    found = checked(*off(0.001, 0.1, 0.101, 0.099))
    assert [v.configuration for v in found] == [0, 1, 1, 1]
    assert [v.on_law for v in found] == [True, False, False, False]
    assert all("off_replicates" not in v.evidence for v in found)


def test_equal_losses_of_some_seeds_are_of_some_seeds():
    """Rounded to few digits they agree; only where all do, one run is listed several times."""
    found = checked(*off(0.01, 0.01, 0.01, 0.02))
    assert found[0].mean_loss == pytest.approx(loss_at(1024) * math.exp(0.0125))


def test_conditions_that_only_the_larger_runs_have_tell_configurations_apart():
    table = pd.DataFrame(
        [{**LARGE, "lr": 0.0025, "seed": i, "loss": 2.27 + i / 100} for i in (0, 1)]
    )
    table["optimizer"] = ["adam", "sgd"]
    runs = Runs.from_frame(table, sizes=["width"], tuned=["lr"], conditions=["optimizer"])
    assert [v.configuration for v in check(by_hand(surface=KNOWN_BEST), runs)] == [0, 1]


def test_a_table_says_how_many_are_off_and_how_many_would_be_by_chance():
    rows = [{**row, "lr": 0.0025 * 1.001**i} for i, row in enumerate(off(0.3, 0.0, 0.001, 0.002))]
    found = checked(*rows)
    assert (found.n_judged, found.n_off) == (4, 1)
    document = verdicts_document(found, level=0.95)
    assert document["n_configurations_off_expected"] == pytest.approx(0.2)
    assert document["joint_p"] == found.joint_p == min(v.p_adjusted or 1.0 for v in found)
    assert [v["configuration"] for v in document["verdicts"]] == [0, 1, 2, 3]
