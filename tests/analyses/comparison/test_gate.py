"""The verdict on a gain, what would decide it, and how much sooner a loss is reached."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.analyses.comparison.command import gate_code
from extrap.analyses.comparison.effective_speed import effective_speed, speed_law
from extrap.analyses.comparison.gate import Gate
from extrap.analyses.comparison.next_runs import Question, cheapest_decision
from extrap.analyses.comparison.treatments import Treatment
from extrap.cli import main
from extrap.errors import DataError
from extrap.fitting.distributions import NormalMixture
from extrap.fitting.gain import Pairs, fit_gain
from extrap.fitting.posterior import fit_posterior
from extrap.records import Interval

FLOPS = np.array([1e17, 1e18, 1e19, 1e20])
EXAMPLES = Path(__file__).parents[3] / "examples"


def ladder(gain=0.0, flops=FLOPS, **more):
    """One run at each compute; the loss is lower by a share."""
    loss = (1.6 + 2.4 * (flops / 1e17) ** -0.15) * (1 - gain)
    return pd.DataFrame({"flops": flops, "loss": loss, **more})


def compared(variant, base=None, **options):
    base = ladder() if base is None else base
    return extrap.compare({"base": base, "variant": variant}, size="flops", tune=(), **options)


@pytest.mark.parametrize(
    ("ends", "before", "asked", "expected"),
    [
        ((0.001, 0.004), [], False, "survives"),
        ((0.001, 0.004), [], True, "undecided"),
        ((0.003, 0.004), [], True, "survives"),
        ((-0.02, -0.001), [(0.01, 0.02)], False, "hurts"),
        ((-0.001, 0.0015), [(0.003, 0.02)], False, "fades"),
        ((-0.03, 0.0015), [(0.003, 0.02)], False, "fades"),
        ((-0.001, 0.0015), [(0.001, 0.02)], False, "no difference"),
        ((-0.03, 0.0015), [(0.001, 0.02)], False, "undecided"),
        ((-0.001, 0.003), [(0.003, 0.02)], False, "undecided"),
        ((None, 0.003), [], False, "undecided"),
        ((0.001, None), [], False, "survives"),
    ],
)
def test_a_verdict_is_where_the_interval_lies(ends, before, asked, expected):
    gate = Gate(min_gain=0.002, survives_above=0.002 * asked)
    assert gate.judge(Interval(*ends), [Interval(*each) for each in before]) == expected


def test_exit_codes_are_of_the_best_verdict():
    arms = {
        "base": ladder(),
        "worse": ladder(-0.02),
        "open": ladder(0.0005),
        "better": ladder(0.02),
    }

    def code(*names):
        chosen = {name: arms[name] for name in ("base", *names)}
        return gate_code(extrap.compare(chosen, size="flops", tune=(), at=1e21), is_named=True)

    assert code("worse", "open", "better") == 0
    assert code("worse", "open") == 4
    assert code("worse") == 1


def law_of(*gains, smallest=1.0):
    sizes = [[smallest * 2.0 ** (3.3 * i)] for i in range(len(gains))]
    return fit_gain(
        Pairs(columns=["flops"], sizes=sizes, gains=list(gains), n_pairs=[1] * len(sizes))
    )


def asked(law, doublings, *, powers=(1.0,)):
    """What becomes of a gain so many doublings beyond the largest size."""
    return Question(
        recipes=("base", "variant"),
        columns=law.pairs.columns,
        sizes=sorted(set(map(tuple, law.pairs.sizes))),
        target={"flops": law.pairs.sizes[-1][0] * 2.0**doublings},
        gate=Gate(),
        powers=powers,
    )


def test_the_cheapest_runs_that_decide_are_proposed():
    law = law_of(0.004, 0.005, 0.0045, smallest=2.0)
    question = asked(law, 6.6)
    assert question.gate.judge_law(law, question.target) == "undecided"
    found = cheapest_decision(law, question)
    assert found.chance >= 0.5
    flops, target = found.size["flops"], question.target["flops"]
    assert found.cost == pytest.approx(2 * found.n_seeds * flops / target)
    assert question.sizes[-1][0] * (1 - 1e-9) <= flops <= target * (1 + 1e-9)
    assert cheapest_decision(law, asked(law, 6.6, powers=None)).cost is None


def test_bought_runs_decide_gains_that_last():
    rng, decided = np.random.default_rng(5), []
    for _ in range(40):
        law = law_of(*(0.006 + 0.002 * rng.normal(size=3)))
        question = asked(law, 5.0)
        for _ in range(3):
            if question.gate.judge_law(law, question.target) != "undecided":
                break
            found = cheapest_decision(law, question)
            seen = 0.006 + 0.0014 * rng.normal(size=found.n_seeds)
            n, mean, scatter = found.n_seeds, float(seen.mean()), float(seen.std())
            law = fit_gain(law.pairs.with_one(found.size, mean, scatter, n))
        decided.append(question.gate.judge_law(law, question.target) != "undecided")
    assert np.mean(decided) >= 0.7


def certain(value):
    return NormalMixture(weights=np.ones(1), means=np.array([value]), sds=np.array([1e-9]))


def test_effective_speed_is_compute_for_one_loss_times_the_ratio_of_speeds():
    """A power law without a floor, L = C^−0.1: a gain g is worth e^(10 g) of compute."""
    law = fit_posterior("flops", FLOPS, FLOPS**-0.1, loss_se=None, fix={"E": 0.0})
    found = effective_speed(
        law, 1e21, gain=certain(0.01), speed=certain(math.log(1.5)), power=1.0, level=0.9
    )
    assert found.value == pytest.approx(1.5 * math.exp(0.1), rel=0.01)
    assert found.value in found.ci
    squared = effective_speed(
        law, 1e21, gain=certain(0.01), speed=certain(0.0), power=2.0, level=0.9
    )
    assert squared.value == pytest.approx(math.exp(0.2), rel=0.01)


def test_a_sure_gain_is_sooner_however_far():
    """Laws that are linear in log size would fall below 0 there."""
    law = fit_posterior("flops", FLOPS, ladder()["loss"], loss_se=None)
    far = effective_speed(
        law, 1e28, gain=certain(0.01), speed=certain(0.01), power=1.0, level=0.95
    )
    assert far.ci.lower > 1


def test_a_loss_that_the_law_never_reaches_leaves_the_side_open():
    law = fit_posterior("flops", FLOPS, ladder()["loss"], loss_se=None)
    worse = effective_speed(
        law, 1e23, gain=certain(-0.2), speed=certain(0.0), power=1.0, level=0.9
    )
    assert worse.ci.lower is None


def test_speeds_and_costs_turn_the_same_way():
    fast = ladder(0.01, tokens_per_s=[110.0, 100, 90, 80])
    base = ladder(tokens_per_s=[100.0, 90, 80, 70])
    (by_name,) = compared(fast, base).contrasts
    assert [each.is_forecast for each in by_name.speeds] == [False] * 4 + [True]
    assert by_name.speeds[0].speed.value == pytest.approx(1.11, abs=0.02)
    assert by_name.speeds[-1].factor.value > by_name.speeds[-1].speed.value
    base, fast = (f.assign(dollars=1 / f["tokens_per_s"]) for f in (base, fast))
    (by_cost,) = compared(fast, base, cost="dollars").contrasts
    assert by_cost.speeds[0].factor.value == pytest.approx(by_name.speeds[0].factor.value)
    assert compared(ladder(0.01)).contrasts[0].speeds == ()
    assert speed_law({1.0: 0.3, 8.0: 0.3}).predict({"size": 64.0}).mean == pytest.approx(
        0.3, abs=0.01
    )


def test_no_common_size_has_a_wider_answer():
    between = FLOPS[:-1] * 10**0.5
    common = compared(ladder(0.01), at=1e22).contrasts[0].at_target.difference.ci
    found = compared(ladder(0.01, between), at=1e22)
    apart = found.contrasts[0].at_target.difference.ci
    assert -0.01 in apart
    assert apart.upper - apart.lower > common.upper - common.lower
    assert any("no size is common" in note for note in found.notes)


def test_two_common_sizes_of_four_leave_the_others_to_the_law_of_the_base():
    found = compared(ladder(0.01, FLOPS * 100), at=1e24)
    (each,) = found.contrasts
    assert [place.size["flops"] for place in each.by_size] == [1e19, 1e20]
    assert -0.01 in each.at_target.difference.ci


def test_sizes_on_two_lines_have_no_common_law():
    """Half the tokens for each parameter: the parameters alone do not say the loss."""

    def arm(ratio, scale):
        n = scale * np.array([1e7, 4e7, 1.6e8, 6.4e8])
        loss = 1.7 + 400 / n**0.34 + 400 / (ratio * n) ** 0.28
        return pd.DataFrame({"n_params": n, "n_tokens": ratio * n, "loss": loss})

    arms = {"base": arm(20, 1.0), "variant": arm(10, 1.5)}
    with pytest.raises(DataError, match="run both at the same sizes"):
        extrap.compare(arms, size=("n_params", "n_tokens"), tune=())


def test_a_least_gain_that_was_asked_for_holds_after_a_check():
    """Six pairs at the target: a gain of .9 % (.46 to 1.34 %)."""
    gains = np.array([0.004, 0.0135, 0.012, 0.005, 0.0125, 0.007])
    base = pd.DataFrame({"flops": 1e20, "seed": range(6), "loss": 3.0 + 0.01 * np.arange(6)})
    there = [base.assign(loss=base["loss"] * (1 - gains)), base]
    free, asked = (compared(*there, min_gain=least) for least in (None, 0.01))
    assert (free.verdict, asked.verdict) == ("better here", "undecided")
    treatment = Treatment(contrast=asked.contrasts[0], comparison=asked, check=asked.contrasts[0])
    assert treatment.verdict == "undecided"


def test_runs_that_share_no_seed_are_measured_at_the_target():
    rng = np.random.default_rng(1)
    base, variant = (
        pd.DataFrame({"flops": 1e20, "loss": level * np.exp(0.001 * rng.normal(size=6))})
        for level in (3.0, 2.94)
    )
    found = compared(variant, base)
    assert (found.verdict, found.contrasts[0].by_size[0].n_pairs) == ("better here", 0)


def test_a_large_gain_that_stays_is_forecast_to_stay():
    (found,) = compared(ladder(0.5), at=1e22).contrasts
    assert found.at_target.difference.value == pytest.approx(-0.5, abs=0.01)


def test_several_variants_hold_together_and_name_their_speed():
    arms = {
        "base": ladder(tokens_per_s=1.0, step_time=2.0),
        "a": ladder(0.01, step_time=1.0),
        "b": ladder(0.02),
    }
    found = extrap.compare(arms, size="flops", tune=())
    alone = compared(arms["a"], arms["base"])
    widths = [
        each.contrasts[0].at_target.difference.ci.upper
        - each.contrasts[0].at_target.difference.ci.lower
        for each in (found, alone)
    ]
    assert widths[0] > widths[1]
    assert found.speed_column == "step_time"
    assert found.contrasts[0].speeds[0].speed.value == pytest.approx(2.0, rel=0.02)
    assert any("speed-missing" in flag for flag in found.contrasts[1].flags)


def test_a_largest_size_without_a_loss_leaves_it_undecided():
    lost = ladder(0.01)
    lost.loc[3, "loss"] = math.nan
    (found,) = compared(lost, at=1e22).contrasts
    assert (found.verdict, found.next_runs) == ("undecided", None)
    assert found.flags[-1] == "no-loss: variant at flops 1e+20"


def test_sizes_of_many_digits_are_not_taken_for_lost_ones():
    third = FLOPS / 3  # more digits than a size keeps
    found = compared(ladder(0.01, third), ladder(flops=third))
    assert (found.verdict, found.contrasts[0].flags) == ("survives", ())


def test_the_page_does_not_overwrite_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, gain in (("base", 0.0), ("variant", 0.01)):
        ladder(gain).to_csv(f"{name}.csv", index=False)
    before = Path("base.csv").read_bytes()
    words = ["compare", "base.csv", "variant.csv", "-o"]
    assert main([*words, "base.csv"]) == 2
    assert Path("base.csv").read_bytes() == before
    assert main([*words, "page.html"]) == 0
    assert "survives" in Path("page.html").read_text(encoding="utf-8")


def test_a_run_far_off_leaves_the_effective_speed_open():
    far = ladder(0.01, tokens_per_s=1.0)
    far.loc[3, "loss"] = 11.0
    (found,) = compared(far, ladder(tokens_per_s=1.0), at=1e21).contrasts
    assert found.speeds[-1].factor.ci.lower is None


def test_one_rate_at_the_largest_size_of_the_base_is_flagged():
    rows = [(x, lr) for x in FLOPS for lr in (1e-3, 2e-3, 4e-3)]
    base = pd.DataFrame(rows, columns=["flops", "lr"])
    base["loss"] = (
        1.6 + 2.4 * (base["flops"] / 1e17) ** -0.15 + 0.01 * np.log2(base["lr"] / 2e-3) ** 2
    )
    variant = base[base["flops"] < 1e20]
    base = base[(base["flops"] < 1e20) | (base["lr"] == 2e-3)]
    found = extrap.compare({"base": base, "variant": variant}, size="flops", tune="lr")
    (flag,) = [each for each in found.contrasts[0].flags if each.startswith("untuned")]
    assert "base has one learning rate at flops 1e+20" in flag


def test_a_pinned_floor_narrows_the_effective_speed():
    options = {"at": 1e23, "speed": "tokens_per_s"}
    arms = [ladder(gain, tokens_per_s=100.0) for gain in (0.01, 0.0)]
    free, fixed = (
        compared(*arms, **options, **more).contrasts[0].speeds[-1].factor
        for more in ({}, {"fix": {"E": 1.6}})
    )
    assert fixed.ci.upper < free.ci.upper
    assert fixed.ci.lower > (free.ci.lower or 0.0)


@pytest.mark.parametrize(
    ("variant", "options", "words"),
    [
        (ladder(1 - 1 / math.log(2)), {}, "bits and nats"),
        (ladder(flops=FLOPS[:2] * 3), {}, "no common size|have none, nor 3 sizes"),
        (ladder(tokens_per_s=1.0), {"speed": "tokens_per_s"}, "one of the two has none"),
        (ladder(), {"speed": "nowhere"}, "one of the two has none"),
        (ladder(), {"fix": {"E": 2.9}}, "below every loss"),
    ],
)
def test_what_cannot_be_compared_is_one_line(variant, options, words):
    with pytest.raises(DataError, match=words) as caught:
        compared(variant, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_gain": 0.2}, "0.002"),
        ({"min_gain": -1.0}, "min_gain"),
        ({"fix": {"c": 1.0}}, "floor alone"),
        ({"fix": {"E": math.nan}}, "floor E is finite"),
        ({"fix": {"E": -1.0}}, "floor E is finite"),
        ({"at": 1e16}, "not extrapolated below"),
    ],
)
def test_arguments_out_of_range_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        compared(ladder(0.01), **options)


def test_a_public_pair_on_four_sizes_is_undecided_at_a_large_one():
    """marin-community/marin, issue 5596: the gain shrinks; at 1e23 its sign is open."""
    arms = {name: EXAMPLES / f"gate_{name}.csv" for name in ("base", "variant")}
    near, far = (extrap.compare(arms, at=at) for at in (1e20, 1e23))
    assert (near.verdict, far.verdict) == ("survives", "undecided")
    interval = far.contrasts[0].at_target.difference.ci
    assert -0.0035 in interval  # what its authors read off it
    assert interval.upper - interval.lower < 0.04
    assert far.contrasts[0].speeds[0].factor.value == pytest.approx(1.33, abs=0.05)


CELLS = [(n, d) for n in (1e7, 4e7, 1.6e8) for d in (1e9, 4e9)]


def grid(gain=lambda n, d: 0.0):
    rows = [(n, d, 1.7 + 400 / n**0.34 + 400 / d**0.28) for n, d in CELLS]
    frame = pd.DataFrame(rows, columns=["n_params", "n_tokens", "loss"])
    frame["loss"] *= [1 - gain(n, d) for n, d in CELLS]
    return frame


def test_two_size_columns_have_one_gain_and_runs_along_both():
    """A gain that shrinks with the parameters alone is kept where only the tokens grow."""

    def shrinking(n, d):
        return 0.012 * (n / 1e7) ** -0.35

    arms = {"base": grid(), "variant": grid(shrinking)}
    more, larger = (
        extrap.compare(arms, at={"n_params": n, "n_tokens": d})
        for n, d in ((1.6e8, 6.4e10), (2.56e9, 4e9))
    )
    for found, n in ((more, 1.6e8), (larger, 2.56e9)):
        assert -shrinking(n, 0) in found.contrasts[0].at_target.difference.ci
    assert more.gain > larger.gain
    asked_ahead = extrap.compare(arms, at={"n_params": 2.56e9, "n_tokens": 6.4e10})
    (proposed,) = asked_ahead.next_runs
    steps = [proposed.size[c] / max(grid()[c]) for c in ("n_params", "n_tokens")]
    assert steps[0] == pytest.approx(steps[1])  # both columns have the same ratio of 4
    assert steps[0] >= 1
    # the cost of a run is 6 N D
    cells = proposed.size["n_params"] * proposed.size["n_tokens"]
    assert proposed.cost == pytest.approx(2 * proposed.n_seeds * cells / (2.56e9 * 6.4e10))
    assert more.contrasts[0].speeds == ()


def test_tokens_that_follow_the_parameters_count_once():
    arms = {"base": ladder(), "variant": ladder(0.01)}
    twice = {name: frame.assign(n_tokens=frame["flops"] ** 0.5) for name, frame in arms.items()}
    alone = extrap.compare(arms, size="flops", tune=(), at=1e22)
    both = extrap.compare(
        twice, size=("flops", "n_tokens"), tune=(), at={"flops": 1e22, "n_tokens": 1e11}
    )
    assert tuple(both.interval) == pytest.approx(tuple(alone.interval))
    off = extrap.compare(
        twice, size=("flops", "n_tokens"), tune=(), at={"flops": 1e22, "n_tokens": 1e13}
    )
    assert off.interval.upper - off.interval.lower > both.interval.upper - both.interval.lower


def test_two_sizes_of_one_seed_have_an_answer():
    found = compared(ladder(0.03, FLOPS[:2]), ladder(flops=FLOPS[:2]), at=1e19)
    assert found.verdict == "survives"
    assert found.contrasts[0].by_size[0].is_by_law
